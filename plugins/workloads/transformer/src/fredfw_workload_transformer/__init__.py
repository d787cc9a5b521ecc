"""The workloads ``transformer``, 3D-parallel training, and ``inference``, prefill and decode."""

from fredfw_workload_transformer.inference import Inference, Latencies, latencies
from fredfw_workload_transformer.workload import Transformer

__all__ = ["Inference", "Latencies", "Transformer", "latencies"]

fredfw_contract = 2
