from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import pytest

from fredfw.plugin import spec
from fredfw.plugin.manager import PluginManager, Registry
from fredfw.plugin.registry import FIRST_PARTY

HOOKS = {name: hook for name, hook in vars(spec).items() if name.startswith("fredfw_")}
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_every_hook_says_what_it_takes_or_whose_classes_it_returns(name: str) -> None:
    text, parameters = str(inspect.getdoc(HOOKS[name])), inspect.signature(HOOKS[name]).parameters
    if parameters:
        assert re.search(r"^Called (at most )?once per ", text, flags=re.MULTILINE)
    catalog = getattr(PluginManager(), name.removeprefix("fredfw_"), None)
    said = [catalog.interface.__name__] if isinstance(catalog, Registry) else parameters
    assert all(re.search(rf"``(fredfw\.)?{one}``", text) for one in said)


def test_the_manager_has_a_registry_or_a_call_for_every_hook() -> None:
    registering = {name for name in HOOKS if not inspect.signature(HOOKS[name]).parameters}
    manager = PluginManager()
    registries = [getattr(manager, name.removeprefix("fredfw_")) for name in HOOKS if name in registering]
    assert registries == [*manager.registries, manager.commands]
    assert set(HOOKS) - registering == set(vars(manager.hook))


@pytest.mark.skipif(not (REPOSITORY / "plugins").is_dir(), reason="the first-party plugins are not beside the tests")
def test_first_party_distributions_are_known() -> None:
    known = {f"fredfw-{kind}-{name}" for kind, names in FIRST_PARTY.items() for name in names}
    for file in (REPOSITORY / "plugins").glob("*/*/pyproject.toml"):
        assert tomllib.loads(file.read_text())["project"]["name"] in known
