"""RePurpose: networks whose neurons are rearranged over workers, and the workload ``repurpose`` that runs them.

Everything that the workload does can be done with arrays: a ``Problem`` is solved by ``rearranged`` or by one of the
functions that it is compared with, and the ``Plan`` says who holds what, what crosses, and the weights that are kept.
"""

from fredfw_workload_repurpose.network import Layer, Network, Planted, Weights, planted, read, write
from fredfw_workload_repurpose.plan import Plan, Problem, draw
from fredfw_workload_repurpose.transform import at_random, by_magnitude, clustered, in_order, partitioned, rearranged
from fredfw_workload_repurpose.workload import Repurpose

__all__ = ["Layer", "Network", "Plan", "Planted", "Problem", "Repurpose", "Weights", "draw", "planted", "read", "write"]
__all__ += ["at_random", "by_magnitude", "clustered", "in_order", "partitioned", "rearranged"]

fredfw_contract = 2
