import pytest

from fredfw.terminal import has_controls, printable, quoted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("\x00\r\x7f\x85\x9b31m", "\\x00\\x0d\\x7f\\x85\\x9b31m"),
        ("\u202egpj\u2066.exe\u2028", "\\u202egpj\\u2066.exe\\u2028"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_what_controls_a_terminal_becomes_an_escape(text: str, expected: str) -> None:
    assert has_controls(text)
    assert printable(text) == expected
    assert not has_controls(printable(text))


@pytest.mark.parametrize("text", ["", "größer \u2264 8\xa0GB", "\u05d0\u05d1 \u0627\u0628", "\N{GRINNING FACE}", "\\b"])
def test_other_text_stays(text: str) -> None:
    assert not has_controls(text)
    assert printable(text) == text


def test_tabs_and_ends_of_lines_are_printed_but_are_controls() -> None:
    assert printable("a\tb\nc") == "a\tb\nc"
    assert has_controls("a\tb")
    assert has_controls("a\nb")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("FRED-D", "FRED-D"), ("two rows", "'two rows'"), ("a,b", "'a,b'"), ("", "''"), ("it's", '"it\'s"')],
)
def test_names_in_a_list_are_quoted_where_they_would_run_together(name: str, shown: str) -> None:
    assert quoted(name) == shown
