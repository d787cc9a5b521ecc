"""Thread blocks that run symbolically, each step as soon as it can, until all are done or none gets on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from attrs import define, field, frozen

from fredfw.errors import InputError
from fredfw_collective_msccl.layout import Layout
from fredfw_collective_msccl.memory import FaultError, Memory
from fredfw_collective_msccl.transfers import NOTHING, Journal, Need

_PROVED = "a file whose steps carry out its collective"


@frozen
class Where:
    """A step of a file, for messages.

    Args:
        gpu: Number.
        block: Number of the thread block.
        step: Number.
    """

    gpu: int
    block: int
    step: int

    def __str__(self) -> str:
        return f"GPU {self.gpu}, threadblock {self.block}, step {self.step}"


@define(eq=False)
class Runner:
    """A thread block.

    Args:
        gpu: Its GPU.
        number: Its own.
        length: Steps that it has.
        at: Step that it is at.
        before: Steps that have come before, its own included, as bits.
        done: What is so when it is done with its last step.
    """

    gpu: int
    number: int
    length: int
    at: int = field(default=0, init=False)
    before: int = field(default=0, init=False)
    done: frozenset[Need] = field(default=NOTHING, init=False)

    @property
    def where(self) -> Where:
        """The step that it is at."""
        return Where(self.gpu, self.number, self.at)


R = TypeVar("R", bound=Runner)


class Machine(ABC, Generic[R]):
    """All GPUs.

    Args:
        layout: Where chunks are before and after.
        sizes: Chunks of each buffer by letter, for each GPU.
        file: For messages.

    Attributes:
        memory: Their buffers.
        journal: What they have sent.
        names: The steps that have run, in that order.
    """

    def __init__(self, layout: Layout, sizes: Sequence[Mapping[str, int]], file: str) -> None:
        self._file = file
        self.names: list[Where] = []
        self.memory = Memory(layout, sizes, lambda step: str(self.names[step]))
        self.journal = Journal()

    @abstractmethod
    def hindered(self, runner: R) -> str | None:
        """Return what the step of ``runner`` waits for, in words, or ``None``."""

    @abstractmethod
    def do(self, runner: R, number: int) -> None:
        """Do the step of ``runner``, the one of this ``number`` to run; raises ``FaultError``."""

    def error(self, where: Where, what: str, accepted: str | None = None) -> InputError:
        """Return an error at a step."""
        return InputError(f"{where}: {what}", file=self._file, accepted=accepted)

    def drive(self, runners: Sequence[R]) -> None:
        """Run all steps of ``runners``.

        Raises:
            InputError: One never runs, or does what it must not.
        """
        waiting = [runner for runner in runners if runner.length]
        while waiting:
            moved = [runner for runner in waiting if self._go_on(runner)]
            waiting = [runner for runner in waiting if runner.at < runner.length]
            if waiting and not moved:
                raise self.error(waiting[0].where, f"never runs: it waits for {self.hindered(waiting[0])}")

    def check_end(self) -> None:
        """Raise ``InputError`` unless every chunk is where it must be."""
        wrong = self.memory.missing()
        if wrong is None:
            return
        gpu, writer, what = wrong
        if writer < 0:
            raise InputError(f"GPU {gpu}: no step puts it there: {what}", file=self._file, accepted=_PROVED)
        raise self.error(self.names[writer], f"leaves wrong data: {what} on GPU {gpu}", _PROVED)

    def _go_on(self, runner: R) -> bool:
        """Do as many steps as possible; return whether there was one."""
        start = runner.at
        while runner.at < runner.length and self.hindered(runner) is None:
            self.names.append(runner.where)
            try:
                self.do(runner, len(self.names) - 1)
            except FaultError as fault:
                raise self.error(runner.where, str(fault)) from None
            runner.at += 1
        return runner.at > start
