"""Data-parallel training as SimPy processes over a FRED fabric: how much of the all-reduce the backward pass hides.

Every worker is a process. It computes forward, and then backward, layer after layer; as soon as all workers have the
gradients of a layer, those are all-reduced, in the network, while the backward pass goes on. One worker is slower than
the others, and all wait for it. Run it with ``python examples/simpy_training.py``; it needs ``fredfw[simpy]`` and the
plugins ``fredfw-topology-fred`` and ``fredfw-collective-in-network``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import simpy

from fredfw import CollectiveRequest, Framework, Pattern
from fredfw.embed import NetworkBackend
from fredfw.embed.simpy import Environment

WORKERS = 20
LAYERS = 4
FORWARD = 2e-3
"""Seconds of a whole forward pass."""
BACKWARD = 1e-3
"""Seconds of the backward pass of one layer."""
SLOW = 1.25
"""How much longer the last worker takes."""

Process = Generator[simpy.Event, Any, None]


class Step(NamedTuple):
    """One training step: its seconds, and those in which the slowest worker computes."""

    size: float
    seconds: float
    compute: float

    @property
    def exposed(self) -> float:
        """Seconds of communication that no computation hides."""
        return self.seconds - self.compute


class Layer:
    """The gradients of one layer: an all-reduce that begins when the last worker has its own."""

    def __init__(self, env: Environment, size: float) -> None:
        self._env = env
        self._size = size
        self._missing = WORKERS
        self.reduced = env.event()

    def ready(self) -> None:
        """Note that one more worker has its gradients."""
        self._missing -= 1
        if not self._missing:
            self._env.process(self._all_reduce())

    def _all_reduce(self) -> Process:
        yield self._env.network.collective(CollectiveRequest(Pattern.ALL_REDUCE, WORKERS, self._size))
        self.reduced.succeed()


def worker(env: Environment, pace: float, layers: list[Layer]) -> Process:
    """Compute one step, and wait for the gradients of all layers."""
    yield env.timeout(pace * FORWARD)
    for layer in reversed(layers):
        yield env.timeout(pace * BACKWARD)
        layer.ready()
    yield env.all_of([layer.reduced for layer in layers])


def train(sizes: tuple[float, ...]) -> Iterator[Step]:
    """Simulate one step for each size of a layer's gradients in bytes, one after the other on the same network."""
    framework = Framework()
    fabric = framework.topology("fred", variant="D").build()
    env = Environment(NetworkBackend(fabric, plugins=framework.plugins))
    for size in sizes:
        began = env.now
        layers = [Layer(env, size) for _ in range(LAYERS)]
        paces = [1.0] * (WORKERS - 1) + [SLOW]
        env.run(until=env.all_of([env.process(worker(env, pace, layers)) for pace in paces]))
        yield Step(size, env.now - began, SLOW * (FORWARD + LAYERS * BACKWARD))


def main() -> None:
    """Print a table of steps."""
    print(f"{'gradients':>12} {'step':>10} {'compute':>10} {'exposed':>10}")
    for step in train((0.3e9, 3e9, 6e9)):
        milliseconds = "".join(f"{1e3 * seconds:>8.3f} ms" for seconds in (step.seconds, step.compute, step.exposed))
        print(f"{step.size / 1e9:>9.1f} GB{milliseconds}")


if __name__ == "__main__":
    main()
