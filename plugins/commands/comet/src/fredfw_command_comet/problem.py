"""What a file asks: a model, its splits, a cluster with variations, and expanded memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from fredfw import File, units
from fredfw.errors import InputError
from fredfw.tables import as_quantity, as_table, as_text, check_keys, parse_toml

BASE = "cluster"
_TOP = "title", "workload", "sweep", "cluster", "clusters", "expansion", "published", "assumed"
_CLUSTER = "topology", "npu", "collectives", "router", "placement", "transport"
_PUBLISHED = "clusters", "expansion", "source"


@frozen
class Published:
    """What others report: the slowest configuration over the fastest, and what expanded memory gains."""

    clusters: float | None = None
    expansion: float | None = None
    source: str = ""


class Problem:
    """What a file asks; raises ``InputError`` that names file, key and value of what cannot be used."""

    def __init__(self, path: str) -> None:
        file = File.at(path)
        self.path = path
        with file.named():
            self._read(parse_toml(file.text()))

    def _read(self, content: Mapping[str, Any]) -> None:
        check_keys(content, _TOP, "")
        # Table of a workload without the swept fields, and values by swept field: the splits.
        self.workload, cluster, self.sweep = (_table(content, key) for key in ("workload", BASE, "sweep"))
        check_keys(cluster, _CLUSTER, BASE)
        self.clusters = {BASE: cluster}  # table of a fabric by name
        for name, changes in _table(content, "clusters", required=False).items():
            if name == BASE:
                raise InputError("is the name of the first cluster", key=f"clusters.{name}", accepted="another name")
            as_table(changes, f"clusters.{name}", accepted="a table of changes")
            check_keys(changes, _CLUSTER, f"clusters.{name}")
            self.clusters[name] = _merged(cluster, changes)
        for name, one in self.clusters.items():
            npu = one.get("npu", {})
            for key in ("expanded_memory", "expanded_memory_bandwidth"):
                if isinstance(npu, Mapping) and key in npu:
                    place = BASE if name == BASE else f"clusters.{name}"
                    raise InputError("is given in another place", key=f"{place}.npu.{key}", accepted="[expansion]")
        # Bytes of expanded memory, and bytes per second, slowest first.
        self.memory, self.bandwidths = _expansion(_table(content, "expansion"))
        self.title = as_text(content.get("title", self.path), "title")
        self.assumed = content.get("assumed", [])  # what the file says that no source states
        if not isinstance(self.assumed, list) or not all(isinstance(one, str) for one in self.assumed):
            raise InputError(f"{self.assumed!r} is not a list of texts", key="assumed", accepted="a list of texts")
        self.published = _published(_table(content, "published", required=False))  # what stands beside our values

    def tables(self, bandwidths: Sequence[float | None]) -> dict[str, Any]:
        """Return an experiment: all splits on all clusters, each with expanded memory of these bandwidths or none."""
        fabrics = {}
        for name, cluster in self.clusters.items():
            for bandwidth in bandwidths:
                npu = dict(cluster.get("npu", {}))
                if bandwidth is not None:
                    npu |= {"expanded_memory": self.memory, "expanded_memory_bandwidth": bandwidth}
                fabrics[fabric_name(name, bandwidth)] = {**cluster, "npu": npu}
        name = ", ".join(f"{{{field}}}" for field in self.sweep)
        splits = {"workload": dict(self.workload), "sweep": dict(self.sweep)}
        return {"title": self.title, "fabrics": fabrics, "workloads": {name: splits}}

    def blamed(self, error: InputError) -> InputError:
        """Return ``error`` of such an experiment as one of the file."""
        key = error.key or ""
        for name in self.clusters:
            for bandwidth in (None, *self.bandwidths):
                for written in (fabric_name(name, bandwidth), f'"{fabric_name(name, bandwidth)}"'):
                    if key == f"fabrics.{written}" or key.startswith(f"fabrics.{written}."):
                        place = BASE if name == BASE else f"clusters.{name}"
                        key = place + key.removeprefix(f"fabrics.{written}")
        if key.startswith("workloads."):
            key = "sweep" if ".sweep" in key else f"workload{key[len('workloads.') :].partition('.workload')[2]}"
        return InputError(error.message, file=self.path, key=key or None, accepted=error.accepted)


def fabric_name(cluster: str, bandwidth: float | None) -> str:
    return cluster if bandwidth is None else f"{cluster} + {units.render(bandwidth, units.Unit.BYTES_PER_SECOND)}"


def _expansion(table: Mapping[str, Any]) -> tuple[float, tuple[float, ...]]:
    check_keys(table, ("memory", "bandwidth"), "expansion")
    memory = as_quantity(table.get("memory"), units.Unit.BYTES, "expansion.memory", exclusive=True)
    given = table.get("bandwidth")
    listed = given if isinstance(given, list) and given else [given]
    read = [as_quantity(one, units.Unit.BYTES_PER_SECOND, "expansion.bandwidth", exclusive=True) for one in listed]
    return memory, tuple(sorted(set(read)))


def _published(table: Mapping[str, Any]) -> Published:
    check_keys(table, _PUBLISHED, "published")
    for key in ("clusters", "expansion"):
        value = table.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
            raise InputError(f"{value!r} is not a ratio", key=f"published.{key}", accepted="a number above 0")
    return Published(**{**table, "source": str(table.get("source", ""))})


def _merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(table)
    for key, value in changes.items():
        inside = found.get(key)
        both = isinstance(value, Mapping) and isinstance(inside, Mapping)
        found[key] = _merged(inside, value) if both else value  # type: ignore[arg-type]
    return found


def _table(content: Mapping[str, Any], key: str, *, required: bool = True) -> Mapping[str, Any]:
    if key not in content and not required:
        return {}
    value = content.get(key)
    if value is None:
        raise InputError("is missing", key=key, accepted="a table")
    if not isinstance(value, Mapping) or (required and not value):
        raise InputError(f"{value!r} is not a table with values", key=key, accepted="a table")
    return value
