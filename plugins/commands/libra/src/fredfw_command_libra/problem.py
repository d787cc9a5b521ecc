"""What a file asks: networks, a budget, constraints and workloads."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from attrs import field, frozen

from fredfw import Bill, Experiment, Fabric, File, Framework, Npu, Pattern, Prices, Topology, Workload, units
from fredfw.errors import InputError, nearest, placed
from fredfw.tables import as_choice, as_flag, as_quantity, as_table, as_tables, as_whole, check_keys, parse_toml
from fredfw.typing import FloatArray
from fredfw_command_libra import constraints
from fredfw_command_libra.constraints import Constraint
from fredfw_command_libra.model import PATTERNS, Collective, Demand, demand, demand_of_graph

OBJECTIVES = "time", "time-cost"
ALGORITHM = {"name": "hierarchical", "chunks": 64, "steps": "by-kind", "release": "drained"}
"""What simulations use: pipelined chunks along all dimensions, by the step algorithm that fits each."""
_SETTINGS = "title", "experiment", "budget", "objective", "constraints", "group", "prices", "algorithm"


class Network:
    """A product of dimensions whose bandwidths are to be found."""

    def __init__(
        self, name: str, topology: Any, prices: FloatArray | None, constraints: tuple[Constraint, ...]
    ) -> None:
        self.name = name  # in the file
        self.topology = topology  # ``multi-dimensional``, with any bandwidths
        self.kinds = tuple(topology.dimensions)  # kind and size of each dimension
        self.sizes = tuple(int(one.split()[1]) for one in self.kinds)
        self.prices = prices  # ``(dimensions,)`` dollars of a byte per second of an NPU, if each is known
        self.constraints = constraints  # those of the file, for these dimensions

    def fabric(self, bandwidths: FloatArray) -> Fabric:
        built: Fabric = attrs.evolve(self.topology, bandwidths=tuple(bandwidths.tolist()), link_bandwidths=None).build()
        return built


class Calibration:
    """A published split of a network and a budget that the compute time of a workload is fitted to."""

    def __init__(self, value: object, key: str, networks: Mapping[str, Network]) -> None:
        table = as_table(value, key)
        check_keys(table, ("network", "budget", "split", "source"), key)
        self.network = as_choice(table.get("network"), networks, f"{key}.network")
        self.split = _split(table.get("split"), networks[self.network], f"{key}.split")  # shares of the budget
        self.budget = _budget(table.get("budget"), f"{key}.budget")  # bytes per second of an NPU


@frozen(eq=False)
class Job:
    """A workload of the file."""

    name: str  # in the file
    weight: float  # in a group
    compute: float  # seconds of computation
    axes: Mapping[str, int] = field(factory=dict)  # sizes of the axes, the innermost first
    collectives: tuple[Collective, ...] = ()  # what it communicates
    workload: Workload | None = None  # in place of axes and collectives: a plugin's
    npu: Npu = field(factory=Npu)  # what computes it
    calibration: Calibration | None = None  # what ``compute`` is fitted to

    def demand(self, network: Network) -> Demand:
        with placed(key=f"workloads.{self.name}"):
            if self.workload is None:
                return demand(self.collectives, self.axes, self.compute, network.sizes)
            return demand_of_graph(self.workload, network.fabric(np.ones(len(network.sizes))), self.npu)


class Reference:
    """A published split to print beside ours."""

    def __init__(
        self, table: Mapping[str, Any], key: str, networks: Mapping[str, Network], jobs: Sequence[Job]
    ) -> None:
        check_keys(table, ("network", "workload", "objective", "split", "source"), key)
        self.network = as_choice(table.get("network"), networks, f"{key}.network")
        self.workload = as_choice(table.get("workload"), [one.name for one in jobs], f"{key}.workload")
        self.objective = as_choice(table.get("objective", "time"), OBJECTIVES, f"{key}.objective")  # it is best for
        self.split = _split(table.get("split"), networks[self.network], f"{key}.split")  # shares of the budget
        self.source = str(table.get("source", ""))


class Problem:
    """What a file asks; raises ``InputError`` that names file, key and value of what cannot be used."""

    def __init__(self, path: str, framework: Framework) -> None:
        file = File.at(path)
        self.file, self._folder, self._framework = file.path, file.location.parent, framework
        self._experiments: dict[str, Experiment] = {}
        with file.named():
            self._read(parse_toml(file.text()))

    def _read(self, content: Mapping[str, Any]) -> None:
        check_keys(content, (*_SETTINGS, "networks", "workloads", "references"), "")
        self._experiment = content.get("experiment")
        prices = Prices.read(as_table(content.get("prices", {}), "prices"))
        texts = _list(content.get("constraints", []))
        # Each gets splits of its own.
        self.networks = {name: self._network(name, one, prices, texts) for name, one in _named(content, "networks")}
        numbered = isinstance(content.get("budget"), list)
        self.budgets = [  # bytes per second of an NPU, in all dimensions together
            _budget(one, f"budget[{number}]" if numbered else "budget")
            for number, one in enumerate(_list(content.get("budget", [])))
        ]
        if not self.budgets:
            raise InputError("is missing", key="budget", accepted="a bandwidth of an NPU such as '1000 GB/s'")
        self.objectives = [as_choice(one, OBJECTIVES, "objective") for one in _list(content.get("objective", "time"))]
        if not self.objectives:
            raise InputError("names no objective", key="objective", accepted=", ".join(OBJECTIVES))
        self.jobs = [self._job(name, one) for name, one in _named(content, "workloads")]
        listed = as_tables(_list(content.get("references", [])), "references")
        self.references = [Reference(one, key, self.networks, self.jobs) for key, one in listed]
        # Whether all workloads share one split, for the weighted sum of their times.
        self.group = as_flag(content.get("group", False), "group")
        self.title = str(content.get("title", self.file))
        self.algorithm = content.get("algorithm", ALGORITHM)  # what simulations use, as collectives of an experiment

    def _network(self, name: str, table: Mapping[str, Any], prices: Prices, texts: Sequence[Any]) -> Network:
        key = f"networks.{name}"
        check_keys(table, ("dimensions", "names", "latencies", "scopes", "fabric"), key)
        experiment = self._loaded(key) if "fabric" in table else None
        with placed(key=key):
            if experiment:
                topology: Any = experiment.fabric(str(table["fabric"])).topology
            else:
                if "dimensions" not in table:
                    raise InputError("is missing", key="dimensions", accepted="a list such as ['ring 8', 'switch 16']")
                given = {one: table[one] for one in ("dimensions", "names", "latencies") if one in table}
                fields = {"latencies": "500 ns", **given, "bandwidths": "1 GB/s"}
                topology = self._framework.topology("multi-dimensional", **fields)
        if getattr(topology, "name", None) != "multi-dimensional":
            message = f"the topology {topology.name!r} has no dimensions whose bandwidths can be chosen"
            raise InputError(message, key=f"{key}.fabric", accepted="a fabric with the topology multi-dimensional")
        if "scopes" in table:
            scopes = tuple(map(str, _list(table["scopes"])))
            prices.check(scopes, key=f"{key}.scopes")
            prices = attrs.evolve(prices, scopes=scopes)
        count = len(topology.dimensions)
        names = {f"b{number}": number for number in range(count)}
        names |= {one: number for number, one in enumerate(topology.names or ())}
        read = constraints.read(texts, names, count, key="constraints")
        return Network(name, topology, _prices(topology, prices), read)

    def _loaded(self, key: str) -> Experiment:
        path = self._experiment
        if not isinstance(path, str):
            raise InputError("there is no experiment", key="experiment", accepted=f"the file that {key} is from")
        if path not in self._experiments:
            self._experiments[path] = self._framework.load_experiment(self._folder / path)
        return self._experiments[path]

    def _job(self, name: str, table: Mapping[str, Any]) -> Job:
        key = f"workloads.{name}"
        check_keys(table, ("weight", "compute", "axes", "collectives", "workload", "calibration"), key)
        weight = _positive(table.get("weight", 1.0), "weight", key)
        if "workload" in table:
            for other in ("axes", "collectives", "compute", "calibration"):
                if other in table:
                    raise InputError("the workload says this itself", key=f"{key}.{other}", accepted="one of the two")
            experiment = self._loaded(key)
            spec = experiment.workload(str(table["workload"]))
            if spec.compute_scale != 1:
                message = f"{spec.name!r} has the compute_scale {spec.compute_scale:g}, which is not used here"
                raise InputError(message, key=f"{key}.workload", accepted="a workload without")
            return Job(name, weight, 0.0, workload=spec.workload, npu=experiment.npu)
        axes = as_table(table.get("axes", {}), f"{key}.axes")
        for axis, size in axes.items():
            as_whole(size, f"{key}.axes.{axis}", 1)
        listed = as_tables(_list(table.get("collectives", [])), f"{key}.collectives")
        collectives = tuple(_collective(one, axes, place) for place, one in listed)
        if not collectives:
            message = "there is no communication whose bandwidth could be chosen"
            raise InputError(message, key=f"{key}.collectives", accepted="a list of collectives")
        compute = as_quantity(table.get("compute", 0), units.Unit.SECONDS, f"{key}.compute")
        calibration = None
        if "calibration" in table:
            calibration = Calibration(table["calibration"], f"{key}.calibration", self.networks)
        return Job(name, weight, compute, dict(axes), collectives, calibration=calibration)


def _prices(topology: Any, prices: Prices) -> FloatArray | None:
    """Return what an NPU pays for a byte per second in each dimension, by bills of networks that have more of it."""

    def dollars(rates: Sequence[float]) -> float | None:
        built: Topology = attrs.evolve(topology, bandwidths=tuple(rates), link_bandwidths=None)
        bill: Bill | None = built.cost(prices)
        return None if bill is None else bill.dollars

    count = len(topology.dimensions)
    npus = math.prod(int(one.split()[1]) for one in topology.dimensions)
    base = dollars([1e9] * count)
    more = [dollars([2e9 if one == dimension else 1e9 for one in range(count)]) for dimension in range(count)]
    if base is None or None in more:
        return None
    return (np.array(more, dtype=np.float64) - base) / (npus * 1e9)


def _collective(table: Mapping[str, Any], axes: Mapping[str, int], key: str) -> Collective:
    check_keys(table, ("pattern", "size", "axes", "count"), key)
    pattern = as_choice(table.get("pattern"), [str(one) for one in PATTERNS], f"{key}.pattern")
    along = tuple(map(str, _list(table.get("axes", []))))
    for one in along:
        if one not in axes:
            raise InputError(f"no axis {one!r}{nearest(one, axes)}", key=f"{key}.axes", accepted=", ".join(axes))
    if not along:
        raise InputError("is missing", key=f"{key}.axes", accepted=", ".join(axes) or "an axis of the workload")
    count = _positive(table.get("count", 1), "count", key)
    return Collective(Pattern(pattern), as_quantity(table.get("size"), units.Unit.BYTES, f"{key}.size"), along, count)


def _split(value: object, network: Network, key: str) -> tuple[float, ...]:
    accepted = f"{len(network.sizes)} percentages that add up to 100"
    given = value if isinstance(value, list) else []
    if len(given) != len(network.sizes) or not all(_is_number(one) and one > 0 for one in given):
        raise InputError(f"{value!r} is not a split", key=key, accepted=accepted)
    if abs(sum(given) - 100) > 0.1:
        raise InputError(f"{value!r} adds up to {sum(given):g} %", key=key, accepted=accepted)
    return tuple(one / sum(given) for one in given)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _positive(value: Any, what: str, key: str) -> float:
    if not _is_number(value) or not 0 < value < 1e12:
        raise InputError(f"{value!r} is not a {what}", key=f"{key}.{what}", accepted="a number above 0")
    return float(value)


def _budget(value: object, key: str) -> float:
    return as_quantity(value, units.Unit.BYTES_PER_SECOND, key, exclusive=True)


def _named(content: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
    tables = as_table(content.get(key, {}), key)
    if not tables:
        raise InputError(f"there are no {key}", key=key, accepted=f"at least one table [{key}.NAME]")
    return [(name, as_table(one, f"{key}.{name}")) for name, one in tables.items()]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]
