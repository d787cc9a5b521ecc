"""The transport ``nccl``: NCCL's algorithms and protocols, by published constants and by a fit to measurements."""

from fredfw_transport_nccl.transport import Nccl

__all__ = ["Nccl"]

fredfw_contract = 2
