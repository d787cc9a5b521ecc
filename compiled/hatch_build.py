"""Compiles the library when a wheel is built, with the machine's C compiler or with one that comes as a wheel."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("src", "fredfw_compiled")
# Results are to be the same on every machine: no fused operations, no instructions of one processor alone.
FLAGS = ["-O2", "-std=c11", "-ffp-contract=off", "-fPIC", "-shared"]
# For these there are wheels of ziglang.
_MACHINES = {"x86_64", "amd64", "aarch64", "arm64", "i386", "i686"}


def own_compiler() -> list[str] | None:
    """Return the machine's compiler, or ``None``."""
    named = os.environ.get("CC", "").split()
    for command in (named, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    return None


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling is there only when a wheel is built
    """Adds the library to the wheel; without one the wheel is still of use."""

    def dependencies(self) -> list[str]:
        """Return what the build needs beside hatchling."""
        return [] if own_compiler() or platform.machine().lower() not in _MACHINES else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, before the files of the wheel are collected."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        self._folder = tempfile.TemporaryDirectory()
        # An editable installation has no files of its own, so that the library lies beside the source.
        folder = root / PACKAGE if version == "editable" else Path(self._folder.name)
        library, checksum = folder / "core.so", folder / "core.crc32"
        compiler = own_compiler() or [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
        # Built aside and moved, so that a process that runs keeps the library that it has.
        built = Path(self._folder.name, "built.so")
        command = [*compiler, *FLAGS, str(root / PACKAGE / "core.c"), "-o", str(built)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or error
            self.app.display_warning(f"fredfw-compiled has no library, for the compiler failed: {said}")
            return
        shutil.move(built, library)
        checksum.write_text(f"{zlib.crc32(library.read_bytes()):08x}\n", encoding="ascii")
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
        if version != "editable":
            build_data["force_include"] |= {str(one): f"fredfw_compiled/{one.name}" for one in (library, checksum)}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002  (its interface)
        """Remove what is in the wheel now."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            folder.cleanup()
