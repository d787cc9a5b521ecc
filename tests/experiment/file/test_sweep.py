from typing import Any

import pytest
from attrs import evolve
from experiments import FRAMEWORK, compare, refused

from fredfw.errors import InputError
from fredfw.experiment.file import reading
from fredfw.experiment.file.spec import AnyOutline, FabricSection, Section, WorkloadSection
from fredfw.plugin import schema

MESH = {"name": "mesh2d", "rows": 2}
SIZES = {"sum {size}": {"workload": "microbenchmark", "sweep": {"size": ["1 MB", "1 GB"]}}}


def swept(name: str = "mesh {columns}", **table: Any) -> dict[str, Any]:
    fabric = {"topology": MESH, "sweep": {"columns": [2, 3]}, **table}
    return {"fabrics": {name: fabric}, "workloads": {"net": {"workload": "microbenchmark"}}}


def names(outline: AnyOutline) -> tuple[list[str], list[str]]:
    return [one.name for one in outline.fabrics], [one.name for one in outline.workloads]


def test_a_section_per_combination_the_first_key_slowest() -> None:
    sweep = {"columns": [4, 2], "link_bandwidth": ["40 Gbps", "1 TB/s"]}
    tables = {**swept("m {link_bandwidth} {columns}", sweep=sweep), "workloads": SIZES}
    outline = reading.parse(tables)
    fabrics, workloads = names(outline)
    assert fabrics == ["m 40 Gbps 4", "m 1 TB/s 4", "m 40 Gbps 2", "m 1 TB/s 2"]
    assert workloads == ["sum 1 MB", "sum 1 GB"]
    last = outline.fabrics[-1]
    assert last.template == "m {link_bandwidth} {columns}"
    assert last.settings == {"columns": 2, "link_bandwidth": "1 TB/s"}
    assert last.written == {"topology": {**MESH, "columns": 2, "link_bandwidth": "1 TB/s"}}
    assert outline.workloads[0].written == {"workload": {"name": "microbenchmark", "size": "1 MB"}}


def test_a_sweep_is_what_its_sections_are_one_by_one() -> None:
    sizes = ("1 MB", "1 GB")
    shared: dict[str, Any] = {"collectives": {"default": "ring"}, "sharing": "strict-links"}
    one_by_one = {
        "fabrics": {f"mesh {count}": {"topology": {**MESH, "columns": count}, **shared} for count in (2, 3)},
        "workloads": {f"sum {size}": {"workload": {"name": "microbenchmark", "size": size}} for size in sizes},
    }
    together = compare({**swept(**shared), "workloads": SIZES})
    apart = compare({"title": together.title, **one_by_one})
    # Only the sweep says which values are swept.
    assert [row.workload_settings for row in together.rows[::2]] == [{"size": size} for size in sizes]
    plain: dict[str, Any] = {"workload_settings": {}, "fabric_settings": {}}
    rows = (evolve(row, workload_template=row.workload, fabric_template=row.fabric, **plain) for row in together.rows)
    assert evolve(together, rows=tuple(rows)).to_json() == apart.to_json()


def test_values_may_be_of_any_type_names_may_have_braces_and_fields_be_of_nested_plugins() -> None:
    arities = {"topology": "fred", "sweep": {"arity": [[2, 2], [4]]}}
    fabrics = reading.parse({**swept(), "fabrics": {"fred {arity}": arities}}).fabrics
    assert [(one.name, one.settings["arity"]) for one in fabrics] == [("fred [2, 2]", [2, 2]), ("fred [4]", [4])]
    tables = {**swept(), "fabrics": {"a {b}": {"topology": MESH}}}
    (fabric,) = reading.parse(tables).fabrics
    assert (fabric.name, fabric.template, fabric.settings) == ("a {b}", "a {b}", {})
    node = {"name": "cluster", "nodes": 2, "node": "switch"}
    for sweep in ({"topology.node.npus": [2, 4]}, {"topology": {"node": {"npus": [2, 4]}}}):
        tables = swept("{topology.node.npus} NPUs", topology=node, sweep=sweep)
        experiment = FRAMEWORK.load_experiment(tables)
        assert [one.name for one in experiment.fabrics] == ["2 NPUs", "4 NPUs"]
        assert [len(one.topology.build().npus) for one in experiment.fabrics] == [4, 8]


def test_other_keys_and_topologies_are_swept_with_fields_that_all_have() -> None:
    sharing = ["max-min", {"name": "strict-links", "weights": [1, 2]}]
    tables = swept(
        "{sharing}, {collectives.all-reduce}, {columns}",
        sweep={"sharing": sharing, "collectives.all-reduce": ["ring", "tree"], "columns": [2]},
    )
    outline = reading.parse(tables)
    assert [one.name for one in outline.fabrics] == [
        f"{shared}, {one}, 2" for shared in ("max-min", "strict-links(weights=[1, 2])") for one in ("ring", "tree")
    ]
    others = {"sharing": sharing[1], "collectives": {"all-reduce": "ring"}}
    assert outline.fabrics[2].written == {"topology": {**MESH, "columns": 2}, **others}
    assert tables["fabrics"]["{sharing}, {collectives.all-reduce}, {columns}"]["topology"] == MESH
    sweep = {"link_bandwidth": ["1 GB/s"], "topology": ["ring", {"name": "switch", "npus": 8}]}
    tables = swept("{topology}, {link_bandwidth}", sweep=sweep)
    del tables["fabrics"]["{topology}, {link_bandwidth}"]["topology"]
    assert [one.written["topology"] for one in reading.parse(tables).fabrics] == [
        {"name": "ring", "link_bandwidth": "1 GB/s"},
        {"name": "switch", "npus": 8, "link_bandwidth": "1 GB/s"},
    ]


def test_jobs_are_swept_by_their_numbers() -> None:
    row: dict[str, Any] = {
        "jobs": [{"name": "a", "workload": "microbenchmark"}, {"name": "b", "workload": "microbenchmark"}],
        "sweep": {"jobs.1.npus": [2, 3], "job_placement": ["spread"]},
    }
    tables = {**swept(), "workloads": {"{jobs.1.npus} {job_placement}": row}}
    found = [one.written for one in reading.parse(tables).workloads]
    assert [(one["jobs"][1]["npus"], one["job_placement"]) for one in found] == [(2, "spread"), (3, "spread")]
    row["jobs"][1]["npus"] = 2
    with pytest.raises(InputError, match="is given, and the field is swept too"):
        reading.parse(tables)


@pytest.mark.parametrize(
    ("registry", "section"),
    [(FRAMEWORK.plugins.topologies, FabricSection), (FRAMEWORK.plugins.workloads, WorkloadSection)],
)
def test_no_plugin_has_a_field_that_is_a_key_of_its_section(registry: Any, section: type[Section]) -> None:
    assert not {key for one in registry for key in schema.settings(one)} & set(section.KEYS)


def beside_swept(name: str) -> dict[str, Any]:
    tables = swept()
    return {**tables, "fabrics": {**tables["fabrics"], name: {"topology": "mesh2d"}}}


TWICE = "used twice, first in fabrics.mesh {columns}"
HEAVY = {"name": "max-min", "weight": 3}


@pytest.mark.parametrize(
    ("tables", "key", "message"),
    [
        (swept(sweep=3), "mesh {columns}.sweep", "3 is not a sweep"),
        (swept(sweep={"columns": []}), "mesh {columns}.sweep.columns", "[] is not a list of values"),
        (swept("mesh"), "mesh.sweep.columns", "the name 'mesh' has no placeholder {columns}"),
        (swept("{columns} {cols}"), "{columns} {cols}.sweep", "{cols}, but the sweep has no field 'cols'; did you"),
        (swept("{rows}", sweep={"rows": [3]}), "{rows}.sweep.rows", "2 is given, and the field is swept too"),
        (swept(sweep={"columns": [2, 3, 2]}), "mesh {columns}.sweep", f"'mesh 2' is {TWICE}"),
        (beside_swept("mesh 3"), "mesh 3", f"'mesh 3' is {TWICE}"),
        (swept("{columns} {x}", sweep={"columns": [2] * 101, "x": [2] * 100}), "{columns} {x}.sweep", "10100 cells"),
        (swept("{topology.rows.a}", sweep={"topology.rows.a": [1]}), "1.topology.rows.a", "is 2, which has no key 'a'"),
        (swept("{a b}", sweep={"a b": [1]}), "{a b}.sweep.a b", "'a b' is not a path of keys"),
        (swept("{sharing}", sweep={"sharing": [HEAVY]}), "max-min(weight=3).sharing.weight", "unknown key"),
        (swept("m {colums}", sweep={"colums": [2]}), "m 2.topology.colums", "did you mean 'columns'?"),
        (swept(sweep={"columns": [0]}), "mesh 0.topology.columns", "0 is not a valid number"),
        (swept(baseline="line {columns}"), "mesh 2.baseline", "no fabric 'line 2'"),
    ],
)
def test_bad_sweeps_and_baselines(tables: dict[str, Any], key: str, message: str) -> None:
    with refused(f"fabrics.{key}", message, file="bad.toml"):
        reading.configured(reading.parse(tables, file="bad.toml"), FRAMEWORK.plugins)


def test_fabrics_may_have_baselines_of_their_own_among_all() -> None:
    filled = reading.parse({**swept(), "baseline": "mesh {columns}"}).fabrics
    assert [one.baseline for one in filled] == ["mesh 2", "mesh 3"]
    tables = swept(baseline="line {columns}")
    tables["fabrics"]["line {columns}"] = {"topology": {"name": "mesh2d", "rows": 1}, "sweep": {"columns": [2, 3]}}
    tables["fabrics"]["other"] = {"topology": "mesh2d"}
    outline = reading.parse({**tables, "baseline": "line 3"})
    pairs = [(one.name, one.baseline) for one in outline.fabrics]
    assert pairs[:2] == [("mesh 2", "line 2"), ("mesh 3", "line 3")]
    assert pairs[2:] == [(name, "line 3") for name in ("line 2", "line 3", "other")]
    with refused("baseline", "no fabric 'mesh {rows}'"):
        reading.parse({**swept(), "baseline": "mesh {rows}"})


def matrix() -> AnyOutline:
    tables = swept(baseline="line")
    tables["fabrics"]["line"] = {"topology": {"name": "mesh2d", "rows": 1}, "baseline": "last"}
    tables["fabrics"]["last"] = {"topology": "mesh2d", "baseline": "last"}
    tables["workloads"] = SIZES
    tables["references"] = [{"workload": "sum 1 MB", "fabric": "mesh 2", "speedup": 2}]
    tables["savings"] = [{"name": "all", "of": "mesh {columns}", "over": "line", "by": ["size"]}]
    return reading.parse(tables)


ONE_CELL = {"fabrics": ["mesh 3"], "workloads": ["sum 1 GB"]}


@pytest.mark.parametrize(
    ("chosen", "fabrics", "workloads"),
    [
        ({}, ["mesh 2", "mesh 3", "line", "last"], ["sum 1 MB", "sum 1 GB"]),
        ({"fabrics": ["mesh 3"]}, ["mesh 3"], ["sum 1 MB", "sum 1 GB"]),
        ({"fabrics": ["line", "mesh {columns}"]}, ["mesh 2", "mesh 3", "line"], ["sum 1 MB", "sum 1 GB"]),
        ({"workloads": ["sum {size}"], "fabrics": ["last"]}, ["last"], ["sum 1 MB", "sum 1 GB"]),
        ({**ONE_CELL, "baselines": True}, ["mesh 3", "line", "last"], ["sum 1 GB"]),
    ],
)
def test_selecting(chosen: dict[str, Any], fabrics: list[str], workloads: list[str]) -> None:
    assert names(matrix().select(**chosen)) == (fabrics, workloads)


def test_published_values_and_savings_stay_where_their_cells_do() -> None:
    whole = matrix()
    for chosen, counts in (
        ({}, (1, 1)),
        ({"fabrics": ["mesh {columns}", "line"]}, (1, 1)),
        ({"fabrics": ["mesh {columns}"]}, (1, 0)),
        ({"fabrics": ["mesh 2", "line"]}, (1, 0)),
        ({"fabrics": ["mesh 3"]}, (0, 0)),
        ({"workloads": ["sum 1 GB"]}, (0, 0)),
    ):
        part = whole.select(**chosen)  # type: ignore[arg-type]  # either of the two lists of names
        assert (len(part.references), len(part.savings)) == counts
