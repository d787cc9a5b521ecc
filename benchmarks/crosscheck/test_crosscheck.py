"""fredfw, step by step and rank by rank, against SimGrid: the same flows on the same routes, the same times."""

import numpy as np
import pytest
from attrs import evolve
from benchmarks.crosscheck import cases
from benchmarks.crosscheck.cases import Collectives
from benchmarks.crosscheck.simgrid import SimGrid

from fredfw import Pattern
from fredfw.typing import FloatArray

AGREEMENT = 1e-6
# Of runs rank by rank; SimGrid's own precision is 1e-12 s.
PER_RANK = 1e-9

MESH = cases.mesh(8, 8)
TORUS = cases.fabric("torus", dimensions=[8, 8])
SWITCH = cases.fabric("switch", npus=64)
RING = cases.fabric("torus", dimensions=[64])
UNEVEN = cases.uneven(MESH, seed=8)
EQUALLY_FAR = cases.fabric("switch", latency=0.25, npus=16)

# Latency is either absent, or the same on all paths that share a link: SimGrid's shares go by 1 / latency.
COLLECTIVES: dict[str, Collectives] = {
    "ring on a ring of 64": Collectives(RING),
    "ring on a switch of 16, 0.5 s of latency": Collectives(EQUALLY_FAR),
    "ring on an 8x8 mesh, snake": Collectives(MESH, cases.snake(8, 8)),
    "ring on an 8x8 mesh, row by row": Collectives(MESH),
    "ring on an 8x8 mesh, at random": Collectives(MESH, cases.shuffled(64, 1, seed=1)),
    "halving-doubling on an 8x8 mesh": Collectives(MESH, algorithm="recursive-halving-doubling"),
    "hierarchical on an 8x8 mesh": Collectives(MESH, algorithm="hierarchical"),
    "hierarchical on an uneven 8x8 mesh": Collectives(UNEVEN, algorithm="hierarchical"),
    "bruck all-to-all on an 8x8 torus": Collectives(TORUS, pattern=Pattern.ALL_TO_ALL, algorithm="bruck"),
    "all-to-all on a switch of 64": cases.all_to_all(SWITCH),
    "all-to-all on a switch of 16, 0.5 s of latency": cases.all_to_all(EQUALLY_FAR),
    "all-to-all on an 8x8 mesh": cases.all_to_all(MESH),
    "ring on an uneven 8x8 mesh, at random": Collectives(UNEVEN, cases.shuffled(64, 1, seed=1)),
    "16 rings of 4 on an 8x8 mesh, at random": Collectives(MESH, cases.shuffled(64, 16, seed=2)),
    "8 rings of 8 on an 8x8 torus, at random": Collectives(TORUS, cases.shuffled(64, 8, seed=4)),
    "8 rings of 8 on an uneven 8x8 mesh, at random": Collectives(UNEVEN, cases.shuffled(64, 8, seed=3)),
    "64 rings of 4 on an uneven 16x16 mesh, at random": Collectives(
        cases.uneven(cases.mesh(16, 16), seed=9), cases.shuffled(256, 64, seed=10)
    ),
    "4 halving-doublings of 16 on an 8x8 torus, at random": Collectives(
        TORUS, cases.shuffled(64, 4, seed=5), algorithm="recursive-halving-doubling"
    ),
    "4 halving-doublings of 16 on an uneven mesh, at random": Collectives(
        UNEVEN, cases.shuffled(64, 4, seed=5), algorithm="recursive-halving-doubling"
    ),
}


def difference(ours: FloatArray, theirs: FloatArray) -> float:
    """Return the largest relative difference."""
    return float((np.abs(ours - theirs) / theirs).max())


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_end_when_simgrid_says(name: str, simgrid: SimGrid, rows: list[str]) -> None:
    case = COLLECTIVES[name]
    barrier, messages = simgrid.run(case).ends, simgrid.run(case, "messages").ends
    assert np.isfinite(messages).all()
    found = difference(case.ends(), barrier)
    last, free, groups = float(barrier.max()), float(messages.max()), barrier / messages - 1
    rows.append(
        f"{name:54} differs by {found:.1e}; with barriers {last:7.2f} s, without {free:7.2f} s: {last / free - 1:+.1%},"
        f" groups {groups.min():+.1%} to {groups.max():+.1%}"
    )
    assert found < AGREEMENT


# Rank by rank, latencies may differ, for the program adds them itself. On the mesh 750 GB/s and 20 ns, with all times
# 750 times as long.
SMALL = cases.fabric("mesh2d", latency=15e-6, rows=5, columns=4, io_controllers=False)
LONG = {
    ports: cases.fabric("fat-tree", 1e-3, npus=npus, levels=2, radix=ports, routing="ecmp")
    for npus, ports in ((128, 16), (256, 32))
}
RANKS = COLLECTIVES | {
    "4 rings of 5 along the columns of a 5x4 mesh, 1 GB": Collectives(SMALL, np.arange(20).reshape(5, 4).T, chunk=2e8),
    "4 rings of 5 of consecutive ids on a 5x4 mesh, 1 GB": Collectives(SMALL, np.arange(20).reshape(4, 5), chunk=2e8),
    "ring of 128 over a two-level tree": Collectives(LONG[16], chunk=1e7),
    "ring of 256 over a two-level tree": Collectives(LONG[32], chunk=1e7),
    "4 shuffled rings of 32 over a two-level tree": Collectives(LONG[16], cases.shuffled(128, 4, seed=12), chunk=1e7),
    "ring on a switch of 16, various latencies": Collectives(
        evolve(EQUALLY_FAR, latencies=np.random.default_rng(12).uniform(0, 0.5, 32))
    ),
}


@pytest.mark.parametrize("name", RANKS)
def test_ranks_end_when_simgrid_says(name: str, simgrid: SimGrid, rows: list[str]) -> None:
    case = RANKS[name]
    theirs, ours, stepwise = simgrid.run(case, "ranks").ends, case.ends("exact"), case.ends()
    found = difference(ours, theirs)
    rows.append(
        f"{name:54} differs by {found:.1e} rank by rank; last {ours.max():9.5f} s, step by step {stepwise.max():9.5f} s"
    )
    assert found < PER_RANK


def test_random_flows_end_when_simgrid_says(simgrid: SimGrid, rows: list[str]) -> None:
    worst = 0.0
    for seed in range(100):
        case = cases.random_flows(MESH, 200, seed)
        worst = max(worst, difference(case.ends(), simgrid.run(case).ends))
    rows.append(f"{'100 sets of 200 random flows on an 8x8 mesh':54} differ by {worst:7.1e}")
    assert worst < AGREEMENT


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_random_arrivals_end_when_simgrid_says(load: float, simgrid: SimGrid, rows: list[str]) -> None:
    case = cases.random_flows(cases.mesh(16, 16), 2_000, seed=6, load=load)
    found = difference(case.ends() - case.starts, simgrid.run(case).ends - case.starts)
    rows.append(f"{f'2,000 random arrivals on a 16x16 mesh, load {load:.0%}':54} differ by {found:7.1e}")
    assert found < AGREEMENT


def test_tuned_simgrid_says_the_same(simgrid: SimGrid, tuned: SimGrid) -> None:
    case = COLLECTIVES["8 rings of 8 on an uneven 8x8 mesh, at random"]
    assert difference(tuned.run(case).ends, simgrid.run(case).ends) < 1e-12
