"""What the fidelities mean on a network, and what a reader of results must know of them."""

from __future__ import annotations

import numpy as np

from fredfw.fidelities import COMPRESSED, EXACT, RENDEZVOUS, STEPWISE
from fredfw.simulation import engine
from fredfw.simulation.answers import rendezvous
from fredfw.simulation.network import FlowNetwork
from fredfw.workloads import TaskGraph


def possible(fidelity: str, network: FlowNetwork) -> str:
    """Return ``fidelity``, or the next closer one where ``network`` cannot simulate repetitions as one."""
    return STEPWISE if fidelity == COMPRESSED and network.dynamics is not None else fidelity


def way_of(fidelity: str, network: FlowNetwork) -> int:
    """Return how the engine runs schedules with ``fidelity`` on ``network``, see ``fredfw.simulation.engine``."""
    if goes_rank_by_rank(fidelity, network):
        meets = fidelity == RENDEZVOUS or rendezvous(network.fabric.defaults.transport)
        return engine.RENDEZVOUS if meets else engine.BY_RANK
    return engine.COMPRESSED if possible(fidelity, network) == COMPRESSED else engine.STEPWISE


def is_exact(fidelity: str) -> bool:
    """Return whether ranks of a group need not wait for each other."""
    return fidelity in (EXACT, RENDEZVOUS)


def goes_rank_by_rank(fidelity: str, network: FlowNetwork) -> bool:
    """Return whether ranks of a group do not wait for each other on ``network``, which may admit phases as a whole."""
    return is_exact(fidelity) and network.admission.flow_by_flow


def block_notes(graph: TaskGraph, fidelity: str) -> tuple[str, ...]:
    """Return what a reader of results must know: which repeated blocks a compressed simulation may have too slow.

    Ranks that do not do all tasks of a block could be in different repetitions of it at once, as in a pipeline. Jobs
    that meet on links would meet at other moments.
    """
    if fidelity != COMPRESSED:
        return ()
    found = []
    repeated = np.flatnonzero(graph.repeats > 1)
    for block in np.unique(graph.blocks[repeated]).tolist():
        tasks = repeated[graph.blocks[repeated] == block]
        everybody = graph.participants(int(tasks[0]))
        if not all(np.array_equal(graph.participants(int(task)), everybody) for task in tasks):
            first, last = graph.names[int(tasks[0])], graph.names[int(tasks[-1])]
            found.append(
                f"the {graph.repeats[tasks[0]]} repetitions of the tasks {first!r} to {last!r} are simulated as one: "
                "no rank begins a repetition while another is at the one before; the fidelity stepwise lets them"
            )
    if len(repeated) and (graph.jobs != graph.jobs[0]).any():
        found.append(
            "jobs run beside each other, and repetitions of their tasks are simulated as one, so they meet on links at "
            "other moments than step by step; the fidelity stepwise tells how much that is"
        )
    return tuple(found)


def notes(fidelity: str, network: FlowNetwork) -> tuple[str, ...]:
    """Return what a reader of results must know: where something else was simulated than ``fidelity`` says."""
    if possible(fidelity, network) != fidelity:
        name = network.sharing.name
        return (
            f"rates of the sharing {name!r} change in time, so {fidelity} was simulated {STEPWISE}: each repetition on "
            "its own, and no rates were remembered",
        )
    if not is_exact(fidelity) or network.admission.flow_by_flow:
        return ()
    return (
        f"{network.fabric.name!r} admits phases as a whole, so {fidelity} simulated its collectives stepwise: each "
        "repetition, with a barrier in its group",
    )
