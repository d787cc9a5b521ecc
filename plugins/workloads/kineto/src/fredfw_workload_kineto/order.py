"""What waits for what: the order that the streams and the times of a trace show, and the nodes of one rank.

- Operations of one stream run in turn.
- Where the file has stream-wait events, these say what waits for what between streams.
- Without them, a collective waits for what its NPU had computed: what the host launched before the collective where the
  file has the launches, otherwise what ended before it began. Something waits for a collective where the trace shows
  it: nothing ran on its stream until the collective ended, and it began at once.
- A collective that began later than all that it waits for is late by itself: its computation had to come as far first.
- What nothing waits for is waited for at the end of a step.

Computation is cut where communication begins or is waited for.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import numpy as np
from attrs import define, field, frozen

from fredfw.typing import FloatArray
from fredfw_workload_kineto.operations import Call, Operation, Operations

WAITS, OBSERVED = "waits", "observed"
COMPUTE, HOST = "compute", "host"
_MICROSECOND = 1e-6


def union(intervals: Iterable[tuple[float, float]], gap: float = 0.0) -> FloatArray:
    """Return the ``(n, 2)`` times in which one of ``intervals`` runs; those less than ``gap`` apart are one."""
    ordered = np.array(sorted(intervals), dtype=float).reshape(-1, 2)
    if not len(ordered):
        return ordered
    ends = np.maximum.accumulate(ordered[:, 1])
    distance = ordered[1:, 0] - ends[:-1]
    apart = np.flatnonzero((distance > 0) & (distance >= gap)) + 1
    return np.column_stack((ordered[np.append(0, apart), 0], ends[np.append(apart - 1, len(ends) - 1)]))


class Order:
    """What the communication of one rank waits for, and what waits for it; operations by their place."""

    def __init__(self, work: Operations, rule: str, gap: float) -> None:
        self.work = work
        self.rule = rule  # `waits`, or `observed`: whatever ended before something began comes before it
        self.gap = gap  # microseconds that a stream may be idle without having waited for anything
        listed = work.listed
        calls = [place for place, _ in work.calls]
        computing = [place for place, one in enumerate(listed) if one.call is None]
        self.after: dict[int, set[int]] = {place: set() for place in calls}  # for each call those that it waits for
        # Calls that computation waits for, by the moment of the trace when it went on.
        self.awaited: dict[float, set[int]] = {}
        self.open = set(calls)  # those that nothing waits for
        before = self._streams()
        for source, waiter in work.waits:
            if listed[source].call is not None:
                self._wait(waiter, source)
        if rule == OBSERVED or not work.waits:
            self._by_times(calls, computing, before)
        # For each call the moment of the trace, in microseconds, up to which computation comes before it.
        self.points = self._points(calls, computing)
        starts = [listed[place].start for place in computing]
        for boundary in work.boundaries:
            number = bisect_left(starts, boundary)
            for place in calls if number < len(starts) else ():
                if place in self.open and listed[place].end <= starts[number]:
                    self._wait(computing[number], place)

    def _wait(self, waiter: int, source: int) -> None:
        if source > waiter:  # began later, so the clocks of the trace do not agree
            return
        self.open.discard(source)
        one = self.work.listed[waiter]
        if one.call is None:
            self.awaited.setdefault(one.start, set()).add(source)
        else:
            self.after[waiter].add(source)

    def _streams(self) -> dict[int, Operation]:
        """Let what comes after a call on its stream wait for it; return what comes before each operation."""
        last: dict[int, int] = {}
        before = {}
        for place, one in enumerate(self.work.listed):
            if one.stream in last:
                before[place] = self.work.listed[last[one.stream]]
                if before[place].call is not None:
                    self._wait(place, last[one.stream])
            last[one.stream] = place
        return before

    def _points(self, calls: list[int], computing: list[int]) -> dict[int, float]:
        listed = self.work.listed
        ends: dict[int, float] = {}
        if self.work.waits:
            for source, waiter in self.work.waits:
                if listed[source].call is None:
                    ends[waiter] = max(listed[source].end, ends.get(waiter, -math.inf))
        else:
            launched = sorted((listed[one].launch, listed[one].end) for one in computing)
            known = [] if any(math.isnan(launch) for launch, _ in launched) else [launch for launch, _ in launched]
            ended = sorted(listed[one].end for one in computing)
            for place in calls:
                number = bisect_left(known, listed[place].launch) if known else 0
                if number:
                    ends[place] = launched[number - 1][1]
                elif number := bisect_right(ended, listed[place].start):
                    ends[place] = ended[number - 1]
        points: dict[int, float] = {}
        for place in calls:
            start = listed[place].start
            ready = max([ends.get(place, -math.inf), *(listed[one].end for one in self.after[place])])
            point = start if start - ready >= self.gap else min(ends.get(place, -math.inf), start)
            points[place] = max([point, *(points[one] for one in self.after[place])])
        return points

    def _by_times(self, calls: list[int], computing: list[int], before: dict[int, Operation]) -> None:
        listed = self.work.listed
        starts = [listed[place].start for place in computing]
        call_starts = [listed[place].start for place in calls]
        busy = union((listed[place].start, listed[place].end) for place in computing)
        for source in calls:
            end = listed[source].end
            number = bisect_left(starts, end)
            if number < len(starts):
                start = starts[number]
                run = int(np.searchsorted(busy[:, 0], start, side="right")) - 1
                since = float(busy[run - 1, 1]) if run else -math.inf
                if self.rule == OBSERVED or (busy[run, 0] >= end and self._at_once(since, end, start)):
                    self._wait(computing[number], source)
            for waiter in self._next_calls(calls, call_starts, source):
                since = before[waiter].end if waiter in before else -math.inf
                if self.rule == OBSERVED or self._at_once(since, end, listed[waiter].start):
                    self._wait(waiter, source)

    def _at_once(self, since: float, end: float, start: float) -> bool:
        """Return whether what was idle ``since`` then, and begins at ``start``, has waited for what ends at ``end``."""
        return since <= end and start - since >= self.gap and start - end < self.gap

    def _next_calls(self, calls: list[int], starts: list[float], source: int) -> Iterator[int]:
        """Yield the first call of each other stream that begins after the end of ``source``."""
        listed = self.work.listed
        end, streams = listed[source].end, {listed[source].stream}
        for number in range(bisect_left(starts, end), len(calls)):
            one = listed[calls[number]]
            if self.rule == WAITS and one.start - end >= self.gap:
                return
            if one.stream not in streams:
                streams.add(one.stream)
                yield calls[number]


@frozen
class Node:
    """One node of one rank."""

    name: str  # for messages and pictures
    label: str  # what its time is charged to
    seconds: float  # duration of a computation; 0 for communication
    after: tuple[int, ...]  # nodes of the same rank that it waits for, by place
    call: Call | None = None  # what it communicates; `None` for a computation


def nodes(order: Order, *, host: bool) -> list[Node]:
    """Return the nodes of one rank, each after those that it waits for.

    The streams that compute are one chain: what runs at once on two of them takes its time once. Gaps shorter than
    that of ``order`` belong to it, longer ones are time of the host, or take none without ``host``.
    """
    work, listed = order.work, order.work.listed
    computing = [one for one in listed if one.call is None]
    runs = union(((one.start, one.end) for one in computing), order.gap).tolist()
    chain = _Chain(runs, {one.start: one.name for one in reversed(computing)}, host, position=work.begin)
    of_call: dict[int, int] = {}
    moments = [(moment, 0, place) for place, moment in order.points.items()]
    moments += [(moment, 1, -1) for moment in order.awaited]
    for moment, awaits, place in sorted(moments):
        if awaits:
            sources = sorted(order.awaited[moment])
            chain.go(moment, [of_call[one] for one in sources], max(listed[one].end for one in sources))
        else:
            chain.go(moment)
            call = listed[place].call
            assert call is not None  # it is one of the calls
            before = [of_call[one] for one in sorted(order.after[place])]
            of_call[place] = chain.add(call.operation, call.label, 0.0, before, call)
    chain.go(max((end for _, end in chain.runs), default=work.begin))
    chain.position = max((one.end for one in listed), default=work.begin)
    chain.go(work.end, [of_call[one] for one in sorted(order.open)])
    return chain.nodes


@define
class _Chain:
    """The computation of a rank, made as time goes on."""

    runs: list[list[float]]  # start and end of what runs without a gap
    names: dict[float, str]  # what begins when
    host: bool  # whether gaps take time
    position: float  # how far it is
    nodes: list[Node] = field(factory=list, init=False)
    _run: int = field(default=0, init=False)
    _last: tuple[int, ...] = field(default=(), init=False)  # the last computation, and calls that the next waits for

    def go(self, until: float, awaited: Iterable[int] = (), free: float = 0.0) -> None:
        """Compute up to a moment, which waits for calls that are over at ``free``: not for the host before that."""
        while self.position < until:
            start, end = self.runs[self._run] if self._run < len(self.runs) else (until, until)
            if self.position < start:
                stop = min(start, until)
                if stop == until:
                    self._last, awaited = (*self._last, *awaited), ()
                    self.position = min(max(self.position, free), stop)
                if self.host and stop > self.position:
                    self._last = (self.add(HOST, HOST, stop - self.position),)
                self.position = stop
            else:
                stop = min(end, until)
                self._last = (self.add(self.names.get(self.position, "computation"), COMPUTE, stop - self.position),)
                self.position = stop
                self._run += stop == end
        self._last = (*self._last, *awaited)

    def add(self, name: str, label: str, duration: float, after: Iterable[int] = (), call: Call | None = None) -> int:
        """Add a node after the computation so far and others; return its place. ``duration`` is in microseconds."""
        self.nodes.append(Node(name, label, duration * _MICROSECOND, tuple(dict.fromkeys((*self._last, *after))), call))
        return len(self.nodes) - 1
