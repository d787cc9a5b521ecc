"""What is checked of the admission of a fabric: random flow sets come and go, from a fixed seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import ClassVar

import numpy as np
from attrs import define, evolve, field, frozen

from fredfw.errors import RefusedError, UnsupportedError
from fredfw.fabric import Fabric, FlowSet, Operation, Routes, Topology
from fredfw.fabric.admission import Admission, Decision, Decompose, Refuse, Split, Start, Wait
from fredfw.plugin.answers import built
from fredfw.simulation import FlowNetwork, answers
from fredfw.testing.conformance import EXACT, NOTHING, Faults, _Tests, check_all, where
from fredfw.testing.process import Deterministic, digest
from fredfw.testing.routes import offered_trees
from fredfw.typing import BoolArray, IntArray

_ROUNDS = 3


@frozen(eq=False)
class Asked:
    """Flows that an admission is asked about; ``(F,)`` ``streams`` says which of them have many ends."""

    flows: FlowSet
    streams: BoolArray
    name: str

    def part(self, flows: IntArray) -> Asked:
        return Asked(self.flows.part(flows), self.streams[flows], f"{len(flows)} of the {self.name}")


@define(eq=False)
class Play:
    """Flow sets that come and go in one simulation."""

    admission: Admission  # a new one
    decisions: list[tuple[Asked, Decision, tuple[FlowSet, ...]]] = field(factory=list)  # with what ran beside
    stranded: list[Asked] = field(factory=list)  # what was told to wait while nothing ran
    _active: list[tuple[Asked, list[Asked]]] = field(factory=list)
    _waiting: list[list[Asked]] = field(factory=list)

    def run(self, sets: Sequence[Asked]) -> Play:
        random = np.random.default_rng(len(sets))
        for one in sets:
            self.ask([one])
            self._strand()
            if self._active and random.random() < 0.4:
                self._end(int(random.integers(len(self._active))))
        while self._active:
            self._end(int(random.integers(len(self._active))))
        return self

    def ask(self, turns: list[Asked]) -> None:
        asked, *rest = turns
        running = tuple(one.flows for one, _ in self._active)
        decision = answers.decision(self.admission, asked.flows, running)
        self.decisions.append((asked, decision, running))
        match decision:
            case Start():
                self._active.append((asked, rest))
            case Wait():
                self._waiting.append(turns)
            case Split():
                self.ask([*(asked.part(np.asarray(part, dtype=np.intp)) for part in decision.parts), *rest])
            case Decompose() | Refuse():
                if rest:
                    self.ask(rest)

    def _end(self, place: int) -> None:
        asked, rest = self._active.pop(place)
        answers.release(self.admission, asked.flows)
        waiting, self._waiting = self._waiting, []
        for turns in waiting:
            self.ask(turns)
        if rest:
            self.ask(rest)
        self._strand()

    def _strand(self) -> None:
        if not self._active:
            self.stranded += [turns[0] for turns in self._waiting]
            self._waiting = []

    @property
    def log(self) -> list[str]:
        said = [f"{asked.name} get {_words(decision)}" for asked, decision, _ in self.decisions]
        figures, notes = sorted(answers.figures(self.admission).items()), answers.notes(self.admission)
        return [*said, f"figures {figures}", f"notes {notes}"]


@frozen(eq=False, kw_only=True)
class AdmissionCase(Deterministic[Topology, list[Asked], Play]):
    """A topology whose fabric has an admission."""

    shows: ClassVar[str] = "what the admission says"
    mend: ClassVar[str] = "a simulation must know nothing of those before it"

    @cached_property
    def fabric(self) -> Fabric:
        return built(self.subject)

    @cached_property
    def asked(self) -> list[list[Asked]]:
        return [_sets(self.fabric, number) for number in range(_ROUNDS)]

    def answer(self, question: list[Asked]) -> Play:
        return self.new().run(question)

    def words(self, question: list[Asked]) -> str:
        return f"{len(question)} flow sets"

    def parts(self, answer: Play) -> list[str]:
        return answer.log

    @property
    def plays(self) -> list[Play]:
        return [play for _, play in self.answers]

    @property
    def decisions(self) -> Iterator[tuple[Asked, Decision]]:
        return ((asked, decision) for play in self.plays for asked, decision, _ in play.decisions)

    def new(self) -> Play:
        return Play(answers.admission(self.fabric))

    def decisions_are_well_formed(self) -> Faults:
        """Every answer is a decision: set-ups and caps of 0 or more, parts with every flow once, reasons in words."""
        for asked, decision in self.decisions:
            if isinstance(decision, Start):
                once: object = decision.setup_once
                if not isinstance(once, bool | np.bool_):
                    yield f"for {asked.name}, setup_once is {once!r}; True or False"
                continue
            reason: object = decision.reason
            if not isinstance(reason, str):
                yield f"for {asked.name}, the reason is {reason!r}; a text"
            if isinstance(decision, Refuse | Decompose) and not decision.reason.strip():
                yield f"for {asked.name}, {type(decision).__name__} has no reason; say why, in words"

    def caps_keep_to_those_of_the_flows(self) -> Faults:
        """Caps of a start replace those that the flows have, so they are never higher."""
        for asked, decision in self.decisions:
            caps = asked.flows.caps
            if isinstance(decision, Start) and decision.caps is not None and caps is not None:
                for flow in where(decision.caps > caps * (1 + EXACT)):
                    fault = f"of {asked.name}, flow {flow} has a cap of {caps[flow]:g} B/s"
                    yield f"{fault} and gets one of {decision.caps[flow]:g} B/s; return the smaller of the two"

    def compatible_flows_start_at_once(self) -> Faults:
        """Flows that the admission says are compatible with what runs start at once, without a set-up or caps."""
        for play in self.plays:
            for asked, decision, beside in play.decisions:
                plain = isinstance(decision, Start) and decision.setup == 0 and decision.caps is None
                if not plain and answers.compatible(play.admission, [asked.flows, *beside]):
                    said = "compatible() says that they start at once beside what runs, without a set-up or caps"
                    yield f"for {asked.name}, the answer is not a plain Start, although {said}; return False there"

    def only_streams_are_decomposed(self) -> Faults:
        """Flows are decomposed only where one of them has many ends: unicasts have nothing to be decomposed into."""
        for asked, decision in self.decisions:
            if isinstance(decision, Decompose) and not asked.streams.any():
                yield f"{asked.name} are decomposed, but they are unicasts; refuse, split or have them wait"

    def waits_end(self) -> Faults:
        """Nothing waits where nothing runs: what waits is asked about again only when something is released."""
        for play in self.plays:
            for asked in play.stranded:
                fault = f"{asked.name} wait for ever: nothing runs any more that could be released"
                yield f"{fault}; free in release() all that admit() takes, and refuse what can never run"

    def release_undoes_admit(self) -> Faults:
        """When all is released, flows are started, split or refused as in a new simulation, apart from the set-up."""
        for sets in self.asked:
            used = self.new().run(sets).admission
            for one in sets:
                plays = [play.run([one]) for play in (self.new(), Play(used))]
                said = [[_words(decision, setup=False) for _, decision, _ in play.decisions] for play in plays]
                for before, after in zip_longest(*said, fillvalue="nothing"):
                    if before != after:
                        fault = f"alone, {one.name} get {before}, and {after} after others have come and gone"
                        yield f"{fault}; free in release() all that admit() takes"

    def everything_arrives(self) -> Faults:
        """In a simulation all flows that are not refused end, each once, whatever waits or is split."""
        for sets in self.asked:
            network = FlowNetwork(self.fabric)
            ended: dict[int, list[int]] = {}
            for number, one in enumerate(sets):
                if one.streams.any():
                    continue  # they may be decomposed, and only collectives say into what
                done = ended[number] = []
                try:
                    network.start(one.flows, done.extend, checked=True)
                except RefusedError:
                    del ended[number]
            network.advance()
            for number, done in ended.items():
                if sorted(done) != list(range(sets[number].flows.activities)):
                    fault = f"of {sets[number].name}, {len(done)} of {sets[number].flows.activities} activities end"
                    stalled = ", ".join(network.stalled()) or "nothing"
                    yield f"{fault}; {stalled} cannot go on: a cap of 0, or a wait without end"

    def figures_and_notes_are_well_formed(self) -> Faults:
        """After a simulation the figures are finite numbers by name, and the notes are texts that say something."""
        for play in self.plays:
            named = answers.figures(play.admission)
            if not all(name.strip() for name in named):
                yield f"figures() returns {named}; names say what the figure is, and its unit"
            if not all(note.strip() for note in answers.notes(play.admission)):
                yield "notes() has an empty text in it; return only what a reader must know"

    def is_deterministic(self) -> Faults:
        """It gives the same answers in a new simulation, and it does not change its arguments."""
        yield from super().is_deterministic()
        if digest(_given(self.asked)) != digest(_given(evolve(self).asked)):
            yield "admit() changes the flows it is given; copy what has to change"


class AdmissionTests(_Tests, case=AdmissionCase, subjects="topologies"):
    """Tests of the admission of what the configured ``topologies`` build, on random flow sets."""

    topologies: ClassVar[Sequence[Topology]] = ()


def check_admission(
    topology: Topology, *, plugin: object = None, expected_failures: Mapping[str, str] = NOTHING
) -> None:
    """Check the admission of what a configured topology builds, on random flow sets; see ``check_topology``."""
    check_all("admission of", AdmissionCase(subject=topology, plugin=plugin), expected_failures)


def _sets(fabric: Fabric, seed: int) -> list[Asked]:
    """Return flow sets: unicasts, and streams where they are offered; of several classes, some capped or repeated."""
    npus = fabric.npus
    found: list[Asked] = []
    earlier: list[Asked] = []
    random = np.random.default_rng(seed)
    for number in range(12 if len(npus) > 1 else 0):
        if number % 5 == 4:
            found.append(earlier[int(random.integers(len(earlier)))])  # the same flows may run several times at once
            continue
        streams = _streams(fabric, random) if number % 2 else []
        if number % 3 == 2:  # everybody to somebody
            order = random.permutation(npus)
            sources, destinations = npus[order != npus], order[order != npus]
        else:
            sources, destinations = npus[random.choice(len(npus), (2, int(random.integers(1, 12))))]
        if streams and number % 4 == 1:
            sources, destinations = sources[:0], destinations[:0]
        routes = Routes.concatenate([fabric.defaults.router.route(fabric, sources, destinations), *streams])
        count = len(routes)
        caps = random.choice([0.01, 0.1, 1.0], count) * fabric.bandwidths.max() if number % 4 >= 2 else None
        flows = FlowSet(
            routes,
            random.uniform(1e3, 1e6, count),
            np.arange(count),
            count,
            repeat=int(random.integers(1, 4)),
            caps=caps,
            priority=int(random.integers(2)),
            label=f"flows {number}",
        )
        earlier.append(Asked(flows, np.arange(count) >= len(sources), f"{count} flows (set {number}) on {fabric.name}"))
        found.append(earlier[-1])
    return found


def _streams(fabric: Fabric, random: np.random.Generator) -> list[Routes]:
    kinds = [operation for operation, offered in offered_trees(fabric.offers).items() if offered]
    found: list[Routes] = []
    left = random.permutation(fabric.npus)
    while kinds and len(left) >= 2 and len(found) < 3:
        size = int(random.integers(2, len(left) + 1))
        group, left = left[:size], left[size:]
        operation = kinds[int(random.integers(len(kinds)))]
        sources = group[:1] if operation is Operation.MULTICAST else group
        destinations = group[:1] if operation is Operation.REDUCE else group
        try:
            found.append(fabric.defaults.router.tree(fabric, sources, destinations, operation))
        except UnsupportedError:
            continue
    return found


def _words(decision: Decision, *, setup: bool = True) -> str:
    """Return a decision in words that are equal where decisions are; without what a set-up costs if not ``setup``."""
    match decision:
        case Start():
            costs = [f"a set-up of {decision.setup:g} s{' once' * bool(decision.setup_once)}"] if setup else []
            caps = [] if decision.caps is None else [f"caps {decision.caps.tolist()}"]
            return " with ".join(["a start", *costs, *caps])
        case Split():
            return f"a split into {[np.asarray(part).tolist() for part in decision.parts]}"
    return {Wait: "a wait", Refuse: "a refusal", Decompose: "decomposed"}[type(decision)]


def _given(asked: Iterable[Sequence[Asked]]) -> Iterator[object]:
    for flows in (one.flows for sets in asked for one in sets):
        yield from (flows.routes.offsets, flows.routes.links, flows.volumes, flows.activity, flows.caps)
