"""Programs in files: they run as in Python, to the last bit; what was cut, damaged or is something else is refused."""

import ctypes
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from fredfw import Framework, RunResult
from fredfw.errors import InputError, LimitError, SimulationError
from fredfw.fidelities import EXACT, SIMULATED
from fredfw.limits import allowed
from fredfw.simulation import engine

NONE = "program: it is not one that fredfw export-program has written"
MODEL = {"layers": 4, "hidden": 512, "heads": 8, "sequence": 512, "vocabulary": 1000, "mp": 2, "pp": 2, "dp": 2}
ONE = {"name": "one", "workload": {"name": "cnn", "input_bytes": 0}, "npus": 4}
WORKLOADS: dict[str, Any] = {
    "reduce": {"workload": {"name": "microbenchmark", "size": "16 MB"}},
    "training": {"workload": {"name": "cnn", "input_bytes": 0}},
    "model": {"workload": {"name": "transformer", **MODEL}},
    "pair": {"jobs": [ONE, {"name": "other", "workload": "microbenchmark", "npus": 4, "start": "1 ms"}]},
    "loading": {"workload": "cnn"},
}
TORUS = {"topology": {"name": "torus", "dimensions": [4, 2]}, "collectives": {"default": ["ring", "direct"]}}
FRED: dict[str, Any] = {"topology": {"name": "fred", "arity": [4, 2]}}
JITTER = {"distribution": "normal", "deviation": 0.1}


def content(fabric: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"fabrics": {"net": dict(fabric)}, "workloads": WORKLOADS, **more}


def both(tables: dict[str, Any], workload: str, **options: Any) -> tuple[RunResult, bytes]:
    """Return the result of a cell, and the cell as a file."""
    framework = Framework()
    experiment = framework.load_experiment(tables, workloads=[workload])
    return framework.run(experiment, **options), framework.export_program(experiment, **options)


def exported(fabric: Mapping[str, Any], workload: str, **options: Any) -> bytes:
    framework = Framework()
    return framework.export_program(framework.load_experiment(content(fabric), workloads=[workload]), **options)


def read(file: bytes) -> int:
    address: int = engine.library().program_read(len(file), file)
    return address


def refused(file: bytes) -> str:
    with pytest.raises(SimulationError) as error:
        read(file)
    return str(error.value).removeprefix("the engine refuses it: ")


def run(file: bytes) -> tuple[engine.Record, dict[str, bytes]]:
    """Run a file, as a program in C does; return what it records, and the bytes on links by label."""
    code, notice = engine.library(), engine.STRUCTURES["notice"]()
    address = read(file)
    view = engine.STRUCTURES["program"].from_address(address)
    network = code.program_network(address)
    try:
        code.tasks_start(network, ctypes.addressof(view.graph))
        code.begin(network)
        while what := code.step(network, math.inf, 1 << 16, ctypes.byref(notice)):
            assert what == engine.MORE
        counts = np.empty(4, dtype=np.int64)
        code.tasks_count(network, counts.ctypes.data)
        record = engine.Record(view.graph.tasks, *counts[:3].tolist())
        code.tasks_record(network, ctypes.byref(record.view()))
        loads, present = np.zeros((view.labels, view.setting.links)), np.zeros(view.labels, dtype=np.uint8)
        code.link_bytes(network, view.labels, loads.ctypes.data, present.ctypes.data)
        labels = (ctypes.c_char_p * view.labels).from_address(view.label)
        names = [label.decode() for label in labels if label is not None]
        return record, {name: loads[row].tobytes() for row, name in enumerate(names) if present[row]}
    finally:
        code.network_free(network)
        code.program_free(address)


def check(result: RunResult, file: bytes) -> None:
    record, loads = run(file)
    timeline = result.timeline
    assert record.end.tobytes() == timeline.end.tobytes()
    assert record.start.tobytes() == timeline.start.tobytes()
    assert record.task.tolist() == timeline.task.tolist()
    assert record.rank.tolist() == np.concatenate(timeline.ranks).tolist()
    assert loads == {label: bytes_.tobytes() for label, bytes_ in result.link_bytes_by_label.items()}


@pytest.mark.sampled
@pytest.mark.parametrize("fidelity", SIMULATED)
@pytest.mark.parametrize("workload", ["reduce", "training", "model"])
@pytest.mark.parametrize("fabric", [TORUS, {**FRED, "admission": "open"}], ids=["torus", "fred"])
def test_a_program_in_a_file_gives_the_times_of_python(fabric: dict[str, Any], workload: str, fidelity: str) -> None:
    check(*both(content(fabric), workload, fidelity=fidelity))


@pytest.mark.parametrize(
    "fields",
    [
        {"sharing": {"name": "weighted-max-min", "weights": {"dp": 3.0}}},
        {"sharing": "strict-links"},
        {"sharing": "circuit-preempt"},
        {"transport": {"name": "alpha-beta", "launch": "5 us", "step": "1 us"}},
        {"variation": {"jitter": {"distribution": "lognormal", "deviation": 0.1}}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_the_engine_knows_itself_is_in_the_file(fields: dict[str, Any]) -> None:
    check(*both(content({**TORUS, **fields}, priorities=["dp"]), "training", fidelity=EXACT))


def test_jobs_are_one_program_and_equal_programs_equal_bytes() -> None:
    check(*both(content(TORUS), "pair"))
    assert exported(TORUS, "training", routes=True) == exported(TORUS, "training", routes=True)


def test_routes_are_those_of_messages_between_all_npus() -> None:
    result, _ = both(content(TORUS), "reduce")
    address = read(exported(TORUS, "reduce", routes=True))
    view, fabric = engine.STRUCTURES["program"].from_address(address), result.fabric
    npus = fabric.npus
    expected = fabric.defaults.router.route(fabric, np.repeat(npus, len(npus)), np.tile(npus, len(npus)))
    assert (view.npus, view.routes.count) == (len(npus), len(npus) ** 2)
    links = (ctypes.c_int64 * view.routes.pairs).from_address(view.routes.link)
    assert list(links) == expected.links.tolist()
    engine.library().program_free(address)
    address = read(exported(TORUS, "reduce"))
    assert engine.STRUCTURES["program"].from_address(address).routes.count == 0
    engine.library().program_free(address)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (FRED, r"admission: 'circuits' is asked while a program runs.*accepted: open"),
        ({"sharing": "dctcp"}, r"sharing: 'dctcp' gives rates.*accepted: max-min, "),
        ({"events": [{"links": "npu0->npu1", "action": "fail", "at": 1e-6}]}, r"events: links change.*: no events"),
        ({"variation": {"runs": 3, "jitter": JITTER}}, r"variation\.runs: 3 runs are 3 programs.*accepted: 1"),
        (
            {"transport": {"name": "alpha-beta", "launch": "5 us"}},
            r"transport: 'alpha-beta' is asked what each message costs.*accepted: ideal",
        ),
    ],
    ids=["admission", "sharing", "events", "variation", "transport"],
)
def test_what_needs_python_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=rf"fabrics\.net\.{message}"):
        exported({**TORUS, **fields}, "reduce", routes=True)


def test_loads_and_stores_and_too_many_routes_are_refused() -> None:
    what = r"workloads\.loading\.workload: the task '.*' loads or stores"
    with pytest.raises(InputError, match=rf"{what}.*accepted: a workload without loads and stores"):
        exported({**FRED, "admission": "open"}, "loading")
    with allowed({"flows": 63}), pytest.raises(LimitError, match=r"64 flows are too many.*--limit flows=64"):
        exported(TORUS, "reduce", routes=True)


# --- files that are none


@pytest.fixture(scope="module")
def file() -> bytes:
    """A small program with routes."""
    return exported(TORUS, "training", fidelity="exact", routes=True)


def test_what_is_cut_off_or_damaged_is_refused(file: bytes) -> None:
    assert refused(b"") == NONE
    for length in range(1, len(file), 997):
        assert refused(file[:length]).startswith(f"program: it is cut off, after {length} of at least ")
    assert refused(file[:-1]) == f"program: it is cut off, after {len(file) - 1} of at least {len(file)} bytes"
    assert refused(file + b"\0") == f"program: more follows after the {len(file)} bytes that it has"
    for place in range(32, len(file), 499):
        damaged = bytearray(file)
        damaged[place] ^= 1 << place % 8
        assert refused(bytes(damaged)) == "program: it is damaged, as its checksum tells"


def test_what_is_something_else_or_of_another_version_is_refused(file: bytes) -> None:
    for foreign in (b"\x89PNG\r\n\x1a\n" + bytes(100), b"[fabrics]\n", bytes(1000)):
        assert refused(foreign) == NONE
    assert refused(b"fred").startswith("program: it is cut off")
    for version in (0, 2, -1):
        other = file[:8] + struct.pack("<q", version) + file[16:]
        said = f"program: it is of version {version}, and this engine reads version 1: export it again"
        assert refused(other) == said
