"""The border of the engine: what is wrong is refused with one sentence, and never ends the process."""

import ctypes
import subprocess
import sys
from typing import Any

import border
import numpy as np
import pytest
from small import executor, flows, joined

import fredfw_engine
from fredfw import Framework, Pattern
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.errors import SimulationError
from fredfw.simulation import FlowNetwork, engine
from fredfw.simulation.engine import library
from fredfw.simulation.variation import Pace
from fredfw.workloads import GraphBuilder


def test_what_was_saved_and_then_damaged_is_refused() -> None:
    network = FlowNetwork(joined([(0, 1), (1, 0)], 100.0, 0.25))
    network.start(flows([100.0] * 2, [[0], [1]], repeat=3), print)
    network.advance(0.75)
    state = network.__getstate__()
    saved: bytes = state["saved"]
    for damaged in (saved[:-1], saved[:20] + bytes([saved[20] ^ 1]) + saved[21:]):
        with pytest.raises(SimulationError, match="what was saved: it is cut off"):
            FlowNetwork.__new__(FlowNetwork).__setstate__(state | {"saved": damaged})


def test_the_header_is_beside_the_library() -> None:
    header = (fredfw_engine.INCLUDE / "fredfw.h").read_text(encoding="utf-8")
    assert f"#define FREDFW_ABI {library().abi()}\n" in header


@pytest.mark.parametrize(
    ("count", "seed"), [(200, 1), *(pytest.param(10_000, seed, marks=pytest.mark.slow) for seed in range(2, 12))]
)
def test_damaged_programs_are_refused_or_run(count: int, seed: int) -> None:
    """In a process that may crash; the last case that it names is the one."""
    command = [sys.executable, border.__file__, f"--count={count}", f"--seed={seed}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{count} programs: " in done.stdout


def test_each_value_that_is_wrong_is_refused_with_its_field_and_row() -> None:
    probed: set[str] = set()
    for seed in range(60):
        case = border.Case(seed, damage=False, probe=True)
        case.run()
        probed |= case.probed
    structs = [engine.STRUCTURES[one] for one in ("graph", "phase", "routes", "flows", "cargo", "setting")]
    fields: list[tuple[Any, ...]] = [(one.__name__, *each) for one in structs for each in one._fields_]
    arrays = {
        f"{struct}.{name}" for struct, name, kind in fields if kind is ctypes.c_void_p and name not in border.FREE
    }
    assert probed == arrays - {"graph.share_lowered"}


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


def graph() -> tuple[bytes, bytes]:
    """Run a task graph of all kinds, with factors; return what happens when."""
    builder = GraphBuilder(4)
    first = builder.compute("a", [0, 1], seconds=1.0)
    both = builder.collective("b", Pattern.ALL_REDUCE, [[0, 1], [2, 3]], 1e6, label="DP", after=[first])
    sent = builder.send("c", 1, 2, 1e6, label="PP", after=[both])
    got = builder.receive("d", sent)
    moved = builder.transfer("e", [[2, 3]], 1e6, label="PP", after=[got, both])
    builder.wait("f", [0, 1, 2, 3], seconds=0.5, after=[moved, first])
    fabric = Framework().topology("mesh2d", rows=2, columns=2).build()
    pace = Pace(np.array([1.0, 1.5, 1.0, 1.0]), None, np.random.default_rng)
    timeline = executor(builder.build(), fabric, DirectAlgorithm(), pace=pace).run()
    return timeline.start.tobytes(), timeline.end.tobytes()


def test_values_that_do_not_fit_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, code = graph(), engine.library()
    start = code.tasks_start

    def unfit(address: int, given: Any) -> Any:
        for name, row, wrong, message in UNFIT:
            array = (ctypes.c_int64 * (row + 1)).from_address(getattr(given._obj, name))
            right, array[row] = array[row], wrong
            with pytest.raises(SimulationError, match=message):
                start(address, given)
            array[row] = right
        return start(address, given)

    monkeypatch.setattr(code, "tasks_start", unfit)
    assert graph() == expected


def test_a_program_that_is_too_large_is_refused_with_the_bytes_that_it_needs() -> None:
    with pytest.raises(SimulationError, match=r"phases: 2147483647 need at least \d{12,} bytes, and the machine has"):
        engine.library().schedule_new(2, 2**31 - 1, None, 0)


SHORT_OF_MEMORY = """
import resource
import numpy as np
from fredfw.errors import SimulationError
from fredfw.fabric import Fabric, FlowSet, Routes
from fredfw.simulation import FlowNetwork

fabric = Fabric("pipe", [0, 0], [0, 1], [1, 0], 100.0, 0.25, 0.0)
network, count = FlowNetwork(fabric), 200_000
flows = FlowSet(Routes.of([np.array([0])] * count, [0.0] * count), np.ones(count), np.arange(count), count)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 24_000_000, -1))
try:
    for _ in range(40):
        network.start(flows, lambda _: None, checked=True)
        network.advance(network.now + 1.0)
except MemoryError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))  # there is enough again, and what was left half-way stays so
try:
    network.advance(network.now + 1.0)
except SimulationError as error:
    print(error)
"""


@pytest.mark.slow  # how little memory is too little depends on the machine
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_a_network_without_memory_is_broken_and_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY], capture_output=True, text=True, check=True)
    assert "the engine got no memory" in done.stdout
    assert "the engine refuses it: network: it is broken" in done.stdout
