"""Predicts iterations of training that were timed: simulates the workload on the fabric that stands for the system."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeAlias

from attrs import field, frozen

from fredfw.errors import InputError, SimulationError
from fredfw.experiment.cell.runner import describe
from fredfw.experiment.file import reading
from fredfw.experiment.results import Failure
from fredfw.experiment.run.cells import CellRunner, CellSpec, Outcome, SpecWriter, evaluate
from fredfw.fidelities import EXACT
from fredfw.plugin.manager import PluginManager
from fredfw.validation import systems
from fredfw.validation.points import Point
from fredfw.validation.splits import Part
from fredfw.validation.transports import TOPOLOGY, Transports

Evaluator: TypeAlias = Callable[[Sequence[CellSpec]], Iterable[tuple[int, Outcome]]]
"""Runs cells: (number among them, outcome) as they end."""
PATTERN = "iteration"
FITTED = {"group": "one node", "hidden": 1024, "micro_batch": 1}
"""The rows that the launch time of kernels was fitted to, in which the host sets the time."""

_NPUS = {"dgx-a100": "a100", "dgx-h100": "h100", "hgx-b200": "b200", "gb200-nvl72": "gb200", "mi300x": "mi300x"}
_COUNTS = "layers", "hidden", "heads", "sequence", "vocabulary", "mp", "pp", "dp", "interleave"
_ROOM = "1 PB"
_BATCH = "global_batch", "micro_batch", "zero_stage"
_COLUMNS = ("set", "nodes", *_COUNTS, *_BATCH, "recompute", "sequence_parallel", "seconds")
# Which of a source's rows are predicted where not all are wanted: no long pipelines, and every n-th of a long table.
_LONG = 2_000
_EVERY = {"several nodes": 12, "one node": 48}
# What communication libraries do, by rank order. Gathers of weights that are sharded over all ranks pass one NIC of
# each node.
_COLLECTIVES = {"all-reduce": ["hierarchical", "ring"], "default": ["ring", "direct"]}


@frozen(kw_only=True)
class IterationPoint(Point):
    """An iteration that was timed.

    Args:
        group: The rows of the source that it belongs to.
        workload: Fields of the workload ``transformer``.
    """

    kind: ClassVar[str] = "iteration"

    group: str
    workload: Mapping[str, Any] = field(hash=False)

    @property
    def size_class(self) -> str:
        """The rows that it is scored with."""
        return f"{self.source}, {self.group}"

    @property
    def same(self) -> tuple[Any, ...]:
        """See ``Point.same``."""
        return self.kind, self.system.name, *self.workload.items()

    @property
    def fitted(self) -> bool:
        """Whether the NPU was fitted to it; the transport was not."""
        return {**self.workload, "group": self.group}.items() >= FITTED.items()

    @property
    def passes(self) -> int:
        """Forward passes of a replica over chunks of a stage: what a simulation takes time for."""
        each = self.workload["pp"] * self.workload["interleave"]
        return int(each * self.workload["global_batch"] // self.workload["dp"] // self.workload["micro_batch"])

    def facts(self) -> dict[str, Any]:
        """See ``Point.facts``."""
        return {**super().facts(), "set": self.group, "workload": dict(self.workload)}


def recognised(text: str) -> bool:
    """Return whether a table has iterations."""
    return set(_COLUMNS) <= set(text.partition("\n")[0].strip().split(","))


def parse(text: str, source: str) -> list[IterationPoint]:
    """Return the points of a table that comes with the product."""
    return [_point(row, source, number) for number, row in enumerate(csv.DictReader(text.splitlines()), start=2)]


def few(points: Sequence[IterationPoint]) -> list[IterationPoint]:
    """Return those of ``points``, the rows of a source, that take little time to predict: always the same ones."""
    numbers: dict[str, int] = {}
    chosen = []
    for point in points:
        number = numbers[point.group] = numbers.get(point.group, -1) + 1
        if point.passes <= _LONG and number % _EVERY.get(point.group, 1) == 0:
            chosen.append(point)
    return chosen


def _point(row: Mapping[str, str], source: str, number: int) -> IterationPoint:
    workload: dict[str, Any] = {key: int(row[key]) for key in (*_COUNTS, *_BATCH)}
    workload |= {"recompute": row["recompute"], "sequence_parallel": row["sequence_parallel"] == "true"}
    return IterationPoint(
        system=systems.find("A100 cluster" if row["nodes"] != "1" else "A100 node", int(row["nodes"])),
        source=source,
        pattern=PATTERN,
        nodes=int(row["nodes"]),
        ranks=workload["mp"] * workload["pp"] * workload["dp"],
        seconds=float(row["seconds"]),
        where=f"{source}: line {number}",
        group=row["set"],
        workload=workload,
    )


class Iterations:
    """Simulates iterations of the workload ``transformer``.

    Args:
        plugins: The topology, the workload and the algorithms.
        transports: What predicts the communication of each system.
        evaluator: Runs cells; in this process, and without a store, by default.
        fidelity: How closely they are simulated, or ``ESTIMATE``.
    """

    def __init__(
        self,
        plugins: PluginManager,
        transports: Transports,
        evaluator: Evaluator | None = None,
        fidelity: str = EXACT,
    ) -> None:
        self._plugins = plugins
        self._transports = transports
        self._writer = SpecWriter(plugins)
        self._evaluate = evaluator or partial(evaluate, run=CellRunner(plugins).run)
        self._fidelity = fidelity
        self._seconds: dict[tuple[Any, ...], float] = {}

    def check(self, point: IterationPoint) -> None:
        """Make sure that ``point`` can be predicted.

        Raises:
            InputError: Its system has an accelerator without kernel times.
        """
        if point.system.preset not in _NPUS:
            message = f"nothing is known of the kernels of {point.system.preset}"
            raise InputError(message, key=point.where, accepted=", ".join(_NPUS))

    def prepare(self, points: Sequence[IterationPoint], tell: Callable[[IterationPoint], None]) -> None:
        """See ``Predictor.prepare``; an iteration is a cell.

        Raises:
            SimulationError: One cannot be simulated.
        """
        for number, outcome in self._evaluate([self.spec(point) for point in points]):
            point = points[number]
            if isinstance(outcome, Failure):
                raise SimulationError(f"{point.where} cannot be simulated: {outcome.reason}")
            self._seconds[point.same] = outcome.seconds
            tell(point)

    def seconds(self, point: IterationPoint) -> float:
        """Return how long the iteration takes."""
        if point.same not in self._seconds:
            self.prepare([point], lambda _: None)
        return self._seconds[point.same]

    def model(self, point: IterationPoint) -> Mapping[str, Any]:
        """See ``Predictor.model``."""
        return describe(self._transports.of(point))

    def part(self, point: IterationPoint) -> Part:
        """See ``Predictor.part``: the launch time of kernels was fitted to some."""
        return Part.FITTED if point.fitted else Part.HELD_OUT

    def spec(self, point: IterationPoint) -> CellSpec:
        """Return the cell that ``point`` is."""
        workload = {"name": "transformer", **point.workload}
        if not point.workload["zero_stage"]:
            workload["tasks"] = "passes"
            # Each MP member sends its share to the next stage (Narayanan et al. 2021, section 4.1).
            if not point.workload["sequence_parallel"] and point.workload["mp"] > 1:
                workload["pp_transfer"] = "scatter-gather"
        tables = {
            "baseline": "system",
            # What was measured did fit, whatever an estimate of its memory says.
            "npu": {"preset": _NPUS[point.system.preset], "memory": _ROOM},
            "fabrics": {
                "system": {
                    "topology": {"name": TOPOLOGY, "preset": point.system.preset, "nodes": point.nodes},
                    "placement": "megatron",
                    "transport": describe(self._transports.of(point)),
                    "collectives": _COLLECTIVES,
                }
            },
            "workloads": {PATTERN: {"workload": workload}},
        }
        experiment = reading.configured(reading.parse(tables), self._plugins)
        return self._writer.spec(experiment, experiment.workload(PATTERN), experiment.fabric("system"), self._fidelity)
