"""Exporters on the command line: ``--export NAME PATH``, and the options that are short for one of the core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from fredfw.cli import completion
from fredfw.cli.output import STDOUT, Outputs
from fredfw.errors import InputError

if TYPE_CHECKING:
    from fredfw.framework import Framework
    from fredfw.plugin.exporter import Content, Exporter, Result

Maker = Callable[[], "Content | Mapping[str, Content]"]
"""Makes the content of a file, or of each file of a directory."""
_NO_FIELDS: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

option = click.option(
    "--export",
    "exports",
    nargs=2,
    multiple=True,
    metavar="NAME PATH",
    shell_complete=completion.exporters,
    help="Write the result through the exporter plugin NAME, or {name = ..., KEY = ...}; may be repeated.",
)


_EXPORTERS = {"report": "html"}  # of options that have another name than their exporter

report = click.option(
    "--report",
    "report_path",
    metavar="PATH",
    type=completion.PathText(),
    help="Write one HTML file with tables, pictures and all that is needed to make it again.",
)


class Exports:
    """What one command writes through exporters; checked when made, before anything runs.

    Args:
        framework: Whose plugins the exporters are.
        exports: The name, or a table of the name and fields, and the path of each ``--export``.
        takes: What the command has to export, the kind to prefer first; see ``Exporter.takes``.
        fields: By such an option, the fields of its exporter that other options give.
        short: Path of each option that is short for an exporter, such as ``--json``; ``None`` where it was not given.

    Raises:
        InputError: No such exporter, or it has no form for what the command makes.
    """

    def __init__(
        self,
        framework: Framework,
        exports: Sequence[tuple[str, str]],
        takes: Sequence[str],
        fields: Mapping[str, Mapping[str, Any]] = _NO_FIELDS,
        **short: str | None,
    ) -> None:
        from fredfw.plugin import configure
        from fredfw.plugin.answers import checked

        plugins = framework.plugins
        asked: list[tuple[str, Any, str]] = [
            (f"--{name}", {"name": _EXPORTERS.get(name, name), **fields.get(name, {})}, path)
            for name, path in short.items()
            if path is not None
        ]
        asked += [(f"--export {value} {path}", configure.from_toml(value), path) for value, path in exports]
        self.paths = {key: path for key, _, path in asked}
        self._chosen: dict[str, tuple[Exporter, str]] = {}
        for key, value, path in asked:
            exporter = configure.choose(
                value,
                plugins.exporters,
                key_prefix="--export" if key.startswith("--export") else key,
                registries=lambda: plugins.registries,
            )
            kind = next((one for one in takes if one in exporter.takes), None)
            if kind is None:
                raise InputError(
                    f"exporter {exporter.name!r} has no form for a {takes[-1]}",
                    key=key,
                    accepted=f"a {' or '.join(exporter.takes)}",
                )
            checked(exporter)
            if exporter.directory and path == STDOUT:
                raise InputError("several files cannot go to standard output", key=key, accepted="a new directory")
            self._chosen[key] = exporter, kind

    @property
    def directories(self) -> list[str]:
        """The options whose path is a directory."""
        return [key for key, (exporter, _) in self._chosen.items() if exporter.directory]

    @property
    def unfit(self) -> list[str]:
        """The options whose format cannot say what an interrupt left out."""
        return [key for key, (exporter, _) in self._chosen.items() if not exporter.incomplete]

    def contents(self, results: Mapping[str, Result]) -> dict[str, Maker]:
        """Return what makes the content of each option, of ``results`` by kind."""
        from fredfw.plugin.answers import exported

        return {key: partial(exported, exporter, results[kind]) for key, (exporter, kind) in self._chosen.items()}

    def outputs(self, pictures: Mapping[str, str], source: str | Iterable[str]) -> Outputs:
        """Return where all of that goes, and ``pictures`` by option; raises ``InputError`` as ``Outputs`` does."""
        return Outputs({**self.paths, **pictures}, source=source, directories=self.directories)
