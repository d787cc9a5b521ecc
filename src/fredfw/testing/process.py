"""The same plugin in another process, with another hash seed: what differs there does not follow from the fields."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from functools import cached_property, reduce
from itertools import chain, cycle
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from attrs import evolve, frozen

from fredfw.errors import FredfwError
from fredfw.plugin import configure
from fredfw.testing.conformance import Case, ConformanceError, Faults, S, made, seeded, twin

Q = TypeVar("Q")
A = TypeVar("A")
E = TypeVar("E", bound=FredfwError)

_SECONDS = 60
_answering = False  # whether this is the other process, where a module that checks its plugins may not go on for ever


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


@frozen(eq=False, kw_only=True)
class Elsewhere(Case[S]):
    """A case of something that must do the same in another process."""

    shows: ClassVar[str] = ""  # what `seen` is, in words

    def seen(self) -> Iterable[object]:
        """Yield all that the subject does, as ``digest`` takes it: the same in all processes."""
        raise NotImplementedError

    def is_the_same_in_another_process(self) -> Faults:
        """With the kit's own inputs it does the same in another process, with another hash seed."""
        if _answering:
            return
        here = digest(type(self)(subject=self.subject).seen())
        if _ask(self) != here:
            yield (
                f"{self.shows} differs in another process; results must depend on the fields alone: no iteration over "
                "a set, no hash() of text, no random numbers without a fixed seed, no clock, no environment"
            )


@frozen(eq=False, kw_only=True)
class Deterministic(Elsewhere[S], Generic[S, Q, A]):
    """A case of something that answers a question alike whenever, and wherever, it is asked."""

    mend: ClassVar[str] = ""  # what an answer may depend on, as the end of a sentence

    @property
    def asked(self) -> Iterable[Q]:
        raise NotImplementedError

    def answer(self, question: Q) -> A:
        raise NotImplementedError

    @cached_property
    def answers(self) -> Sequence[tuple[Q, A]]:
        return [(question, self.answer(question)) for question in self.asked]

    def words(self, question: Q) -> str:
        return str(question)

    def refused(self, ask: Callable[[Q], object], why: type[E]) -> Iterator[tuple[str, E]]:
        for question in self.asked:
            try:
                ask(question)
            except why as error:
                yield self.words(question), error

    def parts(self, answer: A) -> Iterable[object]:
        return [answer]

    def seen(self) -> Iterable[object]:
        return chain.from_iterable(self.parts(answer) for _, answer in self.answers)

    def is_deterministic(self) -> Faults:
        """It answers the same when it is asked again, in another order; and so does an equal instance."""
        instances = cycle((self, evolve(self, subject=twin(self.subject))))
        for seed, (question, answer) in enumerate(reversed(self.answers)):
            with seeded(seed):
                again = next(instances).answer(question)
            for one, other in zip(self.parts(answer), self.parts(again), strict=False):
                if digest([one]) != digest([other]):
                    fault = f"{self.words(question)}: asked twice, {self.shows} is {one!s:.200} and {other!s:.200}"
                    yield f"{fault}; {self.mend}"


def _ask(case: Elsewhere[Any]) -> str:
    cls = type(case.subject)
    module, file = _origin(cls)
    place = {"module": module, "file": file, "class": cls.__qualname__}
    kind = [type(case).__module__, type(case).__name__]
    question = {**place, "fields": configure.unstructure(case.subject), "case": kind}
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "-c", f"from {__name__} import answer; answer()"]
    text = json.dumps(question)
    try:
        done = subprocess.run(call, check=False, input=text, env=env, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        reason = f"importing {file or module} takes more than {_SECONDS} s"
        raise _unchecked(cls, f"{reason}; what else it does belongs under if __name__ == '__main__'") from None
    if done.returncode or not done.stdout:
        raise _unchecked(cls, (done.stderr.strip().splitlines() or ["it ends early"])[-1])
    return done.stdout


def _origin(cls: type) -> tuple[str, str | None]:
    main = sys.modules[cls.__module__]
    file: str | None = getattr(main, "__file__", None)
    if "<locals>" in cls.__qualname__:
        raise _unchecked(cls, "it is defined in a function; move it to the top level of a module")
    if cls.__module__ != "__main__":
        return cls.__module__, file
    if file is None or not os.path.isfile(file):
        raise _unchecked(cls, "it is defined in no file; move it to one")
    # ``python -m package.module`` has a name for it, ``python file.py`` has none.
    spec = main.__spec__
    return ("fredfw_main" if spec is None else spec.name), file


def _unchecked(cls: type, reason: str) -> ConformanceError:
    return ConformanceError(f"{cls.__qualname__} cannot be checked in another process: {reason}")


def answer() -> None:
    """Answer the question on standard input: this is what runs in the other process."""
    global _answering  # noqa: PLW0603  (a property of the whole process)
    _answering = True
    question = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):  # output of the author's module must not mix with the answer
        outer, *inner = question["class"].split(".")
        cls: Any = reduce(getattr, inner, _find(outer, question["module"], question["file"]))
        module, name = question["case"]
        case = getattr(importlib.import_module(module), name)(subject=made(cls, question["fields"]))
        text = digest(case.seen())
    sys.stdout.write(text)


def _find(name: str, module: str, file: str | None) -> object:
    try:
        found = importlib.import_module(module)
        if file is None or os.path.realpath(found.__file__ or "") == os.path.realpath(file):
            return getattr(found, name)
    except (Exception, SystemExit):
        if file is None:
            raise
    # A script, a local file, or a test module that pytest has imported under a name of its own.
    spec = importlib.util.spec_from_file_location(module, file)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    try:
        spec.loader.exec_module(loaded)
    except (Exception, SystemExit):  # such as a check that fails, after which nothing more is needed
        if not hasattr(loaded, name):
            raise
    return getattr(loaded, name)
