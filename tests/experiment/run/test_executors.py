import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from pathlib import Path
from typing import Any

import called_elsewhere as calls
import pytest
from experiments import refused

from fredfw.errors import InputError
from fredfw.experiment.run.executors import Processes, connect

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.fixture(scope="module")
def two() -> Iterator[Executor]:
    with Processes(2) as executor:
        yield executor


def until(path: Path) -> None:
    begun = time.monotonic()
    while not path.exists():
        assert time.monotonic() - begun < 60
        time.sleep(0.01)


def test_calls_run_in_other_processes_which_interrupts_do_not_reach(two: Executor, tmp_path: Path) -> None:
    # Both wait for the file, so that they need a process each.
    waiting = [two.submit(calls.square, number, after=tmp_path / "go") for number in (3, 4)]
    pids = two.submit(os.getpid)
    (tmp_path / "go").touch()
    assert [future.result() for future in waiting] == [9, 16]
    assert pids.result() != os.getpid()
    assert two.submit(calls.deaf).result()


@pytest.mark.parametrize("error", [InputError("no", key="k", accepted="yes"), KeyError("x")])
def test_exceptions_come_back(two: Executor, error: Exception) -> None:
    raised = two.submit(calls.fail, error).exception()
    assert type(raised) is type(error)
    assert str(raised) == str(error)


@pytest.mark.parametrize(("call", "message"), [("unreadable", "PickyError: ab"), ("unwritable", "local object")])
def test_what_cannot_be_sent_back_is_an_exception(two: Executor, call: str, message: str) -> None:
    assert message in str(two.submit(getattr(calls, call)).exception())
    assert two.submit(lambda: None).exception() is not None
    assert two.submit(calls.square, 2).result() == 4


def test_a_call_whose_process_is_killed_runs_once_more_and_then_fails_alone(two: Executor, tmp_path: Path) -> None:
    killed = two.submit(calls.die, tmp_path / "attempts", 1)
    futures = [killed, *(two.submit(calls.square, number) for number in range(20))]
    assert [future.result() for future in futures] == [2, *(number**2 for number in range(20))]
    bad = two.submit(calls.die, tmp_path / "more", 9)
    others = [two.submit(calls.square, number) for number in range(20)]
    error = bad.exception()
    assert isinstance(error, BrokenExecutor)
    how = "was ended by SIGKILL (killed, perhaps for want of memory)"
    assert str(error) == f"the process that ran it {how}, and another one before"
    assert [future.result() for future in others] == [number**2 for number in range(20)]
    assert (tmp_path / "more").read_text() == ".."


def test_an_exception_ends_what_runs(tmp_path: Path) -> None:
    running: list[Future[Any]] = []

    def interrupted() -> None:
        with Processes(1) as executor:
            running.extend((executor.submit(calls.sleep, tmp_path / "begun"), executor.submit(calls.square, 1)))
            until(tmp_path / "begun")
            raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - begun < 50  # not the minute that it wanted to run
    assert isinstance(running[0].exception(), BrokenExecutor)
    with pytest.raises(CancelledError):
        running[1].result()


def test_what_is_no_address_is_refused() -> None:
    others = "host:1", "ray://host:1", "dask://", "dask://host", "dask://host:99999", "dask://host:1/path"
    local = "[local", "local:1", "local?jobs=2", "local?workers=0", "local?workers=many"
    for address in (*others, *(f"dask://{one}" for one in local)):
        with refused("executor"):
            connect(address)


def test_dask_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fredfw.experiment.run.cluster", None)
    with pytest.raises(InputError, match=r"needs Dask .*accepted: pip install 'fredfw\[dask\]'"):
        connect("dask://local")


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_said_at_once() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match=r"no scheduler of Dask answers at dask://127.0.0.1:1: .*refused"):
        connect("dask://127.0.0.1:1")
