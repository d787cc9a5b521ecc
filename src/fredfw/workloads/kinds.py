"""What a task of an iteration does, and what a graph keeps of it."""

import math
from collections.abc import Mapping
from enum import IntEnum


class TaskKind(IntEnum):
    """What a task does."""

    COMPUTE = 0
    """Each rank computes on its own; one compute task at a time per rank."""
    COLLECTIVE = 1
    """Each group communicates; it waits for all its members."""
    TRANSFER = 2
    """Each group's first member sends to the others (point-to-point or broadcast); it waits for the sender alone."""
    LOAD = 3
    """Each group receives streams from an I/O controller or memories; it waits for all its members (their buffers)."""
    STORE = 4
    """Each group's contributions are reduced on the way to an I/O controller or memories; it waits for its members."""
    SEND = 5
    """One rank sends a message to another, which has a task of its own that receives it."""
    RECEIVE = 6
    """One rank waits for a message; it ends when the message is there and what the task comes after is over."""
    WAIT = 7
    """All ranks wait for each other, and then for a time; they compute nothing, and may compute something else."""


ROW: Mapping[str, float] = {
    "flops": 0.0,
    "bytes": 0.0,
    "seconds": math.nan,
    "roots": 0,
    "blocks": -1,
    "repeats": 1,
    "jobs": 0,
    **dict.fromkeys(("controllers", "kernels", "partners", "splits", "memories"), -1),
}
"""The columns of numbers that a task has beside ``kinds``, ``labels`` and ``members``, and what is mostly there."""
TABLES = {  # the columns that are an index, by what they are an index into; `labels` and `memories` are of names
    "tables": "members",
    "controller_tables": "controllers",
    "kernel_tables": "kernels",
    "split_tables": "splits",
}
