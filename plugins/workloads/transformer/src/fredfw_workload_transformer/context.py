"""Context parallelism: ranks split the tokens of a sample, and exchange the keys and values of attention."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from fredfw import DeviceMesh, GraphBuilder, Pattern
from fredfw.typing import IntArray

RING, ALL_GATHER = "ring", "all-gather"
ZIGZAG, CONTIGUOUS = "zigzag", "contiguous"


@frozen
class Context:
    """How the members of a CP group bring keys and values together."""

    mesh: DeviceMesh
    # `ring`: each rank computes with the keys and values that it has, while it sends them to the next rank (Liu et al.
    # 2023, Ring Attention, arXiv 2310.01889). `all-gather`: ranks gather them before they compute (Llama Team 2024,
    # arXiv 2407.21783, section 3.3.2)
    communication: str = RING
    overlap: bool = True  # whether the ring sends while it computes
    # whether a causal mask hides more of the tokens of others from the first ranks than from the last ones, as each has
    # consecutive tokens. Not so, all compute the same: there is no mask, or a rank has one of the first parts of a
    # sample and one of the last ones (zigzag; Llama Team 2024, section 3.3.2)
    contiguous: bool = False

    @property
    def size(self) -> int:
        """Ranks that share a sample."""
        return self.mesh.size("cp")

    def work(self, step: int | None) -> IntArray:
        """Return what each member computes in a step of the ring, or in all of them, in units of the first step.

        In the first step it has its own keys. Those of step ``s`` come from ``s`` ranks before it. With ``contiguous``
        a rank sees half of its own, all of those of ranks before it, and none of those of ranks behind it.
        """
        members = np.arange(self.size)
        if not self.contiguous:
            return np.full(self.size, self.size if step is None else 1)
        if step is None:
            return 2 * members + 1
        return np.where(members >= step, 2 if step else 1, 0)

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
