"""Whole processes, from start to exit: fredfw and SimGrid on the same case.

    python -m benchmarks.crosscheck.speed [--rounds N] [--untuned] [--long] [NAME...]

Of several rounds the fastest counts. SimGrid gets its case as a file, written beforehand, and is tuned (see
``simgrid.cpp``); ``--untuned`` times it as it comes as well. Fails where the two disagree on a
case that is not chaotic.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from attrs import frozen
from benchmarks.crosscheck import cases
from benchmarks.crosscheck.cases import Case, Collectives
from benchmarks.crosscheck.simgrid import MISSING, Run, SimGrid, installed

from fredfw import Fabric, Pattern
from fredfw.typing import IntArray

AGREEMENT = 1e-6


@frozen
class Contest:
    """A case to time.

    Args:
        case: Makes it.
        fidelity: Of fredfw.
        rule: Of SimGrid; see ``SimGrid.run``.
        long: Whether it takes SimGrid half a minute and more.
        chaotic: Whether it ends elsewhere by more than the agreement where sizes differ by 1e-12.
    """

    case: Callable[[], Case]
    fidelity: str = "compressed"
    rule: str = "barrier"
    long: bool = False
    chaotic: bool = False


def _ring() -> Case:
    return Collectives(cases.fabric("torus", dimensions=[1024]))


def _snake() -> Case:
    return Collectives(cases.fabric("torus", dimensions=[64, 64]), cases.snake(64, 64))


def _arrivals(load: float) -> Case:
    return cases.random_flows(cases.mesh(16, 16), 10_000, seed=6, load=load)


def _fat_tree(npus: int, radix: int = 16, routing: str = "spray") -> Fabric:
    return cases.fabric("fat-tree", npus=npus, radix=radix, levels=3, routing=routing)


def _shuffled(groups: int) -> Case:
    """Groups of four at random on a torus."""
    half = (4 * groups).bit_length() // 2
    on = cases.fabric("torus", dimensions=[2 ** (half), 4 * groups // 2**half])
    return Collectives(on, cases.shuffled(4 * groups, groups, seed=6))


def _experts(order: IntArray) -> Case:
    """All-to-alls of 32 experts, and all-reduces across them."""
    on, members = _fat_tree(1024, routing="ecmp"), order.reshape(32, 32)
    exchange = Collectives(on, members, pattern=Pattern.ALL_TO_ALL, algorithm="direct")
    return cases.Together(on, (exchange, Collectives(on, members.T.copy())))


def _messages(count: int) -> Case:
    return cases.random_messages(_fat_tree(256, routing="ecmp"), count, seed=6)


def _all_to_all_v(npus: int) -> Case:
    return cases.all_to_all(_fat_tree(npus, radix=8, routing="ecmp"), cases.random_sizes(npus, seed=6))


CONTESTS = {
    "ring-1024": Contest(_ring),
    "ring-1024-stepwise": Contest(_ring, fidelity="stepwise"),
    "snake-64x64": Contest(_snake, long=True),
    "snake-64x64-stepwise": Contest(_snake, fidelity="stepwise", long=True),
    "all-to-all-16x16": Contest(lambda: cases.all_to_all(cases.mesh(16, 16))),
    "all-to-all-ecmp-128": Contest(lambda: cases.all_to_all(_fat_tree(128, routing="ecmp"))),
    "all-to-all-ecmp-256": Contest(lambda: cases.all_to_all(_fat_tree(256, routing="ecmp")), long=True),
    "all-to-all-v-64": Contest(lambda: _all_to_all_v(64)),
    "all-to-all-v-128": Contest(lambda: _all_to_all_v(128), long=True),
    "shuffled-256": Contest(lambda: _shuffled(256), fidelity="stepwise"),
    "shuffled-1024": Contest(lambda: _shuffled(1024), fidelity="stepwise", long=True),
    "shuffled-4096": Contest(lambda: _shuffled(4096), fidelity="stepwise", long=True),
    "experts": Contest(lambda: _experts(np.arange(1024)), fidelity="stepwise", long=True),
    "experts-shuffled": Contest(
        lambda: _experts(np.random.default_rng(6).permutation(1024)), fidelity="stepwise", long=True
    ),
    "messages-10240": Contest(lambda: _messages(10_240), rule="messages", chaotic=True),
    "messages-102400": Contest(lambda: _messages(102_400), rule="messages", chaotic=True),
    "arrivals-30%": Contest(lambda: _arrivals(0.3)),
    "arrivals-80%": Contest(lambda: _arrivals(0.8), long=True),
}


def _fastest(rounds: int, run: Callable[[], Run]) -> Run:
    return min((run() for _ in range(rounds)), key=lambda one: one.seconds)


def _cell(run: Run) -> str:
    return f"{run.seconds:9.2f} s {run.memory / 2**20:6.0f} MiB"


def _compare(name: str, engines: list[SimGrid], rounds: int) -> bool:
    """Print a line of the table; return whether the two agree."""
    case, chaotic = CONTESTS[name].case(), CONTESTS[name].chaotic
    command = [sys.executable, "-m", "benchmarks.crosscheck.speed", "--run", name]
    ours = _fastest(rounds, partial(Run.of, command))
    cells, difference = [_cell(ours)], 0.0
    for engine in engines:
        theirs = _fastest(rounds, partial(engine.run, case, CONTESTS[name].rule))
        cells.append(f"{_cell(theirs)} {theirs.seconds / ours.seconds:7.1f} x")
        difference = max(difference, float((np.abs(ours.ends - theirs.ends) / theirs.ends).max()))
    print(f"{name:22}", *cells, f"differs by {difference:.1e}{' (chaotic)' * chaotic}", flush=True)
    return chaotic or difference < AGREEMENT


def main() -> int:
    """Time what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crosscheck.speed")
    parser.add_argument("names", nargs="*", help=f"what to time: {', '.join(CONTESTS)}; by default all that are quick")
    parser.add_argument("--long", action="store_true", help="also what takes SimGrid half a minute and more")
    parser.add_argument("--untuned", action="store_true", help="also SimGrid as it comes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", choices=CONTESTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        contest = CONTESTS[options.run]
        print(*contest.case().ends(contest.fidelity).tolist(), sep="\n")
        return 0
    if not installed():
        print(MISSING)
        return 0
    names = options.names or [name for name, contest in CONTESTS.items() if options.long or not contest.long]
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        engines = [SimGrid(folder, tuned=tuned) for tuned in ((True, False) if options.untuned else (True,))]
        titles = ["fredfw", "SimGrid, tuned", "SimGrid as it comes"]
        print(f"{'':22}", f"{titles[0]:>22}", *(f"{title:>32}" for title in titles[1 : len(engines) + 1]))
        failed = [name for name in names if not _compare(name, engines, options.rounds)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
