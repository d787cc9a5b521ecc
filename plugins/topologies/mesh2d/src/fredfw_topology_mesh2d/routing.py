"""Dimension-ordered routes and trees on a mesh, without a Python loop over flows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Fabric, Operation, Router, Routes
from fredfw.errors import UnsupportedError
from fredfw.typing import BoolArray, IntArray
from fredfw_topology_mesh2d.geometry import perimeter


@frozen
class XYRouter(Router):
    """Routes along the row first, then along the column; for fabrics with two levels that are lines.

    The stream of a controller goes straight in from its edge, so from the top or bottom edge along the column first. A
    reduction is the reversed multicast.
    """

    name: ClassVar[str] = "xy"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """See ``Router.route``."""
        return fabric.paths(*fabric.derived(_Grid.of).walk(sources, destinations))

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        """See ``Router.path``."""
        return fabric.path(fabric.derived(_Grid.of).walk_one(source, destination))

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``."""
        if operation is Operation.ALL_REDUCE:
            raise UnsupportedError(
                f"the xy router has no all-reduce tree on fabric {fabric.name!r}", accepted="multicast or reduce"
            )
        reverse = operation is Operation.REDUCE
        root, leaves = (destinations[:1], sources) if reverse else (sources[:1], destinations)
        grid = fabric.derived(_Grid.of)
        column_first = bool(grid.column_end[root].all())
        paths = fabric.paths(*grid.walk(np.repeat(root, len(leaves)), leaves, column_first=column_first))
        links = np.unique(paths.links)
        if reverse:
            links = fabric.links_between(fabric.destinations[links], fabric.sources[links])
        return Routes.of([links], [float(paths.latencies.max(initial=0.0))])


@frozen(eq=False)
class _Grid:
    """The geometry of a mesh, as far as routes need it.

    Args:
        columns: Length of a row.
        npus: Number of grid positions.
        position: ``(nodes,)`` row * columns + column of the NPU, or of the NPU that the controller is attached to.
        column_end: ``(nodes,)`` whether the node is a controller at the end of a column.
        gate: ``(nodes,)`` number of the controller, -1 for an NPU.
        links: Link ids, six tables one after the other: from each position to the next and to the previous one of its
            row, to the next and to the previous one of its column, from each controller, and to each controller.
    """

    columns: int
    npus: int
    position: IntArray
    column_end: BoolArray
    gate: IntArray
    links: IntArray

    @classmethod
    def of(cls, fabric: Fabric) -> _Grid:
        """Derive it from the levels, the coordinates and the order of the controllers."""
        if fabric.coordinates is None or [level.kind for level in fabric.levels] != ["line", "line"]:
            raise UnsupportedError(f"the xy router cannot route fabric {fabric.name!r}", accepted="two levels of lines")
        columns, rows = (level.size for level in fabric.levels)
        controllers = fabric.controllers
        if len(fabric.npus) != rows * columns or len(controllers) not in (0, 2 * (rows + columns)):
            raise UnsupportedError(
                f"the xy router cannot route {len(fabric.npus)} NPUs and {len(controllers)} controllers",
                accepted=f"{rows * columns} NPUs and 0 or {2 * (rows + columns)} controllers",
            )
        slots, ends = (slot[: len(controllers)] for slot in perimeter(rows, columns))
        place = fabric.coordinates[:, 0] + columns * fabric.coordinates[:, 1]
        position = np.zeros(len(fabric.kinds), dtype=np.intp)
        position[fabric.npus], position[controllers] = place, slots
        column_end = np.zeros(len(fabric.kinds), dtype=bool)
        column_end[controllers] = ends
        gate = np.full(len(fabric.kinds), -1)
        gate[controllers] = np.arange(len(controllers))

        nodes = np.empty_like(place)
        nodes[place] = fabric.npus
        grid = nodes.reshape(rows, columns)
        step = np.full((4, rows, columns), -1)
        step[0, :, :-1] = fabric.links_between(grid[:, :-1], grid[:, 1:])
        step[1, :, 1:] = fabric.links_between(grid[:, 1:], grid[:, :-1])
        step[2, :-1] = fabric.links_between(grid[:-1], grid[1:])
        step[3, 1:] = fabric.links_between(grid[1:], grid[:-1])
        enter = fabric.links_between(controllers, nodes[slots])
        leave = fabric.links_between(nodes[slots], controllers)
        return cls(columns, len(place), position, column_end, gate, np.concatenate([step.ravel(), enter, leave]))

    def walk(
        self, sources: IntArray, destinations: IntArray, *, column_first: bool = False
    ) -> tuple[IntArray, IntArray]:
        """Return offsets and links of the dimension-ordered path of each pair of nodes."""
        row, column = np.divmod(self.position[sources], self.columns)
        end_row, end_column = np.divmod(self.position[destinations], self.columns)
        right, down = end_column - column, end_row - row
        # A path is four segments, each an arithmetic series in the table of links: first entry, step, length.
        along_row = (
            np.where(right < 0, self.npus, 0) + (end_row if column_first else row) * self.columns + column,
            np.sign(right),
            np.abs(right),
        )
        along_column = (
            np.where(down < 0, 3, 2) * self.npus + row * self.columns + (column if column_first else end_column),
            np.sign(down) * self.columns,
            np.abs(down),
        )
        enters, leaves = self.gate[sources], self.gate[destinations]
        moves, still = sources != destinations, np.zeros(len(sources), dtype=np.intp)
        enter = 4 * self.npus + enters, still, moves & (enters >= 0)
        leave = 4 * self.npus + int(self.gate.max() + 1) + leaves, still, moves & (leaves >= 0)
        middle = (along_column, along_row) if column_first else (along_row, along_column)
        first, step, length = (np.stack(part, axis=1).ravel() for part in zip(enter, *middle, leave, strict=True))
        end = np.cumsum(length)
        begin = end - length
        # Entry k of a segment that begins at b is first + (k - b) * step.
        entry = np.repeat(first - begin * step, length)
        entry += np.repeat(step, length) * np.arange(len(entry))
        return np.concatenate([[0], end[3::4]]), self.links[entry]

    def walk_one(self, source: int, destination: int) -> IntArray:
        """Return the links of the path of one pair of nodes, along the row first, as ``walk`` does for many."""
        if source == destination:
            return self.links[:0]
        row, column = divmod(int(self.position[source]), self.columns)
        end_row, end_column = divmod(int(self.position[destination]), self.columns)
        enters, leaves = int(self.gate[source]), int(self.gate[destination])
        entry = [4 * self.npus + enters] if enters >= 0 else []
        begin, end = row * self.columns + column, row * self.columns + end_column
        entry += range(begin, end) if begin <= end else range(self.npus + begin, self.npus + end, -1)
        begin, end = end, end_row * self.columns + end_column
        table, step = (2, self.columns) if begin <= end else (3, -self.columns)
        entry += range(table * self.npus + begin, table * self.npus + end, step)
        if leaves >= 0:
            entry.append(4 * self.npus + int(self.gate.max() + 1) + leaves)
        return self.links[entry]
