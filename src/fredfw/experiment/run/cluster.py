"""An executor on the workers of Dask. Importing this module needs Dask's scheduler, ``distributed``."""

import asyncio
import concurrent.futures
import logging
import pickle
import platform
import socket
import sys
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import cache
from importlib import metadata
from itertools import count
from multiprocessing import resource_tracker
from threading import Thread
from typing import Any, TypeVar
from uuid import uuid4

import dask

from fredfw.errors import InputError
from fredfw.experiment.run.executors import answer, block_interrupts

T = TypeVar("T")

_QUIET = {"distributed": "critical", "distributed.client": "critical", "tornado.application": "critical"}
if not dask.config.get("logging", None):  # what the owner of this machine wants of Dask counts more
    dask.config.set(logging=_QUIET)  # importing distributed sets its log up

from distributed import Client, KilledWorker, LocalCluster, Queue  # noqa: E402

_PATIENCE = 4  # seconds that a machine, its scheduler and a worker have to answer, each
_GONE = "the scheduler of Dask is gone"
_LOCAL = {
    # A worker takes what it runs, and no more: then its end says nothing about others.
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": 1,
}


def local(workers: int) -> Executor:
    with warnings.catch_warnings(), dask.config.set(_LOCAL):
        warnings.simplefilter("ignore")
        # Workers that start now or later do so on threads that this one begins, and are deaf to interrupts as it is.
        resource_tracker.ensure_running()
        cluster = _on_a_thread(
            lambda: LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                memory_limit=0,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
        ).result()
        client = Client(cluster, set_as_default=False)
    return _Dask(client, cluster)


def remote(address: str, host: str, port: int) -> Executor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # versions that differ are refused where they matter, see _answer
        try:
            socket.create_connection((host, port), timeout=_PATIENCE).close()  # Dask would try again and again
            place = f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
            # A server of another kind that waits for a request makes Dask wait for an answer, for ever.
            made = _on_a_thread(lambda: Client(place, timeout=_PATIENCE, set_as_default=False))
            client = made.result(_PATIENCE)
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


def _on_a_thread(make: Callable[[], T]) -> Future[T]:
    """Return what ``make`` will return, on a thread that no interrupt reaches."""
    found: Future[T] = Future()

    def start() -> None:
        block_interrupts()
        try:
            found.set_result(make())
        except BaseException as error:
            found.set_exception(error)

    Thread(target=start, daemon=True).start()
    return found


class _Dask(Executor):
    """What Dask's own executor is, but for this: no result stays with a worker, which may die.

    A worker hands the result to the scheduler's queue before the task ends and the next one begins.
    """

    def __init__(self, client: Any, cluster: Any) -> None:
        self._client = client
        self._cluster = cluster
        # Tasks whose keys have a first part in common are a group, and those of a group wait at the scheduler.
        self._name = f"fredfw-{uuid4().hex}"
        self._queue: Any = Queue(self._name, client=client)
        self._numbers = count()
        self._running: dict[int, Future[Any]] = {}
        self._lost = False
        client.loop.add_callback(self._receive)

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        number = next(self._numbers)
        task = pickle.dumps((function, args, kwargs))
        future: Future[T] = Future()
        self._running[number] = future
        if self._lost:
            self._end(number, False, BrokenExecutor(_GONE))
            return future
        key = self._name, number
        remote = self._client.submit(_answer, self._name, number, installed(), task, key=key, pure=False)
        # What has ended here, or is not wanted any more, does not run again where a worker dies.
        future.add_done_callback(lambda _: remote.release())
        self._client.loop.add_callback(self._watch, number, remote)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        futures = tuple(self._running.values())
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
        """Take results from the queue, as long as there is one."""
        while True:
            try:
                number, answered = await self._queue.get(asynchronous=True)
            except (OSError, asyncio.CancelledError):
                break
            try:
                succeeded, value = pickle.loads(answered)
            except Exception as error:
                succeeded, value = False, error
            self._end(number, succeeded, value)
        self._lost = True
        for number in tuple(self._running):
            self._end(number, False, BrokenExecutor(_GONE))

    async def _watch(self, number: int, remote: Any) -> None:
        """Wait for the end of a task; one that has a result has put it into the queue before."""
        try:
            await self._client.gather(remote, asynchronous=True)
        except KilledWorker:
            self._end(number, False, BrokenExecutor("the workers of Dask that ran it died"))
        except asyncio.CancelledError:
            self._end(number, False, BrokenExecutor(_GONE))
        except Exception as error:
            self._end(number, False, error)

    def _end(self, number: int, succeeded: bool, value: Any) -> None:
        future = self._running.pop(number, None)
        if future is None or not future.set_running_or_notify_cancel():  # it has ended before, or is not wanted
            return
        if succeeded:
            future.set_result(value)
        else:
            future.set_exception(value)


@cache
def installed() -> Mapping[str, str]:
    """Return the versions of Python, fredfw and the plugins here; cells that others run are no different ones."""
    plugins = {entry.dist for entry in metadata.entry_points(group="fredfw") if entry.dist is not None}
    return {"Python": "{}.{}".format(*sys.version_info), **{one.name: one.version for one in sorted(plugins, key=str)}}


def _answer(name: str, number: int, wanted: Mapping[str, str], task: bytes) -> None:
    """Run ``task`` on a worker, which must have what the caller has, and put the answer into the queue ``name``."""
    found = installed()
    for one in (*wanted, *found):
        if wanted.get(one) != found.get(one):
            message = f"a worker of Dask on {platform.node()} has {one} {found.get(one)}, here it is {wanted.get(one)}"
            raise InputError(message, key="executor", accepted="workers with the same versions")
    Queue(name).put((number, answer(task)))
