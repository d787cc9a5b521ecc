import pickle
import re
from typing import Any

import numpy as np
import pytest
from kit import changed
from small import Admitting, flows, incidence

from fredfw.errors import PluginError
from fredfw.fabric import Admission, AlwaysStart, Fabric, NodeKind, Split, Start, Wait
from fredfw.simulation import FlowNetwork, MaxMin, SharingPolicy, answers
from fredfw.simulation.sharing import Incidence

LINE = Fabric("line", np.full(3, NodeKind.NPU), [0, 1, 1, 2], [1, 2, 0, 1], 100.0, 0.0, 0.0)
PATHS = [0, 1], [1]
NAN, INF = np.nan, np.inf


class Says(SharingPolicy):
    name = "says"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def rates(self, incidence: Incidence, capacities: Any, fabric: Fabric) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "returned None; expected an array of 2 numbers"),
        (np.ones((2, 1)), "expected an array of 2"),
        (np.array(["1", "2"]), "expected an array of 2"),
        (np.array([1.0, NAN]), "gives flow 1 of 2 a rate of nan B/s"),
        (np.array([-1.0, 1.0]), "gives flow 0 of 2 a rate of -1.0 B/s"),
        (np.array([INF, 1.0]), "gives the flows on link npu0->npu1 inf"),
        (np.array([50.0, 60.0]), "flows on link npu1->npu2 110 B/s in all; expected at most its capacity of 100"),
        (np.zeros(2), "gives none of 2 flows a rate, and flow 0 crosses no closed link"),
        (SystemExit(0), "fails: SystemExit: 0"),
    ],
)
def test_wrong_rates_are_refused(answer: Any, message: str) -> None:
    with pytest.raises(PluginError) as caught:
        answers.rates(Says(answer), incidence(*PATHS), LINE.bandwidths, LINE)
    assert "Says.rates() of 'says' " in str(caught.value)
    assert message in str(caught.value)


def test_labels_and_notes_of_sharing_that_are_none_are_refused_and_limits_of_flows_kept() -> None:
    class Names(Says):
        def labels(self) -> Any:
            return self.answer

        def notes(self, fabric: Fabric) -> Any:
            return self.answer

    for wrong in ("dp", None, [1]):
        with pytest.raises(PluginError, match="expected a sequence of names"):
            answers.labels(Names(wrong))
    with pytest.raises(PluginError, match="expected a tuple of texts"):
        answers.notes_of_sharing(Names("one"), LINE)
    caps = np.array([10.0, INF])
    with pytest.raises(PluginError, match=r"gives flow 0 of 2 a rate of 20 B/s; expected at most its limit of 10 B/s"):
        answers.rates(Says(np.array([20.0, 20.0])), incidence(*PATHS, caps=caps), LINE.bandwidths, LINE)


def test_right_rates_pass() -> None:
    for given_rates in ([50, 50], [100.0, 0.0], [50.0, 50.0 * (1 + 1e-7)]):
        found = answers.rates(Says(np.array(given_rates)), incidence(*PATHS), LINE.bandwidths, LINE)
        assert found.dtype == np.float64
        assert found.tolist() == given_rates
    closed = np.zeros(4)
    assert not answers.rates(Says(np.zeros(2)), incidence(*PATHS), closed, LINE).any()
    assert answers.rates(Says(np.array([INF])), incidence([]), LINE.bandwidths, LINE).tolist() == [INF]


def answering(method: str, answer: Any) -> Admission:
    """Return an admission that answers one question otherwise."""

    def say(*_: object) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return changed(AlwaysStart, **{method: say})


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        ("admit", None, "returned None; expected Start, Wait, Refuse, Split or Decompose"),
        ("admit", Start, "expected Start, Wait"),
        ("admit", SystemExit(0), "fails: SystemExit: 0"),
        ("admit", Start(NAN), "returned Start with a setup of nan; expected seconds"),
        ("admit", Start(None), "returned Start with a setup of None"),  # type: ignore[arg-type]  # that is the fault
        ("admit", Start(caps=np.ones(3)), "expected an array of 2 rates"),
        ("admit", Start(caps=np.array([1.0, NAN])), "returned Start with a cap of nan B/s"),
        ("admit", Split(None), "fails: TypeError"),  # type: ignore[arg-type]  # that is the fault
        ("admit", Split((np.array([0.0]), np.array([1.0]))), "exactly once"),
        ("release", KeyError("gone"), "fails: KeyError: 'gone'"),
        *(("figures", wrong, "finite numbers by name") for wrong in (None, {"a": NAN}, {"a": "1"}, {1: 1.0})),
        *(("notes", wrong, "expected a tuple of texts") for wrong in (None, "text", (1,))),
    ],
)
def test_wrong_answers_of_an_admission_are_refused(method: str, answer: Any, message: str) -> None:
    network = FlowNetwork(LINE.with_defaults(admission=Admitting(lambda: answering(method, answer))), MaxMin())

    def ask() -> None:
        network.start(flows([1.0, 1.0], PATHS, 0.0, apart=False), lambda _: None)
        network.advance()
        answers.figures(network.admission)
        answers.notes(network.admission)

    with pytest.raises(PluginError, match=rf"AlwaysStart\.{method}\(\) .*{re.escape(message)}"):
        ask()
    assert network.idle or method == "release"


def test_other_answers_of_an_admission() -> None:
    assert answers.figures(answering("figures", {"a": np.int64(3)})) == {"a": 3.0}
    assert answers.notes(answering("notes", ["one"])) == ("one",)
    factories: list[Any] = [lambda: None, Wait]
    for factory in factories:
        with pytest.raises(PluginError, match=r"returned .*; expected a fredfw\.Admission"):
            FlowNetwork(LINE.with_defaults(admission=Admitting(factory)), MaxMin())
    assert pickle.loads(pickle.dumps(PluginError("a"))).args == ("a",)
