"""The network that others step: messages, collectives, receives and timers in, callbacks out."""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, NewType, TypeGuard, TypeVar

import numpy as np
from attrs import define

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest
from fredfw.embed.matching import Matching
from fredfw.embed.paths import Paths
from fredfw.errors import DeadlockError, InputError, UnknownNameError, nearest
from fredfw.fabric import AlwaysStart, Fabric, NodeKind, Router
from fredfw.fidelities import EXACT, STEPWISE, called
from fredfw.plugin import configure
from fredfw.plugin.manager import PluginManager, given_or_installed
from fredfw.plugin.registry import Registry
from fredfw.simulation import Planner, ScheduleRun, SharingPolicy, Simulator
from fredfw.simulation.answers import notes as admission_notes
from fredfw.simulation.checks import check_fabric, members_of
from fredfw.simulation.fidelity import chosen, notes as fidelity_notes, transfers_of
from fredfw.simulation.links import LiveLinks
from fredfw.simulation.ways import flows_of
from fredfw.typing import FloatArray, IntArray
from fredfw.units import Unit, counted, parse

Callback = Callable[[], object]
"""What is called when something is over; what it returns is ignored."""

Handle = NewType("Handle", int)
"""Names something that is under way; the same in a copy of the network."""

T = TypeVar("T")

_SENDS = "send {} from {!r} to {!r}, {:g} bytes"
_SENDS_TAGGED = f"{_SENDS}, tag {{!r}}"
_LISTED = 10  # what a deadlock report lists at most
_CLASSES = 2**31  # priorities are kept as numbers of 64 bits, which is more than enough


@define(eq=False)
class _Operation:
    """Something under way; what it is, in words, is put together when somebody asks."""

    text: str
    facts: tuple[object, ...]
    on_complete: Callback | None
    stop: Callable[..., None]
    ticket: tuple[Any, ...] = ()  # what ``stop`` is called with

    @property
    def what(self) -> str:
        return self.text.format(*self.facts)


class NetworkBackend:
    """A ``fabric`` that carries messages and collectives for another program, which owns the clock.

    ``advance`` and ``run_until_idle`` alone let time pass and call back, in the order of time and, at equal times, in
    that in which the time became known: of a timer when it is begun, of a message when its last byte has drained. All
    else returns at once and may be used in callbacks. A callback that raises ends the step at its moment; what it was
    called for is over then, and the next step goes on with the rest.

    After an ``InputError`` all is as before. There may be any number of networks, but no two threads use the same one
    at the same time. Between steps one can be copied and pickled if its callbacks can; handles stay valid in the copy.

    End points are NPU numbers, as in groups, or the names of NPUs, I/O controllers (``controller0`` on most fabrics)
    and memories. A link, which has one direction, is given by its number, by its name as in ``Fabric.link_name``
    (``npu0->npu1``), or by the numbers of the two nodes that it joins (the first, of parallel links). Times, sizes and
    bandwidths are numbers in SI units, or text with a unit.

    Args:
        fabric: The network.
        router: One, or the name of one; the fabric's own by default.
        sharing: A policy, or the name of one; the fabric's own by default.
        plugins: Where names are looked up; what is installed by default.
        stepwise: Until version 1: ``exact`` with phases kept whole.
        fidelity: Of collectives, ``exact`` or ``compressed``. By default those with more transfers than the limit
            ``exact``, see ``fredfw.limits``, are compressed; ``notes`` names them.

    Raises:
        InputError: No fabric, an unknown fidelity or two of them, or a name that nothing is registered under.
    """

    def __init__(
        self,
        fabric: Fabric,
        router: Router | str | None = None,
        sharing: SharingPolicy | str | None = None,
        *,
        plugins: PluginManager | None = None,
        stepwise: bool = False,
        fidelity: str | None = None,
    ) -> None:
        check_fabric(fabric)
        plugins = given_or_installed(plugins)
        if router is not None:
            fabric = fabric.with_defaults(router=_configured(router, plugins.routers, Router, "router"))
        if sharing is not None:
            policy = _configured(sharing, plugins.sharing_policies, SharingPolicy, "sharing")
            fabric = fabric.with_defaults(sharing=policy)
        self.fabric = fabric
        self._simulator = Simulator(fabric)
        self._algorithms = {cls.name: cls for cls in plugins.collectives}  # a manager cannot be pickled
        self._fidelity = _fidelity(fidelity, stepwise=stepwise)
        self._network = self._simulator.network()
        self._stop = self._network.cancel  # bound once for all messages
        self._pricing = self._simulator.lowering.pricing
        self._planners: dict[Hashable, Planner] = {}
        self._handles = 0
        self._operations: dict[Handle, _Operation] = {}
        self._matching = Matching()
        self._paths = Paths(fabric, fabric.defaults.router)
        self._links = LiveLinks(fabric)
        self._notes: list[str] = []

    # --- what a program asks for

    def send(
        self,
        src: int | str,
        dst: int | str,
        bytes: float | str,  # noqa: A002  (the word of the interface)
        tag: Hashable = None,
        on_complete: Callback | None = None,
        *,
        priority: int = 0,
        label: str = "send",
    ) -> Handle:
        """Send a message, now.

        It is delivered, and ``on_complete`` called, when its last byte has drained and has paid the latency of its
        path: one of no bytes after the latency, one to the sender itself at once. If failed links leave no path, it
        waits for them. One with the ``tag`` ``None`` is not to be received. ``priority`` is its class for the sharing
        policy, 0 the highest; its bytes are accounted to ``label``. Raises ``InputError`` for what is impossible,
        ``UnsupportedError`` if the fabric has no path, and ``RefusedError`` if its admission refuses the message.
        """
        source, destination = self._end_point(src, "src"), self._end_point(dst, "dst")
        size = _quantity(bytes, Unit.BYTES, "bytes")
        # What is as it mostly is need not be looked at in functions of its own, which take longer than what they do.
        if tag is not None:
            _check_tag(tag)
        if not callable(on_complete):
            _check_callback(on_complete)
        if type(label) is not str:
            _check_label(label)
        if type(priority) is not int or priority:
            priority = _class(priority)
        way = self._paths.way(source, destination)
        self._handles = handle = Handle(self._handles + 1)
        ended = partial(self._end if tag is None else self._delivered, handle)
        if self._pricing.ideal:
            ticket = self._network.send(way, size, ended, priority, label)
        else:
            flows = self._pricing.message(flows_of(way, size, priority, label), source, destination)
            ticket = self._network.start(flows, ended, checked=True)
        text, facts = _SENDS if tag is None else _SENDS_TAGGED, (handle, src, dst, size, tag)
        self._operations[handle] = _Operation(text, facts, on_complete, self._stop, (ticket,))
        if tag is not None:
            self._matching.send(handle, (source, destination, tag))
        return handle

    def receive(self, src: int | str, dst: int | str, tag: Hashable, on_complete: Callback) -> Handle:
        """Wait at ``dst`` for a message from ``src`` with ``tag``; it may be there already.

        The n-th receive with the same ends and tag gets the n-th message that was sent with them. ``on_complete`` is
        called when that is delivered, after the sender's own. Raises ``InputError`` for what is impossible.
        """
        source, destination = self._end_point(src, "src"), self._end_point(dst, "dst")
        _check_tag(tag)
        if tag is None:
            raise InputError("a receive needs a tag", key="tag", accepted="the tag of a send")
        _check_callback(on_complete, required=True)
        handle = self._next_handle()
        text, facts = "receive {} at {!r} from {!r}, tag {!r}", (handle, dst, src, tag)
        self._operations[handle] = _Operation(text, facts, on_complete, _nothing)
        self._serve(self._matching.receive(handle, (source, destination, tag)))
        return handle

    def collective(
        self,
        request: CollectiveRequest,
        on_complete: Callback | None = None,
        *,
        group: Sequence[int] | IntArray | None = None,
        algorithm: CollectiveAlgorithm | str = "auto",
        priority: int = 0,
        label: str | None = None,
    ) -> Handle:
        """Begin a collective, now; ``on_complete`` is called when the last member is done.

        The ``group`` are NPU numbers in rank order, all NPUs by default. The ``algorithm`` is one, its name, or
        ``auto`` for the one that is fastest when it is alone on the fabric with all links up. ``priority`` and
        ``label`` are as in ``send``; the label is the pattern by default. Raises ``InputError`` for what is impossible,
        ``UnknownNameError`` for an unknown algorithm, ``UnsupportedError`` if none can do it, and ``RefusedError`` if
        the fabric's admission refuses it.
        """
        if not isinstance(request, CollectiveRequest):
            raise InputError(f"{request!r} is not a request", key="request", accepted="a CollectiveRequest")
        _check_callback(on_complete)
        label = str(request.pattern) if label is None else label
        _check_label(label)
        members = members_of(group, self.fabric)
        if len(members) != request.ranks:
            message = f"a request for {counted(request.ranks, 'rank')} in a group of {len(members)}"
            raise InputError(message, key="group", accepted=counted(request.ranks, "NPU"))
        priority, fidelity = _class(priority), self._choose(request)
        plan = self._planner(algorithm).plan(request, members, fidelity)
        handle = self._next_handle()
        run = ScheduleRun(
            self._network,
            self._simulator.lowering,
            plan.schedule,
            self.fabric.npus[members][None, :],
            partial(self._end, handle),
            fidelity=fidelity,
            priority=priority,
            label=label,
        )
        try:
            run.start()
        except BaseException:
            run.cancel()
            raise
        text, facts = "collective {}, {} of {:g} bytes by {}", (handle, request.pattern, request.size, plan.algorithm)
        self._operations[handle] = _Operation(text, facts, on_complete, run.cancel)
        return handle

    def schedule(self, delay: float | str, callback: Callback) -> Handle:
        """Call ``callback`` in ``delay`` seconds, unless cancelled; ``InputError`` for a negative or infinite delay."""
        seconds = _quantity(delay, Unit.SECONDS, "delay")
        _check_callback(callback, key="callback", required=True)
        handle = self._next_handle()
        event = self._network.schedule(seconds, partial(self._end, handle))
        text, facts = "timer {} of {:g} s", (handle, self.now + seconds)
        self._operations[handle] = _Operation(text, facts, callback, self._network.unschedule, (event,))
        return handle

    def cancel(self, handle: Handle) -> None:
        """Stop what is under way; its callback is not called. What has crossed the links stays accounted.

        A receive that waited for a cancelled message gets the next one. Raises ``InputError`` for what is not under
        way.
        """
        operation = self._operations.get(handle) if _is_number(handle) else None
        if operation is None:
            accepted = "what send, receive, collective or schedule returned, until it has ended or is cancelled"
            raise InputError(f"{handle!r} is not under way", key="handle", accepted=accepted)
        del self._operations[handle]
        operation.stop(*operation.ticket)
        self._serve(self._matching.withdraw(handle))

    # --- time

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._network.now

    def next_event_time(self) -> float:
        """Return when something happens next, infinite if nothing will."""
        return self._network.next_event_time()

    def advance(self, until: float | str) -> None:
        """Let everything happen that happens at or before ``until``, and stop exactly there.

        Raises ``InputError`` in a callback, and if ``until`` lies in the past or is not finite.
        """
        self._network.advance(_quantity(until, Unit.SECONDS, "until"))

    def run_until_idle(self) -> None:
        """Let everything happen, and stop at the last event.

        Raises ``DeadlockError``, which names it, if something can never end, and ``InputError`` in a callback.
        """
        self._network.advance(math.inf)
        if self._operations:
            waiting = [operation.what for operation in self._operations.values()]
            lines = waiting[:_LISTED]
            if len(waiting) > _LISTED:
                lines.append(f"... and {len(waiting) - _LISTED} more")
            lines += [f"flows that cannot move: {label}" for label in self.stalled()[:_LISTED]]
            lines += [f"link that has failed: {self.fabric.link_name(link)}" for link in self.failed_links()[:_LISTED]]
            raise DeadlockError("no event is left, but these have not ended:\n  " + "\n  ".join(lines))

    # --- links

    def fail_link(self, link: int | str | tuple[int, int]) -> None:
        """Close a link; flows that cross it take a shortest path of live links with what they have left.

        Those that have none wait for a link to come back; ``stalled`` and ``notes`` name them. Raises ``InputError``
        for a link that does not exist or has failed already.
        """
        self._turn(link, up=False)

    def restore_link(self, link: int | str | tuple[int, int]) -> None:
        """Open a failed link again; flows that wait for a way go on, those that have one stay on it.

        Raises ``InputError`` for a link that does not exist or has not failed.
        """
        self._turn(link, up=True)

    def set_bandwidth(self, link: int | str | tuple[int, int], value: float | str) -> None:
        """Give a link another bandwidth, in bytes per second; a failed one has it when it is restored.

        Raises ``InputError`` for a link that does not exist, or a bandwidth that is not finite and more than 0.
        """
        number = self._find_link(link)
        bandwidth = _parsed(value, Unit.BYTES_PER_SECOND, "value")
        if bandwidth <= 0:
            accepted = "more than 0; fail_link closes a link"
            raise InputError(f"{value!r} is not a bandwidth", key="value", accepted=accepted)
        self._links.bandwidths[number] = bandwidth
        if self._links.up[number]:
            self._links.widen(self._network, np.array([number]))

    # --- what a program may want to know

    def pending(self) -> dict[Handle, str]:
        """Return what is under way, in words: what has neither ended nor been cancelled."""
        return {handle: operation.what for handle, operation in self._operations.items()}

    def failed_links(self) -> list[int]:
        """Return the numbers of the links that have failed and are not back."""
        return [int(link) for link in np.flatnonzero(~self._links.up)]

    def stalled(self) -> list[str]:
        """Return the labels of flows that cannot move now: they wait for admission or a path, or have no rate."""
        return self._network.stalled()

    def link_bytes(self) -> dict[str, FloatArray]:
        """Return the ``(links,)`` bytes that have crossed each link until now, by label."""
        return self._network.link_bytes()

    def notes(self) -> tuple[str, ...]:
        """Return what a reader of the times must know: what failures did to flows, what the fabric's admission did."""
        left = self._links.left
        rule = f"{counted(left, 'route')} left the rule of router {self.fabric.defaults.router.name!r}"
        held = [
            f"{first:g} s: no path for {label}, which waited{f' ({times} times in all)' if times > 1 else ''}"
            for label, (first, times) in self._network.held.items()
        ]
        admission = *fidelity_notes(self._fidelity or EXACT, self._network), *admission_notes(self._network.admission)
        return (*self._notes, *held, *([rule] if left else []), *admission)

    def _choose(self, request: CollectiveRequest) -> str:
        if self._fidelity is not None:
            return self._fidelity
        count = transfers_of(request.pattern, request.ranks)
        choice = chosen([(f"{request.pattern} among {request.ranks} NPUs", count)])
        if choice.reason and choice.reason not in self._notes:
            self._notes.append(choice.reason)
        return choice.fidelity

    def statistics(self) -> dict[str, int]:
        """Return the engine's counters by name."""
        return self._network.statistics.as_dict()

    # --- callbacks of the engine

    def _delivered(self, handle: Handle, _ended: IntArray) -> None:
        # Events of their own, so that a callback that raises does not cost another.
        self._serve(self._matching.deliver(handle))
        self._end(handle)

    def _serve(self, receives: list[int]) -> None:
        for receive in map(Handle, receives):
            event = self._network.schedule(0.0, partial(self._end, receive))
            operation = self._operations[receive]
            operation.stop, operation.ticket = self._network.unschedule, (event,)

    def _end(self, handle: Handle, _ended: IntArray | None = None) -> None:
        operation = self._operations.pop(handle, None)  # it may have been cancelled at this very moment
        if operation is not None and operation.on_complete is not None:
            operation.on_complete()

    # --- inside

    def _next_handle(self) -> Handle:
        self._handles += 1
        return Handle(self._handles)

    def _end_point(self, end: int | str, key: str) -> int:
        npus = self.fabric.npus
        # An int is what it mostly is, and to see that is the cheapest.
        if (type(end) is int or _is_number(end)) and 0 <= end < len(npus):
            return npus.item(end)
        node = self._nodes.get(end) if isinstance(end, str) else None
        if node is None or self.fabric.kinds[node] == NodeKind.SWITCH:
            accepted = f"an NPU from 0 to {len(npus) - 1}, or the name of an NPU or I/O controller"
            raise InputError(f"{end!r} is not an end point of {self.fabric.name!r}", key=key, accepted=accepted)
        return node

    def _planner(self, algorithm: CollectiveAlgorithm | str) -> Planner:
        if isinstance(algorithm, str) and algorithm not in ("auto", *self._algorithms):
            known = ["auto", *sorted(self._algorithms)]
            message = f"no collective algorithm {algorithm!r}{nearest(algorithm, known)}"
            raise UnknownNameError(message, key="algorithm", accepted=", ".join(known))
        if not isinstance(algorithm, CollectiveAlgorithm | str):
            raise InputError(f"{algorithm!r} is not an algorithm", key="algorithm", accepted="one, or the name of one")
        key = algorithm if isinstance(algorithm, str) else (type(algorithm), str(algorithm))
        if key not in self._planners:
            if auto := algorithm == "auto":
                candidates = self._simulator.automatic(self._algorithms.values())
            else:
                candidates = {None: (self._algorithms[algorithm]() if isinstance(algorithm, str) else algorithm,)}
            self._planners[key] = Planner(
                self._simulator, candidates, fastest=auto, worthwhile=auto, others=self._others
            )
        return self._planners[key]

    def _others(self) -> list[CollectiveAlgorithm]:
        return [cls() for cls in self._algorithms.values()]

    @cached_property
    def _nodes(self) -> dict[str, int]:
        return {self.fabric.node_name(node): node for node in range(len(self.fabric.kinds))}

    def _find_link(self, link: int | str | tuple[int, int]) -> int:
        count, nodes = len(self.fabric.bandwidths), len(self.fabric.kinds)
        ends: tuple[int, ...] = ()
        if _is_number(link) and 0 <= link < count:
            return int(link)
        if isinstance(link, str):
            ends = tuple(self._nodes.get(name, -1) for name in link.split("->"))
        elif isinstance(link, tuple) and all(map(_is_number, link)):
            ends = link
        if len(ends) == 2 and all(0 <= end < nodes for end in ends):
            with suppress(InputError):  # which does not know what else would do
                return int(self.fabric.links_between(np.array(ends[:1]), np.array(ends[1:]))[0])
        name = f" such as {self.fabric.link_name(0)!r}" if count else ""
        accepted = f"a link from 0 to {count - 1}, its name{name}, or the numbers of the two nodes that it joins"
        raise InputError(f"{link!r} is not a link of {self.fabric.name!r}", key="link", accepted=accepted)

    def _turn(self, link: int | str | tuple[int, int], *, up: bool) -> None:
        number = self._find_link(link)
        name = self.fabric.link_name(number)
        if self._links.up[number] == up:
            is_now, accepted = ("has not failed", "a failed link") if up else ("has failed already", "a live link")
            raise InputError(f"{name} {is_now}", key="link", accepted=accepted)
        self._links.up[number] = up
        rerouting = self._links.reroute(self._network, np.array([number]))
        self._paths.use(self._links.router)
        is_open = isinstance(self._network.admission, AlwaysStart)
        told = rerouting.told("" if is_open else ", as if circuits or wavelengths were free there")
        self._notes.append(f"{self.now:g} s: link {name} {'is back' if up else 'failed'}{told}")

    def __getstate__(self) -> dict[str, Any]:
        probe = _Probe(io.BytesIO(), protocol=pickle.HIGHEST_PROTOCOL)  # what callbacks share it pickles once
        for one in self._operations.values():
            try:
                probe.dump(one.on_complete)
            except Exception as error:  # whatever an object's own methods raise
                message = f"the callback {one.on_complete!r} of {one.what} cannot be pickled: {error}"
                accepted = "functions of a module, methods of objects that can be pickled, partials of these"
                raise InputError(message, key="on_complete", accepted=accepted) from error
        return self.__dict__.copy()


class _Probe(pickle.Pickler):
    """Pickles what callbacks hold, up to the networks, which would ask about their callbacks in turn."""

    def persistent_id(self, obj: Any) -> int | None:
        return 0 if isinstance(obj, NetworkBackend) else None


def _nothing() -> None:
    pass


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _configured(given: T | str, registry: Registry[T], interface: type[Any], key: str) -> T:
    try:
        one = configure.build(registry.get(given), {}) if isinstance(given, str) else given
    except InputError as error:
        raise error.at(key=key) from None
    if not isinstance(one, interface):
        accepted = f"a {interface.__name__}, or one of {', '.join(registry.names())}"
        raise InputError(f"{given!r} is not a {registry.kind}", key=key, accepted=accepted)
    return one


def _fidelity(given: str | None, *, stepwise: bool) -> str | None:
    if not isinstance(stepwise, bool):
        raise InputError(f"{stepwise!r} is refused", key="stepwise", accepted="True or False")
    if stepwise and given not in (None, STEPWISE):
        raise InputError(f"{given!r} is not stepwise", key="fidelity", accepted=f"{STEPWISE!r}, or stepwise=False")
    return called(STEPWISE if stepwise else given)


def _parsed(value: object, unit: Unit, key: str) -> float:
    try:
        return parse(value, unit)
    except InputError as error:
        raise error.at(key=key) from None


def _quantity(value: object, unit: Unit, key: str) -> float:
    number = _parsed(value, unit, key)
    if number < 0:
        raise InputError(f"{value!r} is too small", key=key, accepted=f"at least 0 {unit.value}")
    return number


def _class(priority: int) -> int:
    if not _is_number(priority) or not 0 <= priority < _CLASSES:
        accepted = f"0 for the highest, 1, 2, ... to {_CLASSES - 1}"
        raise InputError(f"{priority!r} is not a class", key="priority", accepted=accepted)
    return int(priority)


def _check_callback(callback: object, key: str = "on_complete", *, required: bool = False) -> None:
    if not callable(callback) and (required or callback is not None):
        accepted = "a function without parameters" if required else "a function without parameters, or None"
        raise InputError(f"{callback!r} cannot be called", key=key, accepted=accepted)


def _check_label(label: object) -> None:
    if not isinstance(label, str):
        raise InputError(f"{label!r} is not a label", key="label", accepted="text")


def _check_tag(tag: object) -> None:
    try:
        hash(tag)
    except TypeError:
        raise InputError(f"{tag!r} cannot be compared", key="tag", accepted="something hashable") from None
