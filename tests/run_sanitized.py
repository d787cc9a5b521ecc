"""Build the engine with the sanitizers of gcc for addresses and undefined behaviour, and test what it does.

    python tests/run_sanitized.py FOLDER

It runs the tests of what uses the engine most, and damaged programs; the first finding ends the process that made it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
import hatch_build

ROOT = Path(__file__).parents[1]

FLAGS = "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
TESTS = "tests/engine", "tests/simulation", "tests/oracle", "tests/golden"
PROGRAMS = 20_000


def main(folder: Path) -> None:
    """Build it, and run all."""
    if sys.platform != "linux" or shutil.which("g++") is None:
        print("skipped: it needs Linux and g++")
        return
    (place := folder / "sanitized").mkdir(parents=True, exist_ok=True)
    library = hatch_build.build(ROOT / "engine", place, ["g++"], *FLAGS)
    # The sanitizer must be there before Python is, and the C++ library whose exceptions it follows, too.
    names = ("libasan.so", "libstdc++.so")
    preloaded = [
        subprocess.run(["g++", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        for name in names
    ]
    environment = os.environ | {
        "FREDFW_ENGINE": str(library),
        "LD_PRELOAD": ":".join(preloaded),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps what it has till its end
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    python = sys.executable
    fuzz = [python, "tests/fuzz/border.py", f"--count={PROGRAMS}", "--seed=5"]
    tests = [one for one in TESTS if (ROOT / one).is_dir()]
    # Times are those of another build, and the sanitizer's own memory cannot be limited.
    left_out = "not without_memory and not interrupt and not damaged_programs"
    checks = [python, "-m", "pytest", "-q", "-m", "not slow", "--hypothesis-profile", "quick", "-k", left_out, *tests]
    for command in (fuzz, checks):
        if subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode:
            sys.exit(f"{' '.join(map(str, command))} fails with {library}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
