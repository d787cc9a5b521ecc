"""Every exception the library raises on purpose; all derive from ``FredfwError``, but ``Interrupted``.

``InputError`` and its subclasses mean that the caller can mend the input (the command line exits with 2); all others
mean that a model or a plugin misbehaved (the command line exits with 1).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self


class FredfwError(Exception):
    """Base of all errors raised by fredfw and its first-party plugins."""


class InputError(FredfwError, ValueError):
    """Something the user gave cannot be used; ``message`` says what is wrong, with the offending value.

    It came from ``file``; ``key`` is the dotted path of the key there, or the name of the option or parameter. What
    would be accepted instead is ``accepted``.
    """

    def __init__(
        self, message: str, *, file: str | None = None, key: str | None = None, accepted: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.key = key
        self.accepted = accepted

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.key) if part)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text} (accepted: {self.accepted})" if self.accepted else text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message,), self.__dict__

    def at(self, *, file: str | None = None, key: str | None = None) -> Self:
        """Return this error with the place added: ``file`` where it had none, ``key`` in front of its own key."""
        self.file = self.file or file
        if key:
            if self.key:
                key = f"{key}{self.key}" if self.key.startswith("[") else f"{key}.{self.key}"
            self.key = key
        return self


class UnknownNameError(InputError):
    """A name that nothing is registered or defined under."""


class LimitError(InputError):
    """More of something than a limit of ``fredfw.limits`` allows."""


class UnsupportedError(InputError):
    """A combination that the chosen plugin cannot do, with its reason."""


class PluginError(FredfwError):
    """A plugin that cannot be used: it fails to load, breaks the contract, or collides with another."""


class BrokenPluginError(PluginError, UnknownNameError):
    """An unknown name that a plugin which was left out might have provided; gives the cause."""


class PluginWarning(UserWarning):
    """A plugin was left out, or one that was to be is not installed; the rest works."""


class ScheduleError(FredfwError):
    """A schedule that does not do what its pattern promises; names phase, rank and chunk."""


class SimulationError(FredfwError):
    """The simulation cannot go on, or its result would be wrong."""


class RefusedError(UnsupportedError, SimulationError):
    """Flows that the fabric's admission refuses: they can never run on it, which shows only in the simulation."""


class DeadlockError(SimulationError):
    """Nothing is left to happen while tasks are unfinished; the message lists who waits for what."""


class Interrupted(KeyboardInterrupt):
    """A ``KeyboardInterrupt`` when a part of the work was done, with its result, such as a ``Comparison``."""

    def __init__(self, finished: Any) -> None:
        super().__init__()
        self.finished = finished


@contextmanager
def placed(*, file: str | None = None, key: str | None = None, anew: bool = False) -> Iterator[None]:
    """Add the place to an ``InputError`` from inside, see ``InputError.at``; ``anew``: in place of what it has."""
    try:
        yield
    except InputError as error:
        if anew:
            error.file = error.key = None
        raise error.at(file=file, key=key) from None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known name closest to ``name``, or an empty string."""
    names = list(known)
    # Two letters that changed places count for little in a short name.
    swapped = [one for one in names if sorted(one) == sorted(name)]
    close = swapped or difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
