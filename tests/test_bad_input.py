"""Bad input ends in one message with file, key, value and what is accepted, code 2, and nothing written or lost."""

import gc
import json
import os
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import command_line
import experiments
import pytest
from command_line import environment, fails, process

from fredfw import Framework
from fredfw.embed import NetworkBackend

GOOD = """
fabrics.mesh.topology = { name = "mesh2d", rows = 2, columns = 2 }
fabrics.fred.topology = { name = "fred", arity = [2, 2] }
workloads.net.workload = "microbenchmark"
"""
PRECIOUS = "results of a whole night"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("good.toml").write_text(GOOD)
    Path("out.json").write_text(PRECIOUS)
    Path("folder").mkdir()
    return tmp_path


def files() -> dict[Path, bytes | None]:
    """Everything that is there, but the store of cells that could be run."""
    found = [path for path in Path().rglob("*") if path.suffix != ".cells"]
    return {path: path.read_bytes() if path.is_file() else None for path in found}


def refused(*arguments: str) -> str:
    """Return the message, after making sure that it is one line, the code 2, and that nothing was touched."""
    before = files()
    line = command_line.refused(*arguments)
    assert files() == before
    return line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'titel = "x"\n{GOOD}', "titel: unknown key; did you mean 'title'? (accepted: title, baseline, npu"),
        (GOOD.replace("= 2", "= 1"), "workloads.net: takes no time on 'mesh'"),
        ("[", "is not TOML: "),
    ],
)
def test_an_experiment_that_cannot_be_compared(text: str, message: str) -> None:
    Path("bad.toml").write_text(text)
    assert refused("compare", "bad.toml", "--json", "out.json", "--strict").startswith(f"bad.toml: {message}")


@pytest.mark.parametrize("command", ["compare", "run", "calibrate"])
def test_unreadable_files(command: str) -> None:
    Path("latin.toml").write_bytes(b'title = "\xe4"')
    for file, reason in (("folder", "Is a directory"), ("latin.toml", "it is not UTF-8 text")):
        assert refused(command, file) == f"{file}: cannot be read: {reason} (accepted: a TOML file)"


COMPARE, RUN = ("compare", "good.toml"), ("run", "good.toml")
ALL_REDUCE = ("collective", "all-reduce", "--topology", "mesh2d")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # Outputs that cannot be written.
        ((*COMPARE, "--json", "missing/out.json"), "missing/out.json: --json: cannot be written: No such file or dir"),
        ((*COMPARE, "--json", "folder"), "folder: --json: is a directory"),
        ((*COMPARE, "--json", ""), "--json: is a directory"),
        ((*COMPARE, "--plot", "missing/out.png"), "missing/out.png: --plot: cannot be written"),
        ((*COMPARE, "--plot", "out.jpg"), "out.jpg: --plot: unknown format"),
        ((*COMPARE, "--json", "good.toml/"), "--json: 'good.toml/' is also the input"),
        ((*COMPARE, "--json", "-", "--csv", "-"), "--csv: '-' is also the path of --json"),
        ((*COMPARE, "--json", "new", "--csv", "./new"), "--csv: './new' is also the path of --json"),
        # The first could be written, but is not.
        ((*COMPARE, "--json", "out.json", "--csv", "folder"), "folder: --csv: is a directory"),
        ((*RUN, "--trace", "missing/out"), "missing/out: --trace: cannot be written"),
        (("calibrate", "good.toml", "--json", "missing/out"), "missing/out: --json: cannot be written"),
        ((*ALL_REDUCE, "--csv", "missing/out"), "missing/out: --csv: cannot be written"),
        # What is not there.
        (RUN, "good.toml: --fabric: there are 2 fabrics, and none is chosen (accepted: one of mesh, fred)"),
        ((*RUN, "--fabric", "mesh", "--workload", "nett"), "good.toml: --workload: no workload 'nett'; did you mean "),
        (("calibrate", "good.toml"), "good.toml: no workload has a calibration (accepted: [workloads.NAME.calibratio"),
    ],
)
def test_commands_that_cannot_be(arguments: tuple[str, ...], message: str) -> None:
    assert refused(*arguments).startswith(message)
    assert not Path("good.cells").exists()


def test_bad_cells() -> None:
    Path("cell.json").write_text("{}")
    merge = ("merge", "good.toml", "--json", "out.json")
    assert refused(*merge, "cell.json") == "cell.json: is not a store (accepted: a store that fredfw wrote)"
    assert Path("cell.json").read_text() == "{}"
    assert refused(*merge, "missing").startswith("missing: there is no such store")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all-reduc"], "pattern: no collective 'all-reduc'; did you mean 'all-reduce'?"),
        (["all-reduce", "--topology", "mesh"], "--topology: no topology 'mesh'; did you mean 'mesh2d'?"),
        (["all-reduce", "--set", "rowz=2"], "--set.rowz: unknown key; did you mean 'rows'?"),
        (["all-reduce", "--set", f"rows={'9' * 5000}"], "--set.rows: "),
        (["all-reduce", "-b", "1G"], "--minbytes: the first size, 1073741824 bytes, is more than the last, 33554432"),
        (["all-reduce", "-b", "8", "-e", "16G"], "--minbytes: from 8 to 17179869184 bytes there are more than 10000"),
        (["all-reduce", "-b", "8", "-f", "1"], "--stepfactor: '1' is not a factor"),
        (["all-reduce", "-e", "much"], "--maxbytes: 'much' is not a quantity"),
        (["all-reduce", "-i", "0"], "--stepbytes: '0' is not a size"),
        (["broadcast", "--root", "20"], "root: root 20 is not in the group"),
        (["all-reduce", "--algorithm", "rign"], "--algorithm: no collective 'rign'; did you mean 'ring'?"),
        (["all-reduce", "--option", "chunks=2"], "--option: options are given, but no algorithm"),
        (["all-reduce", "--algorithm", "ring", "--option", "chunk=2"], "--option.chunk: unknown key; did you mean"),
    ],
)
def test_bad_collectives(arguments: list[str], message: str) -> None:
    assert refused("collective", "--topology", "mesh2d", *arguments, "--json", "out.json").startswith(message)


@pytest.mark.parametrize(
    ("name", "now"),
    [("stepwise", "'exact'; phases stay whole"), ("per-rank-rendezvous", "'exact', and a transport with")],
)
def test_fidelities_of_an_earlier_release_are_named(name: str, now: str) -> None:
    assert f"'{name}' is now {now}" in fails(*COMPARE, "--fidelity", name)


@pytest.mark.parametrize("path", ["a\x00b.toml", f"{'a' * 300}.toml"], ids=["null", "long"])
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
    ("path", "value"),
    [
        ("fabrics.mesh.topology.link_bandwidth", "1e-300 B/s"),
        *(("fabrics.mesh.topology.rows", value) for value in (10**400, 2**63, 1e22)),
        ("workloads.net.compute_scale", 1e-308),
    ],
)
def test_a_number_that_cannot_be_computed_with_names_its_key(path: str, value: object) -> None:
    with experiments.refused(path):
        experiments.FRAMEWORK.load_experiment(tomllib.loads(GOOD), values={path: value})


# --- Terminals without letters, names that are no text, no folder: each starts several programs.


def run(*arguments: str, cwd: Path | None = None, start: str = "", **more: str) -> tuple[int, bytes, bytes]:
    """Return the code, standard output and standard error of a command in another Python."""
    command = process(*arguments, start=start)
    done = subprocess.run(command, capture_output=True, env=environment(**more), cwd=cwd, timeout=60, check=False)
    assert b"Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_terminal_without_the_letters_gets_escapes_and_a_file_the_letters() -> None:
    Path("good.toml").write_text('title = "größer"\n' + GOOD.replace("fabrics.mesh", 'fabrics."größer"'), "utf-8")
    code, table, errors = run("compare", "good.toml", "--no-progress", PYTHONIOENCODING="ascii")
    assert (code, b"gr\\xf6\\xdfer" in table) == (0, True), errors
    _, document, _ = run("compare", "good.toml", "--json", "-", PYTHONIOENCODING="ascii")
    assert json.loads(document.decode("utf-8"))["title"] == "größer"
    code, _, errors = run("run", "good.toml", "--fabric", "größe", PYTHONIOENCODING="ascii")
    assert (code, b"no fabric" in errors) == (2, True)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
@pytest.mark.slow
def test_a_file_whose_name_is_not_text() -> None:
    given, written, absent = (os.fsdecode(name) for name in (b"\xff.toml", b"\xfe.json", b"\xfd.toml"))
    Path(given).write_text(GOOD, encoding="utf-8")
    code, _, errors = run("compare", given, "--no-progress", "--json", written, "--csv", "-")
    assert (code, errors.splitlines()) == (0, [b"wrote \\udcfe.json"])
    assert json.loads(Path(written).read_text(encoding="utf-8"))["title"] == "\\udcff"
    code, _, errors = run("compare", absent)
    assert (code, b"\\udcfd.toml: cannot be read" in errors) == (2, True)


@pytest.mark.skipif(sys.platform != "linux", reason="a directory in use cannot be deleted elsewhere")
@pytest.mark.slow
def test_a_working_directory_that_is_deleted(directory: Path) -> None:
    gone, good = directory / "gone", str(directory / "good.toml")
    gone.mkdir()
    leave = "import os, sys; os.rmdir(os.getcwd()); "
    importing = [sys.executable, "-c", f"{leave}import numpy"]
    if subprocess.run(importing, capture_output=True, cwd=gone, check=False).returncode:
        pytest.skip("NumPy cannot be imported there, as with CPython 3.13.0")
    for arguments, expected in (
        (("compare", "good.toml"), 2),
        (("compare", good, "--json", "out.json"), 2),
        (("--plugin", "own.py", "plugins", "list"), 2),
        (("compare", good, "--no-progress"), 0),
    ):
        gone.mkdir(exist_ok=True)
        code, _, errors = run(*arguments, cwd=gone, start=leave)
        assert code == expected, errors


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
