"""What a communication kernel carries out: the arguments that PyTorch records with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from fredfw import Pattern, TaskKind
from fredfw.errors import InputError
from fredfw_workload_kineto.reading import Profile, ranks_of

NAME = "Collective name"
# Names of PyTorch without underscores, and without what says how a tensor is passed.
_PATTERNS = {
    "allreduce": Pattern.ALL_REDUCE,
    "barrier": Pattern.ALL_REDUCE,
    "broadcast": Pattern.BROADCAST,
    "reduce": Pattern.REDUCE,
    "allgather": Pattern.ALL_GATHER,
    "allgatherv": Pattern.ALL_GATHER,
    "reducescatter": Pattern.REDUCE_SCATTER,
    "reducescatterv": Pattern.REDUCE_SCATTER,
    "alltoall": Pattern.ALL_TO_ALL,
    "alltoallv": Pattern.ALL_TO_ALL,
    "alltoallbase": Pattern.ALL_TO_ALL,
    "gather": Pattern.GATHER,
    "scatter": Pattern.SCATTER,
}
_MESSAGES = {"send": (TaskKind.SEND, "Dst Rank"), "recv": (TaskKind.RECEIVE, "Src Rank")}
# Labels that communication cannot have.
_RESERVED = "compute", "bubble"
_WAYS = ("coalesced", "oop", "base", "tensor", "into")
# Names as c10::toString(ScalarType) has them, by bytes.
_WIDTHS = {
    1: ("Byte", "Char", "Bool"),
    2: ("Short", "UInt16", "Half", "BFloat16"),
    4: ("Int", "UInt32", "Float", "ComplexHalf"),
    8: ("Long", "UInt64", "Double", "ComplexFloat"),
    16: ("ComplexDouble",),
}
_BYTES = {name: width for width, names in _WIDTHS.items() for name in names}


@frozen
class Call:
    """One collective, send or receive of one rank."""

    kind: TaskKind  # which of these
    pattern: Pattern | None  # the collective; `None` for a send or receive
    # its size: of a collective as nccl-tests counts it (the larger one of input and output), 0 for a barrier
    bytes: float
    group: str  # name of the process group
    description: str  # what PyTorch's user calls the group; empty if nothing
    ranks: tuple[int, ...]  # members of the group, in its order
    peer: int = -1  # the other rank of a send or receive, else -1
    splits: tuple[float, ...] = ()  # bytes for each member of an all-to-all with split sizes; empty for others

    @property
    def label(self) -> str:
        """What its time is charged to: the process group, by a name that no computation is charged to."""
        name = self.description or self.group
        return name if name and name not in _RESERVED else f"group {name or 'without a name'}"

    @property
    def operation(self) -> str:
        """Name of what it does."""
        return str(self.pattern) if self.pattern is not None else self.kind.name.lower()


def call(args: Mapping[str, Any], profile: Profile) -> Call:
    """Return what a kernel with ``args`` carries out, one of which is ``NAME``; raises ``InputError``."""
    text = str(args[NAME])
    name = "".join(word for word in text.lower().strip("_").split("_") if word not in _WAYS)
    elements = _number(args, "In msg nelems"), _number(args, "Out msg nelems")
    group = str(args.get("Process Group Name", ""))
    ranks = _ranks(args, group, profile)
    width = _width(args.get("dtype"))
    described = str(args.get("Process Group Description", ""))
    description = "" if described == "undefined" else described
    if name in _MESSAGES:
        kind, key = _MESSAGES[name]
        peer = args.get(key)
        if isinstance(peer, bool) or not isinstance(peer, int) or peer < 0:
            accepted = "a trace of PyTorch 2.4 or later, which has it"
            raise InputError(f"a {text} has no {key!r}", accepted=accepted)
        return Call(kind, None, float(width * max(elements)), group, description, ranks, peer)
    if name not in _PATTERNS:
        accepted = ", ".join([*_PATTERNS, *_MESSAGES])
        raise InputError(f"the collective {text!r} is not known", accepted=accepted)
    pattern = _PATTERNS[name]
    # The root has all that it gathers or scatters, the others their part alone.
    own = {Pattern.GATHER: elements[0], Pattern.SCATTER: elements[1]}.get(pattern)
    size = 0 if name == "barrier" else max(elements) if own is None else own * len(ranks)
    rows = (ranks_of(args.get("In split size")) if pattern is Pattern.ALL_TO_ALL else None) or ()
    share = width * elements[0] / max(sum(rows), 1)
    splits = tuple(share * one for one in rows) if len(rows) == len(ranks) else ()
    return Call(TaskKind.COLLECTIVE, pattern, float(width * size), group, description, ranks, splits=splits)


def _ranks(args: Mapping[str, Any], group: str, profile: Profile) -> tuple[int, ...]:
    size = args.get("Group size")
    start, stride = args.get("Global rank start"), args.get("Global rank stride")
    candidates = [ranks_of(args.get("Process Group Ranks")), profile.groups.get(group)]
    if isinstance(size, int) and isinstance(start, int) and isinstance(stride, int):
        candidates.append(tuple(range(start, start + stride * size, stride)) if stride > 0 else None)
    if isinstance(size, int) and size == profile.world:
        candidates.append(tuple(range(size)))
    for ranks in candidates:
        if ranks and size in (None, len(ranks)):
            if len(set(ranks)) < len(ranks):
                break
            return ranks
    missing = f"the ranks of the process group {group!r} are not in the file, or are cut off"
    message = f"{missing}: {args.get('Process Group Ranks')!r} for {size} ranks"
    accepted = "all ranks in 'Process Group Ranks' or in distributedInfo.pg_config"
    raise InputError(message, accepted=accepted)


def _number(args: Mapping[str, Any], key: str) -> int:
    value = args.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"a {args[NAME]} has {key!r} of {value!r}", accepted="a number of elements")
    return value


def _width(dtype: object) -> int:
    name = str(dtype)
    if name in _BYTES:
        return _BYTES[name]
    if name.startswith(("Float8", "QInt8", "QUInt8")):
        return 1
    accepted = f"{', '.join(_BYTES)} or a Float8 one"
    raise InputError(f"the dtype {dtype!r} is not known", accepted=accepted)
