import hashlib
import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from fredfw import Framework
from fredfw.errors import InputError, UnknownNameError
from fredfw.plugin.manager import PluginManager, Switches

FILE = """
title = "Cells"
baseline = "mesh {columns}"
priorities = ["pp", "mp"]
npu = { peak = "1 TFLOP/s" }
references = [{ workload = "sum", fabric = "fred", speedup = 2.5, source = "a paper" }]
workloads.sum.workload = "microbenchmark"

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

[workloads.net]
workload = { name = "transformer", layers = 4, hidden = 64, sequence = 32, heads = 4, vocabulary = 100, mp = 2, pp = 2 }
compute_scale = 0.3
calibration = { fabric = "fred", speedup = 3 }

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
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file and a store that has every cell, each run by a framework of its own."""
    folder = tmp_path_factory.mktemp("cells")
    file = folder / "cells.toml"
    file.write_text(FILE)
    for workload, fabric in Framework().outline(file).cells:
        Framework().run(file, workload=workload.name, fabric=fabric.name, store=folder / "store")
    return folder


@pytest.fixture
def store(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name in ("cells.toml", "store"):
        Path(name).write_bytes((kept / name).read_bytes())
    return "store"


def test_the_same_document_to_the_last_digit_from_one_store_or_several(store: str) -> None:
    expected = Framework().compare("cells.toml").to_json()
    assert Framework().merge("cells.toml", [store]).to_json() == expected
    # Without any plugin.
    bare = Framework(PluginManager.discover(Switches(allow=frozenset())))
    assert bare.merge("cells.toml", [store]).to_json() == expected
    document = json.loads(expected)
    assert document["statistics"]["solves"] > 0
    assert [group["pairs"] for group in document["savings"][0]["groups"]] == [1, 1]
    for number, (workload, fabric) in enumerate(Framework().outline("cells.toml").cells):
        Framework().run("cells.toml", workload=workload.name, fabric=fabric.name, store=f"store {number % 2}")
    for stores in (["store 1", "store 0"], ["store 0", "store 1", "store 0"]):
        assert Framework().merge("cells.toml", stores).to_json() == expected
    assert refused("store 0").message.startswith("there is no result for 3 of 6 cells: ")


def test_a_cell_needs_only_its_own_plugins(tmp_path: Path) -> None:
    file = tmp_path / "cells.toml"
    file.write_text(FILE)
    used = frozenset({"mesh2d", "ring", "microbenchmark"})
    framework = Framework(PluginManager.discover(Switches(allow=used)))
    alone = framework.run(file, workload="sum", fabric="mesh 3")
    assert alone.seconds == Framework().run(file, workload="sum", fabric="mesh 3").seconds
    with pytest.raises(UnknownNameError, match=r"workloads\.net\.workload: no workload 'transformer'"):
        framework.run(file, workload="net", fabric="mesh 2")
    experiment = framework.load_experiment(file, fabrics=["mesh {columns}"], workloads=["sum"])
    assert [row.fabric for row in framework.compare(experiment).rows] == ["mesh 2", "mesh 3"]


def refused(*stores: str) -> InputError:
    with pytest.raises(InputError) as caught:
        Framework().merge("cells.toml", stores)
    assert caught.value.accepted
    return caught.value


MEASURED = """
fabrics.star.topology = { name = "switch", npus = 4 }
fabrics.star.transport = { name = "measured", file = "tables/star.csv" }
workloads.sum.workload = "microbenchmark"
"""


def test_a_cell_of_a_file_that_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tables").mkdir()
    table = Path("tables", "star.csv")
    table.write_text("collective,ranks,size_B,time_us\nall-reduce,4,1,10\nall-reduce,4,1e12,1e7\n")
    Path("cells.toml").write_text(MEASURED)
    result = Framework().run("cells.toml", workload="sum", fabric="star", store="store")
    expected = hashlib.sha256(table.read_bytes()).hexdigest()
    assert result.provenance["files"] == [{"path": "tables/star.csv", "sha256": expected}]
    assert str(tmp_path) not in json.dumps(result.provenance)
    assert Framework().merge("cells.toml", ["store"]).rows[0].seconds == result.seconds
    table.write_text(table.read_text().replace("1e7", "2e7"))
    error = refused("store")
    assert (error.file, error.key) == ("store", "sum on star")
    assert error.message == "was run with another content of tables/star.csv"
    # Compared anew, it is run anew; then the store has both.
    assert Framework().compare("cells.toml", store="store").rows[0].seconds > result.seconds
    assert refused("store").message.startswith("has 2 results that differ")


def test_cells_of_other_versions(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = PluginManager.discover()
    versions: Any = other.versions
    monkeypatch.setattr(other, "versions", lambda used: {**versions(used), "fredfw-topology-mesh2d": "9.9"})
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("DELETE FROM outcomes WHERE rowid = 5")  # net on mesh 3
    Framework(other).run("cells.toml", workload="net", fabric="mesh 3", store=store)
    error = refused(store)
    assert (error.file, error.key) == (store, "net on mesh 3")
    assert error.message.startswith("was run with fredfw-topology-mesh2d 9.9, sum on mesh 2 with ")


def test_what_does_not_fit_is_a_row_of_the_merged_comparison(store: str) -> None:
    Path("cells.toml").write_text(FILE.replace("mp = 2, pp = 2", "mp = 2, pp = 3").replace("layers = 4", "layers = 6"))
    for workload, fabric in Framework().outline("cells.toml").cells:
        with suppress(InputError):
            Framework().run("cells.toml", workload=workload.name, fabric=fabric.name, store=store)
    merged = Framework().merge("cells.toml", [store])
    assert merged.to_json() == Framework().compare("cells.toml").to_json()
    assert [(one.workload, one.fabric) for one in merged.failures] == [("net", "mesh 2"), ("net", "fred")]


def test_what_a_store_has_and_what_is_only_printed_may_change(store: str) -> None:
    found = Framework().stored("cells.toml", store)
    assert set(found.values()) == {"done"}
    Path("cells.toml").write_text(FILE.replace("0.3", "0.4"))
    found = Framework().stored("cells.toml", store)
    assert [found["sum", "fred"], found["net", "fred"]] == ["done", "missing"]
    text = FILE.replace('title = "Cells"', 'title = "Others"').replace("speedup = 2.5", "speedup = 2.4")
    Path("cells.toml").write_text(text)
    merged = Framework().merge("cells.toml", [store])
    assert merged.title == "Others"
    assert merged.to_json() == Framework().compare("cells.toml").to_json()
