"""Build the engine otherwise than its wheel does, and test what it does.

    python tests/other_builds.py compilers FOLDER
    python tests/other_builds.py sanitized FOLDER

``compilers`` builds it with the machine's compiler and with that of the wheel ``ziglang``: random networks, schedules
and task graphs must give the same bytes. ``sanitized`` builds it with the sanitizers of gcc for addresses and undefined
behaviour, and runs damaged programs and the tests of what uses the engine most; the first finding ends a process.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
import hatch_build

ROOT = Path(__file__).parents[1]
PYTHON = sys.executable
FUZZ = PYTHON, "tests/fuzz/border.py"
FLAGS = "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
TESTS = "tests/engine", "tests/simulation", "tests/oracle", "tests/golden"
PROGRAMS = 5000
DAMAGED = 20_000


def build(folder: Path, compiler: list[str] | None, *flags: str) -> Path:
    """Return the library that ``compiler``, or else ziglang, makes in a new ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    library: Path = hatch_build.build(ROOT / "engine", folder, compiler, *flags)
    return library


def compilers(folder: Path) -> None:
    """Compare times, notices, bytes on links, counters and spans of random programs to the last bit."""
    own = hatch_build.own_compiler()
    if own is None:
        print("skipped: the machine has no C++ compiler to compare with")
        return
    found: dict[str, str] = {}
    command = [*FUZZ, f"--count={PROGRAMS}", "--seed=1", "--digest"]
    for name, compiler in {own[0]: own, "ziglang": None}.items():
        begun = time.monotonic()
        library = build(folder / name, compiler)
        seconds, size = time.monotonic() - begun, library.stat().st_size
        environment = os.environ | {"FREDFW_ENGINE": str(library)}
        said = subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        found[name] = said.split()[0]
        print(f"{name}: built in {seconds:.0f} s, {size / 2**20:.1f} MiB, {PROGRAMS} programs give {found[name]}")
    if len(set(found.values())) > 1:
        sys.exit("the results differ")


def sanitized(folder: Path) -> None:
    if sys.platform != "linux" or shutil.which("g++") is None:
        print("skipped: it needs Linux and g++")
        return
    library = build(folder / "sanitized", ["g++"], *FLAGS)
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
    # Times are those of another build, and the sanitizer's own memory cannot be limited.
    left_out = "not without_memory and not interrupt and not damaged_programs"
    checks = [PYTHON, "-m", "pytest", "-q", "-m", "not slow", "--hypothesis-profile", "quick", "-k", left_out, *TESTS]
    for command in ([*FUZZ, f"--count={DAMAGED}", "--seed=5"], checks):
        if subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode:
            sys.exit(f"{' '.join(command)} fails with {library}")


if __name__ == "__main__":
    {"compilers": compilers, "sanitized": sanitized}[sys.argv[1]](Path(sys.argv[2]))
