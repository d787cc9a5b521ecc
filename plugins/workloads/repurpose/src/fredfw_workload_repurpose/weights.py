"""Networks from ``.npz`` files, and networks with known blocks."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from attrs import frozen
from numpy.typing import ArrayLike

from fredfw import File, limits
from fredfw.errors import InputError
from fredfw.typing import AnyArray, FloatArray, IntArray
from fredfw_workload_repurpose.network import Layer, Network

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
    ``(samples, inputs, ...)`` that layer ``l`` reads; for dense layers ``inputs_0`` is enough.

    Raises:
        InputError: The file is damaged, has other arrays, or arrays that do not fit each other; names the array.
    """
    with file.named():
        return _weights(_arrays(file))


def write(path: str | Path, network: Network, inputs: Sequence[ArrayLike] = ()) -> None:
    """Write a network to an ``.npz`` file that ``read`` understands, with the activations that its layers read.

    For dense layers those of the first one alone are enough.
    """
    arrays: dict[str, AnyArray] = {f"inputs_{number}": np.asarray(array, float) for number, array in enumerate(inputs)}
    for number, layer in enumerate(network.layers):
        arrays[f"weights_{number}"] = layer.weights
        if layer.bias is not None:
            arrays[f"bias_{number}"] = layer.bias
    arrays["positions"] = np.array([network.layers[0].positions, *(layer.results for layer in network.layers)])
    np.savez(path, **arrays)  # type: ignore[arg-type]  # a name like allow_pickle, which is none of these


def _arrays(file: File) -> Mapping[str, AnyArray]:
    accepted = f"an .npz file with {_NAMES}"
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
        raise InputError(f"is not a whole .npz file: {error}", accepted=accepted) from None


def _array(archive: Mapping[str, AnyArray], name: str) -> AnyArray:
    try:
        return archive[name]
    except ValueError as error:
        what = "holds Python objects" if "pickle" in str(error) else "cannot be read"
        raise InputError(what, key=name, accepted="an array of real numbers, saved without pickles") from None


def _weights(arrays: Mapping[str, AnyArray]) -> Weights:
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
            accepted = f"samples x {layer.inputs} x {layer.taps} numbers"
            raise InputError("is missing", key=name, accepted=accepted)
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
