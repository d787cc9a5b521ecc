"""An inference as a task graph: what each worker computes, and which activations cross."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from fredfw import GraphBuilder, TaskGraph
from fredfw.typing import IntArray
from fredfw_workload_repurpose.plan import Plan

LABEL = "mp"


@frozen(eq=False)
class Step:
    """A layer, as its workers compute it. Counts are for one sample."""

    local: IntArray  # `(workers,)` weights of inputs that the worker holds
    foreign: IntArray  # `(workers,)` weights of inputs that it receives
    held: IntArray  # `(workers,)` numbers of inputs that it holds
    outputs: IntArray  # `(workers,)` numbers of its outputs
    sent: IntArray  # `(ends, ends)` numbers that each worker sends to each, for the workers of inputs and outputs
    results: int  # positions at which each weight is used
    error: float  # of its outputs

    @property
    def workers(self) -> int:
        """Workers that compute the layer."""
        return len(self.local)


def steps(plan: Plan) -> tuple[Step, ...]:
    """Return what the workers of ``plan`` do, layer by layer."""
    found = []
    for number, layer in enumerate(plan.original.layers):
        before, after = plan.partition[number : number + 2]
        local, foreign = plan.weights(number)
        sent = plan.sent(number)
        held = np.bincount(before, minlength=len(sent)) * layer.positions
        outputs = np.bincount(after, minlength=len(local)) * layer.results
        found.append(Step(local, foreign, held, outputs, sent, layer.results, plan.errors[number]))
    return tuple(found)


@frozen(eq=False)
class Inference:
    """Makes the tasks of an inference."""

    steps: tuple[Step, ...]
    batch: int
    weight_bytes: float  # of a weight
    activation_bytes: float  # of an activation
    overlap: bool  # whether workers compute with the inputs that they hold while the others are on their way

    @property
    def workers(self) -> int:
        """Workers in all."""
        return max(len(step.sent) for step in self.steps)

    def graph(self) -> TaskGraph:
        """Return the inference. Inputs are on their workers when it begins, and outputs stay on theirs."""
        builder = GraphBuilder(self.workers)
        done: tuple[int, ...] = ()
        for number, step in enumerate(self.steps):
            arrived = self._exchange(builder, f"inputs of layer {number}", step, done)
            waits = done if self.overlap else done + arrived
            computed = []
            for worker in range(step.workers):
                first = self._compute(builder, f"layer {number}, own inputs", step, worker, waits, foreign=False)
                if step.foreign[worker]:
                    name, needed = f"layer {number}, other inputs", (first, *arrived)
                    first = self._compute(builder, name, step, worker, needed, foreign=True)
                computed.append(first)
            done = tuple(computed)
        return builder.build()

    def _exchange(self, builder: GraphBuilder, name: str, step: Step, after: tuple[int, ...]) -> tuple[int, ...]:
        """Add the all-to-all of the activations that cross, among the workers that send or receive any."""
        sizes = step.sent * (self.batch * self.activation_bytes)
        members = np.flatnonzero(sizes.any(axis=0) | sizes.any(axis=1))
        if not len(members):
            return ()
        group, crossing = members[None], sizes[np.ix_(members, members)]
        return (builder.all_to_all_v(name, group, crossing[None], label=LABEL, after=after),)

    def _compute(
        self, builder: GraphBuilder, name: str, step: Step, worker: int, after: tuple[int, ...], *, foreign: bool
    ) -> int:
        """Add what a worker computes with the inputs that it holds, or adds to it with those that it received."""
        weights = step.foreign if foreign else step.local
        # Sums that are added to are read and written.
        numbers = step.sent[:, worker].sum() + 2 * step.outputs[worker] if foreign else self._near(step, worker)
        return builder.compute(
            name,
            [worker],
            flops=2.0 * int(weights[worker]) * step.results * self.batch,
            bytes=int(weights[worker]) * self.weight_bytes + int(numbers) * self.batch * self.activation_bytes,
            after=after,
        )

    def _near(self, step: Step, worker: int) -> int:
        return int(step.held[worker] + step.outputs[worker])
