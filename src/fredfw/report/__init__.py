"""What people and programs read: one model of what is shown, the media that draw it, JSON and CSV, a Chrome trace.

``shown`` and ``pictures`` are the model, plain data, which ``comparison``, ``runs``, ``studies``, ``tables``,
``charts`` and ``pages`` make of results. ``layout`` draws it on a terminal and alone imports rich; exporters of plugins
draw it as HTML and as pictures, by ``fredfw.drawing``. Nothing here runs a simulation.
"""
