"""The workload ``gnmt``: data-parallel training of LSTM translation models."""

from fredfw_workload_gnmt.workload import Gnmt

__all__ = ["Gnmt"]

fredfw_contract = 2
