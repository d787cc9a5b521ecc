"""The network under SimPy's processes: ``yield network.send(...)``, and one clock for both.

Needs SimPy 4.1 or later: ``python -m pip install fredfw[simpy]``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import simpy

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest
from fredfw.embed.backend import Handle, NetworkBackend
from fredfw.errors import DeadlockError, InputError
from fredfw.typing import IntArray

__all__ = ["Communication", "Environment", "Network"]


class Communication(simpy.Event):
    """Triggered, without a value, when what it stands for has ended; never, if that is cancelled."""

    handle: Handle
    """Its name at the backend."""


class Network:
    """A backend with events to wait for, with its parameters; ``backend`` has what takes no time, as failing links."""

    def __init__(self, env: simpy.Environment, backend: NetworkBackend) -> None:
        self._env = env
        self.backend = backend

    def send(
        self,
        src: int | str,
        dst: int | str,
        bytes: float | str,  # noqa: A002  (the word of the interface)
        tag: Hashable = None,
        *,
        priority: int = 0,
        label: str = "send",
    ) -> Communication:
        """Send a message; see ``NetworkBackend.send``."""
        event = Communication(self._env)
        event.handle = self.backend.send(src, dst, bytes, tag, event.succeed, priority=priority, label=label)
        return event

    def receive(self, src: int | str, dst: int | str, tag: Hashable) -> Communication:
        """Wait for a message; see ``NetworkBackend.receive``."""
        event = Communication(self._env)
        event.handle = self.backend.receive(src, dst, tag, event.succeed)
        return event

    def collective(
        self,
        request: CollectiveRequest,
        *,
        group: Sequence[int] | IntArray | None = None,
        algorithm: CollectiveAlgorithm | str = "auto",
        priority: int = 0,
        label: str | None = None,
    ) -> Communication:
        """Begin a collective; see ``NetworkBackend.collective``."""
        event = Communication(self._env)
        event.handle = self.backend.collective(
            request, event.succeed, group=group, algorithm=algorithm, priority=priority, label=label
        )
        return event

    def cancel(self, communication: Communication) -> None:
        """Stop what is under way, for example after an interrupt; see ``NetworkBackend.cancel``."""
        self.backend.cancel(communication.handle)


class Environment(simpy.Environment):
    """SimPy's environment over a network, to be used in place of ``simpy.Environment``.

    Its clock is the network's, to the last digit: whatever is due first happens first. What processes do at a moment
    comes before what the network does then, so that all that starts together is shared out once. Processes use its
    ``network``; nothing else may step the backend from now on.
    """

    def __init__(self, backend: NetworkBackend) -> None:
        if not isinstance(backend, NetworkBackend):
            raise InputError(f"{backend!r} is not a network", key="backend", accepted="a NetworkBackend")
        super().__init__(initial_time=backend.now)
        self.network = Network(self, backend)

    def peek(self) -> float:
        """Return when something happens next, infinite if nothing will."""
        own = super().peek()
        return own if own <= self.now else min(own, self.network.backend.next_event_time())

    def step(self) -> None:
        """Let the next thing happen, be it SimPy's or the network's.

        If there is none, raises ``simpy.core.EmptySchedule``, or ``DeadlockError``, which names the flows still on
        their way.
        """
        backend, own = self.network.backend, super().peek()
        if own > self.now:
            due = backend.next_event_time()
            if due == own == math.inf and backend.stalled():
                held = ", ".join(sorted(set(backend.stalled())))
                raise DeadlockError(f"no event is left, but these cannot move: {held}")
            if due <= own < math.inf or due < own:
                # Not by an event: SimPy would add the delay to its clock, and round.
                self._now = due
                backend.advance(due)
                return
            if own < math.inf:
                backend.advance(own)  # nothing happens until then
        super().step()
