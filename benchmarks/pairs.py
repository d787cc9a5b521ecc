"""Whole processes, from start to exit: this release and another one on the same cases, in turn.

    python -m benchmarks.pairs PYTHON CHECKOUT [--rounds N] [NAME...]

``PYTHON`` has the other release and its plugins, ``CHECKOUT`` its sources. Times are CPU seconds, the least of all
rounds, for other work on the machine makes them longer; ratios of the two are what to quote.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.processes import ROOT, measured

COMMAND = ["-c", "from fredfw_command import main; main()"]


def _command(*words: str) -> list[str]:
    return [*COMMAND, *words]


def _compare(name: str, *words: str) -> list[str]:
    return _command("compare", f"experiments/{name}.toml", "--no-store", *words)


def _speed(name: str) -> list[str]:
    return ["-m", "benchmarks.crosscheck.speed", "--run", name]


RING = ("collective", "all-reduce", "--topology", "fat-tree", "--set", "npus=4096", "--size", "100MB")
LLAMA = ("run", str(ROOT / "benchmarks" / "llama-405b.toml"), "--workload", "llama", "--fabric", "dgx")
FABRIC = ("--topology", "torus", "--set", "dimensions=32,32", "--algorithm", "torus-ring")
CASES = {
    # How long commands take to start.
    "import numpy": ["-c", "import numpy"],
    "import fredfw": ["-c", "import fredfw"],
    "help": _command("--help"),
    "a typo": _command("compar"),
    "plugins list": _command("plugins", "list"),
    "all-reduce on 1,024 NPUs": _command("collective", "all-reduce", *FABRIC, "--size", "1MB"),
    "25 cells": _compare("fred-isca25"),
    "25 cells, compressed": _compare("fred-isca25", "--fidelity", "compressed"),
    "wrht": _compare("wrht"),
    "ring of 4,096, rank by rank": _command(*RING, "--algorithm", "ring", "--fidelity", "exact"),
    "messages": _speed("messages-102400"),
    "arrivals, 30 %": _speed("arrivals-30%"),
    "arrivals, 80 %": _speed("arrivals-80%"),
    "experts": _speed("experts"),
    "experts, shuffled": _speed("experts-shuffled"),
    "all-to-all-v of 128": _speed("all-to-all-v-128"),
    "4,096 groups, shuffled": ["benchmarks/scale.py", "groups of 4, shuffled", "4096"],
    "1,048,576 NPUs": ["benchmarks/scale.py", "hierarchical on a 3D torus", "1048576"],
    "Llama 405B": _command(*LLAMA),
    "Llama 405B, rank by rank": _command(*LLAMA, "--fidelity", "exact"),
    "roce": _compare("roce"),
}


def _cost(python: str, folder: Path, words: list[str]) -> tuple[float, float]:
    """Return the CPU seconds of a process, and its most memory in GB."""
    found = measured(
        [python, *words], folder, accepted=(0, 2, 3)
    )  # 2: the typo; 3: as in wrht, some cells have no result
    return found["cpu"], found["memory"] / 1e9


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs")
    parser.add_argument("python")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_intermixed_args()
    sides = (options.python, options.checkout), (sys.executable, ROOT)
    print("| case | other (s) | this (s) | ratio | other (GB) | this (GB) |\n|---|---|---|---|---|---|")
    for name in options.names or CASES:
        costs = [[_cost(python, folder, CASES[name]) for python, folder in sides] for _ in range(options.rounds)]
        (other, more), (mine, memory) = (min(one[side] for one in costs) for side in range(2))
        print(f"| {name} | {other:.2f} | {mine:.2f} | {mine / other:.2f} | {more:.2f} | {memory:.2f} |", flush=True)


if __name__ == "__main__":
    main()
