"""What all workloads of a transformer have: the model, a preset or a shape, and how their fields are declared."""

from typing import Any

import attrs
from attrs import frozen

from fredfw import Workload, units
from fredfw.errors import InputError
from fredfw_workload_transformer.model import PRESETS, Shape


def _dimension(meaning: str) -> Any:
    return units.count(None, help=f"{meaning}; default: the preset's, required where there is no preset")


@frozen
class ModelWorkload(Workload):
    """A workload of a model: a preset, whose dimensions may be given otherwise, or a shape of its own."""

    model: str | None = units.choice(PRESETS, None, help=f"shape preset: {', '.join(PRESETS)}")
    layers: int | None = _dimension("transformer layers")
    hidden: int | None = _dimension("hidden size")
    sequence: int | None = _dimension("tokens in a sample")
    heads: int | None = _dimension("attention heads")
    vocabulary: int | None = _dimension("size of the vocabulary")
    architecture: str | None = units.choice(
        ("gpt", "llama"),
        None,
        help="gpt: layer norms, biases, dropouts, GELU, learned positions; llama: RMS norms, SwiGLU, rotary "
        "embeddings, untied embeddings, no biases and dropouts; default: the preset's, or gpt",
    )
    key_value_heads: int | None = units.count(
        None, help="heads of keys and values, which divide the heads (GQA); default: the preset's, or as many as heads"
    )
    intermediate: int | None = units.count(
        None,
        help="width between the linear layers of the MLP; default: the preset's, or 4 x hidden, for llama 8/3 x "
        "hidden, rounded up to a multiple of 256",
    )
    tied_embeddings: bool | None = units.flag(
        None, help="look-up and logits share their weights; default: the preset's, or as the architecture has it"
    )
    experts: int | None = units.count(
        None,
        minimum=2,
        help="experts of a layer, from which a router chooses; default: the preset's, or an MLP instead",
    )
    top_k: int | None = units.count(None, help="experts that each token goes to; default: the preset's, or 1")
    expert_intermediate: int | None = units.count(
        None, help="width between the linear layers of an expert; default: the preset's, or intermediate"
    )
    shared_experts: int | None = units.count(
        None,
        minimum=0,
        help="experts that all tokens go to, which compute while tokens travel to the others; default: the preset's, "
        "or 0",
    )
    dense_layers: int | None = units.count(
        None, minimum=0, help="first layers that have no experts; default: the preset's, or 0"
    )

    @property
    def shape(self) -> Shape:
        """The shape of the model: the preset's, where fields do not say otherwise."""
        shape = {} if self.model is None else attrs.asdict(PRESETS[self.model], recurse=False)
        for dimension, declared in attrs.fields_dict(Shape).items():
            value = getattr(self, dimension, None)
            if value is not None:
                shape[dimension] = value
            if dimension not in shape and declared.default is attrs.NOTHING:
                accepted = f"a whole number, or model = one of {', '.join(PRESETS)}"
                raise InputError("is missing, and no model is given", key=dimension, accepted=accepted)
        return Shape(**shape)

    def check_stages(self, stages: int) -> None:
        layers = self.shape.layers
        if stages > layers:
            message = f"{units.counted(stages, 'pipeline stage')} for {units.counted(layers, 'layer')}"
            raise InputError(message, key="pp", accepted=f"at most {layers}")
