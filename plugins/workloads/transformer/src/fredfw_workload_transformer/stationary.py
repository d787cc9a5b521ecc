"""Weight-stationary execution: every stage keeps its layers, microbatches flow through the pipeline."""

from collections import deque
from itertools import chain, pairwise

from attrs import define, field

from fredfw import Pattern
from fredfw.typing import IntArray
from fredfw_workload_transformer.model import Way
from fredfw_workload_transformer.passes import ALL_REDUCE, Passes, Replicas

ZERO_BUBBLE = "zb-h1"


def split_chunks(layers: int, stages: int, interleave: int, first: int) -> list[list[tuple[int, ...]]]:
    """Return the layers of each chunk of each stage; chunk ``c`` of stage ``s`` is part ``c x stages + s`` of them.

    Parts are as even as can be, larger ones first. The first also has the layers from ``first`` on, the last the head.
    """
    count = stages * interleave
    share, extra = divmod(layers, count)
    bounds = [part * share + min(part, extra) for part in range(count + 1)]
    bounds[0], bounds[-1] = first, layers + 1
    parts = [tuple(range(begin, end)) for begin, end in pairwise(bounds)]
    return [parts[stage::stages] for stage in range(stages)]


def in_flight(schedule: str, stage: int, stages: int, microbatches: int, interleave: int = 1) -> int:
    """Return of how many passes over a chunk a stage holds activations at its fullest.

    ``zb-h1`` keeps them until the gradients of weights: as many as the first stage of ``1f1b`` (Qi et al. 2023, 3.1).
    """
    if schedule == "gpipe":
        return microbatches * interleave
    if schedule == ZERO_BUBBLE:
        return min(microbatches, stages)
    return _ahead(stage, stages, microbatches, interleave)


def _ahead(stage: int, stages: int, microbatches: int, interleave: int) -> int:
    if interleave == 1:
        return min(microbatches, stages - stage)
    return min(microbatches * interleave, 2 * (stages - stage - 1) + (interleave - 1) * stages + 1)


def order(schedule: str, stage: int, stages: int, microbatches: int, interleave: int = 1) -> list[tuple[Way, int, int]]:
    """Return the passes of a stage in order, each with its chunk and its microbatch.

    ``1f1b`` (Narayanan et al. 2019, PipeDream; 2021, arXiv 2104.04473, section 2.2): as many forward passes as there
    are stages behind, then one forward and one backward in turn. Interleaved, it takes as many microbatches in turn
    through each of its chunks as there are stages (Megatron-LM, schedules.py). ``gpipe`` (Huang et al. 2019): all
    forward passes, then all backward passes. ``zb-h1`` (Qi et al. 2023, arXiv 2401.10241, section 3.1): as 1F1B, but
    the gradients of inputs and of weights are passes of their own; those of weights are as many microbatches late as
    there are stages before.
    """
    turns = [
        (chunk, microbatch)
        for first in range(0, microbatches, stages if interleave > 1 else microbatches)
        for chunk in range(interleave)
        for microbatch in range(first, first + stages if interleave > 1 else microbatches)
    ]
    gpipe, split = schedule == "gpipe", schedule == ZERO_BUBBLE
    ahead = len(turns) if gpipe else _ahead(stage, stages, microbatches, interleave)
    forward = deque((Way.FORWARD, *turn) for turn in turns)
    passes = [forward.popleft() for _ in range(ahead)]
    late: deque[tuple[Way, int, int]] = deque()
    for chunk, microbatch in turns:
        passes.append((Way.INPUTS if split else Way.BACKWARD, interleave - 1 - chunk, microbatch))
        if split:
            late.append((Way.WEIGHTS, chunk, microbatch))
        if len(late) > stage:
            passes.append(late.popleft())
        if forward:
            passes.append(forward.popleft())
    return [*passes, *late]


@define
class _Gradients:
    """Reduces gradients of a stage over DP, and gathers updated weights; each pattern in turn, as on a NCCL stream."""

    passes: Passes
    stage: int
    # Where weights are shared it is always `SCATTER_GATHER`, whose all-gather is that before the next pass.
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


def add_stationary(passes: Passes, microbatches: int) -> None:
    """Add one iteration of so many microbatches of each replica.

    With ``overlap_dp`` and where ranks hold shares of the weights, gradients of each layer are reduced as soon as a
    microbatch has completed them, else a whole stage's behind its last backward pass.
    """
    workload, schedule = passes.workload, passes.workload.pipeline
    stages, interleave, overlap = workload.pp, workload.interleave, workload.overlap_dp
    layers = split_chunks(passes.shape.layers, stages, interleave, passes.shape.first(passes.style))
    gradients = [_Gradients(passes, stage, workload.reduction(passes.sharding)) for stage in range(stages)]
    queues = [deque(order(schedule, stage, stages, microbatches, interleave)) for stage in range(stages)]
    # What a pass waits for beside its stage's own order; the ends of the pipeline wait for nothing else. Parts of the
    # model are numbered in forward order: chunk c of stage s is part c x stages + s.
    inputs: dict[tuple[Way, int, int], tuple[int, ...]] = {}
    final = stages * interleave - 1
    back = Way.INPUTS if schedule == ZERO_BUBBLE else Way.BACKWARD
    for microbatch in range(microbatches):
        inputs[Way.FORWARD, 0, microbatch] = inputs[back, final, microbatch] = ()

    def forward(stage: int, chunk: int, microbatch: int) -> None:
        part = chunk * stages + stage
        task = passes.forward(stage, layers[stage][chunk], microbatch, inputs[Way.FORWARD, part, microbatch])
        if part < final:
            sent = passes.hand_over(stage, (stage + 1) % stages, task, f"activations of stage {stage} [{microbatch}]")
            inputs[Way.FORWARD, part + 1, microbatch] = (sent,)

    def backward(stage: int, chunk: int, microbatch: int, way: Way) -> None:
        part, held, reduction = chunk * stages + stage, layers[stage][chunk], gradients[stage]
        after = () if way is Way.WEIGHTS else inputs[way, part, microbatch]
        complete, last = way is not Way.INPUTS, microbatch == microbatches - 1
        reduced = complete and (last or reduction.each)
        # Gradients that leave layer by layer need the layers apart.
        apart = reduced and (overlap or passes.sharding.weights)
        for one in [(layer,) for layer in reversed(held)] if apart else [held]:
            task = passes.backward(stage, one[::-1], microbatch, after, way)
            after = ()
            if apart:
                reduction.reduce(one, task, last=last)
        if way is back and part > 0:
            sent = passes.hand_over(stage, (stage - 1) % stages, task, f"gradients of stage {stage} [{microbatch}]")
            inputs[back, part - 1, microbatch] = (sent,)
        if reduced and not apart and reduction.each:
            reduction.reduce(held, task, last=last)
        elif complete and not apart and not queues[stage]:
            reduction.reduce(tuple(chain(*layers[stage])), task, last=True)

    def is_ready(stage: int, way: Way, chunk: int, microbatch: int) -> bool:
        return way is Way.WEIGHTS or (way, chunk * stages + stage, microbatch) in inputs

    # A task is added behind those it depends on, so stages take turns as far as their inputs are there.
    while any(queues):
        for stage, queue in enumerate(queues):
            while queue and is_ready(stage, *queue[0]):
                way, chunk, microbatch = queue.popleft()
                if way is Way.FORWARD:
                    forward(stage, chunk, microbatch)
                else:
                    backward(stage, chunk, microbatch, way)
    for reduction in gradients:
        reduction.finish()
