"""What a network costs: a bill of its links, switches and network cards, from prices per bandwidth."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, field, frozen
from attrs.validators import optional

from fredfw.errors import InputError, nearest, placed
from fredfw.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from fredfw.fabric.fabric import Fabric

SCOPES = "inter-chiplet", "inter-package", "inter-node", "inter-pod"
"""What links join, the innermost first, as in LIBRA."""
_MOST = 1e9
_ACCEPTED = "dollars per GB/s, a number from 0 to 1e9"
_GIGA = 1e9
_NPU, _SWITCH = 0, 1  # of NodeKind, whose module uses this one

PUBLISHED, GIVEN, UNKNOWN = "published", "given", "unknown"


def _dollars(_instance: object, attribute: Any, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise InputError(f"{value!r} is not a price", key=attribute.name, accepted=_ACCEPTED)


@frozen
class Price:
    """Dollars per GB/s (10^9 bytes per second) of what joins things of one scope; ``None`` is not known.

    Args:
        link: Of each direction between two NPUs, and of both together where a switch is at an end.
        switch: Of a port of a switch.
        nic: Of the network card of an NPU; ``None`` where there are none.
        source: Where the prices are from.
        status: ``published``, or ``given`` by the user.

    Raises:
        InputError: A price that is not a number from 0 to 1e9.
    """

    link: float | None = field(default=None, validator=optional(_dollars))
    switch: float | None = field(default=None, validator=optional(_dollars))
    nic: float | None = field(default=None, validator=optional(_dollars))
    source: str = ""
    status: str = GIVEN


_PARTS = "link", "switch", "nic"


@frozen
class Prices:
    """Prices by scope, such as ``inter-pod``.

    Args:
        table: What a scope costs.
        scopes: The scope of each tier of links in place of what the topology says, or ``None``.
        written: What ``read`` was given; empty for the published prices.
    """

    table: Mapping[str, Price]
    scopes: tuple[str, ...] | None = None
    written: Mapping[str, Any] = field(factory=dict, repr=False)

    @classmethod
    @cache
    def published(cls) -> Prices:
        """Return those of ``prices.toml``, which are LIBRA's."""
        content = tomllib.loads(files("fredfw.fabric").joinpath("prices.toml").read_text(encoding="utf-8"))
        source = content.pop("source")
        return cls({scope: Price(**entry, source=source, status=PUBLISHED) for scope, entry in content.items()})

    @classmethod
    def read(cls, table: Mapping[str, Any], *, key: str = "prices") -> Prices:
        """Return the published prices with those of ``table``, whose ``key`` is for messages, in their place.

        It has a text ``source``, and a table with ``link``, ``switch`` and ``nic`` for any scope; else ``InputError``.
        """
        source = table.get("source", "given")
        if not isinstance(source, str):
            raise InputError(f"{source!r} is not a text", key=f"{key}.source", accepted="where the prices are from")
        found = dict(cls.published().table)
        for scope, entry in table.items():
            if scope != "source":
                found[scope] = _priced(found.get(scope, Price(source=source)), entry, f"{key}.{scope}", source)
        return cls(found, written=table)

    def check(self, scopes: Sequence[str], *, key: str) -> None:
        """Make sure that there are prices for ``scopes``; raises ``InputError``."""
        for index, scope in enumerate(scopes):
            if scope not in self.table:
                message = f"there are no prices for {scope!r}{nearest(str(scope), self.table)}"
                raise InputError(message, key=f"{key}[{index}]", accepted=", ".join(self.table))


def _priced(known: Price, entry: object, key: str, source: str) -> Price:
    if not isinstance(entry, Mapping):
        raise InputError(f"{entry!r} is not a table", key=key, accepted=f"a table with {', '.join(_PARTS)}")
    for name in entry:
        if name not in _PARTS:
            message = f"unknown key{nearest(str(name), _PARTS)}"
            raise InputError(message, key=f"{key}.{name}", accepted=", ".join(_PARTS))
    with placed(key=key):
        return evolve(known, **entry, source=source, status=GIVEN)


@frozen
class BillItem:
    """Some parts of a network that have one price; numbers are those of all together.

    Args:
        name: What they are, for example ``links, inter-package``.
        count: How many.
        bandwidth: Bytes per second; 0 for what is not paid by bandwidth.
        dollars: ``None`` where no price is known.
        watts: At full rate, or ``None`` where that is not known.
        source: Where price and power are from.
        status: Of the price: ``published``, ``given`` by the user, or ``unknown``.
    """

    name: str
    count: int
    bandwidth: float = 0.0
    dollars: float | None = None
    watts: float | None = None
    source: str = ""
    status: str = UNKNOWN


@frozen
class Bill:
    """What a network costs, item by item.

    Args:
        items: Links, switches and network cards by scope, the innermost first, then what else there is.
        notes: What a reader must know, for example what is not in the bill.
    """

    items: tuple[BillItem, ...]
    notes: tuple[str, ...] = ()

    @property
    def dollars(self) -> float | None:
        """What all items cost, or ``None`` where the price of one is not known."""
        known = [item.dollars for item in self.items if item.dollars is not None]
        return sum(known) if len(known) == len(self.items) else None

    @property
    def watts(self) -> float | None:
        """What the items take whose power is known, or ``None`` where there are none."""
        known = [item.watts for item in self.items if item.watts is not None]
        return sum(known) if known else None

    def plus(self, *items: BillItem, notes: Sequence[str] = ()) -> Bill:
        """Return the bill with more items and notes."""
        return Bill((*self.items, *items), (*self.notes, *notes))

    @classmethod
    def of(
        cls, fabric: Fabric, scopes: Sequence[str] = (), prices: Prices | None = None, *, hosts: IntArray | None = None
    ) -> Bill:
        """Return the bill of the links, switches and network cards of ``fabric``.

        A link between two NPUs, or an NPU and a controller, pays for each direction, as in LIBRA. A link with a switch
        at an end pays once for both, and for a port at each such end. An NPU pays for a card where its scope has them.

        Args:
            fabric: The network.
            scopes: Of its tiers of links, the innermost first; tiers without one have no known price.
            prices: By scope; LIBRA's by default.
            hosts: Nodes that are parts of a server, such as a PCIe switch or a network card. Links from one to another
                part of the server are not in the bill, and those to a switch pay for a network card.
        """
        prices = prices or Prices.published()
        scopes = prices.scopes if prices.scopes is not None else scopes
        part = np.isin(np.arange(len(fabric.kinds)), () if hosts is None else hosts)
        switch = (fabric.kinds == _SWITCH) & ~part
        computes = (fabric.kinds == _NPU) | part
        near, far = fabric.sources, fabric.destinations
        # A link from a part of a server to another node of a server is inside of it.
        paid = ~(part[near] | part[far]) | switch[near] | switch[far]
        items: list[BillItem] = []
        tiers = np.unique(fabric.tiers).tolist()
        named = {tier: scopes[tier] if tier < len(scopes) else f"tier {tier}" for tier in tiers}
        for scope in dict.fromkeys(named.values()):
            own = [tier for tier, name in named.items() if name == scope]
            links = np.flatnonzero(np.isin(fabric.tiers, own) & paid)
            if len(links):
                items += _items(fabric, links, switch, computes, prices.table.get(scope, Price()), scope)
        count = int(switch.sum())
        notes = [f"the ports are those of {count} switch{'es' if count > 1 else ''}"] if count else []
        if not paid.all():
            notes.append("links inside of servers, such as PCIe, are not in the bill")
        if len(fabric.controllers):
            notes.append(f"{len(fabric.controllers)} I/O controllers are not in the bill, their links are")
        return cls(tuple(items), tuple(notes))


def _items(
    fabric: Fabric, links: IntArray, switch: BoolArray, pays: BoolArray, price: Price, scope: str
) -> list[BillItem]:
    ends = fabric.sources[links], fabric.destinations[links]
    near, far = (switch[nodes] for nodes in ends)
    bandwidth = fabric.bandwidths[links]
    # Both directions of a link with a switch are one link, so each is half of one. The same holds for its two ends.
    # What an NPU sends to a switch comes back on the other direction of the same link and card.
    halves = np.where(near | far, 0.5, 1.0)
    watts = float(fabric.energies[links] @ bandwidth) or None
    parts: list[tuple[str, FloatArray, float | None, float | None]] = [("links", halves, price.link, watts)]
    if (near | far).any():
        parts.append(("switch ports", 0.5 * (near.astype(float) + far), price.switch, None))
    if price.nic is not None:
        parts.append(("network cards", halves * (pays[ends[0]] | pays[ends[1]]), price.nic, None))
    items = []
    for what, counts, dollars, power in parts:
        item = BillItem(f"{what}, {scope}", math.ceil(float(counts.sum())), float(counts @ bandwidth), watts=power)
        if dollars is not None:
            item = evolve(item, dollars=dollars * item.bandwidth / _GIGA, source=price.source, status=price.status)
        items.append(item)
    return items


def scopes_of_dimensions(count: int, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the scope of each of ``count`` dimensions, innermost first.

    Dimensions that are called chiplet, package, node and pod have these scopes. Of others the outermost is
    ``inter-pod`` and those below are ``inter-node``, ``inter-package`` and ``inter-chiplet``, as in LIBRA's systems.
    Two are ``inter-package`` and ``inter-pod``, one alone is ``inter-package``, and more than four have none.
    """
    named = tuple(f"inter-{name.lower()}" for name in names)
    if named and all(one in SCOPES for one in named):
        return named
    if count > len(SCOPES):
        return ()
    return ("inter-package", "inter-pod")[:count] if count <= 2 else SCOPES[len(SCOPES) - count :]
