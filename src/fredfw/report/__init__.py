"""What people and programs read: tables, JSON and CSV, a plot, a Chrome trace, and files that are whole or not there.

Nothing here runs a simulation; every function takes results. rich and matplotlib are imported by ``tables`` and
``plots`` alone.
"""
