"""MSCCL++ execution plans: what their JSON says, and running it symbolically.

A threadblock of a plan reads and writes the memory of its own GPU and of others. A signal tells a peer that what came
before is done; a wait takes the next signal of its channel. Signals take no time, for they have no bytes.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from attrs import define, frozen

from fredfw import limits
from fredfw.errors import InputError
from fredfw.tables import parse_json
from fredfw_collective_msccl.machine import START, FaultError, Machine, Need, Past, Runner, Value, Where
from fredfw_collective_msccl.program import WORDS, Layout, Place

_SIGNALS = frozenset({"signal", "rlxsignal", "pws", "pwsf"})
_WAITS = frozenset({"wait", "rlxwait"})
_PAIRS = frozenset({"copy", "put", "get", "pws", "pwsf"})  # take each source to the destination at the same place
_SUMS = frozenset({"re", "res", "rre", "rres"})  # add all sources and put the sum into all destinations
_OPERATIONS = _SIGNALS | _WAITS | _PAIRS | _SUMS | {"nop", "flush", "barrier"}
_BUFFERS = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
_NO_LIMIT = 1 << 63  # sizes from here on are meant as none

Line = tuple[int, int, str, int]  # a channel: from, to, type, and which of those it is
T = TypeVar("T")


@frozen
class Span:
    """Chunks of a GPU's memory."""

    gpu: int
    place: Place
    count: int


@frozen
class Operation:
    """What a thread block does."""

    name: str
    sources: tuple[Span, ...] = ()
    destinations: tuple[Span, ...] = ()
    lines: tuple[Line, ...] = ()  # that are signalled or waited for
    barrier: tuple[int, int] = (-1, 0)  # its number, and how many thread blocks meet there


@frozen
class Plan:
    """A plan: for each GPU, chunks of each buffer by letter, and operations of each thread block."""

    collective: str  # in MSCCL++'s words
    in_place: bool  # whether input and output are one buffer, as far as the collective has them overlap
    least: int  # bytes of the smallest buffer that it is for
    most: int  # bytes of the largest, 0 for any
    sizes: tuple[Mapping[str, int], ...]
    blocks: tuple[tuple[tuple[Operation, ...], ...], ...]

    @property
    def ranks(self) -> int:
        return len(self.sizes)

    @property
    def loop(self) -> int:
        """Chunks of the largest buffer."""
        return max(max(size["i"], size["o"]) for size in self.sizes)


def read(data: bytes) -> Plan:
    content = parse_json(data, accepted="an MSCCL++ execution plan")
    reader = _Reader()
    if (collective := reader.text(content, "collective")) not in WORDS:
        reader.refuse(f"unsupported collective {collective!r}", "collective", ", ".join(WORDS))
    gpus = reader.listed(content, "gpus")
    if [reader.number(gpu, "id") for gpu in gpus] != list(range(len(gpus))) or not gpus:
        reader.refuse("GPUs are not numbered 0, 1, 2, ...", "gpus", "each GPU once, in order")
    operations = [reader.listed(block, "ops") for gpu in gpus for block in reader.listed(gpu, "threadblocks")]
    limits.check("transfers", sum(map(len, operations)), key="gpus")
    most = reader.number(content, "max_message_size", 0)
    return Plan(
        collective=collective,
        in_place=reader.get(content, "inplace", bool, "true or false"),
        least=reader.number(content, "min_message_size", 0),
        most=0 if most >= _NO_LIMIT else most,
        sizes=tuple({one: reader.number(gpu, key) for one, key in _BUFFERS.items()} for gpu in gpus),
        blocks=tuple(_blocks(reader, gpu, number, len(gpus)) for number, gpu in enumerate(gpus)),
    )


@frozen
class _Reader:
    """Looks things up; messages name the step or, where there is none, the key."""

    where: Where | None = None

    def refuse(self, message: str, key: str, accepted: str) -> NoReturn:
        raise InputError(message, key=str(self.where or key), accepted=accepted)

    def get(self, of: Any, key: str, kind: type[T], accepted: str, default: T | None = None) -> T:
        if not isinstance(of, dict):
            self.refuse(f"{str(of)[:40]!r} is not an object", key, "an object")
        if default is not None and key not in of:
            return default
        value = of.get(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.refuse(f"{key} is {str(value)[:40]!r}" if key in of else f"has no {key}", key, accepted)
        return value

    def text(self, of: Any, key: str) -> str:
        return self.get(of, key, str, "a text")

    def listed(self, of: Any, key: str, default: list[Any] | None = None) -> list[Any]:
        return self.get(of, key, list, "a list", default)

    def number(self, of: Any, key: str, default: int | None = None, most: int | None = None) -> int:
        accepted = f"a whole number from 0{'' if most is None else f' to {most}'}"
        value = self.get(of, key, int, accepted, default)
        if value < 0 or (most is not None and value > most):
            self.refuse(f"{key} is {value}", key, accepted)
        return value

    def chosen(self, of: Any, key: str, known: Sequence[T]) -> list[T]:
        """Return those of ``known`` that a list names by number; none where there is no list."""
        return [known[self.number({key: one}, key, most=len(known) - 1)] for one in self.listed(of, key, [])]

    def letter(self, of: Any) -> str:
        if (letter := self.text(of, "type")) not in _BUFFERS:
            self.refuse(f"unknown buffer {letter!r}", "remote_buffers", ", ".join(_BUFFERS))
        return letter


def _blocks(reader: _Reader, gpu: Any, number: int, ranks: int) -> tuple[tuple[Operation, ...], ...]:
    # Of each type, the peer of each channel, and which of those to it the channel is.
    lines: dict[str, list[tuple[int, int]]] = {"memory": [], "port": []}
    for channel in reader.listed(gpu, "channels", []):
        if (known := lines.get(reader.text(channel, "channel_type"))) is None:
            continue  # who uses one is refused
        for peer in reader.chosen(channel, "connected_to", range(ranks)):
            if peer == number:
                reader.refuse(f"GPU {number} is connected to itself", "connected_to", "another GPU")
            known.append((peer, sum(other == peer for other, _ in known)))
    remote = [
        (reader.number(buffer, "rank", most=ranks - 1), reader.letter(buffer))
        for buffer in reader.listed(gpu, "remote_buffers", [])
    ]
    blocks = []
    for at, block in enumerate(reader.listed(gpu, "threadblocks")):
        reader.number(block, "id", most=at)
        channels: dict[str, list[tuple[int, int]]] = {type_: [] for type_ in lines}
        for own in reader.listed(block, "channels", []):
            if (type_ := reader.text(own, "channel_type")) in lines:
                channels[type_] += reader.chosen(own, "channel_ids", lines[type_])
        buffers: dict[str, list[tuple[int, str]]] = {type_: [] for type_ in lines}
        for own in reader.listed(block, "remote_buffer_refs", []):
            if (type_ := reader.text(own, "access_channel_type")) in lines:
                buffers[type_] += reader.chosen(own, "remote_buffer_ids", remote)
        wheres = ((_Reader(Where(number, at, step)), one) for step, one in enumerate(reader.listed(block, "ops")))
        blocks.append(tuple(_operation(where, one, number, channels, buffers) for where, one in wheres))
    return tuple(blocks)


def _operation(
    reader: _Reader,
    content: Any,
    gpu: int,
    channels: Mapping[str, Sequence[tuple[int, int]]],
    buffers: Mapping[str, Sequence[tuple[int, str]]],
) -> Operation:
    """Return an operation of a thread block that has, by type of channel, ``channels`` and ``buffers`` of others."""
    if (name := reader.text(content, "name")) not in _OPERATIONS:
        reader.refuse(f"unsupported operation {name!r}", "name", ", ".join(sorted(_OPERATIONS)))
    group = content.get("tbg_info")
    if isinstance(group, dict) and group.get("tbg_size", 1) != 1:
        reader.refuse("unsupported: threadblocks that share an operation", "tbg_info", "a group of one")
    if (type_ := content.get("channel_type", "none")) not in ("memory", "port", "none"):
        reader.refuse(f"unsupported channel type {type_!r}", "channel_type", "memory, port, none")
    ends = reader.chosen(content, "channel_ids", channels.get(type_, ())) if name in _SIGNALS | _WAITS else ()
    lines = [(gpu, peer, type_, which) if name in _SIGNALS else (peer, gpu, type_, which) for peer, which in ends]
    barrier = -1, 0
    if name == "barrier":
        barrier = reader.number(content, "barrier_id"), reader.number(content, "num_threadblocks")
    sources, destinations = (
        tuple(_span(reader, one, gpu, buffers.get(type_, ())) for one in reader.listed(content, key, []))
        for key in ("src_buff", "dst_buff")
    )
    counts = {span.count for span in (*sources, *destinations)}
    bad = name in _PAIRS and (len(sources) != len(destinations) or not sources)
    bad |= name in _SUMS and (not sources or not destinations or len(counts) > 1)
    if bad or any(one.count != other.count for one, other in zip(sources, destinations, strict=False)):
        reader.refuse(f"sources and destinations of {name} do not match", "dst_buff", "as many chunks")
    return Operation(name, sources, destinations, tuple(lines), barrier)


def _span(reader: _Reader, content: Any, gpu: int, buffers: Sequence[tuple[int, str]]) -> Span:
    offset, count = reader.number(content, "index"), reader.number(content, "size")
    if "type" in content:
        letter = reader.letter(content)
    else:
        gpu, letter = buffers[reader.number(content, "buffer_id", most=len(buffers) - 1)]
    return Span(gpu, Place(letter, offset), count)


@define(eq=False)
class _Meeting:
    """How many thread blocks of a GPU have come to a barrier, and what is so then."""

    come: int = 0
    past: Past = START


class Planned(Machine[Operation]):
    """The run of a plan."""

    def __init__(self, plan: Plan, layout: Layout) -> None:
        super().__init__(layout, plan.sizes, plan.blocks)
        # Signals that nobody has waited for: what came before each, and who sent it.
        self._signals: defaultdict[Line, deque[tuple[Past, int]]] = defaultdict(deque)
        self._meetings: dict[tuple[int, int], _Meeting] = {}  # the last at a barrier of a GPU
        self._meeting_of: dict[tuple[int, int], _Meeting] = {}  # by GPU and number of who waits there

    def unmatched(self) -> tuple[int, str] | None:
        for (_, peer, _, _), signals in sorted(self._signals.items()):
            if signals:
                return signals[0][1], f"signals what GPU {peer} never waits for"
        return None

    def hindered(self, runner: Runner[Operation]) -> str | None:
        operation = runner.step
        if operation.name in _WAITS:
            for line in operation.lines:
                if not self._signals[line]:
                    return f"a signal of GPU {line[0]} on its {line[2]} channel {line[3]} to GPU {line[1]}"
        if operation.name == "barrier":
            (barrier, blocks), come = operation.barrier, self._meeting(runner).come
            if come < blocks:
                return f"{blocks} threadblocks at barrier {barrier}, where {come} are"
        return None

    def _meeting(self, runner: Runner[Operation]) -> _Meeting:
        """Return the meeting that ``runner`` has come to, who is counted once."""
        key, (barrier, blocks) = (runner.gpu, runner.number), runner.step.barrier
        if key not in self._meeting_of:
            meeting = self._meetings.get((runner.gpu, barrier))
            if meeting is None or meeting.come >= blocks:
                meeting = self._meetings[runner.gpu, barrier] = _Meeting()
            meeting.come += 1
            meeting.past = meeting.past[0] | runner.past[0], meeting.past[1] | runner.past[1]
            self._meeting_of[key] = meeting
        return self._meeting_of[key]

    def do(self, runner: Runner[Operation], number: int) -> Past:
        operation, past = runner.step, runner.past
        if operation.name == "barrier":
            past = self.joined(past, self._meeting_of.pop((runner.gpu, runner.number)).past)
        elif operation.name in _WAITS:
            for line in operation.lines:
                if not self._signals[line]:
                    raise FaultError("waits for one channel twice at once")
                past = self.joined(past, self._signals[line].popleft()[0])
        before, needs = past
        if operation.name in _PAIRS:
            results = [
                self._moved(runner.gpu, number, (source,), (destination,), past)
                for source, destination in zip(operation.sources, operation.destinations, strict=True)
            ]
            needs = self.journal.pruned(frozenset().union(*results))
        elif operation.name in _SUMS:
            needs = self._moved(runner.gpu, number, operation.sources, operation.destinations, past)
        before |= 1 << number
        if operation.name in _SIGNALS:
            # A relaxed signal says when, and not that what was written before can be seen. What has been sent must have
            # arrived, as a signal that comes behind it says.
            seen = 0 if operation.name == "rlxsignal" else before
            arrived = frozenset((self.journal.ends[one][1], one, True) for _, one, _ in needs)
            for line in operation.lines:
                self._signals[line].append(((seen, arrived), number))
        return before, needs

    def _moved(
        self, gpu: int, number: int, sources: Sequence[Span], destinations: Sequence[Span], past: Past
    ) -> frozenset[Need]:
        """Put the sum of ``sources`` into all ``destinations``; return what is so when that is done."""
        before, needs = past
        total: list[Value] = []
        got = needs
        for at, span in enumerate(sources):
            values = self.memory.read(span.gpu, span.place, span.count, number, before)
            if span.gpu != gpu:
                transfer = self.journal.add(span.gpu, gpu, _chunks(values), needs, reduces=len(sources) > 1)
                got |= {(gpu, transfer, True)}
            total = self.memory.added(total, values) if at else values
        got = self.journal.pruned(got)
        done = got
        for span in destinations:
            self.memory.write(span.gpu, span.place, total, number, before)
            if span.gpu != gpu:
                transfer = self.journal.add(gpu, span.gpu, _chunks(total), got)
                done |= {(gpu, transfer, False)}
        return self.journal.pruned(done)


def _chunks(values: Sequence[Value]) -> list[int]:
    return [-1 if value is None else value[0] for value in values]
