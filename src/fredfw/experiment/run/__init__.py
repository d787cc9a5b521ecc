"""Cells as plain data, run here, on other processes or on other machines."""
