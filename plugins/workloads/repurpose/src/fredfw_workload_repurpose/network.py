"""A trained network: layers of weights, what they compute, from ``.npz`` files or with known blocks."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike

from fredfw import File, limits
from fredfw.errors import InputError
from fredfw.typing import AnyArray, FloatArray, IntArray

WEIGHTS = "a real array of outputs x inputs, or outputs x inputs x taps for a convolution"


_LARGEST = 1e75  # so that squares of products of two are numbers


def numbers(value: ArrayLike, *, key: str, accepted: str) -> FloatArray:
    """Return real, finite numbers as float64; messages say that it is ``key``, and what is ``accepted``."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        raise InputError("is not an array", key=key, accepted=accepted) from None
    if array.dtype.kind not in "iuf":
        raise InputError(f"has numbers of type {array.dtype}", key=key, accepted=accepted)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = tuple(bad[0].tolist())
        raise InputError(f"has {array[place]} at {list(place)}", key=key, accepted=f"finite numbers: {accepted}")
    largest = float(np.abs(array).max(initial=0.0))
    if largest and not 1 / _LARGEST <= largest <= _LARGEST:
        message = f"has {largest:g} as its largest number, whose powers cannot be told from 0 or infinity"
        wanted = f"a largest number from {1 / _LARGEST:g} to {_LARGEST:g}: {accepted}"
        raise InputError(message, key=key, accepted=wanted)
    return np.array(array, dtype=float)


def _weights(value: Any) -> FloatArray:
    array = numbers(value, key="weights", accepted=WEIGHTS)
    if array.ndim < 2 or not array.size:
        raise InputError(f"has the shape {array.shape}", key="weights", accepted=WEIGHTS)
    return array.reshape(*array.shape[:2], -1)


def _bias(value: Any) -> FloatArray | None:
    return None if value is None else numbers(value, key="bias", accepted="a number for each output")


@frozen(eq=False)
class Layer:
    """A layer. A neuron is what one worker holds whole: a neuron of a dense layer, a channel of a convolution.

    Args:
        weights: ``(outputs, inputs, ...)``. All axes behind the second one are the taps of a channel: the kernel of a
            convolution, or the pixels of a channel that a dense layer reads. Kept as ``(outputs, inputs, taps)``.
        bias: ``(outputs,)``.
        positions: Numbers of the feature map of an input: 1 for a neuron, height x width for a channel.
        results: Positions at which each output is computed, likewise.

    Raises:
        InputError: The arrays do not fit each other, or they have other entries than finite real numbers.
    """

    weights: FloatArray = field(converter=_weights)
    bias: FloatArray | None = field(default=None, converter=_bias)
    positions: int = field(default=1)
    results: int = field(default=1)

    def __attrs_post_init__(self) -> None:
        if self.bias is not None and self.bias.shape != (self.outputs,):
            raise InputError(f"has the shape {self.bias.shape}", key="bias", accepted=f"the shape ({self.outputs},)")
        for name in ("positions", "results"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{value!r} is not a valid number", key=name, accepted="a whole number of at least 1")

    @property
    def outputs(self) -> int:
        """Neurons that it computes."""
        return int(self.weights.shape[0])

    @property
    def inputs(self) -> int:
        """Neurons that it reads."""
        return int(self.weights.shape[1])

    @property
    def taps(self) -> int:
        """Weights between an input and an output."""
        return int(self.weights.shape[2])

    def read(self, value: ArrayLike, *, key: str) -> FloatArray:
        """Return ``(samples, inputs, taps)`` activations that the layer reads; else ``InputError`` names ``key``."""
        accepted = f"samples x {self.inputs} x {self.taps} numbers"
        array = numbers(value, key=key, accepted=accepted)
        if array.ndim < 2 or not len(array) or array[0].size != self.inputs * self.taps:
            raise InputError(f"has the shape {array.shape}", key=key, accepted=accepted)
        return array.reshape(len(array), self.inputs, self.taps)

    def apply(self, inputs: FloatArray) -> FloatArray:
        """Return ``(samples, outputs)`` sums for ``(samples, inputs)`` or ``(samples, inputs, taps)`` numbers."""
        sums: FloatArray = np.reshape(inputs, (len(inputs), -1)) @ self.weights.reshape(self.outputs, -1).T
        return sums if self.bias is None else sums + self.bias


@frozen(eq=False)
class Network:
    """Layers in turn, with a ReLU between two of them; ``InputError`` if there is none, or two do not fit each other.

    Args:
        layers: One or more. The outputs of each are the inputs of the next one.
    """

    layers: tuple[Layer, ...] = field(converter=tuple[Layer, ...])

    def __attrs_post_init__(self) -> None:
        if not self.layers:
            raise InputError("has no layer", key="layers", accepted="one layer or more")
        for number, (before, after) in enumerate(pairwise(self.layers), start=1):
            if before.outputs != after.inputs:
                message = f"has {after.inputs} inputs, and layer {number - 1} has {before.outputs} outputs"
                accepted = f"{after.outputs} x {before.outputs} weights, or with taps behind"
                raise InputError(message, key=f"layers[{number}].weights", accepted=accepted)

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of the input, and of the output of each layer."""
        return (self.layers[0].inputs, *(layer.outputs for layer in self.layers))

    @property
    def dense(self) -> bool:
        """Whether every layer is dense, without channels."""
        return all(layer.taps == 1 for layer in self.layers)

    def activations(self, samples: ArrayLike) -> tuple[FloatArray, ...]:
        """Return the inputs of each layer, and the output of the last one, for ``(samples, inputs)`` numbers.

        ``InputError``: they have another shape, or a layer has taps, where how feature maps are cut is not known.
        """
        if not self.dense:
            raise InputError("the network has channels", key="samples", accepted="a network of dense layers")
        accepted = f"samples x {self.widths[0]} numbers"
        array = numbers(samples, key="samples", accepted=accepted)
        if array.ndim != 2 or array.shape[1] != self.widths[0] or not len(array):
            raise InputError(f"has the shape {array.shape}", key="samples", accepted=accepted)
        values = [array]
        for layer in self.layers:
            values.append(layer.apply(values[-1]))
            if len(values) <= len(self.layers):
                np.maximum(values[-1], 0, out=values[-1])
        return tuple(values)

    def permuted(self, orders: Sequence[IntArray]) -> Network:
        """Return the network with its neurons in the new order that each of ``widths`` has; it computes the same."""
        layers = []
        for layer, (before, after) in zip(self.layers, pairwise(orders), strict=True):
            bias = None if layer.bias is None else layer.bias[after]
            layers.append(Layer(layer.weights[after][:, before], bias, layer.positions, layer.results))
        return Network(layers)


_NAMES = "weights_0, weights_1, ..., bias_0, ..., inputs_0, ... and positions"
_NAME = re.compile(r"(weights|bias|inputs)_(0|[1-9]\d*)|positions")


@frozen(eq=False)
class Weights:
    """A network, and what its layers read."""

    network: Network
    inputs: tuple[FloatArray, ...] | None  # for each layer the `(samples, inputs, taps)` activations


def read(file: File) -> Weights:
    """Return the network in an ``.npz`` file. Pickled objects are refused.

    Layer ``l`` has the array ``weights_l`` and may have ``bias_l``; see ``Layer``. ``positions``, where it is there,
    has the positions of the input of the first layer and of the output of each one. ``inputs_l`` has the activations
    ``(samples, inputs, ...)`` that layer ``l`` reads; for dense layers ``inputs_0`` is enough. ``InputError`` names an
    array that is damaged, not known, or does not fit the others.
    """
    with file.named():
        return _network(_arrays(file))


def write(path: str | Path, network: Network, inputs: Sequence[ArrayLike] = ()) -> None:
    """Write a network to an ``.npz`` file for ``read``, with what its layers read (if all are dense, the first one)."""
    arrays: dict[str, AnyArray] = {f"inputs_{number}": np.asarray(array, float) for number, array in enumerate(inputs)}
    for number, layer in enumerate(network.layers):
        arrays[f"weights_{number}"] = layer.weights
        if layer.bias is not None:
            arrays[f"bias_{number}"] = layer.bias
    arrays["positions"] = np.array([network.layers[0].positions, *(layer.results for layer in network.layers)])
    np.savez(path, **arrays)  # type: ignore[arg-type]  # a name like allow_pickle, which is none of these


def _arrays(file: File) -> Mapping[str, AnyArray]:
    try:
        with zipfile.ZipFile(io.BytesIO(file.read())) as archive:
            # What is inside may be much longer than the file.
            limits.check("bytes", sum(one.file_size for one in archive.infolist()))
        with np.load(io.BytesIO(file.read()), allow_pickle=False) as archive:
            arrays = {}
            for name in archive.files:
                if not _NAME.fullmatch(name):
                    raise InputError("is not known", key=name, accepted=_NAMES)
                arrays[name] = _array(archive, name)
            return arrays
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError) as error:
        raise InputError(f"is not a whole .npz file: {error}", accepted=f"an .npz file with {_NAMES}") from None


def _array(archive: Mapping[str, AnyArray], name: str) -> AnyArray:
    try:
        return archive[name]
    except ValueError as error:
        what = "holds Python objects" if "pickle" in str(error) else "cannot be read"
        raise InputError(what, key=name, accepted="an array of real numbers, saved without pickles") from None


def _network(arrays: Mapping[str, AnyArray]) -> Weights:
    count = 0
    while f"weights_{count}" in arrays:
        count += 1
    last = f"weights_{count}"
    for name in arrays:
        number = name.rpartition("_")[2]
        if number.isdecimal() and int(number) >= count:
            raise InputError(f"is missing, and {name} is there", key=last, accepted=_NAMES)
    if not count:
        raise InputError("is missing", key=last, accepted=_NAMES)
    positions = _positions(arrays.get("positions"), count)
    layers = []
    for layer, (before, after) in enumerate(pairwise(positions)):
        try:
            layers.append(Layer(arrays[f"weights_{layer}"], arrays.get(f"bias_{layer}"), before, after))
        except InputError as error:
            error.key = f"{error.key}_{layer}"
            raise
    try:
        network = Network(layers)
    except InputError as error:
        error.key = re.sub(r"layers\[(\d+)\]\.weights", r"weights_\1", str(error.key))
        raise
    return Weights(network, _inputs(arrays, network))


def _positions(array: AnyArray | None, count: int) -> Sequence[int]:
    if array is None:
        return [1] * (count + 1)
    if array.shape != (count + 1,) or array.dtype.kind not in "iu" or (array < 1).any():
        accepted = f"{count + 1} whole numbers of at least 1: of the input, and of the output of each layer"
        raise InputError(f"is {array.tolist()!r}", key="positions", accepted=accepted)
    values: list[int] = array.tolist()
    return values


def _inputs(arrays: Mapping[str, AnyArray], network: Network) -> tuple[FloatArray, ...] | None:
    """Return what each layer reads; for dense layers it follows from what the first one reads."""
    given = [name for name in arrays if name.startswith("inputs_")]
    if not given:
        return None
    if given == ["inputs_0"] and network.dense:
        try:
            return tuple(one[:, :, None] for one in network.activations(arrays["inputs_0"])[:-1])
        except InputError as error:
            error.key = "inputs_0"
            raise
    inputs = []
    for number, layer in enumerate(network.layers):
        name = f"inputs_{number}"
        if name not in arrays:
            raise InputError("is missing", key=name, accepted=f"samples x {layer.inputs} x {layer.taps} numbers")
        inputs.append(layer.read(arrays[name], key=name))
    return tuple(inputs)


@frozen(eq=False)
class Planted:
    """A network with blocks that are known, its neurons in any order."""

    network: Network
    owners: tuple[IntArray, ...]  # for the input and the output of each layer the `(neurons,)` block of each neuron


def planted(
    widths: Sequence[int], blocks: int, *, noise: float = 0.0, seed: int = 0, taps: int = 1, positions: int = 1
) -> Planted:
    """Return a random network whose neurons are in blocks, with weak weights between blocks, shuffled in every layer.

    Args:
        widths: Neurons of the input, and of the output of each layer.
        blocks: Of each layer; their sizes differ by one neuron at most.
        noise: Standard deviation of the weights between blocks, relative to that within a block. With 0 there are none.
        seed: Of the weights and the order.
        taps: Weights between an input and an output.
        positions: Of every feature map.

    Raises:
        InputError: There is no layer, or there are fewer neurons than blocks.
    """
    if len(widths) < 2:
        accepted = "the neurons of the input and of one layer or more, such as [256, 256]"
        raise InputError(f"{list(widths)} has no layer", key="widths", accepted=accepted)
    if blocks > min(widths):
        raise InputError(f"{blocks} blocks of {min(widths)} neurons", key="blocks", accepted=f"at most {min(widths)}")
    limits.check("bytes", 8 * taps * sum(before * after for before, after in pairwise(widths)), key="widths")
    random = np.random.default_rng(seed)
    owners = [random.permutation(np.arange(width) * blocks // width) for width in widths]
    layers = []
    for before, after in pairwise(owners):
        inside = after[:, None] == before
        fan_in = max(1, round(len(before) / blocks)) * taps
        drawn = random.standard_normal((len(after), len(before), taps)) / np.sqrt(fan_in)
        layers.append(Layer(drawn * np.where(inside, 1.0, noise)[:, :, None], None, positions, positions))
    return Planted(Network(layers), tuple(owners))
