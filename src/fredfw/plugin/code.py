"""What the code of a plugin is, whatever its version says: one that is edited in place keeps its version."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fredfw.plugin.origin import file_of

_COMPILED = "__pycache__"


@cache
def code_digest(package: str) -> str | None:
    """Return the SHA-256 of all files of a top-level package, or of the file of a module that is none.

    It need not be imported. It is read once in a process. ``None``: there is no file, as of what was typed in.
    """
    file = file_of(package)
    if file is None:
        return None
    path = Path(file)
    if path.name != "__init__.py":
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    folder = path.parent
    found = hashlib.sha256()
    for one in sorted(folder.rglob("*")):
        if one.is_file() and _COMPILED not in one.parts:
            found.update(f"{one.relative_to(folder).as_posix()}\0".encode())
            found.update(hashlib.sha256(one.read_bytes()).digest())
    return found.hexdigest()
