from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

import fredfw.plugin
from fredfw.framework import Framework
from fredfw.plugin import spec
from fredfw.plugin.manager import LifecycleHooks, PluginManager, Registry, Switches
from fredfw.plugin.registry import FIRST_PARTY

HOOKS = {name: hook for name, hook in vars(spec).items() if name.startswith("fredfw_")}
LIFECYCLE = {name for name in vars(LifecycleHooks) if name.startswith("fredfw_")}
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_every_hook_says_what_it_takes_or_whose_classes_it_returns(name: str) -> None:
    text, parameters = str(inspect.getdoc(HOOKS[name])), inspect.signature(HOOKS[name]).parameters
    if parameters:
        assert re.search(r"^Called (at most )?once per ", text, flags=re.MULTILINE)
    catalog = getattr(PluginManager(), name.removeprefix("fredfw_"), None)
    said = [catalog.interface.__name__] if isinstance(catalog, Registry) else parameters
    assert all(re.search(rf"``(fredfw\.)?{one}``", text) for one in said)


def test_the_manager_has_a_typed_registry_or_method_for_every_hook() -> None:
    registering = {name for name in HOOKS if not inspect.signature(HOOKS[name]).parameters}
    manager = PluginManager()
    registries = [getattr(manager, name.removeprefix("fredfw_")) for name in HOOKS if name in registering]
    assert registries == [*manager.registries, manager.commands]
    assert set(HOOKS) - registering == LIFECYCLE
    for name in LIFECYCLE:
        expected = list(inspect.signature(HOOKS[name]).parameters)
        assert list(inspect.signature(getattr(LifecycleHooks, name)).parameters) == ["self", *expected]


def test_the_tutorial_is_a_plugin_that_works(tmp_path: Path) -> None:
    text = inspect.getdoc(fredfw.plugin) or ""
    code = text.split("::\n", 1)[1].split("\nSaved as", 1)[0]
    file = tmp_path / "loop.py"
    file.write_text(dedent(code))
    manager = PluginManager.discover(Switches(allow=frozenset({"core"})))
    manager.load_file(file)
    framework = Framework(manager)
    fabric = framework.topology("loop", npus=5, link_latency="1 us").build()
    assert len(fabric.npus) == 5
    assert len(fabric.sources) == 10
    assert set(fabric.bandwidths) == {100e9}
    assert set(fabric.latencies) == {1e-6}
    # A broadcast to one neighbour is one link's latency and its bytes at one link's rate.
    result = framework.simulate_collective(fabric, "broadcast", size="1 GB", group=[0, 1], algorithm="direct")
    assert result.duration == pytest.approx(1e9 / 100e9 + 1e-6, rel=1e-12)


@pytest.mark.skipif(not (REPOSITORY / "plugins").is_dir(), reason="the first-party plugins are not beside the tests")
def test_first_party_distributions_are_known() -> None:
    known = {f"fredfw-{kind}-{name}" for kind, names in FIRST_PARTY.items() for name in names}
    for file in (REPOSITORY / "plugins").glob("*/*/pyproject.toml"):
        assert tomllib.loads(file.read_text())["project"]["name"] in known
