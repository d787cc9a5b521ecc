"""Plugins: how fredfw learns about your topology, algorithm or workload.

A plugin is an attrs class and one function. The class derives from one of fredfw's interfaces and has a ``name``; its
fields are its configuration. The function is a *hook*, see ``fredfw.plugin.spec``: it registers the class, and
``@hookimpl`` marks it. ``fredfw new topology NAME`` writes a whole one, which docs/tutorials/plugin-author.md explains.
"""

import pluggy

hookimpl = pluggy.HookimplMarker("fredfw")

CONTRACT_VERSION = 2
"""Version of what plugins build on; a plugin says which one it is written for with ``fredfw_contract = 2``."""

__all__ = ["CONTRACT_VERSION", "hookimpl"]
