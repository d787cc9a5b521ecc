"""The best bandwidth of each dimension for the analytic model: a convex programme, solved by cutting planes.

The time of a collective is the largest of ``message / bandwidth`` over the dimensions, which is convex. Tangents at the
bandwidths that were tried so far bound it from below, and the best bandwidths for these tangents are a linear
programme. Its value is a lower bound of the time, and the time at its solution is an upper one. Both meet.

For time x cost, the least time at each cost is convex in the cost, so lines that touch it from below bound the product
from below, too. The product of such a line and the cost is least at an end of the line or where two lines cross.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy  # its parts load when they are used
from attrs import frozen

from fredfw.errors import InputError, SimulationError
from fredfw.typing import FloatArray
from fredfw_command_libra.constraints import Constraint

_GAP = 1e-8  # relative distance of the bounds that is small enough
_TOLERANCES = 1e-10, 1e-9, 1e-8
"""Of a linear programme: the next one where the solver ends without a verdict, as that of SciPy 1.18 does at times."""
_MOST = 200  # linear programmes
_TINY = 1e-9
_INFEASIBLE = 2  # what SciPy says of a linear programme without a solution
NO_PRICES = "dollars per GB/s for all scopes of the dimensions"


@frozen(eq=False)
class Programme:
    """What is to be minimised."""

    messages: FloatArray  # ``(collectives, dimensions)`` bytes that an NPU sends in each dimension
    weights: FloatArray  # ``(collectives,)`` how often each collective counts
    fixed: float  # seconds that no bandwidth changes
    budget: float  # bytes per second of an NPU in all dimensions together
    constraints: tuple[Constraint, ...] = ()  # what else must hold
    prices: FloatArray | None = None  # ``(dimensions,)`` dollars of a byte per second of an NPU, for costs

    @property
    def dimensions(self) -> int:
        return int(self.messages.shape[1])

    def seconds(self, bandwidths: FloatArray) -> float:
        shares = np.divide(self.messages, bandwidths, out=np.zeros_like(self.messages), where=self.messages > 0)
        return self.fixed + float(self.weights @ shares.max(axis=1, initial=0.0))

    def dollars(self, bandwidths: FloatArray) -> float:
        if self.prices is None:
            raise InputError("a dimension has no price", key="prices", accepted=NO_PRICES)
        return float(self.prices @ bandwidths)


@frozen(eq=False)
class Optimum:
    """The best bandwidths."""

    bandwidths: FloatArray  # ``(dimensions,)`` bytes per second of an NPU
    value: float  # what was minimised, there
    bound: float  # what no bandwidths can be below
    programmes: int  # linear programmes that were solved

    @property
    def gap(self) -> float:
        return (self.value - self.bound) / self.value if self.value else 0.0


def fastest(programme: Programme) -> Optimum:
    """Return the bandwidths of the least time, in seconds; raises as ``feasible``."""
    best = feasible(programme)
    tangents = _Tangents(programme, best, 1.0)
    value, bound = programme.seconds(best * programme.budget), programme.fixed
    while value - bound > _GAP * value and tangents.solved < _MOST:
        shares, lower, _ = tangents.solve()
        bound = max(bound, lower)
        for one in tangents.cut(shares, best):
            seconds = programme.seconds(one * programme.budget)
            if seconds < value:
                best, value = one, seconds
    return Optimum(best * programme.budget, value, min(bound, value), tangents.solved)


def cheapest(programme: Programme) -> Optimum:
    """Return the bandwidths of the least time x cost, in seconds x dollars of an NPU; raises as ``feasible``."""
    best = feasible(programme)
    if programme.prices is None or not programme.prices.max() > 0:
        raise InputError("a dimension has no price", key="prices", accepted=NO_PRICES)
    scale = float(programme.prices.max())
    prices = programme.prices / scale  # linear programmes are solved to an absolute accuracy
    cost = float(prices @ best)
    tangents = _Tangents(programme, best, cost / max(_costs(programme, prices, 0 * prices)[0], _TINY))
    low, high = _costs(programme, prices, tangents.lowest)
    margin = _TINY * high
    if high - low <= 2 * margin:  # each split costs the same
        found = fastest(programme)
        dollars = programme.dollars(found.bandwidths)
        return Optimum(found.bandwidths, found.value * dollars, found.bound * dollars, found.programmes)

    def product(shares: FloatArray) -> float:
        return programme.seconds(shares * programme.budget) * float(prices @ shares)

    value, bound = product(best), low * programme.fixed
    lines = [(programme.fixed, 0.0)]
    while value - bound > _GAP * value and tangents.solved < _MOST:
        shares, lower, slope = tangents.solve((prices, cost))
        lines.append((lower - slope * cost, slope))
        for one in tangents.cut(shares, best):
            if product(one) < value:
                best, value = one, product(one)
        bound, cost = min(_products(lines, low, high))
        cost = min(max(cost, low + margin), high - margin)  # at an end rounding may leave no solution
    dollars = scale * programme.budget
    return Optimum(best * programme.budget, value * dollars, min(bound, value) * dollars, tangents.solved)


def feasible(programme: Programme) -> FloatArray:
    """Return ``(dimensions,)`` shares of the budget that meet the constraints, the least of them as large as can be."""
    found = _levelled(programme, programme.constraints)
    if found is not None and found[1] > _TINY:
        return found[0]
    blamed = list(programme.constraints)
    for one in programme.constraints:  # what is left cannot do without any of its members
        fewer = [other for other in blamed if other is not one]
        left = _levelled(programme, fewer)
        if left is None or left[1] <= _TINY:
            blamed = fewer
    named = ", ".join(dict.fromkeys(repr(one.text) for one in blamed))
    nothing = "this leaves nothing for a dimension that has traffic"
    why = "no bandwidths that add up to the budget meet this" if found is None else nothing
    accepted = "constraints that some bandwidths of this budget meet"
    raise InputError(f"{named}: {why}", key="constraints", accepted=accepted)


class _Tangents:
    """A linear programme in the shares of the budget and the times of collectives, whose cuts grow."""

    def __init__(self, programme: Programme, shares: FloatArray, worse: float) -> None:
        """Begin with the tangents at ``shares``; what is looked for has at most ``worse`` times their time."""
        self.programme, self.solved = programme, 0
        self.scale = programme.seconds(shares * programme.budget) or 1.0  # seconds that times are multiples of
        self.cuts: list[tuple[FloatArray, str, float]] = []
        needs = (programme.weights[:, None] * programme.messages).max(axis=0, initial=0.0)
        # ``(dimensions,)`` shares that no better solution is below
        self.lowest = np.minimum(needs / (programme.budget * self.scale * worse), shares)
        self._add(shares)

    def cut(self, shares: FloatArray, best: FloatArray) -> Sequence[FloatArray]:
        """Add tangents at ``shares`` and half way from ``best``, which is rarely a corner; return the two."""
        both = shares, (shares + best) / 2
        for one in both:
            self._add(one)
        return both

    def _add(self, shares: FloatArray) -> None:
        messages, count = self.programme.messages / (self.programme.budget * self.scale), self.programme.dimensions
        for number, row in enumerate(messages):
            for dimension in np.flatnonzero(row):
                at = float(shares[dimension])
                cut = np.zeros(count + len(messages))
                cut[dimension], cut[count + number] = -row[dimension] / at, -at
                self.cuts.append((cut, "<=", -2 * row[dimension]))

    def solve(self, cost: tuple[FloatArray, float] | None = None) -> tuple[FloatArray, float, float]:
        """Return the best shares for the tangents, the time there, and how that changes with the cost."""
        programme, count = self.programme, self.programme.dimensions
        others = np.zeros(len(programme.messages))
        met = _rows(programme.constraints, programme)
        rows = [(np.append(left, others), sense, right) for left, sense, right in met]
        if cost is not None:
            rows.append((np.append(cost[0], others), "=", cost[1]))
        bounds = [(float(low), 1.0) for low in self.lowest] + [(0.0, None)] * len(others)
        answer = _solved(np.append(np.zeros(count), programme.weights), [*self.cuts, *rows], bounds)
        if answer is None:
            raise SimulationError("a linear programme of the bandwidths has no solution")
        self.solved += 1
        slope = 0.0 if cost is None else float(answer.eqlin.marginals[-1]) * self.scale
        shares: FloatArray = np.maximum(answer.x[:count], self.lowest)
        return shares, float(answer.fun) * self.scale + programme.fixed, slope


def _products(lines: Sequence[tuple[float, float]], low: float, high: float) -> Iterator[tuple[float, float]]:
    """Yield the lower bound of time x cost, and the cost, at both ends and wherever two ``lines`` cross."""
    heights, slopes = np.array(lines).T
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = (heights[None] - heights[:, None]) / (slopes[:, None] - slopes[None])
    costs = np.concatenate([[low, high], np.unique(crossings[(crossings > low) & (crossings < high)])])
    times = (heights[:, None] + slopes[:, None] * costs).max(axis=0)
    yield from zip((times * costs).tolist(), costs.tolist(), strict=True)


def _costs(programme: Programme, prices: FloatArray, lowest: FloatArray) -> tuple[float, float]:
    """Return the least and the largest cost of shares from ``lowest`` on that meet the constraints."""
    rows, bounds = list(_rows(programme.constraints, programme)), [(float(low), 1.0) for low in lowest]
    ends = [_solved(sign * prices, rows, bounds) for sign in (1.0, -1.0)]
    low, high = (0.0 if one is None else float(prices @ one.x) for one in ends)
    return low, high


def _levelled(programme: Programme, constraints: Sequence[Constraint]) -> tuple[FloatArray, float] | None:
    """Return the shares whose least one, of those with traffic, is the largest, and that one."""
    count = programme.dimensions
    used = np.flatnonzero(programme.messages.any(axis=0))
    rows = [(np.append(left, 0.0), sense, right) for left, sense, right in _rows(constraints, programme)]
    rows += [(np.append(-np.eye(count)[one], 1.0), "<=", 0.0) for one in (used if len(used) else range(count))]
    answer = _solved(np.append(np.zeros(count), -1.0), rows, [(0.0, 1.0)] * (count + 1))
    if answer is None:
        return None
    return answer.x[:count], float(answer.x[count]) if len(used) else 1.0


def _rows(constraints: Sequence[Constraint], programme: Programme) -> Iterator[tuple[FloatArray, str, float]]:
    """Yield what shares of the budget must meet; that they add up to 1 comes first."""
    yield np.ones(programme.dimensions), "=", 1.0
    for one in constraints:
        yield one.row(programme.budget)


def _solved(
    objective: FloatArray, rows: Sequence[tuple[FloatArray, str, float]], bounds: Sequence[tuple[float, float | None]]
) -> Any:
    """Return what SciPy says of a linear programme, or ``None`` where it has no solution."""
    above, equal = ([row for row in rows if row[1] == sense] for sense in ("<=", "="))
    for tolerance in _TOLERANCES:
        answer = scipy.optimize.linprog(
            objective,
            A_ub=np.array([row[0] for row in above]) if above else None,
            b_ub=[row[2] for row in above] or None,
            A_eq=np.array([row[0] for row in equal]),
            b_eq=[row[2] for row in equal],
            bounds=bounds,
            method="highs",
            options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
        )
        if not answer.status:
            return answer
        if answer.status == _INFEASIBLE:
            return None
    raise SimulationError(f"a linear programme of the bandwidths was not solved: {answer.message}")
