"""The interface of an exporter: results in another program's format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from fredfw.experiment.results import Comparison, RunResult


class Exporter(ABC):
    """Turns a result into the content of a file; plugins derive attrs classes from it, whose fields are its options."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    """Endings of files in this format, with the dot, for example ``(".json",)``."""

    @abstractmethod
    def export(self, result: RunResult | Comparison) -> str | bytes:
        """Return the whole content of the file (text is written as UTF-8); equal results give equal content.

        Raises:
            UnsupportedError: This format has no form for a result of this kind.
        """
