"""What a communication asks of an idle network, beside what the engine takes for it."""

import pickle
from typing import Any

import numpy as np
import pytest

from fredfw import Framework, GraphBuilder, Pattern, Phase, Schedule
from fredfw.experiment.results import GraphResult
from fredfw.simulation.demands import _busiest_channel, _longest_chain, _Time

FRAMEWORK = Framework()
SWITCH: dict[str, Any] = {"name": "switch", "npus": 8}
FRED: dict[str, Any] = {"name": "fred", "arity": [2, 4], "io_controllers": 0}


def alone(topology: dict[str, Any], algorithm: str, pattern: str, ranks: int, **slots: Any) -> GraphResult:
    builder = GraphBuilder(ranks)
    builder.collective("it", Pattern(pattern), [list(range(ranks))], 1e8, label="label")
    fabric = FRAMEWORK.topology(**topology).build().with_defaults(**slots)
    return FRAMEWORK.simulate_graph(builder.build(), fabric, collectives={"default": algorithm})


@pytest.mark.parametrize(
    ("topology", "algorithm", "pattern"),
    [
        (SWITCH, "ring", "all-reduce"),
        (SWITCH, "direct", "all-to-all"),
        (SWITCH, "recursive-halving-doubling", "all-reduce"),
        ({"name": "torus", "dimensions": [4, 2]}, "hierarchical", "all-reduce"),
        ({"name": "mesh2d", "rows": 2, "columns": 4, "io_controllers": False}, "direct", "all-to-all"),
        ({**FRED, "variant": "D"}, "in-network", "all-reduce"),
        ({**FRED, "variant": "C"}, "hierarchical", "all-reduce"),
        ({"name": "optical-ring", "npus": 8}, "direct", "all-to-all"),
        ({"name": "optical-ring", "npus": 8, "wavelengths": 2}, "direct", "all-to-all"),
        ({"name": "optical-ring", "npus": 8}, "wrht", "all-reduce"),
    ],
)
def test_a_demand_is_what_the_engine_takes_alone(topology: dict[str, Any], algorithm: str, pattern: str) -> None:
    result = alone(topology, algorithm, pattern, 8)
    assert result.demands is not None
    demand = result.demands.of(0, 3)
    assert demand is not None
    assert demand.seconds == pytest.approx(result.seconds, rel=1e-9)
    (carried,) = result.demands.carried(0)
    loads = np.zeros_like(result.link_bytes)
    loads[carried.links] = carried.bytes
    assert loads == pytest.approx(result.link_bytes)
    assert pickle.loads(pickle.dumps(result.demands)).of(0, 3) is None


def test_what_a_transport_takes_is_apart_from_the_latency_of_links() -> None:
    topology = {"name": "cluster", "preset": "dgx-h100", "nodes": 2}
    fabric = {"topology": topology, "transport": "nccl", "collectives": {"default": "ring"}}
    tables = {"fabrics": {"f": fabric}, "workloads": {"w": {"workload": {"name": "microbenchmark", "size": "1 MB"}}}}
    result = FRAMEWORK.run(FRAMEWORK.load_experiment(tables), fidelity="compressed")
    assert result.demands is not None
    demand = result.demands.of(0, 0)
    assert demand is not None
    # 30 steps over two links between nodes, of 500 ns each, and to another rail two of 25 ns inside
    assert demand.latency == pytest.approx(30 * 1.05e-6)
    assert demand.transport > 0
    assert demand.seconds == pytest.approx(result.seconds, rel=1e-9)


def test_nobody_waits_for_the_latency_of_a_phase_that_it_is_only_behind() -> None:
    phases = Phase.of(0, 1, 0), Phase.of(0, 2, 0, behind=(0,)), Phase.of(1, 2, 0, after=(0,))
    schedule = Schedule(Pattern.BROADCAST, 3, 1.0, 1, phases)
    times = [_Time({(0,): 4.0}, latency=2.0), _Time({(1,): 3.0}, transport=1.0), _Time({(1,): 1.0}, latency=0.5)]
    # 4 s of draining, then 3 s and 1 s more; with the latency it would be 6 s and 1.5 s.
    chain = _longest_chain(schedule, times)
    assert (dict(chain.draining), chain.latency, chain.transport) == ({(0,): 4.0, (1,): 3.0}, 0.0, 1.0)


def test_phases_of_a_turn_are_beside_each_other() -> None:
    """A turn of 3 and 4 seconds side by side, one of 1 and then 2, and one of 5: 4 + 3 + 5."""
    phases = [
        Phase.of(0, 1, 0, channel=0, turn=1),
        Phase.of(1, 2, 0, channel=0, turn=1),
        Phase.of(2, 3, 0, channel=0, turn=2),
        Phase.of(3, 0, 0, channel=0, turn=2, after=(2,)),
        Phase.of(3, 2, 0, channel=0),
    ]
    schedule = Schedule(Pattern.BROADCAST, 4, 1.0, 1, phases)
    times = [_Time({(0,): seconds}) for seconds in (3.0, 4.0, 1.0, 2.0, 5.0)]
    assert dict(_busiest_channel(schedule, times).draining) == {(0,): 12.0}
