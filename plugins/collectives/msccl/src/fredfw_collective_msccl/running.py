"""Running an MSCCL file symbolically: threadblocks do their steps in order and wait for each other, and for queues.

A connection (source, destination, channel) is a queue of ``SLOTS`` sends. A send needs a free slot, which its receiver
makes when it is done with a step. That is a network of processes with bounded queues: whatever the order in which
they get on, the same steps run, so that one run tells whether any gets stuck.
"""

from collections import defaultdict, deque
from typing import NamedTuple

from attrs import define, field

from fredfw_collective_msccl.machine import FaultError, Machine, Need, Past, Runner, Value
from fredfw_collective_msccl.program import LOADS, RECEIVES, REDUCES, SENDS, SLOTS, STORES, Layout, Program, Step


class _Send(NamedTuple):
    values: list[Value]
    step: int
    before: int  # steps before it, itself included, as bits
    transfer: int


@define(eq=False)
class _Queue:
    """A connection: what waits to be received, and what was so when each receive was done."""

    waiting: deque[_Send] = field(factory=deque)
    made_room: list[frozenset[Need]] = field(factory=list)


class Running(Machine[Step]):
    """The run of a program."""

    def __init__(self, program: Program, layout: Layout) -> None:
        blocks = [[block.steps for block in gpu.blocks] for gpu in program.gpus]
        super().__init__(layout, [gpu.chunks for gpu in program.gpus], blocks)
        self._gpus = program.gpus
        self._queues: defaultdict[tuple[int, int, int], _Queue] = defaultdict(_Queue)
        self._awaited = [gpu.awaited() for gpu in program.gpus]
        self._pasts: dict[tuple[int, int, int], Past] = {}  # when a step was done that others wait for

    def unmatched(self) -> tuple[int, str] | None:
        for (_, destination, _), queue in sorted(self._queues.items()):
            if queue.waiting:
                return queue.waiting[0].step, f"sends what GPU {destination} never receives"
        return None

    def hindered(self, runner: Runner[Step]) -> str | None:
        step, block = runner.step, self._gpus[runner.gpu].blocks[runner.number]
        if step.depends is not None:
            other, its = step.depends
            if (at := self.runners[runner.gpu][other].at) <= its:
                return f"step {its} of threadblock {other}, which is at step {at}"
        if step.type in RECEIVES and not self._incoming(runner).waiting:
            return f"data from GPU {block.receive} on channel {block.channel}"
        if step.type in SENDS and len(self._outgoing(runner).waiting) >= SLOTS:
            return (
                f"a free slot of the {SLOTS} to GPU {block.send} on channel {block.channel}, which hold "
                "what has not been received"
            )
        return None

    def _incoming(self, runner: Runner[Step]) -> _Queue:
        block = self._gpus[runner.gpu].blocks[runner.number]
        return self._queues[block.receive, runner.gpu, block.channel]

    def _outgoing(self, runner: Runner[Step]) -> _Queue:
        block = self._gpus[runner.gpu].blocks[runner.number]
        return self._queues[runner.gpu, block.send, block.channel]

    def do(self, runner: Runner[Step], number: int) -> Past:
        memory, gpu, step, past = self.memory, runner.gpu, runner.step, runner.past
        if step.depends is not None:
            past = self.joined(past, self._pasts[gpu, *step.depends])
        data: list[Value] = []
        if step.type in RECEIVES:
            sent = self._incoming(runner).waiting.popleft()
            if len(sent.values) != step.count:
                sender = self.names[sent.step]
                raise FaultError(f"receives {step.count} chunks, of which {sender} sends {len(sent.values)}")
            past = self.joined(past, (sent.before, frozenset({(gpu, sent.transfer, True)})))
            data = sent.values
        before, needs = past
        if step.type in LOADS:
            read = memory.read(gpu, step.source, step.count, number, before)
            data = memory.added(read, data) if step.type in RECEIVES else read
        if step.type == "re":
            data = memory.added(memory.read(gpu, step.destination, step.count, number, before), data)
        if step.type in STORES:
            memory.write(gpu, step.destination, data, number, before)
        before |= 1 << number
        if step.type in SENDS:
            needs = self._send(runner, number, data, before, needs)
        if step.type in RECEIVES:
            self._incoming(runner).made_room.append(needs)
        if (runner.number, runner.at) in self._awaited[gpu]:
            self._pasts[gpu, runner.number, runner.at] = before, needs
        return before, needs

    def _send(
        self, runner: Runner[Step], number: int, data: list[Value], before: int, needs: frozenset[Need]
    ) -> frozenset[Need]:
        queue, block = self._outgoing(runner), self._gpus[runner.gpu].blocks[runner.number]
        if (sent := len(queue.made_room) + len(queue.waiting)) >= SLOTS:
            needs |= queue.made_room[sent - SLOTS]
        receives = [
            step.type
            for other in self._gpus[block.send].blocks
            if (other.receive, other.channel) == (runner.gpu, block.channel)
            for step in other.steps
            if step.type in RECEIVES
        ]
        reduces = sent < len(receives) and receives[sent] in REDUCES
        chunks = [-1 if value is None else value[0] for value in data]
        transfer = self.journal.add(runner.gpu, block.send, chunks, needs, reduces=reduces)
        queue.waiting.append(_Send(data, number, before, transfer))
        return frozenset({(runner.gpu, transfer, False)})
