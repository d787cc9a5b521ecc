"""Bytes by link: the same however many routes there were, and with memory for so many at most."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from fredfw.fabric import Routes
from fredfw.simulation import account
from fredfw.simulation.account import Account


def one(*links: int) -> Routes:
    return Routes.of([np.array(links)], [0.0])


def test_bytes_are_added_up_by_link_and_label() -> None:
    sent, there, both = Account(4), one(0, 1), Routes.of([np.array([0, 2]), np.array([2])], [0.0, 0.0])
    sent.add("a", there, np.array([5.0]))
    sent.add("a", there, np.array([2.0]))
    sent.add("b", there, np.array([1.0]))
    sent.add("a", both, np.array([10.0, 20.0]))
    halves = Routes.of([np.array([2, 3])], [0.0], [np.array([0.5, 0.25])])
    found = sent.by_link([("a", halves, np.array([8.0]))])
    assert {label: load.tolist() for label, load in found.items()} == {"a": [17, 7, 34, 2], "b": [1, 1, 0, 0]}
    # To ask changes nothing.
    assert sent.by_link([])["a"].tolist() == [17, 7, 30, 0]


def test_routes_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "_ROOM", 10_000)
    sent, random, expected = Account(8), np.random.default_rng(1), np.zeros(8)
    for _ in range(2_000):
        links, volume = random.permutation(8)[:3], float(random.integers(1, 100))
        sent.add("all", one(*links.tolist()), np.array([volume]))
        expected[links] += volume
    # Each takes 3 links, a flow and 64 more.
    assert len(sent._moved) <= 10_000 / 68 + 16
    for same in (sent, copy.deepcopy(sent), pickle.loads(pickle.dumps(sent))):
        assert same.by_link([])["all"].tolist() == expected.tolist()


def test_routes_that_come_again_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "_ROOM", 0)
    sent, phases = Account(8), [one(link) for link in range(8)]
    for _ in range(5):
        for phase in phases:
            sent.add("ring", phase, np.array([1.0]))
    assert len(sent._moved) == 8
    assert sent.by_link([])["ring"].tolist() == [5.0] * 8


def test_a_flow_that_crosses_a_link_twice_counts_twice() -> None:
    account = Account(3)
    account.add("a", Routes.of([np.array([0, 2, 0])], [0.0]), np.array([5.0]))
    assert account.by_link([])["a"].tolist() == [10.0, 0.0, 5.0]
