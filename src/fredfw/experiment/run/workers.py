"""Other processes that run cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial

from attrs import frozen

from fredfw.errors import InputError
from fredfw.experiment.run.cells import CellSpec, Outcome, count_cell, run_cell
from fredfw.plugin.manager import PluginManager
from fredfw.plugin.setup import Setup

# How many cells an executor runs at once where that is not known.
_MANY = 64


@frozen(eq=False)
class Workers:
    """Other processes that run cells.

    Args:
        executor: Sends calls to them.
        jobs: How many cells they run at once, at most.
        setup: Their plugins.
    """

    executor: Executor
    jobs: int
    setup: Setup

    @property
    def run(self) -> Callable[[CellSpec], Outcome]:
        """What they are sent."""
        return partial(run_cell, setup=self.setup)

    def transfers(self, specs: Sequence[CellSpec]) -> Iterator[int]:
        """Yield about how many transfers each of ``specs`` has."""
        return self.executor.map(partial(count_cell, setup=self.setup), specs)


@contextmanager
def workers(jobs: int, executor: Executor | str | None, plugins: PluginManager) -> Iterator[Workers | None]:
    """Give other processes with the same plugins, or ``None`` where this process is to run cells.

    Args:
        jobs: How many processes; 1 is this one.
        executor: What to use instead: one that is open, and stays so, or an address.
        plugins: Those of this process.

    Raises:
        InputError: A number of jobs or an address that is impossible, or plugins that no other process has.
    """
    if jobs < 1:
        raise InputError(f"{jobs!r} is not a number of processes", key="jobs", accepted="a whole number of at least 1")
    if executor is None and jobs == 1:
        yield None
        return
    setup = Setup.of(plugins)
    if isinstance(executor, Executor):
        yield Workers(executor, _MANY if jobs == 1 else jobs, setup)
        return
    from fredfw.experiment.run.executors import connect, processes

    opened = processes(jobs) if executor is None else connect(executor)
    with opened as found:
        yield Workers(found, jobs if executor is None else _MANY, setup)
