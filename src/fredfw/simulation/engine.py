"""The engine in C++, from the distribution ``fredfw-engine``; ``fredfw.h`` says what its functions do."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence, Sized
from ctypes import POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_void_p
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fredfw.collectives import Schedule
from fredfw.collectives.schedule import turns
from fredfw.errors import SimulationError
from fredfw.fabric import FlowSet, Routes
from fredfw.typing import BoolArray, FloatArray, IntArray

ABI = 9
_REFUSED, _NO_MEMORY = -100, -101
# What a step says that there is to do.
OVER, TIMER, ENDED, DRAINED, CLOSED, ASK, RUN_ENDED, ROUTE, STREAM, RATES, MORE = range(11)
# How links are shared, and how schedules run.
MAX_MIN, STRICT_LINKS, CIRCUIT_PREEMPT, FOREIGN = range(4)
COMPRESSED, STEPWISE, BY_RANK, RENDEZVOUS = range(4)

_numbers, _reals = POINTER(c_int64), POINTER(c_double)


def _of(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class RoutesView(Structure):
    """Routes as the engine reads them."""

    _fields_ = [*_of(c_int64, "count pairs"), *_of(c_void_p, "offset link latency coefficient")]


class FlowsView(Structure):
    """Flows of a phase in all groups as the engine reads them."""

    _fields_ = [("routes", RoutesView), *_of(c_void_p, "caps open")]


class PhaseView(Structure):
    """A phase as the engine reads it."""

    _fields_ = [
        *_of(c_int64, "repeat channel turn after_count behind_count room_count"),
        *_of(c_void_p, "after behind room"),
        *_of(c_int64, "unicasts streams stream_sources stream_destinations"),
        *_of(c_void_p, "source destination"),
        *_of(c_void_p, "stream_source_offset stream_source stream_destination_offset stream_destination"),
        *_of(c_int64, "volume_count"),
        *_of(c_void_p, "volumes"),
        *_of(c_int64, "rows chunk_count"),
        *_of(c_void_p, "base offset stride modulus chunks row_flow chunk_bytes"),
        ("turn_bytes", c_double),
    ]


class Setting(Structure):
    """What a network is made of."""

    _fields_ = [
        *_of(c_int64, "links nodes"),
        *_of(c_void_p, "bandwidth source destination is_switch"),
        *_of(c_int64, "sharing local open starts_streams"),
    ]


class Graph(Structure):
    """A task graph."""

    _fields_ = [
        *_of(c_int64, "ranks way tables participants slots"),
        *_of(c_void_p, "participant_offset participant groups group_size slot"),
        *_of(c_int64, "tasks edges"),
        *_of(c_void_p, "kind members label priority partner whole times seconds"),
        *_of(c_void_p, "edge_offset edge_task edge_map edge_count"),
        *_of(c_int64, "maps map_slots"),
        *_of(c_void_p, "map_offset map"),
        *_of(c_int64, "shares share_groups task_shares"),
        *_of(c_void_p, "share_lowered share_group_offset share_group share_offset share"),
        *_of(c_int64, "factor_count"),
        *_of(c_void_p, "factor_offset factors"),
    ]


class Record:
    """What has happened in a task graph of so many tasks, as the engine writes it.

    So many spans have ended, with so many ranks together; so many shares are compared by a group that stands for all.
    """

    def __init__(self, tasks: int, spans: int, ranks: int, compared: int) -> None:
        self.task, self.trigger = np.empty(spans, dtype=np.intp), np.empty(spans, dtype=np.intp)
        self.rank_offset, self.rank = np.empty(spans + 1, dtype=np.intp), np.empty(ranks, dtype=np.intp)
        self.start, self.end = np.empty(spans), np.empty(spans)
        self.ended = np.empty(tasks, dtype=np.intp)
        self.compared_task, self.compared_share = np.empty(compared, dtype=np.intp), np.empty(compared, dtype=np.intp)
        self.compared_began, self.compared_ended = np.empty(compared), np.empty(compared)

    def view(self) -> ctypes.Array[c_void_p]:
        """Return it as the engine fills it: where each column begins."""
        names = ["task", "trigger", "rank_offset", "rank", "start", "end", "ended"]
        names += ["compared_task", "compared_share", "compared_began", "compared_ended"]
        return (c_void_p * len(names))(*(getattr(self, name).ctypes.data for name in names))


class Notice(Structure):
    """What a step says that there is to do."""

    _fields_ = [*_of(c_int64, "what whose detail count other_count"), *_of(_numbers, "list others")]


class Cargo(Structure):
    """Flows that are let in together."""

    _fields_ = [
        ("routes", RoutesView),
        ("flow", c_int64),
        *_of(c_void_p, "volumes caps activity"),
        *_of(c_int64, "activities repeat"),
        *_of(c_double, "first_setup setup"),
        *_of(c_int64, "priority label takes_turns ticket run carry token hears_drain"),
    ]


class Batch(Structure):
    """Flows that are under way."""

    _fields_ = [
        *_of(c_int64, "ticket run carry phase repetition label is_crossing count"),
        ("items", POINTER(c_int32)),
    ]


class Columns(Structure):
    """Where the engine writes what it knows of the flows that drain."""

    _fields_ = _of(c_void_p, "offset link coefficient cap priority label name birth size left latency")


class ProgramView(Structure):
    """A task graph and its network, for a file."""

    _fields_ = [
        ("setting", Setting),
        ("graph", Graph),
        ("npus", c_int64),
        ("routes", RoutesView),
        ("labels", c_int64),
        *_of(POINTER(c_char_p), "label task"),
        ("weight", c_void_p),
    ]


FUNCTIONS: dict[str, tuple[Any, ...]] = {  # what each returns, and takes
    "abi": (c_int64,),
    "error": (c_char_p,),
    "max_min": (c_int64, c_int64, c_int64, *[c_void_p] * 5),
    "schedule_new": (c_void_p, c_int64, c_int64, c_void_p, c_int64),
    "schedule_free": (None, c_void_p),
    "lowered_new": (c_void_p, c_void_p, c_int64, c_double, c_int64, c_int64, c_void_p),
    "lowered_free": (None, c_void_p),
    "network_new": (c_void_p, c_void_p),
    "network_free": (None, c_void_p),
    "save": (c_int64, c_void_p, c_int64, c_void_p),
    "load": (c_int64, c_void_p, c_int64, c_void_p),
    "step": (c_int64, c_void_p, c_double, c_int64, c_void_p),
    "hear": (c_int64, c_void_p, c_int64, c_void_p),
    "next": (c_double, c_void_p),
    "now": (_reals, c_void_p),
    "pass": (c_int64, c_void_p, c_double),
    "begin": (c_int64, c_void_p),
    "is_idle": (c_int64, c_void_p),
    "timer": (c_int64, c_void_p, c_double, c_int64),
    "withdraw": (c_int64, c_void_p, c_int64),
    "admit": (c_int64, c_void_p, c_void_p),
    "tell": (c_int64, c_void_p, *[c_int64] * 4, c_void_p),
    "cancel": (c_int64, c_void_p, c_int64),
    "stalled": (c_int64, c_void_p, c_int64, c_void_p),
    "link_bytes": (c_int64, c_void_p, c_int64, c_void_p, c_void_p),
    "statistics": (c_int64, c_void_p, c_void_p),
    "weigh": (c_int64, c_void_p, c_int64, c_double),
    "set_bandwidths": (c_int64, c_void_p, c_void_p),
    "batches": (c_int64, c_void_p, c_int64, c_void_p),
    "describe": (c_int64, c_void_p, c_int64, c_void_p),
    "reroute": (c_int64, c_void_p, c_int64, c_void_p, _numbers),
    "route_repetitions": (c_int64, c_void_p),
    "go_on": (c_int64, c_void_p, c_int64, c_int64, c_void_p, c_void_p),
    "held": (c_int64, c_void_p, c_int64, c_void_p, c_void_p, c_void_p),
    "count_flows": (c_int64, c_void_p, c_void_p),
    "list_flows": (c_int64, c_void_p, c_void_p),
    "assign": (c_int64, c_void_p, c_int64, c_void_p, c_double),
    "tasks_start": (c_int64, c_void_p, c_void_p),
    "streamed": (c_int64, c_void_p, c_int64, c_int64, c_void_p),
    "tasks_count": (c_int64, c_void_p, c_void_p),
    "tasks_record": (c_int64, c_void_p, c_void_p),
    "errand": (c_int64, c_void_p, c_int64, _numbers, _numbers, c_int64, c_void_p),
    "program_write": (c_int64, c_void_p, c_int64, c_void_p),
    "program_read": (c_void_p, c_int64, c_void_p),
    "program_free": (None, c_void_p),
    "program_network": (c_void_p, c_void_p),
    "run_new": (c_int64, c_void_p, c_void_p, *[c_int64] * 4),
    "run_start": (c_int64, c_void_p, c_int64),
    "run_cancel": (c_int64, c_void_p, c_int64),
}


class Library:
    """The functions of the engine, by their names without ``fredfw_``; one that is refused raises."""

    def __init__(self) -> None:
        import fredfw_engine

        code = ctypes.CDLL(str(fredfw_engine.library()))
        if (version := code.fredfw_abi()) != ABI:  # before a function is asked for that another version lacks
            raise ImportError(f"fredfw-engine is of version {version}, and fredfw needs {ABI}: install both again")
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(code, f"fredfw_{name}")
            function.restype, function.argtypes = result, arguments
            if result in (c_int64, c_double) and name != "abi":
                function.errcheck = self._checked
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # what __init__ sets
        raise AttributeError(name)

    def _checked(self, result: float, _function: object, _arguments: object) -> float:
        if result == _NO_MEMORY:
            raise MemoryError("the engine got no memory")
        if result == _REFUSED:
            raise self._refusal()
        return result

    def _refusal(self) -> SimulationError:
        return SimulationError(f"the engine refuses it: {self.error().decode()}")

    def made(self, address: int | None) -> int:
        """Return the address of what was made, if something was."""
        if address is None:
            raise self._refusal()
        return address


@cache
def library() -> Library:
    """Return the engine, loaded once."""
    return Library()


def numbers(values: object) -> IntArray:
    """Return an array as the engine reads it."""
    return np.ascontiguousarray(values, dtype=np.int64)


def reals(values: object) -> FloatArray:
    """Return an array as the engine reads it."""
    return np.ascontiguousarray(values, dtype=np.float64)


def offsets(parts: Sequence[Sized]) -> IntArray:
    """Return where each of ``parts`` begins that follow each other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)])


def address(array: NDArray[Any] | None) -> int | None:
    """Return where ``array`` begins, if there is one."""
    return None if array is None else array.ctypes.data


class Kept:
    """What the engine reads as long as this is there."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def keep(self, array: NDArray[Any] | None) -> int | None:
        """Return where ``array`` begins, if there is one."""
        self._kept.append(array)
        return address(array)

    def put(self, struct: Structure, **columns: object) -> None:
        """Set fields of ``struct`` to whole numbers."""
        for name, column in columns.items():
            setattr(struct, name, self.keep(numbers(column)))


class View(Kept):
    """Routes for the engine."""

    def __init__(self, routes: Routes) -> None:
        super().__init__()
        self.struct = RoutesView(len(routes), len(routes.links), latency=self.keep(reals(routes.latencies)))
        self.put(self.struct, offset=routes.offsets, link=routes.links)
        if routes.coefficients is not None:
            self.struct.coefficient = self.keep(reals(routes.coefficients))


class Load(Kept):
    """A flow set for the engine, of which no flow exceeds ``(F,)`` ``caps`` if any."""

    def __init__(self, flows: FlowSet, caps: FloatArray | None) -> None:
        super().__init__()
        view = View(flows.routes)
        self._kept.append(view)
        self.cargo = Cargo(routes=view.struct, flow=-1, volumes=self.keep(reals(flows.volumes)), caps=self.keep(caps))
        self.put(self.cargo, activity=flows.activity)
        self.cargo.activities, self.cargo.repeat = flows.activities, flows.repeat
        self.cargo.priority, self.cargo.takes_turns = flows.priority, flows.takes_turns


def max_min(
    offsets: IntArray, links: IntArray, coefficients: FloatArray | None, caps: FloatArray | None, capacities: FloatArray
) -> tuple[FloatArray, int]:
    """Return the ``(F,)`` max-min fair rates in bytes per second, and the number of passes over the flows.

    A link whose fair share is the tightest constraint of every flow that crosses it is saturated at that share; all
    such links are frozen in one pass. The arrays are those of ``Incidence``, and ``(links,)`` bytes per second.
    """
    rates = np.full(len(offsets) - 1, np.inf) if caps is None else np.array(caps, dtype=float)
    offsets, links, capacities = numbers(offsets), numbers(links), reals(capacities)
    weights = None if coefficients is None else reals(coefficients)
    arrays = map(address, (offsets, links, weights, capacities, rates))
    return rates, library().max_min(len(rates), len(capacities), *arrays)


class NativeSchedule(Kept):
    """A schedule for the engine, with the ends of the flows of each phase, see ``lowering.Ends``."""

    def __init__(self, schedule: Schedule, ends: Sequence[Any]) -> None:
        super().__init__()
        chunks = np.broadcast_to(reals(schedule.chunk_bytes), schedule.chunks)
        phases = (PhaseView * max(len(schedule.phases), 1))()
        for struct, phase, rows, turn in zip(phases, schedule.phases, ends, turns(schedule), strict=False):
            struct.repeat, struct.channel, struct.turn = phase.repeat, phase.channel, turn
            for name in ("after", "behind", "room"):
                waits = getattr(phase, name)
                setattr(struct, f"{name}_count", len(waits))
                if waits:
                    self.put(struct, **{name: waits})
            struct.unicasts, struct.streams = len(rows.sources), len(rows.streams)
            self.put(struct, source=rows.sources, destination=rows.destinations)
            for side, name in enumerate(("source", "destination") if rows.streams else ()):
                parts = [stream[side] for stream in rows.streams]
                self.put(struct, **{f"stream_{name}_offset": offsets(parts), f"stream_{name}": np.concatenate(parts)})
                setattr(struct, f"stream_{name}s", sum(map(len, parts)))
            if turn >= 0 and schedule.policy == "smallest-first":
                steps = 1 if schedule.uniform(phase) else phase.repeat  # else each repetition carries its own
                carried = sum(float(schedule.row_bytes(phase, step).sum()) for step in range(steps))
                phases[turn].turn_bytes += carried * (phase.repeat // steps)
            if schedule.uniform(phase):
                sizes = rows.volumes(schedule.row_bytes(phase))
                alike = len(sizes) > 0 and sizes.min() == sizes.max()
                few = reals(sizes[:1] if alike else sizes)
                struct.volumes, struct.volume_count = self.keep(few), len(few)
            else:
                struct.rows, struct.chunk_count, struct.chunk_bytes = len(phase), len(chunks), self.keep(reals(chunks))
                self.put(struct, base=phase.base, offset=phase.offset, stride=phase.stride, modulus=phase.modulus)
                self.put(struct, chunks=phase.count, **({} if rows.flow is None else {"row_flow": rows.flow}))
        for struct in phases:
            if struct.turn >= 0:
                struct.turn_bytes = phases[struct.turn].turn_bytes
        flags = (schedule.policy == "smallest-first") + 2 * (schedule.release == "drained")
        code = library()
        self.address = code.made(code.schedule_new(schedule.ranks, len(schedule.phases), phases, flags))
        weakref.finalize(self, code.schedule_free, self.address)


class NativeLowered(Kept):
    """A schedule in so many groups of a fabric, for the engine.

    Its launch takes seconds before the first flow. Of each phase there are the routes of the flows; the ``(F,)`` rates
    that they do not exceed, if any; and which of them start whatever runs, if any.
    """

    def __init__(
        self,
        schedule: NativeSchedule,
        groups: int,
        launch: float,
        links: int,
        phases: Sequence[tuple[Routes, FloatArray | None, BoolArray | None]],
    ) -> None:
        super().__init__()
        structs = (FlowsView * max(len(phases), 1))()
        self._kept.append(schedule)
        for struct, (routes, caps, starts) in zip(structs, phases, strict=False):
            view = View(routes)
            self._kept.append(view)
            struct.routes, struct.caps = view.struct, self.keep(None if caps is None else reals(caps))
            struct.open = self.keep(None if starts is None else np.ascontiguousarray(starts, dtype=np.uint8))
        code = library()
        self.address = code.made(code.lowered_new(schedule.address, groups, launch, links, len(phases), structs))
        weakref.finalize(self, code.lowered_free, self.address)
