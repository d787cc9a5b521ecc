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


@pytest.mark.parametrize("text", ["", "größer \u2264 8\xa0GB", "\u05d0\u05d1", "\N{GRINNING FACE}", "\\b", "\t", "\n"])
def test_other_text_stays_also_tabs_and_ends_of_lines_though_they_are_controls(text: str) -> None:
    assert printable(text) == text
    assert has_controls(text) == (text in ("\t", "\n"))


@pytest.mark.parametrize(
    ("name", "shown"),
    [("FRED-D", "FRED-D"), ("two rows", "'two rows'"), ("a,b", "'a,b'"), ("", "''"), ("it's", '"it\'s"')],
)
def test_names_in_a_list_are_quoted_where_they_would_run_together(name: str, shown: str) -> None:
    assert quoted(name) == shown
