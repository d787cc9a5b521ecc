"""What fabrics save over others, as means over many cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from fredfw.errors import InputError
from fredfw.experiment.file.spec import AnyOutline, Pair, SavingSpec
from fredfw.experiment.results import Cell, Saving, SavingClaim, SavingGroup


def savings(outline: AnyOutline, cells: Mapping[tuple[str, str], Cell]) -> tuple[Saving, ...]:
    """Return the savings that ``outline`` asks for."""
    return tuple(_saving(outline, index, spec, cells) for index, spec in enumerate(outline.savings))


def _saving(outline: AnyOutline, index: int, spec: SavingSpec, cells: Mapping[tuple[str, str], Cell]) -> Saving:
    def seconds(workload: str, fabric: str) -> float:
        cell = cells[workload, fabric]
        return cell.seconds if spec.part is None else cell.breakdown[spec.part]

    pairs = outline.pairs(spec)
    groups: dict[tuple[str, ...], list[tuple[Pair, float]]] = {}
    for pair in pairs:
        over = seconds(pair.workload, pair.over)
        if over == 0:
            raise InputError(
                f"{pair.workload!r} spends no time on {spec.part} on {pair.over!r}, so nothing can be saved over it",
                file=outline.file,
                key=f"savings[{index}]",
                accepted="fabrics and workloads with something to save over",
            )
        share = 1 - seconds(pair.workload, pair.of) / over
        groups.setdefault(spec.group(pair.settings), []).append((pair, share))
    references = {spec.group(one.at): one for one in spec.references if not spec.is_claim(one)}
    means = tuple(
        _group(spec, members, None if (one := references.get(key)) is None else (one.saving, one.source))
        for key, members in groups.items()
    )
    return Saving(
        name=spec.name,
        of=spec.of,
        over=spec.over,
        workloads=tuple(dict.fromkeys(pair.workload for pair in pairs)),
        part=spec.part,
        by=spec.by,
        groups=means,
        claims=tuple(
            SavingClaim(one.saving, one.source, _between(spec, means, one.saving))
            for one in spec.references
            if spec.is_claim(one)
        ),
    )


def _between(spec: SavingSpec, groups: Sequence[SavingGroup], claimed: float) -> tuple[tuple[Any, Any], ...]:
    """Return the values of the only field of ``spec`` between which the mean passes ``claimed``."""
    if len(spec.by) != 1:
        return ()
    (key,) = spec.by
    return tuple(
        (one.at[key], other.at[key])
        for one, other in pairwise(groups)
        if min(one.saving, other.saving) <= claimed <= max(one.saving, other.saving)
    )


def _group(spec: SavingSpec, members: list[tuple[Pair, float]], published: tuple[float, str] | None) -> SavingGroup:
    shares = [share for _, share in members]
    first, _ = members[0]
    reference, source = published or (None, None)
    return SavingGroup(
        at={key: first.settings[key] for key in spec.by},
        saving=math.fsum(shares) / len(shares),
        lowest=min(shares),
        highest=max(shares),
        pairs=len(shares),
        reference=reference,
        reference_source=source,
    )
