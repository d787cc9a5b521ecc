"""Which options need others to have an effect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from fredfw.errors import InputError
from fredfw_workload_transformer.context import RING
from fredfw_workload_transformer.gradients import ALL_REDUCE
from fredfw_workload_transformer.model import OPERATIONS

if TYPE_CHECKING:
    from fredfw_workload_transformer.workload import Transformer


def check_needs(workload: Transformer) -> None:
    """Make sure that each option of ``workload`` that is not at its default can have an effect.

    Raises:
        InputError: One has none.
    """
    stationary = workload.execution == "stationary"
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
