"""Exporters on the command line: ``--export NAME PATH``, and the options that are short for one of the core."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fredfw.cli.output import STDOUT, Outputs
from fredfw.cli.parsing import chosen
from fredfw.cli.session import session
from fredfw.errors import InputError

if TYPE_CHECKING:
    from fredfw.framework import Framework
    from fredfw.plugin.exporter import Content, Exporter, Result

Maker = Callable[[], "Content | Mapping[str, Content]"]
"""Makes the content of a file, or of each file of a directory."""
_NO_FIELDS: Mapping[str, Any] = MappingProxyType({})
_EXPORTERS = {"report": "html"}  # of options that have another name than their exporter


class Exports:
    """What one command writes through exporters; checked when made, before anything runs.

    Args:
        ctx: The command, whose options say what is wanted; a report says how to make it again.
        framework: Whose plugins the exporters are.
        takes: What the command has to export, the kind to prefer first; see ``Exporter.takes``.
        short: The options that are short for an exporter, such as ``json``.
        fields: By such an option, fields of its exporter which other options give.

    Raises:
        InputError: No such exporter, or it has no form for what the command makes.
    """

    def __init__(
        self,
        ctx: click.Context,
        framework: Framework,
        takes: Sequence[str],
        short: Sequence[str] = (),
        fields: Mapping[str, Mapping[str, Any]] = _NO_FIELDS,
    ) -> None:
        from fredfw.plugin.answers import checked

        fields = {**fields, "report": {"command": called(ctx), **fields.get("report", {})}}
        asked: list[tuple[str, Any, str]] = [
            (f"--{name}", {"name": _EXPORTERS.get(name, name), **fields.get(name, {})}, path)
            for name in short
            if (path := ctx.params[f"{name}_path"]) is not None
        ]
        given = ctx.params.get("exports", ())
        asked += [(f"--export {value} {path}", value, path) for value, path in given]
        self.paths = {key: path for key, _, path in asked}
        self._chosen: dict[str, tuple[Exporter, str]] = {}
        for key, value, path in asked:
            prefix = "--export" if key.startswith("--export") else key
            exporter = chosen(value, framework.plugins.exporters, framework.plugins, prefix)
            kind = next((one for one in takes if one in exporter.takes), None)
            if kind is None:
                message = f"exporter {exporter.name!r} has no form for a {takes[-1]}"
                raise InputError(message, key=key, accepted=f"a {' or '.join(exporter.takes)}")
            checked(exporter)
            if exporter.directory and path == STDOUT:
                raise InputError("several files cannot go to standard output", key=key, accepted="a new directory")
            self._chosen[key] = exporter, kind

    @property
    def unfit(self) -> list[str]:
        """The options whose format cannot say what an interrupt left out."""
        return [key for key, (exporter, _) in self._chosen.items() if not exporter.incomplete]

    def contents(self, results: Mapping[str, Result]) -> dict[str, Maker]:
        """Return what makes the content of each option, of ``results`` by kind."""
        from fredfw.plugin.answers import exported

        return {key: partial(exported, exporter, results[kind]) for key, (exporter, kind) in self._chosen.items()}

    def outputs(self, source: Iterable[str | None], pictures: Mapping[str, str | None] = _NO_FIELDS) -> Outputs:
        """Return where all of that goes, and ``pictures`` by option; raises ``InputError`` as ``Outputs`` does."""
        directories = [key for key, (exporter, _) in self._chosen.items() if exporter.directory]
        return Outputs({**self.paths, **pictures}, source=filter(None, source), directories=directories)


def interrupted(done: str, unfit: Sequence[str]) -> KeyboardInterrupt:
    """Return an interrupt that says what is ``done``, and what was not written for it."""
    return KeyboardInterrupt(f"{done}; not written: {', '.join(unfit)}" if unfit else done)


def called(ctx: click.Context) -> str:
    """Return the command of ``ctx`` as a shell takes it, with what was given on the line and no more."""
    chain = [ctx]
    while (parent := chain[0].parent) is not None:
        chain.insert(0, parent)
    words = ["fredfw"]
    for number, one in enumerate(chain):
        if number:
            words.append(str(one.info_name))
        for param in sorted(one.command.params, key=lambda param: isinstance(param, click.Option)):
            if one.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
                # The session has what is given before the command.
                value = one.params[param.name] if param.name in one.params else getattr(session(ctx), str(param.name))
                words += _words(param, value)
    return shlex.join(words)


def _words(param: click.Parameter, value: object) -> Iterator[str]:
    """Yield the words of one parameter; ``value`` holds several where it may be repeated."""
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
