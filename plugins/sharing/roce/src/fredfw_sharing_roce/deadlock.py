"""Links that pause each other for ever."""

from __future__ import annotations

import numpy as np

from fredfw.typing import BoolArray, FloatArray
from fredfw_sharing_roce.paths import Paths


def cycle(paths: Paths, backlog: FloatArray, paused: BoolArray, xon: float) -> list[int]:
    """Return links of which each waits for the next, and the last for the first; none where no such links are paused.

    A paused link goes on once less than ``xon`` bytes that came over it wait. Those that wait for a link which never
    goes on never leave. The links that never go on are the largest set of paused ones in which each has ``xon`` bytes
    or more that wait for others of the set.

    Args:
        paths: The links that flows cross.
        backlog: ``(P,)`` bytes of each flow that wait for each link.
        paused: ``(links,)`` which may not send.
        xon: Bytes.
    """
    stuck = paused
    later = np.flatnonzero(paths.places > 0)
    before, after, waiting = paths.links[later - 1], paths.links[later], (paths.coefficients * backlog)[later]
    while stuck.any():
        held = np.bincount(before, waiting * stuck[after], paths.count)
        kept = stuck & (held >= xon)
        if np.array_equal(kept, stuck):
            break
        stuck = kept
    else:
        return []
    found: list[int] = [int(stuck.argmax())]
    while len(set(found)) == len(found):  # to the link for which most of what came over the last one waits
        mine = (before == found[-1]) & stuck[after]
        found.append(int(np.bincount(after[mine], waiting[mine], paths.count).argmax()))
    return found[found.index(found[-1]) : -1]
