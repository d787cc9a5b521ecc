"""Context parallelism: ranks split the tokens of a sample, and exchange the keys and values of attention."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from fredfw import DeviceMesh, GraphBuilder, Pattern
from fredfw.typing import IntArray

RING, ALL_GATHER = "ring", "all-gather"


@frozen
class Context:
    """How the members of a CP group bring keys and values together.

    Args:
        mesh: The ranks.
        communication: ``ring``: each rank computes with the keys and values that it has, while it sends them to the
            next rank (Liu et al. 2023, Ring Attention, arXiv 2310.01889). ``all-gather``: ranks gather them before they
            compute (Llama Team 2024, arXiv 2407.21783, section 3.3.2).
        overlap: Whether the ring sends while it computes.
    """

    mesh: DeviceMesh
    communication: str = RING
    overlap: bool = True

    @property
    def size(self) -> int:
        """Ranks that share a sample."""
        return self.mesh.size("cp")

    def groups(self, stage: int) -> IntArray:
        """Return the ``(groups, size)`` ranks of a pipeline stage that share samples."""
        return self.mesh.groups("cp", pp=stage)

    def send(self, builder: GraphBuilder, name: str, stage: int, size: float, after: tuple[int, ...]) -> int:
        """Add a step of the ring: each rank sends ``size`` bytes to the next; return it."""
        groups = self.groups(stage)
        pairs = np.stack([groups, np.roll(groups, -1, axis=1)], axis=-1).reshape(-1, 2)
        return builder.transfer(name, pairs, size, label="cp", after=after)

    def exchange(
        self, builder: GraphBuilder, name: str, pattern: Pattern, stage: int, size: float, after: tuple[int, ...]
    ) -> int:
        """Add a collective of shares of ``size`` bytes in each group; return it."""
        whole = self.size * size
        return builder.collective(name, pattern, self.groups(stage), whole, label="cp", after=after)
