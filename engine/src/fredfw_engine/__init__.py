"""Where the engine of fredfw is."""

import os
import zlib
from pathlib import Path

INCLUDE = Path(__file__).with_name("include")
"""The folder of its header, ``fredfw.h``."""
CMAKE = Path(__file__).with_name("cmake")
"""The folder of its package for CMake, ``fredfw``."""
_LIBRARY = Path(__file__).with_name("engine.so")


def library() -> Path:
    """Return the path of the library; ``FREDFW_ENGINE`` in the environment names another one, such as one to debug.

    Raises:
        ImportError: It is not there, or it is damaged.
    """
    other = os.environ.get("FREDFW_ENGINE")
    if other:
        return Path(other)
    try:
        checksum = _LIBRARY.with_suffix(".crc32").read_text("ascii").strip()
        found = f"{zlib.crc32(_LIBRARY.read_bytes()):08x}"
    except OSError as error:
        raise ImportError(f"fredfw-engine has no library: {error}; install it again") from None
    if found != checksum:
        raise ImportError(f"{_LIBRARY} is damaged; install fredfw-engine again")
    return _LIBRARY
