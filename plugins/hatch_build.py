"""Makes one distribution of the packages below this folder: their modules, requirements and entry points together."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


def _packages(root: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the folder of each package, and the ``project`` table of its pyproject.toml."""
    for file in sorted(Path(root).glob("*/*/pyproject.toml")):
        yield file.parent, tomllib.loads(file.read_text(encoding="utf-8"))["project"]


class Metadata(MetadataHookInterface):
    """Adds what packages require, and their entry points."""

    def update(self, metadata: dict[str, Any]) -> None:
        """See ``MetadataHookInterface.update``."""
        packages = [package for _, package in _packages(self.root)]
        names = {package["name"] for package in packages}
        required = {one for package in packages for one in package["dependencies"]}
        extras = {package["name"]: sorted(names.intersection(package["dependencies"])) for package in packages}
        extras |= self.config["extras"]
        metadata["dependencies"] = sorted(required.difference(names, *self.config["extras"].values()))
        metadata["optional-dependencies"] = {name: needed for name, needed in extras.items() if needed}
        points: dict[str, dict[str, str]] = {}
        for package in packages:
            for group, named in package["entry-points"].items():
                points.setdefault(group, {}).update(named)
        metadata["entry-points"] = points


class Modules(BuildHookInterface[Any]):
    """Adds the modules of the packages."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See ``BuildHookInterface.initialize``."""
        del version
        for folder, _ in _packages(self.root):
            build_data["force_include"] |= {str(one): one.name for one in (folder / "src").iterdir() if one.is_dir()}
