"""The transport ``measured``: collectives take as long as a table of measured times says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from attrs import frozen

from fredfw import Call, Costs, Fabric, File, Transport, units
from fredfw.errors import InputError, UnsupportedError
from fredfw_transport_measured.table import Table, read

fredfw_contract = 2


@frozen
class Measured(Transport):
    """Times from a CSV file with the columns ``collective``, ``ranks``, ``size_B``, ``time_us``, and perhaps ``nodes``.

    Sizes are the per-rank buffers, the larger of input and output (nccl-tests). Between two sizes of the table, the
    logarithm of the time is linear in that of the size; the median counts where a size has several times. Patterns,
    ranks, nodes and sizes that the table does not have are refused.

    A cap on the rate of flows makes a collective take as long as measured, if no link is slower; results have a note
    where one is. Rings and direct exchanges are what a time is turned into.
    """

    name: ClassVar[str] = "measured"

    file: File = units.file(help="the table")

    def __attrs_post_init__(self) -> None:
        """Read the table; raises ``InputError`` as ``table.read``."""
        _ = self.table

    @cached_property
    def table(self) -> Table:
        """The table in the file."""
        return read(self.file)

    def algorithms(self, pattern: str) -> Sequence[str] | None:
        """See ``Transport.algorithms``."""
        return ("direct",) if pattern in _MESSAGES else ("ring",)

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        """See ``Transport.costs``; raises ``UnsupportedError`` for what the table or this transport does not know."""
        known = self.algorithms(call.pattern)
        if known is not None and call.algorithm not in known:
            raise UnsupportedError(
                f"transport 'measured' cannot make {call.algorithm!r} take a measured time", accepted=", ".join(known)
            )
        try:
            seconds = self.table.seconds(call.pattern, call.ranks, call.nodes, call.size)
        except InputError as error:
            raise UnsupportedError(error.message, accepted=error.accepted) from None
        # Links have latencies, which are in what was measured.
        level = fabric.levels[-1 if call.nodes > 1 else 0] if fabric.levels else None
        left = seconds - call.steps * (level.latency if level else 0.0)
        inside, between = (volume / left if left > 0 and volume else math.inf for volume in call.volume)
        return Costs(cap=(inside, *(between,) * int(fabric.tiers.max(initial=0))), seconds=seconds)


_MESSAGES = frozenset({"all-to-all", "point-to-point", "gather", "scatter"})
