"""The workload ``background``: messages between random pairs at a given load, to run beside other jobs."""

from collections.abc import Iterator
from random import Random
from typing import ClassVar, NamedTuple

from attrs import frozen

from fredfw import DeviceMesh, GraphBuilder, System, TaskGraph, Workload, limits, units
from fredfw.errors import InputError

fredfw_contract = 2

_TASKS = 3  # of a message: the time until it is sent, a send and a receive
_ROUNDED = 1 + 1e-9  # a mean over NPUs is rounded


class Message(NamedTuple):
    """A message that is offered to the network."""

    gap: float  # seconds since the one before of the same source
    destination: int
    size: float


@frozen
class Background(Workload):
    """Messages that each rank sends at random times, whether its earlier ones have arrived or not (an open loop).

    The times of a rank are a Poisson process, whose mean rate makes the messages ``load`` of ``bandwidth``. Each goes
    to a random other rank (``random``), or all of a rank to one, which gets none of others (``permutation``).
    """

    name: ClassVar[str] = "background"

    bandwidth: float | None = units.bandwidth(
        None, help="that the load is a share of, at most what an NPU can send; default: what it can send"
    )
    load: float = units.number(0.3, minimum=0, at_most=1, help="bytes that each rank offers, as a share of bandwidth")
    duration: float = units.duration("1 ms", help="time in which messages are offered")
    size: float = units.size("1 MB", help="mean size of a message")
    sizes: str = units.choice(("fixed", "exponential"), help="distribution of the sizes")
    pairs: str = units.choice(("random", "permutation"), help="who sends to whom")
    seed: int = units.count(0, minimum=0, help="equal seeds give equal messages")
    ranks: int | None = units.count(None, minimum=2, help="ranks; default: one for each NPU")

    def mesh(self, system: System) -> DeviceMesh:
        ranks = system.npus if self.ranks is None else self.ranks
        if ranks < 2:
            raise InputError("1 rank has no other to send to", key="ranks", accepted="2 or more")
        return DeviceMesh({"npus": ranks})

    def offered(self, system: System) -> float:
        """Return the bytes per second that each rank offers on average."""
        if self.bandwidth is None:
            if system.bandwidth is None:
                message = "is missing, and nothing is known of a fabric"
                raise InputError(message, key="bandwidth", accepted="a bandwidth")
            return self.load * system.bandwidth
        if system.bandwidth is not None and self.bandwidth > system.bandwidth * _ROUNDED:
            most = _rendered(system.bandwidth)
            message = f"{_rendered(self.bandwidth)} is more than the {most} that an NPU can send"
            raise InputError(message, key="bandwidth", accepted=f"at most {most}, which is the default")
        return self.load * self.bandwidth

    def messages(self, system: System) -> list[list[Message]]:
        """Return the messages of each rank, in their order; raises ``InputError`` as ``offered`` and ``mesh`` do."""
        ranks, rate = self.mesh(system).ranks, self.offered(system) / self.size
        random = Random(self.seed)
        order = sorted(range(ranks), key=[random.random() for _ in range(ranks)].__getitem__)
        partner = dict(zip(order, [*order[1:], order[0]], strict=True))
        return [list(self._sent(rank, partner[rank], ranks, rate, random)) for rank in range(ranks)]

    def _sent(self, rank: int, partner: int, ranks: int, rate: float, random: Random) -> Iterator[Message]:
        """Yield ``rate`` messages a second of ``rank``, whose partner in the permutation is ``partner``."""
        now = 0.0
        while rate > 0:
            gap = random.expovariate(1.0) / rate
            now += gap
            if now > self.duration:
                return
            other = partner if self.pairs == "permutation" else int(random.random() * (ranks - 1))
            other += self.pairs == "random" and other >= rank
            yield Message(gap, other, self.size * (random.expovariate(1.0) if self.sizes == "exponential" else 1.0))

    def graph(self, system: System) -> TaskGraph:
        ranks = self.mesh(system).ranks
        limits.check("tasks", int(_TASKS * ranks * self.duration * self.offered(system) / self.size), key="duration")
        builder = GraphBuilder(ranks)
        for rank, messages in enumerate(self.messages(system)):
            before: tuple[int, ...] = ()
            passed = 0.0
            for number, message in enumerate(messages):
                before = (builder.wait(f"gap {number} of {rank}", rank, seconds=message.gap, after=before),)
                passed += message.gap
                name = f"message {number} from {rank} to {message.destination}"
                send = builder.send(name, rank, message.destination, message.size, label="background", after=before)
                builder.receive(f"receive {number} from {rank}", send)
            builder.wait(f"end of {rank}", rank, seconds=max(self.duration - passed, 0.0), after=before)
        return builder.build()

    def notes(self, system: System) -> tuple[str, ...]:
        sent = self.messages(system)
        if not self.duration:
            return ()
        messages = [message for one in sent for message in one]
        offered = sum(message.size for message in messages) / (len(sent) * self.duration)
        many = units.counted(len(messages), "message is", "messages are")
        note = f"{many} offered: {_rendered(offered)} for each NPU"
        if system.bandwidth is not None:
            note += f", {offered / system.bandwidth:.3g} of the {_rendered(system.bandwidth)} that it can send"
        of = "" if self.bandwidth is None else f" of {_rendered(self.bandwidth)}"
        return (f"{note} (asked: {self.load:g}{of})",)


def _rendered(bandwidth: float) -> str:
    return units.render(bandwidth, units.Unit.BYTES_PER_SECOND)
