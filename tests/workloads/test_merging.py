import re
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.workloads import TaskGraph, TaskKind

COMPUTE, COLLECTIVE, SEND, RECEIVE = TaskKind.COMPUTE, TaskKind.COLLECTIVE, TaskKind.SEND, TaskKind.RECEIVE
PATTERNS = tuple(Pattern)


@frozen
class Node:
    rank: int
    kind: TaskKind = COMPUTE
    after: tuple[int, ...] = ()
    bytes: float = 8.0
    pattern: Pattern = Pattern.ALL_REDUCE
    communicator: int = 0
    root: int = -1
    peer: int = -1
    tag: int = 0
    splits: tuple[float, ...] = ()


def graph(ranks: int, *nodes: Node, communicators: Any = (), names: Any = None, **given: Any) -> TaskGraph:
    columns: dict[str, Any] = {
        name: [getattr(one, name) for one in nodes] for name in ("rank", "kind", "bytes", "root", "peer", "tag")
    }
    columns |= {
        "dependency_offsets": np.cumsum([0, *(len(one.after) for one in nodes)]),
        "dependencies": np.array([before for one in nodes for before in one.after], dtype=int),
        "pattern": [PATTERNS.index(one.pattern) if one.kind == COLLECTIVE else -1 for one in nodes],
        "communicator": [one.communicator if one.kind == COLLECTIVE else -1 for one in nodes],
        "split_offsets": np.cumsum([0, *(len(one.splits) for one in nodes)]),
        "splits": np.array([size for one in nodes for size in one.splits], dtype=float),
    }
    return TaskGraph.from_columns(ranks, **columns | given, communicators=communicators, names=names)


def call(rank: int, *after: int, **given: Any) -> Node:
    return Node(rank, COLLECTIVE, after, **given)


def test_collective_of_all_members_is_one_task() -> None:
    nodes = Node(0), call(0, 0), Node(1), Node(1, after=(2,)), call(1, 3), Node(2), Node(0, after=(1, 0))
    built = graph(3, *nodes, communicators=[[1, 0]], names=list("abcdefg"))
    assert list(built.names) == ["a", "c", "d", "b", "f", "g"]
    assert [TaskKind(kind) for kind in built.kinds] == [COMPUTE, COMPUTE, COMPUTE, COLLECTIVE, COMPUTE, COMPUTE]
    assert [built.after(task).tolist() for task in range(6)] == [[], [], [1], [0, 2], [], [0, 3]]
    assert built.tables[built.members[3]].tolist() == [[1, 0]]
    assert [built.participants(task).tolist() for task in range(6)] == [[0], [1], [1], [0, 1], [2], [0]]
    assert built.patterns[2:4] == (None, Pattern.ALL_REDUCE)
    assert [built.label(task) for task in (2, 3)] == ["compute", "communication"]
    assert built.names[:2] == ["a", "c"]


def test_collectives_match_in_order_of_node_numbers_and_a_root_is_a_place_in_the_communicator() -> None:
    nodes = (call(rank, pattern=Pattern.BROADCAST, root=root) for root in (0, 2, -1) for rank in range(3))
    assert graph(3, *nodes, communicators=[[2, 0, 1]]).roots.tolist() == [1, 0, 0]
    calls = (0, 0, 1.0), (1, 0, 1.0), (1, 0, 2.0), (0, 1, 3.0), (0, 0, 2.0), (1, 1, 3.0)
    nodes = (call(rank, communicator=communicator, bytes=size) for rank, communicator, size in calls)
    built = graph(2, *nodes, communicators=[[0, 1], np.array([0, 1])])
    assert built.bytes.tolist() == [1.0, 2.0, 3.0]
    assert len(built.tables) == 3  # equal communicators are kept once, beside one table for each rank
    assert list(built.names) == ["collective 0", "collective 2", "collective 3"]


def test_sends_and_receives_match_by_source_destination_and_tag_in_order() -> None:
    built = graph(
        2,
        Node(1, RECEIVE, peer=0, bytes=0.0),
        Node(0, SEND, peer=1, tag=7, bytes=1.0),
        Node(0, SEND, peer=1, bytes=2.0),
        Node(0, SEND, peer=1, bytes=3.0),
        Node(1, RECEIVE, peer=0, tag=7),
        Node(1, RECEIVE, peer=0),
        names=list("abcdef"),
    )
    (receives,) = np.nonzero(built.kinds == RECEIVE)
    sends = built.partners[receives]
    assert [built.names[int(task)] for task in receives] == ["a", "e", "f"]
    assert [built.names[int(task)] for task in sends] == ["c", "b", "d"]
    assert built.bytes[receives].tolist() == [2.0, 1.0, 3.0]
    assert (built.partners[sends] == receives).all()
    assert (sends < receives).all()


def test_sizes_of_pairs_are_put_together() -> None:
    rows, members = [(0.0, 1.0, 2.0), (3.0, 0.0, 5.0), (6.0, 7.0, 0.0)], [2, 0, 1]
    calls = (call(members[place], pattern=Pattern.ALL_TO_ALL, splits=rows[place]) for place in (1, 0, 2))
    built = graph(3, *calls, Node(0), communicators=[members])
    assert built.splits.tolist() == [0, -1]
    assert built.split_tables[0].tolist() == [[list(row) for row in rows]]
    assert built.bytes[0] == 13.0


def test_order_is_by_node_number_where_there_is_a_choice_and_an_exchange_is_no_cycle() -> None:
    assert len(graph(2)) == 0
    nodes = [Node(0, after=(3,)), Node(0), Node(1), Node(0), Node(1, after=(2,))]
    assert list(graph(2, *nodes).names) == ["compute 1", "compute 2", "compute 3", "compute 0", "compute 4"]
    nodes = [Node(rank, kind, after, peer=1 - rank) for rank in (0, 1) for kind, after in ((SEND, ()), (RECEIVE, ()))]
    nodes[1], nodes[3] = Node(0, RECEIVE, (0,), peer=1), Node(1, RECEIVE, (2,), peer=0)
    assert graph(2, *nodes).kinds.tolist() == [SEND, SEND, RECEIVE, RECEIVE]


def test_names_are_made_when_they_are_asked_for() -> None:
    class Recorded(list[str]):
        asked = 0

        def __getitem__(self, place: Any) -> Any:
            self.asked += 1
            return super().__getitem__(place)

    names = Recorded("ab")
    built = graph(1, Node(0), Node(0), names=names)
    assert names.asked == 0
    assert built.names[1] == "b"


def wrong(message: str, *nodes: Node, **given: Any) -> Any:
    return pytest.param(nodes, given, message, id=message[:40])


ALONE, PAIR = {"communicators": [[0]]}, {"communicators": [[0, 1]]}
CYCLE = "dependencies: nodes wait for each other in a cycle of"


@pytest.mark.parametrize(
    ("nodes", "given", "message"),
    [
        wrong("rank: node 0 has rank 2 (accepted: 0 to 1)", Node(2)),
        wrong("kind: node 0 of rank 0 has kind 2 (accepted: 0 (compute), 1 (collective), ", Node(0, TaskKind.TRANSFER)),
        wrong("memory: node 0 has memory 0 (accepted: nothing, since there are none)", Node(0, TaskKind.LOAD)),
        wrong("label: node 0 has label 0 (accepted: nothing, since there are none)", Node(0), label=[0]),
        wrong("seconds: node 0 of rank 0 has seconds -1.0 (accepted: finite and not", Node(0), seconds=[-1.0]),
        wrong("bytes: node 0 of rank 0 has bytes inf", Node(0, bytes=np.inf)),
        wrong("flops: 2 values for 1 node (accepted: 1)", Node(0), flops=[1.0, 2.0]),
        wrong("rank: [0.5] is refused (accepted: an array of whole numbers)", Node(0), rank=[0.5]),
        wrong("flops: ['x'] is refused (accepted: an array of numbers)", Node(0), flops=["x"]),
        wrong("label_names: [1] is refused (accepted: a list of texts)", Node(0), label_names=[1]),
        wrong("label_names: label 1 is empty (accepted: a word", Node(0), label=[1], label_names=["compute", ""]),
        wrong("memory_names: 'far' is refused", Node(0), memory_names="far"),
        wrong("communicators: 5 is refused (accepted: lists of ranks)", Node(0), communicators=5),
        wrong("names: 5 is refused (accepted: a list of texts)", Node(0), names=5),
        wrong("dependency_offsets: 2 offsets of 0 values for 1 node", Node(0), dependency_offsets=[0, 1]),
        wrong("dependencies: node 0 of rank 0 depends on node 4, which does not exist (accepted", Node(0, after=(4,))),
        wrong("dependencies: node 1 of rank 1 depends on node 0 of rank 0 (accepted: ", Node(0), Node(1, after=(0,))),
        wrong("communicator: node 0 has communicator 0 (accepted: nothing, since there are none)", call(0)),
        wrong("communicators: communicator 0 has rank 5 (accepted: ranks 0 to 1)", call(0), communicators=[[0, 5]]),
        wrong("communicators: communicator 0 has rank 0 twice", call(0), communicators=[[0, 0]]),
        wrong("communicators: ", call(0), communicators=[[]]),
        wrong("communicator: node 0 of rank 1 is a collective of communicator 0, which does not", call(1), **ALONE),
        wrong("root: node 0 of rank 0 is a collective", call(0, pattern=Pattern.REDUCE, root=1), **ALONE),
        wrong(
            "communicator: all-reduce (node 2 'c' of rank 0), number 1 of communicator 0, waits for rank 1, which "
            "calls only 1 there (accepted: all members of a communicator call each of its collectives)",
            *(call(0), call(1), call(0)),
            names=list("abc"),
            **PAIR,
        ),
        wrong(
            "pattern: all-gather (node 1 of rank 1) has pattern all-gather, and all-reduce (node 0 of rank 0) has "
            "all-reduce: they are the same collective of communicator 0 (accepted: the same for all members)",
            *(call(0), call(1, pattern=Pattern.ALL_GATHER)),
            **PAIR,
        ),
        wrong(
            "bytes: all-reduce (node 1 of rank 1) has bytes 9, and all-reduce (node 0 of rank 0) has 8: they",
            *(call(0), call(1, bytes=9.0)),
            **PAIR,
        ),
        wrong(
            "root: reduce (node 1 of rank 1) has root 0, and reduce (node 0 of rank 0) has 1: they",
            *(call(rank, pattern=Pattern.REDUCE, root=1 - rank) for rank in (0, 1)),
            **PAIR,
        ),
        wrong(
            "split_offsets: all-to-all (node 1 of rank 1) has 0 sizes (accepted: 2, one for each member",
            *(call(rank, pattern=Pattern.ALL_TO_ALL, splits=one) for rank, one in enumerate([(1.0, 2.0), ()])),
            **PAIR,
        ),
        wrong("split_offsets: node 0 of rank 0 has 1 size (accepted: 0, one", Node(0, splits=(1.0,))),
        wrong("peer: node 0 has peer 2 (accepted: 0 to 1)", Node(0, SEND, peer=2)),
        wrong("peer: node 0 of rank 0 is a message to itself (accepted: another rank)", Node(0, SEND, peer=0)),
        wrong(
            "peer: sends and receives do not match:\n"
            "  node 1 of rank 0 waits for a receive of rank 1, which has 1 of the 2 that it needs "
            "(from 0 to 1, tag 0)\n"
            "  node 3 of rank 1 waits for a send of rank 0, which has 0 of the 1 that it needs "
            "(from 0 to 1, tag 3)",
            *(Node(0, SEND, peer=1), Node(0, SEND, peer=1), Node(1, RECEIVE, peer=0), Node(1, RECEIVE, peer=0, tag=3)),
        ),
        wrong(
            "bytes: node 1 of rank 1 receives 8 bytes, and node 0 of rank 0 sends it 9 (accepted: ",
            *(Node(0, SEND, peer=1, bytes=9.0), Node(1, RECEIVE, peer=0)),
        ),
        wrong(f"{CYCLE} 1:\n  node 0 of rank 0 waits for node 0", Node(0, after=(0,))),
        wrong(
            f"{CYCLE} 2:\n  all-reduce (node 3 of rank 1) waits for all-reduce (node 2 of rank 1)\n  all-r",
            *(call(0), call(0, 0, communicator=1), call(1, communicator=1), call(1, 2)),
            communicators=[[0, 1], [1, 0]],
        ),
        wrong(
            f"{CYCLE} 4:\n"
            "  node 0 'r0' of rank 0 waits for the message of node 3 's1' of rank 1\n"
            "  node 3 's1' of rank 1 waits for node 2 'r1' of rank 1\n"
            "  node 2 'r1' of rank 1 waits for the message of node 1 's0' of rank 0\n"
            "  node 1 's0' of rank 0 waits for node 0 'r0' of rank 0 (accepted",
            *(Node(0, RECEIVE, peer=1), Node(0, SEND, (0,), peer=1)),
            *(Node(1, RECEIVE, peer=0), Node(1, SEND, (2,), peer=0)),
            names=["r0", "s0", "r1", "s1"],
        ),
        wrong(
            "label: node 1 of rank 1 communicates and has the label 'bubble' (accepted: a word for what",
            *(Node(0, SEND, peer=1), Node(1, RECEIVE, peer=0)),
            label=[0, 1],
            label_names=["pp", "bubble"],
        ),
    ],
)
def test_wrong_nodes_are_refused(nodes: tuple[Node, ...], given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match="^" + re.escape(message)):
        graph(2, *nodes, **given)


def test_long_cycles_and_lists_are_cut_short() -> None:
    chain = [Node(0, after=((number - 1) % 40,)) for number in range(40)]
    with pytest.raises(InputError, match=r"(?s)cycle of 40:\n  node 0 .*\n  \.\.\. 30 more \.\.\.\n  node") as cycle:
        graph(1, *chain)
    assert str(cycle.value).count("\n") == 11
    with pytest.raises(InputError, match="and 20 more"):
        graph(2, *(Node(0, SEND, peer=1, tag=tag) for tag in range(30)))


def test_loads_and_stores_name_their_memory_tier() -> None:
    nodes = Node(1, TaskKind.STORE, (1,)), Node(1, TaskKind.LOAD), Node(0)
    built = graph(2, *nodes, memory=[1, 0, -1], memory_names=["cxl", "pool"])
    assert built.kinds.tolist() == [TaskKind.LOAD, TaskKind.STORE, TaskKind.COMPUTE]
    assert [built.memory_names[one] if one >= 0 else "" for one in built.memories] == ["cxl", "pool", ""]
    assert [built.participants(task).tolist() for task in range(3)] == [[1], [1], [0]]
    assert built.controllers.tolist() == [-1, -1, -1]
