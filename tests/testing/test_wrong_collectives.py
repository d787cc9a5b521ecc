"""Algorithms that are wrong on purpose: the kit finds each, and its message says what to mend."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve, frozen
from kit import changed, found

from fredfw import GroupView, ring_schedule as rings, units
from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Phase, Schedule, in_series, parallel
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.testing.collective import CollectiveCase
from fredfw.testing.fabrics import grid


@frozen
class Rings(CollectiveAlgorithm):
    """Ring algorithms with one fault, or none."""

    name: ClassVar[str] = "rings"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.ALL_GATHER})

    fault: str = units.option("none", help="which")

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        n = request.ranks
        right = rings(request.pattern, request.size, np.arange(n)[:, None])
        match self.fault:
            case "missing chunk":
                # The last chunk of everybody's block is forgotten in the last step.
                last = right.phases[-1]
                return evolve(right, phases=(*right.phases[:-1], evolve(last, repeat=max(last.repeat - 1, 1))))
            case "twice":
                # Everybody gives its part twice.
                first = right.phases[0]
                return evolve(right, phases=in_series([first, evolve(first, repeat=1), *right.phases[1:]]))
            case "too few bytes":
                return evolve(right, chunk_bytes=request.size / n / 2)
            case "moody":
                return rings(request.pattern, request.size, np.arange(n)[:, None], step=random.choice([1, -1]))
        return right


@frozen
class Chain(CollectiveAlgorithm):
    """A reduce along a chain in ONE phase, which so reads what is written in it."""

    name: ClassVar[str] = "chain"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.REDUCE, Pattern.BROADCAST})

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        n = request.ranks
        reduce = request.pattern is Pattern.REDUCE
        order = (request.root + reduce + np.arange(n)) % n
        phase = Phase.of(order[:-1], order[1:], 0, reduce=reduce)
        return Schedule(request.pattern, n, request.size, 1, [phase], root=request.root)


@frozen
class Boastful(Rings):
    """Says what it cannot do, and does what it does not say."""

    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_GATHER, Pattern.SCATTER})

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        return "" if request.pattern is Pattern.SCATTER else None

    def plan(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return self.schedule(request, view) if request.pattern is not Pattern.GATHER else super().plan(request, view)


@frozen
class Choosy(Rings):
    """An algorithm whose configurations serve different patterns; with a fault, they say so wrongly."""

    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_GATHER, Pattern.REDUCE_SCATTER})

    gathers: bool = units.flag(False, help="whether it gathers, and nothing else")

    def served_patterns(self) -> frozenset[Pattern]:
        if self.fault == "more":
            return self.patterns | {Pattern.SCATTER}
        return frozenset({Pattern.ALL_GATHER}) if self.gathers else self.patterns

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        if self.fault == "open" and request.pattern is Pattern.REDUCE_SCATTER:
            return None
        return super().refusal(request, view)


@frozen
class Untrue(Rings):
    """Tells ``auto`` what is not so."""

    proportional: ClassVar[bool] = True
    about: str = "size"

    def equivalent(self, view: GroupView) -> CollectiveAlgorithm:
        return Untrue(about="reverse") if self.about == "view" else self

    def undivided(self) -> CollectiveAlgorithm:
        return DirectAlgorithm() if self.about == "pieces" else self

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        small = request.size < 1.5e6 or self.about != "size"
        step = 1 if small and self.about != "reverse" else -1
        return rings(request.pattern, request.size, np.arange(request.ranks)[:, None], step=step)


@frozen
class Capricious(Rings):
    """Takes its time with little, and hurries with much."""

    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_GATHER})

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        schedule = super().schedule(request, view)
        slow = (request.size <= 1e6 and view.size == 8) or (bool(view.levels) and view.levels[0].bandwidth > 150e9)
        if not slow:
            return schedule
        # Again, to no purpose.
        return evolve(schedule, phases=in_series([*schedule.phases] * 4))


@frozen
class Drifting(CollectiveAlgorithm):
    """Two rings beside each other, of which one has more steps."""

    name: ClassVar[str] = "drifting"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE})

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        n = request.ranks
        one = rings(request.pattern, request.size * 0.9, np.arange(n)[:, None])
        # All send to rank 0, one after the other, which sends the sum back in one step.
        others = np.arange(1, n)
        up = [Phase.of(rank, 0, 0, reduce=True) for rank in others]
        down = Phase.of(0, others, 0)
        return parallel([one, Schedule(request.pattern, n, request.size * 0.1, 1, in_series([*up, down]))])


@frozen
class Rootless(DirectAlgorithm):
    """Serves rank 0, whoever is the root."""

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return super().schedule(evolve(request, root=0), view)


def on_a_line(self: Rings, request: CollectiveRequest, view: GroupView) -> str | None:
    """Refuse what the kit's own fabrics are."""
    return None if [level.kind for level in view.levels] == ["line"] else "the group is on no line"


def exchange(self: Rings, request: CollectiveRequest, view: GroupView) -> Schedule:
    """Pairs exchange, and that is all."""
    rank = np.arange(request.ranks - request.ranks % 2)
    return Schedule(request.pattern, request.ranks, request.size, 1, [Phase.of(rank, rank ^ 1, 0, reduce=True)])


def variants(*faults: str) -> classmethod[Rings, Any, list[Rings]]:
    return classmethod(lambda cls, pattern: [cls(fault) for fault in faults])


PROMISES, SERVED = "schedules_do_what_they_promise", "what_it_supports_is_served"
VARIANTS, TOLD, CONTRACT = "variants_are_valid", "what_auto_is_told_is_true", "keeps_the_contract"
REASONS = "refusals_have_reasons"
ROOTED = Pattern.BROADCAST, Pattern.REDUCE
ROOT = "among 2 ranks without levels, root 1, 1e+06 B: root is 0, the request's is 1"


@pytest.mark.parametrize(
    ("algorithm", "check", "expected"),
    [
        # With two ranks the ring has one step, which cannot be left out; so it shows with three. The sum of chunk 1 is
        # at rank 1 and takes two steps to rank 0, which added its own part to that of rank 2 on the way there.
        (Rings("missing chunk"), PROMISES, "rank 0 has chunk 1 with the contributions of ranks [0, 2]; all-reduce"),
        (
            Chain(),
            PROMISES,
            "broadcast among 3 ranks without levels, root 0, 1e+06 B: phase 0, repetition 0: rank 1 sends chunk 0, "
            "which it does not hold; phase 0 reads chunk 0 of rank 1 and writes it in the same repetition (0), where ",
        ),
        # All roots get one schedule, which is right for the first of them.
        *((changed(Rootless, patterns={one}), PROMISES, f"{one} {ROOT}") for one in ROOTED),
        (Rings("too few bytes"), PROMISES, "the chunks sum to 500000.0 bytes, not to the 1000000.0 of the request"),
        (Boastful(), SERVED, "scatter is in patterns, yet refused in every group of [1, 2, 3, "),
        (Boastful(), REASONS, "not refused, yet all-reduce is not in patterns; end refusal() with return super()"),
        (Choosy("more"), SERVED, "served_patterns() has scatter, which the class does not have in patterns"),
        (Choosy("open", gathers=True), REASONS, "not refused, yet reduce-scatter is not in served_patterns(); end"),
        (changed(Rings, refusal=on_a_line), SERVED, "refused on star of 8, ring of 8, mesh of 4x2, torus of 3x3; give"),
        (Rings("moody"), "is_deterministic", "it may depend on the request, the view and the fields alone"),
        (changed(Rings, variants=variants("none", "none")), VARIANTS, "(all-gather) are ['rings', 'rings']; all of"),
        (changed(Rings, variants=variants("none", "twice")), VARIANTS, "variant rings(fault=twice), all-"),
        (Untrue(), TOLD, "with twice the bytes the schedule is another one, although it says proportional"),
        (Untrue(about="view"), TOLD, "equivalent() returns an algorithm that writes another schedule"),
        (Untrue(about="pieces"), TOLD, "undivided() returns an algorithm that sends other bytes between ranks"),
        (Capricious(), "more_bandwidth_is_not_slower", "all-gather among 9 ranks on a torus of 3x3, 1e+06 B: "),
        (Capricious(), "more_bytes_are_not_faster", "with 2 times the bytes"),
        (Drifting(), "stepwise_takes_as_long", "have them take turns on a channel, or say in expected_failures why"),
        (changed(Rings, schedule=lambda *_: None), PROMISES, "of 'rings' returned None; expected a fredfw.Schedule"),
        (changed(Rings, schedule=lambda self, one: None), CONTRACT, "defines schedule(one), which is called with"),
    ],
)
def test_wrong_algorithms(algorithm: CollectiveAlgorithm, check: str, expected: str) -> None:
    assert expected in found(CollectiveCase(subject=algorithm), check)


def test_an_exchange_does_not_read_what_it_writes_and_too_few_bytes_are_too_fast() -> None:
    # Partners that both read and write the chunk they exchange do right, so the hint must not blame them.
    half = changed(Rings, patterns={Pattern.ALL_REDUCE}, schedule=exchange)
    message = found(CollectiveCase(subject=half), PROMISES)
    assert message.endswith("all-reduce needs those of [0, 1, 2]")
    message = found(CollectiveCase(subject=Rings("too few bytes"), fabrics=[grid(2)]), "no_bound_is_beaten")
    assert message.startswith("all-gather among 2 ranks on a line of 2, 1e+06 B: ")
    assert message.endswith("does it move too few bytes?")
