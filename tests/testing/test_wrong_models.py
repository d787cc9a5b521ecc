"""Plugins of other kinds that are wrong on purpose: the kit finds each and says what to mend."""

import math
import random
from collections.abc import Sequence
from copy import deepcopy
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import define, evolve, frozen
from kit import changed, found

from fredfw import Exporter, Pattern, RunResult, Sampler, Search, SearchSpace, Told, Trial, units
from fredfw.errors import UnsupportedError
from fredfw.experiment.results import Comparison
from fredfw.fabric import Call, Costs, Fabric, Transport
from fredfw.testing.conformance import Case
from fredfw.testing.exporter import ExporterCase, results
from fredfw.testing.models import PlacementCase, SamplerCase, TransportCase
from fredfw.testing.workload import WorkloadCase
from fredfw.typing import IntArray
from fredfw.workloads import DeviceMesh, GraphBuilder, MemoryUse, Placement, System, TaskGraph, Work, Workload


@frozen
class Steps(Workload):
    """Computation and an all-reduce, with one fault or none."""

    name: ClassVar[str] = "steps"
    dp: int = units.option(4, validator=units.whole(1), help="workers")
    fault: str = units.option("none", help="which")

    def mesh(self, system: System) -> DeviceMesh:
        return DeviceMesh({"dp": self.dp})

    def memory(self, system: System) -> MemoryUse:
        return MemoryUse(weights=-1.0 if self.fault == "memory" else 1e9)

    def work(self, system: System) -> Work:
        if self.fault == "work":
            return {"samples": 8}  # type: ignore[return-value]  # wrong on purpose
        samples = {"negative work": -1.0, "more samples": 8 * self.dp, "moody work": float(np.random.random())}
        return Work(samples.get(self.fault, 8), tokens=64)

    def notes(self, system: System) -> tuple[str, ...]:
        return "a note" if self.fault == "notes" else ("a note",)  # type: ignore[return-value]  # wrong on purpose

    def graph(self, system: System) -> TaskGraph:
        workers = self.dp - (self.fault == "idle")
        builder = GraphBuilder(self.dp + (self.fault == "ranks"))
        everybody = np.arange(workers)
        share = 1.0 if self.fault == "copies" else 1 / workers
        seconds = float(np.random.random()) if self.fault == "moody" else None
        with builder.repeated(3):
            first = builder.compute("layer", everybody, flops=1e12 * share, bytes=1e9 * share, seconds=seconds)
        builder.collective("sum", Pattern.ALL_REDUCE, everybody[None, :], 1e9, label="dp", after=[first])
        graph = builder.build()
        if self.fault == "circle":
            return evolve(graph, dependency_offsets=np.array([0, 1, 2]), dependencies=np.array([1, 0]))
        if self.fault == "negative":
            return evolve(graph, flops=-graph.flops)
        return graph


def test_work_that_is_not_conserved_and_a_workload_that_needs_more() -> None:
    for fault, conserved, expected in (
        # Three repetitions of 1e12 FLOP on each of four workers, and of two.
        ("copies", "flops", "has 1.2e+13 flops in all, steps(dp=2, fault='copies') has 6e+12; they are to do the same"),
        ("none", "mp", "nothing is called 'mp' in steps; conserved= may have bytes, dp, flops, samples, tokens"),
        ("more samples", "samples", "has 32 samples in all"),
    ):
        case = WorkloadCase(subject=Steps(4, fault), splits=[Steps(2, fault)], conserved=[conserved])
        assert expected in found(case, "work_is_conserved")
    message = found(WorkloadCase(subject=Steps(17)), "workers_fit_the_system")
    assert message == "there are 17 workers for 16 NPUs; give a larger system="


@frozen
class Wrong(Placement):
    """NPU order, with one fault."""

    name: ClassVar[str] = "wrong"
    fault: str = units.option("none", help="which")

    def order(self, fabric: Fabric, mesh: DeviceMesh) -> IntArray:
        order = np.arange(len(fabric.npus))
        wrong = {"beyond": order + 1, "few": order[: mesh.ranks - 1], "moody": np.random.permutation(order)}
        return wrong.get(self.fault, order) if self.fault != "twice" else np.append(order[:-1], order[0])

    def assign(self, fabric: Fabric, mesh: DeviceMesh) -> IntArray:
        if self.fault == "any":
            return self.order(fabric, mesh)
        return super().assign(fabric, mesh)


_COUNTER = count()


@frozen
class Priced(Transport):
    """Costs with one fault or none."""

    name: ClassVar[str] = "priced"
    fault: str = units.option("none", help="which")

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        if self.fault == "refuses" or (self.fault == "speechless" and call.ranks == 3):
            raise UnsupportedError("not this one" if self.fault == "refuses" else " ")
        wrong = {
            "negative": Costs(step=-1.0 if call.size == 1 else 1.0),
            "endless": Costs(launch=math.inf),
            "tiers": Costs(step=(1.0, 2.0)),
            "drifts": Costs(launch=float(next(_COUNTER))),
            "hash": Costs(launch=float(hash(call.pattern) % 1000)),
        }
        right = Costs(launch=1e-6, step=1e-6 * call.nodes, efficiency=0.5 if call.size < 1e6 else 1.0)
        return wrong.get(self.fault, right)


@frozen
class Everything(Sampler):
    """All points, with one fault or none."""

    name: ClassVar[str] = "everything"
    fault: str = units.option("none", help="which")

    def start(self, space: SearchSpace) -> Search:
        return AtOnce(self.fault, len(space))


@define
class AtOnce(Search):
    fault: str
    size: int
    asked: bool = False
    fitting: bool = False

    def ask(self) -> Sequence[Trial]:
        if self.fault == "endless" or (self.fault == "stubborn" and self.asked and not self.fitting):
            return [Trial(0)]
        if self.fault == "beyond":
            return [Trial(self.size)]
        if self.fault == "idle" or self.asked:
            return []
        once = {"drifts": next(_COUNTER), "chance": random.randrange(self.size), "hash": hash("fredfw")}
        return [Trial(once[self.fault] % self.size)] if self.fault in once else list(map(Trial, range(self.size)))

    def tell(self, told: Sequence[Told]) -> None:
        self.asked = True
        self.fitting = any(one.feasible for one in told)
        if self.fault == "needy":
            min(one.losses for one in told if one.losses is not None)


# By the case and the plugin that it is of: the fault, the check that finds it, and what that says.
WRONG: dict[tuple[Any, Any], list[tuple[str, str, str]]] = {
    (WorkloadCase, Steps): [
        ("circle", "is_acyclic", "task 0 ('layer') depends on task 1, which does not come before it; add tasks with"),
        ("ranks", "workers_fit_the_system", "mesh() says 4 workers, graph() has 5 ranks"),
        ("idle", "all_ranks_take_part", "rank 3 has no part in any task (in all, 1 of 4 ranks)"),
        ("negative", "amounts_are_not_negative", "task 0 ('layer') has flops -250000000000.0; finite, and not negat"),
        ("memory", "memory_is_not_negative", "memory() of 'steps' returned weights of -1.0; expected bytes"),
        ("work", "work_and_notes_are_well_formed", "'steps' returned {'samples': 8}; expected a fredfw.Work or None"),
        ("negative work", "work_and_notes_are_well_formed", "samples: -1.0 is too small"),
        ("moody work", "work_and_notes_are_well_formed", "asked twice, it says Work(samples=0."),
        ("notes", "work_and_notes_are_well_formed", "'steps' returned 'a note'; expected a tuple of texts"),
        ("moody", "is_deterministic", "; it may depend on the fields and the system alone"),
    ],
    (PlacementCase, Wrong): [
        ("twice", "no_npu_is_used_twice", "order() of 'wrong' returned NPU 0 twice; expected every NPU at most once"),
        ("beyond", "no_npu_is_used_twice", "order() of 'wrong' returned NPU 8; expected NPUs 0 to 7"),
        ("few", "no_npu_is_used_twice", "order() of 'wrong' returned 0 NPUs; expected 1 or more, one for each rank"),
        ("moody", "is_deterministic", "on torus of 3x3: asked twice, where workers go is ["),
        ("any", "too_many_workers_are_refused", "DP(9) is placed on star of 8 all the same; leave that to"),
    ],
    (TransportCase, Priced): [
        ("negative", "costs_can_be_used", "returned step -1.0"),
        ("endless", "costs_can_be_used", "returned launch inf"),
        ("tiers", "costs_can_be_used", "returned step"),
        ("refuses", "some_calls_have_costs", "are refused"),
        ("speechless", "refusals_have_reasons", "is refused without a reason"),
        ("drifts", "is_deterministic", "asked twice, what it costs is Costs("),
        ("hash", "is_the_same_in_another_process", "what it costs differs in another process"),
    ],
    (SamplerCase, Everything): [
        ("endless", "asks_for_points", "it must end"),
        ("beyond", "asks_for_points", "asks for the point 1; expected the number of a point, from 0 to 0"),
        ("idle", "asks_for_points", "asks for none"),
        ("stubborn", "ends_where_nothing_fits", "it must end"),
        ("needy", "ends_where_nothing_fits", "tell"),
        ("drifts", "is_deterministic", "a search of 26 points: asked twice, what it asks for is [Trial("),
        ("chance", "is_deterministic", "what was told is kept in the Search, not in the Sampler"),
        ("hash", "is_the_same_in_another_process", "what it asks for differs in another process"),
    ],
}


@pytest.mark.parametrize(
    ("case", "check", "expected"),
    [
        (case(subject=subject(fault=fault)), check, expected)
        for (case, subject), rows in WRONG.items()
        for fault, check, expected in rows
    ],
    ids=str,
)
def test_wrong_ones_are_found(case: Case[Any], check: str, expected: str) -> None:
    assert expected in found(case, check)


@frozen
class Seconds(Exporter):
    """The seconds of each cell, one a line; with one fault or none."""

    name: ClassVar[str] = "seconds"
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)

    fault: str = units.option("none", help="which")

    def export(self, result: RunResult | Comparison) -> str | bytes:
        match self.fault:
            case "nothing":
                return None  # type: ignore[return-value]  # wrong on purpose
            case "surrogate":
                return "half a \ud800"
            case "shuffled":
                return " ".join({f"label {number}" for number in range(20)})
            case "refuses":
                raise UnsupportedError("never")
            case "mute" if isinstance(result, RunResult):
                raise UnsupportedError(" ")
            case "runs" if isinstance(result, Comparison):
                raise UnsupportedError("one cell only")
            case "moody":
                return str(np.random.random())
            case "spoils" if isinstance(result, RunResult):
                result.link_bytes[:] += 1
            case "writes" if isinstance(result, RunResult):
                result.breakdown["compute"] = 0.0
        rows = [result] if isinstance(result, RunResult) else result.rows
        return "".join(f"{row.seconds!r}\n" for row in rows)


@frozen
class Folder(Seconds):
    """Several files, with one fault or none."""

    directory: ClassVar[bool] = True

    def export(self, result: RunResult | Comparison) -> Any:
        wrong = {"outside": {"../all.txt": ""}, "none of them": {}, "number": {"a.txt": 1}, "one": "text"}
        return wrong.get(self.fault, {"a.txt": Seconds.export(self, result), "b.txt": b""})


@pytest.mark.slow  # the first case makes results of all kinds
@pytest.mark.parametrize(
    ("exporter", "check", "expected"),
    [
        (Seconds("nothing"), "gives_text_or_bytes", "'seconds' returned None; expected text or bytes"),
        (Seconds("refuses"), "gives_text_or_bytes", "every result is refused; give results= that it exports"),
        (Seconds("surrogate"), "gives_text_or_bytes", "of a RunResult, the text cannot be written as UTF-8: surrog"),
        (changed(Seconds, takes=("run", "picture")), "takes_are_kinds", "takes are ('run', 'picture'); a tuple of one"),
        (Folder("outside"), "gives_text_or_bytes", "names a file '../all.txt'; expected the name of a file, without"),
        (Folder("none of them"), "gives_text_or_bytes", "returned {}; expected a table of files, by name"),
        (Folder("number"), "gives_text_or_bytes", "returned 1 for 'a.txt'; expected text or bytes"),
        (Folder("one"), "gives_text_or_bytes", "returned 'text'; expected a table of files, by name"),
        (Seconds("mute"), "refusals_have_reasons", "a RunResult is refused without a reason"),
        (changed(Seconds, suffixes=("txt",)), "suffixes_are_endings", "suffixes are ('txt',); a tuple of endings wi"),
        (Seconds("moody"), "is_deterministic", "a Comparison: asked twice, the content is "),
        (Seconds("shuffled"), "is_the_same_in_another_process", "the content differs in another process"),
        (Seconds("spoils"), "result_is_left_alone", "export() changes the RunResult that it is given; copy what"),
        (Seconds("writes"), "result_is_left_alone", "export() changes the RunResult that it is given; copy what"),
    ],
)
def test_wrong_exporters(exporter: Exporter, check: str, expected: str) -> None:
    # Some write on what they are given, which other tests share.
    assert expected in found(ExporterCase(subject=exporter, results=deepcopy(results())), check)
