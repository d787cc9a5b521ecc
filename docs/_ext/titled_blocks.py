"""A code block that is a file, ````` ```python title="loop.py" `````, shows the file's name."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

_TITLED = re.compile(r'^```(\w+) title="([^"]+)"$', re.MULTILINE)


def _name_files(app: Sphinx, docname: str, source: list[str]) -> None:
    del app, docname
    source[0] = _TITLED.sub(r"```{code-block} \1\n:caption: \2\n", source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", _name_files)
    return {"parallel_read_safe": True}
