"""Writing a schedule as an MSCCL program.

Each GPU has a threadblock for each peer that it sends to or receives from, and for each channel to it. A transfer waits
for what its rank does in the phases before it, as a run rank by rank has it: it names those steps, with a ``nop`` for
each further one. Transfers of phases that are not ordered go on channels of their own, for a threadblock would order
them.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import zip_longest

import numpy as np
from attrs import define, evolve, field

from fredfw import Pattern, Phase, Schedule
from fredfw.errors import InputError, UnsupportedError
from fredfw.typing import FloatArray, IntArray
from fredfw_collective_msccl.program import COLLECTIVES, Block, Gpu, Layout, Place, Program, Step
from fredfw_collective_msccl.proof import proved
from fredfw_collective_msccl.turns import in_order

_MOST_PIECES = 1 << 15  # offsets of MSCCL's steps have 16 bits, one of which is a sign
_EXACT = 1e-9


class Placing:
    """The places of the chunks of a schedule, each made of ``pieces``."""

    def __init__(self, schedule: Schedule) -> None:
        pattern, ranks = schedule.pattern, schedule.ranks
        sizes: FloatArray = np.broadcast_to(schedule.chunk_bytes, schedule.chunks)
        whole = float(sizes.sum()) / (ranks if pattern is Pattern.ALL_TO_ALL else 1)
        shares = sizes / whole
        loop = math.lcm(*(Fraction(one).limit_denominator(_MOST_PIECES).denominator for one in np.unique(shares)))
        if pattern.owned:
            loop = math.lcm(loop, ranks)
        self.pieces: IntArray = np.rint(shares * loop).astype(np.intp)
        if loop > _MOST_PIECES or (np.abs(self.pieces - shares * loop) > _EXACT * loop).any():
            message = f"its chunks are not made of {_MOST_PIECES} equal pieces or fewer"
            raise UnsupportedError(message, accepted="an algorithm that divides the data into equal chunks")
        rooted = pattern in (Pattern.GATHER, Pattern.SCATTER)
        in_place = pattern is not Pattern.ALL_TO_ALL
        self.layout = layout = Layout(pattern, ranks, loop // ranks if rooted else loop, in_place, schedule.root)
        blocks = np.zeros(schedule.chunks, dtype=np.intp)
        if schedule.owner is not None and pattern.owned:
            blocks = schedule.owner + (0 if schedule.origin is None else schedule.origin * ranks)
        together = _together(schedule)
        order = np.array(sorted(range(schedule.chunks), key=lambda one: (blocks[one], together[one])), dtype=np.intp)
        starts = np.cumsum(self.pieces[order]) - self.pieces[order]
        first = np.searchsorted(blocks[order], blocks[order])  # of the same block
        self.number: IntArray = blocks * layout.block  # in the layout, of the first piece of each chunk
        self.number[order] += starts - starts[first]
        self.sizes = [dict.fromkeys("ios", 0) for _ in range(ranks)]  # pieces of each buffer of each GPU
        firsts = set(self.number.tolist())
        self._before: dict[tuple[int, int], Place] = {}
        self._after: dict[tuple[int, int], Place] = {}
        after = ((slot, chunk) for slot, _, chunk, _ in layout.end())
        for places, slots in ((self._before, layout.start()), (self._after, after)):
            for (gpu, buffer, offset), chunk in slots:
                self.sizes[gpu][buffer] = max(self.sizes[gpu][buffer], offset + 1)
                if chunk in firsts:
                    places[gpu, chunk] = Place(buffer, offset)
        self._places = self._after | self._before

    def place(self, gpu: int, chunk: int) -> Place:
        """Return where ``gpu`` has ``chunk``; what it only passes on is in its scratch."""
        key = gpu, int(self.number[chunk])
        if key not in self._places:
            self._places[key] = Place("s", self.sizes[gpu]["s"])
            self.sizes[gpu]["s"] += int(self.pieces[chunk])
        return self._places[key]

    def copied(self, gpu: int) -> list[tuple[Place, Place, int]]:
        """Return what ``gpu`` copies from its input to its output, and how many pieces."""
        found = []
        for number, count in zip(self.number.tolist(), self.pieces.tolist(), strict=True):
            before, after = self._before.get((gpu, number)), self._after.get((gpu, number))
            if count and before is not None and after is not None and before != after:
                found.append((before, after, count))
        return found


def carried(phase: Phase, row: int, repetition: int) -> IntArray:
    """Return the chunks that a row of ``phase`` carries at ``repetition``."""
    start = phase.offset[row] + repetition * phase.stride[row]
    chunks: IntArray = phase.base[row] + (start + np.arange(phase.count[row])) % phase.modulus[row]
    return chunks


def _together(schedule: Schedule) -> list[list[int]]:
    """Return the numbers of the rows that carry each chunk: those that go the same ways are to lie together."""
    found: list[list[int]] = [[] for _ in range(schedule.chunks)]
    number = 0
    for phase in schedule.phases:
        for repetition in range(phase.repeat):
            for row in range(len(phase)):
                number += 1
                for chunk in carried(phase, row, repetition).tolist():
                    found[chunk].append(number)
    return found


# Of src/include/msccl/msccl_struct.h and src/misc/msccl/msccl_parser.cc of msccl-executor-nccl.
_STEPS, _CHANNELS, _PEERS, _COUNT, _WAITED = 64, 32, 32, 71, 128
_WORDS = {pattern: word for word, pattern in COLLECTIVES.items()}

_Step = tuple[int, int]  # thread block of a GPU, and step of it
_Clock = dict[int, int]  # by thread block of a GPU, the last step of it that is done
_Run = tuple[Place, Place, int]  # pieces that lie together: where they come from, where they go, and how many


def written(schedule: Schedule, name: str, protocol: str) -> Program:
    """Return a program, which has been proved, that does what ``schedule`` does."""
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
    if schedule.pattern not in _WORDS:
        raise UnsupportedError(f"MSCCL has no {schedule.pattern}", accepted=", ".join(_WORDS))
    if schedule.proof != "replay":
        raise UnsupportedError("the phases of its schedule do not say all that happens", accepted="another algorithm")
    if schedule.ranks < 2 or not schedule.size:
        raise UnsupportedError("it sends nothing", accepted="two or more ranks, and bytes")
    for index, phase in enumerate(schedule.phases):
        if phase.stream is not None and (phase.stream >= 0).any():
            message = f"phase {index} is carried out in the network, and MSCCL has transfers between GPUs alone"
            raise UnsupportedError(message, accepted="an algorithm that sends from NPU to NPU")


@define(eq=False)
class _Thread:
    """A thread block in the making, with what is done when each of its steps is."""

    send: int
    receive: int
    channel: int
    steps: list[Step] = field(factory=list)
    clocks: list[_Clock] = field(factory=list)


class _Gpu:
    def __init__(self) -> None:
        self.threads: list[_Thread] = []
        self._numbers: dict[tuple[int, int, int], int] = {}

    def thread(self, send: int, receive: int, channel: int) -> int:
        key = send, receive, channel
        if key not in self._numbers:
            self._numbers[key] = len(self.threads)
            self.threads.append(_Thread(send, receive, channel))
        return self._numbers[key]

    def add(self, thread: int, step: Step, needs: Iterable[_Step] = ()) -> _Step:
        block, waits = self.threads[thread], self._waits(thread, needs)
        nop = Step("nop", Place("i", -1), Place("o", -1), 0)
        for form, wait in zip_longest([nop] * (len(waits) - 1) + [step], waits):
            clock = dict(block.clocks[-1]) if block.clocks else {}
            if wait is not None:
                for other, at in self.threads[wait[0]].clocks[wait[1]].items():
                    clock[other] = max(at, clock.get(other, -1))
            block.steps.append(evolve(form, depends=wait))
            block.clocks.append(clock)
        block.clocks[-1][thread] = len(block.steps) - 1
        return thread, len(block.steps) - 1

    def _waits(self, thread: int, needs: Iterable[_Step]) -> list[_Step]:
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

    def peers(self, channel: int, *, sending: bool) -> int:
        return sum((one.send if sending else one.receive) >= 0 for one in self.threads if one.channel == channel)


class _Writer:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._placing = Placing(schedule)
        self._gpus = [_Gpu() for _ in range(schedule.ranks)]
        # For source and destination, the last phase that uses each channel.
        self._channels: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        self._before = [0] * len(schedule.phases)  # phases that come before each, as bits

    def program(self, name: str, protocol: str) -> Program:
        schedule, layout = self._schedule, self._placing.layout
        done: dict[int, list[set[_Step]]] = {}
        for index, before in in_order(schedule):
            ready: list[set[_Step]] = [set() for _ in range(schedule.ranks)]
            for one in before:
                self._before[index] |= self._before[one] | 1 << one
                for rank, steps in enumerate(done[one]):
                    ready[rank] |= steps
            for repetition in range(schedule.phases[index].repeat):
                ready = self._repetition(index, repetition, ready)
            done[index] = ready
        for rank, gpu in enumerate(self._gpus):
            for start, end, count in _joined(self._placing.copied(rank)):
                gpu.add(gpu.thread(-1, -1, 0), Step("cpy", start, end, count))
        return Program(
            name=name,
            protocol=protocol,
            collective=_WORDS[schedule.pattern],
            loop=layout.loop,
            channels=1 + max((thread.channel for gpu in self._gpus for thread in gpu.threads), default=0),
            in_place=layout.in_place,
            out_of_place=not layout.in_place,
            least=0,
            most=0,
            gpus=tuple(self._finished(rank, gpu) for rank, gpu in enumerate(self._gpus)),
        )

    def _repetition(self, index: int, repetition: int, ready: list[set[_Step]]) -> list[set[_Step]]:
        """Add the transfers of a repetition; return what each rank is done with after it."""
        done: list[set[_Step]] = [set() for _ in ready]
        uses: defaultdict[tuple[int, str, int], set[_Step]] = defaultdict(set)  # steps that use each piece of a rank
        flows = []
        for source, destination, reduces, runs in self._flows(self._schedule.phases[index], repetition):
            channel = self._channel(index, source, destination, len(runs), len(ready[source]) + 2)
            flows.append((source, destination, reduces, runs, channel))
            gpu = self._gpus[source]
            thread = gpu.thread(destination, -1, channel)
            for start, end, count in runs:
                step = gpu.add(thread, Step("s", start, end, count), ready[source])
                done[source].add(step)
                for at in range(start.offset, start.offset + count):
                    uses[source, start.buffer, at].add(step)
        # All that is sent has been read before anything is written.
        for source, destination, reduces, runs, channel in flows:
            gpu = self._gpus[destination]
            thread = gpu.thread(-1, source, channel)
            for _, end, count in runs:
                pieces = [(destination, end.buffer, at) for at in range(end.offset, end.offset + count)]
                needs = ready[destination].union(*(uses[piece] for piece in pieces))
                step = gpu.add(thread, Step("rrc" if reduces else "r", end, end, count), needs)
                done[destination].add(step)
                for piece in pieces:
                    uses[piece].add(step)
        return [steps or before for steps, before in zip(done, ready, strict=True)]

    def _flows(self, phase: Phase, repetition: int) -> Iterator[tuple[int, int, bool, list[_Run]]]:
        """Yield source, destination, whether it reduces, and the runs of pieces of each flow of a repetition."""
        placing = self._placing
        chunks: defaultdict[tuple[int, int, bool], list[int]] = defaultdict(list)
        for row in range(len(phase)):
            source, destination = int(phase.source[row]), int(phase.destination[row])
            if source != destination:
                own = carried(phase, row, repetition)
                chunks[source, destination, bool(phase.reduce[row])] += own[placing.pieces[own] > 0].tolist()
        for (source, destination, reduces), together in chunks.items():
            runs = [
                (placing.place(source, chunk), placing.place(destination, chunk), int(placing.pieces[chunk]))
                for chunk in sorted(together, key=placing.number.__getitem__)
            ]
            if runs:
                yield source, destination, reduces, _joined(runs)

    def _channel(self, phase: int, source: int, destination: int, runs: int, waits: int) -> int:
        """Return the channel of a transfer: one whose last transfer comes before it anyway, with steps to spare."""
        phases = self._channels[source, destination]
        out, into = self._gpus[source], self._gpus[destination]
        for channel, last in phases.items():
            ordered = last == phase or self._before[phase] >> last & 1
            ends = (out.threads[out.thread(destination, -1, channel)], into.threads[into.thread(-1, source, channel)])
            # Each run is a step at both ends, and has a nop for each further step that it waits for.
            if ordered and all(len(end.steps) + runs + waits <= _STEPS for end in ends):
                phases[channel] = phase
                return channel
        for channel in range(_CHANNELS):
            free = out.peers(channel, sending=True) < _PEERS and into.peers(channel, sending=False) < _PEERS
            if channel not in phases and free:
                phases[channel] = phase
                return channel
        message = f"it needs more than {_CHANNELS} channels from rank {source} to rank {destination}"
        accepted = f"an algorithm with fewer transfers: a threadblock has up to {_STEPS} steps"
        raise UnsupportedError(message, accepted=accepted)

    def _finished(self, rank: int, gpu: _Gpu) -> Gpu:
        blocks = tuple(Block(one.send, one.receive, one.channel, tuple(one.steps)) for one in gpu.threads)
        finished = Gpu(self._placing.sizes[rank], blocks)
        if any(block >= _WAITED for block, _ in finished.awaited()):
            accepted = f"an algorithm with up to {_WAITED} of them where some wait for others"
            raise UnsupportedError(f"rank {rank} has {len(blocks)} threadblocks", accepted=accepted)
        if (longest := max((len(block.steps) for block in blocks), default=0)) > _STEPS:
            message = f"rank {rank} has a threadblock of {longest} steps"
            raise UnsupportedError(message, accepted=f"{_STEPS} steps or fewer")
        return finished


def _joined(runs: Iterable[_Run]) -> list[_Run]:
    """Return ``runs`` with those as one that lie one behind the other at both ends, and none too long for a step."""
    found: list[_Run] = []
    for start, end, count in runs:
        if found:
            before, after, length = found[-1]
            if (_moved(before, length), _moved(after, length)) == (start, end):
                found[-1] = before, after, length + count
                continue
        found.append((start, end, count))
    return [
        (_moved(start, at), _moved(end, at), min(_COUNT, count - at))
        for start, end, count in found
        for at in range(0, count, _COUNT)
    ]


def _moved(place: Place, by: int) -> Place:
    return Place(place.buffer, place.offset + by)


def text(program: Program) -> str:
    lines = [
        f'<algo name="{program.name}" proto="{program.protocol}" nchannels="{program.channels}" '
        f'nchunksperloop="{program.loop}" ngpus="{program.ranks}" coll="{program.collective}" '
        f'inplace="{int(program.in_place)}" outofplace="{int(program.out_of_place)}" '
        f'minBytes="{program.least}" maxBytes="{program.most}">'
    ]
    for number, gpu in enumerate(program.gpus):
        chunks = " ".join(f'{buffer}_chunks="{gpu.chunks[buffer]}"' for buffer in "ios")
        lines.append(f'  <gpu id="{number}" {chunks}>')
        awaited = gpu.awaited()
        for tb, block in enumerate(gpu.blocks):
            lines.append(f'    <tb id="{tb}" send="{block.send}" recv="{block.receive}" chan="{block.channel}">')
            for at, step in enumerate(block.steps):
                other, its = step.depends or (-1, -1)
                source, destination = step.source, step.destination
                lines.append(
                    f'      <step s="{at}" type="{step.type}" srcbuf="{source.buffer}" srcoff="{source.offset}" '
                    f'dstbuf="{destination.buffer}" dstoff="{destination.offset}" cnt="{step.count}" '
                    f'depid="{other}" deps="{its}" hasdep="{int((tb, at) in awaited)}"/>'
                )
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])
