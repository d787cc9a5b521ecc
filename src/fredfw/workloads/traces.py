"""The interface of a workload that is read from execution traces, and what such files say of themselves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from attrs import Factory, frozen

from fredfw.workloads.workload import Workload


@frozen
class TraceCalls:
    """The calls of one operation on one communicator in one file.

    Args:
        operation: A pattern such as ``all-reduce``, or ``send``, ``receive``, or the format's own name for another one.
        communicator: Its name in the file; ``all`` for all ranks, empty for a message.
        count: Number of calls.
        bytes: Sum of their sizes, as the format counts them.
        least: The smallest size in bytes.
        most: The largest size in bytes.
        seconds: Sum of the durations that the file has for them.
    """

    operation: str
    communicator: str
    count: int
    bytes: float
    least: float
    most: float
    seconds: float = 0.0


@frozen
class TraceInfo:
    """What one file of a trace holds.

    Args:
        path: The file, as it was named.
        rank: Whose trace it is; ``None`` where neither its name nor its content says.
        nodes: Number of nodes by type, as the format calls the types.
        seconds: Sum of the durations of those, by type.
        calls: What is communicated.
        communicators: Ranks by name of the communicator, as far as the file or one beside it has them.
        dependencies: Number of dependencies between nodes.
        dangling: How many of these are on a node that the file does not have.
        flops: Floating-point operations of all computations.
        bytes: Bytes of local memory that they move.
        facts: What else the format says of the file, by name, such as a version.
        notes: What a reader must know, such as what is missing.
    """

    path: str
    rank: int | None
    nodes: Mapping[str, int]
    seconds: Mapping[str, float] = Factory(dict)
    calls: tuple[TraceCalls, ...] = ()
    communicators: Mapping[str, tuple[int, ...]] = Factory(dict)
    dependencies: int = 0
    dangling: int = 0
    flops: float = 0.0
    bytes: float = 0.0
    facts: Mapping[str, str | int | float] = Factory(dict)
    notes: tuple[str, ...] = ()


class TraceWorkload(Workload):
    """A workload that is read from execution traces, one file per rank.

    ``fredfw trace`` finds it by ``recognises``. The class has a field ``traces`` (``units.files``), which the command
    fills with the files that it is given; all other fields have defaults.
    """

    @classmethod
    @abstractmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """Return whether a file may be of this format.

        Args:
            name: Its name without folders.
            head: The first 64 KiB or less, expanded where the file is compressed by gzip.
        """

    @abstractmethod
    def info(self) -> tuple[TraceInfo, ...]:
        """Return what the files of ``traces`` hold, in their order; ranks may be missing.

        Raises:
            InputError: A file cannot be read; names it, the place, and what is accepted.
        """
