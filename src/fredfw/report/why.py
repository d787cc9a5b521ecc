"""Why an iteration takes as long as it does, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from fredfw.experiment.results import CriticalPath, RunResult, WhatIf
from fredfw.experiment.why import BEGINNING, TierShare, tier_shares
from fredfw.report.data import ordered
from fredfw.report.layout import StackedTable
from fredfw.units import Unit, counted, render
from fredfw.workloads.labels import COMPUTE, WAITING

_LEAST = 0.01  # a smaller share limits nothing
_MOST = 5  # parts in a line


def why_report(result: RunResult, top: int = 10) -> list[RenderableType]:
    """Return what limits the iteration, its critical path and the tiers by label, and what would help.

    Nothing for what was not asked for. At most ``top`` steps of the path and tiers are listed.
    """
    report: list[RenderableType] = []
    if result.critical_path is not None:
        report += [Text(), *_path_report(result.critical_path, top)]
        tiers = tier_shares(result)
        if tiers:
            title = Text("utilisation of each tier by label, mean over its links", style="bold")
            report += [Text(), title, _tiers_table(result, tiers[:top])]
    if result.what_if is not None:
        report += [Text(), *_what_if_report(result.what_if)]
    return report


def headline(path: CriticalPath) -> str:
    """Return what limits the iteration, in a line."""
    parts = [(name, seconds / path.seconds) for name, seconds in path.by_limit.items()] if path.seconds else []
    if not parts:
        return "nothing limits this iteration: it takes no time"
    (first, share), *others = parts
    said = [f"{name} {100 * part:.1f} %" for name, part in others if part >= _LEAST][: _MOST - 1]
    then = f"; then {', '.join(said)}" if said else ""
    return f"limited by {first}: {100 * share:.1f} % of the critical path{then}"


def _path_report(path: CriticalPath, top: int) -> list[RenderableType]:
    report: list[RenderableType] = [Text(headline(path), style="bold")]
    kinds = [f"{name} {_share(seconds, path)}" for name, seconds in path.by_kind.items()][:_MOST]
    if kinds:
        report.append(Text(f"the path goes through {counted(path.length, 'task')}: {', '.join(kinds)}"))
    if len(path.by_rank) > 1:
        ranks = [f"{rank} {_share(seconds, path)}" for rank, seconds in path.by_rank.items()]
        others = f", and {counted(len(ranks) - _MOST, 'other')}" if len(ranks) > _MOST else ""
        report.append(Text(f"it goes through the ranks {', '.join(ranks[:_MOST])}{others}"))
    if path.crowded >= _LEAST * path.seconds:
        report.append(
            Text(
                f"communication that shares links or waits to be admitted makes {_share(path.crowded, path)} of it: so "
                "much longer it takes than its own bytes alone"
            )
        )
    table = _table(
        "critical path", "kind", "times", "seconds", "share", "began after", "served by", "limited by", right=(2, 3, 4)
    )
    for step in path.steps[:top]:
        begins = [name for name, _ in sorted(step.begins.items(), key=lambda one: -one[1]) if name != BEGINNING]
        among = f" x{step.ranks}" if step.ranks else ""
        limits = [f"{name} {100 * part / step.seconds:.0f} %" for name, part in step.limits.items()][:2]
        table.add_row(
            step.name,
            step.kind,
            str(step.count),
            render(step.seconds, Unit.SECONDS, 4),
            _share(step.seconds, path),
            ", ".join(begins) or "-",
            f"{step.algorithm}{among}" or "-",
            "-" if step.kind in (COMPUTE, WAITING) else ", ".join(limits) or "-",
        )
    report += [Text(), table]
    if len(path.steps) > top:
        rest = sum(step.seconds for step in path.steps[top:])
        report.append(Text(f"... and {counted(len(path.steps) - top, 'other')}, {_share(rest, path)}"))
    return report


def _tiers_table(result: RunResult, tiers: Sequence[TierShare]) -> StackedTable:
    labels = ordered({label for tier in tiers for label in tier.mean_by_label}, [result.colours])
    table = _table("tier", "links", "busiest link", *labels, "all", right=range(1, len(labels) + 4))
    for tier in tiers:
        shares = (tier.mean_by_label.get(label, 0.0) for label in labels)
        table.add_row(
            tier.name,
            str(tier.links),
            f"{100 * tier.hottest.utilization:.1f} %",
            *(f"{100 * share:.1f} %" if share else "-" for share in shares),
            f"{100 * tier.mean:.1f} %",
        )
    return table


def _what_if_report(found: WhatIf) -> list[RenderableType]:
    factor = f"{found.factor:g}x"
    table = _table(
        "better parameter",
        "on the path",
        "1 %, path",
        "1 %, run",
        f"{factor}, path",
        f"{factor}, run",
        "change",
        right=range(1, 7),
    )
    for one in found.improvements:
        table.add_row(
            one.parameter,
            render(one.on_path, Unit.SECONDS, 4),
            _signed(one.estimated_exponent, 3),
            _signed(one.exponent, 3),
            render(one.estimated_seconds, Unit.SECONDS, 4),
            render(one.seconds, Unit.SECONDS, 4),
            _signed(100 * (one.seconds / found.seconds - 1) if found.seconds else 0.0, 1),
        )
    meaning = "path: what the critical path lets expect, if it stays what it is; run: what another simulation says"
    return [Text(f"what if one parameter were 1 % or {factor} better", style="bold"), table, Text(meaning)]


def _signed(percent: float, decimals: int) -> str:
    # Adding 0 makes a zero without a sign of one that was rounded from below.
    return f"{round(percent, decimals) + 0.0:+.{decimals}f} %"


def _share(seconds: float, path: CriticalPath) -> str:
    return f"{100 * seconds / path.seconds if path.seconds else 0.0:.1f} %"


def _table(*header: str, right: Sequence[int]) -> StackedTable:
    table = StackedTable()
    for column, name in enumerate(header):
        table.add_column(name, no_wrap=True, justify="right" if column in right else "left")
    return table
