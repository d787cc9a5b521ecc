"""Single flows of which no more is of interest than when they are delivered: what a program sends message by message.

They have no flow sets. Where somebody looks at what is under way or changes it, flow sets are made of them, which go on
to the same ends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fredfw.fabric import FlowSet
from fredfw.simulation.carrier import Carrier, everybody
from fredfw.simulation.core.ways import Way
from fredfw.simulation.requests import Completion, Request

_ALONE = everybody(1)


# Its way, its bytes, what is called when it is delivered, its class, what its bytes are accounted to, and when it was
# put on the links.
Message = tuple[Way, float, Completion, int, str, float]


def flows_of(way: Way, volume: float, priority: int, label: str) -> FlowSet:
    """Return the flow set of a message."""
    return FlowSet(
        routes=way.routes,
        volumes=np.array([volume]),
        activity=_ALONE,
        activities=1,
        priority=priority,
        label=label,
        again=way.again,
    )


class Messages:
    """The messages that are under way.

    Args:
        carrier: Has them on its links.

    Attributes:
        under_way: By number.
    """

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self.under_way: dict[int, Message] = {}

    def deliver(self, ticket: int) -> None:
        """Note that a message is delivered."""
        way, volume, on_complete, _, label, _ = self.under_way.pop(ticket)
        self._carrier.account.add_message(label, way, volume)
        on_complete(_ALONE)

    def unfold(self, report: Callable[[int, Completion], Completion]) -> list[int]:
        """Make flow sets of all messages that are under way; return their numbers.

        Args:
            report: Returns what is called at the end of the one of a number, in place of what was to be called.
        """
        carrier, messages = self._carrier, self.under_way
        if not messages:
            return []
        self.under_way = {}
        batches = {}
        for ticket, (way, volume, on_complete, priority, label, since) in messages.items():
            request = Request(ticket, flows_of(way, volume, priority, label), report(ticket, on_complete), None)
            batches[ticket] = carrier.adopt(request, since)
        for slot, ticket in carrier.table.loads_of_messages():
            carrier.table.adopt(batches[ticket].loads[0], slot)
        for time, number, ticket in carrier.table.withdraw_deliveries():
            carrier.await_end(batches[ticket], time, number)
        # What is under way is known in the order in which it was asked for.
        carrier.batches = dict(sorted(carrier.batches.items(), key=lambda one: one[0].request.ticket))
        return list(messages)
