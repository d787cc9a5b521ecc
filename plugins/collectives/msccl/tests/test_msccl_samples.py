"""Files of others, where they are found in a folder beside the checkout; what they are to do was found elsewhere."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msccl_files import rounds

import fredfw
from fredfw_collective_msccl import Mscclpp, plan
from fredfw_collective_msccl.proof import proved
from fredfw_collective_msccl.reading import read

_PLACES = [parent / "shared" / "samples" / "algorithms" for parent in Path(__file__).resolve().parents]
_FOLDER = next((one for one in _PLACES if (one / "expected_msccl.json").is_file()), None)
_EXPECTED: dict[str, dict[str, Any]] = (
    {} if _FOLDER is None else json.loads((_FOLDER / "expected_msccl.json").read_text(encoding="utf-8"))
)

pytestmark = pytest.mark.skipif(_FOLDER is None, reason="there are no samples beside the checkout")


def _file(name: str) -> Path:
    assert _FOLDER is not None  # else skipped
    return _FOLDER / name


# The first adds up in scratch. In the second what has been sent is overwritten as soon as it has left, not when it has
# arrived, which the replay of phases wants.
_MORE_THAN_TRANSFERS = {"msccl_xml/allreduce_allpairs_4.xml", "msccl_xml/allreduce_rdh_8.xml"}


@pytest.mark.parametrize("name", sorted(_EXPECTED))
def test_a_file_sends_what_it_is_to_send_and_says_whether_it_is_proved(name: str) -> None:
    expected = _EXPECTED[name]
    program = read(_file(name).read_bytes())
    done = proved(program, name)
    types = [step.type for gpu in program.gpus for block in gpu.blocks for step in block.steps]
    chunks = sum(int(one.count.sum()) for one in done.transfers)
    found = {
        "gpus": len(program.gpus),
        "tbs": sum(len(gpu.blocks) for gpu in program.gpus),
        "steps": len(types),
        "types": Counter(types),
        "sends": len(done.transfers),
        "chunks_sent": chunks,
        "rounds": max(rounds(done)),
        "volume": round(chunks / done.layout.whole / len(program.gpus), 4),
    }
    assert found == {key: expected[key] for key in found}
    custom = expected["coll"] == "custom"
    assert done.says_all == (not custom and name not in _MORE_THAN_TRANSFERS)

    framework = fredfw.Framework()
    fabric = framework.topology("switch", npus=expected["gpus"]).build()
    pattern, size = done.layout.pattern or fredfw.Pattern.ALL_TO_ALL, expected["loop"] * 256.0
    result = framework.simulate_collective(fabric, pattern, size=size, algorithm="msccl", file=str(_file(name)))
    sent = expected["volume"] * size * expected["gpus"]
    assert result.link_bytes.sum() / 2 == pytest.approx(sent, rel=1e-4)  # up to the switch and down
    assert ["nobody has proved" in note for note in result.notes] == [True] * custom


@pytest.mark.parametrize(("name", "transfers"), [("allreduce", 32), ("reduce", 6)])
def test_a_plan_is_proved(name: str, transfers: int) -> None:
    file = _file(f"mscclpp_json/{name}.json")
    done = proved(plan.read(file.read_bytes()), name)
    assert len(done.transfers) == transfers
    # As every all-reduce of two, each sends as much as its buffer holds, or more.
    assert sum(int(one.count.sum()) for one in done.transfers) == 2 * done.layout.whole
    assert Mscclpp(file=file).served_patterns() == {fredfw.Pattern.ALL_REDUCE}  # type: ignore[arg-type]
