"""Installed plugins that are broken: each is named with version, file and cause and left out, and the rest works."""

import importlib
import json
from pathlib import Path

import pytest
from command_line import fails, fredfw, succeeds
from given_plugins import Install, discover, topology, unknown, warned

from fredfw.answers import explain
from fredfw.errors import BrokenPluginError, InputError, PluginError, PluginWarning
from fredfw.plugin.manager import PluginManager
from fredfw.plugin.registry import FIRST_PARTY

HOOK = "from fredfw.plugin import hookimpl\n@hookimpl\ndef fredfw_"
OTHER = "it is written for another version of fredfw, see docs/api-policy.md"
HEAD = """
from __future__ import annotations
from typing import ClassVar
import click
import numpy as np
from attrs import frozen
from fredfw import CollectiveAlgorithm, Fabric, NodeKind, Topology, hookimpl, units
from fredfw.collectives.direct import DirectAlgorithm as Direct
from fredfw.workloads import LinearPlacement

class Pair(Topology):
    def build(self): return Fabric("pair", np.full(2, NodeKind.NPU), [0, 1], [1, 0], 1e9, 0.0, 0.0)
@frozen
class Works(Pair):
    name: ClassVar[str] = "works"
@frozen
class Also(Pair):
    name: ClassVar[str] = "also"
"""
GOOD = """
@hookimpl
def fredfw_topologies(): return [Works]
@hookimpl
def fredfw_commands(): return [click.Command("wave", callback=lambda: click.echo("hello"))]
"""


def bad(base: str, body: str = "pass", *, hook: str = "topologies", frozen: str = "@frozen") -> str:
    """The source of a plugin that registers a class, and a topology that is sound."""
    cls = f"{frozen}\nclass Bad({base}):\n    name = 'bad'\n    {body}\n"
    registered = "[Bad, Also]" if hook == "topologies" else "[Bad]"
    return f"{HEAD}{cls}@hookimpl\ndef fredfw_{hook}(): return {registered}"


# Found when it is loaded.
UNUSABLE = [
    ("import no_such_module", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module' (line 1)"),
    ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
    ("def broken(:", "cannot be imported: SyntaxError"),
    (f"{HOOK}topologys(): return []", "topologys, which is not a hook; did you mean 'fredfw_topologies'?"),
    (f"{HOOK}topologies(fabric): return []", "implements fredfw_topologies(fabric), which is called with () only"),
    (f"{HOOK}after_run(result, *, more): pass", "after_run(result, more), which is called with (result) only"),
    (f"{HOOK}topologys(): pass\ndef fredfw_routers(): pass", "without @hookimpl; it implements fredfw_topologys"),
    ("from fredfw import NoSuchInterface", OTHER),
    ("from fredfw.no_such_module import Topology", OTHER),
    (f"{HOOK}topologies(): pass".replace("impl\ndef", "impl(specname='fredfw_routers')\ndef"), "another name or"),
    ("def fredfw_topologies(): return []", "defines fredfw_topologies without @hookimpl"),
    ("x = 1", "implements no hook"),
]
# Found when something of its kind is looked up.
JUNK = [
    (f"{HOOK}topologies(): return 'Mesh'", "returns 'Mesh' from fredfw_topologies, not a sequence of classes"),
    (f"{HOOK}topologies(): quit()", "fails in fredfw_topologies: SystemExit: None (line 3)"),
    (f"{HOOK}commands(): return [print]", "returns [<built-in function print>] from fredfw_commands"),
    (f"{HOOK}commands():\n    from click import Command\n    return [Command(None)]", "<Command None>, which has no"),
    (bad("LinearPlacement"), "registers the topology Bad, which is not a subclass of Topology"),
    (bad("Pair", frozen=""), "Bad, which is not an attrs class"),
    (bad("Topology"), "Bad, which does not define build"),
    (bad("Pair", "name: str = 'bad'"), "Bad, which has no name"),
    (bad("Works", "size: nowhere.Size"), "which cannot be configured: the annotations of Bad cannot be resolved: Nam"),
    (bad("Direct", "chunks: int", hook="collectives"), "Bad, which cannot be made with its defaults: TypeError: "),
    (
        bad("CollectiveAlgorithm", "def schedule(self, one): ...", hook="collectives"),
        "no patterns; define `patterns: ClassVar[frozenset[Pattern]]`; it defines schedule(one), which is called with",
    ),
]


@pytest.mark.parametrize(("source", "cause"), UNUSABLE + JUNK)
def test_a_broken_plugin_is_left_out_alone(install: Install, source: str, cause: str) -> None:
    file = install("bad", source)
    install("good", HEAD + GOOD)
    kind = next((one for one in ("collectives", "commands") if f"fredfw_{one}" in source), "topologies")

    def look_up() -> PluginManager:
        manager = discover("bad", "good")
        names = getattr(manager, kind).names()
        assert {"works", "direct", "wave"} & set(names)
        assert ("also" in names) == ("Also]" in source)
        return manager

    manager, warning = warned(look_up)
    assert warning.startswith(f"plugin 'bad' (bad 1.0, {file}) ")
    assert cause in warning
    assert warning.endswith("; it is left out")
    # What it may have provided is an error that repeats the cause ...
    with pytest.raises(BrokenPluginError, match=r"no \w+ 'bad'; plugin 'bad' ") as error:
        getattr(manager, kind).get("bad")
    assert cause in str(error.value)
    assert isinstance(error.value, InputError)
    # ... and what it never would is not blamed on it.
    if kind == "topologies":
        unknown(manager.topologies, "torus")
    if (source, cause) in JUNK:
        unknown(manager.routers, "nothing")
    # In strict mode it is an error at once.
    with pytest.raises(PluginError, match=r"bad 1\.0, "):
        discover("bad", "good", strict=True)


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("from fredfw import NoSuchThing", "it is written for another version of fredfw"),
        ("x = 1", "cannot be imported: AttributeError: module 'acme_lazy.ring' has no attribute 'Acme'"),
        ("Acme = 3", "has 3 as the topology 'acme-ring', which is not one of classes"),
        ("class Acme: name = 'acme-ring'", "registers the topology Acme, which is not a subclass of Topology"),
        (topology("other-ring"), "has the name 'other-ring', not 'acme-ring' as its entry point says"),
        (topology("acme-ring") + "Acme.fredfw_contract = 99", "is written for version 99 of the plugin contract"),
        (topology("acme-ring") + "fredfw_contract = 1", "is written for version 1 of the plugin contract"),
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


@pytest.mark.parametrize(
    ("point", "cause"),
    [
        ("[fredfw.topologies]\nbad = bad-form:Acme", "cannot be imported: ImportError: its entry point is 'bad-form"),
        ("[fredfw]\nbad = bad-form", "cannot be imported: ImportError: its entry point is 'bad-form', not MODULE or"),
        ("[fredfw.topologies]\nbad = bad", "as the topology 'bad', which is not one of classes"),
        ("[fredfw.topology]\nbad = bad:Acme", "which is no group of fredfw; did you mean 'fredfw.topologies'?"),
    ],
)
def test_a_wrong_entry_point_is_left_out(install: Install, point: str, cause: str) -> None:
    install("bad", "", points=f"{point}\n")

    def look_up() -> None:
        manager = discover("bad")
        assert not any(info.description for info in manager.topologies.infos() if info.name == "bad")
        with pytest.raises(BrokenPluginError) as error:
            manager.topologies.get("bad")
        assert cause in str(error.value)

    assert cause in warned(look_up)[1]
    with pytest.raises(PluginError, match="bad"):
        discover("bad", strict=True)


def test_a_plugin_is_blamed_for_the_names_of_its_entry(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIRST_PARTY, "topology", ("dragonfly",))
    install("fredfw-topology-dragonfly", "1 / 0", entry="dragonfly")
    install("other", "1 / 0", entry="loop")
    with pytest.warns(PluginWarning):
        manager = discover("dragonfly", "other")
    with pytest.raises(BrokenPluginError, match=r"fredfw-topology-dragonfly 1\.0.*ZeroDivisionError") as error:
        manager.topologies.get("dragonfly")
    assert "other" not in str(error.value)


def test_a_damaged_installation_is_no_obstacle(install: Install) -> None:
    file = install("acme", "x = 1")
    metadata = next(file.parent.glob("*.dist-info")) / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\n")
    importlib.invalidate_caches()
    with pytest.warns(UserWarning, match=r"plugin 'acme' \(unnamed without a version, .*acme\.py\) implements no hook"):
        discover("acme")


def test_an_error_is_explained_with_the_line_of_the_plugin(install: Install) -> None:
    file = install("acme", "import json\ndef read():\n    return json.loads('{')\n")
    with pytest.raises(ValueError, match="Expecting") as caught:
        importlib.import_module("acme").read()
    text = explain(caught.value, "acme.sub", "another.py")
    assert text.startswith("JSONDecodeError: Expecting property name")
    assert text.endswith(f" (line 3 of {file})")  # not of json, where it was raised
    assert explain(caught.value, "acme", str(file)).endswith(" (line 3)")
    assert explain(caught.value, "other").endswith("(char 1)")
    assert explain(KeyError(), "other") == "KeyError"
    assert explain(KeyError("a\nb"), "other") == "KeyError: 'a\\nb'"
    assert explain(ValueError("two\n  lines"), "other") == "ValueError: two lines"


# --- on the command line

RAISES = f"{HOOK}topologies():\n    return {{}}[0]", "fails in fredfw_topologies: KeyError: 0 (line 4)"
LISTENERS = {
    "before": (f"{HOOK}before_run(experiment): 1 / 0", "fails in fredfw_before_run: ZeroDivisionError: "),
    "after": (f"{HOOK}after_run(result): result.seconds = 0", "fails in fredfw_after_run: "),
}
EXPERIMENT = """
[fabrics]
pair.topology = "works"
mesh.topology = { name = "mesh2d", rows = 2, columns = 2 }
[workloads.gradients]
workload = { name = "microbenchmark", pattern = "all-reduce", size = "1 GB" }
"""


@pytest.fixture
def broken(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Install them beside a sound one; return what must be said of each."""
    monkeypatch.chdir(tmp_path)
    Path("two.toml").write_text(EXPERIMENT)
    install("acme-works", HEAD + GOOD, entry="works")
    said = {}
    for name, (source, cause) in {"bad": UNUSABLE[0], "raises": RAISES, **LISTENERS}.items():
        said[name] = f"plugin '{name}' ({name} 1.0, {install(name, source)}) {cause}"
    return said


def test_results_are_what_they_are_without_them(broken: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [line.split()[:3] for line in fredfw("plugins", "list", "--long").stdout.splitlines()]
    assert ["topology", "works", "acme-works"] in rows
    assert ["command", "wave", "acme-works"] in rows
    beside = fredfw("compare", "two.toml", "--json", "-")
    monkeypatch.setenv("FREDFW_DISABLE_PLUGINS", ",".join(broken))
    without = fredfw("compare", "two.toml", "--json", "-")
    assert (beside.exit_code, beside.stdout) == (0, without.stdout)
    assert (without.exit_code, without.stderr) == (0, "")
    assert len(json.loads(beside.stdout)["rows"]) == 2
    for line in broken.values():  # once, for two cells
        assert beside.stderr.count(f"fredfw: warning: {line}") == 1


def test_strict_is_an_error_about_each(broken: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    commands = {"bad": ["plugins", "list"], "raises": ["plugins", "list"]}
    for name, line in broken.items():
        monkeypatch.setenv("FREDFW_PLUGINS", f"{name},works,mesh2d,microbenchmark")
        error = fails("--strict-plugins", *commands.get(name, ["compare", "two.toml"]), code=1)
        assert error.startswith(f"fredfw: error: {line}")
        assert error.count("\n") == 1
    monkeypatch.setenv("FREDFW_PLUGINS", "works")
    succeeds("--strict-plugins", "wave")
