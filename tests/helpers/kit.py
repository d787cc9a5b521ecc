"""What the conformance kit finds in plugins that are wrong on purpose."""

from typing import Any, TypeVar

from attrs import frozen

from fredfw.testing.conformance import Case, outcome

T = TypeVar("T")


def changed(cls: type[T], **members: Any) -> T:
    """What is like an instance of ``cls``, but for some members of its class."""
    made: type[T] = frozen(type(cls.__name__, (cls,), {"__doc__": cls.__doc__, **members}))
    return made()


def found(case: Case[Any], check: str) -> str:
    """What one check says, empty if nothing is wrong."""
    return outcome(getattr(type(case), check), case) or ""
