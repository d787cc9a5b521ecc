"""Networks that a program embeds, and when things end there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fredfw import Fabric, Framework
from fredfw.embed import NetworkBackend

FRAMEWORK = Framework()


class Network(NetworkBackend):
    """Notes when things end."""

    def __init__(self, fabric: Fabric, *given: Any, **options: Any) -> None:
        super().__init__(fabric, *given, **{"plugins": FRAMEWORK.plugins, **options})
        self.ends: list[tuple[object, float]] = []

    def note(self, name: object) -> None:
        self.ends.append((name, self.now))

    def log(self, name: object) -> Callable[[], None]:
        return partial(self.note, name)

    @property
    def times(self) -> dict[object, float]:
        return dict(self.ends)


def mesh(rows: int, columns: int, latency: float = 0.0, **options: Any) -> Network:
    """A mesh with links of 1 GB/s; in one of 2 x 2, NPUs 0 and 1 are above 2 and 3."""
    fabric = FRAMEWORK.topology(
        "mesh2d", rows=rows, columns=columns, link_bandwidth="1 GB/s", link_latency=latency, io_controllers=False
    ).build()
    return Network(fabric, **options)


def ring(npus: int, latency: float = 0.0, **options: Any) -> Network:
    """A ring with links of 1 GB/s both ways."""
    fabric = FRAMEWORK.topology("torus", dimensions=[npus], link_bandwidth="1 GB/s", link_latency=latency).build()
    return Network(fabric, **options)
