"""The hot loops of fredfw in C.

The package has a shared library and nothing else; the core of fredfw loads it where it is installed.
"""

from pathlib import Path

PATH = Path(__file__).with_name("core.so")
"""The library; it does not exist where the package was built without a compiler."""
CHECKSUM = PATH.with_suffix(".crc32")
"""A file with the CRC-32 of the library, in hexadecimal digits: a process that loads one that is cut off is killed."""
