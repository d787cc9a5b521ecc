"""What a translation model of LSTMs costs: parameters, FLOPs and bytes, from its shape."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen
class Layer:
    """A part of the model that is computed as one task. All but the parameters is per sample (a pair of sentences)."""

    name: str  # for traces and messages
    parameters: int  # trainable numbers
    matrices: int  # those of them that are weights of an LSTM or of the softmax
    flops: int  # forward floating-point operations of matrix products, two per multiply-add
    read: int  # parameters that a forward pass reads; those of a time step count as often as there are time steps
    moved: int  # activations that it reads and writes in forward
    stored: int  # activations that the backward pass needs


@frozen
class Shape:
    """The shape of a model (Wu et al. 2016, arXiv 1609.08144, section 3). Embeddings are as wide as an LSTM.

    The first layer of the encoder is bidirectional, so the second one has an input of twice the width. All layers of
    the decoder but the first take the context, what attention gives, beside their input.
    """

    encoder_layers: int  # LSTM layers; the bidirectional one counts once
    decoder_layers: int
    hidden: int  # units of each
    vocabulary: int  # word pieces of each language
    sequence: int  # word pieces of a sentence, in each language
    # whether the first layer of the decoder takes the context of the time step before
    context_first: bool = True
    lstm_biases: int = 1  # bias vectors of an LSTM: 1, or 2 as in cuDNN
    softmax_bias: bool = False  # whether the logits have a bias
    shared_embeddings: bool = False  # whether both languages have one table of embeddings

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers in forward order."""
        h = self.hidden
        encoder = [self._lstm("encoder 0", h, directions=2)]
        encoder += [self._lstm(f"encoder {n}", 2 * h if n == 1 else h) for n in range(1, self.encoder_layers)]
        first = self._lstm("decoder 0", h, stepwise=h if self.context_first else 0)
        decoder = [self._lstm(f"decoder {n}", 2 * h) for n in range(1, self.decoder_layers)]
        source = self._embedding("source embedding", self.vocabulary)
        target = self._embedding("target embedding", 0 if self.shared_embeddings else self.vocabulary)
        return (source, *encoder, target, first, self._attention(), *decoder, self._softmax())

    def _embedding(self, name: str, rows: int) -> Layer:
        numbers = self.sequence * self.hidden
        return Layer(name, rows * self.hidden, 0, flops=0, read=0, moved=2 * numbers, stored=numbers)

    def _lstm(self, name: str, inputs: int, *, stepwise: int = 0, directions: int = 1) -> Layer:
        """Return an LSTM layer: four gates of its input, of what depends on the last time step, and of its state.

        The input of all time steps is one matrix product. The rest is one for each time step, which reads its weights
        again.
        """
        h, steps = self.hidden, self.sequence
        once, again = 4 * h * inputs, 4 * h * (stepwise + h)
        return Layer(
            name,
            parameters=directions * (once + again + self.lstm_biases * 4 * h),
            matrices=directions * (once + again),
            flops=directions * 2 * (once + again) * steps,
            read=directions * (once + again * steps),
            # The gates are written and read; then there are the cell and the output.
            moved=directions * (inputs + stepwise + 10 * h) * steps,
            stored=directions * 6 * h * steps,
        )

    def _attention(self) -> Layer:
        """Return normalised additive attention: two projections, and a score of each pair of positions."""
        h, steps = self.hidden, self.sequence
        return Layer(
            "attention",
            parameters=2 * h**2 + 2 * h + 1,
            matrices=0,
            flops=4 * h**2 * steps + 4 * steps**2 * h,
            read=2 * h**2,
            moved=2 * steps**2 * h + 4 * steps * h,
            stored=steps**2 * h + 2 * steps * h,
        )

    def _softmax(self) -> Layer:
        h, v, steps = self.hidden, self.vocabulary, self.sequence
        return Layer(
            "softmax",
            parameters=h * v + v * self.softmax_bias,
            matrices=h * v,
            flops=2 * h * v * steps,
            read=h * v,
            moved=(h + v) * steps,
            stored=v * steps,
        )


PRESETS: Mapping[str, Shape] = {
    # tensorflow/nmt, standard_hparams/wmt16_gnmt_4_layer.json and wmt16_gnmt_8_layer.json, with the 36,548 word pieces
    # that scripts/wmt16_en_de.sh makes (issue 133 there)
    "wmt16-4": Shape(encoder_layers=4, decoder_layers=4, hidden=1024, vocabulary=36548, sequence=50),
    "wmt16-8": Shape(encoder_layers=8, decoder_layers=8, hidden=1024, vocabulary=36548, sequence=50),
    # MLPerf Training v0.6 and v0.7, rnn_translator, as NVIDIA's submissions pad the vocabulary: 160,671,297 parameters
    "mlperf": Shape(4, 4, 1024, 32320, 50, False, lstm_biases=2, softmax_bias=True, shared_embeddings=True),
}
