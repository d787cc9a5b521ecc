"""How the process keeps the memory that large simulations use again and again."""

from __future__ import annotations

from functools import cache

import numpy as np


@cache
def keep_freed_memory() -> None:
    """Let the C library keep up to 64 MiB of what is freed, for the next arrays.

    glibc gives more than twice the largest block that was ever freed back to the kernel, block by block, and counts
    blocks of up to 32 MiB (mallopt(3), dynamic mmap threshold). Arrays of some MiB, which a simulation makes by the
    thousand, then cost more to get than to fill. A block that is never written costs nothing.
    """
    np.empty(2**25 - 2**16, dtype=np.uint8)
