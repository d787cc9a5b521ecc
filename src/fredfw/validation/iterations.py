"""Predicts iterations of training that were timed: simulates the workload on the fabric that stands for the system."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, ClassVar

from attrs import field, frozen

from fredfw.errors import InputError, SimulationError
from fredfw.experiment.cell.runner import describe
from fredfw.experiment.file import reading
from fredfw.experiment.results import Failure
from fredfw.experiment.run.cells import CellSpec, Means
from fredfw.fidelities import EXACT
from fredfw.lines import Line, lines
from fredfw.validation.points import Part, Point
from fredfw.validation.tables import Reading, system_of
from fredfw.validation.transports import TOPOLOGY, Predictor, Transports

PATTERN = "iteration"
FITTED = (  # the rows that something of the accelerators was fitted to
    # The launch time of kernels, where the host sets the time; what an H100 sustains.
    {"source": "vtrain-iterations", "group": "one node", "hidden": 1024, "micro_batch": 1},
    {"source": "torchtitan", "dp": 8, "elementwise": "fused"},
)

REQUIRED = "nodes", "seconds"
_OWN = (*REQUIRED, "set", "system", "npu", "source")
_ROOM = "1 PB"  # what was measured did fit, whatever an estimate of its memory says
# Which of a source's rows are predicted where not all are wanted: no long pipelines, and every n-th of a long table.
_LONG = 2_000
_EVERY = {"several nodes": 12, "one node": 48}
# As communication libraries do, by rank order: gathers of weights sharded over all ranks pass one NIC of each node.
_COLLECTIVES = {"all-reduce": ["hierarchical", "ring"], "default": ["ring", "direct"]}


@frozen(kw_only=True)
class IterationPoint(Point):
    """An iteration that was timed."""

    kind: ClassVar[str] = "iteration"

    group: str  # the rows of the source that it belongs to
    npu: str  # a preset of ``Npu``; empty for what its system has
    workload: Mapping[str, Any] = field(hash=False)  # fields of the workload ``transformer``

    @property
    def size_class(self) -> str:
        return f"{self.source}, {self.group}" if self.group else self.source

    @property
    def same(self) -> tuple[Any, ...]:
        return self.kind, self.system.name, self.npu, *self.workload.items()

    @property
    def fitted(self) -> bool:
        """Whether the NPU was fitted to it; the transport was not."""
        facts = {**self.workload, "source": self.source, "group": self.group}
        return any(facts.items() >= one.items() for one in FITTED)

    @property
    def passes(self) -> int:
        """Forward passes of a replica over chunks of a stage: what a simulation takes time for."""
        of = {"pp": 1, "interleave": 1, "global_batch": 1, "dp": 1, "micro_batch": 1, **self.workload}
        return int(of["pp"] * of["interleave"] * of["global_batch"] // of["dp"] // of["micro_batch"])

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "set": self.group, "npu": self.npu, "workload": dict(self.workload)}


def recognised(text: str) -> bool:
    return {one.strip() for one in text.partition("\n")[0].split(",")}.issuperset(REQUIRED)


def parse(text: str, source: str, reading: Reading | None = None) -> list[IterationPoint]:
    """Return the iterations of a table; a column that is not one of the table's own is a field of ``transformer``."""
    return [_point(line, source, reading or Reading()) for line in lines(text)]


def few(points: Sequence[IterationPoint]) -> list[IterationPoint]:
    """Return those of ``points``, the rows of a source, that take little time to predict: always the same ones."""
    numbers: defaultdict[str, Iterator[int]] = defaultdict(count)
    return [one for one in points if next(numbers[one.group]) % _EVERY.get(one.group, 1) == 0 and one.passes <= _LONG]


def _point(line: Line, source: str, reading: Reading) -> IterationPoint:
    nodes = line.count("nodes", 1)
    workload = {key: _value(text) for key, text in line.cells.items() if text and key not in _OWN}
    sizes = [line.count(axis, 1) for axis in ("mp", "pp", "cp", "dp") if axis in workload]
    return IterationPoint(
        system=system_of(line, nodes, reading),
        source=line["source"] or source,
        pattern=PATTERN,
        nodes=nodes,
        ranks=math.prod(sizes),
        seconds=line.quantity("seconds", "a number of seconds above 0"),
        where=f"line {line.number}",
        group=line["set"],
        npu=line["npu"],
        workload=workload,
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


class Iterations(Predictor):
    """Simulates iterations of the workload ``transformer``."""

    def __init__(self, means: Means, transports: Transports, fidelity: str = EXACT) -> None:
        super().__init__(means.plugins, transports)
        self._means = means
        self._fidelity = fidelity

    def check(self, point: IterationPoint) -> None:
        try:
            self.spec(point)
        except InputError as error:
            raise InputError(f"{error.key}: {error.message}", key=point.where, accepted=error.accepted) from None

    def prepare(self, points: Sequence[IterationPoint], tell: Callable[[IterationPoint], None]) -> None:
        with self._means.outcomes([self.spec(point) for point in points]) as outcomes:
            for number, outcome in outcomes:
                point = points[number]
                if isinstance(outcome, Failure):
                    raise SimulationError(f"{point.where} cannot be simulated: {outcome.reason}")
                self._known[point.same] = outcome.seconds
                tell(point)

    def _predicted(self, point: IterationPoint) -> float:
        self.prepare([point], lambda _: None)
        return self._known[point.same]

    def part(self, point: IterationPoint) -> Part:
        """See ``Predictor.part``: the launch time of kernels was fitted to some."""
        return Part.FITTED if point.fitted else Part.HELD_OUT

    def spec(self, point: IterationPoint) -> CellSpec:
        workload, given = {"name": "transformer", **point.workload}, point.workload
        if not given.get("zero_stage") and not {"model", "experts"} & given.keys():
            workload["tasks"] = "passes"
            # Each MP member sends its share to the next stage (Narayanan et al. 2021, section 4.1).
            if not given.get("sequence_parallel") and given.get("mp", 1) > 1:
                workload["pp_transfer"] = "scatter-gather"
        tables = {
            "baseline": "system",
            "npu": {"memory": _ROOM, **({"preset": point.npu} if point.npu else {})},
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
        return self._means.spec(experiment, *experiment.cells[0], self._fidelity)
