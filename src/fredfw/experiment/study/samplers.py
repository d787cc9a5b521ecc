"""The samplers of the core: all points, random ones, and successive halving."""

import math
import random
from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar

from attrs import define, field, frozen

from fredfw import units
from fredfw.answers import ANYTHING, Asking, Method, instance, sequence
from fredfw.errors import InputError
from fredfw.experiment.metrics import pareto
from fredfw.plugin.sampler import Sampler, Search, SearchSpace, Told, Trial


def _more_than_one(_instance: object, attribute: object, value: float) -> None:
    if not value > 1:
        raise InputError(f"{value!r} is too small", key=getattr(attribute, "name", ""), accepted="a number above 1")


@define
class _Rounds(Search):
    """Runs points at one rung after another, from each of which the best share goes on."""

    points: Sequence[int]
    rungs: Sequence[str | None] = (None,)
    eta: float = 1.0
    least: int = 1
    done: int = field(default=0, init=False)  # rungs

    def ask(self) -> Sequence[Trial]:
        return [Trial(point, rung) for rung in self.rungs[self.done : self.done + 1] for point in self.points]

    def tell(self, told: Sequence[Told]) -> None:
        self.done += 1
        if self.done == len(self.rungs):
            return
        count = max(self.least, math.ceil(len(self.points) / self.eta))
        fitting = [(one.trial.point, one.losses) for one in told if one.feasible and one.losses is not None]
        ordered = sorted(zip(fronts([losses for _, losses in fitting]), (point for point, _ in fitting), strict=True))
        self.points = sorted(point for _, point in ordered[:count])


@frozen
class GridSampler(Sampler):
    """Runs every point of the space."""

    name: ClassVar[str] = "grid"

    def start(self, space: SearchSpace) -> Search:
        return _Rounds(range(len(space)))


@frozen
class RandomSampler(Sampler):
    """Runs some points of the space, each at most once, all with the same probability."""

    name: ClassVar[str] = "random"

    trials: int = units.count(100, help="points to run")
    seed: int = units.count(0, minimum=0, help="of the random numbers: the same seed, the same points")

    def start(self, space: SearchSpace) -> Search:
        return _Rounds(_drawn(len(space), self.trials, self.seed))


@frozen
class HalvingSampler(Sampler):
    """Runs many points at a cheap rung, and the best share of them at the next one (Jamieson and Talwalkar 2016).

    With several objectives, points are sorted into fronts: first those that no other one beats, then those that only
    these beat, and so on (Deb et al. 2002, NSGA-II); within a front, in the order of the space.
    """

    name: ClassVar[str] = "halving"

    rungs: tuple[str, ...] = units.option(
        ("compressed", "exact"),
        help="how points are run, the cheapest first: fidelities, or names of [rungs] of the study",
    )
    eta: float = units.option(
        4.0, validator=_more_than_one, help="one in so many of the points of a rung goes on to the next one"
    )
    trials: int | None = units.count(None, help="points at the first rung, drawn at random; default: all of the space")
    least: int = units.count(1, help="points at the last rung, at least")
    seed: int = units.count(0, minimum=0, help="of the random numbers: the same seed, the same points")

    def __attrs_post_init__(self) -> None:
        if not self.rungs or len(set(self.rungs)) < len(self.rungs):
            raise InputError(f"{list(self.rungs)} are not rungs", key="rungs", accepted="one or more different names")

    def start(self, space: SearchSpace) -> Search:
        points = range(len(space)) if self.trials is None else _drawn(len(space), self.trials, self.seed)
        return _Rounds(points, self.rungs, self.eta, self.least)


def fronts(losses: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the front of each, from 1: that of those that no other one beats, then of those that only these beat.

    One beats another if it is nowhere worse and somewhere better; with one number each, equal ones have the same front.
    """
    if not losses:
        return []
    if len(losses[0]) == 1:
        # Of the numbers below, not of the different numbers below: third, where two are first.
        ordered = sorted(losses)
        return [bisect_left(ordered, loss) + 1 for loss in losses]
    ranks = [0] * len(losses)
    left = list(range(len(losses)))
    front = 0
    while left:
        front += 1
        for place in pareto([losses[one] for one in left]):
            ranks[left[place]] = front
        left = [one for one in left if not ranks[one]]
    return ranks


def _drawn(size: int, count: int, seed: int) -> Sequence[int]:
    return sorted(random.Random(seed).sample(range(size), min(count, size)))


# What samplers must answer.
start = Method(Sampler.start, instance(Search))
tell = Method(Search.tell, ANYTHING)
_ask = Method(Search.ask, sequence(lambda one: isinstance(one, Trial), "a sequence of fredfw.Trial"))


def ask(search: Search, space: SearchSpace) -> tuple[Trial, ...]:
    """Return what ``search`` wants to be run next: points that are in ``space``; else ``PluginError``."""
    asked, trials = Asking(search, "ask"), _ask(search)
    for one in trials:
        point: object = one.point
        if isinstance(point, bool) or not isinstance(point, int) or not 0 <= point < len(space):
            raise asked.wrong(f"asks for the point {point!r}", f"the number of a point, from 0 to {len(space) - 1}")
        rung: object = one.rung
        if rung is not None and not isinstance(rung, str):
            raise asked.wrong(f"asks for the rung {rung!r}", "the name of a rung, or None")
    return trials
