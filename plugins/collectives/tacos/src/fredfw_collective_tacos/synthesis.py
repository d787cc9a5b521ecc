"""The greedy synthesis of an all-gather, and the schedule that takes as long.

Whenever a link is free, it takes a chunk that is wanted where it leads. What starts and ends together is a phase. A
chunk waits until it is at its source, and until the chunk before it has left the links of its way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from heapq import heappop, heappush
from random import Random

import numpy as np
from attrs import evolve, frozen

from fredfw import GroupLinks, Pattern, Phase, Schedule
from fredfw.typing import FloatArray, IntArray


@frozen(eq=False)
class Ways:
    """The ways that chunks can take from rank to rank: a link to a neighbour, or a path over switches."""

    ranks: int  # size of the group
    source: IntArray  # ``(ways,)`` rank that each leads from
    destination: IntArray  # ``(ways,)`` rank that it leads to
    links: tuple[tuple[int, ...], ...]  # the links of each, which one chunk at a time may be on
    latency: FloatArray  # ``(ways,)`` seconds
    rate: FloatArray  # ``(ways,)`` bytes per second

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, links: GroupLinks) -> Ways:
        """Return a way for each pair of ranks: the fastest link, or a path over switches with the fewest links."""
        leaving: list[dict[int, int]] = [{} for _ in range(links.nodes)]
        for link, (one, other) in enumerate(zip(links.sources.tolist(), links.destinations.tolist(), strict=True)):
            leaving[one][other] = link  # the fastest comes last
        ends: list[tuple[int, int]] = []
        paths: list[tuple[int, ...]] = []
        for rank in range(links.ranks):
            before: dict[int, tuple[int, ...]] = {rank: ()}
            queue = deque([rank])
            while queue:
                here = queue.popleft()
                for there, link in leaving[here].items():
                    if there in before:
                        continue
                    before[there] = (*before[here], link)
                    if there < links.ranks:
                        ends.append((rank, there))
                        paths.append(before[there])
                    else:
                        queue.append(there)
        source, destination = np.array(ends, dtype=np.intp).reshape(-1, 2).T
        latency = np.array([float(links.latencies[list(path)].sum()) for path in paths])
        rate = np.array([float(links.bandwidths[list(path)].min()) for path in paths])
        return cls(links.ranks, source, destination, tuple(paths), latency, rate)

    @property
    def reversed(self) -> Ways:
        return evolve(self, source=self.destination, destination=self.source)

    def seconds(self, size: float) -> FloatArray:
        """Return the ``(ways,)`` seconds that a chunk of ``size`` bytes takes; one second each where all are equal."""
        seconds: FloatArray = self.latency + size / self.rate
        if not len(seconds) or seconds.min() == seconds.max() or seconds.min() <= 0:
            return np.ones(len(seconds))
        return seconds

    @property
    def alike(self) -> bool:
        return len(set(self.latency.tolist())) <= 1 and len(set(self.rate.tolist())) <= 1


_EXACT = 1e-9  # relative; sums of the same seconds


@frozen(eq=False)
class Synthesis:
    """Chunks on their ways, in the order in which they start."""

    way: IntArray  # ``(transfers,)`` way that each takes
    chunk: IntArray  # ``(transfers,)`` which chunk; rank r has those from r c on, with c chunks for each rank
    start: FloatArray  # ``(transfers,)`` seconds
    seconds: float  # when the last has arrived


@lru_cache(maxsize=16)
def synthesised(links: GroupLinks, chunks: int, seeds: int, seconds: bytes, *, against: bool) -> Synthesis:
    """Return the best of some syntheses; ``seconds`` of each way are those of a ``FloatArray``."""
    ways = Ways.of(links)
    took: FloatArray = np.frombuffer(seconds, dtype=np.float64)
    return best(ways.reversed if against else ways, chunks, took, seeds, apart=against)


def best(ways: Ways, chunks: int, seconds: FloatArray, seeds: int, *, apart: bool = False) -> Synthesis:
    """Return the first synthesis that is done first, of up to ``seeds``, until one is as fast as any can be."""
    least = in_link_bound(ways, chunks, seconds) * (1 + _EXACT)
    found = synthesise(ways, chunks, seconds, 0, apart=apart)
    for seed in range(1, seeds):
        if found.seconds <= least:
            break
        found = min(found, synthesise(ways, chunks, seconds, seed, apart=apart), key=lambda one: one.seconds)
    return found


def in_link_bound(ways: Ways, chunks: int, seconds: FloatArray) -> float:
    """Return when the poorest rank has all chunks at the earliest, with every way to it in use all the time."""
    wanted = (ways.ranks - 1) * chunks
    most = 0.0
    for rank in range(ways.ranks):
        each = seconds[ways.destination == rank]
        # The first to arrive on each way, the second, ...; no more than all over the fastest.
        count = np.minimum(np.floor(each.min() * wanted / each) + 1, wanted).astype(np.intp)
        arrivals = np.concatenate([one * np.arange(1, many + 1) for one, many in zip(each, count, strict=True)])
        most = max(most, float(np.partition(arrivals, wanted - 1)[wanted - 1]))
    return most


def synthesise(ways: Ways, chunks: int, seconds: FloatArray, seed: int, *, apart: bool = False) -> Synthesis:
    chance = Random(seed)
    ranks, total = ways.ranks, ways.ranks * chunks
    everything = (1 << total) - 1
    has = [((1 << chunks) - 1) << rank * chunks for rank in range(ranks)]
    wants = [everything & ~own for own in has]
    took, source = seconds.tolist(), ways.source.tolist()
    into: list[list[int]] = [[] for _ in range(ranks)]
    onward: list[set[int]] = [set() for _ in range(ranks)]
    for way, (one, other) in enumerate(zip(source, ways.destination.tolist(), strict=True)):
        into[other].append(way)
        onward[one].add(other)
    destination = ways.destination.tolist()
    # Ways that share a link cannot be taken at once, and not all of them lead to the same rank.
    users: dict[int, list[int]] = {}
    for way, path in enumerate(ways.links):
        for link in path:
            users.setdefault(link, []).append(way)
    together = [[other for link in path for other in users[link]] for path in ways.links]
    blocked = [0] * len(source)
    arrivals: list[tuple[float, int, int]] = []
    found_way, found_chunk, found_start = [], [], []
    # Chunks that a rank is sending, and those that it has begun to send at this moment, by the seconds that takes.
    held = [0] * ranks
    fresh: dict[tuple[int, float], int] = {}
    now, ready = 0.0, set(range(ranks))
    while True:
        order = sorted(ready)
        chance.shuffle(order)
        for rank in order:
            free = [way for way in into[rank] if not blocked[way]]
            offers = {way: has[source[way]] for way in free}
            while free and wants[rank]:
                if apart:
                    offers = {
                        way: has[source[way]] & ~held[source[way]] | fresh.get((source[way], took[way]), 0)
                        for way in free
                    }
                here = 0
                for way in free:
                    here |= offers[way]
                here &= wants[rank]
                if not here:
                    break
                place = int(chance.random() * total)  # the next one that is there, from a place by chance on
                rest = here >> place
                chunk = place + (rest & -rest).bit_length() - 1 if rest else (here & -here).bit_length() - 1
                bit = 1 << chunk
                able = [way for way in free if offers[way] & bit]
                least = min(took[way] for way in able)
                able = [way for way in able if took[way] == least]
                way = able[int(chance.random() * len(able))] if len(able) > 1 else able[0]
                wants[rank] ^= bit
                for other in together[way]:
                    blocked[other] += 1
                if apart:
                    one = source[way]
                    held[one] |= bit
                    fresh[one, took[way]] = fresh.get((one, took[way]), 0) | bit
                heappush(arrivals, (now + took[way], way, chunk))
                found_way.append(way)
                found_chunk.append(chunk)
                found_start.append(now)
                free = [other for other in free if not blocked[other]]
        if not arrivals:
            break
        now, ready = arrivals[0][0], set()
        fresh.clear()
        while arrivals and arrivals[0][0] == now:
            _, way, chunk = heappop(arrivals)
            rank = destination[way]
            has[rank] |= 1 << chunk
            ready |= onward[rank]
            if apart:
                held[source[way]] &= ~(1 << chunk)  # others that started with it end with it
                ready |= onward[source[way]]
            for other in together[way]:
                blocked[other] -= 1
                ready.add(destination[other])
    return Synthesis(
        np.array(found_way, dtype=np.intp), np.array(found_chunk, dtype=np.intp), np.array(found_start), now
    )


def gathered(ways: Ways, found: Synthesis, seconds: FloatArray, chunks: int, size: float) -> Schedule:
    phase, count = _grouped(found, seconds)
    after = _waits(ways, found, phase, count)
    rows = np.split(np.argsort(phase, kind="stable"), np.cumsum(np.bincount(phase, minlength=count))[:-1])
    phases = [
        Phase.of(ways.source[found.way[row]], ways.destination[found.way[row]], found.chunk[row], after=tuple(before))
        for row, before in zip(rows, after, strict=True)
    ]
    owner = np.repeat(np.arange(ways.ranks), chunks)
    return Schedule(Pattern.ALL_GATHER, ways.ranks, size, len(owner), phases, owner=owner)


def scattered(ways: Ways, found: Synthesis, seconds: FloatArray, chunks: int, size: float) -> Schedule:
    """Return the reduce-scatter: an all-gather that was synthesised against the ``ways``, backwards."""
    forward = gathered(ways.reversed, found, seconds, chunks, size)
    behind: list[list[int]] = [[] for _ in forward.phases]
    for index, one in enumerate(forward.phases):
        for before in one.after:
            behind[before].append(index)
    phase, count = _grouped(found, seconds)  # what ends last comes first; it may have started before others
    end = np.zeros(count)
    end[phase] = found.start + seconds[found.way]
    order = np.argsort(-end, kind="stable")
    place = np.argsort(order, kind="stable")
    phases = [
        evolve(
            one,
            source=one.destination,
            destination=one.source,
            reduce=np.ones(len(one), dtype=bool),
            after=tuple(sorted(int(place[before]) for before in behind[index])),
        )
        for index, one in ((index, forward.phases[index]) for index in order.tolist())
    ]
    return evolve(forward, pattern=Pattern.REDUCE_SCATTER, phases=_one_by_one(phases, forward.chunks))


def _grouped(found: Synthesis, seconds: FloatArray) -> tuple[IntArray, int]:
    """Return the ``(transfers,)`` phase of each, by start and then by length, and how many there are."""
    took = seconds[found.way]
    order = np.lexsort((took, found.start))
    start, took = found.start[order], took[order]
    new = np.append(False, (np.diff(start) > 0) | (np.diff(took) > 0))[: len(order)]
    phase = np.empty(len(order), dtype=np.intp)
    phase[order] = np.cumsum(new)
    return phase, int(phase.max()) + 1


def _waits(ways: Ways, found: Synthesis, phase: IntArray, count: int) -> list[list[int]]:
    if len(np.unique(found.start)) == count:
        took = np.diff(np.unique(found.start))
        if not len(took) or took.max() <= took.min() * (1 + 1e-9):
            return [[index - 1] if index else [] for index in range(count)]  # in step
    after: list[set[int]] = [set() for _ in range(count)]
    arrived: dict[tuple[int, int], int] = {}
    used: dict[int, int] = {}
    source, destination = ways.source.tolist(), ways.destination.tolist()
    for way, chunk, own in zip(found.way.tolist(), found.chunk.tolist(), phase.tolist(), strict=True):
        before = [arrived.get((source[way], chunk), -1), *(used.get(link, -1) for link in ways.links[way])]
        after[own].update(one for one in before if one >= 0)
        arrived[destination[way], chunk] = own
        used.update(dict.fromkeys(ways.links[way], own))
    return [sorted(one) for one in after]


def _one_by_one(phases: Sequence[Phase], chunks: int) -> tuple[Phase, ...]:
    """Return ``phases``, which say that what adds to the same chunk of a rank is done in the order of their starts."""
    latest: dict[int, int] = {}
    ordered = []
    for index, phase in enumerate(phases):
        cells = (phase.destination * chunks + phase.base + phase.offset).tolist()
        before = {latest[cell] for cell in cells if cell in latest}
        latest.update(dict.fromkeys(cells, index))
        ordered.append(evolve(phase, after=tuple(sorted({*phase.after, *before}))) if before else phase)
    return tuple(ordered)
