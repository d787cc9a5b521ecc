"""Levels of a network that is known by its links alone: servers of successive NPUs, and what is between them."""

from __future__ import annotations

import numpy as np
from attrs import evolve

from fredfw.errors import InputError
from fredfw.fabric.fabric import Fabric
from fredfw.fabric.view import Level
from fredfw.typing import IntArray


def with_servers(fabric: Fabric, npus: int, names: tuple[str, str] = ("server", "network")) -> Fabric:
    """Return the same fabric with two levels of kind ``switch``: the NPUs of a server, and the servers.

    A server is so many NPUs with successive numbers. The bandwidth of a level is what each NPU gets while all send to
    the next position in it, or half way round if that is less, over the routes of the fabric's own router. A level of
    one position is left out.

    Args:
        fabric: A network without levels.
        npus: Of each server, a divisor of those of the fabric.
        names: Of the two levels.

    Raises:
        InputError: ``npus`` does not divide the NPUs.
    """
    count = len(fabric.npus)
    if npus < 1 or count % npus:
        raise InputError(
            f"{npus} does not divide the {count} NPUs of {fabric.name!r}", key="npus", accepted="a divisor"
        )
    numbers = np.arange(count)
    servers = count // npus
    places = numbers % npus, numbers // npus
    levels, columns = list[Level](), list[IntArray]()
    for size, place, stride, name in ((npus, places[0], 1, names[0]), (servers, places[1], npus, names[1])):
        if size > 1:
            shifts = dict.fromkeys((1, size // 2))
            partners = [numbers + ((place + shift) % size - place) * stride for shift in shifts]
            rates, latencies = zip(*(_measured(fabric, one) for one in partners), strict=True)
            levels.append(Level(size, "switch", min(rates), max(latencies), name=name))
            columns.append(place)
    if not levels:
        return fabric
    return evolve(fabric, levels=tuple(levels), coordinates=np.stack(columns, axis=1))


def _measured(fabric: Fabric, partners: IntArray) -> tuple[float, float]:
    """Return the bandwidth of each NPU while all send to their partners, and the latency of the longest way."""
    routes = fabric.defaults.router.route(fabric, fabric.npus, fabric.npus[partners])
    shares = np.ones(len(routes.links)) if routes.coefficients is None else routes.coefficients
    loads = np.bincount(routes.links, shares, len(fabric.bandwidths))
    used = loads > 0
    return float((fabric.bandwidths[used] / loads[used]).min()), float(routes.latencies.max())
