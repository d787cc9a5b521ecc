"""The topology ``simai``: topology files of SimAI, and of ASTRA-sim's ns-3 backend."""

import math
from functools import cached_property
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import (
    Defaults,
    Fabric,
    File,
    MultipathRouter,
    NodeKind,
    Operation,
    Router,
    Routes,
    ShortestPathRouter,
    Topology,
    limits,
    units,
    with_servers,
)
from fredfw.errors import InputError
from fredfw.typing import IntArray

__all__ = ["Simai"]

fredfw_contract = 2

_FORM = (
    "a first line 'nodes GPUs-of-a-server NVSwitches switches links GPU' (SimAI) or 'nodes switches links' (ns-3), a "
    "line of switches, and a line 'source destination 400Gbps 0.0005ms 0' for each link"
)
_SIMAI, _NS3 = 6, 3
_MOST = 1 << 31


class Listing:
    """What a topology file has; raises ``InputError`` that names line, value and what is accepted."""

    def __init__(self, text: str) -> None:
        lines = [(number, words) for number, line in enumerate(text.splitlines(), 1) if (words := line.split())]
        if not lines:
            raise InputError("is empty", accepted=_FORM)
        number, head = lines[0]
        if len(head) not in (_SIMAI, _NS3):
            raise _wrong(number, f"{len(head)} values, not {_SIMAI} or {_NS3}")
        counts = [_whole(word, number, _MOST) for word in head[:5]]
        self.nodes, links = counts[0], counts[-1]
        # GPUs of a server, 0 in a file for ns-3; and how many NVSwitches and other switches there are
        self.per_server, nvswitches, others = counts[1:4] if len(head) == _SIMAI else (0, 0, counts[1])
        listed: list[int] = []
        place = 1
        while len(listed) < nvswitches + others and place < len(lines):
            number, words = lines[place]
            listed += [_whole(word, number, self.nodes) for word in words]
            place += 1
        if len(listed) != nvswitches + others or len(set(listed)) < len(listed):
            raise _wrong(number, f"{len(set(listed))} different switches, not {nvswitches + others}")
        self.nvswitches, self.switches = listed[:nvswitches], listed[nvswitches:]
        # both ends, bytes per second, seconds and error rate of each, which goes both ways
        self.links = [_link(words, number, self.nodes) for number, words in lines[place:]]
        if len(self.links) != links:
            raise InputError(f"{len(self.links)} links, and the first line says {links}", accepted=_FORM)


def _link(words: list[str], number: int, nodes: int) -> tuple[int, int, float, float, float]:
    if len(words) not in (4, 5):
        raise _wrong(number, f"{len(words)} values, not 5")
    source, destination = (_whole(word, number, nodes) for word in words[:2])
    if source == destination:
        raise _wrong(number, f"both ends are {source}", "two different nodes")
    quantities = []
    for word, unit in zip(words[2:4], (units.Unit.BYTES_PER_SECOND, units.Unit.SECONDS), strict=True):
        try:
            value = units.parse(word, unit)
        except InputError as error:
            raise _wrong(number, error.message, error.accepted) from None
        if value < 0 or (value == 0 and unit is units.Unit.BYTES_PER_SECOND):
            raise _wrong(number, f"{word!r} is too small", units.accepted(unit))
        quantities.append(value)
    try:
        rate = float(words[4]) if len(words) > 4 else 0.0
    except ValueError:
        rate = math.nan
    if not 0 <= rate < 1:
        raise _wrong(number, f"{words[4]!r} is not an error rate", "0 or more, below 1")
    return source, destination, quantities[0], quantities[1], rate


def _whole(word: str, number: int, below: int) -> int:
    if not (word.isascii() and word.isdecimal()) or len(word) > 10 or int(word) >= below:
        raise _wrong(number, f"{word[:20]!r} is refused", f"a whole number below {below}")
    return int(word)


def _wrong(line: int, message: str, accepted: str | None = _FORM) -> InputError:
    return InputError(f"line {line}: {message}", accepted=accepted)


@frozen
class SimaiRouter(Router):
    """Routes over NVLinks between GPUs of one server, and over all shortest paths between servers."""

    # A server is what links of tier 0 connect; a network of one tier has no servers. Of equally short paths in a server
    # the one over the switch with the lowest number is taken, which is the NVSwitch.
    name: ClassVar[str] = "simai"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        inside = (fabric.servers[sources] == fabric.servers[destinations]) & fabric.tiers.any()
        parts = []
        for router, chosen in ((ShortestPathRouter(), inside), (MultipathRouter(through_npus=False), ~inside)):
            if chosen.all():
                return router.route(fabric, sources, destinations)
            parts.append(router.route(fabric, sources[chosen], destinations[chosen]))
        order = np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])
        return Routes.concatenate(parts).select(np.argsort(order))

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        return ShortestPathRouter().tree(fabric, sources, destinations, operation)


@frozen
class Simai(Topology):
    """The network of a topology file of SimAI, or of ASTRA-sim's ns-3 backend, which is nearly the same.

    Nodes that are not switches are NPUs. A link goes both ways. Messages in a server go over its NVSwitch, others are
    spread over all shortest paths. NPUs forward nothing for others where switches alone connect two of them. The GPUs
    of a server on its NVSwitch, and the servers, are the two levels of a file of SimAI; a file for ns-3 has no levels.
    Error rates are not simulated.
    """

    name: ClassVar[str] = "simai"

    file: File = units.file(help="topology file of SimAI, or of ASTRA-sim for ns-3")

    def __attrs_post_init__(self) -> None:
        if not len(self._npus):
            raise InputError("all nodes are switches", file=self.file.path, accepted="one node or more that is not")

    @cached_property
    def listing(self) -> Listing:
        """What the file has."""
        with self.file.named():
            found = Listing(self.file.text())
        limits.check("nodes", found.nodes)
        limits.check("links", 2 * len(found.links))
        return found

    @cached_property
    def _npus(self) -> IntArray:
        listing = self.listing
        return np.setdiff1d(np.arange(listing.nodes), (*listing.nvswitches, *listing.switches))

    @property
    def scopes(self) -> tuple[str, ...]:
        """See ``Topology.scopes``; a file for ns-3 does not say what its links join."""
        return ("inter-package", "inter-pod") if self.listing.nvswitches else ()

    def build(self) -> Fabric:
        """Return the network; nodes have the numbers of the file, and links come in its order, there and back."""
        listing = self.listing
        npu = np.isin(np.arange(listing.nodes), self._npus)
        ends = np.array([link[:2] for link in listing.links], dtype=np.intp).reshape(-1, 2)
        values = np.array([link[2:] for link in listing.links]).reshape(-1, 3)
        inside = np.isin(ends, listing.nvswitches).any(axis=1)
        fabric = Fabric(
            name=self.file.name,
            kinds=np.where(npu, NodeKind.NPU, NodeKind.SWITCH),
            sources=ends.ravel(),
            destinations=ends[:, ::-1].ravel(),
            bandwidths=np.repeat(values[:, 0], 2),
            latencies=np.repeat(values[:, 1], 2),
            energies=0.0,
            copies=npu,
            reduces=npu,
            tiers=np.repeat(~inside, 2) if listing.nvswitches else 0,
            defaults=Defaults(router=SimaiRouter()),
            notes=(f"{self.file.path} has error rates, which are not simulated",) if values[:, 2].any() else (),
        )
        return with_servers(fabric, listing.per_server) if self._is_even(fabric) else fabric

    def _is_even(self, fabric: Fabric) -> bool:
        """Return whether the GPUs of each server have successive numbers and a link to the same NVSwitch."""
        own, npus = self.listing.per_server, self._npus
        if not own or len(npus) % own or not np.array_equal(npus, np.arange(len(npus))):
            return False
        upwards = np.isin(fabric.destinations, self.listing.nvswitches) & (fabric.kinds[fabric.sources] == NodeKind.NPU)
        switch = np.full(len(fabric.kinds), -1)
        switch[fabric.sources[upwards]] = fabric.destinations[upwards]
        groups = switch[npus.reshape(-1, own)]
        return own == 1 or bool((groups >= 0).all() and (groups == groups[:, :1]).all())
