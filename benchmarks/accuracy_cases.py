"""Random collectives and iterations on many kinds of fabric, each drawn from its seed; mostly up to 64 NPUs."""

import json
import shlex
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from attrs import frozen

from fredfw import Framework
from fredfw.errors import InputError
from fredfw.fidelities import FIDELITIES, SIMULATED
from fredfw.report.accuracy import ITERATION, MICROBENCHMARK

# By field what its value is drawn from; "*" has values of several fields, or of none.
Choices = Mapping[str, Sequence[Any]]

LATENCIES = "20ns", "500ns", "2us"
LINKS: Choices = {"link_bandwidth": ["25GB/s", "50GB/s", "100GB/s", "400GB/s", "750GB/s"], "link_latency": LATENCIES}
NPUS = 2, 3, 4, 6, 8, 12, 16, 20, 32, 48, 64, 128
SHAPES = [4], [9], [16], [3, 2], [4, 4], [8, 4], [5, 5], [8, 8], [16, 16], [3, 3, 3], [2, 4, 4], [4, 4, 4]
TAPERED = "100GB/s", ["100GB/s", "25GB/s"], ["50GB/s", "100GB/s"], ["400GB/s", "100GB/s", "50GB/s"]
ROUTING = "ecmp", "spray"
KINDS: Mapping[str, Choices] = {
    "mesh2d": {"rows": range(1, 9), "columns": range(2, 9), **LINKS},
    "torus": {"dimensions": SHAPES, "link_bandwidth": TAPERED, "link_latency": LATENCIES},
    "switch": {"npus": NPUS, "in_network": [False, True], **LINKS},
    "fat-tree": {
        "npus": NPUS,
        "radix": [4, 8, 16],
        "levels": [2, 3],
        "oversubscription": [1, 2],
        "routing": ROUTING,
        **LINKS,
    },
    "fred": {
        "variant": "ABCD",
        "arity": [[2, 2], [4, 5], [3, 3], [5, 2], [8, 8], [2, 3, 4], [4, 4, 4]],
        "link_latency": LATENCIES,
    },
    "cluster": {
        "preset": ["dgx-a100", "dgx-h100", "hgx-b200", "mi300x", "gaudi3", "trainium2"],
        "nodes": range(1, 9),
        "routing": ROUTING,
    },
    "multi-dimensional": {
        "dimensions": [
            ["ring 16"],
            ["FC 4", "ring 4"],
            ["ring 3", "FC 5"],
            ["ring 8", "switch 8"],
            ["switch 8", "switch 4"],
            ["switch 16", "switch 16"],
            ["FC 4", "ring 4", "switch 4"],
            ["switch 4", "switch 2", "switch 3"],
        ],
        "bandwidths": TAPERED,
        "latencies": ["500ns", ["700ns", "1700ns"], ["20ns", "700ns", "1700ns"]],
    },
    "dragonfly-plus": {
        "npus_per_leaf": [1, 2, 4],
        "leaves": [2, 4],
        "spines": [2, 4],
        "groups": [2, 3, 4],
        "global_bandwidth": ["100Gbps", "200Gbps", "400Gbps"],
    },
    "fully-connected": {"npus": NPUS[:-1], **LINKS},
    "hyperx": {"dimensions": SHAPES, "link_bandwidth": TAPERED, "link_latency": LATENCIES},
    "optical-ring": {
        "npus": NPUS,
        "wavelengths": [2, 8, 32, 64],
        "reconfiguration": ["0s", "1us", "25us"],
        "stripe": [False, True],
        "hop_latency": ["0s", "20ns"],
    },
}
PATTERNS = {  # and how often they are drawn
    "all-reduce": 12,
    "reduce-scatter": 2,
    "all-gather": 2,
    "all-to-all": 3,
    "broadcast": 2,
    "reduce": 2,
    "gather": 1,
    "scatter": 1,
}
ALGORITHMS: Mapping[str, Choices] = {
    "auto": {},
    "bruck": {},
    "direct": {},
    "forest": {"pieces": [0, 1, 4]},
    "h-ring": {"m": [2, 4, 8]},
    "hierarchical": {
        "chunks": [1, 2, 4, 16],
        "orders": ["forward", "reverse", "opposite", "all"],
        "shares": ["balanced", "equal"],
        "steps": ["ring", "by-kind"],
        "policy": ["fifo", "smallest-first"],
        "release": ["delivered", "drained"],
    },
    "in-network": {},
    "recursive-halving-doubling": {"method": ["halving-doubling", "doubling"]},
    "ring": {"*": [{}, {"rotated": True}, {"chunks": 1}, {"chunks": 64}, {"chunks": 256}]},
    "swing": {"method": ["bandwidth", "latency"]},
    "tacos": {"chunks": [1, 2], "seeds": [2]},
    "themis": {"chunks": [4, 16, 64], "policy": ["fifo", "smallest-first"]},
    "torus-ring": {"chunks": [1, 2, 8], "shares": ["balanced", "equal"]},
    "tree": {"shape": ["binomial", "binary", "double-binary", "nodes"], "chunks": [1, 4, 16, 64, 256]},
    "wrht": {"m": [3, 5, 9], "all_to_all": [False, True]},
}
TRANSFORMER: Choices = {
    "name": ["transformer"],
    "layers": [4, 8, 16, 24],
    "hidden": [512, 1024, 2048],
    "heads": [16],
    "sequence": [128, 512],
    "vocabulary": [32000],
    "*": [  # how it is split
        *({"mp": mp, "dp": dp, "pp": pp} for mp in (1, 2, 4) for dp in (1, 2, 4, 8) for pp in (1, 2, 4))
    ][1:],
    "minibatch": [8, 16],
    "microbatches": [1, 2, 4, 8],
    "pipeline": ["1f1b", "gpipe", "zb-h1"],
    "zero_stage": [0, 0, 1, 2, 3],
    "overlap_dp": [False, True],
    "sequence_parallel": [False, True],
    "recompute": ["none", "full"],
    "tasks": ["blocks", "passes"],
}
CNN: Choices = {
    "name": ["cnn"],
    "model": ["resnet-50", "resnet-152", "vgg-16", "googlenet"],
    "dp": [2, 4, 8, 16, 32],
    "minibatch": [1, 4, 16],
    "overlap_dp": [False, True],
}
GROUPS: Choices = {
    "name": [MICROBENCHMARK],
    "pattern": [*PATTERNS],
    "size": ["1kB", "30kB", "1MB", "30MB", "1GB"],
    "ranks": [2, 4, 8, 16],
    "groups": range(1, 9),
    "layout": ["consecutive", "strided"],
    "count": range(1, 9),
}
EXPERTS: Choices = {**TRANSFORMER, "experts": [8], "ep": [2, 4], "routing": ["uniform", "zipf"]}
WORKLOADS = [TRANSFORMER] * 5 + [EXPERTS] + [CNN] * 2 + [GROUPS] * 2
SCALES = 1.0, 0.1  # of the time that an H100 computes
ITERATIONS: Choices = {
    "collectives": [
        "auto",
        {"default": ["ring", "direct"]},
        {"default": ["hierarchical", "ring", "direct"]},
        {"default": ["recursive-halving-doubling", "direct"]},
        {"default": [{"name": "tree", "shape": "double-binary"}, "direct"]},
    ],
    "placement": ["linear", "megatron", "snake"],
    "npu": [{"preset": "h100", "kernels": {"sustained": 1.0}}],
}
FRAMEWORK = Framework()


@frozen
class Case:
    """What is simulated.

    Args:
        topology: Its fields and its name.
        what: The pattern of a collective, `MICROBENCHMARK`, or `ITERATION` of a model.
        given: Of a collective the arguments of `simulate_collective`; otherwise the workload and what there is on
            its fabric.
    """

    topology: dict[str, Any]
    what: str
    given: dict[str, Any]

    def seconds(self) -> tuple[float, ...]:
        """Return how long it is `exact` and `compressed`, and an `estimate` if it is no collective."""
        if self.what in PATTERNS:
            fabric = FRAMEWORK.topology(**self.topology).build()
            runs = (FRAMEWORK.simulate_collective(fabric, self.what, fidelity=one, **self.given) for one in SIMULATED)
            return tuple(run.duration for run in runs)
        fabrics = {"it": {"topology": self.topology, **self.given["fabric"]}}
        experiment = FRAMEWORK.load_experiment({"fabrics": fabrics, "workloads": {"it": self.given["workload"]}})
        compared = (FRAMEWORK.compare(experiment, fidelity=one, strict=True) for one in FIDELITIES)
        return tuple(found.rows[0].seconds for found in compared)


def case(seed: int) -> tuple[Case, tuple[float, ...]]:
    """Return the case of a seed, and its seconds; what cannot be run is drawn again."""
    random = Random(seed)
    kind = [*KINDS][seed % len(KINDS)]
    while True:
        topology = {"name": kind, **drawn(KINDS[kind], random)}
        try:
            found = iteration(topology, random) if seed % 5 > 2 else collective(topology, random)
            return found, found.seconds()
        except InputError:
            pass


def drawn(choices: Choices, random: Random) -> dict[str, Any]:
    """Return a value for each field."""
    found: dict[str, Any] = {}
    for name, values in choices.items():
        value = random.choice(values)
        found |= value if name == "*" else {name: value}
    return found


def collective(topology: dict[str, Any], random: Random) -> Case:
    """Return a collective of 1 kB to 1 GB among all NPUs or some."""
    npus = len(FRAMEWORK.topology(**topology).build().npus)
    [pattern] = random.choices([*PATTERNS], [*PATTERNS.values()])
    algorithm = random.choice([*ALGORITHMS])
    given: dict[str, Any] = {"size": f"{10 ** random.uniform(3, 9):.0f}B", "algorithm": algorithm}
    given |= drawn(ALGORITHMS[algorithm], random)
    if random.random() < 0.4:
        some = random.randint(2, min(npus, 16))
        first = random.randrange(npus - some + 1)
        given["group"] = random.choice([[*range(first, first + some)], random.sample(range(npus), some)])
    return Case(topology, pattern, given)


def iteration(topology: dict[str, Any], random: Random) -> Case:
    """Return an iteration of a small model, or collectives in several groups at once."""
    workload = drawn(random.choice(WORKLOADS), random)
    what = MICROBENCHMARK if workload["name"] == MICROBENCHMARK else ITERATION
    scaled = {"workload": workload, "compute_scale": random.choice(SCALES)}
    return Case(topology, what, {"workload": scaled, "fabric": drawn(ITERATIONS, random)})


def command(seed: int) -> str:
    """Return the command that runs the case of a seed."""
    found, _ = case(seed)
    if found.what not in PATTERNS:
        return f"python -m benchmarks.accuracy {seed}"
    given = {"topology": found.topology["name"], **found.given}
    flags = [word for key in ("topology", "size", "algorithm") for word in (f"--{key}", str(given.pop(key)))]
    if "group" in given:
        flags += ["--group", ",".join(map(str, given.pop("group")))]
    for flag, fields in (("--set", found.topology), ("--option", given)):
        for key, value in fields.items():
            if key != "name":
                written = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
                flags += [flag, f"{key}={written}"]
    return f"fredfw collective {found.what} {shlex.join(flags)}"
