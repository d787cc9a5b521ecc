"""The interface of an exporter: results in another program's format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from fredfw.experiment.results import CollectiveResult, CollectiveSweep, Comparison, RunResult
    from fredfw.experiment.study.results import StudyResult
    from fredfw.validation.results import Validation
    from fredfw.workloads import TaskGraph

    Result: TypeAlias = (
        RunResult | Comparison | CollectiveResult | CollectiveSweep | TaskGraph | StudyResult | Validation
    )

Content: TypeAlias = str | bytes  # what a file holds; text is written as UTF-8
KINDS = ("run", "comparison", "collective", "sweep", "graph", "study", "validation")
"""What can be exported, as the classes of ``Result`` in their order; a ``graph`` is one that was not simulated."""


class Exporter(ABC):
    """Turns a result into the content of a file; plugins derive attrs classes from it, whose fields are its options."""

    name: ClassVar[str]
    takes: ClassVar[tuple[str, ...]] = ("run", "comparison")
    """What the format has a form for: ``run``, ``comparison``, ``collective`` (of one size), ``sweep``, ``graph``,
    ``study``, ``validation``."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """Endings of files in this format, with the dot, for example ``(".json",)``."""
    format_by_ending: ClassVar[bool] = False
    """Whether a path must end in one of ``suffixes``, and its field ``format`` is which one, without the dot."""
    directory: ClassVar[bool] = False
    """Whether it makes several files, which go into a directory."""
    incomplete: ClassVar[bool] = False
    """Whether the format can say which cells an interrupt left out; otherwise nothing is written then."""

    def check(self) -> None:  # noqa: B027, most formats need nothing
        """Make sure, before anything runs, that this machine has what the format needs; ``InputError`` if not."""

    @abstractmethod
    def export(self, result: Any) -> Content | Mapping[str, Content]:
        """Return the content of the file, or of several by name; ``UnsupportedError`` where the format has no form."""
