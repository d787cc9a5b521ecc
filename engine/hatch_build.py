"""Compiles the library when a wheel is built, with the machine's C++ compiler or with one that comes as a wheel."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("src", "fredfw_engine")
# Results are to be the same on every machine: no fused operations, no instructions of one processor alone.
FLAGS = ["-O2", "-std=c++17", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden"]
# What programs that link it look for, in folders of their own choice.
NAMES = {"linux": "-Wl,-soname,engine.so", "darwin": "-Wl,-install_name,@rpath/engine.so"}


def own_compiler() -> list[str] | None:
    commands = (os.environ.get("CXX", "").split(), ["c++"], ["g++"], ["clang++"])
    return next((command for command in commands if command and shutil.which(command[0])), None)


def build(root: Path, folder: Path, own: list[str] | None, *more: str) -> Path:
    """Return the library, compiled in an empty ``folder`` with ``more`` flags; ``own``: ``None`` for ``ziglang``."""
    compiler = own or [sys.executable, "-m", "ziglang", "c++", "-mcpu=baseline"]
    library = folder / "built.so"
    # What zig links in has everything that a debugger may ask for, which is 12 MB.
    alone = [] if own else ["-s"]
    # The one wheel of a platform runs where another C++ library is installed, too.
    if own and "clang" not in own[0] and sys.platform == "linux":
        alone = ["-static-libstdc++", "-static-libgcc"]

    def run(*arguments: object) -> None:
        try:
            subprocess.run([*compiler, *map(str, arguments)], check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or error
            message = f"fredfw-engine needs a C++17 compiler, or the wheel ziglang; {compiler[0]} says: {said}"
            raise RuntimeError(message) from None

    # One file for each core: the standard library's templates cost as much as the sources.
    cores = os.cpu_count() or 1
    joined: list[list[Path]] = [[] for _ in range(cores)]
    for source in sorted(sorted((root / "source").glob("*.cpp")), key=_size, reverse=True):
        min(joined, key=lambda group: sum(map(_size, group))).append(source)
    parts = []
    for number, group in enumerate(group for group in joined if group):
        parts.append(folder / f"{number}.cpp")
        parts[-1].write_text("".join(f'#include "{source}"\n' for source in group), encoding="utf-8")
    objects = [part.with_suffix(".o") for part in parts]
    flags = [*FLAGS, *more, "-I", root / "include", "-c"]
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(lambda part, made: run(*flags, part, "-o", made), parts, objects))
    name = [NAMES[sys.platform]] if sys.platform in NAMES else []
    run("-shared", *alone, *name, *more, *objects, "-o", library)
    return library


def _size(file: Path) -> int:
    return file.stat().st_size


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling is there only when a wheel is built
    """Adds the library and its header to the wheel."""

    def dependencies(self) -> list[str]:
        return [] if own_compiler() else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, before the files of the wheel are collected."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        self._folder = tempfile.TemporaryDirectory()
        scratch = Path(self._folder.name)
        # An editable installation has no files of its own, so that the library lies beside the source.
        folder = root / PACKAGE if version == "editable" else scratch
        library, checksum = folder / "engine.so", folder / "engine.crc32"
        # Built aside and moved, so that a process that runs keeps the library that it has.
        shutil.move(build(root, scratch, own_compiler()), library)
        checksum.write_text(f"{zlib.crc32(library.read_bytes()):08x}\n", encoding="ascii")
        header = root / "include" / "fredfw.h"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
        if version == "editable":
            (folder / "include").mkdir(exist_ok=True)
            shutil.copy(header, folder / "include")
        else:
            build_data["force_include"] |= {str(one): f"fredfw_engine/{one.name}" for one in (library, checksum)}
            build_data["force_include"][str(header)] = "fredfw_engine/include/fredfw.h"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002  (its interface)
        """Remove what is in the wheel now."""
        if (folder := getattr(self, "_folder", None)) is not None:
            folder.cleanup()
