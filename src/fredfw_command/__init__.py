"""The console script ``fredfw``, in a package of its own: an interrupt while fredfw is imported is a message, too."""

import gc
import io
import os
import sys

INTERRUPTED = 130  # as shells have it: 128 and the number of SIGINT


def main() -> None:
    """Run the command line."""
    # Modules are no garbage; to look for some among them takes a tenth of a command's start.
    gc.set_threshold(50_000)
    # Threads of OpenBLAS wait in a loop from NumPy's import on, and sums would depend on how many cores there are.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # none where it is closed
            # Letters that the encoding of the terminal lacks are printed as escapes.
            stream.reconfigure(errors="backslashreplace")
    try:
        from fredfw.cli import main as command

        command(prog_name="fredfw")
    except KeyboardInterrupt:
        print("fredfw: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
