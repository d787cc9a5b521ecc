"""Small networks, what runs on them, and when it ends."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import astuple, frozen

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Phase, Schedule
from fredfw.fabric import Admission, AdmissionPolicy, Decision, Fabric, FlowSet, GroupView, NodeKind, Routes
from fredfw.fabric.admission import Decompose, Start, Wait
from fredfw.simulation import Executor, FlowNetwork, Lowering, Planner, ScheduleRun, Simulator, Timeline
from fredfw.simulation.sharing import CircuitPreempt, Incidence, MaxMin, SharingPolicy, StrictLinks, WeightedMaxMin
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import GraphBuilder, TaskGraph


@frozen
class Admitting(AdmissionPolicy):
    name: ClassVar[str] = "admitting"

    make: Callable[[], Admission]

    def begin(self, fabric: Fabric) -> Admission:
        return self.make()


def joined(pairs: Any, bandwidth: float | FloatArray = 1.0, latency: float = 0.0, admission: Any = None) -> Fabric:
    """NPUs that links of one direction join."""
    sources, destinations = np.array(pairs).T
    fabric = Fabric("links", [0] * (int(max(map(max, pairs))) + 1), sources, destinations, bandwidth, latency, 0.0)
    return fabric if admission is None else fabric.with_defaults(admission=Admitting(admission))


def pipe(bandwidth: float = 100.0, latency: float = 0.5, admission: Any = None) -> Fabric:
    """One link from NPU 0 to NPU 1."""
    return joined([(0, 1)], bandwidth, latency, admission)


def star(
    npus: int,
    *,
    controllers: int = 0,
    bandwidth: float = 100.0,
    latency: float = 0.0,
    energy: float = 0.0,
    able: bool = False,
    admission: Any = None,
    **fields: Any,
) -> Fabric:
    """Ends around a switch, node ``npus``, that may copy and reduce: link i leads up from end i, link ends + i down."""
    ends = np.delete(np.arange(npus + 1 + controllers), npus)
    hub = np.full(len(ends), npus)
    kinds = np.repeat([NodeKind.NPU, NodeKind.SWITCH, NodeKind.CONTROLLER], [npus, 1, controllers])
    if able:
        fields |= {"copies": kinds == NodeKind.SWITCH, "reduces": kinds == NodeKind.SWITCH}
    links = np.concatenate([ends, hub]), np.concatenate([hub, ends])
    fabric = Fabric("star", kinds, *links, bandwidth, latency, energy, **fields)
    return fabric if admission is None else fabric.with_defaults(admission=Admitting(admission))


def switched(bandwidths: FloatArray) -> Fabric:
    """Switches with two links each: one from an NPU of its own, and one to such an NPU."""
    ends = np.arange(len(bandwidths))
    switches = len(ends) + ends // 2
    kinds = np.repeat([NodeKind.NPU, NodeKind.SWITCH], [len(ends), (len(ends) + 1) // 2])
    links = np.where(ends % 2, switches, ends), np.where(ends % 2, ends, switches)
    return Fabric("switched", kinds, *links, bandwidths, 0.0, 0.0)


def flows(
    volumes: Sequence[float],
    where: Sequence[Sequence[int]] | None = None,
    latency: float | Sequence[float] = 0.5,
    *,
    apart: bool = True,
    **fields: Any,
) -> FlowSet:
    """Flows over ``where``, or all over link 0, each an activity if they are ``apart``."""
    count = len(volumes)
    paths = [np.array(one, dtype=np.intp) for one in ([[0]] * count if where is None else where)]
    given: dict[str, Any] = {"activity": np.arange(count) * apart, "activities": count if apart else 1}
    routes = Routes.of(paths, np.broadcast_to(latency, count).tolist())
    return FlowSet(routes, np.array(volumes, dtype=float), **(given | fields))


def incidence(*where: Sequence[int], **fields: Any) -> Incidence:
    """Flows over links, of one class unless ``fields`` say otherwise."""
    links = [link for path in where for link in path]
    given = {"coefficients": None, "caps": None, "priorities": np.zeros(len(where), dtype=np.intp)}
    return Incidence(np.cumsum([0, *map(len, where)]), np.array(links, dtype=np.intp), **(given | fields))


class Log:
    def __init__(self, network: FlowNetwork) -> None:
        self.network = network
        self.ends: list[tuple[float, list[int]]] = []

    def __call__(self, activities: IntArray) -> None:
        self.ends.append((self.network.now, activities.tolist()))

    @property
    def each(self) -> dict[int, float]:
        return {activity: time for time, done in self.ends for activity in done}


def ends(network: FlowNetwork, *sets: FlowSet) -> list[tuple[float, list[int]]]:
    """Start ``sets`` and let everything happen."""
    log = Log(network)
    for one in sets:
        network.start(one, log)
    network.advance()
    assert network.idle
    return log.ends


def started(
    network: FlowNetwork, schedule: Schedule, groups: IntArray, fidelity: str = "compressed", **given: Any
) -> Log:
    """Start a schedule in ``(G, ranks)`` nodes."""
    log = Log(network)
    ScheduleRun(network, Lowering(network.fabric), schedule, groups, log, fidelity=fidelity, **given).start()
    return log


KNOWN: list[SharingPolicy] = [MaxMin(), WeightedMaxMin({"dp": 3.0, "pp": 0.5}), StrictLinks(), CircuitPreempt()]
BY_POLICY = pytest.mark.parametrize("policy", KNOWN, ids=lambda policy: policy.name)


def derived(policy: SharingPolicy) -> SharingPolicy:
    """The same rates by a policy that the engine does not know: it folds nothing, and asks at each change."""
    cls = type(policy)
    made = type(f"Derived{cls.__name__}", (cls,), {"name": f"derived-{cls.name}", "local": False})
    found: SharingPolicy = made(*astuple(policy, recurse=False))  # type: ignore[arg-type]  # they are attrs classes
    return found


class Gather(CollectiveAlgorithm):
    """Everybody sends the whole vector to rank 0 and gets it back: easy to time by hand."""

    name = "there-and-back"
    patterns = frozenset(Pattern)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        others = np.arange(1, request.ranks)
        there, back = Phase.of(others, 0, 0, reduce=True), Phase.of(0, others, 0, after=(0,))
        phases = (there, back) if request.pattern is Pattern.ALL_REDUCE else (Phase.of(0, others, 0),)
        return Schedule(request.pattern, request.ranks, float(request.size), 1, phases)


@frozen
class Fixed(CollectiveAlgorithm):
    name: ClassVar[str] = "fixed"
    patterns: ClassVar[frozenset[Pattern]] = frozenset(Pattern)

    one: Schedule

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return self.one


@frozen
class Deciding(Admission):
    decide: Callable[[FlowSet, Sequence[FlowSet]], Decision]

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        return self.decide(flows, active)


def deciding(decide: Callable[[FlowSet, Sequence[FlowSet]], Decision]) -> Callable[[], Admission]:
    return partial(Deciding, decide)


never = deciding(lambda flows, active: Wait("for something that never comes"))
one_at_a_time = deciding(lambda flows, active: Wait("busy") if active else Start())


@deciding
def no_trees(flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
    """Carry only flows of two links or fewer."""
    return Decompose("a tree") if (np.diff(flows.routes.offsets) > 2).any() else Start()


def executor(
    graph: TaskGraph,
    fabric: Fabric,
    *algorithms: CollectiveAlgorithm,
    collectives: Mapping[Pattern | None, Sequence[CollectiveAlgorithm]] | None = None,
    sharing: SharingPolicy | None = None,
    network: FlowNetwork | None = None,
    seconds: Callable[..., float] = lambda flops, moved, _kernels: flops + moved,
    **given: Any,
) -> Executor:
    """Executes a task graph whose rank ``r`` is on NPU ``r``."""
    simulator = Simulator(fabric.with_defaults(sharing=sharing or MaxMin()))
    return Executor(
        graph,
        network=network or simulator.network(),
        placement=np.arange(graph.ranks),
        planner=Planner(simulator, collectives or {None: algorithms or (Gather(),)}),
        compute_seconds=seconds,
        **given,
    )


def by_rank(timeline: Timeline) -> dict[tuple[str, int], float]:
    spans = zip(timeline.end.tolist(), timeline.task.tolist(), timeline.ranks, strict=True)
    rows = sorted((end, timeline.graph.names[task], rank) for end, task, ranks in spans for rank in ranks.tolist())
    return {(name, rank): end for end, name, rank in rows}


def collective(
    groups: Sequence[Sequence[int]], size: float = 100.0, pattern: Pattern = Pattern.ALL_REDUCE, name: str = "r"
) -> TaskGraph:
    builder = GraphBuilder(1 + max(map(max, groups)))
    builder.collective(name, pattern, groups, size, label="dp")
    return builder.build()
