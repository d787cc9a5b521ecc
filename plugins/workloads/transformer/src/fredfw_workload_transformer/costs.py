"""What a pass over a block costs a rank, in whole or in the parts that overlap with communication."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from fredfw import Gemm, Kernels
from fredfw_workload_transformer.model import FP16, OPERATIONS, Block, Core

_LAUNCHES = 2
"""Of a weight gradient: its product, and the addition to the sum of the microbatches before."""

_NONE = Kernels()


class Way(Enum):
    """What is computed of a block."""

    FORWARD = "forward"
    RECOMPUTE = "recompute"
    BACKWARD = "backward"
    INPUTS = "input gradients"
    WEIGHTS = "weight gradients"

    @property
    def backward(self) -> bool:
        """Whether gradients of inputs are computed."""
        return self in (Way.BACKWARD, Way.INPUTS)


@frozen
class Cost:
    """FLOPs, bytes of local memory and kernels of a computation on one rank."""

    flops: float = 0.0
    moved: float = 0.0
    kernels: Kernels = _NONE

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both."""
        return Cost(self.flops + other.flops, self.moved + other.moved, self.kernels + other.kernels)

    def without(self, part: Cost) -> Cost:
        """Return what is left beside ``part``."""
        gemms = list(self.kernels.gemms)
        for gemm in part.kernels.gemms:
            gemms.remove(gemm)
        # Rounded, a difference may be a little below 0.
        moved = max(self.kernels.moved - part.kernels.moved, 0.0)
        attentions = [one for one in self.kernels.attentions if one not in part.kernels.attentions]
        kernels = Kernels(tuple(gemms), moved, self.kernels.launches - part.kernels.launches, tuple(attentions))
        return Cost(self.flops - part.flops, self.moved - part.moved, kernels)


def cost(block: Block, way: Way, *, recompute: str, communications: int) -> Cost:
    """Return the cost of a pass over ``block``.

    Args:
        block: What is computed.
        way: Which pass.
        recompute: What a backward pass computes again beside a whole forward pass: ``selective``, ``OPERATIONS``.
        communications: Collectives beside it, which the host launches, too.
    """
    if way is Way.WEIGHTS:
        return _weight_gradients(block)
    passes, kernels = (2, block.kernels.backward) if way.backward else (1, block.kernels.forward)
    # Weights are read (or their gradients written) once a pass, activations written and read.
    moved = passes * (block.read * FP16 + 2 * block.activations)
    whole = Cost(passes * block.flops, moved, kernels + Kernels(launches=communications))
    if not way.backward:
        return whole
    if block.core is not None:
        whole += Cost(block.core.again)
        if recompute == "selective":
            whole += core_cost(block.core, Way.FORWARD, selective=True)
    if recompute == OPERATIONS and block.name != "head":
        whole += Cost(block.again.flops, block.again.moved, block.again)
    return whole if way is Way.BACKWARD else whole.without(_weight_gradients(block))


def core_cost(core: Core, way: Way, *, selective: bool) -> Cost:
    """Return the part of ``cost`` that is between the linear layers of attention."""
    forward = Cost(core.flops, 2 * core.activations, core.kernels.forward)
    if not way.backward:
        return forward
    once = Cost(2 * core.flops + core.again, 4 * core.activations, core.kernels.backward)
    return once + forward if selective else once


def _weight_gradients(block: Block) -> Cost:
    """Return the part of a backward pass that the stage before does not wait for."""
    flops, activations, gemms = block.flops, block.activations, block.kernels.forward.gemms
    if block.core is not None:  # it has no weights
        flops, activations = flops - block.core.flops, activations - block.core.activations
        whole = Cost(flops, activations, block.kernels.forward)
        gemms = whole.without(Cost(kernels=block.core.kernels.forward)).kernels.gemms
    products = tuple(Gemm(one.k, one.n, one.m, one.batch, one.width) for one in gemms)
    kernels = Kernels(products, launches=_LAUNCHES * len(products))
    return Cost(flops, block.read * FP16 + 2 * activations, kernels)
