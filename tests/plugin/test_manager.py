from __future__ import annotations

import hashlib
import re
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any, ClassVar, TypeVar

import pytest
from attrs import frozen

import fredfw
from fredfw.cli.compare import compare
from fredfw.errors import BrokenPluginError, InputError, PluginError, PluginWarning, SimulationError, UnknownNameError
from fredfw.fabric import Fabric, ShortestPathRouter, Topology
from fredfw.plugin import hookimpl
from fredfw.plugin.manager import LifecycleHooks, PluginManager, Switches
from fredfw.plugin.origin import code_digest
from fredfw.plugin.registry import FIRST_PARTY, Catalog
from fredfw.workloads import LinearPlacement

Install = Callable[..., Path]
Source = Callable[..., str]
T = TypeVar("T")


def only(*names: str, **more: object) -> Switches:
    """Return switches that hide whatever else is installed where the tests run."""
    return Switches(allow=frozenset(names), **more)  # type: ignore[arg-type]  # the callers give what it takes


def plugin(**functions: Callable[..., object]) -> types.ModuleType:
    """Return a module with hook implementations."""
    module = types.ModuleType("plugin")
    vars(module).update({name: hookimpl(function) for name, function in functions.items()})
    return module


@frozen
class Loop(Topology):
    name: ClassVar[str] = "loop"

    def build(self) -> Fabric:
        raise NotImplementedError


@frozen
class OtherLoop(Loop):
    pass


def discover(*names: str, **more: object) -> PluginManager:
    """Return a manager of the core's own plugins and some others."""
    return PluginManager.discover(only(*names, **more))


def given(**functions: Callable[..., object]) -> PluginManager:
    """Return a manager of a plugin that was given by hand, with these hooks."""
    manager = PluginManager()
    manager.register(plugin(**functions), "mine")
    return manager


def warned(call: Callable[[], T]) -> tuple[T, str]:
    """Return what a call returns, and its only warning."""
    with pytest.warns(PluginWarning) as caught:
        found = call()
    (warning,) = caught
    return found, str(warning.message)


def unknown(catalog: Catalog[Any], name: str) -> str:
    """Return what is said of a name that no plugin is blamed for."""
    with pytest.raises(UnknownNameError) as error:
        catalog.get(name)
    assert not isinstance(error.value, PluginError)
    return str(error.value)


# --- discovery


def test_an_installed_plugin_is_found(install: Install, topology: Source) -> None:
    file = install("acme", topology("acme-ring"))
    manager = discover("acme")
    assert manager.topologies.names() == ("acme-ring",)
    assert manager.topologies.get("acme-ring").__name__ == "Acme"
    info = manager.topologies.info("acme-ring")
    assert (info.kind, info.name, info.distribution, info.version) == ("topology", "acme-ring", "acme", "1.0")
    assert info.location == str(file)
    # An entry point may also name an object.
    bundle = "\nclass Bundle:\n    fredfw_topologies = staticmethod(fredfw_topologies)\n"
    install("other", topology("other-ring") + bundle, point="other:Bundle")
    assert discover("other").topologies.names() == ("other-ring",)


HOOK = "from fredfw.plugin import hookimpl\n@hookimpl\ndef fredfw_"
OTHER = "it is written for another version of fredfw, see docs/api-policy.md"


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import no_such_module", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("def broken(:", "cannot be imported: SyntaxError"),
        (f"{HOOK}topologys(): return []", "topologys, which is not a hook; did you mean 'fredfw_topologies'?"),
        (f"{HOOK}topologies(fabric): return []", "implements fredfw_topologies(fabric), which is called with () only"),
        (f"{HOOK}after_run(result, *, more): pass", "after_run(result, more), which is called with (result) only"),
        (f"{HOOK}after_run(result=None): pass", "after_run(result=None), which is called with (result) only"),
        (
            f"{HOOK}topologys(): pass\ndef fredfw_routers(): pass",
            "defines fredfw_routers without @hookimpl; it implements fredfw_topologys, which is not a hook",
        ),
        ("from fredfw import NoSuchInterface", OTHER),
        ("from fredfw.no_such_module import Topology", OTHER),
        (f"{HOOK}topologies(): pass".replace("impl\ndef", "impl(specname='fredfw_routers')\ndef"), "another name or"),
        ("def fredfw_topologies(): return []", "defines fredfw_topologies without @hookimpl"),
        ("x = 1", "implements no hook"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_left_out(install: Install, topology: Source, source: str, cause: str) -> None:
    file = install("bad", source)
    install("good", topology("good-ring"))
    manager, warning = warned(lambda: discover("bad", "good"))
    assert warning.startswith(f"plugin 'bad' (bad 1.0, {file}) ")
    assert cause in warning
    assert manager.topologies.names() == ("good-ring",)
    # What it may have provided is an error that repeats the cause ...
    with pytest.raises(PluginError, match=r"no topology 'bad-ring'.*bad 1\.0, ") as error:
        manager.topologies.get("bad-ring")
    assert cause in str(error.value)
    assert isinstance(error.value, InputError)
    # ... and what it never would is not blamed on it.
    unknown(manager.topologies, "torus")
    # In strict mode it is an error at once.
    with pytest.raises(PluginError, match=r"bad 1\.0, "):
        discover("bad", "good", strict=True)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("return 'Mesh'", "returns 'Mesh' from fredfw_topologies, not a sequence of classes"),
        ("return 3", "returns 3 from"),
        ("return [3]", r"returns [3] from"),
        ("quit()", "fails in fredfw_topologies: SystemExit: None"),
        ("raise KeyError('x')", "fails in fredfw_topologies: KeyError: 'x'"),
    ],
)
def test_a_hook_that_returns_junk_is_left_out(install: Install, topology: Source, body: str, cause: str) -> None:
    install("bad", f"{HOOK}topologies(): {body}\n")
    install("good", topology("good-ring"))
    manager = discover("bad", "good")
    names, warning = warned(manager.topologies.names)
    assert names == ("good-ring",)
    assert cause in warning
    with pytest.raises(BrokenPluginError, match=r"bad 1\.0, "):
        manager.topologies.get("nothing")
    unknown(manager.routers, "nothing")  # it was no router that it failed to give
    with pytest.raises(PluginError, match=r"bad 1\.0, "):
        discover("bad", "good", strict=True)


def test_a_broken_plugin_is_blamed_for_the_name_of_its_distribution_or_entry_point(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIRST_PARTY, "topology", ("dragonfly",))
    install("fredfw-topology-dragonfly", "1 / 0", entry="dragonfly")
    install("other", "1 / 0", entry="loop")
    with pytest.warns(PluginWarning):
        manager = discover("dragonfly", "other")
    with pytest.raises(BrokenPluginError, match=r"fredfw-topology-dragonfly 1\.0.*ZeroDivisionError") as error:
        manager.topologies.get("dragonfly")
    assert "other" not in str(error.value)


# --- switches


def test_blocked_plugins_are_not_imported(install: Install, topology: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIRST_PARTY, "topology", ("dragonfly",))
    install("fredfw-topology-dragonfly", "1 / 0", entry="dragonfly")
    install("good", topology("good-ring"))
    for name in ("dragonfly", "fredfw-topology-dragonfly", "Fredfw_Topology.Dragonfly"):
        manager = PluginManager.discover(Switches(block=frozenset({name})))
        assert "good-ring" in manager.topologies
        assert re.search(r"topology-dragonfly 1\.0.* is switched off", unknown(manager.topologies, "dragonfly"))


def test_allowed_plugins_are_the_only_ones(install: Install, topology: Source) -> None:
    bad = install("bad", "1 / 0")
    install("good", topology("good-ring"))
    manager = discover("good")
    assert manager.topologies.names() == ("good-ring",)
    assert [str(one) for one in manager.left_out if one.plugin.name == "bad"] == [
        f"plugin 'bad' (bad 1.0, {bad}) is switched off"
    ]
    assert "max-min" in manager.sharing_policies
    assert "max-min" not in discover("good", block=frozenset({"core"})).sharing_policies


def test_allowing_what_is_not_installed_is_an_error_and_blocking_it_a_warning(
    install: Install, topology: Source
) -> None:
    install("good", topology("good-ring"))
    with pytest.raises(UnknownNameError, match=r"no plugin 'goood' is installed; did you mean 'good'\?"):
        discover("goood")
    manager, warning = warned(lambda: PluginManager.discover(Switches(block=frozenset({"goood"}))))
    assert re.match(r"no plugin 'goood' is installed.*; did you mean 'good'\?", warning)
    assert "good-ring" in manager.topologies


def test_switches_from_the_environment() -> None:
    lines: list[str] = []
    assert Switches.from_environment({}, trace=lines.append) == Switches()
    switches = Switches.from_environment(
        {"FREDFW_DISABLE_PLUGINS": "a, b,,", "FREDFW_PLUGINS": "c", "FREDFW_TRACE_HOOKS": "1"}, trace=lines.append
    )
    assert switches == Switches(block=frozenset("ab"), allow=frozenset("c"), trace=lines.append)
    assert Switches.from_environment({"FREDFW_TRACE_HOOKS": "0"}, trace=lines.append).trace is None


def test_the_environment_is_the_default(install: Install, topology: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    install("good", topology("good-ring"))
    monkeypatch.setenv("FREDFW_DISABLE_PLUGINS", "good")
    assert "good-ring" not in PluginManager.discover().topologies


def test_hook_calls_are_traced() -> None:
    lines: list[str] = []
    manager = PluginManager(Switches(trace=lines.append))
    manager.register(plugin(fredfw_topologies=lambda: [Loop]), "mine")
    manager.topologies.names()
    assert any("fredfw_topologies" in line and "Loop" in line for line in lines)


# --- registries


def test_registries_are_sorted_and_built_once() -> None:
    calls = []

    @frozen
    class Arch(Loop):
        name: ClassVar[str] = "arch"

    def topologies() -> list[type[Topology]]:
        calls.append(1)
        return [Loop, Arch]

    manager = given(fredfw_topologies=topologies)
    assert not calls
    assert manager.topologies.names() == ("arch", "loop")
    assert list(manager.topologies) == [Arch, Loop]
    assert len(manager.topologies) == 2
    assert [info.name for info in manager.topologies.infos()] == ["arch", "loop"]
    assert manager.topologies.get("loop") is Loop
    assert len(calls) == 1
    assert given(fredfw_topologies=lambda: None).topologies.names() == ()


@pytest.mark.parametrize("order", [("one", "two", "good"), ("good", "two", "one")])
def test_a_name_registered_twice_is_nobodys_in_any_order(
    install: Install, topology: Source, order: tuple[str, ...]
) -> None:
    files = {name: install(name, topology("good-ring" if name == "good" else "same")) for name in order}
    both = (
        f"plugin 'one' (one 1.0, {files['one']}) and plugin 'two' (two 1.0, {files['two']}) "
        "both register the topology 'same', of which all but one must be switched off: "
        "FREDFW_DISABLE_PLUGINS=one or two"
    )
    manager = discover(*order)
    assert warned(manager.topologies.names) == (("good-ring",), f"{both}; it is left out")
    with pytest.raises(BrokenPluginError) as error:
        manager.topologies.get("same")
    assert both in str(error.value)
    unknown(manager.topologies, "other")  # that name only
    with pytest.raises(PluginError) as strict:
        discover(*order, strict=True).topologies.names()
    assert str(strict.value) == both
    # Until one of them is switched off.
    block = frozenset({"two"})
    assert "same" in discover(*order, block=block).topologies


def test_a_name_registered_three_times_names_them_all(install: Install, topology: Source) -> None:
    for name in ("a", "b", "c"):
        install(name, topology("same"))
    manager = discover("a", "b", "c")
    with pytest.warns(PluginWarning, match=r"'a' .* and plugin 'b' .* and plugin 'c' .* all register .* 'same'"):
        assert "same" not in manager.topologies


def test_a_plugin_given_by_hand_may_not_take_a_name(install: Install, topology: Source, tmp_path: Path) -> None:
    install("acme", topology("same"))
    file = tmp_path / "mine.py"
    file.write_text(topology("same"))
    manager = discover("acme")
    manager.load_file(file)
    both = r"'mine\.py' .* and plugin 'acme' .* both register the topology 'same'"
    off = "must be switched off: FREDFW_DISABLE_PLUGINS=acme, or drop mine.py from `plugins` and --plugin$"
    with pytest.raises(PluginError, match=f"{both}.* {off}"):
        manager.topologies.names()


def test_a_name_of_the_core_stays_with_the_core(install: Install) -> None:
    source = """
        from typing import Any, ClassVar
        import click
        from attrs import frozen
        from fredfw import Placement, hookimpl
        from fredfw.workloads import LinearPlacement
        @frozen
        class Mine(LinearPlacement):
            name: ClassVar[str] = "linear"
        @frozen
        class Other(LinearPlacement):
            name: ClassVar[str] = "other"
        @hookimpl
        def fredfw_placements(): return [Mine, Other]
        @hookimpl
        def fredfw_commands(): return [click.Command("compare"), click.Command("contrast")]
    """
    file = install("acme", source)
    manager = discover("acme")
    core = "a name that plugin 'core' (fredfw "
    names, warning = warned(manager.placements.names)
    assert names == ("linear", "megatron", "nested", "other", "snake")
    assert warning.startswith(f"plugin 'acme' (acme 1.0, {file}) registers the placement 'linear', {core}")
    names, warning = warned(manager.commands.names)
    assert "contrast" in names
    assert warning.startswith(f"plugin 'acme' (acme 1.0, {file}) registers the command 'compare', {core}")
    assert manager.placements.get("linear") is LinearPlacement
    assert manager.commands.get("compare") is compare
    with pytest.raises(PluginError, match="registers the placement 'linear'"):
        discover("acme", strict=True).placements.names()


def test_a_name_inherited_from_another_class_is_there_twice() -> None:
    manager = given(fredfw_topologies=lambda: [Loop, OtherLoop])
    with pytest.raises(PluginError, match=r"registers the topology 'loop' more than once: Loop .* and OtherLoop"):
        manager.topologies.names()


def made(cls: str, **members: Any) -> type:
    return type(cls, (Topology,), members)


def build(self: Topology) -> Fabric:
    raise NotImplementedError


BAD_CLASSES = [
    (LinearPlacement, r"LinearPlacement \(\S+placement\.py\), which is not a subclass of Topology"),
    (frozen(made("Abstract", name="abstract")), "which does not define build"),
    (frozen(made("Nameless", build=build)), "which has no name"),
    (frozen(made("NameIsAField", build=build, name="x", __annotations__={"name": str})), "which has no name"),
    (made("NoAttrs", build=build, name="no-attrs"), "which is not an attrs class"),
    (
        frozen(made("Unresolved", build=build, name="unresolved", __annotations__={"size": "nowhere.Size"})),
        "which cannot be configured: .* NameError: name 'nowhere' is not defined",
    ),
]


@pytest.mark.parametrize(("cls", "what"), BAD_CLASSES)
def test_a_class_that_breaks_the_contract_is_an_error_of_a_plugin_given_by_hand(cls: type, what: str) -> None:
    manager = given(fredfw_topologies=lambda: [cls])
    with pytest.raises(PluginError, match=what) as error:
        manager.topologies.names()
    start = f"plugin 'mine' (registered in process) registers the topology {cls.__name__} ("
    assert str(error.value).startswith(start)


def test_a_class_that_breaks_the_contract_is_left_out_alone(install: Install, topology: Source) -> None:
    source = topology("acme-ring") + dedent(
        """
        @frozen
        class Late(Acme):
            name: ClassVar[str] = "late"
            size: undefined

        @hookimpl
        def fredfw_routers():
            return [Acme]
        """
    )
    file = install("acme", "from __future__ import annotations\n" + source.replace("[Acme]", "[Acme, Late]", 1))
    manager = discover("acme")
    names, warning = warned(manager.topologies.names)
    assert names == ("acme-ring",)
    assert warning.startswith(f"plugin 'acme' (acme 1.0, {file}) registers the topology Late, which cannot")
    assert "NameError: name 'undefined' is not defined" in warning
    with pytest.raises(BrokenPluginError, match=r"no topology 'late'.*'undefined'"):
        manager.topologies.get("late")
    with pytest.warns(PluginWarning, match="registers the router Acme, which is not a subclass of Router"):
        assert "acme-ring" not in manager.routers
    with pytest.raises(PluginError, match=r"acme 1\.0, .*'undefined'"):
        discover("acme", strict=True).topologies.names()


@pytest.mark.parametrize(
    ("field", "cause"),
    [("chunks: int", "TypeError: .*'chunks'"), ("chunks: int = units.option('x', validator=units.whole(1))", "'x'")],
)
def test_options_need_defaults_that_can_be_used(install: Install, field: str, cause: str) -> None:
    source = f"""
        from typing import Any, ClassVar
        from attrs import frozen
        from fredfw import hookimpl, units
        from fredfw.collectives.direct import DirectAlgorithm
        @frozen
        class Mine(DirectAlgorithm):
            name: ClassVar[str] = "mine"
            {field}
        @hookimpl
        def fredfw_collectives(): return [Mine]
    """
    install("acme", source)
    manager = discover("acme")
    with pytest.warns(PluginWarning, match=f"collective Mine, which cannot be made with its defaults: .*{cause}"):
        assert manager.collectives.names() == ("direct",)


def test_an_unknown_name_gives_the_nearest_and_all() -> None:
    manager = discover("core")
    every = "circuit-preempt, max-min, strict-links, weighted-max-min"
    with pytest.raises(UnknownNameError, match=rf"no sharing policy 'maxmin'; did you mean 'max-min'\?.*: {every}\)$"):
        manager.sharing_policies.get("maxmin")


def test_an_unknown_name_gives_the_distribution_that_would_provide_it() -> None:
    with pytest.raises(UnknownNameError, match="fredfw-topology-torus would provide it, which is not installed"):
        PluginManager().topologies.get("torus")
    assert "distribution" not in unknown(PluginManager().workloads, "torus")  # a torus is no workload


# --- commands


def test_commands_are_registered_by_name(install: Install) -> None:
    file = install("acme", COMMANDS.format(names=["b", "a"]))
    commands = discover("acme").commands
    assert commands.names()[:2] == ("a", "b")  # and those of the core, where it is installed
    assert [command.name for command in commands] == list(commands.names())
    info = commands.info("b")
    assert (info.kind, info.name, info.distribution, info.version) == ("command", "b", "acme", "1.0")
    assert info.location == str(file)
    with pytest.raises(UnknownNameError, match="no command 'c'"):
        commands.get("c")


COMMANDS = """
from fredfw.plugin import hookimpl
@hookimpl
def fredfw_commands():
    import click
    return [click.Command(name) for name in {names}]
"""


@pytest.mark.parametrize("body", ["return [print]", "return [3]", "return 'run'", "import no_such_module"])
def test_what_is_no_command_is_left_out(install: Install, body: str) -> None:
    install("bad", f"{HOOK}commands():\n    {body}\n")
    install("good", COMMANDS.format(names=["fine"]))
    manager = discover("bad", "good")
    names, warning = warned(manager.commands.names)
    assert "fine" in names
    assert re.match(r"plugin 'bad' \(bad 1\.0, \S+\) (returns .* from|fails in) fredfw_commands", warning)
    with pytest.raises(BrokenPluginError, match=r"no command 'find'; did you mean 'fine'\?; plugin 'bad'"):
        manager.commands.get("find")
    with pytest.raises(PluginError, match=r"bad 1\.0, "):
        discover("bad", strict=True).commands.names()


def test_a_command_needs_a_name(install: Install) -> None:
    install("acme", COMMANDS.format(names=[None, "fine"]))
    commands = discover("acme").commands
    with pytest.warns(PluginWarning, match=r"'acme' .* registers the command <Command None>, which has no name"):
        assert "fine" in commands


# --- plugins given by hand


def test_registering_after_a_look_up_is_seen_by_that_manager_alone() -> None:
    manager, other = PluginManager(), PluginManager()
    assert "loop" not in manager.topologies
    manager.register(plugin(fredfw_topologies=lambda: [Loop]), "mine")
    assert "loop" in manager.topologies
    assert "loop" not in other.topologies


def test_a_plugin_given_by_hand_that_cannot_be_used_is_an_error() -> None:
    manager = discover("core")
    mine = plugin(fredfw_topologies=lambda: [Loop])
    manager.register(mine, "mine")
    with pytest.raises(PluginError, match="already registered"):
        manager.register(mine, "again")
    with pytest.raises(PluginError, match="fredfw_topologys, which is not a hook"):
        manager.register(plugin(fredfw_topologys=lambda: None), "misspelt")
    with pytest.raises(PluginError, match=r"implements fredfw_topologies\(fabric\), which is called with \(\) only"):
        manager.register(plugin(fredfw_topologies=lambda fabric: [fabric]), "parameters")
    with pytest.raises(PluginError, match="cannot be hashed"):
        manager.register(types.SimpleNamespace(), "unhashable")
    # Nothing of them stays behind.
    assert manager.topologies.names() == ("loop",)
    manager = PluginManager()
    manager.register(plugin(fredfw_topologies=lambda: "junk"), "junk")
    with pytest.raises(PluginError, match="returns 'junk'"):
        manager.topologies.names()


def test_a_file_is_a_plugin(tmp_path: Path, topology: Source) -> None:
    file = tmp_path / "mine.py"
    file.write_text(topology("from-a-file"))
    manager = PluginManager()
    manager.load_file(file)
    info = manager.topologies.info("from-a-file")
    assert (info.distribution, info.version, info.location) == (None, None, str(file))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert manager.versions(used=list(manager.topologies)) == {"mine.py": f"sha256:{digest}"}
    PluginManager().load_file(str(file))  # another manager may have it, too


def test_a_file_is_loaded_once(tmp_path: Path, topology: Source) -> None:
    file = tmp_path / "mine.py"
    file.write_text(topology("from-a-file"))
    manager = PluginManager()
    manager.load_file(file)
    cls = manager.topologies.get("from-a-file")
    manager.load_file(tmp_path / "elsewhere" / ".." / "mine.py")
    assert manager.topologies.get("from-a-file") is cls
    file.write_text(topology("another-name"))
    with pytest.raises(InputError, match=r"mine\.py: has changed since it was loaded"):
        manager.load_file(file)
    fresh = PluginManager()
    fresh.load_file(file)
    assert fresh.topologies.names() == ("another-name",)
    assert list(tmp_path.iterdir()) == [file]  # nothing compiled is left beside it


def test_files_of_one_name_are_both_recorded(tmp_path: Path, topology: Source) -> None:
    manager = PluginManager()
    for name in ("one", "other"):
        file = tmp_path / name / "mine.py"
        file.parent.mkdir()
        file.write_text(topology(name))
        manager.load_file(file)
    (versions,) = manager.versions(used=list(manager.topologies)).values()
    digests = [hashlib.sha256((tmp_path / name / "mine.py").read_bytes()).hexdigest() for name in ("one", "other")]
    assert versions == ", ".join(sorted(f"sha256:{digest}" for digest in digests))


def test_a_file_that_is_no_plugin(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.py: does not exist"):
        PluginManager().load_file(tmp_path / "absent.py")
    with pytest.raises(InputError, match="is not a Python file"):
        PluginManager().load_file(tmp_path)
    (tmp_path / "bad.py").write_text("1 / 0")
    before = set(sys.modules)
    with pytest.raises(PluginError, match=r"'bad\.py' \(.*bad\.py\) cannot be imported: .*\(line 1\)"):
        PluginManager().load_file(tmp_path / "bad.py")
    (tmp_path / "misspelt.py").write_text("from fredfw import hookimp")
    with pytest.raises(PluginError, match=r"cannot import name 'hookimp' .*\(line 1\); did you mean 'hookimpl'\?$"):
        PluginManager().load_file(tmp_path / "misspelt.py")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(PluginError, match=r"'empty\.py' \(/.*empty\.py\) implements no"):
        PluginManager().load_file(tmp_path / "empty.py")
    assert not {name for name in set(sys.modules) - before if name.startswith("fredfw_file")}


# --- what results record


def test_versions_are_those_of_what_was_used(install: Install, topology: Source) -> None:
    install("acme-ring", topology("acme-ring", "AcmeRing"))
    install("acme-mesh", topology("acme-mesh", "AcmeMesh"))
    manager = discover("acme-ring", "acme-mesh")
    assert manager.versions(used=[manager.topologies.get("acme-ring")]) == {"acme-ring": "1.0"}


def test_versions_know_classes_that_are_not_registered() -> None:
    manager = discover("core")
    assert manager.versions(used=[Topology, ShortestPathRouter]) == {"fredfw": fredfw.__version__}
    assert manager.versions(used=[dict]) == {"builtins": "no plugin"}


# --- lifecycle


def test_lifecycle_hooks_are_called() -> None:
    seen: list[object] = []

    def before(experiment: object) -> None:
        seen.append(experiment)

    def failed(experiment: object, error: Exception) -> None:
        seen.append((experiment, error))

    manager = given(fredfw_before_run=before, fredfw_on_run_error=failed)
    error = ValueError()
    manager.hook.fredfw_before_run(experiment=1)  # type: ignore[arg-type]  # any object shows that it is passed on
    manager.hook.fredfw_on_run_error(experiment=2, error=error)  # type: ignore[arg-type]  # as above
    assert seen == [1, (2, error)]


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


def tell_all(hook: LifecycleHooks) -> None:
    hook.fredfw_before_run(experiment=1)  # type: ignore[arg-type]  # any object shows what happens
    hook.fredfw_after_run(result=2)  # type: ignore[arg-type]  # as above
    hook.fredfw_on_run_error(experiment=3, error=ValueError())  # type: ignore[arg-type]  # as above


def test_a_plugin_that_fails_around_a_run_is_not_called_there_again(install: Install) -> None:
    file = install("bad", LISTENER)
    manager = discover("bad")
    seen: list[object] = []

    def after(result: object) -> None:
        seen.append(result)

    manager.register(plugin(fredfw_after_run=after), "mine")
    with pytest.warns(PluginWarning) as caught:
        tell_all(manager.hook)
    start = f"plugin 'bad' (bad 1.0, {file}) fails in fredfw_"
    assert [str(one.message) for one in caught] == [
        f"{start}before_run: SimulationError: not today (line 7); it is left out",
        f"{start}after_run: SystemExit: 3 (line 11); it is left out",
        f"{start}on_run_error: KeyError: 3 (line 15); it is left out",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell_all(manager.hook)
    assert seen == [2, 2]


def test_a_failure_around_a_run_is_an_error_in_strict_mode(install: Install) -> None:
    install("bad", LISTENER)
    hook = discover("bad", strict=True).hook
    with pytest.raises(PluginError, match=r"'bad' \(bad 1\.0, .*\) fails in fredfw_before_run: .*not today"):
        hook.fredfw_before_run(experiment=1)  # type: ignore[arg-type]  # as above
    with pytest.raises(PluginError, match="fails in fredfw_after_run"):
        hook.fredfw_after_run(result=2)  # type: ignore[arg-type]  # as above
    with pytest.warns(PluginWarning):  # which must not hide the error of the run
        hook.fredfw_on_run_error(experiment=3, error=ValueError())  # type: ignore[arg-type]  # as above


def test_a_plugin_given_by_hand_may_stop_a_run() -> None:
    stop = SimulationError("stop")

    def before(experiment: object) -> None:
        raise stop

    def after(result: object) -> None:
        raise KeyError("defect")

    manager = given(fredfw_before_run=before, fredfw_after_run=after)
    with pytest.raises(SimulationError) as stopped:
        manager.hook.fredfw_before_run(experiment=1)  # type: ignore[arg-type]  # as above
    assert stopped.value is stop
    with pytest.raises(PluginError, match=r"'mine' .* fails in fredfw_after_run: KeyError: 'defect'"):
        manager.hook.fredfw_after_run(result=2)  # type: ignore[arg-type]  # as above


# --- what is imported when it is used

LAZY = """
[fredfw.topologies]
acme-ring = acme_lazy.ring:Acme
acme-mesh = acme_lazy.mesh:Acme
[fredfw.commands]
acme = acme_lazy.commands:main
"""
COMMAND = """
import click

@click.command("acme")
def main() -> None:
    '''Do what Acme does.

    And more.
    '''
"""


@pytest.fixture
def lazy(install: Install, topology: Source) -> Path:
    """Install a package of modules that are imported when they are used, and return its folder."""
    file = install("acme-lazy", "", points=LAZY)
    folder = file.with_suffix("")
    folder.mkdir()
    file.rename(folder / "__init__.py")
    described = topology("acme-ring").replace("(Topology):", "(Topology):\n    '''A ring.\n\n    Of Acme.'''\n")
    (folder / "ring.py").write_text(described)
    (folder / "mesh.py").write_text(topology("acme-mesh"))
    (folder / "commands.py").write_text(COMMAND)
    return folder


def test_names_are_known_before_their_modules_are_imported(lazy: Path) -> None:
    manager = discover("acme-lazy")
    assert manager.topologies.names() == ("acme-mesh", "acme-ring")
    assert "acme-ring" in manager.topologies
    info = manager.topologies.info("acme-ring")
    assert (info.kind, info.distribution, info.version) == ("topology", "acme-lazy", "1.0")
    assert (info.location, info.description) == (str(lazy / "ring.py"), "A ring.")
    assert manager.topologies.info("acme-mesh").description == ""
    assert manager.commands.info("acme").description == "Do what Acme does."
    assert not [name for name in sys.modules if name.startswith("acme_lazy")]
    assert manager.topologies.get("acme-ring").name == "acme-ring"
    assert {name for name in sys.modules if name.startswith("acme_lazy")} == {"acme_lazy", "acme_lazy.ring"}
    assert manager.topologies.info("acme-ring") == info
    assert manager.versions(used=list(manager.topologies)) == {"acme-lazy": "1.0"}
    assert manager.commands.get("acme").name == "acme"


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero (line 1)"),
        ("from fredfw import NoSuchThing", "it is written for another version of fredfw"),
        ("x = 1", "cannot be imported: AttributeError: module 'acme_lazy.ring' has no attribute 'Acme'"),
        ("Acme = None", "has None as the topology 'acme-ring', which is not one of classes"),
        ("Acme = 3", "has 3 as the topology 'acme-ring', which is not one of classes"),
        ("class Acme: name = 'acme-ring'", "registers the topology Acme, which is not a subclass of Topology"),
    ],
)
def test_what_cannot_be_used_is_left_out_when_it_is_asked_for(lazy: Path, source: str, cause: str) -> None:
    (lazy / "ring.py").write_text(source)
    manager = discover("acme-lazy")
    assert manager.topologies.get("acme-mesh").name == "acme-mesh"
    with (
        pytest.warns(PluginWarning, match=r"acme-lazy 1\.0, .*ring\.py"),
        pytest.raises(BrokenPluginError, match=r"no topology 'acme-ring'.*acme-lazy 1\.0, ") as error,
    ):
        manager.topologies.get("acme-ring")
    assert cause in str(error.value)
    assert manager.topologies.names() == ("acme-mesh",)
    assert len(list(manager.topologies)) == 1
    with pytest.raises(PluginError, match=r"acme-lazy 1\.0, "):
        discover("acme-lazy", strict=True)


def test_the_name_of_an_entry_point_is_that_of_its_class(lazy: Path, topology: Source) -> None:
    (lazy / "ring.py").write_text(topology("other-ring"))
    manager = discover("acme-lazy")
    with pytest.warns(PluginWarning, match="has the name 'other-ring', not 'acme-ring' as its entry point says"):
        assert [one.name for one in manager.topologies] == ["acme-mesh"]


def test_a_package_that_is_imported_when_used_says_its_contract(lazy: Path) -> None:
    (lazy / "__init__.py").write_text("fredfw_contract = 99")
    manager = discover("acme-lazy")
    with pytest.warns(PluginWarning, match="is written for version 99 of the plugin contract"):
        assert not list(manager.topologies)


def test_names_of_both_ways_clash(lazy: Path, install: Install, topology: Source) -> None:
    install("acme", topology("acme-ring"))
    manager = discover("acme", "acme-lazy")
    both = "both register the topology 'acme-ring', .*FREDFW_DISABLE_PLUGINS=acme or acme-lazy"
    with pytest.warns(PluginWarning, match=both):
        assert manager.topologies.names() == ("acme-mesh",)


@pytest.mark.parametrize("name", ["acme-lazy", "acme-mesh", "Acme_Lazy"])
def test_a_switch_is_for_all_of_a_distribution(lazy: Path, name: str) -> None:
    off = PluginManager.discover(Switches(block=frozenset({name})))
    assert "acme-ring" not in off.topologies
    with pytest.raises(UnknownNameError, match=r"plugin 'acme-ring' \(acme-lazy 1\.0, .*\) is switched off"):
        off.topologies.get("acme-ring")
    assert discover(name).topologies.names() == ("acme-mesh", "acme-ring")


def test_packages_of_one_distribution_are_told_apart(install: Install, topology: Source) -> None:
    points = (
        "[fredfw.topologies]\nacme-ring = fredfw_topology_ring_one:Acme\nacme-mesh = fredfw_topology_mesh_two:Acme\n"
    )
    site = install("fredfw-plugins", "", points=points).parent
    (site / "fredfw_topology_ring_one.py").write_text(topology("acme-ring"))
    (site / "fredfw_topology_mesh_two.py").write_text(topology("acme-mesh"))
    manager = discover("fredfw-topology-ring-one")
    assert manager.topologies.names() == ("acme-ring",)
    assert manager.topologies.info("acme-ring").distribution == "fredfw-topology-ring-one"
    assert manager.versions(used=list(manager.topologies)) == {"fredfw-topology-ring-one": "1.0"}
    both = discover("acme-ring", "acme-mesh")
    assert both.topologies.names() == ("acme-mesh", "acme-ring")
    assert set(both.code([both.topologies.get("acme-ring")])) == {"fredfw", "fredfw-topology-ring-one"}
    # What one needs of the others is an extra.
    with (site / "fredfw_plugins-1.0.dist-info" / "METADATA").open("a") as metadata:
        metadata.write("Requires-Dist: fredfw-topology-mesh-two; extra == 'fredfw-topology-ring-one'\n")
    needs = discover("acme-ring", "acme-mesh")
    used = needs.code([needs.topologies.get("acme-ring")])
    assert set(used) == {"fredfw", "fredfw-topology-mesh-two", "fredfw-topology-ring-one"}
    (site / "fredfw_topology_mesh_two.py").write_text(topology("acme-mesh", "Other"))
    code_digest.cache_clear()
    assert needs.code([needs.topologies.get("acme-ring")]) != used


def test_what_is_installed_twice_is_there_once(install: Install, topology: Source) -> None:
    points = "[fredfw.topologies]\nacme-ring = acme:Acme\n"
    install("acme", topology("acme-ring"), points=points)
    install("bundle", "", points=points)
    assert discover("acme-ring").topologies.get("acme-ring").name == "acme-ring"


def test_everything_that_is_installed_can_be_imported() -> None:
    manager = PluginManager.discover()
    catalogs: tuple[Catalog[Any], ...] = (*manager.registries, manager.commands)
    for catalog in catalogs:
        assert tuple(one.name for one in catalog) == catalog.names()
        assert all(info.description for info in catalog.infos())
