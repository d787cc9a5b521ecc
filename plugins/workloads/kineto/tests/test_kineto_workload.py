import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fredfw_workload_kineto
from fredfw import Files, Framework, Pattern, System, TaskGraph, TaskKind
from fredfw.errors import InputError
from fredfw.testing import WorkloadTests
from fredfw_workload_kineto import Kineto, uncovered

Event = dict[str, Any]
Write = Callable[..., str]
SYSTEM = System(npus=16)
HERE = Path(__file__).parent
DDP = [str(HERE / f"ddp.{rank}.json") for rank in (0, 1)]
_PLACES = (parent / "shared" / "samples" / "kineto" for parent in HERE.parents)
SAMPLES = next((one for one in _PLACES if one.is_dir()), Path("samples"))


class TestKineto(WorkloadTests):
    plugin = fredfw_workload_kineto
    workloads = (
        Kineto(traces=Files.at(DDP)),
        Kineto(traces=Files.at(DDP), step=3, order="observed", host=False),
        Kineto(traces=Files.at(DDP[0]), replicate=True),
    )


def event(category: str, name: str, start: float, duration: float, **args: Any) -> Event:
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "args": args}


def kernel(name: str, start: float, duration: float, stream: int = 7, **args: Any) -> Event:
    return event("kernel", name, start, duration, stream=stream, **args)


def call(name: str, start: float, duration: float, elements: int = 1000, stream: int = 20, **args: Any) -> Event:
    """Make a communication kernel; ``args`` are PyTorch's, with _ for blanks where Python needs them."""
    sizes = {"In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float", "Group size": 2}
    group = {"Name": "0", "Description": "default_pg", "Ranks": "[0, 1]"}
    known = sizes | {f"Process Group {key}": value for key, value in group.items()}
    known |= {key.replace("_", " "): value for key, value in args.items()}
    return kernel(f"ncclDevKernel_{name}", start, duration, stream, **{"Collective name": name, **known})


def step(number: int, start: float, duration: float) -> Event:
    return event("user_annotation", f"ProfilerStep#{number}", start, duration)


def launch(correlation: int, start: float) -> Event:
    return event("cuda_runtime", "cudaLaunchKernel", start, 1, correlation=correlation)


def wait(stream: int, correlation: int, on: int, record: int) -> Event:
    """Make a wait of a stream for an event that was recorded on another one."""
    told = {"stream": stream, "correlation": correlation, "wait_on_stream": on}
    return event("cuda_sync", "Stream Wait Event", 0, 0, **told, wait_on_cuda_event_record_corr_id=record)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a trace and return its path."""

    def make(events: list[Event], rank: int | None = 0, world: int | None = 2, **head: Any) -> str:
        known = {key: value for key, value in (("rank", rank), ("world_size", world)) if value is not None}
        path = tmp_path / f"trace.{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps({"distributedInfo": {**known, **head}, "traceEvents": events}), encoding="utf-8")
        return str(path)

    return make


def of(*paths: str, **fields: Any) -> Kineto:
    return Kineto(traces=Files.at(list(paths)), **fields)


def graph(*paths: str, **fields: Any) -> TaskGraph:
    return of(*paths, **fields).graph(SYSTEM)


def tasks(found: TaskGraph, rank: int = 0) -> str:
    """Return the tasks of ``rank``: names, microseconds of computations, and names of what comes before."""
    own = [task for task in range(len(found)) if rank in found.participants(task)]
    listed = []
    for task in own:
        before = sorted(found.names[one] for one in found.after(task).tolist() if one in own)
        seconds = found.seconds[task] if found.kinds[task] == TaskKind.COMPUTE else 0.0
        listed.append((found.names[task], round(1e6 * float(seconds), 6), before))
    return "; ".join(
        name + (f" {micros:g}" if micros else "") + (f" ({', '.join(before)})" if before else "")
        for name, micros, before in sorted(listed)
    )


def simulated(workload: Kineto, rate: str) -> Any:
    """Run an iteration where two ranks share links of that rate."""
    framework = Framework()
    fabric = framework.topology("switch", npus=2, link_bandwidth=rate, link_latency="0 s").build()
    return framework.simulate_graph(workload.graph(SYSTEM), fabric, collectives={"default": "ring"})


def test_a_collective_waits_for_what_was_computed_and_what_had_to_wait_waits_for_it() -> None:
    found = graph(*DDP, step=3)
    assert found.ranks == 2
    # The gap of 2 us belongs to the backward pass; the first all-reduce begins with it, 8 us after layer 2.
    assert tasks(found) == (
        "all-reduce (all-reduce, computation); all-reduce (backward of layer 2); "
        "backward of layer 2 300 (host); computation 302 (backward of layer 2); "
        "host 3 (all-reduce, computation); host 37 (optimizer); host 50; optimizer 100 (host)"
    )
    sizes = [float(found.bytes[task]) for task in range(len(found)) if found.kinds[task] == TaskKind.COLLECTIVE]
    assert sizes == [4e6, 2e6]
    assert found.label_names == ("host", "compute", "default_pg")


def test_a_trace_that_takes_as_long_for_communication_takes_as_long_in_all(write: Write) -> None:
    events = [
        kernel("forward", 1000, 100),
        call("allreduce", 1100, 50, 50_000),
        kernel("backward", 1152, 200),
        call("allreduce", 1200, 400, 400_000),
        kernel("optimizer", 1604, 30),
    ]
    workload = of(write(events), replicate=True)
    # Two ranks send half of 4 bytes per element twice: 4 B per us is 1 element per us.
    # Faster communication ends before the computation beside it; then the host's 48 us count from there.
    for rate, micros in (("4 GB/s", 634), ("2 GB/s", 634 + 50 + 400), ("400 GB/s", 100 + 0.5 + 2 + 200 + 4 + 30)):
        assert 1e6 * simulated(workload, rate).seconds == pytest.approx(micros, rel=1e-9)


def test_the_notes_have_what_was_measured(write: Write) -> None:
    events = [kernel("a", 0, 100), call("allreduce", 50, 100, 1000), kernel("b", 151, 49)]
    events.append(kernel("c", 160, 10, stream=8))
    notes = of(write(events), replicate=True).notes(SYSTEM)
    assert notes[0] == "1 of 2 ranks have no trace: they do what rank 0 does (replicate = true)"
    assert notes[1] == ("measured on rank 0: 0.2 ms, communication 0.1 ms, 0.05 ms of it while no other kernel ran")
    assert any("without stream-wait events" in note for note in notes)


def test_uncovered_time_is_that_of_the_simulated_iteration_and_the_host_covers_nothing(write: Write) -> None:
    result = simulated(of(*DDP, host=False), "10 GB/s")
    # 4 MB take 400 us beside 302 (322 on rank 1) us of computation, and 2 MB take 200 us beside nothing.
    assert 1e6 * uncovered(result.timeline, 0) == pytest.approx(400 - 302 + 200, rel=1e-9)
    assert 1e6 * uncovered(result.timeline, 1) == pytest.approx(400 - 322 + 200, rel=1e-9)
    events = [kernel("a", 0, 10), call("allreduce", 10, 50, 50), kernel("b", 100, 10), kernel("c", 300, 1)]
    result = simulated(of(write(events), replicate=True), "4 GB/s")
    assert 1e6 * uncovered(result.timeline) == pytest.approx(0.05, rel=1e-9)


A = kernel("a", 0, 100)
APART = [A, call("allreduce", 500, 100, 100), kernel("b", 1000, 50)]
GAP = [A, kernel("b", 130, 50), call("allreduce", 180, 10)]
BESIDE = [A, call("allreduce", 100, 40), kernel("b", 102, 98), kernel("c", 203, 100)]
LAUNCHED = [launch(number, number) for number in range(1, 9)]


@pytest.mark.parametrize(
    ("events", "fields", "expected"),
    [
        # Without the host gaps take no time, and those below a given one are computation.
        (APART, {}, "a 100; all-reduce (host); b 50 (host); host 400 (a); host 500 (host)"),
        (APART, {"host": False}, "a 100; all-reduce (a); b 50 (a)"),
        (GAP, {}, "a 100; all-reduce (b); b 50 (host); host 30 (a)"),
        (GAP, {"gap": "31 us"}, "a 180; all-reduce (a)"),
        # Streams that compute are one chain.
        ([A, kernel("b", 50, 100, stream=8), call("allreduce", 150, 10)], {}, "a 150; all-reduce (a)"),
        # What follows on the stream of a collective waits for it. It began 90 us later, which says nothing by itself.
        (
            [
                *(kernel("a", 0, 100, stream=20), kernel("b", 100, 200)),
                *(call("allreduce", 100, 10, stream=20), kernel("c", 200, 100, stream=20)),
            ],
            {},
            "a 100; all-reduce (a); b 100 (a); c 100 (all-reduce, b)",
        ),
        # The order observed is stricter.
        (BESIDE, {}, "a 100; all-reduce (a); computation 203 (a)"),
        (BESIDE, {"order": "observed"}, "a 100; all-reduce (a); c 100 (all-reduce, computation); computation 103 (a)"),
        # An event is recorded after a (2), and the stream of communication is told to wait for it (3); the end of the
        # all-reduce is recorded (6), and computation waits for it (7), although it ended long ago.
        (
            [
                *(*LAUNCHED, kernel("a", 10, 100, correlation=1), wait(20, 3, 7, 2)),
                *(kernel("b", 110, 200, correlation=4), call("allreduce", 112, 50, correlation=5)),
                *(wait(7, 7, 20, 6), kernel("c", 310, 100, correlation=8)),
            ],
            {},
            "a 100; all-reduce (a); b 200 (a); c 100 (all-reduce, b)",
        ),
        # The first collective was launched before b. The second one began before the end of b, after which it was
        # launched: it cannot have waited for it, so the time at which it began decides.
        (
            [
                *(*LAUNCHED[:4], kernel("a", 10, 100, correlation=1), call("allreduce", 112, 185, correlation=2)),
                *(kernel("b", 111, 500, correlation=3), call("allreduce", 300, 50, correlation=4)),
                *(kernel("c", 611, 10, correlation=5), launch(5, 400)),
            ],
            {},
            "a 100; all-reduce (a); all-reduce (all-reduce, computation); computation 190 (a); "
            "computation 321 (computation)",
        ),
        # What nothing waits for is waited for at the end of a step.
        (
            [step(1, 0, 200), *BESIDE[:3], step(2, 200, 100), kernel("c", 250, 50)],
            {},
            "a 100; all-reduce (a); c 50 (host); computation 100 (a); host 50 (all-reduce, computation)",
        ),
        # One step is what the host launched in it. The GPU is behind the host: it begins for it at the end of a.
        (
            [
                *(step(1, 0, 100), step(2, 100, 100), launch(1, 50), launch(2, 120), launch(3, 130)),
                *(kernel("a", 60, 100, correlation=1), kernel("b", 160, 100, correlation=2)),
                call("allreduce", 260, 40, correlation=3),
            ],
            {"step": 2},
            "all-reduce (b); b 100",
        ),
    ],
)
def test_what_waits_for_what(write: Write, events: list[Event], fields: dict[str, Any], expected: str) -> None:
    workload = of(write(events), replicate=True, **fields)
    assert tasks(workload.graph(SYSTEM)) == expected
    waits = any(event["cat"] == "cuda_sync" for event in events)
    assert any("without stream-wait events" in note for note in workload.notes(SYSTEM)) != waits
    both = "one iteration is all 2 steps of the traces, 1 to 2" in workload.notes(SYSTEM)
    assert both == (sum(event["name"].startswith("ProfilerStep") for event in events) == 2 and "step" not in fields)


@pytest.mark.parametrize(
    ("names", "inside", "outside", "pattern", "size"),
    [
        ("allreduce allreduce_coalesced", 10, 10, Pattern.ALL_REDUCE, 40),
        ("barrier", 1, 1, Pattern.ALL_REDUCE, 0),
        ("broadcast _broadcast_oop", 10, 10, Pattern.BROADCAST, 40),
        ("reduce", 10, 10, Pattern.REDUCE, 40),
        ("all_gather _allgather_base all_gather_into_tensor", 10, 20, Pattern.ALL_GATHER, 80),
        ("allgather_into_tensor_coalesced", 10, 20, Pattern.ALL_GATHER, 80),
        ("reduce_scatter _reduce_scatter_base", 20, 10, Pattern.REDUCE_SCATTER, 80),
        ("reduce_scatter_tensor_coalesced", 20, 10, Pattern.REDUCE_SCATTER, 80),
        ("all_to_all", 10, 10, Pattern.ALL_TO_ALL, 40),
        # What a rank has alone of a gather: the root has it twice.
        ("gather", 10, 0, Pattern.GATHER, 80),
        ("scatter", 0, 10, Pattern.SCATTER, 80),
    ],
)
def test_collectives_and_their_sizes(
    write: Write, names: str, inside: int, outside: int, pattern: Pattern, size: float
) -> None:
    for name in names.split():
        found = graph(write([call(name, 0, 10, In_msg_nelems=inside, Out_msg_nelems=outside)]), replicate=True)
        assert (found.patterns, found.bytes.tolist()) == ((pattern,), [size]), name


def test_a_process_group_is_not_called_as_computation_is(write: Write) -> None:
    for name, label in (("compute", "group compute"), ("", "group without a name")):
        event = call("allreduce", 0, 10, Process_Group_Name=name, Process_Group_Description="")
        assert graph(write([event]), replicate=True).label(0) == label


@pytest.mark.parametrize(("dtype", "size"), [("BFloat16", 20), ("Long", 80), ("Float8_e4m3fn", 10)])
def test_sizes_of_elements(write: Write, dtype: str, size: float) -> None:
    assert graph(write([call("allreduce", 0, 10, 10, dtype=dtype)]), replicate=True).bytes.tolist() == [size]


def test_messages_and_sizes_of_pairs(write: Write) -> None:
    first = write([kernel("a", 0, 10), call("send", 10, 5, 10, Dst_Rank=1)])
    second = write([call("recv", 0, 15, 10, Src_Rank=0), kernel("b", 15, 10)], rank=1)
    found = graph(first, second)
    assert tasks(found, 0) == "a 10; send (a)"
    assert tasks(found, 1) == "b 10 (receive); receive"
    (size,) = found.bytes[found.kinds == TaskKind.SEND].tolist()
    assert size == 40
    first = write([call("all_to_allv", 0, 10, 8, In_split_size="[1, 3]", Out_split_size="[1, 1]")])
    second = write([call("all_to_allv", 0, 10, Out_msg_nelems=8, In_msg_nelems=4, In_split_size="[1, 1]")], rank=1)
    found = graph(first, second)
    assert found.split_tables[int(found.splits[0])].tolist() == [[[8.0, 24.0], [8.0, 8.0]]]


def test_arguments_may_be_on_the_operation_of_the_host(write: Write) -> None:
    recorded = call("allreduce", 0, 1, 10)
    recorded |= {"cat": "cpu_op", "name": "record_param_comms"}
    recorded["args"]["External id"] = 5
    nccl = kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 10, 20, stream=20, **{"External id": 5})
    lost = kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 40, 20, stream=20)
    workload = of(write([recorded, nccl, lost]), replicate=True)
    assert workload.graph(SYSTEM).bytes.tolist() == [40.0]
    assert workload.omissions(SYSTEM) == ("1 communication kernels are left out: the traces have no sizes of them",)


@pytest.mark.parametrize(
    ("args", "head"),
    [
        ({"Process Group Ranks": "[0, 1, ...]"}, {"pg_config": [{"pg_name": "0", "ranks": [0, 2]}]}),
        ({"Process Group Ranks": "[0, 1, ...]", "Global rank start": 0, "Global rank stride": 2}, {}),
        ({"Process Group Ranks": "[0, 2]"}, {}),
    ],
)
def test_the_ranks_of_a_group_are_found(write: Write, args: dict[str, Any], head: dict[str, Any]) -> None:
    one = call("allreduce", 0, 10)
    one["args"] |= args
    found = graph(write([one], world=4, **head), replicate=True)
    assert sorted(found.participants(task).tolist() for task in range(len(found))) == [[0, 2], [1, 3]]


def test_copies_have_groups_of_their_own(write: Write) -> None:
    tensor = call("allreduce", 0, 10, Process_Group_Name="1", Process_Group_Description="tp")
    dp: dict[str, Any] = {"Process_Group_Name": "2", "Process_Group_Description": "dp", "Process_Group_Ranks": "[0, 2]"}
    data = call("allreduce", 20, 10, 7, **dp)
    workload = of(write([tensor, data], world=4), replicate=True)
    found = workload.graph(SYSTEM)
    groups = [(found.label(task), found.participants(task).tolist()) for task in range(len(found))]
    assert sorted(groups) == [("dp", [0, 2]), ("dp", [1, 3]), ("tp", [0, 1]), ("tp", [2, 3])]
    assert workload.mesh(SYSTEM).ranks == 4


def test_ranks_without_a_number_are_in_the_order_of_the_files_which_are_recognised(write: Write) -> None:
    paths = [write([call("allreduce", 0, 10 * rank)], rank=None, world=None) for rank in (1, 2)]
    assert [info.rank for info in of(*paths).info()] == [0, 1]
    assert graph(*paths).ranks == 2
    head = (HERE / "ddp.0.json").read_bytes()
    assert Kineto.recognises("any.json", head)
    assert not Kineto.recognises("gpt.0.et", b"\x0a\x05")
    assert not Kineto.recognises("feeder.json", b'{"workload_graph": []}')


def test_info_says_what_a_file_holds(write: Write) -> None:
    copy = kernel("Memcpy DtoD", 200, 5) | {"cat": "gpu_memcpy"}
    (info,) = of(write([kernel("a", 0, 100), call("allreduce", 50, 100, 10), copy])).info()
    assert info.rank == 0
    assert info.nodes == {"kernel": 1, "communication": 1, "copy": 1}
    assert info.seconds == pytest.approx({"kernel": 100e-6, "communication": 100e-6, "copy": 5e-6})
    (calls,) = info.calls
    assert (calls.operation, calls.communicator, calls.count, calls.bytes) == ("all-reduce", "0", 1, 40.0)
    assert info.communicators == {"0": (0, 1)}
    assert info.facts["communication not covered by kernels (s)"] == pytest.approx(50e-6)
    assert info.notes == ("no stream-wait events (enable_cuda_sync_events)",)


def message(paths: list[str], **fields: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        of(*paths, **fields).graph(SYSTEM)
    assert caught.value.accepted
    return caught.value


KERNEL = b'{"ph": "X", "cat": "kernel", "name": "a", "ts": 1, "dur": 1}'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is not JSON, or is cut off: Expecting value"),
        (b"[" * 100_000, "is not JSON, or is cut off: "),
        (b"7", "is not an object with a list of events"),
        (b'{"nodes": []}', "traceEvents: there is no list of events"),
        (b'{"traceEvents": [7]}', "traceEvents: 7 is not an event"),
        (b'{"traceEvents": []}', "traceEvents: no event is of a GPU"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "a", "ts": "x", "dur": 1}]}', "has the ts 'x'"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "a", "ts": NaN, "dur": 1}]}', "has the ts nan"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "a", "ts": 1, "dur": -1}]}', "has the dur -1"),
        (
            b'{"traceEvents": [%s], "distributedInfo": {"rank": "0"}}' % KERNEL,
            "distributedInfo.rank: '0' is not a number",
        ),
        (b'{"traceEvents": [%s]}' % KERNEL, "no collectives: no communication kernel has a 'Collective name'"),
    ],
)
def test_what_is_not_a_trace_is_refused(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    error = message([str(path)])
    assert str(error).startswith(str(path))
    assert text in str(error)


def wrong(**args: Any) -> list[Event]:
    return [call("allreduce", 0, 10, **args)]


@pytest.mark.parametrize(
    ("events", "world", "fields", "said"),
    [
        (wrong(Collective_name="allredooce"), None, {}, "the collective 'allredooce' is not known"),
        (wrong(In_msg_nelems="many"), None, {}, "a allreduce has 'In msg nelems' of 'many'"),
        (wrong(dtype="Quarter"), None, {}, "the dtype 'Quarter' is not known"),
        (wrong(Process_Group_Ranks="[0, 1, ...]", Group_size=8), None, {}, "the ranks of the process group '0' are"),
        (wrong(Process_Group_Ranks="[1, 1]"), None, {}, "the ranks of the process group '0' are not in the file"),
        (wrong(Collective_name="send"), None, {}, "a send has no 'Dst Rank'"),
        (wrong(device=0) + wrong(device=1), 2, {}, "communication runs on the GPUs 0, 1"),
        ([step(4, 0, 10), *wrong()], 2, {"step": 7}, "there is no ProfilerStep#7 (accepted: 4)"),
        (wrong(), 2, {"step": 7}, "no steps are marked"),
        ([call("send", 0, 10, Dst_Rank=1)], 2, {}, "replicate: rank 1 cannot do what rank 0 does, which sends"),
        (wrong(Process_Group_Ranks="[0, 3]"), 5, {}, "replicate: the group [0, 3] has no like"),
    ],
)
def test_what_is_not_there_or_has_no_like_is_refused(
    write: Write, events: list[Event], world: int | None, fields: dict[str, Any], said: str
) -> None:
    assert said in str(message([write(events, world=world)], replicate=True, **fields))


def test_missing_ranks_are_refused(write: Write) -> None:
    path = write(wrong())
    assert "traces: there are traces of rank 0, and none of rank 1" in str(message([path]))
    assert "is of rank 0, as" in str(message([path, write(wrong())]))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="there are no samples beside the checkout")
def test_a_sample_is_replayed() -> None:
    """The trace of 2 A100, of HolisticTraceAnalysis; the numbers were read from its events."""
    workload = of(str(SAMPLES / "hta_nccl_2gpu_reduced.json.gz"), replicate=True)
    found = workload.graph(SYSTEM)
    elements = [53_120, 106, 2_049_000, 7_875_584, 6_563_840, 6_637_568, 2_431_040]  # of 4 bytes
    assert (found.bytes[found.kinds == TaskKind.COLLECTIVE] / 4).tolist() == 3 * elements
    said = "measured on rank 0: 660.6 ms, communication 46.88 ms, 39.19 ms of it while no other kernel ran"
    assert said in workload.notes(SYSTEM)
    result = simulated(workload, "6.56 GB/s")  # the rate at which 306.7 MB took 46.8 ms
    assert 1e3 * uncovered(result.timeline) == pytest.approx(39.2, rel=0.02)
    assert 1e3 * result.seconds == pytest.approx(660.6, rel=0.003)
