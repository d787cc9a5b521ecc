"""Fills pages while Sphinx reads them: all commands, all checks of the conformance kit, the fields of all plugins.

The plugins of a kind stand where ````` ```{plugin-fields} topology ````` and its end are. A code block that is a file,
````` ```python title="loop.py" `````, shows the file's name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from fredfw import PluginManager, testing
from fredfw.cli import main
from fredfw.plugin import schema
from fredfw.plugin.manager import Switches

if TYPE_CHECKING:  # the tests read this module without Sphinx
    from sphinx.application import Sphinx

_FIELDS = re.compile(r"^```\{plugin-fields\} (.+)\n```$", re.MULTILINE)
_TITLED = re.compile(r'^```(\w+) title="([^"]+)"$', re.MULTILINE)


def commands() -> str:
    """Return the commands of the core and of the first-party plugins, as ``--help`` has them, a section each."""
    # Strict: a plugin that is left out would be missing here without anybody noticing.
    plugins = PluginManager.discover(Switches(strict=True))
    root = click.Context(main, info_name="fredfw", **main.context_settings)
    return "\n".join([_section(root), *(part for one in plugins.commands for part in _sections(one, root))])


def _sections(command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=command.name, parent=parent)
    yield _section(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from _sections(command.commands[name], context)


def _section(context: click.Context) -> str:
    command = context.command
    lines = [f"## {context.command_path}", "", "```text", command.get_usage(context).removeprefix("Usage: "), "```", ""]
    lines += [inspect.cleandoc(command.help or ""), "", "| option | meaning |", "|---|---|"]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1]:  # the usage has the arguments, of which there is nothing to say
            names, meaning = (text.replace("|", "\\|").replace("\n", " ") for text in record)
            lines.append(f"| `{names}` | {meaning} |")
    return "\n".join([*lines, ""])


def checks() -> str:
    """Return the checks of each test class by their docstrings, a section each; those of all plugins come first."""
    classes = {name: getattr(testing, name) for name in testing.__all__ if name.endswith("Tests")}
    texts = {
        name: {check.__name__: str(check.__doc__).replace("``", "`") for check in cls.checks}
        for name, cls in classes.items()
    }
    common = {one: text for one, text in texts["TopologyTests"].items() if all(one in own for own in texts.values())}
    sections = {"All classes": common}
    sections |= {name: {one: own[one] for one in own if one not in common} for name, own in texts.items()}
    lines = []
    for title, own in sections.items():
        lines += [f"### {title}", "", "| check | holds where |", "|---|---|"]
        lines += [*(f"| `{name}` | {text} |" for name, text in own.items()), ""]
    return "\n".join(lines)


def fields(kind: str) -> str:
    """Return what the plugins of a kind do, and their fields, as ``fredfw plugins show`` has them, a section each."""
    (registry,) = (one for one in PluginManager.discover(Switches(strict=True)).registries if one.kind == kind)
    lines = []
    for info in registry.infos():
        cls = registry.get(info.name)
        origin = f"*{info.distribution} {info.version}*"
        anchor = f"({kind.replace(' ', '-')}-{info.name})="
        lines += [anchor, f"### `{info.name}`", "", origin, "", inspect.getdoc(cls) or "", ""]
        own = schema.fields(cls)
        lines += ["| field | type | default | meaning |", "|---|---|---|---|"] if own else ["It has no fields."]
        for one in own:
            unit = f"{one.type}, {one.unit}" if one.unit else one.type
            default = "**required**" if one.default is None else f"`{one.default}`"
            # A unit already says what is accepted.
            meaning = one.help if one.unit else f"{one.help} ({one.accepted})"
            lines.append(f"| `{one.name}` | {_plain(unit)} | {default} | {_plain(meaning)} |")
        lines.append("")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>|#$])", r"\\\1", text)


PAGES = {
    "reference/cli": ("<!-- every command, from docs/_ext/references.py -->", commands),
    "reference/testing": ("<!-- every check, from docs/_ext/references.py -->", checks),
}
"""What takes the place of a comment, by page."""


def _fill(_app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = _FIELDS.sub(lambda one: fields(one[1]), source[0])
    source[0] = _TITLED.sub(r"```{code-block} \1\n:caption: \2\n", source[0])
    if name in PAGES:
        place, reference = PAGES[name]
        source[0] = source[0].replace(place, reference())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True}
