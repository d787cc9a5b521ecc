"""X-Y routes and trees on a mesh: what is particular about them beside dimension order."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import DimensionOrderRouter, Fabric, Operation, Router, Routes
from fredfw.errors import UnsupportedError
from fredfw.typing import BoolArray, IntArray

_ROW_FIRST, _COLUMN_FIRST = DimensionOrderRouter(), DimensionOrderRouter(order=(1, 0))


@frozen
class XYRouter(Router):
    """Routes along the row first, then along the column; for fabrics with two levels that are lines.

    The stream of a controller goes straight in from its edge, so from the top or bottom edge along the column first. A
    reduction is the reversed multicast.
    """

    name: ClassVar[str] = "xy"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        fabric.derived(_column_ends)
        return _ROW_FIRST.route(fabric, sources, destinations)

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        fabric.derived(_column_ends)
        return _ROW_FIRST.path(fabric, source, destination)

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        if operation is Operation.ALL_REDUCE:
            message = f"the xy router has no all-reduce tree on fabric {fabric.name!r}"
            raise UnsupportedError(message, accepted="multicast or reduce")
        reverse = operation is Operation.REDUCE
        root, leaves = (destinations[:1], sources) if reverse else (sources[:1], destinations)
        straight = _COLUMN_FIRST if fabric.derived(_column_ends)[root].all() else _ROW_FIRST
        paths = straight.route(fabric, np.repeat(root, len(leaves)), leaves)
        links = np.unique(paths.links)
        if reverse:
            links = fabric.links_between(fabric.destinations[links], fabric.sources[links])
        return Routes.of([links], [float(paths.latencies.max(initial=0.0))])


def perimeter(rows: int, columns: int) -> tuple[IntArray, BoolArray]:
    """Return the ``(2 * (rows + columns),)`` NPUs of the edge slots, and whether each is at the end of a column."""
    # Clockwise from the top left: top, right, bottom and left edge. An NPU is row * columns + column.
    grid = np.arange(rows * columns).reshape(rows, columns)
    edges = [grid[0], grid[:, -1], grid[-1, ::-1], grid[::-1, 0]]
    return np.concatenate(edges), np.repeat([True, False, True, False], [columns, rows, columns, rows])


def _column_ends(fabric: Fabric) -> BoolArray:
    if fabric.coordinates is None or [level.kind for level in fabric.levels] != ["line", "line"]:
        raise UnsupportedError(f"the xy router cannot route fabric {fabric.name!r}", accepted="two levels of lines")
    columns, rows = (level.size for level in fabric.levels)
    controllers = fabric.controllers
    if len(fabric.npus) != rows * columns or len(controllers) not in (0, 2 * (rows + columns)):
        message = f"the xy router cannot route {len(fabric.npus)} NPUs and {len(controllers)} controllers"
        raise UnsupportedError(message, accepted=f"{rows * columns} NPUs and 0 or {2 * (rows + columns)} controllers")
    ends = np.zeros(len(fabric.kinds), dtype=bool)
    ends[controllers] = perimeter(rows, columns)[1][: len(controllers)]
    return ends
