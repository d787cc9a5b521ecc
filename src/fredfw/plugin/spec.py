"""The hooks that fredfw calls. A plugin implements any of them with ``@fredfw.hookimpl``.

The first ten *register classes*: attrs classes of one interface, selected by their ``name`` and configured by their
fields. The eleventh registers commands. All of these may return ``None``. They are called when a name is first looked
up, or names are listed: once per plugin manager, and again after a plugin was registered by hand. They return the same
each time, without input or output, and with no imports beyond the plugin's own. A fabric has its default of what fills
its slots, and what only one topology can use need not be registered.

The last three are called around a run and return ``None``. They must not change what is simulated, or the caller sees.

No result depends on the order of plugins. A plugin that raises an exception in a hook is left out of it with a
``PluginWarning``; what else it registers works. In strict mode, or given by hand, it is a ``PluginError``.
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
    """Register topologies, of ``fredfw.Topology``: descriptions of networks that can be built."""


@hookspec
def fredfw_routers() -> Sequence[type[Router]]:  # type: ignore[empty-body]  # as above
    """Register routers, of ``fredfw.Router``, which an experiment may name instead of a fabric's own."""


@hookspec
def fredfw_collectives() -> Sequence[type[CollectiveAlgorithm]]:  # type: ignore[empty-body]  # as above
    """Register collective algorithms, of ``fredfw.CollectiveAlgorithm``, for ``auto`` too. All fields have defaults."""


@hookspec
def fredfw_workloads() -> Sequence[type[Workload]]:  # type: ignore[empty-body]  # as above
    """Register workloads, of ``fredfw.Workload``: descriptions of training iterations."""


@hookspec
def fredfw_placements() -> Sequence[type[Placement]]:  # type: ignore[empty-body]  # as above
    """Register placements, of ``fredfw.Placement``: assignments of worker ranks to NPUs."""


@hookspec
def fredfw_sharing_policies() -> Sequence[type[SharingPolicy]]:  # type: ignore[empty-body]  # as above
    """Register sharing policies, of ``fredfw.SharingPolicy``: divisions of the links' capacities among the flows."""


@hookspec
def fredfw_admissions() -> Sequence[type[AdmissionPolicy]]:  # type: ignore[empty-body]  # as above
    """Register admissions, of ``fredfw.AdmissionPolicy``: what may run beside what, as circuits and wavelengths do."""


@hookspec
def fredfw_transports() -> Sequence[type[Transport]]:  # type: ignore[empty-body]  # as above
    """Register transports, of ``fredfw.Transport``: what calls of a library cost beside the bandwidth of links."""


@hookspec
def fredfw_exporters() -> Sequence[type[Exporter]]:  # type: ignore[empty-body]  # as above
    """Register exporters, of ``fredfw.Exporter``: results in another program's format. All fields have defaults."""


@hookspec
def fredfw_samplers() -> Sequence[type[Sampler]]:  # type: ignore[empty-body]  # as above
    """Register samplers, of ``fredfw.Sampler``: which points of a study's space are run. All fields have defaults."""


@hookspec
def fredfw_commands() -> Sequence[click.Command]:  # type: ignore[empty-body]  # as above
    """Register commands of the command line, ``fredfw NAME ...``: commands or groups of ``click``.

    Called when a name is not a command of the core, or for the help or the list of plugins. What a command needs is in
    ``fredfw.cli``. Import it, click and the commands inside the hook: a look-up of a topology must not pay for it.
    """


@hookspec
def fredfw_before_run(experiment: Experiment) -> None:
    """Note that ``experiment``, which cannot be changed, is about to run.

    Called once per ``Framework.run`` or ``Framework.compare``, before the first simulation. A plugin that was
    registered in process may stop the run with a ``FredfwError``, without a call of ``fredfw_on_run_error``.
    """


@hookspec
def fredfw_after_run(result: RunResult) -> None:
    """Look at the ``result`` of one cell, a workload on a fabric; its arrays are shared with the caller.

    Called once per cell that runs, not for one from a store, before the next starts: milliseconds add up. A
    ``FredfwError`` of a plugin that was registered in process fails the run as if the simulation had raised it.
    """


@hookspec
def fredfw_on_run_error(experiment: Experiment, error: Exception) -> None:
    """Note that a run or comparison of ``experiment`` failed with ``error``, which is raised again afterwards.

    Called at most once per run, after ``fredfw_before_run``. An exception raised here is only a warning.
    """
