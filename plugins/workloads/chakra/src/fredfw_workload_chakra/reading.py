"""Files of traces and of communicators, whatever their form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from fredfw import File
from fredfw.errors import InputError
from fredfw_workload_chakra import documents, et
from fredfw_workload_chakra.trace import Trace
from fredfw_workload_chakra.wire import DamagedError

_RANK = re.compile(r"\.(\d+)(\.et|\.json|\.eg)?(\.gz)?$")
_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*["}]')
_HEAD = 4096
_ACCEPTED = "a whole Chakra execution trace of schema 0.0.4 or later, compressed by gzip or not"


def read(file: File) -> Trace:
    """Return the trace in ``file``; raises ``InputError``."""
    content = file.read()
    with file.named():
        try:
            return documents.read(content.decode("utf-8-sig")) if is_json(content) else et.read(content)
        except DamagedError as error:
            message = f"is no Chakra trace, or is damaged, at offset {error.offset}: {error.reason}"
            raise InputError(message, accepted=_ACCEPTED) from None
        except UnicodeDecodeError as error:
            raise InputError(f"is not UTF-8 at offset {error.start}", accepted=documents.ACCEPTED) from None


def is_json(content: bytes) -> bool:
    """Return whether it begins as JSON does; a message of 123 bytes begins with a brace, too."""
    return _JSON.match(content[:_HEAD]) is not None


def rank_of(file: File) -> int | None:
    """Return the rank in the name of ``file``, such as ``gpt.3.et``; ``None`` where there is none."""
    found = _RANK.search(PurePath(file.path).name)
    return None if found is None else int(found[1])


def by_rank(files: Sequence[File]) -> list[File]:
    """Return ``files`` in the order of the ranks in their names; raises ``InputError``."""
    found: dict[int, File] = {}
    for file in files:
        rank = rank_of(file)
        if rank is None:
            accepted = "names such as gpt.0.et, gpt.1.et"
            raise InputError("has no rank in its name", file=file.path, key="traces", accepted=accepted)
        if rank in found:
            message = f"is of rank {rank}, and so is {found[rank].path}"
            raise InputError(message, file=file.path, key="traces", accepted="one file for each rank")
        found[rank] = file
    missing = [rank for rank in range(max(found)) if rank not in found]
    if missing:
        shown = ", ".join(map(str, missing[:10])) + (f" and {len(missing) - 10} more" if len(missing) > 10 else "")
        message = f"there is no file for rank {shown}, and one for rank {max(found)}: {found[max(found)].path}"
        raise InputError(message, key="traces", accepted="one file for each rank from 0")
    return [found[rank] for rank in range(len(found))]
