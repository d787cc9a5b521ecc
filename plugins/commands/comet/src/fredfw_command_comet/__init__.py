"""The command ``fredfw comet``: splits of a model on clusters, with and without expanded memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fredfw import hookimpl

if TYPE_CHECKING:
    import click

fredfw_contract = 2


@hookimpl
def fredfw_commands() -> Sequence[click.Command]:
    """Register ``comet``."""
    from fredfw_command_comet.commands import comet

    return [comet]
