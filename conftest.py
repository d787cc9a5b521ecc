"""What all tests have in common."""

from __future__ import annotations

from contextlib import suppress

import pytest

with suppress(ImportError):  # the tests of third-party packages run without it
    from hypothesis import settings

    # How long an example takes depends on what else the machine does.
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")

_PROCESS = "test_is_the_same_in_another_process"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but the first configuration of a class to the full tests where each starts another Python."""
    seen: set[tuple[object, ...]] = set()
    for item in items:
        name = getattr(item, "originalname", None)
        if name == _PROCESS:
            where = item.path, getattr(item, "cls", None)
            if where in seen:
                item.add_marker(pytest.mark.slow)
            seen.add(where)
