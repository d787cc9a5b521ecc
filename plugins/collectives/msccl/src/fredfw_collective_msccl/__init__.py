"""Collective algorithms from files, ``msccl`` and ``mscclpp``, and the exporter ``msccl``, which writes them."""

import re
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from attrs import frozen

from fredfw import (
    CollectiveAlgorithm,
    CollectiveRequest,
    CollectiveResult,
    Exporter,
    File,
    GroupView,
    Pattern,
    Schedule,
    units,
)
from fredfw_collective_msccl import plan, reading
from fredfw_collective_msccl.plan import Plan
from fredfw_collective_msccl.program import PROTOCOLS, Program
from fredfw_collective_msccl.proof import Proved, proved
from fredfw_collective_msccl.writing import text, written

__all__ = ["Msccl", "MscclExporter", "Mscclpp"]

fredfw_contract = 2


@frozen
class _FromFile(CollectiveAlgorithm):
    """What a file says, for as many GPUs as it is for."""

    patterns: ClassVar[frozenset[Pattern]] = frozenset(Pattern)
    proportional: ClassVar[bool] = True

    file: File | None = units.file(None, help="the algorithm; nothing is done without one")

    def __attrs_post_init__(self) -> None:
        _ = self._proved  # or it is refused when it is named

    @staticmethod
    @abstractmethod
    def _content(data: bytes) -> Program | Plan:
        """Return what the ``data`` of a file say."""

    @cached_property
    def _proved(self) -> Proved | None:
        if self.file is None:
            return None
        with self.file.named():
            return proved(self._content(self.file.read()), self.file.path)

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        # There is no file that ``auto`` could try.
        return ()

    def served_patterns(self) -> frozenset[Pattern]:
        pattern = None if self._proved is None else self._proved.layout.pattern
        return self.patterns if pattern is None else frozenset({pattern})

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        if self._proved is None:
            return "it needs a file"
        return super().refusal(request, view) or self._proved.refusal(request)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        assert self._proved is not None  # else it is refused
        return self._proved.schedule(request)


@frozen
class Msccl(_FromFile):
    """What an XML file of MSCCL says, for as many GPUs as it is for.

    The file is run symbolically when it is named. One that does not carry out its collective, whatever the order in
    which its steps get on, is refused with GPU, threadblock and step. One of ``custom`` is run to its end and serves
    whatever is asked; results say that nobody has proved it.

    Each send is a transfer. It waits for the steps before it in its threadblock, for those that it names, and for a
    free slot, of which a connection has eight. Copies and sums within a GPU take no time.
    """

    name: ClassVar[str] = "msccl"
    _content = staticmethod(reading.read)


@frozen
class Mscclpp(_FromFile):
    """What an execution plan of MSCCL++ says, in JSON, for as many GPUs as it is for.

    It is run symbolically as that of ``msccl`` is. Each put, and each read of another GPU's memory, is a transfer. It
    waits for the operations before it in its threadblock, and for the signals that these have waited for. Signals take
    no time. Packets, multicast and semaphores are refused, with the operation.
    """

    name: ClassVar[str] = "mscclpp"
    _content = staticmethod(plan.read)


@frozen
class MscclExporter(Exporter):
    """The schedule of a collective as an XML file that MSCCL runs on GPUs, one for each rank.

    What it writes has been read again and proved. A transfer waits for what its rank does in the phases before it.
    """

    name: ClassVar[str] = "msccl"
    takes: ClassVar[tuple[str, ...]] = ("collective",)
    suffixes: ClassVar[tuple[str, ...]] = (".xml",)

    protocol: str = units.choice(PROTOCOLS, "Simple", help="protocol that MSCCL is to use: " + ", ".join(PROTOCOLS))

    def export(self, result: CollectiveResult) -> str:
        """See ``Exporter.export``; raises ``UnsupportedError`` for what MSCCL has not, such as sums in the network."""
        name = re.sub(r"\W+", "_", f"{result.pattern} {result.algorithm}").strip("_")
        return text(written(result.schedule, f"{name}_{result.ranks}", self.protocol))
