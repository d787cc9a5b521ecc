"""The command ``fredfw libra``: the bandwidth of each dimension for the least time, or the least time x cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fredfw import hookimpl

if TYPE_CHECKING:
    import click

fredfw_contract = 2


@hookimpl
def fredfw_commands() -> Sequence[click.Command]:
    """Register ``libra``."""
    from fredfw_command_libra.commands import libra

    return [libra]
