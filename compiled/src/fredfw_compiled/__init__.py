"""The hot loops of fredfw in C.

The package has a shared library and nothing else; the core of fredfw loads it where it is installed.
"""

from pathlib import Path

PATH = Path(__file__).with_name("core.so")
"""The library; it does not exist where the package was built without a compiler."""
