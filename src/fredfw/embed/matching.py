"""Which receive gets which message: in the order in which they were posted, by source, destination and tag."""

from collections.abc import Hashable


class Matching:
    """Pairs the n-th message of an envelope with its n-th receive, whichever is there first.

    Messages do not overtake each other: one that arrives early is not given to a receive that an earlier one is for
    (as in MPI 4.1, section 3.5, "Order"). An envelope is whatever names sender, receiver and tag.
    """

    def __init__(self) -> None:
        # By envelope: of each message whether it is there, and the receives.
        self._queues: dict[Hashable, tuple[dict[int, bool], dict[int, None]]] = {}
        self._envelopes: dict[int, Hashable] = {}

    def send(self, message: int, envelope: Hashable) -> None:
        self._envelopes[message] = envelope
        self._queues.setdefault(envelope, ({}, {}))[0][message] = False

    def receive(self, receive: int, envelope: Hashable) -> list[int]:
        """Return the receives that are served by this one that waits: itself or none."""
        self._envelopes[receive] = envelope
        self._queues.setdefault(envelope, ({}, {}))[1][receive] = None
        return self._served(envelope)

    def deliver(self, message: int) -> list[int]:
        envelope = self._envelopes.get(message)
        if envelope is None:
            return []
        self._queues[envelope][0][message] = True
        return self._served(envelope)

    def withdraw(self, one: int) -> list[int]:
        """Forget a message or a receive, so that later ones move up; return the receives that are served by that."""
        envelope = self._envelopes.pop(one, None)
        if envelope is None:
            return []
        for queue in self._queues[envelope]:
            queue.pop(one, None)
        return self._served(envelope)

    def _served(self, envelope: Hashable) -> list[int]:
        messages, receives = self._queues[envelope]
        both = zip(messages.items(), receives, strict=False)
        pairs = [(message, receive) for (message, there), receive in both if there]
        for message, receive in pairs:
            del messages[message], receives[receive], self._envelopes[message], self._envelopes[receive]
        if not messages and not receives:
            del self._queues[envelope]
        return [receive for _, receive in pairs]
