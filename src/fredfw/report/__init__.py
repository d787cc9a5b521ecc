"""What people and programs read: one model of what is shown, the media that draw it, JSON and CSV, a Chrome trace.

``shown`` and ``pictures`` are the model, plain data, which ``comparison``, ``runs``, ``studies``, ``tables``,
``charts`` and ``pages`` make of results. ``layout`` draws it on a terminal and alone imports rich; ``html`` writes it
as a file, and ``plots``, which needs matplotlib, its pictures. Nothing here runs a simulation.
"""
