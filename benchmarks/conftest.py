"""The option ``--long``, and tables of what was found, below the tests."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from benchmarks.crosscheck.simgrid import MISSING, SimGrid, installed

# A case that takes less than this share of the largest one's time, or than these seconds, tells nothing of growth.
_SHARE, _LEAST = 0.01, 0.02
_GROWN = pytest.StashKey[list[dict[str, Any]]]()
_AGREES = pytest.StashKey[list[str]]()
_HEADER = ("size", "process", "in it", "memory", "flows", "events", "solves", "passes/solve", "most")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the benchmarks that take long")


@pytest.fixture
def grown(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """Rows of the table: family, unit, size, process and in-process seconds, bytes of memory, the engine's counters."""
    return request.config.stash.setdefault(_GROWN, [])


@pytest.fixture
def rows(request: pytest.FixtureRequest) -> list[str]:
    """Lines of what SimGrid says."""
    return request.config.stash.setdefault(_AGREES, [])


@pytest.fixture(scope="session")
def simgrid(tmp_path_factory: pytest.TempPathFactory) -> SimGrid:
    return _simgrid(tmp_path_factory)


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> SimGrid:
    return _simgrid(tmp_path_factory, tuned=True)


def _simgrid(tmp_path_factory: pytest.TempPathFactory, *, tuned: bool = False) -> SimGrid:
    """Return SimGrid, or skip and say how to get it."""
    if not installed():
        pytest.skip(MISSING)
    return SimGrid(tmp_path_factory.mktemp("simgrid"), tuned=tuned)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    sections = {
        "crosscheck with SimGrid": config.stash.get(_AGREES, []),
        "scale": list(_table(config.stash.get(_GROWN, []))),
    }
    for title, lines in sections.items():
        if lines:
            terminalreporter.section(title)
            terminalreporter.write("\n".join([*lines, ""]))


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
