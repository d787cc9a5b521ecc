"""An executor on the workers of Dask. Importing this module needs Dask's scheduler, ``distributed``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import pickle
import platform
import socket
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import cache
from importlib import metadata
from itertools import count
from threading import Thread
from typing import Any, TypeVar
from uuid import uuid4

import dask

from fredfw.errors import InputError
from fredfw.experiment.executors import answer

T = TypeVar("T")

_QUIET = {"distributed": "critical", "distributed.client": "critical", "tornado.application": "critical"}
if not dask.config.get("logging", None):  # what the owner of this machine wants of Dask counts more
    dask.config.set(logging=_QUIET)  # importing distributed sets its log up

from distributed import Client, KilledWorker, LocalCluster, Queue  # noqa: E402

# Seconds that a machine, its scheduler and a worker have to answer, each.
_PATIENCE = 4
_LOCAL = {
    # A worker takes what it runs, and no more: then its end says nothing about others.
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": 1,
}


def local(workers: int) -> Executor:
    """Return an executor on so many new workers on this machine, which end with it."""
    with warnings.catch_warnings(), dask.config.set(_LOCAL):
        warnings.simplefilter("ignore")
        cluster = LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )
        client = Client(cluster, set_as_default=False)  # type: ignore[no-untyped-call]
    return _Dask(client, cluster)


def remote(address: str, host: str, port: int) -> Executor:
    """Return an executor on the workers of the scheduler at ``host``; raises as ``executors.connect`` does.

    Args:
        address: As it was written, for messages.
        host: Name or address of the machine.
        port: Where the scheduler listens.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # versions that differ are refused where they matter, see _answer
        try:
            socket.create_connection((host, port), timeout=_PATIENCE).close()  # Dask would try again and again
            client = _client(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except (OSError, ValueError) as error:  # a TimeoutError is an OSError
            reason = str(error).partition("\n")[0] or "it says nothing"
            message = f"no scheduler of Dask answers at {address}: {reason}"
            raise InputError(message, key="executor", accepted="the address that `dask scheduler` prints") from None
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            client.close()
            message = f"the scheduler at {address} has no worker"
            raise InputError(message, key="executor", accepted="one or more, see `dask worker`") from None
    return _Dask(client, None)


def _client(place: str) -> Any:
    """Return a client of the scheduler at ``place``.

    Raises:
        TimeoutError: Something else is there.
    """
    found: Future[Any] = Future()

    def start() -> None:
        try:
            found.set_result(Client(f"tcp://{place}", timeout=_PATIENCE, set_as_default=False))  # type: ignore[no-untyped-call]
        except BaseException as error:
            found.set_exception(error)

    # A server of another kind that waits for a request makes Dask wait for an answer, for ever.
    Thread(target=start, daemon=True).start()
    return found.result(_PATIENCE)


class _Dask(Executor):
    """What Dask's own executor is, but for this: no result stays with a worker, which may die.

    A worker hands the result to the scheduler's queue before the task ends and the next one begins.
    """

    def __init__(self, client: Any, cluster: Any) -> None:
        self._client = client
        self._cluster = cluster
        # Tasks whose keys have a first part in common are a group, and those of a group wait at the scheduler.
        self._name = f"fredfw-{uuid4().hex}"
        self._queue: Any = Queue(self._name, client=client)  # type: ignore[no-untyped-call]
        self._numbers = count()
        self._running: dict[int, tuple[Any, Future[Any]]] = {}
        client.loop.add_callback(self._receive)

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        number = next(self._numbers)
        task = pickle.dumps((function, args, kwargs))
        local: Future[T] = Future()
        remote = self._client.submit(
            _answer, self._name, number, installed(), task, key=(self._name, number), pure=False
        )
        self._running[number] = remote, local
        local.add_done_callback(lambda done: remote.cancel() if done.cancelled() else None)
        self._client.loop.add_callback(self._watch, number)
        return local

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        futures = [local for _, local in tuple(self._running.values())]
        if cancel_futures:
            for future in futures:
                future.cancel()
        elif wait:
            concurrent.futures.wait(futures)
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    async def _receive(self) -> None:
        """Take results from the queue."""
        while True:
            try:
                number, answered = await self._queue.get(asynchronous=True)
            except (OSError, asyncio.CancelledError):  # the client was closed, or has lost the scheduler
                return
            self._end(number, *pickle.loads(answered))

    async def _watch(self, number: int) -> None:
        """Wait for the end of a task that has no result."""
        remote, _ = self._running[number]
        try:
            await self._client.gather(remote, asynchronous=True)
        except KilledWorker:
            self._end(number, False, BrokenExecutor("the workers of Dask that ran it died"))
        except asyncio.CancelledError:
            self._end(number, False, BrokenExecutor("the scheduler of Dask is gone"))
        except Exception as error:
            self._end(number, False, error)

    def _end(self, number: int, succeeded: bool, value: Any) -> None:
        found = self._running.pop(number, None)
        if found is None:  # it has ended before
            return
        remote, local = found
        if not local.set_running_or_notify_cancel():
            return
        remote.release()  # so that it does not run again where its worker dies
        if succeeded:
            local.set_result(value)
        else:
            local.set_exception(value)


@cache
def installed() -> Mapping[str, str]:
    """Return the versions of Python, fredfw and the plugins here; cells that others run are no different ones."""
    plugins = {entry.dist for entry in metadata.entry_points(group="fredfw") if entry.dist is not None}
    return {"Python": platform.python_version(), **{one.name: one.version for one in sorted(plugins, key=str)}}


def _answer(name: str, number: int, wanted: Mapping[str, str], task: bytes) -> None:
    """Run ``task`` on a worker, which must have what the caller has, and put the answer into the queue ``name``."""
    found = installed()
    for one in (*wanted, *found):
        if wanted.get(one) != found.get(one):
            message = f"a worker of Dask on {platform.node()} has {one} {found.get(one)}, here it is {wanted.get(one)}"
            raise InputError(message, key="executor", accepted="workers with the same versions")
    Queue(name).put((number, answer(task)))  # type: ignore[no-untyped-call]
