"""Fuzzes the C border of the engine with programs that are damaged: each call is refused with one sentence, or runs.

    python tests/fuzz/border.py --count 100000 --seed 1

A call that is refused names a field and changes nothing. A case that crashes or takes too long ends the process; the
test that runs this says which one it was. ``--case`` repeats one.
"""

import argparse
import ctypes
import math
import re
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fredfw_engine
from fredfw.simulation import engine

SECONDS = 20.0  # of processor time, which a case may use
REFUSED = -100
# Of counts, those that no array has. Whether an array is as long as a possible count says, no border can see.
COUNTS = (-1, -(2**63), 2**31, 2**40, 2**62, 2**63 - 1)
INTS = (*COUNTS, 0, 1, 2, 3, 7, 2**31 - 1)
REALS = (math.nan, math.inf, -math.inf, -1.0, -5e-324, 0.0, 5e-324, 1e-300, 1e-9, 1.0, 1e9, 1e149, 1e200, 1.7e308)
WRONG: dict[type, Sequence[float]] = {np.int64: INTS, np.float64: REALS, np.uint8: (0, 1, 2, 255)}
HEAD = struct.Struct("<QqqQ")  # of a program in a file: its mark, version, length and checksum
# Of arrays, values that are wrong wherever they are read, and fields of which any number may be right.
HOPELESS: dict[type, Sequence[float]] = {np.int64: (2**62, -(2**63)), np.float64: (math.nan, -1.0)}
FREE = ("partner", "whole", "is_switch", "open")
COMPUTE, COLLECTIVE, TRANSFER, LOAD, STORE, SEND, RECEIVE, WAIT = range(8)


@cache
def code() -> Any:
    """Return the functions of the engine, which answer in numbers here."""
    library = ctypes.CDLL(str(fredfw_engine.library()))
    for name, (result, *arguments) in engine.FUNCTIONS.items():
        function = getattr(library, f"fredfw_{name}")
        function.restype, function.argtypes = result, arguments
    return library


@cache
def words() -> frozenset[str]:
    header = Path(__file__).parents[2] / "engine" / "include" / "fredfw.h"
    return frozenset(re.findall(r"[a-z_]+", header.read_text(encoding="utf-8")))


class Case:
    """One program, what is wrong with it, and what is done with it; the same for the same seed."""

    def __init__(self, seed: int, *, damage: bool = True, probe: bool = False) -> None:
        self.random = Random(seed)
        self.damages, self.probes = damage, probe
        self.probed: set[str] = set()  # fields
        self.rate = self.random.choice((0.0, 0.004, 0.02, 0.1)) if damage else 0.0  # of what is damaged
        self.results: list[object] = []  # of all calls
        self.kept: list[object] = []
        self.refused: list[str] = []
        self.owned: dict[str, list[int]] = {one: [] for one in ("network", "program", "lowered", "schedule")}
        self.networks = self.owned["network"]
        self.lowered: dict[tuple[int, int], int] = {}  # by ranks and groups
        self.flows: dict[int, int] = {}  # of each ticket
        self.runs: list[int] = []
        self.graphs: dict[int, int] = {}  # tasks of that of each network
        self.links, self.nodes = self.random.randint(1, 6), 4

    # --- damage

    def hit(self) -> bool:
        return self.random.random() < self.rate

    def count(self, value: int, wrong: Sequence[int] = COUNTS) -> int:
        return self.random.choice(wrong) if self.hit() else value

    def real(self, value: float) -> float:
        return self.random.choice(REALS) if self.hit() else value

    def array(self, values: Sequence[float], kind: type, *, own: bool = False) -> tuple[int | None, int]:
        """Return an array, and its length; it may be cut where a count of its ``own`` says how long it is."""
        array: NDArray[Any] = np.array(values, dtype=kind)
        if self.hit():
            what = self.random.random()
            if what < 0.1:
                return None, len(array)
            if what < 0.3 and own:
                array = array[: self.random.randint(0, len(array))].copy()
            elif len(array):
                array[self.random.randrange(len(array))] = self.random.choice(WRONG[kind])
        self.kept.append(array)
        return array.ctypes.data, len(array)

    def put(self, struct: Any, name: str, values: Sequence[float], length: str, kind: type = np.int64) -> None:
        address, count = self.array(values, kind, own=True)
        setattr(struct, name, address)
        setattr(struct, length, self.count(count))

    def set(self, struct: Any, wrong: Sequence[int] = COUNTS, **values: Any) -> None:
        """Set fields to numbers, which may be some that are ``wrong``, and to arrays."""
        for name, value in values.items():
            if isinstance(value, list):
                kind = np.float64 if any(isinstance(one, float) for one in value) else np.int64
                setattr(struct, name, self.array(value, kind)[0])
            else:
                setattr(struct, name, self.real(value) if isinstance(value, float) else self.count(value, wrong))

    def at(self, values: Sequence[float], kind: type = np.int64) -> int | None:
        return self.array(values, kind)[0]

    def each(self, count: int, *choices: float) -> list[Any]:
        return self.random.choices(choices, k=count)

    def below(self, count: int, limit: int) -> list[int]:
        return [self.random.randrange(limit) for _ in range(count)]

    def some(self, most: int, limit: int) -> list[int]:
        return self.below(self.random.randint(0, most), limit) if limit else []

    # --- programs

    def routes(self, count: int) -> ctypes.Structure:
        rows = [self.some(3, self.links) for _ in range(count)]
        link, pairs = self.array(joined(rows), np.int64, own=True)
        view = engine.STRUCTURES["routes"](self.count(count), self.count(pairs), self.offsets(rows), link)
        self.set(view, latency=self.each(count, 0.0, 0.5))
        if self.random.random() < 0.2:
            self.set(view, coefficient=self.each(len(joined(rows)), 0.5, 1.0, 2.0))
        return view

    def setting(self) -> ctypes.Structure:
        random, setting, nodes = self.random, engine.STRUCTURES["setting"](), self.nodes
        self.set(setting, links=self.links, nodes=nodes, bandwidth=self.each(self.links, 0.0, 50.0, 100.0, 100.0))
        self.set(setting, source=self.below(self.links, nodes), destination=self.below(self.links, nodes))
        if random.random() < 0.9:
            setting.is_switch = self.array(self.below(nodes, 2), np.uint8)[0]
        self.set(setting, INTS, sharing=random.randrange(4))
        setting.local, setting.open, setting.starts_streams = (random.random() < 0.7 for _ in range(3))
        return setting

    def network(self) -> int | None:
        setting = self.setting()
        self.probe(setting, partial(self.makes, "network", ctypes.byref(setting)))
        return self.made("network", code().fredfw_network_new(ctypes.byref(setting)))

    def makes(self, what: str, *arguments: object) -> bool:
        address = getattr(code(), f"fredfw_{what}_new")(*arguments)
        if address is not None:
            getattr(code(), f"fredfw_{what}_free")(address)
        return address is not None

    def takes(self, name: str, struct: ctypes.Structure) -> bool:
        """Return whether a network that has done nothing takes it."""
        bandwidth = np.full(self.links, 100.0)
        setting = engine.STRUCTURES["setting"](self.links, self.nodes, bandwidth.ctypes.data, open=1)
        address = code().fredfw_network_new(ctypes.byref(setting))
        result: int = getattr(code(), f"fredfw_{name}")(address, ctypes.byref(struct))
        code().fredfw_network_free(address)
        return result >= 0

    def probe(self, struct: ctypes.Structure, call: Callable[[], bool]) -> None:
        """Make sure that each value of each array is refused where it is wrong, with its field and row."""
        if not self.probes or not call():
            return
        arrays = {one.ctypes.data: one for one in self.kept if isinstance(one, np.ndarray)}
        for name, kind, *_ in struct._fields_:
            array = arrays.get(getattr(struct, name)) if kind is ctypes.c_void_p and name not in FREE else None
            if kind is engine.STRUCTURES["routes"]:
                self.probe(struct.routes, call)
            unread = isinstance(struct, engine.STRUCTURES["setting"]) and struct.sharing != engine.CIRCUIT_PREEMPT
            if array is None or not len(array) or (unread and name != "bandwidth"):
                continue
            self.probed.add(f"{type(struct).__name__}.{name}")
            for row in sorted({0, len(array) // 2, len(array) - 1}):
                # An offset that is too large is found where the next one falls.
                named = f"{name}[" if name.endswith("offset") else f"{name}[{row}]"
                for wrong in HOPELESS[array.dtype.type]:
                    right, array[row] = array[row], wrong
                    refused, said = not call(), code().fredfw_error().decode()
                    array[row] = right
                    assert refused, f"{named} of {type(struct).__name__} is {wrong}, and is not refused"
                    assert named in said, f"{named} of {type(struct).__name__} is {wrong}: {said}"

    def schedule(self, ranks: int) -> int | None:
        random, views = self.random, []
        counts: list[int] = []
        first: dict[tuple[int, int], int] = {}
        for index in range(random.randint(0, 4)):
            view, channel = engine.STRUCTURES["phase"](), random.choice((-1, -1, 0, 1))
            turn = first.setdefault((channel, random.randrange(2)), index) if channel >= 0 else -1
            self.set(view, INTS, repeat=random.choice((1, 1, 2, 3, 50, 2**31 - 1)), channel=channel, turn=turn)
            for name in ("after", "behind", "room"):
                waits = self.some(2, index) if random.random() < 0.6 else []
                self.put(view, name, waits, f"{name}_count")
            unicasts, streams = random.randint(0, 3), random.choice((0, 0, 1, 2))
            self.set(view, unicasts=unicasts, streams=streams, turn_bytes=float(random.randint(0, 3)))
            self.set(view, source=self.below(unicasts, ranks), destination=self.below(unicasts, ranks))
            for side in ("source", "destination") if streams else ():
                rows = [sorted(random.sample(range(ranks), random.randint(1, ranks))) for _ in range(streams)]
                self.put(view, f"stream_{side}", joined(rows), f"stream_{side}s")
                setattr(view, f"stream_{side}_offset", self.offsets(rows))
            self.volumes(view, unicasts + streams)
            views.append(view)
            counts.append(unicasts + streams)
        phases = (engine.STRUCTURES["phase"] * max(len(views), 1))(*views)
        flags = random.randrange(4)
        for view in phases[: len(views)]:
            self.probe(view, partial(self.makes, "schedule", ranks, len(views), phases, flags))
        self.counts = counts
        return self.made(
            "schedule", code().fredfw_schedule_new(self.count(ranks), self.count(len(views)), phases, flags)
        )

    def volumes(self, view: ctypes.Structure, flows: int) -> None:
        random = self.random
        if random.random() < 0.7:
            sizes = self.each(random.choice((1, flows)), 0.0, 1.0, 100.0, 100.0)
            self.put(view, "volumes", sizes, "volume_count", np.float64)
            return
        chunks = random.randint(1, 4)
        named = random.random() < 0.5
        rows = random.randint(1, 5) if named and flows else flows
        self.set(view, rows=rows, chunk_count=chunks, chunk_bytes=self.each(chunks, 0.0, 10.0, 30.0))
        self.set(view, base=[0] * rows, modulus=[chunks] * rows, chunks=self.each(rows, *range(1, chunks + 1)))
        self.set(view, offset=self.each(rows, *range(-3, 4)), stride=self.each(rows, *range(-3, 4)))
        if named and flows:
            self.set(view, row_flow=self.below(rows, flows))

    def lower(self, ranks: int, groups: int) -> int | None:
        schedule = self.schedule(ranks)
        if schedule is None:
            return None
        views = []
        for flows in self.counts:
            count = flows * groups
            view = engine.STRUCTURES["flows"](self.routes(count))
            if self.random.random() < 0.2:
                self.set(view, caps=self.each(count, 30.0, math.inf))
            if self.random.random() < 0.2:
                view.open = self.array(self.below(count, 2), np.uint8)[0]
            views.append(view)
        structs = (engine.STRUCTURES["flows"] * max(len(views), 1))(*views)
        for view in structs[: len(views)]:
            self.probe(view, partial(self.makes, "lowered", schedule, groups, 0.25, self.links, len(views), structs))
        groups_, launch = self.count(groups, (*COUNTS, 0, 1, 7)), self.real(self.random.choice((0.0, 0.25)))
        links, count = self.count(self.links, INTS), self.count(len(views), INTS)
        made = self.made("lowered", code().fredfw_lowered_new(schedule, groups_, launch, links, count, structs))
        if made is not None:
            self.lowered[ranks, groups] = made
        return made

    def made(self, what: str, address: int | None) -> int | None:
        if address is None:
            self.note()
        else:
            self.owned[what].append(address)
        return address

    def cargo(self, ticket: int, count: int, run: tuple[int, int, int] | None = None) -> ctypes.Structure:
        random = self.random
        cargo = engine.STRUCTURES["cargo"](routes=self.routes(count), flow=-1)
        if ticket and count and random.random() < 0.3:
            cargo.flow = self.count(random.randrange(count), INTS)
        self.set(cargo, volumes=self.each(max(count, 1), 0.0, 1.0, 100.0))
        if random.random() < 0.2:
            self.set(cargo, caps=self.each(max(count, 1), 10.0, math.inf))
        activities = random.randint(1, 3) if run is None else run[2]
        if cargo.flow < 0 and activities:
            self.set(cargo, activity=self.below(count, activities))
        self.set(cargo, (*COUNTS, 0, 1, 7), activities=activities)
        self.set(cargo, INTS, repeat=1 if run else random.choice((1, 1, 2, 10, 1000)), priority=random.randrange(3))
        setups = self.each(2, 0.0, 0.0, 0.1)
        self.set(cargo, label=random.randrange(3), first_setup=setups[0], setup=setups[1])
        cargo.takes_turns, cargo.hears_drain = random.random() < 0.1, random.random() < 0.5
        cargo.ticket, cargo.token = ticket, random.choice((0, 5))
        cargo.run, cargo.carry = run[:2] if run else (self.count(1, INTS), self.count(0, INTS))
        return cargo

    def graph(self, *, alone: bool = False) -> ctypes.Structure:
        """Return a task graph; one that runs alone has no loads and stores, which somebody serves."""
        random, ranks = self.random, 4
        way = random.randrange(4)
        graph = engine.STRUCTURES["graph"](ranks=self.count(ranks), way=self.count(way, INTS), tables=self.count(2))
        participants = [sorted(random.sample(range(ranks), random.randint(1, ranks))) for _ in range(2)]
        shapes = [(random.randint(1, 2), random.randint(1, len(one))) for one in participants]
        pairs = zip(participants, shapes, strict=True)
        slots = [joined([random.sample(range(len(one)), size) for _ in range(count)]) for one, (count, size) in pairs]
        graph.participant_offset = self.offsets(participants)
        self.put(graph, "participant", joined(participants), "participants")
        self.set(graph, groups=[groups for groups, _ in shapes], group_size=[size for _, size in shapes])
        self.put(graph, "slot", joined(slots), "slots")
        kinds = [random.randrange(LOAD if alone else SEND) for _ in range(random.randint(1, 5))]
        if random.random() < 0.5:
            kinds += [SEND, RECEIVE]
        kinds += [WAIT] * random.randint(0, 1)
        tasks, members = len(kinds), [random.randrange(2) for _ in kinds]
        served, of_tasks, addresses = list[list[int]](), list[list[int]](), list[int | None]()
        for kind, table in zip(kinds, members, strict=True):
            of_tasks.append([])
            if kind in (COLLECTIVE, TRANSFER, SEND):
                groups, size = (1, 2) if kind == SEND else shapes[table]
                if (size, groups) not in self.lowered:
                    self.lower(size, groups)
                addresses.append(None if self.hit() else self.lowered.get((size, groups)))
                of_tasks[-1].append(len(served))
                served.append(list(range(groups)))
        whole = [kind not in (COLLECTIVE, TRANSFER) or (kind == COLLECTIVE and way < 2) for kind in kinds]
        partner = [task + {SEND: 1, RECEIVE: -1}.get(kind, -1 - task) for task, kind in enumerate(kinds)]
        edges: list[list[tuple[int, int, int]]] = [[] for _ in kinds]
        maps: list[list[int]] = []
        for _ in range(random.randint(0, 2 * tasks)):
            one, other = random.randrange(tasks), random.randrange(tasks)
            if one >= other and random.random() < 0.9:
                continue
            mine, theirs = participants[members[one]], participants[members[other]]
            if members[one] == members[other]:
                edges[one].append((other, -1, len(mine)))
            else:
                edges[one].append((other, len(maps), len({*mine} & {*theirs})))
                maps.append([theirs.index(rank) if rank in theirs else -1 for rank in mine])
        self.set(graph, tasks=tasks, edges=sum(map(len, edges)), kind=kinds, members=members, partner=partner)
        self.set(graph, label=[0] * tasks, priority=[0] * tasks, whole=whole, times=self.each(tasks, 1, 1, 3))
        self.set(graph, seconds=self.each(tasks, 0.0, 1.0), maps=len(maps))
        graph.edge_offset, graph.map_offset = self.offsets(edges), self.offsets(maps)
        for place, name in enumerate(("edge_task", "edge_map", "edge_count")):
            self.set(graph, **{name: [edge[place] for edge in joined(edges)]})
        self.put(graph, "map", joined(maps), "map_slots")
        lowered = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        self.kept.append(lowered)
        graph.shares, graph.share_lowered = self.count(len(served)), ctypes.addressof(lowered)
        graph.share_group_offset = self.offsets(served)
        self.put(graph, "share_group", joined(served), "share_groups")
        graph.share_offset = self.offsets(of_tasks)
        self.put(graph, "share", joined(of_tasks), "task_shares")
        if random.random() < 0.3:
            sizes = [len(participants[table]) * (kind == COMPUTE) for kind, table in zip(kinds, members, strict=True)]
            factors = [[1.5] * size for size in sizes]
            graph.factor_offset = self.offsets(factors)
            self.put(graph, "factors", joined(factors), "factor_count", np.float64)
        return graph

    def offsets(self, rows: Sequence[Sequence[object]]) -> int | None:
        return self.at([0, *accumulate(map(len, rows))])

    # --- what is done

    def note(self) -> None:
        """Check what a call says that was refused."""
        said = code().fredfw_error().decode()
        self.refused.append(said)
        named = re.match(r"[a-z_]+", said)
        assert named is not None, f"no field: {said!r}"
        assert named[0] in words(), f"no field: {said!r}"
        assert "\n" not in said, f"no sentence: {said!r}"
        assert 8 < len(said) < 200, f"no sentence: {said!r}"

    def state(self, address: int) -> object:
        """Return all that a network is, or what it says of itself where a task graph runs."""
        size = code().fredfw_save(address, 0, None)
        if size > 0:
            saved = ctypes.create_string_buffer(size)
            code().fredfw_save(address, size, ctypes.addressof(saved))
            return saved.raw
        counts, tasks = (ctypes.c_int64 * 9)(), (ctypes.c_int64 * 4)()
        code().fredfw_statistics(address, counts), code().fredfw_tasks_count(address, tasks)
        return list(counts), list(tasks), code().fredfw_now(address).contents.value

    def call(self, name: str, address: int, *arguments: object) -> int:
        """Call a function of a network; one that is refused has changed nothing."""
        before = self.state(address)
        result: int = getattr(code(), f"fredfw_{name}")(address, *arguments)
        self.results.append((name, result, code().fredfw_now(address).contents.value.hex()))
        if result == REFUSED:
            self.note()
            assert self.state(address) == before, f"{name} was refused, and has changed something"
        return result

    def step(self, address: int) -> None:
        notice, now = engine.STRUCTURES["notice"](), code().fredfw_now(address).contents.value
        until = self.real(self.random.choice((math.inf, now + 0.3, now + 5.0)))
        for _ in range(self.random.randint(1, 25)):
            what = self.call("step", address, until, self.random.choice((0, 1, 5, 200)), ctypes.byref(notice))
            if what == engine.OVER:
                break
            self.answer(address, what, notice)
        if until < math.inf and self.random.random() < 0.3:
            self.call("pass", address, until)

    def answer(self, address: int, what: int, notice: ctypes.Structure) -> None:
        random, whose, detail = self.random, notice.whose, notice.detail
        items, others = engine.read(notice.list, notice.count), engine.read(notice.others, notice.other_count)
        self.results.append((whose, detail, items.tolist(), others.tolist()))
        if what == engine.ASK:
            carry = self.count(whose, INTS), self.count(detail, INTS)
            if random.random() < 0.6:
                cargo = self.cargo(0, random.randint(0, 3), (*carry, len(items)))
                self.call("admit", address, ctypes.byref(cargo))
            else:
                for name in random.choice((("drained", "ended"), ("ended",), ("drained", "drained", "ended", "ended"))):
                    chosen = list(range(len(items))) if random.random() < 0.7 else self.some(2, len(items) + 1)
                    given, length = self.array(chosen, np.int64, own=True)
                    self.call("tell", address, *carry, name == "ended", self.count(length), given)
        elif what == engine.ROUTE:
            batch = engine.STRUCTURES["batch"]()
            if self.call("describe", address, self.count(whose, INTS), ctypes.byref(batch)) == 0:
                routes = self.routes(self.flows.get(batch.ticket, 1))
                given, length = self.array(items.tolist() * random.choice((1, 1, 2)), np.int64, own=True)
                self.call("go_on", address, whose, self.count(length), given, ctypes.byref(routes))
        elif what == engine.STREAM:
            given, length = self.array(list(range(len(items))) * random.choice((1, 1, 2)), np.int64, own=True)
            self.call("streamed", address, self.count(whose, INTS), self.count(length), given)
        elif what == engine.RATES:
            counts = (ctypes.c_int64 * 4)()
            self.call("count_flows", address, counts)
            now = code().fredfw_now(address).contents.value
            rates = self.at(self.each(counts[0], 0.0, 10.0, 50.0), np.float64)
            until = self.real(random.choice((math.inf, now + 1.0)))
            self.call("assign", address, self.count(counts[0]), rates, until)

    def anything(self, address: int) -> None:
        random = self.random
        name = random.choice((*self.runs, *INTS)) if self.runs else random.choice(INTS)
        number, real = random.choice(INTS), random.choice((*REALS, 0.5, 0.5))
        reals, ints = (ctypes.c_double * 64)(), (ctypes.c_int64 * 64)()
        columns = engine.STRUCTURES["columns"]()
        if random.random() < 0.5:
            columns.left = ctypes.addressof(reals)
        values = self.at(self.each(self.links, 0.0, 50.0, 100.0), np.float64)
        done: tuple[Callable[[], object], ...] = (
            lambda: self.call("cancel", address, random.choice((*self.flows, number))),
            lambda: self.wait(address, real, number),
            lambda: self.call("weigh", address, random.choice((0, 1, *COUNTS)), real),
            lambda: self.call("set_bandwidths", address, values),
            lambda: self.call("route_repetitions", address),
            *[lambda: self.reroute(address, number)] * 2,
            lambda: self.call("link_bytes", address, 3, reals, ints),
            lambda: self.call("stalled", address, 64, ints),
            lambda: self.call("held", address, random.choice((0, 20)), ints, reals, (ctypes.c_int64 * 64)()),
            lambda: self.call("hear", address, number, ctypes.byref(engine.STRUCTURES["notice"]())),
            lambda: [self.call(one, address) for one in ("next", "is_idle", "begin")],
            lambda: self.call("pass", address, real),
            lambda: self.call("assign", address, random.choice((0, 1, *COUNTS)), reals, real),
            lambda: self.call("tell", address, name, number, random.randrange(2), 1, ints),
            lambda: self.call("run_cancel", address, random.choice((name, random.randint(1, 9)))),
            lambda: self.call("run_start", address, name),
            lambda: self.call("streamed", address, number, 1, ints),
            lambda: self.call("errand", address, name, ints, ints, 8, ints),
            lambda: self.call("list_flows", address, ctypes.byref(columns)),
            self.share,
            lambda: self.reload(address),
        )
        random.choice(done)()

    def wait(self, address: int, seconds: float, number: int) -> None:
        timer = self.call("timer", address, seconds, self.count(self.random.randrange(3), INTS))
        if self.random.random() < 0.5:
            self.call("withdraw", address, self.random.choice((timer, number)))

    def reroute(self, address: int, number: int) -> None:
        ints, moved, batch = (ctypes.c_int64 * 64)(), ctypes.c_int64(), engine.STRUCTURES["batch"]()
        routes = self.routes(self.random.randint(0, 3))
        number = self.random.choice((*ints[: max(self.call("batches", address, 64, ints), 0)], number))
        if self.call("describe", address, number, ctypes.byref(batch)) == 0 and batch.ticket in self.flows:
            routes = self.routes(self.flows[batch.ticket])
        self.call("reroute", address, number, ctypes.byref(routes), ctypes.byref(moved))
        self.call("go_on", address, number, 1, ints, ctypes.byref(routes))

    def share(self) -> None:
        """Ask for max-min fair rates, which are rates."""
        random, rows = self.random, [self.some(3, self.links) for _ in range(self.random.randint(0, 5))]
        rates = np.array(self.each(len(rows), math.inf, 10.0))
        given = random.choice((*REALS, math.inf))
        if len(rates) and self.hit():
            rates[random.randrange(len(rates))] = given
        address, pairs, flows = self.offsets(rows), len(joined(rows)), len(rows)
        # How many links there are to read, only the last offset says.
        if address is not None and (ctypes.c_int64 * (flows + 1)).from_address(address)[flows] > pairs:
            return
        passes = code().fredfw_max_min(
            self.count(flows),
            self.count(self.links),
            address,
            self.at(joined(rows)),
            self.at(self.each(pairs, 0.5, 1.0, 2.0), np.float64) if random.random() < 0.3 else None,
            self.at(self.each(self.links, 0.0, 50.0, 100.0), np.float64),
            rates.ctypes.data,
        )
        self.results.append((passes, rates.tobytes()))
        if passes < 0:
            self.note()
        else:
            assert (rates >= 0).all(), f"max_min gives {rates}"

    def reload(self, address: int) -> None:
        """Save a network, damage what was saved or not, and go on with a copy."""
        saved = self.state(address)
        other = self.network()
        if not isinstance(saved, bytes) or other is None:
            return
        self.links += 1
        stranger = self.network()
        self.links -= 1
        if stranger is not None:
            assert self.call("load", stranger, len(saved), saved) == REFUSED, "what was saved of another fabric is read"
            self.networks.remove(stranger)  # the others have as many links as all arrays here
            code().fredfw_network_free(stranger)
        if self.random.random() < 0.5:
            damaged = bytearray(saved)
            if self.random.random() < 0.5:
                del damaged[self.random.randrange(len(damaged)) :]
            else:
                damaged[self.random.randrange(len(damaged))] ^= self.random.randint(1, 255)
            assert self.call("load", other, len(damaged), bytes(damaged)) == REFUSED, "what was damaged is read"
        self.call("load", other, len(saved), saved)

    def file(self) -> None:
        """Write a program, damage what is written or not, and run what is read."""
        random, setting, graph = self.random, self.setting(), self.graph(alone=True)
        setting.sharing, setting.open = self.count(random.randrange(3), INTS), not self.hit()
        view = engine.STRUCTURES["program"](setting, graph, npus=self.count(4), labels=self.count(1))
        names = (ctypes.c_char_p * 10)(*[b"a name"] * 10)
        self.kept.append(names)
        view.label = view.task = ctypes.addressof(names)
        view.weight = self.at([2.0], np.float64) if random.random() < 0.5 else None
        if random.random() < 0.5:
            view.routes = self.routes(16)
        size = code().fredfw_program_write(ctypes.byref(view), 0, None)
        if size < 0:
            self.note()
            return
        written = ctypes.create_string_buffer(size)
        assert code().fredfw_program_write(ctypes.byref(view), size, written) == size
        self.results.append(written.raw)
        assert self.read(written.raw), "what was written is not read"
        for _ in range(8 if self.damages else 0):
            content = bytearray(written.raw)
            for _ in range(random.choice((1, 1, 3))):
                place = random.randrange(HEAD.size, size - 7)
                content[place : place + 8] = random.choice(INTS).to_bytes(8, "little", signed=True)
            self.read(signed(content))

    def read(self, content: bytes) -> bool:
        """Run a program in a file, and return whether it is one."""
        program = self.made("program", code().fredfw_program_read(len(content), content))
        if program is None:
            return False
        address = self.made("network", code().fredfw_program_network(program))
        assert address is not None, "a program that was read has no network"
        started = self.call("tasks_start", address, program + engine.STRUCTURES["program"].graph.offset)
        assert started == 0, "a program that was read does not start"
        self.step(address)
        return True

    def run(self) -> list[str]:
        random = self.random
        try:
            if self.network() is None:
                return self.refused
            for _ in range(random.randint(4, 12)):
                address = random.choice(self.networks)
                what = random.random()
                if what < 0.25:
                    ticket, count = len(self.flows) + 1, random.randint(0, 3)
                    cargo = self.cargo(ticket, count)
                    if count and cargo.flow < 0:  # else values of flows are there that nobody reads
                        self.probe(cargo, partial(self.takes, "admit", cargo))
                    if self.call("admit", address, ctypes.byref(cargo)) >= 0:
                        self.flows[ticket] = count if cargo.flow < 0 else 1
                elif what < 0.4:
                    self.begin_run(address)
                elif what < 0.45:
                    graph = self.graph()
                    self.probe(graph, partial(self.takes, "tasks_start", graph))
                    if self.call("tasks_start", address, ctypes.byref(graph)) == 0:
                        self.graphs[address] = graph.tasks
                elif what < 0.7:
                    self.step(address)
                else:
                    self.anything(address)
            self.step(random.choice(self.networks))
            for address in self.networks:
                self.look(address)
            if random.random() < 0.3:
                self.file()
        finally:
            self.free()
        return self.refused

    def look(self, address: int) -> None:
        bytes_, present, counts = np.zeros((3, self.links)), np.zeros(3, dtype=np.uint8), np.zeros(9, dtype=np.int64)
        self.call("link_bytes", address, 3, bytes_.ctypes.data, present.ctypes.data)
        self.call("statistics", address, counts.ctypes.data)
        self.results += [bytes_.tobytes(), present.tobytes(), counts.tobytes()]
        if code().fredfw_tasks_count(address, counts.ctypes.data) == 0:
            record = engine.Record(self.graphs[address], *counts[:3].tolist())
            self.call("tasks_record", address, ctypes.byref(record.view()))
            self.results += [column.tobytes() for _, column in sorted(vars(record).items())]

    def begin_run(self, address: int) -> None:
        random = self.random
        key = random.randint(1, 4), random.randint(1, 2)
        lowered = self.lowered.get(key) or self.lower(*key)
        way, times, given = random.randrange(4), random.choice((1, 1, 3)), None if self.hit() else lowered
        label, priority = self.count(random.randrange(3)), self.count(random.randrange(3))
        run = self.call("run_new", address, given, label, priority, self.count(way, INTS), self.count(times))
        if run > 0:
            self.runs.append(run)
            self.call("run_start", address, run)

    def free(self) -> None:
        for what, addresses in self.owned.items():
            for address in addresses:
                getattr(code(), f"fredfw_{what}_free")(address)


def signed(content: bytes | bytearray) -> bytes:
    """Return a program in a file with the length and the checksum (FNV-1a) that its content has."""
    mark, version, _, _ = HEAD.unpack_from(content)
    total = 0xCBF29CE484222325
    for one in content[HEAD.size :]:
        total = (total ^ one) * 0x100000001B3 % 2**64
    return HEAD.pack(mark, version, len(content), total) + content[HEAD.size :]


def joined(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return [one for row in rows for one in row]


def main() -> None:
    """Run cases; each is named on the standard error before it runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int)
    parser.add_argument("--digest", action="store_true", help="damage nothing, and print a digest of all results")
    chosen = parser.parse_args()
    first = chosen.seed * 10**6
    cases = range(first, first + chosen.count) if chosen.case is None else [chosen.case]
    refused, digest = 0, sha256()
    for case in cases:
        print(f"case {case}", end="\r", file=sys.stderr, flush=True)
        if hasattr(signal, "setitimer"):  # Python does not hear it in a call, so that it ends the process
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            one = Case(case, damage=not chosen.digest)
            said = one.run()
        except AssertionError as error:
            sys.exit(str(error))
        refused += bool(said)
        digest.update(repr(one.results).encode())
        if chosen.case is not None:
            print(*said, sep="\n")
    if chosen.digest:
        print(digest.hexdigest())
    print(f"{len(cases)} programs: something was refused in {refused}")


if __name__ == "__main__":
    main()
