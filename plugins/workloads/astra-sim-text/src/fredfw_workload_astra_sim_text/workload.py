"""The workload ``astra-sim-text``."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import ClassVar

import numpy as np
from attrs import Factory, define, frozen

from fredfw import DeviceMesh, File, GraphBuilder, Label, Pattern, System, TaskGraph, Workload, units
from fredfw.errors import InputError
from fredfw.typing import IntArray
from fredfw_workload_astra_sim_text import parsing
from fredfw_workload_astra_sim_text.parsing import Layer, Phase, Text

MODEL, EXPERT, DATA, STAGES = "mp", "ep", "dp", "pp"
LAST_BOTTOM = "DLRM_LAST_BOTTOM_LAYER"
_TRANSFORMERS = ("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD")
_DLRM = ("HYBRID_DLRM", "HYBRID_DLRM_ENHANCED")
_ALL_DATA = ("DATA", "MICRO", *_DLRM)
_ALL_MODEL = ("MODEL", "DISTRIBUTED_INFERENCE")


@define
class Schedule:
    """Adds the tasks of passes over the layers; every rank does the same."""

    text: Text
    mesh: DeviceMesh
    unit: float  # seconds of a unit of time in the file
    builder: GraphBuilder  # where the tasks go
    after: list[int] = Factory(list)  # what the next computation waits for
    weights: dict[int, int] = Factory(dict)  # the last task of each layer's collective of weight gradients

    def graph(self, passes: int) -> TaskGraph:
        for _ in range(passes):
            if self.text.policy == "MICRO":
                first = self.text.layers[0]
                self._call("weights", first, first.weights, ())
                continue
            if self.text.policy in _DLRM:
                self._dlrm()
                continue
            for number in range(len(self.text.layers)):
                self._forward(number)
            if self.text.policy != "DISTRIBUTED_INFERENCE":
                for number in reversed(range(len(self.text.layers))):
                    self._backward(number)
        return self.builder.build()

    def _forward(self, number: int) -> None:
        layer = self.text.layers[number]
        if number in self.weights:
            self.after.append(self.weights.pop(number))
        self._compute("forward", layer, layer.forward)
        self._wait(self._call("forward", layer, layer.forward, self.after))

    def _backward(self, number: int) -> None:
        layer, policy = self.text.layers[number], self.text.policy
        if policy == "DATA":
            self._weights(number)
            if number:
                self._compute("inputs", layer, layer.inputs)
            return
        if number in self.text.restarts:
            for again in range(max((one for one in self.text.checkpoints if one <= number), default=0), number):
                self._forward(again)
        self._compute("inputs", layer, layer.inputs)
        blocking = policy in _TRANSFORMERS
        done = self._call("inputs", layer, layer.inputs, self.after) if blocking or number else None
        if blocking:
            self._wait(done)
        self._weights(number)
        if not blocking:
            self._wait(done, beside=True)

    def _weights(self, number: int) -> None:
        layer = self.text.layers[number]
        self._compute("weights", layer, layer.weights)
        done = self._call("weights", layer, layer.weights, self.after)
        if done is not None:
            self.weights[number] = done

    def _dlrm(self) -> None:
        """Add a pass in which the all-to-all of the embeddings runs beside the bottom layers."""
        layers, last = self.text.layers, self.text.values.get(LAST_BOTTOM, len(self.text.layers) - 1)
        forward: dict[int, int | None] = {}
        inputs: dict[int, int | None] = {}
        for number, layer in enumerate(layers):
            if number in self.weights:
                self.after.append(self.weights.pop(number))
            self._compute("forward", layer, layer.forward)
            if layer.forward.pattern is Pattern.ALL_TO_ALL:
                forward[number] = self._call("forward", layer, layer.forward, self.after)
            elif number == last:
                self._wait(forward.get(0), beside=True)
        for number, layer in reversed(list(enumerate(layers))):
            self._weights(number)
            if self.text.policy == "HYBRID_DLRM":
                self._wait(inputs.get(number), beside=True)
            if number:
                self._compute("inputs", layer, layer.inputs)
                if number == last + 1:
                    inputs[0] = self._call("inputs", layers[0], layers[0].inputs, self.after)

    def _wait(self, task: int | None, *, beside: bool = False) -> None:
        """Make what follows wait for ``task``, which waits for all before it unless it runs ``beside`` that."""
        if task is not None:
            self.after = [*self.after, task] if beside else [task]

    def _compute(self, phase: str, layer: Layer, what: Phase) -> None:
        if what.time:
            ranks = np.arange(self.mesh.ranks)
            task = self.builder.compute(f"{layer.name} {phase}", ranks, seconds=what.time * self.unit, after=self.after)
            self.after = [task]

    def _call(self, phase: str, layer: Layer, call: Phase, after: Iterable[int]) -> int | None:
        """Add a collective and the update after it; return the last task, ``None`` where there is none."""
        found = self._group(phase, layer, call)
        if found is None or call.pattern is None:
            return None
        label, table = found
        size = call.size * (table.shape[1] if call.pattern is Pattern.ALL_GATHER else 1)
        name = f"{layer.name} {phase} {call.pattern}"
        task = self.builder.collective(name, call.pattern, table, size, label=label, after=after)
        if layer.update:
            ranks = np.arange(self.mesh.ranks)
            task = self.builder.compute(f"{name} update", ranks, seconds=layer.update * self.unit, after=[task])
        return task

    def _group(self, phase: str, layer: Layer, call: Phase) -> tuple[str, IntArray] | None:
        """Return the label and the groups of a collective; ``None`` where ASTRA-sim has no dimension for it."""
        policy, everybody = layer.policy, np.arange(self.mesh.ranks)[None, :]
        if policy in _DLRM and layer is self.text.layers[0]:
            return (DATA if phase == "weights" else MODEL), everybody
        if policy in _ALL_DATA:
            return (DATA, everybody) if phase == "weights" else None
        if policy in _ALL_MODEL:
            return (MODEL, everybody) if phase != "weights" else None
        if policy in _TRANSFORMERS and call.group:
            return EXPERT, self.mesh.groups(EXPERT if call.group == "EP" else DATA)
        inner, outer = self.mesh.groups(MODEL), self.mesh.groups(EXPERT, DATA)
        if policy == "HYBRID_MODEL_DATA":  # its data group varies fastest
            inner, outer = outer, inner
        return (DATA, outer) if phase == "weights" else (MODEL, inner)


_GROUPED = ("HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA")
_read = lru_cache(maxsize=4)(parsing.read)


@frozen
class AstraSimText(Workload):
    """The text workload of ASTRA-sim 1.0 and SimAI: layers with times of computation, collectives and their bytes.

    Every rank does the same. Times are in ``time_unit``. There are as many ranks as ``all_gpus`` of the file says, or
    else as NPUs. The size of an all-gather is one rank's share. After each collective comes the time of the update.
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
        """Return those that split layers as MP, the innermost axis, then experts (EP), data (DP) and stages (PP)."""
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
        return DeviceMesh({MODEL: model, EXPERT: experts, DATA: ranks // (model * experts * stages), STAGES: stages})

    def labels(self, system: System) -> Mapping[str, Label]:
        """See ``Workload.labels``; activations come before gradients of weights."""
        return {MODEL: Label(0, "#D55E00"), EXPERT: Label(1), DATA: Label(2, "#E69F00")}

    def graph(self, system: System) -> TaskGraph:
        mesh = self.mesh(system)
        return Schedule(_read(self.file), mesh, self.time_unit, GraphBuilder(mesh.ranks)).graph(self.passes)

    def omissions(self, system: System) -> tuple[str, ...]:
        stages = self.mesh(system).size(STAGES)
        return (f"messages between the {stages} pipeline stages are not in the file",) if stages > 1 else ()

    def notes(self, system: System) -> tuple[str, ...]:
        text = _read(self.file)
        others = len(text.layers) - 1
        if text.policy != "MICRO" or not others:
            return ()
        return (f"MICRO runs the first layer alone; {others} more are passed over",)
