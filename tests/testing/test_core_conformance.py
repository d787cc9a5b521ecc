"""What the core registers itself goes through the same kit as everybody's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fredfw
from fredfw import Framework, ShortestPathRouter, System
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.experiment.study.samplers import GridSampler, HalvingSampler, RandomSampler
from fredfw.fabric import IdealTransport
from fredfw.simulation import CircuitPreempt, MaxMin, StrictLinks, WeightedMaxMin
from fredfw.testing import (
    CollectiveTests,
    PlacementTests,
    RouterTests,
    SamplerTests,
    SharingPolicyTests,
    check_admission,
    check_collective,
    check_exporter,
    check_placement,
    check_router,
    check_sampler,
    check_sharing_policy,
    check_topology,
    check_transport,
    check_workload,
)
from fredfw.testing.fabrics import grid, standard
from fredfw.workloads import LinearPlacement, SnakePlacement


class TestShortestPath(RouterTests):
    plugin = fredfw
    routers = (ShortestPathRouter(),)
    fabrics = (grid(7), grid(6, closed=True), grid(3, 4), grid(2, 3, 2), grid(5, 3, closed=True))


class TestDirect(CollectiveTests):
    plugin = fredfw
    algorithms = (DirectAlgorithm(),)


class TestPlacements(PlacementTests):
    plugin = fredfw
    placements = (LinearPlacement(), SnakePlacement())
    fabrics = (*standard(), grid(2, 3, 2), grid(5))


class TestSharing(SharingPolicyTests):
    plugin = fredfw
    policies = (MaxMin(), StrictLinks(), CircuitPreempt(), WeightedMaxMin(), WeightedMaxMin({"a": 2.0, "b": 0.5}))


class TestSamplers(SamplerTests):
    plugin = fredfw
    samplers = (GridSampler(), RandomSampler(trials=4, seed=2), HalvingSampler(eta=2.0, trials=6))


FRAMEWORK = Framework()
PLUGINS = FRAMEWORK.plugins
MICROBENCHMARK: Any = PLUGINS.workloads.get("microbenchmark")


@pytest.mark.slow  # each call starts another Python
@pytest.mark.parametrize(
    ("check", "subject", "options"),
    [
        (check_topology, FRAMEWORK.topology("switch", npus=2), {}),
        (check_admission, FRAMEWORK.topology("optical-ring", npus=3), {}),
        (check_router, ShortestPathRouter(), {"fabric": grid(3)}),
        (check_collective, DirectAlgorithm(), {"ranks": [1, 2, 3]}),
        (check_workload, MICROBENCHMARK(ranks=64), {"system": System(npus=64)}),
        (check_placement, LinearPlacement(), {}),
        (check_sharing_policy, MaxMin(), {}),
        (check_transport, IdealTransport(), {}),
        (check_exporter, PLUGINS.exporters.get("csv")(), {}),
        (check_sampler, GridSampler(), {}),
    ],
)
def test_calls_pass_what_is_sound(check: Callable[..., None], subject: Any, options: dict[str, Any]) -> None:
    check(subject, **options)
