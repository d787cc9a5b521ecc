import re
from pathlib import Path
from typing import Any

import pytest

import fredfw_workload_astra_sim_text
from fredfw import File, Framework, System, TaskGraph, TaskKind
from fredfw.errors import InputError
from fredfw.testing import WorkloadTests
from fredfw_workload_astra_sim_text import AstraSimText

SYSTEM = System(npus=8)
FOLDER = Path(__file__).parent
LAYER = "{name} -1 {f} {fc} {fb} {i} {ic} {ib} {w} {wc} {wb} {u}"


def layer(name: str = "a", **given: Any) -> str:
    values = {"f": 1000, "i": 2000, "w": 3000, "fc": "NONE", "ic": "NONE", "wc": "NONE"}
    return LAYER.format(name=name, **{"fb": 8, "ib": 8, "wb": 8, "u": 0, **values, **given})


class TestAstraSimText(WorkloadTests):
    plugin = fredfw_workload_astra_sim_text
    workloads = (
        AstraSimText(file=File.at(FOLDER / "experts.txt"), passes=2),
        AstraSimText(file=File.at(FOLDER / "data.txt")),
    )


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(first: str, *lines: str, count: object = None) -> Path:
        path = tmp_path / "workload.txt"
        text = "\n".join([first, str(len(lines) if count is None else count), *lines])
        path.write_text(f"{text}\n", encoding="utf-8")
        return path

    return write


def graph(path: Path, **fields: Any) -> TaskGraph:
    return AstraSimText(file=path, **fields).graph(SYSTEM)  # type: ignore[arg-type]  # its converter makes a File


def tables(found: TaskGraph) -> list[Any]:
    """Return the groups of each collective."""
    return [found.tables[found.members[task]].tolist() for task in range(len(found)) if found.patterns[task]]


def tasks(found: TaskGraph) -> list[str]:
    """Return each task, and behind it those it waits for."""
    before = [", ".join(found.names[one] for one in sorted(found.after(task))) for task in range(len(found))]
    return [f"{name} < {those}".removesuffix(" < ") for name, those in zip(found.names, before, strict=True)]


def test_data_parallel_passes_overlap_weight_gradients_with_the_backward_pass(write: Any) -> None:
    path = write("DATA", layer("a", wc="ALLREDUCE", u=7), layer("b", wc="ALLREDUCE"))
    backward = [
        *("b weights < b forward", "b weights all-reduce < b weights", "b inputs < b weights", "a weights < b inputs"),
        *("a weights all-reduce < a weights", "a weights all-reduce update < a weights all-reduce"),
    ]
    assert tasks(graph(path, passes=2)) == [
        *("a forward", "b forward < a forward", *backward),
        # The second pass waits for the weights of each layer where it comes to it.
        *("a forward < a weights, a weights all-reduce update", "b forward < b weights all-reduce, a forward"),
        *backward,
    ]


def test_times_are_nanoseconds_and_the_size_of_an_all_gather_the_share_of_a_rank(write: Any) -> None:
    path = write("DATA", layer(u=7, wc="ALLREDUCE"))
    found = graph(path)
    assert found.seconds[found.kinds == TaskKind.COMPUTE].tolist() == pytest.approx([1e-6, 3e-6, 7e-9])
    assert graph(path, time_unit="1 us").seconds[0] == pytest.approx(1e-3)
    found = graph(write("MODEL", layer(fc="ALLGATHER", fb=100, ic="REDUCESCATTER", ib=800)))
    sizes = {str(pattern): size for pattern, size in zip(found.patterns, found.bytes.tolist(), strict=True) if pattern}
    assert sizes == {"all-gather": 800.0}  # that of the input gradients of the first layer is not needed
    assert found.tables[found.members[1]].tolist() == [list(range(8))]


def test_hybrid_groups_are_consecutive_for_the_model_strided_for_data_and_of_their_own_for_experts(write: Any) -> None:
    lines = [layer(fc="ALLREDUCE", wc="ALLREDUCE")]
    model, data = [[0, 1], [2, 3], [4, 5], [6, 7]], [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert tables(graph(write("HYBRID_DATA_MODEL", *lines), model_group=2)) == [model, data]
    assert tables(graph(write("HYBRID_MODEL_DATA", *lines), model_group=2)) == [data, model]
    with pytest.raises(InputError, match="model_group: HYBRID_DATA_MODEL splits ranks by the first dimension"):
        graph(write("HYBRID_DATA_MODEL", *lines))
    first = "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 2 pp: 1 all_gpus: 8"
    found = graph(write(first, layer(fc="ALLTOALL_EP", ic="ALLREDUCE", wc="ALLREDUCE_DP_EP")))
    experts, model = [[0, 2], [1, 3], [4, 6], [5, 7]], [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert tables(found) == [experts, model, [[0, 4], [1, 5], [2, 6], [3, 7]]]
    assert found.label_names == ("compute", "ep", "mp")


def test_transformers_wait_for_input_gradients_before_weight_gradients(write: Any) -> None:
    first = "HYBRID_TRANSFORMER model_parallel_NPU_group: 8"
    assert tasks(graph(write(first, layer(ic="ALLREDUCE", wc="ALLREDUCE")))) == [
        *("a forward", "a inputs < a forward", "a inputs all-reduce < a inputs"),
        *("a weights < a inputs all-reduce", "a weights all-reduce < a weights"),
    ]


def test_layers_are_computed_again_from_the_checkpoint_before_or_wait_for_both_gradients(write: Any) -> None:
    first = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 checkpoints: 1 0 checkpoint_initiates: 1 2"
    names = graph(write(first, layer("a"), layer("b"), layer("c"))).names
    assert list(names)[3:6] == ["a forward", "b forward", "c inputs"]
    found = tasks(graph(write("MODEL", layer("a"), layer("b", ic="ALLREDUCE"))))
    assert {"b weights < b inputs", "a inputs < b inputs all-reduce, b weights"} <= set(found)


def test_the_embeddings_of_dlrm_run_beside_the_bottom_layers(write: Any) -> None:
    lines = [layer("e", fc="ALLTOALL", ic="ALLTOALL", f=0), layer("b"), layer("t")]
    found = tasks(graph(write("HYBRID_DLRM 1", *lines)))
    expected = {"b forward", "t forward < e forward all-to-all, b forward", "e inputs all-to-all < t inputs"}
    assert expected <= set(found)


def test_inference_has_no_backward_pass_and_micro_one_collective(write: Any) -> None:
    path = write("DISTRIBUTED_INFERENCE", layer(), layer("b"))
    assert list(graph(path, passes=2).names) == ["a forward", "b forward"] * 2
    path = write("MICRO", layer(wc="ALLTOALL"), layer("b", wc="ALLTOALL"))
    assert list(graph(path).names) == ["a weights all-to-all"]
    (note,) = AstraSimText(file=path).notes(SYSTEM)
    assert note == "MICRO runs the first layer alone; 1 more are passed over"


def test_stages_run_the_same_layers_and_their_messages_are_missing(write: Any) -> None:
    first = "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 pp: 2 all_gpus: 8"
    path = write(first, layer(wc="ALLREDUCE"))
    workload = AstraSimText(file=path)
    found = workload.graph(SYSTEM)
    assert found.tables[found.members[-1]].tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert [workload.labels(SYSTEM)[one].priority for one in ("mp", "ep", "dp")] == [0, 1, 2]
    assert workload.omissions(SYSTEM) == ("messages between the 2 pipeline stages are not in the file",)


def test_a_file_of_simai_runs_in_the_time_of_its_formula(write: Any) -> None:
    first = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 8 ga: 1 all_gpus: 8"
    first += " checkpoints: 0 checkpoint_initiates: 0"
    path = write(first, layer(f=556_000, fc="ALLREDUCE", fb=16 << 20, i=1, w=1, u=1))
    framework = Framework()
    torus = framework.topology("torus", dimensions=[8], link_bandwidth="100 GB/s", link_latency="0 s").build()
    result = framework.simulate_graph(graph(path), torus, collectives={"default": "ring"})
    ring = 2 * 7 / 8 * (16 << 20) / 100e9  # one direction
    assert result.seconds == pytest.approx(556e-6 + ring + 3e-9, rel=1e-9)


@pytest.mark.parametrize(
    ("first", "lines", "message"),
    [
        ("TENSOR", [layer()], "line 1: 'TENSOR' is not a keyword of parallelism (accepted: DATA, MODEL, "),
        ("DATA", ["a -1 1000"], "line 3: has 3 columns (accepted: 12: "),
        ("DATA", [layer(f=-1)], "line 3: '-1' is not a number"),
        ("DATA", [layer(wc="ALLREDUCE_TP")], "line 3: 'ALLREDUCE_TP' is not a collective"),
        ("HYBRID_TRANSFORMER ep: x", [layer()], "line 1: 'x' is not a number"),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 3", [layer()], "8 ranks cannot be split in 3 x 1 x 1"),
        ("HYBRID_TRANSFORMER_FWD_IN_BCKWD checkpoints: 1 4", [layer()], "line 1: checkpoints: there is no layer 4"),
        ("HYBRID_CUSTOMIZED", [layer()], "line 3: has 12 columns (accepted: 13: "),
    ],
)
def test_bad_input_names_the_line(first: str, lines: list[str], message: str, write: Any) -> None:
    with pytest.raises(InputError, match=rf"workload\.txt: .*{re.escape(message)}"):
        graph(write(first, *lines))
    for count in (2, 0, "many"):
        with pytest.raises(InputError, match="line 2: "):
            graph(write("DATA", layer(), count=count))
