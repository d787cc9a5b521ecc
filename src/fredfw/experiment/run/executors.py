"""Executors that run cells elsewhere: on other processes of this machine, or on the workers of Dask.

What a process that dies ran is run once more, and fails with ``BrokenExecutor`` where a process dies of that again.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

from fredfw.errors import InputError

T = TypeVar("T")

_ADDRESSES = "dask://HOST:PORT, dask://local or dask://local?workers=4"
_SPAWN = multiprocessing.get_context("spawn")
_PATIENCE = 5.0  # seconds that a process has to end by itself
_PROCESSES = threading.Lock()  # starting processes and waiting for them is not safe on several threads at the same time


def connect(address: str) -> Executor:
    """Return an executor on the workers of Dask at ``address``: those of a scheduler, or new ones on this machine."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"{address!r} is not an address: {error}", key="executor", accepted=_ADDRESSES) from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    here = host == "local" and port is None and options.keys() <= {"workers"}
    there = host not in (None, "local") and port is not None and not options
    if parts.scheme != "dask" or parts.path or not (here or there):
        raise InputError(f"{address!r} is not an address of Dask", key="executor", accepted=_ADDRESSES)
    workers = options.get("workers", str(os.cpu_count() or 1))
    if not workers.isdecimal() or not int(workers):
        raise InputError(f"workers={workers} is not a number of workers", key="executor", accepted="1 or more")
    try:
        from fredfw.experiment.run.cluster import local, remote
    except ImportError as error:
        message = f"{address!r} needs Dask ({error})"
        raise InputError(message, key="executor", accepted="pip install 'fredfw[dask]'") from None
    return local(int(workers)) if host is None or port is None else remote(address, host, port)


class Processes(Executor):
    """Other processes of this machine, as many as ``jobs``, which start when there is work for them.

    Each has a thread here: one that dies takes one task with it, and it is known which. An interrupt from the keyboard
    does not reach them; leaving the ``with`` block by an exception ends what they run at once.
    """

    def __init__(self, jobs: int) -> None:
        # It would let interrupts through that the threads keep from their processes, were it to start later.
        resource_tracker.ensure_running()
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="fredfw", initializer=block_interrupts)
        self._own = threading.local()
        self._workers: set[_Worker] = set()
        self._lock = threading.Lock()
        self._ended = False

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return self._threads.submit(self._run, function, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait=False, cancel_futures=cancel_futures)
        if cancel_futures:
            with self._lock:
                self._ended = True
                for worker in self._workers:
                    worker.process.kill()
        if wait:
            self._threads.shutdown()
            while self._workers:
                self._workers.pop().end()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def _run(self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        task = pickle.dumps((function, args, kwargs))
        for _ in range(2):
            try:
                answered = self._worker().run(task)
                break
            except (EOFError, OSError):
                worker, self._own.worker = self._own.worker, None
                with self._lock:
                    self._workers.discard(worker)
                ended = worker.end()
        else:
            raise BrokenProcessPool(f"the process that ran it {ended}, and another one before")
        succeeded, value = pickle.loads(answered)
        if not succeeded:
            raise value
        return cast(T, value)

    def _worker(self) -> _Worker:
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            with self._lock:
                if self._ended:
                    raise BrokenProcessPool("its process was ended")
                worker = self._own.worker = _Worker()
                self._workers.add(worker)
        return worker


class _Worker:
    """A process that runs one task after another."""

    def __init__(self) -> None:
        self._connection, there = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(there,), name="fredfw worker", daemon=True)
        with _PROCESSES:
            self.process.start()
        there.close()  # so that the end of the process is the end of what can be read here

    def run(self, task: bytes) -> bytes:
        self._connection.send_bytes(task)
        return self._connection.recv_bytes()

    def end(self) -> str:
        self._connection.close()
        with _PROCESSES:
            self.process.join(_PATIENCE)
            if self.process.exitcode is None:  # a plugin's thread keeps it
                self.process.kill()
                self.process.join()
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"ended with exit code {code}"
        reason = " (killed, perhaps for want of memory)" if code == -signal.SIGKILL else ""
        return f"was ended by {signal.Signals(-code).name}{reason}"


def _serve(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            connection.send_bytes(answer(connection.recv_bytes()))
        except (EOFError, OSError):  # also when the other process was killed
            return


def answer(task: bytes) -> bytes:
    """Return the pickled (whether it succeeded, result or exception) of a pickled (function, arguments, keywords)."""
    try:
        function, args, kwargs = pickle.loads(task)
        return pickle.dumps((True, function(*args, **kwargs)))
    except Exception as error:
        try:
            failed = pickle.dumps((False, error))
            pickle.loads(failed)  # an exception may be written and yet not be read
        except Exception:
            failed = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return failed


def block_interrupts() -> None:
    """Keep interrupts from the processes that this thread starts, from their beginning."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
