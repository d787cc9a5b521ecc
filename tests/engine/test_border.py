"""The border of the engine: what is wrong is refused with one sentence, and never ends the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small import flows, joined

import fredfw_engine
from fredfw.errors import SimulationError
from fredfw.simulation import FlowNetwork, engine
from fredfw.simulation.engine import library


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
    assert "200 programs: " in fuzz(200, 1, tmp_path)


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
