"""How installed plugins are found, switched, given by hand, and what is recorded of them."""

import hashlib
import json
import os
import re
import sys
import types
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar
from zipfile import ZipFile

import pytest
from attrs import frozen
from given_plugins import Install, Loop, discover, given, plugin, topology, unknown, warned

import fredfw
from fredfw.cli.compare import compare
from fredfw.errors import BrokenPluginError, InputError, PluginError, PluginWarning, UnknownNameError
from fredfw.fabric import ShortestPathRouter, Topology
from fredfw.plugin.manager import PluginManager, Switches
from fredfw.plugin.origin import Plugin, code_digest, release
from fredfw.plugin.registry import FIRST_PARTY, Catalog
from fredfw.workloads import LinearPlacement


def test_an_installed_plugin_is_found(install: Install) -> None:
    file = install("acme", topology("acme-ring"))
    manager = discover("acme")
    assert manager.topologies.names() == ("acme-ring",)
    info = manager.topologies.info("acme-ring")
    assert (info.kind, info.name, info.distribution, info.version) == ("topology", "acme-ring", "acme", "1.0")
    assert info.location == str(file)
    # An entry point may also name an object.
    bundle = "\nclass Bundle:\n    fredfw_topologies = staticmethod(fredfw_topologies)\n"
    install("other", topology("other-ring") + bundle, point="other:Bundle")
    assert discover("other").topologies.names() == ("other-ring",)
    # Without its module it is located where it is installed; by hand, by its module.
    file = install("third", "", point="third_that_is_not_there.inside")
    (point,) = entry_points(group="fredfw", name="third")
    assert Plugin(point.name, point.module, point.dist).location == str(file.parent)
    assert str(Plugin("mine", __name__)) == f"plugin 'mine' (registered in process, {__file__})"
    assert str(Plugin("mine", "no_such_module")) == "plugin 'mine' (registered in process)"


COMMANDS = """
from fredfw.plugin import hookimpl
@hookimpl
def fredfw_commands():
    import click
    return [click.Command(name) for name in ("b", "a", "compare")]
"""


def test_commands_are_registered_by_name_and_those_of_the_core_stay(install: Install) -> None:
    file = install("acme", COMMANDS)
    commands = discover("acme").commands
    names, warning = warned(commands.names)
    start = f"plugin 'acme' (acme 1.0, {file}) registers the command 'compare', a name that plugin 'core' (fredfw "
    assert warning.startswith(start)
    assert names[:2] == ("a", "b")
    assert [command.name for command in commands] == list(names)
    assert commands.get("compare") is compare
    info = commands.info("b")
    assert (info.kind, info.name, info.distribution, info.location) == ("command", "b", "acme", str(file))
    with pytest.raises(UnknownNameError, match="no command 'c'"):
        commands.get("c")
    with pytest.raises(PluginError, match="registers the command 'compare', a name that plugin 'core' "):
        discover("acme", strict=True).commands.names()


@pytest.mark.parametrize("name", ["dragonfly", "fredfw-topology-dragonfly", "Fredfw_Topology.Dragonfly"])
def test_blocked_plugins_are_not_imported(install: Install, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIRST_PARTY, "topology", ("dragonfly",))
    install("fredfw-topology-dragonfly", "1 / 0", entry="dragonfly")
    install("good", topology("good-ring"))
    manager = PluginManager.discover(Switches(block=frozenset({name})))
    assert "good-ring" in manager.topologies
    assert re.search(r"topology-dragonfly 1\.0.* is switched off", unknown(manager.topologies, "dragonfly"))


def test_allowed_plugins_are_the_only_ones(install: Install) -> None:
    bad = install("bad", "1 / 0")
    install("good", topology("good-ring"))
    manager = discover("good")
    assert manager.topologies.names() == ("good-ring",)
    off = [str(one) for one in manager.left_out if one.plugin.name == "bad"]
    assert off == [f"plugin 'bad' (bad 1.0, {bad}) is switched off"]
    assert "max-min" in manager.sharing_policies
    assert "max-min" not in discover("good", block=frozenset({"core"})).sharing_policies


def test_allowing_what_is_not_installed_is_an_error_and_blocking_it_a_warning(install: Install) -> None:
    install("good", topology("good-ring"))
    with pytest.raises(UnknownNameError, match=r"no plugin 'goood' is installed; did you mean 'good'\?"):
        discover("goood")
    manager, warning = warned(lambda: PluginManager.discover(Switches(block=frozenset({"goood"}))))
    assert re.match(r"no plugin 'goood' is installed.*; did you mean 'good'\?", warning)
    assert "good-ring" in manager.topologies


def test_switches_from_the_environment(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    def read(**environ: str) -> Switches:
        return Switches.from_environment(environ, trace=lines.append)

    assert read() == read(FREDFW_TRACE_HOOKS="0") == Switches()
    switches = read(FREDFW_DISABLE_PLUGINS="a, b,,", FREDFW_PLUGINS="c", FREDFW_TRACE_HOOKS="1")
    assert switches == Switches(block=frozenset("ab"), allow=frozenset("c"), trace=lines.append)
    # They are the default.
    install("good", topology("good-ring"))
    monkeypatch.setenv("FREDFW_DISABLE_PLUGINS", "good")
    assert "good-ring" not in PluginManager.discover().topologies


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
    assert [info.name for info in manager.topologies.infos()] == ["arch", "loop"]
    assert len(calls) == 1
    assert given(fredfw_topologies=lambda: None).topologies.names() == ()


def test_a_name_registered_twice_is_nobodys(install: Install) -> None:
    order = ("good", "two", "one")
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
    assert "same" in discover(*order, block=frozenset({"two"})).topologies
    # A third one, which is imported when it is used.
    install("three", topology("same"), points="[fredfw.topologies]\nsame = three:Acme\n")
    with pytest.warns(PluginWarning, match=r"'one' .* and plugin 'same' \(three 1.0, .* all register"):
        assert "same" not in discover(*order, "three").topologies


def test_a_plugin_given_by_hand_may_not_take_a_name(install: Install, tmp_path: Path) -> None:
    install("acme", topology("same"))
    file = tmp_path / "mine.py"
    file.write_text(topology("same"))
    manager = discover("acme")
    manager.load_file(file)
    both = r"'mine\.py' .* and plugin 'acme' .* both register the topology 'same'"
    off = "must be switched off: FREDFW_DISABLE_PLUGINS=acme, or drop mine.py from `plugins` and --plugin$"
    with pytest.raises(PluginError, match=f"{both}.* {off}"):
        manager.topologies.names()


def test_an_unknown_name_gives_the_nearest_and_all_or_the_distribution_that_would_provide_it() -> None:
    every = "circuit-preempt, max-min, strict-links, weighted-max-min"
    with pytest.raises(UnknownNameError, match=rf"no sharing policy 'maxmin'; did you mean 'max-min'\?.*: {every}\)$"):
        discover("core").sharing_policies.get("maxmin")
    with pytest.raises(UnknownNameError, match="fredfw-topology-torus would provide it, which is not installed"):
        PluginManager().topologies.get("torus")
    assert "distribution" not in unknown(PluginManager().workloads, "torus")  # a torus is no workload


def test_what_is_registered_after_a_look_up_is_seen_by_that_manager_alone_and_nothing_stays_of_what_cannot_be() -> None:
    lines: list[str] = []
    manager, other = PluginManager(Switches(trace=lines.append)), PluginManager()
    assert "loop" not in manager.topologies
    manager.register(plugin(fredfw_topologies=lambda: [Loop]), "mine")
    assert "loop" in manager.topologies
    assert "loop" not in other.topologies
    assert any("fredfw_topologies" in line and "Loop" in line for line in lines)
    manager = discover("core")
    mine = plugin(fredfw_topologies=lambda: [Loop])
    manager.register(mine, "mine")
    with pytest.raises(PluginError, match="already registered"):
        manager.register(mine, "again")
    with pytest.raises(PluginError, match="cannot be hashed"):
        manager.register(types.SimpleNamespace(), "unhashable")
    assert manager.topologies.names() == ("loop",)


@pytest.mark.parametrize(
    ("hooks", "cause"),
    [
        ({"fredfw_topologys": lambda: None}, "fredfw_topologys, which is not a hook"),
        ({"fredfw_topologies": lambda: [LinearPlacement]}, "placement.py), which is not a subclass of Topology"),
        ({"fredfw_topologies": lambda: [Loop, Loop]}, "registers the topology 'loop' more than once: Loop ("),
    ],
)
def test_a_plugin_given_by_hand_that_cannot_be_used_is_an_error(hooks: Mapping[str, Any], cause: str) -> None:
    with pytest.raises(PluginError, match=re.escape(cause)) as error:
        given(**hooks).topologies.names()
    assert str(error.value).startswith("plugin 'mine' (registered in process) ")


def sha256(file: Path) -> str:
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def test_a_file_is_a_plugin_that_is_loaded_once_and_those_of_one_name_are_both_recorded(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(topology("from-a-file"))
    manager = PluginManager()
    manager.load_file(file)
    info = manager.topologies.info("from-a-file")
    assert (info.distribution, info.version, info.location) == (None, None, str(file))
    assert manager.versions(used=list(manager.topologies)) == {"mine.py": sha256(file)}
    cls = manager.topologies.get("from-a-file")
    manager.load_file(tmp_path / "elsewhere" / ".." / "mine.py")
    assert manager.topologies.get("from-a-file") is cls
    file.write_text(topology("another-name"))
    with pytest.raises(InputError, match=r"mine\.py: has changed since it was loaded"):
        manager.load_file(file)
    fresh = PluginManager()  # which may have it, too
    fresh.load_file(str(file))
    assert fresh.topologies.names() == ("another-name",)
    assert list(tmp_path.iterdir()) == [file]  # nothing compiled is left beside it
    manager, digests = PluginManager(), []
    for name in ("one", "other"):
        file = tmp_path / name / "mine.py"
        file.parent.mkdir()
        file.write_text(topology(name))
        manager.load_file(file)
        digests.append(sha256(file))
    assert list(manager.versions(used=list(manager.topologies)).values()) == [", ".join(sorted(digests))]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, InputError, r"mine\.py: does not exist"),
        ("1 / 0", PluginError, r"'mine\.py' \(/.*mine\.py\) cannot be imported: .*\(line 1\)"),
        ("from fredfw import hookimp", PluginError, r"name 'hookimp' .*\(line 1\); did you mean 'hookimpl'\?$"),
        ("", PluginError, r"'mine\.py' \(/.*mine\.py\) implements no"),
    ],
)
def test_a_file_that_is_no_plugin(tmp_path: Path, content: str | None, error: type, message: str) -> None:
    if content is not None:
        (tmp_path / "mine.py").write_text(content)
    before = set(sys.modules)
    with pytest.raises(error, match=message):
        PluginManager().load_file(tmp_path / "mine.py")
    with pytest.raises(InputError, match="is not a Python file"):
        PluginManager().load_file(tmp_path)
    assert not {name for name in set(sys.modules) - before if name.startswith("fredfw_file")}


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


def test_a_package_that_is_imported_when_used_says_its_contract(lazy: Path) -> None:
    (lazy / "__init__.py").write_text("fredfw_contract = 99")
    manager = discover("acme-lazy")
    with pytest.warns(PluginWarning, match="is written for version 99 of the plugin contract"):
        assert not list(manager.topologies)


@pytest.mark.parametrize("name", ["acme-mesh", "Acme_Lazy"])
def test_a_switch_is_for_all_of_a_distribution(lazy: Path, name: str) -> None:
    off = PluginManager.discover(Switches(block=frozenset({name})))
    assert "acme-ring" not in off.topologies
    with pytest.raises(UnknownNameError, match=r"plugin 'acme-ring' \(acme-lazy 1\.0, .*\) is switched off"):
        off.topologies.get("acme-ring")
    assert discover(name).topologies.names() == ("acme-mesh", "acme-ring")


def test_what_is_installed_twice_is_there_once(install: Install) -> None:
    points = "[fredfw.topologies]\nacme-ring = acme:Acme\n"
    install("acme", topology("acme-ring"), points=points)
    install("bundle", "", points=points)
    assert discover("acme-ring").topologies.get("acme-ring").name == "acme-ring"
    # So is what a hook registers, too, as for older releases.
    install("both", topology("acme-both"), points="[fredfw]\nboth = both\n[fredfw.topologies]\nacme-both = both:Acme\n")
    assert discover("both").topologies.get("acme-both").name == "acme-both"


def test_everything_that_is_installed_can_be_imported() -> None:
    manager = PluginManager.discover()
    catalogs: tuple[Catalog[Any], ...] = (*manager.registries, manager.commands)
    for catalog in catalogs:
        assert tuple(one.name for one in catalog) == catalog.names()
        assert all(info.description for info in catalog.infos())


def test_versions_are_those_of_what_was_used(install: Install) -> None:
    install("acme-ring", topology("acme-ring", "AcmeRing"))
    install("acme-mesh", topology("acme-mesh", "AcmeMesh"))
    manager = discover("acme-ring", "acme-mesh")
    assert manager.versions(used=[manager.topologies.get("acme-ring")]) == {"acme-ring": "1.0"}
    # Also of classes that are not registered.
    assert manager.versions(used=[Topology, ShortestPathRouter]) == {"fredfw": fredfw.__version__}
    assert manager.versions(used=[dict]) == {"builtins": "no plugin"}


def test_packages_of_one_distribution_are_told_apart(install: Install) -> None:
    ring, mesh = "acme-ring = fredfw_topology_ring_one:Acme", "acme-mesh = fredfw_topology_mesh_two:Acme"
    points = f"[fredfw.topologies]\n{ring}\n{mesh}\n"
    site = install("fredfw-plugins", "", points=points).parent
    (site / "fredfw_topology_ring_one.py").write_text(topology("acme-ring"))
    (site / "fredfw_topology_mesh_two.py").write_text(topology("acme-mesh"))
    manager = discover("fredfw-topology-ring-one")
    assert manager.topologies.names() == ("acme-ring",)
    assert manager.topologies.info("acme-ring").distribution == "fredfw-topology-ring-one"
    assert manager.versions(used=list(manager.topologies)) == {"fredfw-topology-ring-one": "1.0"}
    assert discover("acme-ring", "acme-mesh").topologies.names() == ("acme-mesh", "acme-ring")


def code(site: Path, name: str) -> dict[str, str] | None:
    """Return what decides what a topology does, to a process that begins after all files were written."""
    for file in site.rglob("*.py"):
        os.utime(file, (0, 0))
    code_digest.cache_clear()
    release.cache_clear()
    manager = PluginManager.discover(Switches())
    return manager.code([manager.topologies.get(name)])


def test_code_is_all_that_is_installed_with_a_plugin_and_what_it_requires(install: Install) -> None:
    points = "[fredfw.topologies]\nacme-ring = acme_ring:Acme\nacme-mesh = acme.inner.mesh:Acme\n"
    site = install("acme-pair", "", points=points).parent
    other = install("acme-other", topology("acme-other"))
    inner = site / "acme" / "inner"  # of a package without __init__.py
    inner.mkdir(parents=True)
    modules = site / "acme_ring.py", inner / "mesh.py", site / "acme_values.py", other
    for module in modules:
        module.write_text(topology({"acme_ring": "acme-ring", "mesh": "acme-mesh"}.get(module.stem, "acme-other")))
    found = [code(site, name) for name in ("acme-ring", "acme-mesh")]
    for module in modules:
        module.write_text(f"{module.read_text()}\n# another\n")
        found += [code(site, name) for name in ("acme-ring", "acme-mesh")]
    assert len(set(map(str, found))) == len(found)
    assert {"fredfw fredfw", "acme-pair acme_ring", "numpy"} <= set(found[0] or {})
    with (site / "acme_pair-1.0.dist-info" / "METADATA").open("a") as metadata:
        metadata.write(
            "".join(f"Requires-Dist: {one}\n" for one in ("acme-other", "acme-absent>2", "acme-lib; x == 'y'"))
        )
    library = install("acme-lib", "", points="[others]\n")  # no plugin, and edited in place
    url = json.dumps({"url": site.as_uri(), "dir_info": {"editable": True}})
    (site / "acme_lib-1.0.dist-info" / "direct_url.json").write_text(url)
    needs = code(site, "acme-ring") or {}
    assert (needs["acme-absent"], "acme-other acme_other" in needs) == ("not installed", True)
    library.write_text("# another")
    assert (code(site, "acme-ring") or {})["acme-lib"] != needs["acme-lib"]
    # Of what is installed whole, no other file counts.
    file = install("acme-whole", topology("acme-whole"))
    (site / "acme_whole-1.0.dist-info" / "RECORD").write_text("acme_whole.py,,\nacme_whole.csv,,\n")
    whole = [code(site, "acme-whole")]
    for changed in (site / "acme_whole.txt", file.with_suffix(".csv"), file):
        changed.write_text(topology("acme-whole", "Other"))
        os.utime(changed, (0, 0))
        whole.append(code(site, "acme-whole"))
    assert whole[0] == whole[1]
    assert len(set(map(str, whole))) == 3


def test_code_is_not_known_of_what_is_in_no_file_or_may_have_been_imported_before_it_changed(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = install("acme-ring", topology("acme-ring"))
    with monkeypatch.context() as unreadable:
        unreadable.setattr(Path, "read_bytes", lambda _: os.stat("/no/such/file"))
        assert code(file.parent, "acme-ring") is None
    assert code(file.parent, "acme-ring") is not None
    os.utime(file)
    code_digest.cache_clear()
    manager = discover("acme-ring")
    assert manager.code([manager.topologies.get("acme-ring")]) is None
    assert manager.code([type("Anonymous", (), {"__module__": "nowhere"})]) is None
    with ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("acme_zip.py", topology("acme-zip"))
    monkeypatch.syspath_prepend(str(tmp_path / "all.zip"))
    install("acme-zip", "").unlink()
    assert code(tmp_path / "site", "acme-zip") is None
