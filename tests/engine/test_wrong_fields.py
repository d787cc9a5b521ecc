"""What fredfw gives the engine, with one value wrong: each is refused with its field and row, and changes nothing."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import define, field

from fredfw import CollectiveRequest, Framework, Pattern
from fredfw.collectives import Phase, Schedule
from fredfw.embed import NetworkBackend
from fredfw.errors import SimulationError
from fredfw.fabric import Call, Costs, Fabric, FlowSet, Routes, Transport
from fredfw.simulation import FlowNetwork, Lowering, ScheduleRun, Simulator, engine
from fredfw.simulation.run import Executor
from fredfw.simulation.sharing import CircuitPreempt
from fredfw.simulation.variation import Pace
from fredfw.workloads import GraphBuilder

FRAMEWORK = Framework()
# How long the arrays are, as the header says; those of offsets have one more.
ROWS = {
    "Graph": {
        "participant_offset": "tables",
        "participant": "participants",
        "slot": "slots",
        **dict.fromkeys(("groups", "group_size"), "tables"),
        **dict.fromkeys(("kind", "members", "label", "priority", "times", "seconds"), "tasks"),
        **dict.fromkeys(("edge_offset", "share_offset", "factor_offset"), "tasks"),
        **dict.fromkeys(("edge_task", "edge_map", "edge_count"), "edges"),
        "map_offset": "maps",
        "map": "map_slots",
        "share_group_offset": "shares",
        "share_group": "share_groups",
        "share": "task_shares",
        "factors": "factor_count",
    },
    "PhaseView": {
        **{name: f"{name}_count" for name in ("after", "behind", "room")},
        **dict.fromkeys(("source", "destination"), "unicasts"),
        **dict.fromkeys(("stream_source_offset", "stream_destination_offset"), "streams"),
        "stream_source": "stream_sources",
        "stream_destination": "stream_destinations",
        "volumes": "volume_count",
        **dict.fromkeys(("base", "offset", "stride", "modulus", "chunks", "row_flow"), "rows"),
        "chunk_bytes": "chunk_count",
    },
    "RoutesView": {"offset": "count", "link": "pairs", "latency": "count", "coefficient": "pairs"},
    "FlowsView": {"caps": "routes.count"},
    "Cargo": {"volumes": "routes.count", "caps": "routes.count", "activity": "routes.count"},
    "Setting": {"bandwidth": "links", "source": "links", "destination": "links"},
}
REALS = "seconds factors volumes chunk_bytes latency coefficient caps bandwidth".split()
WRONG: dict[bool, tuple[float, ...]] = {False: (2**62, -(2**63)), True: (math.nan, -1.0)}


@define(eq=False)
class Spy:
    """Stands for a function of the engine: it is called with each value wrong, and then as it should be.

    Args:
        call: The function.
        place: Which of its arguments is the structure, or the array of structures.
        refusal: Does a call, and returns what is said of it if it is refused.
    """

    call: Callable[..., Any]
    place: int
    met: set[str] = field(factory=set)

    def __call__(self, *arguments: Any) -> Any:
        given = arguments[self.place]
        for root in given if isinstance(given, ctypes.Array) else [given._obj]:
            for struct in (root, getattr(root, "routes", None)):
                if struct is not None:
                    self._damage(struct, arguments)
        return self.call(*arguments)

    def _damage(self, struct: ctypes.Structure, arguments: tuple[Any, ...]) -> None:
        kind = type(struct).__name__
        for name, counted in ROWS[kind].items():
            address, rows = getattr(struct, name), struct
            for part in counted.split("."):
                rows = getattr(rows, part)
            values = (ctypes.c_double if name in REALS else ctypes.c_int64) * (rows + name.endswith("offset"))
            if name == "offset" and kind == "PhaseView":
                values = ctypes.c_int64 * rows
            unread = kind == "Setting" and name != "bandwidth" and struct.sharing != engine.CIRCUIT_PREEMPT
            if not address or not rows or unread:
                continue
            array = values.from_address(address)
            self.met.add(f"{kind}.{name}")
            for row in sorted({0, len(array) // 2, len(array) - 1}):
                right = array[row]
                for wrong in WRONG[name in REALS]:
                    array[row] = wrong
                    try:
                        said = self._said(arguments)
                    finally:
                        array[row] = right
                    assert said is not None, f"{kind}.{name}[{row}] is {wrong}, and is not refused"
                    # An offset that is too large is found where the next one falls.
                    named = f"{name}[" if name.endswith("offset") else f"{name}[{row}]"
                    assert named in said, f"{kind}.{name}[{row}] is {wrong}: {said}"

    def _said(self, arguments: tuple[Any, ...]) -> str | None:
        try:
            if self.call(*arguments) is not None:
                return None
        except SimulationError as error:
            return str(error)
        return engine.library().error().decode()


def graph() -> tuple[object, ...]:
    """Run a task graph of all kinds, with factors; return what happens when."""
    simulator = Simulator(FRAMEWORK.topology("mesh2d", rows=2, columns=2).build())
    network, builder = simulator.network(), GraphBuilder(4)
    first = builder.compute("a", [0, 1], seconds=1.0)
    both = builder.collective("b", Pattern.ALL_REDUCE, [[0, 1], [2, 3]], 1e6, label="DP", after=[first])
    sent = builder.send("c", 1, 2, 1e6, label="PP", after=[both])
    got = builder.receive("d", sent)
    moved = builder.transfer("e", [[2, 3]], 1e6, label="PP", after=[got, both])
    builder.wait("f", [0, 1, 2, 3], seconds=0.5, after=[moved, first])
    timeline = Executor(
        builder.build(),
        fabric=simulator.fabric,
        network=network,
        placement=np.arange(4),
        planner=simulator.planner({None: (FRAMEWORK.plugins.collectives.get("direct")(),)}),
        lowering=simulator.lowering,
        compute_seconds=lambda flops, moved, _kernels: flops + moved,
        pace=Pace(np.array([1.0, 1.5, 1.0, 1.0]), None, np.random.default_rng),
    ).run()
    return timeline.start.tobytes(), timeline.end.tobytes(), *loads(network)


def loads(network: FlowNetwork) -> tuple[object, ...]:
    return network.now, sorted((label, load.tobytes()) for label, load in network.link_bytes().items())


def schedule() -> tuple[object, ...]:
    """Run a schedule whose phases have rows of uneven chunks, several to a flow, and all that a phase may wait for."""
    network = FlowNetwork(ring(), CircuitPreempt())
    rows = Phase.of([0, 0, 1], [1, 1, 2], [0, 2, 1], repeat=2, stride=1, modulus=4)
    late = Phase.of([2], [3], [1], after=(0,), behind=(0,), room=(0,))
    sizes = np.array([100.0, 50.0, 25.0, 0.0])
    made = Schedule(Pattern.ALL_GATHER, 4, sizes, 4, (rows, late))
    run = ScheduleRun(network, Lowering(network.fabric), made, np.arange(4)[None, :], _nothing, fidelity="stepwise")
    run.start()
    network.advance()
    return loads(network)


class Capped(Transport):
    """No flow is faster than 0.5 GB/s."""

    name: ClassVar[str] = "capped"

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        del call, fabric
        return Costs(cap=5e8)


def streams() -> tuple[object, ...]:
    """Run a collective in the network, where a transport limits rates."""
    options: dict[str, Any] = {"arity": [2, 2], "bandwidths": ["1 GB/s", "2 GB/s"], "middle_switches": 2}
    fabric = FRAMEWORK.topology("fred", **options, variant="D").build().with_defaults(transport=Capped())
    network = NetworkBackend(fabric, plugins=FRAMEWORK.plugins, fidelity="stepwise")
    network.collective(CollectiveRequest(Pattern.ALL_REDUCE, 4, 1e6), algorithm="in-network")
    network.run_until_idle()
    return network.now, sorted((label, load.tobytes()) for label, load in network.link_bytes().items())


def flows() -> tuple[object, ...]:
    """Run flows that are limited, and that leave parts of themselves on links."""
    network = FlowNetwork(ring())
    ways, parts = [np.array([0, 1]), np.array([2])], [np.array([1.0, 0.5]), np.array([1.0])]
    routes = Routes.of(ways, [0.25, 0.0], parts)
    network.start(FlowSet(routes, np.full(2, 100.0), np.arange(2), 2, caps=np.full(2, 80.0)), _nothing)
    network.advance()
    return loads(network)


def ring() -> Fabric:
    nodes = np.arange(4)
    return Fabric("ring", np.zeros(4), nodes, (nodes + 1) % 4, 100.0, 0.25, 0.0)


def _nothing(_: object) -> None:
    pass


def test_a_wrong_value_is_refused_with_its_field_and_row_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = (graph, schedule, streams, flows)
    expected = [program() for program in programs]
    code = engine.library()
    places = {"tasks_start": 1, "schedule_new": 2, "lowered_new": 5, "admit": 1, "network_new": 0}
    spies = [Spy(getattr(code, name), place) for name, place in places.items()]
    for name, spy in zip(places, spies, strict=True):
        monkeypatch.setattr(code, name, spy)
    assert [program() for program in programs] == expected
    assert set().union(*(spy.met for spy in spies)) == {f"{kind}.{name}" for kind, rows in ROWS.items() for name in rows}
