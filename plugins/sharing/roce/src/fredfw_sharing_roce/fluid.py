"""Flows as fluids: queues on the links that they cross, and senders that hear of them late."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from attrs import define, evolve, frozen

from fredfw import ActiveFlows, Dynamics, Fabric, HeldRates, Incidence, Samples, StatefulSharing, max_min, units
from fredfw.errors import DeadlockError, InputError, UnsupportedError, placed
from fredfw.typing import BoolArray, FloatArray, IntArray
from fredfw_sharing_roce.paths import Paths

State = dict[str, FloatArray]

# The shortest step, as a share of a usual one: until a sender is done, and until a queue is empty.
_SENT, _EMPTY = 1e-6, 1 / 16
_RESOLVED = 4 * (1 - 1e-9)  # steps until a sender hears of a queue, so that it hears of it when it should
_ROUNDING = 1e-9  # so small a share of a flow is rounding
_ROWS, _BUSIEST = 1024, 4  # so many rows of queues are kept, and so many links with the longest ones are shown


def _starts(value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    accepted = f"{units.accepted(units.Unit.BYTES_PER_SECOND)}, more than 0, or a list of them"
    listed = value if isinstance(value, list | tuple) else (value,)
    with placed(key="start"):
        rates = tuple(units.parse(one, units.Unit.BYTES_PER_SECOND) for one in listed)
    if not rates or min(rates) <= 0:
        raise InputError(f"{value!r} is not a rate", key="start", accepted=accepted)
    return rates


class History:
    """Rows of numbers, one for each step; 0 for steps that had none."""

    def __init__(self, width: int) -> None:
        self._rows = np.zeros((64, width))
        self._last = -1

    def put(self, step: int, row: FloatArray) -> None:
        """Say what the ``(width,)`` numbers are at ``step``, which is never less than before."""
        size = len(self._rows)
        self._rows[np.arange(max(self._last, step - size) + 1, step) % size] = 0.0
        self._rows[step % size] = row
        self._last = step

    def at(self, back: IntArray, columns: IntArray) -> FloatArray:
        """Return the ``(K,)`` numbers of ``columns``, each as many steps before the last as ``back`` says."""
        if len(back) and (most := int(back.max())) >= len(self._rows):
            old, self._rows = self._rows, np.zeros((2 * most + 2, self._rows.shape[1]))
            steps = np.arange(self._last - len(old) + 1, self._last + 1)
            self._rows[steps % len(self._rows)] = old[steps % len(old)]
        return self._rows[(self._last - back) % len(self._rows), columns]

    def select(self, columns: IntArray, fresh: FloatArray) -> None:
        """Keep ``columns``; add those of which all numbers are the ``fresh`` ones."""
        new = np.broadcast_to(fresh, (len(self._rows), len(fresh)))
        self._rows = np.concatenate([self._rows[:, columns], new], axis=1)


class Feedback:
    """What senders know: signals of links and rates of their own, of some time ago."""

    def __init__(self, links: int, step: float) -> None:
        self.line = np.zeros(0)  # ``(F,)`` bytes per second of the first link of each flow
        self.rtt = np.zeros(0)  # ``(F,)`` seconds that the network takes to tell a sender something, without queues
        self.age = np.zeros(0)  # ``(F,)`` seconds since each flow began
        self.capacities = np.zeros(links)  # ``(links,)`` bytes per second
        self.waits = np.zeros(links)  # ``(links,)`` seconds that a packet waits for each link now
        self.step = step
        self.paths = Paths(np.zeros(1, dtype=np.intp), np.zeros(0, dtype=np.intp), None, links)
        self.signals, self.rates = History(links), History(0)

    def rate(self, delay: FloatArray) -> FloatArray:
        """Return the ``(F,)`` bytes per second that each flow sent ``delay`` seconds ago."""
        return self.rates.at(self._back(delay), np.arange(len(delay)))

    def marked(self, delay: FloatArray) -> FloatArray:
        """Return the ``(F,)`` share of packets that was marked ``delay`` seconds ago, where each link marks a share."""
        spared = np.ones(len(delay))
        np.multiply.at(spared, self.paths.flows, 1.0 - self._signals(delay))
        return np.where(self.age < delay, 0.0, 1.0 - spared)

    def total(self, delay: FloatArray) -> FloatArray:
        """Return the ``(F,)`` sum of the signals of each flow's links, ``delay`` seconds ago."""
        totals = np.bincount(self.paths.flows, self._signals(delay), len(delay))
        return np.where(self.age < delay, 0.0, totals)

    def worst(self, delay: FloatArray) -> FloatArray:
        """Return the ``(F,)`` largest signal of each flow's links, ``delay`` seconds ago."""
        return np.where(self.age < delay, 0.0, self._most(self._signals(delay)))

    def queued(self) -> FloatArray:
        """Return the ``(F,)`` seconds that a packet of each flow waits for its links now."""
        return np.bincount(self.paths.flows, self.waits[self.paths.links], len(self.line)).astype(float)

    def most(self, values: FloatArray) -> FloatArray:
        """Return the ``(F,)`` largest of the ``(links,)`` values of each flow's links, at least 0."""
        return self._most(values[self.paths.links])

    def _most(self, values: FloatArray) -> FloatArray:
        found = np.zeros(len(self.line))
        np.maximum.at(found, self.paths.flows, values)
        return found

    def _signals(self, delay: FloatArray) -> FloatArray:
        return self.signals.at(self._back(delay)[self.paths.flows], self.paths.links)

    def _back(self, delay: FloatArray) -> IntArray:
        return np.maximum(np.rint(delay / self.step).astype(np.intp), 0)


class Records:
    """Queues over time, of ``fabric``."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._seconds: list[float] = []
        self._largest: list[float] = []
        self._pause = np.zeros(len(fabric.bandwidths))
        self._times: list[float] = []
        self._rows: list[FloatArray] = []
        self._pauses: list[FloatArray] = []
        self._peaks = np.zeros(len(fabric.bandwidths))
        self._every, self._count = 1, 0

    def passed(self, begin: float, seconds: float, queues: FloatArray, paused: BoolArray) -> None:
        self._seconds.append(seconds)
        self._largest.append(float(queues.max(initial=0.0)))
        self._pause = self._pause + seconds * paused if paused.any() else self._pause
        np.maximum(self._peaks, queues, out=self._peaks)
        if self._count % self._every == 0 and not (self._times and begin + seconds <= self._times[-1]):
            self._times.append(begin + seconds)
            self._rows.append(queues.astype(np.float32))
            self._pauses.append(self._pause)
            if len(self._rows) == _ROWS:  # then keep every other one
                self._times, self._rows, self._pauses = self._times[::2], self._rows[::2], self._pauses[::2]
                self._every *= 2
        self._count += 1

    def figures(self, now: float) -> Mapping[str, float]:
        """Return numbers of the largest queue at each time, of the ``now`` seconds that the simulation took."""
        seconds, largest = np.array(self._seconds), np.array(self._largest)
        order = np.argsort(largest, kind="stable")[::-1]
        longer = np.cumsum(seconds[order]) > 0.01 * now  # the larger queues together last for a hundredth
        found = {
            "steps of the integration": float(len(seconds)),
            "largest queue, mean (B)": float((seconds * largest).sum() / now) if now > 0 else 0.0,
            "largest queue, P99 (B)": float(largest[order][longer.argmax()]) if longer.any() else 0.0,
            "largest queue, maximum (B)": float(largest.max(initial=0.0)),
        }
        if self._pause.any():
            found["pause of all links (s)"] = float(self._pause.sum())
            found["longest pause of a link (s)"] = float(self._pause.max())
        for link in self._most(self._peaks):
            found[f"queue of {self._fabric.link_name(link)}, maximum (B)"] = float(self._peaks[link])
        for link in self._most(self._pause):
            found[f"pause of {self._fabric.link_name(link)} (s)"] = float(self._pause[link])
        return found

    def samples(self) -> Mapping[str, Samples]:
        times, name = np.array(self._times), self._fabric.link_name
        queues = {f"queue of {name(link)}": _column(times, self._rows, link, "B") for link in self._most(self._peaks)}
        pauses = {f"pause of {name(link)}": _column(times, self._pauses, link, "s") for link in self._most(self._pause)}
        return queues | pauses

    def _most(self, amounts: FloatArray) -> list[int]:
        order = np.argsort(-amounts, kind="stable")[:_BUSIEST]
        return [int(link) for link in order if amounts[link] > _ROUNDING]


def _column(times: FloatArray, rows: list[FloatArray], link: int, unit: str) -> Samples:
    return Samples(times, np.array([row[link] for row in rows], dtype=float), unit)


@define
class Plan:
    """What happens in a step: amounts are linear in time."""

    begin: float  # seconds
    length: float  # seconds
    arriving: FloatArray  # ``(P,)`` bytes that come to each link of each flow
    served: FloatArray  # ``(P,)`` bytes that leave it
    rates: FloatArray  # ``(F,)`` bytes per second that the engine is told
    sending: FloatArray  # ``(F,)`` bytes per second that are sent


@frozen
class Fluid(StatefulSharing):
    """Senders with a rate each, and what changes it; a state is ``(F,)`` arrays, ``rate`` what flows want to send."""

    hears: ClassVar[bool] = True  # whether senders hear of queues

    step: float = units.quantity(
        units.Unit.SECONDS, 1e-6, exclusive=True, help="step of the integration; at most a quarter of the delay"
    )
    delay: float | None = units.quantity(
        units.Unit.SECONDS,
        None,
        exclusive=True,
        help="time until a sender hears of a queue; default: twice the latency of its way",
    )
    start: tuple[float, ...] | None = units.option(
        None,
        converter=_starts,
        help="rate at which flows start, or a list that they take in turn; default: that of their first link",
    )

    def begin(self, fabric: Fabric) -> Dynamics:
        if self.hears and self.delay is None and not fabric.latencies.any():
            raise UnsupportedError(
                f"is not given, and links of fabric {fabric.name!r} have no latency: nothing says how late senders of "
                f"{self.name!r} hear of queues",
                key="sharing.delay",
                accepted=f"{units.accepted(units.Unit.SECONDS)}, more than 0",
            )
        return FluidDynamics(self, fabric)

    def born(self, rate: FloatArray, rtt: FloatArray) -> State:
        """Return the state of ``(F,)`` flows that start at ``rate``, without ``rate`` itself; none by default."""
        return {}

    def signal(self, queues: FloatArray, carried: FloatArray, capacities: FloatArray) -> FloatArray:
        """Return the ``(links,)`` signal of links with ``queues`` bytes that carry so many per second; 0 by default."""
        return np.zeros(len(queues))

    @abstractmethod
    def advance(self, state: State, feedback: Feedback, elapsed: float) -> None:
        """Let ``elapsed`` seconds pass in ``state``; rates are kept between 0 and the line's by the caller."""

    def paused(self, paused: BoolArray, buffered: FloatArray) -> BoolArray:
        """Return which ``(links,)`` may not send, where ``buffered`` bytes wait at their far ends; none by default."""
        return paused

    def deadlock(self, paths: Paths, backlog: FloatArray, paused: BoolArray) -> list[int]:
        """Return links that pause each other for ever, where ``(P,)`` bytes wait; none by default."""
        return []

    @property
    @abstractmethod
    def approximations(self) -> tuple[str, ...]:
        """What is approximated, for notes."""


class FluidDynamics(Dynamics):
    """The fluids of one simulation."""

    def __init__(self, policy: Fluid, fabric: Fabric) -> None:
        links = len(fabric.bandwidths)
        self.policy = policy
        self.step = policy.step if policy.delay is None else min(policy.step, policy.delay / 4)
        self.state: State = {"rate": np.zeros(0)}  # ``(F,)`` numbers by name
        self.queues = np.zeros(links)  # bytes that wait for each link
        self.feedback = Feedback(links, self.step)
        self._fabric = fabric
        self._ids: IntArray = np.zeros(0, dtype=np.intp)
        self._births = np.zeros(0)
        self._backlog = np.zeros(0)  # (P,) bytes at each link of each flow
        self._coming = np.zeros(0)  # (P,) bytes that left the link before, where that was served later in the step
        self._arrived = np.zeros(0)  # (F,) bytes that came to the end, of which the engine does not know
        self.feedback.capacities = fabric.bandwidths
        self._paused = np.zeros(links, dtype=bool)
        self._plan: Plan | None = None
        self._records = Records(fabric)
        self._shortest = np.inf  # seconds until a sender heard of a queue, of all flows so far

    def rates(self, flows: ActiveFlows, capacities: FloatArray, now: float) -> HeldRates:
        self._commit(now)
        if not np.array_equal(flows.ids, self._ids):
            self._follow(flows, capacities)
        self.feedback.capacities = capacities
        self.feedback.line = self._line(flows.incidence, capacities)
        self.feedback.age = now - self._births
        plan = self._plan = self._planned(flows, now)
        if not plan.rates.any() and (capacities[self.feedback.paths.links] <= 0).any() and self._closed(capacities):
            return HeldRates(plan.rates)
        return HeldRates(plan.rates, now + plan.length)

    def figures(self, now: float) -> Mapping[str, float]:
        return self._records.figures(now)

    def samples(self) -> Mapping[str, Samples]:
        return self._records.samples()

    def notes(self) -> tuple[str, ...]:
        step, shortest = (units.render(one, units.Unit.SECONDS) for one in (self.step, self._shortest))
        said = [
            f"a fluid model, integrated in steps of {step}; the link at which a flow starts has no queue, for the "
            "sender divides it"
        ]
        if self._shortest < _RESOLVED * self.step:
            said.append(
                f"senders hear of queues after {shortest}, less than four steps of {step}: queues, rates and times are "
                "coarse, and a shorter step is finer"
            )
        return tuple(f"{self.policy.name}: {one}" for one in (*said, *self.policy.approximations))

    def _closed(self, capacities: FloatArray) -> bool:
        paths = self.feedback.paths
        return bool(np.bincount(paths.flows, capacities[paths.links] <= 0, len(self._ids)).all())

    def _line(self, incidence: Incidence, capacities: FloatArray) -> FloatArray:
        paths = self.feedback.paths
        line = np.full(len(incidence), np.inf)
        line[paths.flows[paths.first]] = capacities[paths.links[paths.first]]
        return line if incidence.caps is None else np.minimum(line, incidence.caps)

    def _commit(self, now: float) -> None:
        plan, self._plan = self._plan, None
        if plan is None or now <= plan.begin:
            return
        feedback = self.feedback
        paths, capacities = feedback.paths, feedback.capacities
        elapsed = min(now - plan.begin, plan.length)
        share = elapsed / plan.length
        self._backlog = np.maximum(self._backlog + share * (plan.arriving - plan.served), 0.0)
        self._coming = paths.onward(share * plan.served, self._coming * (1 - share))
        ends = share * paths.delivered(plan.served, len(self._ids))
        self._arrived = np.maximum(self._arrived + ends - elapsed * plan.rates, 0.0)
        self._arrived[paths.bare] = 0.0
        carried = paths.load(plan.served) / plan.length
        self.policy.advance(self.state, feedback, elapsed)
        most = np.where(feedback.line > 0, feedback.line, np.inf)  # a closed link does not make a sender forget
        np.clip(self.state["rate"], 0.0, most, out=self.state["rate"])
        self.queues = paths.load(self._backlog)
        feedback.waits = np.divide(self.queues, capacities, out=np.zeros(len(capacities)), where=capacities > 0)
        number = self._number(plan.begin + elapsed)
        feedback.signals.put(number, self.policy.signal(self.queues, carried, capacities))
        feedback.rates.put(number, plan.sending)
        self._records.passed(plan.begin, elapsed, self.queues, self._paused)
        paused = self.policy.paused(self._paused, paths.buffered(self._backlog))
        if (paused & ~self._paused).any():
            self._check_deadlock(paused, now)
        self._paused = paused

    def _check_deadlock(self, paused: BoolArray, now: float) -> None:
        if links := self.policy.deadlock(self.feedback.paths, self._backlog, paused):
            names = ", ".join(self._fabric.link_name(link) for link in links)
            raise DeadlockError(
                f"{self.policy.name}: after {units.render(now, units.Unit.SECONDS)}, links pause each other for ever, "
                f"each for what waits for the next: {names}; change the routes so that buffers form no cycle"
            )

    def _number(self, time: float) -> int:
        return int(time / self.step + 1e-6)

    def _follow(self, flows: ActiveFlows, capacities: FloatArray) -> None:
        feedback, old = self.feedback, self.feedback.paths
        places = np.searchsorted(self._ids, flows.ids)
        known = places < len(self._ids)
        known[known] = self._ids[places[known]] == flows.ids[known]
        kept = places[known]
        incidence = flows.incidence
        paths = feedback.paths = Paths(incidence.offsets, incidence.links, incidence.coefficients, len(capacities))
        mine = known[paths.flows]  # pairs of flows that stay
        from_pairs = (old.offsets[:-1][kept])[np.cumsum(known)[paths.flows[mine]] - 1] + paths.places[mine]
        for name in ("_backlog", "_coming"):
            moved = np.zeros(len(paths.links))
            moved[mine] = getattr(self, name)[from_pairs]
            setattr(self, name, moved)
        arrived, self._arrived = self._arrived, np.zeros(len(flows))
        self._arrived[known] = arrived[kept]
        fresh = ~known  # new flows have the largest numbers
        line = self._line(incidence, capacities)[fresh]
        starts = (np.inf,) if self.policy.start is None else self.policy.start
        rate = np.minimum(np.array(starts)[flows.ids[fresh] % len(starts)], line)
        rtt = np.full(len(flows), self.policy.delay) if self.policy.delay is not None else 2 * flows.latencies
        self._shortest = min(self._shortest, rtt[rtt > 0].min(initial=np.inf))
        feedback.rtt = np.maximum(rtt, self.step)
        begun = {"rate": rate, **self.policy.born(rate, feedback.rtt[fresh])}
        olds = self.state if len(self.state) == len(begun) else {name: np.zeros(0) for name in begun}
        self.state = {name: np.concatenate([olds[name][kept], new]) for name, new in begun.items()}
        feedback.rates.select(kept, rate)
        self._ids, self._births = flows.ids, flows.births

    def _planned(self, flows: ActiveFlows, now: float) -> Plan:
        paths, capacities = self.feedback.paths, np.where(self._paused, 0.0, self.feedback.capacities)
        if (length := (self._number(now) + 1) * self.step - now) < _SENT * self.step:
            length += self.step
        wanted = np.where(np.isfinite(self.state["rate"]), np.minimum(self.state["rate"], self.feedback.line), 0.0)
        sending = paths.divided(wanted, capacities)
        inside = np.bincount(paths.flows, self._backlog + self._coming, len(flows)) + self._arrived
        unsent = np.maximum(flows.remaining - inside, 0.0)
        going = (unsent > 0) & (sending > 0)
        # A step ends with senders that are done, and with flows of which the last bytes leave a queue.
        rounding = _ROUNDING * flows.sizes
        ending = going & ((unsent > rounding) | (flows.remaining <= rounding))
        ends = np.divide(unsent, sending, out=np.full(len(flows), np.inf), where=ending)

        def served_in(length: float) -> tuple[FloatArray, FloatArray, FloatArray]:
            sent = np.where(going, np.minimum(sending * length, unsent), 0.0)
            return sent, *paths.serve(sent, self._backlog, self._coming, capacities * length)

        length = min(length, max(_soon(ends), _SENT * self.step))
        sent, arriving, served = served_in(length)
        last = ~ending & (paths.delivered(served, len(flows)) + self._arrived >= flows.remaining - rounding)
        shorter = max(_soon(self._emptied(last, arriving / length, capacities)), _EMPTY * self.step)
        if shorter < length:
            length = shorter
            sent, arriving, served = served_in(length)
        sending = sent / length
        rates = (paths.delivered(served, len(flows)) + self._arrived) / length
        if (caps := flows.incidence.caps) is not None:
            rates = np.minimum(rates, caps)
        load = flows.incidence.load(rates, len(capacities))
        if (load > self.feedback.capacities * (1 + 1e-9)).any():
            # The engine has all links of a flow carry it at once; what does not fit is told later.
            rates = max_min(evolve(flows.incidence, caps=rates, weights=None), self.feedback.capacities)
        rates[paths.bare] = np.inf if caps is None else caps[paths.bare]
        return Plan(now, length, arriving, served, rates, sending)

    def _emptied(self, last: BoolArray, arriving: FloatArray, capacities: FloatArray) -> FloatArray:
        """Return the ``(F,)`` seconds until all queues of each of the ``last`` flows are empty; infinite for others."""
        ends = np.full(len(last), np.inf)
        if _enough(len(last)) <= np.count_nonzero(last):
            paths = self.feedback.paths
            waiting, spare = paths.load(self._backlog), capacities - paths.load(arriving)
            empty = np.divide(waiting, spare, out=np.zeros(len(waiting)), where=spare > 0)
            there = np.flatnonzero(last[paths.flows] & (self._backlog > 0))
            ends[paths.flows[there]] = 0.0
            np.maximum.at(ends, paths.flows[there], empty[paths.links[there]])
        return ends


def _enough(flows: int) -> int:
    """Return how many of so many flows have to be done for a step to end: one, or a 64th."""
    return -(-flows // 64)


def _soon(ends: FloatArray) -> float:
    """Return when enough of ``(F,)`` flows are done; the few before wait for that, at most until the step's end."""
    count = _enough(len(ends))
    return float(np.partition(ends, count - 1)[count - 1]) if count else np.inf
