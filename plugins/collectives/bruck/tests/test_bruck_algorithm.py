import math
from functools import partial

import numpy as np
import pytest
from fabrics import ALPHA, BANDWIDTH, SIZE, on_a_switch

import fredfw_collective_bruck
from fredfw import CollectiveRequest, GroupView, Pattern, check
from fredfw.testing import CollectiveTests
from fredfw_collective_bruck import Bruck

duration = partial(on_a_switch, "bruck")


@pytest.mark.parametrize("n", [2, 3, 7, 8, 12])
def test_all_to_all_v_moves_each_pair_once_for_each_digit_of_its_distance(n: int) -> None:
    sizes = np.random.default_rng(n).integers(0, 4, (n, n)).astype(float)
    request = CollectiveRequest(Pattern.ALL_TO_ALL, n, 0.0, sizes=sizes)
    schedule = Bruck().plan(request, GroupView(n))
    check(schedule, request)
    digits = [[((y - x) % n).bit_count() for y in range(n)] for x in range(n)]
    assert sum(schedule.row_bytes(phase).sum() for phase in schedule.phases) == (np.array(digits) * sizes).sum()


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
@pytest.mark.parametrize("n", [2, 3, 6, 8, 11, 16, 32])
def test_time_on_a_switch(n: int, fidelity: str) -> None:
    steps, block = math.ceil(math.log2(n)), SIZE / n / BANDWIDTH
    blocks = sum(distance.bit_count() for distance in range(n))
    assert duration("all-to-all", n, fidelity=fidelity) == pytest.approx(steps * ALPHA + blocks * block, rel=1e-9)
    assert duration("all-gather", n, fidelity=fidelity) == pytest.approx(steps * ALPHA + (n - 1) * block, rel=1e-9)


class TestBruck(CollectiveTests):
    plugin = fredfw_collective_bruck
    algorithms = (Bruck(),)
