"""The commands ``fredfw trace``: what execution traces hold, and statistical twins of them."""

from __future__ import annotations

fredfw_contract = 2
