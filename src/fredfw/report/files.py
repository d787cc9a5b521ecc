"""Output files that are complete or not there: checked before anything runs, written aside and renamed."""

import gzip
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from fredfw.errors import InputError
from fredfw.files import GZIP, resolved

# The process that writes is in the name, so that a later one can tell what a killed process has left behind.
_ASIDE = re.compile(r"\.fredfw-(\d+)-[0-9a-f]{16}\.tmp")
_STALE = 3600.0  # seconds; the process may be alive on another machine that shares the directory
_Path = TypeVar("_Path", str, Path, str | Path)
_ACCEPTED = "a file that can be written, in a directory that exists"
_NEW = "a new directory, or an empty one"


def ensure_writable(path: str | Path) -> None:
    """Raise ``InputError`` if ``written_together`` could not write ``path``; leave nothing behind."""
    if resolved(path, _ACCEPTED, "cannot be written").is_dir():
        raise InputError("is a directory", file=str(path), accepted=_ACCEPTED)
    target = _resolve(path)
    with _told(path):
        if target.exists() and not os.access(target, os.W_OK):
            raise InputError("is read-only", file=str(path), accepted=_ACCEPTED)
        if not _is_special(target):
            _probe(target)


def ensure_new_directory(path: str | Path) -> None:
    """Raise ``InputError`` if ``written_together`` could not fill ``path``, such as a folder with something in it."""
    target = resolved(path, _NEW, "cannot be written")
    with _told(path, "made", _NEW):
        if not target.exists():
            target.mkdir()
            target.rmdir()
        elif not target.is_dir() or any(target.iterdir()):
            raise InputError("exists, and is not an empty directory", file=str(path), accepted=_NEW)
        else:
            _probe(target / "file")


def _probe(target: Path) -> None:
    """Make a file beside ``target``: permission bits say nothing about read-only mounts, quotas or root."""
    probe = _aside(target)
    probe.touch(exist_ok=False)
    probe.unlink()


def compressed(path: str | Path, content: str | bytes) -> str | bytes:
    """Return ``content`` by gzip where ``path`` ends in ``.gz``; equal contents give equal bytes."""
    if not str(path).endswith(".gz"):
        return content
    data = content.encode() if isinstance(content, str) else content
    return data if data.startswith(GZIP) else gzip.compress(data, mtime=0)  # an exporter may have done so already


@contextmanager
def written_together(contents: Mapping[_Path, str | bytes], folders: Iterable[str | Path] = ()) -> Iterator[None]:
    """Write all of ``contents`` (text as UTF-8, by path), or nothing: aside at first, and renamed after the block.

    Where the block or a rename fails, every path has its old content again. A symbolic link is followed; a device or a
    pipe, which a rename cannot replace, is written before the block. What killed processes have left is removed.
    Missing ``folders`` are made.
    """
    data = {path: one.encode() if isinstance(one, str) else one for path, one in contents.items()}
    targets = {path: _resolve(path) for path in data}
    plain = [path for path in data if not _is_special(targets[path])]
    for folder in {targets[path].parent for path in plain}:
        _remove_stale(folder)
    with ExitStack() as leftovers:
        for folder in map(Path, folders):
            if not folder.exists():
                with _told(folder):
                    folder.mkdir()
                leftovers.callback(_remove_empty, folder)
        asides = {path: _aside(targets[path]) for path in plain}
        for path, aside in asides.items():
            with _told(path):
                with aside.open("xb") as file:
                    leftovers.callback(aside.unlink, missing_ok=True)
                    file.write(data[path])
                if targets[path].exists():
                    aside.chmod(targets[path].stat().st_mode & 0o7777)
        for path in data:
            if path not in asides:
                with _told(path):
                    targets[path].write_bytes(data[path])
        yield
        backups: list[Path] = []
        with ExitStack() as undo:
            for path, aside in asides.items():
                with _told(path):
                    _replace(aside, targets[path], undo, backups)
            undo.pop_all()
        for backup in backups:
            backup.unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def _replace(aside: Path, target: Path, undo: ExitStack, backups: list[Path]) -> None:
    if not target.exists():
        aside.replace(target)
        undo.callback(target.unlink)
        return
    backup = _aside(target)
    try:
        try:
            backup.hardlink_to(target)  # so that target is there at every moment, even if this process is killed
        except OSError:  # a file system without links
            shutil.copy2(target, backup)
        aside.replace(target)
    except OSError:
        backup.unlink(missing_ok=True)
        raise
    undo.callback(backup.replace, target)
    backups.append(backup)


@contextmanager
def _told(path: str | Path, done: str = "written", accepted: str = _ACCEPTED) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be {done}: {error.strerror}", file=str(path), accepted=accepted) from None


def _remove_stale(folder: Path) -> None:
    """Remove what processes that are dead have left in ``folder``; what cannot be removed stays."""
    with suppress(OSError):
        for found in filter(None, map(_ASIDE.fullmatch, os.listdir(folder))):
            with suppress(OSError):
                path = folder / found[0]
                if time.time() - path.stat().st_mtime > _STALE and not _is_alive(int(found[1])):
                    path.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:  # somebody else's
        return True
    except (OSError, OverflowError):
        return False
    return True


def _resolve(path: str | Path) -> Path:
    if os.path.basename(path) in ("", ".", ".."):  # it must not become the file of that name
        raise InputError("names a directory", file=str(path), accepted=_ACCEPTED)
    return Path(os.path.realpath(path))


def _is_special(target: Path) -> bool:
    return target.exists() and not target.is_file()


def _aside(target: Path) -> Path:
    return target.with_name(f".fredfw-{os.getpid()}-{secrets.token_hex(8)}.tmp")
