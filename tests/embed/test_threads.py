"""What is safe: a network is used by one thread at a time, and networks do not know of each other."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from networks import FABRICS, FRAMEWORK, client, finish, mesh

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
    network = mesh(1, 2)
    with ThreadPoolExecutor(1) as pool:
        network.schedule(1.0, lambda: pool.submit(network.advance, 2.0).result())
        with pytest.raises(InputError, match="one step at a time"):
            network.run_until_idle()
        pool.submit(network.advance, 2.0).result()
    assert network.now == 2.0


def test_a_coroutine_may_let_another_thread_step() -> None:
    network = mesh(1, 2)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        sent = loop.create_future()
        network.send(0, 1, 1e9, on_complete=partial(loop.call_soon_threadsafe, sent.set_result, None))
        await asyncio.to_thread(network.run_until_idle)
        await sent

    asyncio.run(main())
    assert network.now == 1.0
