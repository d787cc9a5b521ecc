"""Make the mistakes of ``mutants.toml`` one by one in a copy of the sources, and see whether tests find each.

    python tests/mutants/run.py [--only TEXT] [--jobs N] [TESTS...]

A mutant that all tests pass has survived, and the exit code is 1. Takes some minutes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TESTS = ["tests/simulation", "tests/embed", "tests/engine", "tests/golden", "tests/oracle"]
SECONDS = 1200.0  # after which tests do not end any more
FLAGS = ["-O1", "-std=c++17", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden"]


def compiled(sources: Path, mutated: str | None, objects: Path, library: Path) -> None:
    """Compile one file of the engine, or all of them and whatever includes a header, and link the library."""
    compiler = os.environ.get("CXX", "g++")
    include = sources.parent / "include"
    linked = []
    for source in sorted(sources.glob("*.cpp")):
        known = objects / f"{source.stem}.o"
        if mutated is None or mutated.endswith(".hpp") or mutated == source.name:
            known = library.parent / f"{source.stem}.o"
            subprocess.run([compiler, *FLAGS, "-I", include, "-c", source, "-o", known], check=True)
        linked.append(known)
    subprocess.run([compiler, "-shared", *linked, "-o", library], check=True)


def survives(mutant: dict[str, Any], objects: Path, tests: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        root = at / ("engine" if mutant["file"].startswith("engine/") else "src")
        shutil.copytree(ROOT / root.name, root, ignore=shutil.ignore_patterns("build", "*.so", "__pycache__"))
        changed = at / mutant["file"]
        text = changed.read_text()
        if (count := text.count(mutant["before"])) != 1:
            raise SystemExit(f"{mutant['file']}: {mutant['what']}: the text before is there {count} times")
        changed.write_text(text.replace(mutant["before"], mutant["after"]))
        if root.name == "engine":
            library = at / "engine.so"
            compiled(root / "source", changed.name, objects, library)
            environment["FREDFW_ENGINE"] = str(library)
        else:
            environment["PYTHONPATH"] = str(root)
        there = [test for test in tests or mutant.get("tests", TESTS) if (ROOT / test).exists()]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "--hypothesis-profile", "quick"]
        command += ["-p", "no:cacheprovider", "-n", "0", *there]
        try:
            options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": SECONDS}
            run = subprocess.run(command, cwd=ROOT, env=environment, check=False, **options)
            alive, said = run.returncode == 0, run.stdout
        except subprocess.TimeoutExpired:
            alive, said = False, "FAILED to end"
        found = next((line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
        print(f"{'SURVIVES' if alive else 'found':9} {mutant['file']}: {mutant['what']}\n          {found}", flush=True)
        return alive


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="of those whose file or description has this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("tests", nargs="*", help="instead of those that the mutant names, or of those of the engine")
    options = parser.parse_args()
    mutants = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())["mutant"]
    chosen = [one for one in mutants if options.only in one["file"] + one["what"]]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        objects = Path(folder)
        if any(one["file"].startswith("engine/") for one in chosen):
            compiled(ROOT / "engine" / "source", None, objects, objects / "engine.so")
        alive = sum(pool.map(lambda one: survives(one, objects, options.tests), chosen))
    print(f"{len(chosen)} mutants, of which {alive} survive")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
