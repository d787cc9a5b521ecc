"""Paths that somebody wrote: any text may stand where one is expected."""

from __future__ import annotations

import os
from pathlib import Path

from fredfw.errors import InputError


def resolved(path: str | Path, accepted: str, refusal: str = "cannot be a path") -> Path:
    """Return the absolute path that ``path`` leads to, symbolic links followed; it need not exist.

    Raises:
        InputError: No file can have that path: a null byte is in it, it is too long, or it is relative and the working
            directory is deleted.
    """
    try:
        found = os.path.realpath(path)
        os.lstat(found)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        if error.filename is None:  # of os.getcwd()
            raise InputError("the working directory is deleted", file=str(path), accepted=accepted) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{refusal}: {reason}", file=str(path), accepted=accepted) from None
    return Path(found)
