import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import experiments
import pytest
from attrs import asdict, evolve

from fredfw.errors import InputError
from fredfw.experiment import store as module
from fredfw.experiment.results import Cell, Failure
from fredfw.experiment.store import Store

FAILURE = Failure("net", "mesh", "it needs 3 GB", infeasible=True, key="workloads.net.mp", accepted="4 or more")


@pytest.fixture(scope="module")
def cell() -> Cell:
    fabric = {"topology": {"name": "mesh2d", "rows": 2, "columns": 2}}
    workload = {"workload": {**experiments.SMALL, "mp": 2, "pp": 2}}
    return Cell.of(experiments.run({"fabrics": {"mesh": fabric}, "workloads": {"net": workload}}))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "cells") as opened:
        yield opened


def rows(path: Path) -> list[Any]:
    """What another process sees of the file."""
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        if not connection.execute("SELECT name FROM sqlite_schema").fetchall():
            return []
        return connection.execute("SELECT key, environment, value FROM outcomes ORDER BY key").fetchall()


def begun(path: Path) -> Store:
    store = Store.open(path)
    store.put("first", "here", FAILURE)
    store.flush()
    return store


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)


def test_a_cell_comes_back_to_the_last_digit(cell: Cell, tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells") as store:
        assert store.get("a", "here") is None
        store.put("a", "here", cell)
        waiting = store.get("a", "here")
    with Store.open(tmp_path / "cells") as store:
        stored = store.get("a", "here")
    for found in (waiting, stored):
        assert isinstance(found, Cell)
        assert json.dumps(asdict(found)) == json.dumps(asdict(cell))


def test_what_is_put_later_counts_for_its_key_and_environment(store: Store) -> None:
    for reason in ("first", "second"):
        store.put("a", "here", evolve(FAILURE, reason=reason))
        store.flush()
        found = store.get("a", "here")
        assert isinstance(found, Failure)
        assert asdict(found) == asdict(FAILURE) | {"reason": reason}
    assert [getattr(one, "reason", None) for one in store.find("a")] == ["second"]
    for key, environment in (("a", "y"), ("a", "x"), ("b", "x")):
        store.put(key, environment, evolve(FAILURE, reason=key + environment))
    assert store.get("b", "y") is None
    assert [getattr(one, "reason", None) for one in store.find("a")] == ["second", "ax", "ay"]
    assert store.find("c") == []


def test_writes_are_batched_and_durable_while_others_compute(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells") as store:
        for key in range(100):
            store.put(str(key), "here", FAILURE)
        begun = time.monotonic()
        while not rows(tmp_path / "cells"):  # as a long cell that runs now
            assert time.monotonic() - begun < 30
            time.sleep(0.02)
        assert len(rows(tmp_path / "cells")) == 100
        store.put("last", "here", FAILURE)
    assert len(rows(tmp_path / "cells")) == 101


@pytest.mark.parametrize(
    "damage",
    [
        "SET value = substr(value, 1, length(value) - 1)",
        "SET value = 7",
        "SET digest = 'x'",
        "SET digest = CAST(x'ff' AS TEXT)",
        "SET environment = 'there'",
    ],
)
def test_a_damaged_entry_counts_as_missing_and_is_replaced(damage: str, cell: Cell, tmp_path: Path) -> None:
    path = tmp_path / "cells"
    with Store.open(path) as store:
        store.put("a", "here", cell)
        store.put("b", "here", FAILURE)
    change(path, f"UPDATE outcomes {damage} WHERE key = 'a'")
    with Store.open(path) as store:
        assert store.get("a", "here") is store.get("a", "there") is None
        assert store.find("a") == []
        assert store.get("b", "here") is not None
        store.put("a", "here", cell)
    with Store.open(path) as store:
        assert store.get("a", "here") is not None


@pytest.mark.parametrize("wrong", [{"cell": {}}, {"failure": asdict(FAILURE) | {"unknown": 1}}, {"nothing": {}}])
def test_an_entry_with_other_fields_is_missing(wrong: dict[str, Any], store: Store) -> None:
    value = json.dumps(wrong).encode()
    store._waiting["a", "here"] = module._digest("a", "here", value), value
    store.flush()
    assert store.get("a", "here") is None
    assert store.find("a") == []


def refused(path: Path) -> InputError:
    before = path.read_bytes() if path.is_file() else None
    with experiments.refused(None, file=str(path)) as caught:
        Store.open(path)
    assert (path.read_bytes() if path.is_file() else None) == before
    return caught.value


@pytest.mark.parametrize("content", [b"x", b"title = 'an experiment'\n" * 300, b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_something_else_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cells"
    path.write_bytes(content)
    assert refused(path).message.startswith(("is not a store", "is damaged"))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("PRAGMA application_id = 7", "is a database of another program"),
        ("PRAGMA user_version = 2", "is a store of version 2"),
        ("CREATE TRIGGER t AFTER INSERT ON outcomes BEGIN DELETE FROM outcomes; END", "is a store with other tables"),
        ("DROP TABLE outcomes", "is a store with other tables"),
    ],
)
def test_a_store_of_another_form_is_refused(sql: str, message: str, tmp_path: Path) -> None:
    begun(tmp_path / "cells").close()
    change(tmp_path / "cells", sql)
    assert refused(tmp_path / "cells").message == message


def test_what_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path).message == "is not a file"
    assert "no folder" in refused(tmp_path / "none" / "cells").message
    if Path("/proc/self").is_dir():  # which nobody can write
        assert "cannot be written" in refused(Path("/proc/self/cells")).message
    with pytest.raises(InputError, match="cannot be a path"):
        Store.open("a\0b")


def limited(store: Store, pages: int) -> None:
    assert store._connection is not None
    store._connection.execute(f"PRAGMA max_page_count = {pages}")


@pytest.fixture
def full(cell: Cell, tmp_path: Path) -> Store:
    """A store that was given cells on a disk without space for them."""
    store = begun(tmp_path / "cells")
    limited(store, 3)
    for key in "ab":
        store.put(key, "here", cell)
    return store


def test_a_full_disk_is_said_once_and_loses_nothing_that_was_written(full: Store) -> None:
    with pytest.raises(InputError, match="the disk is full"):
        full.flush()
    limited(full, 10_000)  # somebody made place
    full.close()
    assert len(rows(full.path)) == 3


def test_a_full_disk_found_in_the_background_is_said_at_the_next_put(full: Store) -> None:
    assert full._timer is not None
    full._timer.join()
    with pytest.raises(InputError, match=r"cells: cannot be written: the disk is full \(accepted: .*\)"):
        full.put("c", "here", FAILURE)
    with pytest.raises(InputError, match="the disk is full"):
        full.close()
    assert [key for key, *_ in rows(full.path)] == ["first"]


def test_what_ends_the_block_matters_more_than_a_full_disk(full: Store) -> None:
    with pytest.raises(KeyboardInterrupt), full:
        raise KeyboardInterrupt


def test_a_store_that_another_process_holds_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    path = tmp_path / "cells"
    store = Store.open(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    store.put("a", "here", FAILURE)
    with pytest.raises(InputError, match="another process"):
        store.flush()
    with pytest.raises(InputError, match="another process"):
        Store.open(path)
    other.execute("ROLLBACK")
    other.close()
    store.close()
    assert len(rows(path)) == 1


WRITER = """
import sys
from fredfw.experiment.store import Store
from fredfw.experiment.results import Failure

def put(store, key):
    store.put(key, "here", Failure("w", "f", key * 100, infeasible=True))

name, count = sys.argv[1:]
with Store.open("cells") as store:
    for number in range(int(count)):
        put(store, f"{name}{number}")
        store.flush()
        print(f"{name}{number}", flush=True)
put(Store.open("cells"), name)  # which nobody closes
"""


def writer(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    """Begin a process that prints the keys which must be durable."""
    command = [sys.executable, "-c", WRITER, name, str(count)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def test_processes_share_it_and_what_killed_ones_wrote_is_durable(tmp_path: Path) -> None:
    (tmp_path / "cells").touch()  # an empty file becomes a store
    killed, *others = writer(tmp_path, "-", 100_000), writer(tmp_path, "a", 10), writer(tmp_path, "b", 10)
    assert killed.stdout is not None
    durable = ["a", "b", *(killed.stdout.readline().strip() for _ in range(5))]
    killed.kill()
    durable += [key for one in (killed, *others) for key in one.communicate()[0].split()]
    assert [one.returncode for one in others] == [0, 0]
    assert len(durable) >= 27
    with Store.open(tmp_path / "cells") as store:
        assert [getattr(store.get(key, "here"), "reason", None) for key in durable] == [key * 100 for key in durable]
