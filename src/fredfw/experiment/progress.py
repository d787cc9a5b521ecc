"""How a long computation tells what it does: a progress for a bar, a log for a story. Both are given by the caller."""

from collections.abc import Callable
from typing import Any

Progress = Callable[[float, int, str], None]  # called with how much is done, with fractions, of how much, and what runs
Log = Callable[..., object]  # takes an event and its values, as ``structlog.get_logger().info`` does


def silent(event: str, /, **values: Any) -> None:
    """Take no note: the log where none is given."""
