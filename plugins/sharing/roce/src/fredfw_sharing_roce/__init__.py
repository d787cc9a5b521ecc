"""Congestion control of RoCE as sharing policies: rates that senders change as links mark, delay or report."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import SharingPolicy, hookimpl
from fredfw_sharing_roce.dcqcn import Dcqcn
from fredfw_sharing_roce.dctcp import Dctcp
from fredfw_sharing_roce.hpcc import Hpcc
from fredfw_sharing_roce.pfc import Pfc
from fredfw_sharing_roce.timely import Timely

__all__ = ["Dcqcn", "Dctcp", "Hpcc", "Pfc", "Timely", "fredfw_contract", "fredfw_sharing_policies"]

fredfw_contract = 2


@hookimpl
def fredfw_sharing_policies() -> Sequence[type[SharingPolicy]]:
    """Register the policies."""
    return [Dcqcn, Dctcp, Hpcc, Pfc, Timely]
