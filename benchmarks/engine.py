"""What an event costs in the engine: seconds of the processor inside its steps, and counts that do not depend on them.

    python -m benchmarks.engine

prints a line of JSON for each case.
"""

import json
import time

import numpy as np

from fredfw import Fabric, Framework, Pattern, Phase, Schedule
from fredfw.fabric import FlowSet
from fredfw.simulation import FlowNetwork, Lowering, ScheduleRun

FRAMEWORK = Framework()


def repeated(fabric: Fabric, count: int, flows: FlowSet | None = None) -> dict[str, float]:
    """One message after the other, between the same two NPUs, beside flows that outlast them."""
    network = FlowNetwork(fabric)
    if flows is not None:
        network.start(flows, lambda _: None)
    phase = Phase.of([0], [1], [0], reduce=False, repeat=count)
    schedule = Schedule(Pattern.BROADCAST, 2, 1e6, 1, (phase,))
    ends: list[float] = []
    ScheduleRun(
        network,
        Lowering(fabric),
        schedule,
        fabric.npus[None, [0, len(fabric.npus) // 2 + 1]],
        lambda _: ends.append(network.now),
        fidelity="stepwise",
    ).start()
    begin, last = time.process_time(), 0.0
    while not ends:
        last = network.next_event_time()
        network.advance(last + 1.0)
    counts = network.statistics
    return {"seconds": time.process_time() - begin, "messages": count, "events": counts.events, "solved": counts.solved}


def alone() -> dict[str, float]:
    """Messages on links of their own."""
    return repeated(FRAMEWORK.topology("torus", dimensions=[8]).build(), 400_000)


def among(count: int = 1000) -> dict[str, float]:
    """Messages among a thousand flows on a torus, each of which may change the rates of all."""
    fabric = FRAMEWORK.topology("torus", dimensions=[16, 16]).build()
    draw = np.random.default_rng(6)
    sources, destinations = (fabric.npus[draw.integers(256, size=count)] for _ in range(2))
    routes = fabric.defaults.router.route(fabric.network, sources, destinations)
    return repeated(fabric, 20_000, FlowSet(routes, np.full(count, 1e18), np.arange(count), count))


if __name__ == "__main__":
    for case in (alone, among):
        print(json.dumps({"case": case.__name__, **case()}))
