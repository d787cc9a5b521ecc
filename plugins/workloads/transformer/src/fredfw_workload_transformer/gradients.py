"""How gradients are reduced over DP, and updated weights come back where the optimizer state is shared."""

from __future__ import annotations

from attrs import define, field

from fredfw import Pattern
from fredfw.typing import IntArray
from fredfw_workload_transformer.passes import Passes
from fredfw_workload_transformer.sharding import Replicas

ALL_REDUCE = Pattern.ALL_REDUCE.value
SCATTER_GATHER = f"{Pattern.REDUCE_SCATTER.value}+{Pattern.ALL_GATHER.value}"


@define
class Gradients:
    """Reduces the gradients of a pipeline stage.

    Communications of a pattern come one after the other, like those of a NCCL stream.
    """

    passes: Passes
    stage: int
    # `all-reduce` or `reduce-scatter+all-gather`. Where weights are shared it is always the latter, whose all-gather is
    # that of the weights before the next pass
    pattern: str
    _last: dict[Pattern, int] = field(factory=dict, init=False)
    _updated: list[tuple[str, IntArray, float]] = field(factory=list, init=False)  # weights that are to come back

    @property
    def each(self) -> bool:
        """Whether the gradients of each microbatch are reduced, since ranks keep no more than a share of them."""
        sharding = self.passes.sharding
        return sharding.weights or (sharding.gradients and self.pattern != ALL_REDUCE)

    def reduce(self, layers: tuple[int, ...], task: int, *, last: bool) -> None:
        """Reduce the gradients of ``layers``, which are complete with ``task``; ``last`` for the last microbatch."""
        for replicas, size in self.passes.replicated(self.stage, layers):
            self._reduce(replicas, size, f"layers {layers[0]} to {layers[-1]}", task, last)

    def finish(self) -> None:
        """Gather the weights that the optimizer has updated, the first layers first; it waits for all gradients."""
        reduced = list(self._last.values())
        for name, shards, size in reversed(self._updated):
            self._add(name, Pattern.ALL_GATHER, shards, size, *reduced)

    def _reduce(self, replicas: Replicas, size: float, what: str, task: int, last: bool) -> None:
        sharding = self.passes.sharding
        if not sharding.optimizer or (self.pattern == ALL_REDUCE and not sharding.weights):
            for pattern in map(Pattern, self.pattern.split("+")):
                task = self._add(f"{pattern} of the gradients of {what}", pattern, replicas.members, size, task)
            return
        shards, copies = replicas.shards, replicas.copies
        if replicas.size > 1:
            task = self._add(f"reduce-scatter of the gradients of {what}", Pattern.REDUCE_SCATTER, shards, size, task)
        if last and copies.shape[1] > 1:
            share = size / replicas.size
            task = self._add(f"all-reduce of the gradients of {what}", Pattern.ALL_REDUCE, copies, share, task)
        if last and replicas.size > 1 and not sharding.weights:
            self._updated.append((f"all-gather of the weights of {what}", shards, size))

    def _add(self, name: str, pattern: Pattern, groups: IntArray, size: float, *tasks: int) -> int:
        after = (*tasks, self._last[pattern]) if pattern in self._last else tasks
        self._last[pattern] = self.passes.builder.collective(name, pattern, groups, size, label="dp", after=after)
        return self._last[pattern]
