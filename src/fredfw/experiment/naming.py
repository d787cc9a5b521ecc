"""Names with placeholders, such as ``Ring {npus}``, which a sweep's settings fill."""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_FEW = 12


def placeholders(name: str) -> tuple[str, ...]:
    return tuple(_PLACEHOLDER.findall(name))


def fill(name: str, settings: Mapping[str, Any]) -> str:
    return _PLACEHOLDER.sub(lambda one: as_written(settings[one[1]]) if one[1] in settings else one[0], name)


def unfilled(name: str) -> str:
    """Return ``name`` without its placeholders, and without what is left over between and around them."""
    words = [" ".join(part.split()).strip(" ,;:=-_/") for part in _PLACEHOLDER.split(name)[::2]]
    return " ".join(word for word in words if word)


def as_written(value: object) -> str:
    """Return ``value`` as an experiment file has it, but text without quotes, and a plugin as ``name(field=value)``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_written, value))}]"
    if isinstance(value, Mapping):
        fields = ", ".join(f"{key}={as_written(one)}" for key, one in value.items() if key != "name")
        return f"{value.get('name', '')}({fields})" if fields else str(value.get("name", "{}"))
    return str(value)


def toml_key(name: str) -> str:
    if name and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def listed(names: Sequence[str]) -> str:
    """Return ``names`` with commas between them; of many only the first, and how many there are."""
    return ", ".join(names) if len(names) <= _FEW else f"{', '.join(names[:_FEW])}, ... ({len(names)} in all)"


def repeated(items: Iterable[Hashable]) -> tuple[int, int] | None:
    """Return the place of the first of ``items`` that has been there before, and where; ``None`` if there is none."""
    first: dict[Hashable, int] = {}
    for place, one in enumerate(items):
        if first.setdefault(one, place) != place:
            return place, first[one]
    return None
