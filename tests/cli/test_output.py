"""Where results go: files, pipes, full disks, exporters."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from command_line import TWO, environment, fails, fredfw, process, refused, results, succeeds

from fredfw.experiment.results import Comparison

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")


def sampled(first: list[str], *others: list[str]) -> pytest.MarkDecorator:
    """Return the arguments of a test, of which only the first are not slow."""
    return pytest.mark.parametrize("arguments", [first, *(pytest.param(one, marks=pytest.mark.slow) for one in others)])


COMPARE = ["compare", TWO]


@FULL
@sampled(["chat"], COMPARE, [*COMPARE, "--json", "-"])
def test_a_full_disk_is_one_line_and_code_1(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command, pipe = process(*arguments), subprocess.PIPE
        done = subprocess.run(command, env=environment(), stdout=full, stderr=pipe, text=True, check=False)
    message = "fredfw: error: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


@sampled(["speed", "--json", "-"], [*COMPARE, "--json", "-"])
def test_a_closed_standard_output_is_one_line_and_code_2(arguments: list[str]) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *process(*arguments)]
    done = subprocess.run(command, env=environment(), stderr=subprocess.PIPE, text=True, check=False)
    message = "fredfw: error: --json: standard output is closed (accepted: a path, or a standard output that is open)\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_outputs_are_all_written_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.json").write_text("old")

    def becomes_a_folder(self: Comparison) -> str:
        Path("out.csv").mkdir()
        return "new"

    monkeypatch.setattr(Comparison, "to_json", becomes_a_folder)
    told = fails("compare", TWO, "--json", "out.json", "--csv", "out.csv")
    assert told.startswith("fredfw: error: out.csv: cannot be written: ")
    assert Path("out.json").read_text() == "old"
    assert results() == ["out.csv", "out.json", "two.toml"]


@sampled(COMPARE, [*COMPARE, "--json", "-"], ["speed"], ["chat"], ["--help"])
def test_a_reader_that_goes_away_is_no_error(arguments: list[str]) -> None:
    command, pipe = process(*arguments), subprocess.PIPE
    with subprocess.Popen(command, env=environment(), stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""


def test_results_go_through_exporters_and_each_file_is_named_on_standard_error() -> None:
    succeeds("compare", TWO, "--export", "seconds", "all.txt", "--json", "all.json")
    assert Path("all.txt").read_text() == "2.0 1.5"
    assert Path("all.json").exists()
    succeeds("run", TWO, "--fabric", "fast", "--export", "seconds", "one.txt")
    assert Path("one.txt").read_text() == "1.5"
    assert "did you mean 'seconds'" in refused("compare", TWO, "--export", "second", "x.txt")
    succeeds("compare", TWO, "--export", "json", "a.json", "--json", "b.json", "--export", "csv", "a.csv")
    succeeds("run", TWO, "--fabric", "fast", "--export", "trace", "c.json", "--trace", "d.json")
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()
    assert Path("a.csv").read_text().startswith("workload,")
    assert Path("c.json").read_bytes() == Path("d.json").read_bytes()
    result = fredfw("compare", TWO, "--json", "-", "--csv", "out.csv", "--plot", "\x1b[31m.svg")
    assert (result.exit_code, json.loads(result.stdout)["format"]) == (0, "fredfw.comparison")
    assert result.stderr == "wrote out.csv\nwrote \\x1b[31m.svg\n"
    assert fredfw("compare", TWO, "--json", "-").stderr == ""


RING = ("collective", "all-reduce", "--topology", "switch", "--set", "npus=4", "--algorithm", "ring")
ONE = (*RING, "--size", "1MB", "--export")


def test_an_exporter_may_fill_a_directory_and_writes_nothing_outside_of_it() -> None:
    succeeds(*ONE, '{name = "folder", ending = "md"}', "out")
    assert {path.name: path.read_text() for path in Path("out").iterdir()} == {f"{n}.md": "6" for n in range(4)}
    assert refused(*ONE, "folder", "out").startswith("out: --export folder out: exists, and is not an empty directory")
    Path("new").mkdir()
    succeeds(*ONE, "folder", "new")
    assert len(list(Path("new").iterdir())) == 4
    told = fails(*ONE, '{ name = "folder", ending = "../x" }', "other", code=1)
    assert "names a file '../x'; expected the name of a file, without a directory" in told
    assert results() == ["new", "out", TWO]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*ONE, "folder", "-"), "several files cannot go to standard output"),
        ((*ONE, "folder", "no/new"), "cannot be made: No such file or directory"),
        ((*RING, "--sizes", "1MB:2MB:x2", "--export", "folder", "x"), "no form for a sweep (accepted: a collective)"),
        ((*ONE, "seconds", "x"), "for a collective (accepted: a run or comparison)"),
        (("compare", TWO, "--export", "folder", "x"), "exporter 'folder' has no form for a comparison"),
        (("compare", TWO, "--export", "trace", "x"), "no form for a comparison (accepted: a run)"),
        (("run", TWO, "--export", '{ name = "seconds", a = 1 }', "x"), "--export.a: unknown key"),
    ],
)
def test_exports_that_cannot_be(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*arguments)
