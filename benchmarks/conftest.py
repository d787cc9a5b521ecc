"""The option ``--long``, and a table of what grows how, below the tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pytest

# A case that takes less than this share of the largest one's time, or than these seconds, tells nothing of growth.
_SHARE, _LEAST = 0.01, 0.02
_GROWN = pytest.StashKey[list[dict[str, Any]]]()
_HEADER = ("size", "process", "in it", "memory", "flows", "events", "solves", "passes/solve", "most")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the benchmarks that take long")


@pytest.fixture
def grown(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """Rows of the table: family, unit, size, process and in-process seconds, bytes of memory, the engine's counters."""
    return request.config.stash.setdefault(_GROWN, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if rows := config.stash.get(_GROWN, []):
        terminalreporter.section("scale")
        for line in _table(rows):
            terminalreporter.line(line)


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    widths = (9, 10, 10, 11, 10, 8, 8, 13, 6)
    for family, of_family in groupby(rows, key=lambda row: str(row["family"])):
        members = list(of_family)
        exponent = _exponent(members)
        yield f"{family}: time ~ {members[0]['unit']} ^ {'?' if exponent is None else f'{exponent:.2f}'}"
        yield "".join(f"{title:>{width}}" for title, width in zip(_HEADER, widths, strict=True))
        for row in members:
            cells = (
                row["size"],
                f"{row['process']:.2f} s",
                f"{row['seconds']:.2f} s",
                f"{row['memory'] / 2**20:.0f} MiB",
                *(row[counter] for counter in ("flows", "events", "solves")),
                f"{row['passes'] / max(row['solves'], 1):.1f}",
                row["most_passes"],
            )
            yield "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _exponent(rows: list[dict[str, Any]]) -> float | None:
    """Return the slope of in-process time over size on logarithmic scales, by least squares."""
    least = max(_LEAST, _SHARE * max(row["seconds"] for row in rows))
    measured = [row for row in rows if row["seconds"] >= least]
    if len(measured) < 2:
        return None
    size, seconds = (np.log([float(row[column]) for row in measured]) for column in ("size", "seconds"))
    return float(np.polyfit(size, seconds, 1)[0])
