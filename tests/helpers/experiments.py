"""Experiments given as tables, run with all installed plugins, and what is refused of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from given_plugins import plugin

from fredfw import Comparison, Framework, RunResult
from fredfw.errors import InputError

FRAMEWORK = Framework()
SMALL = {"name": "transformer", "layers": 4, "hidden": 64, "sequence": 32, "heads": 4, "vocabulary": 100}
PEAK = "computations run at the whole peak of 989.4 TFLOP/s: npu.efficiency says another share"


def hooked(**functions: Callable[..., object]) -> Framework:
    framework = Framework()
    framework.plugins.register(plugin(**functions), "given")
    return framework


def run(tables: Mapping[str, Any], **options: Any) -> RunResult:
    return FRAMEWORK.run(FRAMEWORK.load_experiment(tables), **options)


def compare(tables: Mapping[str, Any], **options: Any) -> Comparison:
    return FRAMEWORK.compare(FRAMEWORK.load_experiment(tables), **options)


@contextmanager
def refused(
    key: str | None,
    message: str = "",
    accepted: str = "",
    *,
    file: str | None = None,
    error: type[InputError] = InputError,
) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """Make sure that what is done inside is refused because of ``key``, with a message and what is accepted."""
    with pytest.raises(error) as caught:
        yield caught
    found = caught.value
    assert (found.file, found.key) == (file, key), found
    assert message in found.message, found
    assert found.accepted, found
    assert accepted in found.accepted, found
