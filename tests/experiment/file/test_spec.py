import math
from typing import Any

import pytest
from experiments import FRAMEWORK, refused

from fredfw import Pattern
from fredfw.errors import UnknownNameError, UnsupportedError
from fredfw.experiment.file import reading
from fredfw.experiment.file.spec import Calibration, Experiment, Reference
from fredfw.plugin import registry
from fredfw.workloads import Npu


def parse(tables: dict[str, Any], file: str | None = None) -> Experiment:
    return reading.configured(reading.parse(tables, file=file), FRAMEWORK.plugins)


def content(**changes: Any) -> dict[str, Any]:
    return {
        "fabrics": {"mesh": {"topology": "mesh2d"}, "fred": {"topology": "fred"}},
        "workloads": {"net": {"workload": "microbenchmark"}},
        **changes,
    }


def fabric(**table: Any) -> dict[str, Any]:
    return content(fabrics={"mesh": {"topology": "mesh2d", **table}})


def topology(**fields: Any) -> dict[str, Any]:
    return fabric(topology={"name": "mesh2d", **fields})


def workload(**table: Any) -> dict[str, Any]:
    return content(workloads={"net": {"workload": "microbenchmark", **table}})


def calibration(**table: Any) -> dict[str, Any]:
    return workload(calibration=table)


def collectives(*listed: Any) -> dict[str, Any]:
    return fabric(collectives={"default": ["direct", *listed]})


def scaled_like(name: str) -> dict[str, Any]:
    return content(workloads={"net": {"workload": "cnn"}, "a": {"workload": "cnn", "scaled_like": name}})


def references(*tables: dict[str, Any]) -> dict[str, Any]:
    return content(references=[{"workload": "net", "fabric": "fred", "speedup": 1, **one} for one in tables])


def savings(**table: Any) -> dict[str, Any]:
    return content(savings=[{"name": "a", "of": "fred", "over": "mesh", **table}])


def test_defaults_and_names_of_an_experiment() -> None:
    experiment = parse(content())
    assert (experiment.title, experiment.baseline, experiment.npu) == ("experiment", "mesh", Npu())
    assert (experiment.priorities, experiment.fidelity, experiment.references) == (None, None, ())
    mesh, net = experiment.fabric("mesh"), experiment.workload("net")
    assert (mesh.slots, mesh.collectives) == ({}, None)
    assert mesh.fastest  # auto
    assert (net.compute_scale, net.calibration, net.scaled_like) == (1.0, None, None)
    experiment = parse(content(), "a.toml")
    with pytest.raises(UnknownNameError, match=r"a\.toml: no fabric 'mash'; did you mean 'mesh'\?"):
        experiment.fabric("mash")
    with pytest.raises(UnknownNameError, match=r"a\.toml: no workload 'nett'; did you mean 'net'\?"):
        experiment.workload("nett")


def test_everything() -> None:
    listed = ["ring", {"name": "hierarchical", "chunks": 2}]
    algorithms = {"selection": "fastest", "all-reduce": listed, "default": "ring"}
    slots = {"router": "shortest-path", "sharing": "strict-links", "placement": "linear"}
    tables = content(baseline="fred", fidelity="compressed", priorities=["dp", "mp"], npu={"peak": "100 TFLOP/s"})
    tables["fabrics"]["mesh"] |= {"collectives": algorithms, **slots}
    tables["fabrics"]["fred"]["collectives"] = {"default": "ring"}
    tables["workloads"]["net"] |= {"compute_scale": 2, "calibration": {"fabric": "mesh", "speedup": 1.5}}
    tables["workloads"]["two"] = {"workload": "microbenchmark", "scaled_like": "net"}
    tables["references"] = [{"workload": "net", "fabric": "mesh", "speedup": 1.5, "source": "a paper"}]
    experiment = parse(tables)
    mesh, fred = experiment.fabrics
    assert {slot: one.name for slot, one in mesh.slots.items()} == slots
    assert {pattern: [str(one) for one in listed] for pattern, listed in (mesh.collectives or {}).items()} == {
        Pattern.ALL_REDUCE: ["ring", "hierarchical(chunks=2)"],
        None: ["ring"],
    }
    assert (mesh.fastest, fred.fastest) == (True, False)
    net, two = experiment.workloads
    assert (net.compute_scale, net.calibration) == (2.0, Calibration("mesh", 1.5))
    assert (two.compute_scale, two.calibration, two.scaled_like) == (2.0, None, "net")
    assert experiment.references == (Reference("net", "mesh", 1.5, "a paper"),)
    assert experiment.npu == Npu(peak=1e14)
    assert (experiment.baseline, experiment.fidelity, experiment.priorities) == ("fred", "compressed", ("dp", "mp"))


def test_scales_are_shared_changed_and_not_chained() -> None:
    rows = {"a": {"workload": "cnn", "scaled_like": "b"}, "b": {"workload": "cnn", "compute_scale": 0.5}}
    assert [one.compute_scale for one in parse(content(workloads=rows)).workloads] == [0.5, 0.5]
    experiment = parse(content())
    changed = experiment.with_compute_scale("net", 3.0)
    assert (experiment.workload("net").compute_scale, changed.workload("net").compute_scale) == (1.0, 3.0)
    with pytest.raises(UnknownNameError):
        experiment.with_compute_scale("nte", 3.0)
    likes: dict[str, dict[str, str]] = {"a": {}, "b": {"scaled_like": "a"}, "c": {"scaled_like": "b"}}
    rows = {name: {"workload": "microbenchmark", **like} for name, like in likes.items()}
    with refused("workloads.c.scaled_like", accepted="a"):
        parse(content(workloads=rows))


FITTED = {"fabric": "fred", "speedup": 2}
BAD: list[tuple[dict[str, Any], str, str]] = [
    # The whole file.
    (content(fabric={}), "fabric", "unknown key; did you mean 'fabrics'?"),
    (content(title=3), "title", "3 is not text"),
    (content(fabrics={}), "fabrics", "there are no fabrics"),
    (content(workloads={}), "workloads", "there are no workloads"),
    (content(fabrics="mesh2d"), "fabrics", "'mesh2d' is not a table"),
    (content(baseline="mash"), "baseline", "no fabric 'mash'; did you mean 'mesh'?"),
    (content(fidelity="exakt"), "fidelity", "'exakt' is not known; did you mean 'exact'?"),
    (content(fidelity="stepwise"), "fidelity", "'stepwise' is not known; it is now 'exact'; phases stay whole"),
    (content(fidelity="per-rank"), "fidelity", "'per-rank' is not known; it is now 'exact'"),
    (content(fidelity=True), "fidelity", "True is not known"),
    (content(priorities="mp"), "priorities", "'mp' is not a list"),
    (content(priorities=["mp", 1]), "priorities", "1 is not text"),
    (content(priorities=["mp", "dp", "mp"]), "priorities[2]", "'mp' is repeated"),
    (content(title="Two\x1b[31m"), "title", "'Two\\x1b[31m' has control characters"),
    (content(npu={"peek": 1}), "npu.peek", "unknown key; did you mean 'peak'?"),
    (content(npu={"peak": "1 TB/s"}), "npu.peak", "'1 TB/s' has the unit 'TB/s', not FLOP/s"),
    (content(npu="H100"), "npu", "'H100' is not a table"),
    (content(references=[1]), "references[0]", "1 is not a table"),
    (content(references=[{"workload": "net", "fabric": "mesh"}]), "references[0].speedup", "is missing"),
    (references({"speedupp": 1}), "references[0].speedupp", "did you mean 'speedup'?"),
    (references({"fabric": "mash"}), "references[0].fabric", "no fabric 'mash'; did you mean 'mesh'?"),
    (references({"workload": "ent"}), "references[0].workload", "no workload 'ent'; did you mean 'net'?"),
    (references({"speedup": 0}), "references[0].speedup", "0.0 is not a speed-up"),
    (references({}, {"speedup": 2}), "references[1]", "'net' on 'fred' has a reference already, references[0]"),
    (savings(name="a\u202e"), "savings[0].name", "has control characters"),
    (savings(workloads=[]), "savings[0].workloads", "names no workload"),
    (savings(references=[{"saving": 0.1}] * 2), "savings[0].references[1]", "the group {} has a reference already"),
    # A fabric.
    (content(fabrics={"a\tb": {"topology": "fred"}}), "fabrics.a\tb", "'a\\tb' has control characters"),
    (content(fabrics={"mesh": {}}), "fabrics.mesh.topology", "the topology is missing"),
    (fabric(fidelity="exakt"), "fabrics.mesh.fidelity", "all cells of an experiment have one fidelity"),
    (fabric(topologies="mesh2d"), "fabrics.mesh.topologies", "unknown key; did you mean 'topology'?"),
    (fabric(topology="mesh3d"), "fabrics.mesh.topology", "no topology 'mesh3d'; did you mean 'mesh2d'?"),
    (fabric(topology=True), "fabrics.mesh.topology", "True does not name a plugin"),
    (fabric(topology={"rows": 2}), "fabrics.mesh.topology", "{'rows': 2} does not name a plugin"),
    (fabric(topology={"name": ["mesh2d"]}), "fabrics.mesh.topology", "does not name a plugin"),
    (fabric(topology={"name": "fred", "arity": [2, 0]}), "fabrics.mesh.topology.arity", "[2, 0] has 0 in it"),
    (topology(rowz=2), "fabrics.mesh.topology.rowz", "unknown key; did you mean 'rows'?"),
    (topology(rows=0), "fabrics.mesh.topology.rows", "0 is not a valid number"),
    (fabric(router="yx"), "fabrics.mesh.router", "no router 'yx'"),
    (fabric(sharing="maxmin"), "fabrics.mesh.sharing", "no sharing policy 'maxmin'; did you mean 'max-min'?"),
    (fabric(placement="snail"), "fabrics.mesh.placement", "no placement 'snail'; did you mean 'snake'?"),
    (fabric(collectives="ring"), "fabrics.mesh.collectives", "'ring' is not a choice of algorithms"),
    (fabric(collectives={"all-reduc": "ring"}), "fabrics.mesh.collectives.all-reduc", "did you mean 'all-reduce'?"),
    (fabric(collectives={"default": "rong"}), "fabrics.mesh.collectives.default", "did you mean 'ring'?"),
    (fabric(collectives={"default": 1}), "fabrics.mesh.collectives.default", "1 does not name a plugin"),
    (fabric(collectives={"default": []}), "fabrics.mesh.collectives.default", "names no algorithm"),
    (collectives({"name": "ring", "chunks": 0}), "fabrics.mesh.collectives.default[1].chunks", "0 is not a valid"),
    (fabric(collectives={"selection": "best"}), "fabrics.mesh.collectives.selection", "'best' is not known"),
    # A workload.
    (content(workloads={"a\nb": {"workload": "cnn"}}), "workloads.a\nb", "'a\\nb' has control characters"),
    (content(workloads={"net": {}}), "workloads.net.workload", "the workload is missing"),
    (workload(scale=1), "workloads.net.scale", "unknown key"),
    (workload(workloud="cnn"), "workloads.net.workloud", "did you mean 'workload'?"),
    (workload(workload="gtp"), "workloads.net.workload", "no workload 'gtp'"),
    (workload(compute_scale=0), "workloads.net.compute_scale", "0 is not a scale"),
    (workload(compute_scale=-1.0), "workloads.net.compute_scale", "-1.0 is not a scale"),
    (workload(compute_scale=math.inf), "workloads.net.compute_scale", "inf is not a scale"),
    (workload(compute_scale=10**400), "workloads.net.compute_scale", "is not a scale"),
    (workload(calibration=1.5), "workloads.net.calibration", "1.5 is not a table"),
    (calibration(speedup=2), "workloads.net.calibration.fabric", "is missing"),
    (calibration(fabrik="fred", speedup=2), "workloads.net.calibration.fabrik", "did you mean 'fabric'?"),
    (calibration(fabric="frd", speedup=2), "workloads.net.calibration.fabric", "no fabric 'frd'; did you mean 'fred'?"),
    (calibration(fabric="fred", speedup=-2), "workloads.net.calibration.speedup", "-2.0 is not a speed-up"),
    (calibration(fabric="mesh", speedup=2), "workloads.net.calibration.fabric", "'mesh' is the baseline"),
    (workload(stepwise=["fred"]), "workloads.net.stepwise", "all cells of an experiment have one fidelity"),
    (workload(scaled_like=1), "workloads.net.scaled_like", "1 is not text"),
    (workload(scaled_like="net"), "workloads.net.scaled_like", "no workload 'net' with a compute_scale"),
    (workload(scaled_like="x", compute_scale=1), "workloads.net.scaled_like", "also has a compute_scale"),
    (workload(scaled_like="x", calibration=FITTED), "workloads.net.scaled_like", "also has a compute_scale"),
    (scaled_like("ner"), "workloads.a.scaled_like", "no workload 'ner' with a compute_scale; did you mean 'net'?"),
]


@pytest.mark.parametrize(("bad", "key", "message"), BAD)
def test_bad_content(bad: dict[str, Any], key: str, message: str) -> None:
    with refused(key, message, file="bad.toml"):
        parse(bad, "bad.toml")


def test_an_algorithm_that_does_not_know_the_pattern_is_refused() -> None:
    with refused("fabrics.mesh.collectives.point-to-point", error=UnsupportedError) as caught:
        parse(fabric(collectives={"point-to-point": "ring"}))
    able = set(str(caught.value.accepted).split(", "))
    assert {"direct", "in-network"} <= able
    assert not {"ring", "hierarchical"} & able


def test_a_plugin_that_is_not_installed_is_named_with_its_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, table, key in (
        ("topology", {"topology": "moebius"}, "topology"),
        ("collective", {"collectives": {"all-reduce": ["ring", "moebius"]}}, "collectives.all-reduce[1]"),
    ):
        monkeypatch.setitem(registry.FIRST_PARTY, kind, ("moebius",))
        with refused(f"fabrics.mesh.{key}", f"fredfw-{kind}-moebius would provide it", error=UnknownNameError):
            parse(fabric(**table))
