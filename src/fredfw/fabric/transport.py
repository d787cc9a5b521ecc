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

__all__ = ["Call", "Costs", "IdealTransport", "Transport"]

ByTier = float | tuple[float, ...]
"""One number for all tiers of a fabric, or one for each, innermost first."""


@frozen
class Call:
    """One call of a communication library.

    Args:
        pattern: What is done: a collective pattern such as ``all-reduce``, ``point-to-point`` for a message.
        algorithm: Name of the algorithm that does it, without its options; empty for a message of an embedding
            program.
        ranks: How many take part.
        size: Bytes of the per-rank buffer, the larger of input and output.
        nodes: Parts of the fabric that they are in, which are those whose NPUs the links of tier 0 connect: servers of
            a cluster. The largest number, where the groups that do the same differ.
        steps: Repetitions of phases that come one after the other, on the longest way through the schedule.
        volume: Bytes that flows carry one after the other, inside of nodes and between them: of each of those steps
            what the largest flow there carries, or the largest flow of all where there is none.
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
        message: Seconds for each message: a flow takes so much longer for each that its source sends, or its
            destination receives, if those are more, in the same step; by tier.
        efficiency: Bytes of payload for each byte on a link, by the tier of the link.
        cap: Bytes per second of payload that no flow exceeds, by tier.
        reduction: Bytes per second that an NPU reduces of what it receives, all flows of a step together.
        seconds: What the call takes alone with these costs, if the transport knows. Results have a note where the links
            of the fabric make it another time.
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
        return self.reduction == math.inf and all(_all(value, number) for value, number in neutral)


def _all(value: ByTier, number: float) -> bool:
    return all(one == number for one in value) if isinstance(value, tuple) else value == number


class Transport(ABC):
    """Says what calls cost; plugins derive attrs classes from it.

    Attributes:
        name: What experiments and ``--transport`` call it.
    """

    name: ClassVar[str]

    @property
    def rendezvous(self) -> bool:
        """Whether a transfer starts only when its receivers are ready, too; not so, unless overridden.

        It matters to ``exact`` simulations: otherwise all ranks of a group are ready together.
        """
        return False

    @property
    def ends_with_links(self) -> bool:
        """Whether a job ends when a link that it uses fails, as with NCCL; not so, unless overridden."""
        return False

    def algorithms(self, pattern: str) -> Sequence[str] | None:
        """Return the algorithms that its library has for ``pattern``: ``auto`` chooses among their variants.

        They are names, or names with options as ``auto`` prints them, such as ``tree(shape=nodes, chunks=64)``.
        ``None``, unless overridden: all that are installed.
        """
        del pattern
        return None

    def settled(self, fabric: Fabric) -> Transport:
        """Return this transport with all decided that it would conclude from ``fabric``; itself, unless overridden.

        The result is used on fabrics that are ``fabric`` but for one parameter.
        """
        del fabric
        return self

    def notes(self, fabric: Fabric) -> Sequence[str]:
        """Return what a reader must know of results with it on ``fabric``; nothing, unless overridden."""
        del fabric
        return ()

    def ratio_error(self, fabric: Fabric) -> float | None:
        """Return how far ratios of two times of its calls are off on such a fabric, as a share; ``None`` for unknown.

        A comparison says where the times of two cells are nearer to each other than that.
        """
        del fabric
        return None

    def fitted_to(self) -> Sequence[str]:
        """Return the tables of measured times that its constants were fitted to; none, unless overridden.

        Of each, the first 16 hexadecimal digits of its SHA-256, so that it is known by any name.
        """
        return ()

    @abstractmethod
    def costs(self, call: Call, fabric: Fabric) -> Costs:
        """Return what ``call`` costs on ``fabric``; the same for equal calls.

        Costs by tier have a number for each of ``fabric.tiers``, or are one number.

        Raises:
            UnsupportedError: It knows no costs for such a call; says which ones it knows.
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
        """See ``Transport.costs``."""
        del call, fabric
        return Costs()
