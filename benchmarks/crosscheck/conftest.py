"""SimGrid, or a skip that says how to get it; and a table of what was found, below the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.crosscheck.simgrid import MISSING, SimGrid, installed

_ROWS = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not installed():
        pytest.skip(MISSING)
    return tmp_path_factory.mktemp("simgrid")


@pytest.fixture(scope="session")
def simgrid(folder: Path) -> SimGrid:
    return SimGrid(folder)


@pytest.fixture(scope="session")
def tuned(folder: Path) -> SimGrid:
    return SimGrid(folder, tuned=True)


@pytest.fixture
def rows(request: pytest.FixtureRequest) -> list[str]:
    """Lines to print when all is done."""
    return request.config.stash.setdefault(_ROWS, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if rows := config.stash.get(_ROWS, []):
        terminalreporter.section("crosscheck with SimGrid")
        for row in rows:
            terminalreporter.line(row)
