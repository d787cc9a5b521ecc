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
    """What the ranks of one role have to do with an event.

    Args:
        role: Their role.
        kind: What they do.
        pattern: Of a collective.
        groups: Number of the group of each rank of the role; empty but for collectives.
        root: Position of the root in the group.
        peers: The other rank of a send or receive of each rank of the role; empty for others.
        dependencies: For each event the classes of the ``CONTEXT`` events of the role right before, ``NOTHING`` before
            the first one, and what it depends on: classes of events, and how many such ones of the role lie between.
    """

    role: int
    kind: TaskKind
    pattern: Pattern | None
    groups: tuple[int, ...]
    root: int
    peers: tuple[int, ...]
    dependencies: Sequence[tuple[tuple[int, ...], Dependencies]]


@frozen(eq=False)
class EventClass:
    """Events that are alike: same kind, roles and groups, and values within a factor of two.

    Args:
        parts: One for each role that takes part.
        label: Number of its label.
        quantiles: ``(Q, 3)`` seconds, FLOPs and bytes at evenly spaced quantiles.
        means: ``(3,)`` of the same.
        spread: Standard deviation of the logarithm of a computation's time among the ranks of a role.
    """

    parts: tuple[Part, ...]
    label: int
    quantiles: FloatArray
    means: FloatArray
    spread: float


@frozen(eq=False)
class Statistics:
    """What is kept of an iteration.

    Args:
        ranks: Number of its ranks.
        roles: Role of each rank; the ranks of a role do alike things at the same time.
        groups: Ranks of each group, in its order.
        classes: Classes of events.
        sequence: Class of each event in turn; only how often what follows what is used of it.
        labels: Number of labels.
    """

    ranks: int
    roles: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    classes: tuple[EventClass, ...]
    sequence: tuple[int, ...]
    labels: int
