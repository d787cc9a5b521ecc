"""The same plugin in another process, with another hash seed: what differs there does not follow from the fields."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from fredfw.plugin import configure
from fredfw.testing.conformance import ConformanceError

_UNKNOWN = "unknown"
_SECONDS = 60
# Whether this is the other process. A module that checks its plugins when it is imported must not go on for ever there.
_answering = False


def digest(parts: Iterable[object]) -> str:
    """Return a text that differs where ``parts`` (arrays, and what has a ``repr`` without addresses) do."""
    state = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            state.update(repr((part.shape, part.dtype)).encode())
            state.update(np.ascontiguousarray(part).tobytes())
        else:
            state.update(repr(part).encode())
    return state.hexdigest()


def same_elsewhere(instance: Any, observe: Callable[[Any], str], what: str) -> None:
    """Make sure that an equal instance looks the same in another process.

    A class that no other process can import (of an interactive session, or inside a function) is passed over. Its
    module is imported there, so a script that does more than define the class should do that as ``__main__`` only.

    Args:
        instance: Of a plugin's class.
        observe: A function of this package that returns a digest of what the instance does.
        what: What that is.

    Raises:
        ConformanceError: It does not look the same.
    """
    there = _ask(instance, observe)
    if there not in (_UNKNOWN, observe(instance)):
        raise ConformanceError(
            f"{what} differs in another process; results must depend on the fields alone: no iteration over a set, no "
            f"hash() of text, no random numbers without a fixed seed, no clock, no environment"
        )


def _ask(instance: Any, observe: Callable[[Any], str]) -> str:
    cls = type(instance)
    if _answering or cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
        return _UNKNOWN
    question = {
        "module": cls.__module__,
        "file": getattr(sys.modules.get(cls.__module__), "__file__", None),
        "class": cls.__qualname__,
        "fields": configure.unstructure(instance),
        "observe": [observe.__module__, observe.__qualname__],
    }
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", f"from {__name__} import answer; answer()"]
    text = json.dumps(question)
    try:
        done = subprocess.run(
            command, check=False, input=text, env=environment, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:  # importing the module does more than define the class
        return _UNKNOWN
    return done.stdout.strip() if done.returncode == 0 else _UNKNOWN


def answer() -> None:
    """Answer, on standard output, the question on standard input: this is what runs in the other process."""
    global _answering  # noqa: PLW0603  (a property of the whole process)
    _answering = True
    question = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):  # whatever the author's module prints is no part of the answer
        cls: Any = _import(question["module"], question["file"])
        for name in question["class"].split("."):
            cls = getattr(cls, name)
        module, function = question["observe"]
        try:
            text = getattr(importlib.import_module(module), function)(configure.build(cls, question["fields"]))
        except Exception as error:  # the digest is made in the first process, too, where this is reported
            text = f"{type(error).__name__}: {error}"
    sys.stdout.write(text)


def _import(module: str, file: str | None) -> object:
    try:
        return importlib.import_module(module)
    except ImportError:
        if file is None:
            raise
    # A local file, or a test module that pytest has imported under a name of its own.
    spec = importlib.util.spec_from_file_location(module, file)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return loaded
