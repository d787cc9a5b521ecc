"""MSCCL++ execution plans: what their JSON says, and running it symbolically.

A threadblock of a plan reads and writes the memory of its own GPU and of others. A signal tells a peer that what came
before is done; a wait takes the next signal of its channel. Signals take no time, for they have no bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from attrs import define, field, frozen

from fredfw import limits
from fredfw.errors import InputError, LimitError
from fredfw_collective_msccl.layout import COLLECTIVES, CUSTOM, Layout
from fredfw_collective_msccl.machine import Machine, Runner, Where
from fredfw_collective_msccl.memory import FaultError, Value
from fredfw_collective_msccl.transfers import NOTHING, Need, Transfer

_SIGNALS = frozenset({"signal", "rlxsignal", "pws", "pwsf"})
_WAITS = frozenset({"wait", "rlxwait"})
_PAIRS = frozenset({"copy", "put", "get", "pws", "pwsf"})
"""Operations that take each source to the destination at the same place."""
_SUMS = frozenset({"re", "res", "rre", "rres"})
"""Operations that add all sources and put the sum into all destinations."""
_NOTHING = frozenset({"nop", "flush"})
OPERATIONS = _SIGNALS | _WAITS | _PAIRS | _SUMS | _NOTHING | {"barrier"}
_BUFFERS = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
_NO_LIMIT = 1 << 63
"""Sizes from here on are meant as none."""


@frozen
class Span:
    """A part of a GPU's memory.

    Args:
        gpu: Whose.
        buffer: ``i``, ``o`` or ``s``.
        offset: First chunk.
        count: Chunks.
    """

    gpu: int
    buffer: str
    offset: int
    count: int


@frozen
class Operation:
    """What a thread block does.

    Args:
        name: One of ``OPERATIONS``.
        sources: What is read.
        destinations: What is written.
        lines: Channels that are signalled or waited for: (from, to, type, number).
        barrier: Number of the barrier, and how many thread blocks meet there.
    """

    name: str
    sources: tuple[Span, ...] = ()
    destinations: tuple[Span, ...] = ()
    lines: tuple[tuple[int, int, str, int], ...] = ()
    barrier: tuple[int, int] = (-1, 0)


@frozen
class Plan:
    """A plan.

    Args:
        collective: What it carries out, in MSCCL++'s words.
        in_place: Whether input and output are one buffer, as far as the collective has them overlap.
        least: Bytes of the smallest buffer that it is for.
        most: Bytes of the largest, 0 for any.
        sizes: Chunks of each buffer by letter, for each GPU.
        blocks: Operations of each thread block, for each GPU.
    """

    collective: str
    in_place: bool
    least: int
    most: int
    sizes: tuple[Mapping[str, int], ...]
    blocks: tuple[tuple[tuple[Operation, ...], ...], ...]

    @property
    def loop(self) -> int:
        """Chunks of the largest buffer."""
        return max(max(size["i"], size["o"]) for size in self.sizes)


def read(data: bytes, file: str) -> Plan:
    """Return what ``data`` says.

    Args:
        data: Content of the file.
        file: Its name, for messages.

    Raises:
        InputError: It is no plan, or one with operations that are not known; names GPU, thread block and step.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}", file=file, accepted="an MSCCL++ execution plan") from None
    reader = _Reader(file)
    collective = reader.text(content, "collective")
    if collective not in COLLECTIVES and collective != CUSTOM:
        reader.refuse(f"unsupported collective {collective!r}", "collective", ", ".join([*COLLECTIVES, CUSTOM]))
    gpus = reader.listed(content, "gpus")
    if [reader.number(gpu, "id") for gpu in gpus] != list(range(len(gpus))) or not gpus:
        reader.refuse("GPUs are not numbered 0, 1, 2, ...", "gpus", "each GPU once, in order")
    most = reader.number(content, "max_message_size", 0)
    return Plan(
        collective=collective,
        in_place=reader.flag(content, "inplace"),
        least=reader.number(content, "min_message_size", 0),
        most=0 if most >= _NO_LIMIT else most,
        sizes=tuple({one: reader.number(gpu, key) for one, key in _BUFFERS.items()} for gpu in gpus),
        blocks=_blocks(reader, gpus),
    )


class _Reader:
    """Looks things up.

    Args:
        file: For messages.
    """

    def __init__(self, file: str) -> None:
        self._file = file

    def refuse(self, message: str, key: str, accepted: str, where: Where | None = None) -> NoReturn:
        """Raise ``InputError``, whose place is the step or, where there is none, the key."""
        raise InputError(message, file=self._file, key=key if where is None else str(where), accepted=accepted)

    def get(self, of: Any, key: str, kind: type, accepted: str, where: Where | None = None) -> Any:
        """Return the value of ``key``, of this ``kind``."""
        if not isinstance(of, dict):
            self.refuse(f"{str(of)[:40]!r} is not an object", key, "an object", where)
        value = of.get(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            what = f"{key} is {str(value)[:40]!r}" if key in of else f"has no {key}"
            self.refuse(what, key, accepted, where)
        return value

    def text(self, of: Any, key: str, where: Where | None = None) -> str:
        """Return a text."""
        return str(self.get(of, key, str, "a text", where))

    def flag(self, of: Any, key: str) -> bool:
        """Return a flag."""
        return bool(self.get(of, key, bool, "true or false"))

    def listed(self, of: Any, key: str, where: Where | None = None, *, optional: bool = False) -> list[Any]:
        """Return a list."""
        if optional and isinstance(of, dict) and key not in of:
            return []
        return list(self.get(of, key, list, "a list", where))

    def number(
        self, of: Any, key: str, default: int | None = None, most: int | None = None, where: Where | None = None
    ) -> int:
        """Return a whole number from 0 to ``most``."""
        if default is not None and isinstance(of, dict) and key not in of:
            return default
        accepted = f"a whole number from 0{'' if most is None else f' to {most}'}"
        value = int(self.get(of, key, int, accepted, where))
        if value < 0 or (most is not None and value > most):
            self.refuse(f"{key} is {value}", key, accepted, where)
        return value

    def numbers(self, of: Any, key: str, most: int, where: Where | None = None) -> list[int]:
        """Return a list of whole numbers from 0 to ``most``; none where there is no list."""
        found = self.listed(of, key, where, optional=True)
        return [self.number({key: one}, key, most=most, where=where) for one in found]


def _blocks(reader: _Reader, gpus: list[Any]) -> tuple[tuple[tuple[Operation, ...], ...], ...]:
    count = sum(len(reader.listed(block, "ops")) for gpu in gpus for block in reader.listed(gpu, "threadblocks"))
    try:
        limits.check("transfers", count)
    except LimitError as error:
        reader.refuse(error.message, "gpus", error.accepted or "")
    lines = [_lines(reader, gpu, number, len(gpus)) for number, gpu in enumerate(gpus)]
    return tuple(_blocks_of(reader, gpu, number, gpus, lines) for number, gpu in enumerate(gpus))


def _lines(reader: _Reader, gpu: Any, number: int, ranks: int) -> dict[str, list[tuple[int, int]]]:
    """Return the peer of each channel of a type, and which of those to it the channel is."""
    found: dict[str, list[tuple[int, int]]] = {"memory": [], "port": []}
    for channel in reader.listed(gpu, "channels", optional=True):
        type_ = reader.text(channel, "channel_type")
        if type_ not in found:
            continue  # who uses one is refused
        for peer in reader.numbers(channel, "connected_to", ranks - 1):
            if peer == number:
                reader.refuse(f"GPU {number} is connected to itself", "connected_to", "another GPU")
            found[type_].append((peer, sum(other == peer for other, _ in found[type_])))
    return found


def _blocks_of(
    reader: _Reader, gpu: Any, number: int, gpus: list[Any], lines: list[dict[str, list[tuple[int, int]]]]
) -> tuple[tuple[Operation, ...], ...]:
    remote = []
    for buffer in reader.listed(gpu, "remote_buffers", optional=True):
        rank, letter = reader.number(buffer, "rank", most=len(gpus) - 1), reader.text(buffer, "type")
        if letter not in _BUFFERS:
            reader.refuse(f"unknown buffer {letter!r}", "remote_buffers", ", ".join(_BUFFERS))
        remote.append((rank, letter))
    blocks = []
    for at, block in enumerate(reader.listed(gpu, "threadblocks")):
        reader.number(block, "id", most=at)
        context = _Context(
            reader,
            number,
            len(gpus),
            {
                type_: [
                    lines[number][type_][one]
                    for channel in reader.listed(block, "channels", optional=True)
                    if reader.text(channel, "channel_type") == type_
                    for one in reader.numbers(channel, "channel_ids", len(lines[number][type_]) - 1)
                ]
                for type_ in ("memory", "port")
            },
            {
                type_: [
                    remote[one]
                    for refs in reader.listed(block, "remote_buffer_refs", optional=True)
                    if reader.text(refs, "access_channel_type") == type_
                    for one in reader.numbers(refs, "remote_buffer_ids", len(remote) - 1)
                ]
                for type_ in ("memory", "port")
            },
        )
        blocks.append(
            tuple(
                context.operation(one, Where(number, at, step)) for step, one in enumerate(reader.listed(block, "ops"))
            )
        )
    return tuple(blocks)


@frozen
class _Context:
    """What the numbers in operations of a thread block mean.

    Args:
        reader: Looks things up.
        gpu: Whose thread block it is.
        ranks: GPUs.
        channels: By type, the peer of each channel of it, and which of those to it the channel is.
        buffers: By type of channel, GPU and letter of each buffer that it may use of others.
    """

    reader: _Reader
    gpu: int
    ranks: int
    channels: Mapping[str, Sequence[tuple[int, int]]]
    buffers: Mapping[str, Sequence[tuple[int, str]]]

    def operation(self, content: Any, where: Where) -> Operation:
        """Return an operation."""
        reader = self.reader
        name = reader.text(content, "name", where)
        if name not in OPERATIONS:
            known = ", ".join(sorted(OPERATIONS))
            reader.refuse(f"unsupported operation {name!r}", "name", known, where)
        group = content.get("tbg_info")
        if isinstance(group, dict) and group.get("tbg_size", 1) != 1:
            reader.refuse("unsupported: threadblocks that share an operation", "tbg_info", "a group of one", where)
        type_ = content.get("channel_type", "none")
        if type_ not in ("memory", "port", "none"):
            reader.refuse(f"unsupported channel type {type_!r}", "channel_type", "memory, port, none", where)
        lines: tuple[tuple[int, int, str, int], ...] = ()
        if name in _SIGNALS | _WAITS:
            known_lines = self.channels.get(type_, ())
            chosen = [known_lines[one] for one in reader.numbers(content, "channel_ids", len(known_lines) - 1, where)]
            mine = name in _SIGNALS
            lines = tuple(
                (self.gpu if mine else peer, peer if mine else self.gpu, type_, which) for peer, which in chosen
            )
        barrier = -1, 0
        if name == "barrier":
            barrier = (
                reader.number(content, "barrier_id", where=where),
                reader.number(content, "num_threadblocks", where=where),
            )
        spans = [
            tuple(self._span(one, type_, where) for one in reader.listed(content, key, where, optional=True))
            for key in ("src_buff", "dst_buff")
        ]
        self._check_spans(name, spans[0], spans[1], where)
        return Operation(name, spans[0], spans[1], lines, barrier)

    def _span(self, content: Any, type_: str, where: Where) -> Span:
        reader = self.reader
        offset, count = reader.number(content, "index", where=where), reader.number(content, "size", where=where)
        if "type" in content:
            letter = reader.text(content, "type", where)
            if letter not in _BUFFERS:
                reader.refuse(f"unknown buffer {letter!r}", "type", ", ".join(_BUFFERS), where)
            return Span(self.gpu, letter, offset, count)
        known = self.buffers.get(type_, ())
        gpu, letter = known[reader.number(content, "buffer_id", most=len(known) - 1, where=where)]
        return Span(gpu, letter, offset, count)

    def _check_spans(self, name: str, sources: Sequence[Span], destinations: Sequence[Span], where: Where) -> None:
        counts = {span.count for span in (*sources, *destinations)}
        bad = name in _PAIRS and (len(sources) != len(destinations) or not sources)
        bad |= name in _SUMS and (not sources or not destinations or len(counts) > 1)
        if bad or any(one.count != other.count for one, other in zip(sources, destinations, strict=False)):
            self.reader.refuse(f"sources and destinations of {name} do not match", "dst_buff", "as many chunks", where)


@define(eq=False)
class _Runner(Runner):
    """A thread block.

    Args:
        operations: What it is to do.
    """

    operations: tuple[Operation, ...]


@define(eq=False)
class _Line:
    """Signals of a channel.

    Args:
        sent: What came before each, and is so, and who sent it.
        taken: How many have been waited for.
    """

    sent: list[tuple[int, frozenset[Need], int]] = field(factory=list)
    taken: int = 0


@define(eq=False)
class _Meeting:
    """Thread blocks of a GPU that meet at a barrier.

    Args:
        come: How many have.
        before: What came before.
        done: What is so.
    """

    come: int = 0
    before: int = 0
    done: frozenset[Need] = NOTHING


def run(plan: Plan, layout: Layout, file: str) -> list[Transfer]:
    """Return the transfers of ``plan``; see ``running.run``."""
    return _Run(plan, layout, file).transfers()


class _Run(Machine[_Runner]):
    def __init__(self, plan: Plan, layout: Layout, file: str) -> None:
        super().__init__(layout, plan.sizes, file)
        self._all = [
            _Runner(gpu, number, len(operations), operations)
            for gpu, blocks in enumerate(plan.blocks)
            for number, operations in enumerate(blocks)
        ]
        self._lines: dict[tuple[int, int, str, int], _Line] = {}
        self._meetings: dict[tuple[int, int], list[_Meeting]] = {}
        self._meeting_of: dict[int, _Meeting] = {}  # by identity of who waits there

    def transfers(self) -> list[Transfer]:
        """Run all operations; see ``run``."""
        self.drive(self._all)
        for (_, peer, _, _), line in sorted(self._lines.items()):
            if line.taken < len(line.sent):
                raise self.error(self.names[line.sent[line.taken][2]], f"signals what GPU {peer} never waits for")
        self.check_end()
        return self.journal.transfers

    def hindered(self, runner: _Runner) -> str | None:
        """See ``Machine.hindered``."""
        operation = runner.operations[runner.at]
        if operation.name in _WAITS:
            for key in operation.lines:
                line = self._lines.setdefault(key, _Line())
                if line.taken >= len(line.sent):
                    return f"a signal of GPU {key[0]} on its {key[2]} channel {key[3]} to GPU {key[1]}"
        if operation.name == "barrier":
            meeting = self._meeting(runner, operation)
            if meeting.come < operation.barrier[1]:
                return (
                    f"{operation.barrier[1]} threadblocks at barrier {operation.barrier[0]}, where {meeting.come} are"
                )
        return None

    def _meeting(self, runner: _Runner, operation: Operation) -> _Meeting:
        """Return the meeting that ``runner`` has come to, who is counted once."""
        if id(runner) not in self._meeting_of:
            meetings = self._meetings.setdefault((runner.gpu, operation.barrier[0]), [])
            if not meetings or meetings[-1].come >= operation.barrier[1]:
                meetings.append(_Meeting())
            self._meeting_of[id(runner)] = meetings[-1]
            meetings[-1].come += 1
            meetings[-1].before |= runner.before
            meetings[-1].done |= runner.done
        return self._meeting_of[id(runner)]

    def do(self, runner: _Runner, number: int) -> None:
        """See ``Machine.do``."""
        operation = runner.operations[runner.at]
        before, needs = runner.before, runner.done
        if operation.name == "barrier":
            meeting = self._meeting_of.pop(id(runner))
            before, needs = before | meeting.before, self.journal.pruned(needs | meeting.done)
        elif operation.name in _WAITS:
            for key in operation.lines:
                line = self._lines[key]
                if line.taken >= len(line.sent):
                    raise FaultError("waits for one channel twice at once")
                seen, met, _ = line.sent[line.taken]
                line.taken += 1
                before, needs = before | seen, self.journal.pruned(needs | met)
        elif operation.name in _PAIRS:
            results = [
                self._moved(runner, number, (source,), (destination,), before, needs)
                for source, destination in zip(operation.sources, operation.destinations, strict=True)
            ]
            needs = self.journal.pruned(frozenset().union(*results))
        elif operation.name in _SUMS:
            needs = self._moved(runner, number, operation.sources, operation.destinations, before, needs)
        before |= 1 << number
        if operation.name in _SIGNALS:
            # A relaxed signal says when, and not that what was written before can be seen.
            seen = 0 if operation.name == "rlxsignal" else before
            for key in operation.lines:
                self._lines.setdefault(key, _Line()).sent.append((seen, self._arrived(needs), number))
        runner.before, runner.done = before, needs

    def _moved(
        self,
        runner: _Runner,
        number: int,
        sources: Sequence[Span],
        destinations: Sequence[Span],
        before: int,
        needs: frozenset[Need],
    ) -> frozenset[Need]:
        """Put the sum of ``sources`` into all ``destinations``; return what is so when that is done."""
        read: list[list[Value]] = []
        got = needs
        for span in sources:
            values = self.memory.read(span.gpu, span.buffer, span.offset, span.count, number, before)
            read.append(values)
            if span.gpu != runner.gpu:
                transfer = self.journal.add(span.gpu, runner.gpu, _chunks(values), needs, reduces=len(sources) > 1)
                got |= {(runner.gpu, transfer, True)}
        got = self.journal.pruned(got)
        total = read[0]
        for values in read[1:]:
            total = self.memory.added(total, values)
        done = got
        for span in destinations:
            self.memory.write(span.gpu, span.buffer, span.offset, total, number, before)
            if span.gpu != runner.gpu:
                transfer = self.journal.add(runner.gpu, span.gpu, _chunks(total), got)
                done |= {(runner.gpu, transfer, False)}
        return self.journal.pruned(done)

    def _arrived(self, needs: frozenset[Need]) -> frozenset[Need]:
        """Return ``needs`` where what has been sent must have arrived, as a signal that comes behind it says."""
        ends = [(self.journal.transfers[one].destination, one) for _, one, _ in needs]
        return frozenset((gpu, one, True) for gpu, one in ends)


def _chunks(values: Sequence[Value]) -> list[int]:
    return [-1 if value is None else value[0] for value in values]
