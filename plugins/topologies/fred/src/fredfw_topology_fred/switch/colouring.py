"""Colours for a conflict graph: neighbours differ, and no *clash*, a larger set, may be of one colour only."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

STEPS = 200_000  # colours that one search may try, a few seconds' worth; a dozen flows never need that many


@define
class Search:
    """Colours graphs by DSATUR (Brelaz, 1979: the vertex with the fewest colours left first) with backtracking.

    Within ``limit`` steps the search is exact: where it finds nothing there is nothing. What comes after has only the
    greedy order left, for it may not go back, and ``exhausted`` is set when that fails.
    """

    colours: int  # how many there are; they are interchangeable
    limit: int = STEPS  # steps for all graphs together
    steps: int = field(default=0, init=False)  # colours tried so far
    exhausted: bool = field(default=False, init=False)  # whether any graph was given up

    def colour(self, conflicts: Sequence[int], clashes: Sequence[int]) -> list[int] | None:
        """Return the colour of each vertex, or ``None`` if there is no colouring (or none was found in time).

        ``conflicts`` are the neighbours of each vertex, ``clashes`` sets of two or more vertices that may not all have
        one colour, both as bit masks.
        """
        count = len(conflicts)
        classes = [0] * self.colours  # vertices of each colour, as bit masks
        colour_of = [-1] * count
        degrees = [mask.bit_count() for mask in conflicts]
        concerning = [[clash for clash in clashes if clash >> vertex & 1] for vertex in range(count)]

        def extend(left: int, used: int, banned: list[int]) -> bool:
            """Colour the vertices of the mask ``left``; ``banned`` has the colours each may not take, as bit masks."""
            if not left:
                return True
            # Unused colours are equivalent, so only one of them need be tried.
            choices = (1 << min(used + 1, self.colours)) - 1
            vertex = min(_bits(left), key=lambda one: ((choices & ~banned[one]).bit_count(), -degrees[one]))
            for colour in _bits(choices & ~banned[vertex]):
                self.steps += 1
                classes[colour] |= 1 << vertex
                colour_of[vertex] = colour
                after = banned.copy()
                for neighbour in _bits(conflicts[vertex] & left):
                    after[neighbour] |= 1 << colour
                for clash in concerning[vertex]:
                    rest = clash & ~classes[colour]
                    if rest & (rest - 1) == 0:  # one is left, and must take another colour
                        after[rest.bit_length() - 1] |= 1 << colour
                if extend(left & ~(1 << vertex), max(used, colour + 1), after):
                    return True
                classes[colour] &= ~(1 << vertex)
                if self.steps >= self.limit:
                    self.exhausted = True
                    return False
            return False

        return colour_of if extend((1 << count) - 1, 0, [0] * count) else None


def _bits(mask: int) -> list[int]:
    bits = []
    while mask:
        low = mask & -mask
        bits.append(low.bit_length() - 1)
        mask ^= low
    return bits
