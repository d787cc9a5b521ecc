"""Weight-stationary execution: every stage keeps its layers, microbatches flow through the pipeline."""

from __future__ import annotations

from collections import deque
from enum import Enum
from itertools import pairwise

from attrs import define, field

from fredfw import Pattern
from fredfw_workload_transformer.passes import Passes


class Direction(Enum):
    """Of a pass."""

    FORWARD = "forward"
    BACKWARD = "backward"


def split_layers(layers: int, stages: int) -> list[tuple[int, ...]]:
    """Return the layers of each stage: as even as possible, the first stages get one more, the last also the head."""
    share, extra = divmod(layers, stages)
    bounds = [stage * share + min(stage, extra) for stage in range(stages + 1)]
    bounds[-1] += 1
    return [tuple(range(begin, end)) for begin, end in pairwise(bounds)]


def in_flight(schedule: str, stage: int, stages: int, microbatches: int) -> int:
    """Return for how many microbatches a stage holds activations at its fullest."""
    return min(microbatches, stages - stage) if schedule == "1f1b" else microbatches


def order(schedule: str, stage: int, stages: int, microbatches: int) -> list[tuple[Direction, int]]:
    """Return the passes of a stage in order, each with its microbatch.

    ``1f1b`` (Narayanan et al. 2019, PipeDream; 2021, arXiv 2104.04473, section 2.2): as many forward passes as there
    are stages behind, then one forward and one backward in turn. ``gpipe`` (Huang et al. 2019): all forward passes,
    then all backward passes.
    """
    ahead = in_flight(schedule, stage, stages, microbatches)
    passes = [(Direction.FORWARD, microbatch) for microbatch in range(ahead)]
    for microbatch in range(microbatches):
        passes.append((Direction.BACKWARD, microbatch))
        if microbatch + ahead < microbatches:
            passes.append((Direction.FORWARD, microbatch + ahead))
    return passes


@define
class Gradients:
    """Reduces the gradients of a stage over DP, one communication after the other.

    Args:
        passes: The graph and how it is split.
        stage: The stage.
        pattern: ``all-reduce``, or ``reduce-scatter+all-gather``, as ZeRO does it.
    """

    passes: Passes
    stage: int
    pattern: str
    _last: tuple[int, ...] = field(default=(), init=False)

    def reduce(self, layers: tuple[int, ...], task: int) -> None:
        """Reduce the gradients of ``layers``, which are complete with ``task``."""
        parallelism = self.passes.parallelism
        if parallelism.dp == 1:
            return
        for pattern in self.pattern.split("+"):
            done = self.passes.builder.collective(
                f"{pattern} of the gradients of layers {layers[0]} to {layers[-1]}",
                Pattern(pattern),
                parallelism.dp_groups(self.stage),
                self.passes.weight_bytes(layers),
                label="dp",
                after=(task, *self._last),
            )
            self._last = (done,)


def add_stationary(
    passes: Passes, *, microbatches: int, schedule: str, dp_communication: str, overlap_dp: bool
) -> None:
    """Add one iteration.

    Args:
        passes: The graph and how it is split.
        microbatches: Microbatches of each replica.
        schedule: ``1f1b`` or ``gpipe``.
        dp_communication: ``all-reduce`` or ``reduce-scatter+all-gather``.
        overlap_dp: Reduce each layer's gradients as soon as the last microbatch has completed them, not a whole stage's
            behind its last backward pass.
    """
    stages = passes.parallelism.pp
    layers = split_layers(passes.shape.layers, stages)
    gradients = [Gradients(passes, stage, dp_communication) for stage in range(stages)]
    queues = [deque(order(schedule, stage, stages, microbatches)) for stage in range(stages)]
    # What a pass waits for beside its stage's own order; the ends of the pipeline wait for nothing else.
    inputs: dict[tuple[Direction, int, int], tuple[int, ...]] = {}
    for microbatch in range(microbatches):
        inputs[Direction.FORWARD, 0, microbatch] = ()
        inputs[Direction.BACKWARD, stages - 1, microbatch] = ()

    def forward(stage: int, microbatch: int, after: tuple[int, ...]) -> None:
        task = passes.forward(stage, layers[stage], microbatch, after)
        if stage < stages - 1:
            name = f"activations of stage {stage} [{microbatch}]"
            sent = passes.hand_over(stage, stage + 1, task, name)
            inputs[Direction.FORWARD, stage + 1, microbatch] = (sent,)

    def backward(stage: int, microbatch: int, after: tuple[int, ...]) -> None:
        last = microbatch == microbatches - 1
        # Gradients that leave layer by layer need the layers apart.
        parts = [(layer,) for layer in layers[stage]] if last and overlap_dp else [layers[stage]]
        for part in reversed(parts):
            task = passes.backward(stage, part[::-1], microbatch, after)
            after = ()
            if last:
                gradients[stage].reduce(part, task)
        if stage > 0:
            name = f"gradients of stage {stage} [{microbatch}]"
            inputs[Direction.BACKWARD, stage - 1, microbatch] = (passes.hand_over(stage, stage - 1, task, name),)

    # A task is added behind those it depends on, so stages take turns as far as their inputs are there.
    while any(queues):
        for stage, queue in enumerate(queues):
            while queue and (queue[0][0], stage, queue[0][1]) in inputs:
                direction, microbatch = queue.popleft()
                add = forward if direction is Direction.FORWARD else backward
                add(stage, microbatch, inputs[direction, stage, microbatch])
