"""Run a command and write its standard output, seconds and peak memory to a file, as JSON; the standard library alone.

    python -S measure.py FILE COMMAND...

It is a program of its own because a process never reports a lower peak than its parent had when it started it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

if __name__ == "__main__":
    with tempfile.TemporaryFile("w+") as output:
        # Compiled modules are kept, as those of an installed package are, or each process would compile all of them.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        begin = time.perf_counter()
        process = subprocess.Popen(sys.argv[2:], stdout=output, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        with open(sys.argv[1], "w") as file:
            # Linux counts in KiB.
            json.dump({"output": output.read(), "seconds": seconds, "memory": usage.ru_maxrss * 1024}, file)
    sys.exit(process.returncode)
