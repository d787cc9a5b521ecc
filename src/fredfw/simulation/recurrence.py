"""When ranks get how far in a schedule whose flows meet nobody: a recurrence over ranks, without events.

A flow that has its links to itself drains in a time that is known. When a rank has done a step is then the latest of
some sums of times before: of when it was ready, and of when each of the ranks that it waits for was ready, plus what
their flows take. That is a linear map in the max-plus algebra (Baccelli et al., "Synchronization and Linearity", 1992).
It commutes with waiting, and it brings no two vectors of times further apart. So where one step adds the same to all
ranks, each later step of the phase does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial

import numpy as np
from attrs import frozen

from fredfw.collectives import Schedule
from fredfw.fabric import FlowSet
from fredfw.simulation.channels import ancestors, choices
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.parties import Parties, Table
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.sharing import Incidence
from fredfw.typing import FloatArray, IntArray

# A jump over steps may be off by so much, relative: less than the rounding of the steps.
_EXACT = 1e-13


@frozen(eq=False)
class Standing:
    """How far a phase is at some moment; nodes and flows as ``Parties`` numbers them.

    Args:
        step: ``(nodes,)`` repetition that each is in, -1 before it is ready, all of them once it is through.
        started: ``(flows,)`` how often each has started.
        drained: ``(flows,)`` how often each has drained.
        delivered: ``(flows,)`` how often each was delivered.
        left: ``(flows,)`` bytes that each still has to send of its latest start.
        carried: ``(flows,)`` bytes that each has sent.
        arrivals: Flows that have drained and are not delivered, and in how many seconds they will be.
    """

    step: IntArray
    started: IntArray
    drained: IntArray
    delivered: IntArray
    left: FloatArray
    carried: FloatArray
    arrivals: list[tuple[IntArray, FloatArray]]


class Steps:
    """The repetitions of one phase.

    Args:
        flows: The flows of all groups.
        parties: Who takes part.
        rates: ``(flows,)`` bytes per second.
        repeat: How many repetitions there are.
        volumes: Returns the ``(flows,)`` bytes of one, or ``None`` where they are those of ``flows`` in all.
    """

    def __init__(
        self,
        flows: FlowSet,
        parties: Parties,
        rates: FloatArray,
        repeat: int,
        volumes: Callable[[int], FloatArray] | None,
    ) -> None:
        self.flows, self.parties, self.repeat = flows, parties, repeat
        self._rates = rates
        self._various = volumes
        nodes = np.arange(len(parties.sends))
        self._members = nodes[(parties.sends.count(nodes) > 0) | (parties.receives.count(nodes) > 0)]
        place = np.zeros(len(nodes), dtype=np.intp)
        place[self._members] = np.arange(len(self._members))
        # What is sent keeps a node until it has drained, what is received until it is delivered.
        sizes = len(self._members), len(flows.volumes)
        self._layers = [(False, *layer) for layer in _layers(parties.sends, place, *sizes)]
        self._layers += [(True, *layer) for layer in _layers(parties.receives, place, *sizes)]
        self._starters, self._bounds = place[parties.starters.values], parties.starters.offsets[:-1]
        if len(self._starters) == len(self._bounds):
            self._bounds = self._bounds[:0]  # one each
        self._begins = _slice(self._starters, len(self._members))
        self._waits = self._weights(0)

    def volumes(self, repetition: int) -> FloatArray:
        """Return the ``(flows,)`` bytes of a repetition."""
        return self.flows.volumes if self._various is None else self._various(repetition)

    def drains(self, repetition: int) -> FloatArray:
        """Return the ``(flows,)`` seconds that each takes to drain."""
        volumes, free = self.volumes(repetition), np.diff(self.flows.routes.offsets) == 0
        needed: FloatArray = np.divide(volumes, self._rates, out=np.zeros(len(volumes)), where=(volumes > 0) & ~free)
        return needed

    def _weights(self, repetition: int) -> list[FloatArray]:
        drains = self.drains(repetition)
        arrivals = drains + self.flows.routes.latencies
        return [(arrivals if delivered else drains)[flows] for delivered, _, flows in self._layers]

    def begin(self, ready: FloatArray) -> FloatArray:
        """Return when the ``(flows,)`` start where ``(members,)`` nodes are ready."""
        times: FloatArray = ready[self._begins]
        return np.maximum.reduceat(times, self._bounds) if len(self._bounds) else times

    def step(self, ready: FloatArray, repetition: int) -> FloatArray:
        """Return when the ``(members,)`` nodes are done with a repetition that they are ready for."""
        waits = self._waits if self._various is None else self._weights(repetition)
        begin, done = self.begin(ready), ready.copy()
        for (_, nodes, flows), weights in zip(self._layers, waits, strict=True):
            done[nodes] = np.maximum(done[nodes], begin[flows] + weights)
        return done

    def through(self, ready: FloatArray) -> FloatArray:
        """Return when the ``(nodes,)`` are through with the phase that they are ready for."""
        done = ready.copy()
        if len(self._members):
            done[self._members] = self._all(ready[self._members])
        return done

    def _all(self, ready: FloatArray) -> FloatArray:
        if self._rotation is not None:
            return self._rotate(ready, *self._rotation)
        for repetition in range(self.repeat):
            done = self.step(ready, repetition)
            left = self.repeat - repetition - 1
            if self._various is None and (repetition & (repetition + 1)) == 0:  # now and then
                known = np.isfinite(done)
                if not known.any():
                    return done
                # Once the same nodes wait for those to come as before the step, they do after all others.
                if np.array_equal(np.isfinite(ready), known):
                    growth = done[known] - ready[known]
                    low, high = float(growth.min()), float(growth.max())
                    if (high - low) * left <= _EXACT * float(done[known].max()):
                        return done + left * (low + high) / 2
            ready = done
        return ready

    @cached_property
    def _rotation(self) -> tuple[IntArray, FloatArray, float] | None:
        """Whom each member receives from, with which latency, and the drain of all; if each sends and receives once."""
        layers, drains = self._layers, self.drains(0)
        once = [delivered for delivered, *_ in layers] == [False, True]
        if not once or self._various is not None or len(self._starters) != len(self._members) or len(self._bounds):
            return None
        if any(not isinstance(nodes, slice) for _, nodes, _ in layers) or (drains != drains[0]).any():
            return None
        flows = np.arange(len(drains))[layers[1][2]]
        return self._starters[flows], self.flows.routes.latencies[flows], float(drains[0])

    def _rotate(self, ready: FloatArray, before: IntArray, latency: FloatArray, drain: float) -> FloatArray:
        """Return when members are through where each step is: drain, and wait for the one before if that is later.

        After k steps a member has waited for the latest of all that are up to k before it, with the latencies between.
        Of twice as many that is the later of two halves.
        """
        window, reach = self.repeat + 1, ready  # of members before it, and itself
        found: FloatArray | None = None
        while True:
            if window & 1:
                found = reach if found is None else np.maximum(reach, found[before] + latency)
            window >>= 1
            if not window:
                assert found is not None  # the highest bit is set
                return found + self.repeat * drain
            reach = np.maximum(reach, reach[before] + latency)
            latency = latency + latency[before]
            before = before[before]

    def standing(self, ready: FloatArray, through: FloatArray, now: float) -> Standing:
        """Return how far the phase is ``now`` that ``(nodes,)`` are ready for and through with at some time."""
        count = len(self.flows.volumes)
        if through.max() <= now:
            all_of_them = np.full(count, self.repeat)
            carried = sum(map(self.volumes, range(self.repeat))) if self._various else self.volumes(0) * self.repeat
            step, nothing = np.full(len(ready), self.repeat), np.zeros(count)
            return Standing(step, all_of_them, all_of_them, all_of_them, nothing, nothing + carried, [])
        started, drained, delivered = (np.zeros(count, dtype=np.intp) for _ in range(3))
        left, carried, arrivals = np.zeros(count), np.zeros(count), []
        step = np.where(ready <= now, 0, -1)
        alone = np.ones(len(ready), dtype=bool)
        alone[self._members] = False
        step[alone & (ready <= now)] = self.repeat
        times = ready[self._members]
        for repetition in range(self.repeat if len(self._members) else 0):
            begin, volumes = self.begin(times), self.volumes(repetition)
            drain = begin + self.drains(repetition)
            arrival = drain + self.flows.routes.latencies
            started += begin <= now
            drained += drain <= now
            delivered += arrival <= now
            running, flying = (begin <= now) & (drain > now), (drain <= now) & (arrival > now)
            left[running] = (drain[running] - now) * self._rates[running]
            carried += np.where(begin <= now, volumes, 0.0)
            if flying.any():
                arrivals.append((np.flatnonzero(flying), arrival[flying] - now))
            times = self.step(times, repetition)
            step[self._members] += times <= now
            if not (begin <= now).any():
                break
        return Standing(step, started, drained, delivered, left, carried - left, arrivals)


_Indices = IntArray | slice


def _layers(table: Table, place: IntArray, members: int, flows: int) -> Iterator[tuple[_Indices, _Indices]]:
    """Yield the k-th of each row that has so many, for each k: members and flows."""
    counts = np.diff(table.offsets)
    for rank in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > rank)
        yield _slice(place[rows], members), _slice(table.values[table.offsets[rows] + rank], flows)


def _slice(indices: IntArray, count: int) -> _Indices:
    """Return a slice instead of the indices of all of ``count``, which spares a copy."""
    return slice(None) if np.array_equal(indices, np.arange(count)) else indices


class Recurrence:
    """A schedule in groups whose flows meet nobody, themselves included; times count from its start.

    Nodes enter at times that need not be known: those that wait for a node which enters at infinity are never ready.

    Args:
        schedule: What is run.
        steps: Of each of its phases.
        groups: How many groups run it.
        owners: ``(links,)`` group that uses each, -1 for none.
    """

    def __init__(self, schedule: Schedule, steps: list[Steps], groups: int, owners: IntArray) -> None:
        self.steps = steps
        self.owners = owners
        self._after = [phase.after + phase.behind for phase in schedule.phases]
        self._groups, self._nodes = groups, groups * schedule.ranks

    @classmethod
    def of(
        cls,
        lowering: Lowering,
        solver: RateSolver,
        bandwidths: FloatArray,
        schedule: Schedule,
        groups: IntArray,
        *,
        rendezvous: bool,
    ) -> Recurrence | None:
        """Return what gives the times, or ``None`` where flows may meet or cannot move.

        Flows that follow each other over a link do not meet if a node that the later one waits for takes part in the
        earlier one, in a phase before: it is ready when that has drained.

        Args:
            lowering: Turns phases into flows.
            solver: Knows rates; its policy is local.
            bandwidths: ``(links,)`` bytes per second.
            schedule: What to run.
            groups: ``(G, ranks)`` node of each rank.
            rendezvous: Whether a flow waits for its destinations too.
        """
        phases, (count, ranks) = schedule.phases, groups.shape
        before = ancestors(schedule)
        if before is None or choices(schedule) or any(phase.room for phase in phases):
            return None
        # The last phase and flow over each link so far, and its group; -1 for none.
        users, flow_of, owners = (np.full(len(bandwidths), -1) for _ in range(3))
        steps: list[Steps] = []
        rates: dict[tuple[int, bytes | None], FloatArray] = {}
        for index, phase in enumerate(phases):
            lower = partial(lowering.phase, schedule, index, groups)
            flows, ends = lower(repetition=0), lowering.ends(phase)
            parties = Parties.of(ends, ranks, count, rendezvous=rendezvous)
            routes, uniform = flows.routes, schedule.uniform(phase)
            flow = np.repeat(np.arange(len(routes)), np.diff(routes.offsets))
            last, by = users[routes.links], flow_of[routes.links]
            if np.bincount(routes.links, minlength=1).max() > 1:
                return None
            for one in np.unique(last[last >= 0]).tolist():
                again = last == one
                if not before[index] >> one & 1 or not _follow(steps[one].parties, by[again], parties, flow[again]):
                    return None
            users[routes.links], flow_of[routes.links] = index, flow
            owners[routes.links] = flow // max(len(ends), 1)
            limited = id(routes), None if flows.caps is None else flows.caps.tobytes()
            if limited not in rates and len(routes):
                classes = np.zeros(len(routes), dtype=np.intp)
                incidence = Incidence(routes.offsets, routes.links, routes.coefficients, flows.caps, classes)
                rates[limited] = solver.solve(incidence, bandwidths)
            own = rates.get(limited, np.zeros(0))
            if (own == 0).any():
                return None
            volumes = None if uniform else partial(_volumes, lower)
            steps.append(Steps(flows, parties, own, phase.repeat, volumes))
        return cls(schedule, steps, count, owners)

    def ends(self, entered: FloatArray) -> FloatArray:
        """Return when the ``(nodes,)`` that have ``entered`` at some time are done with all phases."""
        if entered.any():
            return self._ends(entered)
        return self._together

    @cached_property
    def _together(self) -> FloatArray:
        """When nodes are done with all phases that all enter together: what is run again and again mostly is."""
        return self._ends(np.zeros(self._nodes))

    def _ends(self, entered: FloatArray) -> FloatArray:
        end = entered.copy()
        for _, _, done in self._phases(entered):
            np.maximum(end, done, out=end)
        return end

    def at(self, entered: FloatArray, now: float) -> Iterator[tuple[int, Standing]]:
        """Yield the phases that have begun by ``now`` at some of the nodes, and how far they are."""
        for index, ready, through in self._phases(entered):
            if ready.min() <= now:
                yield index, self.steps[index].standing(ready, through, now)

    def _phases(self, entered: FloatArray) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Yield each phase, and when the ``(nodes,)`` are ready for it and done with it."""
        uses = np.zeros(len(self.steps), dtype=np.intp)
        for after in self._after:
            np.add.at(uses, list(after), 1)
        done: dict[int, FloatArray] = {}
        for index, after in enumerate(self._after):
            ready = entered.copy()
            for one in after:
                np.maximum(ready, done[one], out=ready)
                uses[one] -= 1
                if not uses[one]:  # there may be thousands of phases
                    del done[one]
            through = self.steps[index].through(ready)
            if uses[index]:
                done[index] = through
            yield index, ready, through


def _volumes(lower: Callable[..., FlowSet], repetition: int) -> FloatArray:
    return lower(repetition=repetition).volumes


def _follow(before: Parties, earlier: IntArray, now: Parties, later: IntArray) -> bool:
    """Return whether each of ``(k,)`` ``later`` flows waits for a node that takes part in its ``earlier`` one."""
    pairs = np.unique(earlier * len(now.starters) + later)
    earlier, later = np.divmod(pairs, len(now.starters))
    number, nodes = np.arange(len(pairs)), len(now.sends)

    def named(table: Table, flows: IntArray) -> IntArray:
        return np.repeat(number, table.count(flows)) * nodes + table.rows(flows)

    wait = named(now.starters, later)
    found = wait[np.isin(wait, np.concatenate([named(one, earlier) for one in (before.sources, before.destinations)]))]
    return len(np.unique(found // nodes)) == len(pairs)
