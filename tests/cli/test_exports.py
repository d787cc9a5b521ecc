"""Results through exporters: --export, and the short options."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import TWO, fails, refused, results, succeeds


def test_results_go_through_exporter_plugins() -> None:
    succeeds("compare", TWO, "--export", "seconds", "all.txt", "--json", "all.json")
    assert Path("all.txt").read_text() == "2.0 1.5"
    assert Path("all.json").exists()
    succeeds("run", TWO, "--fabric", "fast", "--export", "seconds", "one.txt")
    assert Path("one.txt").read_text() == "1.5"
    assert "did you mean 'seconds'" in refused("compare", TWO, "--export", "second", "x.txt")


def test_short_options_are_exporters() -> None:
    succeeds("compare", TWO, "--export", "json", "a.json", "--json", "b.json", "--export", "csv", "a.csv")
    succeeds("run", TWO, "--fabric", "fast", "--export", "trace", "c.json", "--trace", "d.json")
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()
    assert Path("a.csv").read_text().startswith("workload,")
    assert Path("c.json").read_bytes() == Path("d.json").read_bytes()


RING = ("collective", "all-reduce", "--topology", "switch", "--set", "npus=4", "--algorithm", "ring")
ONE = (*RING, "--size", "1MB", "--export")


def test_an_exporter_may_fill_a_directory() -> None:
    succeeds(*ONE, '{name = "folder", ending = "md"}', "out")
    assert {path.name: path.read_text() for path in Path("out").iterdir()} == {f"{n}.md": "6" for n in range(4)}
    assert refused(*ONE, "folder", "out").startswith("out: --export folder out: exists, and is not an empty directory")
    Path("new").mkdir()
    succeeds(*ONE, "folder", "new")
    assert len(list(Path("new").iterdir())) == 4


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


def test_a_file_outside_of_its_directory_is_not_written() -> None:
    told = fails(*ONE, '{ name = "folder", ending = "../x" }', "out", code=1)
    assert "names a file '../x'; expected the name of a file, without a directory" in told
    assert results() == [TWO]
