from __future__ import annotations

import pytest

from fredfw.errors import InputError
from fredfw.validation.tables import Reading, parse

# As nccl-tests prints it: README of NVIDIA/nccl-tests, and the header of version 2.17.
START = """\
mpirun: a line of the launcher
# Collective test starting: {program}
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid  12345 on     node-a device  0 [0000:07:00] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid  12346 on     node-a device  1 [0000:0a:00] NVIDIA A100-SXM4-80GB
#  Rank  2 Group  0 Pid  54321 on     {other} device  0 [0000:07:00] NVIDIA A100-SXM4-80GB
#  Rank  3 Group  0 Pid  54322 on     {other} device  1 [0000:0a:00] NVIDIA A100-SXM4-80GB
NCCL version 2.29.2+cuda12.8
#
"""
COLUMNS = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
TIMES = """\
     1048576        262144     float     sum      -1    74.21   14.13   21.20      0    70.93   14.78   22.17      0
     2097152        524288     float     sum      -1    98.70   21.25   31.87      0    97.11   21.60   32.39      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 26.9
"""


NO_BUSBW = COLUMNS.replace("busbw", "other")  # for programs whose busbw is not that of TIMES


def output(program: str = "all_reduce_perf", other: str = "node-a", columns: str = COLUMNS, times: str = TIMES) -> str:
    return START.format(program=program, other=other) + columns + times


def test_both_kinds_of_times_are_read() -> None:
    first, second = parse(output(), "mine.log")
    assert (first.system.name, first.nodes, first.ranks, first.pattern) == ("a100-node", 1, 4, "all-reduce")
    assert (first.size, second.size) == (2**20, 2**21)
    assert (first.source, first.library) == ("mine.log", "2.29.2+cuda12.8")
    assert [one.seconds for one in (first, second)] == pytest.approx([74.21e-6, 98.70e-6])
    in_place = parse(output(), "mine.log", Reading(in_place=True))
    assert [one.seconds for one in in_place] == pytest.approx([70.93e-6, 97.11e-6])


def test_a_point_knows_what_its_header_says_where_another_system_is_given() -> None:
    for system, stated in (("h100-node", "A100-SXM4-80GB"), ("a100-node", ""), ("dgx-a100", "")):
        assert parse(output(), "x", Reading(system=system))[0].stated == stated
    unknown = output().replace("A100-SXM4-80GB", "A100-SXM-64GB")
    assert parse(unknown, "x", Reading(system="h100-node"))[0].stated == ""


def test_nodes_are_the_hosts() -> None:
    (point, _) = parse(output(other="node-b"), "x")
    assert (point.system.name, point.nodes, point.ranks) == ("a100-cluster", 2, 4)


def test_hosts_have_as_many_ranks() -> None:
    uneven = output(other="node-b").replace(
        "#  Rank  1 Group  0 Pid  12346 on     node-a", "#  Rank  1 Group  0 Pid  12346 on     node-b"
    )
    with pytest.raises(InputError, match=r"line 15: hosts have from 1 to 3 ranks .accepted: a run with as many ranks"):
        parse(uneven, "x")


def test_the_operation_may_be_given() -> None:
    (point, _) = parse(output("a program", columns=NO_BUSBW), "x", Reading(pattern="broadcast"))
    assert point.pattern == "broadcast"
    with pytest.raises(InputError, match=r"line 15: the output does not say which program .*--pattern"):
        parse(output("a program"), "x")


def test_columns_of_older_versions_are_found_by_their_names() -> None:
    columns = COLUMNS.replace("   redop    root", "").replace("#wrong", "error")
    times = TIMES.replace("     sum      -1", "").replace("      0", "  0e+00")
    assert [one.seconds for one in parse(output(columns=columns, times=times), "x")] == pytest.approx(
        [74.21e-6, 98.70e-6]
    )


def test_several_runs_may_follow_each_other() -> None:
    points = parse(output() + output("all_gather_perf", "node-b", NO_BUSBW), "x")
    assert [(one.pattern, one.nodes) for one in points] == [("all-reduce", 1)] * 2 + [("all-gather", 2)] * 2


def test_a_buffer_that_is_too_small_is_left_out_and_values_that_were_not_checked_are_taken() -> None:
    nothing = TIMES.splitlines(keepends=True)[0].replace("1048576", "      0").replace("262144", "     0")
    assert len(parse(output(times=nothing + TIMES), "x")) == 2
    assert len(parse(output(times=TIMES.replace("      0", "    N/A")), "x")) == 2


@pytest.mark.parametrize(
    ("program", "pattern", "factor"),
    [
        ("all_reduce", "all-reduce", 3 / 2),
        ("all_gather", "all-gather", 3 / 4),
        ("reduce_scatter", "reduce-scatter", 3 / 4),
        ("alltoall", "all-to-all", 3 / 4),
        ("./build/sendrecv", "sendrecv", 1),
        ("reduce", "reduce", 1),
    ],
)
def test_the_program_says_the_operation_and_busbw_belongs_to_it(program: str, pattern: str, factor: float) -> None:
    busbw = f"{2**20 / 74.21e-6 / 1e9 * factor:.2f}"
    line = TIMES.splitlines(keepends=True)[0].replace("21.20", busbw)
    text = output(f"{program}_perf -b 1M", times=line)
    (point,) = parse(text, "x")
    assert (point.ranks, point.pattern) == (4, pattern)
    less = "".join(line for line in text.splitlines(keepends=True) if "Rank  3" not in line and "Rank  2" not in line)
    if factor == 1:
        assert parse(less, "x")[0].ranks == 2
        return
    with pytest.raises(InputError, match=rf"line 13, column busbw_GBps: {busbw} is not that of .* among 2 ranks"):
        parse(less, "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (output(times=TIMES.replace("21.20      0", "21.20     12")), "line 15, column #wrong: '12': values came"),
        (output(times=TIMES.replace("22.17      0", "22.17      1")), "line 15, column #wrong: '1': .*: 0, N/A"),
        (output(columns=COLUMNS.replace("(us)", "(ms)")), r"line 14: the unit 'ms' is not read \(accepted: us\)"),
        (output(times=TIMES.replace("74.21", "-74.21")), "line 15, column time_us: '-74.21' cannot be used"),
        (output(times=TIMES.replace("74.21", "N/A")), "line 15, column time_us: 'N/A' cannot be used"),
        (output(times=TIMES.replace("  74.21", "")), r"line 15: has 12 columns \(accepted: 13"),
        (COLUMNS + TIMES, "line 4: the output does not list its ranks"),
        (output(times=""), "has no measured times"),
    ],
)
def test_output_that_cannot_be_used_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(text, "x")
