from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from fredfw.cli import main


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fred(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["fred", *arguments], prog_name="fredfw")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def succeeds(*arguments: str) -> str:
    result = fred(*arguments)
    written = "".join(f"wrote {path}\n" for path in arguments if path.startswith("out."))
    assert (result.exit_code, result.stderr) == (0, written)
    return result.stdout


def is_refused(*arguments: str, code: int = 2) -> str:
    """Check that it ends with ``code``, no output and one line on standard error; return that line."""
    result = fred(*arguments)
    assert (result.exit_code, result.stdout, os.listdir()) == (code, "", [])
    (line,) = result.stderr.splitlines()
    assert line.startswith("fredfw: error: ")
    return str(line.removeprefix("fredfw: error: "))


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# --- draw


def elements(svg: str) -> int:
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg")
    return len(list(root.iter()))


def test_draw() -> None:
    # Of the paper's figure: {3,4,5} with a second all-reduce on FRED_2(8).
    assert succeeds("draw", "--m", "2", "--ports", "8", "--flows", "3,4,5", "--flows", "1,2", "out.svg") == ""
    drawn = Path("out.svg").read_text(encoding="utf-8")
    assert elements(drawn) > 1
    # Both ways to write several flows, and standard output.
    assert succeeds("draw", "--m", "2", "--flows", "3,4,5; 1,2", "-") == drawn
    assert elements(succeeds("draw", "-")) > 1
    assert succeeds("draw", "--flows", "0,1:6", "-") != succeeds("draw", "--flows", "0,1", "-")


# Pairs of microswitches 0-1, 0-2 and 1-2: a triangle.
TRIANGLE = "0,2;1,4;3,5"


def test_draw_of_a_conflict() -> None:
    message = is_refused("draw", "--m", "2", "--flows", TRIANGLE, "out.svg", code=1)
    assert message == (
        "FRED_2(8): {0,2}->{0,2}, {1,4}->{1,4}, {3,5}->{3,5} cannot be routed together, "
        "stuck at depth 0 in the switch itself"
    )
    succeeds("draw", "--m", "3", "--flows", TRIANGLE, "out.svg")


@pytest.mark.parametrize(
    ("text", "part"), [("3;x", "x"), ("3,", "3,"), (":4", ":4"), ("4:", "4:"), ("", ""), ("1;", ""), ("1:2:3", "1:2:3")]
)
def test_texts_that_are_no_flows(text: str, part: str) -> None:
    accepted = "ports such as 3,4,5, or inputs:outputs such as 0,1:6"
    assert is_refused("draw", "--flows", text, "-") == f"--flows: '{part}' is not a flow (accepted: {accepted})"


def test_nothing_is_drawn_before_the_path_is_known_to_be_good() -> None:
    # The conflict would be exit code 1.
    assert is_refused("draw", "--m", "2", "--flows", TRIANGLE, "missing/out.svg").startswith("missing/out.svg: PATH")


# --- hardware


def test_hardware() -> None:
    # FRED (ISCA 2025): 35 chiplets, 25,195 mm2, 179.35 W.
    table = rows(succeeds("hardware"))
    assert [line[:4] for line in table if line[:1] in (["L1"], ["L2"])] == [
        ["L1", "3", "12", "24.512"],
        ["L1", "2", "11", "24.384"],
        ["L2", "1", "20", "60"],
    ]
    for start in (
        ["chiplets", "35", "published"],
        ["area", "(mm2)", "25195", "published"],
        ["power", "(W)", "179.35", "published"],
    ):
        assert start in [line[: len(start)] for line in table]


def test_hardware_as_json() -> None:
    succeeds("hardware", "--set", "arity=[4, 10]", "--set", "io_controllers=0", "--json", "out.json")
    (l1, l2) = json.loads(Path("out.json").read_text())["rows"]
    assert (l1["switches"], l1["down"]["count"], l1["up"]["count"], l2["down"]["count"]) == (10, 4, 4, 40)
    document = json.loads(succeeds("hardware", "--json", "-"))
    assert list(document)[:2] == ["format", "version"]
    assert (document["format"], document["version"]) == ("fredfw.fred-hardware", 1)
    assert [row["switches"] for row in document["rows"]] == [3, 2, 1]
    assert document["area"] == {"value": 25195.0, "status": "published", "source": "FRED, ISCA 2025"}


# --- check-routing


def test_check_routing() -> None:
    table = rows(succeeds("check-routing", "--npus", "20", "--m", "2", "--m", "3", "--placement", "linear"))
    assert " ".join(table[0]) == "Strategies of up to 20 NPUs, 4 per L1 switch"
    # m, placement, strategies, routable; conflicts in mp, dp, pp, mp+dp; no place, unproven.
    assert ["2", "linear", "152", "123", "0", "29", "0", "0", "0", "0"] in table
    assert ["3", "linear", "152", "152", "0", "0", "0", "0", "0", "0"] in table
    (example,) = [line for line in table if line[2:3] == ["MP(1)-DP(2)-PP(5)"]]
    assert example[:5] == ["2", "linear", "MP(1)-DP(2)-PP(5)", "dp", "L2.0:"]
    table = rows(succeeds("check-routing"))
    assert ["3", "linear", "152", "152", *["0"] * 6] in table
    assert table[-1] == ["none"]


def test_check_routing_as_json() -> None:
    placements = ("--placement", "linear", "--placement", "routable")
    words = ("check-routing", "--npus", "12", "--group", "3", "--m", "2", *placements)
    document = json.loads(succeeds(*words, "--json", "-"))
    assert succeeds(*words, "--json", "out.json").startswith("Strategies of up to 12 NPUs")
    assert json.loads(Path("out.json").read_text()) == document
    assert list(document) == ["format", "version", "npus", "group", "checks"]
    assert (document["format"], document["version"]) == ("fredfw.fred-routing", 1)
    assert (document["npus"], document["group"]) == (12, 3)
    linear, routable = document["checks"]
    keys = {"m", "placement", "strategies", "phases", "findings", "routable"}
    assert set(linear) == set(routable) == keys
    # The sum of d3(n), n = 1 .. 12.
    assert [(one["m"], one["placement"], one["strategies"]) for one in (linear, routable)] == [
        (2, "linear", 74),
        (2, "routable", 74),
    ]
    assert (routable["routable"], routable["findings"]) == (74, [])
    different = {json.dumps(finding["parallelism"]) for finding in linear["findings"]}
    assert linear["routable"] == 74 - len(different)
    for finding in linear["findings"]:
        assert set(finding) == {"parallelism", "phase", "conflict", "proven"}
        assert set(finding["parallelism"]) == {"mp", "dp", "pp"}


def test_check_routing_of_whole_wafers_and_of_one_switch() -> None:
    def checked(*arguments: str) -> Any:
        (one,) = json.loads(succeeds("check-routing", *arguments, "--json", "-"))["checks"]
        return one

    assert checked("--whole")["strategies"] == 18
    # d3(1) + .. + d3(6) = 1 + 3 + 3 + 6 + 3 + 9. Six NPUs and the 18 controllers are on one switch.
    single = checked("--npus", "6", "--group", "6", "--m", "2")
    assert single["strategies"] == 25
    assert single["findings"][0]["parallelism"] == {"mp": 1, "dp": 2, "pp": 3}
    assert single["findings"][0]["conflict"].startswith("L1.0: FRED_2(24): {0,3}->{0,3}, {1,4}->{1,4}, {2,5}->{2,5}")
    assert checked("--npus", "1", "--group", "1")["strategies"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["draw", "--flows", "3,8", "-"],
            "flow: flow {3,8}->{3,8} uses input port 8, but the switch has 8 ports (accepted: 0 to 7)",
        ),
        (["draw", "--m", "1", "-"], "m: 1 is not a valid number"),
        (["draw", "--ports", "1", "-"], "ports: 1 is not a valid number"),
        (["hardware", "--set", "variant=Z"], "--set.variant: 'Z'"),
        (
            ["hardware", "--set", "arity=[1]", "--set", "io_controllers=0"],
            "arity: a switch at level 1 has a single port",
        ),
        (["hardware", "--json", "missing/out.json"], "missing/out.json: --json: cannot be written"),
        (["check-routing", "--npus", "21"], "--npus: 21 NPUs in groups of 4 (accepted: 4 or a multiple of it)"),
        (["check-routing", "--npus", "0"], "--npus: 0 NPUs in groups of 4"),
        (["check-routing", "--group", "0"], "--group: groups of 0 NPUs (accepted: 1 or more)"),
        (["check-routing", "--m", "1"], "middle_switches: 1 is not a valid number"),
        (["check-routing", "--placement", "routabel"], "no placement 'routabel'; did you mean 'routable'?"),
        (["check-routing", "--json", "missing/out.json"], "missing/out.json: --json: cannot be written"),
    ],
)
def test_bad_input(arguments: list[str], message: str) -> None:
    assert is_refused(*arguments).startswith(message)
