"""How far an approximation may be from ``exact``, in words; ``benchmarks/accuracy.py`` has measured it."""

import csv
import math
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from attrs import frozen

from fredfw.experiment.results import CollectiveSweep, Comparison

ANY, COLLECTIVE, ITERATION, MICROBENCHMARK = "any", "collective", "iteration", "microbenchmark"
_FEWEST = 20  # cases that tell what 95 of 100 do
_MOST = 3  # sentences


@frozen
class Measured:
    """Errors of random cases of one fidelity, as shares: approximate / exact - 1."""

    fidelity: str
    fabric: str  # name of the topology, or ANY
    what: str  # pattern of a collective, COLLECTIVE for all of these, MICROBENCHMARK, or ITERATION of a model
    cases: int
    median: float  # of the sizes of the errors
    p95: float  # the size that those of ``reached`` cases do not pass
    worst: float  # above 0 the approximation takes too long

    @property
    def reached(self) -> int:
        """The fewest cases that are at least 95 % of all."""
        return math.ceil(0.95 * self.cases)


@cache
def table() -> Mapping[tuple[str, str, str], Measured]:
    rows = csv.reader(files("fredfw.report").joinpath("accuracy.csv").read_text("utf-8").splitlines()[1:])
    return {(a, b, c): Measured(a, b, c, int(cases), *map(float, shares)) for a, b, c, cases, *shares in rows}


def of_comparison(comparison: Comparison) -> list[str]:
    known = {}
    for cell in comparison.provenance.get("cells", ()):
        place, topology, workload = (cell.get(key, {}) for key in ("cell", "topology", "workload"))
        what = MICROBENCHMARK if workload.get("name") == MICROBENCHMARK else ITERATION
        known[place.get("workload"), place.get("fabric")] = topology.get("name", ANY), what
    unknown = ANY, ITERATION
    return sentences((row.fidelity, *known.get((row.workload, row.fabric), unknown)) for row in comparison.rows)


def of_sweep(sweep: CollectiveSweep) -> list[str]:
    topology = sweep.provenance.get("topology", {}).get("name", ANY)
    return sentences((one.fidelity, topology, one.pattern) for one in sweep.results)


def sentences(used: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return a sentence for each (fidelity, name of the topology, what) that differs: the worst first, a few."""
    found = dict.fromkeys(row for one in used for row in [_closest(*one)] if row)
    return [_said(one) for one in sorted(found, key=lambda one: (-abs(one.worst), one.fabric, one.what))[:_MOST]]


def _closest(fidelity: str, fabric: str, what: str) -> Measured | None:
    broad = what if what in (ITERATION, MICROBENCHMARK) else COLLECTIVE
    rows = (table().get((fidelity, *key)) for key in ((fabric, what), (fabric, broad), (ANY, what), (ANY, broad)))
    return next((row for row in rows if row and row.cases >= _FEWEST), None)


def _said(one: Measured) -> str:
    where = "all fabrics" if one.fabric == ANY else f"{one.fabric} fabrics"
    many = f"{one.reached} of {one.cases} random {one.what}s"
    within, worst = percent(abs(one.p95)), percent(one.worst)
    return f"{one.fidelity}: on {where}, within {within} % of exact in {many}, at worst {worst} % (docs/accuracy.md)"


def percent(share: float) -> str:
    """Return an error in per cent, with two digits or all before the point; 0.01 stands for what is less."""
    size = max(100 * abs(share), 0.01)
    return f"{'-' if share < 0 else ''}{size:{',.0f' if size >= 10 else '.2g'}}"
