"""What many cells cost beside their simulation, and what a second process gains.

    python -m benchmarks.studies CELLS [--jobs N]

evaluates so many cells with an evaluator that does nothing, with a new store, and prints a line of JSON: milliseconds
per cell (median and mean) of a first pass that stores all and of a second one that finds all, of opening that store and
of writing a cell's specification, and the size of the file. With ``--jobs`` it then compares 200 cells on so many
processes with one process, each time begun anew, and prints seconds and speed-up; the documents must be equal.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

from attrs import evolve

from fredfw import Framework
from fredfw.experiment.results import Cell
from fredfw.experiment.run.cells import CellSpec, Means, Run
from fredfw.experiment.store import Store

# 200 cells of some tenths of a second: a model on 64 NPUs, by its sequence length, on two fabrics.
SWEEP: dict[str, Any] = {
    "title": "Speed-up",
    "npu": {"peak": "312 TFLOP/s"},
    "fabrics": {
        "mesh": {"topology": {"name": "mesh2d", "rows": 8, "columns": 8}},
        "torus": {"topology": {"name": "torus", "dimensions": [8, 8]}},
    },
    "workloads": {
        "model {sequence}": {
            "sweep": {"sequence": [8 * (one + 1) for one in range(100)]},
            "workload": {
                "name": "transformer",
                "model": "transformer-17b",
                "mp": 4,
                "dp": 4,
                "pp": 4,
                "minibatch": 16,
                "microbatches": 16,
            },
        }
    },
}


def overhead(count: int, folder: Path) -> dict[str, Any]:
    """Return what ``count`` cells cost that take no time."""
    framework = Framework()
    tables = {"fabrics": {"mesh": SWEEP["fabrics"]["mesh"]}, "workloads": {"sum": {"workload": "microbenchmark"}}}
    experiment = framework.load_experiment(tables)
    cell = Cell.of(framework.run(experiment))
    workload, fabric = experiment.workloads[0], experiment.fabrics[0]
    means = Means(framework.plugins)
    one = means.spec(experiment, workload, fabric, "compressed")
    specs = [evolve(one, key=f"{number:064x}") for number in range(count)]
    path = folder / "many.cells"
    found: dict[str, Any] = {"cells": count}
    for name in ("stored", "found"):
        begun = time.perf_counter()
        with Store.open(path) as store:
            opened = time.perf_counter()
            taken = list(intervals(specs, lambda *_: cell, Means(framework.plugins, store)))
        total = time.perf_counter() - opened
        found |= {
            f"{name}_median_ms": round(1e3 * median(taken), 3),
            f"{name}_mean_ms": round(1e3 * total / count, 3),
        }
    found["open_ms"] = round(1e3 * (opened - begun), 2)
    taken = []
    for _ in range(min(count, 1000)):
        begun = time.perf_counter()
        means.spec(experiment, workload, fabric, "compressed")
        taken.append(time.perf_counter() - begun)
    return found | {"written_mean_ms": round(1e3 * mean(taken), 3), "MB": round(path.stat().st_size / 1e6, 1)}


def intervals(specs: list[CellSpec], run: Run, means: Means) -> Iterator[float]:
    last = time.perf_counter()
    with means.outcomes(specs, run=run) as outcomes:
        for _ in outcomes:
            now = time.perf_counter()
            yield now - last
            last = now


def compare(jobs: int, output: str) -> None:
    """Compare all cells of the sweep, and write the document."""
    framework = Framework()
    experiment = framework.load_experiment(SWEEP)
    begun = time.perf_counter()
    document = framework.compare(experiment, jobs=jobs).to_json()
    print(time.perf_counter() - begun)
    Path(output).write_text(document)


def speedup(jobs: int, folder: Path) -> dict[str, Any]:
    seconds: dict[int, float] = {}
    for number in (1, jobs):
        command = [sys.executable, "-m", "benchmarks.studies", "--compare", str(number), str(folder / f"{number}.json")]
        seconds[number] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    same = (folder / "1.json").read_bytes() == (folder / f"{jobs}.json").read_bytes()
    return {
        "cells": len(json.loads((folder / "1.json").read_text())["rows"]),
        "seconds_1": round(seconds[1], 2),
        f"seconds_{jobs}": round(seconds[jobs], 2),
        "speedup": round(seconds[1] / seconds[jobs], 2),
        "identical": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What many cells cost beside their simulation.")
    parser.add_argument("cells", type=int, nargs="?", default=10_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--compare", nargs=2, metavar=("JOBS", "OUTPUT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.compare:
        compare(int(given.compare[0]), given.compare[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(overhead(given.cells, Path(folder))), flush=True)
        if given.jobs > 1:
            print(json.dumps(speedup(given.jobs, Path(folder))))


if __name__ == "__main__":
    main()
