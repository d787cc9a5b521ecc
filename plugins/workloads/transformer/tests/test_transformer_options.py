"""What is refused at once, with the key and what is accepted."""

import json
import re
from typing import Any

import pytest

from fredfw.errors import InputError
from fredfw_workload_transformer import Transformer

SHAPE: dict[str, Any] = {"layers": 4, "hidden": 8, "sequence": 8, "heads": 2, "vocabulary": 10}
MOE: dict[str, Any] = {"layers": 2, "architecture": "llama", "experts": 8, "top_k": 2, "minibatch": 1}
STREAMING = {"execution": "streaming"}
WRONG: dict[str, Any] = {"model": "gpt-4", "architecture": "bert", "attention": "flash", "dp_communication": "gossip"}
WRONG |= {"recompute": "some", "pp": 5, "microbatches": 3, "zero_stage": 4, "hidden": None}
WRONG |= {"key_value_heads": 3, "interleave": 2}
ZIPF = {"routing": "zipf"}


def refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=rf"^(?=.* \(accepted: ){re.escape(message)}"):
        Transformer(**(SHAPE | fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        *(({key: value}, f"{key}: ") for key, value in WRONG.items()),
        ({"recompute": 1}, "recompute: "),
        ({"sequence_parallel": True, "pp_transfer": "multicast"}, "pp_transfer: "),
        ({"interleave": 2, "pp": 2, "pipeline": "gpipe"}, "interleave: "),
        ({"interleave": 2, "pp": 2, **STREAMING}, "interleave: "),
        ({"interleave": 3, "pp": 2}, "interleave: "),
        ({"streams": "sharded", **STREAMING}, "streams: "),
        ({"memory_tier": "pool"}, "memory_tier: "),
        ({"cp": 3}, "cp: 3 workers cannot split the 8 tokens of a sample evenly (accepted: a divisor of 8)"),
        (
            {"cp": 2, **STREAMING},
            "cp: streaming execution does not split the 8 tokens of a sample (accepted: 1, or execution = stationary)",
        ),
        (
            {"cp": 2, "tasks": "passes"},
            "cp: tasks = passes has no place for keys and values between computations (accepted: 1, or tasks = blocks)",
        ),
        (
            {"cp": 8, "causal": True, "attention": "fused"},
            "cp: zigzag cannot cut the 8 tokens of a sample into 2 x 8 parts (accepted: half of a divisor of 8, or "
            "cp_layout = contiguous)",
        ),
        ({"cp_communication": "gossip"}, "cp_communication: 'gossip' is not known (accepted: ring, all-gather)"),
        (
            {"cp": 2, "cp_layout": "contiguous"},
            "cp_layout: without a mask all members compute the same (accepted: causal = true)",
        ),
        ({"cp_layout": "contiguous"}, "cp_layout: 'contiguous' tokens of one worker are all (accepted: cp above 1)"),
        ({"causal": True}, "causal: kernels that are not fused compute all scores (accepted: attention = fused)"),
        ({"dp_shard": 2}, "dp_shard: 2 replicas have nothing to share (accepted: a stationary zero_stage of 1 to 3)"),
        (
            {"dp": 6, "zero_stage": 3, "dp_shard": 4},
            "dp_shard: 4 does not divide the 6 replicas (accepted: 1, 2, 3, 6)",
        ),
        (
            {**MOE, "dp": 8, "ep": 4, "zero_stage": 3, "dp_shard": 2},
            "dp_shard: 2 replicas do not have all experts of 4 EP ranks (accepted: 4, 8)",
        ),
        (
            {"pipeline": "zb-h1", **STREAMING},
            "pipeline: only stages that keep their weights form a pipeline (accepted: 1f1b, gpipe)",
        ),
        (
            {"pipeline": "zb-h1", "interleave": 2, "pp": 2},
            "interleave: chunks are interleaved (accepted: 1, or stationary 1f1b)",
        ),
        (
            {"zero_stage": 3, "dp_communication": "all-reduce"},
            "dp_communication: all-reduce leaves no shares, which ZeRO 3 holds (accepted: no value, or a zero_stage of",
        ),
        # Batches.
        (
            {"global_batch": 64, "minibatch": 16},
            "minibatch: 16 is given, and global_batch = 64 too (accepted: one of the two keys)",
        ),
        (
            {"dp": 3, "global_batch": 64},
            "global_batch: 64 samples cannot be divided evenly among 3 replicas (accepted: a multiple of 3)",
        ),
        (
            {"dp": 4, "global_batch": 64, "micro_batch": 3},
            "micro_batch: 3 does not divide the 16 samples of a replica (accepted: a divisor of 16)",
        ),
        (
            {"microbatches": 5},
            "microbatches: 5 does not divide the 16 samples of a replica (accepted: a divisor of 16)",
        ),
        (
            {"microbatches": 2, "micro_batch": 4},
            "micro_batch: 2 microbatches of 4 samples are not the 16 samples of a replica "
            "(accepted: one of the two keys, or numbers whose product is 16)",
        ),
        ({"global_batch": 0}, "global_batch: 0 is not a valid number (accepted: a whole number of at least 1)"),
        # Experts.
        (MOE | {"ep": 3, "dp": 6}, "ep: 3 ranks cannot share 8 experts evenly (accepted: 1, 2, 4, 8)"),
        (MOE | {"ep": 4, "dp": 6}, "ep: 4 does not divide the 6 replicas"),
        (MOE | {"experts": 10**9, **ZIPF}, "experts: 1000000000 flows are too many"),
        (MOE | {"top_k": 9}, "top_k: 9 of 8 experts cannot be chosen"),
        (MOE | {"dense_layers": 2}, "dense_layers: 2 of 2 layers leave none to experts"),
        (MOE | {"routing_exponent": 1.0}, "routing_exponent: 1.0 is given, but routing is 'uniform'"),
        (MOE | {"routing_seed": 1}, "routing_seed: 1 is given, but routing is 'uniform'"),
        (MOE | {"routing": "file"}, "routing_file: is missing"),
        (MOE | {"routing": "file", "routing_file": "nowhere.txt"}, "routing_file: 'nowhere.txt'"),
        (MOE | {"capacity_factor": 0}, "capacity_factor: 0 takes no token (accepted: a number above 0)"),
        (MOE | {"capacity_factor": -1.5}, "capacity_factor: -1.5 is too small"),
        (MOE | {"dispatch_node": 2}, "dispatch_node: nodes of 2 do not divide 1"),
        (MOE | {"dispatch": "inside-first", "ep": 4, "dp": 4}, "dispatch_node: is missing (accepted: a divisor of 4)"),
        (
            MOE | {"dispatch": "across-first", "ep": 4, "dp": 4, "dispatch_node": 3},
            "dispatch_node: nodes of 3 do not divide 4",
        ),
        (MOE | {"tasks": "passes"}, "tasks: experts communicate within a layer"),
        (MOE | {**STREAMING, "ep": 2, "dp": 2}, "execution: each EP rank has experts of its own"),
    ],
)
def test_what_cannot_be_or_does_not_go_together_is_refused(fields: dict[str, Any], message: str) -> None:
    refused(fields, message)


ZERO_3 = "true, or a stationary zero_stage of 3)"


@pytest.mark.parametrize(
    ("fields", "key", "value", "accepted"),
    [
        (STREAMING, "zero_stage", 3, "0, or execution = stationary)"),
        (STREAMING, "overlap_dp", True, ""),
        (STREAMING, "dp_communication", "all-reduce", "execution = stationary)"),
        ({}, "streams", "needed", '"all", or execution = streaming)'),
        ({"zero_stage": 2}, "reshard_after_forward", False, ZERO_3),
        ({"recompute": True}, "reshard_after_recompute", False, ZERO_3),
        ({"zero_stage": 3}, "reshard_after_recompute", False, "true, or recompute = full)"),
        ({}, "prefetch", 3, "1, or execution = streaming, or a zero_stage of"),
        ({"zero_stage": 2}, "prefetch", 0, ""),
        ({}, "cp_communication", "all-gather", '"ring", or cp above 1)'),
        ({}, "overlap_cp", False, "true, or cp above 1)"),
        ({"cp": 2, "cp_communication": "all-gather"}, "overlap_cp", False, "true, or cp_communication = ring)"),
        ({}, "recompute", "operations", '"none", or attention = fused)'),
    ],
)
def test_an_option_without_effect_is_refused(fields: dict[str, Any], key: str, value: object, accepted: str) -> None:
    refused(fields | {key: value}, f"{key}: {json.dumps(value)} has no effect here (accepted: {accepted}")


ONES = "routing_exponent", "routing_seed", "shared_experts", "dense_layers", "capacity_factor"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *({"top_k": 2, "ep": 2, "expert_intermediate": 8, "dispatch_node": 2, "routing": "zipf"}.items()),
        *((key, 1) for key in ONES),
        ("dispatch", "inside-first"),
    ],
)
def test_options_of_experts_need_experts(key: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"^{key}: .*for a model without experts.* \(accepted: "):
        Transformer(**(SHAPE | {"minibatch": 1, key: value}))
