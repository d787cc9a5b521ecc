"""Cases that grow, each to be run in a process of its own.

    python benchmarks/scale.py FAMILY SIZE

prints one line of JSON: ``seconds`` from the fabric to the result (what comes before is Python, NumPy and the plugins)
and the counters of the engine. ``test_scale.py`` runs all of them and prints a table.
"""

import json
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from fredfw import CollectiveRequest, Fabric, FlowSet, Framework, NodeKind, Pattern
from fredfw.embed import NetworkBackend
from fredfw.simulation import FlowNetwork, Lowering, MaxMin, ScheduleRun

PAPER = Path(__file__).resolve().parents[1] / "experiments" / "fred-isca25.toml"
FRAMEWORK = Framework()
Counters = dict[str, int]


@frozen
class Family:
    """Cases that differ in their size alone.

    Args:
        run: Simulates the case of a size and returns the engine's counters.
        unit: What a size counts.
        sizes: Those to run.
        long: More of them, of half a minute to minutes and of up to several GiB each.
    """

    run: Callable[[int], Counters]
    unit: str
    sizes: tuple[int, ...]
    long: tuple[int, ...] = ()


def cube(npus: int, dimensions: int) -> list[int]:
    """Return ``dimensions`` powers of two that are as alike as can be and make ``npus``, the smallest first."""
    share, extra = divmod(npus.bit_length() - 1, dimensions)
    return [2 ** (share + (dimension >= dimensions - extra)) for dimension in range(dimensions)]


def snake(npus: int) -> Counters:
    """All-reduce by one ring from neighbour to neighbour through a square torus."""
    side = math.isqrt(npus)
    fabric = FRAMEWORK.topology("torus", dimensions=[side, side]).build()
    grid = np.arange(npus).reshape(side, side)
    grid[1::2] = grid[1::2, ::-1]
    group = grid.ravel().tolist()
    return FRAMEWORK.simulate_collective(fabric, "all-reduce", size="100 MB", algorithm="ring", group=group).statistics


def all_reduce(npus: int, *, dimensions: int, algorithm: str) -> Counters:
    """All-reduce by rings along the dimensions of a torus."""
    fabric = FRAMEWORK.topology("torus", dimensions=cube(npus, dimensions)).build()
    return FRAMEWORK.simulate_collective(fabric, "all-reduce", size="100 MB", algorithm=algorithm).statistics


def by_kind(npus: int, *, inner: tuple[str, ...]) -> Counters:
    """All-reduce along unlike dimensions, the outermost of which is a switch, each with the steps that fit its kind."""
    outer = npus // math.prod(int(one.split()[1]) for one in inner)
    bandwidths = {"ring": "200 GB/s", "fully-connected": "700 GB/s"}
    fabric = FRAMEWORK.topology(
        "multi-dimensional",
        dimensions=[*inner, f"switch {outer}"],
        bandwidths=[*(bandwidths[one.split()[0]] for one in inner), "100 GB/s"],
        latencies="500 ns",
    ).build()
    return FRAMEWORK.simulate_collective(
        fabric, "all-reduce", size="1 GB", algorithm="hierarchical", steps="by-kind"
    ).statistics


def pod(npus: int) -> Counters:
    """All-reduce by the fastest of all algorithms on a TPU v4 pod, a 3D torus."""
    fabric = FRAMEWORK.topology("torus", dimensions=cube(npus, 3), link_bandwidth="50 GB/s").build()
    return FRAMEWORK.simulate_collective(fabric, "all-reduce", size="1 GB").statistics


def switch(npus: int) -> Counters:
    """Direct all-to-all through one switch."""
    fabric = FRAMEWORK.topology("switch", npus=npus).build()
    return FRAMEWORK.simulate_collective(fabric, "all-to-all", size="64 MB", algorithm="direct").statistics


def mesh(npus: int, *, latency: str) -> Counters:
    """Direct all-to-all on a square mesh whose links all have ``latency``."""
    side = math.isqrt(npus)
    fabric = FRAMEWORK.topology("mesh2d", rows=side, columns=side, link_latency=latency).build()
    return FRAMEWORK.simulate_collective(fabric, "all-to-all", size="64 MB", algorithm="direct").statistics


def groups(count: int, *, shuffled: bool) -> Counters:
    """All-reduce by a ring in ``count`` groups of 4 at once, all over a square torus.

    Strided groups look alike, and flows share links alike; of shuffled ones no two do.
    """
    fabric = FRAMEWORK.topology("torus", dimensions=cube(4 * count, 2)).build()
    members = np.arange(4 * count).reshape(4, count).T
    if shuffled:
        members = np.random.default_rng(6).permutation(4 * count).reshape(count, 4)
    request = CollectiveRequest(Pattern.ALL_REDUCE, 4, 100e6)
    schedule = FRAMEWORK.plugins.collectives.get("ring")().plan(request, fabric.view(members[0]))
    network = FlowNetwork(fabric, MaxMin())
    ScheduleRun(network, Lowering(fabric), schedule, fabric.npus[members], lambda _: None).start()
    network.advance()
    return network.statistics.as_dict()


def gpt3(npus: int, *, topology: Callable[[int], dict[str, Any]], all_reduce: str) -> Counters:
    """One iteration of GPT-3 with 8 x 16 workers a replica; that of the FRED paper where there are 20 NPUs."""
    if npus == 20:
        return FRAMEWORK.run(PAPER, workload="GPT-3", fabric="FRED-D").statistics
    workload = {"name": "transformer", "model": "gpt-3", "mp": 8, "dp": npus // 128, "pp": 16, "microbatches": 16}
    return FRAMEWORK.run(
        FRAMEWORK.load_experiment(
            {
                "priorities": ["mp", "pp", "dp"],
                "fabrics": {
                    "fabric": {
                        "topology": topology(npus),
                        "collectives": {"all-reduce": all_reduce, "default": "direct"},
                    }
                },
                "workloads": {"GPT-3": {"workload": workload}},
            }
        )
    ).statistics


def torus(npus: int) -> dict[str, Any]:
    """Return a torus with room for MP along its first dimension and PP along its last."""
    return {"name": "torus", "dimensions": [8, *cube(npus // 128, 2), 16]}


def fred(npus: int) -> dict[str, Any]:
    """Return FRED switches with MP below the lowest and a replica below the second ones."""
    bandwidths = ["3 TB/s", "12 TB/s", "48 TB/s"]
    return {"name": "fred", "variant": "D", "arity": [8, 16, npus // 128], "bandwidths": bandwidths}


def fat_tree(npus: int) -> dict[str, Any]:
    """Return a full fat tree."""
    return {"name": "fat-tree", "npus": npus, "radix": 64, "routing": "spray"}


def chain(links: int) -> Counters:
    """One set of flows of which each is limited where the one before it is: as many passes as there are flows.

    Link i of a line has 2 i + 1 GB/s, and flow i takes links i and i + 1. Half of link i + 1 is more than flow i can
    get on link i, so that flow i + 1 is not settled before flow i: at i + 1 GB/s.
    """
    place = np.arange(links)
    fabric = Fabric(
        "chain", np.full(links + 1, NodeKind.NPU), place, place + 1, (2 * place + 1) * 1e9, latencies=0.0, energies=0.0
    )
    routes = fabric.paths(np.arange(0, 2 * links - 1, 2), np.repeat(place, 2)[1:-1])
    flows = FlowSet(routes, np.arange(1.0, links) * 1e9, np.zeros(links - 1, dtype=np.intp), activities=1)
    network = FlowNetwork(fabric, MaxMin())
    network.start(flows, lambda _: None)
    network.advance()
    return network.statistics.as_dict()


def arrivals(flows: int, *, load: float) -> Counters:
    """Single messages of 1 MB between random NPUs of a 16 x 16 mesh, at random times (Poisson): nothing repeats.

    Links are offered, in the mean over all of them, the share ``load`` of their bandwidth.
    """
    fabric = FRAMEWORK.topology("mesh2d", rows=16, columns=16, link_latency="0 s").build()
    random, size = np.random.default_rng(6), 1e6
    sources = random.integers(256, size=flows)
    destinations = (sources + random.integers(1, 256, size=flows)) % 256
    hops = len(fabric.defaults.router.route(fabric, sources, destinations).links) / flows
    rate = load * fabric.bandwidths.sum() / (hops * size)
    network = NetworkBackend(fabric, plugins=FRAMEWORK.plugins)
    for start, source, destination in zip(
        np.cumsum(random.exponential(1 / rate, flows)).tolist(), sources.tolist(), destinations.tolist(), strict=True
    ):
        network.schedule(start, partial(network.send, source, destination, size))
    network.run_until_idle()
    return network.statistics()


MILLION = 2**20
FAMILIES = {
    "ring, snake on a 2D torus": Family(snake, "NPUs", (64, 1024, 4096, 65536, MILLION)),
    "torus-ring on a 2D torus": Family(
        partial(all_reduce, dimensions=2, algorithm="torus-ring"), "NPUs", (64, 4096, 65536, MILLION)
    ),
    "torus-ring on a 3D torus": Family(
        partial(all_reduce, dimensions=3, algorithm="torus-ring"), "NPUs", (64, 4096, 65536, MILLION)
    ),
    "torus-ring on a 4D torus": Family(
        partial(all_reduce, dimensions=4, algorithm="torus-ring"), "NPUs", (256, 4096, 65536), (MILLION,)
    ),
    "hierarchical on a 3D torus": Family(
        partial(all_reduce, dimensions=3, algorithm="hierarchical"), "NPUs", (64, 4096, 65536, MILLION)
    ),
    "by kind on Ring 16 x FC 8 x Switch": Family(
        partial(by_kind, inner=("ring 16", "fully-connected 8")), "NPUs", (1024, 65536), (MILLION,)
    ),
    "by kind on Ring 16 x FC 8 x Ring 16 x Switch": Family(
        partial(by_kind, inner=("ring 16", "fully-connected 8", "ring 16")), "NPUs", (4096, 65536), (MILLION,)
    ),
    "auto on a 3D torus": Family(pod, "NPUs", (64, 512, 4096)),
    "all-to-all, switch": Family(switch, "NPUs", (64, 256, 1024)),
    "all-to-all, mesh without latency": Family(partial(mesh, latency="0 s"), "NPUs", (64, 144, 256), (576, 1024)),
    "all-to-all, mesh with 500 ns a hop": Family(partial(mesh, latency="500 ns"), "NPUs", (64, 144, 256), (576, 1024)),
    "groups of 4, strided": Family(partial(groups, shuffled=False), "groups", (64, 256, 1024, 4096)),
    "groups of 4, shuffled": Family(partial(groups, shuffled=True), "groups", (64, 128, 256), (1024, 4096)),
    "GPT-3 on FRED": Family(partial(gpt3, topology=fred, all_reduce="in-network"), "NPUs", (20, 1024, 16384)),
    "GPT-3 on a torus": Family(partial(gpt3, topology=torus, all_reduce="ring"), "NPUs", (1024, 16384)),
    "GPT-3 on a fat tree": Family(partial(gpt3, topology=fat_tree, all_reduce="ring"), "NPUs", (1024, 4096), (16384,)),
    "random flows, 30 % load": Family(partial(arrivals, load=0.3), "flows", (1000, 3000, 10000)),
    "random flows, 80 % load": Family(partial(arrivals, load=0.8), "flows", (1000, 3000), (10000,)),
    "chain of bottlenecks": Family(chain, "links", (64, 256, 1024, 4096)),
}


def main(name: str, size: str) -> None:
    """Run one case."""
    begin = time.perf_counter()
    counters = FAMILIES[name].run(int(size))
    print(json.dumps({"seconds": time.perf_counter() - begin, **counters}))


if __name__ == "__main__":
    main(*sys.argv[1:])
