"""Links that fail, come back and get slower while a task graph runs: at given times, or at random."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
from attrs import frozen

from fredfw.errors import InputError, SimulationError, nearest
from fredfw.fabric import Fabric, LiveRouter, Router
from fredfw.simulation.answers import transport_flag
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.ways import Rerouting
from fredfw.typing import BoolArray, FloatArray, IntArray
from fredfw.units import Unit, at_least, choice, count, counted, duration, option, quantity, render

FAIL, RESTORE, DEGRADE = ACTIONS = "fail", "restore", "degrade"
RESTART, REROUTE = ANSWERS = "restart", "reroute"
# NCCL's NCCL_IB_RETRY_CNT = 7 and NCCL_IB_TIMEOUT = 20: for each retry a queue pair waits 4.096 us x 2^20 (InfiniBand
# Architecture Specification 1.2, 12.7.34 and 12.7.38).
_DETECTION = 7 * 4.096e-6 * 2**20
# At most, and with work that was lost: 466 interruptions took less than 10 % of 54 days (Llama 3, arXiv 2407.21783,
# section 3.3.4).
_RESTART = 0.1 * 54 * 86400 / 466 - _DETECTION
_PATIENCE = 10_000  # changes of links in a row that let nothing go on, after which nothing will
_LISTED = 10  # what results list at most


@frozen
class LinkEvent:
    """Something that happens to links: once, or again and again at random.

    Args:
        links: Name of a link, such as ``leaf0->spine1``, or a pattern with ``*`` and ``?``. A link has one direction.
        action: ``fail``, ``restore`` (to the full bandwidth) or ``degrade``.
        at: When.
        factor: What the full bandwidth is multiplied by, with ``degrade``.
        mtbf: Instead of ``at``: each link fails by itself after an exponentially distributed time with this mean.
        mttr: With ``mtbf``: the mean time, exponentially distributed, until it is back; without, it stays away.
        seed: Of the random times; each run draws others.
        then: What a failure of a link that a job uses does: ``restart`` ends the job, which goes on from its last
            checkpoint on links that are whole again; ``reroute`` has its flows take other paths. By default what
            ``Transport.ends_with_links`` says.
        detection: With ``restart``: from the failure to the end of the job; 30 s by default.
        restart: With ``restart``: from there until the job computes again; 971 s by default, which has the work that is
            lost since a checkpoint in it.
        lost_work: With ``restart``: what it did from the checkpoint to the beginning of this run, and does again.

    Raises:
        InputError: Keys that do not belong together, or are missing.
    """

    links: str = option(help="name of a link, or a pattern of names")
    action: str = choice(ACTIONS, FAIL, help="what happens")
    at: float | None = duration(None, help="when")
    factor: float | None = option(None, help="share of the bandwidth that is left", validator=at_least(1e-6, at_most=1))
    mtbf: float | None = quantity(Unit.SECONDS, None, exclusive=True, help="mean time between failures")
    mttr: float | None = quantity(Unit.SECONDS, None, exclusive=True, help="mean time to repair")
    seed: int = count(0, minimum=0, help="of random times")
    then: str | None = choice(ANSWERS, None, help="what a failure does")
    detection: float | None = duration(None, help="from the failure to the job's end")
    restart: float | None = duration(None, help="until the job computes again")
    lost_work: float | None = duration(None, help="since the checkpoint, done again")

    def __attrs_post_init__(self) -> None:
        if self.then is not None and self.action != FAIL:
            raise InputError("belongs to fail", key="then", accepted=f"with action = {FAIL!r}")
        given = [key for key in ("detection", "restart", "lost_work") if getattr(self, key) is not None]
        if given and self.then != RESTART:
            raise InputError("belongs to a restart", key=given[0], accepted=f"with then = {RESTART!r}")
        if self.then == RESTART and self.mttr is not None:
            raise InputError("a restart is on links that are whole", key="mttr", accepted=f"with then = {REROUTE!r}")
        if (self.at is None) == (self.mtbf is None):
            raise InputError("has neither at nor mtbf, or both", key="at", accepted="a time, or mtbf and mttr")
        if self.mttr is not None and self.mtbf is None:
            raise InputError("there is no mtbf", key="mttr", accepted="with mtbf")
        if self.mtbf is not None and self.action != FAIL:
            raise InputError(f"{self.action!r} does not happen at random", key="action", accepted=FAIL)
        if (self.factor is None) == (self.action == DEGRADE):
            raise InputError("belongs to degrade, and is needed there", key="factor", accepted="a share with degrade")


def ending(events: Sequence[LinkEvent], fabric: Fabric) -> tuple[LinkEvent, ...]:
    usual = RESTART if transport_flag(fabric.defaults.transport, "ends_with_links") else REROUTE
    return tuple(one for one in events if one.action == FAIL and (one.then or usual) == RESTART)


def restarts(
    events: Sequence[LinkEvent], fabric: Fabric, run: int, seconds: float, link_bytes: FloatArray
) -> tuple[float, str]:
    """Return the seconds that failures add to a job of so many ``seconds``, and a note; unused links add none."""
    used = [int(np.count_nonzero(link_bytes[links])) for links in check(events, fabric)]
    drawn = [_generator(event, index, run) for index, event in enumerate(events)]
    begins, needs, times = 0.0, seconds, 0
    lost, detection, restart = 0.0, 0.0, 0.0
    while True:
        after = begins if times else -math.inf
        coming = [_failure(*one, after) for one in zip(events, used, drawn, strict=True)]
        time, event = min(zip(coming, events, strict=True), key=lambda one: one[0])
        if time >= begins + needs:
            break
        if times == _PATIENCE:
            needed = render(needs, Unit.SECONDS, 4)
            raise SimulationError(f"the job fails {_PATIENCE} times before it has done {needed}")
        found = _DETECTION if event.detection is None else event.detection
        again = _RESTART if event.restart is None else event.restart
        times, lost, detection, restart = times + 1, lost + time - begins, detection + found, restart + again
        begins, needs = time + found + again, (event.lost_work or 0.0) + seconds
    if not times:
        return 0.0, "no link that the job uses failed before its end"
    parts = {
        "of the iteration were lost": lost,
        "passed until that was known": detection,
        "until the restart": restart,
        "of work since the checkpoint were done again": needs - seconds,
        "are the iteration itself": seconds,
    }
    split = ", ".join(f"{render(part, Unit.SECONDS, 4)} {what}" for what, part in parts.items())
    note = f"links failed, and the job with them, {counted(times, 'time')}: {split} (events.then)"
    return begins + needs - seconds, note


def _failure(event: LinkEvent, links: int, rng: np.random.Generator, after: float) -> float:
    """Return when the first of so many ``links`` fails, all of which are whole ``after`` a time; infinity for never."""
    if event.mtbf is None:
        return event.at if links and event.at is not None and event.at > after else math.inf
    return max(after, 0.0) + event.mtbf / links * rng.standard_exponential() if links else math.inf


def _generator(event: LinkEvent, index: int, run: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(event.seed, spawn_key=(run, 2, index))))


def check(events: Sequence[LinkEvent], fabric: Fabric) -> list[IntArray]:
    """Return the links of each of ``events``; where there are none, the ``InputError`` has the key in the list."""
    names = [fabric.link_name(link) for link in range(len(fabric.bandwidths))]
    found = []
    for index, event in enumerate(events):
        links = [link for link, name in enumerate(names) if name == event.links or fnmatchcase(name, event.links)]
        if not links:
            message = f"{fabric.name!r} has no link {event.links!r}{nearest(event.links, names)}"
            accepted = f"a link such as {names[0]!r}, or a pattern such as '*->*'" if names else "a fabric with links"
            raise InputError(message, key=f"[{index}].links", accepted=accepted)
        found.append(np.array(links, dtype=np.intp))
    return found


class LinkEvents:
    """What happens to the links of one run, counted from 0: each draws times of its own."""

    def __init__(self, events: Sequence[LinkEvent], fabric: Fabric, run: int = 0) -> None:
        self._events = tuple(events)
        self._fabric = fabric
        # What is due: when, in which order it became known, the number of the event, links, and what happens to them.
        self._due: list[tuple[float, int, int, IntArray, str]] = []
        self._numbers = itertools.count()
        self._links = LiveLinks(fabric)
        self._failed: dict[int, float] = {}  # when each link did that is not back
        self._away = 0.0
        self._counts = dict.fromkeys(ACTIONS, 0)
        self._moved = 0
        self._stranded: set[str] = set()
        self._told: list[str] = []
        self._rngs = [_generator(event, index, run) for index, event in enumerate(events)]
        for index, (event, links) in enumerate(zip(events, check(events, fabric), strict=True)):
            if event.at is not None:
                heapq.heappush(self._due, (event.at, next(self._numbers), index, links, event.action))
            else:
                for link in links:
                    self._draw(0.0, index, links[links == link], FAIL)

    def drive(self, network: FlowNetwork) -> None:
        idle = 0
        while self._due:
            network.advance(self._due[0][0])
            stands = network.next_event_time() == math.inf
            idle = idle + 1 if stands else 0
            scripted = any(self._events[event].at is not None for _, _, event, *_ in self._due)
            if network.idle or idle > _PATIENCE or (stands and self._links.up.all() and not scripted):
                break
            _, _, number, links, action = heapq.heappop(self._due)
            self._change(network, number, links, action)
        network.advance()

    @property
    def notes(self) -> tuple[str, ...]:
        if not any(self._counts.values()):
            return ("no link event happened before the end",)
        counts = self._counts
        failed, back, degraded = (counted(counts[kind], "time") for kind in (FAIL, RESTORE, DEGRADE))
        text = (
            f"links failed {failed}, came back {back} and were degraded {degraded}; "
            f"{counted(self._moved, 'flow')} under way took another path, and later ones avoided them"
        )
        if self._away:
            text += f"; those that came back were away for {render(self._away, Unit.SECONDS, 4)} together"
        if self._stranded:
            text += f"; no path was left for a time for {', '.join(sorted(self._stranded)[:_LISTED])}"
        return (text, *self._told[:_LISTED])

    def _draw(self, now: float, event: int, links: IntArray, action: str) -> None:
        one = self._events[event]
        mean = one.mtbf if action == FAIL else one.mttr
        if mean is not None:
            time = now + mean * self._rngs[event].standard_exponential()
            heapq.heappush(self._due, (time, next(self._numbers), event, links, action))

    def _change(self, network: FlowNetwork, number: int, links: IntArray, action: str) -> None:
        now, event = network.now, self._events[number]
        if action == FAIL:
            self._links.up[links] = False
            self._failed = dict.fromkeys(links.tolist(), now) | self._failed
        else:
            self._links.bandwidths[links] = self._fabric.bandwidths[links] * (event.factor or 1.0)
        if action == RESTORE:
            self._links.up[links] = True
            for link in links.tolist():
                self._away += now - self._failed.pop(link, now)
        self._counts[action] += len(links)
        rerouting = self._links.reroute(network, links)
        self._moved += rerouting.moved
        self._stranded.update(rerouting.stranded)
        if event.at is not None:
            what = event.links if len(links) == 1 else f"{event.links} ({counted(len(links), 'link')})"
            self._told.append(f"{render(now, Unit.SECONDS, 4)}: {action} {what}{rerouting.told()}")
        else:
            self._draw(now, number, links, RESTORE if action == FAIL else FAIL)


class LiveLinks:
    """Which links of a fabric may be used, and how wide they are; at first all, as wide as it says."""

    def __init__(self, fabric: Fabric) -> None:
        self.up: BoolArray = np.ones(len(fabric.bandwidths), dtype=bool)
        self.bandwidths: FloatArray = fabric.bandwidths.copy()  # of a link that is down what it has when it is back
        self.router: Router = fabric.defaults.router  # over the links that were up at the last reroute
        self._rule: Router = fabric.defaults.router
        self._left = 0

    @property
    def left(self) -> int:
        return self._left + (self.router.left if isinstance(self.router, LiveRouter) else 0)

    def widen(self, network: FlowNetwork, links: IntArray) -> None:
        network.set_bandwidths(links, np.where(self.up[links], self.bandwidths[links], 0.0))

    def reroute(self, network: FlowNetwork, links: IntArray) -> Rerouting:
        self._left = self.left
        self.router = self._rule if self.up.all() else LiveRouter(self._rule, self.up.copy())
        self.widen(network, links)
        return network.reroute(self.router)
