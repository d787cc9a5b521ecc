"""Running an MSCCL file symbolically: threadblocks do their steps in order and wait for each other, and for queues.

A connection (source, destination, channel) is a queue of ``SLOTS`` sends. A send needs a free slot, which its receiver
makes when it is done with a step. That is a network of processes with bounded queues: whatever the order in which
they get on, the same steps run, so that one run tells whether any gets stuck.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field

from fredfw_collective_msccl.layout import Layout
from fredfw_collective_msccl.machine import Machine, Runner
from fredfw_collective_msccl.memory import FaultError, Value
from fredfw_collective_msccl.program import LOADS, RECEIVES, REDUCES, SENDS, SLOTS, STORES, Block, Program
from fredfw_collective_msccl.transfers import NOTHING, Need, Transfer


@define(eq=False)
class _Entry:
    """A send that has not been received.

    Args:
        values: What was sent.
        step: Number of the step that sent it.
        before: What came before it, itself included, as bits.
        transfer: Its number.
    """

    values: list[Value]
    step: int
    before: int
    transfer: int


@define(eq=False)
class _Queue:
    """A connection.

    Args:
        waiting: Sends that have not been received.
        made_room: What was so when each receive of it was done.
    """

    waiting: deque[_Entry] = field(factory=deque)
    made_room: list[frozenset[Need]] = field(factory=list)


@define(eq=False)
class _Runner(Runner):
    """A thread block.

    Args:
        block: What it is to do.
        kept: What came before, and is so, when a step was done that others wait for.
    """

    block: Block
    kept: dict[int, tuple[int, frozenset[Need]]] = field(factory=dict)


def run(program: Program, layout: Layout, file: str) -> list[Transfer]:
    """Return the transfers of ``program``, of which every order of its steps makes the same.

    Args:
        program: What to run.
        layout: Where its chunks are before, and must be after; what is carried out by nobody's word is not looked at.
        file: For messages.

    Raises:
        InputError: A step reads or adds what it must not, waits for ever or is not ordered; or a send is not received,
            or a chunk is not where it must be. Names GPU, thread block and step.
    """
    return _Run(program, layout, file).transfers()


class _Run(Machine[_Runner]):
    def __init__(self, program: Program, layout: Layout, file: str) -> None:
        super().__init__(layout, [gpu.chunks for gpu in program.gpus], file)
        self._runners = [
            [_Runner(one, number, len(block.steps), block) for number, block in enumerate(gpu.blocks)]
            for one, gpu in enumerate(program.gpus)
        ]
        self._queues: dict[tuple[int, int, int], _Queue] = {}

    def transfers(self) -> list[Transfer]:
        """Run all steps; see ``run``."""
        self.drive([runner for gpu in self._runners for runner in gpu])
        for (_, destination, _), queue in sorted(self._queues.items()):
            if queue.waiting:
                raise self.error(self.names[queue.waiting[0].step], f"sends what GPU {destination} never receives")
        self.check_end()
        return self.journal.transfers

    def hindered(self, runner: _Runner) -> str | None:
        """See ``Machine.hindered``."""
        step = runner.block.steps[runner.at]
        if step.depends is not None:
            other = self._runners[runner.gpu][step.depends[0]]
            if other.at <= step.depends[1]:
                return f"step {step.depends[1]} of threadblock {step.depends[0]}, which is at step {other.at}"
        if step.type in RECEIVES and not self._incoming(runner).waiting:
            return f"data from GPU {runner.block.receive} on channel {runner.block.channel}"
        if step.type in SENDS and len(self._outgoing(runner).waiting) >= SLOTS:
            return (
                f"a free slot of the {SLOTS} to GPU {runner.block.send} on channel {runner.block.channel}, which hold "
                "what has not been received"
            )
        return None

    def _incoming(self, runner: _Runner) -> _Queue:
        key = runner.block.receive, runner.gpu, runner.block.channel
        return self._queues.setdefault(key, _Queue())

    def _outgoing(self, runner: _Runner) -> _Queue:
        key = runner.gpu, runner.block.send, runner.block.channel
        return self._queues.setdefault(key, _Queue())

    def do(self, runner: _Runner, number: int) -> None:
        """See ``Machine.do``."""
        memory, gpu, step = self.memory, runner.gpu, runner.block.steps[runner.at]
        before, needs = runner.before, runner.done
        if step.depends is not None:
            seen, met = self._runners[gpu][step.depends[0]].kept[step.depends[1]]
            before |= seen
            needs = self.journal.pruned(needs | met)
        data: list[Value] = []
        if step.type in RECEIVES:
            entry = self._incoming(runner).waiting.popleft()
            if len(entry.values) != step.count:
                sender = self.names[entry.step]
                raise FaultError(f"receives {step.count} chunks, of which {sender} sends {len(entry.values)}")
            before |= entry.before
            needs = self.journal.pruned(needs | {(gpu, entry.transfer, True)})
            data = entry.values
        if step.type in LOADS:
            read = memory.read(gpu, step.source.buffer, step.source.offset, step.count, number, before)
            data = memory.added(read, data) if step.type in RECEIVES else read
        if step.type == "re":
            old = memory.read(gpu, step.destination.buffer, step.destination.offset, step.count, number, before)
            data = memory.added(old, data)
        if step.type in STORES:
            memory.write(gpu, step.destination.buffer, step.destination.offset, data, number, before)
        before |= 1 << number
        if step.type in SENDS:
            needs = self._send(runner, number, data, before, needs)
        if step.type in RECEIVES:
            self._incoming(runner).made_room.append(needs)
        runner.before, runner.done = before, needs
        if step.awaited:
            runner.kept[runner.at] = before, needs

    def _send(
        self, runner: _Runner, number: int, data: list[Value], before: int, needs: frozenset[Need]
    ) -> frozenset[Need]:
        """Put ``data`` into the queue; return what is so when it has left."""
        queue, destination = self._outgoing(runner), runner.block.send
        sent = len(queue.made_room) + len(queue.waiting)
        room = queue.made_room[sent - SLOTS] if sent >= SLOTS else NOTHING
        reduces = self._receiver_reduces(runner, sent)
        chunks = [-1 if value is None else value[0] for value in data]
        transfer = self.journal.add(runner.gpu, destination, chunks, needs | room, reduces=reduces)
        queue.waiting.append(_Entry(data, number, before, transfer))
        return frozenset({(runner.gpu, transfer, False)})

    def _receiver_reduces(self, runner: _Runner, sent: int) -> bool:
        """Return whether the receiver adds the send of this number to what it has."""
        mine = runner.gpu, runner.block.channel
        for other in self._runners[runner.block.send]:
            if (other.block.receive, other.block.channel) == mine:
                types = [step.type for step in other.block.steps if step.type in RECEIVES]
                return sent < len(types) and types[sent] in REDUCES
        return False
