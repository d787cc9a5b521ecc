"""Fit the constants of ``KernelModel`` to measured kernels, and score them on the rows that were held out.

    python -m benchmarks.fit_kernels h100 gemm.csv attention.csv

The tables have a row for each kernel: ``dtype, m, n, k, time_us`` and ``batch, sequence, heads, kv_heads, head_dim,
time_us`` (causal, forward). Every other row is fitted. NVIDIA's aiconfigurator has such tables
(systems/data/*/gemm and context_attention_perf); npus.toml says which were used.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from fredfw import Attention, Gemm, Npu
from fredfw.typing import FloatArray
from fredfw.workloads import AttentionModel, KernelModel
from fredfw.workloads.kernels import ROWS, SHORTEST, SPLITS, TILES

GEMM = {"efficiency": 0.8, "half_depth": 200.0, "memory_efficiency": 0.7, "kernel": 3e-6, "split": 4e-6}
ATTENTION = {"efficiency": 0.7, "half_depth": 300.0, "memory_efficiency": 0.7, "kernel": 1.4e-5, "width": 40.0}


def read(path: str, columns: Sequence[str], dtype: str = "") -> FloatArray:
    """Return ``(rows, columns)`` numbers of a table."""
    with Path(path).open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if not dtype or row["dtype"] == dtype]
    return np.array([[float(row[one]) for one in columns] for row in rows])


def gemm_seconds(rows: FloatArray, npu: Npu, width: float, known: Mapping[str, float]) -> FloatArray:
    """Return what ``KernelModel.gemm_seconds`` does, of all rows at once."""
    (m, n, k), cores = rows[:, :3].T, npu.kernels.multiprocessors
    busy = np.full(len(rows), np.inf)
    for (high, wide), parts in product(TILES, SPLITS):
        tiles = np.ceil(m / high) * np.ceil(n / wide)
        work = np.ceil(tiles * parts / cores) * cores * high * wide * (k / parts + known["half_depth"])
        seconds = 2 * work / (npu.peak * known["efficiency"]) + (parts > 1) * known["split"]
        busy = np.minimum(busy, np.where((parts > 1) & (k / parts < SHORTEST), np.inf, seconds))
    moved = width * (m * k + k * n + m * n) / (npu.memory_bandwidth * known["memory_efficiency"])
    found: FloatArray = known["kernel"] + m * known.get("row", 0.0) + np.maximum(busy, moved)
    return found


def attention_seconds(rows: FloatArray, npu: Npu, known: Mapping[str, float]) -> FloatArray:
    """Return what ``KernelModel.attention_seconds`` does, of all rows at once."""
    (batch, keys, heads, shared, width), cores = rows[:, :5].T, npu.kernels.multiprocessors
    blocks = np.ceil(keys / ROWS)
    busiest = np.maximum(batch * heads * blocks * (blocks + 1) / (2 * blocks) * keys / cores, keys)
    flops = 4 * (width + known["width"]) * ROWS * busiest * (1 + known["half_depth"] / keys)
    moved = 4 * batch * width * (heads * keys + shared * keys)
    found: FloatArray = known["kernel"] + np.maximum(
        flops * cores / (npu.peak * known["efficiency"]), moved / (npu.memory_bandwidth * known["memory_efficiency"])
    )
    return found


def fitted(
    rows: FloatArray, first: Mapping[str, float], predict: Callable[[FloatArray, Mapping[str, float]], FloatArray]
) -> dict[str, float]:
    """Return the constants, above 0, with the least mean |ln(predicted / measured)| of every other row."""
    half, names = rows[::2], list(first)

    def error(logs: FloatArray) -> float:
        found = predict(half, dict(zip(names, np.exp(logs), strict=True)))
        return float(np.abs(np.log(found / (half[:, -1] * 1e-6))).mean())

    found: Any = minimize(error, np.log(list(first.values())), method="Nelder-Mead", options={"maxiter": 5000})
    return {name: float(f"{value:.3g}") for name, value in zip(names, np.exp(found.x), strict=True)}


def score(seconds: Sequence[float], rows: FloatArray) -> str:
    """Return the geometric mean errors of fitted and held-out rows, and the worst factor."""
    ratios = np.abs(np.log(np.array(seconds) / (rows[:, -1] * 1e-6)))
    fit, held = (np.exp(part.mean()) - 1 for part in (ratios[::2], ratios[1::2]))
    return f"{len(rows)} rows: {fit:.1%} fitted, {held:.1%} held out, worst {np.exp(ratios.max()):.2f} x"


def main() -> None:
    """Print the constants of one GPU, and how far they are off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("preset")
    parser.add_argument("gemm")
    parser.add_argument("attention")
    options = parser.parse_args()
    for dtype, precision, width in (("bfloat16", "bf16", 2.0), ("fp8", "fp8", 1.0)):
        rows = read(options.gemm, ("m", "n", "k", "time_us"), dtype)
        if not len(rows):
            continue
        npu = Npu.of(options.preset, precision)
        first = dict(GEMM) if precision == "bf16" else {**GEMM, "kernel": 6e-6, "split": 1.0, "row": 7e-9}
        known = fitted(rows, first, lambda part, one, npu=npu, width=width: gemm_seconds(part, npu, width, one))  # type: ignore[misc]  # bound early
        model = KernelModel(multiprocessors=npu.kernels.multiprocessors, **known)  # type: ignore[arg-type]  # numbers all
        times = [
            model.gemm_seconds(Gemm(row[0], row[1], row[2], 1.0, width), npu.peak, npu.memory_bandwidth) for row in rows
        ]
        print(precision, known, score(times, rows), sep="\n")
    npu = Npu.of(options.preset)
    rows = read(options.attention, ("batch", "sequence", "heads", "kv_heads", "head_dim", "time_us"))
    known = fitted(rows, ATTENTION, lambda part, one: attention_seconds(part, npu, one))
    model = KernelModel(multiprocessors=npu.kernels.multiprocessors, attention=AttentionModel(**known))
    found = [Attention(b, h, kv, s, s, d, causal=True) for b, s, h, kv, d, _ in rows]
    times = [model.attention_seconds(one, npu.peak, npu.memory_bandwidth) for one in found]
    print("attention", known, score(times, rows), sep="\n")


if __name__ == "__main__":
    main()
