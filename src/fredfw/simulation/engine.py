"""The engine in C++, from the distribution ``fredfw-engine``; ``fredfw.h`` says what its functions do."""

import ctypes
import hashlib
import re
import weakref
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_char_p, c_double, c_int64, c_void_p
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fredfw_engine
from fredfw.arrays import offsets
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

# What declarations of fredfw.h are for ctypes. All pointers are addresses, but for what functions return.
_PLAIN = {"int64_t": c_int64, "double": c_double, "void": None}
_RETURNED = {"const char *": c_char_p, "const double *": POINTER(c_double)}
_STRUCTURE = re.compile(r"typedef struct fredfw_(\w+) \{(.*?)\}", re.DOTALL)
_FUNCTION = re.compile(r"FREDFW_API ([^;]*?)\bfredfw_(\w+)\((.*?)\);", re.DOTALL)


def _check_version(version: int) -> None:
    if version != ABI:
        raise ImportError(f"fredfw-engine is of version {version}, and fredfw needs {ABI}: install both again")


def _read_header() -> tuple[dict[str, type[Structure]], dict[str, tuple[Any, ...]]]:
    """Return the structures of ``fredfw.h``, and what its functions return and take, by name without ``fredfw_``."""
    header = (fredfw_engine.INCLUDE / "fredfw.h").read_text("utf-8")
    _check_version(int(header.partition("#define FREDFW_ABI ")[2].split()[0]))
    header = re.sub(r"/\*.*?\*/|^#[^\n]*", "", header, flags=re.DOTALL | re.MULTILINE)
    kinds: dict[str, Any] = dict(_PLAIN)

    def kind(declaration: str) -> Any:
        return c_void_p if "*" in declaration else kinds[declaration.removeprefix("const ").split()[0]]

    structures = {}
    for name, body in _STRUCTURE.findall(header):
        fields = []
        for declaration in body.split(";")[:-1]:
            first, *others = declaration.strip().split(",")
            own = first.rpartition(" ")[0]  # what all of them have in common
            fields += [(re.findall(r"\w+", one)[-1], kind(f"{own} {one}")) for one in (first, *others)]
        structures[name] = kinds[f"fredfw_{name}"] = type(name, (Structure,), {"_fields_": fields})
    functions = {}
    for result, name, arguments in _FUNCTION.findall(header):
        taken = [kind(one.strip()) for one in arguments.split(",") if one != "void"]
        functions[name] = (_RETURNED.get(result) or kind(result), *taken)
    return structures, functions


STRUCTURES, FUNCTIONS = _read_header()


class Record:
    """What has happened in a task graph, as the engine writes it; a group that stands for all is ``compared``."""

    def __init__(self, tasks: int, spans: int, ranks: int, compared: int) -> None:
        self.task, self.trigger = np.empty(spans, dtype=np.intp), np.empty(spans, dtype=np.intp)
        self.rank_offset, self.rank = np.empty(spans + 1, dtype=np.intp), np.empty(ranks, dtype=np.intp)
        self.start, self.end = np.empty(spans), np.empty(spans)
        self.ended = np.empty(tasks, dtype=np.intp)
        self.compared_task, self.compared_share = np.empty(compared, dtype=np.intp), np.empty(compared, dtype=np.intp)
        self.compared_began, self.compared_ended = np.empty(compared), np.empty(compared)

    def view(self) -> Structure:
        return STRUCTURES["record"](**{name: address(column) for name, column in vars(self).items()})


@cache
def library() -> Any:
    """Return the functions of the engine, loaded once, by name without ``fredfw_``; one that is refused raises."""
    code, functions = ctypes.CDLL(str(fredfw_engine.library())), SimpleNamespace()
    _check_version(code.fredfw_abi())  # before a function is asked for that another version lacks
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(code, f"fredfw_{name}")
        function.restype, function.argtypes = result, arguments
        if result in (c_int64, c_double, c_void_p):
            function.errcheck = _checked
        setattr(functions, name, function)
    return functions


@cache
def build() -> str:
    """Return the SHA-256 of the engine; empty where there is none, which to use it says."""
    try:
        return hashlib.sha256(fredfw_engine.library().read_bytes()).hexdigest()
    except (ImportError, OSError):
        return ""


def _checked(result: float | None, _function: object, _arguments: object) -> float:
    if result == _NO_MEMORY:
        raise MemoryError("the engine got no memory")
    if result is None or result == _REFUSED:
        raise SimulationError(f"the engine refuses it: {library().error().decode()}")
    return result


def numbers(values: object) -> IntArray:
    return np.ascontiguousarray(values, dtype=np.int64)


def reals(values: object) -> FloatArray:
    return np.ascontiguousarray(values, dtype=np.float64)


def address(array: NDArray[Any] | None) -> int | None:
    return None if array is None else array.ctypes.data


def read(address: int | None, count: int, kind: type[ctypes.c_int32 | ctypes.c_int64] = c_int64) -> IntArray:
    """Return a copy of so many numbers of the engine's; where there are none, it need have no address."""
    return np.array((kind * count).from_address(address or 0)[:], dtype=np.intp)


class Kept:
    """What the engine reads as long as this is there."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def keep(self, array: NDArray[Any] | None) -> int | None:
        self._kept.append(array)
        return address(array)

    def put(self, struct: Structure, **columns: object) -> None:
        for name, column in columns.items():
            setattr(struct, name, self.keep(numbers(column)))


class View(Kept):
    """Routes for the engine."""

    def __init__(self, routes: Routes) -> None:
        super().__init__()
        self.struct = STRUCTURES["routes"](len(routes), len(routes.links), latency=self.keep(reals(routes.latencies)))
        self.put(self.struct, offset=routes.offsets, link=routes.links)
        if routes.coefficients is not None:
            self.struct.coefficient = self.keep(reals(routes.coefficients))


class Load(View):
    """A flow set for the engine, of which no flow exceeds ``(F,)`` ``caps`` if any."""

    def __init__(self, flows: FlowSet, caps: FloatArray | None) -> None:
        super().__init__(flows.routes)
        self.cargo = STRUCTURES["cargo"](
            routes=self.struct, flow=-1, volumes=self.keep(reals(flows.volumes)), caps=self.keep(caps)
        )
        self.put(self.cargo, activity=flows.activity)
        self.cargo.activities, self.cargo.repeat = flows.activities, flows.repeat
        self.cargo.priority, self.cargo.takes_turns = flows.priority, flows.takes_turns


def max_min(
    offsets: IntArray, links: IntArray, coefficients: FloatArray | None, caps: FloatArray | None, capacities: FloatArray
) -> tuple[FloatArray, int]:
    """Return the ``(F,)`` max-min fair rates in bytes per second, and the number of passes over the flows.

    In a pass all links whose fair share is the tightest constraint of all flows that cross them are frozen at it.
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
        phases = (STRUCTURES["phase"] * max(len(schedule.phases), 1))()
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
                sizes = [*map(len, parts)]
                self.put(struct, **{f"stream_{name}_offset": offsets(sizes), f"stream_{name}": np.concatenate(parts)})
                setattr(struct, f"stream_{name}s", sum(sizes))
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
        self.ranks = schedule.ranks
        flags = (schedule.policy == "smallest-first") + 2 * (schedule.release == "drained")
        code = library()
        self.address = code.schedule_new(schedule.ranks, len(schedule.phases), phases, flags)
        weakref.finalize(self, code.schedule_free, self.address)


class NativeLowered(Kept):
    """A schedule in groups for the engine; of each phase routes, ``(F,)`` caps, and which flows start whatever runs."""

    def __init__(
        self,
        schedule: NativeSchedule,
        groups: int,
        launch: float,
        links: int,
        phases: Sequence[tuple[Routes, FloatArray | None, BoolArray | None]],
    ) -> None:
        super().__init__()
        structs = (STRUCTURES["flows"] * max(len(phases), 1))()
        self._kept.append(schedule)
        self.nodes = groups * schedule.ranks
        for struct, (routes, caps, starts) in zip(structs, phases, strict=False):
            view = View(routes)
            self._kept.append(view)
            struct.routes, struct.caps = view.struct, self.keep(None if caps is None else reals(caps))
            struct.open = self.keep(None if starts is None else np.ascontiguousarray(starts, dtype=np.uint8))
        code = library()
        self.address = code.lowered_new(schedule.address, groups, launch, links, len(phases), structs)
        weakref.finalize(self, code.lowered_free, self.address)
