"""A run that is stopped, copied, interrupted or disturbed by its callbacks goes on to the same bytes."""

import copy
import hashlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from networks import ENDED, HORIZON, SEEDS, BrokenError, client, finish
from small import executor, joined

from fredfw import Pattern
from fredfw.collectives import Schedule, ring_schedule
from fredfw.errors import InputError, SimulationError
from fredfw.simulation import FlowNetwork, Lowering, ScheduleRun
from fredfw.simulation.engine import max_min
from fredfw.workloads import GraphBuilder


@pytest.mark.parametrize("seed", SEEDS)
def test_a_callback_that_raises_ends_the_step_at_its_event_alone(seed: int) -> None:
    calm, broken = client(seed), client(seed, raises=True)
    raised = 0

    def advance(until: float) -> None:
        nonlocal raised
        while True:
            before = len(broken.ends)
            try:
                broken.network.advance(until)
            except BrokenError:
                raised += 1
                assert len(broken.ends) == before + 1
            else:
                assert len(broken.ends) == before
                return

    assert finish(broken, advance) == finish(calm)
    assert raised == len(broken.ends) > ENDED / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_random_stops_and_copies_change_no_bit(seed: int) -> None:
    whole = client(seed)
    expected = finish(whole)
    times = [end for _, end in whole.ends if end < HORIZON]
    stopped, random = client(seed), Random(seed)
    others = []
    for stop in sorted(random.choice((random.uniform(0, times[-1]), random.choice(times))) for _ in range(3)):
        stopped.network.advance(stop)
        stopped.network.link_bytes()  # nobody is disturbed by a look
        others.append(copy.deepcopy(stopped) if random.random() < 0.5 else pickle.loads(pickle.dumps(stopped)))
    for one in (stopped, *others):
        assert finish(one) == expected


def test_a_network_is_not_copied_in_a_task_graph() -> None:
    network, builder, refused = FlowNetwork(joined([(0, 1), (1, 0)])), GraphBuilder(2), []
    for number in range(600):
        builder.compute(f"task {number}", [number % 2], seconds=1.0)

    def progress(_share: float) -> None:
        for copied in (copy.deepcopy, pickle.dumps):
            with pytest.raises(InputError, match=r"cannot be copied (in the middle of a step|while a task graph)"):
                copied(network)
            refused.append(copied)

    run = executor(builder.build(), network.fabric, network=network, progress=progress)
    assert run.run().duration == 300.0
    assert len(refused) > 2
    with pytest.raises(InputError, match="while a task graph runs"):
        pickle.dumps(network)


DEAR = """
import os, signal, sys, time
import numpy as np
from fredfw.fabric import Fabric, FlowSet, Routes
from fredfw.simulation import FlowNetwork
from fredfw.simulation.sharing import StrictLinks

nodes, count = np.arange(64), 12_000
fabric = Fabric("ring", np.zeros(64), nodes, (nodes + 1) % 64, 1e9, 1e-6, 0.0)
network, random = FlowNetwork(fabric, StrictLinks()), np.random.default_rng(1)
for priority in range(2):
    ways = [(start + np.arange(5)) % 64 for start in random.integers(0, 64, count)]
    volumes = random.uniform(1e6, 1e9, count)
    alone = np.zeros(count, dtype=int)  # one activity, so that nobody is told of an end before the last
    flows = FlowSet(Routes.of(ways, [1e-6] * count), volumes, alone, 1, priority=priority)
    network.start(flows, lambda _: None)
"""
HEARS = f"""{DEAR}
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in what runs behind
print("begun", flush=True)
try:
    network.advance()
except KeyboardInterrupt:
    print(time.time(), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no interrupt to a process alone")
def test_an_interrupt_is_heard_while_dear_events_happen() -> None:
    with subprocess.Popen([sys.executable, "-c", HEARS], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        time.sleep(0.3)
        sent = time.time()
        child.send_signal(signal.SIGINT)
        try:
            heard = float(child.communicate(timeout=20)[0])
        finally:
            child.kill()
    assert heard - sent < 10  # 0.02 to 0.3 s where nobody else works; the step takes much longer


RING = joined([(node, (node + 1) % 8) for node in range(8)], 100.0, 0.25)


def times_of(lowering: Lowering, schedules: list[Schedule], fidelity: str) -> list[tuple[float, bytes]]:
    """Return when schedules that meet a flow on the way are over, and the bytes on the links."""
    found = []
    for number, schedule in enumerate(schedules):
        network = FlowNetwork(lowering.fabric)
        run = ScheduleRun(network, lowering, schedule, np.arange(8)[None, :], lambda _: None, fidelity=fidelity)
        run.start()
        if number % 2:
            network.schedule(1.0, partial(network.set_bandwidths, np.array([0]), np.array([50.0])))
        network.advance()
        found.append((network.now, network.link_bytes()[""].tobytes()))
    return found


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
def test_networks_in_threads_share_what_was_lowered(fidelity: str) -> None:
    ranks = np.arange(8)[:, None]
    schedules = [ring_schedule(Pattern.ALL_GATHER, 800.0 * (1 + number), ranks) for number in range(40)]
    alone = times_of(Lowering(RING), schedules, fidelity)
    lowering = Lowering(RING)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: times_of(lowering, schedules, fidelity), range(4)):
            assert found == alone


def test_each_thread_hears_of_its_own_mistakes() -> None:
    both = threading.Barrier(2)

    def mistakes(number: int) -> None:
        both.wait()
        for _ in range(300):
            with pytest.raises(SimulationError, match=rf"link\[0\] is {number}, accepted"):
                max_min(np.array([0, 1]), np.array([number]), None, None, np.full(2, 100.0))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(mistakes, (7, 8)))


def test_a_network_in_use_is_refused_to_another_thread() -> None:
    names: dict[str, Any] = {}
    exec(DEAR, names)
    network: FlowNetwork = names["network"]
    refused, over = [], threading.Event()

    def meddle() -> None:
        while not over.is_set():
            try:
                _ = network.idle  # a single call of the engine
            except SimulationError as error:
                refused.append(str(error))

    thread = threading.Thread(target=meddle)
    thread.start()
    try:
        while not refused and network.now < 1000:
            network.advance(network.now + 1.0)
    except SimulationError as error:
        refused.append(str(error))
    finally:
        over.set()
        thread.join()
    assert any("in use" in message for message in refused)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # other tests have begun threads
def test_a_forked_process_goes_on_by_itself() -> None:
    one = client(2)
    one.network.advance(5e-3)
    receive, send = os.pipe()
    child = os.fork()
    if not child:  # which must never return to the tests
        try:
            os.write(send, hashlib.sha256(repr(finish(one)).encode()).digest())
        finally:
            os._exit(0)
    digest = hashlib.sha256(repr(finish(one)).encode()).digest()
    os.waitpid(child, 0)
    with os.fdopen(receive, "rb") as pipe_:
        os.close(send)
        assert pipe_.read() == digest
