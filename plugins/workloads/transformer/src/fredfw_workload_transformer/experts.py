"""Experts: which of them the tokens choose, and how many tokens ranks send to each other for that.

All numbers are expected ones for a single token of each rank, so they are multiplied by the tokens of a rank. Ranks
route alike: every one of them sends to the same experts the same numbers of tokens.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import attrs
import numpy as np
from attrs import frozen

from fredfw import File, limits
from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from fredfw_workload_transformer.workload import Transformer

UNIFORM, ZIPF, FROM_FILE = ROUTINGS = "uniform", "zipf", "file"
DIRECT, INSIDE_FIRST, ACROSS_FIRST = DISPATCHES = "direct", "inside-first", "across-first"
_CLOSE = 1e-6  # how far the sum of shares in a file may be from 1
_ROUNDS = 10_000


def uniform_shares(experts: int) -> FloatArray:
    return np.full(experts, 1 / experts)


def zipf_shares(experts: int, top_k: int, exponent: float, seed: int) -> FloatArray:
    """Return ``(experts,)`` shares of choices by Zipf's law: ``r ** -exponent`` for the r-th, drawn by ``seed``.

    No expert has more than 1 / ``top_k``, as a token chooses different ones; the others share the surplus.
    """
    # Powers of Python, since those of numpy depend on the processor.
    shares = np.array([(rank + 1) ** -exponent for rank in range(experts)])
    full = 0  # the most popular experts, which every token chooses
    while full < top_k:
        rest = (1 - full / top_k) / math.fsum(shares[full:])
        if shares[full] * rest <= 1 / top_k:
            break
        full += 1
    shares = np.concatenate([np.full(full, 1 / top_k), shares[full:] * rest if full < top_k else 0 * shares[full:]])
    drawn = np.random.Generator(np.random.PCG64(seed)).random(experts)
    popular: FloatArray = shares[np.argsort(drawn, kind="stable")]
    return popular


def read_shares(file: File, experts: int, top_k: int) -> FloatArray:
    """Return the ``(experts,)`` shares in ``file``, between spaces, commas or lines; raises ``InputError``."""

    def wrong(message: str) -> InputError:
        accepted = f"{experts} shares from 0 to {1 / top_k:.6g} (1 / top_k), whose sum is 1"
        return InputError(message, file=file.path, key="routing_file", accepted=accepted)

    words = file.read().decode("utf-8", errors="replace").replace(",", " ").split()
    shares = np.empty(len(words))
    for position, word in enumerate(words):
        try:
            shares[position] = float(word)
        except ValueError:
            shares[position] = math.nan
        if not 0 <= shares[position] <= (1 + _CLOSE) / top_k:
            raise wrong(f"share {position} is {word!r}")
    if len(words) != experts:
        raise wrong(f"there are {len(words)} shares")
    if abs(shares.sum() - 1) > _CLOSE:
        raise wrong(f"the sum of all shares is {shares.sum():.6g}")
    possible: FloatArray = np.minimum(shares / shares.sum(), 1 / top_k)
    return possible


_OPTIONS = (
    *("ep", "routing", "routing_exponent", "routing_seed", "routing_file"),
    *("capacity_factor", "dispatch", "dispatch_node"),
)


def routing_of(workload: Transformer) -> Routing | None:
    experts, top_k, ep = workload.shape.experts, workload.shape.chosen, workload.ep
    routing, node, file = workload.routing, workload.dispatch_node, workload.routing_file
    if experts is None:
        for key in _OPTIONS:
            if getattr(workload, key) != getattr(attrs.fields(type(workload)), key).default:
                accepted = "no value, or experts = 2 or more"
                raise InputError("is given for a model without experts", key=key, accepted=accepted)
        return None
    limits.check("flows", experts * ep, key="experts")
    if experts % ep:
        divisors = ", ".join(str(one) for one in range(1, experts + 1) if experts % one == 0)
        raise InputError(f"{ep} ranks cannot share {experts} experts evenly", key="ep", accepted=divisors)
    for key, wanted in (("routing_exponent", ZIPF), ("routing_seed", ZIPF), ("routing_file", FROM_FILE)):
        if (value := getattr(workload, key)) is not None and routing != wanted:
            message = f"{value} is given, but routing is {routing!r}"
            raise InputError(message, key=key, accepted=f"no value, or routing = {wanted!r}")
    if node is None and workload.dispatch != DIRECT:
        raise InputError("is missing", key="dispatch_node", accepted=f"a divisor of {ep}")
    if node is not None and ep % node:
        message = f"nodes of {node} do not divide {ep} EP ranks"
        raise InputError(message, key="dispatch_node", accepted=f"a divisor of {ep}")
    if routing == FROM_FILE and file is None:
        raise InputError("is missing", key="routing_file", accepted="a file with a share for each expert")
    if file is not None:
        shares = read_shares(file, experts, top_k)
    elif routing == ZIPF:
        exponent = 1.0 if workload.routing_exponent is None else workload.routing_exponent
        shares = zipf_shares(experts, top_k, exponent, workload.routing_seed or 0)
    else:
        shares = uniform_shares(experts)
    return Routing(shares, top_k, ep, workload.capacity_factor, workload.dispatch, node or 1)


@frozen(eq=False)
class Step:
    """An exchange of tokens in groups of EP ranks."""

    name: str
    members: IntArray  # `(groups, size)` positions in the EP group
    # `(groups, size, size)` tokens from each member (row) to each (column), for a token of each rank
    tokens: FloatArray


@frozen(eq=False)
class Routing:
    """Where the tokens of the ranks of an EP group go."""

    shares: FloatArray  # `(experts,)` shares of the choices of all tokens
    top_k: int  # experts that each token chooses
    ep: int = 1  # ranks of the EP group; each has as many consecutive experts
    # an expert takes at most this number of times the mean number of tokens from each rank, and drops the rest (Fedus
    # et al. 2022, Switch Transformers, arXiv 2101.03961, section 2.2); `None`: any
    capacity_factor: float | None = None
    # `direct`: each rank sends each other one its tokens. `inside-first`: first to the rank of its own node that has
    # the receiver's place, then across nodes (Hwang et al. 2023, Tutel, arXiv 2206.03382, section 3.4). `across-first`:
    # first across, once for each node that has one of a token's experts, to the rank with the sender's place, then
    # inside (DeepSeek-AI 2024, DeepSeek-V3, arXiv 2412.19437, section 3.2.2)
    dispatch: str = DIRECT
    node: int = 1  # consecutive ranks of the group that are on a node

    @cached_property
    def routed(self) -> FloatArray:
        return self.shares * self.top_k

    @cached_property
    def kept(self) -> FloatArray:
        """``(experts,)`` those that are not dropped."""
        if self.capacity_factor is None:
            return self.routed
        return np.minimum(self.routed, self.capacity_factor * self.top_k / len(self.shares))

    @property
    def dropped(self) -> float:
        """Choices of a token that are dropped; ``kept`` and these are all of them."""
        return float((self.routed - self.kept).sum())

    @property
    def loads(self) -> FloatArray:
        """``(ep,)`` tokens that the experts of each rank take, for a token of each rank."""
        return self.ep * self._by_rank

    @property
    def imbalance(self) -> float:
        """Tokens of the fullest rank, divided by the mean."""
        return float(self.loads.max() / self.loads.mean())

    @property
    def _by_rank(self) -> FloatArray:
        """``(ep,)`` tokens that each rank gets from one token."""
        tokens: FloatArray = self.kept.reshape(self.ep, -1).sum(axis=1)
        return tokens

    @cached_property
    def dispatched(self) -> tuple[Step, ...]:
        """The exchanges that bring tokens to their experts; there is none with a single rank."""
        if self.ep == 1:
            return ()
        ranks, node, nodes = self._by_rank, self.node, self.ep // self.node
        everyone = np.arange(self.ep)
        if self.dispatch == DIRECT or node in (1, self.ep):
            return (Step("dispatch", everyone[None], np.broadcast_to(ranks, (1, self.ep, self.ep))),)
        on_node = everyone.reshape(nodes, node)
        by_place = ranks.reshape(nodes, node)
        if self.dispatch == INSIDE_FIRST:
            inside = np.broadcast_to(by_place.sum(axis=0), (nodes, node, node))
            across = np.broadcast_to(node * by_place.T[:, None], (node, nodes, nodes))
            return Step("dispatch inside nodes", on_node, inside), Step("dispatch across nodes", on_node.T, across)
        across = np.broadcast_to(self._reached(nodes), (node, nodes, nodes))
        inside = np.broadcast_to(nodes * by_place[:, None], (nodes, node, node))
        return Step("dispatch across nodes", on_node.T, across), Step("dispatch inside nodes", on_node, inside)

    @cached_property
    def combined(self) -> tuple[Step, ...]:
        """The exchanges that bring the experts' results back: those of the dispatch, reversed."""
        return tuple(
            Step(step.name.replace("dispatch", "combine"), step.members, step.tokens.swapaxes(1, 2))
            for step in reversed(self.dispatched)
        )

    def _reached(self, nodes: int) -> FloatArray:
        """Return the ``(nodes,)`` probability that a token has an expert on each node which does not drop it.

        A set of experts is chosen with a probability in proportion to the product of its experts' weights. Of all ways
        to choose ``top_k`` experts with given shares, this one has the greatest entropy (Chen, Dempster and Liu 1994,
        Biometrika 81, 457).
        """
        always = self.routed > 1 - _CLOSE
        left = self.top_k - int(always.sum())
        weights = np.where(always, 0.0, _weights(np.where(always, 0.0, self.routed), left))
        lost = 1 - np.divide(self.kept, self.routed, out=np.ones_like(self.kept), where=self.routed > 0)
        node_of = np.arange(len(self.shares)) // (len(self.shares) // nodes)
        total = _elementary(weights, left)[-1, left]
        missed = [
            np.prod(lost[always & here]) * _elementary(np.where(here, weights * lost, weights), left)[-1, left] / total
            for here in (node_of == one for one in range(nodes))
        ]
        return 1 - np.array(missed)


def _elementary(weights: FloatArray, order: int) -> FloatArray:
    """Return the elementary symmetric polynomials of orders 0 to ``order``, row i those of the first i weights."""
    sums = np.zeros((len(weights) + 1, order + 1))
    sums[:, 0] = 1.0
    for position, weight in enumerate(weights):
        sums[position + 1, 1:] = sums[position, 1:] + weight * sums[position, :-1]
    return sums


def _weights(chances: FloatArray, chosen: int) -> FloatArray:
    """Return weights with which ``chosen`` experts have these ``chances``, whose sum they are (Chen et al. 1994)."""
    weights = chances.copy()
    if chosen == 0:
        return weights
    for _ in range(_ROUNDS):
        before, behind = _elementary(weights, chosen - 1), _elementary(weights[::-1], chosen - 1)[::-1]
        others = (before[:-1] * behind[1:, ::-1]).sum(axis=1)  # polynomials of all weights but one
        reached = weights * others
        reached *= chosen / reached.sum()
        if np.abs(reached - chances).max() < _CLOSE**2:
            break
        weights *= np.divide(chances, reached, out=np.ones(len(weights)), where=reached > 0)
    return weights
