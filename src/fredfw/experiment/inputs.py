"""Files that are read, up to a limit: what is longer is refused before it fills the memory."""

from __future__ import annotations

from gzip import GzipFile
from pathlib import Path
from typing import IO

from fredfw import limits
from fredfw.errors import InputError

_PIECE = 1 << 20


def read_bounded(path: str | Path) -> bytes:
    """Return what the file at ``path`` holds.

    Raises:
        InputError: It is longer than the limit ``bytes``, or ``path`` cannot be a path.
        OSError: It cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return bounded(file, str(path))
    except InputError:
        raise
    except ValueError:  # a null byte in the path, or half a surrogate pair
        raise InputError("is not a path", file=str(path), accepted="the path of a file") from None


def bounded(stream: IO[bytes] | GzipFile, path: str) -> bytes:
    """Return what is left in the binary file ``stream``, which ``path`` names; raises as ``read_bounded`` does."""
    pieces: list[bytes] = []
    size = 0
    while piece := stream.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        try:
            limits.check("bytes", size)
        except InputError as error:
            raise error.at(file=path) from None
    return b"".join(pieces)
