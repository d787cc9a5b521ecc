"""Files that an input names: found relative to it, read up to a limit, and known by their digest.

They decide a result as fields do: digests are taken when a plugin is configured, and are in a result's provenance.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import zlib
from contextlib import AbstractContextManager
from functools import lru_cache
from gzip import GzipFile
from pathlib import Path
from typing import IO

from attrs import field, frozen

from fredfw import limits
from fredfw.errors import InputError, placed

FILE = "the path of a file, relative to the experiment file"  # what a field accepts that names a file
FILES = "a path with * for what differs, or a list of paths, relative to the experiment file"  # likewise of several
GZIP = b"\x1f\x8b"  # how a compressed file begins
_PIECE = 1 << 20
_NUMBER = re.compile(r"(\d+)")


@frozen
class File:
    """A file whose content has a part in a result."""

    path: str  #: As it was written.
    location: Path = field(eq=False, repr=False)
    digest: str = field(repr=False)  #: SHA-256 of its content when it was named, hexadecimal.

    @classmethod
    def at(cls, path: object, folder: Path | None = None) -> File:
        """Return the file at ``path``, relative to ``folder``, by default the working directory, if it can be read."""
        if isinstance(path, File):
            return path
        if not isinstance(path, str | Path) or not str(path):
            raise InputError(f"{path!r} is not a path", accepted=FILE)
        location = _located(path, folder, FILE)
        try:
            state = location.stat()
            return cls(str(path), location, _digest(location, state.st_size, state.st_mtime_ns, state.st_ino))
        except OSError as error:
            raise InputError(f"{str(path)!r} cannot be read: {error.strerror}", accepted=FILE) from None

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        """The last part of its path, of whichever system."""
        return self.path.replace("\\", "/").rsplit("/", 1)[-1]

    def named(self) -> AbstractContextManager[None]:
        """Name it in each ``InputError`` that is raised inside and names no file."""
        return placed(file=self.path)

    def read(self) -> bytes:
        """Return what it holds, uncompressed where it is compressed by gzip.

        Raises ``InputError`` where it cannot be read, has changed, is above the limit ``bytes``, or is damaged.
        """
        with self.named():
            try:
                data = read_bounded(self.location)
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", accepted=FILE) from None
            if hashlib.sha256(data).hexdigest() != self.digest:
                raise InputError("has changed while it was used", accepted="to begin again")
            return expanded(data, self.path)

    def text(self) -> str:
        """Return its text, which is UTF-8, with or without a mark at the beginning; raises as ``read`` does."""
        data = self.read()
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            message = f"is not UTF-8 text: byte {data[error.start]:#04x} at offset {error.start}"
            raise InputError(message, file=self.path, accepted="UTF-8 text") from None


@frozen
class Files:
    """Several files, such as one for each rank; in the order of their names, with numbers as numbers."""

    paths: tuple[str, ...]  #: As they were written: paths, or patterns with ``*``.
    files: tuple[File, ...]

    @classmethod
    def at(cls, paths: object, folder: Path | None = None) -> Files:
        """Return the files that a path or a pattern, or a list of those, names, relative to ``folder``.

        Raises ``InputError`` where one names none, or a file is named twice or cannot be read.
        """
        if isinstance(paths, Files):
            return paths
        listed = list(paths) if isinstance(paths, list | tuple) else [paths]
        if not listed or not all(isinstance(one, str | Path) and str(one) for one in listed):
            raise InputError(f"{paths!r} does not name files", accepted=FILES)
        found: dict[Path, File] = {}
        for path in map(str, listed):
            for file in _matches(path, folder):
                if file.location in found:
                    raise InputError(f"{file.path!r} is named twice", accepted="each file once")
                found[file.location] = file
        return cls(tuple(map(str, listed)), tuple(found.values()))

    @property
    def digest(self) -> str:
        """SHA-256 of the names and digests of the files, hexadecimal."""
        return hashlib.sha256("".join(f"{one.digest} {one.location.name}\n" for one in self.files).encode()).hexdigest()


def resolved(path: str | Path, accepted: str, refusal: str = "cannot be a path") -> Path:
    """Return the absolute path that ``path`` leads to, symbolic links followed; it need not exist."""
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


def read_bounded(path: str | Path) -> bytes:
    try:
        with open(os.fspath(path), "rb") as file:
            return _bounded(file, str(path))
    except InputError:  # which is a ValueError, too
        raise
    except (TypeError, ValueError):  # nothing that names a file; a null byte in the path, or half a surrogate pair
        raise InputError("is not a path", file=str(path), accepted="the path of a file") from None


def expanded(data: bytes, path: str) -> bytes:
    if not data.startswith(GZIP):
        return data
    try:
        return _bounded(GzipFile(fileobj=io.BytesIO(data)), path)
    except (OSError, EOFError, zlib.error) as error:
        message, accepted = f"is not a whole gzip file: {error}", "a whole file, compressed or not"
        raise InputError(message, file=path, accepted=accepted) from None


def _bounded(stream: IO[bytes] | GzipFile, path: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := stream.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        with placed(file=path):
            limits.check("bytes", size)
    return b"".join(pieces)


def _matches(path: str, folder: Path | None) -> list[File]:
    location = _located(path, folder, FILES)
    if "*" not in path or location.exists():
        return [File.at(path, folder)]
    base = Path(path).parent
    if "*" in str(base):
        raise InputError(f"{path!r} has a * in a directory", accepted="a * in the name of the files alone")
    names = [one.name for one in location.parent.glob(location.name)] if location.parent.is_dir() else []
    if not names:
        raise InputError(f"no file matches {path!r}", accepted=FILES)
    return [File.at(base / name, folder) for name in sorted(names, key=_natural)]


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), part) if part.isdecimal() else (-1, part) for part in _NUMBER.split(name)]


def _located(path: str | Path, folder: Path | None, accepted: str) -> Path:
    return resolved(Path(path) if folder is None else folder / path, accepted, f"{str(path)!r} cannot be a path")


# Sweeps configure one plugin again and again; a file that has other times or another size is read again.
@lru_cache(maxsize=4096)
def _digest(location: Path, _size: int, _modified: int, _inode: int) -> str:
    with open(location, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
