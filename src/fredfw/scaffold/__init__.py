"""Writes the package that the author of a plugin starts from, from templates of ``string.Template``."""

import re
import secrets
import shutil
from importlib.resources import files
from pathlib import Path
from string import Template

from fredfw.errors import InputError, UnknownNameError, nearest

KINDS = {  # of plugins that there are templates for, with the groups of their entry points
    "topology": "topologies",
    "router": "routers",
    "collective": "collectives",
    "workload": "workloads",
    "placement": "placements",
    "sharing": "sharing_policies",
    "transport": "transports",
    "exporter": "exporters",
    "sampler": "samplers",
    "command": "commands",
}
REGISTERED_AS = {"sharing": "sharing policy"}  # what registries call kinds that are called something else here
_TESTS = (
    "fredfw's conformance kit, one test per property, and some of this package's own: give the kit\n"
    "more configurations as the fields grow, and compare times with closed forms"
)
_REQUIREMENTS = {"command": '"click>=8.1.7", '}  # what some have to install beside the others
_FILES = {  # path in the package, and the template of what is there; none where it is empty
    ".gitignore": "gitignore",
    "README.md": "README.md",
    "comparison.toml": "$kind.toml",
    "pyproject.toml": "pyproject.toml",
    "src/$package/__init__.py": "$kind.py",
    "src/$package/py.typed": None,
    "tests/test_$module.py": "test_$kind.py",
    "tox.ini": "tox.ini",
}
_LONGEST = 32  # so that no line of the package is longer than its own style allows
_ACCEPTED = f"up to {_LONGEST} small letters and digits, the first a letter, with hyphens between words"


def check(kind: str, name: str) -> None:
    if kind not in KINDS:
        raise UnknownNameError(f"no kind {kind!r}{nearest(kind, KINDS)}", key="KIND", accepted=", ".join(KINDS))
    if not _is_name(name):
        likely = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()).strip("-")
        hint = f"; did you mean {likely!r}?" if _is_name(likely) else ""
        raise InputError(f"{name!r} is not a name of a plugin{hint}", key="NAME", accepted=_ACCEPTED)


def render(kind: str, name: str) -> dict[str, str]:
    from fredfw import CONTRACT_VERSION, __version__

    check(kind, name)
    module = name.replace("-", "_")
    package, cls = f"fredfw_{kind}_{module}", "".join(map(str.capitalize, [*name.split("-"), kind]))
    registered = {name: "main" if kind == "command" else cls}
    if kind == "sharing":
        registered[f"{name}-ramp"] = f"{cls}Ramp"
    values = {
        "kind": kind,
        "name": name,
        "module": module,
        "package": package,
        "distribution": distribution(kind, name),
        "cls": cls,
        "group": KINDS[kind],
        "points": "\n".join(f'{one} = "{package}:{named}"' for one, named in registered.items()),
        "requirements": _REQUIREMENTS.get(kind, ""),
        "tests": _TESTS if kind != "command" else "of what it prints and writes: give them closed forms of its times",
        "contract": CONTRACT_VERSION,
        "version": __version__,
    }

    def filled(text: str) -> str:
        return Template(text).substitute(values)

    templates = files(__name__) / "templates"
    return {
        filled(path): filled((templates / f"{filled(template)}.tmpl").read_text("utf-8")) if template else ""
        for path, template in _FILES.items()
    }


def distribution(kind: str, name: str) -> str:
    return f"fredfw-{kind}-{name}"


def write(contents: dict[str, str], folder: str | Path) -> None:
    """Write files, text by path, to a new or empty ``folder``: all or none; raises ``InputError`` for other folders."""
    target = Path(folder)
    aside = target.with_name(f".fredfw-{secrets.token_hex(8)}.tmp")
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError("is there already", file=str(folder), accepted="a folder that is not there, or is empty")
        for path, text in contents.items():
            file = aside / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        if target.exists():
            target.rmdir()  # a rename onto a folder is an error on some systems
        aside.rename(target)
    except OSError as error:
        accepted = "a place where folders can be made"
        raise InputError(f"cannot be written: {error.strerror}", file=str(folder), accepted=accepted) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _is_name(text: str) -> bool:
    return len(text) <= _LONGEST and re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", text) is not None
