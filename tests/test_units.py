import math
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from attrs import Factory, evolve, frozen
from experiments import refused
from hypothesis import given, strategies as st

from fredfw import units
from fredfw.errors import InputError
from fredfw.units import Unit, parse, render

# SI prefixes (SI Brochure, 9th edition, table 7) and binary prefixes (IEC 80000-13).
DECIMAL = {"f": -15, "p": -12, "n": -9, "u": -6, "µ": -6, "m": -3, "": 0}
DECIMAL |= {"k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("8 bits", Unit.BYTES, 1),
        ("1_000 bytes", Unit.BYTES, 1e3),
        ("-1.5E2 us", Unit.SECONDS, -1.5e-4),
        ("1_000.5e+1 us", Unit.SECONDS, 1.0005e-2),
        ("1e-400 ns", Unit.SECONDS, 0),
        ("1E3EB", Unit.BYTES, 1e21),
        ("4e2 Gbps", Unit.BYTES_PER_SECOND, 50e9),
        (".5e-1 pJ/bit", Unit.JOULES_PER_BYTE, 0.4e-12),
        ("989.4 TFLOP/s", Unit.FLOPS, 989.4e12),
        ("1 PFLOPS", Unit.FLOPS, 1e15),
        (3, Unit.BYTES, 3),
        (np.float32(0.5), Unit.BYTES, 0.5),
        (np.int64(7), Unit.BYTES, 7),
    ],
)
def test_quantities(text: object, unit: Unit, expected: float) -> None:
    value = parse(text, unit)
    assert type(value) is float
    assert value == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("kind", [float, np.float64])
@pytest.mark.parametrize("sign", [1, -1])
def test_plain_numbers_are_0_or_in_range_whatever_their_type(kind: type, sign: int) -> None:
    for value in (0.0, 1e-100, 1e100):
        assert parse(kind(sign * value), Unit.BYTES) == sign * value
    # Times may be smaller, but not larger.
    assert parse(kind(sign * 1e-300), Unit.SECONDS) == sign * 1e-300
    for value, unit, what in ((1e-100 * 0.999, Unit.BYTES, "small"), (1.001e100, Unit.SECONDS, "large")):
        with pytest.raises(InputError, match=f"is too {what}"):
            parse(kind(sign * value), unit)


@given(
    mantissa=st.decimals(min_value="0.001", max_value=9999, places=3),
    prefix=st.sampled_from(sorted(DECIMAL)),
    space=st.sampled_from(["", " "]),
)
def test_decimal_prefixes(mantissa: object, prefix: str, space: str) -> None:
    expected = float(f"{mantissa}e{DECIMAL[prefix]}")
    assert parse(f"{mantissa}{space}{prefix}s", Unit.SECONDS) == pytest.approx(expected, rel=1e-14)
    # There is no thousandth of a bit.
    with nullcontext() if DECIMAL[prefix] >= 0 else pytest.raises(InputError, match="has the unit"):
        assert parse(f"{mantissa}{space}{prefix}B/s", Unit.BYTES_PER_SECOND) == pytest.approx(expected, rel=1e-14)


@given(mantissa=st.integers(1, 10**6), prefix=st.sampled_from(sorted(BINARY)))
def test_binary_prefixes(mantissa: int, prefix: str) -> None:
    assert parse(f"{mantissa} {prefix}B", Unit.BYTES) == mantissa * 2 ** BINARY[prefix]


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        ("750 GB", Unit.BYTES_PER_SECOND, "'750 GB' has the unit 'GB', not B/s"),
        ("50 min", Unit.SECONDS, "has the unit 'min', not s"),
        ("1 gbps", Unit.BYTES_PER_SECOND, "has the unit 'gbps', not B/s; did you mean 'GBps' or 'Gbps'?"),
        ("1e2 mFLOP/s", Unit.FLOPS, "has the unit 'mFLOP/s', not FLOP/s; did you mean 'MFLOP/s'?"),
        ("5 %", Unit.BYTES, "has the unit '%'"),
        ("750 G", Unit.BYTES_PER_SECOND, "has no unit"),
        ("", Unit.BYTES, "is not a quantity"),
        ("1 GB each", Unit.BYTES, "is not a quantity"),
        ("1,5 GB", Unit.BYTES, "is not a quantity"),
        ("5 B # or so", Unit.BYTES, "is not a quantity"),
        ("nan s", Unit.SECONDS, "is not finite"),
        ("1e400 ns", Unit.SECONDS, "is not finite"),
        ("1e3e3 ns", Unit.SECONDS, "has the unit"),
        (math.nan, Unit.BYTES, "nan is not finite"),
        (10**400, Unit.BYTES, "is not finite"),
        (True, Unit.BYTES, "True is not a quantity"),
        ([1], Unit.BYTES, "[1] is not a quantity"),
    ],
)
def test_what_is_no_quantity(value: object, unit: Unit, message: str) -> None:
    with refused(None, message, units.accepted(unit)):
        parse(value, unit)


@pytest.mark.parametrize("unit", Unit)
def test_the_examples_of_what_is_accepted_are(unit: Unit) -> None:
    examples = units.accepted(unit).split("'")[1::2]
    assert examples
    for example in examples:
        assert parse(example, unit) > 0


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (750e9, Unit.BYTES_PER_SECOND, "750 GB/s"),
        (0.0, Unit.SECONDS, "0 s"),
        (2e-8, Unit.SECONDS, "20 ns"),
        (2.0**50, Unit.BYTES, "1.126 PB"),
        (123456789.0, Unit.BYTES, "123.5 MB"),
        (0.0125, Unit.BYTES, "0.0125 B"),
    ],
)
def test_render(value: float, unit: Unit, text: str) -> None:
    assert render(value, unit) == text


@given(st.floats(1e-12, 1e15), st.sampled_from(Unit))
def test_what_is_rendered_can_be_read(value: float, unit: Unit) -> None:
    assert parse(render(value, unit, precision=12), unit) == pytest.approx(value, rel=1e-12)


@frozen
class Link:
    rate: float = units.bandwidth("750 GB/s", help="speed")
    wait: float = units.duration("20 ns")
    buffer: float = units.size("1 MiB")
    cost: float = units.energy("0.063 pJ/bit")
    peak: float = units.flops("1 TFLOP/s")
    limit: float | None = units.quantity(Unit.BYTES, None, minimum=10)
    lanes: int = units.option(1, validator=units.at_least(1), help="number of lanes")
    sizes: tuple[int, ...] = units.option((), validator=units.at_least(0))
    shares: Mapping[str, float] = units.option(Factory(dict), validator=units.at_least(0))
    kind: str = units.option("copper", validator=units.one_of("copper", "glass"))
    ports: int | None = units.option(None, validator=units.whole(1))
    stages: tuple[int, ...] = units.option((), validator=units.whole(1))
    duplex: bool = units.flag(True)
    sorted: bool | None = units.flag(None)
    members: int = units.count(2, minimum=2)
    more: int | None = units.count(None)
    load: float = units.number(0.5, minimum=0, at_most=1)
    order: str = units.choice(("forward", "reverse"))
    other: str | None = units.choice(("forward", "reverse"), None)
    dimensions: tuple[int, ...] = units.sizes((4, 5))
    groups: tuple[int, ...] | None = units.sizes(None)
    rates: tuple[float, ...] = units.bandwidths("1 GB/s", per="dimensions")
    waits: tuple[float, ...] | None = units.durations(None)
    upper: str = units.option("a", converter=lambda text: text.upper())


NO_SIZES: list[Any] = [[], [4, 0], [True], 4, None]
NO_RATES: list[Any] = [[], "1 GB", None]


def test_defaults_text_and_numbers_are_converted() -> None:
    link = Link()
    assert (link.rate, link.wait, link.buffer) == (750e9, 2e-8, 2**20)
    assert link.cost == pytest.approx(0.504e-12, rel=1e-15)
    assert (link.peak, link.limit, link.upper) == (1e12, None, "A")
    assert evolve(link, limit="10 B").limit == 10.0  # type: ignore[arg-type]  # the border, where text comes in
    assert (link.members, link.more, link.load, link.order, link.other) == (2, None, 0.5, "forward", None)
    assert (link.dimensions, link.groups, link.rates, link.waits) == ((4, 5), None, (1e9,), None)
    link = Link(dimensions=[2, 3], groups=[6], rates=["1 GB/s", 2e9], waits="20 ns")  # type: ignore[arg-type]
    assert (link.dimensions, link.groups, link.rates, link.waits) == ((2, 3), (6,), (1e9, 2e9), (20e-9,))


@pytest.mark.parametrize(
    ("values", "key", "message", "accepted"),
    [
        ({"rate": 0}, "rate", "0.0 is too small", "more than 0 B/s"),
        ({"rate": None}, "rate", "None is not a quantity", "750 GB/s"),
        ({"wait": -1e-9}, "wait", "-1e-09 is too small", "at least 0 s"),
        ({"buffer": "0 B"}, "buffer", "0.0 is too small", "more than 0 B"),
        ({"cost": -1}, "cost", "-1.0 is too small", "at least 0 J/B"),
        ({"peak": 0}, "peak", "0.0 is too small", "more than 0 FLOP/s"),
        ({"limit": 9}, "limit", "9.0 is too small", "at least 10 B"),
        ({"lanes": 0}, "lanes", "0 is too small", "a number of at least 1"),
        *(({"lanes": one}, "lanes", "is not a finite number", "of at least 1") for one in (True, "2", math.nan)),
        ({"sizes": (1, -2)}, "sizes", "-2 is too small", "a number of at least 0"),
        ({"shares": {"a": -1.0}}, "shares", "-1.0 is too small", "a number of at least 0"),
        *(({"ports": one}, "ports", f"{one}", "a whole number of at least 1") for one in (1.5, True)),
        ({"stages": (1, 0)}, "stages", "0", "a whole number of at least 1"),
        ({"duplex": None}, "duplex", "None", "true or false"),
        ({"sorted": "yes"}, "sorted", "'yes'", "true or false"),
        ({"kind": "glas"}, "kind", "'glas' is not known; did you mean 'glass'?", "copper, glass"),
        ({"members": 1}, "members", "1 is not a valid number", "a whole number of at least 2"),
        ({"load": 2}, "load", "2 is too large", "a number from 0 to 1"),
        ({"order": None}, "order", "None is not known", "forward, reverse"),
        ({"other": "revers"}, "other", "'revers' is not known; did you mean 'reverse'?", "forward, reverse"),
        *(({"dimensions": one}, "dimensions", "", "") for one in NO_SIZES),
        ({"groups": []}, "groups", "", ""),
        *(({"rates": one}, "rates", "", "") for one in NO_RATES),
        ({"rates": ["1 GB/s", "0 GB/s"]}, "rates[1]", "", ""),
        ({"rates": [1, 2, 3]}, "rates", "3 values for the 2 dimensions [4, 5]", "one value for all, or 2"),
        ({"waits": ["-1 ns"]}, "waits[0]", "", ""),
    ],
)
def test_bad_values(values: dict[str, object], key: str, message: str, accepted: str) -> None:
    with refused(key, message, accepted):
        Link(**values)  # type: ignore[arg-type]  # the mistakes to be found


@pytest.mark.parametrize("value", [None, 1.5, np.int64(2), (1, 2), [3], {"a": 1}, (None, 4)])
def test_at_least_accepts(value: Any) -> None:
    assert Link(lanes=value).lanes is value


def test_one_value_is_for_all_dimensions() -> None:
    assert units.per_dimension((2.0,), ("ring", "line")) == (2.0, 2.0)
    assert units.per_dimension((2.0, 3.0), ("ring", "line")) == (2.0, 3.0)


def test_nouns_are_counted() -> None:
    assert [units.counted(number, "flow") for number in (0, 1.0, 1023.5)] == ["0 flows", "1 flow", "1023.5 flows"]
    assert [units.counted(number, "cell has", "cells have") for number in (1, 3)] == ["1 cell has", "3 cells have"]
