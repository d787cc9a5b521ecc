"""Algorithms that are wrong on purpose: the kit finds each, and its message says what to mend."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve, frozen

from fredfw import (
    CollectiveAlgorithm,
    CollectiveRequest,
    GroupView,
    Pattern,
    Phase,
    Schedule,
    in_series,
    parallel,
    ring_schedule as rings,
    units,
)
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.testing import ConformanceError, check_collective
from fredfw.testing.fabrics import grid

# Each call of the kit starts another Python.
pytestmark = pytest.mark.slow


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


def failures(algorithm: CollectiveAlgorithm, **more: Any) -> str:
    with pytest.raises(ConformanceError) as caught:
        check_collective(algorithm, **more)
    return str(caught.value)


def test_a_sound_algorithm_passes() -> None:
    check_collective(Rings())


def test_one_chunk_missing() -> None:
    # With two ranks the ring has one step, which cannot be left out; so it shows with three. The sum of chunk 1 is at
    # rank 1 and takes two steps to rank 0, which added its own part to that of rank 2 on the way there.
    assert (
        "schedules_do_what_they_promise: all-reduce among 3 ranks without levels, 1e+06 B: after the last phase, rank "
        "0 has chunk 1 with the contributions of ranks [0, 2]; all-reduce needs those of [0, 1, 2]"
    ) in failures(Rings("missing chunk"))


def test_a_wrong_byte_count() -> None:
    message = failures(Rings("too few bytes"), fabrics=[grid(2)])
    assert "the chunks sum to 500000.0 bytes, not to the 1000000.0 of the request" in message
    # It is also faster than the network could do it.
    assert "no_bound_is_beaten: all-gather among 2 ranks on a line of 2, 1e+06 B: " in message
    assert "does it move too few bytes?" in message


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


def test_a_phase_that_reads_what_is_written_in_it() -> None:
    message = failures(Chain())
    assert (
        "schedules_do_what_they_promise: broadcast among 3 ranks without levels, root 0, 1e+06 B: phase 0, repetition "
        "0: rank 1 sends chunk 0, which it does not hold; phase 0 reads chunk 0 of rank 1 and writes it in the same "
        "repetition (0), where all reads come before the writes: what arrives is not in what is passed on, so that the "
        "contribution is lost; make it two phases, the second after the first"
    ) in message


def test_an_exchange_is_no_such_phase() -> None:
    # Partners that both read and write the chunk they exchange do right, so the hint must not blame them.
    @frozen
    class Half(CollectiveAlgorithm):
        """Pairs exchange, and that is all."""

        name: ClassVar[str] = "half"
        patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE})

        def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
            rank = np.arange(request.ranks - request.ranks % 2)
            return Schedule(request.pattern, request.ranks, request.size, 1, [Phase.of(rank, rank ^ 1, 0, reduce=True)])

    message = failures(Half())
    assert "all-reduce needs those of [0, 1, 2]" in message
    assert "in the same repetition" not in message


@frozen
class Boastful(Rings):
    """Says what it cannot do, and does what it does not say."""

    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_GATHER, Pattern.SCATTER})

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        return "" if request.pattern is Pattern.SCATTER else None

    def plan(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return self.schedule(request, view) if request.pattern is not Pattern.GATHER else super().plan(request, view)


def test_refusals() -> None:
    message = failures(Boastful())
    assert "what_it_supports_is_served: scatter is in patterns, yet refused in every group of [1, 2, 3, " in message
    assert (
        "refusals_have_reasons: all-reduce among 1 ranks without levels, 1e+06 B: not refused, yet all-reduce is not "
        "in patterns; end refusal() with return super().refusal(request, view)"
    ) in message


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


def test_configurations_may_serve_fewer_patterns_than_the_class() -> None:
    check_collective(Choosy())
    check_collective(Choosy(gathers=True))
    refusal = Choosy(gathers=True).refusal(CollectiveRequest(Pattern.REDUCE_SCATTER, 4, 1e6), GroupView(4))
    assert refusal == "it does not do reduce-scatter, only all-gather"
    wrong = "what_it_supports_is_served: served_patterns() has scatter, which the class does not have in patterns"
    assert wrong in failures(Choosy("more"))
    wrong = "not refused, yet reduce-scatter is not in served_patterns(); end refusal() with"
    assert wrong in failures(Choosy("open", gathers=True))


@frozen
class OnLines(Rings):
    """Refuses what the kit's own fabrics are."""

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        if [level.kind for level in view.levels] != ["line"]:
            return "the group is on no line"
        return super().refusal(request, view)


def test_an_algorithm_for_certain_fabrics() -> None:
    wrong = "yet refused on star of 8, ring of 8, mesh of 4x2, torus of 3x3; give fabrics= on which it is served"
    assert wrong in failures(OnLines())
    check_collective(OnLines(), fabrics=[grid(5)])


def test_not_deterministic() -> None:
    said = "asked twice, the schedules differ; they may depend on the request, the view and the fields alone"
    assert re.search(f"is_deterministic: all-.*: {said}", failures(Rings("moody")))


@frozen
class Variants(Rings):
    """Gives ``auto`` what it should not try."""

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        return [cls(), cls()] if pattern is Pattern.ALL_GATHER else [cls("twice")]


def test_variants() -> None:
    wrong = "variants_are_valid: variants(all-gather) are ['rings', 'rings']; all of them must be different"
    assert wrong in failures(Variants())


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


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ("size", "with twice the bytes the schedule is another one, although it says proportional"),
        ("view", "equivalent() returns an algorithm that writes another schedule"),
        ("pieces", "undivided() returns an algorithm that sends other bytes between ranks"),
    ],
)
def test_what_auto_is_told(about: str, message: str) -> None:
    found = failures(Untrue(about=about), ranks=(3,))
    assert "what_auto_is_told_is_true: " in found
    assert message in found


@frozen
class WrongVariant(Rings):
    """One of them does something wrong."""

    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE})

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        return [cls(), cls("twice")]


def test_a_wrong_variant() -> None:
    message = failures(WrongVariant())
    assert "fails 1 of 18 checks" in message
    assert "variants_are_valid: variant rings(fault=twice), all-reduce among 3 ranks without levels" in message


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


def test_monotony() -> None:
    message = failures(Capricious())
    assert "more_bandwidth_is_not_slower: all-gather among 9 ranks on a torus of 3x3, 1e+06 B: " in message
    assert "more_bytes_are_not_faster: all-gather among 8 ranks on a star of 8, 1e+06 B: " in message
    assert "with 2 times the bytes" in message


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


def test_phases_that_drift_apart() -> None:
    message = failures(Drifting())
    assert "fails 1 of 18 checks" in message
    assert "stepwise_takes_as_long: all-reduce among 8 ranks on a star of 8, 1e+06 B: " in message
    assert "have them take turns on a channel, or say in expected_failures why that is meant" in message
    check_collective(Drifting(), expected_failures={"stepwise_takes_as_long": "the small part is not worth a channel"})


@frozen
class Rootless(CollectiveAlgorithm):
    """Rank 0 sends to all others, or gets from them, whoever is the root."""

    name: ClassVar[str] = "rootless"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        others = np.arange(1, request.ranks)
        sends = Phase.of(others, 0, 0, reduce=True)
        if request.pattern is Pattern.BROADCAST:
            sends = Phase.of(0, others, 0)
        return Schedule(request.pattern, request.ranks, request.size, 1, [sends])


@pytest.mark.parametrize("pattern", [Pattern.BROADCAST, Pattern.REDUCE])
def test_the_root_is_ignored(pattern: Pattern) -> None:
    # All roots get one schedule, which is right for the first of them.
    wrong = type("Rootless", (Rootless,), {"patterns": frozenset({pattern}), "__doc__": "One of them."})
    assert (
        f"schedules_do_what_they_promise: {pattern} among 2 ranks without levels, root 1, 1e+06 B: root is 0, the "
        "request's is 1"
    ) in failures(frozen(wrong)())


@frozen
class Empty(Rings):
    """Forgets to return what it made."""

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return None  # type: ignore[return-value]  # that is the fault


def test_what_all_checks_stumble_over_is_told_once() -> None:
    message = failures(Empty())
    (line,) = (line for line in message.splitlines() if "returned None" in line)
    assert line.endswith(": Empty.schedule() of 'rings' returned None; expected a fredfw.Schedule")
    assert "\n    in is_the_same_in_another_process, schedules_do_what_they_promise, one_rank_needs_nothing" in message


@frozen
class Undecided(CollectiveAlgorithm):
    """Does not say what it is for."""

    name: ClassVar[str] = "undecided"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return rings(request.pattern, request.size, np.arange(request.ranks)[:, None])


def test_the_contract_comes_first() -> None:
    first = failures(Undecided()).splitlines()[1]
    assert first == ("  keeps_the_contract: Undecided has no patterns; define `patterns: ClassVar[frozenset[Pattern]]`")
