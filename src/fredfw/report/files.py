"""Output files that are complete or not there: checked before anything runs, written aside and renamed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from fredfw.errors import InputError


def ensure_writable(path: str | Path) -> None:
    """Make sure that ``write_atomically`` will be able to write ``path``; leaves nothing behind.

    Raises:
        InputError: It is a directory or a read-only file, or no file can be made beside it.
    """
    target = _resolve(path)
    accepted = "a file that can be written, in a directory that exists"
    try:
        if target.is_dir():
            raise InputError("is a directory", file=str(path), accepted=accepted)
        if target.exists() and not os.access(target, os.W_OK):
            raise InputError("is read-only", file=str(path), accepted=accepted)
        if _is_special(target):
            return
        # Only making a file tells the truth: permission bits say nothing about read-only mounts, quotas or root.
        probe = _aside(target)
        os.close(_create(probe))
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path), accepted=accepted) from None


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write ``content`` (text as UTF-8) to ``path``, which holds either its old content or all of the new.

    A symbolic link is followed; a device or a pipe is written directly, because it cannot be replaced by a rename.

    Raises:
        InputError: The file cannot be written.
    """
    target = _resolve(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        if _is_special(target):
            target.write_bytes(data)
            return
        aside = _aside(target)
        try:
            with os.fdopen(_create(aside), "wb") as file:
                file.write(data)
            if target.exists():
                aside.chmod(target.stat().st_mode & 0o7777)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None


def _resolve(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _is_special(target: Path) -> bool:
    return target.exists() and not target.is_file()


def _aside(target: Path) -> Path:
    return target.with_name(f".fredfw-{secrets.token_hex(8)}.tmp")


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
