"""Text workloads of ASTRA-sim 1.0 and SimAI: the workload ``astra-sim-text`` reads them."""

from fredfw_workload_astra_sim_text.workload import AstraSimText

__all__ = ["AstraSimText"]

fredfw_contract = 2
