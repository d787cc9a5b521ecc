"""Quantities at the border: text with units in, SI numbers without prefixes inside.

Inside fredfw everything is bytes, seconds, bytes per second, FLOP per second and joules per byte. ``parse`` turns
``"750 GB/s"``, ``"64 MiB"`` or ``"40 Gbps"`` into such numbers, ``quantity`` declares an attrs field that does so, and
``render`` goes the other way. GB is 10^9 bytes, GiB is 2^30 bytes, ``b`` is bits, ``B`` is bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from numbers import Real
from typing import Any

import attrs

from fredfw.errors import InputError, nearest, placed
from fredfw.files import FILE, FILES, File, Files


class Unit(Enum):
    """A dimension, by the SI unit that fredfw keeps it in."""

    BYTES = "B"
    SECONDS = "s"
    BYTES_PER_SECOND = "B/s"
    FLOPS = "FLOP/s"
    JOULES = "J"
    JOULES_PER_BYTE = "J/B"


_BIT = 1 / 8
_SPELLINGS: Mapping[Unit, Mapping[str, float]] = {  # accepted after the prefix, with the factor to the SI unit
    Unit.BYTES: {"B": 1.0, "byte": 1.0, "bytes": 1.0, "b": _BIT, "bit": _BIT, "bits": _BIT},
    Unit.SECONDS: {"s": 1.0, "sec": 1.0},
    Unit.BYTES_PER_SECOND: {"B/s": 1.0, "Bps": 1.0, "b/s": _BIT, "bps": _BIT, "bit/s": _BIT},
    Unit.FLOPS: {"FLOP/s": 1.0, "FLOPS": 1.0, "FLOPs": 1.0},
    Unit.JOULES: {"J": 1.0},
    Unit.JOULES_PER_BYTE: {"J/B": 1.0, "J/byte": 1.0, "J/b": 8.0, "J/bit": 8.0},
}
_EXAMPLES: Mapping[Unit, str] = {
    Unit.BYTES: "a size such as '64 MiB', '1 GB' or a number of bytes",
    Unit.SECONDS: "a time such as '20 ns', '25 us' or a number of seconds",
    Unit.BYTES_PER_SECOND: "a bandwidth such as '750 GB/s', '40 Gbps' or a number of bytes per second",
    Unit.FLOPS: "a compute rate such as '989 TFLOP/s' or a number of FLOP per second",
    Unit.JOULES: "an energy such as '5 mJ' or a number of joules",
    Unit.JOULES_PER_BYTE: "an energy per byte such as '0.063 pJ/bit' or a number of joules per byte",
}

LEAST, MOST = 1e-100, 1e100  #: Of quantities but 0, so products of three do not overflow; times may be smaller.

# There is no thousandth of a bit: "64 mb" must be a slip for "64 MB" or "64 Mb".
_WHOLE = (Unit.BYTES, Unit.BYTES_PER_SECOND, Unit.FLOPS)
_FRACTIONS = tuple("munpfazyµμ")
_PREFIXES = "EPTGMkmunpfa"  # without these, quantiphy ends at T
_NUMBER = re.compile(r"\s*[+-]?[\d_.]+([eE][+-]?\d+)?\s*")
_DIGITS = r"[0-9](?:_*[0-9])*"
_EXPONENT = re.compile(rf"(\s*[+-]?)((?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})[eE][+-]?[0-9]+)")


def accepted(unit: Unit) -> str:
    """Return a phrase that says what ``unit`` accepts."""
    return _EXAMPLES[unit]


def parse(value: object, unit: Unit) -> float:
    """Return ``value``, a number or text with a unit, in the SI unit of ``unit``.

    Raises ``InputError`` where the text has no such unit, or the number is not finite or beyond ``LEAST`` and ``MOST``.
    """
    # What programs mostly give, which costs them more than anything else here if it goes the long way.
    if (type(value) is float or type(value) is int) and (LEAST <= value <= MOST or value == 0):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, Real | str):
        raise InputError(f"{value!r} is not a quantity", accepted=accepted(unit))
    try:
        number = _parse_text(value, unit) if isinstance(value, str) else float(value)
    except OverflowError:  # an integer beyond the largest float
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{value!r} is not finite", accepted=accepted(unit))
    # A program's times are differences of moments, which may be as small as rounding.
    least = 0.0 if unit is Unit.SECONDS else LEAST
    if number and not least <= abs(number) <= MOST:
        what = "small" if abs(number) < least else "large"
        raise InputError(f"{value!r} is too {what}", accepted=f"{accepted(unit)}; 0, or {LEAST:g} to {MOST:g}")
    return number


def _parse_text(text: str, unit: Unit) -> float:
    # quantiphy costs 15 ms to import and is needed only where text is given.
    import quantiphy

    try:
        parsed = quantiphy.Quantity(_without_exponent(text), binary=True)
    except quantiphy.QuantiPhyError:
        raise InputError(f"{text!r} is not a quantity", accepted=accepted(unit)) from None
    # quantiphy also reads "name = 5 B # comment", and "1,5 GB" as 15 GB.
    if parsed.name or parsed.desc or "," in text:
        raise InputError(f"{text!r} is not a quantity", accepted=accepted(unit))
    if not math.isfinite(parsed):  # whatever its unit, which quantiphy reads differently after such a number
        return float(parsed)
    written = _NUMBER.sub("", text, count=1).strip()  # the prefix, too, which quantiphy takes off where it knows it
    factor = _SPELLINGS[unit].get(parsed.units)
    small = unit in _WHOLE and written.removesuffix(parsed.units) in _FRACTIONS
    if factor is None or small:
        what = f"has the unit {written!r}, not {unit.value}" if parsed.units else "has no unit"
        raise InputError(f"{text!r} {what}{_other_case(written, unit)}", accepted=accepted(unit))
    return float(parsed) * factor


def _without_exponent(text: str) -> str:
    """Return ``text`` with its number written out, since quantiphy takes no prefix after an exponent."""
    from decimal import Decimal

    found = _EXPONENT.match(text)
    if not found:
        return text
    number = float(found[2].replace("_", ""))
    # An infinite one stays as it is, and quantiphy finds it infinite, too.
    return f"{found[1]}{Decimal(repr(number)):f}{text[found.end() :]}" if math.isfinite(number) else text


def _other_case(written: str, unit: Unit) -> str:
    """Return a hint where ``written`` is a unit but for the case of its letters."""
    prefixes = ("", *"kMGTPE", *(f"{one}i" for one in "KMGTPE"))
    known = [prefix + spelling for prefix in prefixes for spelling in _SPELLINGS[unit]]
    alike = [one for one in known if one.lower() == written.lower() and one != written]
    return f"; did you mean {' or '.join(map(repr, alike))}?" if alike else ""


def render(value: float, unit: Unit, precision: int = 3) -> str:
    """Return ``value`` with an SI prefix for people, such as ``"750 GB/s"``, and at most ``precision`` + 1 digits."""
    import quantiphy

    if unit in _WHOLE and abs(value) < 1:
        return f"{value:.{precision + 1}g} {unit.value}"
    number = quantiphy.Quantity(value, unit.value)
    vars(number)["output_sf"] = _PREFIXES
    return str(number.render(prec=precision, strip_zeros=True))


def counted(number: float, one: str, more: str = "") -> str:
    """Return ``number`` with ``one``, the noun where it is 1, or with ``more``, ``one`` and an s by default."""
    return f"{number:.15g} {one if number == 1 else more or f'{one}s'}"


def quantity(
    unit: Unit,
    default: object = attrs.NOTHING,
    *,
    minimum: float = 0.0,
    exclusive: bool = False,
    optional: bool = False,
    help: str = "",
) -> Any:
    """Declare an attrs field that holds a quantity in SI and accepts text with units, as its ``default`` may be.

    Without a default it is required. Less than ``minimum`` is refused, and the minimum itself where ``exclusive``;
    ``None`` passes where ``optional``. ``help`` is for ``fredfw plugins show`` and the documentation.
    """
    bound = f"{'more than' if exclusive else 'at least'} {minimum:g} {unit.value}"
    form = f"{accepted(unit)}; {bound}"

    def wrong(value: float) -> str | None:
        return f"{value!r} is too small" if value < minimum or (exclusive and value == minimum) else None

    return attrs.field(
        default=default,
        converter=_converter(lambda value: parse(value, unit), optional=optional or default is None),
        validator=_Limit(form, wrong),
        metadata={"unit": unit, "help": help, "accepted": form},
    )


def _converter(read: Callable[[object], object], *, optional: bool) -> attrs.Converter[Any, Any]:
    """Return the converter of a field by ``read``, of which errors name the field."""

    def convert(value: object, attribute: attrs.Attribute[Any]) -> object:
        if value is None and optional:
            return None
        with placed(key=attribute.name):
            return read(value)

    return attrs.Converter(convert, takes_field=True)


def bandwidth(default: object = attrs.NOTHING, *, help: str = "") -> Any:
    """Declare a field in bytes per second, more than zero."""
    return quantity(Unit.BYTES_PER_SECOND, default, exclusive=True, help=help)


def duration(default: object = attrs.NOTHING, *, help: str = "") -> Any:
    """Declare a field in seconds, zero or more."""
    return quantity(Unit.SECONDS, default, help=help)


def size(default: object = attrs.NOTHING, *, help: str = "") -> Any:
    """Declare a field in bytes, more than zero."""
    return quantity(Unit.BYTES, default, exclusive=True, help=help)


def energy(default: object = attrs.NOTHING, *, help: str = "") -> Any:
    """Declare a field in joules per byte, zero or more."""
    return quantity(Unit.JOULES_PER_BYTE, default, help=help)


def quantities(
    unit: Unit, default: object = attrs.NOTHING, *, exclusive: bool = False, per: str = "", help: str = ""
) -> Any:
    """Declare a field with a tuple of quantities, one per dimension or level; ``None`` passes where it is the default.

    A single quantity becomes a tuple of one, which stands for all. Where ``exclusive``, 0 is refused, too. ``per`` is
    the field with the dimensions; numbers of quantities that ``per_dimension`` refuses are refused.
    """
    bound = f"{'more than' if exclusive else 'at least'} 0 {unit.value}"
    form = f"{accepted(unit)}; {bound}; or a list of such values"

    def read(one: object) -> float:
        number = parse(one, unit)
        if number < 0 or (exclusive and number == 0):
            raise InputError(f"{one!r} is too small", accepted=form)
        return number

    def read_all(value: object) -> tuple[float, ...]:
        if not isinstance(value, list | tuple):
            return (read(value),)
        if not value:
            raise InputError("there are none", accepted=form)
        numbers = []
        for index, one in enumerate(value):
            with placed(key=f"[{index}]"):
                numbers.append(read(one))
        return tuple(numbers)

    def check(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None:
            per_dimension(value, getattr(instance, per), key=attribute.name)

    return attrs.field(
        default=default,
        converter=_converter(read_all, optional=default is None),
        validator=check if per else None,
        metadata={"unit": unit, "help": help, "accepted": form},
    )


def bandwidths(default: object = attrs.NOTHING, *, per: str = "", help: str = "") -> Any:
    """Declare a field with one bandwidth per dimension, in bytes per second, or one for all."""
    return quantities(Unit.BYTES_PER_SECOND, default, exclusive=True, per=per, help=help)


def durations(default: object = attrs.NOTHING, *, per: str = "", help: str = "") -> Any:
    """Declare a field with one duration per dimension, in seconds, or one for all."""
    return quantities(Unit.SECONDS, default, per=per, help=help)


def per_dimension(values: Sequence[float], dimensions: Sequence[object], *, key: str = "") -> tuple[float, ...]:
    """Return one of ``values`` for each of ``dimensions``, or the single one for all; other numbers are refused."""
    count = len(dimensions)
    if len(values) not in (1, count):
        message = f"{counted(len(values), 'value')} for the {counted(count, 'dimension')} {list(dimensions)}"
        raise InputError(message, key=key or None, accepted=f"one value for all, or {count}")
    return tuple(values) * (count if len(values) == 1 else 1)


def flops(default: object = attrs.NOTHING, *, help: str = "") -> Any:
    """Declare a field in FLOP per second, more than zero."""
    return quantity(Unit.FLOPS, default, exclusive=True, help=help)


def option(
    default: object = attrs.NOTHING,
    *,
    help: str = "",
    validator: Callable[..., Any] | list[Callable[..., Any]] | None = None,
    converter: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare a field without a unit, with its meaning for the configuration schema."""
    return attrs.field(default=default, validator=validator, converter=converter, metadata={"help": help})


def count(default: object = attrs.NOTHING, *, minimum: int = 1, help: str = "") -> Any:
    """Declare a field with a whole number of at least ``minimum``; ``None`` passes."""
    return option(default, help=help, validator=whole(minimum))


def number(default: object = attrs.NOTHING, *, minimum: float, at_most: float = math.inf, help: str = "") -> Any:
    """Declare a field with a number, or what ``at_least`` accepts; ``None`` passes."""
    return option(default, help=help, validator=at_least(minimum, at_most=at_most))


def choice(choices: Iterable[str], default: object = attrs.NOTHING, *, help: str = "") -> Any:
    """Declare a field with one of ``choices``, by default the first; ``None`` passes where it is the default."""
    accepted = tuple(choices)
    known = one_of(*accepted)
    if default is attrs.NOTHING:
        default = accepted[0]
    return option(default, help=help, validator=attrs.validators.optional(known) if default is None else known)


def file(default: object = attrs.NOTHING, *, help: str = "") -> Any:
    """Declare a field with a ``fredfw.File``: a path relative to the experiment file, or the working directory.

    It must be there when the field is filled. Its digest is in the provenance of every result.
    """
    return _located(File.at, FILE, default, help)


def files(default: object = attrs.NOTHING, *, help: str = "") -> Any:
    """Declare a field with ``fredfw.Files``: paths or patterns with ``*``, relative as for ``file``."""
    return _located(Files.at, FILES, default, help)


def _located(at: Callable[..., object], accepted: str, default: object, help: str) -> Any:
    return attrs.field(
        default=default,
        converter=_converter(at, optional=default is None),
        metadata={"help": help, "accepted": accepted, "located": at},
    )


def sizes(default: object = attrs.NOTHING, *, minimum: int = 1, help: str = "") -> Any:
    """Declare a field with a tuple of one or more whole numbers; ``None`` passes where it is the default."""
    form = f"a list of whole numbers of at least {minimum}, such as [4, 5]"

    def check(_instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None and default is None:
            return
        if not isinstance(value, tuple) or not value:
            raise InputError(f"{value!r} is not a list of sizes", key=attribute.name, accepted=form)
        for one in value:
            if isinstance(one, bool) or not isinstance(one, int) or one < minimum:
                raise InputError(f"{list(value)} has {one!r} in it", key=attribute.name, accepted=form)

    def convert(value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    return attrs.field(default=default, converter=convert, validator=check, metadata={"help": help, "accepted": form})


def flag(default: bool | None, *, help: str = "") -> Any:
    """Declare a field that is true or false; a default of ``None`` means that something else decides."""

    def wrong(value: object) -> str | None:
        fits = isinstance(value, bool) or (value is None and default is None)
        return None if fits else f"{value!r} is not a truth value"

    return option(default, help=help, validator=_Limit("true or false", wrong, several=False))


@attrs.frozen
class _Limit:
    """A validator: what it accepts in words, and what is wrong with a value, or with one of several."""

    accepted: str
    wrong: Callable[[Any], str | None]
    several: bool = True

    def __call__(self, _instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        values = value.values() if isinstance(value, Mapping) else value
        for one in values if self.several and isinstance(value, Mapping | list | tuple) else (value,):
            wrong = None if one is None and self.several else self.wrong(one)
            if wrong is not None:
                raise InputError(wrong, key=attribute.name, accepted=self.accepted)


def at_least(minimum: float, *, at_most: float = math.inf) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    """Return a validator for numbers, lists or mappings of numbers in that range; ``None`` passes."""

    def wrong(one: Any) -> str | None:
        if isinstance(one, bool) or not isinstance(one, Real) or not math.isfinite(one):
            return f"{one!r} is not a finite number"
        if minimum <= float(one) <= at_most:
            return None
        return f"{one!r} is too {'small' if float(one) < minimum else 'large'}"

    limits = f"from {minimum:g} to {at_most:g}" if at_most < math.inf else f"of at least {minimum:g}"
    return _Limit(f"a number {limits}", wrong)


def one_of(*choices: str) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    """Return a validator that accepts one of ``choices``."""

    def wrong(one: Any) -> str | None:
        hint = nearest(one, choices) if isinstance(one, str) else ""
        return None if one in choices else f"{one!r} is not known{hint}"

    return _Limit(", ".join(choices), wrong, several=False)


def whole(minimum: int) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    """Return a validator for whole numbers, or lists of them, not below ``minimum``; ``None`` passes."""

    def wrong(one: Any) -> str | None:
        fits = isinstance(one, int) and not isinstance(one, bool) and one >= minimum
        return None if fits else f"{one!r} is not a valid number"

    return _Limit(f"a whole number of at least {minimum}", wrong)
