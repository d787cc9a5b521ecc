"""What all tests have in common."""

import gc
import zlib
from contextlib import suppress

import pytest

with suppress(ImportError):  # the tests of third-party packages run without it
    from hypothesis import settings

    # How long an example takes depends on what else the machine does.
    settings.register_profile("untimed", deadline=None)
    # For the default tests; the full tests try a hundred examples.
    settings.register_profile("quick", deadline=None, max_examples=10)
    settings.load_profile("untimed")

# Start another Python for each class, or plan all variants: the default tests do that for one algorithm of the core.
_ONE = "test_is_the_same_in_another_process", "test_variants_are_valid"
# Of what a kit checks, and of tests that are marked so, the default tests run the first case and one in so many others.
_SAMPLE = 8
# Groups for which the default tests replay schedules: one of each kind, for larger ones take most of the time.
_RANKS = (1, 2, 3, 4, 6, 8)
# Blocks of commands that take a second or more each; what they show is tested elsewhere, too.
_LONG = {
    "docs/comet.md": (0,),
    "docs/experiments.md": (3,),
    "docs/experts.md": (0, 1),
    "docs/gallery.md": (0, 1, 2),
    "docs/how-to/astra-sim.md": (1, 2),
    "docs/how-to/gpu-cluster.md": (1, 2, 3, 4, 5, 6, 7),
    "docs/how-to/report.md": (0,),
    "docs/how-to/stores.md": (0,),
    "docs/how-to/trace.md": (0,),
    "docs/how-to/why.md": (1,),
    "docs/index.md": (1,),
    "docs/inference.md": (0,),
    "docs/jobs.md": (1,),
    "docs/python.md": (1,),
    "docs/repurpose.md": (0,),
    "docs/roce.md": (0,),
    "docs/studies.md": (0,),
    "docs/testing.md": (0, 1, 2),
    "docs/themis.md": (0,),
    "docs/tutorials/architect.md": (2, 4),
    "docs/tutorials/plugin-author.md": (0, 1, 2),
    "docs/validation.md": (1,),
}


def pytest_configure(config: pytest.Config) -> None:
    """Replay schedules in few groups, in the default tests."""
    if config.option.markexpr == "not slow":
        from fredfw.testing import CollectiveTests

        CollectiveTests.ranks = _RANKS


def pytest_collection_finish() -> None:
    """Keep what was collected, which stays to the end, from being looked through whenever there is garbage."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave long commands to the full tests, and most of what is tried once more of what is marked or in a kit."""
    first: dict[tuple[object, ...], str] = {}
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        name, case = item.originalname, item.name.partition("[")[2].rstrip("]")
        page, _, block = case.rpartition(":")
        if name in ("test_commands_run", "test_python_snippets_run") and int(block) in _LONG.get(page, ()):
            item.add_marker(pytest.mark.slow)
        if item.function.__module__.startswith("fredfw.testing") or item.get_closest_marker("sampled"):
            again = first.setdefault((item.path, item.cls, name), case) != case
            sampled = zlib.crc32(item.nodeid.encode()) % _SAMPLE == 0
            if (again and not sampled) if name not in _ONE else (again or item.cls.__name__ != "TestDirect"):
                item.add_marker(pytest.mark.slow)
