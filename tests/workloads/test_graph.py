import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.workloads import GradientBuckets, GraphBuilder, TaskGraph, TaskKind


def test_builder_keeps_what_it_was_given_and_a_repeated_block_is_written_out_in_turn() -> None:
    builder = GraphBuilder(4)
    a = builder.compute("a", range(4), flops=3.0, bytes=5.0)
    b = builder.collective("b", Pattern.ALL_REDUCE, [[0, 1], [2, 3]], 7.0, label="mp", after=[a])
    c = builder.transfer("c", [[0, 2]], 11.0, label="pp", after=[b, b, a])
    d = builder.transfer("d", [[0, 2, 3]], 11.0, label="pp", after=[c])
    e = builder.load("e", [1], [[0, 1, 2, 3]], 13.0, label="stream")
    graph = builder.build()
    assert [TaskKind(kind).name for kind in graph.kinds] == ["COMPUTE", "COLLECTIVE", "TRANSFER", "TRANSFER", "LOAD"]
    assert [graph.label(task) for task in range(5)] == ["compute", "mp", "pp", "pp", "stream"]
    assert graph.patterns == (None, Pattern.ALL_REDUCE, Pattern.POINT_TO_POINT, Pattern.BROADCAST, None)
    assert graph.after(c).tolist() == [b, a]
    assert graph.participants(d).tolist() == [0, 2, 3]
    assert graph.controller_tables[graph.controllers[e]].tolist() == [1]
    assert np.isnan(graph.seconds).tolist() == [True] * 5
    builder.collective("f", Pattern.REDUCE, [[0, 1, 2]], 1.0, label="mp", root=2)
    assert builder.build().roots[-1] == 2
    assert (graph.flops[a], graph.bytes[a], graph.bytes[e]) == (3.0, 5.0, 13.0)
    builder = GraphBuilder(2)
    for size in (1.0, 2.0, 1.0):
        builder.collective("r", Pattern.ALL_REDUCE, [[0, 1]], 1.0, label="dp")
        builder.all_to_all_v("e", [[0, 1]], [[[0, size], [size, 0]]], label="ep")
    graph = builder.build()
    assert graph.splits.tolist() == [-1, 0, -1, 1, -1, 0]
    assert (len(graph.tables), len(graph.split_tables)) == (1, 2)
    builder = GraphBuilder(2)
    first = builder.compute("first", [0, 1])
    with builder.repeated(3):
        work = builder.compute("work", [0, 1], after=[first])
        reduce = builder.collective("reduce", Pattern.ALL_REDUCE, [[0, 1]], 1.0, label="mp", after=[work, first])
    builder.compute("last", [0, 1], after=[reduce])
    assert builder.build().repeats.tolist() == [1, 3, 3, 1]
    written = builder.build().expanded()
    assert written.names == ("first", *("work", "reduce") * 3, "last")
    assert [written.after(task).tolist() for task in range(8)] == [[], [0], [1, 0], [2], [3], [4], [5], [6]]
    assert (written.repeats.max(), written.patterns[2]) == (1, Pattern.ALL_REDUCE)
    # Parallel chains of a block wait for all of the last repetition.
    builder = GraphBuilder(1)
    with builder.repeated(2):
        builder.compute("a", [0])
        builder.compute("b", [0])
    builder.compute("c", [0], after=[0])
    written = builder.build().expanded()
    assert [written.after(task).tolist() for task in range(5)] == [[], [], [0, 1], [0, 1], [2]]


def test_blocks_that_nest_or_repeat_never_and_wrong_messages_are_refused() -> None:
    builder = GraphBuilder(1)
    with pytest.raises(InputError, match="repeated 0 times"), builder.repeated(0):
        pass
    with pytest.raises(InputError, match=r"^times: a block repeated 2\.5 times"), builder.repeated(2.5):  # type: ignore[arg-type]  # that is the fault
        pass
    with pytest.raises(InputError, match="inside another"), builder.repeated(2), builder.repeated(2):
        pass
    builder.compute("after", [0])  # an error ends a block
    assert builder.build().repeats.tolist() == [1]
    builder = GraphBuilder(2)
    send = builder.send("s", 0, 1, 1.0, label="pp")
    with builder.repeated(2), pytest.raises(InputError, match="repeated without it"):
        builder.receive("r", send)
    builder.receive("r", send)
    with pytest.raises(InputError, match="a send that nobody receives"):
        builder.receive("again", send)


@pytest.mark.parametrize("ranks", [0, 2.5])
def test_a_builder_has_a_number_of_ranks(ranks: Any) -> None:
    with pytest.raises(InputError, match=f"^ranks: {ranks!r} is refused .accepted: a whole number of at least 1"):
        GraphBuilder(ranks)


def test_message_is_a_send_and_a_receive_also_where_blocks_are_written_out() -> None:
    builder = GraphBuilder(3)
    work = builder.compute("work", [0, 1, 2])
    send = builder.send("send", 2, 0, 8.0, label="pp", after=[work])
    with pytest.raises(InputError, match="task 'send' waits for a receive of rank 0"):
        builder.build()
    receive = builder.receive("receive", send, after=[work])
    graph = builder.build()
    assert graph.partners.tolist() == [-1, receive, send]
    assert [graph.participants(task).tolist() for task in (send, receive)] == [[2], [0]]
    assert (graph.label(receive), graph.bytes[receive]) == ("pp", 8.0)
    builder = GraphBuilder(2)
    first = builder.send("first", 0, 1, 1.0, label="pp")
    with builder.repeated(2):
        send = builder.send("send", 0, 1, 1.0, label="pp")
        builder.receive("receive", send)
    builder.receive("last", first)
    written = builder.build().expanded()
    assert list(written.names) == ["first", "send", "receive", "send", "receive", "last"]
    assert written.partners.tolist() == [5, 2, 1, 4, 3, 0]


def compute(ranks: Any = (0,), **more: Any) -> Callable[[GraphBuilder], int]:
    return lambda one: one.compute("c", ranks, **more)


def collective(
    groups: Any = ((0, 1),), pattern: Any = Pattern.ALL_REDUCE, **more: Any
) -> Callable[[GraphBuilder], int]:
    return lambda one: one.collective("g", pattern, groups, 8, label="x", **more)


def exchange(sizes: Any, groups: Any = ((0, 1),)) -> Callable[[GraphBuilder], int]:
    return lambda one: one.all_to_all_v("v", groups, sizes, label="x")


def send(source: Any, destination: Any, size: Any = 8) -> Callable[[GraphBuilder], int]:
    return lambda one: one.send("s", source, destination, size, label="x")


def load(controllers: Any) -> Callable[[GraphBuilder], int]:
    return lambda one: one.load("l", controllers, [[0, 1]], 8, label="x")


SIZES = "sizes: task 'v' has sizes that do not fit its groups or are not possible (accepted: 1 x 2 x 2 numbers of bytes"


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (send(0, 1, "1 MB"), "size: task 's' has size '1 MB' (accepted: a number of"),
        (compute(seconds="1 ms"), "seconds: task 'c' has seconds '1 ms' (accepted: a number"),
        (compute(bytes="1 MB"), "bytes: task 'c' has bytes '1 MB' (accepted: a number of by"),
        (compute(flops=[1, 2]), "flops: task 'c' has flops [1, 2] (accepted: a number of FL"),
        (compute(after=0), "after: task 'c' comes after 0 (accepted: an iterable of task nu"),
        (compute(seconds=np.nan), "seconds: task 'c' has seconds nan (accepted: a number of"),
        (compute(label=5), "label: task 'c' has the label 5"),
        (compute([0.5, 1]), "ranks: task 'c' has ranks [0.5, 1] (accepted: whole numbers, 0 to 1)"),
        (compute([-1, 0]), "ranks: task 'c' names rank -1 (accepted: 0 to 1)"),
        (lambda one: one.wait("w", [0], seconds="1 ms"), "seconds: task 'w' has seconds '1 ms'"),
        (collective([[0, 1], [0]]), "groups: task 'g' has groups [[0, 1], [0]]"),
        (collective([[[0, 1]]]), "groups: task 'g' has groups [[[0, 1]]]"),
        (collective([]), "groups: task 'g' has no groups"),
        (collective([[0, 2]]), "groups: task 'g' names rank 2 (accepted: 0 to 1)"),
        (collective(root=0.0), "root: task 'g' has root 0.0"),
        (collective(pattern="all-reduc"), "pattern: no collective 'all-reduc'; did you mean 'all-reduce'?"),
        (lambda one: one.transfer("t", [[0, 0.5]], 8, label="x"), "groups: task 't' has groups [[0, 0.5]]"),
        (send(0.5, 1), "source: task 's' names rank 0.5 (accepted: 0 to 1)"),
        (send(0, 2), "destination: task 's' names rank 2 (accepted: 0 to 1)"),
        (send(0, 0), "destination: task 's' is a message of rank 0 to itself"),
        (collective(pattern=Pattern.REDUCE, root=3), "root: task 'g' has root 3 (accepted: 0 to 1)"),
        (collective(root=1), "root: task 'g' has root 1 (accepted: 0)"),
        (lambda one: one.receive("r", [0]), "send: task 'r' receives task [0]"),
        (load([0.5]), "controllers: task 'l' has controllers [0.5]"),
        (compute(after=[7]), "after: task 'c' depends on tasks (7,), not all of which"),
        *((exchange(sizes), SIZES) for sizes in (np.zeros((2, 2)), [[[0, -1.0], [1, 0]]], [[[0, np.inf], [1, 0]]])),
        (compute([]), "ranks: task 'c' has no ranks"),
        (compute(seconds=-1.0), "seconds: task 'c' has seconds -1.0"),
        (compute(flops=np.inf), "flops: task 'c' has flops inf"),
        (collective([[0, 0]], Pattern.REDUCE), "groups: task 'g' names a rank twice in one group"),
        (load([0, 1]), "controllers: task 'l' has 2 controllers for 1 "),
    ],
)
def test_arguments_of_another_type_are_refused_by_name(add: Callable[[GraphBuilder], int], message: str) -> None:
    builder = GraphBuilder(2)
    builder.compute("a", [0])
    with pytest.raises(InputError) as raised:
        add(builder)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("label", ["compute", "bubble", ""])
def test_communication_is_not_charged_to_computation(label: str) -> None:
    builder = GraphBuilder(2)
    builder.compute("a", [0])
    adds: list[tuple[Callable[..., int], Any]] = [
        (builder.collective, (Pattern.ALL_REDUCE, [[0, 1]], 1.0)),
        (builder.all_to_all_v, ([[0, 1]], [np.ones((2, 2))])),
        (builder.transfer, ([[0, 1]], 1.0)),
        (builder.send, (0, 1, 1.0)),
        (builder.load, ([0], [[0, 1]], 1.0)),
        (builder.store, ([0], [[0, 1]], 1.0)),
    ]
    for add, values in adds:
        with pytest.raises(InputError, match=f"^label: task 'c' has the label {label!r} .accepted: a word"):
            add("c", *values, label=label)
    assert len(builder.build()) == 1


def reduced(sizes: list[float], capacity: float, workers: int = 3) -> TaskGraph:
    builder = GraphBuilder(workers)
    buckets = GradientBuckets(builder, np.arange(workers), capacity)
    before: tuple[int, ...] = ()
    for layer, size in enumerate(sizes):
        before = (builder.compute(f"backward {layer}", np.arange(workers), flops=1.0, after=before),)
        buckets.add(str(layer), size, *before)
    buckets.flush()
    return builder.build()


def all_reduces(graph: TaskGraph) -> list[tuple[str, float, list[str]]]:
    return [
        (graph.names[task], float(graph.bytes[task]), [graph.names[before] for before in graph.after(task)])
        for task in range(len(graph))
        if graph.kinds[task] == TaskKind.COLLECTIVE
    ]


def test_a_bucket_leaves_when_it_is_full() -> None:
    assert all_reduces(reduced([4.0, 3.0, 9.0, 1.0], 7.0)) == [
        ("gradients down to 1", 7.0, ["backward 1"]),
        ("gradients down to 2", 9.0, ["backward 2", "gradients down to 1"]),
        ("gradients down to 3", 1.0, ["backward 3", "gradients down to 2"]),
    ]


@given(sizes=st.lists(st.integers(0, 9).map(float)), capacity=st.sampled_from([0.0, 5.0, math.inf]))
def test_all_gradients_are_reduced_once(sizes: list[float], capacity: float) -> None:
    buckets = [size for _, size, _ in all_reduces(reduced(sizes, capacity))]
    assert sum(buckets) == sum(sizes)
    assert all(size >= capacity for size in buckets[:-1])
