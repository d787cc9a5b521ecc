"""The text format: a line of keywords, the number of layers, and a line for each."""

import re
from collections.abc import Mapping, Sequence

from attrs import frozen

from fredfw import File, Pattern
from fredfw.errors import InputError

POLICIES = (
    *("DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_CUSTOMIZED", "HYBRID_TRANSFORMER"),
    *("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_DLRM", "HYBRID_DLRM_ENHANCED", "DISTRIBUTED_INFERENCE", "MICRO"),
)
PATTERNS: Mapping[str, Pattern | None] = {
    "NONE": None,
    "ALLREDUCE": Pattern.ALL_REDUCE,
    "ALLGATHER": Pattern.ALL_GATHER,
    "REDUCESCATTER": Pattern.REDUCE_SCATTER,
    "ALLTOALL": Pattern.ALL_TO_ALL,
}
SUFFIXES = ("", "_EP", "_DP_EP")
_COLUMNS = 12
_DLRM = "HYBRID_DLRM"


@frozen
class Phase:
    """Computation and the collective after it."""

    time: float  # as it is in the file
    pattern: Pattern | None  # `None` for no collective
    group: str  # empty, `EP` or `DP_EP`
    size: float  # bytes, as ASTRA-sim counts them


@frozen
class Layer:
    """A line."""

    name: str
    forward: Phase
    inputs: Phase  # gradients of its inputs
    weights: Phase  # gradients of its weights
    update: float  # time after each of its collectives
    policy: str  # how this layer is split, for `HYBRID_CUSTOMIZED`


@frozen
class Text:
    """A whole file."""

    policy: str  # one of `POLICIES`
    values: Mapping[str, int]  # numbers of the first line, by keyword
    checkpoints: frozenset[int]  # layers whose inputs are kept
    # layers before whose backward pass the forward pass is done again from the checkpoint before
    restarts: frozenset[int]
    layers: tuple[Layer, ...]


def read(file: File) -> Text:
    with file.named():
        return _read(file.text().splitlines())


def _read(lines: Sequence[str]) -> Text:
    words = lines[0].split() if lines else []
    policy = words[0] if words else ""
    if policy not in POLICIES:
        raise InputError(f"{policy!r} is not a keyword of parallelism", key="line 1", accepted=", ".join(POLICIES))
    values, lists = _header(policy, words[1:])
    count = _number(lines[1].strip() if len(lines) > 1 else "", "line 2", "the number of layers")
    rows = [(number, line.split()) for number, line in enumerate(lines[2:], start=3) if line.strip()]
    if len(rows) < count or count < 1:
        message = f"line 2 says {count} layers, and {len(rows)} follow"
        raise InputError(message, key="line 2", accepted="a line for each layer, one or more")
    layers = tuple(_layer(words, f"line {number}", policy) for number, words in rows[: int(count)])
    for name, numbers in lists.items():
        if outside := [one for one in numbers if not 0 <= one < len(layers)]:
            message = f"{name}: there is no layer {outside[0]}"
            raise InputError(message, key="line 1", accepted=f"0 to {len(layers) - 1}")
    return Text(policy, values, frozenset(lists["checkpoints"]), frozenset(lists["checkpoint_initiates"]), layers)


def _header(policy: str, words: Sequence[str]) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Return numbers and lists of the first line: ``ep: 1``, ``checkpoints: 2 0 4``."""
    values: dict[str, int] = {}
    lists: dict[str, tuple[int, ...]] = {"checkpoints": (), "checkpoint_initiates": ()}
    if policy.startswith(_DLRM) and len(words) == 1:  # without its keyword, as ASTRA-sim 1.0 writes it
        values["DLRM_LAST_BOTTOM_LAYER"] = int(_number(words[0], "line 1", "the last bottom layer"))
        return values, lists
    at = 0
    while at < len(words):
        name = words[at].rstrip(":")
        number = int(_number(words[at + 1] if at + 1 < len(words) else "", "line 1", f"a number after {words[at]}"))
        at += 2
        if name in lists:
            lists[name] = tuple(int(_number(one, "line 1", "numbers of layers")) for one in words[at : at + number])
            at += number
        else:
            values[name] = number
    return values, lists


def _layer(words: Sequence[str], key: str, policy: str) -> Layer:
    customized = policy == "HYBRID_CUSTOMIZED"
    columns = _COLUMNS + customized
    if len(words) < columns:
        accepted = f"{columns}: name, -1, then time, collective and bytes of three phases, and the time of the update"
        raise InputError(f"has {len(words)} columns", key=key, accepted=accepted)
    forward, inputs, weights = (_phase(words[at : at + 3], key) for at in (2, 5, 8))
    own = words[_COLUMNS] if customized else policy
    if own not in POLICIES:
        raise InputError(f"{own!r} is not a keyword of parallelism", key=key, accepted=", ".join(POLICIES))
    return Layer(words[0], forward, inputs, weights, _number(words[11], key, "a time"), own)


def _phase(words: Sequence[str], key: str) -> Phase:
    time, text, size = words
    seconds = _number(time, key, "a time")
    name, _, group = text.partition("_")
    if name not in PATTERNS or f"_{group}".rstrip("_") not in SUFFIXES:
        accepted = f"{', '.join(PATTERNS)}, also with _EP or _DP_EP"
        raise InputError(f"{text!r} is not a collective", key=key, accepted=accepted)
    number = _number(size, key, "bytes")
    return Phase(seconds, PATTERNS[name] if number else None, group, number)


def _number(text: str, key: str, what: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?([eE]\+?\d{1,2})?", text) is None:
        raise InputError(f"{text!r} is not a number", key=key, accepted=f"{what}, not negative")
    return float(text)
