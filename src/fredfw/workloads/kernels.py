"""What a computation launches on an NPU, and how long kernels take: a formula with constants that were fitted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from attrs import Attribute, field, fields, frozen

from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw.units import at_least, count, duration, option


def _finite(instance: object, attribute: Attribute[float], value: float) -> None:
    if not math.isfinite(value) or value < 0:
        name = type(instance).__name__
        raise InputError(f"{name} has {attribute.name} {value!r}", key=attribute.name, accepted="finite and at least 0")


@frozen
class Gemm:
    """Matrix multiplications of one shape that run as one kernel: ``(m, k)`` times ``(k, n)``.

    Where workers split a matrix, a dimension may be a fraction; none is negative or not finite (``InputError``).

    Args:
        batch: How many there are.
        width: Bytes of a number.
    """

    m: float = field(validator=_finite)
    n: float = field(validator=_finite)
    k: float = field(validator=_finite)
    batch: float = field(default=1.0, validator=_finite)
    width: float = field(default=2.0, validator=_finite)

    @property
    def flops(self) -> float:
        """Floating-point operations, two per multiply-add."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def moved(self) -> float:
        """Bytes of both factors and the result."""
        return self.width * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)


@frozen
class Attention:
    """Attention that runs as one kernel and keeps its scores on the chip (Dao et al. 2022, arXiv 2205.14135).

    Args:
        batch: Samples; like all values finite and not negative (``InputError``).
        heads: Heads of queries of a sample; where workers share them, a fraction.
        shared: Heads of keys and values.
        queries: Tokens that ask.
        keys: Tokens that are asked.
        width: Of a head: mean of keys and values.
        causal: Whether no token asks a later one; then only that half is computed.
        passes: Times the two products of a forward pass; a backward pass has five products, so 2.5.
    """

    batch: float = field(validator=_finite)
    heads: float = field(validator=_finite)
    shared: float = field(validator=_finite)
    queries: float = field(validator=_finite)
    keys: float = field(validator=_finite)
    width: float = field(validator=_finite)
    causal: bool = False
    passes: float = field(default=1.0, validator=_finite)

    @property
    def flops(self) -> float:
        """Floating-point operations of the products."""
        half = 0.5 if self.causal else 1.0
        return 4 * half * self.passes * self.batch * self.heads * self.queries * self.keys * self.width

    @property
    def moved(self) -> float:
        """Bytes of queries, results, keys and values, in 16 bits each."""
        return 4 * self.passes * self.batch * self.width * (self.heads * self.queries + self.shared * self.keys)


@frozen
class Kernels:
    """The kernels of a computation; values are finite and not negative (``InputError``).

    Args:
        moved: Bytes that all other kernels read and write in the local memory.
        launches: How many kernels the host launches, those of ``gemms`` and ``attentions`` among them.
        attentions: Those that keep their scores on the chip.
        graphed: Whether the host launches them all at once, as a CUDA graph, which takes it no time.
    """

    gemms: tuple[Gemm, ...] = ()
    moved: float = field(default=0.0, validator=_finite)
    launches: float = field(default=0.0, validator=_finite)
    attentions: tuple[Attention, ...] = ()
    graphed: bool = False

    @property
    def flops(self) -> float:
        """Floating-point operations of the matrix multiplications and attentions."""
        return sum(one.flops for one in self.gemms) + sum(one.flops for one in self.attentions)

    def __add__(self, other: Kernels) -> Kernels:
        sums = {one: getattr(self, one) + getattr(other, one) for one in ("gemms", "moved", "launches", "attentions")}
        return Kernels(**sums, graphed=self.graphed or other.graphed)


@frozen
class AttentionModel:
    """Constants of attention kernels; see ``attentions``."""

    efficiency: float = option(1.0, validator=at_least(1e-6), help="share of the peak that its products reach")
    width: float = option(0.0, validator=at_least(0), help="what the exponentials of a score cost, as width of a head")
    unhidden: float = option(
        0.0, validator=at_least(0), help="times that all bytes take, at the memory bandwidth, beside the products"
    )
    memory_efficiency: float = option(
        1.0, validator=at_least(1e-6), help="share of the memory bandwidth that is reached where few tokens ask many"
    )
    kernel: float = duration(0.0, help="time of the kernel beside its work")


@frozen
class KernelModel:
    """How long kernels take on an NPU beside its peak rate and its memory bandwidth; npus.toml has the sources."""

    efficiency: float = option(1.0, validator=at_least(1e-6), help="share of the peak that large products reach")
    multiprocessors: int = count(
        0, minimum=0, help="number of them, each of which computes one tile at a time; 0: tiles are not rounded up"
    )
    half_depth: float = option(
        0.0, validator=at_least(0), help="inner dimension of a product that reaches half of that"
    )
    memory_efficiency: float = option(
        1.0, validator=at_least(1e-6), help="share of the memory bandwidth that is reached"
    )
    kernel: float = duration(0.0, help="time of each kernel beside its work")
    split: float = duration(0.0, help="time to add up where the inner dimension of a product is split")
    sustained: float = option(
        1.0, validator=at_least(1e-6, at_most=1.0), help="share of the peak of a single kernel that long training keeps"
    )
    row: float = duration(0.0, help="time to quantise a row of the first factor, for products of 8 bits")
    launch: float = duration(0.0, help="time that the host takes to launch a kernel")
    status: str = option("", help="what the constants rest on, in words")
    attention: AttentionModel = option(  # noqa: RUF009  (declares a field)
        AttentionModel(), help="constants of attention kernels"
    )

    def seconds(self, kernel: Gemm | Attention, peak: float, bandwidth: float) -> float:
        """Return the time of a kernel, at ``peak`` FLOP/s and ``bandwidth`` B/s; see ``products``, ``attentions``."""
        return _alone(self, kernel, peak, bandwidth) if kernel.flops else 0.0


ROWS = 128  # queries of a block of attention
TILES = np.array([(256, 128), (128, 256), (128, 128), (64, 128), (128, 64), (64, 64), (64, 256)], dtype=float)
SPLITS = np.array([1.0, 2, 4, 8, 16])
SHORTEST = 64  # inner dimension of a part


def products(model: KernelModel, shapes: Mapping[str, FloatArray], peak: float, bandwidth: float) -> FloatArray:
    """Return the ``(K,)`` seconds of matrix multiplications whose fields are ``(K,)`` ``shapes`` each.

    Tiles, and parts of the inner dimension, are those that take least. All multiprocessors compute one tile at a time;
    a round of inner dimension k takes ``2 x multiprocessors x tile x (k + half_depth) / (peak x efficiency)``, at
    ``peak`` FLOP/s. Their bytes set a limit, too, at ``bandwidth`` B/s of the local memory.
    """
    m, n, k, batch = (shapes[one] for one in ("m", "n", "k", "batch"))
    if not model.multiprocessors:
        work = batch * m * n * (k + model.half_depth)
    else:
        high, wide = TILES.T[:, :, None, None]
        depth = k / SPLITS[:, None]
        tiles = batch * np.ceil(m / high) * np.ceil(n / wide)
        rounds = np.ceil(tiles * SPLITS[:, None] / model.multiprocessors)
        added = np.where(SPLITS > 1, model.split * peak * model.efficiency / 2, 0.0)[:, None]
        found = rounds * model.multiprocessors * high * wide * (depth + model.half_depth) + added
        usable = (SPLITS[:, None] == 1) | ((depth >= SHORTEST) & (model.split > 0))
        work = np.where(usable, found, np.inf).min(axis=(0, 1))
    moved = shapes["width"] * batch * (m * k + k * n + m * n) / (bandwidth * model.memory_efficiency)
    seconds: FloatArray = np.maximum(2 * work / (peak * model.efficiency), moved)
    return model.kernel + m * batch * model.row + seconds


def attentions(model: KernelModel, shapes: Mapping[str, FloatArray], peak: float, bandwidth: float) -> FloatArray:
    """Return the ``(K,)`` seconds of attention whose fields are ``(K,)`` ``shapes`` each.

    Blocks of 128 queries go over the keys that they may ask; without a mask, heads that share keys share blocks. All
    multiprocessors share the work of all blocks; no time is below that of the block with most keys. Beside the
    products, the exponentials of a score take as long as ``width`` more of a head. Where all tokens ask, ``unhidden``
    times what bytes take is added; where few do, bytes set a limit. Rates: ``peak`` FLOP/s, ``bandwidth`` B/s.
    """
    names = "batch", "heads", "shared", "queries", "keys", "width", "passes"
    batch, heads, shared, queries, keys, width, passes = (shapes[one] for one in names)
    known, cores = model.attention, model.multiprocessors or 1
    masked = batch * heads * (np.ceil(queries / ROWS) + 1) / 2
    work = np.where(shapes["causal"] > 0, masked, batch * shared * np.ceil(queries * heads / shared / ROWS)) * keys
    busiest = np.maximum(work / cores, keys) if model.multiprocessors else work
    busy = 4 * (width + known.width) * ROWS * busiest * passes * cores / (peak * known.efficiency)
    moved = 4 * passes * batch * width * (heads * queries + shared * keys) / bandwidth
    seconds: FloatArray = np.maximum(busy + known.unhidden * queries / keys * moved, moved / known.memory_efficiency)
    return known.kernel + seconds


def times(model: KernelModel, shapes: Mapping[str, FloatArray], peak: float, bandwidth: float) -> FloatArray:
    return (products if "m" in shapes else attentions)(model, shapes, peak, bandwidth)


def columns(kernels: Sequence[Gemm | Attention]) -> dict[str, FloatArray]:
    names = [one.name for one in fields(type(kernels[0]))]
    return {name: np.array([getattr(one, name) for one in kernels], dtype=float) for name in names}


@lru_cache(maxsize=2 * 65536)
def _alone(model: KernelModel, kernel: Gemm | Attention, peak: float, bandwidth: float) -> float:
    return float(times(model, columns([kernel]), peak, bandwidth)[0])
