"""What all tests have in common."""

from __future__ import annotations

from contextlib import suppress

import pytest

with suppress(ImportError):  # the tests of third-party packages run without it
    from hypothesis import settings

    # How long an example takes depends on what else the machine does.
    settings.register_profile("untimed", deadline=None)
    # For the default tests, which have ten minutes on two cores; the full tests try a hundred examples.
    settings.register_profile("quick", deadline=None, max_examples=25)
    settings.load_profile("untimed")

# Start another Python for each class, or plan all variants: the default tests do that for the plugins of the core.
_CORE = "test_is_the_same_in_another_process", "test_variants_are_valid"
# About a class more than about a configuration: the default tests do that for its first one.
_ONCE = *_CORE, "test_is_deterministic", "test_schedules_do_what_they_promise"
# Blocks of commands that take many seconds each; what they show is tested elsewhere, too.
_LONG = (
    "docs/experiments.md:5",
    "docs/experts.md:0",
    "docs/experts.md:1",
    "docs/experts.md:2",
    "docs/fred.md:3",
    "docs/gallery.md:2",
    "docs/how-to/astra-sim.md:2",
    "docs/how-to/gpu-cluster.md:3",
    "docs/how-to/gpu-cluster.md:4",
    "docs/how-to/gpu-cluster.md:5",
    "docs/how-to/gpu-cluster.md:6",
    "docs/how-to/gpu-cluster.md:7",
    "docs/how-to/stores.md:0",
    "docs/jobs.md:2",
    "docs/libra.md:2",
    "docs/parallelism.md:4",
    "docs/repurpose.md:0",
    "docs/roce.md:0",
    "docs/studies.md:0",
    "docs/testing.md:0",
    "docs/testing.md:1",
    "docs/themis.md:0",
    "docs/tutorials/plugin-author.md:2",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but the first configuration of a class to the full tests where each takes long."""
    seen: set[tuple[object, ...]] = set()
    for item in items:
        name = getattr(item, "originalname", None)
        if (
            name in ("test_commands_run", "test_python_snippets_run")
            and item.name.partition("[")[2].rstrip("]") in _LONG
        ):
            item.add_marker(pytest.mark.slow)
        if name in _ONCE:
            where = name, item.path, getattr(item, "cls", None)
            if where in seen or (name in _CORE and "plugins" in item.path.parts):
                item.add_marker(pytest.mark.slow)
            seen.add(where)
