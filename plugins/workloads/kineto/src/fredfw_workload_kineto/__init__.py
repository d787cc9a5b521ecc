"""The workload ``kineto``: traces of the PyTorch profiler."""

from fredfw_workload_kineto.workload import Kineto, uncovered

__all__ = ["Kineto", "uncovered"]

fredfw_contract = 2
