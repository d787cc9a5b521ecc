"""A fabric with what all simulations on it share: its defaults at work, and what they have worked out already."""

from __future__ import annotations

from collections.abc import Iterable

from fredfw.collectives import CollectiveAlgorithm, Pattern
from fredfw.collectives.answers import text, variants
from fredfw.fabric import Fabric
from fredfw.simulation import answers
from fredfw.simulation.bounds import LowerBounds
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.sharing import sharing_of


class Simulator:
    """What is put together from the defaults of a fabric."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.sharing = sharing_of(fabric)
        self.lowering = Lowering(fabric)
        self.bounds = LowerBounds(fabric)

    def network(self) -> FlowNetwork:
        """Return an idle network at time 0."""
        return FlowNetwork(self.fabric, self.sharing)

    def automatic(
        self, classes: Iterable[type[CollectiveAlgorithm]]
    ) -> dict[Pattern | None, tuple[CollectiveAlgorithm, ...]]:
        """Return what ``auto`` chooses among, by pattern: of ``classes`` those that the fabric's transport has."""
        known = tuple(classes)
        found: dict[Pattern | None, tuple[CollectiveAlgorithm, ...]] = {}
        for pattern in Pattern:
            library = answers.algorithms(self.fabric.defaults.transport, str(pattern))
            every = [one for cls in known for one in variants(cls, pattern)]
            found[pattern] = tuple(one for one in every if library is None or {one.name, text(one)} & {*library})
        return found
