"""What the conformance kit finds in plugins that are wrong on purpose."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from attrs import frozen

from fredfw.testing import ConformanceError
from fredfw.testing.conformance import Case, outcome

T = TypeVar("T")


def changed(cls: type[T], **members: Any) -> T:
    """What is like an instance of ``cls``, but for some members of its class."""
    made: type[T] = frozen(type(cls.__name__, (cls,), {"__doc__": cls.__doc__, **members}))
    return made()


def found(case: Case[Any], check: str) -> str:
    """What one check says, empty if nothing is wrong."""
    return outcome(getattr(type(case), check), case) or ""


def failures(check: Callable[..., None], *subject: Any, **options: Any) -> str:
    """What a call of the kit says of all its checks."""
    with pytest.raises(ConformanceError) as caught:
        check(*subject, **options)
    return str(caught.value)
