"""Which ways of being parallel go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fredfw.errors import InputError
from fredfw_workload_transformer.context import CONTIGUOUS, ZIGZAG
from fredfw_workload_transformer.sharding import check_shard
from fredfw_workload_transformer.stationary import ZERO_BUBBLE

if TYPE_CHECKING:
    from fredfw_workload_transformer.workload import Transformer

STATIONARY = "stationary"


def check_parallelism(workload: Transformer) -> None:
    """Make sure that the axes and the sharding of ``workload`` fit each other, as far as that does not need a system.

    Raises:
        InputError: They do not.
    """
    if workload.causal and not workload.fused:
        raise InputError("kernels that are not fused compute all scores", key="causal", accepted="attention = fused")
    if workload.cp > 1:
        _check_context(workload)
    elif workload.cp_layout != ZIGZAG:
        raise InputError(f"{workload.cp_layout!r} tokens of one worker are all", key="cp_layout", accepted="cp above 1")
    if workload.pipeline == ZERO_BUBBLE and workload.execution != STATIONARY:
        raise InputError("only stages that keep their weights form a pipeline", key="pipeline", accepted="1f1b, gpipe")
    shard = workload.dp_shard
    if shard is not None and (workload.zero_stage == 0 or workload.execution != STATIONARY):
        raise InputError(
            f"{shard} replicas have nothing to share", key="dp_shard", accepted="a stationary zero_stage of 1 to 3"
        )
    if shard is not None and workload.dp is not None:
        check_shard(shard, workload.dp, workload.ep)


def _check_context(workload: Transformer) -> None:
    cp, sequence = workload.cp, workload.shape.sequence
    if workload.execution != STATIONARY:
        raise InputError(
            f"{workload.execution} execution does not split the {sequence} tokens of a sample",
            key="cp",
            accepted="1, or execution = stationary",
        )
    if sequence % cp:
        raise InputError(
            f"{cp} workers cannot split the {sequence} tokens of a sample evenly",
            key="cp",
            accepted=f"a divisor of {sequence}",
        )
    if workload.cp_layout != ZIGZAG and not workload.skips:
        raise InputError("without a mask all members compute the same", key="cp_layout", accepted="causal = true")
    if workload.skips and workload.cp_layout == ZIGZAG and sequence % (2 * cp):
        raise InputError(
            f"zigzag cannot cut the {sequence} tokens of a sample into 2 x {cp} parts",
            key="cp",
            accepted=f"half of a divisor of {sequence}, or cp_layout = {CONTIGUOUS}",
        )
    if workload.tasks != "blocks":
        raise InputError(
            f"tasks = {workload.tasks} has no place for keys and values between computations",
            key="cp",
            accepted="1, or tasks = blocks",
        )
