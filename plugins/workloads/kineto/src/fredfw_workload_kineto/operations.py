"""What the PyTorch profiler says that the GPU of one rank did: kernels, copies and communication, and their order.

Files are JSON in Chrome's trace format. What a communication kernel carries out is in the arguments recorded with it.
"""

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from fredfw import File, Pattern, TaskKind
from fredfw.errors import InputError

ACCEPTED = "JSON that torch.profiler.profile(...).export_chrome_trace(PATH) has written, one file per rank"
_STEP = re.compile(r"ProfilerStep#(\d+)")


@frozen
class Profile:
    """The content of one file."""

    path: str  # the file, for messages
    # its complete events (`ph` is `X`) with a time and a duration, both in microseconds
    events: tuple[Mapping[str, Any], ...]
    rank: int | None  # the rank that it says; `None` if it says none
    world: int | None  # the number of ranks that it says; `None` likewise
    groups: Mapping[str, tuple[int, ...]]  # ranks of process groups by name, as far as the head of the file has them
    # start and end in microseconds by number of `ProfilerStep`, in order of time
    steps: Mapping[int, tuple[float, float]]
    facts: Mapping[str, str | int | float]  # what else the file says of itself


def read(file: File) -> Profile:
    with file.named():
        return _profile(_document(file.read()), file.path)


def _profile(document: object, path: str) -> Profile:
    head: Mapping[str, Any] = document if isinstance(document, Mapping) else {"traceEvents": document}
    listed = head.get("traceEvents")
    if not isinstance(listed, list):
        raise InputError("there is no list of events", key="traceEvents", accepted=ACCEPTED)
    events = tuple(one for one in listed if _complete(one))
    if not any(one["cat"] in _GPU for one in events):
        raise InputError("no event is of a GPU", key="traceEvents", accepted=ACCEPTED)
    info = head.get("distributedInfo")
    info = info if isinstance(info, Mapping) else {}
    steps = {}
    for event in sorted(events, key=lambda one: float(one["ts"])):
        found = _STEP.fullmatch(str(event.get("name")))
        if found and event.get("cat") == "user_annotation":
            steps[int(found[1])] = float(event["ts"]), float(event["ts"]) + float(event["dur"])
    return Profile(
        path=path,
        events=events,
        rank=_count(info, "rank"),
        world=_count(info, "world_size"),
        groups=dict(_groups(info.get("pg_config"))),
        steps=steps,
        facts=dict(_facts(head, info)),
    )


def ranks_of(value: object) -> tuple[int, ...] | None:
    """Return the ranks of ``[0, 1]``, or of the text ``"[0, 1]"``; ``None`` for one that is cut off by ``...``."""
    if isinstance(value, str):
        if not re.fullmatch(r"\s*\[[\d\s,]*\]\s*", value):
            return None
        value = [int(one) for one in re.findall(r"\d+", value)]
    if not isinstance(value, list) or not all(isinstance(one, int) and one >= 0 for one in value):
        return None
    return tuple(value) or None


def _document(text: bytes) -> object:
    try:
        # Names of kernels may hold control characters, which the profiler does not escape.
        document: object = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON, or is cut off: {error}", accepted=ACCEPTED) from None
    if not isinstance(document, list | Mapping):
        raise InputError("is not an object with a list of events", accepted=ACCEPTED)
    return document


def _complete(event: object) -> bool:
    if not isinstance(event, Mapping):
        raise InputError(f"{event!r} is not an event", key="traceEvents", accepted="objects")
    if event.get("ph") != "X" or not isinstance(event.get("cat"), str):
        return False
    for key in ("ts", "dur"):
        value = event.get(key)
        try:
            known = not isinstance(value, bool) and abs(float(value)) < 1e18  # type: ignore[arg-type]  # may be anything
        except (TypeError, ValueError):
            known = False
        if not known or (key == "dur" and float(value) < 0):  # type: ignore[arg-type]  # known to be a number
            message = f"the event {event.get('name')!r} has the {key} {value!r}"
            raise InputError(message, key="traceEvents", accepted="a number of microseconds")
    return True


def _count(info: Mapping[str, Any], key: str) -> int | None:
    value = info.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{value!r} is not a number", key=f"distributedInfo.{key}", accepted="0 or more")
    return value


def _groups(configured: object) -> Iterable[tuple[str, tuple[int, ...]]]:
    for one in configured if isinstance(configured, list) else ():
        if isinstance(one, Mapping):
            ranks = ranks_of(one.get("ranks"))
            if ranks is not None:
                yield str(one.get("pg_name")), ranks


def _facts(head: Mapping[str, Any], info: Mapping[str, Any]) -> Iterable[tuple[str, str | int | float]]:
    devices = head.get("deviceProperties")
    if isinstance(devices, list) and devices and isinstance(devices[0], Mapping):
        yield "device", str(devices[0].get("name"))
    for key in ("backend", "nccl_version", "world_size"):
        if isinstance(info.get(key), str | int):
            yield key.replace("_", " "), info[key]


NAME = "Collective name"
# Names of PyTorch without underscores, and without what says how a tensor is passed.
_PATTERNS = {
    **dict.fromkeys(("allreduce", "barrier"), Pattern.ALL_REDUCE),
    "broadcast": Pattern.BROADCAST,
    "reduce": Pattern.REDUCE,
    **dict.fromkeys(("allgather", "allgatherv"), Pattern.ALL_GATHER),
    **dict.fromkeys(("reducescatter", "reducescatterv"), Pattern.REDUCE_SCATTER),
    **dict.fromkeys(("alltoall", "alltoallv", "alltoallbase"), Pattern.ALL_TO_ALL),
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
            raise InputError(f"a {text} has no {key!r}", accepted="a trace of PyTorch 2.4 or later, which has it")
        return Call(kind, None, float(width * max(elements)), group, description, ranks, peer)
    if name not in _PATTERNS:
        raise InputError(f"the collective {text!r} is not known", accepted=", ".join([*_PATTERNS, *_MESSAGES]))
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
    accepted = "all ranks in 'Process Group Ranks' or in distributedInfo.pg_config"
    raise InputError(f"{missing}: {args.get('Process Group Ranks')!r} for {size} ranks", accepted=accepted)


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
    raise InputError(f"the dtype {dtype!r} is not known", accepted=f"{', '.join(_BYTES)} or a Float8 one")


# Categories of Kineto's events.
_GPU = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "memset"}
_HOST = ("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "privateuse1_runtime")
COMMUNICATION = "communication"


@frozen
class Operation:
    """One operation of the GPU."""

    start: float  # microseconds, as in the file
    end: float
    stream: int  # number of its stream
    name: str
    kind: str  # `kernel`, `copy`, `memset` or `communication`
    launch: float = math.nan  # when the host launched it, in microseconds; NaN where the file does not say
    call: Call | None = None  # what a communication kernel carries out; `None` for others


@frozen
class Operations:
    """What the GPU of one rank did, in order of start."""

    profile: Profile  # without its events
    listed: tuple[Operation, ...]
    # pairs of operations, by place: the second one waits for the first one, by an event of CUDA
    waits: tuple[tuple[int, int], ...]
    unknown: int  # how many communication kernels are left out, since the file has no sizes of them
    begin: float  # when the part of the trace begins, in microseconds: the first operation or the step
    end: float  # when it ends
    boundaries: tuple[float, ...]  # when each further step begins

    @property
    def calls(self) -> Iterator[tuple[int, Call]]:
        return ((place, one.call) for place, one in enumerate(self.listed) if one.call is not None)


def operations(profile: Profile) -> Operations:
    launches: dict[object, Mapping[str, Any]] = {}
    for event in profile.events:
        if event["cat"] in _HOST and isinstance(number := _args(event).get("correlation"), int):
            launches[number] = event
    recorded = {
        event["args"]["External id"]: event["args"]
        for event in profile.events
        if event.get("name") == "record_param_comms"
        and NAME in _args(event)
        and isinstance(_args(event).get("External id"), int)
    }
    found: list[Operation] = []
    unknown = 0
    devices: list[int] = []
    for event in profile.events:
        if event["cat"] not in _GPU:
            continue
        args, name, start = _args(event), str(event.get("name")), float(event["ts"])
        host, stream = launches.get(args.get("correlation")), args.get("stream", event.get("tid"))
        end, launch = start + float(event["dur"]), math.nan if host is None else float(host["ts"])
        one = Operation(start, end, stream if isinstance(stream, int) else -1, name, _GPU[event["cat"]], launch)
        if event["cat"] == "kernel" and (NAME in args or "nccl" in name.lower()):
            args = {**recorded.get(args.get("External id"), {}), **args}
            devices.append(args.get("device", 0))
            if NAME not in args:
                unknown += 1
                continue
            one = evolve(one, kind=COMMUNICATION, call=call(args, profile))
        found.append(one)
    if len(set(devices)) > 1:
        message = f"communication runs on the GPUs {', '.join(map(str, dict.fromkeys(devices)))}"
        raise InputError(message, accepted="the trace of a process that has one GPU")
    found.sort(key=lambda one: (one.start, one.end))
    return Operations(
        profile=evolve(profile, events=()),
        listed=tuple(found),
        waits=tuple(_waits(profile, found, launches)),
        unknown=unknown,
        begin=found[0].start if found else 0.0,
        end=max((one.end for one in found), default=0.0),
        boundaries=tuple(start for start, _ in list(profile.steps.values())[1:]),
    )


def only_step(whole: Operations, step: int) -> Operations:
    """Return what the host launched in ``ProfilerStep#step`` or, where no launch is known, what began in it."""
    profile = whole.profile
    if step not in profile.steps:
        known = ", ".join(map(str, profile.steps)) or "all of the trace: no steps are marked, for want of prof.step()"
        raise InputError(f"there is no ProfilerStep#{step}", key="step", accepted=known)
    starts = [start for start, _ in profile.steps.values()]
    place = list(profile.steps).index(step)

    def step_of(one: Operation) -> int:
        return bisect_right(starts, one.start if math.isnan(one.launch) else one.launch) - 1

    steps = [step_of(one) for one in whole.listed]
    kept = [number for number, its in enumerate(steps) if its == place]
    new = {old: number for number, old in enumerate(kept)}
    listed = tuple(whole.listed[one] for one in kept)
    earlier = max((one.end for one, its in zip(whole.listed, steps, strict=True) if its < place), default=-math.inf)
    start, end = profile.steps[step]
    begin = max(start, earlier)
    return evolve(
        whole,
        listed=listed,
        waits=tuple((new[one], new[other]) for one, other in whole.waits if one in new and other in new),
        begin=min(begin, listed[0].start) if listed else begin,
        end=max([end, *(one.end for one in listed)]),
        boundaries=(),
    )


def _args(event: Mapping[str, Any]) -> Mapping[str, Any]:
    args = event.get("args")
    return args if isinstance(args, Mapping) else {}


def _waits(
    profile: Profile, listed: Sequence[Operation], launches: Mapping[object, Mapping[str, Any]]
) -> Iterator[tuple[int, int]]:
    """Yield what waits for what by ``cudaStreamWaitEvent``, as Kineto has it with ``enable_cuda_sync_events``."""
    # An event stands for what the host launched last on its stream; what it launches next on the other one waits.
    by_stream: dict[int, list[tuple[float, int]]] = {}
    for place, one in enumerate(listed):
        if not math.isnan(one.launch):
            by_stream.setdefault(one.stream, []).append((one.launch, place))
    for queue in by_stream.values():
        queue.sort()
    for event in profile.events:
        if event["cat"] != "cuda_sync" or event.get("name") != "Stream Wait Event":
            continue
        args = _args(event)
        record = launches.get(args.get("wait_on_cuda_event_record_corr_id"))
        told = launches.get(args.get("correlation"))
        before = by_stream.get(args.get("wait_on_stream", -1))
        after = by_stream.get(args.get("stream", -1))
        if record is None or told is None or before is None or after is None or before is after:
            continue
        source = bisect_left(before, (float(record["ts"]), 0)) - 1
        waiter = bisect_left(after, (float(told["ts"]), 0))
        if source >= 0 and waiter < len(after):
            yield before[source][1], after[waiter][1]
