"""Text that others wrote, made safe for a terminal."""

import re

# Control characters of ASCII and Latin-1, line and paragraph separators, Unicode's bidirectional embeddings, overrides
# and isolates, and half a surrogate pair, which standard output refuses.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def has_controls(text: str) -> bool:
    """Return whether ``text`` has a control character, a line break, a tab or half a surrogate pair in it."""
    return _CONTROL.search(text) is not None


def printable(text: str) -> str:
    r"""Return ``text`` with control characters as escapes such as ``\x1b``; tabs and the ends of lines stay."""
    return _CONTROL.sub(_escape, text)


def quoted(name: str) -> str:
    """Return ``name`` for a list of names with commas between them: in quotes where it is not one plain word."""
    return name if name and not any(letter.isspace() or letter in ",'\"" for letter in name) else repr(name)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in "\t\n":
        return character
    return f"\\x{ord(character):02x}" if ord(character) < 0x100 else f"\\u{ord(character):04x}"
