"""The hooks that fredfw calls. A plugin implements any of them with ``@fredfw.hookimpl``.

The first ten *register classes*: each returns attrs classes of one interface, which are selected by their ``name`` and
configured by their fields. The eleventh registers commands of the command line. The last three are called around a run.
No result depends on the order in which plugins are called.

A plugin that raises an exception in a hook is left out of it with a ``PluginWarning``; what it registers through others
works. It is a ``PluginError`` in strict mode, and for a plugin that was given by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from fredfw.collectives import CollectiveAlgorithm
    from fredfw.experiment.file.spec import Experiment
    from fredfw.experiment.results import RunResult
    from fredfw.fabric import AdmissionPolicy, Router, Topology, Transport
    from fredfw.plugin.exporter import Exporter
    from fredfw.plugin.sampler import Sampler
    from fredfw.simulation.sharing import SharingPolicy
    from fredfw.workloads import Placement, Workload

hookspec = pluggy.HookspecMarker("fredfw")


@hookspec
def fredfw_topologies() -> Sequence[type[Topology]]:  # type: ignore[empty-body]  # a specification has no body
    """Register topologies: descriptions of networks that can be built.

    Called when a topology is first looked up by name, or the topologies are listed.

    Returns:
        Classes derived from ``fredfw.Topology``; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always the same classes; no input or output, no imports beyond the plugin's own.
    """


@hookspec
def fredfw_routers() -> Sequence[type[Router]]:  # type: ignore[empty-body]  # as above
    """Register routers: choices of links for transfers, which an experiment may name instead of a fabric's own.

    Called when a router is first looked up by name, or the routers are listed. A router that only its own topology
    can use need not be registered.

    Returns:
        Classes derived from ``fredfw.Router``; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always the same classes; no input or output, no imports beyond the plugin's own.
    """


@hookspec
def fredfw_collectives() -> Sequence[type[CollectiveAlgorithm]]:  # type: ignore[empty-body]  # as above
    """Register collective algorithms: writers of schedules.

    Called when an algorithm is first looked up by name, or the algorithms are listed. Under ``auto`` those that can
    serve a request are tried in their ``variants``.

    Returns:
        Classes derived from ``fredfw.CollectiveAlgorithm``, whose fields all have defaults; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always the same classes; no input or output, no imports beyond the plugin's own.
    """


@hookspec
def fredfw_workloads() -> Sequence[type[Workload]]:  # type: ignore[empty-body]  # as above
    """Register workloads: descriptions of training iterations.

    Called when a workload is first looked up by name, or the workloads are listed.

    Returns:
        Classes derived from ``fredfw.Workload``; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always the same classes; no input or output, no imports beyond the plugin's own.
    """


@hookspec
def fredfw_placements() -> Sequence[type[Placement]]:  # type: ignore[empty-body]  # as above
    """Register placements: assignments of worker ranks to NPUs.

    Called when a placement is first looked up by name, or the placements are listed. A fabric has its default.

    Returns:
        Classes derived from ``fredfw.Placement``; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always the same classes; no input or output, no imports beyond the plugin's own.
    """


@hookspec
def fredfw_sharing_policies() -> Sequence[type[SharingPolicy]]:  # type: ignore[empty-body]  # as above
    """Register sharing policies: divisions of the links' capacities among the flows.

    Called when a policy is first looked up by name, or the policies are listed. A fabric has its default.

    Returns:
        Classes derived from ``fredfw.SharingPolicy``; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always the same classes; no input or output, no imports beyond the plugin's own.
    """


@hookspec
def fredfw_admissions() -> Sequence[type[AdmissionPolicy]]:  # type: ignore[empty-body]  # as above
    """Register admissions: rules of what may run beside what, such as circuits and wavelengths.

    Called when an admission is first looked up by name, or the admissions are listed. A fabric has its default; an
    admission that only its own topology can use need not be registered.

    Returns:
        Classes derived from ``fredfw.AdmissionPolicy``; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always the same classes; no input or output, no imports beyond the plugin's own.
    """


@hookspec
def fredfw_transports() -> Sequence[type[Transport]]:  # type: ignore[empty-body]  # as above
    """Register transports: what calls of a communication library cost beside the bandwidth of links.

    Called when a transport is first looked up by name, or the transports are listed. A fabric has its default.

    Returns:
        Classes derived from ``fredfw.Transport``; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always the same classes; no input or output, no imports beyond the plugin's own.
    """


@hookspec
def fredfw_exporters() -> Sequence[type[Exporter]]:  # type: ignore[empty-body]  # as above
    """Register exporters: results in another program's format.

    Called when an exporter is first looked up by name, or the exporters are listed.

    Returns:
        Classes derived from ``fredfw.Exporter``; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always the same classes; no input or output, no imports beyond the plugin's own.
    """


@hookspec
def fredfw_samplers() -> Sequence[type[Sampler]]:  # type: ignore[empty-body]  # as above
    """Register samplers: choices of the points of a study's space that are run.

    Called when a sampler is first looked up by name, or the samplers are listed.

    Returns:
        Classes derived from ``fredfw.Sampler``, whose fields all have defaults; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always the same classes; no input or output, no imports beyond the plugin's own.
    """


@hookspec
def fredfw_commands() -> Sequence[click.Command]:  # type: ignore[empty-body]  # as above
    """Register commands of the command line: ``fredfw NAME ...``.

    Called when the command line is given a name that is not a command of the core, or is asked for its help, or the
    plugins are listed. What a command needs of the command line is in ``fredfw.cli``.

    Returns:
        Commands or groups of ``click``; or ``None``.

    Called once per plugin manager, and again after a plugin was registered by hand.

    Determinism and cost: always commands of the same names; no input or output. Import click, ``fredfw.cli`` and the
    commands inside the hook only: a look-up of a topology must not pay for that.
    """


@hookspec
def fredfw_before_run(experiment: Experiment) -> None:
    """Note that an experiment is about to run.

    Called before the first simulation of ``Framework.run`` and of ``Framework.compare``, when the experiment has been
    checked. A plugin that was registered in process may stop the run with a ``FredfwError``, without a call of
    ``fredfw_on_run_error``.

    Args:
        experiment: What will run; it cannot be changed.

    Returns:
        ``None``; anything else is ignored.

    Called once per run or comparison.

    Determinism and cost: must not change what is simulated; delays its start.
    """


@hookspec
def fredfw_after_run(result: RunResult) -> None:
    """Look at the result of one cell: a workload on a fabric.

    Called when its result is complete, before the next cell starts. A ``FredfwError`` of a plugin that was registered
    in process fails the run as if the simulation had raised it.

    Args:
        result: Its arrays are shared with the caller and must not be changed.

    Returns:
        ``None``; anything else is ignored.

    Called once per cell.

    Determinism and cost: must not change the result; milliseconds add up.
    """


@hookspec
def fredfw_on_run_error(experiment: Experiment, error: Exception) -> None:
    """Note that a run or comparison failed.

    Called when ``Framework.run`` or ``Framework.compare`` fails after ``fredfw_before_run``. An exception raised here
    is a warning: it must not hide ``error``.

    Args:
        experiment: What was running.
        error: What was raised; it is raised again afterwards.

    Returns:
        ``None``; the error cannot be swallowed.

    Called at most once per run or comparison.

    Determinism and cost: must not change what the caller sees; cost does not matter.
    """
