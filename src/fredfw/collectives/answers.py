"""What collective algorithms must answer."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fredfw import limits
from fredfw.answers import FLAG, Asking, Kind, Method, instance, is_text, or_none, sequence, whose
from fredfw.collectives.algorithm import CollectiveAlgorithm, CollectiveRequest
from fredfw.collectives.amounts import check_amounts
from fredfw.collectives.pattern import Pattern
from fredfw.collectives.schedule import Schedule
from fredfw.errors import ScheduleError
from fredfw.fabric.view import GroupView


def _check_class(asked: Asking, answer: CollectiveAlgorithm, algorithm: CollectiveAlgorithm, *_: GroupView) -> None:
    if type(answer) is not type(algorithm):
        raise asked.unexpected(answer, f"a configuration of {type(algorithm).__qualname__}")


_VARIANTS = sequence(lambda one: isinstance(one, CollectiveAlgorithm), "a sequence of collective algorithms")
_ALGORITHM = instance(CollectiveAlgorithm, "a collective algorithm")

text = Method(CollectiveAlgorithm.__str__, Kind("text", is_text, str))
worthwhile = Method(CollectiveAlgorithm.worthwhile, FLAG)
undivided = Method(CollectiveAlgorithm.undivided, _ALGORITHM, _check_class)
_refusal = Method(CollectiveAlgorithm.refusal, or_none(Kind("the reason as text,", is_text, str)))
_equivalent = Method(CollectiveAlgorithm.equivalent, _ALGORITHM, _check_class)


def variants(cls: type[CollectiveAlgorithm], pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
    asked = Asking(cls, "variants")
    with asked:
        answer: object = cls.variants(pattern)
    return _VARIANTS.of(asked, answer)


def refusal(algorithm: CollectiveAlgorithm, request: CollectiveRequest, view: GroupView) -> str | None:
    return _refusal(algorithm, request, algorithm.sees(view))


def equivalent(algorithm: CollectiveAlgorithm, view: GroupView) -> CollectiveAlgorithm:
    return _equivalent(algorithm, algorithm.sees(view))


def written(algorithm: CollectiveAlgorithm, request: CollectiveRequest, view: GroupView) -> Schedule:
    """Return what ``algorithm`` writes for ``request``; raises ``ScheduleError`` too, with algorithm and plugin."""
    asked = Asking(algorithm, "schedule")
    with _blaming(algorithm, request), asked:
        answer: object = algorithm.plan(request, view)
    if not isinstance(answer, Schedule):
        raise asked.unexpected(answer, "a fredfw.Schedule")
    limits.check("phases", len(answer.phases))
    limits.check("transfers", sum(map(len, answer.phases)))
    return answer


def schedule(algorithm: CollectiveAlgorithm, request: CollectiveRequest, view: GroupView) -> Schedule:
    """Return what ``algorithm`` writes for ``request``, which moves as much as it must; raises as ``written`` does."""
    answer = written(algorithm, request, view)
    with _blaming(algorithm, request):
        check_amounts(answer, request)
    return answer


@contextmanager
def _blaming(algorithm: CollectiveAlgorithm, request: CollectiveRequest) -> Iterator[None]:
    try:
        yield
    except ScheduleError as error:
        raise ScheduleError(f"{blame(algorithm, request)}: {error}") from error


def blame(algorithm: CollectiveAlgorithm, request: CollectiveRequest) -> str:
    what = f"{request.pattern} among {request.ranks} NPUs"
    return f"{whose(type(algorithm))}: algorithm {text(algorithm)!r} does not do {what}"
