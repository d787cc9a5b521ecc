"""What all tests have in common."""

from __future__ import annotations

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

# Start another Python for each class, or plan all variants: the default tests do that for the plugins of the core.
_CORE = "test_is_the_same_in_another_process", "test_variants_are_valid"
# Of a kit's checks of all but the first configuration of a class, the default tests make one in so many.
_SAMPLE = 4
# Blocks of commands that take many seconds each; what they show is tested elsewhere, too.
_LONG = (
    "docs/experiments.md:3",
    "docs/experts.md:0",
    "docs/experts.md:1",
    "docs/gallery.md:2",
    "docs/how-to/astra-sim.md:2",
    "docs/how-to/gpu-cluster.md:3",
    "docs/how-to/gpu-cluster.md:4",
    "docs/how-to/gpu-cluster.md:5",
    "docs/how-to/gpu-cluster.md:6",
    "docs/how-to/gpu-cluster.md:7",
    "docs/how-to/stores.md:0",
    "docs/jobs.md:1",
    "docs/roce.md:0",
    "docs/studies.md:0",
    "docs/testing.md:0",
    "docs/testing.md:1",
    "docs/themis.md:0",
    "docs/tutorials/plugin-author.md:2",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave long commands to the full tests, and most of what a kit checks of a class once more."""
    first: dict[tuple[object, ...], str] = {}
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        name, case = item.originalname, item.name.partition("[")[2].rstrip("]")
        if name in ("test_commands_run", "test_python_snippets_run") and case in _LONG:
            item.add_marker(pytest.mark.slow)
        if item.function.__module__.startswith("fredfw.testing"):
            again = first.setdefault((item.path, item.cls, name), case) != case
            sampled = name not in _CORE and zlib.crc32(item.nodeid.encode()) % _SAMPLE == 0
            if (again and not sampled) or (name in _CORE and "plugins" in item.path.parts):
                item.add_marker(pytest.mark.slow)
