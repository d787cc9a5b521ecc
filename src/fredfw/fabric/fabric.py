"""A built network as arrays, and the interface of what builds one."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from enum import IntEnum
from functools import cached_property, partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from attrs import evolve, field, fields, frozen
from numpy.typing import ArrayLike, NDArray

from fredfw import arrays
from fredfw.answers import Asking, brief
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric.admission import AdmissionPolicy, OpenAdmission
from fredfw.fabric.flows import Routes
from fredfw.fabric.routing import Router, ShortestPathRouter
from fredfw.fabric.transport import IdealTransport, Transport
from fredfw.fabric.view import Capabilities, GroupLinks, GroupView, Level, components
from fredfw.keeping import kept
from fredfw.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import networkx

    from fredfw.fabric.cost import Bill, Prices
    from fredfw.fabric.memories import MemoryNetwork
    from fredfw.simulation.sharing import SharingPolicy
    from fredfw.workloads.placement import Placement

_T = TypeVar("_T")
_ROUNDING = 1e-9
_FIRST = np.zeros(1, dtype=np.intp)
# The number or place that ends a name, and the number of what it is part of: npu3, L1.2, node4.npu3, pod(0,3,*).
_NUMBER = re.compile(r"[ ._-]?\d+$|\([^()]*\)$|\d+(?=\.[a-zA-Z])")
_NO_DIMENSION = -1


class NodeKind(IntEnum):
    """What a node is."""

    NPU = 0
    SWITCH = 1
    CONTROLLER = 2
    """I/O controller: a gateway to external memory."""
    MEMORY = 3


def _integers(values: ArrayLike) -> IntArray:
    return np.asarray(values, dtype=np.intp)


def _numbers(values: ArrayLike) -> FloatArray:
    return np.asarray(values, dtype=float)


def _flags(values: ArrayLike) -> BoolArray:
    return np.asarray(values, dtype=bool)


def _tiers(values: ArrayLike) -> NDArray[np.int8]:
    return np.asarray(values).astype(np.int8)  # one byte for each of millions of links


@frozen(eq=False, kw_only=True)
class Defaults:
    """How a fabric wants to be simulated: configured plugins, one in each slot, that an experiment may choose instead.

    Args:
        router: How transfers become links.
        sharing: How flows share links; ``None`` for ``max-min``.
        admission: What may run beside what.
        transport: What launching, steps and messages cost beside bandwidth.
        placement: Which NPU a worker is on; ``None`` for ``linear``.
    """

    router: Router = field(factory=ShortestPathRouter)
    sharing: SharingPolicy | None = None
    admission: AdmissionPolicy = field(factory=OpenAdmission)
    transport: Transport = field(factory=IdealTransport)
    placement: Placement | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """What is chosen beside the router, such as ``sharing roce``: no file that holds a network alone has it."""
        plain = {"sharing": "max-min", "admission": "open", "transport": "ideal", "placement": "linear"}
        chosen = {slot: getattr(getattr(self, slot), "name", usual) for slot, usual in plain.items()}
        return tuple(f"{slot} {name}" for slot, name in chosen.items() if name != plain[slot])


SLOTS: tuple[str, ...] = tuple(one.name for one in fields(Defaults))
"""The names of the slots, which are keys of ``[fabrics.NAME]`` in an experiment."""


@frozen(eq=False)
class Fabric:
    """A built network: nodes and *directed* links, and the defaults it wants to be simulated with.

    NPU number ``i`` is node ``npus[i]``, controller number ``i`` is node ``controllers[i]``, both in node order.

    Args:
        name: For messages and reports.
        kinds: ``(nodes,)`` values of ``NodeKind``.
        sources: ``(links,)`` node each link leaves.
        destinations: ``(links,)`` node each link enters.
        bandwidths: ``(links,)`` bytes per second; here and below a single value is for all.
        latencies: ``(links,)`` seconds.
        energies: ``(links,)`` joules per byte.
        levels: Dimensions or tiers an algorithm may use, innermost first; empty if there is no such structure.
        coordinates: ``(NPUs, levels)`` position of each NPU in each level, each combination once.
        offers: What the network does for collectives among NPUs.
        local_offers: Whether it does so among NPUs of one server only.
        copies: ``(nodes,)`` whether a node may copy a stream to several links.
        reduces: ``(nodes,)`` whether a node may combine streams into one.
        defaults: How it is simulated, unless the experiment says otherwise.
        tiers: ``(links,)`` tier of each link, 0 inside servers, then outwards; a transport may have costs for each.
        node_names: Name of a node for people; ``None`` gives ``npu3``, ``switch0``, ...
        accelerator: What its NPUs are where an experiment does not say: a preset of ``Npu``; ``""`` if it is not known.
        notes: What a reader of results must know of it, for example what the file that it was read from does not say.
        memories: The memories that ``with_memories`` has joined to it, or ``None``.

    Attributes:
        npus: ``(NPUs,)`` node of each NPU.
        controllers: ``(controllers,)`` node of each I/O controller; empty if there are none.
        servers: ``(nodes,)`` part of those that links of tier 0 connect that each node is in: its server, in a cluster.
        leaving: ``(nodes + 1,)`` offsets, ascending ``(links,)`` ids: ``ids[offsets[n]:offsets[n + 1]]`` leave node n.
        entering: The same for the links that enter each node.

    Raises:
        InputError: Arrays do not fit, capacities are not positive and finite, or a place in the levels has not one NPU.
    """

    name: str
    kinds: IntArray = field(converter=_integers)
    sources: IntArray = field(converter=_integers)
    destinations: IntArray = field(converter=_integers)
    bandwidths: FloatArray = field(converter=_numbers)
    latencies: FloatArray = field(converter=_numbers)
    energies: FloatArray = field(converter=_numbers)
    levels: tuple[Level, ...] = ()
    coordinates: IntArray | None = None
    offers: Capabilities = field(factory=Capabilities)
    local_offers: bool = False
    copies: BoolArray = field(default=False, converter=_flags)
    reduces: BoolArray = field(default=False, converter=_flags)
    defaults: Defaults = field(factory=Defaults)
    tiers: NDArray[np.int8] = field(default=0, converter=_tiers)
    node_names: Callable[[int], str] | None = None
    accelerator: str = ""
    notes: tuple[str, ...] = ()
    memories: MemoryNetwork | None = None

    def __attrs_post_init__(self) -> None:
        if not self.tiers.any():  # whoever changes the links of a fabric of one tier need not know of tiers
            object.__setattr__(self, "tiers", _tiers(0))
        for name in ("bandwidths", "latencies", "energies", "tiers"):
            self._spread(name, self.sources.shape)
        for name in ("copies", "reduces"):
            self._spread(name, self.kinds.shape)
        self._check()

    def _spread(self, name: str, shape: tuple[int, ...]) -> None:
        array = getattr(self, name)
        if array.shape not in ((), shape):
            raise self._wrong(f"{name} have shape {array.shape}, expected {shape}")
        # The class is frozen for everyone else.
        object.__setattr__(self, name, np.ascontiguousarray(np.broadcast_to(array, shape)))

    def _check(self) -> None:
        nodes = len(self.kinds)
        if len(self.destinations) != len(self.sources):
            raise self._wrong(f"{len(self.sources)} link sources, {len(self.destinations)} ends")
        for ends in (self.sources, self.destinations):
            if ends.size and not 0 <= ends.min() <= ends.max() < nodes:
                outside = ends[(ends < 0) | (ends >= nodes)][0]
                raise self._wrong(f"a link ends at node {outside}, there are {nodes} nodes")
        for what, values, bad in (
            ("bandwidth", self.bandwidths, ~np.isfinite(self.bandwidths) | (self.bandwidths <= 0)),
            ("latency", self.latencies, ~np.isfinite(self.latencies) | (self.latencies < 0)),
            ("energy", self.energies, ~np.isfinite(self.energies) | (self.energies < 0)),
            ("tier", self.tiers, self.tiers < 0),
        ):
            if bad.any():
                link = int(bad.argmax())
                raise self._wrong(f"link {self.link_name(link)} has {what} {values[link]}")
        if self.coordinates is not None:
            self._check_coordinates(self.coordinates)

    def _check_coordinates(self, given: IntArray) -> None:
        coordinates = arrays.whole(given)
        if coordinates is None:
            raise self._wrong(f"coordinates are {brief(given)}, expected whole numbers")
        object.__setattr__(self, "coordinates", coordinates)
        expected = len(self.npus), len(self.levels)
        if coordinates.shape != expected:
            raise self._wrong(f"coordinates have shape {coordinates.shape}, expected {expected}")
        sizes = [level.size for level in self.levels]
        if ((coordinates < 0) | (coordinates >= sizes)).any():
            raise self._wrong(f"coordinates outside the levels' sizes {sizes}")
        if math.prod(sizes) != expected[0]:
            positions = f"{math.prod(sizes)} positions for {expected[0]} NPUs"
            raise self._wrong(f"levels of {sizes} have {positions}; give no levels where the NPUs do not fill them")
        if _repeated(coordinates @ np.cumprod([1, *sizes])[:-1]).size:
            raise self._wrong("two NPUs have the same coordinates")

    def _wrong(self, what: str) -> InputError:
        return InputError(f"fabric {self.name!r}: {what}")

    @property
    def network(self) -> Fabric:
        """The fabric without the memories that were joined to it: all that collectives may use."""
        return self if self.memories is None else self.memories.network

    # What is cached has its docstring in the class's too, for attrs replaces these by slots without one.
    @cached_property
    def npus(self) -> IntArray:
        return np.flatnonzero(self.kinds == NodeKind.NPU)

    @cached_property
    def controllers(self) -> IntArray:
        return np.flatnonzero(self.kinds == NodeKind.CONTROLLER)

    @cached_property
    def servers(self) -> IntArray:
        if self.memories is not None:
            # A memory network joins all servers, and is none.
            part = self.network.servers
            return np.append(part, np.arange(len(part), len(self.kinds)))
        if not self.tiers.any():
            return np.zeros(len(self.kinds), dtype=np.intp)
        inside = self.tiers == 0
        return components(len(self.kinds), self.sources[inside], self.destinations[inside])

    @cached_property
    def leaving(self) -> tuple[IntArray, IntArray]:
        return _grouped(self.sources, len(self.kinds))

    @cached_property
    def entering(self) -> tuple[IntArray, IntArray]:
        return _grouped(self.destinations, len(self.kinds))

    @cached_property
    def _derived(self) -> dict[Callable[[Fabric], Any], Any]:
        return {}

    def derived(self, derive: Callable[[Fabric], _T]) -> _T:
        """Return ``derive(fabric)``, worked out once: for what a router must know of the structure of the network."""
        known: _T = kept(self._derived, derive, lambda: derive(self))
        return known

    @cached_property
    def _link_keys(self) -> tuple[IntArray, IntArray]:
        keys = self.sources * len(self.kinds) + self.destinations
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def links_between(self, sources: IntArray, destinations: IntArray) -> IntArray:
        """Return the (first) link from each source to its neighbour; ``InputError`` for a pair that none joins."""
        keys, order = self._link_keys
        wanted = np.asarray(sources) * len(self.kinds) + np.asarray(destinations)
        position = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        missing = keys[position] != wanted if len(keys) else np.ones(wanted.shape, dtype=bool)
        if missing.any():
            at = int(np.flatnonzero(missing)[0])
            names = [self.node_name(int(np.ravel(nodes)[at])) for nodes in (sources, destinations)]
            raise InputError(f"fabric {self.name!r} has no link from {names[0]} to {names[1]}")
        return order[position]

    def node_name(self, node: int) -> str:
        """Return the name of ``node`` for people."""
        if self.node_names is not None:
            asked = Asking(self.node_names)
            with asked:
                name: object = self.node_names(node)
            if not isinstance(name, str):
                raise asked.unexpected(name, f"the name of node {node}")
            return name
        kind = self.kinds[node]
        return f"{NodeKind(kind).name.lower()}{int((self.kinds[:node] == kind).sum())}"

    def link_name(self, link: int) -> str:
        """Return the name of ``link`` for people."""
        return f"{self.node_name(int(self.sources[link]))}->{self.node_name(int(self.destinations[link]))}"

    def paths(self, offsets: IntArray, links: IntArray) -> Routes:
        """Return ``F`` routes that are paths, so that the latencies of their links add up; arrays as in ``Routes``."""
        return Routes(offsets, links, arrays.reduced(np.add, self.latencies[links], offsets, 0.0))

    def path(self, links: Sequence[int] | IntArray) -> Routes:
        """Return one route that is a path over ``links``, as ``paths`` does for many."""
        ids = np.array(links, dtype=np.intp)
        # The same sum as in paths, to the last bit.
        latencies = np.add.reduceat(self.latencies[ids], _FIRST) if len(ids) else np.zeros(1)
        return Routes(np.array([0, len(ids)]), ids, latencies)

    def tree(self, rising: IntArray, falling: IntArray, latency: float) -> Routes:
        """Return one flow of ``latency`` whose streams join along ``rising`` links and branch along ``falling`` ones.

        Raises ``UnsupportedError`` if they join at a node that may not reduce, or branch at one that may not copy.
        """
        rising, falling = np.unique(rising), np.unique(falling)
        links = np.concatenate([rising, falling])
        joins, branches = self.destinations[rising], self.sources[falling]
        # Where nothing joins on the way up, one stream takes all links, and may branch there, too; a sum, likewise.
        self.require(joins if _repeated(branches).size else self.destinations[links], reduces=True)
        self.require(branches if _repeated(joins).size else self.sources[links], reduces=False)
        return Routes.of([links], [float(latency)])

    def require(self, nodes: IntArray, *, reduces: bool) -> None:
        """Raise ``UnsupportedError`` where one of ``nodes`` that may not reduce, or else copy, is there twice."""
        stuck = _repeated(nodes[~(self.reduces if reduces else self.copies)[nodes]])
        if stuck.size:
            what = f"{self.node_name(int(stuck[0]))} of fabric {self.name!r}"
            raise UnsupportedError(f"{what} cannot {'combine' if reduces else 'copy'} a stream")

    def view(self, group: IntArray | Sequence[int] | None = None) -> GroupView:
        """Return what an algorithm may know about the NPUs numbered ``group`` (all of them by default).

        Raises ``InputError`` if the group is empty, or an NPU in it does not exist or is repeated.
        """
        if self.memories is not None:
            return self.network.view(group)
        npus = len(self.npus)
        members = np.arange(npus) if group is None else np.asarray(group, dtype=np.intp)
        if not members.size:
            raise InputError("the group is empty", key="group", accepted="one or more NPUs")
        missing = members[(members < 0) | (members >= npus)]
        if missing.size:
            raise InputError(f"NPU {missing[0]} is not in {self.name!r}", key="group", accepted=f"0 to {npus - 1}")
        twice = _repeated(members)
        if twice.size:
            raise InputError(f"NPU {twice[0]} is repeated in the group", key="group", accepted="each NPU once")
        nodes = self.npus[members]
        view = GroupView.of(
            members,
            self.levels,
            self.coordinates,
            self.offered(nodes),
            independent=self._independent_levels,
            find_links=partial(self._links_among, members),
        )
        servers = self.servers[nodes]
        return view.with_servers(servers, self.offers) if (servers != servers[0]).any() else view

    def _links_among(self, members: IntArray) -> GroupLinks | None:
        return GroupLinks.of(self, members, self.kinds == NodeKind.SWITCH)

    @cached_property
    def _independent_levels(self) -> bool:
        if not self.levels:
            return False
        # Along a line, an outer NPU has one neighbour.
        levels = [level for level in self.levels if level.size > 1]
        wanted = sum(level.bandwidth if level.kind == "line" else level.total_bandwidth for level in levels)
        nodes = len(self.kinds)
        own = [np.bincount(ends, self.bandwidths, nodes)[self.npus] for ends in (self.sources, self.destinations)]
        return bool(np.min(own) >= wanted * (1 - _ROUNDING))

    def offered(self, nodes: IntArray) -> Capabilities:
        """Return what the network does for collectives among the NPUs at ``nodes``."""
        if self.local_offers and len(nodes) and (self.servers[nodes] != self.servers[nodes[0]]).any():
            return Capabilities()
        return self.offers

    def offered_to_some(self, nodes: IntArray) -> Capabilities:
        """Return what the network does for collectives among all or some of the NPUs at ``nodes``."""
        apart = self.local_offers and len(np.unique(self.servers[nodes])) == len(nodes) > 1
        offers = Capabilities() if apart else self.offers
        return reduce(or_, (level.offers for level in self.levels), offers)

    def views(self, groups: IntArray, *, links: bool = False) -> list[tuple[GroupView, IntArray]]:
        """Return the different views (and ``links``) of ``(G, n)`` groups, each with the indices of its groups."""
        # How a group looks does not change when all of it moves along the levels and the same ranks share a server.
        looks = groups[:, :0]
        if self.coordinates is not None:
            place = self.coordinates[groups]
            looks = (place - place.min(axis=1, keepdims=True)).reshape(len(groups), -1)
        if self.tiers.any():
            looks = np.hstack([looks, _ranked(self.servers[self.npus[groups]])])
        alike: dict[bytes, list[int]] = {}
        for index, one in enumerate(looks):
            alike.setdefault(one.tobytes(), []).append(index)
        views = [(self.view(groups[indices[0]]), np.array(indices)) for indices in alike.values()]
        return [part for view, of in views for part in self._by_links(view, groups, of)] if links else views

    def _by_links(self, view: GroupView, groups: IntArray, indices: IntArray) -> list[tuple[GroupView, IntArray]]:
        alike: dict[Hashable, tuple[GroupView, list[int]]] = {}
        for index in indices.tolist():
            one = view if index == indices[0] else self.view(groups[index])
            alike.setdefault(one.key_with_links, (one, []))[1].append(index)
        return [(one, np.array(same)) for one, same in alike.values()]

    def with_defaults(self, *, name: str | None = None, **slots: Any) -> Fabric:
        """Return the same network by another ``name`` or with other ``slots`` of ``Defaults``; ``None`` keeps one."""
        chosen = {slot: one for slot, one in slots.items() if one is not None}
        memories = self.memories
        if memories is not None:
            memories = evolve(memories, network=memories.network.with_defaults(name=name, **slots))
        return evolve(self, name=name or self.name, defaults=evolve(self.defaults, **chosen), memories=memories)

    def to_networkx(self) -> networkx.MultiDiGraph[int]:
        """Return a networkx view: nodes with ``kind`` and ``name``, edges keyed by link id with their numbers."""
        import networkx as nx

        graph: networkx.MultiDiGraph[int] = nx.MultiDiGraph(name=self.name)
        for node, kind in enumerate(self.kinds):
            graph.add_node(node, kind=NodeKind(kind).name.lower(), name=self.node_name(node))
        for link, (source, destination) in enumerate(zip(self.sources, self.destinations, strict=True)):
            graph.add_edge(
                int(source),
                int(destination),
                key=link,
                bandwidth=float(self.bandwidths[link]),
                latency=float(self.latencies[link]),
                energy=float(self.energies[link]),
            )
        return graph


def _grouped(nodes: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Return the offsets and the indices of ``nodes`` in the order of their numbers, ``0 .. count - 1``."""
    return arrays.offsets(np.bincount(nodes, minlength=count)), np.argsort(nodes, kind="stable")


def _ranked(rows: IntArray) -> IntArray:
    """Return the place of each number among the different ones of its row, lowest first."""
    order = np.argsort(rows, axis=1, kind="stable")
    rises = np.diff(np.take_along_axis(rows, order, axis=1), axis=1) > 0
    ranked = np.zeros_like(rows)
    np.put_along_axis(ranked, order[:, 1:], np.cumsum(rises, axis=1), axis=1)
    return ranked


def _repeated(numbers: IntArray) -> IntArray:
    ordered = np.sort(numbers, kind="stable")  # one pass where they are in order, as they mostly are
    again: IntArray = ordered[1:][ordered[1:] == ordered[:-1]]
    return again


def tiers_of(fabric: Fabric) -> list[tuple[str, IntArray]]:
    """Return the name and the ``(k,)`` links of each tier, such as ``npu -> switch``; each link is in one of them."""
    return fabric.derived(_tiers_of)


def _tiers_of(fabric: Fabric) -> list[tuple[str, IntArray]]:
    names, number = _stems(fabric)
    keys = number[fabric.sources], number[fabric.destinations], _dimensions(fabric), fabric.bandwidths
    order = np.lexsort(keys[::-1])
    found = []
    for links in np.split(order, arrays.starts(*(key[order] for key in keys))[1:]) if len(order) else ():
        source, destination, dimension = (int(key[links[0]]) for key in keys[:3])
        where = f", dimension {dimension}" if dimension != _NO_DIMENSION else ""
        found.append((f"{names[source]} -> {names[destination]}{where}", links))
    return found


def _stems(fabric: Fabric) -> tuple[list[str], IntArray]:
    """Return names of nodes without their numbers, and which of them each node has."""
    if fabric.node_names is None:
        kinds, first, which = np.unique(fabric.kinds, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return [NodeKind(kind).name.lower() for kind in kinds[order]], np.argsort(order)[which]
    stems = [_NUMBER.sub("", fabric.node_name(node)) for node in range(len(fabric.kinds))]
    known = {stem: number for number, stem in enumerate(dict.fromkeys(stems))}
    return list(known), np.array([known[stem] for stem in stems], dtype=np.intp)


def _dimensions(fabric: Fabric) -> IntArray:
    """Return the level of each link that joins two NPUs in one of several levels."""
    dimensions: IntArray = np.full(len(fabric.sources), _NO_DIMENSION)
    if fabric.coordinates is None or len(fabric.levels) < 2:
        return dimensions
    number = np.zeros(len(fabric.kinds), dtype=np.intp)
    number[fabric.npus] = np.arange(len(fabric.npus))
    npu = fabric.kinds == NodeKind.NPU
    direct = np.flatnonzero(npu[fabric.sources] & npu[fabric.destinations])
    ends = (fabric.coordinates[number[nodes[direct]]] for nodes in (fabric.sources, fabric.destinations))
    differs = np.not_equal(*ends)
    one = differs.sum(axis=1) == 1
    dimensions[direct[one]] = differs[one].argmax(axis=1)
    return dimensions


class Topology(ABC):
    """A configured network that can be built; plugins derive attrs classes from it.

    The attrs fields are the configuration schema; the class docstring is what ``fredfw plugins show`` prints.
    """

    name: ClassVar[str]

    @property
    def scopes(self) -> tuple[str, ...]:
        """What each tier's links join, innermost first, such as ``inter-pod``, for ``Prices``; empty if not known."""
        return ()

    @abstractmethod
    def build(self) -> Fabric:
        """Return the network; pure, so two calls give equal fabrics."""

    def cost(self, prices: Prices | None = None, fabric: Fabric | None = None) -> Bill | None:
        """Return what the network costs, at ``prices`` (LIBRA's by default), or ``None`` where nothing can be said.

        ``fabric`` is what ``build`` returns, where that is at hand.
        """
        from fredfw.fabric.cost import Bill

        return Bill.of(fabric or self.build(), self.scopes, prices)
