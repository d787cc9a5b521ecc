"""How closely collectives are simulated, by name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from fredfw.errors import InputError, nearest

COMPRESSED = "compressed"
"""A phase that repeats is one phase."""
STEPWISE = "stepwise"
"""Each repetition is simulated, with a barrier in its group."""
EXACT = "exact"
"""No barriers: each rank waits for what it sends and receives itself."""
FIDELITIES = COMPRESSED, STEPWISE, EXACT
ESTIMATE = "estimate"
"""No simulation of the iteration at all, see ``fredfw.simulation.estimate``."""
RENDEZVOUS = "per-rank-rendezvous"
"""In calls until version 1: ``exact`` with a transport that has ``rendezvous``."""
RENAMED = {
    "per-rank": f"{EXACT!r}",
    RENDEZVOUS: f"{EXACT!r}, and a transport with rendezvous = true",
}
"""What names of earlier releases are called."""


def checked(name: object, key: str = "fidelity", accepted: Sequence[str] = FIDELITIES) -> str:
    """Return ``name``, which a file says.

    Raises:
        InputError: It is none of ``accepted``; says what one of an earlier release is called, or gives the nearest.
    """
    if name in accepted:
        return str(name)
    raise InputError(f"{name!r} is not known{hint(str(name), accepted)}", key=key, accepted=", ".join(accepted))


def hint(name: str, known: Sequence[str]) -> str:
    """Return what a message about an unknown ``name`` ends with: what it is called now, or the nearest."""
    return f"; it is now {RENAMED[name]}" if name in RENAMED else nearest(name, known)


def called(name: str) -> str:
    """Return the name for ``name``, which a call gives; one of an earlier release works until version 1.

    Raises:
        InputError: It is none of either.
    """
    if name not in tuple(RENAMED):  # whatever it is
        return checked(name)
    warnings.warn(f"fidelity {name!r} is now {RENAMED[name]}", DeprecationWarning, stacklevel=3)
    return name if name == RENDEZVOUS else EXACT
