"""What routes must be, whoever has made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fredfw.answers import brief
from fredfw.fabric.flows import Routes
from fredfw.typing import FloatArray

if TYPE_CHECKING:
    from fredfw.fabric.fabric import Fabric

_COLUMNS = (
    ("offsets", "iu", "integers"),
    ("links", "iu", "integers"),
    ("latencies", "fiu", "seconds"),
    ("coefficients", "fiu", "shares"),
)


def wrong_routes(routes: Routes, fabric: Fabric, count: int | None = None) -> tuple[str, str] | None:
    """Return what is wrong with ``count`` routes on ``fabric`` and what is expected, or ``None`` if they are right.

    Without ``count`` there may be any number of them.
    """
    for name, kinds, accepted in _COLUMNS:
        column: object = getattr(routes, name)
        if column is None and name == "coefficients":
            continue
        if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in kinds:
            return f"{name} {brief(column)}", f"an array of {accepted}"
    offsets, links, latencies, coefficients = routes.offsets, routes.links, routes.latencies, routes.coefficients
    if count is None:
        count = len(latencies)
    if len(offsets) != count + 1:
        return f"{len(offsets)} offsets", f"{count + 1} for {count} routes"
    if offsets[0] != 0 or offsets[-1] != len(links) or (offsets[1:] < offsets[:-1]).any():
        return f"offsets that do not cut its {len(links)} links", "0 to all, in order"
    total = len(fabric.bandwidths)
    if len(links) and not 0 <= links.min() <= links.max() < total:
        link = links[(links < 0) | (links >= total)][0]
        return f"link {link}", f"links 0 to {total - 1} of {fabric.name!r}"
    if len(latencies) != count:
        return f"{len(latencies)} latencies", f"{count}, one for each route"
    if count and not 0 <= latencies.min() <= latencies.max() < np.inf:
        return f"latency {_outside(latencies)}", "seconds, finite and not negative"
    if coefficients is not None:
        if len(coefficients) != len(links):
            return f"{len(coefficients)} coefficients", f"{len(links)}, one per link"
        if len(links) and not 0 <= coefficients.min() <= coefficients.max() < np.inf:
            return f"coefficient {_outside(coefficients)}", "finite shares, 0 or more"
    return None


def _outside(values: FloatArray) -> float:
    """Return the first of ``values`` that is negative or not finite."""
    return float(values[~((values >= 0) & (values < np.inf))][0])
