import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fredfw.errors import InputError
from fredfw.workloads import Parallelism

degrees = st.integers(1, 5)


def test_order_is_mp_then_pp_then_dp() -> None:
    grid = Parallelism(mp=3, dp=3, pp=2).grid
    assert grid[0, 0].tolist() == [0, 1, 2]
    assert grid[0, 1].tolist() == [3, 4, 5]
    assert grid[1, 0].tolist() == [6, 7, 8]


@given(degrees, degrees, degrees)
def test_groups_partition_the_workers(mp: int, dp: int, pp: int) -> None:
    split = Parallelism(mp=mp, dp=dp, pp=pp)
    everybody = list(range(mp * dp * pp))
    for groups, size in ((split.mp_groups(), mp), (split.dp_groups(), dp), (split.pp_groups(), pp)):
        assert groups.shape == (len(everybody) // size, size)
        assert sorted(groups.ravel().tolist()) == everybody
    by_stage = [split.stage(stage) for stage in range(pp)]
    assert sorted(np.concatenate(by_stage).tolist()) == everybody
    for stage in range(pp):
        for groups in (split.mp_groups(stage), split.dp_groups(stage)):
            assert sorted(groups.ravel().tolist()) == sorted(by_stage[stage].tolist())


@given(degrees, degrees, degrees)
def test_groups_of_two_kinds_meet_in_at_most_one_worker(mp: int, dp: int, pp: int) -> None:
    split = Parallelism(mp=mp, dp=dp, pp=pp)
    for one in split.mp_groups():
        assert all(len(np.intersect1d(one, other)) <= 1 for other in split.dp_groups())


def test_degrees_below_one_are_refused() -> None:
    with pytest.raises(InputError, match="mp: 0"):
        Parallelism(mp=0)


def test_a_global_batch_is_divided_among_the_replicas() -> None:
    assert Parallelism(mp=2, dp=4, pp=3).samples_per_replica(48) == 12
    with pytest.raises(InputError) as caught:
        Parallelism(dp=3).samples_per_replica(64)
    assert str(caught.value) == (
        "global_batch: 64 samples cannot be divided evenly among 3 replicas (accepted: a multiple of 3)"
    )
