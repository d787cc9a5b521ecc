"""Links that somebody has foreseen to have to himself, so that what crosses them need not be simulated."""

from __future__ import annotations

from abc import ABC, abstractmethod

from fredfw.fabric import Routes
from fredfw.typing import BoolArray, FloatArray, IntArray


class Claim(ABC):
    """Flows that are alone on their links, and of which is known what they will do as long as they are.

    Attributes:
        links: ``(links,)`` mask of those that it still uses.
    """

    links: BoolArray

    @abstractmethod
    def give_up(self) -> None:
        """Let go of the links, and put on them what is under way: others are about to use them, or they change."""

    @abstractmethod
    def moved(self) -> list[tuple[Routes, FloatArray]]:
        """Return routes, and the bytes that have left the source of each until now."""


class Claims:
    """The claims of one simulation, which share no links.

    Attributes:
        held: Those, each with the label that its bytes are accounted to.
    """

    def __init__(self) -> None:
        self.held: list[tuple[Claim, str]] = []

    def add(self, claim: Claim, label: str) -> bool:
        """Add ``claim``, whose bytes are accounted to ``label``, unless it shares links with another."""
        if any((claim.links & other.links).any() for other, _ in self.held):
            return False
        self.held.append((claim, label))
        return True

    def remove(self, claim: Claim) -> str:
        """Remove ``claim``; return its label."""
        (found,) = [one for one in self.held if one[0] is claim]
        self.held.remove(found)
        return found[1]

    def yield_links(self, links: IntArray | None = None) -> None:
        """Have those give up that use any of ``(k,)`` ``links``, or all."""
        for claim, _ in list(self.held):
            if links is None or claim.links[links].any():
                claim.give_up()

    def moved(self) -> list[tuple[str, Routes, FloatArray]]:
        """Return label, routes and bytes of what has left its source until now."""
        return [(label, *one) for claim, label in self.held for one in claim.moved()]
