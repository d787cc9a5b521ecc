"""Results through exporters: --export, and the short options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result


def test_results_go_through_exporter_plugins(
    experiment: str, tmp_path: Path, fredfw: Callable[..., Result], succeeds: Callable[..., str]
) -> None:
    succeeds("compare", experiment, "--export", "seconds", "all.txt", "--json", "all.json")
    assert (tmp_path / "all.txt").read_text() == "2.0 1.5"
    assert (tmp_path / "all.json").exists()
    succeeds("run", experiment, "--fabric", "fast", "--export", "seconds", "one.txt")
    assert (tmp_path / "one.txt").read_text() == "1.5"
    result = fredfw("compare", experiment, "--export", "second", "x.txt")
    assert result.exit_code == 2
    assert "did you mean 'seconds'" in result.stderr


def test_short_options_are_exporters(experiment: str, tmp_path: Path, succeeds: Callable[..., str]) -> None:
    succeeds("compare", experiment, "--export", "json", "a.json", "--json", "b.json", "--export", "csv", "a.csv")
    succeeds("run", experiment, "--fabric", "fast", "--export", "trace", "c.json", "--trace", "d.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert (tmp_path / "a.csv").read_text().startswith("workload,")
    assert (tmp_path / "c.json").read_bytes() == (tmp_path / "d.json").read_bytes()


RING = ("collective", "all-reduce", "--topology", "switch", "--set", "npus=4", "--algorithm", "ring")


def test_an_exporter_may_fill_a_directory(
    experiment: str, tmp_path: Path, fredfw: Callable[..., Result], succeeds: Callable[..., str]
) -> None:
    succeeds(*RING, "--size", "1MB", "--export", '{name = "folder", ending = "md"}', "out")
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {f"{n}.md": "6" for n in range(4)}
    again = fredfw(*RING, "--size", "1MB", "--export", "folder", "out")
    assert again.exit_code == 2
    assert "out: --export folder out: exists, and is not an empty directory" in again.stderr
    (tmp_path / "new").mkdir()
    succeeds(*RING, "--size", "1MB", "--export", "folder", "new")
    assert len(list((tmp_path / "new").iterdir())) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*RING, "--size", "1MB", "--export", "folder", "-"), "several files cannot go to standard output"),
        ((*RING, "--size", "1MB", "--export", "folder", "no/new"), "cannot be made: No such file or directory"),
        (
            (*RING, "--sizes", "1MB:2MB:x2", "--export", "folder", "x"),
            "has no form for a sweep (accepted: a collective)",
        ),
        (
            (*RING, "--size", "1MB", "--export", "seconds", "x"),
            "for a collective (accepted: a run or comparison)",
        ),
        (("compare", "{}", "--export", "folder", "x"), "exporter 'folder' has no form for a comparison"),
        (
            ("compare", "{}", "--export", "trace", "x"),
            "no form for a comparison (accepted: a run)",
        ),
        (("run", "{}", "--export", '{ name = "seconds", a = 1 }', "x"), "--export.a: unknown key"),
    ],
)
def test_exports_that_cannot_be(
    experiment: str, tmp_path: Path, arguments: tuple[str, ...], message: str, fredfw: Callable[..., Result]
) -> None:
    given = (one.replace("{}", experiment) if one == "{}" else one for one in arguments)
    result = fredfw(*given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert not any((tmp_path / name).exists() for name in ("x", "new", "no"))


def test_a_file_outside_of_its_directory_is_not_written(
    experiment: str, tmp_path: Path, fredfw: Callable[..., Result]
) -> None:
    options = ("--size", "1MB", "--export", '{ name = "folder", ending = "../x" }', "out")
    result = fredfw(*RING, *options)
    assert result.exit_code == 1
    assert "names a file '../x'; expected the name of a file, without a directory" in result.stderr
    assert not (tmp_path / "out").exists()
