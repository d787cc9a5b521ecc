import inspect
import re
import tomllib
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import frozen
from given_plugins import Install, discover, warned

import fredfw
from fredfw import CollectiveAlgorithm, Pattern
from fredfw.errors import PluginError
from fredfw.plugin import contract, hookimpl, spec
from fredfw.plugin.manager import PluginManager, Registry
from fredfw.plugin.registry import FIRST_PARTY

REPOSITORY = Path(__file__).parents[2]


class Bundle:
    """Hooks of an object, which declares nothing itself."""

    @hookimpl
    def fredfw_topologies(self) -> None: ...


class Declaring(Bundle):
    def __init__(self, version: object) -> None:
        self.fredfw_contract = version


def test_a_plugin_of_this_contract_is_used() -> None:
    assert 1 <= contract.OLDEST_CONTRACT <= fredfw.CONTRACT_VERSION
    for plugin in (Declaring(fredfw.CONTRACT_VERSION), Declaring(contract.OLDEST_CONTRACT), Bundle()):
        PluginManager().register(plugin, "mine")


@pytest.mark.parametrize(
    ("version", "cause"),
    [
        (fredfw.CONTRACT_VERSION + 1, f"has version {fredfw.CONTRACT_VERSION}: upgrade fredfw, see docs/api-policy.md"),
        (contract.OLDEST_CONTRACT - 1, f"serves is {contract.OLDEST_CONTRACT}: update the plugin, see docs/api-policy"),
        *((one, f"declares fredfw_contract = {one!r}, which is not a whole number") for one in ("1", True)),
    ],
)
def test_another_contract_says_what_to_do(install: Install, version: object, cause: str) -> None:
    with pytest.raises(PluginError, match=cause):
        PluginManager().register(Declaring(version), "mine")
    # In a module; also where the entry point names an object in it. What a later contract has may be no hook today.
    hooks = "from fredfw import hookimpl\n@hookimpl\ndef fredfw_dreams(): pass\nclass Bundle: pass\n"
    for name, point in (("acme", "acme"), ("other", "other:Bundle")):
        file = install(name, f"{hooks}fredfw_contract = {version!r}\n", point=point)
        warning = warned(partial(discover, name))[1]
        assert warning.startswith(f"plugin '{name}' ({name} 1.0, {file}) ")
        assert cause in warning
        assert "fredfw_dreams" not in warning
        with pytest.raises(PluginError, match=cause):
            discover(name, strict=True)


@frozen
class Right(CollectiveAlgorithm):
    """One that keeps to the interface."""

    name: ClassVar[str] = "right"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.BROADCAST})

    def schedule(self, request: Any, view: Any) -> Any: ...


def takes(*names: str) -> Any:
    return eval(f"lambda {', '.join(names)}: None")


CALLED = ", which is called with (request, view)"


@pytest.mark.parametrize(
    ("members", "wrong"),
    [
        ({}, ""),
        *(({"schedule": takes(*names)}, "") for names in (("self", "what", "where", "more=0"), ("*everything",))),
        ({"schedule": staticmethod(takes("request", "view"))}, ""),
        ({"schedule": cache(takes("self", "request", "view"))}, ""),
        ({"variants": classmethod(takes("cls", "pattern"))}, ""),
        ({"refusal": print}, ""),  # of what is written in C nothing is known
        ({"helper": takes()}, ""),
        ({"schedule": takes("self", "request")}, f"defines schedule(request){CALLED}"),
        ({"schedule": takes("self", "*", "request", "view")}, f"defines schedule(*, request, view){CALLED}"),
        ({"schedule": takes()}, "defines schedule without self"),
        ({"schedule": property(takes("self"))}, "defines schedule as a property, which is not a method"),
        ({"variants": classmethod(takes("cls"))}, "defines variants(), which is called with (pattern)"),
    ],
)
def test_methods_can_be_called_as_the_interface_says(members: dict[str, Any], wrong: str) -> None:
    violations = contract.class_violations(type("Mine", (Right,), members), CollectiveAlgorithm)
    assert "; ".join(violations) == wrong


@pytest.mark.parametrize("interface", [one.interface for one in PluginManager().registries])
def test_every_interface_has_methods_with_parameters_to_compare(interface: type) -> None:
    undefined = interface.__abstractmethods__  # type: ignore[attr-defined]  # all interfaces are abstract
    mine = type("Mine", (interface,), {"name": "mine", "patterns": (), **{name: takes() for name in undefined}})
    assert set(contract.class_violations(mine, interface)) == {f"defines {name} without self" for name in undefined}


@pytest.mark.skipif(not (REPOSITORY / "plugins").is_dir(), reason="the first-party plugins are not beside the tests")
def test_first_party_distributions_are_known_and_declare_the_current_contract() -> None:
    modules = list(REPOSITORY.glob("plugins/*/*/src/*/__init__.py"))
    assert modules
    for file in modules:
        assert f"\nfredfw_contract = {fredfw.CONTRACT_VERSION}\n" in file.read_text(encoding="utf-8"), file
    known = {f"fredfw-{kind}-{name}" for kind, names in FIRST_PARTY.items() for name in names}
    for file in (REPOSITORY / "plugins").glob("*/*/pyproject.toml"):
        assert tomllib.loads(file.read_text())["project"]["name"] in known


HOOKS = {name: hook for name, hook in vars(spec).items() if name.startswith("fredfw_")}


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
