"""The nodes of one rank: its computation, cut where communication begins or is waited for."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field, frozen

from fredfw_workload_kineto.calls import Call
from fredfw_workload_kineto.order import Order, union

COMPUTE, HOST = "compute", "host"
_MICROSECOND = 1e-6


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

    The streams that compute are one chain, as an NPU computes one thing at a time: what runs at once on two of them
    takes its time once. Gaps shorter than that of ``order`` belong to it, longer ones are time of the host; without
    ``host`` they take no time.
    """
    work, listed = order.work, order.work.listed
    computing = [one for one in listed if one.call is None]
    chain = _Chain(
        runs=union(((one.start, one.end) for one in computing), order.gap).tolist(),
        names={one.start: one.name for one in reversed(computing)},
        host=host,
        position=work.begin,
    )
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
                name = self.names.get(self.position, "computation")
                self._last = (self.add(name, COMPUTE, stop - self.position),)
                self.position = stop
                self._run += stop == end
        self._last = (*self._last, *awaited)

    def add(self, name: str, label: str, duration: float, after: Iterable[int] = (), call: Call | None = None) -> int:
        """Add a node after the computation so far and others; return its place. ``duration`` is in microseconds."""
        known = tuple(dict.fromkeys((*self._last, *after)))
        self.nodes.append(Node(name, label, duration * _MICROSECOND, known, call))
        return len(self.nodes) - 1
