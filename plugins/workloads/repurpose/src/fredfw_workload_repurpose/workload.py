"""The options of the workload, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar

import attrs
import numpy as np
from attrs import frozen

from fredfw import DeviceMesh, File, GraphBuilder, Label, MemoryUse, System, TaskGraph, Work, Workload, units
from fredfw.errors import InputError
from fredfw.typing import IntArray
from fredfw_workload_repurpose.network import Weights, planted, read
from fredfw_workload_repurpose.plan import Plan, Problem, check_epsilon
from fredfw_workload_repurpose.transform import at_random, by_magnitude, clustered, in_order, rearranged

METHODS: Mapping[str, Callable[[Problem], Plan]] = {
    "repurpose": rearranged,
    "contiguous": in_order,
    "random": at_random,
    "spectral": clustered,
    "magnitude": by_magnitude,
}
"""What finds the partition and the weights that are kept, by its name in an experiment."""
_LABEL = "mp"
_read = lru_cache(maxsize=1)(read)
_PAIR, _WEIGHT = "pair", "weight"
_BLOCKED = "without a file: "
_DRAWN = "widths", "blocks", "noise", "taps", "positions"


def _each(value: object) -> object:
    if isinstance(value, list):
        return tuple(value)
    return value if value is None or isinstance(value, tuple) else (value,)


def _given(_instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if isinstance(value, tuple) and not value:
        raise InputError("[] is empty", key=attribute.name, accepted="one number or more")


def _positive(_instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and 0 in value:
        raise InputError(f"{list(value)} has 0 in it", key=attribute.name, accepted="numbers above 0")


@frozen(eq=False)
class _Step:
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
        return len(self.local)


# An experiment asks for the same inference on every fabric. The counts are small beside the weights.
@lru_cache(maxsize=1024)
def _steps(workload: Repurpose, npus: int) -> tuple[_Step, ...]:
    plan, found = workload.plan(System(npus=npus)), []
    for number, layer in enumerate(plan.original.layers):
        before, after = plan.partition[number : number + 2]
        local, foreign = plan.weights(number)
        sent = plan.sent(number)
        held = np.bincount(before, minlength=len(sent)) * layer.positions
        outputs = np.bincount(after, minlength=len(local)) * layer.results
        found.append(_Step(local, foreign, held, outputs, sent, layer.results, plan.errors[number]))
    return tuple(found)


@frozen
class Repurpose(Workload):
    """Inference of a network whose neurons are spread over workers, so that little crosses between them (RePurpose).

    Neurons (channels of convolutions) are rearranged and weights pruned, with a bounded change of the outputs of each
    layer. The activations that still cross are an all-to-all before each layer. Source: Abdi et al., AAAI 2023, arXiv
    2008.08289.
    """

    name: ClassVar[str] = "repurpose"

    weights: File | None = units.file(
        None, help="trained network: an .npz file with weights_0, weights_1, ...; default: a random one with blocks"
    )
    widths: tuple[int, ...] = units.sizes(
        (1024, 1024, 1024), help=f"{_BLOCKED}neurons of the input, and of the output of each layer"
    )
    blocks: int | None = units.count(None, help=f"{_BLOCKED}blocks of neurons; default: the workers of the first layer")
    noise: float = units.number(
        0.0, minimum=0, help=f"{_BLOCKED}standard deviation of weights between blocks, relative to that within a block"
    )
    taps: int = units.count(1, help=f"{_BLOCKED}weights between two channels, such as 9 for a 3 x 3 kernel")
    positions: int = units.count(1, help=f"{_BLOCKED}height x width of every feature map")
    workers: tuple[int, ...] | None = units.option(
        None,
        converter=_each,
        validator=[units.whole(1), _given],
        help="workers of all layers, or a list of those of each layer; default: all NPUs",
    )
    shares: tuple[float, ...] | None = units.option(
        None,
        converter=_each,
        validator=[units.at_least(0), _given, _positive],
        help="compute power of each worker, above 0, relative to the others; default: all have the same",
    )
    tolerance: float = units.number(
        0.0, minimum=0, at_most=1, help="how far the neurons of a worker may be from its share, relative to that"
    )
    received: int | None = units.count(
        None, minimum=0, help="most activations that a worker gets from others in a layer; default: any"
    )
    method: str = units.choice(
        METHODS,
        "repurpose",
        help="repurpose, or what it is compared with: other partitions with the same pruning, or pruning by magnitude",
    )
    epsilon: float = units.option(
        0.1,
        validator=check_epsilon,
        help="largest change of the outputs of a layer, relative to them, from 0 to below 1",
    )
    granularity: str = units.choice(
        (_PAIR, _WEIGHT), help="what is dropped at once: all weights of an input on a worker, or one weight"
    )
    batch: int = units.count(1, help="samples of an inference")
    overlap: bool = units.flag(
        True, help="compute with the inputs that a worker holds while the others are on their way"
    )
    seed: int = units.count(0, minimum=0, help="of random weights and partitions")
    weight_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per weight (default: FP16)")
    activation_bytes: float = units.quantity(units.Unit.BYTES, 2, help="per activation (default: FP16)")

    def __attrs_post_init__(self) -> None:
        if self.weights is not None:
            for key in _DRAWN:
                if getattr(self, key) != attrs.fields_dict(Repurpose)[key].default:
                    message = "describes a random network, and weights names a file"
                    raise InputError(message, key=key, accepted="no value")
        if self.workers is not None:
            self.problem(System(npus=max(self.workers)))
        elif self.weights is not None:
            _read(self.weights)

    def problem(self, system: System) -> Problem:
        """Return what is to be placed on the workers."""
        counts = (system.npus,) if self.workers is None else self.workers
        source = self._source(counts[0])
        known = source.network, counts, self.epsilon, source.inputs, self.tolerance, self.shares
        return Problem(*known, each=self.granularity == _WEIGHT, received=self.received, seed=self.seed)

    def plan(self, system: System) -> Plan:
        """Return the network on its workers; raises as ``problem``, or if ``received`` makes a larger error."""
        return METHODS[self.method](self.problem(system))

    def mesh(self, system: System) -> DeviceMesh:
        return DeviceMesh({_LABEL: system.npus if self.workers is None else max(self.workers)})

    def labels(self, system: System) -> Mapping[str, Label]:
        return {_LABEL: Label(0, "#D55E00")}

    def graph(self, system: System) -> TaskGraph:
        """Return one inference: inputs are on their workers when it begins, and outputs stay on theirs."""
        found = self._steps(system)
        builder = GraphBuilder(max(len(step.sent) for step in found))
        done: tuple[int, ...] = ()

        def compute(name: str, step: _Step, at: int, weights: IntArray, moves: IntArray, after: tuple[int, ...]) -> int:
            # With some inputs, of which the worker reads and writes `moves` numbers for a sample.
            used, moved = int(weights[at]), int(moves[at]) * self.batch * self.activation_bytes
            flops = 2.0 * used * step.results * self.batch
            return builder.compute(name, [at], flops=flops, bytes=used * self.weight_bytes + moved, after=after)

        for number, step in enumerate(found):
            arrived = self._exchange(builder, f"inputs of layer {number}", step, done)
            waits = done if self.overlap else done + arrived
            near = step.held[: step.workers] + step.outputs
            # Sums that are added to are read and written.
            far = step.sent.sum(axis=0)[: step.workers] + 2 * step.outputs
            computed = []
            for worker in range(step.workers):
                last = compute(f"layer {number}, own inputs", step, worker, step.local, near, waits)
                if step.foreign[worker]:
                    name, needed = f"layer {number}, other inputs", (last, *arrived)
                    last = compute(name, step, worker, step.foreign, far, needed)
                computed.append(last)
            done = tuple(computed)
        return builder.build()

    def _exchange(self, builder: GraphBuilder, name: str, step: _Step, after: tuple[int, ...]) -> tuple[int, ...]:
        """Add the all-to-all of the activations that cross, among the workers that send or receive any."""
        sizes = step.sent * (self.batch * self.activation_bytes)
        members = np.flatnonzero(sizes.any(axis=0) | sizes.any(axis=1))
        if not len(members):
            return ()
        group, crossing = members[None], sizes[np.ix_(members, members)]
        return (builder.all_to_all_v(name, group, crossing[None], label=_LABEL, after=after),)

    def memory(self, system: System) -> MemoryUse:
        """See ``Workload.memory``; of the worker with the most weights."""
        found = self._steps(system)
        held = np.zeros(self.mesh(system).ranks, dtype=np.intp)
        for step in found:
            held[: step.workers] += step.local + step.foreign
        read = max(int((step.held + step.sent.sum(axis=0)).max()) for step in found)
        return MemoryUse(int(held.max()) * self.weight_bytes, activations=read * self.batch * self.activation_bytes)

    def work(self, system: System) -> Work:
        return Work(self.batch)

    def notes(self, system: System) -> tuple[str, ...]:
        found = self._steps(system)
        crossing = sum(int(step.sent.sum()) for step in found)
        errors = ", ".join(f"{step.error:.3g}" for step in found)
        return (f"repurpose: {crossing} activations of a sample cross, relative errors of the layers {errors}",)

    def _source(self, workers: int) -> Weights:
        if self.weights is not None:
            return _read(self.weights)
        blocks = min(workers, *self.widths) if self.blocks is None else self.blocks
        drawn = {"seed": self.seed, "taps": self.taps, "positions": self.positions}
        return Weights(planted(self.widths, blocks, noise=self.noise, **drawn).network, None)

    def _steps(self, system: System) -> tuple[_Step, ...]:
        # Neither of these changes the network on its workers.
        return _steps(attrs.evolve(self, batch=1, overlap=True, weight_bytes=2.0, activation_bytes=2.0), system.npus)
