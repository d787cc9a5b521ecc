"""Real distributions in a temporary directory on ``sys.path``, as pip would leave them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

TOPOLOGY = """
from typing import ClassVar
from attrs import frozen
from fredfw.fabric import Fabric, Topology
from fredfw.plugin import hookimpl

@frozen
class {cls}(Topology):
    name: ClassVar[str] = "{name}"
    def build(self) -> Fabric:
        raise NotImplementedError

@hookimpl
def fredfw_topologies():
    return [{cls}]
"""


@pytest.fixture
def topology() -> Callable[..., str]:
    """Return the source of a plugin that registers one topology."""

    def source(name: str, cls: str = "Acme") -> str:
        return TOPOLOGY.format(name=name, cls=cls)

    return source


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
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
