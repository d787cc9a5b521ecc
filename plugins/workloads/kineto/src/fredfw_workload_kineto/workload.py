"""The workload ``kineto``: what GPUs did in traces of the PyTorch profiler, with other communication."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, frozen

import fredfw
from fredfw import DeviceMesh, Files, Pattern, System, TaskGraph, TaskKind, TraceInfo, TraceWorkload, limits, units
from fredfw.errors import InputError, placed
from fredfw_workload_kineto.operations import COMMUNICATION, NAME, Call, Operations, only_step, operations, read
from fredfw_workload_kineto.order import COMPUTE, OBSERVED, WAITS, Node, Order, nodes, union

_MICROSECOND = 1e-6


@frozen
class Kineto(TraceWorkload):
    """One iteration as the PyTorch profiler (Kineto) has recorded it, with its communication on another fabric.

    Each file is the trace of one rank. Kernels and copies, one chain on all streams, take the time that they took;
    communication is simulated. A collective waits for what had been computed when it began, and computation for a
    collective where stream-wait events say so or else a stream was idle until it ended. Gaps are time of the host.
    """

    name: ClassVar[str] = "kineto"

    traces: Files = units.files(help="JSON files of torch.profiler, compressed by gzip or not, one for each rank")
    step: int | None = units.count(
        None, minimum=0, help="the ProfilerStep that is the iteration; default: all of the trace"
    )
    order: str = units.choice(
        (WAITS, OBSERVED),
        help="what waits for a collective: what waited for it in the trace, or all that began after it",
    )
    gap: float = units.duration(10e-6, help="longest time that a GPU is idle by itself; the host causes longer ones")
    host: bool = units.flag(True, help="whether the host's gaps take time")
    replicate: bool = units.flag(False, help="whether ranks without a trace do what the ones with a trace do")

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        return any(one in head for one in (b'"traceEvents"', b'"distributedInfo"', b'"deviceProperties"'))

    def mesh(self, system: System) -> DeviceMesh:
        """Return one axis of all ranks, and the process groups of the traces by what their time is charged to."""
        groups: dict[str, set[tuple[int, ...]]] = {}
        for one in self._traces.values():
            for _, call in one.calls:
                groups.setdefault(call.label, set()).add(call.ranks)
        alike = {name: sorted(those) for name, those in groups.items() if len({len(one) for one in those}) == 1}
        return DeviceMesh({"rank": self._world}, {name: np.array(those) for name, those in alike.items()})

    def graph(self, system: System) -> TaskGraph:
        by_source = {rank: self._nodes(one) for rank, one in self._traces.items()}
        # A rank without a trace does what the next one below with a trace does.
        known = sorted(by_source)
        sources = [max((one for one in known if one <= rank), default=known[0]) for rank in range(self._world)]
        limits.check("tasks", sum(len(by_source[source]) for source in sources), key="traces")
        made = [
            by_source[rank] if rank == source else self._copied(by_source[source], rank, source)
            for rank, source in enumerate(sources)
        ]
        return _graph(made, self.replicate)

    def notes(self, system: System) -> tuple[str, ...]:
        return tuple(self._notes())

    def omissions(self, system: System) -> tuple[str, ...]:
        unknown = sum(one.unknown for one in self._traces.values())
        if not unknown:
            return ()
        return (f"{unknown} communication kernels are left out: the traces have no sizes of them",)

    def info(self) -> tuple[TraceInfo, ...]:
        return tuple(self._info(rank, one) for rank, one in self._traces.items())

    @cached_property
    def _traces(self) -> dict[int, Operations]:
        """What the GPUs did, in the chosen step or in all, by rank."""
        found: dict[int, Operations] = {}
        profiles = [read(file) for file in self.traces.files]
        known = all(one.rank is not None for one in profiles)
        for place, profile in enumerate(profiles):
            rank = place if profile.rank is None or not known else profile.rank
            if rank in found:
                message, key = f"is of rank {rank}, as {found[rank].profile.path} is", "distributedInfo.rank"
                raise InputError(message, file=profile.path, key=key, accepted="one file for each rank")
            with placed(file=profile.path):
                whole = operations(profile)
                found[rank] = whole if self.step is None else only_step(whole, self.step)
        return dict(sorted(found.items()))

    @cached_property
    def _world(self) -> int:
        traces = self._traces
        calls = [call for one in traces.values() for _, call in one.calls]
        if not calls:
            paths = ", ".join(one.profile.path for one in traces.values())
            where = "no collectives" if self.step is None else f"no collectives in step {self.step}"
            accepted = "traces of distributed training on GPUs by PyTorch 2.3 or later, which record sizes"
            raise InputError(f"{where}: no communication kernel has a {NAME!r}", file=paths, accepted=accepted)
        members = {rank for call in calls for rank in (*call.ranks, call.peer)}
        world = 1 + max(*members, *traces, *((one.profile.world or 0) - 1 for one in traces.values()))
        limits.check("nodes", world, key="traces")
        missing = [rank for rank in range(world) if rank not in traces]
        if missing and not self.replicate:
            message = f"there are traces of {_listed(traces)}, and none of {_listed(missing)}"
            accepted = f"a trace of each of the {world} ranks, or replicate = true"
            raise InputError(message, key="traces", accepted=accepted)
        return world

    def _nodes(self, work: Operations) -> list[Node]:
        return nodes(Order(work, self.order, self.gap / _MICROSECOND), host=self.host)

    def _copied(self, made: Iterable[Node], rank: int, source: int) -> list[Node]:
        with placed(file=self._traces[source].profile.path, key="replicate"):
            return [
                one if one.call is None else evolve(one, call=_shifted(one.call, rank, source, self._world))
                for one in made
            ]

    def _notes(self) -> Iterable[str]:
        world, traces = self._world, self._traces
        if world > len(traces):
            yield (
                f"{world - len(traces)} of {world} ranks have no trace: they do what {_listed(traces)} "
                f"{'does' if len(traces) == 1 else 'do'} (replicate = true)"
            )
        steps = {number for one in traces.values() for number in one.profile.steps}
        if self.step is None and len(steps) > 1:
            yield f"one iteration is all {len(steps)} steps of the traces, {min(steps)} to {max(steps)}"
        for rank, one in traces.items():
            communication, computation = _intervals(one)
            yield (
                f"measured on rank {rank}: {(one.end - one.begin) / 1e3:.4g} ms, communication "
                f"{_total(communication) / 1e3:.4g} ms, {_uncovered(communication, computation) / 1e3:.4g} ms "
                "of it while no other kernel ran"
            )
        if not all(one.waits for one in traces.values()):
            yield (
                "traces without stream-wait events: what waits for a collective is known by the time at which it began"
            )
        calls = [call for one in traces.values() for _, call in one.calls]
        if any(call.pattern is not None and call.pattern.rooted for call in calls):
            yield "traces do not have the roots of collectives: it is the first rank of the group"

    def _info(self, rank: int, work: Operations) -> TraceInfo:
        profile = work.profile
        seconds: dict[str, float] = {}
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for one in work.listed:
            duration = (one.end - one.start) * _MICROSECOND
            seconds[one.kind] = seconds.get(one.kind, 0.0) + duration
            if one.call is not None:
                key = one.call.operation, one.call.group if one.call.pattern is not None else ""
                found.setdefault(key, []).append((one.call.bytes, duration))
        calls = []
        for (operation, group), these in sorted(found.items()):
            sizes, durations = zip(*these, strict=True)
            numbers = sum(sizes), min(sizes), max(sizes), sum(durations)
            calls.append(fredfw.TraceCalls(operation, group, len(these), *numbers))
        facts: dict[str, str | int | float] = dict(profile.facts)
        facts["streams"] = len({one.stream for one in work.listed})
        facts["steps"] = ", ".join(map(str, profile.steps)) or "not marked"
        facts["span (s)"] = round((work.end - work.begin) * _MICROSECOND, 9)
        facts["communication not covered by kernels (s)"] = round(_uncovered(*_intervals(work)) * _MICROSECOND, 9)
        notes = []
        if not work.waits:
            notes.append("no stream-wait events (enable_cuda_sync_events)")
        if work.unknown:
            notes.append(f"{work.unknown} communication kernels without sizes")
        return TraceInfo(
            path=profile.path,
            rank=profile.rank if profile.rank is not None else rank,
            nodes=dict(Counter(one.kind for one in work.listed)),
            seconds=seconds,
            calls=tuple(calls),
            communicators={**profile.groups, **{call.group: call.ranks for _, call in work.calls}},
            dependencies=sum(len(one.after) for one in self._nodes(work)),
            facts=facts,
            notes=tuple(notes),
        )


def _intervals(work: Operations) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    communication = [(one.start, one.end) for one in work.listed if one.kind == COMMUNICATION]
    return communication, [(one.start, one.end) for one in work.listed if one.kind != COMMUNICATION]


def _uncovered(communication: Iterable[tuple[float, float]], computation: Iterable[tuple[float, float]]) -> float:
    """Return for how long one interval of ``communication`` runs, and none of ``computation``."""
    computation = list(computation)
    return _total([*communication, *computation]) - _total(computation)


def _total(intervals: Iterable[tuple[float, float]]) -> float:
    return float(np.diff(union(intervals), axis=1).sum())


def uncovered(timeline: fredfw.Timeline, rank: int = 0) -> float:
    """Return the seconds for which ``rank`` communicates while its GPU runs no other kernel.

    Time of the host covers nothing. Notes of the workload ``kineto`` have the same number of the trace.
    """
    graph = timeline.graph
    communication, computation = [], []
    for task, start, end, ranks in zip(timeline.task, timeline.start, timeline.end, timeline.ranks, strict=True):
        if rank in ranks:
            if graph.kinds[task] != TaskKind.COMPUTE:
                communication.append((float(start), float(end)))
            elif graph.label(int(task)) == COMPUTE:
                computation.append((float(start), float(end)))
    return _uncovered(communication, computation)


def _listed(ranks: Iterable[int]) -> str:
    shown = sorted(ranks)
    few = ", ".join(map(str, shown[:8]))
    return f"rank{'s' if len(shown) > 1 else ''} {few}{f' and {len(shown) - 8} more' if len(shown) > 8 else ''}"


def _shifted(call: Call, rank: int, source: int, world: int) -> Call:
    """Return what ``rank`` does where it does as ``source``, in its own group of a grid of evenly spaced ranks."""
    if call.pattern is None:
        message = f"rank {rank} cannot do what rank {source} does, which sends to or receives from rank {call.peer}"
        raise InputError(message, accepted="traces of all ranks, where there are sends and receives")
    if rank in call.ranks:
        return call
    ranks, members = sorted(call.ranks), len(call.ranks)
    stride = ranks[1] - ranks[0] if members > 1 else 1

    def group(of: int) -> list[int]:
        first = of - of // stride % members * stride
        return [first + place * stride for place in range(members)]

    shifted = group(rank)
    if group(source) != ranks or not 0 <= shifted[0] <= shifted[-1] < world:
        accepted = f"groups that are evenly spaced and divide the {world} ranks"
        raise InputError(f"the group {list(call.ranks)} has no like with rank {rank} in it", accepted=accepted)
    place = dict(zip(ranks, shifted, strict=True))
    return evolve(call, ranks=tuple(place[one] for one in call.ranks))


def _graph(by_rank: Sequence[Sequence[Node]], copied: bool) -> TaskGraph:
    """Return the graph of the nodes of each rank. Where they are ``copied``, group names do not tell groups apart."""
    patterns = list(Pattern)
    labels: dict[str, int] = {}
    communicators: dict[tuple[str, tuple[int, ...]], int] = {}
    tags: dict[str, int] = {}
    rows: list[tuple[int, ...]] = []
    before: list[list[int]] = []
    for rank, those in enumerate(by_rank):
        first = len(rows)
        for one in those:
            before.append([first + place for place in one.after])
            label, call = labels.setdefault(one.label, len(labels)), one.call
            if call is None:
                rows.append((rank, TaskKind.COMPUTE, label, -1, -1, -1, -1, 0))
            elif call.pattern is None:
                tag = tags.setdefault(call.group, len(tags))
                rows.append((rank, call.kind, label, -1, -1, -1, call.peer, tag))
            else:
                group = call.description if copied else call.group
                number = communicators.setdefault((group, call.ranks), len(communicators))
                root = call.ranks[0] if call.pattern.rooted else -1
                rows.append((rank, call.kind, label, patterns.index(call.pattern), number, root, -1, 0))
    listed = [one for those in by_rank for one in those]
    splits = [() if one.call is None else one.call.splits for one in listed]
    names = "rank", "kind", "label", "pattern", "communicator", "root", "peer", "tag"
    columns: dict[str, Any] = dict(zip(names, np.array(rows, dtype=np.intp).reshape(-1, len(names)).T, strict=True))
    return TaskGraph.from_columns(
        len(by_rank),
        **columns,
        dependency_offsets=np.cumsum([0, *map(len, before)]),
        dependencies=np.array([one for those in before for one in those], dtype=np.intp),
        seconds=[one.seconds if one.call is None else np.nan for one in listed],
        bytes=[0.0 if one.call is None else one.call.bytes for one in listed],
        label_names=tuple(labels),
        communicators=[list(ranks) for _, ranks in communicators],
        split_offsets=np.cumsum([0, *map(len, splits)]),
        splits=[size for those in splits for size in those],
        names=[one.name for one in listed],
    )
