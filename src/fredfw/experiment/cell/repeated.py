"""Several runs of one iteration: their mean, and how far they are apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

import numpy as np
from attrs import evolve

from fredfw.experiment.results import GraphResult, Spread
from fredfw.units import Unit, render

# So few runs say little about the slowest of a hundred.
_ENOUGH = 100
# Of a time: runs that are no further apart are equal but for the order of their sums.
_ROUNDING = 1e-12


def spread(seconds: Sequence[float]) -> Spread:
    """Return what iteration times of two or more runs have in common."""
    p50, p99 = np.percentile(seconds, [50, 99]).tolist()
    apart = max(seconds) - min(seconds) > _ROUNDING * max(seconds)
    error = stdev(seconds) / math.sqrt(len(seconds)) if apart else 0.0
    return Spread(len(seconds), fmean(seconds), p50, p99, error, tuple(seconds))


def over(once: Callable[[int], GraphResult], runs: int) -> GraphResult:
    """Return the first of ``runs`` runs with the mean of all in place of its time, its parts, its bytes and its energy.

    The timeline, the figures and the notes are those of the first run.
    """
    first = once(0)
    seconds, energies = [first.seconds], [first.energy]
    parts, moved = [first.breakdown], [first.link_bytes_by_label]
    for run in range(1, runs):
        one = once(run)
        seconds.append(one.seconds)
        energies.append(one.energy)
        parts.append(one.breakdown)
        moved.append(one.link_bytes_by_label)
    by_label = {
        label: sum((one[label] for one in moved[1:] if label in one), loads) / runs
        for label, loads in first.link_bytes_by_label.items()
    }
    found = spread(seconds)
    times = f"P50 {_told(found.p50)}, P99 {_told(found.p99)}, standard error of the mean {_told(found.standard_error)}"
    few = "; the P99 of so few runs is close to the slowest" if runs < _ENOUGH else ""
    note = f"mean of {runs} runs: {times}{few}; the timeline is of the first"
    return evolve(
        first,
        seconds=found.mean,
        breakdown=_means(parts),
        energy=fmean(energies),
        link_bytes=sum(by_label.values(), np.zeros_like(first.link_bytes)),
        link_bytes_by_label=by_label,
        bytes_by_cause={label: float(loads.sum()) for label, loads in by_label.items()},
        notes=(*first.notes, note),
        spread=found,
    )


def _told(seconds: float) -> str:
    return render(seconds, Unit.SECONDS, 4)


def _means(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {cause: fmean(one[cause] for one in parts) for cause in parts[0]}
