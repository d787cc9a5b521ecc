"""What the links of a many-ended flow do: where its streams are combined, where they are copied, whom they reach."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from attrs import frozen

from fredfw.fabric import Capabilities, Fabric, Operation
from fredfw.typing import IntArray


def offered_trees(offers: Capabilities) -> dict[Operation, bool]:
    """Return whether a network that offers this has trees, by operation."""
    return {
        Operation.MULTICAST: offers.multicasts,
        Operation.REDUCE: offers.reduces,
        Operation.ALL_REDUCE: offers.multicasts and offers.reduces,
    }


@frozen(eq=False)
class TreeReport:
    """A tree, taken as the paths of all streams to one node and the paths from there to all ends.

    Args:
        faults: Why the links are not such a tree.
        stuck: Where it joins or branches although the node there cannot.
        latency: Seconds of its deepest branches, up and down.
    """

    faults: tuple[str, ...]
    stuck: tuple[str, ...]
    latency: float

    @classmethod
    def of(
        cls, fabric: Fabric, links: IntArray, sources: IntArray, destinations: IntArray, operation: Operation
    ) -> TreeReport:
        """Examine the ``links`` of a flow; where several nodes could be the middle, the one that makes most sense."""
        if operation is Operation.MULTICAST:
            middles = [int(sources[0])]
        else:
            middles = np.unique([*fabric.sources[links], *fabric.destinations[links], *destinations]).tolist()
        reports = [_examine(fabric, links, sources, destinations, operation, middle) for middle in middles]
        return min(reports, key=lambda one: (len(one.faults), len(one.stuck), one.latency))


def _examine(
    fabric: Fabric, links: IntArray, sources: IntArray, destinations: IntArray, operation: Operation, middle: int
) -> TreeReport:
    name = fabric.node_name
    rise, climb = _search(fabric, links, middle, backwards=True)
    fall, descent = _search(fabric, links, middle, backwards=False)
    senders, receivers = set(sources.tolist()), set(destinations.tolist())
    if operation is Operation.MULTICAST:
        rise, climb = {}, {middle: 0.0}  # nothing is combined
        receivers -= senders
    faults = [f"nothing gets from {name(one)} to {name(middle)}" for one in sorted(senders - set(climb))]
    faults += [f"nothing gets from {name(middle)} to {name(one)}" for one in sorted(receivers - set(descent))]
    used = Counter([*rise.values(), *fall.values()])
    for link, times in Counter(links.tolist()).items():
        if times > 1 or used[link] > 1:
            faults.append(f"{fabric.link_name(link)} is crossed twice")
        elif not used[link]:
            faults.append(f"{fabric.link_name(link)} is one too many")
    joins = Counter(int(fabric.destinations[link]) for link in rise.values())
    branches = Counter(int(fabric.sources[link]) for link in fall.values())
    faults += [
        f"data leaves {name(one)}, but none arrives there" for one in rise if not joins[one] and one not in senders
    ]
    faults += [
        f"data enters {name(one)}, but is not needed there"
        for one in fall
        if not branches[one] and one not in receivers
    ]
    # The only end of a reduction adds, and the only source of a multicast sends, by itself.
    combines = int(destinations[0]) if operation is Operation.REDUCE else None
    copies = middle if operation is Operation.MULTICAST else None
    stuck = [
        f"{name(node)} cannot {verb} streams"
        for verb, able, counts, ends, exempt in (
            ("combine", fabric.reduces, joins, senders, combines),
            ("copy", fabric.copies, branches, receivers, copies),
        )
        for node in sorted(counts)
        if counts[node] + (node in ends) > 1 and not able[node] and node != exempt
    ]
    up = max((climb[one] for one in senders & set(climb)), default=0.0)
    down = max((descent[one] for one in receivers & set(descent)), default=0.0)
    return TreeReport(tuple(faults), tuple(stuck), up + down)


def _search(fabric: Fabric, links: IntArray, root: int, *, backwards: bool) -> tuple[dict[int, int], dict[int, float]]:
    """Return the link by which a search over ``links`` first met each node, and the seconds from (to) the root."""
    near, far = (fabric.destinations, fabric.sources) if backwards else (fabric.sources, fabric.destinations)
    ways: defaultdict[int, list[int]] = defaultdict(list)
    for link in links.tolist():
        ways[int(near[link])].append(link)
    met: dict[int, int] = {}
    seconds = {root: 0.0}
    queue = [root]
    for node in queue:
        for link in ways[node]:
            other = int(far[link])
            if other not in seconds:
                met[other] = link
                seconds[other] = seconds[node] + float(fabric.latencies[link])
                queue.append(other)
    return met, seconds
