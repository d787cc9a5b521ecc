"""The directive ``plugin-fields KIND``: what the plugins of a kind do, and their fields, as ``fredfw plugins show``."""

from __future__ import annotations

import inspect

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fredfw import PluginManager
from fredfw.plugin import schema
from fredfw.plugin.manager import PluginInfo, Registry, Switches
from fredfw.plugin.schema import FieldInfo

_COLUMNS = {"field": 18, "type": 16, "default": 16, "meaning": 50}


class PluginFields(SphinxDirective):
    """A section for each plugin of one kind, such as ``topology``."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        # Strict: a plugin that is left out would be missing here without anybody noticing.
        manager = PluginManager.discover(Switches(strict=True))
        (registry,) = (one for one in manager.registries if one.kind == self.arguments[0])
        return [self._section(info, registry) for info in registry.infos()]

    def _section(self, info: PluginInfo, registry: Registry[object]) -> nodes.Node:
        cls = registry.get(info.name)
        section = nodes.section(ids=[nodes.make_id(f"{info.kind} {info.name}")], names=[f"{info.kind} {info.name}"])
        self.state.document.note_implicit_target(section, section)
        section += nodes.title("", "", nodes.literal("", info.name))
        section += nodes.paragraph("", "", nodes.emphasis("", f"{info.distribution} {info.version}"))
        section += self.parse_text_to_nodes(inspect.getdoc(cls) or "")
        fields = schema.fields(cls)
        section += self._table(fields) if fields else nodes.paragraph("", "It has no fields.")
        return section

    def _table(self, fields: tuple[FieldInfo, ...]) -> nodes.Node:
        group = nodes.tgroup(cols=len(_COLUMNS))
        group += [nodes.colspec(colwidth=width) for width in _COLUMNS.values()]
        group += nodes.thead("", _row([nodes.paragraph("", name) for name in _COLUMNS]))
        group += nodes.tbody("", *(_row(self._cells(one)) for one in fields))
        return nodes.table("", group, classes=["plugin-fields"])

    def _cells(self, field: FieldInfo) -> list[nodes.Node]:
        kind = f"{field.type}, {field.unit}" if field.unit else field.type
        default = nodes.strong("", "required") if field.default is None else nodes.literal("", field.default)
        # A unit already says what is accepted.
        meaning = field.help if field.unit else f"{field.help} ({field.accepted})"
        return [
            nodes.paragraph("", "", nodes.literal("", field.name)),
            nodes.paragraph("", kind),
            nodes.paragraph("", "", default),
            nodes.paragraph("", meaning),
        ]


def _row(cells: list[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", cell) for cell in cells))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("plugin-fields", PluginFields)
    return {"parallel_read_safe": True}
