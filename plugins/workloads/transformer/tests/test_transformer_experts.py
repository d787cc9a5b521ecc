import math
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw.workloads import System, TaskGraph, TaskKind
from fredfw_workload_transformer import Transformer
from fredfw_workload_transformer.experts import ACROSS_FIRST, DIRECT, DISPATCHES, INSIDE_FIRST, Routing, zipf_shares
from fredfw_workload_transformer.model import PRESETS

SHAPE: dict[str, Any] = {"layers": 2, "hidden": 8, "sequence": 4, "heads": 2, "vocabulary": 10, "intermediate": 16}
EXPERTS: dict[str, Any] = {"architecture": "llama", "experts": 8, "top_k": 2, "minibatch": 1}
TOKEN = 8 * 2  # bytes


def small(**fields: Any) -> Transformer:
    return Transformer(**(SHAPE | EXPERTS | fields))


def exchanges(graph: TaskGraph) -> list[tuple[str, Any, FloatArray]]:
    """Return name, groups and bytes of each exchange of tokens."""
    tasks = np.flatnonzero(graph.splits >= 0).tolist()
    return [(graph.names[t], graph.tables[graph.members[t]], graph.split_tables[graph.splits[t]]) for t in tasks]


def sent(groups: Any, sizes: FloatArray, ranks: int) -> tuple[FloatArray, FloatArray]:
    """Return what each rank sends to others, and what it receives from them."""
    moved = sizes * ~np.eye(sizes.shape[-1], dtype=bool)
    out, into = np.zeros(ranks), np.zeros(ranks)
    np.add.at(out, groups, moved.sum(axis=2))
    np.add.at(into, groups, moved.sum(axis=1))
    return out, into


def test_uniform_dispatch_and_combine_by_closed_form() -> None:
    # tokens x hidden x 2 B x top_k x (ep - 1) / ep, each, in both directions
    graph = small(dp=8, ep=4, layers=1).graph(System(8))
    found = exchanges(graph)
    names = [f"{way} 0 mlp [0] {what}" for way in ("forward", "backward") for what in ("dispatch", "combine")]
    assert [name for name, *_ in found] == names
    for _, groups, sizes in found:
        assert groups.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
        for amounts in sent(groups, sizes, 8):
            np.testing.assert_allclose(amounts, 4 * TOKEN * 2 * 3 / 4, rtol=1e-12)


@pytest.mark.parametrize("dispatch", [INSIDE_FIRST, ACROSS_FIRST])
def test_hierarchical_dispatch_by_closed_form(dispatch: str) -> None:
    # 2 nodes of 4 ranks with an expert each, and 2 experts for a token: both are on the same node in 3 of 7 cases, so a
    # token gets to a node with 5.5 / 7. Each token crosses for each expert, or once; inside, it goes to 3 of 4 ranks.
    graph = small(dp=8, ep=8, layers=1, dispatch=dispatch, dispatch_node=4).graph(System(8))
    first, second, *back = exchanges(graph)[:4]
    inside, across = (first, second) if dispatch == INSIDE_FIRST else (second, first)
    assert inside[0].endswith("dispatch inside nodes")
    assert inside[1].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert across[1].tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    np.testing.assert_allclose(sent(*inside[1:], 8)[0], 4 * TOKEN * 2 * 3 / 4, rtol=1e-12)
    crossing = 1.0 if dispatch == INSIDE_FIRST else 5.5 / 7
    np.testing.assert_allclose(sent(*across[1:], 8)[0], 4 * TOKEN * crossing, rtol=1e-9)
    for (_, groups, sizes), (_, same, reverse) in zip(back, (second, first), strict=True):
        assert groups.tolist() == same.tolist()
        np.testing.assert_array_equal(sizes, reverse.swapaxes(1, 2))


def test_imbalance_and_capacity_drops_by_hand(tmp_path: Path) -> None:
    # Shares of ranks 0.5, 0.2, 0.15, 0.15: twice the mean on the first one
    (tmp_path / "shares.txt").write_text("0.3 0.2\n0.1, 0.1\n0.1 0.05 0.1 0.05\n", encoding="utf-8")
    one = small(dp=4, ep=4, layers=1, routing="file", routing_file=tmp_path / "shares.txt")
    graph = one.graph(System(4))
    sizes = exchanges(graph)[0][2]
    np.testing.assert_allclose(sizes[0], np.tile([4.0, 1.6, 1.2, 1.2], (4, 1)) * TOKEN, rtol=1e-12)
    tasks = [t for t in range(len(graph)) if graph.names[t] == "forward 0 mlp [0] experts"]
    ranks = {int(r): float(graph.flops[t]) for t in tasks for r in graph.participants(t)}
    assert [ranks[r] / ranks[3] for r in range(4)] == pytest.approx([10 / 3, 4 / 3, 1, 1], rel=1e-12)
    assert ranks[0] == pytest.approx(16 * 6 * 8 * 16, rel=1e-12)  # 16 tokens: 4 ranks x 4 tokens x 2 choices / 2
    assert one.notes(System(4)) == ("experts: the fullest of 4 EP ranks takes 2 times the mean of tokens",)
    assert small(dp=4, ep=4).notes(System(4)) == ()
    # Of two experts one has all tokens, the other has none: with a factor of 1 it takes half of them.
    routing = Routing(np.array([1.0, 0.0]), top_k=1, ep=2, capacity_factor=1.0)
    assert routing.kept.tolist() == [0.5, 0.0]
    assert routing.dropped == 0.5
    assert routing.imbalance == 2
    notes = small(dp=8, ep=8, routing="zipf", capacity_factor=1).notes(System(8))
    assert notes[1].endswith("% of the tokens' choices are dropped")


@given(
    top_k=st.integers(1, 3),
    experts=st.sampled_from([4, 8, 16]),
    exponent=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    seed=st.integers(0, 5),
    capacity=st.sampled_from([None, 0.5, 1.0, 1.5]),
    dispatch=st.sampled_from(DISPATCHES),
    node=st.sampled_from([1, 2, 4]),
)
def test_tokens_are_conserved(
    top_k: int, experts: int, exponent: float, seed: int, capacity: float | None, dispatch: str, node: int
) -> None:
    shares = zipf_shares(experts, top_k, exponent, seed)
    assert shares.sum() == pytest.approx(1, rel=1e-12)
    assert shares.max() <= 1 / top_k
    routing = Routing(shares, top_k, ep=4, capacity_factor=capacity, dispatch=dispatch, node=node)
    assert routing.kept.sum() + routing.dropped == pytest.approx(top_k, rel=1e-12)
    assert routing.loads.sum() == pytest.approx(4 * routing.kept.sum(), rel=1e-12)
    *_, last = routing.dispatched
    arrived = np.zeros(4)
    np.add.at(arrived, last.members, last.tokens.sum(axis=1))
    if dispatch == DIRECT or node != 2:
        assert len(routing.dispatched) == 1
    np.testing.assert_allclose(arrived, routing.loads, rtol=1e-12)
    for there, back in zip(routing.dispatched, reversed(routing.combined), strict=True):
        np.testing.assert_array_equal(there.tokens.sum(axis=1), back.tokens.sum(axis=2))


def test_nodes_that_a_token_reaches_over_all_sets() -> None:
    # The weights 4, 2, 1, 1 by hand: each pair with a probability in proportion to its product; node 1 has the last two
    weights = np.array([4.0, 2.0, 1.0, 1.0])
    pairs = {pair: weights[list(pair)].prod() for pair in combinations(range(4), 2)}
    total = sum(pairs.values())
    routed = [sum(chance for pair, chance in pairs.items() if one in pair) / total for one in range(4)]
    capacity = 0.9
    routing = Routing(np.array(routed) / 2, 2, ep=4, capacity_factor=capacity, dispatch=ACROSS_FIRST, node=2)
    lost = [1 - min(one, capacity / 2) / one for one in routed]
    assert lost[2] == lost[3] == 0 < lost[0]

    def missed(here: set[int]) -> float:
        lost_of = {pair: math.prod(lost[one] for one in here & set(pair)) for pair in pairs}
        return float(sum(chance * lost_of[pair] for pair, chance in pairs.items()) / total)

    reached = routing.dispatched[0].tokens[0, 0]
    np.testing.assert_allclose(reached, [1 - missed({0, 1}), 1 - missed({2, 3})], rtol=1e-9)
    # One expert that every token chooses.
    routing = Routing(np.array([0.5, 0.3, 0.1, 0.1]), 2, ep=4, dispatch=ACROSS_FIRST, node=2)
    np.testing.assert_allclose(routing.dispatched[0].tokens[0, 0], [1.0, 0.4], rtol=1e-9)


def test_zipf_by_hand_and_equal_seeds_draw_equal_shares() -> None:
    # Shares in proportion to 1, 1/2, 1/3, 1/4; with two experts for a token none has more than a half of all choices
    harmonic = 25 / 12
    shares = zipf_shares(4, 1, 1.0, 0)
    assert sorted(shares, reverse=True) == pytest.approx([1 / harmonic / rank for rank in (1, 2, 3, 4)], rel=1e-12)
    capped = sorted(zipf_shares(4, 2, 3.0, 0), reverse=True)
    rest = 1 / 8 + 1 / 27 + 1 / 64
    assert capped == pytest.approx([0.5, *(0.5 / rest / rank**3 for rank in (2, 3, 4))], rel=1e-12)
    assert zipf_shares(3, 3, 5.0, 0) == pytest.approx([1 / 3] * 3, rel=1e-12)
    # The stream of PCG64 is part of NumPy's promises, so these are the same with every version of it and of Python.
    assert np.argsort(-zipf_shares(8, 2, 1.0, 7)).tolist() == [3, 7, 4, 1, 2, 6, 0, 5]
    assert np.argsort(-zipf_shares(8, 2, 1.0, 8)).tolist() != [3, 7, 4, 1, 2, 6, 0, 5]
    fields = {"dp": 4, "ep": 4, "routing": "zipf", "routing_seed": 7, "routing_exponent": 0.7}
    drawn, again = (exchanges(small(**fields).graph(System(4))) for _ in range(2))
    assert [sizes.tobytes() for *_, sizes in drawn] == [sizes.tobytes() for *_, sizes in again]


def test_shared_experts_compute_while_tokens_travel() -> None:
    graph = small(dp=2, ep=2, layers=1, shared_experts=1).graph(System(2))
    for way in ("forward", "backward"):
        parts = "dispatch", "shared experts", "experts", "combine"
        dispatch, shared, routed, combine = (graph.names.index(f"{way} 0 mlp [0] {what}") for what in parts)
        assert graph.after(dispatch).tolist() == graph.after(shared).tolist()
        assert set(graph.after(routed).tolist()) == {dispatch, shared}
        assert graph.after(combine).tolist() == [routed]
    assert graph.after(graph.names.index("backward 0 mlp [0] router")).tolist() == [combine]


@pytest.mark.parametrize("stage", [0, 3])
def test_memory_of_experts_by_hand(stage: int) -> None:
    one = small(dp=4, ep=2, zero_stage=stage)
    experts = 2 * 4 * 3 * 8 * 16
    dense = one.parameters - 2 * experts
    held = dense / 4 + experts / 2 if stage else dense + experts
    used = one.memory(System(4))
    assert {type(size) for size in used.parts.values()} == {float}
    layer = sum(block.parameters for block in one.shape.blocks(0, 1, 1)) - experts // one.shape.layers
    gathered = 2 * layer if stage else 0  # a layer, and the next one
    assert (used.weights, used.optimizer) == (2 * (held + gathered), 12 * held)


def test_the_fullest_rank_holds_most_activations(tmp_path: Path) -> None:
    # Input, result, gate, up and their product for each token beyond the mean of 4: all go to an expert on one rank
    (tmp_path / "one.txt").write_text("1" + " 0" * 7, encoding="utf-8")
    routings: tuple[dict[str, Any], ...] = {}, {"routing": "file", "routing_file": tmp_path / "one.txt"}
    even, full = (small(dp=4, ep=4, layers=1, top_k=1, **one).memory(System(4)) for one in routings)
    assert full.activations - even.activations == pytest.approx((16 - 4) * (2 * 8 + 6 * 16), rel=1e-12)


def test_model_flops_count_active_parameters_but_all_experts_stream_in_and_out() -> None:
    # Six FLOPs a weight that a token meets, but for the look-up's, norms'; and scores and values
    one = small(dp=4, ep=4, capacity_factor=0.5, shared_experts=2)
    norms, lookup, tokens = 5 * 8, 80, 4 * 4
    weights = one.shape.active_parameters - norms - lookup
    assert one.work(System(4)).model_flops == pytest.approx(tokens * (6 * weights + 3 * 2 * 4 * 4 * 8), rel=1e-12)
    assert one.parameters - one.shape.active_parameters == 2 * 6 * 3 * 8 * 16
    one = small(dp=2, execution="streaming", dense_layers=1)
    graph = one.graph(System(2, controllers=1))
    assert graph.bytes[graph.kinds == TaskKind.STORE].sum() == pytest.approx(2 * one.parameters, rel=1e-12)


def test_latent_attention_by_hand() -> None:
    # DeepSeek-V2, section 2.1: down and up projections of queries, and of keys and values; rotary keys; output
    shape = evolve(PRESETS["deepseek-v3"], layers=4)
    h, heads, s = 7168, 128, 4096
    matrices = h * 1536 + 1536 * heads * 192 + h * (512 + 64) + 512 * heads * 256 + heads * 128 * h
    attention, mlp = shape.blocks(0, 1, 1)
    assert attention.parameters == matrices + h
    assert attention.flops == s * (2 * matrices + 2 * s * heads * (192 + 128))
    assert mlp.parameters == 3 * h * 18432 + h
    assert shape.blocks(3, 1, 1)[1].parameters == 257 * 3 * h * 2048 + 256 * h + h


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.5 0.5", "there are 2 shares"),
        ("0.1 " * 8, "the sum of all shares is 0.8"),
        ("0.6 0.4 0 0 0 0 0 0", "share 0 is '0.6'"),
        ("nan 0.5 0.5 0 0 0 0 0", "share 0 is 'nan'"),
        ("half 0.5 0 0 0 0 0 0", "share 0 is 'half'"),
    ],
)
def test_a_file_with_wrong_shares(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "shares.txt"
    path.write_text(text, encoding="utf-8")
    said = f"{path}: routing_file: {message}", "8 shares from 0 to 0.5 (1 / top_k), whose sum is 1"
    with pytest.raises(InputError, match=r".*\(accepted: ".join(map(re.escape, said))):
        small(routing="file", routing_file=path)
