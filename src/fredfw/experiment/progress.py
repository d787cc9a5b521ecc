"""How a long computation tells what it does: a progress for a bar, a log for a story. Both are given by the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Progress = Callable[[float, int, str], None]
"""Called with how much is done, how much there is in all, and what runs; a share of a cell counts as a fraction."""
Log = Callable[..., object]
"""Takes an event and its values, as a logger of structlog does; for example ``structlog.get_logger().info``."""


def silent(event: str, /, **values: Any) -> None:
    """Take no note: the log where none is given."""
