"""Fits the constants of a family of GPUs to measured times; what is held out scores them.

All but the constants named in ``FREE`` is published. For each family there are five numbers for all-reduces in a node
(four where the switch does not reduce), two for each further pattern, one for messages alone, and three for each
network, of which latencies are fitted where buffers of 1 MiB or less were measured. They are fitted to the sizes that
are even powers of two bytes, so that every other power of two is held out. The error is the geometric mean of the ratio
of times, exp(mean |ln(predicted / measured)|) - 1.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from operator import getitem
from statistics import median
from typing import Any

import numpy as np
from attrs import frozen

from fredfw.fitting import least
from fredfw.typing import FloatArray
from fredfw_transport_nccl.model import time
from fredfw_transport_nccl.tables import Fit, networks, origin, published
from fredfw_transport_nccl.tuner import Machine

CLASSES = (("to 64 KiB", 2**16), ("64 KiB to 1 MiB", 2**20), ("1 to 32 MiB", 2**25), ("above 32 MiB", math.inf))
"""Classes of sizes by name, each up to so many bytes."""
_START: Mapping[str, Any] = {
    "launch": {"all-reduce": 8.0},
    "hops": {"ll": 1.0, "simple": 1.0},
    "tail": {"all-reduce": 0.5},
    "messages": 1.0,
    "sends": 1.0,
    "nvls": 1.0,
    "networks": {},
}
"""What the search starts from, and what is not fitted has; microseconds, factors and shares."""
_LATENCY = 2**20  # bytes of buffers up to which times between nodes are made of latencies
_NETWORK = {"hops": 1.0, "nic": 1.0}
SEND = "sendrecv"  # what tables call messages from each rank to the next


def _shares(path: str) -> bool:
    return path in ("messages", "sends") or path.endswith((".nic", ".sends"))


@frozen
class Measurement:
    """A measured time."""

    machine: Machine
    system: str  # what the machine is called
    pattern: str
    size: float  # bytes of the per-rank buffer, the larger of input and output
    seconds: float
    source: str = ""  # who measured it
    held_out: bool = False  # whether nothing is fitted to it, whatever its size

    @property
    def family(self) -> str:
        """The family of GPUs whose constants it is fitted by."""
        return origin(self.machine.family)

    @property
    def network(self) -> str:
        return self.machine.network if self.machine.nodes > 1 else ""

    @property
    def fitted(self) -> bool:
        """Whether constants are fitted to it: its size is an even power of two, as near as nccl-tests comes to it."""
        exponent = round(math.log2(self.size))
        return not self.held_out and exponent % 2 == 0 and abs(self.size / 2.0**exponent - 1) < 0.01

    @property
    def size_class(self) -> str:
        return next(name for name, most in CLASSES if self.size <= most)


@frozen
class Stage:
    """Constants that are fitted together."""

    pattern: str  # what they are fitted to
    network: str  # between several nodes; empty for one node
    free: tuple[str, ...]  # their paths

    def takes(self, one: Measurement) -> bool:
        return (one.pattern, one.network) == (self.pattern, self.network)


FREE = (
    Stage("all-reduce", "", ("launch.all-reduce", "hops.ll", "hops.simple", "tail.all-reduce", "nvls")),
    Stage("all-gather", "", ("launch.all-gather", "tail.all-gather")),
    Stage("reduce-scatter", "", ("launch.reduce-scatter", "tail.reduce-scatter")),
    Stage("all-to-all", "", ("launch.all-to-all", "messages")),
    Stage(SEND, "", ("sends",)),
    *(Stage("all-reduce", one, (f"networks.{one}.hops", f"networks.{one}.nic")) for one in networks()),
    *(Stage(SEND, one, (f"networks.{one}.sends",)) for one in networks()),
)
"""What is fitted, one stage after the other."""


def fit(measurements: Iterable[Measurement]) -> dict[str, Any]:
    """Return constants and residuals by family, as ``fitted.toml`` has them."""
    # The same without each source in turn, and without each system, is what that can be predicted by. What a family has
    # no measurements of is as for an all-reduce, or as published. Without a system it is as for another family.
    families: dict[str, list[Measurement]] = {}
    for one in measurements:
        families.setdefault(one.family, []).append(one)
    constants = {family: _constants(family, own) for family, own in families.items()}
    found = {}
    for family, own in families.items():
        without = {}
        sources = dict.fromkeys(one.source for one in own if not one.held_out)
        for source in sources if len(sources) > 1 else ():
            without[source] = _constants(family, [one for one in own if one.source != source])
        others = [constants[other] for other in families if other != family]
        for system in dict.fromkeys(one.system for one in own) if others else ():
            without[system] = _constants(family, [one for one in own if one.system != system], others[0])
        found[family] = {
            "constants": constants[family],
            "without": without,
            "residuals": residuals(Fit(constants[family]), own),
            "ratios": ratio_error(Fit(constants[family]), own),
        }
    return found


def _constants(family: str, own: Sequence[Measurement], elsewhere: Mapping[str, Any] | None = None) -> dict[str, Any]:
    constants = {key: dict(value) if isinstance(value, Mapping) else value for key, value in _START.items()}
    for stage in FREE:
        chosen = [one for one in own if stage.takes(one) and one.fitted]
        free = [path for path in stage.free if path != "nvls" or published()["families"][family]["nvls"]]
        # Large buffers say nothing about latencies, which stay as published.
        if all(one.size > _LATENCY for one in chosen):
            free = [path for path in free if not path.endswith(".hops")]
        if chosen:
            if stage.network:
                entry = constants["networks"].setdefault(stage.network, dict(_NETWORK))
                if stage.pattern == SEND:
                    entry["sends"] = 1.0
            for path in free:
                _set(constants, path, _get(constants, path) * (0.9 if _shares(path) else 1.0))
            _fit_stage(constants, free, chosen)
        elif elsewhere is not None and not stage.network:
            for path in free:
                _set(constants, path, _get(elsewhere, path))
    return constants


def _fit_stage(constants: dict[str, Any], free: Sequence[str], chosen: Sequence[Measurement]) -> None:
    def error(values: FloatArray) -> float:
        if (values <= 0).any() or any(value > 1 for path, value in zip(free, values, strict=True) if _shares(path)):
            return math.inf
        for path, value in zip(free, values.tolist(), strict=True):
            _set(constants, path, value)
        return _mean(Fit(constants), chosen)

    error(least(error, np.array([_get(constants, path) for path in free])))
    for path in free:
        _set(constants, path, float(f"{_get(constants, path):.4g}"))


def _mean(constants: Fit, chosen: Sequence[Measurement]) -> float:
    names = ["point-to-point" if one.pattern == SEND else one.pattern for one in chosen]
    times = [time(one.machine, constants, name, one.size) for one, name in zip(chosen, names, strict=True)]
    return float(np.mean([abs(math.log(took / one.seconds)) for one, took in zip(chosen, times, strict=True)]))


def residuals(constants: Fit, measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Return the errors by pattern, class of sizes and part, beside that of the median of all who measured the same."""
    medians: dict[tuple[Any, ...], list[float]] = {}
    for one in measurements:
        medians.setdefault((one.machine, one.pattern, one.size), []).append(one.seconds)
    found = []
    for stage in FREE:
        for part in ("fitted", "held out"):
            for name in ("all", *(name for name, _ in CLASSES)):
                mine = (one for one in measurements if stage.takes(one) and one.fitted == (part == "fitted"))
                if not (rows := [one for one in mine if name in ("all", one.size_class)]):
                    continue
                medianed = [median(medians[one.machine, one.pattern, one.size]) for one in rows]
                floor = [abs(math.log(one / row.seconds)) for one, row in zip(medianed, rows, strict=True)]
                found.append(
                    {
                        "pattern": stage.pattern,
                        "nodes": stage.network or "one",
                        "sizes": name,
                        "part": part,
                        "points": len(rows),
                        "error": round(math.expm1(_mean(constants, rows)), 4),
                        "error_of_median": round(math.expm1(float(np.mean(floor))), 4),
                    }
                )
    return found


def ratio_error(constants: Fit, measurements: Sequence[Measurement]) -> float | None:
    """Return the mean error of ratios of two held-out machines or groups, of one pattern and size; or ``None``."""
    times: dict[tuple[str, float], dict[Machine, list[float]]] = {}
    for one in measurements:
        if not one.fitted and one.pattern != SEND:
            times.setdefault((one.pattern, one.size), {}).setdefault(one.machine, []).append(one.seconds)
    errors = []
    for (pattern, size), alike in times.items():
        logs = [math.log(time(one, constants, pattern, size) / median(listed)) for one, listed in alike.items()]
        errors += [abs(one - other) for one, other in combinations(logs, 2)]
    return round(math.expm1(float(np.mean(errors))), 4) if errors else None


def _get(constants: Mapping[str, Any], path: str) -> float:
    *keys, last = path.split(".")
    entry = reduce(getitem, keys, constants)
    return float(entry[last] if last in entry else entry["all-reduce"])


def _set(constants: dict[str, Any], path: str, value: float) -> None:
    *keys, last = path.split(".")
    entry: dict[str, Any] = reduce(getitem, keys, constants)
    entry[last] = value
