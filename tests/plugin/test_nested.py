"""Plugins in the fields of plugins: chosen by name, with errors that give the whole path."""

from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import frozen
from given_plugins import plugin

from fredfw import Fabric, Framework, NodeKind, PluginManager, Topology, units
from fredfw.cli import configured
from fredfw.cli.parsing import check_units
from fredfw.errors import InputError
from fredfw.plugin import configure, schema
from fredfw.testing import check_topology


@frozen
class Renamed(Topology):
    """The same network by another name, or two NPUs."""

    name: ClassVar[str] = "renamed"
    inner: Topology | None = units.option(None, help="which network")  # noqa: RUF009  (declares a field)
    others: tuple[Topology, ...] = units.option((), help="not built")

    def build(self) -> Fabric:
        if self.inner is None:
            return Fabric("pair", np.full(2, NodeKind.NPU), [0, 1], [1, 0], 1e9, 0.0, 0.0)
        return self.inner.build().with_defaults(name="renamed")


def framework() -> Framework:
    manager = PluginManager.discover()
    manager.register(plugin(fredfw_topologies=lambda: [Renamed]), "renamed")
    return Framework(manager)


def built(**fields: Any) -> Any:
    return framework().topology("renamed", **fields)


def experiment(inner: object, workload: object = "microbenchmark") -> dict[str, Any]:
    topology = {"name": "renamed", "inner": inner}
    return {"fabrics": {"a": {"topology": topology}}, "workloads": {"w": {"workload": workload}}}


def test_a_field_takes_a_name_or_a_table_which_the_kit_checks_and_plain_data_has() -> None:
    plain = {"name": "switch", "npus": 20, "link_bandwidth": 3e12, "link_latency": 2e-8, "in_network": False}
    for given in ("switch", {"name": "switch"}, plain, built(inner="switch").inner):
        inner = built(inner=given).inner
        assert (inner.name, len(inner.build().npus)) == ("switch", 20)
    assert built().inner is None
    names = [one.name for one in built(others=["torus", {"name": "switch", "npus": 4}]).others]
    assert names == ["torus", "switch"]
    check_topology(built(inner={"name": "switch", "npus": 3}))
    topology = built(inner={"name": "fat-tree", "radix": 4})
    found = configure.unstructure(topology)
    assert found["inner"]["name"] == "fat-tree"
    assert "npus" not in found["inner"]
    assert built(**found) == topology
    assert schema.settings(Renamed)["inner"].type == "Topology | None"


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        ("torsu", "inner: no topology 'torsu'; did you mean 'torus'.* .accepted: .*, renamed, "),
        ({"npus": 4}, "inner: .* does not name a plugin"),
        ({"name": "switch", "npu": 4}, "inner.npu: unknown key; did you mean 'npus'"),
        ({"name": "switch", "npus": 0}, "inner.npus: 0 is not a valid number"),
        ({"name": "renamed", "inner": {"name": "switch", "npus": 0}}, "inner.inner.npus: 0 is not"),
        (3, "inner: 3 is not the name of a topology, or { name = ..., ... }"),
    ],
)
def test_what_is_wrong_inside_has_its_path(inner: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        built(inner=inner)


def test_a_result_has_the_versions_of_plugins_inside_and_the_command_line_takes_a_table() -> None:
    used = framework()
    content = experiment({"name": "switch", "npus": 2}, {"name": "microbenchmark", "size": "1 MB"})
    provenance = used.run(used.load_experiment(content)).provenance
    assert "fredfw-topology-switch" in provenance["versions"]
    assert provenance["topology"]["inner"]["npus"] == 2
    plugins = framework().plugins
    topology = configured(Renamed, ['inner={ name = "switch", npus = 3 }'], "--set", plugins=plugins)
    assert len(topology.build().npus) == 3
    with pytest.raises(InputError, match=r"--set.inner: 'switch' is not the name"):
        configured(Renamed, ["inner=switch"], "--set")


@pytest.mark.parametrize("field", ["link_bandwidth", "link_latency"])
def test_numbers_inside_need_units_on_the_command_line(field: str) -> None:
    plugins = framework().plugins
    text = f'inner={{ name = "renamed", inner = {{ name = "switch", {field} = 450 }} }}'
    with pytest.raises(InputError, match=rf"^--set.inner.inner.{field}: 450 has no unit"):
        configured(Renamed, [text], "--set", plugins=plugins)
    values = {f"fabrics.a.topology.inner.{field}": 450}
    with pytest.raises(InputError, match=f"--set fabrics.a.topology.inner.{field}: 450 has no unit"):
        check_units(framework().load_experiment(experiment("switch")), values)
