"""Writing a schedule as an MSCCL program.

Each GPU has a threadblock for each peer that it sends to or receives from, and for each channel to it. A transfer waits
for what its rank does in the phases before it, as a run rank by rank has it: it names those steps, with a ``nop`` for
each further one. Transfers of phases that are not ordered go on channels of their own, for a threadblock would order
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field

from fredfw import Phase, Schedule
from fredfw.errors import InputError, UnsupportedError
from fredfw_collective_msccl.layout import COLLECTIVES
from fredfw_collective_msccl.placing import Placing, carried
from fredfw_collective_msccl.program import Block, Gpu, Place, Program, Step
from fredfw_collective_msccl.proof import proved
from fredfw_collective_msccl.turns import in_order

# Of src/include/msccl/msccl_struct.h and src/misc/msccl/msccl_parser.cc of msccl-executor-nccl.
_STEPS, _CHANNELS, _PEERS, _COUNT, _WAITED = 64, 32, 32, 71, 128
_ONES = {pattern: word for word, pattern in COLLECTIVES.items()}

_Step = tuple[int, int]
"""Thread block of a GPU, and step of it."""
_Clock = dict[int, int]
"""By thread block of a GPU, the last step of it that is done."""


def written(schedule: Schedule, name: str, protocol: str) -> Program:
    """Return a program that does what ``schedule`` does, which has been proved.

    Raises:
        UnsupportedError: Something of it has no form in MSCCL.
    """
    _check(schedule)
    program = _Writer(schedule).program(name, protocol)
    try:
        whole = proved(program, "the file").layout.whole
    except InputError as error:
        raise UnsupportedError(f"as threadblocks it does not do the same: {error.message}") from error
    if schedule.size % whole:
        message = f"{schedule.size:.12g} bytes cannot be divided into the {whole} chunks of the file"
        raise UnsupportedError(message, accepted=f"a multiple of {whole} bytes")
    return program


def _check(schedule: Schedule) -> None:
    if schedule.pattern not in _ONES:
        raise UnsupportedError(f"MSCCL has no {schedule.pattern}", accepted=", ".join(_ONES))
    if schedule.proof != "replay":
        raise UnsupportedError("the phases of its schedule do not say all that happens", accepted="another algorithm")
    if schedule.ranks < 2 or not schedule.size:
        raise UnsupportedError("it sends nothing", accepted="two or more ranks, and bytes")
    for index, phase in enumerate(schedule.phases):
        if phase.stream is not None and (phase.stream >= 0).any():
            raise UnsupportedError(
                f"phase {index} is carried out in the network, and MSCCL has transfers between GPUs alone",
                accepted="an algorithm that sends from NPU to NPU",
            )


@define(eq=False)
class _Thread:
    """A thread block in the making.

    Args:
        send: GPU that it sends to, -1 for none.
        receive: GPU that it receives from, -1 for none.
        channel: Of both.
        steps: So far.
        clocks: What is done when each is.
    """

    send: int
    receive: int
    channel: int
    steps: list[Step] = field(factory=list)
    clocks: list[_Clock] = field(factory=list)


class _Gpu:
    """A GPU in the making."""

    def __init__(self) -> None:
        self.threads: list[_Thread] = []
        self._numbers: dict[tuple[int, int, int], int] = {}

    def thread(self, send: int, receive: int, channel: int) -> int:
        """Return the number of its thread block for these."""
        key = send, receive, channel
        if key not in self._numbers:
            self._numbers[key] = len(self.threads)
            self.threads.append(_Thread(send, receive, channel))
        return self._numbers[key]

    def waits(self, thread: int, needs: Iterable[_Step]) -> list[_Step]:
        """Return those of ``needs`` that a next step of ``thread`` must name, for others bring the rest along."""
        own = self.threads[thread].clocks[-1] if self.threads[thread].clocks else {}
        latest: _Clock = {}
        for block, step in needs:
            latest[block] = max(step, latest.get(block, -1))
        wanted = [(block, step) for block, step in latest.items() if block != thread and own.get(block, -1) < step]
        brought = [self.threads[block].clocks[step] for block, step in wanted]
        return sorted(
            (block, step)
            for at, (block, step) in enumerate(wanted)
            if all(clock.get(block, -1) < step for other, clock in enumerate(brought) if other != at)
        )

    def add(self, thread: int, step: Step, waits: Sequence[_Step]) -> _Step:
        """Add ``step``, which waits for others; return its place."""
        block = self.threads[thread]
        for wait in waits[:-1]:
            self._append(block, Step("nop", Place("i", -1), Place("o", -1), 0, wait))
        depends = waits[-1] if waits else None
        self._append(block, Step(step.type, step.source, step.destination, step.count, depends))
        block.clocks[-1][thread] = len(block.steps) - 1
        return thread, len(block.steps) - 1

    def _append(self, block: _Thread, step: Step) -> None:
        clock = dict(block.clocks[-1]) if block.clocks else {}
        if step.depends is not None:
            other, its = step.depends
            for one, at in self.threads[other].clocks[its].items():
                clock[one] = max(at, clock.get(one, -1))
            clock[other] = max(its, clock.get(other, -1))
        block.steps.append(step)
        block.clocks.append(clock)

    def peers(self, channel: int, *, sending: bool) -> int:
        """Return how many thread blocks send, or receive, on ``channel``."""
        return sum((one.send if sending else one.receive) >= 0 for one in self.threads if one.channel == channel)


@define(eq=False)
class _Line:
    """A connection.

    Args:
        channel: Its number.
        phase: The last phase that uses it.
    """

    channel: int
    phase: int


class _Writer:
    """Makes the program of one schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._placing = Placing.of(schedule)
        self._gpus = [_Gpu() for _ in range(schedule.ranks)]
        self._lines: dict[tuple[int, int], list[_Line]] = {}
        self._before = [0] * len(schedule.phases)  # phases that come before each, as bits

    def program(self, name: str, protocol: str) -> Program:
        """Return it."""
        schedule, placing = self._schedule, self._placing
        done: dict[int, list[set[_Step]]] = {}
        for index, before in in_order(schedule):
            ready: list[set[_Step]] = [set() for _ in range(schedule.ranks)]
            for one in before:
                self._before[index] |= self._before[one] | 1 << one
                for rank, steps in enumerate(done[one]):
                    ready[rank] |= steps
            phase = schedule.phases[index]
            for repetition in range(phase.repeat):
                ready = self._repetition(index, phase, repetition, ready)
            done[index] = ready
        for rank, gpu in enumerate(self._gpus):
            self._keep(rank, gpu)
        gpus = tuple(self._finished(rank, gpu) for rank, gpu in enumerate(self._gpus))
        layout = placing.layout
        return Program(
            name=name,
            protocol=protocol,
            collective=_ONES[schedule.pattern],
            loop=layout.loop,
            channels=1 + max((thread.channel for gpu in self._gpus for thread in gpu.threads), default=0),
            in_place=layout.in_place,
            out_of_place=not layout.in_place,
            least=0,
            most=0,
            gpus=gpus,
        )

    def _repetition(self, index: int, phase: Phase, repetition: int, ready: list[set[_Step]]) -> list[set[_Step]]:
        """Add the transfers of a repetition; return what each rank is done with after it."""
        flows = list(self._flows(phase, repetition))
        done: list[set[_Step]] = [set() for _ in ready]
        uses: list[dict[tuple[str, int], set[_Step]]] = [{} for _ in ready]  # steps that use each piece
        channels = []
        for source, destination, _, runs in flows:
            channel = self._channel(index, source, destination, len(runs), len(ready[source]) + 2)
            channels.append(channel)
            gpu = self._gpus[source]
            thread = gpu.thread(destination, -1, channel)
            for start, end, count in runs:
                step = gpu.add(thread, Step("s", start, end, count), gpu.waits(thread, ready[source]))
                done[source].add(step)
                _note(uses[source], start, count, step)
        # All that is sent has been read before anything is written.
        for (source, destination, reduces, runs), channel in zip(flows, channels, strict=True):
            gpu = self._gpus[destination]
            thread = gpu.thread(-1, source, channel)
            for _, end, count in runs:
                needs = ready[destination].union(*_used(uses[destination], end, count))
                form = Step("rrc" if reduces else "r", end, end, count)
                step = gpu.add(thread, form, gpu.waits(thread, needs))
                done[destination].add(step)
                _note(uses[destination], end, count, step)
        for rank, steps in enumerate(done):
            if not steps:
                done[rank] = ready[rank]
        return done

    def _flows(self, phase: Phase, repetition: int) -> Iterator[tuple[int, int, bool, list[tuple[Place, Place, int]]]]:
        """Yield source, destination, whether it reduces, and the runs of pieces of each flow of a repetition."""
        chunks: dict[tuple[int, int, bool], list[int]] = {}
        for row in range(len(phase)):
            source, destination = int(phase.source[row]), int(phase.destination[row])
            if source == destination:
                continue
            key = source, destination, bool(phase.reduce[row])
            chunks.setdefault(key, []).extend(carried(phase, row, repetition).tolist())
        for (source, destination, reduces), together in chunks.items():
            runs = self._runs(source, destination, together)
            if runs:
                yield source, destination, reduces, runs

    def _runs(self, source: int, destination: int, chunks: list[int]) -> list[tuple[Place, Place, int]]:
        """Return where ``chunks`` come from and go to, and how many pieces, those together that lie together."""
        placing = self._placing
        found = []
        for chunk in sorted(chunks, key=placing.order):
            start, end, count = placing.place(source, chunk), placing.place(destination, chunk), placing.pieces[chunk]
            if count:
                found.append((start, end, int(count)))
        return _joined(found)

    def _channel(self, phase: int, source: int, destination: int, runs: int, waits: int) -> int:
        """Return the channel of a transfer: one whose last transfer comes before it anyway, with steps to spare."""
        lines = self._lines.setdefault((source, destination), [])
        out, into = self._gpus[source], self._gpus[destination]
        for line in lines:
            ordered = line.phase == phase or self._before[phase] >> line.phase & 1
            ends = (
                out.threads[out.thread(destination, -1, line.channel)],
                into.threads[into.thread(-1, source, line.channel)],
            )
            # Each run is a step at both ends, and has a nop for each further step that it waits for.
            if ordered and all(len(end.steps) + runs + waits <= _STEPS for end in ends):
                line.phase = phase
                return line.channel
        taken = {line.channel for line in lines}
        for channel in range(_CHANNELS):
            free = out.peers(channel, sending=True) < _PEERS and into.peers(channel, sending=False) < _PEERS
            if channel not in taken and free:
                lines.append(_Line(channel, phase))
                return channel
        raise UnsupportedError(
            f"it needs more than {_CHANNELS} channels from rank {source} to rank {destination}",
            accepted=f"an algorithm with fewer transfers: a threadblock has up to {_STEPS} steps",
        )

    def _keep(self, rank: int, gpu: _Gpu) -> None:
        """Add copies of what stays where it is."""
        placing = self._placing
        kept = [
            (placing.place(rank, chunk), placing.copied(rank, chunk), int(placing.pieces[chunk]))
            for chunk in placing.kept(rank)
            if placing.pieces[chunk]
        ]
        for start, end, count in _joined(kept):
            gpu.add(gpu.thread(-1, -1, 0), Step("cpy", start, end, count), ())

    def _finished(self, rank: int, gpu: _Gpu) -> Gpu:
        awaited = {step.depends for thread in gpu.threads for step in thread.steps if step.depends is not None}
        if awaited and max(awaited)[0] >= _WAITED:
            raise UnsupportedError(
                f"rank {rank} has {len(gpu.threads)} threadblocks",
                accepted=f"an algorithm with up to {_WAITED} of them where some wait for others",
            )
        for thread in gpu.threads:
            if len(thread.steps) > _STEPS:
                raise UnsupportedError(
                    f"rank {rank} has a threadblock of {len(thread.steps)} steps", accepted=f"{_STEPS} steps or fewer"
                )
        blocks = tuple(
            Block(
                thread.send,
                thread.receive,
                thread.channel,
                tuple(
                    Step(step.type, step.source, step.destination, step.count, step.depends, (number, at) in awaited)
                    for at, step in enumerate(thread.steps)
                ),
            )
            for number, thread in enumerate(gpu.threads)
        )
        return Gpu(self._placing.sizes(rank), blocks)


def _joined(runs: list[tuple[Place, Place, int]]) -> list[tuple[Place, Place, int]]:
    """Return ``runs`` with those as one that lie one behind the other at both ends, and none too long for a step."""
    found: list[tuple[Place, Place, int]] = []
    for start, end, count in runs:
        if found:
            before, after, length = found[-1]
            follows = (before.buffer, before.offset + length) == (start.buffer, start.offset)
            if follows and (after.buffer, after.offset + length) == (end.buffer, end.offset):
                found[-1] = before, after, length + count
                continue
        found.append((start, end, count))
    return [
        (
            Place(start.buffer, start.offset + at),
            Place(end.buffer, end.offset + at),
            min(_COUNT, count - at),
        )
        for start, end, count in found
        for at in range(0, count, _COUNT)
    ]


def _note(uses: dict[tuple[str, int], set[_Step]], place: Place, count: int, step: _Step) -> None:
    for at in range(place.offset, place.offset + count):
        uses.setdefault((place.buffer, at), set()).add(step)


def _used(uses: dict[tuple[str, int], set[_Step]], place: Place, count: int) -> list[set[_Step]]:
    pieces = range(place.offset, place.offset + count)
    return [uses[place.buffer, at] for at in pieces if (place.buffer, at) in uses]


def text(program: Program) -> str:
    """Return ``program`` as XML."""
    lines = [
        f'<algo name="{program.name}" proto="{program.protocol}" nchannels="{program.channels}" '
        f'nchunksperloop="{program.loop}" ngpus="{len(program.gpus)}" coll="{program.collective}" '
        f'inplace="{int(program.in_place)}" outofplace="{int(program.out_of_place)}" '
        f'minBytes="{program.least}" maxBytes="{program.most}">'
    ]
    for number, gpu in enumerate(program.gpus):
        chunks = " ".join(f'{buffer}_chunks="{gpu.chunks[buffer]}"' for buffer in "ios")
        lines.append(f'  <gpu id="{number}" {chunks}>')
        for at, block in enumerate(gpu.blocks):
            lines.append(f'    <tb id="{at}" send="{block.send}" recv="{block.receive}" chan="{block.channel}">')
            lines += [_step_text(*one) for one in enumerate(block.steps)]
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def _step_text(number: int, step: Step) -> str:
    block, its = step.depends or (-1, -1)
    return (
        f'      <step s="{number}" type="{step.type}" srcbuf="{step.source.buffer}" srcoff="{step.source.offset}" '
        f'dstbuf="{step.destination.buffer}" dstoff="{step.destination.offset}" cnt="{step.count}" '
        f'depid="{block}" deps="{its}" hasdep="{int(step.awaited)}"/>'
    )
