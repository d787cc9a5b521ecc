"""What a file does, by running it, and which requests that serves."""

from collections.abc import Sequence
from functools import cached_property

from attrs import frozen

from fredfw import CollectiveRequest, Pattern, Phase, Schedule, check
from fredfw.errors import InputError, ScheduleError
from fredfw_collective_msccl.plan import Plan, Planned
from fredfw_collective_msccl.program import COLLECTIVES, Layout, Program
from fredfw_collective_msccl.running import Running

_REPLAYED = 1 << 22  # transfers x ranks x chunks that are replayed, which takes as many bytes several times


@frozen
class Proved:
    """A file that carries out its collective."""

    file: str
    content: Program | Plan
    layout: Layout  # by the root that it works for
    transfers: Sequence[Phase]

    def refusal(self, request: CollectiveRequest) -> str | None:
        layout, least, most = self.layout, self.content.least, self.content.most
        if request.ranks != layout.ranks:
            return f"{self.file!r} is for {layout.ranks} GPUs, not for {request.ranks}"
        if request.sizes is not None:
            return "it has one size for all pairs"
        if layout.pattern is not None and request.root != layout.root:
            return f"the root of {self.file!r} is {layout.root}, not {request.root}"
        if request.size < least or 0 < most < request.size:
            span = f"{least} to {most} bytes" if most else f"{least} bytes or more"
            return f"{self.file!r} is for {span}, not for {request.size:.12g}"
        if request.size % layout.whole:
            return f"{request.size:.12g} bytes cannot be divided into the {layout.whole} chunks of {self.file!r}"
        return None

    def schedule(self, request: CollectiveRequest) -> Schedule:
        proof = "none" if self.layout.pattern is None else "replay" if self.says_all else "author"
        return self._schedule(request.pattern, request.size, proof)

    def _schedule(self, pattern: Pattern, size: float, proof: str) -> Schedule:
        layout, chunks = self.layout, self.layout.chunks
        if layout.pattern is None:
            chunks = max([chunks, *(int(one.count.sum()) for one in self.transfers)])
        return Schedule(
            pattern,
            layout.ranks,
            size / layout.whole,
            chunks,
            self.transfers,
            owner=layout.owner(),
            origin=layout.origin(),
            root=layout.root,
            proof=proof,
        )

    @cached_property
    def says_all(self) -> bool:
        """Whether its transfers carry out the collective without what GPUs do between them, such as sums."""
        layout = self.layout
        if layout.pattern is None or len(self.transfers) * layout.ranks * layout.chunks > _REPLAYED:
            return False
        try:
            check(self._schedule(layout.pattern, float(layout.whole), "replay"))
        except ScheduleError:
            return False
        return True


def proved(content: Program | Plan, file: str) -> Proved:
    pattern = COLLECTIVES.get(content.collective)
    errors = []
    for root in range(content.ranks if pattern is not None and pattern.rooted else 1):  # which no file names
        layout = Layout(pattern, content.ranks, content.loop, content.in_place, root)
        layout.check()
        machine = Running(content, layout) if isinstance(content, Program) else Planned(content, layout)
        try:
            return Proved(file, content, layout, machine.transfers())
        except InputError as error:
            errors.append(error)
    raise errors[0]
