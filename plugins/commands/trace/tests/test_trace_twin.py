from collections import Counter
from typing import Any

import numpy as np
import pytest

from fredfw import Framework, GraphBuilder, Pattern, TaskGraph, TaskKind, limits
from fredfw.errors import InputError, UnsupportedError
from fredfw_command_trace.distance import Distance, distances
from fredfw_command_trace.fitting import fit, programs
from fredfw_command_trace.generation import generate, shuffled

STEPS = 12


def pipeline(replicas: int = 2) -> TaskGraph:
    """Two stages of so many replicas; the replicas of a stage are ``2 * stage`` and so on, and reduce in the end."""
    builder = GraphBuilder(2 * replicas)
    ready: list[tuple[int, ...]] = [() for _ in range(2 * replicas)]
    for step in range(STEPS):
        for replica in range(replicas):
            there = replicas + replica
            first = builder.compute(f"first {step}", [replica], flops=1e9 * (1 + step), after=ready[replica])
            send = builder.send(f"activations {step}", replica, there, 4e6, label="pp", after=[first])
            receive = builder.receive(f"arrival {step}", send)
            second = builder.compute(f"second {step}", [there], flops=3e9, after=[receive, *ready[there]])
            ready[replica], ready[there] = (first,), (second,)
    reduced = []
    for stage in range(2):
        members = list(range(stage * replicas, (stage + 1) * replicas))
        after = [one for rank in members for one in ready[rank]]
        reduced.append(builder.collective("gradients", Pattern.ALL_REDUCE, [members], 1e8, label="dp", after=after))
    everybody = range(2 * replicas)
    builder.collective("norm", Pattern.ALL_REDUCE, [list(everybody)], 8, label="all", after=reduced)
    return builder.build()


def seconds(graph: TaskGraph, npus: int = 32) -> float:
    framework = Framework()
    fabric = framework.topology("switch", npus=npus, link_bandwidth="50 GB/s").build()
    return framework.simulate_graph(graph, fabric).seconds


def by_distance(original: TaskGraph, twin: TaskGraph) -> dict[str, Distance]:
    return {one.statistic: one for one in distances(original, twin)}


@pytest.mark.parametrize("seed", [0, 3])
def test_a_twin_of_as_many_ranks_does_as_much_and_takes_as_long(seed: int) -> None:
    original = pipeline()
    twin = generate(fit(original), 4, seed)
    found = by_distance(original, twin)
    for statistic in ("all-reduce per rank (B)", "send per rank (B)", "computation (FLOP) per rank", "nodes per rank"):
        assert found[statistic].relative == pytest.approx(0, abs=1e-9)
    assert np.isnan(twin.seconds[twin.kinds == TaskKind.COMPUTE]).all()  # whose times were not known
    assert seconds(twin) == pytest.approx(seconds(original), rel=0.1)


def test_a_seed_gives_the_same_twin_and_another_one_another_without_any_names() -> None:
    original = pipeline()
    one, same, other = (generate(fit(original), 8, seed) for seed in (3, 3, 4))
    assert one.flops.tolist() == same.flops.tolist() != other.flops.tolist()
    assert one.dependencies.tolist() == same.dependencies.tolist()
    assert not set(one.names) & set(original.names)
    assert not set(one.label_names) & set(original.label_names)


def test_ranks_that_do_the_same_have_one_role() -> None:
    statistics = fit(pipeline(4))
    assert statistics.roles == (0, 0, 0, 0, 1, 1, 1, 1)
    # One event of both roles: the collective of all ranks.
    assert sum(len(one.parts) == 2 for one in statistics.classes) == 1
    # In step with each other, as they were.
    twin = generate(statistics, 8)
    own = [[step.values[1] for step in steps] for steps in programs(twin)]
    assert own[0] == own[1] == own[2] == own[3] != own[4]


def groups(graph: TaskGraph) -> set[tuple[int, ...]]:
    collectives = graph.members[graph.kinds == TaskKind.COLLECTIVE]
    return {tuple(row) for one in collectives for row in graph.tables[one].tolist()}


def test_groups_of_all_ranks_and_the_furthest_ones_grow_and_the_others_are_more() -> None:
    builder = GraphBuilder(8)
    for members in ([0, 1], [2, 3], [4, 5], [6, 7]):
        builder.collective("tp", Pattern.ALL_REDUCE, [members], 1e6, label="tp")
    for members in ([0, 2, 4, 6], [1, 3, 5, 7]):
        builder.collective("dp", Pattern.ALL_REDUCE, [members], 1e6, label="dp")
    builder.collective("all", Pattern.ALL_GATHER, [list(range(8))], 1e6, label="all")
    statistics = fit(builder.build())
    pairs, halves = {(one, one + 1) for one in range(0, 16, 2)}, {tuple(range(one, 16, 2)) for one in (0, 1)}
    assert groups(generate(statistics, 16)) == pairs | halves | {tuple(range(16))}
    # What is beyond is cut off, and a group of one has nothing to do.
    assert groups(generate(statistics, 5)) == {(0, 1), (2, 3), (0, 2, 4), (1, 3), (0, 1, 2, 3, 4)}


def test_any_number_of_ranks_runs() -> None:
    twins = {ranks: generate(fit(pipeline()), ranks) for ranks in (1, 3, 32)}
    assert all(twin.ranks == ranks and seconds(twin) > 0 for ranks, twin in twins.items())


def test_times_differ_between_ranks_as_they_did() -> None:
    builder = GraphBuilder(8)
    random = np.random.default_rng(0)
    for step in range(50):
        for rank in range(8):
            builder.compute(f"{step}", [rank], seconds=1e-3 * float(np.exp(random.normal(0, 0.2))))
    original = builder.build()
    twin = generate(fit(original), 8)
    assert set(fit(original).roles) == {0}
    spread = np.sqrt(np.log(twin.seconds.reshape(50, 8)).var(axis=1, ddof=1).mean())
    assert spread == pytest.approx(0.2, rel=0.1)
    assert by_distance(original, twin)["computation (s) per rank"].relative == pytest.approx(0, abs=0.03)


def test_what_traces_do_not_have_is_refused() -> None:
    builder = GraphBuilder(2)
    builder.transfer("copy", [[0, 1]], 1e6, label="pp")
    with pytest.raises(UnsupportedError, match="task 'copy' is a transfer"):
        fit(builder.build())
    with pytest.raises(InputError, match="the traces have no nodes"):
        fit(GraphBuilder(2).build())


@pytest.mark.parametrize(("ranks", "text"), [(10**9, "1000000000 nodes are too many"), (400, "tasks are too many")])
def test_impossible_numbers_of_ranks_are_refused(ranks: int, text: str) -> None:
    with limits.allowed({"tasks": 100}), pytest.raises(InputError, match=text):
        generate(fit(pipeline()), ranks)


@pytest.mark.parametrize("context", [1, 2, 4])
def test_a_shuffled_sequence_has_the_same_runs(context: int) -> None:
    sequence = np.random.default_rng(1).integers(4, size=500).tolist()

    def runs(of: list[int]) -> Counter[tuple[int, ...]]:
        return Counter(tuple(of[place : place + context + 1]) for place in range(len(of) - context))

    found = [shuffled(sequence, context, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert runs(found[0]) == runs(sequence)
    assert found[0] == found[1] != found[2]
    assert found[0] != sequence
    assert shuffled([1, 2, 3], 4, np.random.default_rng(0)) == [1, 2, 3]
    assert shuffled([], 4, np.random.default_rng(0)) == []


def computations(*flops: float) -> Any:
    builder = GraphBuilder(1)
    for one in flops:
        builder.compute("", [0], flops=one)
    return builder.build()


def test_distances_by_hand() -> None:
    found = by_distance(computations(1, 2, 3, 4), computations(1, 2, 5, 6, 7))
    each = found["FLOPs of a computation"]
    # Up to 4 are all of the first, and two of the five others.
    assert each.largest == pytest.approx(1 - 2 / 5)
    assert (each.original, each.twin) == (2.5, 4.2)
    assert found["computation (FLOP) per rank"].relative == pytest.approx(21 / 10 - 1)
    assert found["nodes per rank"].relative == pytest.approx(0.25)
    assert by_distance(computations(0), computations(1))["FLOPs of a computation"].largest == 1
