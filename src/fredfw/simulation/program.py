"""A task graph on a fabric as arrays: for the engine, or as a file that programs in C and C++ run by ``fredfw.h``."""

import ctypes
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from fredfw import arrays, limits
from fredfw.errors import InputError
from fredfw.fabric import AlwaysStart, Fabric, Routes, answers as fabric_answers
from fredfw.simulation import answers, engine
from fredfw.simulation.assignment import COMPUTE, RECEIVE, SEND, STREAMS, TRANSFER, WAIT, Assignment, Groups, Share
from fredfw.simulation.network import NATIVE, FlowNetwork
from fredfw.simulation.pricing import Pricing
from fredfw.simulation.sharing import WeightedMaxMin
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import Kernels, TaskGraph


class Program(engine.Kept):
    """A task graph as the engine runs it."""

    def __init__(
        self,
        tasks: Assignment,
        *,
        network: FlowNetwork,
        way: int,
        compute_seconds: Callable[[float, float, Kernels | None], float],
        factors: tuple[list[int], FloatArray] | None,  # see Pace; None where all computations are equally fast
    ) -> None:
        self._tasks = tasks
        super().__init__()
        self._network = network
        self.shares: list[Share] = []  # of all tasks, by their numbers in the engine
        graph, count = tasks.graph, len(tasks.graph)
        self._tables = [tasks.table(task) for task in range(count)]
        by_rank = way in (engine.BY_RANK, engine.RENDEZVOUS)
        struct = self.struct = engine.STRUCTURES["graph"](ranks=graph.ranks, way=way, tasks=count)
        self._set_tables()
        self.put(
            struct,
            kind=tasks.kinds,
            members=graph.members,
            label=[network._label(name) for name in tasks.labels],
            priority=[tasks.priority[name] for name in tasks.labels],
            partner=tasks.partners,
            whole=[self._begins_whole(task, by_rank=by_rank) for task in range(count)],
            times=tasks.repeats,
        )
        struct.seconds = self.keep(engine.reals(tasks.seconds(compute_seconds)))
        self._set_edges()
        self._set_shares()
        if factors is not None:
            counts, each = factors
            self.put(struct, factor_offset=arrays.offsets(counts))
            struct.factor_count, struct.factors = len(each), self.keep(engine.reals(each))

    def _begins_whole(self, task: int, *, by_rank: bool) -> bool:
        kind, table = self._tasks.kinds[task], self._tables[task]
        if kind == COMPUTE:
            return len(table.participants) == 1
        if kind in (SEND, RECEIVE, WAIT):
            return True
        return len(table) == 1 and kind != TRANSFER and (kind in STREAMS or not by_rank)

    def _set_tables(self) -> None:
        graph = self._tasks.graph
        tables: list[Groups | None] = [None] * len(graph.tables)
        for task, index in enumerate(graph.members.tolist()):
            tables[index] = self._tables[task]
        self.struct.tables = len(tables)
        nobody = np.zeros(0, dtype=np.intp)
        parts = [nobody if table is None else table.participants for table in tables]
        slots = _joined([nobody if table is None else table.slots.ravel() for table in tables])
        self.struct.participants, self.struct.slots = sum(map(len, parts)), len(slots)
        self.put(
            self.struct,
            participant_offset=arrays.offsets([*map(len, parts)]),
            participant=_joined(parts),
            groups=[0 if table is None else len(table) for table in tables],
            group_size=[1 if table is None else table.members.shape[1] for table in tables],
            slot=slots,
        )

    def _set_edges(self) -> None:
        tasks, graph = self._tasks, self._tasks.graph
        after = np.repeat(np.arange(len(graph)), np.diff(graph.dependency_offsets))
        before = graph.dependencies
        # What a rank has no part in, it does not wait for: that depends on the member tables alone.
        tables = max(len(graph.tables), 1)
        pairs, first, which = np.unique(
            graph.members[before] * tables + graph.members[after], return_index=True, return_inverse=True
        )
        maps: list[IntArray] = []
        numbers, counts = np.full(len(pairs), -1), np.zeros(len(pairs), dtype=np.intp)
        for pair, edge in enumerate(first.tolist()):
            one, other = int(before[edge]), int(after[edge])
            shared = tasks.shared_slots(one, other)
            if shared is None:
                counts[pair] = len(self._tables[other].participants)
            else:
                numbers[pair], counts[pair] = len(maps), np.count_nonzero(shared >= 0)
                maps.append(shared)
        count = counts[which]
        kept = np.flatnonzero(count)
        order = kept[np.argsort(before[kept], kind="stable")]
        self.struct.maps, self.struct.map_slots, self.struct.edges = len(maps), sum(map(len, maps)), len(order)
        self.put(
            self.struct,
            edge_offset=arrays.offsets(np.bincount(before[kept], minlength=len(graph))),
            edge_task=after[order],
            edge_map=numbers[which[order]],
            edge_count=count[order],
            map_offset=arrays.offsets([*map(len, maps)]),
            map=_joined(maps),
        )

    def _set_shares(self) -> None:
        tasks, without = self._tasks, (COMPUTE, RECEIVE, WAIT, *STREAMS)
        of_tasks = [[] if kind in without else tasks.planned(task) for task, kind in enumerate(tasks.kinds)]
        numbers = {share: number for number, share in enumerate(dict.fromkeys(chain(*of_tasks)))}
        self.shares = list(numbers)  # tasks that are alike have the same
        served = [share.groups.which for share in self.shares]
        lowered = [tasks.lowering.lowered(share.plan.schedule, share.groups.nodes) for share in self.shares]
        self._kept.append(lowered)
        addresses = (ctypes.c_void_p * max(len(lowered), 1))(*(one.address for one in lowered))
        self._kept.append(addresses)
        self.struct.shares, self.struct.share_lowered = len(lowered), ctypes.addressof(addresses)
        self.struct.share_groups, self.struct.task_shares = sum(map(len, served)), sum(map(len, of_tasks))
        self.put(
            self.struct,
            share_group_offset=arrays.offsets([*map(len, served)]),
            share_group=_joined(served),
            share_offset=arrays.offsets([*map(len, of_tasks)]),
            share=[numbers[share] for share in chain(*of_tasks)],
        )

    def written(self, routes: Routes | None) -> bytes:
        """Return its file, with ``routes`` of messages if any, see ``fredfw_program`` in ``fredfw.h``."""
        network = self._network
        setting, _arrays = network._setting()
        labels = list(network._labels)
        view = engine.STRUCTURES["program"](setting, self.struct, npus=len(network.fabric.npus), labels=len(labels))
        texts = [_texts(labels), _texts(self._tasks.graph.names)]  # which the view has the addresses of
        view.label, view.task = map(ctypes.addressof, texts)
        if type(network.sharing) is WeightedMaxMin:
            weights = engine.reals([answers.weight(network.sharing, label) for label in labels])
            view.weight = weights.ctypes.data
        if routes is not None:
            messages = engine.View(routes)
            view.routes = messages.struct
        code = engine.library()
        content = np.empty(code.program_write(ctypes.byref(view), 0, None), dtype=np.uint8)
        code.program_write(ctypes.byref(view), len(content), content.ctypes.data)
        return content.tobytes()


def check_network(network: FlowNetwork) -> None:
    if type(network.admission) is not AlwaysStart:
        name = network.fabric.defaults.admission.name
        message = f"{name!r} is asked while a program runs, and a file has nobody to ask"
        raise InputError(message, key="admission", accepted="open")
    if type(network.sharing) not in NATIVE:
        message = f"{network.sharing.name!r} gives rates while a program runs, and a file has nobody to ask"
        raise InputError(message, key="sharing", accepted=", ".join(cls.name for cls in NATIVE))


def check_graph(graph: TaskGraph) -> None:
    for task in np.flatnonzero(np.isin(graph.kinds, STREAMS))[:1].tolist():
        message = f"the task {graph.names[task]!r} loads or stores, which a program in a file cannot"
        raise InputError(message, accepted="a workload without loads and stores")


def routes_of_messages(fabric: Fabric) -> Routes:
    """Return the routes of messages from each NPU to each: those of NPU 0 come first."""
    if not Pricing(fabric).ideal:
        name = fabric.defaults.transport.name
        message = f"{name!r} is asked what each message costs, and a file has nobody to ask"
        raise InputError(message, key="transport", accepted="ideal, or no routes of messages")
    npus = fabric.npus
    limits.check("flows", len(npus) ** 2)
    sources, destinations = np.repeat(npus, len(npus)), np.tile(npus, len(npus))
    try:
        return fabric_answers.route(fabric.defaults.router, fabric, sources, destinations)
    except InputError as error:
        raise error.at(key="router") from None


def _joined(parts: Sequence[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _texts(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    # A trace may name a task by text that is none, such as half a surrogate pair.
    return (ctypes.c_char_p * len(texts))(*(text.encode(errors="backslashreplace") for text in texts))
