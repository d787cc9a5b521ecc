"""The statistics that a twin is made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from attrs import frozen

from fredfw.collectives.pattern import Pattern
from fredfw.typing import FloatArray
from fredfw.workloads.kinds import TaskKind

CONTEXT = 8
"""What comes next, and what it depends on, depends on so many events before."""
NOTHING = -1
"""Stands for the class of an event before the first one."""
Dependencies: TypeAlias = tuple[tuple[int, int], ...]


@frozen(eq=False)
class Part:
    """What the ranks of one role have to do with an event."""

    role: int  # their role
    kind: TaskKind  # what they do
    pattern: Pattern | None  # of a collective
    groups: tuple[int, ...]  # number of the group of each rank of the role; empty but for collectives
    root: int  # position of the root in the group
    peers: tuple[int, ...]  # the other rank of a send or receive of each rank of the role; empty for others
    # for each event the classes of the ``CONTEXT`` events of the role right before, ``NOTHING`` before the first
    # one, and what it depends on: classes of events, and how many such ones of the role lie between
    dependencies: Sequence[tuple[tuple[int, ...], Dependencies]]


@frozen(eq=False)
class EventClass:
    """Events that are alike: same kind, roles and groups, and values within a factor of two."""

    parts: tuple[Part, ...]  # one for each role that takes part
    label: int  # number of its label
    quantiles: FloatArray  # ``(Q, 3)`` seconds, FLOPs and bytes at evenly spaced quantiles
    means: FloatArray  # ``(3,)`` of the same
    spread: float  # standard deviation of the logarithm of a computation's time among the ranks of a role


@frozen(eq=False)
class Statistics:
    """What is kept of an iteration."""

    ranks: int  # number of its ranks
    roles: tuple[int, ...]  # role of each rank; the ranks of a role do alike things at the same time
    groups: tuple[tuple[int, ...], ...]  # ranks of each group, in its order
    classes: tuple[EventClass, ...]  # classes of events
    sequence: tuple[int, ...]  # class of each event in turn; only how often what follows what is used of it
    labels: int  # number of labels
