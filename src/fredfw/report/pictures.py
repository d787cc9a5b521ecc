"""What every picture has in common: it needs matplotlib, and equal results give equal files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fredfw.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")


@contextmanager
def importing(option: str) -> Iterator[None]:
    """Turn a missing matplotlib into an ``InputError`` that says how to get it, with ``option`` as its key."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"a picture needs matplotlib ({error})", key=option, accepted="pip install 'fredfw[plot]'"
        ) from error


def drawn(figure: Figure, file_format: str) -> bytes:
    """Return ``figure`` in ``file_format``, one of ``FORMATS``."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    # Without dates, versions and random ids the same results give the same file.
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
    with rc_context({"svg.hashsalt": "fredfw"}):
        figure.savefig(buffer, format=file_format, dpi=160, metadata=metadata)
    return buffer.getvalue()
