"""What is checked of an exporter: the content that it makes of results of every kind that it takes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, TypeAlias

import attrs
import numpy as np
from attrs import frozen

from fredfw.collectives import Pattern
from fredfw.errors import UnsupportedError
from fredfw.experiment.results import CollectiveResult, CollectiveSweep, Comparison, RunResult
from fredfw.experiment.study.results import StudyResult
from fredfw.fabric import Fabric, Topology
from fredfw.framework import Framework
from fredfw.plugin import hookimpl
from fredfw.plugin.answers import exported
from fredfw.plugin.exporter import KINDS, Content, Exporter
from fredfw.plugin.manager import PluginManager, Switches
from fredfw.testing.conformance import NOTHING, Faults, _Tests, check_all, otherwise
from fredfw.testing.fabrics import grid, star
from fredfw.testing.process import Deterministic, digest
from fredfw.units import option
from fredfw.validation.results import Validation
from fredfw.workloads import DeviceMesh, GraphBuilder, System, TaskGraph, Work, Workload

Result: TypeAlias = RunResult | Comparison | CollectiveResult | CollectiveSweep | TaskGraph | StudyResult
_CLASSES = (RunResult, Comparison, CollectiveResult, CollectiveSweep, TaskGraph, StudyResult, Validation)


@frozen
class _Small(Topology):
    """A star or a ring of four NPUs."""

    name: ClassVar[str] = "kit-small"

    ring: bool = option(False, help="whether it is the ring")

    def build(self) -> Fabric:
        return grid(4, closed=True) if self.ring else star(4)


@frozen
class _Step(Workload):
    """One layer and its gradients on four workers."""

    name: ClassVar[str] = "kit-step"

    def mesh(self, system: System) -> DeviceMesh:
        return DeviceMesh({"dp": 4})

    def work(self, system: System) -> Work:
        return Work(samples=8)

    def graph(self, system: System) -> TaskGraph:
        builder = GraphBuilder(4)
        everybody = np.arange(4)
        layer = builder.compute("layer", everybody, flops=1e12)
        builder.collective("gradients", Pattern.ALL_REDUCE, everybody[None, :], 1e9, label="dp", after=[layer])
        return builder.build()


@hookimpl
def fredfw_topologies() -> list[type[Topology]]:
    return [_Small]


@hookimpl
def fredfw_workloads() -> list[type[Workload]]:
    return [_Step]


@cache
def results() -> tuple[RunResult, Comparison, CollectiveResult, CollectiveSweep, TaskGraph, StudyResult]:
    plugins = PluginManager.discover(Switches(allow=frozenset()))
    plugins.register(sys.modules[__name__], "fredfw.testing")
    framework = Framework(plugins)
    direct = {"collectives": {"default": "direct"}}
    workloads = {"a step": {"workload": "kit-step"}}
    one, other = ({"topology": {"name": "kit-small", "ring": ring}, **direct} for ring in (False, True))
    title = "four NPUs, <two> fabrics & a 'quoted, name'"
    fabrics = {"a star": one, "a ring": other}
    given = {"title": title, "baseline": "a star", "fabrics": fabrics, "workloads": workloads}
    experiment = framework.load_experiment(given)
    study = {"title": "one <star> or ring", "fabrics": {"it": one}, "workloads": workloads}
    space = {"ring": {"path": "fabrics.it.topology.ring", "values": [False, True]}}
    fabric = _Small().build()
    alone = framework.simulate_collective(fabric, "all-reduce", size=1e6, algorithm="direct")
    return (
        framework.run(experiment, workload="a step", fabric="a ring"),
        framework.compare(experiment),
        alone,
        CollectiveSweep((alone,), fabric, {"algorithm": {"name": "direct"}}),
        _Step().graph(System(npus=4)),
        framework.study({**study, "space": space, "objective": {"minimise": "time"}}),
    )


@frozen(eq=False, kw_only=True)
class ExporterCase(Deterministic[Exporter, Result, Content | Mapping[str, Content] | None]):
    """An exporter and results, of which it is given those that it takes."""

    shows: ClassVar[str] = "the content"
    mend: ClassVar[str] = (
        "it may depend on the result and the fields alone: no clock, no random numbers, nothing kept between calls"
    )

    results: Sequence[Result] = otherwise(results)

    @property
    def asked(self) -> list[Result]:
        classes = tuple(cls for kind, cls in zip(KINDS, _CLASSES, strict=True) if kind in self.subject.takes)
        return [one for one in self.results if isinstance(one, classes)]

    def answer(self, question: Result) -> Content | Mapping[str, Content] | None:
        try:
            return exported(self.subject, question)
        except UnsupportedError:
            return None

    def words(self, question: Result) -> str:
        return f"a {type(question).__name__}"

    def takes_are_kinds(self) -> Faults:
        """It says which kinds of results it takes."""
        takes: object = self.subject.takes
        if not isinstance(takes, tuple) or not takes or not set(takes) <= set(KINDS):
            yield f"takes are {takes!r}; a tuple of one or more of {', '.join(KINDS)}"

    def gives_text_or_bytes(self) -> Faults:
        """Of some result it gives text, which UTF-8 can hold, or bytes, by names for a directory; others it refuses."""
        given = [(result, content) for result, content in self.answers if content is not None]
        if not given:
            yield "every result is refused; give results= that it exports"
        for result, content in given:
            for text in content.values() if isinstance(content, Mapping) else [content]:
                try:
                    _ = text.encode() if isinstance(text, str) else text
                except UnicodeEncodeError as error:
                    yield f"of {self.words(result)}, the text cannot be written as UTF-8: {error.reason}"

    def refusals_have_reasons(self) -> Faults:
        """A result that the format has no form for is refused with a reason in words."""
        found = self.refused(self.subject.export, UnsupportedError)
        return (f"{result} is refused without a reason" for result, error in found if not error.message.strip())

    def suffixes_are_endings(self) -> Faults:
        """The suffixes are endings of files, each with its dot."""
        suffixes: object = self.subject.suffixes
        if not isinstance(suffixes, tuple) or not all(
            isinstance(one, str) and one.startswith(".") and len(one) > 1 for one in suffixes
        ):
            yield f"suffixes are {suffixes!r}; a tuple of endings with the dot, such as ('.json',)"

    def result_is_left_alone(self) -> Faults:
        """Exporting changes nothing in the result."""
        for result in self.asked:
            before = digest(_inside(result))
            self.answer(result)
            if digest(_inside(result)) != before:
                yield f"export() changes the {type(result).__name__} that it is given; copy what has to change"


class ExporterTests(_Tests, case=ExporterCase, subjects="exporters"):
    """Tests of the configured ``exporters``, on ``results``, by default the kit's own."""

    exporters: ClassVar[Sequence[Exporter]] = ()
    results: ClassVar[Sequence[Result]] = ()


def check_exporter(
    exporter: Exporter,
    *,
    results: Sequence[Result] = (),
    plugin: object = None,
    expected_failures: Mapping[str, str] = NOTHING,
) -> None:
    """Check a configured exporter on ``results``, or else on one of each kind of the kit; see ``check_topology``."""
    check_all("exporter", ExporterCase(subject=exporter, plugin=plugin, results=results), expected_failures)


def _inside(value: Any) -> Iterator[object]:
    if attrs.has(type(value)):
        for one in attrs.fields(type(value)):
            yield from _inside(getattr(value, one.name))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _inside(inner)
    elif isinstance(value, tuple | list):
        yield len(value)
        for inner in value:
            yield from _inside(inner)
    elif isinstance(value, str | bytes | bool | int | float | np.ndarray | np.generic | type(None)):
        yield value
