"""Merge cells that ran in environments of their own, and make sure that ``fredfw compare`` says the same.

Run by the tox environment ``merge``: ``python tests/merge_cells.py EXPERIMENT STORE``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(experiment: str, store: Path) -> None:
    merged, direct = store.with_name("merged"), store.with_name("direct")
    for command, inputs, folder in (("merge", [str(store)], merged), ("compare", ["--no-store"], direct)):
        folder.mkdir(exist_ok=True)
        outputs = ["--json", str(folder / "comparison.json"), "--plot", str(folder / "comparison.png")]
        subprocess.run(["fredfw", command, experiment, *inputs, *outputs], check=True)
    if (merged / "comparison.json").read_bytes() != (direct / "comparison.json").read_bytes():
        raise SystemExit(f"the merged cells differ from what fredfw compare says: see {merged} and {direct}")
    print(f"the cells of {store}, the same to the last digit; {merged / 'comparison.json'}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
