"""The oracle's schedules in groups: phases that stay whole, and ranks that go on one by one."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby, pairwise

import numpy as np
from attrs import Factory, define
from oracle_network import CHOICES, ENDS, STARTS, Flow, Network, Sending

from fredfw.collectives import Phase, Schedule
from fredfw.fabric import AlwaysStart, Costs, Operation


@define
class Part:
    """A flow of a phase in any group: its ends, whether they reduce, and its bytes at each repetition."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    reduces: bool
    is_stream: bool
    sizes: list[float]
    messages: int = 1
    reductions: int = 0

    def flow(self, nodes: Sequence[int], step: int, activity: int) -> Flow:
        tree = None
        if self.is_stream:
            ends = len(self.sources), len(self.destinations)
            tree = Operation.MULTICAST if ends[0] == 1 else Operation.REDUCE if ends[1] == 1 else Operation.ALL_REDUCE
        sources, destinations = (tuple(nodes[rank] for rank in ends) for ends in (self.sources, self.destinations))
        size = self.sizes[step]
        return Flow(sources, destinations, size, activity, self.messages, self.reductions, tree)


def parts_of(schedule: Schedule, phase: Phase) -> list[Part]:
    """Return the flows of a phase: rows with the same ends that all reduce or all copy are one, and so is a stream."""
    chunk: list[float] = np.broadcast_to(schedule.chunk_bytes, schedule.chunks).tolist()
    streams = [-1] * len(phase) if phase.stream is None else phase.stream.tolist()
    unicasts, trees = defaultdict[object, list[int]](list), defaultdict[int, list[int]](list)
    for row, (stream, *ends) in enumerate(zip(streams, phase.source, phase.destination, phase.reduce, strict=True)):
        (unicasts[tuple(map(int, ends))] if stream < 0 else trees[stream]).append(row)

    def carried(row: int, step: int) -> float:
        first = int(phase.offset[row]) + step * int(phase.stride[row])
        places = (int(phase.base[row]) + (first + one) % int(phase.modulus[row]) for one in range(phase.count[row]))
        return sum(chunk[place] for place in places)

    found = []
    for mine in [*unicasts.values(), *(trees[one] for one in sorted(trees))]:
        is_stream = streams[mine[0]] >= 0
        sources, destinations = (
            tuple(sorted({int(side[row]) for row in mine})) for side in (phase.source, phase.destination)
        )
        counted = mine[:1] if is_stream else mine  # the rows of a stream name the same bytes
        sizes = [sum(carried(row, step) for row in counted) for step in range(phase.repeat)]
        found.append(Part(sources, destinations, bool(phase.reduce[mine[0]]), is_stream, sizes))
    alone = found[: len(unicasts)]
    for part in alone:
        sent = sum(part.sources == other.sources for other in alone)
        received = [other for other in alone if part.destinations == other.destinations]
        part.messages = max(sent, len(received))
        part.reductions = sum(other.reduces for other in received) if part.reduces else 0
    return found


class Run:
    """A schedule in groups of nodes, done so many times where repetitions are one volume."""

    def __init__(
        self,
        network: Network,
        schedule: Schedule,
        groups: Sequence[Sequence[int]],
        label: str,
        costs: Costs,
        times: int,
    ) -> None:
        self.network, self.schedule, self.groups, self.label, self.costs = network, schedule, groups, label, costs
        self.phases, self.times = schedule.phases, times
        self.parts = [parts_of(schedule, phase) for phase in schedule.phases]
        self.keeps = schedule.release == "delivered"  # channels until phases are over
        self.turns: list[int] = []  # of each phase, the first one that takes turns together with it
        first: dict[tuple[int, int], int] = {}
        for index, phase in enumerate(self.phases):
            key = phase.channel, phase.turn
            self.turns.append(index if phase.channel < 0 or phase.turn < 0 else first.setdefault(key, index))
        self.bytes: dict[int, float] = defaultdict(float)  # of turns, where they matter
        if schedule.policy == "smallest-first":
            for turn, phase in zip(self.turns, self.phases, strict=True):
                self.bytes[turn] += sum(schedule.row_bytes(phase, step).sum() for step in range(phase.repeat))
        self.launch = costs.launch

    def after_launch(self, times: int, call: Callable[[], None]) -> None:
        if self.launch:
            self.network.at(self.network.now + self.launch * times, ENDS, call)
        else:
            call()

    def members(self, turn: int) -> list[int]:
        return [index for index, mine in enumerate(self.turns) if mine == turn]

    def flow(self, index: int, which: int, group: int, step: int, activity: int) -> Flow:
        """Return a flow of a phase; its unicasts are routed together, in all groups where there are no streams."""
        parts, found = self.parts[index], self.parts[index][which].flow(self.groups[group], step, activity)
        if found.tree is None:
            alone = [one for one in parts if not one.is_stream]
            among = self.groups if len(alone) == len(parts) else [self.groups[group]]
            pairs = [(nodes[one.sources[0]], nodes[one.destinations[0]]) for nodes in among for one in alone]
            sources, destinations = zip(*pairs, strict=True)
            found.beside = sources, destinations
            found.place = which + (group * len(parts) if among is self.groups else 0)
        return found


class WholeRun(Run):
    """Phases stay whole: one starts in a group when all that it waits for is over there.

    Repetitions follow each other (``stepwise``), or are one volume; ``ended`` gets groups.
    """

    stepwise = True
    ended: Callable[[list[int]], None]

    def start(self) -> None:
        everybody = list(range(len(self.groups)))
        self.left = {group: len(self.phases) for group in everybody}
        self.awaits = {(index, one): len(phase.waits) for index, phase in enumerate(self.phases) for one in everybody}
        self.since: dict[tuple[int, int], float] = {}  # of phases that wait for their channels, in groups
        self.first: dict[tuple[int, int], float] = {}  # when turns were ready first
        self.holder: dict[tuple[int, int], int] = {}  # turns that have channels
        self.owing = set(self.awaits)  # phases that have not let go of their channels
        self.steps: dict[tuple[int, int], int] = {}
        self.choosing: set[int] = set()
        self.after_launch(self.times, partial(self.launched, everybody))

    def launched(self, groups: list[int]) -> None:
        if not self.phases:
            self.network.soon(ENDS, partial(self.ended, groups))
        for index, phase in enumerate(self.phases):
            if not phase.waits:
                self.ready(index, groups)

    def ready(self, index: int, groups: list[int], step: int = 0) -> None:
        """Begin a phase, where it needs no channel or has one."""
        channel, turn = self.phases[index].channel, self.turns[index]
        at_once = []
        for group in groups:
            self.steps[index, group] = step
            if channel < 0 or (self.keeps and self.holder.get((channel, group)) == turn):
                at_once.append(group)
            else:
                self.since[index, group] = self.first.setdefault((turn, group), self.network.now)
        if at_once:
            self.begin(index, at_once)
        if len(at_once) < len(groups):
            self.choose_soon(channel)

    def choose_soon(self, channel: int) -> None:
        """Choose when all that ends at this moment is known."""
        if channel not in self.choosing:
            self.choosing.add(channel)
            self.network.soon(CHOICES, partial(self.choose, channel))

    def choose(self, channel: int) -> None:
        """Give a channel to the next turn, in the groups where it is free."""
        self.choosing.remove(channel)
        chosen: dict[int, list[int]] = defaultdict(list)
        for group in range(len(self.groups)):
            ready = [index for index, phase in enumerate(self.phases) if (index, group) in self.since]
            ready = [index for index in ready if self.phases[index].channel == channel]
            if (channel, group) not in self.holder and ready:
                keys = [(self.bytes[self.turns[one]], self.since[one, group], one) for one in ready]
                chosen[min(keys)[-1]].append(group)
        for index, groups in sorted(chosen.items()):
            turn = self.turns[index]
            for group in groups:
                self.holder[channel, group] = turn
            for one in self.members(turn) if self.keeps else [index]:
                mine = [group for group in groups if self.since.pop((one, group), None) is not None]
                for step in sorted({self.steps[one, group] for group in mine}):
                    self.begin(one, [group for group in mine if self.steps[one, group] == step])

    def begin(self, index: int, groups: list[int]) -> None:
        """Start the flows of a phase, in groups that are all at the same repetition."""
        phase, step = self.phases[index], self.steps[index, groups[0]]
        in_steps = phase.repeat > 1 and (self.stepwise or not self.schedule.uniform(phase))
        repeat = self.times * (1 if in_steps else phase.repeat)
        flows = [
            self.flow(index, which, group, step, place)
            for place, group in enumerate(groups)
            for which in range(len(self.parts[index]))
        ]
        is_last = not in_steps or step + 1 == phase.repeat
        # Of repetitions nobody says when they have drained.
        early = phase.repeat * self.times == 1

        def drained(places: list[int]) -> None:
            mine = [groups[place] for place in places]
            if not self.keeps:
                self.let_go(index, mine)
            if early:
                self.wait_less(index, mine, "behind")

        def ended(places: list[int]) -> None:
            mine = [groups[place] for place in places]
            if is_last:
                self.over(index, mine, early=early)
            elif self.keeps or phase.channel < 0:
                for group in mine:
                    self.steps[index, group] = step + 1
                self.begin(index, mine)
            else:
                self.owing.update((index, group) for group in mine)
                self.ready(index, mine, step + 1)

        sending = Sending(flows, len(groups), ended, drained, repeat, self.label, continues=in_steps and step > 0)
        self.network.send(sending, self.costs)

    def let_go(self, index: int, groups: list[int]) -> None:
        """Free the channel of a phase where nothing of its turn keeps it."""
        channel, turn = self.phases[index].channel, self.turns[index]
        for group in groups:
            if channel >= 0 and (index, group) in self.owing:
                self.owing.remove((index, group))
                if not self.keeps or all((one, group) not in self.owing for one in self.members(turn)):
                    del self.holder[channel, group]
                    self.choose_soon(channel)

    def over(self, index: int, groups: list[int], *, early: bool) -> None:
        self.let_go(index, groups)
        for way in ("after", "room") if early else ("after", "room", "behind"):
            self.wait_less(index, groups, way)
        for group in groups:
            self.left[group] -= 1
        done = [group for group in groups if not self.left[group]]
        if done:
            self.ended(done)

    def wait_less(self, index: int, groups: list[int], way: str) -> None:
        """Note for phases that wait for one in this way that it is over."""
        for one in [one for one, phase in enumerate(self.phases) if index in getattr(phase, way)]:
            for group in groups:
                self.awaits[one, group] -= 1
            free = [group for group in groups if not self.awaits[one, group]]
            if free:
                self.ready(one, free)


@define(eq=False)
class Order:
    """The turns of a group on a channel, one order for all of its ranks."""

    turns: list[int] = Factory(list)  # the turns, of those that have come up
    place: dict[int, int] = Factory(lambda: defaultdict(int))  # how many of them each rank has begun or has no part in
    first: dict[tuple[int, int], float] = Factory(dict)  # when turns were ready first, by turn and rank
    since: dict[tuple[int, int], float] = Factory(dict)  # the same of those that wait
    ready: dict[int, list[int]] = Factory(lambda: defaultdict(list))  # phases that wait, by rank
    # What each rank has the channel for, and the phases that keep it.
    holds: dict[int, tuple[int, set[int]]] = Factory(dict)


class RankRun(Run):
    """No rank waits for more than what it sends and receives itself.

    Marks of entries travel with flows as a maximum. ``through`` gets ranks of groups that are through, each with the
    last mark that it has waited for.
    """

    rendezvous = False
    through: Callable[[list[tuple[int, int, int]]], None]

    def begin(self) -> None:
        ranks = range(self.schedule.ranks)
        self.at: dict[tuple[int, int, int], int] = {}  # repetition that a rank of a group is in, of a phase
        self.mark: dict[tuple[int, int, int], int] = {}  # the last that it has waited for there
        self.entered: dict[tuple[int, int], int] = {}  # marks of ranks
        self.over: set[tuple[int, int, int]] = set()
        self.started: dict[tuple[int, int, int], int] = defaultdict(int)  # repetitions of flows: group, phase, flow
        self.drained: dict[tuple[int, int, int], int] = defaultdict(int)
        self.arrived: dict[tuple[int, int, int], set[int]] = defaultdict(set)
        self.marks: dict[tuple[int, int, int, int], int] = {}  # that repetitions of flows carry
        self.starting: dict[int, list[tuple[int, int, int]]] = {}  # by phase: repetition, group, flow
        self.leaving: list[tuple[int, int]] = []
        self.choosing: dict[int, set[int]] = defaultdict(set)  # groups, by channel
        self.orders: dict[tuple[int, int], Order] = defaultdict(Order)
        self.sends, self.receives = (
            [[[f for f, one in enumerate(mine) if rank in getattr(one, side)] for rank in ranks] for mine in self.parts]
            for side in ("sources", "destinations")
        )
        # A channel whose phases come one after the other anyway leaves no choice.
        before: list[set[int]] = []
        for phase in self.phases:
            before.append({*phase.after, *phase.behind}.union(*(before[one] for one in phase.after + phase.behind)))
        self.channels: dict[int, list[int]] = defaultdict(list)
        for index, phase in enumerate(self.phases):
            self.channels[phase.channel].append(index)
        for channel, mine in list(self.channels.items()):
            if channel < 0 or all(one in before[other] for one, other in pairwise(mine)):
                del self.channels[channel]

    def enter(self, places: list[tuple[int, int, int]]) -> None:
        self.after_launch(1, partial(self.launched, places))

    def launched(self, places: list[tuple[int, int, int]]) -> None:
        for group, rank, mark in places:
            self.entered[group, rank] = mark
            if not self.phases:
                self.leave(group, rank)
        for index, phase in enumerate(self.phases):
            if not phase.after and not phase.behind:
                for group, rank, _ in places:
                    self.ready(group, rank, index)

    def has_part(self, index: int, rank: int) -> bool:
        return bool(self.sends[index][rank] or self.receives[index][rank])

    def ready(self, group: int, rank: int, index: int) -> None:
        """Note that a rank is done with all that a phase comes after or is behind."""
        waits = self.phases[index].after + self.phases[index].behind
        marks = [self.mark[group, rank, one] for one in waits]
        self.mark[group, rank, index] = max([self.entered[group, rank], *marks])
        self.await_turn(group, rank, index, 0)

    def await_turn(self, group: int, rank: int, index: int, step: int) -> None:
        channel, turn = self.phases[index].channel, self.unit(index)
        if channel not in self.channels or not self.has_part(index, rank):
            self.enter_step(group, rank, index, step)
            return
        order = self.orders[channel, group]
        if self.keeps and rank in order.holds and order.holds[rank][0] == turn:
            self.enter_step(group, rank, index, step)
            return
        order.since[turn, rank] = order.first.setdefault((self.turns[index], rank), self.network.now)
        order.ready[rank].append(index)
        self.choose_soon(channel, group)

    def unit(self, index: int) -> int:
        """Return what has its place in the order: a turn; where channels are let go early, each phase by itself."""
        return self.turns[index] if self.keeps else index

    def enter_step(self, group: int, rank: int, index: int, step: int) -> None:
        """Enter a repetition: flows start for which all are ready that they wait for."""
        if step == self.phases[index].repeat or not self.has_part(index, rank):
            self.finish(group, rank, index)
            return
        self.at[group, rank, index] = step
        starts = list(self.sends[index][rank])
        if self.rendezvous:
            starts = sorted({*starts, *self.receives[index][rank]})
        for flow in starts:
            self.try_flow(group, index, flow)
        if not self.keeps and not self.sends[index][rank]:
            self.let_go(group, rank, index)
        self.look(group, rank, index)

    def try_flow(self, group: int, index: int, flow: int) -> None:
        """Start the next repetition of a flow, if all that it waits for are ready."""
        part, step, phase = self.parts[index][flow], self.started[group, index, flow], self.phases[index]
        starters = {*part.sources, *(part.destinations if self.rendezvous else ())}
        if step == phase.repeat or any(self.at.get((group, rank, index), -1) < step for rank in starters):
            return
        marks = [self.mark[group, rank, index] for rank in starters]
        if phase.room and step == 0:
            needed = [(group, rank, one) for rank in part.destinations for one in phase.room]
            if not self.over.issuperset(needed):
                return
            marks += [self.mark[one] for one in needed]
        self.started[group, index, flow] += 1
        self.marks[group, index, flow, step] = max(marks)
        if not self.starting:
            self.network.soon(STARTS, self.start_flows)
        self.starting.setdefault(index, []).append((step, group, flow))

    def start_flows(self) -> None:
        """Start flows of phases together; a stream is asked about by itself."""
        starting, self.starting = self.starting, {}
        for index, mine in starting.items():
            uniform = self.schedule.uniform(self.phases[index])
            mine.sort(key=lambda one: (0 if uniform else one[0], one[1:]))
            parts = self.parts[index]
            alike = [list(some) for _, some in groupby(mine, key=lambda one: 0 if uniform else one[0])]
            for some in alike:
                alone = isinstance(self.network.admission, AlwaysStart)
                unicasts = [one for one in some if alone or not parts[one[2]].is_stream]
                streams = [[one] for one in some if one not in unicasts]
                for together in [unicasts] * bool(unicasts) + streams:
                    self.send(index, together)

    def send(self, index: int, which: list[tuple[int, int, int]]) -> None:
        """Start flows, each of which ends by itself."""
        flows = [self.flow(index, flow, group, step, place) for place, (step, group, flow) in enumerate(which)]

        def drained(places: list[int]) -> None:
            for place in places:
                _, group, flow = which[place]
                self.drained[group, index, flow] += 1
            touched = sorted(
                {(which[place][1], rank) for place in places for rank in self.parts[index][which[place][2]].sources}
            )
            for group, rank in touched:
                if not self.keeps and self.has_sent(group, rank, index):
                    self.let_go(group, rank, index)
            for group, rank in touched:
                self.look(group, rank, index)

        def ended(places: list[int]) -> None:
            for place in places:
                step, group, flow = which[place]
                self.arrived[group, index, flow].add(step)
            for place in places:
                _, group, flow = which[place]
                for rank in self.parts[index][flow].destinations:
                    self.look(group, rank, index)

        self.network.send(Sending(flows, len(flows), ended, drained, 1, self.label), self.costs)

    def has_sent(self, group: int, rank: int, index: int) -> bool:
        step = self.at.get((group, rank, index), -1)
        return all(self.drained[group, index, flow] > step for flow in self.sends[index][rank])

    def look(self, group: int, rank: int, index: int) -> None:
        """Have a rank go on that is done with a repetition; what it receives counts in the order of sending."""
        place = group, rank, index
        channel = self.phases[index].channel
        is_waiting = channel in self.channels and index in self.orders[channel, group].ready[rank]
        if place not in self.at or place in self.over or is_waiting:
            return
        step = self.at[place]
        got = all(self.arrived[group, index, flow].issuperset(range(step + 1)) for flow in self.receives[index][rank])
        if not got or not self.has_sent(group, rank, index):
            return
        mine = self.sends[index][rank] + self.receives[index][rank]
        self.mark[place] = max([self.mark[place], *(self.marks[group, index, flow, step] for flow in mine)])
        if step + 1 == self.phases[index].repeat or self.keeps:
            self.enter_step(group, rank, index, step + 1)
        else:
            self.await_turn(group, rank, index, step + 1)

    def finish(self, group: int, rank: int, index: int) -> None:
        place = group, rank, index
        self.at[place] = self.phases[index].repeat
        self.over.add(place)
        if self.keeps:
            self.let_go(group, rank, index)
        if all((group, rank, one) in self.over for one in range(len(self.phases))):
            self.leave(group, rank)
        for one, other in enumerate(self.phases):
            if index in other.room:
                for flow in self.receives[one][rank]:
                    self.try_flow(group, one, flow)
        for one, other in enumerate(self.phases):
            waits, is_ready = {*other.after, *other.behind}, (group, rank, one) in self.mark
            if index in waits and not is_ready and all((group, rank, before) in self.over for before in waits):
                self.ready(group, rank, one)

    def leave(self, group: int, rank: int) -> None:
        """Note that a rank is through, with all that are at this moment."""
        if not self.leaving:
            self.network.soon(ENDS, self.report)
        self.leaving.append((group, rank))

    def report(self) -> None:
        leaving, self.leaving = sorted(self.leaving), []
        phases = range(len(self.phases))
        last = [max([self.entered[place], *(self.mark[*place, one] for one in phases)]) for place in leaving]
        self.through([(*place, mark) for place, mark in zip(leaving, last, strict=True)])

    # channels

    def choose_soon(self, channel: int, group: int) -> None:
        """Choose when all that ends at this moment is known."""
        if not self.choosing[channel]:
            self.network.soon(CHOICES, partial(self.choose, channel))
        self.choosing[channel].add(group)

    def let_go(self, group: int, rank: int, index: int) -> None:
        """Free the channel of a phase at a rank, where nothing of its turn keeps it."""
        channel = self.phases[index].channel
        if channel not in self.channels or not self.has_part(index, rank):
            return
        order = self.orders[channel, group]
        order.holds[rank][1].discard(index)
        if not order.holds[rank][1]:
            del order.holds[rank]
        self.choose_soon(channel, group)

    def choose(self, channel: int) -> None:
        """Have ranks begin the turns that come next in the order of their group, and let that order go on."""
        groups, self.choosing[channel] = sorted(self.choosing[channel]), set()
        begins: list[tuple[int, int, int]] = []
        for group in groups:
            order = self.orders[channel, group]
            while True:
                free = [rank for rank in range(self.schedule.ranks) if rank not in order.holds]
                for rank in range(self.schedule.ranks):
                    while order.place[rank] < len(order.turns) and not self.takes(
                        channel, order.turns[order.place[rank]], rank
                    ):
                        order.place[rank] += 1
                last = [rank for rank in free if order.place[rank] == len(order.turns)]
                for place in range(len(order.turns)):
                    for rank in free:
                        turn = order.turns[place]
                        if order.place[rank] == place and rank not in order.holds and (turn, rank) in order.since:
                            begins += self.take(channel, group, turn, rank)
                best = self.next_turn(channel, order, last)
                if best is None:
                    break
                order.turns.append(best)
        for group, rank, index in begins:
            self.enter_step(group, rank, index, self.at.get((group, rank, index), -1) + 1)

    def takes(self, channel: int, turn: int, rank: int) -> bool:
        return any(self.has_part(one, rank) for one in self.channels[channel] if self.unit(one) == turn)

    def take(self, channel: int, group: int, turn: int, rank: int) -> list[tuple[int, int, int]]:
        """Give a rank the channel for a turn; return its phases that begin."""
        order = self.orders[channel, group]
        order.place[rank] += 1
        del order.since[turn, rank]
        mine = [one for one in self.channels[channel] if self.unit(one) == turn and self.has_part(one, rank)]
        order.holds[rank] = turn, set(mine)
        begins = [one for one in mine if one in order.ready[rank]]
        order.ready[rank] = [one for one in order.ready[rank] if one not in begins]
        return [(group, rank, one) for one in begins]

    def next_turn(self, channel: int, order: Order, last: list[int]) -> int | None:
        """Return the turn that was ready first, or of those with the fewest bytes, at a rank that sends in it."""
        since: dict[int, float] = {}
        for one in self.channels[channel]:
            turn = self.unit(one)
            times = [order.since[turn, rank] for rank in last if self.sends[one][rank] and (turn, rank) in order.since]
            since |= {turn: min(since.get(turn, math.inf), *times)} if times else {}
        return min(since, key=lambda turn: (self.bytes[self.turns[turn]], since[turn], turn), default=None)
