"""Predicts kernels that were timed alone, matrix products and attention, by what is known of an accelerator."""

from bisect import bisect_right
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from attrs import asdict, frozen

from fredfw.errors import UnknownNameError, nearest
from fredfw.lines import Line
from fredfw.validation.points import WORK_CLASSES, Part, Point, System
from fredfw.validation.tables import Reading
from fredfw.validation.transports import Predictor
from fredfw.workloads import Attention, Gemm, Npu, kernel_tables, npus
from fredfw.workloads.kernel_tables import ATTENTION, GEMM

PATTERN = "kernel"
PATTERNS = PATTERN, GEMM, ATTENTION  # what ``--pattern`` may name: all kernels, or one kind
_BOUNDS = 1e9, 1e11
_npu = cache(Npu.of)


@frozen(kw_only=True)
class KernelPoint(Point):
    """A kernel that was timed alone."""

    kind: ClassVar[str] = PATTERN

    work: Gemm | Attention
    precision: str
    fitted: bool = False  # whether it is one of every other row of its kind and precision

    @property
    def size_class(self) -> str:
        return WORK_CLASSES[bisect_right(_BOUNDS, self.work.flops)]

    @property
    def of(self) -> str:
        work = self.work
        if isinstance(work, Gemm):
            return f"{work.m:.0f} x {work.n:.0f} x {work.k:.0f} {self.precision}"
        return f"{work.batch:.0f} x {work.queries:.0f} x {work.heads:.0f} ({work.shared:.0f}) x {work.width:.0f}"

    @property
    def same(self) -> tuple[Any, ...]:
        return self.kind, self.system.name, self.work, self.precision

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "precision": self.precision, **asdict(self.work)}


def parse(text: str, source: str, reading: Reading) -> list[KernelPoint]:
    return [
        KernelPoint(
            system=_system(one.line, reading),
            source=one.line["source"] or source,
            pattern=one.kind,
            nodes=1,
            ranks=1,
            seconds=one.seconds,
            where=f"line {one.line.number}",
            work=one.work,
            precision=one.precision,
            fitted=one.fitted,
        )
        for one in kernel_tables.parse(text)
    ]


def _system(line: Line, reading: Reading) -> System:
    given = reading.system or line["gpu"]
    called = given.casefold().replace("_", "-")
    words = called.replace("-", " ").split()
    known = [name for name in npus.table() if name == called or name in words]
    if not known:
        message = f"no accelerator {given!r}{nearest(called, npus.table())}"
        key = "--system" if reading.system else line.place("gpu")
        raise UnknownNameError(message, key=key, accepted=", ".join(npus.table()))
    name = max(known, key=len)
    return System(name, "", "accelerator", name.upper())


class KernelTimes(Predictor):
    """Asks the accelerator that a point was measured on; where ``bare``, for its peak rates alone."""

    def __init__(self, *, bare: bool = False) -> None:
        self._bare = bare

    def check(self, point: KernelPoint) -> None:
        _npu(point.system.name, point.precision)

    def seconds(self, point: KernelPoint) -> float:
        npu, work = _npu(point.system.name, point.precision), point.work
        if self._bare:
            return max(work.flops / npu.peak, work.moved / npu.memory_bandwidth)
        return npu.kernels.seconds(work, npu.peak, npu.memory_bandwidth)

    def model(self, point: KernelPoint) -> Mapping[str, Any]:
        return {"name": "kernels", "status": _npu(point.system.name, point.precision).kernels.status}

    def part(self, point: KernelPoint) -> Part:
        """See ``Predictor.part``: every other row of the tables of npus.toml was fitted."""
        return Part.FITTED if point.fitted and point.table in npus.tables() else Part.HELD_OUT
