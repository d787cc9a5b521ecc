import pytest

from fredfw_workload_transformer.model import PRESETS, Shape

SMALL = Shape(layers=3, hidden=8, sequence=4, heads=2, vocabulary=10)
GPT = [shape for shape in PRESETS.values() if shape.architecture == "gpt"]

PUBLISHED = {
    "transformer-17b": 17.2e9,  # Narayanan et al. 2021, arXiv 2104.04473, figure 1 (Turing-NLG)
    "gpt-3": 175.0e9,  # Brown et al. 2020, arXiv 2005.14165, table 2.1
    "transformer-1t": 1008.0e9,  # Narayanan et al. 2021, arXiv 2104.04473, table 1
    "llama-3-8b": 8.03e9,  # model card of Meta-Llama-3-8B on Hugging Face ("8.03B params")
    "llama-3-70b": 70.6e9,  # model card of Meta-Llama-3-70B on Hugging Face ("70.6B params")
    "llama-3-405b": 405e9,  # Grattafiori et al. 2024, arXiv 2407.21783, table 3
    "mixtral-8x7b": 46.7e9,  # Mistral AI 2023, "Mixtral of experts" (announcement): 46.7B, of which 12.9B for a token
    "deepseek-v3": 671e9,  # DeepSeek-AI 2024, arXiv 2412.19437, abstract: 671B, of which 37B for a token
}


def test_published_sizes() -> None:
    assert {model: shape.parameters for model, shape in PRESETS.items()} == pytest.approx(PUBLISHED, rel=0.01)
    assert PRESETS["mixtral-8x7b"].active_parameters == pytest.approx(12.9e9, abs=0.05e9)
    # The report of DeepSeek-V3 does not say whether its 37B have both embeddings in them, 0.9B each.
    assert PRESETS["deepseek-v3"].active_parameters == pytest.approx(37e9, abs=1e9)


def test_parameters_of_llama_matrix_by_matrix() -> None:
    # 70B: 64 heads of 128, 8 of keys and values; q, k, v, o; gate, up, down; two norms; two embeddings, a norm
    h, f, v = 8192, 28672, 128256
    layer = 2 * h * h + 2 * h * 8 * 128 + 3 * h * f + 2 * h
    assert PRESETS["llama-3-70b"].parameters == 80 * layer + 2 * v * h + h == 70_553_706_496
    # LLaMA 7B and 13B: 11008 and 13824 (their published configurations)
    for hidden, width in ((4096, 11008), (5120, 13824)):
        (_, mlp) = Shape(1, hidden, 1, 1, 1, architecture="llama").blocks(0, 1, 1)
        assert mlp.parameters == 3 * hidden * width + hidden


def test_flops_and_activations_of_llama() -> None:
    # Two FLOPs a weight of a matrix and token, 4 s a d for the scores and values; bytes: norm and its output, q, k, v,
    # the core's result; scores; norm and its output, gate, up, and their product
    shape = PRESETS["llama-3-8b"]
    h, f, s, kv = 4096, 14336, 8192, 8 * 128
    attention, mlp = shape.blocks(0, 3, 1)
    assert attention.flops == 3 * s * (2 * (2 * h * h + 2 * h * kv) + 4 * s * h)
    assert mlp.flops == 3 * s * 6 * h * f
    assert attention.activations == 3 * s * (4 * h + 2 * (h + 2 * kv + h) + 2 * 32 * s)
    assert mlp.activations == 3 * s * (4 * h + 6 * f)


@pytest.mark.parametrize("shape", [*GPT, SMALL])
def test_parameters_matrix_by_matrix_and_flops_of_an_iteration(shape: Shape) -> None:
    batch, s, h = 16, shape.sequence, shape.hidden
    attention = 3 * (h * h + h) + (h * h + h)
    mlp = (h * 4 * h + 4 * h) + (4 * h * h + h)
    norms = 2 * (2 * h)
    embeddings = (shape.vocabulary + s) * h
    assert shape.parameters == shape.layers * (attention + mlp + norms) + embeddings + 2 * h
    # Narayanan et al. 2021, equation 3: transformer layers forward, again, and backward (4 passes); logits 3 passes.
    # Korthikanti et al. 2022, appendix: the same without recomputation.
    layer = sum(block.flops for block in shape.blocks(0, batch, 1))
    head = sum(block.flops for block in shape.blocks(shape.layers, batch, 1))
    for passes in (4, 3):
        logits = shape.vocabulary / (4 * passes * shape.layers * h)
        published = 24 * passes * batch * s * shape.layers * h**2 * (1 + s / (6 * h) + logits)
        assert passes * shape.layers * layer + 3 * head == pytest.approx(published, rel=1e-12)
    assert shape.flops(batch) == shape.layers * layer + head
