"""ZeRO and FSDP: which ranks share optimizer state, gradients and weights, and when they exchange them."""

from __future__ import annotations

from attrs import frozen

from fredfw import DeviceMesh, Pattern
from fredfw.errors import InputError
from fredfw.typing import IntArray

ALL_REDUCE = Pattern.ALL_REDUCE.value
SCATTER_GATHER = f"{Pattern.REDUCE_SCATTER.value}+{Pattern.ALL_GATHER.value}"


@frozen(eq=False)
class Replicas:
    """Ranks that have the same weights.

    ``size`` consecutive ones of them hold a share each; where there are more, such groups are copies of each other
    (HSDP; MiCS, Zhang et al. 2022, arXiv 2205.00119).
    """

    members: IntArray  # `(groups, replicas)` ranks
    size: int  # ranks that hold a share each

    @property
    def shards(self) -> IntArray:
        """``(groups, size)`` ranks that hold one copy together."""
        return self.members.reshape(-1, self.size)

    @property
    def copies(self) -> IntArray:
        """``(groups, copies)`` ranks that hold the same share."""
        split = self.members.reshape(len(self.members), -1, self.size)
        groups: IntArray = split.swapaxes(1, 2).reshape(-1, split.shape[1])
        return groups


@frozen
class Sharding:
    """Shares of what replicas have in common; these differ along CP, EP and DP, those of experts along CP and DP."""

    mesh: DeviceMesh
    zero: int = 0  # ZeRO stage: from 1 on the optimizer state is shared, from 2 on gradients, from 3 on weights
    size: int = 1  # ranks that hold a share each of weights outside experts

    @property
    def optimizer(self) -> bool:
        """Whether ranks hold a share of the optimizer state."""
        return self.zero >= 1 and self.size > 1

    @property
    def gradients(self) -> bool:
        """Whether ranks hold a share of the gradients."""
        return self.zero >= 2 and self.size > 1

    @property
    def weights(self) -> bool:
        """Whether ranks hold a share of the weights, and gather the others' before they compute."""
        return self.zero >= 3 and self.size > 1

    @property
    def expert_size(self) -> int:
        """Ranks that hold a share each of the same experts."""
        return self.size // self.mesh.size("ep")

    def replicas(self, stage: int) -> tuple[Replicas, Replicas]:
        """Return the ranks of a pipeline stage that have the same weights, but for experts, and the same experts."""
        groups = self.mesh.groups
        return (
            Replicas(groups("cp", "ep", "dp", pp=stage), self.size),
            Replicas(groups("cp", "dp", pp=stage), self.expert_size),
        )


def check_shard(shard: int, dp: int, ep: int) -> None:
    """Make sure that ``shard`` divides ``dp`` and is a multiple of ``ep``; else ``InputError``."""
    accepted = ", ".join(str(one) for one in range(ep, dp + 1, ep) if dp % one == 0)
    if dp % shard:
        raise InputError(f"{shard} does not divide the {dp} replicas", key="dp_shard", accepted=accepted)
    if shard % ep:
        message = f"{shard} replicas do not have all experts of {ep} EP ranks"
        raise InputError(message, key="dp_shard", accepted=accepted)
