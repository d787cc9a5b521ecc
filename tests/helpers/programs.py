"""Random programs that are plain data: a fabric, rules, a task graph and what happens meanwhile.

``program(7)`` is the same in every release. It names only what the release before the engine in C++ had, too, so that
both can be asked what it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from random import Random
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import GraphBuilder, TaskGraph
from fredfw.experiment.results import GraphResult
from fredfw.fabric import Decision, Fabric, FlowSet, IdealTransport, MemoryTier, Routes, with_memories
from fredfw.fabric.admission import Admission, AdmissionPolicy, Decompose, Split, Start, Wait
from fredfw.framework import Framework
from fredfw.simulation import LinkEvent, MaxMin
from fredfw.workloads.composition import JobGraph, composed

FIDELITIES = "compressed", "stepwise", "per-rank", "per-rank-rendezvous"
LABELS = "dp", "mp", "pp", "background"
# What a program takes is a small multiple of this, whatever its fabric.
SCALE = 1e-4
FRAMEWORK = Framework()


@frozen
class Named:
    """A plugin with its fields, such as ``torus`` with ``dimensions``."""

    name: str
    fields: Mapping[str, Any] = {}

    @property
    def table(self) -> dict[str, Any]:
        """What an experiment says of it."""
        return {"name": self.name, **self.fields}


@frozen
class Task:
    """A task: what a method of ``GraphBuilder`` takes."""

    kind: str  # name of the method
    ranks: tuple[int, ...] = ()  # of a computation or a wait; source and destination of a send
    groups: tuple[tuple[int, ...], ...] = ()  # ranks of each group of the other kinds
    size: float = 0.0  # bytes, as the method means them
    seconds: float = 0.0  # of a computation or a wait
    label: str = "mp"  # what its time is charged to
    after: tuple[int, ...] = ()  # earlier tasks of the job
    pattern: str = ""  # of a collective
    root: int = 0  # of a rooted collective
    sizes: tuple[Any, ...] = ()  # bytes from each member to each, for each group of an all-to-all-v
    ends: tuple[int, ...] | str = ()  # controllers of a load or store, or the name of a memory tier
    send: int = -1  # task that a receive belongs to
    block: int = -1  # number of the repeated block that it is in, or -1


@frozen
class Job:
    ranks: int  # how many
    tasks: tuple[Task, ...]  # what they do, in order
    repeats: tuple[int, ...] = ()  # how often each block runs
    start: float = 0.0  # seconds before which nothing begins
    iterations: int = 1  # how often all of it is done

    def graph(self) -> TaskGraph:
        builder = GraphBuilder(self.ranks)
        at = 0
        while at < len(self.tasks):
            stop, block = at + 1, self.tasks[at].block
            while block >= 0 and stop < len(self.tasks) and self.tasks[stop].block == block:
                stop += 1
            with builder.repeated(self.repeats[block]) if block >= 0 else nullcontext():
                for number in range(at, stop):
                    _add(builder, f"task {number}", self.tasks[number])
            at = stop
        return builder.build()


@frozen
class Program:
    seed: int  # what it was drawn with
    topology: Named  # what the links are
    uneven: int  # seed of factors of bandwidths and latencies, one of each for each link, or -1 for none; see fabric
    memories: tuple[Mapping[str, Any], ...]  # fields of memory tiers
    sharing: Named | None  # the sharing policy, or None for the fabric's own; asked-max-min is the policy Asked
    admission: str  # name of one of ADMISSIONS, or empty for the fabric's own
    transport: Named | None  # the transport, or None for the fabric's own
    collectives: Mapping[str, tuple[Named, ...]]  # algorithms by pattern, the first that can serve a request is taken
    placement: tuple[int, ...]  # NPU of each rank of all jobs
    jobs: tuple[Job, ...]  # what is done
    priorities: tuple[str, ...]  # labels, the highest class first
    events: tuple[Mapping[str, Any], ...]  # fields of link events
    fidelity: str  # one of FIDELITIES

    def fabric(self) -> Fabric:
        is_asked = self.sharing is not None and self.sharing.name == Asked.name
        tiers = [MemoryTier(**fields) for fields in self.memories]
        return with_memories(links(self.topology, self.uneven), tiers).with_defaults(
            sharing=Asked() if is_asked else _configured(FRAMEWORK.plugins.sharing_policies, self.sharing),
            transport=_configured(FRAMEWORK.plugins.transports, self.transport),
            admission=Controlled(self.admission) if self.admission else None,
        )

    def graph(self) -> TaskGraph:
        if len(self.jobs) == 1 and not self.jobs[0].start and self.jobs[0].iterations == 1:
            return self.jobs[0].graph()
        jobs = enumerate(self.jobs)
        return composed([JobGraph(f"job{n}", n, job.graph(), job.start, job.iterations) for n, job in jobs])

    def perturbed(self, seed: int, by: float) -> Program:
        """Return the same with every volume changed by a random share of at most ``by``."""
        random = Random(seed)

        def changed(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(changed, value))
            return value * (1 + by * random.uniform(-1, 1))

        def tasks(job: Job) -> tuple[Task, ...]:
            return tuple(evolve(one, size=changed(one.size), sizes=changed(one.sizes)) for one in job.tasks)

        return evolve(self, jobs=tuple(evolve(job, tasks=tasks(job)) for job in self.jobs))

    def run(self, fabric: Fabric | None = None) -> GraphResult:
        return FRAMEWORK.simulate_graph(
            self.graph(),
            self.fabric() if fabric is None else fabric,
            placement=self.placement,
            collectives={name: [one.table for one in listed] for name, listed in self.collectives.items()},
            priorities=self.priorities,
            fidelity=self.fidelity,
            events=[LinkEvent(**fields) for fields in self.events],
        )


def links(topology: Named, uneven: int = -1) -> Fabric:
    """Return a fabric with its own policies; ``uneven`` is a seed, or -1."""
    # Presets of machines had no transport when programs were recorded.
    fabric = FRAMEWORK.topology(topology.name, **topology.fields).build().with_defaults(transport=IdealTransport())
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


ADMISSIONS: Mapping[str, Callable[[], Admission]] = {
    one.__name__: one for one in (OneAtATime, FewAtATime, Halves, Circuits, Capped, NoTrees)
}


@frozen
class Controlled(AdmissionPolicy):
    name: ClassVar[str] = "controlled"

    rule: str

    def begin(self, fabric: Fabric) -> Admission:
        return ADMISSIONS[self.rule]()


# --- drawing


def program(seed: int) -> Program:
    random = Random(seed)
    topology = _topology(random)
    uneven = random.randrange(10**6) if random.random() < 0.4 and topology.name != "optical-ring" else -1
    fabric = links(topology, uneven)
    npus = len(fabric.npus)
    memories = _memories(random, npus) if random.random() < 0.2 else ()
    if npus < 4 or random.random() < 0.8:
        parts = [random.randint(2, npus)] if random.random() < 0.3 else [npus]
    else:
        first = random.randint(2, npus - 2)
        parts = [first, npus - first]
    dense = fabric.offers.reduces and random.random() < 0.7
    jobs = tuple(
        _job(random, ranks, fabric, [one["name"] for one in memories], number, dense=dense)
        for number, ranks in enumerate(parts)
    )
    placement = list(range(sum(parts))) if random.random() < 0.5 else random.sample(range(npus), sum(parts))
    is_composed = len(jobs) > 1 or jobs[0].start or jobs[0].iterations > 1
    labels = [
        f"job{number}/{label}" if is_composed else label
        for number, job in enumerate(jobs)
        for label in sorted({task.label for task in job.tasks if task.kind not in _UNLABELLED})
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
        placement=tuple(placement),
        jobs=jobs,
        priorities=tuple(priorities),
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


def _topology(random: Random) -> Named:
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
    return Named(name, fields)


TIER: Mapping[str, Any] = {
    "scope": ["npu", "node", "fabric"],
    "bandwidth": ["10 GB/s", "40 GB/s"],
    "latency": ["0 s", "1 us"],
    "discipline": ["shared", "one-at-a-time"],
}


def _memories(random: Random, npus: int) -> tuple[Mapping[str, Any], ...]:
    def tier(name: str) -> Mapping[str, Any]:
        fields = {"name": name, **drawn(random, TIER)}
        if fields["scope"] == "node":
            fields["npus"] = random.choice([one for one in (1, 2, 3, 4) if npus % one == 0])
        if fields["scope"] != "npu":
            fields["in_network"] = random.random() < 0.4
        if fields["scope"] == "fabric":
            fields["memories"] = random.choice([1, 2])
        return fields

    return tuple(tier(f"tier{number}") for number in range(random.choice([1, 1, 2])))


def _sharing(random: Random, labels: Sequence[str]) -> Named | None:
    kind = random.choice(
        ["", "", "", "max-min", "asked-max-min", "weighted-max-min", "strict-links", "circuit-preempt"]
    )
    if kind == "weighted-max-min":
        return Named(kind, {"weights": {label: random.choice([0.5, 2.0, 3.0]) for label in labels}})
    return Named(kind) if kind else None


COSTS = {"launch": [0.0, 1e-6, 7e-6], "step": [0.0, 3e-7], "message": [0.0, 2e-7], "efficiency": [1.0, 0.9]}


def _transport(random: Random) -> Named:
    fields = drawn(random, COSTS)
    fields |= {name: rate for name, rate in (("cap", 1e10), ("reduction", 5e10)) if random.random() < 0.3}
    return Named("alpha-beta", fields)


def _admission(random: Random, topology: Named, fabric: Fabric) -> str:
    if fabric.defaults.admission.name != "open":
        return ""
    if topology.name == "switch" and fabric.offers.reduces:
        return random.choice(["", NoTrees.__name__, NoTrees.__name__])
    return random.choice([*[""] * 12, *sorted(ADMISSIONS.keys() - {NoTrees.__name__})])


def _collectives(random: Random, *, trees: bool) -> dict[str, tuple[Named, ...]]:
    chunks = {"chunks": random.choice([1, 2, 4, 16])}
    reducing = (
        *(Named("ring", chunks), Named("ring", {**chunks, "rotated": True}), Named("recursive-halving-doubling")),
        *(Named("hierarchical", {"chunks": chunks["chunks"]}), Named("hierarchical", {"chunks": 3, "orders": "all"})),
        *(Named("direct"), Named("torus-ring"), Named("swing"), Named("themis", {"chunks": 8}), Named("h-ring")),
        *(Named("in-network"), Named("in-network"), Named("forest")),
    )
    last = Named("ring", {"chunks": 1})
    others = {
        "all-to-all": (Named("direct"), Named("ring", chunks), Named("bruck"), Named("in-network")),
        "broadcast": (Named("tree", chunks), Named("direct"), Named("ring", chunks), Named("in-network")),
        "reduce": (Named("tree", {"chunks": 1}), Named("direct"), Named("ring", chunks), Named("in-network")),
        "gather": (Named("direct"), Named("ring", chunks)),
        "scatter": (Named("direct"), Named("ring", chunks)),
    }
    own = {
        "all-reduce": (*reducing, Named("tree", chunks), Named("wrht")),
        "reduce-scatter": reducing,
        "all-gather": reducing,
    }
    first = (Named("in-network"),) if trees else ()
    chosen = {pattern: (*first, *random.sample(listed, 2), last) for pattern, listed in {**own, **others}.items()}
    return {**chosen, "default": (Named("direct"),)}


def _events(random: Random, fabric: Fabric) -> Iterator[dict[str, Any]]:
    def some() -> str:
        return fabric.link_name(random.randrange(len(fabric.bandwidths)))

    if random.random() < 0.2:
        yield {"links": some(), "mtbf": 10 * SCALE, "mttr": SCALE, "seed": random.randrange(100)}
        return  # where another link stays away for ever, this one would come and go for long
    for _ in range(random.randint(1, 3)):
        name, at = some(), SCALE * random.choice([0.1, 0.5, random.random() * 5])
        if random.random() < 0.4:
            yield {"links": name, "action": "degrade", "at": at, "factor": random.choice([0.1, 0.5])}
        else:
            yield {"links": name, "action": "fail", "at": at}
        if random.random() < 0.85:
            yield {"links": name, "action": "restore", "at": at + SCALE * random.uniform(0.05, 10)}


# --- tasks


def _job(random: Random, ranks: int, fabric: Fabric, tiers: Sequence[str], number: int, *, dense: bool) -> Job:
    draw = _Tasks(random, ranks, float(np.median(fabric.bandwidths)), len(fabric.controllers), tiers, dense=dense)
    start = random.choice([0.0, 0.0, SCALE * random.uniform(0.1, 3)]) if number else 0.0
    iterations = random.choice([1, 1, 1, 2])
    draw.draw(random.choice([3, 6, 10, 18]) // (iterations if number == 0 else 2 * iterations) + 1)
    return Job(ranks, tuple(draw.tasks), tuple(draw.repeats), start, iterations)


class _Tasks:
    """Draws the tasks of a job, with sizes for a bandwidth in bytes per second.

    Where it is ``dense``, many small groups do the same at once, whose streams a switch may not route together.
    """

    def __init__(
        self, random: Random, ranks: int, bandwidth: float, controllers: int, tiers: Sequence[str], *, dense: bool
    ) -> None:
        self.tasks: list[Task] = []
        self.repeats: list[int] = []
        self.random, self.ranks, self.bandwidth = random, ranks, bandwidth
        self.controllers, self.tiers, self.dense = controllers, tiers, dense
        # Where tasks are alike, they tie.
        self.sizes = [self.drawn_size() for _ in range(random.choice([1, 3, 20]))]

    def draw(self, count: int) -> None:
        """Add some ``count`` tasks, in blocks in part, and messages in the background."""
        random = self.random
        while len(self.tasks) < count:
            block, first = -1, 0
            if random.random() < 0.12:
                block, first = len(self.repeats), len(self.tasks)
                self.repeats.append(random.choice([2, 3, 5]))
            for _ in range(1 if block < 0 else random.randint(1, 4)):
                self.one(block, first)
        if random.random() < 0.15:
            self.background(random.randint(1, 5))

    def background(self, messages: int) -> None:
        """Add messages between random ranks at random times, whatever the others do."""
        last: dict[int, tuple[int, ...]] = {}
        for _ in range(messages):
            ends = tuple(self.random.sample(range(self.ranks), 2))
            gap, before = SCALE * self.random.expovariate(2), last.get(ends[0], ())
            last[ends[0]] = (len(self.tasks),)
            self.tasks.append(Task("wait", ends[:1], seconds=gap, after=before, label="waiting"))
            self.tasks.append(Task("send", ends, size=self.size(), label="background", after=last[ends[0]]))
            self.tasks.append(Task("receive", send=len(self.tasks) - 1))

    def one(self, block: int, first: int) -> None:
        """Add one task, or a send and its receive, in ``block``, whose first task is ``first``."""
        random = self.random
        kinds = ["compute"] * 4 + ["collective"] * 5 + ["all_to_all_v", "transfer", "message", "message", "wait"]
        kinds += ["load", "store"] * (2 if self.controllers or self.tiers else 0)
        kinds += ["collective"] * (8 if self.dense else 0)
        kind = random.choice(kinds)
        label = random.choice(LABELS[:3])
        shared: dict[str, Any] = {"after": self.after(), "block": block}
        if kind == "compute":
            chosen = self.some() if random.random() < 0.5 else tuple(range(self.ranks))
            seconds = random.choice([0.0, SCALE / 10, SCALE / 10, SCALE * random.random()])
            self.tasks.append(Task(kind, chosen, seconds=seconds, label="compute", **shared))
        elif kind == "wait":
            seconds = random.choice([0.0, SCALE * random.random()])
            self.tasks.append(Task(kind, self.some(), seconds=seconds, label="waiting", **shared))
        elif kind == "message":
            ends = tuple(random.sample(range(self.ranks), 2))
            self.tasks.append(Task("send", ends, size=self.size(), label=label, **shared))
            send = len(self.tasks) - 1
            if random.random() < 0.3:
                seconds = SCALE * random.random()
                self.tasks.append(Task("compute", ends[1:], seconds=seconds, label="compute", **shared))
            self.tasks.append(Task("receive", send=send, after=self.after(without=send), block=block))
        elif kind == "collective":
            rooted = "broadcast", "reduce", "gather", "scatter"
            pattern = random.choice((*["all-reduce"] * 3, "all-gather", "reduce-scatter", "all-to-all", *rooted))
            groups = self.groups(2)
            root = random.randrange(len(groups[0])) if pattern in rooted else 0
            fields: dict[str, Any] = {"pattern": pattern, "root": root, "size": self.size(), "label": label}
            self.tasks.append(Task(kind, groups=groups, **fields, **shared))
        elif kind == "all_to_all_v":
            groups = self.groups(2)
            members = range(len(groups[0]))
            sizes = tuple(tuple(tuple(self.size() / len(members) for _ in members) for _ in members) for _ in groups)
            self.tasks.append(Task(kind, groups=groups, sizes=sizes, label=label, **shared))
        elif kind == "transfer":
            self.tasks.append(Task(kind, groups=self.groups(2), size=self.size(), label=label, **shared))
        else:
            groups = self.groups(1)
            in_tier = self.tiers and (not self.controllers or random.random() < 0.5)
            places: Any = random.choice(self.tiers) if in_tier else None
            places = places or tuple(random.randrange(self.controllers) for _ in groups)
            self.tasks.append(Task(kind, groups=groups, ends=places, size=self.size() / 2, label=label, **shared))

    def after(self, without: int = -1) -> tuple[int, ...]:
        if self.dense and self.random.random() < 0.3:
            return ()
        known = [one for one in range(len(self.tasks)) if one != without][-5:]
        return tuple(sorted(self.random.sample(known, min(len(known), self.random.choice([0, 1, 1, 1, 2, 3])))))

    def some(self) -> tuple[int, ...]:
        return tuple(self.random.sample(range(self.ranks), self.random.randint(1, self.ranks)))

    def groups(self, least: int) -> tuple[tuple[int, ...], ...]:
        """Return groups of equal size that share no rank."""
        random = self.random
        order = list(range(self.ranks)) if random.random() < 0.6 else random.sample(range(self.ranks), self.ranks)
        size = random.choice([self.ranks, random.randint(least, self.ranks), max(least, self.ranks // 2), 2])
        if self.dense and random.random() < 0.6:
            size = min(self.ranks, random.choice([2, 2, 3]))
        count = random.choice([1, self.ranks // size, self.ranks // size])
        if random.random() < 0.3:  # a rank of each stretch, as in a mesh of devices
            return tuple(tuple(order[start : size * count : count]) for start in range(count))
        return tuple(tuple(order[start : start + size]) for start in range(0, size * count, size))

    def size(self) -> float:
        return self.random.choice(self.sizes)

    def drawn_size(self) -> float:
        random = self.random
        if random.random() < 0.04:
            return 0.0
        share = random.choice([1.0, 1.0, 0.1, 0.01, random.random(), 2 * random.random()])
        return self.bandwidth * SCALE * share


# Tasks whose time is charged to labels of their own, or of others.
_UNLABELLED = "compute", "wait", "receive"


def _add(builder: GraphBuilder, name: str, task: Task) -> None:
    given: dict[str, Any] = {"after": task.after, "label": task.label}
    match task.kind:
        case "compute" | "wait":
            getattr(builder, task.kind)(name, task.ranks, seconds=task.seconds, **given)
        case "collective":
            builder.collective(name, task.pattern, task.groups, task.size, root=task.root, **given)
        case "all_to_all_v":
            builder.all_to_all_v(name, task.groups, task.sizes, **given)
        case "transfer":
            builder.transfer(name, task.groups, task.size, **given)
        case "send":
            builder.send(name, task.ranks[0], task.ranks[1], task.size, **given)
        case "receive":
            builder.receive(name, task.send, after=task.after)
        case kind:
            getattr(builder, kind)(name, task.ends, task.groups, task.size, **given)


def _configured(registry: Any, named: Named | None) -> Any:
    return named and registry.get(named.name)(**named.fields)
