"""The documentation site: ``sphinx-build docs OUT``, pages in Markdown.

Sphinx with furo and MyST, not mkdocs-material, whose maintenance ended in November 2026 (its issue 8523); and autodoc
reads the docstrings of hooks and classes as they are.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "fredfw"
release = version = importlib.metadata.version("fredfw")
copyright = "the fredfw authors"  # noqa: A001  (what Sphinx calls it)

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    # Ours, in _ext.
    "gallery",
    "references",
]
exclude_patterns = ["_ext", "_generated"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# Fields of several results are called bytes, as the type is that others have.
suppress_warnings = ["ref.python"]

autodoc_member_order = "bysource"
# As they are written: the value of os.environ is nobody's business.
autodoc_preserve_defaults = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
# Names of arrays say more than what they stand for.
autodoc_type_aliases = {name: name for name in ("BoolArray", "FloatArray", "IntArray")}
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"fredfw {release}"
html_static_path = ["_static"]
html_theme_options = {"navigation_with_keys": True}
