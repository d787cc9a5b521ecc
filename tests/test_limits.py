"""What a short input can ask for is counted first; above a limit it is refused with the count and the option."""

import threading
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import frozen
from command_line import fails, succeeds
from experiments import hooked, refused, run

from fredfw import Fabric, Framework, GraphBuilder, Topology, limits
from fredfw.errors import InputError, LimitError

HUGE = 10**9
TRAINING = {"name": "transformer", "layers": 2, "hidden": 64, "sequence": 32, "heads": 4, "vocabulary": 100}
MESSAGES = {"name": "microbenchmark"}
RINGS = {"dimensions": f"Ring(3)_Switch({HUGE})", "bandwidths": "1 GB/s", "latencies": 0}


def experiment(topology: Any = "switch", workload: Any = "microbenchmark", **fabric: Any) -> dict[str, Any]:
    return {"fabrics": {"f": {"topology": topology, **fabric}}, "workloads": {"w": {"workload": workload}}}


@pytest.mark.parametrize(
    ("where", "named", "counted"),
    [
        ("topology.rows", {"name": "mesh2d", "rows": HUGE}, "4000000000 nodes"),
        ("topology.dimensions", {"name": "torus", "dimensions": [HUGE, 3]}, "3000000000 nodes"),
        ("topology.npus", {"name": "switch", "npus": HUGE}, "1000000001 nodes"),
        ("topology.dimensions", {"name": "multi-dimensional", **RINGS}, "3000000003 nodes"),
        ("topology.npus", {"name": "fully-connected", "npus": 10_000}, "99990000 links"),
        ("topology.npus", {"name": "fat-tree", "radix": HUGE, "npus": HUGE}, "1500000002 nodes"),
        ("topology.npus", {"name": "optical-ring", "npus": HUGE}, "1000000000 nodes"),
        ("topology.wavelengths", {"name": "optical-ring", "wavelengths": HUGE}, "128000000000 links"),
        ("topology.dimensions", {"name": "twisted-torus", "dimensions": [10_000, 20_000]}, "200000000 nodes"),
        ("topology.dimensions", {"name": "hyperx", "dimensions": [10_000]}, "99990000 links"),
        ("topology.leaves", {"name": "dragonfly-plus", "leaves": 10**8}, "4500000036 nodes"),
        ("topology.arity", {"name": "fred", "arity": [HUGE, 2]}, "2000000003 nodes"),
        ("topology.io_controllers", {"name": "fred", "io_controllers": HUGE}, "1000000000 nodes"),
        ("topology.middle_switches", {"name": "fred", "middle_switches": HUGE}, "6000000000 nodes"),
        ("workload.count", {**MESSAGES, "count": HUGE}, "tasks"),
        ("workload.ranks", {**MESSAGES, "ranks": HUGE}, "nodes"),
        ("workload.stride", {**MESSAGES, "ranks": 4, "stride": 2**62}, "nodes"),
        ("workload.microbatches", {**TRAINING, "minibatch": 10**7, "microbatches": 10**7, "pp": 2}, "tasks"),
        ("workload.micro_batch", {**TRAINING, "global_batch": 20 * 10**8, "micro_batch": 1}, "tasks"),
        ("workload.layers", {**TRAINING, "layers": 2**31}, "tasks"),
        ("workload", {"name": "cnn", "dp": HUGE}, "nodes"),
        ("collectives.chunks", {"name": "ring", "chunks": HUGE}, "phases"),
        ("collectives.chunks", {"name": "tree", "shape": "binary", "chunks": HUGE}, "phases"),
        ("collectives.chunks", {"name": "hierarchical", "chunks": HUGE}, "phases"),
        ("collectives.chunks", {"name": "torus-ring", "chunks": HUGE}, "phases"),
    ],
    ids=lambda one: one["name"] if isinstance(one, dict) else one,
)
def test_it_is_counted_before_it_is_built(where: str, named: dict[str, Any], counted: str) -> None:
    kind = where.partition(".")[0]
    tables = experiment(**{kind: named})
    if kind == "collectives":
        pattern = "broadcast" if named["name"] == "ring" else "all-reduce"
        tables = experiment("torus", {**MESSAGES, "pattern": pattern}, collectives={"default": named})
    section = "workloads.w" if kind == "workload" else "fabrics.f"
    with refused(f"{section}.{where}", f"{counted} are too many", "; fredfw --limit"):
        run(tables)


@pytest.mark.parametrize("algorithm", ["direct", "ring", "bruck", "in-network"])
def test_an_exchange_of_each_with_each_is_counted(algorithm: str) -> None:
    framework = Framework()
    fabric = framework.topology("switch", npus=100_000).build()
    with pytest.raises(InputError, match=r"(flows|transfers) are too many: at most [0-9]+; fredfw --limit"):
        framework.simulate_collective(fabric, "all-to-all", size=1e6, algorithm=algorithm)


def test_cells_and_repetitions_are_counted_before_there_are_any() -> None:
    numbers = list(range(1, 41))
    sweep = {"topology": "mesh2d", "sweep": {"rows": numbers, "columns": numbers}}
    other = {"workload": "microbenchmark", "sweep": {"count": numbers, "ranks": numbers}}
    content = {"fabrics": {"{rows} {columns}": sweep}, "workloads": {"{count} {ranks}": other}}
    with pytest.raises(InputError, match="2560000 cells are too many") as caught:
        Framework().outline(content)
    assert caught.value.accepted == "at most 10000; fredfw --limit cells=2560000 raises the limit"
    sweep["sweep"]["io_bandwidth"] = numbers  # type: ignore[index]
    with pytest.raises(InputError, match="64000 cells are too many"):
        Framework().outline({**content, "fabrics": {"{rows} {columns} {io_bandwidth}": sweep}})
    builder = GraphBuilder(2)
    with builder.repeated(HUGE):
        builder.compute("layer", [0, 1], flops=1.0)
    graph = builder.build()
    with pytest.raises(InputError, match="1000000000 tasks are too many"):
        graph.expanded()


@frozen
class Line(Topology):
    name: ClassVar[str] = "line"

    def build(self) -> Fabric:
        return Fabric("six NPUs without links", [0] * 6, [], [], [], [], [])


def test_what_another_plugin_or_a_program_makes_is_counted_once_it_is_there() -> None:
    framework = hooked(fredfw_topologies=lambda: [Line])
    with limits.allowed({"nodes": 5}), pytest.raises(InputError, match="6 nodes are too many"):
        framework.run(framework.load_experiment(experiment("line")))
    with limits.allowed({"tasks": 3}):
        builder = GraphBuilder(1)
        for _ in range(3):
            builder.compute("one", [0])
        with pytest.raises(InputError, match="4 tasks are too many"):
            builder.compute("more", [0])


def test_a_limit_is_raised_for_one_block_in_one_thread() -> None:
    seen: list[str | None] = []
    said = "10001 cells are too many: at most 10000; fredfw --limit cells=10001 raises the limit"
    assert limits.excess("cells", 10_001) == said
    with limits.allowed({"cells": 20_000}):
        limits.check("cells", 20_000)
        assert limits.excess("cells", 20_000) is None
        thread = threading.Thread(target=lambda: seen.append(limits.excess("cells", 20_000)))
        thread.start()
        thread.join()
    assert seen[0] is not None
    with pytest.raises(InputError, match="20000 cells are too many"):
        limits.check("cells", 20_000)
    with pytest.raises(InputError, match=r"more than 10\^15 nodes are too many"):
        limits.check("nodes", 10**5000)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("cels=5", "--limit: there is no limit 'cels'; did you mean 'cells'?"),
        ("cells=many", "--limit cells: 'many' is not a whole number"),
        ("cells=1.5", "--limit cells: '1.5' is not a whole number"),
        ("cells=0", "--limit cells: 0 is not a limit"),
        ("cells", "--limit: 'cells' is not an assignment"),
    ],
)
def test_a_limit_that_is_none_is_fails(limit: str, message: str) -> None:
    assert message in fails("--limit", limit, "plugins", "list")


def test_the_command_line_raises_a_limit_and_counts_switches_before_they_are_routed_or_drawn(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text('[fabrics.f]\ntopology = "switch"\n[workloads.a]\nworkload = "microbenchmark"\n')
    assert "are too many" in fails("--limit", "bytes=20", "cells", str(path))
    succeeds("--limit", "bytes=1e3", "cells", str(path))
    assert "--m: 1004008 parts are too many" in fails("fred", "draw", "--m", "1000", "-")
    assert "parts are too many" in fails("fred", "draw", "--ports", str(HUGE), "-")
    assert "--npus: 5000050000 transfers are too many" in fails("fred", "check-routing", "--npus", "100000")


def test_hops_are_counted_before_routes_are_asked_for_and_auto_leaves_out_what_has_too_many() -> None:
    # Each of 256 * 255 pairs crosses two links of a switch.
    fabric = Framework().topology("switch", npus=256).build()
    for most in (130_559, 130_560):
        with limits.allowed({"hops": most}):
            result = Framework().simulate_collective(fabric, "all-reduce", size=1e3)
            notes = [note for note in result.notes if "left out" in note]
            exchange = partial(Framework().simulate_collective, fabric, "all-to-all", size=1e6, algorithm="direct")
            if most < 130_560:
                assert result.algorithm != "direct"
                assert notes[0].startswith("auto left out direct for all-reduce: 130560 hops are too many")
                with pytest.raises(LimitError, match=r"^130560 hops are too many"):
                    exchange()
            else:
                assert (result.algorithm, notes, exchange().algorithm) == ("direct", [], "direct")
