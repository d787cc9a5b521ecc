"""What the fidelities mean on a network, which one a run has, and what a reader of results must know of them."""

from collections.abc import Iterable

import numpy as np
from attrs import frozen

from fredfw import limits
from fredfw.collectives import Pattern
from fredfw.fidelities import COMPRESSED, EXACT, RENDEZVOUS, STEPWISE
from fredfw.simulation import engine
from fredfw.simulation.answers import transport_flag
from fredfw.simulation.network import FlowNetwork
from fredfw.units import Unit, render
from fredfw.workloads import TaskGraph, TaskKind

_SECONDS, _BYTES = 5e-7, 10  # what the engine needs for a transfer, on a core, see docs/scale.md
_MESSAGES = TaskKind.SEND, TaskKind.LOAD, TaskKind.STORE
_STEPS = {Pattern.ALL_REDUCE: 2, Pattern.REDUCE_SCATTER: 1, Pattern.ALL_GATHER: 1, Pattern.ALL_TO_ALL: 1}


@frozen
class Choice:
    """The fidelity of all runs that are compared."""

    fidelity: str  # one of FIDELITIES
    reason: str = ""  # why it is not exact, where nobody has said so; empty otherwise


def chosen(counts: Iterable[tuple[str, int]]) -> Choice:
    limit = limits.current()["exact"]
    what, most = max(counts, key=lambda one: one[1], default=("", 0))
    if most <= limit:
        return Choice(EXACT)
    time, memory = render(most * _SECONDS, Unit.SECONDS), render(most * _BYTES, Unit.BYTES)
    return Choice(
        COMPRESSED,
        f"{what} has about {float(f'{most:.3g}'):,.0f} transfers, and --exact-limit is {limit:,}: {COMPRESSED}; "
        f"--fidelity {EXACT} would take about {time} and {memory}",
    )


def transfers(graph: TaskGraph) -> int:
    """Return about how many transfers an exact simulation of ``graph`` has: those of rings and direct exchanges."""
    tables = [table.shape for table in graph.tables]
    columns = graph.kinds.tolist(), graph.patterns, graph.members.tolist(), graph.repeats.tolist()
    total = 0
    for kind, pattern, members, repeats in zip(*columns, strict=True):
        shape = tables[members]
        if pattern is not None and kind not in (TaskKind.SEND, TaskKind.RECEIVE):
            total += repeats * shape[0] * transfers_of(pattern, shape[1])
        elif kind in _MESSAGES:
            total += repeats * shape[0] * shape[-1]
    return total


def transfers_of(pattern: Pattern, ranks: int) -> int:
    return _STEPS.get(pattern, 0) * ranks * (ranks - 1) or ranks


def possible(fidelity: str, network: FlowNetwork) -> str:
    return STEPWISE if fidelity == COMPRESSED and network.dynamics is not None else fidelity


def way_of(fidelity: str, network: FlowNetwork) -> int:
    if is_exact(fidelity) and network.admission.flow_by_flow:
        meets = fidelity == RENDEZVOUS or transport_flag(network.fabric.defaults.transport, "rendezvous")
        return engine.RENDEZVOUS if meets else engine.BY_RANK
    return engine.COMPRESSED if possible(fidelity, network) == COMPRESSED else engine.STEPWISE


def ways(fidelity: str, network: FlowNetwork) -> tuple[str, ...]:
    """Return how to simulate, in turn until it was ``undisturbed``: alone, all repetitions take what one does."""
    whole = is_exact(fidelity) and not network.admission.flow_by_flow and network.dynamics is None
    return (COMPRESSED, fidelity) if whole else (fidelity,)


def undisturbed(network: FlowNetwork) -> bool:
    return not (network.statistics.met or network.statistics.waits)


def is_exact(fidelity: str) -> bool:
    """Return whether ranks of a group need not wait for each other, unless an admission keeps phases whole."""
    return fidelity in (EXACT, RENDEZVOUS)


def block_notes(graph: TaskGraph, fidelity: str) -> tuple[str, ...]:
    """Return notes on blocks whose ranks could be in different repetitions at once, as in a pipeline, and on jobs."""
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
                f"no rank begins a repetition while another is at the one before; --fidelity {EXACT} lets them"
            )
    if len(repeated) and (graph.jobs != graph.jobs[0]).any():
        found.append(
            "jobs run beside each other, and repetitions of their tasks are simulated as one, so they meet on links at "
            f"other moments than they would; --fidelity {EXACT} tells how much that is"
        )
    return tuple(found)


def notes(fidelity: str, network: FlowNetwork) -> tuple[str, ...]:
    if possible(fidelity, network) == fidelity:
        return ()
    change = f"rates of the sharing {network.sharing.name!r} change in time"
    return (f"{change}, so the repetitions of a phase were simulated one by one",)
