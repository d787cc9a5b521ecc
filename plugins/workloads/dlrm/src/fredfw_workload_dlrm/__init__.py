"""The workload ``dlrm``: training of deep learning recommendation models."""

from fredfw_workload_dlrm.workload import Dlrm

__all__ = ["Dlrm"]

fredfw_contract = 2
