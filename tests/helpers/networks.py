"""Networks that a program embeds, and when things end there; programs that do something at random when they do."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from attrs import define, field

from fredfw import CollectiveRequest, Fabric, Framework, Pattern
from fredfw.embed import Handle, NetworkBackend
from fredfw.errors import UnsupportedError
from fredfw.fabric import IdealTransport

FRAMEWORK = Framework()


class Network(NetworkBackend):
    def __init__(self, fabric: Fabric, *given: Any, **options: Any) -> None:
        super().__init__(fabric, *given, **{"plugins": FRAMEWORK.plugins, **options})
        self.ends: list[tuple[object, float]] = []

    def note(self, name: object) -> None:
        self.ends.append((name, self.now))

    def log(self, name: object) -> Callable[[], None]:
        return partial(self.note, name)

    @property
    def times(self) -> dict[object, float]:
        return dict(self.ends)


def mesh(rows: int, columns: int, latency: float = 0.0, **options: Any) -> Network:
    """A mesh with links of 1 GB/s; in one of 2 x 2, NPUs 0 and 1 are above 2 and 3."""
    fabric = FRAMEWORK.topology(
        "mesh2d", rows=rows, columns=columns, link_bandwidth="1 GB/s", link_latency=latency, io_controllers=False
    ).build()
    return Network(fabric, **options)


def ring(npus: int, latency: float = 0.0, **options: Any) -> Network:
    fabric = FRAMEWORK.topology("torus", dimensions=[npus], link_bandwidth="1 GB/s", link_latency=latency).build()
    return Network(fabric, **options)


# --- programs at random, the same for the same seed


LINKS: dict[str, Any] = {"link_bandwidth": "1 GB/s", "link_latency": "1 ms"}
# A switch that can route only two of the three pairs.
PAIRS = [0, 2], [1, 4], [3, 5]
SWITCH: dict[str, Any] = {"name": "fred", "arity": [8], "bandwidths": ["1 GB/s"], "middle_switches": 2}
FABRICS: tuple[dict[str, Any], ...] = (
    {"name": "torus", "dimensions": [4], **LINKS},
    {"name": "fred", "arity": [2, 2], "bandwidths": ["1 GB/s", "2 GB/s"], "middle_switches": 2, "on_conflict": "block"},
    {**SWITCH, "on_conflict": "block"},
    {**SWITCH, "on_conflict": "decompose"},
    {"name": "optical-ring", "npus": 8, "wavelengths": 2, "pay": "on-change"},  # which splits circuits
    {"name": "fat-tree", "npus": 4, "radix": 4, "levels": 2, **LINKS},  # whose messages take several paths
    {"name": "mesh2d", "rows": 2, "columns": 2, "link_bandwidth": "1 GB/s", "link_latency": 0},
)
SEEDS = range(2 * len(FABRICS))
"""Enough for all fabrics."""
ENDED, HORIZON = 40, 1e4


class BrokenError(Exception):
    """What a callback raises."""


@define(eq=False)
class Client:
    """Does something at random in each callback: sends, receives, cancels, begins a collective, changes a link."""

    network: NetworkBackend
    random: Random
    raises: bool = False
    ends: list[tuple[str, float]] = field(factory=list)
    seen: list[tuple[list[str], float]] = field(factory=list)
    left: int = ENDED

    def begin(self) -> None:
        for tick in range(12):
            self.network.schedule(tick * 3e-3, self.noted("tick"))

    def noted(self, what: str) -> Callable[[], None]:
        """Return what notes an end, and does the next thing."""
        return partial(self.end, what)

    def end(self, what: str) -> None:
        self.ends.append((what, self.network.now))
        if self.left:
            self.left -= 1
            self.act()
            self.act()
        if self.raises:
            raise BrokenError

    def act(self) -> None:
        network, random = self.network, self.random
        npus = range(len(network.fabric.npus))
        source, destination = random.sample(npus, 2)
        what = random.randrange(10)
        if what < 2:
            network.send(source, destination, random.choice((0.0, 1e6, 1e6, 5e6)), None, self.noted("sent"))
        elif what == 2:
            network.send(source, destination, 1e6, "tag", self.noted("tagged"))
            network.receive(source, destination, "tag", self.noted("received"))
        elif what == 3:
            network.schedule(random.choice((0.0, 1e-3, 2e-3)), self.noted("timer"))
        elif what == 4:
            self.begin_collective(random.sample(npus, random.choice((2, len(npus)))), random.choice(("ring", "direct")))
        elif what == 5:
            for group in PAIRS if len(npus) == 8 else [npus]:
                self.begin_collective(group, "in-network")
        elif what == 6 and network.pending():
            network.cancel(Handle(random.choice(sorted(network.pending()))))
        elif what == 7:
            network.set_bandwidth(random.randrange(4), random.choice(("0.5 GB/s", "1 GB/s")))
        elif what == 8:
            down = network.failed_links()
            network.restore_link(down[0]) if down else network.fail_link(random.randrange(4))
        elif what == 9:
            self.seen.append((network.stalled(), network.next_event_time()))

    def begin_collective(self, group: Sequence[int], algorithm: str) -> None:
        pattern, size = self.random.choice((Pattern.ALL_REDUCE, Pattern.ALL_TO_ALL)), self.random.choice((1e6, 8e6))
        request = CollectiveRequest(Pattern.ALL_REDUCE if algorithm == "in-network" else pattern, len(group), size)
        with suppress(UnsupportedError):  # in the network, where it cannot, or round a link that has failed
            self.network.collective(request, self.noted("done"), group=group, algorithm=algorithm)

    def results(self) -> tuple[object, ...]:
        """Return all that there is to know of it, to the last bit."""
        loads = {label: load.tobytes() for label, load in self.network.link_bytes().items()}
        # A copy has routes of its own, by which admissions count again.
        notes = [re.sub(r"^\d+ sets? ", "", note) for note in self.network.notes()]
        return self.ends, self.network.now, loads, notes, self.seen


def client(seed: int, *, raises: bool = False, fabric: Fabric | None = None) -> Client:
    fabric = fabric or FRAMEWORK.topology(**FABRICS[seed % len(FABRICS)]).build()
    fidelity = "exact" if seed % 4 else "compressed"
    fabric = fabric.with_defaults(transport=IdealTransport(rendezvous=seed % 4 == 3))
    one = Client(NetworkBackend(fabric, plugins=FRAMEWORK.plugins, fidelity=fidelity), Random(seed), raises)
    one.begin()
    return one


def finish(one: Client, advance: Callable[[float], None] | None = None) -> tuple[object, ...]:
    """Let everything end, with all links up at last."""
    advance = advance or one.network.advance
    advance(HORIZON)
    one.left = 0
    for link in one.network.failed_links():
        one.network.restore_link(link)
    advance(2 * HORIZON)
    return one.results()
