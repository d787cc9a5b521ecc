"""The transport ``nccl``: NCCL's algorithms and protocols, by published constants and by a fit to measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fredfw import Transport, hookimpl
from fredfw_transport_nccl.transport import Nccl

if TYPE_CHECKING:
    import click

__all__ = ["Nccl"]

fredfw_contract = 2


@hookimpl
def fredfw_transports() -> Sequence[type[Transport]]:
    """Register ``nccl``."""
    return [Nccl]


@hookimpl
def fredfw_commands() -> Sequence[click.Command]:
    """Register ``fredfw nccl``."""
    from fredfw_transport_nccl.commands import nccl

    return [nccl]
