"""The form of every JSON document: what it is and which version of that comes first, and no NaN or infinity."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from attrs import asdict

from fredfw.experiment.naming import repeated

VERSION = 1


def document(kind: str, content: Mapping[str, Any]) -> str:
    """Return ``content``, with attrs objects in it, as a JSON document of ``kind``; keys are in the order given."""
    whole = {"format": f"fredfw.{kind}", "version": VERSION, **content}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False, default=asdict) + "\n"


def digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what ``content`` says, whatever the order of its keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def parse(text: str) -> Any:
    """Return what a JSON document holds; raises ``ValueError``, or ``RecursionError`` where it is nested too deeply."""
    content = json.loads(text, object_pairs_hook=_object, parse_float=_finite, parse_constant=_finite)
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text {error.object[error.start]!r} is half a surrogate pair") from None
    return content


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if found := repeated(key for key, _ in pairs):
        raise ValueError(f"the key {pairs[found[0]][0]!r} is repeated")
    return dict(pairs)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is not finite")
    return number
