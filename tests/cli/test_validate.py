import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from command_line import refused, succeeds, words

from fredfw.validation import points
from fredfw.validation.points import systems

TABLE = """\
system,nodes,ranks,collective,size_B,time_us
H100 node,1,8,all-reduce,1048576,41.99
H100 node,1,8,all-reduce,1073741824,3980
H100 node,1,8,all-gather,1073741824,2700
"""


@pytest.fixture(autouse=True)
def table(plugin: Path) -> Path:
    path = Path("mine.csv")
    path.write_text(TABLE)
    return path


# Launching takes as long as it says: ten microseconds more where it was fitted without a source.
TRANSPORT = '''
from typing import ClassVar
from attrs import frozen
from fredfw import Costs, File, Transport, hookimpl, units

@frozen
class Launching(Transport):
    """Launching takes time."""
    name: ClassVar[str] = "launching"
    launch: float = units.duration("30 us", help="of a collective")
    without: str = units.option("", help="what the fit leaves out")
    def costs(self, call, fabric):
        return Costs(launch=self.launch + (1e-5 if self.without else 0.0))
    def fitted_to(self):
        return [File.at("mine.csv").digest[:16]]

@hookimpl
def fredfw_transports():
    return [Launching]
'''

DATA = "--data", "mine.csv"
IDEAL = "validate", *DATA, "--transport", "ideal"


def validated(*arguments: str) -> dict[str, Any]:
    Path("launching.py").write_text(TRANSPORT)
    printed = succeeds("--plugin", "launching.py", "validate", *DATA, "--json", "-", *arguments)
    document: dict[str, Any] = json.loads(printed)
    return document


def test_a_transport_is_shown_beside_ideal_and_that_of_a_system_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def added(*arguments: str) -> list[float]:
        return [one["predicted"] - one["ideal"] for one in validated(*arguments)["points"]]

    assert added("--transport", "launching") == pytest.approx([30e-6] * 3)
    assert added("--transport", '{ name = "launching", launch = "1 us" }') == pytest.approx([1e-6] * 3)
    own = {name: evolve(one, transport={"name": "launching", "launch": "7 us"}) for name, one in systems().items()}
    monkeypatch.setattr(points, "systems", lambda: own)
    for arguments in ((), ("--transport", "launching")):
        assert added(*arguments) == pytest.approx([7e-6] * 3)
    assert added("--transport", "ideal") == [0.0] * 3


def test_fitted_points_and_fits_without_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        "fitted": [{"sizes": "even powers of two", "patterns": ["all-reduce"]}],
        "without": {"field": "without", "source": ["mine.csv", "others"]},
    }
    monkeypatch.setattr(points, "splits", lambda: {"launching": entry})
    document = validated("--transport", "launching")
    assert document["transports"] == {"h100-node": {"name": "launching", "launch": 30e-6, "without": ""}}
    assert [one["status"] for one in document["points"]] == ["calibrated", "calibrated", "predicted"]
    (left_out,) = document["left_out"]
    assert (left_out["by"], left_out["name"]) == ("source", "mine.csv")
    for usual, without in zip(document["points"], left_out["points"], strict=True):
        assert without["predicted"] == pytest.approx(usual["predicted"] + 1e-5)
        assert without["status"] == "predicted"


def test_points_have_lines_another_system_a_note_and_times_come_with_it() -> None:
    # 2 x 7 / 8 of 2^30 bytes at 450 GB/s, against 3,980 us.
    expected = 2 * 7 / 8 * 2**30 / 450e9 * 1e6
    (line,) = (one for one in words(succeeds(*IDEAL, "--points")) if {"1073741824", "all-reduce"} <= set(one))
    assert [float(one) for one in line[-3:-1]] == pytest.approx([3980, expected], rel=1e-3)
    assert float(line[-1]) == pytest.approx(100 * (expected / 3980 - 1), abs=0.1)
    assert "1073741824 B" not in succeeds(*IDEAL)
    note = "mine.csv says that it was measured on H100 node, not on a100-node, which is simulated"
    assert f"note: {note}" in succeeds(*IDEAL, "--system", "a100-node", "--json", "out.json")
    assert json.loads(Path("out.json").read_text())["notes"] == [note]
    assert "note:" not in succeeds(*IDEAL)
    printed = succeeds("validate", "--system", "h200-node")
    assert "measured by azure-h200: Azure/AI-benchmarking-guide@8fd0c6e" in printed
    assert "H100 node" not in printed


def test_a_table_of_the_user_is_compared_with() -> None:
    printed = succeeds(*IDEAL, "--json", "out.json", "--plot", "out.png", "--report", "out.html")
    page = Path("out.html").read_text()
    for part in ("Predicted against measured times", "H100 node", "<svg", "--report=out.html", "3 measured times"):
        assert part in page
    assert "H100 node  all-reduce  above 32 MiB" in printed
    assert "measured: mine.csv" in printed
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads(Path("out.json").read_text())
    assert (document["format"], document["version"]) == ("fredfw.validation", 1)
    gather = document["points"][-1]
    assert (gather["measured"], gather["part"], gather["status"]) == (pytest.approx(2700e-6), "not fitted", "simulated")
    alone = next(one for one in document["scores"] if (one["pattern"], one["sizes"]) == ("all-gather", "above 32 MiB"))
    assert alone["score"]["ratio"] == pytest.approx(gather["predicted"] / gather["measured"])


OWN = """\
[fabrics.mine]
topology = { name = "switch", npus = 8, link_bandwidth = "100 GB/s", link_latency = "1 us" }
collectives = { default = "ring" }

[workloads.any]
workload = "microbenchmark"
"""

MINE = "validate", *DATA, "--fabric", "own.toml"


def test_a_fabric_of_the_user_predicts(table: Path) -> None:
    Path("own.toml").write_text(OWN)
    table.write_text("nodes,ranks,collective,size_B,time_us\n1,8,all-reduce,8e6,200\n2,4,all-gather,8e6,100\n")
    points = json.loads(succeeds(*MINE, "--points", "--json", "-"))["points"]
    # 14 steps of a ring of 1 MB, and 3 of 2 MB: each over two links of 1 us.
    assert [one["predicted"] for one in points] == pytest.approx([14 * 12e-6, 3 * 22e-6], rel=1e-9)
    assert {one["system"] for one in points} == {"mine"}


def test_a_fabric_that_the_table_does_not_fit_and_a_bad_table(table: Path) -> None:
    Path("own.toml").write_text(OWN)
    Path("two.toml").write_text(OWN + OWN.partition("\n\n")[0].replace("mine", "other"))
    assert refused("validate", "--fabric", "own.toml").startswith("--data: there are no times")
    assert refused(*MINE, "--system", "h100-node") == "--system: says it, too (accepted: one of the two)"
    assert refused(*MINE, "--fabric", "two.toml").startswith("two.toml: fabrics: has 2 fabrics: mine, other")
    table.write_text("nodes,ranks,collective,size_B,time_us\n1,9,all-reduce,8e6,200\n")
    assert refused(*MINE) == "mine.csv: line 2: 9 ranks on 1 node of mine (accepted: at most 8 on each)"
    table.write_text("gpu,dtype,m,n,k,time_us\nh100,bfloat16,8,8,8,5\n")
    assert "is no collective" in refused(*MINE)
    table.write_text(TABLE.replace("3980", "-3980"))
    told = refused("validate", *DATA, "--json", "out.json", "--plot", "out.png")
    assert told.startswith("mine.csv: line 3, column time_us: '-3980' cannot be used")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--system", "b100"), "--system: no measurements of 'b100' (accepted: a100-cluster, a100-node, "),
        (("--pattern", "scatter"), "--pattern: there are no measured times of scatter (accepted: all-gather, "),
        (("--pattern", "sendrecv", "--system", "h200-node"), "times of sendrecv on h200-node (accepted: all-reduce)"),
        ((*DATA, "--transport", "ncl"), "--transport: no transport 'ncl'"),
        ((*DATA, "--transport", "{ name = 'ideal', rate = 1 }"), "--transport.rate: "),
        ((*DATA, "--plot", "out.bmp"), "out.bmp: --plot: unknown format"),
        (("--data", "none.csv"), "none.csv: cannot be read: No such file"),
        ((*DATA, "--json", "mine.csv"), "--json: 'mine.csv' is also the input"),
        ((*DATA, "--system", "b100"), "--system: no system 'b100' of one node"),
    ],
)
def test_options_that_cannot_be_used(arguments: tuple[str, ...], said: str) -> None:
    assert said in refused("validate", *arguments)
