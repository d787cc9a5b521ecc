"""What moving data costs beside the bandwidth of links: launching, steps, messages, protocols."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from attrs import frozen

from fredfw.units import flag

if TYPE_CHECKING:
    from fredfw.fabric.fabric import Fabric

ByTier = float | tuple[float, ...]
"""One number for all tiers of a fabric, or one for each, innermost first."""


@frozen
class Call:
    """One call of a communication library.

    Args:
        pattern: A collective pattern such as ``all-reduce``, or ``point-to-point``.
        algorithm: Name of the algorithm, without its options; empty for a message of an embedding program.
        ranks: How many take part.
        size: Bytes of the per-rank buffer, the larger of input and output.
        nodes: Parts of the fabric, connected by links of tier 0 (servers of a cluster), that they are in, at most.
        steps: Repetitions of phases on the longest way through the schedule.
        volume: Bytes that flows carry one after the other: of each of those steps what the largest flow there carries,
            inside of nodes and between them, or the largest of all where there is none.
        switched: Whether switches combine or copy some of what flows carry.
    """

    pattern: str
    algorithm: str
    ranks: int
    size: float
    nodes: int = 1
    steps: int = 1
    volume: tuple[float, float] = (0.0, 0.0)
    switched: bool = False


@frozen
class Costs:
    """What a call costs beside the time its bytes take on the links.

    The tier of a flow is the outermost one that it crosses. A flow that crosses no link costs nothing.

    Args:
        launch: Seconds before the first flow starts, once for each call.
        step: Seconds that each flow of a step takes longer, by tier.
        message: Seconds by tier, for each message of a step that the source sends, or, if more, the destination gets.
        efficiency: Bytes of payload for each byte on a link, by the tier of the link.
        cap: Bytes per second of payload that no flow exceeds, by tier.
        reduction: Bytes per second that an NPU reduces of what it receives, all flows of a step together.
        seconds: What the call takes alone, if the transport knows; results have a note where links change that.
        protocol: By which protocol its library sends, and what chose that, in words.
    """

    launch: float = 0.0
    step: ByTier = 0.0
    message: ByTier = 0.0
    efficiency: ByTier = 1.0
    cap: ByTier = math.inf
    reduction: float = math.inf
    seconds: float | None = None
    protocol: str = ""

    @property
    def free(self) -> bool:
        """Whether nothing costs anything, except perhaps launching."""
        neutral = ((self.step, 0.0), (self.message, 0.0), (self.efficiency, 1.0), (self.cap, math.inf))
        each = ((value if isinstance(value, tuple) else (value,), number) for value, number in neutral)
        return self.reduction == math.inf and all(one == number for values, number in each for one in values)


class Transport(ABC):
    """Says what calls cost; plugins derive attrs classes from it. Experiments and ``--transport`` call it ``name``."""

    name: ClassVar[str]

    @property
    def rendezvous(self) -> bool:
        """Whether a transfer of an ``exact`` simulation waits for its receivers, too; not so, unless overridden."""
        return False

    @property
    def ends_with_links(self) -> bool:
        """Whether a job ends when a link that it uses fails, as with NCCL; not so, unless overridden."""
        return False

    def algorithms(self, pattern: str) -> Sequence[str] | None:
        """Return the algorithms that its library has for ``pattern``, for ``auto``; ``None``, the default, for all.

        They are names, which stand for their variants, or names with options such as ``tree(shape=nodes, chunks=64)``.
        """
        return None

    def settled(self, fabric: Fabric) -> Transport:
        """Return this transport settled for ``fabric`` and those that differ in one parameter; itself by default."""
        return self

    def notes(self, fabric: Fabric) -> Sequence[str]:
        """Return what a reader must know of results with it on ``fabric``; nothing, unless overridden."""
        return ()

    def ratio_error(self, fabric: Fabric) -> float | None:
        """Return the share by which ratios of two times of its calls are off on ``fabric``; ``None`` for unknown."""
        return None

    def fitted_to(self) -> Sequence[str]:
        """Return the first 16 hexadecimal digits of the SHA-256 of each table of times that it was fitted to."""
        return ()

    @abstractmethod
    def costs(self, call: Call, fabric: Fabric) -> Costs:
        """Return what ``call`` costs on ``fabric``, the same for equal calls; by tier for each of ``fabric.tiers``.

        Raises ``UnsupportedError``, which says which calls it knows, for others.
        """


@frozen
class IdealTransport(Transport):
    """Nothing costs anything beside the bandwidths and latencies of the links.

    Args:
        rendezvous: Whether a transfer starts only when its receivers are ready, too.
    """

    name: ClassVar[str] = "ideal"

    rendezvous: bool = flag(False, help="whether a transfer starts only when its receivers are ready, too")

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        return Costs()
