"""Reads files of the PyTorch profiler: JSON in Chrome's trace format, compressed by gzip or not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from fredfw import File
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


def recognised(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` may be of the PyTorch profiler."""
    return b'"traceEvents"' in head or b'"distributedInfo"' in head or b'"deviceProperties"' in head


def read(file: File) -> Profile:
    """Return what ``file`` says; raises ``InputError``."""
    with file.named():
        return _profile(_document(file.read()), file.path)


def _profile(document: object, path: str) -> Profile:
    head: Mapping[str, Any] = document if isinstance(document, Mapping) else {"traceEvents": document}
    listed = head.get("traceEvents")
    if not isinstance(listed, list):
        raise InputError("there is no list of events", key="traceEvents", accepted=ACCEPTED)
    events = tuple(one for one in listed if _complete(one))
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
