import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
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
    fabric: dict[str, Any] = {"topology": {"name": "mesh2d", "rows": 2, "columns": 2}}
    model: dict[str, Any] = {"layers": 2, "hidden": 64, "heads": 4, "sequence": 8, "vocabulary": 10, "mp": 2, "pp": 2}
    workload = {"workload": {"name": "transformer", **model}}
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


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("cell", {"statistics": {"flows": "many"}}),
        ("cell", {"unknown": 1}),
        ("failure", {"infeasible": None}),
        ("nothing", {}),
    ],
)
def test_an_entry_with_other_fields_is_missing(kind: str, wrong: dict[str, Any], cell: Cell, tmp_path: Path) -> None:
    content = asdict(FAILURE if kind == "failure" else cell) | wrong
    value = json.dumps({kind: content}).encode()
    with Store.open(tmp_path / "cells") as store:
        store._write({("a", "here"): (module._digest("a", "here", value), value)})
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


# Processes that write to one store, made by one that has imported what they need: its arguments are what each of them
# writes, as NAME:COUNT:SECONDS, and it is killed after these seconds. The first one ends without closing the store.
WRITERS = """
import os, signal, sys, time
from fredfw.experiment.store import Store
from fredfw.experiment.results import Failure

def write(name, count):
    with Store.open("cells") as store:
        for number in range(count):
            store.put(f"{name}{number}", "here", Failure("w", "f", f"{name}{number}" * 100, infeasible=True))
            store.flush()
            os.write(1, f"{name}{number}\\n".encode())

children = []
for name, count, seconds in (one.split(":") for one in sys.argv[1:]):
    child = os.fork()
    if not child:
        write(name, int(count))
        os._exit(0)
    if float(seconds):
        time.sleep(float(seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    else:
        children.append(child)
failed = any([os.waitpid(child, 0)[1] for child in children])
Store.open("cells").put("unclosed", "here", Failure("w", "f", "unclosed" * 100, infeasible=True))
sys.exit(failed)
"""


def written(folder: Path, *writers: str) -> list[str]:
    """Return the keys that must be durable, as the writers said."""
    command = [sys.executable, "-c", WRITERS, *writers]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return [*done.stdout.split(), "unclosed"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_processes_share_it_and_what_killed_ones_wrote_is_durable(tmp_path: Path) -> None:
    (tmp_path / "cells").touch()  # an empty file becomes a store
    dice = random.Random(18)
    killed = (f"{attempt}-:100000:{dice.uniform(0.05, 0.25)}" for attempt in range(4))
    durable = written(tmp_path, *killed, "a:10:0", "b:10:0")
    assert {f"{name}{number}" for name in "ab" for number in range(10)} < set(durable)
    assert len(durable) > 23
    with Store.open(tmp_path / "cells") as store:
        for key in durable:
            found = store.get(key, "here")
            assert isinstance(found, Failure)
            assert found.reason == key * 100


def test_no_damage_of_the_file_gives_another_result(cell: Cell, tmp_path: Path) -> None:
    path = tmp_path / "cells"
    with Store.open(path) as store:
        for key in "abcdef":
            store.put(key, "here", evolve(FAILURE, reason=key * 300))
        store.put("cell", "here", cell)
    whole = path.read_bytes()
    dice = random.Random(18)
    seen = Counter[str]()
    refusals: list[InputError] = []
    for _ in range(60):
        place, noise = dice.randrange(1, len(whole)), dice.randbytes(dice.choice([1, 40]))
        rest = dice.choice([b"", noise + whole[place + len(noise) :]])
        path.write_bytes(whole[:place] + rest)
        Path(f"{path}-journal").unlink(missing_ok=True)
        try:
            with Store.open(path) as store:
                for key in "abcdef":
                    found = store.get(key, "here")
                    seen["missing" if found is None else "whole"] += 1
                    assert found is None or getattr(found, "reason", None) == key * 300
                    store.put(key, "here", evolve(FAILURE, reason=key * 300))
                store.get("cell", "here")
                store.find("a")
        except InputError as error:
            refusals.append(error)
    assert min(len(refusals), *seen.values()) > 5
    assert all(error.file == str(path) and error.accepted for error in refusals)
