"""The commands ``fredfw fred``: draw a routed switch, list the hardware, check the routing of parallel strategies."""

import json
from collections.abc import Sequence
from typing import Any

import click
from attrs import asdict

from fredfw import DeviceMesh, limits
from fredfw.cli import Outputs, configured, open_framework, table
from fredfw.errors import InputError
from fredfw_topology_fred.feasibility import DP, MP, NO_PLACE, PHASES, PP, Check, check, name, strategies
from fredfw_topology_fred.hardware import Figure, Hardware, hardware
from fredfw_topology_fred.switch import FredSwitch, SwitchFlow
from fredfw_topology_fred.switch.drawing import draw as drawn
from fredfw_topology_fred.topology import Fred

_json = click.option("--json", "json_path", metavar="PATH", help="Write all results as JSON; - is standard output.")


@click.group()
def fred() -> None:
    """FRED's switches: pictures, hardware, routing."""


@fred.command()
@click.option("--m", default=3, show_default=True, help="Middle switches.")
@click.option("--ports", default=8, show_default=True, help="Ports of the switch.")
@click.option(
    "--flows",
    "texts",
    multiple=True,
    metavar="FLOW",
    help="Ports of an all-reduce, such as 3,4,5, or inputs and outputs, such as 0,1:6; several with ; between them.",
)
@click.argument("path")
def draw(m: int, ports: int, texts: tuple[str, ...], path: str) -> None:
    """Route flows through one switch and draw it into the SVG file PATH (- is standard output)."""
    if path != "-" and not path.lower().endswith(".svg"):
        raise InputError("unknown format", file=path, key="PATH", accepted="a name that ends in .svg")
    outputs = Outputs({"PATH": path})
    flows = [_flow(part) for text in texts for part in text.split(";")]
    switch = FredSwitch(m, ports)
    limits.check("parts", sum(switch.parts.values()), key="--m" if m > ports else "--ports")
    configuration = switch.route(flows)
    outputs.write({"PATH": lambda: drawn(configuration)})


def _flow(text: str) -> SwitchFlow:
    inputs, colon, outputs = text.partition(":")
    sides = [inputs, outputs if colon else inputs]
    try:
        ports = [[int(one) for one in side.split(",")] for side in sides]
    except ValueError:
        accepted = "ports such as 3,4,5, or inputs:outputs such as 0,1:6"
        raise InputError(f"{text!r} is not a flow", key="--flows", accepted=accepted) from None
    return SwitchFlow(*ports)


@fred.command("hardware")
@click.option("--set", "fields", multiple=True, metavar="FIELD=VALUE", help="A field of the topology; may be repeated.")
@_json
def hardware_(fields: tuple[str, ...], json_path: str | None) -> None:
    """List the chiplets of the switches, with area and power, and where each figure comes from."""
    outputs = Outputs({"--json": json_path})
    found = hardware(configured(Fred, fields, "--set"))
    outputs.write({"--json": lambda: _document("fred-hardware", asdict(found))})
    outputs.show(lambda: _hardware_report(found))


def _hardware_report(found: Hardware) -> list[Any]:
    rows = list[Sequence[str | float]]()
    for row in found.rows:
        chiplet = f"FRED_3({row.chiplet_ports.value:g}), {row.chiplet_ports.status}"
        own = (f"L{row.level}", row.switches, row.ports, row.bandwidth / 1e12, _figure(row.total_chiplets), chiplet)
        rows.append((*own, _figure(row.chiplet_area), _figure(row.chiplet_power)))
    totals = {
        "chiplets": found.chiplets,
        "area (mm2)": found.area,
        "power of the chiplets (W)": found.chiplet_power,
        "power of wires and the rest (W)": found.wire_power,
        "power (W)": found.power,
        "share of the wafer's area": found.area_share,
        "share of the wafer's power": found.power_share,
    }
    columns = ["level", "switches", "ports", "TB/s each way", "chiplets", "chiplet", "area (mm2)", "power (W)"]
    figures = [(name, one.value, str(one.status), one.source) for name, one in totals.items()]
    return [*table("Switches", columns, rows), *table("\nTotals", ["total", "value", "status", "how"], figures)]


def _figure(figure: Figure) -> str:
    return f"{figure.value:.6g}, {figure.status}"


@fred.command("check-routing")
@click.option("--npus", default=20, show_default=True, help="NPUs of the wafer.")
@click.option("--group", default=4, show_default=True, help="NPUs below each L1 switch.")
@click.option("--m", "middles", multiple=True, type=int, default=(3,), help="Middle switches; may be repeated.")
@click.option(
    "--placement", "placements", multiple=True, default=("linear",), help="Where workers go; may be repeated."
)
@click.option("--whole", is_flag=True, help="Only strategies that use all NPUs.")
@_json
@click.pass_context
def check_routing(
    ctx: click.Context,
    npus: int,
    group: int,
    middles: tuple[int, ...],
    placements: tuple[str, ...],
    whole: bool,
    json_path: str | None,
) -> None:
    """Route what every (MP, DP, PP) of up to NPUS workers asks of the switches at once.

    For each strategy: the all-reduces of all MP groups, those of all DP groups, all sends between stages, and the
    all-reduces of some stages' MP groups beside those of the other stages' DP groups.
    """
    outputs = Outputs({"--json": json_path})
    if group < 1:
        raise InputError(f"groups of {group} NPUs", key="--group", accepted="1 or more")
    if npus < 1 or npus % group:
        raise InputError(f"{npus} NPUs in groups of {group}", key="--npus", accepted=f"{group} or a multiple of it")
    # Each strategy has at least one phase, in which most of its workers send.
    least = npus if whole else npus * (npus + 1) // 2
    limits.check("transfers", least * len(middles) * len(placements), key="--npus")
    plugins = open_framework(ctx).plugins
    chosen = [plugins.placements.get(name)() for name in placements]
    arity = (group, npus // group)[: 1 if npus == group else 2]
    checks = [
        check(Fred(arity=arity, middle_switches=m).build(), placement, strategies(npus, whole=whole))
        for m in middles
        for placement in chosen
    ]
    outputs.write(
        {"--json": lambda: _document("fred-routing", {"npus": npus, "group": group, "checks": _plain(checks)})}
    )
    outputs.show(lambda: _routing_report(f"Strategies of up to {npus} NPUs, {group} per L1 switch", checks))


def _routing_report(title: str, checks: Sequence[Check]) -> list[Any]:
    rows, examples = list[Sequence[str | float]](), list[Sequence[str | float]]()
    for one in checks:
        phases = [finding.phase for finding in one.findings]
        conflicts = [phases.count(phase) for phase in (*PHASES, NO_PLACE)]
        unproven = sum(not finding.proven for finding in one.findings)
        rows.append((one.m, one.placement, one.strategies, one.routable, *conflicts, unproven))
        if one.findings:
            found = one.findings[0]
            examples.append((one.m, one.placement, name(found.parallelism), found.phase, found.conflict))
    columns = ["m", "placement", "strategies", "routable", *PHASES, "no place", "unproven"]
    heads = ["m", "placement", "strategy", "phase", "conflict"]
    smallest = table("\nSmallest counterexamples", heads, examples or [("", "", "none", "", "")])
    return [*table(title, columns, rows), *smallest]


def _plain(checks: Sequence[Check]) -> list[dict[str, object]]:
    def plain(_instance: object, _attribute: object, value: object) -> object:
        return {axis: value.size(axis) for axis in (MP, DP, PP)} if isinstance(value, DeviceMesh) else value

    return [asdict(one, value_serializer=plain) | {"routable": one.routable} for one in checks]


def _document(kind: str, content: dict[str, object]) -> str:
    return json.dumps({"format": f"fredfw.{kind}", "version": 1, **content}, indent=2, allow_nan=False) + "\n"
