"""Build the engine with the machine's compiler and with that of the wheel ``ziglang``; they must give the same bytes.

    python tests/compare_compilers.py FOLDER

Random networks, schedules and task graphs run with both; times, notices, bytes on links, counters and spans are
compared to the last bit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
import hatch_build

ROOT = Path(__file__).parents[1]

PROGRAMS = 5000


def digest(library: Path) -> str:
    """Return what the random programs give with a library."""
    command = [
        sys.executable,
        str(ROOT / "tests" / "fuzz" / "border.py"),
        f"--count={PROGRAMS}",
        "--seed=1",
        "--digest",
    ]
    environment = os.environ | {"FREDFW_ENGINE": str(library)}
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return said.split()[0]


def main(folder: Path) -> None:
    """Build both, and compare them."""
    own = hatch_build.own_compiler()
    if own is None:
        print("skipped: the machine has no C++ compiler to compare with")
        return
    found: dict[str, str] = {}
    for name, compiler in {own[0]: own, "ziglang": None}.items():
        (place := folder / name).mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        library = hatch_build.build(ROOT / "engine", place, compiler)
        seconds, size = time.monotonic() - begun, library.stat().st_size
        found[name] = digest(library)
        print(f"{name}: built in {seconds:.0f} s, {size / 2**20:.1f} MiB, {PROGRAMS} programs give {found[name]}")
    if len(set(found.values())) > 1:
        sys.exit("the results differ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
