"""The wire format of Protocol Buffers: messages of one kind are decoded side by side, with arrays in place of loops.

The n-th field of all messages is decoded at once, then the next one of those that have another. So a million messages
take about as many steps as the longest of them has fields.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fredfw.typing import BoolArray, IntArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_MARGIN = 16  # zeros behind the last byte, where a damaged message may make a reader look
_MOST = 10  # bytes of a varint
_MOST_FIELDS = 1_000_000  # of a message; each takes a step, however few messages have so many


class DamagedError(Exception):
    """Bytes that are not what they should be: where, and what is wrong."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset = offset
        self.reason = reason


class Fields(NamedTuple):
    """One field of some messages."""

    which: IntArray  # `(M,)` number of the message
    number: Words  # `(M,)` number of the field
    wire: Words  # `(M,)` how it is written
    value: Words  # `(M,)` the number, as it is written; for a `LENGTH` the number of bytes
    start: IntArray  # `(M,)` where the bytes of a `LENGTH` or a `VARINT` begin
    stop: IntArray  # `(M,)` where they end

    def of(self, number: int, wire: int) -> BoolArray:
        found: BoolArray = (self.number == number) & (self.wire == wire)
        return found


def array(content: bytes) -> Bytes:
    return np.frombuffer(content + bytes(_MARGIN), dtype=np.uint8)


def framed(content: bytes) -> tuple[IntArray, IntArray]:
    """Return where the messages of a file, with their lengths in front, start and stop; raises ``DamagedError``."""
    starts, stops = [], []
    at, end = 0, len(content)
    while at < end:
        first, size, shift = at, 0, 0
        while True:
            if at == end or shift == 7 * _MOST:
                raise DamagedError(first, "a length has no end")
            byte = content[at]
            at += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if size > end - at:
            raise DamagedError(first, f"a message of {size} bytes begins here, and the file has {end - at} more")
        starts.append(at)
        at += size
        stops.append(at)
    return np.array(starts, dtype=np.intp), np.array(stops, dtype=np.intp)


def fields(data: Bytes, start: IntArray, stop: IntArray) -> Iterator[Fields]:
    """Yield the n-th fields of all messages between ``start`` and ``stop`` together; raises ``DamagedError``."""
    which = np.flatnonzero(start < stop)
    at, end = start[which], stop[which]
    steps = 0
    while which.size:
        first, steps = at, steps + 1
        _require(np.full(1, steps <= _MOST_FIELDS), start[which], f"a message of more than {_MOST_FIELDS} fields")
        tag, at = _varints(data, at, end)
        number, wire = tag >> np.uint64(3), tag & np.uint64(7)
        value, begin = _values(data, at, end, wire, first)
        long = wire == LENGTH
        _require(~long | (value <= (end - begin).astype(np.uint64)), first, "a field is longer than its message")
        after = begin + np.where(long, value, 0).astype(np.intp)
        yield Fields(which, number, wire, value, np.where(wire == VARINT, at, begin), after)
        more = after < end
        which, at, end = which[more], after[more], end[more]


class Gathered(NamedTuple):
    """Fields of ``N`` messages in columns, by number of the field."""

    numbers: Mapping[int, Words]  # `(N,)` values; 0 where a message has none, the last one where it has several
    # `(2, N)` where the bytes begin and end; nothing is between where a message has none
    texts: Mapping[int, IntArray]
    # all occurrences of a message that may be repeated: `(3, L)` number of the message around it, not sorted, and where
    # its bytes begin and end
    lists: Mapping[int, IntArray]
    items: Mapping[int, tuple[IntArray, Words]]  # numbers of lists, with the message that each is in, sorted by these


def gathered(
    data: Bytes,
    start: IntArray,
    stop: IntArray,
    *,
    numbers: Iterable[int] = (),
    texts: Iterable[int] = (),
    lists: Iterable[int] = (),
    items: Collection[int] = (),
) -> Gathered:
    """Return fields of the messages between ``start`` and ``stop``; others are passed over.

    ``texts`` may be messages, ``lists`` are of messages, ``items`` are lists of numbers; raises ``DamagedError``.
    """
    count = len(start)
    values = {one: np.zeros(count, dtype=np.uint64) for one in numbers}
    places = {one: np.zeros((2, count), dtype=np.intp) for one in texts}
    found = {one: [np.zeros((3, 0), dtype=np.intp)] for one in (*lists, *items)}
    for field in fields(data, start, stop):
        for number, column in values.items():
            chosen = field.of(number, VARINT)
            column[field.which[chosen]] = field.value[chosen]
        for number, place in places.items():
            chosen = field.of(number, LENGTH)
            place[:, field.which[chosen]] = field.start[chosen], field.stop[chosen]
        for number, blocks in found.items():
            chosen = field.of(number, LENGTH)
            if number in items:  # which may also be fields on their own, of one number each
                chosen |= field.of(number, VARINT)
            if chosen.any():
                blocks.append(np.stack([field.which, field.start, field.stop])[:, chosen])
    whole = {one: np.concatenate(blocks, axis=1) for one, blocks in found.items()}
    return Gathered(values, places, whole, {one: _items(data, *whole[one]) for one in items})


def _items(data: Bytes, owner: IntArray, start: IntArray, stop: IntArray) -> tuple[IntArray, Words]:
    """Return the varints of lists, with the ``owner`` of the list that each is in, sorted by these."""
    sizes = stop - start
    total = int(sizes.sum())
    if not total:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.uint64)
    place = np.repeat(start - (np.cumsum(sizes) - sizes), sizes) + np.arange(total)
    byte = data[place]
    _require((data[stop - 1] < 0x80) | (sizes == 0), start, "a list ends inside a number")
    ends = np.flatnonzero(byte < 0x80)
    starts = np.concatenate([[0], ends[:-1] + 1])
    position = np.arange(total) - np.repeat(starts, ends - starts + 1)
    _require(position < _MOST, place, "a number has no end")
    parts = (byte & 0x7F).astype(np.uint64) << (position * 7).astype(np.uint64)
    which = np.repeat(owner, sizes)[ends]
    order = np.argsort(which, kind="stable")
    return which[order], np.bitwise_or.reduceat(parts, starts)[order]


def _values(data: Bytes, at: IntArray, end: IntArray, wire: Words, first: IntArray) -> tuple[Words, IntArray]:
    """Return the values of fields at ``at``, and where what follows them begins."""
    variable = (wire == VARINT) | (wire == LENGTH)
    if variable.all():
        return _varints(data, at, end)
    value, after = np.zeros(len(at), dtype=np.uint64), at.copy()
    value[variable], after[variable] = _varints(data, at[variable], end[variable])
    known = variable
    for kind, size in ((FIXED64, 8), (FIXED32, 4)):
        one = wire == kind
        places = at[one]
        value[one] = sum(data[places + byte].astype(np.uint64) << np.uint64(8 * byte) for byte in range(size))
        after[one] += size
        known = known | one
    _require(known, first, "a field is of no known type")
    _require(after <= end, first, "a field is longer than its message")
    return value, after


def _varints(data: Bytes, at: IntArray, end: IntArray) -> tuple[Words, IntArray]:
    """Return the numbers that begin at ``at``, and where what follows them begins."""
    byte = data[at]
    value, after = (byte & 0x7F).astype(np.uint64), at + 1
    more = np.flatnonzero(byte >= 0x80)
    shift = 7
    while more.size:
        _require(np.full(1, shift < 7 * _MOST), at[more], "a number has no end")
        byte = data[after[more]]
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    _require(after <= end, at, "a number is longer than its message")
    return value, after


def _require(right: BoolArray, at: IntArray, reason: str) -> None:
    if not right.all():
        raise DamagedError(int(at[int(right.argmin())]), reason)


# --- writing


def varint(number: int) -> bytes:
    """Return a number as it is written; a negative one as its 64 bits."""
    number &= 0xFFFFFFFFFFFFFFFF
    if number < 0x80:
        return _SMALL[number]
    pieces = bytearray()
    while number >= 0x80:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


_SMALL = tuple(bytes([one]) for one in range(0x80))


@cache
def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def number(field: int, value: int) -> bytes:
    return tag(field, VARINT) + varint(value)


def block(field: int, content: bytes) -> bytes:
    return tag(field, LENGTH) + varint(len(content)) + content


def numbers(field: int, values: Iterable[int]) -> bytes:
    """Return a field that is a list of numbers; nothing where it is empty."""
    content = b"".join(map(varint, values))
    return block(field, content) if content else b""


def framing(message: bytes) -> bytes:
    return varint(len(message)) + message
