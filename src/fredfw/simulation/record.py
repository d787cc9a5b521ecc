"""What happened when: spans, and the time each rank spent on what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from attrs import asdict, define, evolve, frozen

from fredfw.typing import BoolArray, FloatArray, IntArray
from fredfw.workloads import TaskGraph, TaskKind
from fredfw.workloads.composition import is_between
from fredfw.workloads.labels import BUBBLE, COMPUTE


class Wait(NamedTuple):
    """A time in which a rank computes nothing."""

    span: int  # what it waits for: the last of the spans that keep it from going on
    start: float  # seconds
    end: float  # seconds


@frozen(eq=False)
class Timeline:
    """The spans of one simulated iteration: who did what from when to when, and what started it.

    A span is the part of one task that ran in lockstep: some ranks of a compute task, or one or more whole groups of a
    communication; where ranks do not wait for each other, those that were through at the same time and had waited for
    the same rank last. ``S`` spans, in the order in which they ended.

    Args:
        graph: The tasks.
        task: ``(S,)`` task index.
        start: ``(S,)`` seconds; of communication when its last awaited member was ready, though some entered before.
        end: ``(S,)`` seconds.
        trigger: ``(S,)`` the span whose end made this one start, -1 for the beginning of the iteration.
        ranks: Per span, the distinct ranks that take part.
        duration: End of the iteration in seconds.
    """

    graph: TaskGraph
    task: IntArray
    start: FloatArray
    end: FloatArray
    trigger: IntArray
    ranks: tuple[IntArray, ...]
    duration: float

    def __len__(self) -> int:
        return len(self.task)

    def iterations(self, job: int) -> list[Timeline]:
        """Return the iterations of a job that ``composed`` joined: ranks and times begin at 0, tasks keep numbers."""
        graph = self.graph
        own = graph.jobs == job
        members = np.unique(np.concatenate([graph.tables[one].ravel() for one in np.unique(graph.members[own])]))
        mine = np.flatnonzero(own[self.task])
        between = [is_between(graph.names[task]) for task in self.task[mine].tolist()]
        cuts = np.flatnonzero(between)
        alone = evolve(graph, ranks=len(members))
        found, since = [], 0.0
        for number, part in enumerate(np.split(mine, cuts)):
            if number:
                since = float(self.end[part[0]])
            elif between[:1] == [True]:
                continue  # nothing comes before the wait for its start
            found.append(self._part(alone, part[1:] if number else part, members, since))
        return found

    def _part(self, graph: TaskGraph, spans: IntArray, members: IntArray, since: float) -> Timeline:
        place = np.full(len(self) + 1, -1)
        place[spans] = np.arange(len(spans))
        end = self.end[spans] - since
        return Timeline(
            graph=graph,
            task=self.task[spans],
            start=np.maximum(self.start[spans] - since, 0.0),
            end=end,
            trigger=place[self.trigger[spans]],
            ranks=tuple(np.searchsorted(members, self.ranks[span]) for span in spans.tolist()),
            duration=float(end.max(initial=0.0)),
        )

    def is_compute(self, span: int) -> bool:
        """Return whether ``span`` is a computation."""
        return bool(self._computes[span])

    @cached_property
    def _computes(self) -> BoolArray:
        computes: BoolArray = self.graph.kinds[self.task] == TaskKind.COMPUTE
        return computes

    @cached_property
    def breakdown_by_rank(self) -> dict[str, FloatArray]:
        """Seconds by cause for every rank: ``compute``, ``bubble``, and exposed communication by label.

        Each idle gap of a rank is charged to the labels of the chain of last-finishing dependencies before it,
        computations of others as ``bubble``. Values are ``(ranks,)`` arrays; for each rank they add up to ``duration``.
        """
        names = list(dict.fromkeys((COMPUTE, BUBBLE, *self.graph.label_names)))
        label = np.array([names.index(one) for one in self.graph.label_names], dtype=np.intp)
        cause = np.where(self._computes, names.index(BUBBLE), label[self.graph.labels[self.task]])
        charged = np.zeros((len(names), self.graph.ranks))
        span, rank = self._members()
        own = self._computes[span]
        np.add.at(charged[names.index(COMPUTE)], rank[own], (self.end - self.start)[span[own]])
        for who, awaited, start, end in self._waits():
            np.add.at(charged, (cause[awaited], who), np.maximum(end - start, 0.0))
        return dict(zip(names, charged, strict=True))

    def _members(self) -> tuple[IntArray, IntArray]:
        span = np.repeat(np.arange(len(self)), [len(members) for members in self.ranks])
        return span, np.concatenate([np.empty(0, dtype=np.intp), *self.ranks])

    def _waits(self) -> Iterator[tuple[IntArray, IntArray, FloatArray, FloatArray]]:
        """Yield which ranks wait for which spans, and from when to when; one that ends before it starts is none."""
        count, (span, rank) = self.graph.ranks, self._members()
        last = np.full(count, -1)
        np.maximum.at(last, rank, span)
        # A rank's compute spans never overlap, so the order of their ends is that of their starts.
        own = np.flatnonzero(self._computes[span])
        own = own[np.argsort(rank[own], kind="stable")]
        span, rank = span[own], rank[own]
        start, end = self.start[span], self.end[span]
        since = np.where(np.diff(rank, prepend=-1), 0.0, np.roll(end, 1))
        busy_until = np.zeros(count)
        np.maximum.at(busy_until, rank, end)
        # After its last computation a rank waits for its own last span, and then for that of the whole iteration.
        own_end = np.where(last >= 0, np.append(self.end, 0.0)[last], 0.0)
        final = int(self.end.argmax()) if len(self) else -1
        waits = np.concatenate([self.trigger[span], last, np.full(count, final)])
        until = np.concatenate([start, own_end, np.full(count, self.duration)])
        since = np.concatenate([since, busy_until, np.maximum(own_end, busy_until)])
        who = np.concatenate([rank, *[np.arange(count)] * 2])
        while len(open_ := np.flatnonzero((waits >= 0) & (since < until))):
            waits, until, since, who = waits[open_], until[open_], since[open_], who[open_]
            yield who, waits, np.maximum(since, self.start[waits]), until
            until, waits = self.start[waits], self.trigger[waits]

    def waits(self, ranks: Sequence[int]) -> dict[int, list[Wait]]:
        """Return what each of ``ranks`` waits for, and when: what ``breakdown_by_rank`` adds up, in order of time."""
        found: dict[int, list[Wait]] = {rank: [] for rank in ranks}
        for who, *wait in self._waits():
            mine = np.isin(who, list(found)) & (wait[1] < wait[2])
            for rank, *one in zip(*(column[mine].tolist() for column in (who, *wait)), strict=True):
                found[rank].append(Wait(*one))
        return {rank: sorted(waits, key=attrgetter("start")) for rank, waits in found.items()}

    @property
    def breakdown(self) -> dict[str, float]:
        """Seconds by cause, the mean of ``breakdown_by_rank`` over the ranks; the parts add up to ``duration``."""
        return {label: float(seconds.mean()) for label, seconds in self.breakdown_by_rank.items()}


@define
class Statistics:
    """Counters of one network."""

    events: int = 0  # moments at which something happened
    batches: int = 0  # flow sets started
    flows: int = 0  # flows started
    solves: int = 0  # times that rates were computed, of all flows or of those that a change reaches
    solved: int = 0  # flows whose rates all solves together computed
    passes: int = 0  # passes over the flows that all solves took together
    most_passes: int = 0  # passes of the solve that took most
    waits: int = 0  # flow sets that had to wait for others, however often they were asked about again
    splits: int = 0  # flow sets that ran in parts
    decompositions: int = 0  # flow sets that were replaced by unicasts
    # Meetings out of step with repetitions simulated as one; without, sets take as long one repetition after the other.
    met: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counters by name."""
        return asdict(self)

    def __add__(self, other: Statistics) -> Statistics:
        mine, others = asdict(self), asdict(other)
        sums = {name: value + others[name] for name, value in mine.items()}
        return Statistics(**sums | {"most_passes": max(self.most_passes, other.most_passes)})
