"""Sweeps that are interrupted or lose a process, and what they have stored: no completed cell runs again."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from command_line import HEEDING, environment, process, succeeds

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]
SIZES = 20
EXPERIMENT = f"""
title = "Many cells"
fabrics.mesh.topology = {{ name = "mesh2d", rows = 2, columns = 2 }}
fabrics.switch.topology = {{ name = "switch", npus = 4 }}
[workloads."sum {{size}}"]
workload = {{ name = "microbenchmark" }}
sweep = {{ size = {[1000 * (one + 1) for one in range(SIZES)]} }}
"""
CELLS = 2 * SIZES
# Takes time in each cell, and writes down which one began and ended in which process.
SLOW = """
import os
import time
from fredfw import hookimpl
from fredfw.collectives.direct import DirectAlgorithm

def note(what):
    with open("log", "a") as file:
        file.write(f"{what}\\t{os.getpid()}\\n")

@hookimpl
def fredfw_after_run(result):
    note(f"begun\\t{result.workload} on {result.fabric_name}")
    time.sleep(float(os.environ.get("PAUSE", 0)))
    note(f"ended\\t{result.workload} on {result.fabric_name}")
"""
COMPARE = ("--trust-plugins", "--plugin", "slow.py", "compare", "many.toml")
DASK = ("--executor", "dask://local?workers=4")


@pytest.fixture(autouse=True)
def folder(plugin: Path) -> None:
    Path("many.toml").write_text(EXPERIMENT)
    Path("slow.py").write_text(SLOW)


def started(*arguments: str, pause: float) -> subprocess.Popen[str]:
    command, pipe = process(*arguments, start=HEEDING), subprocess.PIPE
    where = environment(PAUSE=str(pause))
    return subprocess.Popen(command, env=where, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def noted(what: str) -> list[tuple[str, int]]:
    """Return which cells have begun or ended so far, and the process of each."""
    lines = Path("log").read_text().splitlines() if Path("log").exists() else []
    found = (line.split("\t") for line in lines)
    return [(one[1], int(one[2])) for one in found if len(one) == 3 and one[0] == what]


def until_ended(cells: int, running: subprocess.Popen[str]) -> None:
    begun = time.monotonic()
    while len(noted("ended")) < cells:
        assert running.poll() is None
        assert time.monotonic() - begun < 120
        time.sleep(0.005)


def stored() -> set[str]:
    listed = succeeds("cells", "many.toml", "--store", "many.cells")
    lines = (line.split("\t") for line in listed.splitlines())
    return {f"{workload} on {fabric}" for workload, fabric, state in lines if state == "done"}


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # A process that nobody waits for any more has ended all the same.
    state = Path(f"/proc/{process}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


def expected() -> str:
    """Return the document of one process without a store, and forget what it noted."""
    document = succeeds(*COMPARE, "--no-store", "--json", "-")
    Path("log").unlink()
    return document


@pytest.mark.parametrize(
    ("signum", "options"),
    [
        *((signal.SIGINT, options) for options in (("--jobs", "1"), ("--jobs", "2"), DASK)),
        *((signal.SIGKILL, options) for options in (("--jobs", "1"), ("--jobs", "2"))),
    ],
)
def test_an_interrupted_sweep_goes_on(signum: signal.Signals, options: tuple[str, str]) -> None:
    dice = random.Random()
    document = expected()
    running = started(*COMPARE, *options, pause=0.1)
    until_ended(dice.randrange(1, CELLS // 2), running)
    time.sleep(dice.uniform(0, 0.1))
    durable: set[str] = set()
    if signum == signal.SIGKILL:
        durable = {cell for cell, _ in noted("ended")}
        time.sleep(1.0)
        running.kill()
    else:  # as a terminal does: to all processes
        os.killpg(running.pid, signum)
    printed, errors = running.communicate(timeout=60)
    if signum == signal.SIGINT:
        assert running.returncode == 130, errors
        assert re.fullmatch(r"fredfw: interrupted.*\n", errors), errors
        assert "Many cells" in printed
    begun = time.monotonic()
    while any(alive(one) for _, one in noted("begun")):  # nothing goes on without its parent
        assert time.monotonic() - begun < 60
        time.sleep(0.02)
    completed = stored()
    assert durable <= completed
    before = Counter(cell for cell, _ in noted("begun"))
    assert succeeds(*COMPARE, "--json", "-") == document
    after = Counter(cell for cell, _ in noted("begun"))
    assert len(after) == CELLS
    assert all(after[cell] == before[cell] == 1 for cell in completed)
    assert stored() == set(after)
    # And once more: nothing runs.
    assert succeeds(*COMPARE, *(options if options != DASK else ()), "--json", "-") == document
    assert Counter(cell for cell, _ in noted("begun")) == after


@pytest.mark.parametrize("options", [("--jobs", "2"), DASK], ids=["processes", "dask"])
def test_a_worker_that_is_killed_costs_nothing_that_is_done(options: tuple[str, str]) -> None:
    document = expected()
    running = started(*COMPARE, *options, "--json", "-", pause=0.5)
    until_ended(random.Random().randrange(4, CELLS // 2), running)
    # Where all have ended theirs at the same time, until one has begun the next.
    while not (under_way := [one for one in noted("begun") if one not in set(noted("ended"))]):
        time.sleep(0.005)
    cell, worker = under_way[-1]
    os.kill(worker, signal.SIGKILL)
    printed, errors = running.communicate(timeout=120)
    assert (running.returncode, errors) == (0, "")
    assert printed == document
    assert stored() == {one for one, _ in noted("ended")}
    # The cell that it ran has begun once more, in another process; no other did.
    assert Counter(one for one, _ in noted("begun")) == Counter({one for one, _ in noted("begun")}) + Counter([cell])
    assert set(Counter(one for one, _ in noted("ended")).values()) == {1}
