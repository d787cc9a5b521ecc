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


def split_chunks(layers: int, stages: int, interleave: int) -> list[list[tuple[int, ...]]]:
    """Return the layers of each chunk of each stage; chunk ``c`` of stage ``s`` is part ``c x stages + s`` of them."""
    parts = split_layers(layers, stages * interleave)
    return [parts[stage::stages] for stage in range(stages)]


def in_flight(schedule: str, stage: int, stages: int, microbatches: int, interleave: int = 1) -> int:
    """Return of how many passes over a chunk a stage holds activations at its fullest."""
    if schedule == "gpipe":
        return microbatches * interleave
    if interleave == 1:
        return min(microbatches, stages - stage)
    return min(microbatches * interleave, 2 * (stages - stage - 1) + (interleave - 1) * stages + 1)


def order(
    schedule: str, stage: int, stages: int, microbatches: int, interleave: int = 1
) -> list[tuple[Direction, int, int]]:
    """Return the passes of a stage in order, each with its chunk and its microbatch.

    ``1f1b`` (Narayanan et al. 2019, PipeDream; 2021, arXiv 2104.04473, section 2.2): as many forward passes as there
    are stages behind, then one forward and one backward in turn. Interleaved, it takes as many microbatches in turn
    through each of its chunks as there are stages (Megatron-LM, schedules.py). ``gpipe`` (Huang et al. 2019): all
    forward passes, then all backward passes.
    """
    turns = [
        (chunk, microbatch)
        for first in range(0, microbatches, stages if interleave > 1 else microbatches)
        for chunk in range(interleave)
        for microbatch in range(first, first + stages if interleave > 1 else microbatches)
    ]
    ahead = in_flight(schedule, stage, stages, microbatches, interleave)
    forward = deque((Direction.FORWARD, *turn) for turn in turns)
    passes = [forward.popleft() for _ in range(ahead)]
    for chunk, microbatch in turns:
        passes.append((Direction.BACKWARD, interleave - 1 - chunk, microbatch))
        if forward:
            passes.append(forward.popleft())
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
        mesh = self.passes.mesh
        if mesh.size("dp") == 1:
            return
        for pattern in self.pattern.split("+"):
            done = self.passes.builder.collective(
                f"{pattern} of the gradients of layers {layers[0]} to {layers[-1]}",
                Pattern(pattern),
                mesh.groups("dp", pp=self.stage),
                self.passes.weight_bytes(layers),
                label="dp",
                after=(task, *self._last),
            )
            self._last = (done,)


def add_stationary(
    passes: Passes,
    *,
    microbatches: int,
    schedule: str,
    interleave: int,
    dp_communication: str,
    overlap_dp: bool,
) -> None:
    """Add one iteration.

    Args:
        passes: The graph and how it is split.
        microbatches: Microbatches of each replica.
        schedule: ``1f1b`` or ``gpipe``.
        interleave: Chunks of layers of each stage.
        dp_communication: ``all-reduce`` or ``reduce-scatter+all-gather``.
        overlap_dp: Reduce each layer's gradients as soon as the last microbatch has completed them, not a whole stage's
            behind its last backward pass. Where DP members hold shares of the weights, the gradients of each microbatch
            are reduced to shares in that way.
    """
    stages = passes.mesh.size("pp")
    layers = split_chunks(passes.shape.layers, stages, interleave)
    pattern = Pattern.REDUCE_SCATTER.value if passes.sharded else dp_communication
    gradients = [Gradients(passes, stage, pattern) for stage in range(stages)]
    queues = [deque(order(schedule, stage, stages, microbatches, interleave)) for stage in range(stages)]
    # What a pass waits for beside its stage's own order; the ends of the pipeline wait for nothing else. Parts of the
    # model are numbered in forward order: chunk c of stage s is part c x stages + s.
    inputs: dict[tuple[Direction, int, int], tuple[int, ...]] = {}
    final = stages * interleave - 1
    for microbatch in range(microbatches):
        inputs[Direction.FORWARD, 0, microbatch] = ()
        inputs[Direction.BACKWARD, final, microbatch] = ()

    def forward(stage: int, chunk: int, microbatch: int, after: tuple[int, ...]) -> None:
        task = passes.forward(stage, layers[stage][chunk], microbatch, after)
        part = chunk * stages + stage
        if part < final:
            name = f"activations of stage {stage} [{microbatch}]"
            sent = passes.hand_over(stage, (stage + 1) % stages, task, name)
            inputs[Direction.FORWARD, part + 1, microbatch] = (sent,)

    def backward(stage: int, chunk: int, microbatch: int, after: tuple[int, ...]) -> None:
        each = passes.sharded or (overlap_dp and microbatch == microbatches - 1)
        # Gradients that leave layer by layer need the layers apart.
        parts = [(layer,) for layer in layers[stage][chunk]] if each else [layers[stage][chunk]]
        for one in reversed(parts):
            task = passes.backward(stage, one[::-1], microbatch, after)
            after = ()
            if each:
                gradients[stage].reduce(one, task)
        part = chunk * stages + stage
        if part > 0:
            name = f"gradients of stage {stage} [{microbatch}]"
            sent = passes.hand_over(stage, (stage - 1) % stages, task, name)
            inputs[Direction.BACKWARD, part - 1, microbatch] = (sent,)
        if not queues[stage] and not each:
            gradients[stage].reduce(tuple(layer for held in layers[stage] for layer in held), task)

    # A task is added behind those it depends on, so stages take turns as far as their inputs are there.
    while any(queues):
        for stage, queue in enumerate(queues):
            while queue and (queue[0][0], queue[0][1] * stages + stage, queue[0][2]) in inputs:
                direction, chunk, microbatch = queue.popleft()
                add = forward if direction is Direction.FORWARD else backward
                add(stage, chunk, microbatch, inputs[direction, chunk * stages + stage, microbatch])
