"""The bandwidths that NCCL counts with, by what its topology file says.

From NCCL's src/graph/topo.cc and topo.h (commit 5067397, 2026-06-11), and for xGMI from RCCL's topo.h. They are rates
that are reached, below those of the signals.
"""

import re
from bisect import bisect_right

GIGABYTE = 1e9
_NVLINK = ((60, 18.0), (70, 20.0), (80, 20.0), (86, 12.0), (90, 20.6), (100, 40.1))
_XGMI = {"gfx90a": 36.0, "910": 36.0, "gfx94": 48.0, "gfx95": 48.0}
_XGMI_OTHERS = 24.0
_LANES = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
_LANE_OTHERS = 60
_SPEED = re.compile(r"(\d+(?:\.\d+)?)\s*GT/s.*")
_INTEL = ((0, 6.0), (0x55, 10.0), (0x8F, 22.0), (0xCF, 40.0))
"""By the model of family 6: Broadwell, Skylake, Sapphire Rapids, Emerald Rapids."""


def nvlink(sm: int) -> float | None:
    """Return bytes per second and direction of an NVLink of compute capability ``sm``; ``None`` below 60."""
    if not (place := bisect_right([known for known, _ in _NVLINK], sm)):
        return None
    # 8.6 and 8.9 have slower links than 8.0; all others have those of the architecture before.
    return _NVLINK[place - 1][1] * GIGABYTE


def xgmi(gcn: str) -> float:
    found = next((rate for name, rate in _XGMI.items() if gcn.startswith(name)), _XGMI_OTHERS)
    return found * GIGABYTE


def pcie(speed: str, width: int) -> float:
    match = _SPEED.fullmatch(speed.strip())
    lane = _LANES.get(f"{float(match[1]):g}", _LANE_OTHERS) if match else _LANE_OTHERS
    return (width or 16) * lane / 80 * GIGABYTE


def network(speed: float) -> float:
    """Return bytes per second of a port with ``speed`` Mb/s; 10 Gb/s where that is not known."""
    return (speed if speed > 0 else 10_000) / 8000 * GIGABYTE


def between_cpus(arch: str, vendor: str, family: int, model: int) -> float | None:
    """Return bytes per second and direction between two CPUs of a server, or ``None`` where NCCL does not know."""
    if arch == "ppc64":
        return 32 * GIGABYTE
    if arch == "arm64":
        return 6 * GIGABYTE
    if vendor == "AuthenticAMD":
        return 16 * GIGABYTE
    if vendor == "GenuineIntel":
        place = bisect_right([known for known, _ in _INTEL], model) if family == 6 else 1
        return _INTEL[place - 1][1] * GIGABYTE
    return None
