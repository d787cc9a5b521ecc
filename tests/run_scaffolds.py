"""Write a package of each kind with ``fredfw new``, and run its own tox unchanged, with the core's wheel and plugins'.

Run by the tox environment ``scaffold``: ``python tests/run_scaffolds.py WHEELS``.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from fredfw.scaffold import KINDS, distribution

NAME = "brand-new"


def environment(wheels: Path) -> dict[str, str]:
    """Return the environment of an author whose pip, or uv, finds ``wheels`` beside what it finds anyway."""
    # What the tox around this one says of itself is not for the inner one.
    found = {key: value for key, value in os.environ.items() if not key.startswith(("TOX", "VIRTUAL_ENV"))}
    for variable, separator in (("PIP_FIND_LINKS", " "), ("UV_FIND_LINKS", ",")):
        found[variable] = separator.join(filter(None, [str(wheels), found.get(variable)]))
    return found


def main(wheels: Path) -> None:
    for kind in KINDS:
        # Not below this tox's folder, which ruff passes over.
        with TemporaryDirectory(prefix="scaffold-") as folder:
            start = time.perf_counter()
            subprocess.run([Path(sys.executable).with_name("fredfw"), "new", kind, NAME, "--into", folder], check=True)
            package = Path(folder, distribution(kind, NAME))
            subprocess.run([sys.executable, "-m", "tox", "run"], check=True, cwd=package, env=environment(wheels))
            print(f"{package.name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
