"""The interface of a workload."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from attrs import frozen

from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.parallelism import Parallelism


@frozen
class System:
    """What a workload may know of the machine it runs on.

    Args:
        npus: Number of NPUs.
        controllers: Number of I/O controllers.
    """

    npus: int
    controllers: int = 0


@frozen
class MemoryUse:
    """Bytes that one NPU needs at its fullest, by what they hold.

    Args:
        weights: Parameters.
        gradients: Their gradients.
        optimizer: Optimizer state.
        activations: Activations kept for the backward pass.
        must_fit: Whether the execution mode needs all of it in the NPU's memory at once.
    """

    weights: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    activations: float = 0.0
    must_fit: bool = True

    @property
    def total(self) -> float:
        """Sum in bytes."""
        return self.weights + self.gradients + self.optimizer + self.activations


class Workload(ABC):
    """Describes one training iteration; plugins derive attrs classes from it, whose fields are the configuration."""

    name: ClassVar[str]

    @abstractmethod
    def parallelism(self, system: System) -> Parallelism:
        """Return how many workers there are and how they are grouped."""

    @abstractmethod
    def graph(self, system: System) -> TaskGraph:
        """Return one iteration.

        Raises:
            InputError: The workload does not fit the system, for example for want of I/O controllers.
        """

    def memory(self, system: System) -> MemoryUse:
        """Return the memory that the fullest NPU needs; nothing by default."""
        del system
        return MemoryUse()
