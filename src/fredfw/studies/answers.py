"""Samplers are asked here, and their answers are checked."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw.answers import Asking
from fredfw.plugin.sampler import Sampler, Search, SearchSpace, Told, Trial


def start(sampler: Sampler, space: SearchSpace) -> Search:
    """Return the search that ``sampler`` begins in ``space``.

    Raises:
        PluginError: It fails, or returns something else.
    """
    asked = Asking(sampler, "start")
    with asked:
        answer: object = sampler.start(space)
    if not isinstance(answer, Search):
        raise asked.unexpected(answer, "a fredfw.Search")
    return answer


def ask(search: Search, space: SearchSpace) -> Sequence[Trial]:
    """Return what ``search`` wants to be run next.

    Raises:
        PluginError: It fails, or asks for something that is not a trial, or for a point that is not in ``space``.
    """
    asked = Asking(search, "ask")
    with asked:
        answer: object = search.ask()
    if not isinstance(answer, Sequence) or not all(isinstance(one, Trial) for one in answer):
        raise asked.unexpected(answer, "a sequence of fredfw.Trial")
    for one in answer:
        point: object = one.point
        if isinstance(point, bool) or not isinstance(point, int) or not 0 <= point < len(space):
            raise asked.wrong(f"asks for the point {point!r}", f"the number of a point, from 0 to {len(space) - 1}")
        rung: object = one.rung
        if rung is not None and not isinstance(rung, str):
            raise asked.wrong(f"asks for the rung {rung!r}", "the name of a rung, or None")
    return answer


def tell(search: Search, told: Sequence[Told]) -> None:
    """Tell ``search`` what has come of all that it has asked for.

    Raises:
        PluginError: It fails.
    """
    with Asking(search, "tell"):
        search.tell(told)
