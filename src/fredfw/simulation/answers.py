"""What policies, transports and admissions must answer, or it is a ``PluginError``; overridden answers do not count."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np

from fredfw.answers import (
    ANYTHING,
    FIGURES,
    FLAG,
    NAMES,
    TEXTS,
    Asking,
    Kind,
    Method,
    brief,
    instance,
    number,
    or_none,
    speaks_for,
)
from fredfw.fabric import (
    Admission,
    AdmissionPolicy,
    Call,
    Costs,
    Decision,
    Decompose,
    Fabric,
    FlowSet,
    Refuse,
    Routes,
    Split,
    Start,
    Transport,
    Wait,
)
from fredfw.simulation.sharing import (
    ActiveFlows,
    Dynamics,
    HeldRates,
    Incidence,
    Samples,
    SharingPolicy,
    StatefulSharing,
)
from fredfw.typing import BoolArray, FloatArray
from fredfw.units import Unit, render

_OVER = 1e-6  # by how much a link may carry more than its capacity, relative: rounding, of single precision too


def always_starts(admission: Admission, routes: Routes) -> BoolArray | None:
    """Return which of ``(F,)`` ``routes`` ``admission`` starts whatever runs; ``None`` where no word of it counts."""
    if not speaks_for(type(admission), "always_starts", "admit"):
        return None
    asked = Asking(admission, "always_starts")
    with asked:
        answer: object = admission.always_starts(routes)
    if answer is None:
        return None
    if not isinstance(answer, np.ndarray) or answer.shape != (len(routes),) or answer.dtype != np.bool_:
        raise asked.unexpected(answer, f"an array of {len(routes)} times True or False, or None")
    return answer


def max_min_in_class(sharing: SharingPolicy) -> bool:
    return sharing.max_min_in_class and speaks_for(type(sharing), "max_min_in_class", "rates")


def rates(sharing: SharingPolicy, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
    """Return the ``(F,)`` rates, within capacities and caps, of which one is above 0 unless links are closed."""
    asked = Asking(sharing, "rates")
    with asked:
        answer: object = sharing.rates(incidence, capacities, fabric)
    return _checked(asked, answer, incidence, capacities, fabric, stands=False)


def _checked(
    asked: Asking, answer: object, incidence: Incidence, capacities: FloatArray, fabric: Fabric, *, stands: bool
) -> FloatArray:
    count = len(incidence)
    if not isinstance(answer, np.ndarray) or answer.shape != (count,) or answer.dtype.kind not in "fiu":
        raise asked.unexpected(answer, f"an array of {count} numbers, the rate of each flow in bytes per second")
    rates: FloatArray = answer.astype(float, copy=False)
    if not count:
        return rates
    if not rates.min() >= 0:
        flow = int(np.flatnonzero(~(rates >= 0))[0])
        raise asked.wrong(f"gives flow {flow} of {count} a rate of {rates[flow]} B/s", "a rate that is not negative")
    if incidence.caps is not None and (rates > incidence.caps * (1 + _OVER)).any():
        flow = int((rates > incidence.caps * (1 + _OVER)).argmax())
        given, cap = (render(float(one[flow]), Unit.BYTES_PER_SECOND) for one in (rates, incidence.caps))
        raise asked.wrong(f"gives flow {flow} of {count} a rate of {given}", f"at most its limit of {cap}")
    _check_load(asked, incidence, rates, capacities, fabric)
    if rates.max() == 0 and not stands:
        _check_stall(asked, incidence, capacities)
    return rates


def held(dynamics: Dynamics, flows: ActiveFlows, capacities: FloatArray, now: float, fabric: Fabric) -> HeldRates:
    """Return rates from ``now`` on, and until when; all may be 0 for a while, for ever only across closed links."""
    asked = Asking(dynamics, "rates")
    with asked:
        answer: object = dynamics.rates(flows, capacities, now)
    if not isinstance(answer, HeldRates):
        raise asked.unexpected(answer, "fredfw.HeldRates")
    until: object = answer.until
    if not isinstance(until, int | float) or not until > now:
        accepted = "seconds since the simulation began, after now"
        raise asked.wrong(f"holds rates until {brief(until)} at {now!r}", accepted)
    rates = _checked(asked, answer.rates, flows.incidence, capacities, fabric, stands=until < math.inf)
    return HeldRates(rates, float(until))


def _check_load(asked: Asking, incidence: Incidence, rates: FloatArray, capacities: FloatArray, fabric: Fabric) -> None:
    used, links = None, incidence.links
    if 8 * len(links) < len(capacities):  # else to sort the links takes longer than the rest
        used, links = np.unique(links, return_inverse=True)
        capacities = capacities[used]
    weights = np.repeat(rates, incidence.offsets[1:] - incidence.offsets[:-1])
    if incidence.coefficients is not None:
        weights *= incidence.coefficients
    load = np.bincount(links, weights, len(capacities))
    over = ~(load <= capacities * (1 + _OVER))
    if over.any():
        link = int(over.argmax())
        carried, capacity = (render(float(one[link]), Unit.BYTES_PER_SECOND) for one in (load, capacities))
        name = fabric.link_name(link if used is None else int(used[link]))
        raise asked.wrong(f"gives the flows on link {name} {carried} in all", f"at most its capacity of {capacity}")


def _check_stall(asked: Asking, incidence: Incidence, capacities: FloatArray) -> None:
    closed = np.bincount(incidence.flows, capacities[incidence.links] <= 0, len(incidence)) > 0
    able = ~closed if incidence.caps is None else ~closed & (incidence.caps > 0)
    if able.any():
        crosses = f"flow {int(able.argmax())} crosses no closed link"
        raise asked.wrong(f"gives none of {len(incidence)} flows a rate, and {crosses}", "a flow that moves")


def transport_flag(transport: Transport, name: str) -> bool:
    asked = Asking(transport, name)
    with asked:
        answer: object = getattr(transport, name)
    return FLAG.of(asked, answer)


def _check_costs(asked: Asking, answer: Costs, _: Transport, _call: Call, fabric: Fabric) -> None:
    tiers = int(fabric.tiers.max(initial=0)) + 1
    for name in ("launch", "step", "message", "efficiency", "cap", "reduction"):
        value: object = getattr(answer, name)
        numbers = value if isinstance(value, tuple) and name not in ("launch", "reduction") else (value,)
        if numbers is value and len(numbers) != tiers:
            raise asked.wrong(f"returned {name} {brief(value)}", f"one number, or {tiers}, one for each tier")
        seconds = name in ("launch", "step", "message")
        accepted = "seconds, finite and not negative" if seconds else "a number above 0"
        for one in numbers:
            if not isinstance(one, Real) or not (0 <= float(one) < math.inf if seconds else float(one) > 0):
                raise asked.wrong(f"returned {name} {brief(value)}", accepted)
            if name == "efficiency" and float(one) > 1:
                raise asked.wrong(f"returned {name} {brief(value)}", "above 0, and at most 1")
    told: object = answer.seconds
    if told is not None and not (isinstance(told, Real) and 0 < float(told) < math.inf):
        raise asked.wrong(f"returned seconds {brief(told)}", "seconds, finite and above 0, or None")
    named: object = answer.protocol
    if not isinstance(named, str):
        raise asked.wrong(f"returned protocol {brief(named)}", "text")


def admission(fabric: Fabric) -> Admission:
    return _begin(fabric.defaults.admission, fabric.network)


def _check_decision(asked: Asking, answer: Decision, _: Admission, flows: FlowSet, _active: Sequence[FlowSet]) -> None:
    if isinstance(answer, Start):
        _check_start(asked, answer, len(flows.volumes))
    elif isinstance(answer, Split):
        _check_split(asked, answer, flows)


def _check_start(asked: Asking, start: Start, count: int) -> None:
    setup: object = start.setup
    caps: object = start.caps
    if not isinstance(setup, Real) or not 0 <= float(setup) < math.inf:
        raise asked.wrong(f"returned Start with a setup of {brief(setup)}", "seconds, finite and not negative")
    if caps is None:
        return
    if not isinstance(caps, np.ndarray) or caps.shape != (count,) or caps.dtype.kind not in "fiu":
        raise asked.wrong(f"returned Start with caps {brief(caps)}", f"an array of {count} rates, one for each flow")
    if count and not caps.min() >= 0:
        raise asked.wrong(f"returned Start with a cap of {caps[~(caps >= 0)][0]} B/s", "rates that are not negative")


def _check_split(asked: Asking, split: Split, flows: FlowSet) -> None:
    what, count = f"splits {flows.label or 'flows'}", len(flows.volumes)
    with asked:
        parts = [np.asarray(part) for part in split.parts]
    if len(parts) < 2 or not all(part.size for part in parts):
        raise asked.wrong(f"{what} into itself", "two or more parts, none of them empty")
    if any(part.ndim != 1 or part.dtype.kind not in "iu" for part in parts) or not np.array_equal(
        np.sort(np.concatenate(parts)), np.arange(count)
    ):
        raise asked.wrong(f"{what} into parts that do not hold each of its {count} flows exactly once", "all indices")


def _are_samples(answer: object) -> bool:
    return isinstance(answer, Mapping) and all(isinstance(one, Samples) for one in answer.values())


def _check_samples(asked: Asking, answer: Mapping[str, Samples], _: Dynamics) -> None:
    for name, one in answer.items():
        if len(one.times) != len(one.values) or not (np.isfinite(one.times).all() and np.isfinite(one.values).all()):
            raise asked.wrong(f"returned samples of {name!r} that are not (T,) finite times and values", "those")


_DECISIONS = Start | Wait | Refuse | Split | Decompose

weight = Method(SharingPolicy.weight, number("a finite number above 0", lambda value: 0 < value < math.inf))
labels = Method(SharingPolicy.labels, NAMES)
notes_of_sharing = Method(SharingPolicy.notes, TEXTS)
notes_of_transport = Method(Transport.notes, TEXTS)
ratio_error = Method(
    Transport.ratio_error, or_none(number("a share, finite and at least 0", lambda value: 0 <= value < math.inf))
)
begun = Method(StatefulSharing.begin, instance(Dynamics, "fredfw.Dynamics"))
samples = Method(
    Dynamics.samples,
    Kind[dict[str, Samples]]("fredfw.Samples by name", _are_samples, lambda answer: dict(sorted(answer.items()))),
    _check_samples,
)
algorithms = Method(Transport.algorithms, or_none(Kind("a sequence of names,", NAMES.fits, NAMES.made)))
settled = Method(Transport.settled, instance(Transport))
costs = Method(Transport.costs, instance(Costs, "fredfw.Costs"), _check_costs)
cap = Method(Admission.cap, number("bytes per second, more than 0", lambda value: value > 0))
decision = Method(
    Admission.admit,
    Kind[Decision]("Start, Wait, Refuse, Split or Decompose", lambda answer: isinstance(answer, _DECISIONS)),
    _check_decision,
)
release = Method(Admission.release, ANYTHING)
figures = Method(Admission.figures, FIGURES)
figures_of_dynamics = Method(Dynamics.figures, FIGURES)
notes = Method(Admission.notes, TEXTS)
notes_of_dynamics = Method(Dynamics.notes, TEXTS)
_begin = Method(AdmissionPolicy.begin, instance(Admission))
_compatible = Method(Admission.compatible, FLAG)


def compatible(admission: Admission, together: Sequence[FlowSet]) -> bool:
    return speaks_for(type(admission), "compatible", "admit") and _compatible(admission, together)
