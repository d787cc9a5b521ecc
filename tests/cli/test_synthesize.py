from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import fails, refused, succeeds

# A format of files that hold the number of layers.
PLUGIN = '''
from typing import ClassVar

from attrs import frozen
from fredfw import DeviceMesh, Files, GraphBuilder, Pattern, TraceWorkload, hookimpl, units


@frozen
class Layers(TraceWorkload):
    """Layers of two ranks."""
    name: ClassVar[str] = "layers"
    traces: Files = units.files(help="files")

    @classmethod
    def recognises(cls, name, head):
        return head.startswith(b"layers ")

    def mesh(self, system):
        return DeviceMesh({"rank": 2})

    def graph(self, system):
        builder = GraphBuilder(2)
        before = [(), ()]
        for layer in range(int(self.traces.files[0].text().split()[1])):
            made = [builder.compute("secret", [r], seconds=1e-3, after=before[r]) for r in range(2)]
            before = [(builder.collective("secret", Pattern.ALL_REDUCE, [[0, 1]], 1e6, label="dp", after=made),)] * 2
        return builder.build()

    def notes(self, system):
        return (f"layers of {system.npus} ranks",)

    def info(self):
        return ()


@hookimpl
def fredfw_workloads():
    return [Layers]
'''
_PLACES = (parent / "shared" / "samples" / "chakra" for parent in Path(__file__).resolve().parents)
SAMPLES = next((one for one in _PLACES if one.is_dir()), Path("samples"))
SWITCH = "{ name = 'switch', npus = 64, link_bandwidth = '50 GB/s' }"


COMMAND = "--plugin", "layers.py", "trace", "synthesize"
LAYERS = *COMMAND, "a.0.trace"
TWIN = "--ranks", "2", "--output", "twin/x"


@pytest.fixture(autouse=True)
def folder(plugin: Path) -> None:
    Path("layers.py").write_text(PLUGIN)
    Path("a.0.trace").write_text("layers 3")


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


def test_a_seed_gives_the_same_files() -> None:
    for name in ("one", "same"):
        succeeds(*LAYERS, "--ranks", "4", "--output", f"{name}/x", "--seed", "1")
    for one in Path("one").iterdir():
        assert one.read_bytes() == (Path("same") / one.name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*LAYERS, *TWIN, "--ranks", "0"], "Invalid value for '--ranks'"),
        ([*LAYERS, *TWIN, "--topology", "ring"], "--topology"),
        ([*LAYERS, *TWIN, "--output", "twin/x*"], "--output.prefix: 'x*' cannot begin a name"),
        ([*COMMAND, "missing", *TWIN], "missing: cannot be read"),
        (
            [*LAYERS, *TWIN, "--format", "{ name = 'layers', traces = 'b.*' }"],
            "--format.traces: is what FILE... gives (accepted: a format without traces)",
        ),
        ([*LAYERS, *TWIN, "--ranks", "99", "--topology", SWITCH], "a graph of 99 ranks"),
    ],
)
def test_bad_input(arguments: list[str], message: str) -> None:
    assert message in fails(*arguments)
    assert not Path("twin").exists()


def test_a_full_directory_is_refused() -> None:
    Path("twin").mkdir()
    Path("twin/other").touch()
    Path("a.0.trace").write_text("layers many")  # which fails when it is read
    assert "twin: --output: exists, and is not an empty directory" in refused(*LAYERS, *TWIN)
    assert [one.name for one in Path("twin").iterdir()] == ["other"]


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="there are no samples beside the checkout")
@pytest.mark.parametrize(("name", "ranks"), [("gpt_tp2_dp2_pp2", 8), ("gpt_fsdp4", 4), ("gpt_pp4_mb2", 4)])
def test_twins_of_samples(name: str, ranks: int) -> None:
    place = SAMPLES / f"stage_{name}"
    files = [str(place / f"{name}.{rank}.et") for rank in range(ranks)]
    reader = f"{{ name = 'chakra', mode = 'roofline', comm_groups = '{place / name}.json' }}"
    network = "{ name = 'mesh2d', rows = 8, columns = 8 }"
    command = (*COMMAND, *files, "--format", reader, "--topology", network)
    found = rows(succeeds(*command, "--ranks", str(ranks), "--output", "a/x"))
    difference = {key: abs(float(values[2])) for key, values in found.items() if key != "statistic"}
    assert difference["time of an iteration (s)"] < 10
    assert max(value for key, value in difference.items() if key.endswith("(B)")) < 2
    more = rows(succeeds(*command, "--ranks", str(8 * ranks), "--output", "b/x"))
    assert float(more["time of an iteration (s)"][1]) > 0
    assert len(list(Path("b").iterdir())) == 8 * ranks + 1
