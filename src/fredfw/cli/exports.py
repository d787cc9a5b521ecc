"""Exporters on the command line: ``--export NAME PATH``, and the options that are short for one of the core."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve
from click.core import ParameterSource

from fredfw.cli.output import STDOUT, Outputs
from fredfw.cli.parsing import chosen
from fredfw.errors import InputError

if TYPE_CHECKING:
    from fredfw.framework import Framework
    from fredfw.plugin.exporter import Content, Result

Maker = Callable[[Any], "Content | Mapping[str, Content]"]  # of a result: content of a file, or of a directory's files
_EXPORTERS = {"report": "html", "plot": "picture", "map": "picture"}  # of options with another name than theirs


class Exports(Outputs):
    """The output options of a command with a result that exporters take; checked when made, before anything runs."""

    def __init__(
        self,
        ctx: click.Context,  # whose options say what is wanted, and a report how to make it again
        framework: Framework,
        takes: Sequence[str],  # what the command has to export, the kind to prefer first; see ``Exporter.takes``
        short: Sequence[str] = (),  # options that are short for an exporter, such as ``json``
        source: Iterable[str | None] = (),  # files that are read, see ``Outputs``; ``None`` is none
        **fields: Mapping[str, Any],  # by such an option, what other options give its exporter
    ) -> None:
        from fredfw.plugin.answers import checked, exported

        fields = {**fields, "report": {"command": called(ctx), **fields.get("report", {})}}
        asked: list[tuple[str, Any, str]] = [
            (f"--{name}", {"name": _EXPORTERS.get(name, name), **fields.get(name, {})}, path)
            for name in short
            if (path := ctx.params[f"{name}_path"]) is not None
        ]
        asked += [(f"--export {value} {path}", value, path) for value, path in ctx.params.get("exports", ())]
        paths = {key: path for key, _, path in asked}
        self._makers: dict[str, tuple[str, Maker]] = {}  # by option, with the kind that it takes
        self._unfit, directories = [], []  # of results that an interrupt left incomplete; that are directories
        for key, value, path in asked:
            prefix = "--export" if key.startswith("--export") else key
            exporter = chosen(value, framework.plugins.exporters, framework.plugins, prefix)
            if path != STDOUT and exporter.format_by_ending:
                exporter = _in_format(exporter, path, key)
            kind = next((one for one in takes if one in exporter.takes), None)
            if kind is None:
                message = f"exporter {exporter.name!r} has no form for a {takes[-1]}"
                raise InputError(message, key=key, accepted=f"a {' or '.join(exporter.takes)}")
            checked(exporter)
            if exporter.directory:
                if path == STDOUT:
                    raise InputError("several files cannot go to standard output", key=key, accepted="a new directory")
                directories.append(key)
            if not exporter.incomplete:
                self._unfit.append(key)
            self._makers[key] = kind, partial(exported, exporter)
        super().__init__(paths, source=filter(None, source), directories=directories)

    def export(self, results: Mapping[str, Result], *, complete: bool = True) -> None:
        """Write what is wanted of ``results``, by kind; not what cannot say that they are not ``complete``."""
        contents = {key: partial(make, results[kind]) for key, (kind, make) in self._makers.items()}
        self.write(contents, leave_out=() if complete else self._unfit)

    def interrupted(self, done: str) -> KeyboardInterrupt:
        return KeyboardInterrupt(f"{done}; not written: {', '.join(self._unfit)}" if self._unfit else done)


def _in_format(exporter: Any, path: str, key: str) -> Any:
    """Return ``exporter`` with the format that ``path`` ends with."""
    ending = PurePath(path).suffix.lower()
    if ending not in exporter.suffixes:
        accepted = f"a name that ends in {', '.join(exporter.suffixes)}"
        raise InputError("unknown format", file=path, key=key, accepted=accepted)
    return evolve(exporter, format=ending[1:])


def called(ctx: click.Context) -> str:
    chain = [ctx]
    while (parent := chain[0].parent) is not None:
        chain.insert(0, parent)
    words: list[str] = []
    for one in chain:
        words.append(str(one.info_name) if one.parent else "fredfw")
        for param in sorted(one.command.params, key=lambda param: isinstance(param, click.Option)):
            if one.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
                words += _words(param, one.params[str(param.name)])
    return shlex.join(words)


def _words(param: click.Parameter, value: object) -> Iterator[str]:
    several = value if isinstance(value, tuple) and (param.nargs == -1 or param.multiple) else (value,)
    for one in several:
        if isinstance(param, click.Argument):
            yield str(one)
        elif isinstance(param, click.Option) and param.is_flag:
            yield (param.opts if one else param.secondary_opts or param.opts)[0]
        elif isinstance(one, tuple):
            yield from (param.opts[0], *map(str, one))
        else:
            # One word, so that an option whose value may be left out does not take the next word for it.
            yield from ([f"{param.opts[0]}={one}"] if param.opts[0].startswith("--") else [param.opts[0], str(one)])
