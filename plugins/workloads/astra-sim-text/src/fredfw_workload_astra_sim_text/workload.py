"""The workload ``astra-sim-text``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

from attrs import frozen

from fredfw import DeviceMesh, File, GraphBuilder, Label, System, TaskGraph, Workload, units
from fredfw.errors import InputError
from fredfw_workload_astra_sim_text import parsing
from fredfw_workload_astra_sim_text.schedule import DATA, EXPERT, MODEL, STAGES, Schedule

_GROUPED = ("HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA")
_read = lru_cache(maxsize=4)(parsing.read)


@frozen
class AstraSimText(Workload):
    """The text workload of ASTRA-sim 1.0 and SimAI: layers with times of computation, collectives and their bytes.

    Every rank does the same. Times are in ``time_unit``, nanoseconds by default, as ASTRA-sim 1.0 has them. There are
    as many ranks as ``all_gpus`` of the file says, or else as there are NPUs. The size of an all-gather is the share of
    one rank. After each collective comes the time of the update.
    """

    name: ClassVar[str] = "astra-sim-text"

    file: File = units.file(help="the text: a keyword of parallelism, the number of layers, a line for each")
    passes: int = units.count(1, help="iterations, one after the other")
    time_unit: float = units.duration("1 ns", help="unit of the times in the file")
    ranks: int | None = units.count(None, help="ranks; default: all_gpus of the file, or as many as there are NPUs")
    model_group: int | None = units.count(
        None, help="ranks that split a layer; default: model_parallel_NPU_group of the file"
    )

    def mesh(self, system: System) -> DeviceMesh:
        """Return those that split layers as MP, the innermost axis, then experts (EP), data (DP) and stages (PP).

        Raises:
            InputError: The ranks cannot be split so, or the file does not say how.
        """
        text = _read(self.file)
        values = text.values
        ranks = self.ranks or values.get("all_gpus") or system.npus
        policies = {text.policy, *(layer.policy for layer in text.layers)}
        if (grouped := policies.intersection(_GROUPED)) and self.model_group is None:
            message = f"{min(grouped)} splits ranks by the first dimension of the network, which the file does not give"
            raise InputError(message, file=self.file.path, key="model_group", accepted="the ranks that split a layer")
        model = self.model_group or values.get("model_parallel_NPU_group") or 1
        experts, stages = values.get("ep") or 1, values.get("pp") or 1
        if ranks % (model * experts * stages):
            message = f"{ranks} ranks cannot be split in {model} x {experts} x {stages}"
            raise InputError(message, file=self.file.path, accepted="a multiple of the model's group, ep and pp")
        data = ranks // (model * experts * stages)
        return DeviceMesh({MODEL: model, EXPERT: experts, DATA: data, STAGES: stages})

    def labels(self, system: System) -> Mapping[str, Label]:
        """See ``Workload.labels``; activations come before gradients of weights."""
        del system
        return {MODEL: Label(0, "#D55E00"), EXPERT: Label(1), DATA: Label(2, "#E69F00")}

    def graph(self, system: System) -> TaskGraph:
        """See ``Workload.graph``."""
        mesh = self.mesh(system)
        return Schedule(_read(self.file), mesh, self.time_unit, GraphBuilder(mesh.ranks)).graph(self.passes)

    def omissions(self, system: System) -> tuple[str, ...]:
        """See ``Workload.omissions``."""
        stages = self.mesh(system).size(STAGES)
        return (f"messages between the {stages} pipeline stages are not in the file",) if stages > 1 else ()

    def notes(self, system: System) -> tuple[str, ...]:
        """See ``Workload.notes``."""
        del system
        text = _read(self.file)
        others = len(text.layers) - 1
        if text.policy != "MICRO" or not others:
            return ()
        return (f"MICRO runs the first layer alone; {others} more are passed over",)
