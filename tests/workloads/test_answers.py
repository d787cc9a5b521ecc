import re
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from fredfw.errors import InputError, PluginError
from fredfw.fabric import Fabric, NodeKind
from fredfw.workloads import DeviceMesh, GraphBuilder, Label, MemoryUse, Placement, System, TaskKind, Workload, answers

PAIR = Fabric("pair", np.full(2, NodeKind.NPU), [0, 1], [1, 0], 1.0, 0.0, 0.0)


def graph(ranks: int = 2, **changes: Any) -> Any:
    builder = GraphBuilder(ranks)
    builder.compute("work", range(ranks), flops=1.0)
    return evolve(builder.build(), **changes)


def messages(*partners: int, **given: Any) -> Any:
    builder = GraphBuilder(2)
    builder.receive("receive", builder.send("send", 0, 1, 1.0, label="pp"))
    return evolve(builder.build(), partners=np.array(partners), **given)


class Says(Workload):
    name = "says"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def mesh(self, system: System) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    memory = mesh
    graph = mesh
    labels = mesh


FAILS: list[Any] = [(SystemExit(0), "fails: SystemExit: 0"), (ZeroDivisionError("x"), "fails: ZeroDivisionError: x")]
WRONG: dict[str, list[tuple[Any, str]]] = {
    "mesh": [(None, "returned None; expected a fredfw.DeviceMesh"), *FAILS],
    "memory": [
        (None, "returned None; expected a fredfw.MemoryUse"),
        (MemoryUse(weights=np.nan), "returned weights of nan; expected bytes"),
        (MemoryUse(activations=-1.0), "returned activations of -1.0"),
        (MemoryUse(in_flight=0), "returned in_flight of 0; expected microbatches"),
        (MemoryUse(gradients="1 GB"), "returned gradients of '1 GB'"),  # type: ignore[arg-type]  # that is the fault
        *FAILS,
    ],
    "labels": [
        (None, "returned None; expected fredfw.Label by label"),
        ({"mp": "#D55E00"}, "expected fredfw.Label by label"),
        ({"mp": Label(1), "dp": Label(1)}, "returned labels with the priorities [1, 1]; expected a different one"),
        *FAILS,
    ],
    "graph": [
        (None, "returned None; expected a fredfw.TaskGraph"),
        (graph(3), "returned a graph of 3 ranks; expected 2"),
        (graph(flops=np.array([np.nan])), "returned a graph with flops nan to nan; expected finite, not negative"),
        (graph(flops=np.zeros(2)), "returned a graph with 2 flops; expected 1"),
        (graph(labels=np.array([4])), "returned a graph with labels 4 to 4; expected 0 to 0"),
        (graph(tables=(np.array([5]),)), "returned a graph with ranks 5 to 5; expected 0 to 1"),
        (graph(splits=np.zeros(2)), "returned a graph with 2 splits; expected 1"),
        (messages(-1, 0), "returned a graph in which task 0 is a message with partner -1; expected sends"),
        (messages(1, -1), "task 0 is a message with partner 1"),
        (messages(1, 0, kinds=np.array([TaskKind.SEND] * 2)), "task 0 is a message with partner 1"),
        (messages(1, 0, kinds=np.array([TaskKind.RECEIVE, TaskKind.SEND])), "task 1 is a message with partner 0"),
        (messages(1, 0, tables=(np.array([0, 1]),) * 2), "task 0 is a message with partner 1"),
        *FAILS,
    ],
}


@pytest.mark.parametrize(("method", "answer", "message"), [(name, *case) for name in WRONG for case in WRONG[name]])
def test_wrong_answers_of_a_workload_are_refused(method: str, answer: Any, message: str) -> None:
    ask: Any = getattr(answers, method)
    more = (2,) if method == "graph" else ()
    with pytest.raises(PluginError, match=rf"Says\.{method}\(\) of 'says' .*{re.escape(message)}"):
        ask(Says(answer), System(2), *more)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0, 1], "returned [0, 1]; expected"),
        (np.array([0.0, 1.0]), "expected an array of NPU numbers"),
        (np.array([0]), "returned 1 NPU; expected 2 or more"),
        (np.array([0, 2]), "returned NPU 2; expected NPUs 0 to 1"),
        (np.array([0, -1]), "returned NPU -1"),
        (np.array([1, 1]), "returned NPU 1 twice"),
        *FAILS,
    ],
)
def test_wrong_places_are_refused(answer: Any, message: str) -> None:
    class Anywhere(Placement):
        name = "anywhere"

        def order(self, fabric: Fabric, mesh: DeviceMesh) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer

    with pytest.raises(PluginError, match=rf"Anywhere\.order\(\) of 'anywhere' .*{re.escape(message)}"):
        answers.places(Anywhere(), PAIR, DeviceMesh({"dp": 2}))


def test_wrong_labels_are_refused() -> None:
    with pytest.raises(InputError, match="priority: -1 is not a valid number"):
        Label(priority=-1)
    with pytest.raises(InputError, match=r"colour: 'red' is not a colour .*#D55E00"):
        Label(colour="red")
