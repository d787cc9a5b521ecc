"""A task graph and its network as a file, which programs in C and C++ run through ``fredfw.h``."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from fredfw import limits
from fredfw.errors import InputError
from fredfw.fabric import AlwaysStart, Fabric, Routes, answers as fabric_answers
from fredfw.simulation import answers, engine
from fredfw.simulation.assignment import STREAMS
from fredfw.simulation.network import NATIVE, FlowNetwork
from fredfw.simulation.pricing import Pricing
from fredfw.simulation.program import Program
from fredfw.simulation.sharing import WeightedMaxMin
from fredfw.workloads import TaskGraph


def check_network(network: FlowNetwork) -> None:
    """Raise ``InputError``, keyed by slot, if an admission or a policy is asked while something runs on ``network``."""
    if type(network.admission) is not AlwaysStart:
        name = network.fabric.defaults.admission.name
        message = f"{name!r} is asked while a program runs, and a file has nobody to ask"
        raise InputError(message, key="admission", accepted="open")
    if type(network.sharing) not in NATIVE:
        message = f"{network.sharing.name!r} gives rates while a program runs, and a file has nobody to ask"
        raise InputError(message, key="sharing", accepted=", ".join(cls.name for cls in NATIVE))


def check_graph(graph: TaskGraph) -> None:
    """Raise ``InputError`` if a task of ``graph`` is a load or a store, whose memories Python serves."""
    for task in np.flatnonzero(np.isin(graph.kinds, STREAMS))[:1].tolist():
        message = f"the task {graph.names[task]!r} loads or stores, which a program in a file cannot"
        raise InputError(message, accepted="a workload without loads and stores")


def routes_of_messages(fabric: Fabric) -> Routes:
    """Return the routes of messages from each NPU to each: those of NPU 0 come first.

    Raises:
        InputError: The transport is asked what messages cost, a limit is exceeded, or the fabric has no path.
    """
    if not Pricing(fabric).ideal:
        name = fabric.defaults.transport.name
        message = f"{name!r} is asked what each message costs, and a file has nobody to ask"
        raise InputError(message, key="transport", accepted="ideal, or no routes of messages")
    npus = fabric.npus
    limits.check("flows", len(npus) ** 2)
    sources, destinations = np.repeat(npus, len(npus)), np.tile(npus, len(npus))
    try:
        return fabric_answers.route(fabric.defaults.router, fabric, sources, destinations)
    except InputError as error:
        raise error.at(key="router") from None


def written(program: Program, network: FlowNetwork, tasks: Sequence[str], routes: Routes | None) -> bytes:
    """Return the file of ``program`` on ``network``, as ``fredfw_program`` in ``fredfw.h`` says; equal ones are equal.

    Of the network ``check_network`` holds. ``tasks`` are their names, ``routes`` those of messages if it has them.
    """
    setting, _arrays = network._setting()
    labels = list(network._labels)
    view = engine.ProgramView(setting, program.struct, npus=len(network.fabric.npus), labels=len(labels))
    view.label, view.task = _texts(labels), _texts(tasks)
    if type(network.sharing) is WeightedMaxMin:
        weights = engine.reals([answers.weight(network.sharing, label) for label in labels])
        view.weight = weights.ctypes.data
    if routes is not None:
        messages = engine.View(routes)
        view.routes = messages.struct
    code = engine.library()
    content = np.empty(code.program_write(ctypes.byref(view), 0, None), dtype=np.uint8)
    code.program_write(ctypes.byref(view), len(content), content.ctypes.data)
    return content.tobytes()


def _texts(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    # A trace may name a task by text that is none, such as half a surrogate pair.
    return (ctypes.c_char_p * len(texts))(*(text.encode(errors="backslashreplace") for text in texts))
