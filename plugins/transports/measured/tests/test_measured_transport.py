import re
from pathlib import Path
from typing import Any

import pytest

import fredfw_transport_measured
from fredfw import Fabric, File, Framework
from fredfw.errors import InputError, UnsupportedError
from fredfw.testing import TransportTests
from fredfw_topology_cluster import Cluster
from fredfw_topology_switch import Switch
from fredfw_transport_measured import Measured

TABLE = """collective,ranks,size_B,time_us,nodes
all-reduce,8,1000,20,
all-reduce,8,1000,40,1
all-reduce,8,1000,22,1
all-reduce,8,100000,88,1
all-to-all,8,1000,30,1
all-reduce,16,1000000,700,2
all-reduce,16,100000000,4000,2
all-gather,16,1000000,350,2
broadcast,16,1000000,900,2
"""


@pytest.fixture
def table(tmp_path: Path) -> File:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return File.at(path)


def duration(fabric: Fabric, table: File, size: float, pattern: str = "all-reduce", **options: Any) -> float:
    fabric = fabric.with_defaults(transport=Measured(file=table))
    return Framework().simulate_collective(fabric, pattern, size=size, **options).duration


def star(npus: int = 8) -> Fabric:
    return Switch(npus=npus).build()


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
# Of three times the median; 10 times the size takes twice as long, the square root of 10 the square root of 2.
@pytest.mark.parametrize(("size", "expected"), [(1e3, 22e-6), (1e5, 88e-6), (1e4, 44e-6), (10**3.5, 22e-6 * 2**0.5)])
def test_it_interpolates_between_logarithms(table: File, size: float, expected: float, fidelity: str) -> None:
    for algorithm in ("auto", "ring"):
        found = duration(star(), table, size, fidelity=fidelity, algorithm=algorithm)
        assert found == pytest.approx(expected, rel=1e-9)


def test_messages_and_several_nodes(table: File) -> None:
    assert duration(star(), table, 1e3, "all-to-all") == pytest.approx(30e-6, rel=1e-9)
    cluster = Cluster(preset="dgx-a100", nodes=2).build()
    for pattern, seconds in (("all-reduce", 700e-6), ("all-gather", 350e-6)):
        # One ring leaves a node and enters the next at different positions, which is 1 us further at each step.
        for rotated, further in ((True, 0.0), (False, 0.05)):
            found = duration(cluster, table, 1e6, pattern, algorithm="ring", rotated=rotated)
            assert found == pytest.approx(seconds, rel=further + 1e-9)
    # Pieces follow each other along the chain, in a few steps more than there are pieces.
    assert duration(cluster, table, 1e6, "broadcast") == pytest.approx(900e-6, rel=0.05)


def test_a_result_has_a_note_where_links_are_slower(table: File) -> None:
    cluster = Cluster(preset="dgx-a100", nodes=2).build().with_defaults(transport=Measured(file=table))
    rotated, plain = (
        Framework().simulate_collective(cluster, "all-reduce", size=1e8, algorithm="ring", rotated=rotated)
        for rotated in (True, False)
    )
    assert rotated.duration == pytest.approx(4e-3, rel=1e-9)
    assert rotated.notes == ()
    # One network card carries 15/8 of the buffer at 25 GB/s.
    assert plain.duration == pytest.approx(15 / 8 * 1e8 / 25e9, rel=0.02)
    assert re.search(r"by ring takes 7\.\S+ ms alone, not the 4 ms that transport 'measured' says", plain.notes[0])


@pytest.mark.parametrize(
    ("npus", "asked", "message"),
    [
        (8, {"size": 1e6}, "no all-reduce among 8 ranks of 1e\\+06 B .*1000 to 100000 B"),
        (4, {"size": 1e3}, "no all-reduce among 4 ranks in 1 node .*all-reduce among 8 in 1"),
        (8, {"size": 1e3, "pattern": "broadcast"}, "no broadcast among 8 ranks"),
        (8, {"size": 1e3, "algorithm": "tree"}, "cannot make 'tree' take a measured time .*ring"),
    ],
)
def test_it_refuses_what_the_table_does_not_have(table: File, npus: int, asked: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        duration(star(npus), table, **asked)


HEADER = "collective,ranks,size_B,time_us\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("collective,ranks,size_B\n", "no column 'time_us'"),
        ("collective,ranks,size,time_us\n", "'size_B', but 'size', which has another unit, or none .*: .* time_us"),
        ("collective;ranks;size_B;time_us\n", "line 1: its cells are separated by ';', not by commas .accepted"),
        (HEADER, "no rows"),
        (HEADER + "all-reduce,8\n", "line 2: size_B is ''"),
        (HEADER + "allreduce,8,1,1\n", "line 2: collective is 'allreduce'; did you mean 'all-reduce'.*: all-reduce, "),
        (HEADER + "all-reduce,8,1000,0\n", "bad.csv: line 2: time_us is '0'"),
        (HEADER + "all-reduce,2.5,1000,3\n", "line 2: ranks is '2.5'"),
    ],
)
def test_it_refuses_bad_tables(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        Measured(file=File.at(path))


class TestMeasured(TransportTests):
    plugin = fredfw_transport_measured
    transports = (Measured(file=File.at(Path(__file__).with_name("table.csv"))),)
