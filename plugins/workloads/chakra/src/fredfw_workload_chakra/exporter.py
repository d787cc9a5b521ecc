"""The exporter ``chakra``: the task graph of a run as execution traces, one file per rank, that ASTRA-sim runs."""

import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import Exporter, Pattern, RunResult, TaskGraph, TaskKind, Timeline, units
from fredfw.errors import InputError, UnsupportedError
from fredfw.typing import FloatArray
from fredfw_workload_chakra import et, trace
from fredfw_workload_chakra.trace import PATTERNS, Collective, Node, NodeType, Value

# The first one of those that are the same pattern.
COLLECTIVES: Mapping[Pattern, Collective] = {pattern: one for one, pattern in reversed([*PATTERNS.items()])}


def _check_prefix(_instance: object, _attribute: object, value: object) -> None:
    if not isinstance(value, str) or not value or set(value) & set("/\\\0*"):
        raise InputError(f"{value!r} cannot begin a name", key="prefix", accepted="the beginning of the files' names")


@frozen
class ChakraExporter(Exporter):
    """Chakra execution traces of one run or graph: ``PREFIX.RANK.et`` for each rank, and ``comm_groups.json``.

    Computations have ``num_ops``, ``tensor_size`` and ``duration_micros``. Messages become ``COMM_SEND`` and
    ``COMM_RECV`` with tags; a receive waits for what its transfer comes after in runs in which transfers wait for their
    receivers: ``exact``, with a transport that has ``rendezvous``. A transfer to several receivers becomes a
    ``BROADCAST`` from the first rank, which waits for its receivers; ASTRA-sim gives it the time that it took. A
    collective of no bytes becomes a ``BARRIER``. For the workload ``chakra`` attributes say what else is known:
    ``fredfw_seconds`` a time of no whole microseconds, ``fredfw_root`` a root that is not the first rank, and
    ``fredfw_comm_type`` what a barrier was.

    Repetitions are written out; sizes are whole bytes. Runs in which I/O controllers load or store, or with an
    all-to-all of different sizes, are refused.
    """

    name: ClassVar[str] = "chakra"
    takes: ClassVar[tuple[str, ...]] = ("run", "graph")
    directory: ClassVar[bool] = True

    prefix: str = units.option("trace", validator=_check_prefix, help="beginning of the files' names")
    compress: bool = units.flag(False, help="whether files are compressed by gzip, as ASTRA-sim reads them, too")

    def export(self, result: RunResult | TaskGraph) -> dict[str, str | bytes]:
        if isinstance(result, TaskGraph):
            writer = _Writer(result.expanded())
        else:
            fidelity = result.provenance["fidelity"]
            meets = fidelity == "exact" and result.fabric.defaults.transport.rendezvous
            writer = _Writer(_timed(result.timeline), receivers=meets or fidelity == "per-rank-rendezvous")
        for task in range(len(writer.graph)):
            writer.add(task)
        ending = ".et.gz" if self.compress else ".et"
        files: dict[str, str | bytes] = {}
        for rank, nodes in enumerate(writer.nodes):
            content = et.write(nodes, {"schema": "fredfw"})
            files[f"{self.prefix}.{rank}{ending}"] = gzip.compress(content, mtime=0) if self.compress else content
        files["comm_groups.json"] = json.dumps({name: list(members) for members, name in writer.groups.items()}) + "\n"
        return files


def _timed(timeline: Timeline) -> TaskGraph:
    """Return the tasks of a run, repetitions written out; ``seconds`` is how long each took once."""
    graph = timeline.graph
    taken: FloatArray = np.zeros(len(graph))
    np.maximum.at(taken, timeline.task, timeline.end - timeline.start)
    return evolve(graph, seconds=taken / graph.repeats).expanded()


class _Writer:
    """Makes the nodes of each rank, task by task."""

    def __init__(self, graph: TaskGraph, *, receivers: bool = True) -> None:
        self.graph = graph
        self.nodes: list[list[Node]] = [[] for _ in range(graph.ranks)]  # those of each rank, numbered from 0
        self.groups: dict[tuple[int, ...], str] = {}  # names of communicators by their ranks in order
        self._receivers = receivers  # whether that of a transfer waits for what the transfer comes after
        self._after: list[dict[int, list[int]]] = []  # of each task, by rank: nodes to wait for
        self._tags: Counter[tuple[int, int]] = Counter()
        self._tag_of: dict[int, int] = {}  # of each send

    def add(self, task: int) -> None:
        graph, kind = self.graph, int(self.graph.kinds[task])
        self._after.append({})
        table = graph.tables[graph.members[task]]
        if kind == TaskKind.COMPUTE:
            flops, moved = round(float(graph.flops[task])), round(float(graph.bytes[task]))
            attributes: dict[str, Value] = {"is_cpu_op": False, "num_ops": flops, "tensor_size": moved}
            for rank in np.ravel(table).tolist():
                self._node(task, rank, NodeType.COMP, attributes)
        elif kind == TaskKind.COLLECTIVE and graph.patterns[task] is not Pattern.POINT_TO_POINT:
            for group in np.atleast_2d(table).tolist():
                self._collective(task, group, int(graph.roots[task]))
        elif kind in (TaskKind.COLLECTIVE, TaskKind.TRANSFER):
            waits = self._receivers or kind == TaskKind.COLLECTIVE
            for group in table.tolist():
                if len(group) > 2:
                    self._collective(task, group)
                elif len(group) == 2:
                    source, destination = group
                    tag = self._send(task, source, destination)
                    self._receive(task, source, destination, tag, self._before(task, destination) if waits else ())
        elif kind == TaskKind.SEND:
            destination = int(graph.tables[graph.members[graph.partners[task]]][0])
            self._tag_of[task] = self._send(task, int(table[0]), destination)
        elif kind == TaskKind.RECEIVE:
            send, destination = int(graph.partners[task]), int(table[0])
            source = int(graph.tables[graph.members[send]][0])
            self._receive(task, source, destination, self._tag_of[send], self._before(task, destination))
        else:
            raise self._unsupported(task, "is a stream of an I/O controller")

    def _unsupported(self, task: int, what: str) -> UnsupportedError:
        message = f"task {self.graph.names[task]!r} {what}, which Chakra cannot say"
        return UnsupportedError(message, accepted="runs of computations, collectives and messages")

    def _collective(self, task: int, group: Sequence[int], root: int = 0) -> None:
        pattern = self.graph.patterns[task]
        if self.graph.splits[task] >= 0:
            raise self._unsupported(task, "is an all-to-all of different sizes")
        assert pattern is not None  # every collective has one
        size, meant, members = float(self.graph.bytes[task]), COLLECTIVES[pattern], tuple(group)
        attributes: dict[str, Value] = {
            "is_cpu_op": False,
            "comm_type": int(meant if size else Collective.BARRIER),
            "comm_size": round(size / len(group) if meant in trace.SHARDS else size),
        }
        if members != tuple(range(self.graph.ranks)):  # which need no name, and 0 would mean all
            attributes[trace.GROUP] = self.groups.setdefault(members, str(len(self.groups) + 1))
        if not size and pattern is not Pattern.ALL_REDUCE:  # as which a barrier is read
            attributes[trace.MEANT] = int(meant)
        if root:
            attributes[trace.ROOT] = group[root]
        for rank in group:
            self._node(task, rank, NodeType.COMM_COLL, attributes)

    def _send(self, task: int, source: int, destination: int) -> int:
        tag = self._tags[source, destination]
        self._tags[source, destination] += 1
        self._node(task, source, NodeType.COMM_SEND, self._message(task, source, destination, tag))
        return tag

    def _receive(self, task: int, source: int, destination: int, tag: int, before: Sequence[int]) -> None:
        self._node(task, destination, NodeType.COMM_RECV, self._message(task, source, destination, tag), before)

    def _message(self, task: int, source: int, destination: int, tag: int) -> dict[str, Value]:
        size = round(float(self.graph.bytes[task]))
        return {"is_cpu_op": False, "comm_src": source, "comm_dst": destination, "comm_tag": tag, "comm_size": size}

    def _node(
        self, task: int, rank: int, kind: NodeType, attributes: Mapping[str, Value], before: Sequence[int] | None = None
    ) -> None:
        # Of what was not simulated the time may not be known; then the NPU decides by FLOPs and bytes.
        seconds = float(np.nan_to_num(self.graph.seconds[task]))
        micros = round(seconds * 1e6)
        if kind == NodeType.COMP and micros * 1e-6 != seconds:
            attributes = {**attributes, trace.SECONDS: seconds}
        number = len(self.nodes[rank])
        waits = self._before(task, rank) if before is None else before
        self.nodes[rank].append(Node(number, self.graph.names[task], kind, waits, (), micros, attributes))
        self._after[task].setdefault(rank, []).append(number)

    def _before(self, task: int, rank: int) -> list[int]:
        return sorted({node for one in self.graph.after(task).tolist() for node in self._after[one].get(rank, ())})
