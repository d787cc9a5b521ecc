import pytest

from fredfw.collectives import Pattern, Phase, Schedule
from fredfw.simulation.order import Order


@pytest.mark.parametrize(
    ("after", "last"),
    [
        ([()], 0),
        ([(), (0,), (1,)], 2),
        ([(), (), (0, 1)], 2),  # the first two side by side
        ([(), (0,), (0,)], -1),  # two at the end
        ([], -1),
    ],
)
def test_the_last_phase_comes_after_all_others(after: list[tuple[int, ...]], last: int) -> None:
    phases = [Phase.of([0], [1], [0], after=before, repeat=2) for before in after]
    found = Order.of(Schedule(Pattern.ALL_REDUCE, 2, 1.0, 1, phases))
    assert (found.last, found.steps) == (last, 2 * len(after))


def test_dependents_and_channels() -> None:
    phases = [Phase.of([0], [1], [0], channel=3), Phase.of([0], [1], [0], after=(0,), channel=3)]
    found = Order.of(Schedule(Pattern.ALL_REDUCE, 2, 1.0, 1, phases))
    assert found.dependents == [[1], []]
    assert {channel: members.tolist() for channel, members in found.channels.items()} == {3: [0, 1]}
