"""Schedules of all installed algorithms as MSCCL files, and back."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import fredfw
from fredfw.errors import UnsupportedError
from fredfw.typing import FloatArray
from fredfw_collective_msccl import MscclExporter
from fredfw_collective_msccl.reading import read
from fredfw_collective_msccl.writing import written

_SIZE = 9 * 5 * 7 * 11 * 13 * 2.0**12
# Fewer pieces than by default, which would take long.
_OPTIONS = {"forest": {"pieces": 1}, "ring": {"chunks": 3}, "themis": {"chunks": 2}, "tree": {"chunks": 3}}
_IN_TURNS = {"hierarchical", "themis", "torus-ring"}  # algorithms whose phases take turns on channels
_MORE: list[tuple[str, str, dict[str, Any]]] = [
    ("hierarchical", "all-reduce", {"chunks": 2, "orders": "opposite"}),
    ("ring", "all-reduce", {"rotated": True}),
    ("tree", "all-reduce", {"shape": "double-binary", "chunks": 4}),
]
_NETWORKS: dict[str, dict[str, Any]] = {"torus": {"dimensions": [2, 4]}, "switch": {"npus": 8, "in_network": True}}
_NETWORKS["optical-ring"] = {"npus": 8}


_FRAMEWORK = fredfw.Framework()


@cache
def _fabric(name: str) -> fredfw.Fabric:
    return _FRAMEWORK.topology(name, **_NETWORKS[name]).build()


def _cases() -> Iterator[Any]:
    """Yield all that algorithms do; all but one case of each are slow."""
    seen = set()
    for name in _FRAMEWORK.plugins.collectives.names():
        cls, options = _FRAMEWORK.plugins.collectives.get(name), _OPTIONS.get(name, {})
        if not cls.__module__.startswith("fredfw_collective_msccl"):
            for pattern in sorted(cls(**options).served_patterns() - {fredfw.Pattern.POINT_TO_POINT}):
                case = name, str(pattern), options
                yield pytest.param(*case, marks=pytest.mark.slow) if name in seen else case
                seen.add(name)
    for one in _MORE:
        yield pytest.param(*one, marks=pytest.mark.slow)


def _result(name: str, pattern: str, fidelity: str = "exact", **options: Any) -> fredfw.CollectiveResult:
    """Return what an algorithm does among 8 NPUs of the first network where it does it."""
    call: dict[str, Any] = {"size": _SIZE, "algorithm": name, "fidelity": fidelity}
    call["root"] = 3 if fredfw.Pattern(pattern).rooted else 0
    for network in _NETWORKS:
        with suppress(UnsupportedError):
            return _FRAMEWORK.simulate_collective(_fabric(network), pattern, **call, **options)
    raise AssertionError(f"{name} does {pattern} nowhere")


def _again(result: fredfw.CollectiveResult, path: Path, fidelity: str = "exact") -> fredfw.CollectiveResult:
    """Return what comes of ``result`` where it is written to ``path`` and read from there."""
    path.write_text(MscclExporter().export(result), encoding="utf-8")
    call: dict[str, Any] = {"size": result.size, "fidelity": fidelity, "root": result.schedule.root}
    return _FRAMEWORK.simulate_collective(result.fabric, result.pattern, algorithm="msccl", file=str(path), **call)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "pattern", "options"), list(_cases()))
def test_what_goes_from_npu_to_npu_reads_back_and_does_the_same(
    name: str, pattern: str, options: dict[str, Any], tmp_path: Path
) -> None:
    fidelity = "compressed" if name in _IN_TURNS else "exact"
    result = _result(name, pattern, fidelity, **options)
    if name == "in-network" and pattern not in ("all-to-all", "gather", "scatter"):
        with pytest.raises(UnsupportedError, match=r"phase \d is carried out in the network"):
            MscclExporter().export(result)
        return
    again = _again(result, tmp_path / "schedule.xml", fidelity)
    assert np.allclose(_sent(again.schedule), _sent(result.schedule), rtol=1e-12, atol=0)
    if result.fabric is _fabric("optical-ring"):
        return  # which way light goes depends on what else is sent at the same moment
    assert np.allclose(again.link_bytes, result.link_bytes, rtol=1e-12, atol=1e-6)
    # The order of turns is fixed in a file, and is close to what comes about; without turns it is the same.
    assert any(phase.channel >= 0 for phase in result.schedule.phases) == (name in _IN_TURNS)
    assert again.duration == pytest.approx(result.duration, rel=0.2 if name in _IN_TURNS else 1e-9)


def _sent(schedule: fredfw.Schedule) -> FloatArray:
    """Return the ``(ranks, ranks)`` bytes that each rank sends to each other."""
    table = np.zeros((schedule.ranks, schedule.ranks))
    for phase in schedule.phases:
        for repetition in range(phase.repeat):
            np.add.at(table, (phase.source, phase.destination), schedule.row_bytes(phase, repetition))
    return table


def test_steps_keep_within_what_msccls_parser_takes(tmp_path: Path) -> None:
    # A ring broadcast in 70 chunks has 70 sends on each connection.
    fabric = _FRAMEWORK.topology("switch", npus=2).build()
    call: dict[str, Any] = {"algorithm": "ring", "fidelity": "exact", "chunks": 70}
    result = _FRAMEWORK.simulate_collective(fabric, "broadcast", size=_SIZE, **call)
    program = read(MscclExporter().export(result).encode())
    steps = [len(block.steps) for gpu in program.gpus for block in gpu.blocks]
    assert max(steps) <= 64
    assert program.channels > 1
    assert _again(result, tmp_path / "ring.xml").duration == pytest.approx(result.duration, rel=1e-9)


def test_a_step_carries_at_most_71_chunks(tmp_path: Path) -> None:
    # Chunks of 1 and 99 hundredths: pieces of a hundredth.
    phases = [fredfw.Phase.of([0, 1], [1, 0], [1, 0], reduce=True), fredfw.Phase.of([0, 1], [1, 0], [0, 1], after=(0,))]
    schedule = fredfw.Schedule(fredfw.Pattern.ALL_REDUCE, 2, np.array([1.0, 99.0]), 2, phases)
    program = written(schedule, "uneven", "Simple")
    assert program.loop == 100
    counts = sorted({step.count for gpu in program.gpus for block in gpu.blocks for step in block.steps})
    assert counts == [1, 28, 71]


def test_the_protocol_and_the_name_are_written_and_a_size_that_chunks_do_not_divide_is_refused() -> None:
    program = read(MscclExporter(protocol="LL128").export(_result("ring", "all-reduce")).encode())
    assert (program.name, program.protocol, program.collective) == ("all_reduce_ring_8", "LL128", "allreduce")
    assert (program.loop, program.in_place, program.out_of_place) == (8, True, False)
    fabric = _FRAMEWORK.topology("switch", npus=4).build()
    result = _FRAMEWORK.simulate_collective(fabric, "all-reduce", size=7, algorithm="ring")
    message = r"7 bytes cannot be divided into the 4 chunks of the file \(accepted: a multiple of 4 bytes"
    with pytest.raises(UnsupportedError, match=message):
        MscclExporter().export(result)


_SEND = fredfw.Phase.of(0, 1, 0)
_pair = partial(evolve, fredfw.Schedule(fredfw.Pattern.BROADCAST, 2, 8.0, 1, [_SEND]))


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (_pair(pattern=fredfw.Pattern.POINT_TO_POINT), "MSCCL has no point-to-point"),
        (_pair(proof="author"), "the phases of its schedule do not say all that happens"),
        (_pair(chunk_bytes=0.0), "it sends nothing"),
        (
            _pair(chunk_bytes=np.array([1.0, np.pi]), chunks=2, phases=[fredfw.Phase.of(0, 1, 0, count=2)]),
            "its chunks are not made of 32768 equal pieces or fewer",
        ),
        (_pair(phases=[_SEND] * 33), "it needs more than 32 channels from rank 0 to rank 1"),
        (_pair(phases=[]), "as threadblocks it does not do the same: GPU 1: no step puts it there"),
    ],
)
def test_what_has_no_form_is_refused_with_the_reason(schedule: fredfw.Schedule, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        written(schedule, "pair", "Simple")
