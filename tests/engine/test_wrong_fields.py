"""What fredfw gives the engine, with one value wrong: each is refused with its field and row, and changes nothing."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import define, field
from programs import program
from small import executor, joined, started

from fredfw import Framework, Pattern
from fredfw.collectives import Phase, Schedule
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.errors import SimulationError
from fredfw.simulation import FlowNetwork, engine
from fredfw.simulation.sharing import CircuitPreempt
from fredfw.simulation.variation import Pace
from fredfw.workloads import GraphBuilder

FRAMEWORK = Framework()
# How long the arrays are, as the header says; those of offsets have one more.
ROWS = {
    "graph": {
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
    "phase": {
        **{name: f"{name}_count" for name in ("after", "behind", "room")},
        **dict.fromkeys(("source", "destination"), "unicasts"),
        **dict.fromkeys(("stream_source_offset", "stream_destination_offset"), "streams"),
        "stream_source": "stream_sources",
        "stream_destination": "stream_destinations",
        "volumes": "volume_count",
        **dict.fromkeys(("base", "offset", "stride", "modulus", "chunks", "row_flow"), "rows"),
        "chunk_bytes": "chunk_count",
    },
    "routes": {"offset": "count", "link": "pairs", "latency": "count", "coefficient": "pairs"},
    "flows": {"caps": "routes.count"},
    "cargo": {"volumes": "routes.count", "caps": "routes.count", "activity": "routes.count"},
    "setting": {"bandwidth": "links", "source": "links", "destination": "links"},
}
REALS = ["seconds", "factors", "volumes", "chunk_bytes", "latency", "coefficient", "caps", "bandwidth"]
WRONG: dict[bool, tuple[float, ...]] = {False: (2**62, -(2**63)), True: (math.nan, -1.0)}


# Values of the task graph below that are possible, and do not fit the others.
UNFIT = [
    ("participant", 1, 0, r"participant\[1\]: ranks do not rise"),
    ("members", 4, 5, r"share\[2\] is for another number of ranks"),
    ("partner", 2, 2**62, r"partner\[2\] is 4611686018427387904, accepted are 0 to 5"),
    ("partner", 2, 1, r"partner\[2\] is 1, which is not the other end"),
    ("whole", 2, 0, r"whole\[2\] is 0, which a task of this kind is not"),
    ("share_group", 0, 1, r"share_group\[1\] is 1, which has another share"),
    ("share_group", 2, 1, r"share_group\[2\] is 1, accepted are 0 to 0"),
    ("share_group_offset", 1, 1, r"share_group_offset\[1\]: not one for each group"),
    ("share", 0, 1, r"share_offset\[1\]: nothing for group 1"),
    ("share_offset", 1, 1, r"share_offset\[1\]: a task that has no shares"),
    ("factor_offset", 1, 1, r"factor_offset\[1\]: not a factor for each participant"),
    ("edge_map", 0, 2, r"edge_map\[0\] is 2, which is for other participants"),
    ("edge_count", 0, 1, r"edge_count\[0\] is 1, accepted are 2 to 2"),
]


def column(struct: ctypes.Structure, name: str) -> Any:
    """Return an array of a structure as it is in memory, or ``None``."""
    kind, address = type(struct).__name__, getattr(struct, name)
    rows: Any = struct
    for part in ROWS[kind].get(name, "tasks").split("."):  # the others are of tasks, and any value may be right
        rows = getattr(rows, part)
    has_end = name.endswith("offset") and (kind, name) != ("phase", "offset")
    number: Any = ctypes.c_double if name in REALS else ctypes.c_int64
    return (number * (rows + has_end)).from_address(address) if address and rows else None


def refusal(call: Callable[..., Any], arguments: tuple[Any, ...]) -> str | None:
    """Return what is said of a call; ``None`` if it is not refused."""
    try:
        return None if call(*arguments) is not None else engine.library().error().decode()
    except SimulationError as error:
        return str(error)


@define(eq=False)
class Spy:
    """Stands for a function of the engine: it is called with each value wrong, and then as it should be.

    Args:
        call: The function.
        place: Which of its arguments is the structure, or the array of structures.
    """

    call: Callable[..., Any]
    place: int
    met: set[str] = field(factory=set)

    def __call__(self, *arguments: Any) -> Any:
        given = arguments[self.place]
        for root in given if isinstance(given, ctypes.Array) else [given._obj]:
            for struct in [root, root.routes] if hasattr(root, "routes") else [root]:
                for name in ROWS[type(struct).__name__]:
                    self._damage(struct, name, arguments)
        return self.call(*arguments)

    def _damage(self, struct: ctypes.Structure, name: str, arguments: tuple[Any, ...]) -> None:
        kind, array = type(struct).__name__, column(struct, name)
        unread = kind == "setting" and name != "bandwidth" and struct.sharing != engine.CIRCUIT_PREEMPT
        if array is None or unread:
            return
        self.met.add(f"{kind}.{name}")
        for row in sorted({0, len(array) // 2, len(array) - 1}):
            # An offset that is too large is found where the next one falls.
            named = f"{name}[" if name.endswith("offset") else f"{name}[{row}]"
            for wrong in WRONG[name in REALS]:
                right, array[row] = array[row], wrong
                said = refusal(self.call, arguments)
                array[row] = right
                assert said is not None, f"{kind}.{name}[{row}] is {wrong}, and is not refused"
                assert named in said, f"{kind}.{name}[{row}] is {wrong}: {said}"


def graph() -> tuple[object, ...]:
    """Run a task graph of all kinds, with factors; return what happens when."""
    builder = GraphBuilder(4)
    first = builder.compute("a", [0, 1], seconds=1.0)
    both = builder.collective("b", Pattern.ALL_REDUCE, [[0, 1], [2, 3]], 1e6, label="DP", after=[first])
    sent = builder.send("c", 1, 2, 1e6, label="PP", after=[both])
    got = builder.receive("d", sent)
    moved = builder.transfer("e", [[2, 3]], 1e6, label="PP", after=[got, both])
    builder.wait("f", [0, 1, 2, 3], seconds=0.5, after=[moved, first])
    network = FlowNetwork(FRAMEWORK.topology("mesh2d", rows=2, columns=2).build())
    pace = Pace(np.array([1.0, 1.5, 1.0, 1.0]), None, np.random.default_rng)
    timeline = executor(builder.build(), network.fabric, DirectAlgorithm(), network=network, pace=pace).run()
    return timeline.start.tobytes(), timeline.end.tobytes(), *loads(network)


RING = joined([(node, (node + 1) % 4) for node in range(4)], 100.0, 0.25)


def loads(network: FlowNetwork) -> tuple[object, ...]:
    return network.now, sorted((label, load.tobytes()) for label, load in network.link_bytes().items())


def schedule() -> tuple[object, ...]:
    """Run a schedule whose phases have rows of uneven chunks, several to a flow, and all that a phase may wait for."""
    network = FlowNetwork(RING, CircuitPreempt())
    rows = Phase.of([0, 0, 1], [1, 1, 2], [0, 2, 1], repeat=2, stride=1, modulus=4)
    late = Phase.of([2], [3], [1], after=(0,), behind=(0,), room=(0,))
    sizes = np.array([100.0, 50.0, 25.0, 0.0])
    made = Schedule(Pattern.ALL_GATHER, 4, sizes, 4, (rows, late))
    started(network, made, np.arange(4)[None, :], "stepwise")
    network.advance()
    return loads(network)


def drawn() -> tuple[object, ...]:
    """Run a program with messages, limits, streams, and flows that leave parts of themselves on links."""
    result = program(3).run()
    ends = result.timeline.end.tobytes()
    return ends, sorted((label, load.tobytes()) for label, load in result.link_bytes_by_label.items())


@pytest.mark.filterwarnings("ignore:fidelity 'stepwise:DeprecationWarning")
def test_a_wrong_value_is_refused_with_its_field_and_row_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = (graph, schedule, drawn)
    expected = [run() for run in runs]
    code = engine.library()
    places = {"tasks_start": 1, "schedule_new": 2, "lowered_new": 5, "admit": 1, "network_new": 0}
    spies = [Spy(getattr(code, name), place) for name, place in places.items()]
    for name, spy in zip(places, spies, strict=True):
        monkeypatch.setattr(code, name, spy)
    assert [run() for run in runs] == expected
    assert set().union(*(spy.met for spy in spies)) == {
        f"{kind}.{name}" for kind, rows in ROWS.items() for name in rows
    }


def test_values_that_do_not_fit_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, code = graph(), engine.library()
    start, said = code.tasks_start, []

    def unfit(address: int, given: Any) -> Any:
        for name, row, wrong, _ in UNFIT:
            array = column(given._obj, name)
            right, array[row] = array[row], wrong
            said.append(refusal(start, (address, given)) or "nothing")
            array[row] = right
        return start(address, given)

    monkeypatch.setattr(code, "tasks_start", unfit)
    assert graph() == expected
    for found, (_, _, _, message) in zip(said, UNFIT, strict=True):
        assert re.search(message, found), found
