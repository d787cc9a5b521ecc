"""Mutations of valid input, by a seeded generator: experiments, command lines, stored results."""

import copy
import random
import tomllib
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False),
    *(0, 1, -1, 2, 3, 7, 10**5, 10**9, 2**31 - 1, 2**63 - 1, 2**63, 10**40, 10**400),
    *(0.0, -0.5, 0.5, 1.5, 1e-308, 5e-324, 1e22, 1e308, float("inf"), float("nan")),
    *("", " ", "\x00", "a\x00b", "a" * 5000, "größer", "\u202e", "half \ud83d", "{x}", "..", "/"),
    *("auto", "ring", "direct"),
    *("1 GB", "1e-300 B/s", "1e308 GB/s", "1e99 B", "1e99 B/s", "1e-99 B/s", "5 s", "0 B", "-1 GB", "1e999 B"),
    *([], [0], [1, 2, 3], [1] * 100, [[1]], ["a", "b"]),
    *({}, {"name": "ring"}, {"name": "mesh2d", "rows": 2}, {"a": {"b": {"c": 1}}}),
)

# Two experiments; lines that end in a backslash go on.
_TEXTS = """
title = "fuzzed"
baseline = "mesh"
npu = { peak = "400 TFLOP/s", memory_bandwidth = "3 TB/s", memory = "80 GB", efficiency = 0.5 }
priorities = ["mp", "pp", "dp"]
fidelity = "compressed"
fabrics.mesh.topology = { name = "mesh2d", rows = 2, columns = 3, link_bandwidth = "500 GB/s" }
fabrics.mesh.router = "xy"
fabrics.mesh.sharing = "strict-links"
fabrics.mesh.placement = "snake"
fabrics.mesh.collectives = { selection = "fastest", \
  all-reduce = [{ name = "hierarchical", chunks = 2, orders = "opposite" }, "ring"], default = "direct" }
fabrics.fred.topology = { name = "fred", arity = [2, 3], io_controllers = 2, middle_switches = 2, \
  on_conflict = "decompose", bandwidths = ["1 TB/s", "2 TB/s"] }
fabrics.fred.placement = { name = "routable", exchanges = 5, seed = 1 }
fabrics.fred.collectives = { default = "in-network" }
workloads.training.workload = { name = "transformer", layers = 2, hidden = 64, sequence = 32, heads = 4, \
  vocabulary = 100, mp = 2, dp = 1, pp = 2, global_batch = 4, microbatches = 2, overlap_dp = true }
workloads.training.compute_scale = 0.5
workloads.training.calibration = { fabric = "fred", speedup = 1.2 }
workloads.gradients.workload = { name = "microbenchmark", size = "1 MB", ranks = 3, groups = 2, layout = "strided" }
references = [{ workload = "training", fabric = "fred", speedup = 1.3, source = "nowhere" }]
---
fabrics.torus.topology = { name = "torus", dimensions = [2, 2], link_bandwidth = ["10 GB/s", "20 GB/s"] }
fabrics.torus.collectives = { all-reduce = { name = "torus-ring", chunks = 2 }, default = "direct" }
fabrics.optical.topology = { name = "optical-ring", npus = 6, wavelengths = 4, line_rate = "40 Gbps", \
  pay = "on-change", hop_latency = "5 ns", stripe = true, laser_power = 10.0, receiver_sensitivity = -20.0 }
fabrics.optical.collectives = { all-reduce = [{ name = "wrht", m = 3 }, "ring"], default = "direct" }
fabrics."{npus} in a tree".topology = { name = "fat-tree", radix = 4, levels = 2, routing = "ecmp", \
  oversubscription = 1.0 }
fabrics."{npus} in a tree".sweep = { npus = [4, 6] }
fabrics."{npus} in a tree".collectives = { all-reduce = { name = "tree", shape = "double-binary", chunks = 2 } }
fabrics.nodes.topology = { name = "cluster", preset = "dgx-a100", nodes = 2, \
  node = { name = "switch", npus = 2, link_latency = "50 ns" }, nics = 1, nic = "200 Gbps", pcie = "24 GB/s", \
  pcie_npus = 2, network = "rail-only", rails = 1, radix = 8, oversubscription = 1.0 }
fabrics.nodes.collectives = { all-reduce = "hierarchical", default = "direct" }
fabrics.full.topology = { name = "fully-connected", npus = 4, link_latency = "1 us" }
fabrics.full.collectives = "auto"
workloads."{size}".workload = { name = "microbenchmark", pattern = "all-reduce", ranks = 4, stride = 1 }
workloads."{size}".sweep = { size = ["100 kB", "1 MB"] }
workloads.cnn.workload = { name = "cnn", model = "alexnet", dp = 4, overlap_dp = true, bucket = "10 MiB" }
savings = [{ name = "saved", of = "optical", over = "torus", by = ["size"], workloads = ["{size}"] }]
"""
_BASE = [tomllib.loads(text) for text in _TEXTS.split("---")]

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("collective", "all-reduce", "--topology", "mesh2d", "--set", "rows=2", "--set", "columns=2", "--size", "1MB"),
    ("collective", "all-to-all", "--topology", "switch", "--set", "npus=4", "--size", "8", "--algorithm", "ring"),
    ("collective", "all-reduce", "--topology", "torus", "--set", "dimensions=2,2", "--sizes", "1kB:1MB:x10"),
    ("collective", "broadcast", "--topology", "switch", "--group", "0-3", "-b", "8", "-e", "8K", "-f", "32"),
    ("collective", "reduce", "--topology", "fred", "--algorithm", "tree", "--option", "chunks=2", "--root", "1"),
    ("compare", "good.toml", "--json", "-"),
    ("compare", "good.toml", "--set", "fabrics.f.topology.npus=3", "--csv", "out.csv"),
    ("run", "good.toml", "--json", "out.json.gz", "--fidelity", "exact"),
    ("cells", "good.toml"),
    ("merge", "good.toml", "store", "--json", "-"),
    ("calibrate", "good.toml"),
    ("plugins", "list", "--json", "--kind", "router"),
    ("plugins", "show", "mesh2d"),
    ("--limit", "cells=5", "--log-level", "debug", "cells", "good.toml"),
    ("--plugin", "own.py", "plugins", "list"),
    ("fred", "draw", "--m", "3", "--ports", "6", "--flows", "0,1:2", "-"),
    ("fred", "check-routing", "--npus", "4", "--group", "2"),
    ("fred", "hardware", "--set", "arity=2,2"),
)
TEXTS = (
    *("", " ", "-", "--", "=", ":", ",", "0", "-1", "1e9", "1e308", "1e-320", "1000000000", str(2**63), "9" * 400),
    *("nan", "inf", "a\x00b", "x" * 5000, "größer", "\udcff.toml", "\x1b[31m", "..", "/", "/nowhere/at/all"),
    *("good.toml", "1:1e308:x1.0001", "1e300:1.7e308:x2", "1 GB", "0-999999999", "cells=1e9", "rows=1e9", "a.b.c=1"),
    *("[1,", "{", "\n"),
)


class Mutator:
    """Makes damaged input, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def experiment(self) -> dict[str, Any]:
        content = copy.deepcopy(self.random.choice(_BASE))
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            self._change(content, *self.random.choice(_places(content)))
        return content

    def stored(self, store: bytes) -> bytes:
        data = bytearray(store)
        for _ in range(self.random.randint(1, 8)):
            data[self.random.randrange(len(data))] = self.random.randrange(256)
        return bytes(data[: self.random.choice((None, None, self.random.randrange(len(data))))])

    def command(self) -> list[str]:
        words = list(self.random.choice(COMMANDS))
        for _ in range(self.random.randint(1, 3)):
            place = self.random.randrange(len(words)) if words else 0
            action = self.random.randrange(5)
            if action == 0:
                words[place : place + 1] = []
            elif action == 1:
                words.insert(place, self.random.choice(TEXTS))
            elif action == 2:
                words[place : place + 1] = [self.random.choice(self.random.choice(COMMANDS))]
            elif words:
                name, equals, _ = words[place].rpartition("=")
                words[place] = name + equals + self.random.choice(TEXTS)
        return words

    def _change(self, content: Any, table: Any, key: Any) -> None:
        action = self.random.randrange(8)
        if action == 0:
            del table[key]
        elif action == 1 and isinstance(table, dict):
            table[self.random.choice((*table, "name", "unknown", "a b", "größer", ""))] = table.pop(key)
        elif action == 2:  # the value of another place
            other, where = self.random.choice(_places(content))
            table[key] = copy.deepcopy(other[where])
        elif action == 3 and isinstance(table[key], int | float) and not isinstance(table[key], bool):
            table[key] = _scaled(table[key], self.random.choice((0, -1, 2, 10, 1e3, 1e9, 1e-9, 1e300)))
        elif action == 4:
            for _ in range(self.random.choice((1, 3, 50))):
                table[key] = [table[key]] if self.random.random() < 0.5 else {"name": table[key]}
        else:
            kinds = (int, float) if isinstance(table[key], int | float) else type(table[key])
            alike = [one for one in VALUES if action > 5 or isinstance(one, kinds)]
            table[key] = copy.deepcopy(self.random.choice(alike))


def _scaled(value: float, factor: float) -> float:
    try:
        scaled = value * factor
        return int(scaled) if isinstance(value, int) else scaled
    except OverflowError:
        return 10**300


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Return every (table or list, key) of ``content``."""
    found: list[tuple[Any, Any]] = []
    pending = [content]
    while pending:
        table = pending.pop()
        for key in table if isinstance(table, dict) else range(len(table)):
            found.append((table, key))
            if isinstance(table[key], dict | list):
                pending.append(table[key])
    return found or [({"": None}, "")]
