"""Files of Chakra execution traces (``.et``): read into columns, written from nodes."""

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fredfw.typing import FloatArray, IntArray
from fredfw_workload_chakra import wire
from fredfw_workload_chakra.trace import DIMENSIONS, GROUP, NUMBERS, Node, NodeType, Trace, Value, offsets
from fredfw_workload_chakra.wire import LENGTH, Bytes, Words

# Slots of an attribute: the field that its value is in.
DOUBLE, INT32, INT64, UINT64, BOOL, BOOLS, STRING = 3, 7, 9, 13, 27, 28, 29
_TYPES = "double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool string bytes"
SLOTS: Mapping[int, str] = dict(zip(range(3, 33, 2), _TYPES.split(), strict=True))
# As ASTRA-sim's feeders expect them; other whole numbers are of int64.
_WRITTEN = {"tensor_size": UINT64, "comm_src": INT32, "comm_dst": INT32, "comm_tag": INT32}
_PIECE = 1 << 16  # nodes that are decoded side by side; more would only take more memory
_FIRST_OF_A_NODE = b"\x08"  # the tag of its id, where the metadata has its version or an attribute
VERSION = "0.0.4"


def read(content: bytes) -> Trace:
    starts, stops = wire.framed(content)
    if not len(starts):
        raise wire.DamagedError(0, "the file is empty")
    data = wire.array(content)
    metadata = _metadata(content, data, starts[:1], stops[:1])
    ends = range(1, max(len(starts), 2), _PIECE)
    groups: dict[str, int] = {}
    pieces = [_nodes(content, data, starts[one : one + _PIECE], stops[one : one + _PIECE], groups) for one in ends]
    return Trace.joined(pieces, metadata)


def slots(content: bytes) -> Counter[str]:
    """Return how often each attribute of nodes is in each slot, as ``name:slot``; raises as ``read`` does."""
    starts, stops = wire.framed(content)
    data = wire.array(content)
    found = _Attributes(data, *wire.gathered(data, starts[1:], stops[1:], lists=(10,)).lists[10][1:])
    return Counter(
        f"{content[start:stop].decode(errors='replace')}:{SLOTS.get(slot, f'field {slot}' if slot else 'none')}"
        for start, stop, slot in zip(*found.name.tolist(), found.slot.tolist(), strict=True)
    )


_OTHER = 99  # stands for all slots that there are not
# Numbers by slot, from the bits that are written.
_NUMBERS: Mapping[int, Callable[[Words], NDArray[Any]]] = {
    3: lambda raw: raw.view(np.float64),
    5: lambda raw: raw.astype(np.uint32).view(np.float32),
    **dict.fromkeys((7, 9, 25), lambda raw: raw.view(np.int64)),
    **dict.fromkeys((11, 13, 19, 21, 27), lambda raw: raw),
    **dict.fromkeys((15, 17), lambda raw: (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)),
    23: lambda raw: raw.astype(np.uint32).view(np.int32),
}


class _Attributes:
    """``A`` attributes between ``start`` and ``stop``; only the names and the places of the values are decoded."""

    def __init__(self, data: Bytes, start: IntArray, stop: IntArray) -> None:
        count = len(start)
        self._data = data
        self.name = np.zeros((2, count), dtype=np.intp)
        self.slot = np.zeros(count, dtype=np.intp)
        self.value = np.zeros(count, dtype=np.uint64)
        self.place = np.zeros((2, count), dtype=np.intp)
        for field in wire.fields(data, start, stop):
            named = field.of(1, LENGTH)
            self.name[:, field.which[named]] = field.start[named], field.stop[named]
            valued = field.number > 2  # 1 is the name, 2 a text for people
            which = field.which[valued]
            self.slot[which] = field.number[valued]
            self.value[which] = field.value[valued]
            self.place[:, which] = field.start[valued], field.stop[valued]

    def named(self, name: str) -> IntArray:
        text = name.encode()
        found = np.flatnonzero(self.name[1] - self.name[0] == len(text))
        for place in reversed(range(len(text))):  # names differ at their ends rather than at their beginnings
            found = found[self._data[self.name[0, found] + place] == text[place]]
        return found

    def numbers(self, which: IntArray) -> FloatArray:
        """Return the values of some attributes as numbers; NaN where they are none, or not finite."""
        slot, raw = self.slot[which], self.value[which]
        found = np.full(len(slot), np.nan)
        for one in np.flatnonzero(np.bincount(np.minimum(slot, _OTHER))).tolist():
            if one in _NUMBERS:
                chosen = slot == one
                found[chosen] = _NUMBERS[one](raw[chosen])
        return np.where(np.isinf(found), np.nan, found)


def _metadata(content: bytes, data: Bytes, start: IntArray, stop: IntArray) -> dict[str, Value]:
    if content[start[0] : stop[0]].startswith(_FIRST_OF_A_NODE):
        reason = "it begins with a node, as files of the schema before 0.0.4 do, which ASTRA-sim does not read either"
        raise wire.DamagedError(0, reason)
    message = wire.gathered(data, start, stop, texts=(1,), lists=(2,))
    found: dict[str, Value] = {}
    if version := _text(content, message.texts[1][:, 0]):
        found["version"] = version
    attributes = _Attributes(data, *message.lists[2][1:])
    numbers = attributes.numbers(np.arange(len(attributes.slot)))
    for index, slot in enumerate(attributes.slot.tolist()):
        value = _text(content, attributes.place[:, index]) if slot == STRING else float(numbers[index])
        whole = isinstance(value, float) and value.is_integer()
        found[_text(content, attributes.name[:, index])] = int(value) if whole else value
    return found


def _nodes(content: bytes, data: Bytes, starts: IntArray, stops: IntArray, group_names: dict[str, int]) -> Trace:
    """Return some of the nodes of a file; adds the names of groups that are not among ``group_names`` to these."""
    count = len(starts)
    message = wire.gathered(data, starts, stops, numbers=(1, 3, 7), texts=(2, 8), lists=(10,), items=(4, 5))
    owners, values = zip(message.items[5], message.items[4], strict=True)
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    node_of, *places = message.lists[10]
    attributes = _Attributes(data, *places)
    columns = {name: np.full(count, np.nan) for name in NUMBERS}
    for name, column in columns.items():
        chosen = attributes.named(name)
        column[node_of[chosen]] = attributes.numbers(chosen)
    groups = np.full(count, -1)
    chosen = attributes.named(GROUP)
    chosen = chosen[attributes.slot[chosen] == STRING]
    for node, begin, end in zip(node_of[chosen].tolist(), *attributes.place[:, chosen].tolist(), strict=True):
        groups[node] = group_names.setdefault(str(content[begin:end], "utf-8", "replace"), len(group_names))
    chosen = attributes.named(DIMENSIONS)
    which, used = wire.gathered(data, *attributes.place[:, chosen], items=(1,)).items[1]
    partly = np.unique(which[used == 0])
    said = np.flatnonzero((types := message.numbers[3]) == NodeType.METADATA)
    inner = wire.gathered(data, *message.texts[8][:, said], texts=(1,)).texts[1]
    return Trace(
        ids=message.numbers[1].view(np.int64),
        names=[_text(content, place) for place in message.texts[2].T.tolist()],
        types=types.astype(np.intp),
        micros=message.numbers[7].astype(float),
        dependency_offsets=offsets(np.bincount(owner, minlength=count)),
        dependencies=np.concatenate(values)[order].view(np.int64),
        control=np.repeat([False, True], [len(one) for one in owners])[order],
        numbers=columns,
        groups=groups,
        group_names=tuple(group_names),
        dimensions={int(node_of[chosen[one]]): tuple((used[which == one] != 0).tolist()) for one in partly.tolist()},
        inputs=tuple(text for place in inner.T if (text := _text(content, place))),
        metadata={},
    )


def _text(content: bytes, place: IntArray | list[int]) -> str:
    return content[place[0] : place[1]].decode(errors="replace")


# --- writing


def write(nodes: Iterable[Node], metadata: Mapping[str, Value] = MappingProxyType({})) -> bytes:
    """Return ``nodes``, in any order, as a file that says ``metadata`` of itself: strings and numbers by name."""
    head = wire.block(1, VERSION.encode()) + b"".join(_attribute(name, one, 2) for name, one in metadata.items())
    return b"".join(map(wire.framing, [head, *map(_node, nodes)]))


def _node(node: Node) -> bytes:
    parts = [wire.number(1, node.id), wire.block(2, node.name.encode()), wire.number(3, node.type)]
    parts += [wire.numbers(4, node.control), wire.numbers(5, node.data)]
    if node.micros:
        parts.append(wire.number(7, node.micros))
    if node.inputs:
        parts.append(wire.block(8, wire.block(1, node.inputs.encode())))
    parts += [_attribute(name, value, 10) for name, value in node.attributes.items()]
    return b"".join(parts)


# Typed, because 0 and False are equal and have different slots.
@lru_cache(maxsize=1 << 16, typed=True)
def _attribute(name: str, value: Value, field: int) -> bytes:
    return wire.block(field, wire.block(1, name.encode()) + _slot(name, value))


def _slot(name: str, value: Value) -> bytes:
    if isinstance(value, str):
        return wire.block(STRING, value.encode())
    if isinstance(value, bool):
        return wire.number(BOOL, value)
    if isinstance(value, tuple):
        return wire.block(BOOLS, wire.numbers(1, value))
    if isinstance(value, float):
        return wire.tag(DOUBLE, wire.FIXED64) + struct.pack("<d", value)
    return wire.number(_WRITTEN.get(name, INT64), value)
