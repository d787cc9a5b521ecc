"""The topology ``astra-sim-network``, and the command that makes an experiment of ASTRA-sim's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fredfw import Topology, hookimpl
from fredfw_topology_astra_sim_network.topology import AstraSimNetwork

if TYPE_CHECKING:
    import click

__all__ = ["AstraSimNetwork"]

fredfw_contract = 2


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``astra-sim-network``."""
    return [AstraSimNetwork]


@hookimpl
def fredfw_commands() -> Sequence[click.Command]:
    """Register ``fredfw import``."""
    from fredfw_topology_astra_sim_network.commands import import_group

    return [import_group]
