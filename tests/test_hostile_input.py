"""Input that no one means: paths that are none, numbers beyond floats, terminals without letters, no directory."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import experiments
import pytest
from command_line import refused

from fredfw import Framework
from fredfw.embed import NetworkBackend

GOOD = """
title = "größer"

[fabrics."größer"]
topology = { name = "switch", npus = 4 }
collectives = { default = "ring" }

[workloads.w]
workload = { name = "microbenchmark", size = "1 MB" }
"""
LONG = "a" * 300


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("good.toml").write_text(GOOD, encoding="utf-8")
    return tmp_path


def run(*arguments: str | bytes, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", "from fredfw_command import main; main()", *arguments]
    everything = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, env=everything, cwd=cwd, timeout=60, check=False)


@pytest.mark.parametrize("path", ["a\x00b.toml", f"{LONG}.toml"], ids=["null", "long"])
def test_a_path_that_no_file_can_have(path: str) -> None:
    for arguments in (
        ("compare", path),
        ("cells", path),
        ("merge", "good.toml", path),
        ("compare", "good.toml", "--json", path),
        ("--plugin", f"{path}.py", "plugins", "list"),
        ("plugins", "list", "--json", path),
    ):
        refused(*arguments)
    Path("named.toml").write_text(f"plugins = [{json.dumps(path)}]\n{GOOD}", encoding="utf-8")
    for trust in ((), ("--trust-plugins",)):
        assert refused(*trust, "compare", "named.toml").startswith("named.toml: plugins[0]: ")


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("fabrics.f.topology", "link_bandwidth", "1e-300 B/s"),
        ("fabrics.f.topology", "npus", 10**400),
        ("fabrics.f.topology", "npus", 2**63),
        ("fabrics.f.topology", "npus", 1e22),
        ("workloads.w", "compute_scale", 1e-308),
    ],
)
def test_a_number_that_cannot_be_computed_with_names_file_and_key(table: str, key: str, value: Any) -> None:
    content: dict[str, Any] = {
        "npu": {},
        "fabrics": {"f": {"topology": {"name": "switch", "npus": 4}, "collectives": {"default": "ring"}}},
        "workloads": {"w": {"workload": {"name": "microbenchmark"}}},
    }
    with experiments.refused(f"{table}.{key}"):
        experiments.FRAMEWORK.load_experiment(content, values={f"{table}.{key}": value})


@pytest.mark.slow  # it starts several programs
def test_a_terminal_without_the_letters_gets_escapes_and_a_file_the_letters() -> None:
    table = run("compare", "good.toml", "--no-progress", PYTHONIOENCODING="ascii")
    assert table.returncode == 0, table.stderr
    assert b"gr\\xf6\\xdfer" in table.stdout
    data = run("compare", "good.toml", "--json", "-", PYTHONIOENCODING="ascii")
    assert json.loads(data.stdout.decode("utf-8"))["title"] == "größer"
    unknown = run("run", "good.toml", "--fabric", "größe", PYTHONIOENCODING="ascii")
    assert unknown.returncode == 2
    assert b"no fabric" in unknown.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
@pytest.mark.slow  # it starts several programs
def test_a_file_whose_name_is_not_text() -> None:
    Path(os.fsdecode(b"\xff.toml")).write_text(GOOD.replace('title = "gr\u00f6\u00dfer"', ""), encoding="utf-8")
    done = run("compare", b"\xff.toml", "--no-progress", "--json", b"\xfe.json", "--csv", "-")
    assert (done.returncode, done.stderr.splitlines()) == (0, [b"wrote \\udcfe.json"])
    assert json.loads(Path(os.fsdecode(b"\xfe.json")).read_text(encoding="utf-8"))["title"] == "\\udcff"
    missing = run("compare", b"\xfd.toml")
    assert missing.returncode == 2
    assert b"\\udcfd.toml: cannot be read" in missing.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="a directory in use cannot be deleted elsewhere")
@pytest.mark.slow  # it starts several programs
def test_a_working_directory_that_is_deleted(directory: Path) -> None:
    gone = directory / "gone"
    gone.mkdir()
    leave = "import os, sys; os.rmdir(os.getcwd())"
    importing = [sys.executable, "-c", f"{leave}; import numpy"]
    if subprocess.run(importing, capture_output=True, cwd=gone, check=False).returncode:
        pytest.skip("NumPy cannot be imported there, as with CPython 3.13.0")
    script = f"{leave}; from fredfw_command import main; main()"
    good = str(directory / "good.toml")
    for arguments, code in (
        (("compare", "good.toml"), 2),
        (("compare", good, "--json", "out.json"), 2),
        (("--plugin", "own.py", "plugins", "list"), 2),
        (("compare", good, "--no-progress"), 0),
    ):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, cwd=gone, timeout=60, check=False
        )
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr


def test_timers_that_are_cancelled_release_their_memory() -> None:
    backend = NetworkBackend(Framework().topology("switch", npus=2).build())
    kept = [backend.schedule(1000.0, gc.disable) for _ in range(10)]
    for _ in range(5_000):
        backend.cancel(backend.schedule(500.0, gc.disable))
    assert len(pickle.dumps(backend._network)) < 100_000
    ended: list[float] = []
    backend.schedule(2000.0, lambda: ended.append(backend.now))
    for timer in kept:
        backend.cancel(timer)
    backend.run_until_idle()
    assert ended == [2000.0]
