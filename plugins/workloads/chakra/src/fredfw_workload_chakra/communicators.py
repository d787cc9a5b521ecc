"""Which ranks a collective has: communicators by name, or dimensions of the network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from attrs import define, field

from fredfw import File
from fredfw.errors import InputError
from fredfw.tables import as_table, parse_json
from fredfw.typing import IntArray
from fredfw_workload_chakra.trace import Trace

ALL = "all"
Groups: TypeAlias = Mapping[str, tuple[int, ...]]
_DEFAULT = ("", "0")
_WHOLE = re.compile(r"^\d+")
_GROUPS = '{"1": [0, 1], "2": [2, 3]}: ranks by the name of the communicator'


@define
class Communicators:
    """Communicators, numbered as nodes need them."""

    ranks: int
    listed: Groups  # ranks by name, of the file of communicators
    dimensions: tuple[int, ...]  # sizes of the network's dimensions, or none
    _known: dict[tuple[object, ...], int] = field(factory=dict, init=False)
    members: list[IntArray] = field(factory=list, init=False)

    def number(self, name: str, rank: int, used: tuple[bool, ...] | None, own: Groups) -> int:
        """Return the number of the communicator that a node of ``rank`` names, empty for none.

        ``used`` are the dimensions of the network that the collective uses, ``None`` for all; ``own`` the ranks by name
        that the rank's own trace lists. Raises ``InputError``.
        """
        # ASTRA-sim reads the whole number that a name begins with, such as that of "3.0".
        for one in dict.fromkeys([name, *_WHOLE.findall(name)]):
            if one in self.listed:
                return self._add((one,), np.array(self.listed[one]), rank)
        if name not in _DEFAULT:
            if name not in own:
                known = ", ".join([*self.listed, *own]) or "none"
                message = f"names the communicator {name!r}, which is not there"
                raise InputError(message, accepted=f"comm_groups with it; there are {known}")
            return self._add((name,), np.array(own[name] or range(self.ranks)), rank)
        if used is None or all(used[: len(self.dimensions) or len(used)]):
            return self._add((ALL,), np.arange(self.ranks), rank)
        return self._along(used, rank)

    def _along(self, used: tuple[bool, ...], rank: int) -> int:
        """Return the communicator of those that differ from ``rank`` in dimensions that are ``used`` alone."""
        if not self.dimensions:
            message = f"runs over some dimensions of the network, {list(used)}, which the trace does not give"
            raise InputError(message, accepted="dimensions = [4, 2], or comm_groups")
        if np.prod(self.dimensions) != self.ranks:
            message = f"{list(self.dimensions)} are not the dimensions of {self.ranks} ranks"
            raise InputError(message, key="dimensions", accepted=f"sizes whose product is {self.ranks}")
        chosen = [place < len(used) and used[place] for place in range(len(self.dimensions))]
        grid = np.stack(np.unravel_index(np.arange(self.ranks), self.dimensions, order="F"), axis=1)
        fixed = [place for place, one in enumerate(chosen) if not one]
        members = np.flatnonzero((grid[:, fixed] == grid[rank, fixed]).all(axis=1))
        return self._add((tuple(chosen), int(members[0])), members, rank)

    def _add(self, key: tuple[object, ...], members: IntArray, rank: int) -> int:
        number = self._known.setdefault(key, len(self.members))
        if number == len(self.members):
            self.members.append(members)
        members = self.members[number]
        if rank not in members:
            raise InputError(f"is of rank {rank}, which is not in its communicator {key[0]!r}", accepted="a member")
        if members.max() >= self.ranks:
            message = f"names the communicator {key[0]!r}, which has rank {members.max()}"
            raise InputError(message, accepted=f"a trace for each of its ranks; there are {self.ranks}")
        return number


def listed(file: File | None) -> Groups:
    """Return the communicators in a file ``{"1": [0, 1], ...}``; none where there is no file; raises ``InputError``."""
    if file is None:
        return {}
    with file.named():
        content = as_table(parse_json(file.text(), accepted=_GROUPS), "", accepted=_GROUPS)
        return {name: _group(ranks, name) for name, ranks in content.items()}


def _group(ranks: Any, name: str) -> tuple[int, ...]:
    whole = isinstance(ranks, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in ranks)
    if not whole or not ranks or len(set(ranks)) < len(ranks) or min(ranks) < 0:
        raise InputError(f"{ranks!r} is not a group", key=name, accepted="different ranks")
    return tuple(ranks)


def within(trace: Trace) -> Groups:
    """Return the communicators that ``METADATA`` nodes list as PyTorch does; all ranks where a list is empty."""
    found: dict[str, tuple[int, ...]] = {}
    for text in trace.inputs:
        try:
            found_groups = json.loads(_unquoted(text))
        except (ValueError, RecursionError):
            continue  # a node may say other things
        for one in found_groups if isinstance(found_groups, list) else []:
            if isinstance(one, dict) and "pg_name" in one and isinstance(one.get("ranks"), list):
                ranks = one["ranks"]
                if all(isinstance(rank, int) for rank in ranks):
                    found[str(one["pg_name"])] = tuple(ranks)
    return found


def _unquoted(text: str) -> str:
    """Return what is inside of ``['...']`` or ``["..."]``."""
    inner = text.strip()
    quoted = inner[:2] in ("['", '["') and inner[-2:] in ("']", '"]')
    return (inner[2:-2] if quoted else inner).replace('\\"', '"')
