"""Build the core and every first-party plugin as wheels, install them into a fresh environment, and use them.

Run by the tox environment ``wheels``: ``python tests/build_wheels.py WHEELS ENVIRONMENT``, two folders made anew.
"""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT)


def main(wheels: Path, environment: Path) -> None:
    shutil.rmtree(wheels, ignore_errors=True)
    projects = [ROOT, ROOT / "engine", *sorted(path.parent for path in ROOT.glob("plugins/*/*/pyproject.toml"))]
    for project in projects:
        run(sys.executable, "-m", "build", "--installer", "uv", "--wheel", "--outdir", wheels, project)
    venv.create(environment, clear=True, with_pip=True)
    scripts = environment / ("Scripts" if sys.platform == "win32" else "bin")
    # All together, so that no plugin's requirement of the core is looked for elsewhere.
    run(scripts / "python", "-m", "pip", "install", "--quiet", *sorted(wheels.glob("*.whl")))
    run(scripts / "fredfw", "plugins", "list")
    run(scripts / "fredfw", "collective", "all-reduce", "--topology", "mesh2d", "--size", "1GB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
