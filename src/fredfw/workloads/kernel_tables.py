"""Tables of kernels that were timed alone, and the constants that fit them."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fredfw.errors import InputError
from fredfw.files import File, Files
from fredfw.fitting import least
from fredfw.lines import Line, lines
from fredfw.typing import FloatArray
from fredfw.units import counted
from fredfw.workloads.kernels import Attention, Gemm, KernelModel, columns, times

GEMM, ATTENTION = "gemm", "attention"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    GEMM: ("m", "n", "k"),
    ATTENTION: ("batch", "sequence", "heads", "kv_heads", "head_dim"),
}
"""What a row of each kind of kernel is known by, beside ``dtype`` and ``time_us``."""
PRECISIONS = {  # precision and bytes of a number, by what tables call it
    **dict.fromkeys(("", "bf16", "bfloat16", "fp16", "float16", "half"), ("bf16", 2.0)),
    **dict.fromkeys(("fp8", "float8", "e4m3"), ("fp8", 1.0)),
}
_LEAST = 20  # rows of a kind, of which half are fitted
_PRODUCTS: Mapping[str, Mapping[str, float]] = {
    "bf16": {"efficiency": 0.8, "half_depth": 200.0, "memory_efficiency": 0.7, "kernel": 3e-6, "split": 4e-6},
    "fp8": {"efficiency": 0.8, "half_depth": 200.0, "memory_efficiency": 0.7, "kernel": 6e-6, "row": 7e-9},
}
"""Constants of products that are fitted, and what the search starts from."""
_ATTENTION = {"efficiency": 0.9, "width": 50.0, "unhidden": 2.0, "kernel": 1.2e-5}
_DECODE = {"memory_efficiency": 0.7}  # which attention of all tokens says nothing about: its work takes longer


@frozen
class Measured:
    """A kernel that was timed alone."""

    kind: str  # ``gemm`` or ``attention``
    work: Gemm | Attention  # what it computes
    precision: str  # of its products
    seconds: float  # how long it took
    fitted: bool  # whether it is one of every other row of its kind and precision, to which constants are fitted
    line: Line  # where it is in its table


def recognised(text: str) -> bool:
    header = {name.strip() for name in text.partition("\n")[0].split(",")}
    return any(header.issuperset(names) for names in COLUMNS.values())


def parse(text: str) -> list[Measured]:
    found: list[Measured] = []
    counts: dict[tuple[str, str], int] = {}
    for line in lines(text):
        kind = GEMM if all(line[one] for one in COLUMNS[GEMM]) else ATTENTION
        first, second, third, *heads = (line.count(one, 1) for one in COLUMNS[kind])
        dtype = line["dtype"].casefold()
        if dtype not in PRECISIONS:
            raise line.refusal("dtype", f"{line['dtype']!r} is not known", ", ".join(filter(None, PRECISIONS)))
        precision, width = PRECISIONS[dtype]
        work: Gemm | Attention
        if kind == GEMM:
            work = Gemm(first, second, third, 1.0, width)
        else:
            shared, head = heads
            asking = line.count("queries", 1) if line["queries"] else second
            causal = line["causal"] != "false" and asking == second
            work = Attention(first, third, shared, asking, second, head, causal=causal)
        number = counts[kind, precision] = counts.get((kind, precision), -1) + 1
        found.append(Measured(kind, work, precision, line.seconds("time_us"), number % 2 == 0, line))
    return found


def read(tables: Files, precision: str) -> tuple[Sequence[Measured], Sequence[Measured]]:
    """Return products in a precision, and attention: enough of each to be fitted, or none."""
    rows = [one for file in tables.files for one in _read(file)]
    gpus = sorted({one.line["gpu"] for one in rows})
    if len(gpus) > 1:
        raise InputError(f"rows are of {', '.join(gpus)}", key="kernel_tables", accepted="tables of one accelerator")
    gemms = [one for one in rows if one.kind == GEMM and one.precision == precision]
    others = [one for one in rows if one.kind == ATTENTION]
    for part, what in ((gemms, f"products in {precision}"), (others, "attention")):
        if len(part) < _LEAST and (part or not gemms + others):
            message = f"{counted(len(part), 'row')} of {what} in {', '.join(tables.paths)}"
            raise InputError(message, key="kernel_tables", accepted=f"{_LEAST} or more, of which half are fitted")
    return gemms, others


def fitted(model: KernelModel, tables: Files, precision: str, *rates: float) -> KernelModel:
    """Return ``model`` fitted to every other row of ``tables``, as far as there are any; its status has the error."""
    # Rates are FLOP/s at the peak, and B/s of the local memory.
    gemms, others = read(tables, precision)
    found, off = model, []
    if gemms:
        plain = evolve(found, split=0.0, row=0.0)  # what is not fitted in a precision costs nothing
        found, error = _best(_PRODUCTS[precision], gemms, lambda **values: evolve(plain, **values), rates)
        off.append(f"products {100 * error:.0f} %")
    if others:
        own = found
        decode = any(isinstance(one.work, Attention) and one.work.queries < one.work.keys for one in others)
        start = _ATTENTION | (_DECODE if decode else {})
        found, error = _best(
            start, others, lambda **values: evolve(own, attention=evolve(own.attention, **values)), rates
        )
        off.append(f"attention {100 * error:.0f} %")
    names = ", ".join(file.location.name for file in tables.files)
    return evolve(found, status=f"calibrated on {names}, held out {' and '.join(off)} off")


def _best(
    start: Mapping[str, float], rows: Sequence[Measured], model: Callable[..., KernelModel], rates: Sequence[float]
) -> tuple[KernelModel, float]:
    """Return the ``model`` of the constants that fit best to every other row, and how far it is off on the rest."""

    def named(values: FloatArray) -> dict[str, Any]:
        return dict(zip(start, values.tolist(), strict=True))

    def off(part: Sequence[Measured]) -> Callable[[FloatArray], float]:
        shapes, measured = columns([one.work for one in part]), np.array([one.seconds for one in part])

        def error(values: FloatArray) -> float:
            if (values <= 0).any():
                return math.inf
            return float(np.abs(np.log(times(model(**named(values)), shapes, *rates) / measured)).mean())

        return error

    best = least(off([one for one in rows if one.fitted]), np.array(list(start.values())))
    rest = off([one for one in rows if not one.fitted])
    return model(**named(best)), math.expm1(rest(best))


@cache
def _read(file: File) -> Sequence[Measured]:
    text = file.text()
    if not recognised(text):
        accepted = f"CSV with the columns time_us and {' or '.join(', '.join(one) for one in COLUMNS.values())}"
        raise InputError("is not a table of kernels", file=file.path, accepted=accepted)
    with file.named():
        return parse(text)
