"""A page as one HTML file. Importing this module needs jinja2."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fredfw.report.html.blocks import Page, is_long
from fredfw.report.pictures import importing

with importing("--report"):
    from jinja2 import Environment, FunctionLoader, Template, select_autoescape


def rendered(page: Page) -> str:
    """Return the file: it needs no other one, and holds no script. Equal pages give equal text."""
    return _template().render(page=page).strip() + "\n"


@cache
def _template() -> Template:
    folder = resources.files("fredfw.report.html") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=select_autoescape(default=True),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["long"] = is_long
    return environment.get_template("page.html")
