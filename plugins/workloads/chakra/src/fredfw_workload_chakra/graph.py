"""The traces of all ranks become one task graph, as ASTRA-sim would run them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from attrs import define, evolve, field
from numpy.typing import NDArray

from fredfw import File, Pattern, TaskGraph, TaskKind
from fredfw.errors import InputError
from fredfw.tables import as_table, parse_json
from fredfw.typing import AnyArray, BoolArray, FloatArray, IntArray
from fredfw.units import counted
from fredfw_workload_chakra import reading
from fredfw_workload_chakra.trace import MEANT, PATTERNS, ROOT, SHARDS, Collective, NodeType, Trace, offsets

if TYPE_CHECKING:
    from fredfw_workload_chakra.workload import Chakra

ALL = "all"
Groups: TypeAlias = Mapping[str, tuple[int, ...]]
_DEFAULT = ("", "0")
_WHOLE = re.compile(r"^\d+")
_GROUPS = '{"1": [0, 1], "2": [2, 3]}: ranks by the name of the communicator'


@define
class Communicators:
    """Communicators, numbered as nodes need them."""

    ranks: int
    listed: Groups  # ranks by name, of the file of communicators
    dimensions: tuple[int, ...]  # sizes of the network's dimensions, or none
    _known: dict[tuple[object, ...], int] = field(factory=dict, init=False)
    members: list[IntArray] = field(factory=list, init=False)

    def number(self, name: str, rank: int, used: tuple[bool, ...] | None, own: Groups) -> int:
        """Return the number of the communicator that a node of ``rank`` names, empty for none.

        ``used``: dimensions of the network, ``None`` for all; ``own``: ranks by name that the rank's own trace lists.
        """
        # ASTRA-sim reads the whole number that a name begins with, such as that of "3.0".
        for one in dict.fromkeys([name, *_WHOLE.findall(name)]):
            if one in self.listed:
                return self._add((one,), np.array(self.listed[one]), rank)
        if name not in _DEFAULT:
            if name not in own:
                known = ", ".join([*self.listed, *own]) or "none"
                message = f"names the communicator {name!r}, which is not there"
                raise InputError(message, accepted=f"comm_groups with it; there are {known}")
            return self._add((name,), np.array(own[name] or range(self.ranks)), rank)
        if used is None or all(used[: len(self.dimensions) or len(used)]):
            return self._add((ALL,), np.arange(self.ranks), rank)
        return self._along(used, rank)

    def _along(self, used: tuple[bool, ...], rank: int) -> int:
        """Return the communicator of those that differ from ``rank`` in dimensions that are ``used`` alone."""
        if not self.dimensions:
            message = f"runs over some dimensions of the network, {list(used)}, which the trace does not give"
            raise InputError(message, accepted="dimensions = [4, 2], or comm_groups")
        if np.prod(self.dimensions) != self.ranks:
            message = f"{list(self.dimensions)} are not the dimensions of {self.ranks} ranks"
            raise InputError(message, key="dimensions", accepted=f"sizes whose product is {self.ranks}")
        chosen = [place < len(used) and used[place] for place in range(len(self.dimensions))]
        grid = np.stack(np.unravel_index(np.arange(self.ranks), self.dimensions, order="F"), axis=1)
        fixed = [place for place, one in enumerate(chosen) if not one]
        members = np.flatnonzero((grid[:, fixed] == grid[rank, fixed]).all(axis=1))
        return self._add((tuple(chosen), int(members[0])), members, rank)

    def _add(self, key: tuple[object, ...], members: IntArray, rank: int) -> int:
        number = self._known.setdefault(key, len(self.members))
        if number == len(self.members):
            self.members.append(members)
        members = self.members[number]
        if rank not in members:
            raise InputError(f"is of rank {rank}, which is not in its communicator {key[0]!r}", accepted="a member")
        if members.max() >= self.ranks:
            message = f"names the communicator {key[0]!r}, which has rank {members.max()}"
            raise InputError(message, accepted=f"a trace for each of its ranks; there are {self.ranks}")
        return number


def listed(file: File | None) -> Groups:
    if file is None:
        return {}
    with file.named():
        content = as_table(parse_json(file.text(), accepted=_GROUPS), "", accepted=_GROUPS)
        return {name: _group(ranks, name) for name, ranks in content.items()}


def _group(ranks: Any, name: str) -> tuple[int, ...]:
    whole = isinstance(ranks, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in ranks)
    if not whole or not ranks or len(set(ranks)) < len(ranks) or min(ranks) < 0:
        raise InputError(f"{ranks!r} is not a group", key=name, accepted="different ranks")
    return tuple(ranks)


def within(trace: Trace) -> Groups:
    """Return the communicators that ``METADATA`` nodes list as PyTorch does; all ranks where a list is empty."""
    found: dict[str, tuple[int, ...]] = {}
    for text in trace.inputs:
        try:
            found_groups = json.loads(_unquoted(text))
        except (ValueError, RecursionError):
            continue  # a node may say other things
        for one in found_groups if isinstance(found_groups, list) else []:
            if isinstance(one, dict) and "pg_name" in one and isinstance(one.get("ranks"), list):
                ranks = one["ranks"]
                if all(isinstance(rank, int) for rank in ranks):
                    found[str(one["pg_name"])] = tuple(ranks)
    return found


def _unquoted(text: str) -> str:
    inner = text.strip()
    quoted = inner[:2] in ("['", '["') and inner[-2:] in ("']", '"]')
    return (inner[2:-2] if quoted else inner).replace('\\"', '"')


_PATTERNS = tuple(Pattern)
_MEMORY = "memory"
LABELS = ("compute", *map(str, _PATTERNS), _MEMORY)
# What nodes of each type become; all others are computations.
_TASKS = {
    NodeType.MEM_LOAD: TaskKind.LOAD,
    NodeType.MEM_STORE: TaskKind.STORE,
    NodeType.COMM_SEND: TaskKind.SEND,
    NodeType.COMM_RECV: TaskKind.RECEIVE,
    NodeType.COMM_COLL: TaskKind.COLLECTIVE,
}
_KINDS = np.array([int(_TASKS.get(one, TaskKind.COMPUTE)) for one in NodeType])
_MOST = 2**32
_LONG = 60  # characters of a name in an error; tracers put whole signatures there


# What is counted in the traces, and how it is said.
_COUNTED = (
    ("dangling", "dependency is", "dependencies are", "left out: on nodes that the traces do not have"),
    (
        *("untimed", "computation takes", "computations take"),
        "the duration in the traces: num_ops or tensor_size is not there",
    ),
    ("broadcasts", "broadcast is", "broadcasts are", "simulated from the root; ASTRA-sim replays the duration"),
    ("invalid", "node of type INVALID takes", "nodes of type INVALID take", "no time"),
    (
        *("by_cpu", "message or collective of the CPU is", "messages and collectives of the CPU are"),
        "not simulated; the duration in the traces is taken",
    ),
    ("alone", "collective is among one rank, and costs", "collectives are among one rank, and cost", "nothing"),
)


def load(workload: Chakra) -> tuple[TaskGraph, tuple[str, ...]]:
    try:
        return _load(workload)
    except InputError as error:
        if error.key == "dependencies" and workload.control_dependencies:
            with suppress(InputError):
                _load(evolve(workload, control_dependencies=False))
                data_alone = "control_dependencies = false, as the data dependencies alone have no cycle"
                error.accepted = f"{data_alone}, or {error.accepted}"
        raise


def _load(workload: Chakra) -> tuple[TaskGraph, tuple[str, ...]]:
    files = reading.by_rank(workload.traces.files)
    groups = Communicators(len(files), listed(workload.comm_groups), workload.dimensions)
    parts: list[dict[str, NDArray[Any]]] = []
    names: list[str] = []
    counts: Counter[str] = Counter()
    first = 0
    for rank, file in enumerate(files):
        trace = reading.read(file)
        with file.named():
            part, order = _columns(trace, rank, groups, workload, counts)
        part["dependencies"] += first
        first += len(trace)
        parts.append(part)
        names += [trace.names[one] for one in order.tolist()]
    columns = {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
    label = columns.pop("label")
    used = np.bincount(label, minlength=len(LABELS)) > 0
    graph = TaskGraph.from_columns(
        len(files),
        rank=np.repeat(np.arange(len(files)), [len(one["kind"]) for one in parts]),
        dependency_offsets=offsets(columns.pop("counts")),
        **columns,
        label=(np.cumsum(used) - 1)[label],
        label_names=list(compress(LABELS, used.tolist())),
        communicators=groups.members,
        memory_names=[_MEMORY] if LABELS.index(_MEMORY) in label else [],
        names=names,
    )
    return graph, tuple(_notes(counts, workload))


def _notes(counts: Counter[str], workload: Chakra) -> Iterator[str]:
    for name, one, more, what in _COUNTED:
        if counts[name]:
            yield f"{counted(counts[name], one, more)} {what}"
        # Behind the first of them: computations without a time, which have FLOPs.
        if name == "dangling" and workload.mode == "replay" and counts["operations"] and not counts["timed"]:
            yield 'all computations take 0 s in the traces; mode = "roofline" takes their FLOPs and bytes'


def _columns(
    trace: Trace, rank: int, groups: Communicators, workload: Chakra, counts: Counter[str]
) -> tuple[dict[str, NDArray[Any]], IntArray]:
    """Return the nodes of a rank in the order in which they are issued, and that; dependencies are places in it."""
    _refuse(trace, np.arange(len(trace)), ~trace.known, "is of type {}", _listed(NodeType), trace.types)
    # What the CPU does beside computation only takes its time.
    kind = np.where(trace.on_cpu, int(TaskKind.COMPUTE), _KINDS[trace.types])
    calls, messages = kind == TaskKind.COLLECTIVE, np.isin(kind, (TaskKind.SEND, TaskKind.RECEIVE))
    remote = np.isin(kind, (TaskKind.LOAD, TaskKind.STORE))
    pattern, communicator, factor = _calls(trace, np.flatnonzero(calls), rank, groups)
    sizes = np.array([len(one) for one in groups.members], dtype=np.intp)
    counts["alone"] += int((sizes[communicator[calls]] == 1).sum())
    counts["by_cpu"] += int(((trace.types >= NodeType.COMM_SEND) & trace.on_cpu).sum())
    counts["invalid"] += int((trace.types == NodeType.INVALID).sum())
    counts["broadcasts"] += int((pattern[calls] == _PATTERNS.index(Pattern.BROADCAST)).sum())
    size = trace.number("comm_size", 0.0) * factor
    computes = trace.types == NodeType.COMP
    flops = np.where(computes, trace.number("num_ops", 0.0), 0.0)
    moved = np.where(computes, trace.number("tensor_size", 0.0), 0.0)
    moved[remote] = _need(trace, "tensor_size", np.flatnonzero(remote))
    label = np.where(calls, pattern + 1, np.where(messages, 1 + _PATTERNS.index(Pattern.POINT_TO_POINT), 0))
    label = np.where(remote, LABELS.index(_MEMORY), label)
    peer = _peers(trace, kind, rank, groups.ranks)
    tag = np.zeros(len(trace), dtype=np.intp)
    tag[messages] = _whole(trace, "comm_tag", np.flatnonzero(messages))
    rooted = calls & ~np.isnan(trace.numbers[ROOT])
    root = np.full(len(trace), -1)
    root[rooted] = _whole(trace, ROOT, np.flatnonzero(rooted))
    order, before, owners = _order(trace, workload.control_dependencies, counts)
    place = np.empty(len(trace), dtype=np.intp)
    place[order] = np.arange(len(trace))
    by_owner = np.argsort(place[owners], kind="stable")
    columns = {"kind": kind, "flops": flops, "label": label, "pattern": pattern, "communicator": communicator}
    columns |= {"root": root, "peer": peer, "tag": tag, "bytes": np.where(calls | messages, size, moved)}
    columns["counts"] = np.bincount(owners, minlength=len(trace))
    columns["seconds"] = _seconds(trace, kind != TaskKind.COMPUTE, workload, counts)
    columns = {name: values[order] for name, values in columns.items()}
    return {**columns, "dependencies": place[before][by_owner]}, order


def _node(trace: Trace, index: int) -> str:
    name = trace.names[index]
    return f"node {trace.ids[index]} ({name if len(name) <= _LONG else f'{name[: _LONG - 3]}...'})"


def _refuse(
    trace: Trace, which: IntArray, wrong: BoolArray, message: str, accepted: str, values: AnyArray | None = None
) -> None:
    """Raise ``InputError`` for the first of the nodes ``which`` that are ``wrong``; its value is put in ``message``."""
    if wrong.any():
        place = int(wrong.argmax())
        text = message if values is None else message.format(values[place])
        raise InputError(text, key=_node(trace, int(which[place])), accepted=accepted)


def _listed(types: type[NodeType] | type[Collective]) -> str:
    return ", ".join(f"{one.value} ({one.name})" for one in types)


def _need(trace: Trace, name: str, which: IntArray) -> FloatArray:
    values: FloatArray = trace.numbers[name][which]
    _refuse(trace, which, np.isnan(values), f"has no {name}", f"a {name}, as every such node has")
    return values


def _whole(trace: Trace, name: str, which: IntArray) -> IntArray:
    """Return the values of an attribute of some nodes, 0 where one has none; raises ``InputError`` for fractions."""
    values = trace.number(name, 0.0)[which]
    wrong = (values != np.floor(values)) | (np.abs(values) > _MOST)
    _refuse(trace, which, wrong, f"has {name} {{:g}}", "a whole number of 32 bits", values)
    whole: IntArray = values.astype(np.intp)
    return whole


def _calls(trace: Trace, which: IntArray, rank: int, groups: Communicators) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the pattern and the communicator of the collectives ``which``, and what their size is multiplied by."""
    count = len(trace)
    pattern, communicator, factor = np.full(count, -1), np.full(count, -1), np.ones(count)
    types = _need(trace, "comm_type", which)
    barriers, meant = types == Collective.BARRIER, trace.numbers[MEANT][which]
    types = np.where(np.isnan(meant), types, meant)
    unknown = ~np.isin(types, [int(one) for one in Collective])
    _refuse(trace, which, unknown, "has comm_type {:g}", _listed(Collective), types)
    types = types.astype(np.intp)
    _need(trace, "comm_size", which[~barriers])
    pattern[which] = np.array([_PATTERNS.index(PATTERNS[one]) for one in Collective])[types]
    own = within(trace)
    numbers: dict[tuple[int, tuple[bool, ...] | None], int] = {}
    for index, group in zip(which.tolist(), trace.groups[which].tolist(), strict=True):
        key = group, trace.dimensions.get(index)
        if key not in numbers:
            name = trace.group_names[group] if group >= 0 else ""
            try:
                numbers[key] = groups.number(name, rank, key[1], own)
            except InputError as error:
                raise error if error.key else error.at(key=_node(trace, index)) from None
        communicator[index] = numbers[key]
    sizes = np.array([len(one) for one in groups.members])
    shards = which[np.isin(types, SHARDS)]
    factor[shards] = sizes[communicator[shards]]
    factor[which[barriers]] = 0.0
    return pattern, communicator, factor


def _peers(trace: Trace, kind: IntArray, rank: int, ranks: int) -> IntArray:
    """Return the rank at the other end of each message, -1 for other nodes."""
    peer = np.full(len(trace), -1)
    for way, own, other in ((TaskKind.SEND, "comm_src", "comm_dst"), (TaskKind.RECEIVE, "comm_dst", "comm_src")):
        which = np.flatnonzero(kind == way)
        _need(trace, other, which)
        peer[which] = _whole(trace, other, which)
        outside = (peer[which] < 0) | (peer[which] >= ranks)
        accepted = f"{f'0 to {ranks - 1}' if ranks > 1 else '0'}, the ranks that have a file, or one more file"
        message = f"has {other} {{0}}, and there is no file of rank {{0}}"
        _refuse(trace, which, outside, message, accepted, peer[which])
        _need(trace, "comm_size", which)
        mine = trace.number(own, rank)[which]
        message = f"has {own} {{:g}} in the trace of rank {rank}"
        _refuse(trace, which, mine != rank, message, f"{rank}, or none", mine)
    return peer


def _seconds(trace: Trace, communicates: BoolArray, workload: Chakra, counts: Counter[str]) -> FloatArray:
    """Return the duration of each computation, NaN where FLOPs and bytes decide it; 0 for what does nothing."""
    seconds = np.where(np.isin(trace.types, (NodeType.INVALID, NodeType.METADATA)), 0.0, trace.seconds)
    computes = (trace.types == NodeType.COMP) & ~trace.on_cpu
    counts["operations"] += np.nansum(trace.numbers["num_ops"][computes]) != 0
    counts["timed"] += seconds[computes].sum() != 0
    if workload.mode == "roofline":
        operations, moved = trace.numbers["num_ops"], trace.numbers["tensor_size"]
        told = computes & ~np.isnan(operations) & ~np.isnan(moved)
        counts["untimed"] += int((computes & ~told).sum())
        seconds = np.where(told, np.where(moved == 0, 0.0, np.nan), seconds)
    seconds[communicates] = np.nan
    return seconds


def _order(trace: Trace, control: bool, counts: Counter[str]) -> tuple[IntArray, IntArray, IntArray]:
    """Return the nodes as ASTRA-sim issues them, of those ready the lowest id first, and which node is before which."""
    by_id = np.argsort(trace.ids, kind="stable")
    ids = trace.ids[by_id]
    _refuse(trace, by_id[1:], ids[1:] == ids[:-1], "has the id of another node", "different ids")
    owners = np.repeat(np.arange(len(trace)), np.diff(trace.dependency_offsets))
    wanted = trace.dependencies
    if not control:
        wanted, owners = wanted[~trace.control], owners[~trace.control]
    places = np.minimum(np.searchsorted(ids, wanted), max(len(ids) - 1, 0))
    found = ids[places] == wanted if len(ids) else np.zeros(0, dtype=bool)
    counts["dangling"] += int((~found).sum())
    before, owners = by_id[places[found]], owners[found]
    if (trace.ids[before] < trace.ids[owners]).all():
        return by_id, before, owners
    return _topological(trace.ids, before, owners), before, owners


def _topological(ids: IntArray, before: IntArray, owners: IntArray) -> IntArray:
    """Return nodes in an order in which each comes after what it depends on; those in a cycle come last, by id."""
    missing = np.bincount(owners, minlength=len(ids)).tolist()
    dependents: Sequence[int] = owners[np.argsort(before, kind="stable")].tolist()
    begins: Sequence[int] = offsets(np.bincount(before, minlength=len(ids))).tolist()
    key: Sequence[int] = ids.tolist()
    ready = sorted((key[node], node) for node, count in enumerate(missing) if not count)
    order: list[int] = []
    while ready:
        node = heappop(ready)[1]
        order.append(node)
        for other in dependents[begins[node] : begins[node + 1]]:
            missing[other] -= 1
            if not missing[other]:
                heappush(ready, (key[other], other))
    stuck = sorted((key[node], node) for node, count in enumerate(missing) if count)
    return np.array([*order, *(node for _, node in stuck)], dtype=np.intp)
