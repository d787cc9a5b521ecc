"""Where results go: files, pipes, full disks, exporters."""

import json
import os
import subprocess
from pathlib import Path
from typing import IO

import pytest
from command_line import TWO, environment, fails, fredfw, process, refused, results, succeeds

from fredfw.experiment.results import Comparison

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")


def sampled(first: list[str], *others: list[str]) -> pytest.MarkDecorator:
    """Return the arguments of a test, of which only the first are not slow."""
    return pytest.mark.parametrize("arguments", [first, *(pytest.param(one, marks=pytest.mark.slow) for one in others)])


COMPARE = ["compare", TWO]


def ended(output: IO[str] | int | None, *command: str) -> tuple[int, str]:
    """Return the code of a command whose standard output is ``output``, and what is on its standard error."""
    done = subprocess.run(command, env=environment(), stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


@FULL
@sampled(["chat"], COMPARE, [*COMPARE, "--json", "-"])
def test_a_full_disk_is_one_line_and_code_1(arguments: list[str]) -> None:
    message = "fredfw: error: standard output cannot be written: No space left on device\n"
    with open("/dev/full", "w") as full:
        assert ended(full, *process(*arguments)) == (1, message)


@sampled(["speed", "--json", "-"], [*COMPARE, "--json", "-"])
def test_a_closed_standard_output_is_one_line_and_code_2(arguments: list[str]) -> None:
    message = "fredfw: error: --json: standard output is closed (accepted: a path, or a standard output that is open)\n"
    assert ended(None, "sh", "-c", 'exec "$@" >&-', "sh", *process(*arguments)) == (2, message)


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
    reader, writer = os.pipe()
    os.close(reader)
    assert ended(writer, *process(*arguments))[1] == ""
    os.close(writer)


def test_results_go_through_exporters_and_each_file_is_named_on_standard_error() -> None:
    succeeds("compare", TWO, "--export", "seconds", "all.txt", "--export", "json", "a.json", "--json", "b.json")
    assert Path("all.txt").read_text() == "2.0 1.5"
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()
    exports = ("--export", "seconds", "one.txt", "--export", "trace", "c.json", "--trace", "d.json")
    succeeds("run", TWO, "--fabric", "fast", *exports)
    assert Path("one.txt").read_text() == "1.5"
    assert Path("c.json").read_bytes() == Path("d.json").read_bytes()
    result = fredfw("compare", TWO, "--json", "-", "--csv", "out.csv", "--plot", "\x1b[31m.svg")
    assert (result.exit_code, json.loads(result.stdout)["format"]) == (0, "fredfw.comparison")
    assert result.stderr == "wrote out.csv\nwrote \\x1b[31m.svg\n"
    assert fredfw("compare", TWO, "--json", "-").stderr == ""


RING = ("collective", "all-reduce", "--topology", "switch", "--set", "npus=4", "--algorithm", "ring")
ONE = (*RING, "--size", "1MB", "--export")


def test_an_exporter_may_fill_a_directory_and_writes_nothing_outside_of_it() -> None:
    Path("empty").mkdir()
    for folder in ("new", "empty"):
        succeeds(*ONE, '{name = "folder", ending = "md"}', folder)
        assert {path.name: path.read_text() for path in Path(folder).iterdir()} == {f"{n}.md": "6" for n in range(4)}
    assert refused(*ONE, "folder", "new").startswith("new: --export folder new: exists, and is not an empty directory")
    told = fails(*ONE, '{ name = "folder", ending = "../x" }', "other", code=1)
    assert "names a file '../x'; expected the name of a file, without a directory" in told
    assert results() == ["empty", "new", TWO]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*ONE, "folder", "-"), "several files cannot go to standard output"),
        ((*ONE, "folder", "no/new"), "cannot be made: No such file or directory"),
        ((*RING, "--sizes", "1MB:2MB:x2", "--export", "folder", "x"), "no form for a sweep (accepted: a collective)"),
        ((*ONE, "seconds", "x"), "for a collective (accepted: a run or comparison)"),
        (("compare", TWO, "--export", "second", "x"), "did you mean 'seconds'"),
        (("compare", TWO, "--export", "trace", "x"), "no form for a comparison (accepted: a run)"),
        (("run", TWO, "--export", '{ name = "seconds", a = 1 }', "x"), "--export.a: unknown key"),
    ],
)
def test_exports_that_cannot_be(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*arguments)
