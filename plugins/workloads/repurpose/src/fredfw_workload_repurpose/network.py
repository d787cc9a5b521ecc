"""A trained network: layers of weights, what they compute, and the same layers in another order of neurons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike

from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray

WEIGHTS = "a real array of outputs x inputs, or outputs x inputs x taps for a convolution"


_LARGEST = 1e75  # so that squares of products of two are numbers


def numbers(value: ArrayLike, *, key: str, accepted: str) -> FloatArray:
    """Return ``value`` as an array of float64; messages say that it is ``key``, and what is ``accepted``.

    Raises:
        InputError: It is not an array of real numbers, it has NaN or infinity in it, or its numbers are so large or so
            small that their squares are not numbers.
    """
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
        columns = np.reshape(inputs, (len(inputs), -1))
        sums: FloatArray = columns @ self.weights.reshape(self.outputs, -1).T
        return sums if self.bias is None else sums + self.bias


@frozen(eq=False)
class Network:
    """Layers in turn, with a ReLU between two of them.

    Args:
        layers: One or more. The outputs of each are the inputs of the next one.

    Raises:
        InputError: There is no layer, or two layers do not fit each other.
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

        Raises:
            InputError: The samples have another shape, or a layer has taps: how feature maps are cut is not known.
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
