"""Random programs: a fabric, rules, a task graph and what happens meanwhile.

``program(7)`` is the same in every release. It names only what the release before the engine in C++ had, too, so that
both can be asked what it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, frozen
from small import Admitting

from fredfw import GraphBuilder, TaskGraph
from fredfw.experiment.results import GraphResult
from fredfw.fabric import Decision, Fabric, FlowSet, IdealTransport, MemoryTier, Routes, Transport, with_memories
from fredfw.fabric.admission import Admission, Decompose, Split, Start, Wait
from fredfw.framework import Framework
from fredfw.simulation import CircuitPreempt, LinkEvent, MaxMin, SharingPolicy, StrictLinks, WeightedMaxMin
from fredfw.workloads.composition import JobGraph, composed
from fredfw.workloads.labels import OWN

FIDELITIES = "compressed", "stepwise", "per-rank", "per-rank-rendezvous"
LABELS = "dp", "mp", "pp"
# What a program takes is a small multiple of this, whatever its fabric.
SCALE = 1e-4
FRAMEWORK = Framework()
Table = Mapping[str, Any]  # what an experiment says of a plugin: its name and its fields


@frozen
class Program:
    seed: int  # what it was drawn with
    topology: Table  # what the links are
    uneven: int  # seed of factors of bandwidths and latencies, one of each for each link, or -1 for none
    memories: tuple[MemoryTier, ...]
    sharing: SharingPolicy | None  # None for the fabric's own
    admission: type[Admission] | None  # None for the fabric's own
    transport: Transport | None  # None for the fabric's own
    collectives: Mapping[str, Sequence[Table | str]]  # by pattern; the first that can serve a request is taken
    placement: Sequence[int]  # NPU of each rank of all jobs
    jobs: tuple[JobGraph, ...]  # what is done
    priorities: Sequence[str]  # labels, the highest class first
    events: tuple[LinkEvent, ...]
    fidelity: str  # one of FIDELITIES

    def fabric(self) -> Fabric:
        return with_memories(links(self.topology, self.uneven), self.memories).with_defaults(
            sharing=self.sharing,
            transport=self.transport,
            admission=Admitting(self.admission) if self.admission else None,
        )

    def graph(self) -> TaskGraph:
        return composed(self.jobs) if is_composed(self.jobs) else self.jobs[0].graph

    def perturbed(self, seed: int, by: float) -> Program:
        """Return the same with every volume changed by a random share of at most ``by``."""
        random = np.random.default_rng(seed)

        def changed(graph: TaskGraph) -> TaskGraph:
            tables = (graph.bytes, *graph.split_tables)
            sizes, *splits = (one * random.uniform(1 - by, 1 + by, one.shape) for one in tables)
            return evolve(graph, bytes=sizes, split_tables=tuple(splits))

        return evolve(self, jobs=tuple(evolve(job, graph=changed(job.graph)) for job in self.jobs))

    def run(self, fabric: Fabric | None = None) -> GraphResult:
        return FRAMEWORK.simulate_graph(
            self.graph(),
            self.fabric() if fabric is None else fabric,
            placement=self.placement,
            collectives=self.collectives,
            priorities=self.priorities,
            fidelity=self.fidelity,
            events=self.events,
        )


def is_composed(jobs: Sequence[JobGraph]) -> bool:
    return len(jobs) > 1 or jobs[0].start > 0 or jobs[0].iterations > 1


def links(topology: Table, uneven: int = -1) -> Fabric:
    """Return a fabric with its own policies; ``uneven`` is a seed, or -1."""
    # Presets of machines had no transport when programs were recorded.
    fabric = FRAMEWORK.topology(**topology).build().with_defaults(transport=IdealTransport())
    if uneven < 0:
        return fabric
    random, count = Random(uneven), len(fabric.bandwidths)
    factors = np.array(
        [[random.choice([0.25, 0.5, 1.0, 1.0, 1.7]), random.choice([0.0, 0.3, 1.0, 2.9])] for _ in range(count)]
    )
    return evolve(fabric, bandwidths=fabric.bandwidths * factors[:, 0], latencies=fabric.latencies * factors[:, 1])


@frozen
class Asked(MaxMin):
    """Max-min fair, and of a plugin: the engine asks it for the rates of all flows."""

    name: ClassVar[str] = "asked-max-min"
    local: ClassVar[bool] = False


# --- admissions that wait, split, decompose and cost


class OneAtATime(Admission):
    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        return Wait("busy") if active else Start()


class FewAtATime(OneAtATime):
    flow_by_flow: ClassVar[bool] = True

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        return Wait("busy") if len(active) > 2 else Start(setup=1e-7 * len(active))


class Halves(Admission):
    """Sets of more than three flows run in halves."""

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        count = len(flows.volumes)
        return Start() if count < 4 else Split((np.arange(count // 2), np.arange(count // 2, count)), "too many")


class Circuits(Admission):
    """Sets whose routes are not those that came last pay a set-up, once."""

    def __init__(self) -> None:
        self.last: Routes | None = None

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        changed, self.last = self.last is not flows.routes, flows.routes
        return Start(setup=SCALE / 20 if changed else 0.0, setup_once=True)


class Capped(Admission):
    """Flows of sets that start beside others have a cap; the third and later ones wait."""

    flow_by_flow: ClassVar[bool] = True

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        if not active:
            return Start()
        caps = np.full(len(flows.volumes), 2e10 / len(active))
        return Start(caps=caps if flows.caps is None else np.minimum(caps, flows.caps))


class NoTrees(Admission):
    """Flows of more than two ends are done by unicasts where others run; for switches, whose paths have two links."""

    flow_by_flow: ClassVar[bool] = True

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        many = (np.diff(flows.routes.offsets) > 2).any()
        return Decompose("a tree") if many and active else Start()


def program(seed: int) -> Program:
    random = Random(seed)
    topology = _topology(random)
    uneven = random.randrange(10**6) if random.random() < 0.4 and topology["name"] != "optical-ring" else -1
    fabric = links(topology, uneven)
    npus = len(fabric.npus)
    memories = _memories(random, npus) if random.random() < 0.2 else ()
    if npus < 4 or random.random() < 0.8:
        parts = [random.randint(2, npus)] if random.random() < 0.3 else [npus]
    else:
        first = random.randint(2, npus - 2)
        parts = [first, npus - first]
    dense = fabric.offers.reduces and random.random() < 0.7
    tiers = [one.name for one in memories]
    jobs = tuple(_job(random, ranks, fabric, tiers, number, dense=dense) for number, ranks in enumerate(parts))
    placement = list(range(sum(parts))) if random.random() < 0.5 else random.sample(range(npus), sum(parts))
    labels = [
        job.label(label) if is_composed(jobs) else label
        for job in jobs
        for label in sorted({*job.graph.label_names} - {*OWN})
    ]
    priorities = random.sample(labels, random.randint(0, min(3, len(labels)))) if random.random() < 0.5 else []
    return Program(
        seed=seed,
        topology=topology,
        uneven=uneven,
        memories=memories,
        sharing=_sharing(random, labels),
        admission=_admission(random, topology, fabric),
        transport=_transport(random) if random.random() < 0.2 else None,
        collectives=_collectives(random, trees=dense),
        placement=placement,
        jobs=jobs,
        priorities=priorities,
        events=tuple(_events(random, fabric)) if random.random() < 0.25 else (),
        fidelity=random.choice(FIDELITIES),
    )


def drawn(random: Random, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is drawn of each field, in their order: one of a list; whether, with a chance; or what is there."""

    def one(choices: Any) -> Any:
        if isinstance(choices, list):
            return random.choice(choices)
        return random.random() < choices if isinstance(choices, float) else choices

    return {name: one(choices) for name, choices in fields.items()}


LINKS: Mapping[str, Any] = {
    "link_bandwidth": ["100 GB/s", "100 GB/s", "25 GB/s", "750 GB/s"],
    "link_latency": ["0 s", "20 ns", "1 us", "1 us", "5 us"],
}
FRED: Mapping[str, Any] = {
    "arity": [(4, 2), (2, 2), (3, 3), (4, 4), (2, 5), (2, 6), (8,), (8,)],
    "io_controllers": [0, 3, 6],
    "middle_switches": [2, 2, 2, 3],
    "on_conflict": ["block", "decompose"],
    "link_latency": ["0 s", "20 ns", "1 us"],
}
OPTICAL: Mapping[str, Any] = {
    "npus": [4, 6, 8, 12],
    "wavelengths": [1, 2, 4, 64],
    "pay": ["every-step", "on-change"],
    "stripe": 0.4,
    "shortage": ["split", "split", "refuse"],
    "hop_latency": ["0 s", "10 ns"],
    "line_rate": ["40 Gbps", "400 Gbps"],
    "reconfiguration": ["25 us", "2 us"],
}
FAT_TREE = {"npus": [4, 8], "levels": 2, "radix": 4, "routing": ["spray", "ecmp"], "oversubscription": [1.0, 3.0]}
DIMENSIONS = [("ring 4", "switch 2"), ("FC 3", "ring 4"), ("switch 4", "FC 2", "ring 2"), ("ring 3", "ring 3")]
TOPOLOGIES: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("mesh2d", {"shape": [(2, 2), (2, 3), (2, 4), (3, 3), (4, 4), (1, 5)], "io_controllers": 0.6, **LINKS}),
    ("torus", {"dimensions": [(4,), (5,), (8,), (3, 2), (4, 2), (4, 4), (2, 2, 2)], "bidirectional": 0.8, **LINKS}),
    ("fat-tree", {**FAT_TREE, **LINKS}),
    ("switch", {"npus": [3, 4, 8, 12], "in_network": 0.4, **LINKS}),
    ("fully-connected", {"npus": [2, 3, 5, 8], **LINKS}),
    ("multi-dimensional", {"dimensions": DIMENSIONS}),
    # Messages changed rails in spines when programs were recorded.
    ("cluster", {"preset": ["dgx-h100", "dgx-a100"], "nodes": [1, 2], "pxn": False}),
    ("hyperx", {"dimensions": [(3, 3), (2, 4)], **LINKS}),
    *[("fred", FRED)] * 3,
    *[("optical-ring", OPTICAL)] * 2,
)


def _topology(random: Random) -> Table:
    name, choices = random.choice(TOPOLOGIES)
    fields = drawn(random, choices)
    if name == "mesh2d":
        rows, columns = fields.pop("shape")
        fields = {"rows": rows, "columns": columns, **fields}
    elif name == "multi-dimensional":
        count = len(fields["dimensions"])
        fields["bandwidths"] = tuple(random.choice(["100 GB/s", "50 GB/s", "20 GB/s"]) for _ in range(count))
        fields["latencies"] = tuple(random.choice(["0 s", "500 ns", "2 us"]) for _ in range(count))
    elif name == "fred" and len(fields["arity"]) == 1:
        fields |= {"bandwidths": ("100 GB/s",), "in_network": random.random() < 0.8}
    elif name == "fred":
        fields["variant"] = random.choice("ABBBCDDD")
    return {"name": name, **fields}


TIER: Mapping[str, Any] = {
    "scope": ["npu", "node", "fabric"],
    "bandwidth": ["10 GB/s", "40 GB/s"],
    "latency": ["0 s", "1 us"],
    "discipline": ["shared", "one-at-a-time"],
}


def _memories(random: Random, npus: int) -> tuple[MemoryTier, ...]:
    def tier(name: str) -> MemoryTier:
        fields = drawn(random, TIER)
        if fields["scope"] == "node":
            fields["npus"] = random.choice([one for one in (1, 2, 3, 4) if npus % one == 0])
        if fields["scope"] != "npu":
            fields["in_network"] = random.random() < 0.4
        if fields["scope"] == "fabric":
            fields["memories"] = random.choice([1, 2])
        return MemoryTier(name=name, **fields)

    return tuple(tier(f"tier{number}") for number in range(random.choice([1, 1, 2])))


def _sharing(random: Random, labels: Sequence[str]) -> SharingPolicy | None:
    kind = random.choice([None, None, None, MaxMin, Asked, WeightedMaxMin, StrictLinks, CircuitPreempt])
    if kind is WeightedMaxMin:
        return WeightedMaxMin({label: random.choice([0.5, 2.0, 3.0]) for label in labels})
    return kind and kind()


COSTS = {"launch": [0.0, 1e-6, 7e-6], "step": [0.0, 3e-7], "message": [0.0, 2e-7], "efficiency": [1.0, 0.9]}


def _transport(random: Random) -> Transport:
    fields = drawn(random, COSTS)
    fields |= {name: rate for name, rate in (("cap", 1e10), ("reduction", 5e10)) if random.random() < 0.3}
    return FRAMEWORK.plugins.transports.get("alpha-beta")(**fields)


def _admission(random: Random, topology: Table, fabric: Fabric) -> type[Admission] | None:
    if fabric.defaults.admission.name != "open":
        return None
    if topology["name"] == "switch" and fabric.offers.reduces:
        return random.choice([None, NoTrees, NoTrees])
    return random.choice([*[None] * 12, Capped, Circuits, FewAtATime, Halves, OneAtATime])


def _collectives(random: Random, *, trees: bool) -> dict[str, list[Table | str]]:
    chunks = random.choice([1, 2, 4, 16])
    ring = {"name": "ring", "chunks": chunks}
    reducing = (
        *(ring, {**ring, "rotated": True}, "recursive-halving-doubling"),
        *({"name": "hierarchical", "chunks": chunks}, {"name": "hierarchical", "chunks": 3, "orders": "all"}),
        *("direct", "torus-ring", "swing", {"name": "themis", "chunks": 8}, "h-ring"),
        *("in-network", "in-network", "forest"),
    )
    tree = {"name": "tree", "chunks": chunks}
    known: Mapping[str, Sequence[Table | str]] = {
        "all-reduce": (*reducing, tree, "wrht"),
        "reduce-scatter": reducing,
        "all-gather": reducing,
        "all-to-all": ("direct", ring, "bruck", "in-network"),
        "broadcast": (tree, "direct", ring, "in-network"),
        "reduce": ({"name": "tree", "chunks": 1}, "direct", ring, "in-network"),
        "gather": ("direct", ring),
        "scatter": ("direct", ring),
    }
    first, last = ["in-network"] * trees, {"name": "ring", "chunks": 1}
    chosen = {pattern: [*first, *random.sample(listed, 2), last] for pattern, listed in known.items()}
    return {**chosen, "default": ["direct"]}


def _events(random: Random, fabric: Fabric) -> Iterator[LinkEvent]:
    def some() -> str:
        return fabric.link_name(random.randrange(len(fabric.bandwidths)))

    if random.random() < 0.2:
        yield LinkEvent(some(), mtbf=10 * SCALE, mttr=SCALE, seed=random.randrange(100))
        return  # where another link stays away for ever, this one would come and go for long
    for _ in range(random.randint(1, 3)):
        name, at = some(), SCALE * random.choice([0.1, 0.5, random.random() * 5])
        if random.random() < 0.4:
            yield LinkEvent(name, "degrade", at=at, factor=random.choice([0.1, 0.5]))
        else:
            yield LinkEvent(name, "fail", at=at)
        if random.random() < 0.85:
            yield LinkEvent(name, "restore", at=at + SCALE * random.uniform(0.05, 10))


def _job(random: Random, ranks: int, fabric: Fabric, tiers: Sequence[str], number: int, *, dense: bool) -> JobGraph:
    tasks = _Tasks(random, ranks, fabric, tiers, dense=dense)
    start = random.choice([0.0, 0.0, SCALE * random.uniform(0.1, 3)]) if number else 0.0
    iterations = random.choice([1, 1, 1, 2])
    tasks.draw(random.choice([3, 6, 10, 18]) // (iterations if number == 0 else 2 * iterations) + 1)
    return JobGraph(f"job{number}", number, tasks.builder.build(), start, iterations)


class _Tasks:
    """Draws the tasks of a job, with sizes for the bandwidth of a fabric.

    Where it is ``dense``, many small groups do the same at once, whose streams a switch may not route together.
    """

    def __init__(self, random: Random, ranks: int, fabric: Fabric, tiers: Sequence[str], *, dense: bool) -> None:
        self.builder, self.count = GraphBuilder(ranks), 0
        self.random, self.ranks, self.tiers, self.dense = random, ranks, tiers, dense
        self.bandwidth, self.controllers = float(np.median(fabric.bandwidths)), len(fabric.controllers)
        # Where tasks are alike, they tie.
        self.sizes = [self.drawn_size() for _ in range(random.choice([1, 3, 20]))]

    def add(self, kind: str, *given: Any, **fields: Any) -> int:
        """Add a task by a method of ``GraphBuilder``."""
        self.count += 1
        task: int = getattr(self.builder, kind)(f"task {self.count - 1}", *given, **fields)
        return task

    def draw(self, count: int) -> None:
        """Add some ``count`` tasks, in blocks in part, and messages in the background."""
        random = self.random
        while self.count < count:
            if random.random() < 0.12:
                with self.builder.repeated(random.choice([2, 3, 5])):
                    for _ in range(random.randint(1, 4)):
                        self.one()
            else:
                self.one()
        if random.random() < 0.15:
            self.background(random.randint(1, 5))

    def background(self, messages: int) -> None:
        """Add messages between random ranks at random times, whatever the others do."""
        last: dict[int, list[int]] = {}
        for _ in range(messages):
            source, destination = self.random.sample(range(self.ranks), 2)
            gap = SCALE * self.random.expovariate(2)
            last[source] = [self.add("wait", [source], seconds=gap, after=last.get(source, []))]
            given = source, destination, self.size()
            self.add("receive", self.add("send", *given, label="background", after=last[source]))

    def one(self) -> None:
        """Add one task, or a send and its receive."""
        random = self.random
        kinds = ["compute"] * 4 + ["collective"] * 5 + ["all_to_all_v", "transfer", "message", "message", "wait"]
        kinds += ["load", "store"] * (2 if self.controllers or self.tiers else 0)
        kinds += ["collective"] * (8 if self.dense else 0)
        kind, label, after = random.choice(kinds), random.choice(LABELS), self.after()
        if kind == "compute":
            ranks = self.some() if random.random() < 0.5 else range(self.ranks)
            seconds = random.choice([0.0, SCALE / 10, SCALE / 10, SCALE * random.random()])
            self.add(kind, ranks, seconds=seconds, after=after)
        elif kind == "wait":
            seconds = random.choice([0.0, SCALE * random.random()])
            self.add(kind, self.some(), seconds=seconds, after=after)
        elif kind == "message":
            source, destination = random.sample(range(self.ranks), 2)
            send = self.add("send", source, destination, self.size(), label=label, after=after)
            if random.random() < 0.3:
                self.add("compute", [destination], seconds=SCALE * random.random(), after=after)
            self.add("receive", send, after=self.after(without=send))
        elif kind == "collective":
            rooted = "broadcast", "reduce", "gather", "scatter"
            pattern = random.choice((*["all-reduce"] * 3, "all-gather", "reduce-scatter", "all-to-all", *rooted))
            groups = self.groups(2)
            root = random.randrange(len(groups[0])) if pattern in rooted else 0
            self.add(kind, pattern, groups, self.size(), root=root, label=label, after=after)
        elif kind == "all_to_all_v":
            groups = self.groups(2)
            members = range(len(groups[0]))
            sizes = [[[self.size() / len(members) for _ in members] for _ in members] for _ in groups]
            self.add(kind, groups, sizes, label=label, after=after)
        elif kind == "transfer":
            self.add(kind, self.groups(2), self.size(), label=label, after=after)
        else:
            groups = self.groups(1)
            in_tier = self.tiers and (not self.controllers or random.random() < 0.5)
            places: Any = random.choice(self.tiers) if in_tier else None
            places = places or [random.randrange(self.controllers) for _ in groups]
            self.add(kind, places, groups, self.size() / 2, label=label, after=after)

    def after(self, without: int = -1) -> list[int]:
        if self.dense and self.random.random() < 0.3:
            return []
        known = [one for one in range(self.count) if one != without][-5:]
        return sorted(self.random.sample(known, min(len(known), self.random.choice([0, 1, 1, 1, 2, 3]))))

    def some(self) -> list[int]:
        return self.random.sample(range(self.ranks), self.random.randint(1, self.ranks))

    def groups(self, least: int) -> list[list[int]]:
        """Return groups of equal size that share no rank."""
        random = self.random
        order = list(range(self.ranks)) if random.random() < 0.6 else random.sample(range(self.ranks), self.ranks)
        size = random.choice([self.ranks, random.randint(least, self.ranks), max(least, self.ranks // 2), 2])
        if self.dense and random.random() < 0.6:
            size = min(self.ranks, random.choice([2, 2, 3]))
        count = random.choice([1, self.ranks // size, self.ranks // size])
        if random.random() < 0.3:  # a rank of each stretch, as in a mesh of devices
            return [order[start : size * count : count] for start in range(count)]
        return [order[start : start + size] for start in range(0, size * count, size)]

    def size(self) -> float:
        return self.random.choice(self.sizes)

    def drawn_size(self) -> float:
        random = self.random
        if random.random() < 0.04:
            return 0.0
        share = random.choice([1.0, 1.0, 0.1, 0.01, random.random(), 2 * random.random()])
        return self.bandwidth * SCALE * share
