"""The flow table: which flows drain at which rates, and when the next is drained.

- ``loads``: flows that are put on the links together.
- ``table``: the interface of a table and what all tables share; ``tables`` says which one serves a sharing policy.
- ``policy``: a table for any sharing policy.
- ``maxmin``: a table for max-min fair sharing, which solves only the piece that a change disturbs.
- ``slots``: its arrays, with the hot loops in Python (``pure``) or in C (``native``, through ``compiled``).
- ``fill``: the max-min fair rates of one set of flows.
"""
