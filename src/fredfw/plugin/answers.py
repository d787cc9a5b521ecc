"""What topologies and exporters must answer, and what commands may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from fredfw import limits
from fredfw.answers import ANYTHING, Asking, Kind, Method, brief, instance, or_none, sequence
from fredfw.fabric import AdmissionPolicy, Bill, Capabilities, Defaults, Fabric, Level, Router, Topology, Transport
from fredfw.plugin.exporter import Exporter
from fredfw.simulation.sharing import SharingPolicy
from fredfw.workloads import Placement, System, TaskGraph, TraceWorkload, Workload, answers as workloads

if TYPE_CHECKING:
    from fredfw.plugin.exporter import Content, Result

_SLOTS: Mapping[str, Kind[Any]] = {
    "router": instance(Router),
    "sharing": or_none(instance(SharingPolicy)),
    "admission": instance(AdmissionPolicy),
    "transport": instance(Transport),
    "placement": or_none(instance(Placement)),
}
_PARTS: Mapping[str, Kind[Any]] = {
    "levels": sequence(lambda level: isinstance(level, Level), "a tuple of fredfw.Level"),
    "offers": instance(Capabilities, "fredfw.Capabilities"),
}


def _check_fabric(asked: Asking, fabric: Fabric, _: Topology) -> None:
    limits.check("nodes", len(fabric.kinds))
    limits.check("links", len(fabric.sources))
    defaults: object = fabric.defaults
    if not isinstance(defaults, Defaults):
        raise asked.wrong(f"returned a fabric whose defaults are {brief(defaults)}", "fredfw.Defaults")
    for what, parts, kinds in (("default ", defaults, _SLOTS), ("", fabric, _PARTS)):
        for name, kind in kinds.items():
            part = getattr(parts, name)
            if not kind.fits(part):
                raise asked.wrong(f"returned a fabric whose {what}{name} is {brief(part)}", kind.text)


built = Method(Topology.build, instance(Fabric), _check_fabric)
billed = Method(Topology.cost, or_none(instance(Bill)))
checked = Method(Exporter.check, ANYTHING)


def exported(exporter: Exporter, result: Result) -> Content | Mapping[str, Content]:
    asked = Asking(exporter, "export")
    with asked:
        content: object = exporter.export(result)
    if not exporter.directory:
        if isinstance(content, str | bytes):
            return content
        raise asked.unexpected(content, "text or bytes")
    if not isinstance(content, Mapping) or not content:
        raise asked.unexpected(content, "a table of files, by name")
    for name, one in content.items():
        if not isinstance(name, str) or name != PurePath(name).name or name in ("", ".", ".."):
            raise asked.wrong(f"names a file {name!r}", "the name of a file, without a directory")
        if not isinstance(one, str | bytes):
            raise asked.wrong(f"returned {brief(one)} for {name!r}", "text or bytes")
    return content


def _graph(workload: Workload, system: System) -> TaskGraph:
    return workloads.graph(workload, system, workloads.mesh(workload, system).ranks)


CHECKED: Mapping[Any, Callable[..., Any]] = {
    Exporter.export: exported,
    Topology.build: built,
    TraceWorkload.info: workloads.infos,
    Workload.graph: _graph,
    Workload.notes: workloads.notes,
}
"""What asks a plugin, by a method of its interface, where more is known of the answer than that there is one."""
