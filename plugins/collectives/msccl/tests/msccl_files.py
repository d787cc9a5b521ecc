"""Small MSCCL files."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import fredfw
from fredfw_collective_msccl import plan
from fredfw_collective_msccl.proof import Proved, proved
from fredfw_collective_msccl.reading import read

_CHUNK, _RATE = 1e6, 1e9
LATENCY = 0.25  # in chunk times
Block = tuple[int, int, int, Sequence[str]]
"""Whom it sends to and receives from, its channel, and its steps."""


def step(type_: str, source: str = "i0", destination: str = "i0", cnt: int = 1, dep: tuple[int, int] = (-1, -1)) -> str:
    return (
        f'<step s="NUMBER" type="{type_}" srcbuf="{source[0]}" srcoff="{source[1:]}" dstbuf="{destination[0]}" '
        f'dstoff="{destination[1:]}" cnt="{cnt}" depid="{dep[0]}" deps="{dep[1]}" hasdep="HAS"/>'
    )


def xml(
    collective: str, loop: int, gpus: Sequence[Sequence[Block]], sizes: tuple[int, int, int], **more: int | str
) -> str:
    """Return a file; who is waited for is filled in."""
    channels = 1 + max((block[2] for gpu in gpus for block in gpu), default=0)
    named: dict[str, int | str] = {"name": "test", "proto": "Simple", "nchannels": channels, "nchunksperloop": loop}
    named |= {"ngpus": len(gpus), "coll": collective, "inplace": 1, "outofplace": 0, "minBytes": 0, "maxBytes": 0}
    attributes = " ".join(f'{key}="{value}"' for key, value in (named | more).items())
    lines = [f"<algo {attributes}>"]
    for number, gpu in enumerate(gpus):
        lines.append(f'<gpu id="{number}" i_chunks="{sizes[0]}" o_chunks="{sizes[1]}" s_chunks="{sizes[2]}">')
        for at, (send, receive, channel, steps) in enumerate(gpu):
            lines.append(f'<tb id="{at}" send="{send}" recv="{receive}" chan="{channel}">')
            for here, one in enumerate(steps):
                awaited = any(f'depid="{at}" deps="{here}"' in other for block in gpu for other in block[3])
                lines.append(one.replace("NUMBER", str(here)).replace("HAS", str(int(awaited))))
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>", ""])


def proof(content: str | dict[str, Any]) -> Proved:
    """Return what an XML file, or a plan, does."""
    if isinstance(content, str):
        return proved(read(content.encode()), "test.xml")
    return proved(plan.read(json.dumps(content).encode()), "plan.json")


def rounds(done: Proved) -> list[int]:
    """Return how many transfers each ends a chain of, each of which has waited for the arrival of the one before."""
    found: list[int] = []
    for one in done.transfers:
        waited = [1 + found[before] for before in (*one.after, *one.room)] + [found[before] for before in one.behind]
        found.append(max(waited, default=1))
    return found


def transfers(done: Proved) -> list[tuple[int, int, int, bool]]:
    """Return source and destination of each transfer, its only chunk, and whether it is added."""
    assert all(one.count.item() == 1 for one in done.transfers)
    return [(one.source.item(), one.destination.item(), one.offset.item(), one.reduce.item()) for one in done.transfers]


def pair(**more: int | str) -> str:
    """Return an all-reduce of two: each adds up one half, and sends it back."""
    gpus: list[list[Block]] = []
    for mine, other in ("i0", "i1"), ("i1", "i0"):
        steps = step("s", other), step("rrc", mine, mine), step("s", mine), step("r", other, other)
        gpus.append([(1 - len(gpus), 1 - len(gpus), 0, steps)])
    return xml("allreduce", 2, gpus, (2, 0, 0), **more)


def takes(content: str | dict[str, Any], chunk_times: float) -> None:
    """Make sure how long a file takes where each GPU has a link of ``LATENCY`` to each other."""
    layout, time, framework = proof(content).layout, _CHUNK / _RATE, fredfw.Framework()
    link = {"link_bandwidth": _RATE, "link_latency": LATENCY * time}
    fabric = framework.topology("fully-connected", npus=layout.ranks, **link).build()
    call: dict[str, Any] = {"size": layout.whole * _CHUNK, "root": layout.root}
    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        call |= {"algorithm": "msccl" if isinstance(content, str) else "mscclpp", "file": str(path)}
        for fidelity in ("compressed", "exact"):
            pattern = layout.pattern or "all-reduce"
            result = framework.simulate_collective(fabric, pattern, fidelity=fidelity, **call)
            assert result.duration == pytest.approx(chunk_times * time, rel=1e-12)
