"""Real distributions in a temporary directory on ``sys.path``, as pip would leave them."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from given_plugins import Install, topology

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
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that makes a distribution of one module and one entry point, and returns the file."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    loaded = set(sys.modules)

    def add(name: str, source: str, *, entry: str = "", point: str = "", points: str = "") -> Path:
        module = name.replace("-", "_")
        file = site / f"{module}.py"
        file.write_text(dedent(source))
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points or f"[fredfw]\n{entry or name} = {point or module}\n")
        importlib.invalidate_caches()
        return file

    yield add
    for name in set(sys.modules) - loaded:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(site):
            del sys.modules[name]


@pytest.fixture
def lazy(install: Install) -> Path:
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
