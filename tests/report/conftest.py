"""Small results made by hand, whose numbers can be checked by eye."""

from typing import Any

import numpy as np
import pytest
from attrs import evolve

from fredfw import Comparison, RunResult
from fredfw.collectives import Pattern, Schedule
from fredfw.experiment.results import CollectiveResult, CollectiveSweep, Row, Saving, SavingClaim, SavingGroup, Status
from fredfw.experiment.study.results import Objective, RungCount, StudyPoint, StudyResult
from fredfw.fabric import Fabric, NodeKind
from fredfw.simulation import Bound
from fredfw.simulation.record import Timeline
from fredfw.workloads import GraphBuilder


def _row(workload: str, fabric: str, status: Status, **parts: float) -> Row:
    seconds = sum(parts.values())
    published = {"C": 1.25, "D": 2.5}.get(fabric)
    row = Row(
        workload,
        fabric,
        baseline="mesh",
        seconds=seconds,
        speedup=0.02 / seconds,
        reference_speedup=published,
        reference_source="a paper, table 1" if published else None,
        status=status,
        breakdown=parts,
        npus=20,
        colours={"mp": "#D55E00", "dp": "#E69F00"},
        compute_scale=0.5,
    )
    return evolve(row, figures={"wavelengths": 64.0}, notes=("kept outside",)) if fabric == "D" else row


@pytest.fixture
def comparison() -> Comparison:
    rows = (
        _row("net", "mesh", Status.PREDICTED, compute=0.01, bubble=0.0, dp=0.01),
        _row("net", "C", Status.CALIBRATED, compute=0.01, bubble=0.0, dp=0.006),
        _row("net", "D", Status.PREDICTED, compute=0.005, bubble=0.001, dp=0.002),
        _row("other", "mesh", Status.SIMULATED, compute=0.01, zeta=0.005, mp=0.005),
        _row("other", "C", Status.SIMULATED, compute=0.01, zeta=0.005, mp=0.001),
    )
    said = "net on mesh has many transfers"
    made: dict[str, Any] = {"provenance": {"fidelity": "exact"}, "statistics": {"solves": 3}, "approximated": said}
    return Comparison("Two on [three]", "mesh", rows, **made)


@pytest.fixture
def savings() -> tuple[Saving, ...]:
    """One mean, one mean per value, and one per pair of values, of which one is missing."""

    def one(name: str, *groups: SavingGroup, part: str | None = None) -> Saving:
        return Saving(name, "a {x}", "b {x}", ("net",), part, tuple(groups[0].at), groups)

    def group(saving: float, published: float | None = None, **at: object) -> SavingGroup:
        source = "another paper" if published is not None else None
        return SavingGroup(at, saving, saving - 0.1, saving + 0.01, 3, published, source)

    rates = ("40 Gbps", "400 Gbps", "4 Tbps")
    shares = {2: (-0.5, 0.25, 0.875), 64: (-3.0, -1.0, 0.5)}
    cells = [
        group(share, 0.3 if share == 0.25 else None, nodes=nodes, rate=rate)
        for nodes, row in shares.items()
        for rate, share in zip(rates, row, strict=True)
        if share != -3.0
    ]
    return (
        one("all", group(0.368, 0.4)),
        evolve(
            one("each", group(0.5, rate="40 Gbps"), group(-0.079, -0.1, rate="4 Tbps"), part="dp"),
            claims=(SavingClaim(0.2, "a claim", (("40 Gbps", "4 Tbps"),)), SavingClaim(0.7, "a claim")),
        ),
        evolve(one("map", *cells), claims=(SavingClaim(0.9, "a claim"),)),
    )


@pytest.fixture
def pair() -> Fabric:
    """Two NPUs and a switch; the links 0->2, 1->2, 2->0, 2->1 at 100 B/s, but the last at 50 B/s."""
    kinds = [NodeKind.NPU, NodeKind.NPU, NodeKind.SWITCH]
    return Fabric("pair", kinds, [0, 1, 2, 2], [2, 2, 0, 1], [100.0, 100.0, 100.0, 50.0], 0.0, 1e-3)


@pytest.fixture
def run(pair: Fabric) -> RunResult:
    """Both ranks compute for 2 s; then two dp collectives overlap (2 to 4 s, 3 to 5 s); rank 1 computes 1 s more."""
    builder = GraphBuilder(2)
    first = builder.compute("forward", [0, 1], seconds=2.0)
    dp1 = builder.collective("grads 1", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="dp", after=[first])
    more = builder.compute("more", [1], seconds=1.0, after=[first])
    dp2 = builder.collective("grads 2", Pattern.ALL_REDUCE, [[0, 1]], 50.0, label="dp", after=[more])
    both = np.array([0, 1])
    timeline = Timeline(
        graph=builder.build(),
        task=np.array([first, more, dp1, dp2]),
        start=np.array([0.0, 2.0, 2.0, 3.0]),
        end=np.array([2.0, 3.0, 4.0, 5.0]),
        trigger=np.array([-1, 0, 0, 1]),
        ranks=(both, np.array([1]), both, both),
        duration=5.0,
    )
    return RunResult(
        workload="net",
        fabric_name="pair",
        fabric=pair,
        timeline=timeline,
        placement=np.array([1, 0]),
        seconds=5.0,
        breakdown={"compute": 2.5, "bubble": 0.5, "dp": 2.0},
        bytes_by_cause={"dp": 400.0},
        link_bytes=np.array([150.0, 0.0, 150.0, 100.0]),
        energy=0.4,
        memory={"weights": 8e9, "gradients": 0.0},
        algorithms={"dp all-reduce x2": "ring"},
        provenance={"topology": {"name": "pair"}, "fidelity": "exact"},
        statistics={"events": 4},
        figures={"wavelengths": 64.0},
        notes=("a note",),
        link_bytes_by_label={"dp": np.array([60.0, 0.0, 150.0, 100.0]), "mp": np.array([90.0, 0.0, 0.0, 0.0])},
    )


@pytest.fixture
def sweep(pair: Fabric) -> CollectiveSweep:
    def result(size: float, duration: float, **candidates: float) -> CollectiveResult:
        about: dict[str, Any] = {"pattern": "all-reduce", "algorithm": "ring", "ranks": 2, "fidelity": "exact"}
        about |= {"size": size, "duration": duration, "algbw": size / duration, "busbw": size / duration}
        return CollectiveResult(
            **about,
            steps=2,
            link_bytes=np.array([size, size, size, 0.0]),
            link_utilization=np.array([0.5, 0.5, 0.5, 0.0]),
            energy=size * 3e-3,
            bound=Bound(injection=duration / 4, cut=duration / 5, latency=1e-9, seconds=duration / 2.5),
            candidates=candidates,
            figures={"wavelengths": 3.0, "longest arc (m)": size / 3} if candidates else {"wavelengths": 2.0},
            notes=("split",),
            fabric=pair,
            group=np.arange(2),
            schedule=Schedule(Pattern.ALL_REDUCE, 2, size / 2, 2, ()),
        )

    results = result(1e6, 2e-6), result(1e9, 1e-3, ring=1e-3, tree=2e-3)
    return CollectiveSweep(results, pair, {"algorithm": "auto"})


def _point(number: int, seconds: float | None, rank: int | None, **more: Any) -> StudyPoint:
    metrics = {} if seconds is None else {"time": seconds, "memory": 2e9 * seconds, "mfu": 0.5}
    values = {"tp": 2**number, "size": f"{number} GB"}
    common = {"number": number, "workload": "net", "fabric": "mesh", "values": values, "rung": "compressed"}
    return StudyPoint(**{**common, **more}, seconds=seconds, rank=rank, metrics=metrics)


@pytest.fixture
def study() -> StudyResult:
    return StudyResult(
        title="Three [of] four",
        names=("tp", "size"),
        numeric=("tp",),
        objectives=(Objective("time", "s", True),),
        limits={"memory": 5e9},
        combinations=1234,
        size=6,
        points=(
            _point(0, 2.0, 2),
            _point(1, 1.5, 1),
            _point(2, 4.0, None, reason="memory 8 GB is above the limit of 5 GB"),
            _point(3, None, None, reason="needs 90 GB"),
            _point(4, None, None, reason="needs 123 GB"),
            _point(5, None, None, reason="it went wrong", failed=True),
        ),
        rungs=(RungCount("compressed", 6, 3, 4321),),
        sampler={"name": "grid"},
        stored=1,
    )
