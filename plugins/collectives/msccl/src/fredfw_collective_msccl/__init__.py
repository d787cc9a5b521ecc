"""Collective algorithms from files: ``msccl`` reads MSCCL's XML."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from attrs import frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, File, GroupView, Pattern, Schedule, hookimpl, units
from fredfw_collective_msccl.program import Program
from fredfw_collective_msccl.proof import Proved, proved
from fredfw_collective_msccl.reading import read

__all__ = ["Msccl", "fredfw_collectives"]

fredfw_contract = 2


@frozen
class Msccl(CollectiveAlgorithm):
    """What an XML file of MSCCL says, for as many GPUs as it is for.

    The file is run symbolically when it is named: one that does not carry out its collective, whatever the order in
    which its steps get on, is refused with GPU, threadblock and step. What is ``custom`` is run to its end, and serves
    whatever is asked; results say that nobody has proved it.

    Each send is a transfer. It waits for the steps before it in its threadblock, for those that it names, and for a
    free slot, of which a connection has eight. Copies and sums within a GPU take no time.
    """

    name: ClassVar[str] = "msccl"
    patterns: ClassVar[frozenset[Pattern]] = frozenset(Pattern)
    proportional: ClassVar[bool] = True

    file: File | None = units.file(None, help="an algorithm in MSCCL's XML; nothing is done without one")

    def __attrs_post_init__(self) -> None:
        """Read and run the file.

        Raises:
            InputError: As ``read`` and ``run``.
        """
        _ = self._proved

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        """Return none: there is no file that ``auto`` could try."""
        del pattern
        return ()

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        """See ``CollectiveAlgorithm.variants``; there is no file that ``auto`` could try."""
        del pattern
        return ()

    @cached_property
    def program(self) -> Program | None:
        """What the file says; ``None`` without one."""
        return None if self.file is None else read(self.file.read(), self.file.path)

    @cached_property
    def _proved(self) -> Proved | None:
        return None if self.program is None or self.file is None else proved(self.program, self.file.path)

    def served_patterns(self) -> frozenset[Pattern]:
        """See ``CollectiveAlgorithm.served_patterns``."""
        if self._proved is None or self._proved.layout.pattern is None:
            return self.patterns
        return frozenset({self._proved.layout.pattern})

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        """See ``CollectiveAlgorithm.refusal``."""
        if self._proved is None:
            return "it needs a file"
        return super().refusal(request, view) or self._proved.refusal(request)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        """See ``CollectiveAlgorithm.schedule``."""
        del view
        assert self._proved is not None  # else it is refused
        return self._proved.schedule(request)


@hookimpl
def fredfw_collectives() -> Sequence[type[CollectiveAlgorithm]]:
    """Register ``msccl``."""
    return [Msccl]
