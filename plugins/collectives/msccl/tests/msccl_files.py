"""Small MSCCL files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, ClassVar

from attrs import frozen

import fredfw
from fredfw_collective_msccl.proof import Proved, proved
from fredfw_collective_msccl.reading import read

_CHUNK, _RATE = 1e6, 1e9
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
    attributes: dict[str, int | str] = {
        "name": "test",
        "proto": "Simple",
        "nchannels": 1 + max((block[2] for gpu in gpus for block in gpu), default=0),
        "nchunksperloop": loop,
        "ngpus": len(gpus),
        "coll": collective,
        "inplace": 1,
        "outofplace": 0,
        "minBytes": 0,
        "maxBytes": 0,
    }
    lines = [f"<algo {_text(attributes | more)}>"]
    for number, gpu in enumerate(gpus):
        lines.append(f'<gpu id="{number}" i_chunks="{sizes[0]}" o_chunks="{sizes[1]}" s_chunks="{sizes[2]}">')
        for at, (send, receive, channel, steps) in enumerate(gpu):
            lines.append(f'<tb id="{at}" send="{send}" recv="{receive}" chan="{channel}">')
            for here, one in zip(count(), steps):
                awaited = any(f'depid="{at}" deps="{here}"' in other for block in gpu for other in block[3])
                lines.append(one.replace("NUMBER", str(here)).replace("HAS", str(int(awaited))))
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>", ""])


def _text(attributes: Mapping[str, int | str]) -> str:
    return " ".join(f'{key}="{value}"' for key, value in attributes.items())


def proof(content: str) -> Proved:
    return proved(read(content.encode(), "test.xml"), "test.xml")


def rounds(done: Proved) -> list[int]:
    """Return how many transfers each ends a chain of, each of which has waited for the arrival of the one before."""
    found: list[int] = []
    for one in done.transfers:
        waited = [1 + found[before] for before in (*one.after, *one.room)] + [found[before] for before in one.behind]
        found.append(max(waited, default=1))
    return found


def pair(**more: int | str) -> str:
    """Return an all-reduce of two: each adds up one half, and sends it back."""
    return xml(
        "allreduce",
        2,
        [
            [(1, 1, 0, [step("s", "i1"), step("rrc", "i0", "i0"), step("s", "i0"), step("r", "i1", "i1")])],
            [(0, 0, 0, [step("s", "i0"), step("rrc", "i1", "i1"), step("s", "i1"), step("r", "i0", "i0")])],
        ],
        (2, 0, 0),
        **more,
    )


def simulated(done: Proved, fidelity: str, latency: float) -> float:
    """Return how many chunk times ``done`` takes where each GPU has a link to each other.

    Args:
        done: What to run.
        fidelity: How.
        latency: Of each link, in chunk times.
    """
    pattern = done.layout.pattern or fredfw.Pattern.ALL_REDUCE
    ranks, size = done.layout.ranks, done.layout.whole * _CHUNK
    request = fredfw.CollectiveRequest(pattern, ranks, size, done.layout.root)
    framework = fredfw.Framework()
    framework.plugins.register(_Plugin(done.schedule(request)), "given")
    time = _CHUNK / _RATE
    fabric = framework.topology(
        "fully-connected", npus=ranks, link_bandwidth=_RATE, link_latency=latency * time
    ).build()
    options: dict[str, Any] = {"size": size, "algorithm": "given", "fidelity": fidelity, "root": request.root}
    return framework.simulate_collective(fabric, pattern, **options).duration / time


class _Plugin:
    def __init__(self, schedule: fredfw.Schedule) -> None:
        self._schedule = schedule

    @fredfw.hookimpl
    def fredfw_collectives(self) -> list[type[fredfw.CollectiveAlgorithm]]:
        given = self._schedule

        @frozen
        class Given(fredfw.CollectiveAlgorithm):
            """A schedule that is there already."""

            name: ClassVar[str] = "given"
            patterns: ClassVar[frozenset[fredfw.Pattern]] = frozenset(fredfw.Pattern)

            def schedule(self, request: fredfw.CollectiveRequest, view: fredfw.GroupView) -> fredfw.Schedule:
                return given

        return [Given]
