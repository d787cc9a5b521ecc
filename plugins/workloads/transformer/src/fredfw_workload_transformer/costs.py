"""What a pass over a block costs a rank, in whole or in the parts that overlap with communication."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from fredfw import Gemm, Kernels
from fredfw_workload_transformer.model import FP16, OPERATIONS, Block, Core

_LAUNCHES = 2
"""Of a weight gradient: its product, and the addition to the sum of the microbatches before."""


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


class Cost(NamedTuple):
    """FLOPs, bytes of local memory and kernels of a computation on one rank."""

    flops: float
    moved: float
    kernels: Kernels

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
    passes = 2 if way.backward else 1
    # Weights are read (or their gradients written) once a pass, activations written and read.
    flops, moved = passes * block.flops, passes * (block.read * FP16 + 2 * block.activations)
    launches = Kernels(launches=communications)
    if not way.backward:
        return Cost(flops, moved, block.kernels.forward + launches)
    kernels = block.kernels.backward + launches
    if block.core is not None:
        flops += block.core.again
        if recompute == "selective":
            flops, moved = flops + block.core.flops, moved + 2 * block.core.activations
            kernels += block.core.kernels.forward
    if recompute == OPERATIONS and block.name != "head":
        again = block.again
        flops, moved, kernels = flops + again.flops, moved + again.moved, kernels + again
    whole = Cost(flops, moved, kernels)
    return whole if way is Way.BACKWARD else whole.without(_weight_gradients(block))


def core_cost(core: Core, way: Way, *, selective: bool) -> Cost:
    """Return the part of ``cost`` that is between the linear layers of attention."""
    if not way.backward:
        return Cost(core.flops, 2 * core.activations, core.kernels.forward)
    once = Cost(2 * core.flops + core.again, 4 * core.activations, core.kernels.backward)
    if not selective:
        return once
    kernels = once.kernels + core.kernels.forward
    return Cost(once.flops + core.flops, once.moved + 2 * core.activations, kernels)


def _weight_gradients(block: Block) -> Cost:
    """Return the part of a backward pass that the stage before does not wait for."""
    flops, activations, gemms = block.flops, block.activations, block.kernels.forward.gemms
    if block.core is not None:  # it has no weights
        flops, activations = flops - block.core.flops, activations - block.core.activations
        whole = Cost(flops, activations, block.kernels.forward)
        gemms = whole.without(Cost(0.0, 0.0, block.core.kernels.forward)).kernels.gemms
    products = tuple(Gemm(one.k, one.n, one.m, one.batch, one.width) for one in gemms)
    kernels = Kernels(products, launches=_LAUNCHES * len(products))
    return Cost(flops, block.read * FP16 + 2 * activations, kernels)
