"""ASTRA-sim's system file as tables of an experiment, and what of it has no counterpart."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fredfw.errors import InputError, nearest
from fredfw.tables import as_choice, as_whole
from fredfw_topology_astra_sim_network.topology import Block

PATTERNS = "all-reduce", "reduce-scatter", "all-gather", "all-to-all"
_IMPLEMENTATION = re.compile(
    r"(?P<one>one)?(?P<name>ring|direct|halvingdoubling|doublebinarytree)(?P<window>(?<=direct)\d+)?"
)
_IMPLEMENTATIONS = (
    "ring, direct, halvingDoubling, doubleBinaryTree, oneRing, oneDirect, oneHalvingDoubling, one per dimension"
)
_STEPS = {"ring": "ring", "direct": "direct", "halvingdoubling": "halving-doubling"}
_SPLITS = "preferred-dataset-splits"
_ACTIVE = "active-chunks-per-dimension"
_ENDPOINT_DELAY = 10  # nanoseconds, where the file does not say
_LEAST, _MOST = 1e-80, 1e80  # what an experiment accepts as a quantity under any prefix

_NO_COUNTERPART = {
    "reductions take no time here, unless the transport says a rate": ("local-reduction-delay",),
    "the local bus of an NPU is not simulated": ("L", "o", "g", "G", "model-shared-bus"),
    "it is about the output of ASTRA-sim; see fredfw run --trace": ("trace-enabled",),
    "it is about the output of ASTRA-sim": ("track-local-mem", "local-mem-trace-filename"),
    "a collective that is a trace is not read here": (
        "per-node-custom-implementation",
        *(f"{pattern}-implementation-custom" for pattern in PATTERNS),
    ),
}
_READ_BUT_LEFT_OUT = {key: f"no counterpart: {why}" for why, keys in _NO_COUNTERPART.items() for key in keys}
_NOT_READ_ANY_MORE = ("intra-dimension-scheduling", "inter-dimension-scheduling", "boost-mode")
_POLICIES = "LIFO", "FIFO", "EXPLICIT"
_OPTIMIZATIONS = "baseline", "localBWAware"
_MAPPED = (
    *(f"{pattern}-implementation" for pattern in PATTERNS),
    "scheduling-policy",
    "collective-optimization",
    _SPLITS,
    _ACTIVE,
    "endpoint-delay",
    "peak-perf",
    "local-mem-bw",
    "roofline-enabled",
    "replay-only",
)


class System:
    """What becomes of the ``table`` of a system file on a network of ``blocks``; raises ``InputError`` with the key."""

    def __init__(self, table: Mapping[str, Any], blocks: Sequence[Block]) -> None:
        self.table, self.blocks = table, blocks
        self.collectives: dict[str, list[Any]] = {}  # algorithms by pattern, as values of an experiment
        self.npu: dict[str, str] = {}  # the table ``[npu]``
        self.mode = "replay"  # where compute times come from: ``roofline`` or ``replay``
        # key and what becomes of it, for what is left out or done in another way
        self.remarks = remarks = list[tuple[str, str]]()
        splits, active = (as_whole(self.table.get(key, 1), key, 1) for key in (_SPLITS, _ACTIVE))
        for pattern in PATTERNS:
            self.collectives[pattern] = self._algorithms(pattern, splits)
        if self._one_of("collective-optimization", _OPTIMIZATIONS) != "localBWAware" and len(self.blocks) > 1:
            how = "an all-reduce is a reduce-scatter and an all-gather along the dimensions, as with localBWAware"
            remarks.append(("collective-optimization", f"baseline has no counterpart: {how}"))
        if splits > 1 and not any("chunks" in one for one in self.collectives["all-reduce"] if isinstance(one, dict)):
            remarks.append((_SPLITS, f"left out: a collective over one dimension is in one piece, not {splits}"))
        if active > 1:
            remarks.append((_ACTIVE, f"left out: a dimension works on one piece at a time, not {active}"))
        if (policy := self._one_of("scheduling-policy", _POLICIES)) is not None:
            rule = f"left out: collectives that are ready share the links, in no order such as {policy}"
            remarks.append(("scheduling-policy", rule))
        self.step = number(self.table, "endpoint-delay", _ENDPOINT_DELAY)  # nanoseconds that each step takes longer
        if "endpoint-delay" not in self.table:
            remarks.append(("endpoint-delay", f"not in the file: {_ENDPOINT_DELAY} ns, as in ASTRA-sim"))
        self._compute()
        known = (*_MAPPED, *_READ_BUT_LEFT_OUT, *_NOT_READ_ANY_MORE)
        for key in self.table:
            if key in _READ_BUT_LEFT_OUT:
                remarks.append((key, _READ_BUT_LEFT_OUT[key]))
            elif key in _NOT_READ_ANY_MORE:
                remarks.append((key, "not read by ASTRA-sim any more"))
            elif key not in known:
                # A key is any text, and goes into a comment of the experiment.
                remarks.append((ascii(key)[1:-1], f"unknown to ASTRA-sim{nearest(key, known)}"))

    def _compute(self) -> None:
        quantities = ("peak-perf", "peak", "TFLOP/s"), ("local-mem-bw", "memory_bandwidth", "GB/s")
        if self._flag("roofline-enabled") and not self._flag("replay-only"):
            self.mode = "roofline"
        for key, name, unit in quantities:
            if value := number(self.table, key, 0.0):
                self.npu[name] = written(value, unit)
            elif self.mode == "roofline":
                raise _wrong(key, "is missing, and roofline-enabled needs it", "a number above 0")

    def _algorithms(self, pattern: str, splits: int) -> list[Any]:
        """Return what serves a pattern, the first that can do so."""
        key, remarks = f"{pattern}-implementation", self.remarks
        if key not in self.table:
            remarks.append((key, "not in the file: direct; ASTRA-sim would stop at such a collective"))
            return ["direct"]
        names = self._names(key)
        if len(names) == 1:
            return self._along_one(names[0], pattern, splits)
        if pattern == "all-to-all":
            remarks.append((key, f"one exchange of all ranks (direct), not one along each of {len(names)} dimensions"))
            return ["direct"]
        steps = []
        for name in names:
            if name not in _STEPS:
                remarks.append((key, f"{name} along one of several dimensions has no counterpart: ring"))
            steps.append(_STEPS.get(name, "ring"))
        # ASTRA-sim takes a ring for a group that is not all NPUs; the steps fit groups of so many dimensions alone.
        return [{"name": "hierarchical", "steps": steps, "chunks": splits}, "ring"]

    def _along_one(self, name: str, pattern: str, splits: int) -> list[Any]:
        if name == "halvingdoubling" and pattern != "all-to-all":
            return ["recursive-halving-doubling"]
        if name == "doublebinarytree" and pattern == "all-reduce":
            return [{"name": "tree", "shape": "double-binary", "chunks": splits}]
        if name in ("ring", "direct"):
            return [name]
        self.remarks.append((f"{pattern}-implementation", f"{name} has no {pattern}: direct"))
        return ["direct"]

    def _names(self, key: str) -> list[str]:
        given = self.table[key]
        if not isinstance(given, list) or not given:
            raise _wrong(key, f"{given!r} is not a list of implementations", _IMPLEMENTATIONS)
        names, together = [], False
        for index, one in enumerate(given):
            match = _IMPLEMENTATION.fullmatch(one.lower()) if isinstance(one, str) else None
            if match is None:
                raise _wrong(f"{key}[{index}]", f"{one!r} is not an implementation", _IMPLEMENTATIONS)
            names.append(match["name"])
            together |= bool(match["one"])
            if match["window"]:
                window = f"a window of {match['window']} messages has no counterpart: all are sent at once"
                self.remarks.append((key, window))
        if together and len(names) == 1:
            return names
        if len(names) != len(self.blocks):
            raise _wrong(key, f"{len(names)} implementations for {len(self.blocks)} dimensions", _IMPLEMENTATIONS)
        return names

    def _one_of(self, key: str, accepted: Sequence[str]) -> str | None:
        value = self.table.get(key)
        return None if value is None else as_choice(value, accepted, key)

    def _flag(self, key: str) -> bool:
        value = self.table.get(key, 0)
        if not isinstance(value, int) or value not in (0, 1):
            raise _wrong(key, f"{value!r} is refused", "0 or 1")
        return bool(value)


def _wrong(key: str, message: str, accepted: str) -> InputError:
    return InputError(message, key=key, accepted=accepted)


def number(table: Mapping[str, Any], key: str, default: float) -> float:
    """Return the value of ``key``, 0 or in a range that is a quantity with any prefix."""
    value = table.get(key, default)
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not (value == 0 or _LEAST <= value <= _MOST):
        raise _wrong(key, f"{value!r} is refused", f"a number: 0, or {_LEAST:g} to {_MOST:g}")
    return float(value)


def written(value: float, unit: str) -> str:
    return f"{value!r} {unit}".replace(".0 ", " ")
