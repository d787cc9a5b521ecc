"""The workload ``cnn``: data-parallel training of convolutional networks."""

from fredfw_workload_cnn.workload import Cnn

__all__ = ["Cnn"]

fredfw_contract = 2
