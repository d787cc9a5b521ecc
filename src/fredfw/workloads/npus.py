"""Accelerators by name: what ``npus.toml`` says of them."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from fredfw.errors import InputError, UnknownNameError, nearest

PRECISIONS = "bf16", "fp8"
"""Of matrix multiplications; each accelerator has a dense rate for the first, and most have one for the second."""

MODELS = "roofline", "kernels"  # how long a computation takes: by all its FLOPs and bytes, or by its kernels
_MEMORY = "memory", "reserve", "memory_bandwidth"
_REMARKS = "source", "fitted", "tables", "chosen", "reason", "extrapolated"
"""What the values of a model say of themselves."""


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    text = files("fredfw.workloads").joinpath("npus.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def values(preset: str, precision: str, *, roofline: bool) -> dict[str, Any]:
    """Return the fields of ``Npu`` that the accelerator ``preset`` has, quantities as text with units."""
    npus = table()
    if preset not in npus:
        raise UnknownNameError(f"no NPU {preset!r}{nearest(preset, npus)}", key="preset", accepted=", ".join(npus))
    entry = npus[preset]
    if precision not in entry or precision not in PRECISIONS:
        known = ", ".join(one for one in PRECISIONS if one in entry)
        raise InputError(f"{preset!r} has no rate for {precision!r}", key="precision", accepted=known)
    fields = {"peak": entry[precision], **{key: entry[key] for key in _MEMORY if key in entry}}
    like = entry["kernels"].get("like")
    status = f"calibrated on {preset}" if like is None else f"extrapolated from {like}"
    if "extrapolated" in entry["kernels"] and precision == PRECISIONS[0]:
        status += f", {entry['kernels']['extrapolated']} extrapolated"
    kernels = {**_kernels(npus, preset, precision), "status": status}
    return {**fields, "compute": MODELS[0 if roofline else 1], "kernels": kernels}


def tables() -> frozenset[str]:
    """Return the tables that constants were fitted to: the first 16 hexadecimal digits of the SHA-256 of each."""
    return frozenset(one for entry in table().values() for one in entry.get("kernels", {}).get("tables", ()))


def _kernels(presets: Mapping[str, Mapping[str, Any]], preset: str, precision: str) -> dict[str, Any]:
    own = dict(presets[preset]["kernels"])
    like = own.pop("like", None)
    known = {**({} if like is None else _kernels(presets, like, precision)), **own}
    known |= known.pop(precision, {})
    return {key: value for key, value in known.items() if key not in (*_REMARKS, *PRECISIONS)}
