"""The border of the engine: what is wrong is refused with one sentence, and never ends the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import fredfw_engine
from fredfw.collectives import Pattern, Phase, Schedule
from fredfw.errors import SimulationError
from fredfw.fabric import Fabric, FlowSet, Routes
from fredfw.simulation import FlowNetwork, Lowering, ScheduleRun, engine
from fredfw.simulation.engine import library, max_min


def pipe() -> Fabric:
    """Two NPUs with a link each way."""
    return Fabric("pipe", [0, 0], [0, 1], [1, 0], 100.0, 0.25, 0.0)


def flows(links: list[int], offsets: list[int], **fields: Any) -> FlowSet:
    count = len(offsets) - 1
    routes = Routes(np.array(offsets), np.array(links, dtype=np.intp), fields.pop("latencies", np.zeros(count)))
    volumes, activity = np.full(count, 100.0), np.zeros(count, dtype=np.intp)
    plain: dict[str, Any] = {"volumes": volumes, "activity": activity, "activities": 1}
    return FlowSet(routes, **(plain | fields))


@pytest.mark.parametrize(
    ("offsets", "links", "message"),
    [
        ([0, 1], [-1], r"link\[0\] is -1, accepted are 0 to 1"),
        ([0, 1], [2], r"link\[0\] is 2, accepted are 0 to 1"),
        ([1, 0], [0], "offsets begin at 0"),
        ([0, 1, 0], [0], r"offset\[2\]: offsets do not fall"),
    ],
)
def test_indices_that_are_not_there_are_refused(offsets: list[int], links: list[int], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        max_min(np.array(offsets), np.array(links), None, None, np.full(2, 100.0))
    network = FlowNetwork(pipe())
    with pytest.raises(SimulationError, match=message):
        network.start(flows(links, offsets), lambda _: None, checked=True)
    network.advance()
    assert network.idle


def under_way() -> FlowNetwork:
    """Return a network in the middle of a schedule, of flows and of timers."""
    fabric = pipe()
    network = FlowNetwork(fabric)
    phase = Phase.of([0, 1], [1, 0], [0, 1], repeat=4)
    schedule = Schedule(Pattern.ALL_GATHER, 2, 50.0, 2, (phase,))
    ScheduleRun(network, Lowering(fabric), schedule, np.array([[0, 1]]), _nothing, fidelity="exact").start()
    network.start(flows([0, 1], [0, 1, 2], repeat=3), _nothing)
    network.schedule(2.0, _never)
    network.advance(0.75)
    return network


def _nothing(_: object) -> None:
    pass


def _never() -> None:
    pass


@given(st.data())
def test_what_was_saved_and_then_damaged_is_refused(data: st.DataObject) -> None:
    state = under_way().__getstate__()
    saved = bytearray(state["saved"])
    if data.draw(st.booleans()):
        del saved[data.draw(st.integers(0, len(saved) - 1)) :]
    else:
        saved[data.draw(st.integers(0, len(saved) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SimulationError, match="what was saved: it is cut off"):
        FlowNetwork.__new__(FlowNetwork).__setstate__(state | {"saved": bytes(saved)})


@given(st.lists(st.integers(-3, 5), max_size=6), st.lists(st.integers(-3, 5), max_size=6))
def test_any_columns_are_a_program_or_refused(offsets: list[int], links: list[int]) -> None:
    network = FlowNetwork(pipe())
    if not offsets or offsets[-1] > len(links):
        return  # the engine is told no lengths of arrays
    try:
        network.start(flows(links, offsets), lambda _: None, checked=True)
    except SimulationError:
        assert network.idle
    else:
        network.advance()
        assert network.idle


def test_the_header_is_beside_the_library() -> None:
    header = (fredfw_engine.INCLUDE / "fredfw.h").read_text(encoding="utf-8")
    assert f"#define FREDFW_ABI {library().abi()}\n" in header


FUZZER = Path(__file__).parents[1] / "fuzz" / "border.py"


def fuzz(count: int, seed: int, folder: Path) -> str:
    """Return what a process says that runs so many cases, and that may crash."""
    progress = folder / "progress"
    arguments = [f"--count={count}", f"--seed={seed}", f"--progress={progress}"]
    done = subprocess.run([sys.executable, FUZZER, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        case = progress.read_text(encoding="ascii").strip()
        ended = f"case {case} ended the process with {done.returncode}"
        pytest.fail(f"{ended}:\n{done.stderr[-2000:]}\nagain: python tests/fuzz/border.py --case {case}")
    return done.stdout


def test_damaged_programs_are_refused_or_run(tmp_path: Path) -> None:
    assert "400 programs: " in fuzz(400, 1, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_damaged_programs_are_refused_or_run(seed: int, tmp_path: Path) -> None:
    fuzz(10_000, seed, tmp_path)


def test_a_program_that_is_too_large_is_refused_with_the_bytes_that_it_needs() -> None:
    code = engine.library()
    with pytest.raises(SimulationError, match=r"phases: 2147483647 need at least \d{12,} bytes, and the machine has"):
        code.made(code.schedule_new(2, 2**31 - 1, None, 0))


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
