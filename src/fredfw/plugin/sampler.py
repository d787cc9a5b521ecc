"""The interface of a sampler: which points of a study's space are run, at which rung, and in which order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from attrs import frozen


@frozen
class Trial:
    """A point to run, by its number in the space."""

    point: int
    rung: str | None = None  #: A fidelity, or the name of a rung of the study; ``None`` for what the experiment says.


@frozen
class Told:
    """What has come of a trial."""

    trial: Trial
    losses: tuple[float, ...] | None  #: One for each objective, less is better; ``None`` where there is no result.
    feasible: bool  #: Whether there is a result that keeps the limits of the study.


@frozen(eq=False)
class SearchSpace:
    """What a sampler chooses from."""

    names: tuple[str, ...]  #: Of the dimensions, in order; the cells of the experiment are dimensions like any other.
    values: tuple[tuple[Any, ...], ...]  #: Of each dimension, in order.
    #: Of each that keeps the constraints, the number of its value in each dimension that it has, or ``None``.
    points: tuple[tuple[int | None, ...], ...]
    objectives: int = 1

    def __len__(self) -> int:
        return len(self.points)

    def find(self, choice: Sequence[int]) -> int | None:
        """Return the point with these numbers of values, as far as it has the dimensions, or ``None``."""
        for absent in self._shapes:
            wanted = tuple(None if one in absent else number for one, number in enumerate(choice))
            if wanted in self._numbers:
                return self._numbers[wanted]
        return None

    @cached_property
    def _numbers(self) -> dict[tuple[int | None, ...], int]:
        return {point: number for number, point in enumerate(self.points)}

    @cached_property
    def _shapes(self) -> tuple[frozenset[int], ...]:
        """The sets of dimensions that points do not have."""
        found = {frozenset(one for one, number in enumerate(point) if number is None): None for point in self.points}
        return tuple(found)


class Search(ABC):
    """One search, which remembers what it was told."""

    @abstractmethod
    def ask(self) -> Sequence[Trial]:
        """Return what to run next, as much at once as possible; nothing where the search is over."""

    @abstractmethod
    def tell(self, told: Sequence[Told]) -> None:
        """Take note of what has come of all that was asked for, in the order in which it was asked for."""


class Sampler(ABC):
    """Chooses which points of a space are run; plugins derive attrs classes from it, whose fields are its options."""

    name: ClassVar[str]

    @abstractmethod
    def start(self, space: SearchSpace) -> Search:
        """Return a new search of ``space``; equal samplers that are told the same ask for the same."""
