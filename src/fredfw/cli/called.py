"""The command line that a user gave, for reports that say how to make them again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
from click.core import ParameterSource

from fredfw.cli.session import session


def called(ctx: click.Context) -> str:
    """Return the command of ``ctx`` as a shell takes it, with what was given on the line and no more."""
    chain = [ctx]
    while (parent := chain[0].parent) is not None:
        chain.insert(0, parent)
    words = ["fredfw"]
    for number, one in enumerate(chain):
        if number:
            words.append(str(one.info_name))
        arguments = [param for param in one.command.params if isinstance(param, click.Argument)]
        options = [param for param in one.command.params if isinstance(param, click.Option)]
        for param in (*arguments, *options):
            if one.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
                # The session has what is given before the command.
                value = one.params[param.name] if param.name in one.params else getattr(session(ctx), param.name)
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
