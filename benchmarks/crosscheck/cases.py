"""What both simulators are asked: collectives of many groups, and single flows, on a fabric.

Everything is in bytes and seconds with links of 1 GB/s, so that steps take about a second and SimGrid's fixed
precisions mean nothing. Bytes are whole, for SimGrid counts them so.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, TextIO

import numpy as np
from attrs import Factory, evolve, frozen

from fredfw import CollectiveRequest, Fabric, Framework, Pattern, Schedule
from fredfw.embed import NetworkBackend
from fredfw.simulation import FlowNetwork, Lowering, MaxMin, ScheduleRun
from fredfw.typing import FloatArray, IntArray

FRAMEWORK = Framework()
BANDWIDTH = 1e9


@frozen(eq=False)
class Step:
    """Flows that start together, ``repeat`` times, each time when all of the last time have arrived.

    Args:
        repeat: How often.
        sources: ``(F,)`` nodes.
        destinations: ``(F,)`` nodes.
        volumes: ``(F,)`` bytes of one time.
    """

    repeat: int
    sources: IntArray
    destinations: IntArray
    volumes: FloatArray


@frozen(eq=False)
class Case(ABC):
    """Groups on a fabric, each with a start and steps that follow each other."""

    fabric: Fabric

    @abstractmethod
    def groups(self) -> Iterator[tuple[float, list[Step]]]:
        """Return start and steps of each group."""

    @abstractmethod
    def ends(self, fidelity: str = "stepwise") -> FloatArray:
        """Return when each group ends, says fredfw."""

    def write(self, stream: TextIO) -> None:
        """Write the case for ``simgrid.cpp``."""
        fabric, nodes = self.fabric, len(self.fabric.kinds)
        groups = list(self.groups())
        steps = [step for _, steps in groups for step in steps]
        pairs = np.unique(np.concatenate([step.sources * nodes + step.destinations for step in steps]))
        sources, destinations = np.divmod(pairs, nodes)
        routes = fabric.defaults.router.route(fabric, sources, destinations)
        print(nodes, len(fabric.bandwidths), file=stream)
        for bandwidth, latency in zip(fabric.bandwidths.tolist(), fabric.latencies.tolist(), strict=True):
            print(bandwidth, latency, file=stream)
        print(len(pairs), file=stream)
        bounds = zip(routes.offsets[:-1], routes.offsets[1:], strict=True)
        for source, destination, (begin, end) in zip(sources, destinations, bounds, strict=True):
            print(source, destination, end - begin, *routes.links[begin:end].tolist(), file=stream)
        print(len(groups), file=stream)
        for start, steps in groups:
            print(start, len(steps), file=stream)
            for step in steps:
                print(step.repeat, len(step.volumes), file=stream)
                route = np.searchsorted(pairs, step.sources * nodes + step.destinations)
                lines = zip(route.tolist(), step.volumes.tolist(), strict=True)
                stream.writelines(f"{one} {volume:.0f}\n" for one, volume in lines)


@frozen(eq=False)
class Collectives(Case):
    """The same collective in each of several groups at once, by an algorithm whose phases are in series.

    Args:
        fabric: The network.
        members: ``(groups, ranks)`` NPU numbers; one group of all by default.
        chunk: Bytes of a chunk; a rank's buffer has as many as there are ranks.
        pattern: What they do.
        algorithm: By which algorithm.
        sizes: Of an all-to-all-v, ``(ranks, ranks)`` bytes from one to the other.
    """

    members: IntArray = Factory(lambda self: np.arange(len(self.fabric.npus))[None, :], takes_self=True)
    chunk: float = BANDWIDTH
    pattern: Pattern = Pattern.ALL_REDUCE
    algorithm: str = "ring"
    sizes: FloatArray | None = None

    @property
    def size(self) -> float:
        """Bytes of a rank's buffer."""
        return self.chunk * int(self.members.shape[1]) if self.sizes is None else 0.0

    @cached_property
    def schedule(self) -> Schedule:
        """What each group does."""
        request = CollectiveRequest(self.pattern, self.members.shape[1], self.size, sizes=self.sizes)
        algorithm = FRAMEWORK.plugins.collectives.get(self.algorithm)()
        return algorithm.plan(request, self.fabric.view(self.members[0]))

    def groups(self) -> Iterator[tuple[float, list[Step]]]:
        for nodes in self.fabric.npus[self.members]:
            yield (
                0.0,
                [
                    Step(phase.repeat, nodes[phase.source], nodes[phase.destination], self.schedule.row_bytes(phase))
                    for phase in self.schedule.phases
                ],
            )

    def ends(self, fidelity: str = "stepwise") -> FloatArray:
        """See ``Case.ends``; a group alone is asked for as users do."""
        if len(self.members) == 1 and self.sizes is None:
            result = FRAMEWORK.simulate_collective(
                self.fabric,
                self.pattern,
                size=self.size,
                group=self.members[0].tolist(),
                algorithm=self.algorithm,
                fidelity=fidelity,
            )
            return np.array([result.duration])
        return Together(self.fabric, (self,)).ends(fidelity)

    def start(self, network: FlowNetwork, lowering: Lowering, fidelity: str) -> FloatArray:
        """Start all groups now; return their ends, which are known when they have ended."""
        ends = np.full(len(self.members), np.nan)

        def ended(groups: IntArray) -> None:
            ends[groups] = network.now

        groups = self.fabric.npus[self.members]
        ScheduleRun(network, lowering, self.schedule, groups, ended, fidelity=fidelity).start()
        return ends


@frozen(eq=False)
class Together(Case):
    """Several cases of collectives at once, on one fabric.

    Args:
        fabric: The network.
        parts: The cases; their groups come one part after the other.
    """

    parts: tuple[Collectives, ...]

    def groups(self) -> Iterator[tuple[float, list[Step]]]:
        for part in self.parts:
            yield from part.groups()

    def ends(self, fidelity: str = "stepwise") -> FloatArray:
        network, lowering = FlowNetwork(self.fabric, MaxMin()), Lowering(self.fabric)
        ends = [part.start(network, lowering, fidelity) for part in self.parts]
        network.advance()
        return np.concatenate(ends)


@frozen(eq=False)
class Flows(Case):
    """Single flows, each a group of its own.

    Args:
        fabric: The network.
        starts: ``(F,)`` seconds.
        sources: ``(F,)`` nodes.
        destinations: ``(F,)`` nodes.
        volumes: ``(F,)`` bytes.
    """

    starts: FloatArray
    sources: IntArray
    destinations: IntArray
    volumes: FloatArray

    def groups(self) -> Iterator[tuple[float, list[Step]]]:
        for flow, start in enumerate(self.starts.tolist()):
            one = slice(flow, flow + 1)
            yield start, [Step(1, self.sources[one], self.destinations[one], self.volumes[one])]

    def ends(self, fidelity: str = "stepwise") -> FloatArray:
        """See ``Case.ends``; a flow has but one step, and is a message."""
        del fidelity
        backend = NetworkBackend(self.fabric, plugins=FRAMEWORK.plugins)
        number = {node: npu for npu, node in enumerate(self.fabric.npus.tolist())}
        ends = [0.0] * len(self.starts)

        def ended(flow: int) -> None:
            ends[flow] = backend.now

        flows = zip(self.starts.tolist(), self.sources.tolist(), self.destinations.tolist(), self.volumes, strict=True)
        # They are in the order of their starts.
        for flow, (start, source, destination, volume) in enumerate(flows):
            backend.advance(start)
            backend.send(number[source], number[destination], float(volume), on_complete=partial(ended, flow))
        backend.run_until_idle()
        return np.array(ends)


@frozen(eq=False)
class Messages(Case):
    """Messages through the embedding API: in each of many phases every NPU sends one and receives one.

    An NPU goes on when the message that it sends and the one that it receives have arrived (SimGrid's rule
    ``messages``).

    Args:
        fabric: The network.
        receivers: ``(phases, npus)`` NPU that each sends to.
        sizes: ``(phases, npus)`` bytes that each sends.
    """

    receivers: IntArray
    sizes: FloatArray

    def groups(self) -> Iterator[tuple[float, list[Step]]]:
        """See ``Case.groups``; all are one group."""
        npus = self.fabric.npus
        phases = zip(self.receivers, self.sizes, strict=True)
        yield 0.0, [Step(1, npus, npus[receivers], sizes) for receivers, sizes in phases]

    def ends(self, fidelity: str = "stepwise") -> FloatArray:
        """See ``Case.ends``; messages are messages in every fidelity."""
        del fidelity
        backend = NetworkBackend(self.fabric, plugins=FRAMEWORK.plugins)
        receivers, sizes = self.receivers.tolist(), self.sizes.tolist()
        senders = np.argsort(self.receivers, axis=1).tolist()
        count = len(self.fabric.npus)
        phase, awaited = [-1] * count, [0] * count
        received = [bytearray(count) for _ in receivers]  # by sender
        last = 0.0

        def enter(npu: int) -> None:
            nonlocal last
            phase[npu] = now = phase[npu] + 1
            if now == len(receivers):
                last = backend.now
                return
            awaited[npu] = 1 if received[now][senders[now][npu]] else 2
            receiver = receivers[now][npu]
            backend.send(npu, receiver, sizes[now][npu], on_complete=partial(arrived, npu, receiver, now))

        def arrived(sender: int, receiver: int, of: int) -> None:
            received[of][sender] = 1
            for npu in (sender, receiver):
                if phase[npu] == of:
                    awaited[npu] -= 1
                    if not awaited[npu]:
                        enter(npu)

        for npu in range(count):
            enter(npu)
        backend.run_until_idle()
        return np.array([last])


def fabric(topology: str, latency: float = 0.0, **fields: Any) -> Fabric:
    """Return a fabric whose links have ``BANDWIDTH`` and ``latency``."""
    return FRAMEWORK.topology(topology, link_bandwidth=BANDWIDTH, link_latency=latency, **fields).build()


def mesh(rows: int, columns: int) -> Fabric:
    """Return a mesh without controllers and without latency."""
    return fabric("mesh2d", rows=rows, columns=columns, io_controllers=False)


def uneven(on: Fabric, seed: int) -> Fabric:
    """Return ``on`` with random bandwidths, from half of what they are up to that."""
    random = np.random.default_rng(seed)
    return evolve(on, bandwidths=on.bandwidths * random.uniform(0.5, 1.0, size=len(on.bandwidths)))


def all_to_all(on: Fabric, sizes: FloatArray | None = None) -> Collectives:
    """Return an all-to-all among all NPUs, each to each at once."""
    return Collectives(on, pattern=Pattern.ALL_TO_ALL, algorithm="direct", sizes=sizes)


def snake(rows: int, columns: int) -> IntArray:
    """Return one group of a grid's NPUs, ``(1, ranks)``, from neighbour to neighbour."""
    grid = np.arange(rows * columns).reshape(rows, columns)
    grid[1::2] = grid[1::2, ::-1]
    return grid.reshape(1, -1)


def shuffled(npus: int, groups: int, seed: int) -> IntArray:
    """Return ``npus`` divided into ``groups`` at random, ``(groups, ranks)``."""
    return np.random.default_rng(seed).permutation(npus).reshape(groups, -1)


def random_flows(on: Fabric, flows: int, seed: int, load: float | None = None) -> Flows:
    """Return flows between random pairs of NPUs.

    Args:
        on: The network.
        flows: How many.
        seed: Of the random numbers.
        load: With ``None`` all start at 0 and have random volumes, from 1 to 1,000 MB. Otherwise all have 1 GB and
            arrive at random (Poisson) so that links are offered, in the mean over all, this share of their bandwidth.
    """
    random, npus = np.random.default_rng(seed), len(on.npus)
    sources = random.integers(npus, size=flows)
    destinations = (sources + random.integers(1, npus, size=flows)) % npus
    sources, destinations = on.npus[sources], on.npus[destinations]
    if load is None:
        volumes = random.integers(10**6, 10**9, size=flows).astype(np.float64)
        return Flows(on, np.zeros(flows), sources, destinations, volumes)
    routes = on.defaults.router.route(on, sources, destinations)
    link_bytes = BANDWIDTH * len(routes.links) / flows  # of a flow, in the mean
    interval = link_bytes / (load * on.bandwidths.sum())
    starts = np.cumsum(random.exponential(interval, size=flows))
    return Flows(on, starts, sources, destinations, np.full(flows, BANDWIDTH))


def random_messages(on: Fabric, messages: int, seed: int) -> Messages:
    """Return so many messages of 100 to 1,000 MB; in each phase NPUs send to each other in a random permutation."""
    random, npus = np.random.default_rng(seed), len(on.npus)
    phases = messages // npus
    receivers = np.empty((phases, npus), dtype=np.intp)
    for phase in range(phases):
        order = random.permutation(npus)  # each sends to the next in a random cycle, so none to itself
        receivers[phase, order] = np.roll(order, -1)
    return Messages(on, receivers, random.integers(10**8, 10**9, size=(phases, npus)).astype(float))


def random_sizes(npus: int, seed: int) -> FloatArray:
    """Return ``(npus, npus)`` random sizes of an all-to-all-v, from 1 to 1,000 MB for each pair."""
    sizes = np.random.default_rng(seed).integers(10**6, 10**9, size=(npus, npus)).astype(float)
    np.fill_diagonal(sizes, 0.0)
    return sizes
