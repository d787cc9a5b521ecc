"""How closely collectives are simulated, by name."""

import warnings
from collections.abc import Sequence

from fredfw.errors import InputError, nearest

EXACT, COMPRESSED, ESTIMATE = "exact", "compressed", "estimate"
MEANINGS = {  # the least exact first
    ESTIMATE: "no simulation: the longest path through the tasks, no communication hinders another",
    COMPRESSED: "a phase of a group is one unit, and its repetitions are one volume",
    EXACT: "each rank waits for what it sends and receives itself",
}
SIMULATED = EXACT, COMPRESSED  # those that simulate an iteration, with a timeline
FIDELITIES = *SIMULATED, ESTIMATE
RENDEZVOUS = "per-rank-rendezvous"  # in calls until version 1: ``exact`` with a transport that has ``rendezvous``
STEPWISE = "stepwise"  # likewise: ``exact`` with phases kept whole, which admissions and policies may need
RENAMED = {  # what names of earlier releases are called
    "per-rank": f"{EXACT!r}",
    RENDEZVOUS: f"{EXACT!r}, and a transport with rendezvous = true",
    STEPWISE: f"{EXACT!r}; phases stay whole where the fabric's admission says so",
}


def checked(name: object, key: str = "fidelity", accepted: Sequence[str] = FIDELITIES) -> str:
    if name in accepted:
        return str(name)
    raise InputError(f"{name!r} is not known{hint(str(name), accepted)}", key=key, accepted=", ".join(accepted))


def hint(name: str, known: Sequence[str]) -> str:
    """Return what a message about an unknown ``name`` ends with: what it is called now, or the nearest."""
    return f"; it is now {RENAMED[name]}" if name in RENAMED else nearest(name, known)


def called(name: str | None, accepted: Sequence[str] = SIMULATED) -> str | None:
    """Return the name for ``name``, which a call gives; one of an earlier release works until version 1."""
    if name is None or name not in tuple(RENAMED):  # whatever it is
        return None if name is None else checked(name, accepted=accepted)
    warnings.warn(f"fidelity {name!r} is now {RENAMED[name]}", DeprecationWarning, stacklevel=3)
    return EXACT if name == "per-rank" else name
