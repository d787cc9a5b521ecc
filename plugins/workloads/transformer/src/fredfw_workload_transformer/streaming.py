"""Weight-streaming execution: NPUs hold a few layers at a time; their weights come from I/O controllers or a tier.

A tier gives members a shard whole, or shares that DP gathers (ZeRO-Infinity, arXiv 2104.07857, section 6).
"""

from collections.abc import Callable, Sequence

import numpy as np

from fredfw import Pattern, limits
from fredfw.typing import IntArray
from fredfw_workload_transformer.passes import Passes

Group = Sequence[tuple[int, ...]]
"""The layers of each stage that are on the wafer together; an empty tuple where the last group has none left."""


def group_layers(layers: int, stages: int, first: int = 0) -> list[Group]:
    """Return the groups: stage i of group k holds layer ``stages * k + i``, the last one the head, too."""

    def held(layer: int) -> tuple[int, ...]:
        if layer >= layers:
            return ()
        return tuple(range(layer or first, layer + 1 + (layer == layers - 1)))

    return [tuple(map(held, range(first, first + stages))) for first in range(0, layers, stages)]


class _Lane:
    """Brings the weights of some stages in and takes their gradients out, one group of layers after the other.

    Loads come in order, and so do stores. There are buffers for ``1 + prefetch`` groups of weights and as many of
    gradients: a load waits until the computation has left its buffer, a backward pass until its buffer is stored.
    """

    def __init__(self, passes: Passes, stages: tuple[int, ...], source: int | str) -> None:
        self.passes = passes
        self.stages = stages
        mesh, kind = passes.mesh, passes.workload.streams
        if kind == "all":
            groups = np.arange(mesh.ranks)[None, :]
        else:
            groups = np.concatenate([mesh.groups("dp", pp=stage) for stage in stages])
        if kind == "sharded":
            groups = groups.reshape(-1, 1)
        # What each stream comes from, the memory tier or controllers with an equal part of every shard, and its ranks.
        self._ends: IntArray | str
        if isinstance(source, str):
            self._ends, self._members = source, groups
        else:
            limits.check("flows", source * mesh.ranks)
            self._ends, self._members = np.repeat(np.arange(source), len(groups)), np.tile(groups, (source, 1))
        self._loads: list[int] = []
        self._released: list[tuple[int, ...]] = []
        self._stores: list[int] = []

    def serves(self, group: Group) -> bool:
        return any(group[stage] for stage in self.stages)

    def load(self, name: str, group: Group) -> int:
        before = (*self._loads[-1:], *self._freed(self._loads, self._released))
        self._loads.append(self._stream(self.passes.builder.load, name, group, before))
        return self._exchange(name, Pattern.ALL_GATHER, group, self._loads[-1:])[0]

    def release(self, tasks: Sequence[int]) -> None:
        """Note that after ``tasks`` the next of the loaded groups is no longer needed."""
        self._released.append(tuple(tasks))

    def gradient_buffer(self) -> tuple[int, ...]:
        return self._freed(self._stores, [(store,) for store in self._stores])

    def store(self, name: str, group: Group, after: Sequence[int]) -> None:
        before = (*self._stores[-1:], *self._exchange(name, Pattern.REDUCE_SCATTER, group, after))
        self._stores.append(self._stream(self.passes.builder.store, name, group, before))

    def _freed(self, used: Sequence[int], freed: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        reused = len(used) - 1 - self.passes.workload.prefetch
        return freed[reused] if reused >= 0 else ()

    def _stream(self, add: Callable[..., int], name: str, group: Group, after: Sequence[int]) -> int:
        shards = sum(self.passes.weight_bytes(group[stage]) for stage in self.stages)
        size = shards * self.passes.mesh.size("mp") / len(self._members)
        return add(name, self._ends, self._members, size, label="stream", after=after)

    def _exchange(self, name: str, pattern: Pattern, group: Group, after: Sequence[int]) -> Sequence[int]:
        """Add what DP does with the shares of a group; return what to wait for, ``after`` where it does nothing."""
        passes, mesh = self.passes, self.passes.mesh
        if passes.workload.streams != "sharded" or mesh.size("dp") == 1:
            return after
        found, add = [], passes.builder.collective
        for stage in self.stages:
            if group[stage]:
                groups, size = mesh.groups("dp", pp=stage), passes.weight_bytes(group[stage])
                found.append(add(f"{name}, stage {stage}", pattern, groups, size, label="dp", after=after))
        return found


def add_streaming(passes: Passes, microbatches: int, source: int | str) -> None:
    """Add one iteration, from the first load to the last store, of so many microbatches of each replica.

    ``source`` is the number of I/O controllers, or the name of the memory tier that has the weights. All microbatches
    pass a group before its weights are dropped; backward loads them again, except for the group that forward ended
    with, which is still there. Gradients are reduced over DP on their way out.
    """
    stages = tuple(range(passes.mesh.size("pp")))
    groups = group_layers(passes.shape.layers, len(stages), passes.shape.first(passes.style))
    served = [stages] if passes.workload.streams == "all" else [(stage,) for stage in stages]
    lanes = [_Lane(passes, own, source) for own in served]
    # A lane's last group in forward is its first in backward, and stays in between.
    turns = {lane.stages: max(k for k, group in enumerate(groups) if lane.serves(group)) for lane in lanes}
    places: dict[int, tuple[int, int]] = {}  # where each microbatch is: stage, and the task that brought it forth

    def visit(k: int, backward: bool) -> None:
        group = groups[k]
        way = "backward" if backward else "forward"
        serving = [lane for lane in lanes if lane.serves(group)]
        waits: dict[int, tuple[int, ...]] = {}
        for lane in serving:
            ready = lane.gradient_buffer() if backward else ()
            if not (backward and k == turns[lane.stages]):
                ready += (lane.load(f"{way} weights of group {k}", group),)
            waits |= dict.fromkeys(lane.stages, ready)
        ends: dict[int, int] = {}
        for microbatch in range(microbatches):
            for stage in reversed(stages) if backward else stages:
                if not group[stage]:
                    continue
                after = waits.pop(stage, ())  # later microbatches come behind the first one anyway
                if microbatch in places:
                    source, task = places[microbatch]
                    name = f"{way} to group {k} stage {stage} [{microbatch}]"
                    after += (passes.hand_over(source, stage, task, name),)
                if backward:
                    ends[stage] = passes.backward(stage, group[stage][::-1], microbatch, after)
                else:
                    ends[stage] = passes.forward(stage, group[stage], microbatch, after)
                places[microbatch] = stage, ends[stage]
        for lane in serving:
            done = [ends[stage] for stage in lane.stages if stage in ends]
            if backward:
                lane.store(f"gradients of group {k}", group, done)
            if backward or k != turns[lane.stages]:
                lane.release(done)

    for k in range(len(groups)):
        visit(k, backward=False)
    for k in reversed(range(len(groups))):
        visit(k, backward=True)
