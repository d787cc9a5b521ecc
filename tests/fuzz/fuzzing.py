"""Fuzzers with a seed: damaged input ends in a result or in one clear error, and soon.

    python tests/fuzz/fuzzing.py --seconds 3600 --seed 1

runs new cases until the time is over. ``--kind`` and ``--case`` repeat one that has failed. Each case has a seed of its
own, so it does not depend on those before it. ``--verbose`` names each case before it runs. A case that needs too much
time fails, and on Linux so does one that needs too much memory.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType

from click.testing import CliRunner
from mutations import Mutator

from fredfw import Framework, limits
from fredfw.cli import main
from fredfw.errors import FredfwError, PluginError

if sys.platform == "linux":  # others do not have it, or do not keep to it
    import resource

# Small, so that what is accepted is done in a moment.
LIMITS = {"cells": 16, "nodes": 300, "links": 2000, "tasks": 400, "phases": 2000, "parts": 500}
LIMITS |= {"transfers": 20_000, "flows": 2_000, "bytes": 100_000}
FRAMEWORK = Framework()
# Of processor time, which a busy machine does not use up.
SECONDS = 20.0
# Of address space, which the entire process shares.
BYTES = 3 * 2**30
GOOD = """
[fabrics.f]
topology = { name = "switch", npus = 4 }
collectives = { default = "ring" }

[workloads.w]
workload = { name = "microbenchmark", size = "1 MB" }
"""


class TooLongError(BaseException):
    """A case has used more processor time than it may."""


def experiment(mutator: Mutator) -> str:
    content = mutator.experiment()
    try:
        experiment = FRAMEWORK.load_experiment(content)
        fidelity = mutator.random.choice((None, "compressed", "exact", "estimate"))
        FRAMEWORK.compare(experiment, fidelity=fidelity).to_json()
    except PluginError:  # the plugins in use are our own
        raise
    except FredfwError:
        pass
    return repr(content)


def stored(mutator: Mutator) -> str:
    """Merge a damaged store; what is found in it is what was put."""
    store, seconds = _stored()
    damaged = mutator.stored(store)
    Path("good.toml").write_text(GOOD)
    Path("store").write_bytes(damaged)
    with suppress(FredfwError):
        (row,) = FRAMEWORK.merge("good.toml", ["store"]).rows
        assert row.seconds == seconds
    return repr(damaged)


def command(mutator: Mutator) -> str:
    words = mutator.command()
    Path("good.toml").write_text(GOOD)
    Path("store").write_bytes(_stored()[0])
    given = [word for name, limit in LIMITS.items() for word in ("--limit", f"{name}={limit}")]
    arguments = words if "--limit" in words else [*given, *words]
    with limits.allowed(LIMITS):
        result = CliRunner().invoke(main, arguments, prog_name="fredfw")
    if result.exit_code not in (0, 1, 2, 3) or not isinstance(result.exception, SystemExit | None):
        raise result.exception or AssertionError(f"exit code {result.exit_code}")
    if any(sign in result.output for sign in ("Traceback", " fails: ", "MemoryError")):
        raise AssertionError(result.output)
    return repr(words)


KINDS: dict[str, Callable[[Mutator], str]] = {"experiment": experiment, "stored": stored, "command": command}


def fuzz(kind: str, case: int) -> str | None:
    """Run one case; return how it failed, or ``None``."""
    mutator = Mutator(case)
    with _limited():
        try:
            KINDS[kind](mutator)
        except TooLongError as error:
            reason = f"more than {SECONDS:g} s:\n{''.join(traceback.format_tb(error.__traceback__)[-4:])}"
        except Exception:
            reason = traceback.format_exc(limit=-6)
        else:
            return None
    return f"{kind} {case}: {reason}\nagain: python tests/fuzz/fuzzing.py --kind {kind} --case {case}"


@contextmanager
def _limited() -> Iterator[None]:
    """End a case that takes too long; allocations of ``BYTES`` beside what there is fail and take nothing else down."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooLongError

    usual = signal.signal(signal.SIGPROF, stop)
    with ExitStack() as limited:
        limited.callback(signal.signal, signal.SIGPROF, usual)
        if sys.platform == "linux":
            soft, hard = resource.getrlimit(resource.RLIMIT_AS)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()  # by earlier tests
            lowest = min(one for one in (used + BYTES, soft, hard) if one != resource.RLIM_INFINITY)
            limited.callback(resource.setrlimit, resource.RLIMIT_AS, (soft, hard))
            resource.setrlimit(resource.RLIMIT_AS, (lowest, hard))
        limited.callback(signal.setitimer, signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        limited.enter_context(limits.allowed(LIMITS))
        limited.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error")
        yield


@cache
def _stored() -> tuple[bytes, float]:
    """Return a store, and the seconds in it."""
    Path("good.toml").write_text(GOOD)
    seconds = FRAMEWORK.run("good.toml", store="fresh").seconds
    return Path("fresh").read_bytes(), seconds


def run(seconds: float, seed: int, kinds: list[str], verbose: bool = False) -> int:
    """Run cases from ``seed`` on until the time is over; return how many have failed."""
    until, case, failed = time.monotonic() + seconds, seed * 10**6, 0
    while time.monotonic() < until:
        for kind in kinds:
            if verbose:
                print(kind, case, file=sys.stderr, flush=True)
            failure = fuzz(kind, case)
            if failure is not None:
                failed += 1
                print(failure, flush=True)
        case += 1
    print(f"{case - seed * 10**6} cases of each kind, {failed} failures", flush=True)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=list(KINDS), action="append")
    parser.add_argument("--case", type=int)
    parser.add_argument("--verbose", action="store_true", help="name each case before it runs")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        if chosen.case is None:
            sys.exit(min(run(chosen.seconds, chosen.seed, chosen.kind or list(KINDS), chosen.verbose), 1))
        for one in chosen.kind or KINDS:
            with _limited():
                print(KINDS[one](Mutator(chosen.case))[:2000])
