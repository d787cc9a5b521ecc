from fredfw import Work
from fredfw.experiment.naming import as_written, fill, listed, placeholders
from fredfw.experiment.results import Throughput


def test_throughput_by_hand_without_what_is_not_known() -> None:
    # 8 samples of 100 tokens in 2 s on 4 NPUs of 1 kFLOP/s, which could compute 8000 FLOP in that time.
    found = Throughput.of(Work(8, tokens=800, model_flops=6000), 2.0, npus=4, peak=1e3, compute_scale=1.0)
    assert found == Throughput(samples_per_second=4.0, tokens_per_second=400.0, mfu=0.75, npu_time=8.0)
    assert Throughput.of(None, 2.0, npus=4, peak=1e3, compute_scale=1.0) == Throughput(npu_time=8.0)
    assert Throughput.of(Work(8), 2.0, npus=4, peak=1e3, compute_scale=1.0) == Throughput(4.0, npu_time=8.0)
    assert Throughput.of(Work(8), 0.0, npus=4, peak=1e3, compute_scale=1.0) == Throughput(npu_time=0.0)
    # NPUs may be taken to be faster than their peak.
    assert Throughput.of(Work(8, model_flops=6000), 2.0, npus=4, peak=1e3, compute_scale=0.99).mfu is None


def test_placeholders_are_filled_once_where_they_are_known_and_long_lists_cut() -> None:
    assert placeholders("Ring {npus} at {line_rate}, {npus}") == ("npus", "line_rate", "npus")
    assert placeholders("}{") == ()
    settings = {"npus": 1024, "line_rate": "40 Gbps"}
    assert fill("Ring {npus} {line_rate} {m} {npus}", settings) == "Ring 1024 40 Gbps {m} 1024"
    # What is filled in is not filled again.
    assert fill("{a}", {"a": "{b}", "b": 1}) == "{b}"
    assert listed(["a", "b"]) == "a, b"
    text = listed([str(number) for number in range(96)])
    assert text.startswith("0, 1, ")
    assert text.endswith("11, ... (96 in all)")
    assert [as_written(value) for value in (2.5, True, ["a", 8, False])] == ["2.5", "true", "[a, 8, false]"]
