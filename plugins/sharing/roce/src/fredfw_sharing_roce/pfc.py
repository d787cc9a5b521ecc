"""PFC alone: senders at line rate, and links that pause those before them."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import units
from fredfw.errors import InputError
from fredfw.typing import BoolArray, FloatArray
from fredfw_sharing_roce.fluid import Feedback, Fluid, State
from fredfw_sharing_roce.paths import Paths


@frozen
class Pfc(Fluid):
    """Priority flow control without congestion control: what arrives over a link and waits pauses that link.

    Flows of a paused link that go elsewhere wait, too: pauses spread, and heads of line block. Links that pause each
    other for ever are an error that names them.
    """

    name: ClassVar[str] = "pfc"
    hears: ClassVar[bool] = False
    approximations = ("pauses begin and end at once, and last for whole steps",)

    xoff: float = units.size(512e3, help="bytes that came over a link and wait, at which it is paused")
    xon: float = units.quantity(units.Unit.BYTES, 256e3, help="bytes below which it is no longer paused")

    def __attrs_post_init__(self) -> None:
        if self.xon >= self.xoff:
            raise InputError(f"{self.xon:g} B is not less than xoff", key="xon", accepted=f"less than {self.xoff:g} B")

    def advance(self, state: State, feedback: Feedback, elapsed: float) -> None:
        state["rate"] = np.where(feedback.line > 0, feedback.line, state["rate"])

    def paused(self, paused: BoolArray, buffered: FloatArray) -> BoolArray:
        return (buffered > self.xoff) | (paused & (buffered >= self.xon))

    def deadlock(self, paths: Paths, backlog: FloatArray, paused: BoolArray) -> list[int]:
        # A paused link goes on once less than ``xon`` bytes that came over it wait. Those that wait for a link which
        # never goes on never leave. The links that never go on are the largest set of paused ones in which each has
        # ``xon`` bytes or more that wait for others of the set.
        stuck, later = paused, paths.later
        before, after, waiting = paths.links[later - 1], paths.links[later], (paths.coefficients * backlog)[later]
        while stuck.any():
            held = np.bincount(before, waiting * stuck[after], paths.count)
            kept = stuck & (held >= self.xon)
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
