"""The interface of a collective algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import field, frozen
from attrs.converters import optional

from fredfw import arrays, limits
from fredfw.answers import brief
from fredfw.collectives.pattern import Pattern, pattern_of
from fredfw.collectives.schedule import Schedule
from fredfw.errors import InputError, UnsupportedError, placed
from fredfw.fabric.view import GroupView
from fredfw.typing import FloatArray
from fredfw.units import Unit, parse


def _bytes(size: float | str) -> float:
    with placed(key="size"):
        return parse(size, Unit.BYTES)


def _matrix(sizes: object) -> FloatArray:
    matrix = arrays.real(sizes)
    if matrix is None:
        raise InputError(f"{brief(sizes)} is refused", key="sizes", accepted="a matrix of numbers of bytes")
    return matrix


@frozen(eq=False)
class CollectiveRequest:
    """What is asked of an algorithm; ``InputError`` where that is not possible.

    Args:
        pattern: The collective, or its name.
        ranks: Size of the group, at least 1; 1 or 2 for a point-to-point.
        size: Bytes of the per-rank buffer, the larger of input and output (nccl-tests, doc/PERFORMANCE.md), or text
            with a unit; the block of a rank, where a pattern has one, is ``size / ranks``.
        root: The special rank of a rooted pattern; a point-to-point goes from it to the other rank.
        sizes: All-to-all-v only, in place of ``size``: ``(ranks, ranks)`` bytes from row to column; the diagonal stays.
    """

    pattern: Pattern = field(converter=pattern_of)
    ranks: int
    size: float = field(converter=_bytes)
    root: int = 0
    sizes: FloatArray | None = field(default=None, converter=optional(_matrix))

    def __attrs_post_init__(self) -> None:
        for key in ("ranks", "root"):
            number = getattr(self, key)
            if isinstance(number, bool) or not isinstance(number, int | np.integer):
                message = f"{number!r} is not a whole number"
                raise InputError(message, key=key, accepted="the number of a rank, or of ranks")
        if self.ranks < 1:
            raise InputError(f"a group of {self.ranks}", key="ranks", accepted="at least 1")
        if self.size < 0:
            raise InputError(f"{self.size!r} bytes", key="size", accepted="a finite number of bytes, 0 or more")
        if not 0 <= self.root < self.ranks:
            raise InputError(f"root {self.root} is not in the group", key="root", accepted=f"0 to {self.ranks - 1}")
        if self.root and not self.pattern.rooted:
            raise InputError(f"root {self.root} for {self.pattern}, which has no root", key="root", accepted="0")
        if self.pattern is Pattern.POINT_TO_POINT and self.ranks > 2:
            raise InputError(f"a point-to-point among {self.ranks} ranks", key="ranks", accepted="2")
        if self.sizes is not None:
            if self.pattern is not Pattern.ALL_TO_ALL:
                raise InputError(f"sizes given for {self.pattern}", key="sizes", accepted="all-to-all")
            accepted = f"{self.ranks} x {self.ranks} finite numbers of bytes, 0 or more"
            if self.sizes.shape != (self.ranks, self.ranks):
                raise InputError(f"an array of shape {self.sizes.shape}", key="sizes", accepted=accepted)
            bad = self.sizes[~(np.isfinite(self.sizes) & (self.sizes >= 0))]
            if bad.size:
                raise InputError(f"{bad[0]} bytes", key="sizes", accepted=accepted)


class CollectiveAlgorithm(ABC):
    """Turns a request into a schedule; plugins derive attrs classes from it, whose fields are its options."""

    name: ClassVar[str]
    patterns: ClassVar[frozenset[Pattern]]
    """The patterns it knows, in one configuration or another."""
    proportional: ClassVar[bool] = False
    """Whether ``size`` changes the bytes of chunks alone, in proportion; ``auto`` asks for one schedule then."""

    reads_links: ClassVar[bool] = False
    """Whether it looks at ``GroupView.links``, else there are none to see; groups with other links are planned anew."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Who writes other schedules than the class it derives from has to say so anew.
        if "schedule" in vars(cls):
            cls.proportional = vars(cls).get("proportional", False)

    def __str__(self) -> str:
        given = [
            f"{option.name}={getattr(self, option.name)}"
            for option in getattr(type(self), "__attrs_attrs__", ())
            if getattr(self, option.name) != option.default
        ]
        return f"{self.name}({', '.join(given)})" if given else self.name

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        """Return the configurations that ``auto`` tries for ``pattern``, if any: by default the one without options."""
        return [cls()]

    def served_patterns(self) -> frozenset[Pattern]:
        """Return the patterns that this configuration serves: all ``patterns`` of the class, unless overridden."""
        return self.patterns

    def sees(self, view: GroupView) -> GroupView:
        """Return what of ``view`` this algorithm may look at: with links only if it ``reads_links``."""
        return view if self.reads_links else view.without_links

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        """Return why this algorithm cannot serve ``request`` on ``view``, or ``None`` if it can."""
        served = self.served_patterns()
        if request.pattern not in served:
            return f"it does not do {request.pattern}, only {', '.join(sorted(served))}"
        # However it is done, each pair of ranks has a block of its own.
        blocks = request.ranks**2 if request.pattern is Pattern.ALL_TO_ALL else 0
        return limits.excess("transfers", blocks)

    def equivalent(self, view: GroupView) -> CollectiveAlgorithm:
        """Return the simplest configuration that writes the same schedules for ``view``; ``auto`` tries one of them."""
        return self

    def worthwhile(self, view: GroupView) -> bool:
        """Return whether ``auto`` should try it in groups seen as ``view``: yes, unless it cannot be the fastest."""
        return True

    def undivided(self) -> CollectiveAlgorithm:
        """Return the configuration that divides the data into the fewest pieces: this one, unless overridden.

        As many bytes go between two ranks, in no more flows at once; if that takes too long, ``auto`` tries no pieces.
        """
        return self

    @abstractmethod
    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        """Return the schedule; called only where ``refusal`` returned ``None`` and the group has two or more ranks."""

    def plan(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        """Return the schedule of ``request``; that of a single rank is empty.

        ``InputError`` where ``view`` has another number of ranks, ``UnsupportedError`` with the reason of a refusal.
        """
        if request.ranks != view.size:
            message = f"a request for {request.ranks} ranks on a group of {view.size}"
            raise InputError(message, key="ranks", accepted=str(view.size))
        view = self.sees(view)
        reason = self.refusal(request, view)
        if reason is not None:
            raise UnsupportedError(f"algorithm {self.name!r} cannot do this {request.pattern}: {reason}")
        if request.ranks == 1:
            size = request.size if request.sizes is None else request.sizes[0, 0]
            zero = np.zeros(1, dtype=np.intp)
            return Schedule(request.pattern, 1, size, 1, (), owner=zero, origin=zero)
        return self.schedule(request, view)
