"""The hooks around a run; any object shows what they are given."""

import warnings
from typing import Any

import pytest
from given_plugins import Install, discover, given, plugin

from fredfw.errors import PluginError, PluginWarning, SimulationError
from fredfw.plugin.manager import PluginManager

LISTENER = """
from fredfw import hookimpl
from fredfw.errors import SimulationError

@hookimpl
def fredfw_before_run(experiment):
    raise SimulationError("not today")

@hookimpl
def fredfw_after_run(result):
    raise SystemExit(3)

@hookimpl
def fredfw_on_run_error(experiment, error):
    raise KeyError(experiment)
"""


def tell(manager: PluginManager, *hooks: str) -> None:
    failed = {"experiment": 3, "error": ValueError()}
    given: dict[str, Any] = {"before_run": {"experiment": 1}, "after_run": {"result": 2}, "on_run_error": failed}
    for name in hooks or given:
        getattr(manager.hook, f"fredfw_{name}")(**given[name])


def test_a_plugin_that_fails_around_a_run_is_not_called_there_again(install: Install) -> None:
    file = install("bad", LISTENER)
    manager = discover("bad")
    seen: list[object] = []
    hooks: dict[str, Any] = {"fredfw_after_run": lambda result: seen.extend([result])}
    hooks["fredfw_on_run_error"] = lambda experiment, error: seen.extend([experiment, type(error)])
    manager.register(plugin(**hooks), "mine")
    with pytest.warns(PluginWarning) as caught:
        tell(manager)
    start = f"plugin 'bad' (bad 1.0, {file}) fails in fredfw_"
    assert [str(one.message) for one in caught] == [
        f"{start}before_run: SimulationError: not today (line 7); it is left out",
        f"{start}after_run: SystemExit: 3 (line 11); it is left out",
        f"{start}on_run_error: KeyError: 3 (line 15); it is left out",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell(manager)
    assert seen == [2, 3, ValueError] * 2


def test_a_failure_around_a_run_is_an_error_in_strict_mode_or_of_a_plugin_given_by_hand(install: Install) -> None:
    install("bad", LISTENER)
    manager = discover("bad", strict=True)
    with pytest.raises(PluginError, match=r"'bad' \(bad 1\.0, .*\) fails in fredfw_before_run: .*not today"):
        tell(manager, "before_run")
    with pytest.warns(PluginWarning):  # which must not hide the error of the run
        tell(manager, "on_run_error")

    def before(experiment: object) -> None:
        raise SimulationError("stop")

    def after(result: object) -> None:
        raise KeyError("defect")

    manager = given(fredfw_before_run=before, fredfw_after_run=after)
    with pytest.raises(SimulationError, match="stop"):
        tell(manager, "before_run")
    with pytest.raises(PluginError, match=r"'mine' .* fails in fredfw_after_run: KeyError: 'defect'"):
        tell(manager, "after_run")
