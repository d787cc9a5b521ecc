"""The command ``fredfw comet``: splits of a model on clusters, with and without expanded memory."""

from __future__ import annotations

fredfw_contract = 2
