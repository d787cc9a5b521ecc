"""How far the fidelities `compressed` and `estimate` are from `exact`, in 1,000 random cases.

python -m benchmarks.accuracy            # runs them, which takes minutes; then writes docs/accuracy.md
python -m benchmarks.accuracy --page     # writes it from what was kept of them
python -m benchmarks.accuracy SEED...    # prints these cases and their seconds as JSON
"""

import argparse
import csv
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from attrs import asdict, astuple, evolve, fields, frozen
from benchmarks.accuracy_cases import KINDS, PATTERNS, case, command
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from fredfw.fidelities import COMPRESSED, ESTIMATE, FIDELITIES
from fredfw.report.accuracy import ANY, COLLECTIVE, ITERATION, MICROBENCHMARK, Measured, percent
from fredfw_exporter_picture.figures import FONTS, drawn

CASES, WORST = 1000, 10
SMALL, LEFT = 1e-4, 5e-6  # an error that is next to none, and where such are on an axis
ROOT = Path(__file__).resolve().parents[1]
KEPT, TEMPLATE = ROOT / "benchmarks" / "accuracy.json", ROOT / "benchmarks" / "accuracy.md"
TABLE = ROOT / "src" / "fredfw" / "report" / "accuracy.csv"
PAGE, PICTURE = ROOT / "docs" / "accuracy.md", ROOT / "docs" / "_static" / "accuracy.svg"
SHOWN = (COMPRESSED, COLLECTIVE), (COMPRESSED, ITERATION), (ESTIMATE, ITERATION)
OTHERS = MICROBENCHMARK, ITERATION


@frozen
class Error:
    """How far an approximation of one case is from `exact`, as a share: approximate / exact - 1."""

    seed: int
    fabric: str
    what: str
    fidelity: str
    share: float


def record(seed: int) -> list[Any]:
    """Return what is kept of a case: topology, what, and its seconds to nine digits."""
    found, seconds = case(seed)
    return [found.topology["name"], found.what, *(float(f"{one:.9g}") for one in seconds)]


def errors(records: Sequence[Sequence[Any]]) -> list[Error]:
    """Return the errors of all cases, whose records are in the order of their seeds."""
    return [
        Error(seed, fabric, what, fidelity, other / exact - 1)
        for seed, (fabric, what, exact, *others) in enumerate(records)
        for fidelity, other in zip((COMPRESSED, ESTIMATE), others, strict=False)
    ]


def measured(found: Iterable[Error]) -> list[Measured]:
    """Return a row for each fidelity, fabric and what, and for what is all of these together."""
    groups = defaultdict[tuple[str, str, str], list[float]](list)
    for one in found:
        broad = {one.what, one.what if one.what in OTHERS else COLLECTIVE}
        for fabric, what in product((one.fabric, ANY), broad):
            groups[one.fidelity, fabric, what].append(one.share)
    rows = []
    for key in product((COMPRESSED, ESTIMATE), (*KINDS, ANY), (*PATTERNS, COLLECTIVE, *OTHERS)):
        if key in groups:
            shares = sorted(groups[key], key=abs)
            sizes = [abs(one) for one in shares]
            row = Measured(*key, len(shares), median(sizes), 0.0, shares[-1])
            rows.append(evolve(row, p95=sizes[row.reached - 1]))
    return rows


def picture(found: Sequence[Error]) -> bytes:
    """Return where the errors are: a line for each case, a dot where 95 of 100 end, and how many are next to none."""
    panels = (
        (COMPRESSED, "what", (*PATTERNS, *OTHERS)),
        (COMPRESSED, "fabric", KINDS),
        (ESTIMATE, "fabric", KINDS),
    )
    with rc_context({**FONTS, "font.sans-serif": ["DejaVu Sans"], "svg.fonttype": "none", "path.simplify": False}):
        figure = Figure(figsize=(7.2, 2.5), layout="constrained")
        for axes, (fidelity, attribute, names) in zip(figure.subplots(1, 3), panels, strict=True):
            for place, name in enumerate(names):
                mine = [one for one in found if one.fidelity == fidelity and getattr(one, attribute) == name]
                sizes = sorted(abs(one.share) for one in mine)
                seen = [one for one in sizes if one > SMALL]
                # One path for all lines of a row keeps the file small.
                lines = np.array([[(one, place - 0.35), (one, place + 0.35), (np.nan, np.nan)] for one in seen])
                axes.plot(*lines.reshape(-1, 2).T, color="#0072B2", lw=0.6)
                axes.plot(max(sizes[-(-95 * len(sizes) // 100) - 1], SMALL), place, "o", color="#D55E00", ms=3)
                axes.text(LEFT, place, f"{1 - len(seen) / len(sizes):.0%}", ha="center", va="center")
            axes.set(title=fidelity, xscale="log", xlim=(LEFT / 6, 300), ylim=(len(names) - 0.4, -0.6))
            axes.set_xlabel("error (%)")
            axes.set_xticks([LEFT, SMALL, 1e-2, 1, 100], ["less", "0.01", "1", "100", "10,000"])
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_yticks(range(len(names)), names if fidelity == COMPRESSED else [""] * len(names))
        return drawn(figure, "svg")


def page(records: Sequence[Sequence[Any]]) -> str:
    """Return the page, whole."""
    found = errors(records)
    rows = {(one.fidelity, one.fabric, one.what): one for one in measured(found)}
    # Of each case the largest error; where both approximations are equally far off, that of the closer one.
    largest = sorted(found, key=lambda one: (round(abs(one.share), 4), one.fidelity == COMPRESSED))
    worst = [*{one.seed: one for one in largest}.values()]
    worst = sorted(worst, key=lambda one: -abs(one.share))[:WORST]
    return TEMPLATE.read_text("utf-8").format(
        cases=f"{len(records):,}",
        collectives=sum(what in PATTERNS for _, what, *_ in records),
        kinds=len(KINDS),
        overall=table(
            [one.fidelity, one.what, str(one.cases), *map(percent, (one.median, one.p95, one.worst))]
            for (_, fabric, _), one in rows.items()
            if fabric == ANY
        ),
        signs=" and ".join(signs(found, fidelity) for fidelity in (COMPRESSED, ESTIMATE)),
        each=table([kind, *(percent(rows[one, kind, what].p95) for one, what in SHOWN)] for kind in KINDS),
        worst="\n".join(f"- {one.seed}: {one.fidelity} {percent(one.share)} %, {told(one)}" for one in worst),
    )


def table(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def told(one: Error) -> str:
    how = f"`{command(one.seed)}`"
    return how if one.what in PATTERNS else f"{one.what} on {one.fabric}, {how}"


def signs(found: Iterable[Error], fidelity: str) -> str:
    shares = [one.share for one in found if one.fidelity == fidelity and abs(one.share) > 0.01]
    return f"{sum(one > 0 for one in shares)} of {len(shares)} of `{fidelity}` are above 0"


def write(records: Sequence[Sequence[Any]]) -> None:
    """Write the table in the package, the picture and the page."""
    found = errors(records)
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Measured))
        writer.writerows((*row[:4], *(f"{share:.4g}" for share in row[4:])) for row in map(astuple, measured(found)))
    PICTURE.write_bytes(picture(found))
    PAGE.write_text(page(records), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="How far approximations are from exact.")
    parser.add_argument("seeds", metavar="SEED", type=int, nargs="*", help="only print these cases, as JSON")
    parser.add_argument("--page", action="store_true", help="run no cases")
    given = parser.parse_args()
    for seed in given.seeds:
        found, seconds = case(seed)
        print(json.dumps(asdict(found) | {"seconds": dict(zip(FIDELITIES, seconds, strict=False))}))
    if given.seeds:
        return
    if not given.page:
        KEPT.write_text(
            "[\n" + ",\n".join(json.dumps(record(seed)) for seed in range(CASES)) + "\n]\n", encoding="utf-8"
        )
        print(f"{time.process_time():.0f} s of the processor")
    write(json.loads(KEPT.read_text("utf-8")))


if __name__ == "__main__":
    main()
