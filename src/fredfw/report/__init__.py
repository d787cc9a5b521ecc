"""What people and programs read: one model of what is shown, the media that draw it, JSON and CSV, a Chrome trace.

``shown`` and ``pictures`` are the model: tables, lines of text, pictures and pages, as plain data. ``comparison``,
``runs``, ``studies``, ``tables``, ``charts`` and ``pages`` make it of results. ``layout`` draws it on a terminal and
alone imports rich; ``html`` writes it as a file, and ``plots``, which needs matplotlib, its pictures. ``trace`` writes
a Chrome trace.
Nothing here runs a simulation; every function takes results.
"""
