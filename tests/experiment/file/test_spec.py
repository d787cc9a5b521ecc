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


def content(path: str | None = None, value: object = None) -> dict[str, Any]:
    """Return two fabrics and a workload, with ``value`` in the place of ``path``."""
    tables: dict[str, Any] = {
        "fabrics": {"mesh": {"topology": {"name": "mesh2d"}}, "fred": {"topology": "fred"}},
        "workloads": {"net": {"workload": "microbenchmark"}},
    }
    if path is not None:
        *above, last = path.split(".")
        table = tables
        for key in above:
            table = table.setdefault(key, {})
        table[last] = value
    return tables


def test_everything() -> None:
    listed = ["ring", {"name": "hierarchical", "chunks": 2}]
    algorithms = {"selection": "fastest", "all-reduce": listed, "default": "ring"}
    slots = {"router": "shortest-path", "sharing": "strict-links", "placement": "linear"}
    tables = content("npu", {"peak": "100 TFLOP/s"})
    tables |= {"baseline": "fred", "fidelity": "compressed", "priorities": ["dp", "mp"]}
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


def test_names_are_looked_up_and_scales_shared_with_later_ones_but_not_chained() -> None:
    experiment = parse(content(), "a.toml")
    assert experiment.baseline == "mesh"
    assert experiment.fabric("mesh").fastest  # auto
    with pytest.raises(UnknownNameError, match=r"a\.toml: no fabric 'mash'; did you mean 'mesh'\?"):
        experiment.fabric("mash")
    with pytest.raises(UnknownNameError, match=r"a\.toml: no workload 'nett'; did you mean 'net'\?"):
        experiment.with_compute_scale("nett", 3.0)
    rows: dict[str, Any] = {
        "a": {"workload": "cnn", "scaled_like": "b"},
        "b": {"workload": "cnn", "compute_scale": 0.5},
    }
    assert [one.compute_scale for one in parse(content("workloads", rows)).workloads] == [0.5, 0.5]
    rows["c"] = {"workload": "cnn", "scaled_like": "a"}
    with refused("workloads.c.scaled_like", accepted="b"):
        parse(content("workloads", rows))


PAPER = {"workload": "net", "fabric": "fred", "speedup": 1}
SAVED = {"name": "a", "of": "fred", "over": "mesh"}
FITTED = {"fabric": "fred", "speedup": 2}
CNN: dict[str, Any] = {"workload": "cnn"}
LIKE = {"workload": "microbenchmark", "scaled_like": "x"}


@pytest.mark.parametrize(
    ("path", "value", "rest", "message"),
    [
        # The whole file.
        ("fabric", {}, "", "unknown key; did you mean 'fabrics'?"),
        ("title", 3, "", "3 is not text"),
        ("title", "Two\x1b[31m", "", "'Two\\x1b[31m' has control characters"),
        ("fabrics", {}, "", "there are no fabrics"),
        ("workloads", {}, "", "there are no workloads"),
        ("baseline", "mash", "", "no fabric 'mash'; did you mean 'mesh'?"),
        ("fidelity", "exakt", "", "'exakt' is not known; did you mean 'exact'?"),
        ("fidelity", "stepwise", "", "'stepwise' is not known; it is now 'exact'; phases stay whole"),
        ("fidelity", True, "", "True is not known"),
        ("priorities", "mp", "", "'mp' is not a list"),
        ("priorities", ["mp", "dp", "mp"], "[2]", "'mp' is repeated"),
        ("npu", "H100", "", "'H100' is not a table"),
        ("npu.peek", 1, "", "unknown key; did you mean 'peak'?"),
        ("references", [1], "[0]", "1 is not a table"),
        ("references", [{"workload": "net", "fabric": "mesh"}], "[0].speedup", "is missing"),
        ("references", [PAPER | {"fabric": "mash"}], "[0].fabric", "no fabric 'mash'; did you mean 'mesh'?"),
        ("references", [PAPER | {"speedup": 0}], "[0].speedup", "0.0 is not a speed-up"),
        ("references", [PAPER, PAPER], "[1]", "'net' on 'fred' has a reference already, references[0]"),
        ("savings", [SAVED | {"name": "a\u202e"}], "[0].name", "has control characters"),
        ("savings", [SAVED | {"workloads": []}], "[0].workloads", "names no workload"),
        (
            "savings",
            [SAVED | {"references": [{"saving": 0.1}] * 2}],
            "[0].references[1]",
            "the group {} has a reference",
        ),
        ("variation", {"stragglers": {"share": 0.1}}, ".stragglers[0].factor", "is missing"),
        # A fabric.
        ("fabrics.a\tb", {"topology": "fred"}, "", "'a\\tb' has control characters"),
        ("fabrics.mesh", {}, ".topology", "the topology is missing"),
        ("fabrics.mesh.fidelity", "exact", "", "all cells of an experiment have one fidelity"),
        ("fabrics.mesh.topologies", "mesh2d", "", "unknown key; did you mean 'topology'?"),
        ("fabrics.mesh.topology", "mesh3d", "", "no topology 'mesh3d'; did you mean 'mesh2d'?"),
        ("fabrics.mesh.topology", True, "", "True does not name a plugin"),
        ("fabrics.mesh.topology.rowz", 2, "", "unknown key; did you mean 'rows'?"),
        ("fabrics.mesh.topology.rows", 0, "", "0 is not a valid number"),
        ("fabrics.mesh.sharing", "maxmin", "", "no sharing policy 'maxmin'; did you mean 'max-min'?"),
        ("fabrics.mesh.collectives", "ring", "", "'ring' is not a choice of algorithms"),
        ("fabrics.mesh.collectives.all-reduc", "ring", "", "did you mean 'all-reduce'?"),
        ("fabrics.mesh.collectives.default", "rong", "", "did you mean 'ring'?"),
        ("fabrics.mesh.collectives.default", [], "", "names no algorithm"),
        ("fabrics.mesh.collectives.default", ["ring", {"name": "ring", "chunks": 0}], "[1].chunks", "0 is not a valid"),
        ("fabrics.mesh.collectives.selection", "best", "", "'best' is not known"),
        # A workload.
        ("workloads.a\nb", {"workload": "cnn"}, "", "'a\\nb' has control characters"),
        ("workloads.net", {}, ".workload", "the workload is missing"),
        ("workloads.net.scale", 1, "", "unknown key"),
        ("workloads.net.workload", "gtp", "", "no workload 'gtp'"),
        ("workloads.net.compute_scale", 0, "", "0 is not a scale"),
        ("workloads.net.compute_scale", math.inf, "", "inf is not a scale"),
        ("workloads.net.compute_scale", True, "", "True is not a scale"),
        ("workloads.net.calibration", 1.5, "", "1.5 is not a table"),
        ("workloads.net.calibration", FITTED | {"fabric": "frd"}, ".fabric", "no fabric 'frd'; did you mean 'fred'?"),
        ("workloads.net.calibration", FITTED | {"speedup": -2}, ".speedup", "-2.0 is not a speed-up"),
        ("workloads.net.calibration", FITTED | {"fabric": "mesh"}, ".fabric", "'mesh' is the baseline"),
        ("workloads.net.baseline", "two", "", "no workload 'two'"),
        ("workloads.a", CNN | {"baseline": "net", "calibration": FITTED}, ".baseline", "scale cannot be fitted"),
        ("workloads.net.stepwise", ["fred"], "", "all cells of an experiment have one fidelity"),
        ("workloads.net.scaled_like", 1, "", "1 is not text"),
        ("workloads.net", LIKE | {"compute_scale": 1}, ".scaled_like", "also has a compute_scale"),
        ("workloads.net", LIKE | {"calibration": FITTED}, ".scaled_like", "also has a compute_scale"),
        ("workloads.a", LIKE, ".scaled_like", "no workload 'x' with a compute_scale"),
    ],
)
def test_bad_content(path: str, value: object, rest: str, message: str) -> None:
    with refused(path + rest, message, file="bad.toml"):
        parse(content(path, value), "bad.toml")


def test_an_algorithm_that_does_not_know_the_pattern_is_refused() -> None:
    path = "fabrics.mesh.collectives.point-to-point"
    with refused(path, error=UnsupportedError) as caught:
        parse(content(path, "ring"))
    able = set(str(caught.value.accepted).split(", "))
    assert {"direct", "in-network"} <= able
    assert not {"ring", "hierarchical"} & able


@pytest.mark.parametrize(
    ("kind", "path"), [("topology", "fabrics.mesh.topology"), ("collective", "fabrics.mesh.collectives.default")]
)
def test_a_plugin_that_is_not_installed_is_named_with_its_distribution(
    kind: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.FIRST_PARTY, kind, ("moebius",))
    with refused(path, f"fredfw-{kind}-moebius would provide it", error=UnknownNameError):
        parse(content(path, "moebius"))
