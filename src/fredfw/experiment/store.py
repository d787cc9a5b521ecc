"""Outcomes of cells on disk: found again by what decides them, in one file that several processes may use."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Timer
from types import TracebackType
from typing import Any, Self

from attrs import asdict

from fredfw.errors import InputError, placed
from fredfw.experiment.document import parse
from fredfw.experiment.results import Cell, Failure
from fredfw.files import resolved
from fredfw.plugin import configure

_WRITTEN = "a store that fredfw wrote"
_ACCEPTED = f"{_WRITTEN}, or a path where nothing is yet"
_WRITABLE = "a file that can be written, in a folder that can be"
_APPLICATION = 0x66726564  # "fred" in ASCII: how SQLite's header says which program a file belongs to
_FORMAT = 1
_SCHEMA = (
    "CREATE TABLE outcomes (key TEXT NOT NULL, environment TEXT NOT NULL, digest TEXT NOT NULL, value BLOB NOT NULL,"
    " PRIMARY KEY (key, environment))"
)
# An update leaves the index alone, which a damaged row may no longer agree with.
_PUT = (
    "INSERT INTO outcomes VALUES (?, ?, ?, ?) ON CONFLICT (key, environment)"
    " DO UPDATE SET digest = excluded.digest, value = excluded.value"
)
_LOCK = "BEGIN IMMEDIATE"  # a transaction that others wait for
_GET = "SELECT digest, value FROM outcomes WHERE key = ? AND environment = ?"
_FIND = "SELECT environment, digest, value FROM outcomes WHERE key = ? ORDER BY environment"
_LEAST = 512  # bytes of the least page of SQLite, and so of the least database
_DELAY = 0.5  # seconds that what was put may wait for more
_PATIENCE = 10.0  # seconds that another process may hold the file


@contextmanager
def opened(store: Store | str | Path | None, *, new: bool = True) -> Iterator[Store | None]:
    """Give ``store``; one that is named by its path is open meanwhile, and begins empty where it may be ``new``."""
    if store is None or isinstance(store, Store):
        yield store
        return
    if not new and not Path(store).exists():
        raise InputError("there is no such store", file=str(store), accepted=_WRITTEN)
    try:
        found = Store.open(store)
    except InputError as error:
        if not new and error.accepted == _ACCEPTED:
            error.accepted = _WRITTEN
        raise
    with found:
        yield found


class Store:
    """Outcomes by what decides them; use it in a ``with`` block, which closes it.

    What is put is written together with what follows within half a second, by a thread of its own. An SQLite database
    with a rollback journal is whole whenever a process is killed, and several processes may use it at the same time.
    """

    def __init__(self, path: Path, location: Path, connection: sqlite3.Connection | None) -> None:
        self.path = path
        self.hits = 0  # how many cells came from it instead of being run
        self._location = location
        self._connection = connection  # ``None`` until the file begins
        self._database = Lock()  # held while the connection is used
        self._waiting: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._lock = Lock()  # held while what waits is changed; never for long
        self._timer: Timer | None = None
        self._failure: InputError | None = None

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Return the store at ``path``; where there is nothing yet, the file begins with the first outcome."""
        location = resolved(path, _ACCEPTED)
        if not location.parent.is_dir():
            raise InputError(f"there is no folder {location.parent}", file=str(path), accepted="a folder that exists")
        if location.exists() and not location.is_file():
            raise InputError("is not a file", file=str(path), accepted=_ACCEPTED)
        if location.is_file() and 0 < location.stat().st_size < _LEAST:  # SQLite takes one byte for an empty database
            raise InputError("is not a store", file=str(path), accepted=_ACCEPTED)
        if not os.access(location.parent, os.W_OK):  # where SQLite keeps its journal
            raise InputError("is in a folder that cannot be written", file=str(path), accepted=_WRITABLE)
        with _explained(path), placed(file=str(path)):
            return cls(Path(path), location, _connected(location) if location.exists() else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except InputError:
            if error is None:  # what ended the block matters more
                raise

    def get(self, key: str, environment: str) -> Cell | Failure | None:
        """Return what is stored of a cell; ``None`` where there is nothing, or what is there is damaged."""
        with self._lock:
            waiting = self._waiting.get((key, environment))
        if waiting is not None:
            return _read(key, environment, *waiting)
        rows = self._select(_GET, key, environment)
        return _read(key, environment, *rows[0]) if rows else None

    def find(self, key: str) -> list[Cell | Failure]:
        self.flush()
        entries = (
            _read(key, bytes(environment).decode(errors="replace"), digest, value)
            for environment, digest, value in self._select(_FIND, key)
        )
        return [one for one in entries if one is not None]

    def _select(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self._database:
            if self._connection is None:
                return []
            with _explained(self.path):
                return self._connection.execute(query, values).fetchall()

    def put(self, key: str, environment: str, outcome: Cell | Failure) -> None:
        """Keep what is known of a cell, in the place of what is there; durable within a second."""
        kind = "cell" if isinstance(outcome, Cell) else "failure"
        value = json.dumps({kind: asdict(outcome)}, allow_nan=False, separators=(",", ":")).encode()
        with self._lock:
            self._waiting[key, environment] = _digest(key, environment, value), value
            if self._timer is None:
                # The interpreter waits for it at its end, so that nothing is lost where nobody closes the store.
                self._timer = Timer(_DELAY, self._flush_later)
                self._timer.start()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def flush(self) -> None:
        """Make durable what was put; where it cannot be, it stays for the next attempt, and ``InputError`` says why."""
        with self._database:
            with self._lock:
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                batch = dict(self._waiting)
                self._failure = None
            if not batch:
                return
            with _explained(self.path):
                if self._connection is None:
                    self._connection = _connected(self._location)
                with self._connection as connection:
                    connection.execute(_LOCK)
                    connection.executemany(_PUT, [(*identity, *entry) for identity, entry in batch.items()])
            with self._lock:
                for identity, entry in batch.items():
                    if self._waiting.get(identity) is entry:
                        del self._waiting[identity]

    def close(self) -> None:
        try:
            self.flush()
        finally:
            with self._database:
                if self._connection is not None:
                    self._connection.close()

    def _flush_later(self) -> None:
        try:
            self.flush()
        except InputError as error:
            with self._lock:
                self._failure = error


def _connected(location: Path) -> sqlite3.Connection:
    """Return a store that is open and can be written; where there is nothing, it is made."""
    connection = sqlite3.connect(location, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.text_factory = bytes  # of a damaged row, anything may come
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        with connection:
            connection.execute(_LOCK)
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            schema = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master") if sql is not None]
            if not (application or version or schema):
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
            elif application != _APPLICATION:
                raise InputError("is a database of another program", accepted=_ACCEPTED)
            elif version != _FORMAT:
                raise InputError(f"is a store of version {version}", accepted=f"a store of version {_FORMAT}")
            elif schema != [_SCHEMA.encode()]:
                raise InputError("is a store with other tables", accepted=_ACCEPTED)
    except BaseException:
        connection.close()
        raise
    return connection


def _digest(key: str, environment: str, value: bytes) -> str:
    return hashlib.sha256(b"\0".join((key.encode(), environment.encode(), value))).hexdigest()


def _read(key: str, environment: str, digest: Any, value: Any) -> Cell | Failure | None:
    """Return the outcome that ``value`` holds; ``None`` where it is damaged, or of a release with other fields."""
    if isinstance(digest, bytes):
        digest = digest.decode(errors="replace")
    if not isinstance(value, bytes) or digest != _digest(key, environment, value):
        return None
    try:
        match parse(value.decode()):
            case {"cell": dict(content)}:
                return configure.build(Cell, content)
            case {"failure": dict(content)}:
                return configure.build(Failure, content)
    except (ValueError, RecursionError):  # also InputError
        return None
    return None


@contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # where its own texts are damaged, Python cannot read them
        message, accepted = _meaning(error)
        raise InputError(message, file=str(path), accepted=accepted) from None


def _meaning(error: sqlite3.Error | UnicodeDecodeError) -> tuple[str, str]:
    unreadable = isinstance(error, UnicodeDecodeError)
    match sqlite3.SQLITE_CORRUPT if unreadable else getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_NOTADB:
            return "is not a store", _ACCEPTED
        case sqlite3.SQLITE_CORRUPT:
            return f"is damaged: {error}", "a whole store; move this one away, and its cells run again"
        case sqlite3.SQLITE_FULL:
            return "cannot be written: the disk is full", "a disk with space"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            message = f"cannot be written: another process has held it for {_PATIENCE:g} s"
            return message, "to begin again when that has ended"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"cannot be written: {error}", _WRITABLE
    return f"cannot be used: {error}", _ACCEPTED
