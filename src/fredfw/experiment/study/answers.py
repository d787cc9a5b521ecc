"""What samplers must answer."""

from __future__ import annotations

from fredfw.answers import ANYTHING, Asking, Method, instance, sequence
from fredfw.plugin.sampler import Sampler, Search, SearchSpace, Trial

start = Method(Sampler.start, instance(Search))
tell = Method(Search.tell, ANYTHING)
_ask = Method(Search.ask, sequence(lambda one: isinstance(one, Trial), "a sequence of fredfw.Trial"))


def ask(search: Search, space: SearchSpace) -> tuple[Trial, ...]:
    """Return what ``search`` wants to be run next: points that are in ``space``; else ``PluginError``."""
    asked, trials = Asking(search, "ask"), _ask(search)
    for one in trials:
        point: object = one.point
        if isinstance(point, bool) or not isinstance(point, int) or not 0 <= point < len(space):
            raise asked.wrong(f"asks for the point {point!r}", f"the number of a point, from 0 to {len(space) - 1}")
        rung: object = one.rung
        if rung is not None and not isinstance(rung, str):
            raise asked.wrong(f"asks for the rung {rung!r}", "the name of a rung, or None")
    return trials
