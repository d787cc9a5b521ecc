"""The form of every JSON document: what it is and which version of that comes first, and no NaN or infinity."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

VERSION = 1


def document(kind: str, content: Mapping[str, Any]) -> str:
    """Return ``content`` as a JSON document of ``kind``, with keys in the order given.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    whole = {"format": f"fredfw.{kind}", "version": VERSION, **content}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
