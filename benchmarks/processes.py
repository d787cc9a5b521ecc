"""What a process prints, its seconds, its CPU seconds and the most memory that it held; the standard library alone.

    python -S processes.py FILE COMMAND...

writes them to a file, as JSON. It is a program of its own because a process never reports a lower peak than its parent
had when it started it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def measured(command: Sequence[object], folder: Path = ROOT, accepted: Sequence[int] = (0,)) -> dict[str, Any]:
    """Return ``output``, ``seconds``, ``cpu`` and ``memory`` (bytes) of a command that runs in ``folder``.

    Raises:
        CalledProcessError: It ends with another status than those ``accepted``.
    """
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "found.json")
        launcher = [sys.executable, "-S", __file__, file, *command]
        done = subprocess.run(list(map(str, launcher)), check=False, cwd=folder, stderr=subprocess.PIPE, text=True)
        if done.returncode not in accepted:
            print(done.stderr, file=sys.stderr)
            done.check_returncode()
        found: dict[str, Any] = json.loads(file.read_text())
        return found


def _run(file: str, command: list[str]) -> int:
    with tempfile.TemporaryFile("w+") as output:
        # Compiled modules are kept, as those of an installed package are, or each process would compile all of them.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        found: dict[str, Any] = {"seconds": time.perf_counter() - begin, "cpu": usage.ru_utime + usage.ru_stime}
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        found |= {"output": output.read(), "memory": usage.ru_maxrss * 1024}  # Linux counts in KiB
        Path(file).write_text(json.dumps(found))
    return process.returncode


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1], sys.argv[2:]))
