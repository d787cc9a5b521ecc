from copy import deepcopy
from typing import Any

import pytest
from experiments import refused

from fredfw.experiment.file.overrides import dotted, key_parts, with_values

CONTENT: dict[str, Any] = {
    "title": "Two",
    "fabrics": {
        "mesh": {"topology": "mesh2d"},
        "fred": {"topology": "fred", "collectives": "auto"},
        "two rows": {
            "topology": {"name": "mesh2d", "rows": 2, "columns": 2},
            "collectives": {"all-reduce": [{"name": "ring"}, "direct"], "default": "direct"},
        },
    },
    "workloads": {"a.b": {"workload": {"name": "microbenchmark", "size": "1 MB"}}},
}

ROWS = 'fabrics."two rows".collectives'


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ('fabrics."two rows".topology.rows', ("fabrics", "two rows", "topology", "rows")),
        ("workloads.'a.b'.workload.size", ("workloads", "a.b", "workload", "size")),
        (r'fabrics."say \"x = y\"".baseline', ("fabrics", 'say "x = y"', "baseline")),
        ("FRED-D", ("FRED-D",)),
    ],
)
def test_a_path_is_a_key_of_toml(path: str, parts: tuple[str, ...]) -> None:
    assert key_parts(path) == parts
    assert key_parts(dotted(parts)) == parts


@pytest.mark.parametrize("path", ["", ".", "a.", "two rows.x", "a = 1\nb", "a]\n[b", '"a', ".".join("a" * 2_000)])
def test_other_paths_are_refused(path: str) -> None:
    with refused(None, "is not a path of keys"):
        key_parts(path)


@pytest.mark.parametrize(
    ("path", "value", "where", "expected"),
    [
        ("title", "Three", "title", "Three"),
        ("npu.efficiency", 0.5, "npu", {"efficiency": 0.5}),
        ("fabrics.mesh.topology.rows", 5, "fabrics.mesh.topology", {"name": "mesh2d", "rows": 5}),
        ("fabrics.mesh.collectives.default", "ring", "fabrics.mesh.collectives", {"default": "ring"}),
        (f"{ROWS}.default.chunks", 2, f"{ROWS}.default", {"name": "direct", "chunks": 2}),
        (f"{ROWS}.all-reduce.0.chunks", 2, f"{ROWS}.all-reduce", [{"name": "ring", "chunks": 2}, "direct"]),
        # Collectives that were chosen automatically become a table.
        ("fabrics.fred.collectives.all-reduce", "ring", "fabrics.fred.collectives", {"all-reduce": "ring"}),
    ],
)
def test_values_replace_those_of_the_tables(path: str, value: object, where: str, expected: object) -> None:
    before = deepcopy(CONTENT)
    found: Any = with_values(CONTENT, {path: value})
    for key in key_parts(where):
        found = found[key]
    assert found == expected
    assert before == CONTENT


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("fabrics.mehs.topology.rows", "there is no fabric 'mehs'; did you mean 'mesh'?"),
        ("workloads.c.workload.size", "there is no workload 'c'"),
        ("title.x", "title is 'Two', which has no key 'x'"),
        ('fabrics."two rows".collectives.all-reduce.2', 'fabrics."two rows".collectives.all-reduce has no item 2'),
    ],
)
def test_paths_that_lead_nowhere_are_refused(path: str, message: str) -> None:
    with refused(path, message):
        with_values(CONTENT, {path: 1})
