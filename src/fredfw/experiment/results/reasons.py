"""Why an iteration takes its time: its critical path, what would improve it, and how sure a comparison is."""

from __future__ import annotations

from attrs import field, frozen


@frozen
class PathStep:
    """The steps of a critical path whose tasks have the same name but for numbers.

    Args:
        name: Of the tasks; ``#`` for numbers that differ.
        kind: ``compute``, the label of a communication, or ``waiting``.
        count: How many steps those are, each repetition of a task counted.
        seconds: What they take together.
        alone: What they would take on a network that carried nothing else, about; at most ``seconds``.
        algorithm: What ran, of a communication.
        ranks: Of the largest group that communicates, or 0.
        limits: Parts of ``seconds`` by the parameter of the machine that they follow from; see ``CriticalPath``.
        begins: How many of them began because of what: ``dependency``, ``busy rank``, ``last member`` of a group, or
            the ``beginning`` of the iteration.
    """

    name: str
    kind: str
    count: int
    seconds: float
    alone: float
    algorithm: str = ""
    ranks: int = 0
    limits: dict[str, float] = field(factory=dict)
    begins: dict[str, int] = field(factory=dict)


@frozen
class CriticalPath:
    """From the task that ends last back to the beginning, always to what the task before has waited for.

    All parts are in seconds, the largest first, and add up to ``seconds``.

    Args:
        seconds: Of the iteration.
        length: How many spans of the timeline it goes through.
        steps: What it goes through, with alike ones together.
        by_kind: ``compute``, the communication of each label, ``waiting``.
        by_limit: By the parameter of the machine, named as ``Framework.what_if`` names it: ``compute``, the bandwidth
            of a tier, the latency of links, the times of the transport. Tiers that bound something equally stand
            together, joined by ``and``: one of them alone makes nothing faster. Beside these there are ``rates that no
            flow may exceed``, ``waiting``, and ``network`` where nothing more is known. A communication counts for the
            links that bound it when it is alone; what it takes longer beside others counts for the link of its group
            that is busiest over the whole iteration.
        by_rank: By the rank that it goes through; it stays on one as long as it can. Keys are numbers of ranks.
        crowded: Seconds by which its communication takes longer than alone.
    """

    seconds: float
    length: int
    steps: tuple[PathStep, ...]
    by_kind: dict[str, float]
    by_limit: dict[str, float]
    by_rank: dict[str, float]
    crowded: float


@frozen
class Improvement:
    """What a better parameter does to the time of one run: as its critical path says, and as another run says.

    A parameter that costs time, such as a latency, is divided; the others are multiplied.

    Args:
        parameter: What is improved.
        on_path: Seconds of the critical path that follow from it.
        estimated_exponent: Per cent of the time per per cent that the parameter is better, as follows from that: -0.5
            where one per cent takes half a per cent off.
        exponent: The same from a run with one per cent.
        estimated_seconds: The time with the whole factor if the critical path stayed what it is.
        seconds: The time that a run with the whole factor takes.
    """

    parameter: str
    on_path: float
    estimated_exponent: float
    exponent: float
    estimated_seconds: float
    seconds: float


@frozen
class WhatIf:
    """What would make one run faster.

    Args:
        seconds: The time as it is.
        factor: How many times better each parameter is made, one at a time.
        improvements: The one that makes it fastest first.
    """

    seconds: float
    factor: float
    improvements: tuple[Improvement, ...]


@frozen
class Effect:
    """What one parameter does to the time of one cell.

    ``exponent`` is d ln(time) / d ln(parameter): -1 where all of the time is inversely proportional to a bandwidth, 1
    where it is proportional to a latency, 0 where the parameter does not matter.
    """

    workload: str  # name in the experiment, or the pattern of a collective
    fabric: str
    parameter: str
    seconds: float  # as it is
    less: float  # seconds with less of the parameter
    more: float
    exponent: float

    @property
    def size(self) -> float:
        """The larger of the two changes in seconds, by which parameters are ranked."""
        return max(abs(one - self.seconds) for one in (self.less, self.more))


@frozen
class Interval:
    """Between which values a speed-up is when any one parameter is changed."""

    workload: str
    fabric: str
    speedup: float  # as it is
    low: float
    high: float
    low_by: str  # what was changed then; empty for nothing
    high_by: str


@frozen
class Flip:
    """Two fabrics that change places."""

    workload: str
    faster: str  # the faster fabric, as it is
    slower: str
    causes: tuple[str, ...]  # what makes the slower one the faster


@frozen
class Sensitivity:
    """How far a comparison may be off if machines are."""

    share: float  # of each parameter that was taken away and added, one at a time
    effects: tuple[Effect, ...]  # by cell, the largest first
    intervals: tuple[Interval, ...]  # by cell
    flips: tuple[Flip, ...]  # where a ranking changes
