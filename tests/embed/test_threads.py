"""What is safe: a network is used by one thread at a time, and networks do not know of each other."""

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from networks import FABRICS, FRAMEWORK, client, finish

from fredfw.embed import NetworkBackend
from fredfw.errors import InputError


def test_networks_in_threads_say_what_they_say_alone() -> None:
    # The same fabric for all: what it remembers (FRED's switches do) must not depend on who asked.
    seeds = range(2, 2 + 4 * len(FABRICS), len(FABRICS))
    alone = [finish(client(seed)) for seed in seeds]
    fabric = FRAMEWORK.topology(**FABRICS[2]).build()
    with ThreadPoolExecutor(len(seeds)) as pool:
        together = list(pool.map(lambda seed: finish(client(seed, fabric=fabric)), seeds))
    assert together == alone


def test_a_second_thread_is_refused_while_the_first_steps() -> None:
    network = NetworkBackend(FRAMEWORK.topology("switch", npus=2).build(), plugins=FRAMEWORK.plugins)
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        leave.wait(10)

    network.schedule(1.0, hold)
    thread = threading.Thread(target=network.run_until_idle)
    thread.start()
    assert inside.wait(10)
    with pytest.raises(InputError, match="one step at a time"):
        network.advance(2.0)
    leave.set()
    thread.join()
    network.advance(2.0)


def test_coroutines_use_it_in_the_thread_of_their_loop() -> None:
    # Three workers compute and send to a server, whose link they share (the numbers of docs/tutorials/embedder.md).
    network = NetworkBackend(FRAMEWORK.topology("switch", npus=4, link_bandwidth="750 GB/s", link_latency=0).build())
    ends: dict[int, float] = {}

    async def worker(number: int, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        computed, sent = loop.create_future(), loop.create_future()
        network.schedule(seconds, partial(computed.set_result, None))
        await computed
        network.send(number, 3, 750e6, on_complete=partial(sent.set_result, None))
        await sent
        ends[number] = network.now

    async def main() -> None:
        workers = [asyncio.create_task(worker(*one)) for one in enumerate([1.0e-3, 1.5e-3, 4.0e-3])]
        while not all(one.done() for one in workers):
            await asyncio.sleep(0)  # whoever can go on does
            if (time := network.next_event_time()) < math.inf:
                network.advance(time)

    asyncio.run(main())
    assert ends == {0: pytest.approx(2.5e-3), 1: pytest.approx(3.0e-3), 2: pytest.approx(5.0e-3)}


def test_a_loop_may_let_another_thread_step() -> None:
    network = NetworkBackend(FRAMEWORK.topology("switch", npus=2, link_bandwidth="1 GB/s", link_latency=0).build())

    async def main() -> float:
        loop = asyncio.get_running_loop()
        sent = loop.create_future()
        network.send(0, 1, 1e9, on_complete=partial(loop.call_soon_threadsafe, sent.set_result, None))
        await asyncio.to_thread(network.run_until_idle)
        await sent
        return network.now

    assert asyncio.run(main()) == 1.0
