"""Makes the pictures of the gallery: runs the commands on its page, which are also what a reader is told to run."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

from fredfw.cli import main

_PAGE = "gallery.md"
_PICTURES = "_generated"
_PROMPT = "$ fredfw "


def _make(app: Sphinx) -> None:
    source = Path(app.srcdir)
    folder = source / _PICTURES
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "experiments").symlink_to(source.parent / "experiments")
    for line in (source / _PAGE).read_text(encoding="utf-8").splitlines():
        if line.startswith(_PROMPT):
            logging.getLogger(__name__).info("gallery: %s", line)
            with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
                main(shlex.split(line.removeprefix(_PROMPT)), standalone_mode=False)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", _make)
    return {"parallel_read_safe": True}
