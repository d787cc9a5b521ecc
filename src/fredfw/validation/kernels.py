"""Predicts kernels that were timed alone, matrix products and attention, by what is known of an accelerator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from attrs import asdict, frozen

from fredfw.errors import UnknownNameError, nearest
from fredfw.validation.points import WORK_CLASSES, Point
from fredfw.validation.splits import Part
from fredfw.validation.systems import System
from fredfw.validation.tables import Line, Reading, lines
from fredfw.workloads import Attention, Gemm, Npu, npus

GEMM, ATTENTION, PATTERN = "gemm", "attention", "kernel"
PATTERNS = PATTERN, GEMM, ATTENTION
"""What ``--pattern`` may name: all kernels, or one kind."""
COLUMNS: Mapping[str, tuple[str, ...]] = {
    GEMM: ("m", "n", "k"),
    ATTENTION: ("batch", "sequence", "heads", "kv_heads", "head_dim"),
}
"""What a row of each kind of kernel is known by, beside ``gpu``, ``dtype`` and ``time_us``."""
_PRECISIONS = {
    **dict.fromkeys(("", "bf16", "bfloat16", "fp16", "float16", "half"), ("bf16", 2.0)),
    **dict.fromkeys(("fp8", "float8", "e4m3"), ("fp8", 1.0)),
}
"""Precision and bytes of a number, by what tables call it."""
_BOUNDS = (0, 1e9, 1e11, math.inf)
_MODEL = "kernels"


@frozen(kw_only=True)
class KernelPoint(Point):
    """A kernel that was timed alone.

    Args:
        work: What it computes.
        precision: Of its products.
        number: Of its row, among those of its precision, from 0 on.
    """

    kind: ClassVar[str] = PATTERN

    work: Gemm | Attention
    precision: str
    number: int = 0

    @property
    def size_class(self) -> str:
        """One of ``WORK_CLASSES``."""
        classes = zip(WORK_CLASSES, pairwise(_BOUNDS), strict=True)
        return next(name for name, (low, high) in classes if low <= self.work.flops < high)

    @property
    def of(self) -> str:
        """Its shape."""
        work = self.work
        if isinstance(work, Gemm):
            return f"{work.m:.0f} x {work.n:.0f} x {work.k:.0f} {self.precision}"
        return f"{work.batch:.0f} x {work.queries:.0f} x {work.heads:.0f} ({work.shared:.0f}) x {work.width:.0f}"

    @property
    def same(self) -> tuple[Any, ...]:
        """See ``Point.same``."""
        return self.kind, self.system.name, self.work, self.precision

    def facts(self) -> dict[str, Any]:
        """See ``Point.facts``."""
        return {**super().facts(), "precision": self.precision, **asdict(self.work)}


def recognised(text: str) -> bool:
    """Return whether ``text`` begins with the header of a table of kernels."""
    header = {name.strip() for name in text.partition("\n")[0].split(",")}
    return any(header.issuperset(columns) for columns in COLUMNS.values())


def parse(text: str, source: str, reading: Reading) -> list[KernelPoint]:
    """Return the kernels of a table; ``source`` is who measured them, where it does not say.

    Raises:
        InputError: A value cannot be used, or the accelerator is not known; names line and column.
    """
    found: list[KernelPoint] = []
    counts: dict[str, int] = {}
    for line in lines(text):
        kind = GEMM if all(line[one] for one in COLUMNS[GEMM]) else ATTENTION
        first, second, third, *heads = (line.count(one, 1) for one in COLUMNS[kind])
        dtype = line["dtype"].casefold()
        if dtype not in _PRECISIONS:
            raise line.refusal("dtype", f"{line['dtype']!r} is not known", ", ".join(filter(None, _PRECISIONS)))
        precision, width = _PRECISIONS[dtype]
        number = counts[precision] = counts.get(precision, -1) + 1
        work: Gemm | Attention
        if kind == GEMM:
            work = Gemm(first, second, third, 1.0, width)
        else:
            shared, head = heads
            work = Attention(first, third, shared, second, second, head, causal=line["causal"] != "false")
        found.append(
            KernelPoint(
                system=_system(line, reading),
                source=line["source"] or source,
                pattern=kind,
                nodes=1,
                ranks=1,
                seconds=line.seconds("time_us"),
                where=f"line {line.number}",
                work=work,
                precision=precision,
                number=number,
            )
        )
    return found


def _system(line: Line, reading: Reading) -> System:
    """Return the accelerator that a table calls ``h100_sxm`` or ``NVIDIA H100 80GB HBM3``."""
    given = reading.system or line["gpu"]
    called = given.casefold().replace("_", "-")
    words = called.replace("-", " ").split()
    known = [name for name in npus.table() if name == called or name in words]
    if not known:
        message = f"no accelerator {given!r}{nearest(called, npus.table())}"
        if reading.system:
            raise UnknownNameError(message, key="--system", accepted=", ".join(npus.table()))
        raise line.refusal("gpu", message, ", ".join(npus.table()))
    name = max(known, key=len)
    return System(name, "", "accelerator", name.upper())


class KernelTimes:
    """Asks the accelerator that a point was measured on.

    Args:
        bare: Whether by its peak rate and its memory bandwidth alone.
    """

    def __init__(self, *, bare: bool = False) -> None:
        self._bare = bare
        self._npus: dict[tuple[str, str], Npu] = {}

    def check(self, point: KernelPoint) -> None:
        """Make sure that its accelerator has that precision; raises ``InputError``."""
        self._npu(point)

    def prepare(self, points: Sequence[KernelPoint], tell: Callable[[KernelPoint], None]) -> None:
        """See ``Predictor.prepare``; a kernel takes no time."""

    def seconds(self, point: KernelPoint) -> float:
        """Return how long the kernel takes."""
        npu, work = self._npu(point), point.work
        if self._bare:
            return max(work.flops / npu.peak, work.moved / npu.memory_bandwidth)
        if isinstance(work, Gemm):
            return npu.kernels.gemm_seconds(work, npu.peak, npu.memory_bandwidth)
        return npu.kernels.attention_seconds(work, npu.peak, npu.memory_bandwidth)

    def model(self, point: KernelPoint) -> Mapping[str, Any]:
        """See ``Predictor.model``."""
        return {"name": _MODEL, "status": self._npu(point).kernels.status}

    def part(self, point: KernelPoint) -> Part:
        """See ``Predictor.part``: every other row of the tables of npus.toml was fitted."""
        return Part.FITTED if point.table in npus.tables() and point.number % 2 == 0 else Part.HELD_OUT

    def _npu(self, point: KernelPoint) -> Npu:
        key = point.system.name, point.precision
        if key not in self._npus:
            self._npus[key] = Npu.of(*key)
        return self._npus[key]
