"""Real distributions in a temporary directory on ``sys.path``, as pip would leave them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """``install("acme", '''source''')`` makes a distribution ``acme 1.0`` with a module and an entry point."""
    site = tmp_path / "site"
    site.mkdir()
    # Only what a test installs is found: a distribution can be found where its metadata is, so the real ones are hidden.
    visible = [entry for entry in sys.path if not list(Path(entry or ".").glob("*.dist-info"))]
    hidden = [entry for entry in sys.path if entry not in visible]
    modules = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(site), *visible])
    monkeypatch.syspath_prepend(str(site))

    def add(name: str, source: str, *, version: str = "1.0", module: str = "", entry: str = "", point: str = "") -> Path:
        module = module or name.replace("-", "_")
        file = site / f"{module}.py"
        file.write_text(dedent(source))
        metadata = site / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text(f"[fredfw]\n{entry or name} = {point or module}\n")
        importlib.invalidate_caches()
        return file

    yield add
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(site):
            del sys.modules[name]
    del hidden
