"""What is refused at once, with the key and what is accepted."""

import re
from typing import Any

import pytest

from fredfw.errors import InputError
from fredfw_workload_transformer import Transformer

SHAPE: dict[str, Any] = {"layers": 4, "hidden": 8, "sequence": 8, "heads": 2, "vocabulary": 10}
STREAMING: dict[str, Any] = {"execution": "streaming"}
MOE: dict[str, Any] = {"layers": 2, "architecture": "llama", "experts": 8, "top_k": 2, "minibatch": 1}
FOUR: dict[str, Any] = MOE | {"ep": 4, "dp": 4}
WRONG: dict[str, Any] = {"model": "gpt-4", "architecture": "bert", "attention": "flash", "dp_communication": "gossip"}
WRONG |= {"recompute": "some", "pp": 5, "microbatches": 3, "zero_stage": 4, "hidden": None}
WRONG |= {"key_value_heads": 3, "interleave": 2, "cp_communication": "gossip", "memory_tier": "pool"}
OF_EXPERTS: dict[str, Any] = {"top_k": 2, "ep": 2, "expert_intermediate": 8, "dispatch_node": 2, "routing": "zipf"}
OF_EXPERTS |= dict.fromkeys(("routing_exponent", "routing_seed", "shared_experts", "dense_layers"), 1)
OF_EXPERTS |= {"capacity_factor": 1, "dispatch": "inside-first"}


@pytest.mark.parametrize(
    ("fields", "message", "accepted"),
    [
        *(({key: value}, f"{key}: ", "") for key, value in WRONG.items()),
        ({"recompute": 1}, "recompute: ", ""),
        ({"sequence_parallel": True, "pp_transfer": "multicast"}, "pp_transfer: ", ""),
        ({"interleave": 2, "pp": 2, "pipeline": "gpipe"}, "interleave: ", ""),
        ({"interleave": 2, "pp": 2, **STREAMING}, "interleave: ", ""),
        ({"interleave": 3, "pp": 2}, "interleave: ", ""),
        ({"pipeline": "zb-h1", "interleave": 2, "pp": 2}, "interleave: chunks", "1, or stationary 1f1b"),
        ({"pipeline": "zb-h1", **STREAMING}, "pipeline: only stages that keep their weights", "1f1b, gpipe"),
        ({"streams": "sharded", **STREAMING}, "streams: ", ""),
        ({"cp": 3}, "cp: 3 workers cannot split the 8 tokens of a sample", "a divisor of 8"),
        ({"cp": 2, **STREAMING}, "cp: streaming execution does not split", "1, or execution = stationary"),
        ({"cp": 2, "tasks": "passes"}, "cp: tasks = passes has no place for", "1, or tasks = blocks"),
        ({"cp": 8, "causal": True, "attention": "fused"}, "cp: zigzag cannot cut", "half of a divisor of 8, or cp_lay"),
        ({"cp": 2, "cp_layout": "contiguous"}, "cp_layout: without a mask", "causal = true"),
        ({"cp_layout": "contiguous"}, "cp_layout: 'contiguous' tokens of one worker are all", "cp above 1"),
        ({"causal": True}, "causal: kernels that are not fused compute all scores", "attention = fused"),
        ({"dp_shard": 2}, "dp_shard: 2 replicas have nothing to share", "a stationary zero_stage of 1 to 3"),
        ({"dp": 6, "zero_stage": 3, "dp_shard": 4}, "dp_shard: 4 does not divide the 6 replicas", "1, 2, 3, 6"),
        (MOE | {"dp": 8, "ep": 4, "zero_stage": 3, "dp_shard": 2}, "dp_shard: 2 replicas do not have all", "4, 8"),
        ({"zero_stage": 3, "dp_communication": "all-reduce"}, "dp_communication: ", "no value, or a zero_stage of"),
        # Batches.
        ({"global_batch": 64, "minibatch": 16}, "minibatch: 16 is given, and global_batch", "one of the two keys"),
        ({"dp": 3, "global_batch": 64}, "global_batch: 64 samples cannot be divided evenly", "a multiple of 3"),
        ({"dp": 4, "global_batch": 64, "micro_batch": 3}, "micro_batch: 3 does not divide the 16", "a divisor of 16"),
        ({"microbatches": 2, "micro_batch": 4}, "micro_batch: 2 microbatches of 4 samples", "one of the two keys, or"),
        ({"global_batch": 0}, "global_batch: 0 is not a valid number", "a whole number of at least 1"),
        # Experts.
        (MOE | {"ep": 3, "dp": 6}, "ep: 3 ranks cannot share 8 experts evenly", "1, 2, 4, 8"),
        (MOE | {"ep": 4, "dp": 6}, "ep: 4 does not divide the 6 replicas", ""),
        (MOE | {"experts": 10**9, "routing": "zipf"}, "experts: 1000000000 flows are too many", ""),
        (MOE | {"top_k": 9}, "top_k: 9 of 8 experts cannot be chosen", ""),
        (MOE | {"dense_layers": 2}, "dense_layers: 2 of 2 layers leave none to experts", ""),
        (MOE | {"routing_exponent": 1.0}, "routing_exponent: 1.0 is given, but routing is 'uniform'", ""),
        (MOE | {"routing_seed": 1}, "routing_seed: 1 is given, but routing is 'uniform'", ""),
        (MOE | {"routing": "file"}, "routing_file: is missing", ""),
        (MOE | {"routing": "file", "routing_file": "nowhere.txt"}, "routing_file: 'nowhere.txt'", ""),
        (MOE | {"capacity_factor": 0}, "capacity_factor: 0 takes no token", "a number above 0"),
        (MOE | {"capacity_factor": -1.5}, "capacity_factor: -1.5 is too small", ""),
        (MOE | {"dispatch_node": 2}, "dispatch_node: nodes of 2 do not divide 1", ""),
        (FOUR | {"dispatch": "inside-first"}, "dispatch_node: is missing", "a divisor of 4"),
        (FOUR | {"dispatch": "across-first", "dispatch_node": 3}, "dispatch_node: nodes of 3 do not divide 4", ""),
        (MOE | {"tasks": "passes"}, "tasks: experts communicate within a layer", ""),
        (MOE | {**STREAMING, "ep": 2, "dp": 2}, "execution: each EP rank has experts of its own", ""),
        # Options without effect, the last of the fields.
        (STREAMING | {"zero_stage": 3}, "zero_stage: 3 has no effect here", "0, or execution = stationary"),
        (STREAMING | {"overlap_dp": True}, "overlap_dp: true has no", ""),
        (STREAMING | {"dp_communication": "all-reduce"}, "dp_communication: ", "execution = stationary"),
        ({"streams": "needed"}, 'streams: "needed" has no', '"all", or execution = streaming'),
        (
            {"zero_stage": 2, "reshard_after_forward": False},
            "reshard_after_forward: ",
            "true, or a stationary zero_sta",
        ),
        ({"recompute": True, "reshard_after_recompute": False}, "reshard_after_recompute: ", "true, or a stationary"),
        ({"zero_stage": 3, "reshard_after_recompute": False}, "reshard_after_recompute: ", "true, or recompute = full"),
        ({"prefetch": 3}, "prefetch: 3 has no", "1, or execution = streaming, or a zero_stage of"),
        ({"zero_stage": 2, "prefetch": 0}, "prefetch: 0 has no", ""),
        ({"cp_communication": "all-gather"}, "cp_communication: ", '"ring", or cp above 1'),
        ({"overlap_cp": False}, "overlap_cp: false has no", "true, or cp above 1"),
        ({"cp": 2, "cp_communication": "all-gather", "overlap_cp": False}, "overlap_cp: ", "true, or cp_communication"),
        ({"recompute": "operations"}, 'recompute: "operations" has no', '"none", or attention = fused'),
        *(
            ({"minibatch": 1, key: value}, f"{key}: ", "no value, or experts = 2 or more")
            for key, value in OF_EXPERTS.items()
        ),
    ],
)
def test_what_cannot_be_or_has_no_effect_is_refused(fields: dict[str, Any], message: str, accepted: str) -> None:
    with pytest.raises(InputError, match=rf"^{re.escape(message)}.* \(accepted: {re.escape(accepted)}"):
        Transformer(**(SHAPE | fields))
