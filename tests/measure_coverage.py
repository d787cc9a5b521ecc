"""Measure what the tests reach of the core and all first-party plugins together, and list what they do not.

Run by the tox environment ``coverage``: ``python tests/measure_coverage.py [PYTEST'S ARGUMENTS]``. Lines that run in
other processes do not count.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def coverage(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "coverage", *arguments], check=False, cwd=ROOT).returncode


def main(*arguments: str) -> int:
    sources = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src", *sorted(ROOT.glob("plugins/*/*/src")))]
    # The modules of this checkout, not the installed ones, so that the report names files that one can open.
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    here = f"pythonpath={' '.join([*sources, *settings['pythonpath']])}"
    # That profile of hypothesis has no deadlines, which measuring would break.
    pytest = ("-m", "pytest", "-o", here, "--hypothesis-profile=ci", *arguments)
    tests = coverage("run", f"--source={','.join(sources)}", *pytest)
    return coverage("report") or tests


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
