from __future__ import annotations

import pytest

from fredfw_workload_transformer.model import PRESETS, Shape

SMALL = Shape(layers=3, hidden=8, sequence=4, heads=2, vocabulary=10)


@pytest.mark.parametrize(
    ("model", "parameters"), [("transformer-17b", 17e9), ("gpt-3", 175e9), ("transformer-1t", 1e12)]
)
def test_published_sizes(model: str, parameters: float) -> None:
    assert PRESETS[model].parameters == pytest.approx(parameters, rel=0.02)


@pytest.mark.parametrize("shape", [*PRESETS.values(), SMALL])
def test_parameters_matrix_by_matrix(shape: Shape) -> None:
    h = shape.hidden
    attention = 3 * (h * h + h) + (h * h + h)
    mlp = (h * 4 * h + 4 * h) + (4 * h * h + h)
    norms = 2 * (2 * h)
    embeddings = (shape.vocabulary + shape.sequence) * h
    assert shape.parameters == shape.layers * (attention + mlp + norms) + embeddings + 2 * h


@pytest.mark.parametrize("shape", PRESETS.values())
def test_flops_of_an_iteration_with_recomputation(shape: Shape) -> None:
    # Narayanan et al. 2021, equation 3: transformer layers forward, again, and backward (4 passes); logits 3 passes.
    batch, s, h = 16, shape.sequence, shape.hidden
    published = 96 * batch * s * shape.layers * h**2 * (1 + s / (6 * h) + shape.vocabulary / (16 * shape.layers * h))
    layer = sum(block.flops for block in shape.blocks(0, batch, 1))
    head = sum(block.flops for block in shape.blocks(shape.layers, batch, 1))
    assert 4 * shape.layers * layer + 3 * head == pytest.approx(published, rel=1e-12)


@pytest.mark.parametrize("mp", [1, 2, 3, 8])
def test_activations_of_a_layer(mp: int) -> None:
    # Korthikanti et al. 2022, equation 2
    shape = PRESETS["gpt-3"]
    s, b, h, a = shape.sequence, 4, shape.hidden, shape.heads
    published = s * b * h * (10 + 24 / mp + 5 * a * s / (h * mp))
    assert sum(block.activations for block in shape.blocks(5, b, mp)) == pytest.approx(published, rel=1e-12)


@pytest.mark.parametrize("layer", [0, 3])
def test_model_parallelism_splits_weights_and_work(layer: int) -> None:
    whole, third = SMALL.blocks(layer, 6, 1), SMALL.blocks(layer, 6, 3)
    assert [3 * block.flops for block in third] == pytest.approx([block.flops for block in whole], rel=1e-12)
    assert [3 * block.parameters for block in third] == pytest.approx([block.parameters for block in whole], rel=1e-12)


@pytest.mark.parametrize("shape", [*PRESETS.values(), SMALL])
def test_flops_of_a_forward_pass(shape: Shape) -> None:
    # A third of what Korthikanti et al. 2022, appendix, has for an iteration without recomputation.
    batch, s, h = 16, shape.sequence, shape.hidden
    published = 72 * batch * s * shape.layers * h**2 * (1 + s / (6 * h) + shape.vocabulary / (12 * shape.layers * h))
    assert 3 * shape.flops(batch) == pytest.approx(published, rel=1e-12)
