"""What a file does, by running it, and which requests that serves."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from fredfw import CollectiveRequest, Schedule, check
from fredfw.errors import InputError, ScheduleError
from fredfw_collective_msccl import plan
from fredfw_collective_msccl.layout import COLLECTIVES, Layout
from fredfw_collective_msccl.plan import Plan
from fredfw_collective_msccl.program import Program
from fredfw_collective_msccl.running import run
from fredfw_collective_msccl.transfers import Transfer, schedule

_REPLAYED = 1 << 22
"""Transfers x ranks x chunks that are replayed, which takes as many bytes several times."""


@frozen
class Proved:
    """A file that carries out its collective.

    Args:
        file: Its name.
        layout: Where chunks are before and after, by the root that it works for.
        transfers: What it sends.
        least: Bytes of the smallest buffer that it is for.
        most: Bytes of the largest, 0 for any.
        says_all: Whether its transfers alone carry out the collective, as fredfw's own check finds, too.
    """

    file: str
    layout: Layout
    transfers: Sequence[Transfer]
    least: int
    most: int
    says_all: bool = False

    def refusal(self, request: CollectiveRequest) -> str | None:
        """Return why it cannot serve a ``request`` of its pattern, or ``None``."""
        layout = self.layout
        if request.ranks != layout.ranks:
            return f"{self.file!r} is for {layout.ranks} GPUs, not for {request.ranks}"
        if request.sizes is not None:
            return "it has one size for all pairs"
        if layout.pattern is not None and request.root != layout.root:
            return f"the root of {self.file!r} is {layout.root}, not {request.root}"
        if request.size < self.least or 0 < self.most < request.size:
            span = f"{self.least} to {self.most} bytes" if self.most else f"{self.least} bytes or more"
            return f"{self.file!r} is for {span}, not for {request.size:.12g}"
        if request.size % layout.whole:
            return f"{request.size:.12g} bytes cannot be divided into the {layout.whole} chunks of {self.file!r}"
        return None

    def schedule(self, request: CollectiveRequest) -> Schedule:
        """Return what it does for a ``request`` that it does not refuse."""
        return schedule(self.transfers, self.layout, request.pattern, request.size, says_all=self.says_all)


def proved(content: Program | Plan, file: str) -> Proved:
    """Return what a file does that says ``content``; raises ``InputError`` as ``run``."""
    pattern = COLLECTIVES.get(content.collective)
    ranks = len(content.gpus if isinstance(content, Program) else content.sizes)
    errors = []
    for root in range(ranks if pattern is not None and pattern.rooted else 1):  # which no file names
        layout = Layout(pattern, ranks, content.loop, content.in_place, root)
        layout.check(file)
        try:
            done = run(content, layout, file) if isinstance(content, Program) else plan.run(content, layout, file)
        except InputError as error:
            errors.append(error)
        else:
            return Proved(file, layout, done, content.least, content.most, _says_all(done, layout))
    raise errors[0]


def _says_all(transfers: Sequence[Transfer], layout: Layout) -> bool:
    """Return whether ``transfers`` carry out the collective without what GPUs do between them, such as sums."""
    if layout.pattern is None or len(transfers) * layout.ranks * layout.chunks > _REPLAYED:
        return False
    try:
        check(schedule(transfers, layout, layout.pattern, float(layout.whole), says_all=True))
    except ScheduleError:
        return False
    return True
