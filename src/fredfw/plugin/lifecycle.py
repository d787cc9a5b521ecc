"""The hooks around a run, with static types."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fredfw.experiment.file.spec import Experiment
    from fredfw.experiment.results import RunResult
    from fredfw.plugin.calls import Calls


class LifecycleHooks:
    """Calls the hooks around a run, as ``fredfw.plugin.spec`` describes them.

    Args:
        calls: Where the plugins are.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def fredfw_before_run(self, *, experiment: Experiment) -> None:
        """Call the hook of all plugins."""
        self._calls.tell("fredfw_before_run", experiment=experiment)

    def fredfw_after_run(self, *, result: RunResult) -> None:
        """Call the hook of all plugins."""
        self._calls.tell("fredfw_after_run", result=result)

    def fredfw_on_run_error(self, *, experiment: Experiment, error: Exception) -> None:
        """Call the hook of all plugins; what they raise never hides ``error``."""
        self._calls.tell("fredfw_on_run_error", fatal=False, experiment=experiment, error=error)
