"""Accelerators by name: what ``npus.toml`` says of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from fredfw.errors import InputError, UnknownNameError, nearest

PRECISIONS = "bf16", "fp8"
"""Of matrix multiplications; each accelerator has a dense rate for the first, and most have one for the second."""

MODELS = "roofline", "kernels"
"""How long a computation takes: by all its FLOPs and bytes, or by its kernels."""
_REMARKS = "source", "fitted", "chosen"
"""What the values of a model say of themselves."""


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """Return the entries of ``npus.toml`` by name."""
    text = files("fredfw.workloads").joinpath("npus.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def values(preset: str, precision: str, compute: str) -> dict[str, Any]:
    """Return the fields of ``Npu`` that an accelerator has, quantities as text with units.

    Args:
        preset: Its name.
        precision: One of ``PRECISIONS``.
        compute: One of ``MODELS``; the fields that only one model reads are returned for that one.

    Raises:
        UnknownNameError: There is no such accelerator; gives the nearest.
        InputError: It has no rate for that precision, or no values for that model.
    """
    presets = table()
    if preset not in presets:
        message = f"no NPU {preset!r}{nearest(preset, presets)}"
        raise UnknownNameError(message, key="preset", accepted=", ".join(presets))
    entry = presets[preset]
    if precision not in entry or precision not in PRECISIONS:
        known = ", ".join(one for one in PRECISIONS if one in entry)
        raise InputError(f"{preset!r} has no rate for {precision!r}", key="precision", accepted=known)
    fields = {"peak": entry[precision], "memory": entry["memory"], "memory_bandwidth": entry["memory_bandwidth"]}
    if compute == "kernels":
        if "kernels" not in entry:
            known = ", ".join(name for name, one in presets.items() if "kernels" in one)
            message = f"{preset!r} has no values for {compute!r}"
            raise InputError(message, key="compute", accepted=f"roofline; presets with values: {known}")
        fields |= {key: value for key, value in entry["kernels"].items() if key not in _REMARKS}
    return fields
