'''Plugins: how fredfw learns about your topology, algorithm or workload.

A plugin is an attrs class and one function. The class derives from one of fredfw's interfaces and has a ``name``; its
fields are its configuration, and ``fredfw plugins show`` prints its docstring. The function is a *hook* that registers
the class, and ``@hookimpl`` marks it. Here is a whole plugin, a ring of NPUs::

    """NPUs in a ring."""

    from typing import ClassVar

    import numpy as np
    from attrs import frozen

    from fredfw import Fabric, Level, NodeKind, Topology, hookimpl, units


    @frozen
    class Loop(Topology):
        """NPUs in a ring, a link in each direction between neighbours."""

        name: ClassVar[str] = "loop"
        npus: int = units.option(validator=units.at_least(3), help="number of NPUs")
        link_bandwidth: float = units.bandwidth("100 GB/s", help="of each link and direction")
        link_latency: float = units.duration("20 ns", help="of each link")

        def build(self) -> Fabric:
            here = np.arange(self.npus)
            following = (here + 1) % self.npus
            return Fabric(
                name=f"loop of {self.npus}",
                kinds=np.full(self.npus, NodeKind.NPU),
                sources=np.concatenate([here, following]),
                destinations=np.concatenate([following, here]),
                bandwidths=self.link_bandwidth,
                latencies=self.link_latency,
                energies=0.0,
                levels=(Level(self.npus, "ring", self.link_bandwidth, self.link_latency),),
                coordinates=here[:, None],
            )


    @hookimpl
    def fredfw_topologies() -> list[type[Topology]]:
        return [Loop]

Saved as ``loop.py`` it can be tried at once, from the command line and from Python::

    $ fredfw --plugin loop.py collective all-reduce --topology loop --set npus=8 --size 1GB

::

    fw = fredfw.Framework()
    fw.plugins.load_file("loop.py")
    result = fw.simulate_collective(fw.topology("loop", npus=8).build(), "all-reduce", size="1 GB")

Where it is installed, it is found by an entry point in its ``pyproject.toml``, in the group of its hook, which it needs
no more, and imported when it is used. In the group ``fredfw``, an entry point names a module with hooks::

    [project.entry-points."fredfw.topologies"]
    loop = "acme_loop:Loop"

Its package says for which version of this contract it is written: ``fredfw_contract = 2``.

Fields made with ``fredfw.units`` hold SI numbers, accept text with units, and refuse what makes no sense. All hooks are
in ``fredfw.plugin.spec``. A plugin that does not work is left out with a warning; that is an error when something asks
for a name that it might have registered, or at once with ``fredfw --strict-plugins``. Names of the core stay its own,
and a name that two plugins register is left out. ``FREDFW_DISABLE_PLUGINS=name,...`` does not load these plugins,
``FREDFW_PLUGINS=name,...`` no others beside the core's, and ``FREDFW_TRACE_HOOKS=1`` tells of every call of a hook on
standard error; programs use ``fredfw.plugin.manager.Switches``.
'''

from __future__ import annotations

import pluggy

hookimpl = pluggy.HookimplMarker("fredfw")

CONTRACT_VERSION = 2
"""Version of what plugins build on; a plugin says which one it is written for with ``fredfw_contract = 2``."""

__all__ = ["CONTRACT_VERSION", "hookimpl"]
