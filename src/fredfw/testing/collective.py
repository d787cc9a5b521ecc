"""What is checked of a collective algorithm: what its schedules do, alone and on fabrics, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Schedule, answers, check
from fredfw.collectives.schedule import carried
from fredfw.errors import ScheduleError, SimulationError, UnsupportedError
from fredfw.experiment.cell.variation import ALL, varied
from fredfw.fabric import Fabric, GroupView, IdealTransport, OpenAdmission
from fredfw.fidelities import COMPRESSED, STEPWISE
from fredfw.simulation import FlowNetwork, Lowering, ScheduleRun, lower_bound
from fredfw.simulation.lowering import operation_of
from fredfw.testing.conformance import EXACT, NOTHING, ConformanceError, Faults, _Tests, check_all, otherwise, where
from fredfw.testing.fabrics import standard, views
from fredfw.testing.process import Deterministic
from fredfw.typing import FloatArray, IntArray

RANKS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17)
"""Group sizes that schedules are replayed for: odd, even, prime, powers of two and products among them."""
_FOR_VARIANTS = (3, 6)
_SIZE = 1e6


@frozen(eq=False)
class Question:
    """A request to an algorithm, and the group it is for; ``place`` is that group in words."""

    request: CollectiveRequest
    view: GroupView
    place: str

    def __str__(self) -> str:
        request = self.request
        root = f", root {request.root}" if request.pattern.rooted else ""
        size = "uneven sizes" if request.sizes is not None else f"{request.size:g} B"
        return f"{request.pattern} among {request.ranks} ranks {self.place}{root}, {size}"


@frozen(eq=False)
class Trial(Question):
    """A question on a fabric, whose ``(ranks,)`` ``members`` are NPU numbers, and the schedule that answers it."""

    fabric: Fabric
    members: IntArray
    schedule: Schedule

    @cached_property
    def run(self) -> tuple[float, FloatArray]:
        """How long it takes, compressed, and the ``(links,)`` bytes that cross each link."""
        return simulate(self.fabric, self.schedule, self.members)

    @property
    def seconds(self) -> float:
        return self.run[0]


@frozen(eq=False, kw_only=True)
class CollectiveCase(Deterministic[CollectiveAlgorithm, Question, Schedule]):
    """An algorithm, the group sizes for which its schedules are replayed, and where they are simulated."""

    shows: ClassVar[str] = "the schedule"
    mend: ClassVar[str] = "it may depend on the request, the view and the fields alone"

    ranks: Sequence[int] = RANKS
    fabrics: Sequence[Fabric] = otherwise(standard)

    @cached_property
    def asked(self) -> list[Question]:
        """See ``Deterministic.asked``: every pattern, in groups of every size and shape and parts of fabrics."""
        groups = [*chain.from_iterable(map(views, self.ranks))]
        for fabric in self.fabrics:
            npus = np.arange(len(fabric.npus))
            parts = (npus, npus[::-1], npus[::2], npus[: len(npus) // 2])
            groups += [(f"on NPUs {one.tolist()} of a {fabric.name}", fabric.view(one)) for one in parts if len(one)]
        return _questions(groups)

    @cached_property
    def replies(self) -> list[tuple[Question, str | None]]:
        return [(one, self.subject.refusal(one.request, one.view)) for one in self.asked]

    def answer(self, question: Question) -> Schedule:
        return _plan(self.subject, question)

    def parts(self, answer: Schedule) -> list[str]:
        return [answer.key]

    @cached_property
    def answers(self) -> list[tuple[Question, Schedule]]:
        return _answers(self.subject, self.asked)

    @cached_property
    def trials(self) -> list[Trial]:
        found = []
        for fabric in self.fabrics:
            for pattern in sorted(self.subject.served_patterns()):
                npus = len(fabric.npus)
                members = np.array([0, npus - 1]) if pattern is Pattern.POINT_TO_POINT else np.arange(npus)
                request = CollectiveRequest(pattern, len(members), _SIZE, root=1 if pattern.rooted and npus > 1 else 0)
                question = Question(request, fabric.view(members), f"on a {fabric.name}")
                if self.subject.refusal(request, question.view) is None:
                    schedule = _plan(self.subject, question)
                    found.append(Trial(request, question.view, question.place, fabric, members, schedule))
        return found

    def seen(self) -> Iterator[str]:
        questions = _questions(chain.from_iterable(map(views, (2, 3, 6, 8))))
        return (schedule.key for _, schedule in _answers(self.subject, questions))

    def schedules_do_what_they_promise(self) -> Faults:
        """Replayed, every schedule carries out its pattern: each contribution once, every chunk where it must be."""
        for question, schedule in self.answers:
            yield from _mistakes(question, schedule)

    def one_rank_needs_nothing(self) -> Faults:
        """The schedule of a group of one has no phases."""
        for question, schedule in self.answers:
            if question.request.ranks == 1 and schedule.phases:
                yield f"{question}: the schedule has {len(schedule.phases)} phases; leave plan() as it is"

    def what_it_supports_is_served(self) -> Faults:
        """Every pattern of the configuration is served in some group, and on one of the fabrics."""
        unknown = sorted(self.subject.served_patterns() - self.subject.patterns)
        if unknown:
            yield f"served_patterns() has {', '.join(unknown)}, which the class does not have in patterns"
        tried = {one.request.pattern for one in self.trials}
        for pattern in sorted(self.subject.served_patterns()):
            reasons = dict.fromkeys(
                refusal for one, refusal in self.replies if one.request.pattern is pattern and one.request.ranks > 1
            )
            if None not in reasons:
                yield (
                    f"{pattern} is in patterns, yet refused in every group of {list(self.ranks)} ranks: "
                    f"{'; '.join(map(str, list(reasons)[:3]))}; take it out of patterns, leave it out of "
                    "served_patterns() for this configuration, or give ranks= where it is served"
                )
            if pattern not in tried:
                fault = f"{pattern} is in patterns, yet refused on {', '.join(one.name for one in self.fabrics)}"
                yield f"{fault}; give fabrics= on which it is served, so that it can be timed"

    def refusals_have_reasons(self) -> Faults:
        """What is not among the patterns of the configuration is refused, and every refusal says why."""
        served = self.subject.served_patterns()
        for question, refusal in self.replies:
            pattern = question.request.pattern
            if refusal is None and pattern not in served:
                named = "served_patterns()" if pattern in self.subject.patterns else "patterns"
                fault = f"{question}: not refused, yet {pattern} is not in {named}"
                yield f"{fault}; end refusal() with return super().refusal(request, view)"
            if refusal is not None and not str(refusal).strip():
                yield f"{question}: refusal() returns no text; a reason in words, or None to serve it"
        for question, refusal in self.replies:
            if refusal is not None:
                try:
                    self.subject.plan(question.request, question.view)
                except UnsupportedError:
                    return
                yield f"{question}: refused, yet plan() returns a schedule; leave plan() as it is"

    def variants_are_valid(self) -> Faults:
        """What ``auto`` tries for a pattern is different algorithms of this class, which do what they promise."""
        for pattern in sorted(self.subject.patterns):
            variants = type(self.subject).variants(pattern)
            names = [str(one) for one in variants]
            if len(set(names)) < len(names):
                yield f"variants({pattern}) are {names}; all of them must be different"
            for variant in variants:
                if not isinstance(variant, type(self.subject)):
                    yield f"variants({pattern}) has {variant} in it, which is no {type(self.subject).__qualname__}"
                if variant != self.subject:
                    of_pattern = [one for one in self.asked if one.request.pattern is pattern]
                    few = [one for one in of_pattern if one.request.ranks in _FOR_VARIANTS]
                    for question, schedule in _answers(variant, few):
                        yield from (f"variant {variant}, {mistake}" for mistake in _mistakes(question, schedule))

    def what_auto_is_told_is_true(self) -> Faults:
        """``equivalent``, ``undivided`` and ``proportional`` say what is so: ``auto`` leaves out candidates by them."""
        subject, undivided = self.subject, self.subject.undivided()
        for question, schedule in self.answers:
            request = question.request
            if request.ranks not in _FOR_VARIANTS or request.sizes is not None or request.size != _SIZE:
                continue
            equivalent = subject.equivalent(question.view)
            if equivalent is not subject and _plan(equivalent, question).key != schedule.key:
                yield f"{question}: equivalent() returns an algorithm that writes another schedule"
            if undivided is not subject:
                sent = _pair_bytes(_plan(undivided, question))
                if not np.allclose(sent, _pair_bytes(schedule), rtol=EXACT, atol=EXACT * request.size):
                    yield f"{question}: undivided() returns an algorithm that sends other bytes between ranks"
            if subject.proportional:
                twice = _plan(subject, evolve(question, request=evolve(request, size=2 * request.size)))
                if twice.key != evolve(schedule, chunk_bytes=2 * np.asarray(schedule.chunk_bytes)).key:
                    yield f"{question}: with twice the bytes the schedule is another one, although it says proportional"

    def bytes_are_conserved(self) -> Faults:
        """What crosses each link is what the rows of the schedule say, chunk by chunk."""
        for trial in self.trials:
            if type(trial.fabric.defaults.admission) is not OpenAdmission:
                continue  # others may carry streams as something else
            wanted = expected_link_bytes(trial.fabric, trial.schedule, trial.members)
            moved = trial.run[1]
            for link in where(~np.isclose(moved, wanted, rtol=EXACT, atol=EXACT)):
                fault = f"{trial}: {moved[link]:g} B cross {trial.fabric.link_name(link)}"
                yield f"{fault}, the rows of the schedule say {wanted[link]:g} B"

    def stepwise_takes_as_long(self) -> Faults:
        """Alone on a fabric, a schedule takes as long step by step as compressed."""
        for trial in self.trials:
            stepwise = simulate(trial.fabric, trial.schedule, trial.members, stepwise=True)[0]
            if not np.isclose(stepwise, trial.seconds, rtol=EXACT, atol=0):
                yield (
                    f"{trial}: {trial.seconds:g} s, and {stepwise:g} s step by step; phases that repeat beside each "
                    "other drift apart, so have them take turns on a channel, or say in expected_failures why that is "
                    "meant"
                )

    def no_bound_is_beaten(self) -> Faults:
        """No schedule is faster than the links allow."""
        for trial in self.trials:
            bound = lower_bound(trial.fabric, trial.request, trial.members).seconds
            if trial.seconds < bound * (1 - EXACT):
                fault = f"{trial}: {trial.seconds:g} s, although no algorithm takes less than {bound:g} s"
                yield f"{fault}; does it move too few bytes?"

    def more_bandwidth_is_not_slower(self) -> Faults:
        """With twice the bandwidth everywhere nothing takes longer."""
        for trial in self.trials:
            fabric = varied(trial.fabric, ALL, 2.0)
            schedule = _plan(self.subject, evolve(trial, view=fabric.view(trial.members)))
            faster = simulate(fabric, schedule, trial.members)[0]
            if faster > trial.seconds * (1 + EXACT):
                yield f"{trial}: {trial.seconds:g} s, and {faster:g} s with twice the bandwidth everywhere"

    def more_bytes_are_not_faster(self) -> Faults:
        """Twice the size takes no less time, and half the size no more."""
        for trial in self.trials:
            for factor in (0.5, 2.0):
                request = evolve(trial.request, size=trial.request.size * factor)
                schedule = _plan(self.subject, evolve(trial, request=request))
                seconds = simulate(trial.fabric, schedule, trial.members)[0]
                if (seconds - trial.seconds) * (factor - 1) < -EXACT * trial.seconds:
                    yield f"{trial}: {trial.seconds:g} s, and {seconds:g} s with {factor:g} times the bytes"


def _pair_bytes(schedule: Schedule) -> FloatArray:
    """Return the ``(ranks, ranks)`` bytes that unicasts carry."""
    table = np.zeros((schedule.ranks, schedule.ranks))
    for phase in schedule.phases:
        alone = np.ones(len(phase), dtype=bool) if phase.stream is None else phase.stream < 0
        for repetition in range(phase.repeat):
            rows = schedule.row_bytes(phase, repetition)[alone]
            np.add.at(table, (phase.source[alone], phase.destination[alone]), rows)
    return table


class CollectiveTests(_Tests, case=CollectiveCase, subjects="algorithms"):
    """Tests of the configured ``algorithms``.

    Schedules are replayed for groups of all ``ranks``, and simulated on small ``fabrics``, by default the kit's own.
    """

    algorithms: ClassVar[Sequence[CollectiveAlgorithm]] = ()
    ranks: ClassVar[Sequence[int]] = RANKS
    fabrics: ClassVar[Sequence[Fabric]] = ()


def check_collective(
    algorithm: CollectiveAlgorithm,
    *,
    ranks: Sequence[int] = RANKS,
    fabrics: Sequence[Fabric] = (),
    plugin: object = None,
    expected_failures: Mapping[str, str] = NOTHING,
) -> None:
    """Check a configured algorithm: its schedules, how long they take, and what it refuses; see ``check_topology``.

    Schedules are replayed for groups of ``ranks``, of many shapes, and simulated on small ``fabrics``, or the kit's.
    """
    case = CollectiveCase(subject=algorithm, plugin=plugin, ranks=ranks, fabrics=fabrics)
    check_all("collective", case, expected_failures)


def _questions(groups: Iterable[tuple[str, GroupView]]) -> list[Question]:
    """Return requests of every pattern in all ``groups``; the first of a size is asked with many roots and sizes."""
    seen: set[int] = set()
    found = []
    for number, (place, view) in enumerate(groups):
        requests = _requests(view.size, number % view.size if view.size in seen else None)
        seen.add(view.size)
        found += [Question(request, view, place) for request in requests]
    return found


def _requests(ranks: int, root: int | None) -> Iterator[CollectiveRequest]:
    """Yield a request of every pattern, with the given ``root``; with ``None``, several roots and sizes."""
    for pattern in Pattern:
        if pattern is Pattern.POINT_TO_POINT and ranks > 2:
            continue
        roots = sorted({0, ranks // 2, ranks - 1}) if root is None else [root]
        for one in roots if pattern.rooted else [0]:
            yield CollectiveRequest(pattern, ranks, _SIZE, one)
        if root is None:
            yield from (CollectiveRequest(pattern, ranks, size) for size in (0.0, 1.0))
    if root is None:
        # Some pairs have nothing for each other.
        sizes: FloatArray = _SIZE * np.random.default_rng(ranks).integers(0, 3, (ranks, ranks)).astype(np.float64)
        yield CollectiveRequest(Pattern.ALL_TO_ALL, ranks, _SIZE, sizes=sizes)


def _plan(algorithm: CollectiveAlgorithm, question: Question) -> Schedule:
    try:
        return answers.written(algorithm, question.request, question.view)
    except ScheduleError as error:
        raise ConformanceError(f"{question}: no valid schedule: {error}") from error


def _answers(algorithm: CollectiveAlgorithm, questions: Iterable[Question]) -> list[tuple[Question, Schedule]]:
    """Return the schedules of what ``algorithm`` does not refuse; of equal ones for equal requests the first."""
    found: dict[object, tuple[Question, Schedule]] = {}
    for question in questions:
        request = question.request
        if algorithm.refusal(request, question.view) is None:
            schedule = _plan(algorithm, question)
            sizes = None if request.sizes is None else request.sizes.tobytes()
            asked = request.pattern, request.ranks, request.root, request.size, sizes
            found.setdefault((schedule.key, asked), (question, schedule))
    return list(found.values())


def _mistakes(question: Question, schedule: Schedule) -> Faults:
    try:
        check(schedule, question.request)
    except ScheduleError as error:
        yield f"{question}: {error}{_hint(schedule)}"


def _hint(schedule: Schedule) -> str:
    """Return, for the author of a wrong schedule, where a phase passes on what arrives only at its end."""
    for index, phase in enumerate(schedule.phases):
        for repetition in range(phase.repeat):
            row, chunk = carried(phase, repetition)
            source, destination = phase.source[row], phase.destination[row]
            arrives, leaves = (rank * schedule.chunks + chunk for rank in (destination, source))
            for at in where(np.isin(leaves, arrives)):
                origins = source[arrives == leaves[at]]
                # Partners that exchange what they have both read and write it, as they should.
                if (origins != destination[at]).all() and not (phase.stream is not None and phase.stream[row[at]] >= 0):
                    return (
                        f"; phase {index} reads chunk {chunk[at]} of rank {source[at]} and writes it in the same "
                        f"repetition ({repetition}), where all reads come before the writes: what arrives is not in "
                        "what is passed on, so that the contribution is lost; make it two phases, the second after "
                        "the first"
                    )
    return ""


def simulate(
    fabric: Fabric, schedule: Schedule, members: IntArray, *, stepwise: bool = False
) -> tuple[float, FloatArray]:
    """Return the seconds and ``(links,)`` bytes of ``schedule`` alone among the NPUs numbered ``members``."""
    fabric = fabric.with_defaults(transport=IdealTransport())  # what a schedule takes, whoever runs it
    network = FlowNetwork(fabric)
    ended: list[IntArray] = []
    groups = fabric.npus[members][None, :]
    fidelity = STEPWISE if stepwise else COMPRESSED
    ScheduleRun(network, Lowering(fabric), schedule, groups, ended.append, fidelity=fidelity).start()
    network.advance()
    if not ended or not network.idle:
        raise SimulationError(f"{schedule.pattern} does not end on {fabric.name!r}: {', '.join(network.stalled())}")
    return network.now, sum(network.link_bytes().values(), np.zeros(len(fabric.bandwidths)))


def expected_link_bytes(fabric: Fabric, schedule: Schedule, members: IntArray) -> FloatArray:
    """Return the ``(links,)`` bytes that ``schedule`` must put on each link, summed chunk by chunk."""
    total = np.zeros(len(fabric.bandwidths))
    nodes = fabric.npus[members]
    sizes: FloatArray = np.broadcast_to(schedule.chunk_bytes, schedule.chunks)
    for phase in schedule.phases:
        stream = np.full(len(phase), -1) if phase.stream is None else phase.stream
        source, destination = nodes[phase.source], nodes[phase.destination]
        routes = fabric.defaults.router.route(fabric, source, destination)
        flow = np.repeat(np.arange(len(phase)), np.diff(routes.offsets))
        share = 1.0 if routes.coefficients is None else routes.coefficients
        trees = {}
        for number in np.unique(stream[stream >= 0]):
            ends = np.unique(source[stream == number]), np.unique(destination[stream == number])
            trees[int(number)] = fabric.defaults.router.tree(fabric, *ends, operation_of(*map(len, ends)))
        for repetition in range(phase.repeat):
            row, chunk = carried(phase, repetition)
            amount = np.bincount(row, sizes[chunk], len(phase))
            amount[stream >= 0] = 0.0
            total += np.bincount(routes.links, amount[flow] * share, len(total))
            for one, tree in trees.items():
                carries = np.unique(chunk[stream[row] == one])
                np.add.at(total, tree.links, sizes[carries].sum())
    return total
