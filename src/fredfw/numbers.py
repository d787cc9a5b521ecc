"""Lists of NPUs or ranks as text."""

import re
from itertools import groupby

from fredfw.errors import InputError

_RANGE = re.compile(r"\s*([0-9]{1,18})(?:\s*-\s*([0-9]{1,18}))?\s*")


def parse_numbers(text: str, count: int, *, what: str, key: str) -> list[int]:
    """Return the different numbers below ``count`` of a text such as ``0-4,7``, in its order; ``what`` they are."""
    accepted = f"different {what}s from 0 to {count - 1}, such as 0-4,7"
    found: dict[int, None] = {}
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            one = "an NPU" if what == "NPU" else f"a {what}"
            raise InputError(f"{part!r} is neither {one} nor a range", key=key, accepted=accepted)
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise InputError(f"{part.strip()!r} goes down", key=key, accepted=accepted)
        # Checked before the range is written out, which could be as long as memory.
        if last >= count:
            raise InputError(f"there is no {what} {max(first, count)}", key=key, accepted=accepted)
        for number in range(first, last + 1):
            if number in found:
                raise InputError(f"{what} {number} is named twice", key=key, accepted=accepted)
            found[number] = None
    return list(found)


def shortened(numbers: list[int], most: int) -> str:
    # From one number to the next of a range, both it and its place grow by one.
    ranges = [[one for _, one in run] for _, run in groupby(enumerate(numbers), lambda one: one[1] - one[0])]
    texts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in ranges[:most]]
    return ",".join(texts if len(ranges) <= most else [*texts, "..."])
