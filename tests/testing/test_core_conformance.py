"""What the core registers itself goes through the same kit as everybody's."""

from __future__ import annotations

import fredfw
from fredfw import ShortestPathRouter
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.experiment.study.samplers import GridSampler, HalvingSampler, RandomSampler
from fredfw.simulation import CircuitPreempt, MaxMin, StrictLinks, WeightedMaxMin
from fredfw.testing import CollectiveTests, PlacementTests, RouterTests, SamplerTests, SharingPolicyTests
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
