from __future__ import annotations

import pytest

from fredfw.experiment.naming import as_written, fill, listed, placeholders


def test_placeholders() -> None:
    assert placeholders("Ring {npus} at {line_rate}, {npus}") == ("npus", "line_rate", "npus")
    assert placeholders("Ring") == placeholders("}{") == ()
    assert placeholders("{}") == ("",)


def test_filling_leaves_what_it_does_not_know() -> None:
    settings = {"npus": 1024, "line_rate": "40 Gbps"}
    assert fill("Ring {npus} {line_rate} {m} {npus}", settings) == "Ring 1024 40 Gbps {m} 1024"
    # What is filled in is not filled again.
    assert fill("{a}", {"a": "{b}", "b": 1}) == "{b}"


@pytest.mark.parametrize(
    ("value", "text"),
    [(4, "4"), (2.5, "2.5"), ("40 Gbps", "40 Gbps"), (True, "true"), ([8, 8], "[8, 8]"), (["a", False], "[a, false]")],
)
def test_values_as_written(value: object, text: str) -> None:
    assert as_written(value) == text


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    text = listed([str(number) for number in range(96)])
    assert text.startswith("0, 1, ")
    assert text.endswith("11, ... (96 in all)")
