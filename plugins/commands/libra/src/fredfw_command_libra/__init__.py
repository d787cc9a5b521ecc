"""The command ``fredfw libra``: the bandwidth of each dimension for the least time, or the least time x cost."""

from __future__ import annotations

fredfw_contract = 2
