from collections import Counter
from pathlib import Path

import pytest

from fredfw.errors import InputError
from fredfw.validation import sources
from fredfw.validation.points import SIZE_CLASSES, CollectivePoint, packaged
from fredfw.validation.sources import read
from fredfw.validation.tables import Reading, parse

HEADER = "system,nodes,ranks,collective,size_B,time_us"
LINE = "H100 node,1,8,all-reduce,1048576,40.5"


def table(*lines: str, header: str = HEADER) -> str:
    return "\n".join([header, *lines]) + "\n"


def refused(text: str, reading: Reading | None = None) -> str:
    with pytest.raises(InputError) as error:
        parse(text, "mine.csv", reading)
    return str(error.value)


def test_a_line_is_a_point_of_a_system_whatever_the_order_of_columns() -> None:
    (point,) = parse(table(LINE), "mine.csv")
    assert (point.system.name, point.system.preset) == ("h100-node", "dgx-h100")
    assert (point.nodes, point.ranks, point.pattern, point.size) == (1, 8, "all-reduce", 2**20)
    assert point.seconds == pytest.approx(40.5e-6)
    assert (point.source, point.where) == ("mine.csv", "line 2")
    header = "notes,time_us,size_B,collective,ranks,ranks_per_node,system,source,library"
    (point,) = parse(table('"a, b",8,1024,all-gather,16,8,a100-cluster,us,2.29', header=header), "mine.csv")
    assert (point.nodes, point.source, point.library) == (2, "us", "2.29")
    text = table(f"{LINE},39.5", f"{LINE},", header=f"{HEADER},time_inplace_us")
    assert [point.seconds for point in parse(text, "x")] == pytest.approx([40.5e-6, 40.5e-6])
    assert [point.seconds for point in parse(text, "x", Reading(in_place=True))] == pytest.approx([39.5e-6, 40.5e-6])
    lines = LINE, LINE.replace("H100 node,1,8", "dgx-h100,2,16"), LINE.replace("H100 node", "MI300X")
    names = [one.system.name for one in parse(table(*lines), "x", Reading(presets=("mi300x",)))]
    assert names == ["h100-node", "h100-cluster", "mi300x-node"]
    reading = Reading(system="a100-node")
    assert parse(table(LINE), "x", reading)[0].system.name == "a100-node"
    assert parse(table("1,8,all-reduce,4,1", header=HEADER.removeprefix("system,")), "x", reading)
    assert "--system: no system 'dgx' of one node" in refused(table(LINE), Reading(system="dgx"))


@pytest.mark.parametrize(
    ("name", "suggested"),
    [("V100-SXM2-32GB", ""), ("a100-cluster", ""), ("h100-nod", "h100-node"), ("H100-SXM4", "H100-SXM5")],
)
def test_a_suggested_system_is_of_the_same_gpu_and_scale(name: str, suggested: str) -> None:
    message = refused(table(LINE), Reading(system=name))
    said = f"; did you mean {suggested!r}?" if suggested else ""
    assert f"no system {name!r} of one node{said} (accepted: a100-node" in message


@pytest.mark.parametrize(
    ("column", "value", "accepted"),
    [
        *(("time_us", one, "a number of microseconds above 0, without a") for one in ("0", "12 ms", "nan", "")),
        ("size_B", "1M", "a number of bytes above 0, without a unit"),
        *(("ranks", one, "a whole number from 2") for one in ("1", "2.5")),
        ("nodes", "0", "a whole number from 1"),
        ("collective", "allreduce", "all-reduce, "),
        ("system", "H1000 node", "a100-node, h100-node, h200-node"),
    ],
)
def test_a_cell_that_cannot_be_used_is_named(column: str, value: str, accepted: str) -> None:
    cells = dict(zip(HEADER.split(","), LINE.split(","), strict=True)) | {column: value}
    message = refused(table(LINE, ",".join(cells.values())))
    assert f"line 3, column {column}: " in message
    assert value in message
    assert f"accepted: {accepted}" in message


def test_rates_that_do_not_belong_to_a_time_and_uneven_ranks_are_refused() -> None:
    algbw, busbw = f"{HEADER},algbw_GBps", f"{HEADER},busbw_GBps"
    assert parse(table(f"{LINE},25.89", header=algbw), "x")
    assert parse(table(f"{LINE},45.31", header=busbw), "x")  # 2**20 B / 40.5 us * 2 * 7 / 8
    fast, few = LINE.replace("40.5", "0.0405"), LINE.replace(",8,", ",4,")
    for text, said in (
        (table(f"{fast},25.89", header=algbw), "algbw_GBps: 25.89 is not 1048576 B in 0.0405 us, which is 2.589e+04"),
        (table(f"{few},45.31", header=busbw), "busbw_GBps: 45.31 is not that of all-reduce of 1048576 B in 40.5 us am"),
        (table(LINE.replace(",1,8", ",3,8")), "ranks: 8 ranks are not on 3 nodes"),
        (table(f"{LINE},4", header=f"{HEADER},ranks_per_node"), "ranks: 8 ranks are not on 1 node with 4 each"),
    ):
        assert f"line 2, column {said}" in refused(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (table(LINE).replace("time_us", "time_ms"), "line 1: the column 'time_ms' has another unit, or none"),
        (table(LINE).replace("size_B", "size"), "line 1: the column 'size' has another unit, or none"),
        (table(LINE).replace("ranks", "gpus"), "line 1: there is no column 'ranks' (accepted: system, nodes, ranks,"),
        (table(LINE).replace("nodes", "x"), "line 1: there is no column 'nodes'"),
        (table(LINE).replace("system", "x"), "line 1: there is no column 'system'"),
        (table(LINE).replace("system", "ranks"), "line 1: there are 2 columns 'ranks'"),
        (table(LINE, header="a,b,c,d,e,f"), "line 1: is not the header of a table"),
        (table(f"{LINE},1"), "line 2: there are 7 cells (accepted: 6, as many as the header has)"),
        (table(f'"{LINE}'), "is not CSV: "),
        (table(), "has no measured times"),
        ("", "is not the header of a table"),
    ],
)
def test_text_that_is_not_a_table_is_refused(text: str, said: str) -> None:
    assert said in refused(text)


def test_a_file_is_named_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(table(LINE.replace("40.5", "-1")), encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.csv: line 2, column time_us: '-1'"):
        read(str(path))
    path.write_text(table(LINE), encoding="utf-8")
    assert read(str(path))[0].where == f"{path}: line 2"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not text in UTF-8"):
        read(str(path))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(str(tmp_path / "other.csv"))


def test_the_tables_of_the_product_have_what_their_sources_published() -> None:
    points = [one for one in sources.points() if isinstance(one, CollectivePoint)]
    counts = Counter(one.source for one in points)
    names = "aiconfigurator", "aiconfigurator-b200", "aws", "azure", "azure-h200", "echo", "vtrain", "xxrjun"
    assert counts == dict(zip(names, (1179, 1008, 33, 48, 24, 163, 154, 300), strict=True))
    assert {one.size_class for one in points} == set(SIZE_CLASSES)
    assert all("@" in one["cite"] or "arXiv" in one["cite"] for one in packaged(sources.SOURCES).values())
    # Four sources about the same thing, as each of them has it.
    node = (one for one in points if one.system.name == "a100-node")
    found = {one.source: one.seconds for one in node if one.same[2:] == ("all-reduce", 1, 8, 2.0**20)}
    published = {"aiconfigurator": 38.85e-6, "azure": 50.66e-6, "echo": 72.53e-6, "vtrain": 92.79e-6}
    assert found == pytest.approx(published)


# --- Output of nccl-tests, as it prints it: README of NVIDIA/nccl-tests, and the header of version 2.17.
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


def test_both_kinds_of_times_are_read_and_what_the_header_says_of_nodes_and_the_operation() -> None:
    first, second = parse(output(), "mine.log")
    assert (first.system.name, first.nodes, first.ranks, first.pattern) == ("a100-node", 1, 4, "all-reduce")
    assert (first.size, second.size) == (2**20, 2**21)
    assert (first.source, first.library) == ("mine.log", "2.29.2+cuda12.8")
    assert [one.seconds for one in (first, second)] == pytest.approx([74.21e-6, 98.70e-6])
    in_place = parse(output(), "mine.log", Reading(in_place=True))
    assert [one.seconds for one in in_place] == pytest.approx([70.93e-6, 97.11e-6])
    for system, stated in (("h100-node", "A100-SXM4-80GB"), ("a100-node", ""), ("dgx-a100", "")):
        assert parse(output(), "x", Reading(system=system))[0].stated == stated
    unknown = output().replace("A100-SXM4-80GB", "A100-SXM-64GB")
    assert parse(unknown, "x", Reading(system="h100-node"))[0].stated == ""
    (point, _) = parse(output(other="node-b"), "x")
    assert (point.system.name, point.nodes, point.ranks) == ("a100-cluster", 2, 4)
    uneven = output(other="node-b").replace("12346 on     node-a", "12346 on     node-b")
    with pytest.raises(InputError, match=r"line 15: hosts have from 1 to 3 ranks .accepted: a run with as many ranks"):
        parse(uneven, "x")
    (point, _) = parse(output("a program", columns=NO_BUSBW), "x", Reading(pattern="broadcast"))
    assert point.pattern == "broadcast"
    with pytest.raises(InputError, match=r"line 15: the output does not say which program .*--pattern"):
        parse(output("a program"), "x")


def test_columns_are_found_by_their_names_in_runs_that_follow_each_other() -> None:
    columns = COLUMNS.replace("   redop    root", "").replace("#wrong", "error")
    times = TIMES.replace("     sum      -1", "").replace("      0", "  0e+00")
    found = [one.seconds for one in parse(output(columns=columns, times=times), "x")]
    assert found == pytest.approx([74.21e-6, 98.70e-6])
    points = parse(output() + output("all_gather_perf", "node-b", NO_BUSBW), "x")
    assert [(one.pattern, one.nodes) for one in points] == [("all-reduce", 1)] * 2 + [("all-gather", 2)] * 2
    nothing = TIMES.splitlines(keepends=True)[0].replace("1048576", "      0").replace("262144", "     0")
    assert len(parse(output(times=nothing + TIMES), "x")) == 2
    assert len(parse(output(times=TIMES.replace("      0", "    N/A")), "x")) == 2


@pytest.mark.parametrize(
    ("program", "pattern", "factor"),
    [
        ("all_reduce", "all-reduce", 3 / 2),
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
        (output(columns=COLUMNS.replace("(us)", "(ms)")), r"line 14: the unit 'ms' is not read \(accepted: us\)"),
        (output(times=TIMES.replace("74.21", "N/A")), "line 15, column time_us: 'N/A' cannot be used"),
        (output(times=TIMES.replace("  74.21", "")), r"line 15: has 12 columns \(accepted: 13"),
        (COLUMNS + TIMES, "line 4: the output does not list its ranks"),
        (output(times=""), "has no measured times"),
    ],
)
def test_output_that_cannot_be_used_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(text, "x")
