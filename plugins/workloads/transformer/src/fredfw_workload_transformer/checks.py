"""Which options of training go together, and which need others to have an effect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from fredfw.errors import InputError
from fredfw_workload_transformer.model import OPERATIONS
from fredfw_workload_transformer.passes import CONTIGUOUS, RING, ZIGZAG
from fredfw_workload_transformer.sharding import ALL_REDUCE, check_shard
from fredfw_workload_transformer.stationary import ZERO_BUBBLE

if TYPE_CHECKING:
    from fredfw_workload_transformer.workload import Transformer

STATIONARY = "stationary"


def check_options(workload: Transformer) -> None:
    """Make sure that options fit each other and can have an effect, as far as that does not need a system."""
    stationary = workload.execution == STATIONARY
    tier = workload.memory_tier
    if tier is not None and stationary:
        message = f"{tier!r} is not used, as weights stay on the NPUs"
        raise InputError(message, key="memory_tier", accepted='execution = "streaming"')
    if workload.streams == "sharded" and tier is None:
        raise InputError("I/O controllers stream whole shards", key="streams", accepted="all, needed, or memory_tier")
    if workload.zero_stage > 3:
        raise InputError(f"{workload.zero_stage} is not a ZeRO stage", key="zero_stage", accepted="0, 1, 2 or 3")
    if workload.sequence_parallel and workload.pp_transfer != "point-to-point":
        message = f"{workload.pp_transfer} hands over what every MP member has"
        raise InputError(message, key="pp_transfer", accepted="point-to-point")
    if workload.causal and not workload.fused:
        raise InputError("kernels that are not fused compute all scores", key="causal", accepted="attention = fused")
    if workload.cp > 1:
        _check_context(workload)
    elif workload.cp_layout != ZIGZAG:
        raise InputError(f"{workload.cp_layout!r} tokens of one worker are all", key="cp_layout", accepted="cp above 1")
    if workload.pipeline == ZERO_BUBBLE and not stationary:
        raise InputError("only stages that keep their weights form a pipeline", key="pipeline", accepted="1f1b, gpipe")
    shard = workload.dp_shard
    if shard is not None and (workload.zero_stage == 0 or not stationary):
        message = f"{shard} replicas have nothing to share"
        raise InputError(message, key="dp_shard", accepted="a stationary zero_stage of 1 to 3")
    if shard is not None and workload.dp is not None:
        check_shard(shard, workload.dp, workload.ep)
    _check_needs(workload)
    if workload.interleave > 1 and not (stationary and workload.pipeline == "1f1b"):
        raise InputError("chunks are interleaved", key="interleave", accepted="1, or stationary 1f1b")
    if workload.interleave > 1 and workload.pp == 1:
        raise InputError("one stage has nothing to interleave", key="interleave", accepted="1, or pp above 1")


def _check_context(workload: Transformer) -> None:
    cp, sequence = workload.cp, workload.shape.sequence
    if workload.execution != STATIONARY:
        message = f"{workload.execution} execution does not split the {sequence} tokens of a sample"
        raise InputError(message, key="cp", accepted="1, or execution = stationary")
    if sequence % cp:
        message = f"{cp} workers cannot split the {sequence} tokens of a sample evenly"
        raise InputError(message, key="cp", accepted=f"a divisor of {sequence}")
    if workload.cp_layout != ZIGZAG and not workload.skips:
        raise InputError("without a mask all members compute the same", key="cp_layout", accepted="causal = true")
    if workload.skips and workload.cp_layout == ZIGZAG and sequence % (2 * cp):
        message = f"zigzag cannot cut the {sequence} tokens of a sample into 2 x {cp} parts"
        accepted = f"half of a divisor of {sequence}, or cp_layout = {CONTIGUOUS}"
        raise InputError(message, key="cp", accepted=accepted)
    if workload.tasks != "blocks":
        message = f"tasks = {workload.tasks} has no place for keys and values between computations"
        raise InputError(message, key="cp", accepted="1, or tasks = blocks")


def _check_needs(workload: Transformer) -> None:
    """Make sure that each option that is not at its default can have an effect."""
    stationary = workload.execution == STATIONARY
    gathers = stationary and workload.zero_stage == 3
    split = workload.cp > 1
    for key, used, need in (
        ("zero_stage", stationary, "execution = stationary"),
        ("overlap_dp", stationary, "execution = stationary"),
        ("dp_communication", stationary, "execution = stationary"),
        ("streams", not stationary, "execution = streaming"),
        ("reshard_after_forward", gathers, "a stationary zero_stage of 3"),
        ("reshard_after_recompute", gathers, "a stationary zero_stage of 3"),
        ("reshard_after_recompute", workload.recompute == "full", "recompute = full"),
        ("recompute", workload.recompute != OPERATIONS or workload.fused, "attention = fused"),
        ("prefetch", gathers or not stationary, "execution = streaming, or a zero_stage of 3"),
        ("cp_communication", split, "cp above 1"),
        ("overlap_cp", split, "cp above 1"),
        ("overlap_cp", workload.cp_communication == RING, f"cp_communication = {RING}"),
    ):
        value, default = getattr(workload, key), getattr(attrs.fields(type(workload)), key).default
        if value != default and not used:
            usual = "" if default is None else f"{json.dumps(default)}, or "
            raise InputError(f"{json.dumps(value)} has no effect here", key=key, accepted=usual + need)
    if gathers and workload.dp_communication == ALL_REDUCE:
        message = f"{ALL_REDUCE} leaves no shares, which ZeRO 3 holds"
        raise InputError(message, key="dp_communication", accepted="no value, or a zero_stage of 0 to 2")
