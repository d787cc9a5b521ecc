from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from fredfw.fabric import Fabric, NodeKind
from fredfw.simulation.bounds.cuts import Cuts, across

Items = list[tuple[int, int, float]]


@given(st.integers(1, 6), st.data())
def test_across_is_the_sum_over_what_crosses(positions: int, data: st.DataObject) -> None:
    place = st.integers(0, positions - 1)
    items: Items = data.draw(st.lists(st.tuples(place, place, st.sampled_from([0.0, 1.0, 1e-6, 1e15])), min_size=1))
    starts, ends, amounts = (np.array(column) for column in zip(*items, strict=True))
    up, down = across(starts, ends, amounts, positions)
    for cut in range(positions - 1):
        # A large number on the wrong side of a cut leaves no trace.
        expected = [
            sum(amount for start, end, amount in items if start <= cut < end),
            sum(amount for start, end, amount in items if end <= cut < start),
        ]
        np.testing.assert_allclose([up[cut], down[cut]], expected, rtol=1e-12)


def two_switches() -> Fabric:
    """NPUs 0 and 1 on switch 4, 2 and 3 on switch 5, one link between the switches; controller 6 on switch 5."""
    lower, upper = np.array([0, 1, 2, 3, 4, 6]), np.array([4, 4, 5, 5, 5, 5])
    kinds = [NodeKind.NPU] * 4 + [NodeKind.SWITCH] * 2 + [NodeKind.CONTROLLER]
    bandwidths = np.tile([1.0, 2.0, 3.0, 4.0, 10.0, 100.0], 2)
    return Fabric("two", kinds, np.append(lower, upper), np.append(upper, lower), bandwidths, 0.0, 0.0)


def test_switches_go_with_the_npus_below_them() -> None:
    (halves,) = Cuts(two_switches()).halves(np.arange(4))
    assert halves.position.tolist() == [0, 1, 2, 3]
    # Between 1 and 2 lies the link of the switches alone; the controller is on neither side of anything.
    assert halves.up[1] == halves.down[1] == 10.0
    # A switch with as many NPUs below a cut as above it is above.
    assert (halves.up[0], halves.up[2]) == (1.0, 3.0 + 10.0)


def test_ends_are_ranks_alone_and_count_their_own_links() -> None:
    parts = Cuts(two_switches()).ends(np.array([3, 0]))
    assert parts.part.tolist() == [1, 0]
    assert parts.enter.tolist() == parts.leave.tolist() == [1.0, 4.0]
    assert parts.receive == parts.send == 5.0


def test_long_dimensions_are_cut_between_runs() -> None:
    here = np.arange(999)
    line = Fabric("line", np.zeros(1000), here, here + 1, 1.0, 0.0, 0.0)
    (halves,) = Cuts(line).halves(np.arange(1000))
    assert len(halves.up) == 127
    assert set(halves.up.tolist()) == {1.0}
    assert set(halves.down.tolist()) == {0.0}
    assert (np.diff(halves.position) >= 0).all()
