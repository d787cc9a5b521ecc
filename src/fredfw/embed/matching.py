"""Which receive gets which message: in the order in which they were posted, by source, destination and tag."""

from collections.abc import Hashable


class Matching:
    """Pairs the n-th message of an envelope with its n-th receive, whichever is there first.

    Messages do not overtake each other: one that arrives early is not given to a receive that an earlier one is for
    (as in MPI 4.1, section 3.5, "Order"). An envelope is whatever names sender, receiver and tag.
    """

    def __init__(self) -> None:
        self._messages: dict[Hashable, dict[int, bool]] = {}  # by envelope; of each message whether it is there
        self._receives: dict[Hashable, dict[int, None]] = {}
        self._envelopes: dict[int, Hashable] = {}

    def send(self, message: int, envelope: Hashable) -> None:
        self._envelopes[message] = envelope
        self._messages.setdefault(envelope, {})[message] = False

    def receive(self, receive: int, envelope: Hashable) -> list[int]:
        """Return the receives that are served by this one that waits: itself or none."""
        self._envelopes[receive] = envelope
        self._receives.setdefault(envelope, {})[receive] = None
        return self._served(envelope)

    def deliver(self, message: int) -> list[int]:
        envelope = self._envelopes.get(message)
        if envelope is None:
            return []
        self._messages[envelope][message] = True
        return self._served(envelope)

    def withdraw(self, one: int) -> list[int]:
        """Forget a message or a receive, so that later ones move up; return the receives that are served by that."""
        envelope = self._envelopes.pop(one, None)
        if envelope is None:
            return []
        self._messages.get(envelope, {}).pop(one, None)
        self._receives.get(envelope, {}).pop(one, None)
        return self._served(envelope)

    def _served(self, envelope: Hashable) -> list[int]:
        messages, receives = self._messages.get(envelope, {}), self._receives.get(envelope, {})
        both = zip(messages.items(), receives, strict=False)
        pairs = [(message, receive) for (message, there), receive in both if there]
        for message, receive in pairs:
            del messages[message], receives[receive], self._envelopes[message], self._envelopes[receive]
        if not messages:
            self._messages.pop(envelope, None)
        if not receives:
            self._receives.pop(envelope, None)
        return [receive for _, receive in pairs]
