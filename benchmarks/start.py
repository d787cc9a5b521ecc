"""How long commands take to start, beside the CPU time of importing NumPy: ``python -m benchmarks.start``.

Of each the least of nine runs, taken in turn, for machines differ and are noisy.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.processes import measured

RUNS = 9
FABRIC = ("--topology", "torus", "--set", "dimensions=32,32", "--algorithm", "torus-ring")
COMMANDS = {
    "import numpy": ("-c", "import numpy"),
    "import fredfw": ("-c", "import fredfw"),
    "fredfw --help": ("--help",),
    "a typo": ("compar",),
    "plugins list": ("plugins", "list"),
    "all-reduce on 1,024 NPUs": ("collective", "all-reduce", *FABRIC, "--size", "1MB"),
}


def main() -> None:
    least = dict.fromkeys(COMMANDS, float("inf"))
    for _ in range(RUNS):
        for name, arguments in COMMANDS.items():
            program = Path(sys.executable) if arguments[0] == "-c" else Path(sys.executable).with_name("fredfw")
            least[name] = min(least[name], measured([program, *arguments], accepted=(0, 2))["cpu"])  # 2: the typo
    for name, found in least.items():
        print(f"{name:26} {found:6.2f} s {found / least['import numpy']:6.2f} x")


if __name__ == "__main__":
    main()
