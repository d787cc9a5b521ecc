"""Files of ASTRA-sim as plain data: YAML and JSON."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from fredfw.errors import InputError

if TYPE_CHECKING:
    import yaml


@cache
def _loader() -> type[yaml.SafeLoader]:
    """Return what reads YAML without objects, and without keys that are there twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            seen = set[object]()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        problem = f"the key {key.value!r} is there twice"
                        raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    return Loader


def read_yaml(content: bytes) -> Any:
    """Return the one document in ``content``.

    Raises:
        InputError: It is not YAML, or has a tag that would make an object; names line and column.
    """
    import yaml  # which takes longer to import than the rest of this plugin, and is needed for files alone

    try:
        return yaml.load(content, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InputError(f"{place}{error.problem or error.context}", accepted="YAML") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # bytes that are no text, dates that do not exist
        raise InputError(_reason(error), accepted="YAML") from None


def read_json(content: bytes) -> Any:
    """Return the value in ``content``; raises ``InputError`` that names line and column where it is not JSON."""
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{place}: {error.msg}", accepted="JSON") from None
    except (ValueError, RecursionError) as error:  # bytes that are no text, integers of many digits
        raise InputError(_reason(error), accepted="JSON") from None


def read_table(content: bytes) -> Mapping[str, Any]:
    """Return the JSON object in ``content``; raises as ``read_json`` does, and where it is something else."""
    value = read_json(content)
    if not isinstance(value, dict):
        raise InputError("is not a JSON object", accepted="an object of keys and values")
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
