from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msccl_files import pair, step, xml

import fredfw
import fredfw_collective_msccl
from fredfw import Framework
from fredfw.errors import InputError, UnsupportedError
from fredfw.testing import CollectiveTests, ExporterTests
from fredfw_collective_msccl import Msccl, MscclExporter, Mscclpp


def _named(folder: Path, content: str) -> Path:
    path = folder / "algorithm.xml"
    path.write_text(content, encoding="utf-8")
    return path


def _switch(npus: int) -> fredfw.Fabric:
    return fredfw.Framework().topology("switch", npus=npus).build()


def test_a_file_serves_its_collective_as_a_ring_of_two_does(tmp_path: Path) -> None:
    framework, fabric = fredfw.Framework(), _switch(2)
    path = _named(tmp_path, pair())
    given: list[tuple[str, dict[str, Any]]] = [("msccl", {"file": str(path)}), ("ring", {})]
    for fidelity in ("compressed", "exact"):
        mine, ring = (
            framework.simulate_collective(
                fabric, "all-reduce", size="64 MiB", algorithm=name, fidelity=fidelity, **options
            )
            for name, options in given
        )
        assert mine.duration == pytest.approx(ring.duration, rel=1e-12)
        assert np.allclose(mine.link_bytes, ring.link_bytes)
        assert mine.algorithm == f"msccl(file={path})"
        assert not mine.notes


def test_without_a_file_nothing_is_served() -> None:
    request = fredfw.CollectiveRequest(fredfw.Pattern.ALL_REDUCE, 2, 4.0)
    with pytest.raises(UnsupportedError, match="it needs a file"):
        Msccl().plan(request, fredfw.GroupView(2))
    assert Msccl.variants(fredfw.Pattern.ALL_REDUCE) == ()


@pytest.mark.parametrize(
    ("pattern", "ranks", "size", "root", "reason"),
    [
        ("all-gather", 2, 4.0, 0, "it does not do all-gather, only all-reduce"),
        ("all-reduce", 3, 6.0, 0, "is for 2 GPUs, not for 3"),
        ("all-reduce", 2, 2.0, 0, "is for 4 to 1024 bytes, not for 2"),
        ("all-reduce", 2, 2048.0, 0, "is for 4 to 1024 bytes, not for 2048"),
        ("all-reduce", 2, 5.0, 0, "5 bytes cannot be divided into the 2 chunks of"),
    ],
)
def test_what_a_file_is_not_for_is_refused(
    tmp_path: Path, pattern: str, ranks: int, size: float, root: int, reason: str
) -> None:
    one = Msccl(file=_named(tmp_path, pair(minBytes=4, maxBytes=1024)))  # type: ignore[arg-type]  # as a user names it
    request = fredfw.CollectiveRequest(fredfw.Pattern(pattern), ranks, size, root)
    with pytest.raises(UnsupportedError, match=reason):
        one.plan(request, fredfw.GroupView(ranks))


def test_another_root_is_refused(tmp_path: Path) -> None:
    steps = [[(-1, 1, 0, [step("r", "i0", "i0")])], [(0, -1, 0, [step("s", "i0")])]]
    one = Msccl(file=_named(tmp_path, xml("broadcast", 1, steps, (1, 0, 0))))  # type: ignore[arg-type]
    view = fredfw.GroupView(2)
    assert one.refusal(fredfw.CollectiveRequest(fredfw.Pattern.BROADCAST, 2, 1.0, 1), view) is None
    other = one.refusal(fredfw.CollectiveRequest(fredfw.Pattern.BROADCAST, 2, 1.0, 0), view)
    assert other is not None
    assert "the root of" in other
    assert "is 1, not 0" in other


def test_uneven_sizes_are_refused(tmp_path: Path) -> None:
    copy = (-1, -1, 0, [step("cpy", "i0", "o0")])
    one = Msccl(file=_named(tmp_path, xml("alltoall", 1, [[copy]], (1, 1, 0), inplace=0)))  # type: ignore[arg-type]
    request = fredfw.CollectiveRequest(fredfw.Pattern.ALL_TO_ALL, 1, 1.0, sizes=np.ones((1, 1)))
    assert one.refusal(request, fredfw.GroupView(1)) == "it has one size for all pairs"


def test_what_is_custom_runs_and_says_that_nobody_has_proved_it(tmp_path: Path) -> None:
    file = xml(
        "custom", 4, [[(1, -1, 0, [step("s", "i0", cnt=3)])], [(-1, 0, 0, [step("r", "s0", "s0", 3)])]], (4, 0, 3)
    )
    framework = fredfw.Framework()
    options: dict[str, Any] = {"algorithm": "msccl", "file": str(_named(tmp_path, file))}
    result = framework.simulate_collective(_switch(2), "all-to-all", size=4e6, **options)
    assert result.link_bytes.max() == pytest.approx(3e6)
    [note] = result.notes
    assert "nobody has proved that algorithm" in note
    assert "carries out all-to-all" in note


def test_a_wrong_file_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path = _named(tmp_path, pair().replace('type="rrc"', 'type="r"', 1))
    with pytest.raises(InputError, match=r"algorithm\.xml: GPU 0, threadblock 0, step 1: leaves wrong data"):
        fredfw.Framework().simulate_collective(_switch(2), "all-reduce", size=4, algorithm="msccl", file=str(path))


HERE = Path(__file__).parent


_FRAMEWORK = Framework()


_SMALL = (_FRAMEWORK.topology("switch", npus=2).build(), _FRAMEWORK.topology("fully-connected", npus=2).build())


class TestMsccl(CollectiveTests):
    plugin = fredfw_collective_msccl
    algorithms = (
        Msccl(file=HERE / "pair.xml"),  # type: ignore[arg-type]  # as a user names it
        Mscclpp(file=HERE / "pair.json"),  # type: ignore[arg-type]
    )
    ranks = (1, 2)
    fabrics = _SMALL


class TestMscclExporter(ExporterTests):
    plugin = fredfw_collective_msccl
    exporters = (MscclExporter(), MscclExporter(protocol="LL"))
    results = tuple(
        _FRAMEWORK.simulate_collective(_SMALL[0], pattern, size="1 MB", algorithm="direct")
        for pattern in ("all-reduce", "all-to-all", "point-to-point")
    )
