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

HERE = Path(__file__).parent
_FRAMEWORK = Framework()
_SMALL = (_FRAMEWORK.topology("switch", npus=2).build(), _FRAMEWORK.topology("fully-connected", npus=2).build())


def _named(folder: Path, content: str) -> Path:
    path = folder / "algorithm.xml"
    path.write_text(content, encoding="utf-8")
    return path


def test_a_file_serves_its_collective_as_a_ring_of_two_does(tmp_path: Path) -> None:
    path = _named(tmp_path, pair())
    for fidelity in ("compressed", "exact"):
        call: dict[str, Any] = {"size": "64 MiB", "fidelity": fidelity}
        mine = _FRAMEWORK.simulate_collective(_SMALL[0], "all-reduce", algorithm="msccl", file=str(path), **call)
        ring = _FRAMEWORK.simulate_collective(_SMALL[0], "all-reduce", algorithm="ring", **call)
        assert mine.duration == pytest.approx(ring.duration, rel=1e-12)
        assert np.allclose(mine.link_bytes, ring.link_bytes)
        assert mine.algorithm == f"msccl(file={path})"
        assert not mine.notes


def test_without_a_file_nothing_is_served_and_a_wrong_one_is_refused_before_anything_runs(tmp_path: Path) -> None:
    request = fredfw.CollectiveRequest(fredfw.Pattern.ALL_REDUCE, 2, 4.0)
    with pytest.raises(UnsupportedError, match="it needs a file"):
        Msccl().plan(request, fredfw.GroupView(2))
    assert Msccl.variants(fredfw.Pattern.ALL_REDUCE) == ()
    path = _named(tmp_path, pair().replace('type="rrc"', 'type="r"', 1))
    with pytest.raises(InputError, match=r"algorithm\.xml: GPU 0, threadblock 0, step 1: leaves wrong data"):
        _FRAMEWORK.simulate_collective(_SMALL[0], "all-reduce", size=4, algorithm="msccl", file=str(path))


_ROOT_1 = xml("broadcast", 1, [[(-1, 1, 0, [step("r")])], [(0, -1, 0, [step("s")])]], (1, 0, 0))
_ALONE = xml("alltoall", 1, [[(-1, -1, 0, [step("cpy", "i0", "o0")])]], (1, 1, 0), inplace=0)


@pytest.mark.parametrize(
    ("content", "pattern", "ranks", "size", "more", "reason"),
    [
        (None, "all-gather", 2, 4.0, {}, "it does not do all-gather, only all-reduce"),
        (None, "all-reduce", 3, 6.0, {}, "is for 2 GPUs, not for 3"),
        (None, "all-reduce", 2, 2.0, {}, "is for 4 to 1024 bytes, not for 2"),
        (None, "all-reduce", 2, 2048.0, {}, "is for 4 to 1024 bytes, not for 2048"),
        (None, "all-reduce", 2, 5.0, {}, "5 bytes cannot be divided into the 2 chunks of"),
        (_ROOT_1, "broadcast", 2, 1.0, {}, "the root of .* is 1, not 0"),
        (_ALONE, "all-to-all", 1, 1.0, {"sizes": np.ones((1, 1))}, "it has one size for all pairs"),
    ],
)
def test_what_a_file_is_not_for_is_refused(
    tmp_path: Path, content: str | None, pattern: str, ranks: int, size: float, more: dict[str, Any], reason: str
) -> None:
    path: Any = _named(tmp_path, content or pair(minBytes=4, maxBytes=1024))
    request = fredfw.CollectiveRequest(fredfw.Pattern(pattern), ranks, size, **more)
    with pytest.raises(UnsupportedError, match=reason):
        Msccl(file=path).plan(request, fredfw.GroupView(ranks))


def test_what_is_custom_runs_and_says_that_nobody_has_proved_it(tmp_path: Path) -> None:
    gpus = [[(1, -1, 0, [step("s", "i0", cnt=3)])], [(-1, 0, 0, [step("r", "s0", "s0", 3)])]]
    file = xml("custom", 4, gpus, (4, 0, 3))
    options: dict[str, Any] = {"algorithm": "msccl", "file": str(_named(tmp_path, file))}
    result = _FRAMEWORK.simulate_collective(_SMALL[0], "all-to-all", size=4e6, **options)
    assert result.link_bytes.max() == pytest.approx(3e6)
    [note] = result.notes
    assert "nobody has proved that algorithm" in note
    assert "carries out all-to-all" in note


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
