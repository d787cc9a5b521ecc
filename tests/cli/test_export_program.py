from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fredfw import Framework

COMMAND = "export-program", "two.toml", "--fabric", "fast"


@pytest.mark.parametrize("options", [(), ("--routes",), ("--fidelity", "exact")])
def test_a_program_is_that_of_the_library(
    options: tuple[str, ...], experiment: str, succeeds: Callable[..., str]
) -> None:
    assert succeeds(*COMMAND, *options, "-o", "fast.fredfw") == ""
    fidelity = "exact" if "exact" in options else None
    content = Framework().export_program(experiment, fabric="fast", fidelity=fidelity, routes="--routes" in options)
    assert Path("fast.fredfw").read_bytes() == content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--set", 'fabrics.fast.sharing={name = "dctcp", delay = "1 us"}'),
            "fabrics.fast.sharing: 'dctcp' gives rates while a program runs",
        ),
        (("--set", "workloads.net.compute_scale=-1"), "workloads.net.compute_scale: "),
        (("--set", "fabrics.fast.transport=alpha-beta", "--routes"), "fabrics.fast.transport: 'alpha-beta' is asked"),
    ],
)
def test_what_cannot_be_a_program_is_refused(
    options: tuple[str, ...], message: str, experiment: str, is_refused: Callable[..., str]
) -> None:
    assert message in is_refused("export-program", experiment, "--fabric", "fast", *options, "-o", "fast.fredfw")


def test_the_cell_is_chosen_as_for_a_run(experiment: str, is_refused: Callable[..., str]) -> None:
    message = is_refused("export-program", experiment, "-o", "x.fredfw")
    assert message == "two.toml: --fabric: there are 2 fabrics, and none is chosen (accepted: one of slow, fast)"


def test_the_input_is_not_replaced(experiment: str, is_refused: Callable[..., str]) -> None:
    assert is_refused(*COMMAND, "-o", experiment).startswith("--output: 'two.toml' is also the input")
