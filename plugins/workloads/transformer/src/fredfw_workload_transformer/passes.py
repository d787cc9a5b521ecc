"""Forward and backward passes over layers as tasks, and which ranks share weights, for both ways of execution."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from attrs import evolve, frozen

from fredfw import DeviceMesh, GraphBuilder, Kernels, Pattern
from fredfw.errors import InputError
from fredfw.typing import IntArray
from fredfw_workload_transformer.experts import Step
from fredfw_workload_transformer.model import FP16, Block, Cost, Mixture, Way, core_cost, cost

if TYPE_CHECKING:
    from fredfw_workload_transformer.workload import Transformer

ALL_REDUCE = Pattern.ALL_REDUCE.value
SCATTER_GATHER = f"{Pattern.REDUCE_SCATTER.value}+{Pattern.ALL_GATHER.value}"


@frozen(eq=False)
class Replicas:
    """Ranks with the same weights; groups of ``size`` are copies (HSDP; MiCS, Zhang et al. 2022, arXiv 2205.00119)."""

    members: IntArray  # `(groups, replicas)` ranks
    size: int  # consecutive ones that hold a share each

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
        return self.zero >= 1 and self.size > 1

    @property
    def gradients(self) -> bool:
        return self.zero >= 2 and self.size > 1

    @property
    def weights(self) -> bool:
        return self.zero >= 3 and self.size > 1

    @property
    def expert_size(self) -> int:
        return self.size // self.mesh.size("ep")

    def replicas(self, stage: int) -> tuple[Replicas, Replicas]:
        """Return the ranks of a pipeline stage that have the same weights, but for experts, and the same experts."""
        groups = self.mesh.groups
        whole, experts = groups("cp", "ep", "dp", pp=stage), groups("cp", "dp", pp=stage)
        return Replicas(whole, self.size), Replicas(experts, self.expert_size)


def check_shard(shard: int, dp: int, ep: int) -> None:
    accepted = ", ".join(str(one) for one in range(ep, dp + 1, ep) if dp % one == 0)
    if dp % shard:
        raise InputError(f"{shard} does not divide the {dp} replicas", key="dp_shard", accepted=accepted)
    if shard % ep:
        message = f"{shard} replicas do not have all experts of {ep} EP ranks"
        raise InputError(message, key="dp_shard", accepted=accepted)


# How CP members bring keys and values together. Ring: each rank computes with those that it has, while it sends them to
# the next rank (Liu et al. 2023, Ring Attention, arXiv 2310.01889). All-gather: ranks gather them before they compute
# (Llama Team 2024, arXiv 2407.21783, section 3.3.2).
RING = "ring"
# Tokens of a CP member: one of the first parts of a sample and one of the last ones, so that all compute the same under
# a causal mask (Llama Team 2024, section 3.3.2), or consecutive ones.
ZIGZAG = "zigzag"


# Passes over layers with equal blocks, with these blocks in order.
_Steps: TypeAlias = "Sequence[tuple[Way, tuple[Block, ...]]]"


class Passes:
    """Adds passes of microbatches, those of a stage as a chain; a task covers all its MP, CP and DP members."""

    def __init__(self, workload: Transformer, mesh: DeviceMesh, samples: float) -> None:
        self.workload = workload
        self.mesh = mesh
        self.samples = samples  # in a microbatch
        self.builder = GraphBuilder(mesh.ranks)
        self.shape, self.style, self.sharding = workload.shape, workload.style, workload.sharding(mesh)
        # Whether a pass over layers is one computation, and one communication behind it.
        self._merged = workload.tasks == "passes" and not self.sharding.weights
        last, mp, cp = self.shape.layers, workload.mp, workload.cp
        # With CP, attention as a layer has it is one step: a share of the tokens with a share of the keys.
        step = evolve(self.shape, sequence=self.shape.sequence // cp)
        self._kinds = {self.shape.kind(layer): step.blocks(layer, samples, mp, self.style) for layer in (0, last - 1)}
        for layer in (-1, last):
            self._kinds[self.shape.kind(layer)] = self.shape.blocks(layer, samples / cp, mp, self.style)
        stages = range(workload.pp)
        self._ranks = [mesh.members(pp=stage) for stage in stages]
        groups = ([mesh.groups(axis, pp=stage) for stage in stages] for axis in ("mp", "cp", "ep"))
        self._mp_groups, self._cp_groups, self._ep_groups = groups
        self._tails: dict[int, int] = {}
        self._merges: dict[tuple[tuple[Way, ...], str], Cost] = {}
        self._gathers: defaultdict[int, list[int]] = defaultdict(list)
        self._ends: defaultdict[int, list[int]] = defaultdict(list)

    def weight_bytes(self, layers: Iterable[int]) -> float:
        """Return the bytes of one rank's share of the weights (or gradients) of ``layers``."""
        return sum(block.parameters * FP16 for layer in layers for block in self._blocks(layer))

    def replicated(self, stage: int, layers: Iterable[int]) -> list[tuple[Replicas, float]]:
        """Return the ranks of ``stage`` with the same weights of ``layers``, experts apart, and the bytes of these."""
        whole, experts = self.weight_bytes(layers), 0.0
        if self.workload.ep > 1:
            experts = sum(block.expert_parameters * FP16 for layer in layers for block in self._blocks(layer))
        parts = zip(self.sharding.replicas(stage), (whole - experts, experts), strict=True)
        return [(replicas, size) for replicas, size in parts if size and replicas.members.shape[1] > 1]

    def forward(self, stage: int, layers: Sequence[int], microbatch: int, after: Iterable[int] = ()) -> int:
        """Add the forward pass over ``layers`` on ``stage``, behind ``after``; return its last task."""
        for run in self._runs(layers):
            self._pass(stage, run, [(Way.FORWARD, self._blocks(run[0]))], microbatch, after)
            after = ()
        return self._tails[stage]

    def backward(
        self, stage: int, layers: Sequence[int], microbatch: int, after: Iterable[int] = (), way: Way = Way.BACKWARD
    ) -> int:
        """Add the backward pass over ``layers``, in backward order, or the part ``way`` of it; return its last task."""
        for run in self._runs(layers):
            blocks = self._blocks(run[0])
            steps = [(way, blocks[::-1])]
            if self.workload.recomputed == "full" and 0 <= run[0] < self.shape.layers and way.backward:
                steps.insert(0, (Way.RECOMPUTE, blocks))
            self._pass(stage, run, steps, microbatch, after)
            after = ()
        return self._tails[stage]

    def _pass(self, stage: int, run: Sequence[int], steps: _Steps, microbatch: int, after: Iterable[int]) -> None:
        suffix = f"[{microbatch}]"
        if self._merged:
            self._merge(stage, run, steps, suffix, after)
            return
        with self.builder.repeated(len(run)):
            for position, (way, blocks) in enumerate(steps):
                if self._gathers_for(way, run[0], position, microbatch):
                    after = self._weights(stage, f"{way.value} weights of layer {_span(run)} {suffix}", run, after)
                for block in blocks:
                    self._add(stage, f"{way.value} {_span(run)} {block.name} {suffix}", block, way, after)
                    after = ()

    def _merge(self, stage: int, run: Sequence[int], steps: _Steps, suffix: str, after: Iterable[int]) -> None:
        """Add what ``_pass`` adds as one computation, and one communication of each pattern behind it."""
        key = tuple(way for way, _ in steps), self.shape.kind(run[0])
        if key not in self._merges:
            self._merges[key] = sum([self._cost(block, way) for way, blocks in steps for block in blocks], start=Cost())
        name = f"{steps[-1][0].value} {_span(run)} {suffix}"
        with self.builder.repeated(len(run)):
            self._compute(stage, name, self._merges[key], after)
        exchanged = [block for way, blocks in steps for block in blocks if self._reduced(block, way)]
        for pattern in self._patterns if exchanged else ():
            with self.builder.repeated(len(run) * len(exchanged)):
                self._exchange(stage, name, pattern)

    def _runs(self, layers: Sequence[int]) -> list[tuple[int, ...]]:
        if self.sharding.weights:  # each layer has a gather of its own, which overlaps with the layer before
            return [(layer,) for layer in layers]
        return [tuple(run) for _, run in groupby(layers, self.shape.kind)]

    def hand_over(self, source: int, destination: int, task: int, name: str) -> int:
        """Send ``task``'s result from stage to stage; return the task to wait for (itself within one stage)."""
        if source == destination:
            return task
        transfer, size = self.workload.pp_transfer, self._activation_bytes
        if transfer == "multicast":
            groups = np.concatenate([self._mp_groups[source][:, :1], self._mp_groups[destination]], axis=1)
        else:
            groups = np.stack([self._ranks[source], self._ranks[destination]], axis=1)
        # With sequence parallelism a member holds no more than its share; without it, members can share the way.
        parts = self.workload.mp if self.style.sequence_parallel or transfer == "scatter-gather" else 1
        sent = self.builder.transfer(name, groups, size / parts, label="pp", after=(task,))
        if self.style.sequence_parallel or parts == 1:
            return sent
        members = self._mp_groups[destination]
        return self.builder.collective(name, Pattern.ALL_GATHER, members, size, label="pp", after=(sent,))

    @property
    def _activation_bytes(self) -> float:
        """Bytes of the activations between two layers: all of them, on every MP member."""
        return self.samples * self.shape.sequence * self.shape.hidden * FP16 / self.workload.cp

    @property
    def _key_bytes(self) -> float:
        return self._activation_bytes * self.shape.key_value_width / self.shape.hidden / self.workload.mp

    def _blocks(self, layer: int) -> tuple[Block, ...]:
        return self._kinds[self.shape.kind(layer)]

    def _gathers_for(self, way: Way, layer: int, position: int, microbatch: int) -> bool:
        """Return whether ranks gather weights before the pass ``way`` over ``layer``, at ``position`` in turn.

        Tied embeddings stay from the look-up to the last gradient. Others are gathered again in backward, which does
        not need them, as PyTorch does without ``set_unshard_in_backward(False)``.
        """
        if not self.sharding.weights or way is Way.WEIGHTS:
            return False
        if layer < 0 and self.style.embeddings_first and self.shape.tied:
            return way is Way.FORWARD
        if not self.workload.reshard_after_forward:
            # In a pipeline other microbatches need them in between, so they stay until the last backward pass.
            return way is Way.FORWARD and (microbatch == 0 or self.workload.pp == 1)
        return position == 0 or self.workload.reshard_after_recompute

    def _weights(self, stage: int, name: str, run: Sequence[int], after: Iterable[int]) -> tuple[int, ...]:
        """Return ``after``, and the gather of the weights of ``run``, which comes behind the one before."""
        gathers, ends = self._gathers[stage], self._ends[stage]
        if gathers:
            ends.append(self._tails[stage])
        # There are buffers for the layer that computes and for those ahead of it.
        reused = len(ends) - 1 - self.workload.prefetch
        free = (ends[reused],) if reused >= 0 else ()
        for replicas, size in self.replicated(stage, run):
            if replicas.size > 1:
                pattern, groups, before = Pattern.ALL_GATHER, replicas.shards, (*gathers[-1:], *free)
                gathers.append(self.builder.collective(name, pattern, groups, size, label="dp", after=before))
        return (*after, *gathers[-1:])

    def _add(self, stage: int, name: str, block: Block, way: Way, after: Iterable[int]) -> None:
        *before, behind = self._patterns if self._reduced(block, way) else (None,)
        for pattern in before:
            after = (self._exchange(stage, name, pattern, after),)
        if block.mixture is not None and way is not Way.WEIGHTS:
            self._mix(stage, name, block.mixture, way, after)
        elif block.core is not None and self.workload.cp > 1 and way is not Way.WEIGHTS:
            self._attend(stage, name, block, block.core, way, after)
        else:
            self._compute(stage, name, self._cost(block, way), after)
        if behind is not None:
            self._exchange(stage, name, behind)

    def _mix(self, stage: int, name: str, mixture: Mixture, way: Way, after: Iterable[int]) -> None:
        """Add experts, beside which shared ones run while tokens travel; backward, the router comes last."""
        if not way.backward:
            self._compute(stage, f"{name} router", self._cost(mixture.router, way), after)
            after = ()
        there, back = mixture.routing.dispatched, mixture.routing.combined
        arrived = self._route(stage, name, there, self._chained(stage, after))
        if mixture.shared is not None:
            self._compute(stage, f"{name} shared experts", self._cost(mixture.shared, way), after)
        before, loads = self._chained(stage, arrived), mixture.routing.loads
        computed = []
        for load in np.unique(loads):  # ranks with equally many tokens compute in one task
            alike = np.flatnonzero(loads == load)
            each = self._cost(mixture.experts[alike[0]], way) + Cost(kernels=Kernels(launches=len(there) + len(back)))
            ranks = np.sort(self._ep_groups[stage][:, alike], axis=None)
            computed.append(self._task(f"{name} experts", ranks, each, before))
        (self._tails[stage],) = self._route(stage, name, back, computed)
        if way.backward:
            self._compute(stage, f"{name} router", self._cost(mixture.router, way), ())

    def _route(self, stage: int, name: str, steps: Iterable[Step], after: Iterable[int]) -> tuple[int, ...]:
        """Add exchanges of tokens in the EP groups of ``stage``, one behind the other; return what comes last."""
        groups = self._ep_groups[stage]
        for step in steps:
            members = groups[:, step.members].reshape(-1, step.members.shape[1])
            sizes = np.tile(step.tokens * self._activation_bytes, (len(groups), 1, 1))
            after = (self.builder.all_to_all_v(f"{name} {step.name}", members, sizes, label="ep", after=after),)
        return tuple(after)

    def _attend(self, stage: int, name: str, block: Block, core: Block, way: Way, after: Iterable[int]) -> None:
        """Add attention whose keys and values CP members exchange; its linear layers come last in backward."""
        each = core_cost(core, way, selective=self.workload.recomputed == "selective")
        linear = self._cost(block, way).without(each)
        if not way.backward:
            self._compute(stage, name, linear, after)
            after = ()
        exchanged = self._ring if self.workload.cp_communication == RING else self._gathered
        after = exchanged(stage, name, each, way, after)
        if way.backward:
            self._compute(stage, name, linear, after)

    def _ring(self, stage: int, name: str, core: Cost, way: Way, after: Iterable[int]) -> tuple[int, ...]:
        """Add the steps of a ring; return what is behind: in backward, gradients that follow keys and values."""
        steps, overlap = self.workload.cp, self.workload.overlap_cp
        arrived: tuple[int, ...] = ()  # keys and values of the step
        summed: tuple[int, ...] = ()  # gradients of those of the steps before
        for step in range(steps):
            needed = (*arrived, *after)
            if overlap and step + 1 < steps:
                arrived = self._send(stage, f"{name} keys {step}", needed)
            self._share(stage, f"{name} core {step}", core, self._work(step), needed)
            after = ()
            if way.backward and step:
                summed = self._send(stage, f"{name} gradients {step}", summed)
            if not overlap:
                after = summed
                if step + 1 < steps:
                    arrived = self._send(stage, f"{name} keys {step}", summed)
        return summed

    def _send(self, stage: int, name: str, after: Iterable[int]) -> tuple[int, ...]:
        groups = self._cp_groups[stage]
        pairs = np.stack([groups, np.roll(groups, -1, axis=1)], axis=-1).reshape(-1, 2)
        return (self.builder.transfer(name, pairs, self._key_bytes, label="cp", after=self._chained(stage, after)),)

    def _gathered(self, stage: int, name: str, core: Cost, way: Way, after: Iterable[int]) -> tuple[int, ...]:

        def exchange(what: str, pattern: Pattern, after: Iterable[int]) -> tuple[int, ...]:
            groups, before = self._cp_groups[stage], self._chained(stage, after)
            size = self.workload.cp * self._key_bytes
            return (self.builder.collective(f"{name} {what}", pattern, groups, size, label="cp", after=before),)

        gathered = exchange("keys", Pattern.ALL_GATHER, after)
        # One kernel, as large as those of all steps of a ring.
        self._share(stage, f"{name} core", core, self._work(None), gathered)
        return exchange("gradients", Pattern.REDUCE_SCATTER, ()) if way.backward else ()

    def _work(self, step: int | None) -> IntArray:
        """Return what each CP member computes in a step, or in all, in units of the first step without a mask.

        Keys of step ``s`` come from ``s`` ranks before. Masked, a rank sees half its own, all before it, none behind.
        """
        size = self.workload.cp
        members = np.arange(size)
        if not (self.workload.skips and self.workload.cp_layout != ZIGZAG):
            return np.full(size, size if step is None else 1)
        if step is None:
            return 2 * members + 1
        return np.where(members >= step, 2 if step else 1, 0)

    def _share(self, stage: int, name: str, core: Cost, work: IntArray, after: Iterable[int]) -> None:
        """Add attention in which each CP member does ``work`` times what ``core`` costs, in one kernel."""
        chained, groups = self._chained(stage, after), self._cp_groups[stage]
        one, computed = core.kernels, []
        for times in np.unique(work[work > 0]).tolist():
            kernels = Kernels(one.gemms * times, one.moved * times, one.launches, one.attentions * times)
            ranks = np.sort(groups[:, work == times], axis=None)
            computed.append(self._task(name, ranks, Cost(core.flops * times, core.moved * times, kernels), chained))
        self._tails[stage] = computed[0]
        if (work != work[0]).any():  # each goes on behind its own part
            self._compute(stage, name, Cost(), (*computed, *chained))

    def _reduced(self, block: Block, way: Way) -> bool:
        return block.reduced and self.workload.mp > 1 and way is not Way.WEIGHTS

    @property
    def _patterns(self) -> tuple[Pattern, ...]:
        """What MP communicates for each block: the last one behind it, the others before."""
        return (Pattern.ALL_GATHER, Pattern.REDUCE_SCATTER) if self.style.sequence_parallel else (Pattern.ALL_REDUCE,)

    def _compute(self, stage: int, name: str, cost: Cost, after: Iterable[int]) -> None:
        self._tails[stage] = self._task(name, self._ranks[stage], cost, self._chained(stage, after))

    def _task(self, name: str, ranks: IntArray, cost: Cost, after: Iterable[int]) -> int:
        flops, moved, kernels = cost.flops, cost.moved, cost.kernels
        return self.builder.compute(name, ranks, flops=flops, bytes=moved, after=after, kernels=kernels)

    def _exchange(self, stage: int, name: str, pattern: Pattern, after: Iterable[int] = ()) -> int:
        chained, groups, size = self._chained(stage, after), self._mp_groups[stage], self._activation_bytes
        self._tails[stage] = self.builder.collective(name, pattern, groups, size, label="mp", after=chained)
        return self._tails[stage]

    def _chained(self, stage: int, after: Iterable[int]) -> tuple[int, ...]:
        tail = self._tails.get(stage)
        return tuple(after) if tail is None else (tail, *after)

    def _cost(self, block: Block, way: Way) -> Cost:
        """Return the cost of a pass over ``block``; of its attention there is one step."""
        communications = len(self._patterns) if self._reduced(block, way) else 0
        return cost(block, way, recompute=self.workload.recomputed, communications=communications)


def _span(layers: Sequence[int]) -> str:
    return str(layers[0]) if len(layers) == 1 else f"{layers[0]}..{layers[-1]}"
