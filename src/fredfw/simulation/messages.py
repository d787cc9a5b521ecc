"""Single flows of which no more is of interest than when they are delivered: what a program sends message by message.

They have no flow sets. Where somebody looks at what is under way or changes it, flow sets are made of them, which go on
to the same ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from attrs import define

from fredfw.fabric import FlowSet
from fredfw.simulation.carrier import Carrier, everybody
from fredfw.simulation.core.ways import Way
from fredfw.simulation.requests import Completion, Request

_ALONE = everybody(1)


@define(eq=False)
class Message:
    """A single flow.

    Args:
        way: Its links.
        volume: Its bytes.
        on_complete: Called when it is delivered, with the number of its only activity.
        priority: Its class.
        label: What its bytes are accounted to.
        since: When it was put on the links.
    """

    way: Way
    volume: float
    on_complete: Completion
    priority: int
    label: str
    since: float

    def flows(self) -> FlowSet:
        """Return the flow set that is the same."""
        return flows_of(self.way, self.volume, self.priority, self.label)


def flows_of(way: Way, volume: float, priority: int, label: str) -> FlowSet:
    """Return the flow set of one message."""
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
    """The messages that are under way, by number.

    Args:
        carrier: Has them on its links.
        always: Whether everything starts at once, so that there is no admission to ask.
    """

    def __init__(self, carrier: Carrier, *, always: bool) -> None:
        self._carrier = carrier
        self._always = always and carrier.table.serves_messages
        self._under_way: dict[int, Message] = {}

    def serve(self, way: Way, volume: float) -> bool:
        """Return whether a flow may be a message now: it has something to send, and nothing but a link may hinder it."""
        carrier = self._carrier
        if not self._always:
            return False
        if carrier.claims:  # what they let go of may be repetitions
            carrier.claims.yield_links(way.routes.links)
        return volume > 0 and way.length > 0 and not carrier.detours.closed and not carrier.meetings.compressed

    def send(self, ticket: int, message: Message) -> None:
        """Put ``message`` on its links."""
        self._under_way[ticket] = message
        self._carrier.table.send(message.way, ticket, message.volume)

    def deliver(self, ticket: int) -> None:
        """Note that a message is delivered."""
        message = self._under_way.pop(ticket)
        self._carrier.account.add_message(message.label, message.way, message.volume)
        message.on_complete(_ALONE)

    def unfold(self, report: Callable[[int, Completion], Completion]) -> list[int]:
        """Make flow sets of all messages that are under way; return their numbers.

        Args:
            report: Returns what is called at the end of the one of a number, in place of what was to be called.
        """
        carrier, messages = self._carrier, self._under_way
        if not messages:
            return []
        self._under_way = {}
        batches = {}
        for ticket, message in messages.items():
            request = Request(ticket, message.flows(), report(ticket, message.on_complete), None)
            batches[ticket] = carrier.adopt(request, message.since)
        for slot, ticket in carrier.table.loads_of_messages():
            carrier.table.adopt(batches[ticket].loads[0], slot)
        for time, number, ticket in carrier.table.withdraw_deliveries():
            carrier.await_end(batches[ticket], time, number)
        # What is under way is known in the order in which it was asked for.
        carrier.batches = dict(sorted(carrier.batches.items(), key=lambda one: one[0].request.ticket))
        return list(messages)
