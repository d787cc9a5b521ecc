from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import frozen

import fredfw
from fredfw import Framework, ShortestPathRouter, System, testing, units
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.experiment.study.samplers import GridSampler, HalvingSampler, RandomSampler
from fredfw.fabric import IdealTransport
from fredfw.simulation import CircuitPreempt, MaxMin, StrictLinks, WeightedMaxMin
from fredfw.testing.conformance import ConformanceError, Faults, check_all, describe, outcome, seeded
from fredfw.testing.fabrics import grid, standard
from fredfw.workloads import LinearPlacement, SnakePlacement

DOCS = Path(__file__).resolve().parents[2] / "docs"


class Three:
    def __str__(self) -> str:
        return "three"

    def holds(self) -> Faults:
        yield from ()

    def fails(self) -> Faults:
        yield f"{self} is wrong; make it right"
        yield "and this is not told"

    def fails_alike(self) -> Faults:
        return self.fails()

    def breaks(self) -> Faults:
        raise ZeroDivisionError(f"by\n{self}")


def failures(**expected: str) -> str:
    with pytest.raises(ConformanceError) as caught:
        check_all("thing", Three(), expected)
    return str(caught.value)


def test_all_failures_are_listed_once_and_expected_ones_have_a_reason() -> None:
    lines = failures().splitlines()
    assert lines[0] == "thing three fails 3 of 4 checks:"
    assert lines[1:3] == ["  three is wrong; make it right", "    in fails, fails_alike"]
    assert lines[3].startswith(f"  breaks: raises ZeroDivisionError: by three (at {__file__}:")
    assert len(lines) == 4
    check_all("thing", Three(), {"fails": "so", "fails_alike": "so", "breaks": "so"})
    assert "  holds: holds after all; take it out of expected_failures" in failures(holds="it does not")
    assert "  expected_failures: 'fails' has no reason; write down why this cannot hold" in failures(fails=" ")
    assert (
        "expected_failures: there is no check 'brakes'; did you mean 'breaks'? (accepted: holds, fails, fails_alike, "
        "breaks)"
    ) in failures(brakes="typo")


def test_an_error_of_the_librarys_own_is_placed_where_the_author_called_it() -> None:
    def asks(case: int) -> Faults:
        yield str(units.parse("3 bananas", units.Unit.BYTES) * case)

    message = outcome(asks, 1)
    assert message is not None
    assert message.startswith("raises InputError: '3 bananas' has the unit 'bananas', not B")
    assert __file__ in message


@frozen
class Plain:
    name = "plain"
    size: float = units.size("1 MB", help="of it")
    count: int = 3


@frozen
class Demanding:
    size: float
    count: int = 3


def test_instances_are_described_by_what_is_special() -> None:
    assert describe(Plain()) == "plain"
    assert describe(Plain(size="2 MB", count=4)) == "plain(size=2000000.0, count=4)"  # type: ignore[arg-type]  # text is parsed
    assert describe(Demanding(1.0)) == "Demanding(size=1.0)"


def test_global_generators_are_seeded_and_put_back() -> None:
    def drawn(seed: int) -> tuple[float, float]:
        with seeded(seed):
            return random.random(), np.random.random()

    states = random.getstate(), np.random.get_state(legacy=False)
    assert drawn(1) == drawn(1) != drawn(2)
    np.testing.assert_equal((random.getstate(), np.random.get_state(legacy=False)), states)


def test_the_kit_is_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(testing.__all__) == testing.__all__
    page = (DOCS / "testing.md").read_text(encoding="utf-8")
    for name in testing.__all__:
        assert getattr(testing, name).__doc__, name
        assert name in page
    # Every check is a test, and in the reference.
    monkeypatch.syspath_prepend(DOCS / "_ext")
    references: Any = importlib.import_module("references")
    common, *sections = references.checks().split("### ")[1:]
    found = {section.split("\n")[0]: section + common for section in sections}
    assert set(found) == {name for name in testing.__all__ if name.endswith("Tests")}
    for name, section in found.items():
        tests = getattr(testing, name)
        assert len(tests.checks) > 4
        for check in tests.checks:
            assert getattr(tests, f"test_{check.__name__}").__doc__ == check.__doc__ is not None
            assert f"| `{check.__name__}` | {str(check.__doc__).replace('``', '`')} |" in section


class TestShortestPath(testing.RouterTests):
    plugin = fredfw
    routers = (ShortestPathRouter(),)
    fabrics = (grid(7), grid(6, closed=True), grid(3, 4), grid(2, 3, 2), grid(5, 3, closed=True))


class TestDirect(testing.CollectiveTests):
    plugin = fredfw
    algorithms = (DirectAlgorithm(),)


class TestPlacements(testing.PlacementTests):
    plugin = fredfw
    placements = (LinearPlacement(), SnakePlacement())
    fabrics = (*standard(), grid(2, 3, 2), grid(5))


class TestSharing(testing.SharingPolicyTests):
    plugin = fredfw
    policies = (MaxMin(), StrictLinks(), CircuitPreempt(), WeightedMaxMin(), WeightedMaxMin({"a": 2.0, "b": 0.5}))


class TestSamplers(testing.SamplerTests):
    plugin = fredfw
    samplers = (GridSampler(), RandomSampler(trials=4, seed=2), HalvingSampler(eta=2.0, trials=6))


FRAMEWORK = Framework()
PLUGINS = FRAMEWORK.plugins
MICROBENCHMARK: Any = PLUGINS.workloads.get("microbenchmark")


@pytest.mark.slow  # each call starts another Python
@pytest.mark.parametrize(
    ("check", "subject", "options"),
    [
        (testing.check_topology, FRAMEWORK.topology("switch", npus=2), {}),
        (testing.check_admission, FRAMEWORK.topology("optical-ring", npus=3), {}),
        (testing.check_router, ShortestPathRouter(), {"fabric": grid(3)}),
        (testing.check_collective, DirectAlgorithm(), {"ranks": [1, 2, 3]}),
        (testing.check_workload, MICROBENCHMARK(ranks=64), {"system": System(npus=64)}),
        (testing.check_placement, LinearPlacement(), {}),
        (testing.check_sharing_policy, MaxMin(), {}),
        (testing.check_transport, IdealTransport(), {}),
        (testing.check_exporter, PLUGINS.exporters.get("csv")(), {}),
        (testing.check_sampler, GridSampler(), {}),
    ],
)
def test_calls_pass_what_is_sound(check: Callable[..., None], subject: Any, options: dict[str, Any]) -> None:
    check(subject, **options)
