"""What the GPU of one rank did: kernels, copies and communication, and what of these waited for what."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from fredfw.errors import InputError
from fredfw_workload_kineto.calls import NAME, Call, call
from fredfw_workload_kineto.reading import Profile

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
        """Place and call of each communication kernel."""
        return ((place, one.call) for place, one in enumerate(self.listed) if one.call is not None)


def operations(profile: Profile) -> Operations:
    """Return what ``profile`` says that the GPU did; raises ``InputError``."""
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
        one = Operation(
            start=start,
            end=start + float(event["dur"]),
            stream=stream if isinstance(stream, int) else -1,
            name=name,
            kind=_GPU[event["cat"]],
            launch=math.nan if host is None else float(host["ts"]),
        )
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
    """Return the part of ``whole`` that the host launched in ``ProfilerStep#step``; raises ``InputError``.

    An operation whose launch is not in the file is in the step in whose time it began.
    """
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
    """Yield what waits for what by ``cudaStreamWaitEvent``, as Kineto has it with ``enable_cuda_sync_events``.

    An event that is recorded on a stream stands for what the host launched there last, and what it launches next on
    the stream that is told to wait does so.
    """
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
