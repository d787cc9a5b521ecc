"""SimGrid as an oracle: is it there, and what does it say about a case."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
from attrs import frozen
from benchmarks.crosscheck.cases import Case
from benchmarks.processes import measured

from fredfw.typing import FloatArray

HERE = Path(__file__).parent
MISSING = "SimGrid is not installed; on Debian: apt-get install libsimgrid-dev g++"


@frozen(eq=False)
class Run:
    """What a process did.

    Args:
        ends: ``(groups,)`` seconds of simulated time.
        seconds: Its own time, from start to exit.
        memory: The most bytes that it held.
    """

    ends: FloatArray
    seconds: float
    memory: int

    @classmethod
    def of(cls, command: list[str]) -> Run:
        """Run ``command``, which prints one end a line; raises ``CalledProcessError`` where it fails."""
        found = measured(command)
        return cls(np.array(found["output"].split(), dtype=float), found["seconds"], found["memory"])


def installed() -> bool:
    """Return whether there is a compiler that finds SimGrid's headers."""
    if shutil.which("g++") is None:
        return False
    source = "#include <simgrid/s4u.hpp>\n"
    command = ["g++", "-std=c++17", "-E", "-x", "c++", "-", "-o", "/dev/null"]
    return subprocess.run(command, input=source, text=True, capture_output=True, check=False).returncode == 0


class SimGrid:
    """The compiled program.

    Args:
        folder: Where to compile it and to keep cases.
        tuned: Whether SimGrid is made faster than it comes; see ``simgrid.cpp``.

    Raises:
        CalledProcessError: It cannot be compiled.
    """

    def __init__(self, folder: Path, *, tuned: bool = False) -> None:
        self._folder = folder
        self._program = folder / ("simgrid-tuned" if tuned else "simgrid")
        options = ["-std=c++17", "-O2", "-rdynamic", *(("-DTUNED",) if tuned else ())]
        source = str(HERE / "simgrid.cpp")
        subprocess.run(["g++", *options, source, "-o", str(self._program), "-lsimgrid"], check=True)

    def run(self, case: Case, rule: str = "barrier") -> Run:
        """Simulate ``case``.

        Args:
            case: What to simulate.
            rule: When a node goes on: ``barrier`` when all messages of its group have arrived, ``messages`` when its
                own have, ``ranks`` when what it receives has arrived and what it sends has left.
        """
        file = self._folder / "case.txt"
        with file.open("w") as stream:
            case.write(stream)
        command = [str(self._program), str(file), rule, "--log=root.thresh:error"]
        return Run.of(command)
