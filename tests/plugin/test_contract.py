from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import fredfw
from fredfw.errors import PluginError, PluginWarning
from fredfw.plugin import contract, hookimpl
from fredfw.plugin.manager import PluginManager, Switches

Install = Callable[..., Path]
REPOSITORY = Path(__file__).parents[2]


class Bundle:
    """Hooks of an object, which declares nothing itself."""

    @hookimpl
    def fredfw_topologies(self) -> None:
        """Register nothing."""


class Declaring(Bundle):
    def __init__(self, version: object) -> None:
        self.fredfw_contract = version


def test_a_plugin_of_this_contract_is_used() -> None:
    for plugin in (Declaring(fredfw.CONTRACT_VERSION), Declaring(contract.OLDEST_CONTRACT), Bundle()):
        PluginManager().register(plugin, "mine")


def test_the_oldest_contract_is_not_above_the_current() -> None:
    assert 1 <= contract.OLDEST_CONTRACT <= fredfw.CONTRACT_VERSION


@pytest.mark.parametrize(
    ("version", "cause"),
    [
        (fredfw.CONTRACT_VERSION + 1, f"has version {fredfw.CONTRACT_VERSION}: upgrade fredfw, see docs/api-policy.md"),
        (contract.OLDEST_CONTRACT - 1, f"serves is {contract.OLDEST_CONTRACT}: update the plugin, see docs/api-policy"),
        ("1", "declares fredfw_contract = '1', which is no whole number"),
        (True, "declares fredfw_contract = True, which is no whole number"),
        (1.5, "declares fredfw_contract = 1.5, which is no whole number"),
    ],
)
def test_another_contract_says_what_to_do(install: Install, version: object, cause: str) -> None:
    with pytest.raises(PluginError, match=cause):
        PluginManager().register(Declaring(version), "mine")
    # In a module; also where the entry point names an object in it. What a later contract has may be no hook today.
    hooks = "from fredfw import hookimpl\n@hookimpl\ndef fredfw_dreams(): pass\nclass Bundle: pass\n"
    for name, point in (("acme", "acme"), ("other", "other:Bundle")):
        file = install(name, f"{hooks}fredfw_contract = {version!r}\n", point=point)
        with pytest.warns(PluginWarning) as caught:
            PluginManager.discover(Switches(allow=frozenset({name})))
        (warning,) = caught
        assert str(warning.message).startswith(f"plugin '{name}' ({name} 1.0, {file}) ")
        assert cause in str(warning.message)
        assert "fredfw_dreams" not in str(warning.message)
        with pytest.raises(PluginError, match=cause):
            PluginManager.discover(Switches(allow=frozenset({name}), strict=True))


@pytest.mark.skipif(not (REPOSITORY / "plugins").is_dir(), reason="the first-party plugins are not beside the tests")
def test_first_party_plugins_declare_the_current_contract() -> None:
    modules = list(REPOSITORY.glob("plugins/*/*/src/*/__init__.py"))
    assert modules
    for file in modules:
        declared = [
            node.value.value
            for node in ast.parse(file.read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name) and target.id == "fredfw_contract"
        ]
        assert declared == [fredfw.CONTRACT_VERSION], file
