"""The interfaces of a workload and of one that is read from traces, and what they say of themselves."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from attrs import Attribute, Factory, field, frozen
from attrs.converters import optional

from fredfw.errors import InputError, UnknownNameError, nearest
from fredfw.fabric import MemoryTier
from fredfw.units import at_least, counted, whole
from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.mesh import DeviceMesh


@frozen
class System:
    """What a workload may know of the machine it runs on.

    Args:
        memories: The memory tiers of the fabric, the nearest first.
        bandwidth: Bytes per second that an NPU can send to others, mean over all; ``None`` where there is no fabric.
        fabric: The fabric's name, for messages.
    """

    npus: int
    controllers: int = 0
    memories: tuple[MemoryTier, ...] = ()
    bandwidth: float | None = None
    fabric: str | None = None

    def memory(self, name: str, *, key: str) -> MemoryTier:
        """Return the memory tier ``name``; raises ``UnknownNameError`` with the ``key`` of the field that names it."""
        known = {one.name: one for one in self.memories}
        if name not in known:
            which = "the fabric" if self.fabric is None else f"the fabric {self.fabric!r}"
            message = f"{which} has no memory tier {name!r}{nearest(name, known)}"
            raise UnknownNameError(message, key=key, accepted=", ".join(known) or "a fabric with memories")
        return known[name]


@frozen
class MemoryUse:
    """Bytes that one NPU needs at its fullest, by what they hold.

    Args:
        activations: Activations kept for the backward pass.
        in_flight: Microbatches whose activations those are; a part of one where chunks of layers take turns.
        must_fit: Whether the execution mode needs all of it in the NPU's memory at once.
        tiers: What is kept in memory tiers anyway, by their names: mean bytes of a worker, not part of ``total``.
        cache: Keys and values kept for later tokens.
    """

    weights: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    activations: float = 0.0
    must_fit: bool = True
    in_flight: float = 1.0
    tiers: Mapping[str, float] = field(factory=dict, hash=False)
    cache: float = 0.0

    @property
    def parts(self) -> dict[str, float]:
        """What is held, in bytes."""
        return {part: getattr(self, part) for part in ("weights", "gradients", "optimizer", "activations", "cache")}

    @property
    def total(self) -> float:
        """Sum in bytes."""
        return sum(self.parts.values())


@frozen
class Work:
    """What one iteration trains, all workers together; ``InputError`` where a number is not possible.

    Args:
        tokens: Tokens in the samples; ``None`` where a sample has no tokens.
        model_flops: FLOPs of the model's forward and backward pass over them by its published formula, without
            recomputation, or ``None``: the numerator of the MFU (Chowdhery et al. 2022, arXiv 2204.02311, section 4.1).
        replicas: Replicas of the model (DP) that share the samples; ``None`` where it is not known.
        microbatches: Microbatches of a replica; ``None`` where there are none.
    """

    samples: float = field(converter=float, validator=at_least(0))
    tokens: float | None = field(default=None, converter=optional(float), validator=at_least(0))
    model_flops: float | None = field(default=None, converter=optional(float), validator=at_least(0))
    replicas: int | None = field(default=None, validator=whole(1))
    microbatches: int | None = field(default=None, validator=whole(1))

    @property
    def tokens_per_sample(self) -> float | None:
        """Length of a sample; ``None`` where there are no samples or no tokens."""
        return self.tokens / self.samples if self.tokens is not None and self.samples else None


def _is_colour(_instance: object, attribute: Attribute[str | None], value: object) -> None:
    if value is not None and not (isinstance(value, str) and re.fullmatch(r"#[0-9A-Fa-f]{6}", value)):
        raise InputError(f"{value!r} is not a colour", key=attribute.name, accepted="red, green and blue, '#D55E00'")


@frozen
class Label:
    """What a workload says of one of the labels that time and bytes are charged to.

    Args:
        priority: Class for sharing policies, 0 the highest, ``None`` after all others. An experiment may give others.
        colour: In pictures, as ``#RRGGBB`` (else an ``InputError``); by default one that is free.
    """

    priority: int | None = field(default=None, validator=whole(0))
    colour: str | None = field(default=None, validator=_is_colour)


def samples_per_replica(global_batch: int | None, replicas: int, minibatch: int | None = None, default: int = 1) -> int:
    """Return the samples of each of ``replicas``: its part of ``global_batch``, or ``minibatch``.

    Without both it is ``default``; ``InputError`` where both are given, or samples are not divided evenly.
    """
    if global_batch is None:
        return default if minibatch is None else minibatch
    if minibatch is not None:
        message = f"{minibatch} is given, and global_batch = {global_batch} too"
        raise InputError(message, key="minibatch", accepted="one of the two keys")
    share, rest = divmod(global_batch, replicas)
    if rest:
        message = f"{counted(global_batch, 'sample')} cannot be divided evenly among {counted(replicas, 'replica')}"
        raise InputError(message, key="global_batch", accepted=f"a multiple of {replicas}")
    return share


class Workload(ABC):
    """Describes one training iteration; plugins derive attrs classes from it, whose fields are the configuration."""

    name: ClassVar[str]

    @abstractmethod
    def mesh(self, system: System) -> DeviceMesh:
        """Return the ranks along the axes of the workload, such as ``DeviceMesh({"tp": 8, "dp": 4})``."""

    @abstractmethod
    def graph(self, system: System) -> TaskGraph:
        """Return one iteration; ``InputError`` where the system does not do, for example has too few NPUs."""

    def labels(self, system: System) -> Mapping[str, Label]:
        """Return what there is to say of labels of the graph, in the order of reports; others follow, by name."""
        return {}

    def memory(self, system: System) -> MemoryUse:
        """Return the memory that the fullest NPU needs; nothing by default."""
        return MemoryUse()

    def work(self, system: System) -> Work | None:
        """Return what one iteration trains; ``None``, the default, where it is not known or nothing is trained."""
        return None

    def notes(self, system: System) -> tuple[str, ...]:
        """Return what a reader of every result must know; nothing by default."""
        return ()

    def omissions(self, system: System) -> tuple[str, ...]:
        """Return what the graph leaves out, such as traffic: a note of results, of which none is marked as the best."""
        return ()


@frozen
class TraceCalls:
    """The calls of one operation on one communicator in one file.

    Args:
        operation: A pattern such as ``all-reduce``, or ``send``, ``receive``, or the format's own name for another one.
        communicator: Its name in the file; ``all`` for all ranks, empty for a message.
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
        communicators: Ranks by name of the communicator, as far as the file or one beside it has them.
        dangling: How many of the ``dependencies`` between nodes are on one that the file does not have.
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

    ``fredfw trace`` finds it by ``recognises``, and fills its field ``traces`` (``units.files``); others have defaults.
    """

    @classmethod
    @abstractmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """Return whether file ``name`` (no folders) may be one, by its ``head`` of 64 KiB, expanded if it is gzip."""

    @abstractmethod
    def info(self) -> tuple[TraceInfo, ...]:
        """Return what each of ``traces`` holds, in order; ranks may be missing. ``InputError``: it cannot be read."""
