"""Chakra execution traces: the workload ``chakra`` reads them, and the exporter ``chakra`` writes them."""

from fredfw_workload_chakra.exporter import ChakraExporter
from fredfw_workload_chakra.workload import Chakra

__all__ = ["Chakra", "ChakraExporter"]

fredfw_contract = 2
