"""A page as one HTML file. Importing this module needs jinja2."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fredfw.report.html.blocks import Page, is_long
from fredfw.report.pictures import importing

with importing("--report", "a report", "jinja2", "report"):
    from jinja2 import Environment, FunctionLoader, Template, select_autoescape


# Those of ISO/IEC 6429, without line feed and tab.
_CONTROLS = {number: "\ufffd" for number in (*range(32), *range(127, 160)) if chr(number) not in "\n\t"}


def rendered(page: Page) -> str:
    """Return the file: it needs no other one, and holds no script. Equal pages give equal text."""
    return _template().render(page=page).strip() + "\n"


def _visible(value: object) -> object:
    """Return text with marks in place of control characters, which no name needs."""
    return value.translate(_CONTROLS) if type(value) is str else value


@cache
def _template() -> Template:
    folder = resources.files("fredfw.report.html") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=select_autoescape(default=True),
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["long"] = is_long
    return environment.get_template("page.html")
