"""Random sequences in which everything follows everything else exactly as often as in a given one.

The sequence is a walk through the contexts of its elements (the few before each) that uses each step of the given one
once: an Eulerian path. A random one is drawn by a random tree of last steps (Kandel, Matias, Unger, Winkler 1996,
"Shuffling biological sequences"; the tree by Wilson's walks).
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.random import Generator


def shuffled(sequence: Sequence[int], context: int, random: Generator) -> list[int]:
    """Return a random sequence with the same runs of ``context + 1`` elements as ``sequence``, each as often."""
    if len(sequence) <= context + 1:
        return list(sequence)
    states = [tuple(sequence[place : place + context]) for place in range(len(sequence) - context + 1)]
    following: dict[tuple[int, ...], list[int]] = {}
    for state, element in zip(states, sequence[context:], strict=False):
        following.setdefault(state, []).append(element)
    last = _last_steps(following, states[-1], random)
    for state, elements in following.items():
        if state in last:
            elements.remove(last[state])
        order = random.permutation(len(elements))
        elements[:] = [elements[one] for one in order]
        if state in last:
            elements.insert(0, last[state])  # taken from the end, so this one is the last
    state, result = states[0], list(states[0])
    while following.get(state):
        element = following[state].pop()
        result.append(element)
        state = (*state, element)[1:]
    return result


def _last_steps(
    following: dict[tuple[int, ...], list[int]], end: tuple[int, ...], random: Generator
) -> dict[tuple[int, ...], int]:
    """Return for each state but ``end`` a random step, such that all of them together lead to ``end``."""
    last: dict[tuple[int, ...], int] = {}
    settled = {end}
    for start in following:
        state = start
        while state not in settled:
            last[state] = following[state][int(random.integers(len(following[state])))]
            state = (*state, last[state])[1:]
        state = start
        while state not in settled:
            settled.add(state)
            state = (*state, last[state])[1:]
    return last
