from __future__ import annotations

from pathlib import Path

import pytest
from command_line import TWO, refused, succeeds

from fredfw import Framework

COMMAND = "export-program", "two.toml", "--fabric", "fast"


@pytest.mark.parametrize("options", [(), ("--routes",), ("--fidelity", "exact")])
def test_a_program_is_that_of_the_library(options: tuple[str, ...]) -> None:
    assert succeeds(*COMMAND, *options, "-o", "fast.fredfw") == ""
    fidelity = "exact" if "exact" in options else None
    content = Framework().export_program(TWO, fabric="fast", fidelity=fidelity, routes="--routes" in options)
    assert Path("fast.fredfw").read_bytes() == content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ('fabrics.fast.sharing={name = "dctcp", delay = "1 us"}',),
            "fabrics.fast.sharing: 'dctcp' gives rates while a",
        ),
        (("workloads.net.compute_scale=-1",), "workloads.net.compute_scale: "),
        (("fabrics.fast.transport=alpha-beta", "--routes"), "fabrics.fast.transport: 'alpha-beta' is asked"),
    ],
)
def test_what_cannot_be_a_program_refused(options: tuple[str, ...], message: str) -> None:
    assert message in refused("export-program", TWO, "--fabric", "fast", "-o", "fast.fredfw", "--set", *options)


def test_the_cell_is_chosen_as_for_a_run() -> None:
    message = refused("export-program", TWO, "-o", "x.fredfw")
    assert message == "two.toml: --fabric: there are 2 fabrics, and none is chosen (accepted: one of slow, fast)"


def test_the_input_is_not_replaced() -> None:
    assert refused(*COMMAND, "-o", TWO).startswith("--output: 'two.toml' is also the input")
