import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import fails, refused, succeeds, words

# A format whose files begin with a word of its own, and say how many layers there are, of two ranks.
PLUGIN = '''
from pathlib import Path
from typing import ClassVar

from attrs import frozen
from fredfw import DeviceMesh, GraphBuilder, Pattern, TraceCalls, TraceInfo, TraceWorkload, hookimpl, units


@frozen
class Lines(TraceWorkload):
    """Lines of a file."""
    name: ClassVar[str] = "NAME"
    traces: tuple[str, ...] = units.option(help="files")
    broken: bool = units.flag(False, help="whether it answers wrongly")

    @classmethod
    def recognises(cls, name, head):
        return head.startswith(b"lines ")

    def mesh(self, system):
        return DeviceMesh({"rank": 2})

    def graph(self, system):
        builder = GraphBuilder(2)
        before = [(), ()]
        for layer in range(int(Path(self.traces[0]).read_text().split()[1])):
            made = [builder.compute("secret", [r], seconds=1e-3, after=before[r]) for r in range(2)]
            before = [(builder.collective("secret", Pattern.ALL_REDUCE, [[0, 1]], 1e6, label="dp", after=made),)] * 2
        return builder.build()

    def notes(self, system):
        return (f"layers of {system.npus} ranks",)

    def info(self):
        calls = (TraceCalls("all-reduce", "all", 2, 3e6, 1e6, 2e6, 0.25),)
        found = []
        for path in self.traces:
            rank = int(path.split(".")[1])
            nodes, seconds = {"COMP": 2, "CALL": 2}, {"COMP": 0.5 + rank, "CALL": 0.25}
            more = {"all": (0, 1)}, 5, 1, 1e12, 1e9, {"schema": "7"}, ("nothing is missing",)
            found.append(TraceInfo(path, rank, nodes, seconds, calls, *more))
        return 7 if self.broken else tuple(found)


@hookimpl
def fredfw_workloads():
    return [Lines]
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("lines", "others"):
        Path(f"{name}.py").write_text(PLUGIN.replace("NAME", name))
    for name in ("a.0", "b.0", "layers"):
        Path(f"{name}.trace").write_text("lines 3")
    Path("a.1.trace").write_bytes(gzip.compress(b"lines 3"))
    Path("unknown").write_text("rows 3")


INFO = "--plugin", "lines.py", "trace", "info"
BOTH = "--plugin", "others.py", *INFO


def test_tables_and_the_document_show_what_the_files_hold() -> None:
    printed = succeeds(*INFO, "a.0.trace", "a.1.trace")
    rows = words(printed)
    assert ["a.0.trace", "0", "4", "5", "1", "0.75", "1e+12", "1e+09"] in rows
    assert ["a.1.trace", "1", "4", "5", "1", "1.75", "1e+12", "1e+09"] in rows
    assert ["COMP", "4", "2"] in rows
    assert ["all-reduce", "all", "4", "6e+06", "1e+06", "2e+06", "0.5"] in rows
    assert ["all", "2", "0,", "1"] in rows
    assert printed.endswith("schema: 7\nnothing is missing\n")
    document: dict[str, Any] = json.loads(succeeds(*INFO, "a.1.trace", "--json", "-"))
    assert (document["format"], document["version"], document["workload"]) == ("fredfw.trace-info", 1, "lines")
    (file,) = document["files"]
    assert (file["path"], file["rank"], file["dangling"], file["seconds"]["COMP"]) == ("a.1.trace", 1, 1, 1.5)
    assert file["calls"][0]["operation"] == "all-reduce"
    assert file["communicators"] == {"all": [0, 1]}


def test_the_format_may_be_given_and_a_wrong_answer_names_the_plugin() -> None:
    succeeds(*INFO, "a.0.trace", "--format", "{ name = 'lines', broken = false }")
    succeeds(*BOTH, "a.0.trace", "--format", "others")
    told = fails(*INFO, "a.0.trace", "--format", "{ name = 'lines', broken = true }", code=1)
    assert "Lines.info() of 'lines' returned 7; expected a tuple of fredfw.TraceInfo" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("unknown", "unknown: is of no format that an installed plugin reads (accepted: --format with one of: "),
        ("missing", "missing: cannot be read: No such file or directory"),
        ("a.0.trace --format cnn", "--format: the workload 'cnn' reads no traces"),
        ("a.0.trace --format line", "--format: no workload 'line'; did you mean 'lines'?"),
        ("a.0.trace --format {name='lines',brokn=true}", "--format.brokn: "),
        ("a.0.trace --json a.0.trace", "--json: 'a.0.trace' is also the input"),
        ("a.0.trace a.1.trace b.0.trace", "b.0.trace: is of rank 0, and so is a.0.trace"),
    ],
)
def test_bad_input_is_named(arguments: str, message: str) -> None:
    assert refused(*INFO, *arguments.split()).startswith(message)


def test_files_of_several_or_different_formats_are_refused() -> None:
    message = "a.0.trace: may be of the formats lines, others (accepted: --format with one of: "
    assert refused(*BOTH, "a.0.trace").startswith(message)
    Path("others.py").write_text(PLUGIN.replace("NAME", "others").replace('b"lines "', 'b"others "'))
    Path("b.1.trace").write_text("others 3")
    message = "b.1.trace: is of the format others, and a.0.trace of lines: they are of different formats"
    assert refused(*BOTH, "a.0.trace", "b.1.trace").startswith(message)
    Path("a.0.et").write_bytes(b"")
    Path("a.1.json.gz").write_bytes(gzip.compress(b'{"schemaVersion": 1, "traceEvents": []}'))
    for files in (("a.0.et", "a.1.json.gz"), ("a.1.json.gz", "a.0.et")):
        assert "they are of different formats (accepted: files of one format)" in refused(*INFO, *files)


_PLACES = (parent / "shared" / "samples" / "chakra" for parent in Path(__file__).resolve().parents)
SAMPLES = next((one for one in _PLACES if one.is_dir()), Path("samples"))
SWITCH = "{ name = 'switch', npus = 64, link_bandwidth = '50 GB/s' }"
SYNTHESIZE = "--plugin", "lines.py", "trace", "synthesize"
LAYERS = *SYNTHESIZE, "layers.trace"
TWIN = "--ranks", "2", "--output", "twin/x"


def rows(printed: str) -> dict[str, list[str]]:
    parts = (re.split(r"\s{2,}", line.strip()) for line in printed.splitlines())
    return {name: values for name, *values in parts if len(values) >= 3}


def test_it_writes_chakra_traces_and_prints_how_far_they_are() -> None:
    printed = succeeds(*LAYERS, "--ranks", "6", "--output", "twin/gpt", "--topology", SWITCH)
    found = rows(printed)
    assert found["message size (B)"] == ["1e+06", "1e+06", "+0.00", "0.000"]
    assert found["all-reduce per rank (B)"] == ["3e+06", "3e+06", "+0.00"]
    assert found["computation (s) per rank"][:2] == ["0.003", "0.003"]
    assert float(found["time of an iteration (s)"][1]) > float(found["time of an iteration (s)"][0]) > 0.003
    assert "note: layers of 2 ranks" in printed
    traces = [f"gpt.{rank}.et" for rank in range(6)]
    assert sorted(one.name for one in Path("twin").iterdir()) == ["comm_groups.json", *traces]
    assert not any(b"secret" in one.read_bytes() for one in Path("twin").iterdir())
    assert re.search(r"all-reduce +all +18 +1.8e\+07", succeeds("trace", "info", *(f"twin/{one}" for one in traces)))


def test_a_seed_gives_the_same_files_and_a_full_directory_is_refused() -> None:
    for name in ("one", "same"):
        succeeds(*LAYERS, "--ranks", "4", "--output", f"{name}/x", "--seed", "1")
    for one in Path("one").iterdir():
        assert one.read_bytes() == (Path("same") / one.name).read_bytes()
    Path("twin").mkdir()
    Path("twin/other").touch()
    Path("layers.trace").write_text("lines many")  # which fails when it is read
    assert "twin: --output: exists, and is not an empty directory" in refused(*LAYERS, *TWIN)
    assert [one.name for one in Path("twin").iterdir()] == ["other"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*LAYERS, *TWIN, "--ranks", "0"], "Invalid value for '--ranks'"),
        ([*LAYERS, *TWIN, "--topology", "ring"], "--topology"),
        ([*LAYERS, *TWIN, "--output", "twin/x*"], "--output.prefix: 'x*' cannot begin a name"),
        ([*SYNTHESIZE, "missing", *TWIN], "missing: cannot be read"),
        ([*LAYERS, *TWIN, "--format", "{ name = 'lines', traces = 'b.*' }"], "--format.traces: is what FILE... gives"),
        ([*LAYERS, *TWIN, "--ranks", "99", "--topology", SWITCH], "a graph of 99 ranks"),
    ],
)
def test_a_twin_that_cannot_be_made(arguments: list[str], message: str) -> None:
    assert message in fails(*arguments)
    assert not Path("twin").exists()


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="there are no samples beside the checkout")
@pytest.mark.parametrize(("name", "ranks"), [("gpt_tp2_dp2_pp2", 8), ("gpt_fsdp4", 4), ("gpt_pp4_mb2", 4)])
def test_twins_of_samples(name: str, ranks: int) -> None:
    place = SAMPLES / f"stage_{name}"
    files = [str(place / f"{name}.{rank}.et") for rank in range(ranks)]
    reader = f"{{ name = 'chakra', mode = 'roofline', comm_groups = '{place / name}.json' }}"
    network = "{ name = 'mesh2d', rows = 8, columns = 8 }"
    command = (*SYNTHESIZE, *files, "--format", reader, "--topology", network)
    found = rows(succeeds(*command, "--ranks", str(ranks), "--output", "a/x"))
    difference = {key: abs(float(values[2])) for key, values in found.items() if key != "statistic"}
    assert difference["time of an iteration (s)"] < 10
    assert max(value for key, value in difference.items() if key.endswith("(B)")) < 2
    more = rows(succeeds(*command, "--ranks", str(8 * ranks), "--output", "b/x"))
    assert float(more["time of an iteration (s)"][1]) > 0
    assert len(list(Path("b").iterdir())) == 8 * ranks + 1
