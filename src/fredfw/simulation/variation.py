"""NPUs that are slower than others, and computations that do not take the same time twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from attrs import field, frozen
from attrs.validators import optional

from fredfw.errors import InputError
from fredfw.simulation.assignment import COMPUTE, Assignment
from fredfw.typing import FloatArray, IntArray
from fredfw.units import at_least, count, one_of, option, whole

# The largest deviation at which no factor is below 0, or is so rarely that leaving it out does not show.
_MOST = {"lognormal": math.inf, "normal": 1 / 3, "uniform": 1 / math.sqrt(3), "exponential": 1.0}


@frozen
class Stragglers:
    """NPUs whose computations take longer.

    Args:
        factor: How many times longer; below 1, the NPUs are faster.
        share: Of the NPUs of the fabric, rounded to a whole number of at least one; each run draws which they are.
        npus: Their numbers instead, in every run.

    Raises:
        InputError: A factor or a share that is not possible; both a share and numbers, or neither.
    """

    factor: float = option(help="how many times longer computations take", validator=at_least(1e-6, at_most=1e6))
    share: float | None = option(None, help="share of the NPUs that each run draws", validator=at_least(0, at_most=1))
    npus: tuple[int, ...] | None = option(None, help="numbers of the NPUs", validator=optional(whole(0)))

    def __attrs_post_init__(self) -> None:
        if (self.share is None) == (self.npus is None):
            both = "has both a share and NPUs" if self.npus is not None else "has neither a share nor NPUs"
            raise InputError(both, key="share", accepted="a share such as 0.01, or npus = [0, 7]")
        if self.npus is not None and len(set(self.npus)) < max(1, len(self.npus)):
            what = "names an NPU twice" if self.npus else "names no NPU"
            raise InputError(f"{list(self.npus)} {what}", key="npus", accepted="one or more different numbers")

    def drawn(self, count: int, rng: np.random.Generator) -> IntArray:
        """Return which of ``count`` NPUs they are."""
        if self.npus is not None:
            return np.array(self.npus, dtype=np.intp)
        assert self.share is not None
        return rng.permutation(count)[: max(1, round(self.share * count)) if self.share else 0]


@frozen
class Jitter:
    """Factors of computations: independent for each computation of each rank, with a mean of 1.

    Args:
        distribution: ``lognormal``; ``normal``, without values below 0 and above 2; ``uniform``; or ``exponential``:
            an exponential tail above the least time, which is ``1 - deviation``.
        deviation: The standard deviation: at most 1/3 of ``normal``, 0.577 of ``uniform``, 1 of ``exponential``.

    Raises:
        InputError: A distribution that is not known, or a deviation that it cannot have.
    """

    distribution: str = option(help="of the factors", validator=one_of(*_MOST))
    deviation: float = option(help="standard deviation of the factors", validator=at_least(0, at_most=1e3))

    def __attrs_post_init__(self) -> None:
        most = _MOST[self.distribution]
        if self.deviation > most:
            message = f"{self.deviation!r} would make some factors of {self.distribution!r} negative"
            raise InputError(message, key="deviation", accepted=f"from 0 to {most:.3g}, or lognormal")

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return ``(count,)`` factors."""
        deviation = self.deviation
        if self.distribution == "uniform":
            return 1.0 + math.sqrt(3) * deviation * (2.0 * rng.random(count) - 1.0)
        if self.distribution == "exponential":
            return 1.0 - deviation + deviation * rng.standard_exponential(count)
        normal = rng.standard_normal(count)
        if self.distribution == "lognormal":
            width = math.sqrt(math.log1p(deviation**2))
            # NumPy's own rounds differently from one processor to the next.
            return np.array([math.exp(width * one - width**2 / 2) for one in normal.tolist()])
        while len(out := np.flatnonzero(np.abs(deviation * normal) > 1)):
            normal[out] = rng.standard_normal(len(out))
        factors: FloatArray = 1.0 + deviation * normal
        return factors


@frozen
class Variation:
    """What differs between NPUs and from run to run.

    Args:
        runs: How often the iteration is simulated.
        seed: Of all that is drawn. What a run draws for a job depends on this number, on the number of the run, and on
            the lowest number of its NPUs.
        stragglers: NPUs that are slower; where one is named more than once, the factors multiply.
        jitter: Of computations, if there is any.
    """

    runs: int = count(1, help="how often an iteration is simulated")
    seed: int = count(0, minimum=0, help="of all that is drawn")
    stragglers: tuple[Stragglers, ...] = field(default=())
    jitter: Jitter | None = None

    def pace(self, run: int, npus: int) -> Pace:
        """Return how fast ``npus`` NPUs compute in a run, counted from 0; ``InputError`` for an unknown straggler."""
        choosing = self.generator(run, 0)
        slowness = np.ones(npus)
        for index, one in enumerate(self.stragglers):
            chosen = one.drawn(npus, choosing)
            if len(chosen) and chosen.max() >= npus:
                key = f"stragglers[{index}].npus"
                raise InputError(f"there is no NPU {chosen.max()}", key=key, accepted=f"0 to {npus - 1}")
            slowness[chosen] *= one.factor
        return Pace(slowness, self.jitter, partial(self.generator, run, 1))

    def generator(self, *what: int) -> np.random.Generator:
        """Return the generator for one of the things that a run draws: by the run, the thing, and what it is for."""
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=what)))


@frozen(eq=False)
class Pace:
    """How fast computations are in one run."""

    slowness: FloatArray  # (npus,) how many times longer each NPU takes than it does by itself
    jitter: Jitter | None  # of computations, if there is any
    generator: Callable[[int], np.random.Generator]  # returns what draws it for a job, by the lowest number of its NPUs

    def factors(self, tasks: Assignment) -> tuple[list[int], FloatArray]:
        """Return how many factors tasks have, one per participant of a computation, and all; jobs draw their own."""
        graph, placement = tasks.graph, tasks.placement
        computes = [kind == COMPUTE for kind in tasks.kinds]
        ranks = [tasks.table(task).participants[: None if one else 0] for task, one in enumerate(computes)]
        counts = [len(own) for own in ranks]
        factors = self.slowness[placement][np.concatenate([np.zeros(0, dtype=np.intp), *ranks])]
        if self.jitter is not None:
            jobs = np.repeat(graph.jobs, counts)
            for job in np.unique(jobs).tolist():
                tables = np.unique(graph.members[graph.jobs == job]).tolist()
                lowest = min(int(placement[graph.tables[table]].min()) for table in tables)
                own = jobs == job
                factors[own] *= self.jitter.draw(int(own.sum()), self.generator(lowest))
        return counts, factors


def notes(pace: Pace | None) -> tuple[str, ...]:
    if pace is None or pace.jitter is None:
        return ()
    return ("computations vary, so every repetition of a repeated block was simulated on its own",)
