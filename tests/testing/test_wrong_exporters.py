"""Exporters that are wrong on purpose: the kit finds each and says what to mend."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import frozen
from kit import changed, found

from fredfw import Exporter, RunResult, units
from fredfw.errors import UnsupportedError
from fredfw.experiment.results import Comparison
from fredfw.testing.exporter import ExporterCase, results

# Each call of the kit starts another Python.
pytestmark = pytest.mark.slow

RESULTS = results()
CALLS: list[int] = []


@frozen
class Seconds(Exporter):
    """The seconds of each cell, one a line; with one fault or none."""

    name: ClassVar[str] = "seconds"
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)

    fault: str = units.option("none", help="which")

    def export(self, result: RunResult | Comparison) -> str | bytes:
        CALLS.append(1)
        match self.fault:
            case "nothing":
                return None  # type: ignore[return-value]  # wrong on purpose
            case "surrogate":
                return "half a \ud800"
            case "refuses":
                raise UnsupportedError("never")
            case "mute" if isinstance(result, RunResult):
                raise UnsupportedError(" ")
            case "runs" if isinstance(result, Comparison):
                raise UnsupportedError("one cell only")
            case "moody":
                return str(np.random.random())
            case "counts":
                return str(len(CALLS))
            case "spoils" if isinstance(result, RunResult):
                result.link_bytes[:] += 1
            case "writes" if isinstance(result, RunResult):
                result.breakdown["compute"] = 0.0
        rows = [result] if isinstance(result, RunResult) else result.rows
        return "".join(f"{row.seconds!r}\n" for row in rows)


@frozen
class Folder(Seconds):
    """Several files, with one fault or none."""

    directory: ClassVar[bool] = True

    def export(self, result: RunResult | Comparison) -> Any:
        wrong = {"outside": {"../all.txt": ""}, "none of them": {}, "number": {"a.txt": 1}, "one": "text"}
        return wrong.get(self.fault, {"a.txt": Seconds.export(self, result), "b.txt": b""})


@frozen
class Shuffled(Exporter):
    """Labels in the order of a set."""

    name: ClassVar[str] = "shuffled"

    def export(self, result: RunResult | Comparison) -> bytes:
        return " ".join({f"label {number}" for number in range(20)}).encode()


@pytest.mark.parametrize(
    ("exporter", "check", "expected"),
    [
        (Seconds("nothing"), "gives_text_or_bytes", "'seconds' returned None; expected text or bytes"),
        (Seconds("refuses"), "gives_text_or_bytes", "every result is refused; give results= that it exports"),
        (Seconds("surrogate"), "gives_text_or_bytes", "of a RunResult, the text cannot be written as UTF-8: surrog"),
        (changed(Seconds, takes=("run", "picture")), "takes_are_kinds", "takes are ('run', 'picture'); a tuple of one"),
        (Folder("outside"), "gives_text_or_bytes", "names a file '../all.txt'; expected the name of a file, without"),
        (Folder("none of them"), "gives_text_or_bytes", "returned {}; expected a table of files, by name"),
        (Folder("number"), "gives_text_or_bytes", "returned 1 for 'a.txt'; expected text or bytes"),
        (Folder("one"), "gives_text_or_bytes", "returned 'text'; expected a table of files, by name"),
        (Seconds("mute"), "refusals_have_reasons", "a RunResult is refused without a reason"),
        (changed(Seconds, suffixes=("txt",)), "suffixes_are_endings", "suffixes are ('txt',); a tuple of endings wi"),
        (Seconds("moody"), "is_deterministic", "a Comparison: asked twice, the content is "),
        (Seconds("counts"), "is_deterministic", "a Comparison: asked twice, the content is "),
        (Shuffled(), "is_the_same_in_another_process", "the content differs in another process"),
        (Seconds("spoils"), "result_is_left_alone", "export() changes the RunResult that it is given; copy what"),
        (Seconds("writes"), "result_is_left_alone", "export() changes the RunResult that it is given; copy what"),
    ],
)
def test_wrong_exporters(exporter: Exporter, check: str, expected: str) -> None:
    assert expected in found(ExporterCase(subject=exporter, results=RESULTS), check)
