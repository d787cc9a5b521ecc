"""Collective algorithms are asked here, and their answers are checked."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import limits
from fredfw.answers import Asking, whose
from fredfw.collectives.algorithm import CollectiveAlgorithm, CollectiveRequest
from fredfw.collectives.amounts import check_amounts
from fredfw.collectives.pattern import Pattern
from fredfw.collectives.schedule import Schedule
from fredfw.errors import ScheduleError
from fredfw.fabric.view import GroupView


def variants(cls: type[CollectiveAlgorithm], pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
    """Return the configurations that ``auto`` tries for ``pattern``.

    Raises:
        PluginError: The class fails, or what it returns are not algorithms.
    """
    asked = Asking(cls, "variants")
    with asked:
        answer: object = cls.variants(pattern)
    if not isinstance(answer, Sequence) or not all(isinstance(one, CollectiveAlgorithm) for one in answer):
        raise asked.unexpected(answer, "a sequence of collective algorithms")
    return answer


def text(algorithm: CollectiveAlgorithm) -> str:
    """Return ``algorithm`` with its options, as text.

    Raises:
        PluginError: The algorithm fails.
    """
    with Asking(algorithm, "__str__"):
        return str(algorithm)


def refusal(algorithm: CollectiveAlgorithm, request: CollectiveRequest, view: GroupView) -> str | None:
    """Return why ``algorithm`` cannot serve ``request`` on ``view``, or ``None`` if it can.

    Raises:
        PluginError: The algorithm fails, or what it returns is not text.
    """
    asked = Asking(algorithm, "refusal")
    with asked:
        answer: object = algorithm.refusal(request, algorithm.sees(view))
    if answer is not None and not isinstance(answer, str):
        raise asked.unexpected(answer, "the reason as text, or None")
    return answer


def equivalent(algorithm: CollectiveAlgorithm, view: GroupView) -> CollectiveAlgorithm:
    """Return the simplest configuration that writes the same as ``algorithm`` in groups seen as ``view``.

    Raises:
        PluginError: The algorithm fails, or what it returns is not a configuration of it.
    """
    asked = Asking(algorithm, "equivalent")
    with asked:
        answer: object = algorithm.equivalent(algorithm.sees(view))
    return _configuration(algorithm, asked, answer)


def worthwhile(algorithm: CollectiveAlgorithm, view: GroupView) -> bool:
    """Return whether ``algorithm`` wants to be tried in groups seen as ``view``.

    Raises:
        PluginError: The algorithm fails, or what it returns is not a bool.
    """
    asked = Asking(algorithm, "worthwhile")
    with asked:
        answer: object = algorithm.worthwhile(view)
    if not isinstance(answer, bool):
        raise asked.unexpected(answer, "True or False")
    return answer


def undivided(algorithm: CollectiveAlgorithm) -> CollectiveAlgorithm:
    """Return the configuration that does the same as ``algorithm`` with data in the fewest pieces.

    Raises:
        PluginError: The algorithm fails, or what it returns is not a configuration of it.
    """
    asked = Asking(algorithm, "undivided")
    with asked:
        answer: object = algorithm.undivided()
    return _configuration(algorithm, asked, answer)


def _configuration(algorithm: CollectiveAlgorithm, asked: Asking, answer: object) -> CollectiveAlgorithm:
    if not isinstance(answer, CollectiveAlgorithm) or type(answer) is not type(algorithm):
        raise asked.unexpected(answer, f"a configuration of {type(algorithm).__qualname__}")
    return answer


def written(algorithm: CollectiveAlgorithm, request: CollectiveRequest, view: GroupView) -> Schedule:
    """Return what ``algorithm`` writes for ``request``.

    Raises:
        PluginError: The algorithm fails, or what it returns is not a schedule.
        ScheduleError: It is not a valid one; names the algorithm and the plugin.
        UnsupportedError: The algorithm cannot do it.
    """
    asked = Asking(algorithm, "schedule")
    try:
        with asked:
            answer: object = algorithm.plan(request, view)
    except ScheduleError as error:
        raise ScheduleError(f"{blame(algorithm, request)}: {error}") from error
    if not isinstance(answer, Schedule):
        raise asked.unexpected(answer, "a fredfw.Schedule")
    limits.check("phases", len(answer.phases))
    limits.check("transfers", sum(map(len, answer.phases)))
    return answer


def schedule(algorithm: CollectiveAlgorithm, request: CollectiveRequest, view: GroupView) -> Schedule:
    """Return what ``algorithm`` writes for ``request``, which moves as much as it must; raises as ``written`` does."""
    answer = written(algorithm, request, view)
    try:
        check_amounts(answer, request)
    except ScheduleError as error:
        raise ScheduleError(f"{blame(algorithm, request)}: {error}") from error
    return answer


def blame(algorithm: CollectiveAlgorithm, request: CollectiveRequest) -> str:
    """Return, for a message, who does not do what is asked."""
    what = f"{request.pattern} among {request.ranks} NPUs"
    return f"{whose(type(algorithm))}: algorithm {text(algorithm)!r} does not do {what}"
