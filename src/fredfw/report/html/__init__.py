"""Reports as one HTML file that needs nothing else: no network, no script. Rendering a page needs jinja2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from fredfw.report.html.blocks import Page


@runtime_checkable
class Paged(Protocol):
    """A result that says itself what its page is."""

    def page(self, command: str = "") -> Page:
        """Return its page; ``command`` makes it again."""
