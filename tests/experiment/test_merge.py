from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict

from fredfw import Framework
from fredfw.errors import InputError, UnknownNameError
from fredfw.experiment.document import digest
from fredfw.experiment.stored import read_cell
from fredfw.plugin.manager import PluginManager, Switches
from fredfw.report.data import run_to_json

FILE = """
title = "Cells"
baseline = "mesh {columns}"
priorities = ["pp", "mp"]
npu = { peak = "1 TFLOP/s" }

[fabrics."mesh {columns}"]
sweep = { columns = [2, 3] }
topology = { name = "mesh2d", rows = 2, link_bandwidth = "1 GB/s" }
[fabrics."mesh {columns}".collectives]
point-to-point = "direct"
default = "ring"

[fabrics.fred]
topology = { name = "fred", arity = [2, 2] }
collectives = { default = "in-network" }
baseline = "mesh 2"

[workloads.sum]
workload = "microbenchmark"
stepwise = ["fred"]

[workloads.net]
workload = { name = "transformer", layers = 4, hidden = 64, sequence = 32, heads = 4, vocabulary = 100, mp = 2, pp = 2 }
compute_scale = 0.3
calibration = { fabric = "fred", speedup = 3 }

[[references]]
workload = "sum"
fabric = "fred"
speedup = 2.5
source = "a paper"

[[savings]]
name = "S"
of = "mesh {columns}"
over = "fred"
part = "mp"
workloads = ["net"]
by = ["columns"]
references = [{ at = { columns = 3 }, saving = 0.5 }]
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every cell, each run by a framework of its own, as what is stored of it."""
    file = tmp_path_factory.mktemp("cells") / "cells.toml"
    file.write_text(FILE)
    return {
        f"{workload.name} on {fabric.name}": run_to_json(
            Framework().run(file, workload=workload.name, fabric=fabric.name)
        )
        for workload, fabric in Framework().outline(file).cells
    }


@pytest.fixture
def paths(stored: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("cells.toml").write_text(FILE)
    for name, text in stored.items():
        Path(f"{name}.json").write_text(text)
    return [f"{name}.json" for name in stored]


def test_the_same_document_to_the_last_digit(paths: list[str]) -> None:
    expected = Framework().compare("cells.toml").to_json()
    assert Framework().merge("cells.toml", paths).to_json() == expected
    # In whatever order, and without any plugin.
    bare = Framework(PluginManager.discover(Switches(allow=frozenset())))
    assert bare.merge("cells.toml", reversed(paths)).to_json() == expected
    document = json.loads(expected)
    assert [row["speedup"] for row in document["rows"]][:2] == [1.0, 1.0]
    assert document["statistics"]["solves"] > 0
    assert {row["fidelity"] for row in document["rows"]} == {"compressed", "stepwise"}
    assert [group["pairs"] for group in document["savings"][0]["groups"]] == [1, 1]


def test_cells_that_were_stored_before_there_was_work_lack_it(paths: list[str]) -> None:
    for path in paths:
        changed(path, lambda cell: (cell.pop("work"), cell.pop("throughput")))
    merged = Framework().merge("cells.toml", paths)
    now = Framework().compare("cells.toml")
    assert [row.seconds for row in merged.rows] == [row.seconds for row in now.rows]
    assert {row.work for row in merged.rows} == {None}
    assert {row.throughput.samples_per_second for row in merged.rows} == {None}
    assert [row.throughput.npu_time for row in merged.rows] == [row.throughput.npu_time for row in now.rows]


def test_a_cell_needs_only_its_own_plugins(tmp_path: Path) -> None:
    file = tmp_path / "cells.toml"
    file.write_text(FILE)
    used = frozenset({"mesh2d", "ring", "microbenchmark"})
    framework = Framework(PluginManager.discover(Switches(allow=used)))
    alone = framework.run(file, workload="sum", fabric="mesh 3")
    assert alone.seconds == Framework().run(file, workload="sum", fabric="mesh 3").seconds
    assert set(alone.provenance["versions"]) == {
        "fredfw",
        "fredfw-collective-ring",
        "fredfw-topology-mesh2d",
        "fredfw-workload-microbenchmark",
    }
    with pytest.raises(UnknownNameError, match=r"fabrics\.fred\.topology: no topology 'fred'"):
        framework.run(file, workload="sum", fabric="fred")
    with pytest.raises(UnknownNameError, match=r"workloads\.net\.workload: no workload 'transformer'"):
        framework.run(file, workload="net", fabric="mesh 2")
    experiment = framework.load_experiment(file, fabrics=["mesh {columns}"], workloads=["sum"])
    assert [row.fabric for row in framework.compare(experiment).rows] == ["mesh 2", "mesh 3"]


def refused(paths: list[str]) -> InputError:
    with pytest.raises(InputError) as caught:
        Framework().merge("cells.toml", paths)
    assert caught.value.accepted
    return caught.value


MEASURED = """
[fabrics.star]
topology = { name = "switch", npus = 4 }
transport = { name = "measured", file = "tables/star.csv" }

[workloads.sum]
workload = "microbenchmark"
"""


def test_a_cell_of_a_file_that_has_changed(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    table = tmp_path / "tables" / "star.csv"
    table.write_text("collective,ranks,size_B,time_us\nall-reduce,4,1,10\nall-reduce,4,1e12,1e7\n")
    file = tmp_path / "cells.toml"
    file.write_text(MEASURED)
    result = Framework().run(file, workload="sum", fabric="star")
    expected = hashlib.sha256(table.read_bytes()).hexdigest()
    assert result.provenance["files"] == [{"path": "tables/star.csv", "sha256": expected}]
    assert str(tmp_path) not in json.dumps(result.provenance)
    cell = tmp_path / "cell.json"
    cell.write_text(run_to_json(result))
    assert Framework().merge(file, [cell]).rows[0].seconds == result.seconds
    table.write_text(table.read_text().replace("1e7", "2e7"))
    with pytest.raises(InputError, match=r"cell\.json: .* was run with another content of tables/star\.csv"):
        Framework().merge(file, [cell])
    table.unlink()
    with pytest.raises(InputError, match=r"cell\.json: .*'tables/star\.csv' cannot be read"):
        Framework().merge(file, [cell])


def test_missing_cells(paths: list[str]) -> None:
    error = refused(paths[1:-1])
    assert error.file == "cells.toml"
    assert error.message == "there is no result for 2 of 6 cells: sum on mesh 2, net on fred"


def test_a_doubled_cell(paths: list[str]) -> None:
    Path("copy.json").write_text(Path(paths[2]).read_text())
    error = refused([*paths, "copy.json"])
    assert (error.file, error.key, error.message) == ("copy.json", "sum on fred", "is also in sum on fred.json")


def test_a_foreign_cell(paths: list[str]) -> None:
    changed(paths[0], lambda cell: cell.update(fabric="mesh 4"))
    error = refused(paths)
    assert (error.file, error.key) == (paths[0], "sum on mesh 4")
    assert error.message == "is not a cell of cells.toml; did you mean 'sum on mesh 3'?"


def changed(path: str, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(Path(path).read_text())
    change(content)
    content["digest"] = digest(content)  # as if a run had given it
    Path(path).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("old", "new", "cell", "message"),
    [
        (
            'link_bandwidth = "1 GB/s"',
            'link_bandwidth = "2 GB/s"',
            "sum on mesh 2",
            "written.fabric.topology.link_bandwidth was '1 GB/s', in cells.toml it is '2 GB/s'",
        ),
        (
            'default = "ring"',
            "default = { name = 'ring', chunks = 2 }",
            "sum on mesh 2",
            "written.fabric.collectives.default was 'ring', in cells.toml it is {'name': 'ring', 'chunks': 2}",
        ),
        (
            "arity = [2, 2]",
            "arity = [2, 2], io_controllers = 0",
            "sum on fred",
            "written.fabric.topology.io_controllers was None, in cells.toml it is 0",
        ),
        (
            "heads = 4, ",
            "",
            "net on mesh 2",
            "written.workload.workload.heads was 4, in cells.toml it is None",
        ),
        (
            "1 TFLOP/s",
            "2 TFLOP/s",
            "sum on mesh 2",
            "npu.peak was 1000000000000.0, in cells.toml it is 2000000000000.0",
        ),
        ("0.3", "0.4", "net on mesh 2", "compute_scale was 0.3, in cells.toml it is 0.4"),
        ('["pp", "mp"]', '["mp"]', "sum on mesh 2", "priorities was ['pp', 'mp'], in cells.toml it is ['mp']"),
        ('stepwise = ["fred"]', "", "sum on fred", "fidelity was 'stepwise', in cells.toml it is 'compressed'"),
    ],
)
def test_a_cell_of_another_configuration(paths: list[str], old: str, new: str, cell: str, message: str) -> None:
    Path("cells.toml").write_text(FILE.replace(old, new))
    error = refused(paths)
    assert (error.file, error.key) == (f"{cell}.json", cell)
    assert error.message == f"was run with another configuration: {message}"


def test_what_is_only_printed_may_change(paths: list[str]) -> None:
    text = FILE.replace('title = "Cells"', 'title = "Others"').replace("speedup = 2.5", "speedup = 2.4")
    Path("cells.toml").write_text(text)
    merged = Framework().merge("cells.toml", paths)
    assert merged.title == "Others"
    assert merged.to_json() == Framework().compare("cells.toml").to_json()


def test_cells_of_other_versions(paths: list[str]) -> None:
    changed(paths[4], lambda cell: cell["provenance"]["versions"].update({"fredfw-topology-mesh2d": "9.9"}))
    error = refused(paths)
    assert (error.file, error.key) == (paths[4], "net on mesh 3")
    assert error.message.startswith("was run with fredfw-topology-mesh2d 9.9, sum on mesh 2 with ")


@pytest.mark.parametrize(
    ("change", "key", "message"),
    [
        (lambda cell: cell.pop("seconds"), "seconds", "is missing"),
        (lambda cell: cell.update(seconds="1 s"), "seconds", "'1 s' is not a number"),
        (lambda cell: cell.update(work={"samples": -1}), "work.samples", "-1.0 is too small"),
        (lambda cell: cell.update(work={"images": 1}), "work.images", "unknown key"),
        (lambda cell: cell.update(injection_bandwidth=-1.0), "injection_bandwidth", "-1.0 is below 0"),
        (lambda cell: cell.update(breakdown=[1]), "breakdown", "[1] is not"),
        (lambda cell: cell.update(breakdown={"mp": None}), "breakdown.mp", "None is not a number"),
        (lambda cell: cell["statistics"].update(guesses=1), "statistics.guesses", "unknown key"),
        (lambda cell: cell.update(format="fredfw.comparison"), None, "is not the result of a run"),
        (lambda cell: cell.update(version=99), "version", "has the version 99 of the format"),
        (lambda cell: cell.update(seconds=-1), "seconds", "-1.0 is below 0"),
        (lambda cell: cell.update(seconds=2 * cell["seconds"]), "breakdown", "adds up to "),
        (lambda cell: cell.update(seconds=0), "breakdown", "adds up to "),
        (lambda cell: cell.update(energy=-1e-9), "energy", "-1e-09 is below 0"),
        (lambda cell: cell["breakdown"].update(compute=-1), "breakdown.compute", "-1.0 is below 0"),
        (lambda cell: cell["breakdown"].update(other=1e-6), "breakdown", "adds up to "),
        (lambda cell: cell.update(breakdown={}), "breakdown", "adds up to 0.0 s"),
        (lambda cell: cell["statistics"].update(solves=-1), "statistics.solves", "-1 is below 0"),
        (lambda cell: cell.update(figures={"conflicts": "many"}), "figures.conflicts", "'many' is not a number"),
        (lambda cell: cell.update(notes=["a", 1]), "notes[1]", "1 is not text"),
        (
            lambda cell: cell.update(placement=[0, 1, 1, 2]),
            "placement",
            "has a negative number, a repeated number, or no number",
        ),
        (
            lambda cell: cell.update(placement=[0, -1]),
            "placement",
            "has a negative number, a repeated number, or no number",
        ),
        (lambda cell: cell.update(placement=[]), "placement", "has a negative number, a repeated number, or no number"),
        (lambda cell: cell.update(placement=[0, 1.5]), "placement[1]", "1.5 is not an integer"),
        (lambda cell: cell["provenance"].update(fidelity="exact"), "provenance.fidelity", "'exact' is not known"),
        (lambda cell: cell["provenance"].update(versions={}), "provenance.versions", "names no version"),
        (lambda cell: cell["provenance"].update(versions=["1"]), "provenance.versions", "['1'] is of another type"),
        (lambda cell: cell["provenance"]["versions"].update(a=1), "provenance.versions.a", "1 is not a version"),
        (lambda cell: cell["provenance"].pop("written"), "provenance.written", "is missing"),
        *(
            (lambda cell, key=key: cell["provenance"].pop(key), f"provenance.{key}", "is missing")
            for key in ("versions", "topology", "router", "sharing", "placement", "workload", "collectives", "npu")
        ),
    ],
)
def test_cells_that_are_none(
    paths: list[str], change: Callable[[dict[str, Any]], object], key: str | None, message: str
) -> None:
    changed(paths[0], change)
    error = refused(paths)
    assert (error.file, error.key) == (paths[0], key)
    assert error.message.startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"", "is not JSON"),
        (b'{"seconds": NaN}', "is not JSON: the number NaN is not finite"),
        (b'{"seconds": -1e999}', "is not JSON: the number -1e999 is not finite"),
        (b'{"seconds": 1, "seconds": 2}', "is not JSON: the key 'seconds' is repeated"),
        (b'{"notes": ["\\ud83d"]}', "is not JSON: the text '\\ud83d' is half a surrogate pair"),
        (b"3", "is not the result of a run"),
        (b"[]", "is not the result of a run"),
    ],
)
def test_files_that_are_no_cells(paths: list[str], content: bytes, message: str) -> None:
    Path(paths[0]).write_bytes(content)
    error = refused(paths)
    assert error.file == paths[0]
    assert error.message.startswith(message)


def test_files_that_are_not_there(paths: list[str]) -> None:
    for path in ("missing.json", "."):
        assert refused([path, *paths[1:]]).message.startswith("cannot be read: ")


def test_a_part_that_a_cell_does_not_have(paths: list[str]) -> None:
    def renamed(cell: dict[str, Any]) -> None:
        cell["breakdown"]["pm"] = cell["breakdown"].pop("mp")

    changed(paths[-1], renamed)
    error = refused(paths)
    assert (error.key, error.message) == ("savings[0].part", "'net' on 'fred' has no part 'mp'")


def test_a_cell_without_a_digest(paths: list[str]) -> None:
    content = json.loads(Path(paths[0]).read_text())
    del content["digest"]
    Path(paths[0]).write_text(json.dumps(content))
    error = refused(paths)
    assert (error.file, error.key) == (paths[0], "digest")
    assert error.message == "has no digest: an older fredfw wrote it, or it is damaged"


def test_spaces_and_the_order_of_keys_are_no_damage(paths: list[str]) -> None:
    expected = json.loads(Framework().merge("cells.toml", paths).to_json())
    for path in paths:
        Path(path).write_text(json.dumps(json.loads(Path(path).read_text()), sort_keys=True, indent=1))
    assert json.loads(Framework().merge("cells.toml", paths).to_json()) == expected


def damaged(text: str, dice: random.Random) -> str:
    """Return ``text`` with something else in one or two places, as a disk, a transfer or a hand might leave it."""
    lines = text.splitlines()
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    number = dice.choice(list(re.finditer(r"[0-9]", text))).start()
    place = dice.randrange(len(text))
    match dice.randrange(7):
        case 0:  # a digit flips
            return text[:number] + dice.choice("0123456789") + text[number + 1 :]
        case 1:  # a number changes its sign, or its size
            start = dice.choice(list(re.finditer(r"(?<=: )[0-9]", text))).start()
            return text[:start] + dice.choice("-1") + text[start:]
        case 2:  # a line goes
            return "\n".join(lines[:one] + lines[one + 1 :])
        case 3:  # a line is there twice
            return "\n".join(lines[:one] + lines[one : one + 1] * 2 + lines[one + 1 :])
        case 4:  # the values of two lines change places
            (a, _, first), (b, _, second) = lines[one].partition(": "), lines[other].partition(": ")
            lines[one], lines[other] = f"{a}: {second}", f"{b}: {first}"
            return "\n".join(lines)
        case 5:  # the rest is lost
            return text[:place]
        case _:  # some character becomes another
            return text[:place] + chr(dice.randrange(32, 127)) + text[place + 1 :]


def test_no_damaged_cell_is_merged_with_other_numbers(stored: dict[str, str], paths: list[str]) -> None:
    dice = random.Random(13)
    errors: list[InputError] = []
    for _ in range(600):
        name = dice.choice(list(stored))
        text = damaged(stored[name], dice)
        Path(f"{name}.json").write_text(text)
        try:
            read = read_cell(f"{name}.json")
        except InputError as error:
            errors.append(error)
        else:
            assert json.loads(text) == json.loads(stored[name])
            Path(f"{name}.json").write_text(stored[name])
            assert asdict(read) == asdict(read_cell(f"{name}.json"))
    assert len(errors) > 500
    assert all(error.file and error.accepted for error in errors)
