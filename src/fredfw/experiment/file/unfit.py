"""Stands in an experiment for one of many values of a sweep that is impossible: its cells say why."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from attrs import frozen

from fredfw.errors import InputError
from fredfw.experiment.file.spec import FabricSpec, WorkloadSpec
from fredfw.fabric import Topology
from fredfw.workloads import System, Workload


def error_of(workload: WorkloadSpec, fabric: FabricSpec) -> InputError | None:
    """Return why one of the two is impossible, if it is."""
    for one in (fabric.topology, workload.workload):
        if isinstance(one, UnfitTopology | UnfitWorkload):
            return one.error
    return None


@frozen(eq=False)
class UnfitTopology(Topology):
    """A topology that cannot be configured.

    Args:
        error: Why.
    """

    name: ClassVar[str] = "unfit"

    error: InputError

    def build(self) -> NoReturn:
        """Raise the error."""
        raise self.error


@frozen(eq=False)
class UnfitWorkload(Workload):
    """A workload that cannot be configured.

    Args:
        error: Why.
    """

    name: ClassVar[str] = "unfit"

    error: InputError

    def mesh(self, system: System) -> NoReturn:
        """Raise the error."""
        del system
        raise self.error

    def graph(self, system: System) -> NoReturn:
        """Raise the error."""
        del system
        raise self.error
