"""Makes small traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Event = dict[str, Any]


def _event(category: str, name: str, start: float, duration: float, **args: Any) -> Event:
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "args": args}


@pytest.fixture
def kernel() -> Callable[..., Event]:
    """Make a kernel on a stream."""

    def make(name: str, start: float, duration: float, stream: int = 7, **args: Any) -> Event:
        return _event("kernel", name, start, duration, stream=stream, **args)

    return make


@pytest.fixture
def call() -> Callable[..., Event]:
    """Make a communication kernel; ``args`` are PyTorch's, with _ for blanks where Python needs them."""

    def make(name: str, start: float, duration: float, elements: int = 1000, stream: int = 20, **args: Any) -> Event:
        known = {
            "Collective name": name,
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "dtype": "Float",
            "Group size": 2,
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": "[0, 1]",
        }
        given = {key.replace("_", " "): value for key, value in args.items()}
        return _event("kernel", f"ncclDevKernel_{name}", start, duration, stream=stream, **{**known, **given})

    return make


@pytest.fixture
def step() -> Callable[..., Event]:
    """Make the mark of a step."""
    return lambda number, start, duration: _event("user_annotation", f"ProfilerStep#{number}", start, duration)


@pytest.fixture
def launch() -> Callable[..., Event]:
    """Make a call of the CUDA runtime."""
    return lambda correlation, start: _event("cuda_runtime", "cudaLaunchKernel", start, 1, correlation=correlation)


@pytest.fixture
def wait() -> Callable[..., Event]:
    """Make a wait of a stream for an event that was recorded on another one."""
    return lambda stream, correlation, on, record: _event(
        "cuda_sync",
        "Stream Wait Event",
        0,
        0,
        stream=stream,
        correlation=correlation,
        wait_on_stream=on,
        wait_on_cuda_event_record_corr_id=record,
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Write a trace and return its path."""

    def make(events: list[Event], rank: int | None = 0, world: int | None = 2, **head: Any) -> str:
        known = {key: value for key, value in (("rank", rank), ("world_size", world)) if value is not None}
        path = tmp_path / f"trace.{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps({"distributedInfo": {**known, **head}, "traceEvents": events}), encoding="utf-8")
        return str(path)

    return make
