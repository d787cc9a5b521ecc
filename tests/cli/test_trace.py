from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import fails, refused, succeeds, words

# A format of lines "rank seconds", which begins with a word of its own.
PLUGIN = '''
from pathlib import Path
from typing import ClassVar
import gzip

from attrs import frozen
from fredfw import DeviceMesh, GraphBuilder, TraceCalls, TraceInfo, TraceWorkload, hookimpl, units


@frozen
class Lines(TraceWorkload):
    """Lines of a file."""
    name: ClassVar[str] = "{name}"
    traces: tuple[str, ...] = units.option(help="files")
    broken: bool = units.flag(False, help="whether it answers wrongly")

    @classmethod
    def recognises(cls, name, head):
        return head.startswith(b"lines ")

    def mesh(self, system):
        return DeviceMesh({{"rank": len(self.traces)}})

    def graph(self, system):
        return GraphBuilder(len(self.traces)).build()

    def info(self):
        return 7 if self.broken else tuple(map(self.one, self.traces))

    def one(self, path):
        content = Path(path).read_bytes()
        if content[:2] == b"\\x1f\\x8b":
            content = gzip.decompress(content)
        _, rank, seconds = content.decode().split()
        calls = (TraceCalls("all-reduce", "all", 2, 3e6, 1e6, 2e6, 0.25),)
        return TraceInfo(
            path, int(rank), {{"COMP": 2, "CALL": 2}}, {{"COMP": float(seconds), "CALL": 0.25}}, calls,
            {{"all": (0, 1)}}, 5, 1, 1e12, 1e9, {{"schema": "7"}}, ("nothing is missing",),
        )


@hookimpl
def fredfw_workloads():
    return [Lines]
'''


@pytest.fixture(autouse=True)
def folder(plugin: Path) -> None:
    for name in ("lines", "others"):
        Path(f"{name}.py").write_text(PLUGIN.format(name=name))
    Path("a.0.trace").write_text("lines 0 0.5")
    Path("a.1.trace").write_bytes(gzip.compress(b"lines 1 1.5"))
    Path("unknown").write_text("rows 0 0.5")


INFO = "--plugin", "lines.py", "trace", "info"
BOTH = "--plugin", "others.py", *INFO


def test_tables_show_what_the_files_hold() -> None:
    printed = succeeds(*INFO, "a.0.trace", "a.1.trace")
    rows = words(printed)
    assert ["a.0.trace", "0", "4", "5", "1", "0.75", "1e+12", "1e+09"] in rows
    assert ["a.1.trace", "1", "4", "5", "1", "1.75", "1e+12", "1e+09"] in rows
    assert ["COMP", "4", "2"] in rows
    assert ["all-reduce", "all", "4", "6e+06", "1e+06", "2e+06", "0.5"] in rows
    assert ["all", "2", "0,", "1"] in rows
    assert printed.endswith("schema: 7\nnothing is missing\n")


def test_the_document_has_each_file() -> None:
    document: dict[str, Any] = json.loads(succeeds(*INFO, "a.1.trace", "--json", "-"))
    assert (document["format"], document["version"], document["workload"]) == ("fredfw.trace-info", 1, "lines")
    (file,) = document["files"]
    assert (file["path"], file["rank"], file["dangling"], file["seconds"]["COMP"]) == ("a.1.trace", 1, 1, 1.5)
    assert file["calls"][0]["operation"] == "all-reduce"
    assert file["communicators"] == {"all": [0, 1]}


def test_the_format_may_be_given() -> None:
    succeeds(*INFO, "a.0.trace", "--format", "{ name = 'lines', broken = false }")
    succeeds(*BOTH, "a.0.trace", "--format", "others")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["unknown"], "unknown: is of no format that an installed plugin reads (accepted: --format with one of: "),
        (["missing"], "missing: cannot be read: No such file or directory"),
        (["a.0.trace", "--format", "cnn"], "--format: the workload 'cnn' reads no traces"),
        (["a.0.trace", "--format", "line"], "--format: no workload 'line'; did you mean 'lines'?"),
        (["a.0.trace", "--format", "{ name = 'lines', brokn = true }"], "--format.brokn: "),
        (["a.0.trace", "--json", "a.0.trace"], "--json: 'a.0.trace' is also the input"),
    ],
)
def test_bad_input_is_named(arguments: list[str], message: str) -> None:
    assert refused(*INFO, *arguments).startswith(message)


def test_a_file_that_several_plugins_read_needs_a_format() -> None:
    message = "a.0.trace: may be of the formats lines, others (accepted: --format with one of: "
    assert refused(*BOTH, "a.0.trace").startswith(message)


def test_files_of_different_formats_are_refused() -> None:
    Path("others.py").write_text(PLUGIN.format(name="others").replace('b"lines "', 'b"others "'))
    Path("b.1.trace").write_text("others 1 0.5")
    message = "b.1.trace: is of the format others, and a.0.trace of lines: they are of different formats"
    assert refused(*BOTH, "a.0.trace", "b.1.trace").startswith(message)
    Path("a.0.et").write_bytes(b"")
    Path("a.1.json.gz").write_bytes(gzip.compress(b'{"schemaVersion": 1, "traceEvents": []}'))
    for files in (("a.0.et", "a.1.json.gz"), ("a.1.json.gz", "a.0.et")):
        assert "they are of different formats (accepted: files of one format)" in refused(*INFO, *files)


def test_two_files_of_a_rank_are_refused() -> None:
    Path("b.0.trace").write_text("lines 0 0.5")
    told = refused(*INFO, "a.0.trace", "a.1.trace", "b.0.trace")
    assert told == "b.0.trace: is of rank 0, and so is a.0.trace (accepted: one file for each rank)"


def test_a_wrong_answer_names_the_plugin() -> None:
    told = fails(*INFO, "a.0.trace", "--format", "{ name = 'lines', broken = true }", code=1)
    assert "Lines.info() of 'lines' returned 7; expected a tuple of fredfw.TraceInfo" in told
