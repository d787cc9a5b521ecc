import pickle
from typing import Any

import numpy as np
import pytest
from small import Admitting, flows, incidence

from fredfw.errors import PluginError
from fredfw.fabric import Admission, Fabric, FlowSet, NodeKind, Split, Start, Wait
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
        ([1.0, 1.0], "returned [1.0, 1.0]; expected"),
        (np.ones(3), "returned array([1., 1., 1.]); expected an array of 2"),
        (np.ones((2, 1)), "expected an array of 2"),
        (np.array(["1", "2"]), "expected an array of 2"),
        (np.array([1.0, NAN]), "gives flow 1 of 2 a rate of nan B/s"),
        (np.array([-1.0, 1.0]), "gives flow 0 of 2 a rate of -1.0 B/s"),
        (np.array([INF, 1.0]), "gives the flows on link npu0->npu1 inf"),
        (np.array([50.0, 60.0]), "flows on link npu1->npu2 110 B/s in all; expected at most its capacity of 100"),
        (np.array([500.0, 500.0]), "expected at most its capacity of 100 B/s"),
        (np.zeros(2), "gives none of 2 flows a rate, and flow 0 crosses no closed link"),
        (SystemExit(0), "fails: SystemExit: 0"),
        (IndexError("x"), "fails: IndexError: x"),
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


class Gate(Admission):
    def __init__(self, answer: Any = None, **others: Any) -> None:
        self.answer, self.others = answer, others

    def admit(self, flows: FlowSet, active: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def release(self, flows: FlowSet) -> None:
        raise self.others["release"]

    def figures(self) -> Any:
        return self.others["figures"]

    def notes(self) -> Any:
        return self.others["notes"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "returned None; expected Start, Wait, Refuse, Split or Decompose"),
        (Start, "expected Start, Wait"),
        (SystemExit(0), "fails: SystemExit: 0"),
        (Start(NAN), "Start with a setup of nan; expected seconds"),
        (Start(-1.0), "Start with a setup of -1.0"),
        (Start(None), "Start with a setup of None"),  # type: ignore[arg-type]  # that is the fault
        (Start(caps=np.ones(3)), "expected an array of 2 rates"),
        (Start(caps=np.array([1.0, NAN])), "Start with a cap of nan B/s"),
        (Split(None), "fails: TypeError"),  # type: ignore[arg-type]  # that is the fault
        (Split((np.array([0.0]), np.array([1.0]))), "exactly once"),
    ],
)
def test_wrong_decisions_are_refused(answer: Any, message: str) -> None:
    network = FlowNetwork(LINE.with_defaults(admission=Admitting(lambda: Gate(answer))), MaxMin())
    with pytest.raises(PluginError) as caught:
        network.start(flows([1.0, 1.0], PATHS, 0.0, apart=False), lambda _: None)
    assert "Gate.admit() " in str(caught.value)
    assert message in str(caught.value)
    assert network.idle


def test_other_answers_of_an_admission_are_checked() -> None:
    network = FlowNetwork(
        LINE.with_defaults(admission=Admitting(lambda: Gate(Start(), release=KeyError("gone")))), MaxMin()
    )
    network.start(flows([1.0, 1.0], PATHS, 0.0, apart=False), lambda _: None)
    with pytest.raises(PluginError, match=r"Gate\.release\(\) fails: KeyError: 'gone'"):
        network.advance()
    for wrong in (None, {"a": NAN}, {"a": "1"}, {1: 1.0}):
        with pytest.raises(PluginError, match=r"Gate\.figures\(\) returned .*; expected .*finite numbers by name"):
            answers.figures(Gate(figures=wrong))
    assert answers.figures(Gate(figures={"a": np.int64(3)})) == {"a": 3.0}
    for texts in (None, "text", (1,)):
        with pytest.raises(PluginError, match=r"Gate\.notes\(\) returned .*; expected a tuple of texts"):
            answers.notes(Gate(notes=texts))
    assert answers.notes(Gate(notes=["one"])) == ("one",)
    factories: list[Any] = [lambda: None, Wait]
    for factory in factories:
        with pytest.raises(PluginError, match=r"returned .*; expected a fredfw\.Admission"):
            FlowNetwork(LINE.with_defaults(admission=Admitting(factory)), MaxMin())
    assert pickle.loads(pickle.dumps(PluginError("a"))).args == ("a",)
