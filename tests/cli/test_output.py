"""Where results go: files, pipes, full disks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from fredfw.experiment.results import Comparison


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--json", "missing/out.json"], "missing/out.json: --json: cannot be written"),
        (["--json", "."], ".: --json: is a directory"),
        (["--json", "two.toml"], "--json: 'two.toml' is also the input"),
        (["--json", "two.toml/"], "--json: 'two.toml/' is also the input"),
        (["--json", "new/"], "new/: --json: names a directory"),
        (["--json", "new/."], "new/.: --json: names a directory"),
        (["--json", "out", "--csv", "./out"], "--csv: './out' is also the path of --json"),
        (["--json", "-", "--csv", "-"], "--csv: '-' is also the path of --json"),
        (["--plot", "out.jpg"], "out.jpg: --plot: unknown picture format"),
    ],
)
def test_bad_outputs_are_refused_before_anything_runs(
    experiment: str, arguments: list[str], message: str, is_refused: Callable[..., str]
) -> None:
    assert is_refused("compare", experiment, *arguments).startswith(message)
    assert not Path(experiment).with_suffix(".cells").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")
def test_an_output_file_on_a_full_disk_is_code_2(experiment: str, is_refused: Callable[..., str]) -> None:
    line = is_refused("compare", experiment, "--json", "/dev/full")
    assert line.startswith("/dev/full: cannot be written: No space left on device")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["compare", "two.toml"], marks=pytest.mark.slow),
        pytest.param(["compare", "two.toml", "--json", "-"], marks=pytest.mark.slow),
        ["chat"],
    ],
)
def test_a_full_disk_is_one_line_and_code_1(experiment: str, arguments: list[str], environment: dict[str, str]) -> None:
    del experiment  # is in the current directory
    command = [sys.executable, "-c", "from fredfw.cli import main; main(prog_name='fredfw')", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    message = "fredfw: error: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(["compare", "two.toml", "--json", "-"], marks=pytest.mark.slow), ["speed", "--json", "-"]],
)
def test_a_closed_standard_output_is_one_line_and_code_2(
    experiment: str, arguments: list[str], environment: dict[str, str]
) -> None:
    del experiment  # is in the current directory
    code = "from fredfw.cli import main; main(prog_name='fredfw')"
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    message = "fredfw: error: --json: standard output is closed (accepted: a path, or a standard output that is open)\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_each_file_that_was_written_is_named_on_standard_error(experiment: str, fredfw: Callable[..., Result]) -> None:
    result = fredfw("compare", experiment, "--json", "-", "--csv", "out.csv", "--plot", "\x1b[31m.svg")
    assert (result.exit_code, json.loads(result.stdout)["format"]) == (0, "fredfw.comparison")
    assert result.stderr == "wrote out.csv\nwrote \\x1b[31m.svg\n"
    assert fredfw("compare", experiment, "--json", "-").stderr == ""


def test_outputs_are_all_written_or_none(
    experiment: str, monkeypatch: pytest.MonkeyPatch, fredfw: Callable[..., Result], results: Callable[[], list[str]]
) -> None:
    Path("out.json").write_text("old")

    def becomes_a_folder(self: Comparison) -> str:
        Path("out.csv").mkdir()
        return "new"

    monkeypatch.setattr(Comparison, "to_json", becomes_a_folder)
    result = fredfw("compare", experiment, "--json", "out.json", "--csv", "out.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("fredfw: error: out.csv: cannot be written: ")
    assert Path("out.json").read_text() == "old"
    assert results() == ["out.csv", "out.json", "two.toml"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "two.toml"],
        *(
            pytest.param(arguments, marks=pytest.mark.slow)
            for arguments in (["compare", "two.toml", "--json", "-"], ["speed"], ["chat"], ["--help"])
        ),
    ],
)
def test_a_reader_that_goes_away_is_no_error(
    experiment: str, arguments: list[str], environment: dict[str, str]
) -> None:
    del experiment  # is in the current directory
    command = [sys.executable, "-c", "from fredfw.cli import main; main(prog_name='fredfw')", *arguments]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    process.wait()
