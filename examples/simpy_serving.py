"""A small serving loop under SimPy: requests arrive, one pool of NPUs prefills, another one decodes, on one network.

Prefill computes a prompt and sends its KV cache from each of its NPUs to that of the other pool with the same number.
Decode takes one token after the other, of all requests whose cache is there; its NPUs all-reduce twice a layer, which
is one all-reduce of all layers here. Both share the links. The example prints the time to the first token (TTFT) and
for each later one (TPOT). Compute times are given; sizes are those of Llama 3 8B: 32 layers, 8 KV heads of 128, hidden
size 4096, FP16. Run it with ``python examples/simpy_serving.py``; it needs ``fredfw[simpy]`` and the plugin
``fredfw-topology-switch``.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import simpy

import fredfw
from fredfw.embed import NetworkBackend
from fredfw.embed.simpy import Environment

TP = 4  # NPUs of each pool
LAYERS, KV_HEADS, HEAD, HIDDEN, FP16 = 32, 8, 128, 4096, 2
PROMPT, ANSWER = 2048, 32  # tokens
PREFILL, TOKEN = 30e-3, 4e-3  # seconds of computing
KV = 2 * LAYERS * KV_HEADS * HEAD * PROMPT * FP16 / TP  # bytes of each NPU


class Server:
    """Two pools of NPUs, and the requests that they serve.

    Args:
        env: The clock, and the network.
    """

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.prefill = simpy.Resource(env)
        self.running: list[dict[str, float]] = []
        self.ready = env.event()
        self.done: list[dict[str, float]] = []
        env.process(self.decode())

    def request(self) -> Generator[simpy.Event, None, None]:
        """Serve one request up to the moment when its KV cache is where it is decoded."""
        env, times = self.env, {"came": self.env.now, "left": float(ANSWER - 1)}
        with self.prefill.request() as turn:
            yield turn
            yield env.timeout(PREFILL)
        times["first"] = env.now
        yield env.all_of([env.network.send(npu, TP + npu, KV, label="kv") for npu in range(TP)])
        self.running.append(times)
        if not self.ready.triggered:
            self.ready.succeed()

    def decode(self) -> Generator[simpy.Event, None, None]:
        """Decode token after token, of all requests that are there."""
        env = self.env
        while True:
            if not self.running:
                self.ready = env.event()
                yield self.ready
            batch = list(self.running)
            yield env.timeout(TOKEN)
            size = 2 * LAYERS * len(batch) * HIDDEN * FP16
            reduced = fredfw.CollectiveRequest(fredfw.Pattern.ALL_REDUCE, TP, size)
            yield env.network.collective(reduced, group=range(TP, 2 * TP), algorithm="direct", label="tp")
            for times in batch:
                times["left"] -= 1
                if not times["left"]:
                    times["ended"] = env.now
                    self.running.remove(times)
                    self.done.append(times)


def serve(requests: int, rate: float, bandwidth: str, seed: int = 0) -> tuple[list[float], list[float]]:
    """Return TTFT and TPOT, in seconds, of so many requests that come at ``rate`` a second."""
    fabric = fredfw.Framework().topology("switch", npus=2 * TP, link_bandwidth=bandwidth).build()
    env = Environment(NetworkBackend(fabric))
    server = Server(env)

    def arrivals() -> Generator[simpy.Event, None, None]:
        for gap in np.random.default_rng(seed).exponential(1 / rate, requests).tolist():
            yield env.timeout(gap)
            env.process(server.request())

    env.process(arrivals())
    while len(server.done) < requests:
        env.step()
    ttft = [one["first"] - one["came"] for one in server.done]
    tpot = [(one["ended"] - one["first"]) / (ANSWER - 1) for one in server.done]
    return ttft, tpot


def main() -> None:
    """Serve the same requests over links of two bandwidths."""
    print("links     TTFT P50  P99    TPOT P50  P99 (ms)")
    for bandwidth in ("50 GB/s", "5 GB/s"):
        ttft, tpot = serve(200, 25.0, bandwidth)
        values = [1e3 * float(np.percentile(times, share)) for times in (ttft, tpot) for share in (50, 99)]
        print(f"{bandwidth:9s} {values[0]:8.2f} {values[1]:7.2f} {values[2]:9.3f} {values[3]:6.3f}")


if __name__ == "__main__":
    main()
