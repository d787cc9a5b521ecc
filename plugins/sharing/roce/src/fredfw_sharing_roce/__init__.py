"""Congestion control of RoCE as sharing policies: rates that senders change as links mark, delay or report."""

from fredfw_sharing_roce.dcqcn import Dcqcn
from fredfw_sharing_roce.dctcp import Dctcp
from fredfw_sharing_roce.hpcc import Hpcc
from fredfw_sharing_roce.pfc import Pfc
from fredfw_sharing_roce.timely import Timely

__all__ = ["Dcqcn", "Dctcp", "Hpcc", "Pfc", "Timely"]

fredfw_contract = 2
