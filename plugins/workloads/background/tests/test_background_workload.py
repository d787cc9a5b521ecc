from __future__ import annotations

import math

import pytest

from fredfw.errors import InputError
from fredfw.workloads import System, TaskKind
from fredfw_workload_background import Background, fredfw_workloads


def test_it_is_registered() -> None:
    assert fredfw_workloads() == [Background]


@pytest.mark.parametrize("sizes", ["fixed", "exponential"])
@pytest.mark.parametrize("pairs", ["random", "permutation"])
def test_it_offers_the_load_that_is_asked_for(sizes: str, pairs: str) -> None:
    one = Background(bandwidth=1e9, load=0.25, duration=1.0, size=1e6, sizes=sizes, pairs=pairs, seed=7)
    messages = [message for sent in one.messages(40) for message in sent]
    expected = 40 * 0.25 * 1e9 / 1e6
    # A Poisson number deviates by its root; exponential sizes double the variance of the sum. Four deviations.
    deviation = math.sqrt(expected * (2 if sizes == "exponential" else 1))
    assert sum(message.size for message in messages) / 1e6 == pytest.approx(expected, abs=4 * deviation)
    assert len(messages) == pytest.approx(expected, abs=4 * math.sqrt(expected))


def test_random_pairs_are_even_and_a_permutation_is_one() -> None:
    sent = Background(bandwidth=1e9, load=1.0, duration=1.0, size=1e6).messages(5)
    for rank, messages in enumerate(sent):
        to = [message.destination for message in messages]
        assert rank not in to
        for other in set(range(5)) - {rank}:  # a binomial number; four deviations
            assert to.count(other) == pytest.approx(len(to) / 4, abs=4 * math.sqrt(len(to) * 3 / 16))
    fixed = Background(bandwidth=1e9, load=1.0, duration=1.0, size=1e6, pairs="permutation").messages(5)
    partners = [{message.destination for message in messages} for messages in fixed]
    assert sorted(one for each in partners for one in each) == [0, 1, 2, 3, 4]
    assert all(rank not in each for rank, each in enumerate(partners))


def test_equal_seeds_give_equal_messages() -> None:
    def messages(seed: int) -> object:
        return Background(bandwidth=1e9, duration=0.1, sizes="exponential", seed=seed).messages(4)

    assert messages(1) == messages(1) != messages(2)


def test_messages_are_sent_at_their_times_whatever_the_others_do() -> None:
    one = Background(bandwidth=1e9, duration=0.05)
    graph = one.graph(System(npus=3))
    assert graph.label_names == ("waiting", "background")
    sends = (graph.kinds == TaskKind.SEND).nonzero()[0]
    for send in sends.tolist():
        (wait,) = graph.after(send)
        assert graph.kinds[wait] == TaskKind.WAIT
        assert all(graph.kinds[before] == TaskKind.WAIT for before in graph.after(int(wait)))
    # The waits of each rank, one after the other, last as long as messages are offered.
    for rank in range(3):
        own = [
            task
            for task in range(len(graph))
            if graph.kinds[task] == TaskKind.WAIT and rank in graph.participants(task)
        ]
        assert graph.seconds[own].sum() == pytest.approx(0.05)


def test_a_note_says_what_is_offered() -> None:
    (note,) = Background(bandwidth=1e9, load=0.5, duration=1.0, size=1e7).notes(System(npus=4))
    assert "(asked: 0.5)" in note
    assert Background(bandwidth=1e9, duration=0.0).notes(System(npus=4)) == ()


@pytest.mark.parametrize(
    ("settings", "key"),
    [({"load": 1.5}, "load"), ({"load": -0.1}, "load"), ({"pairs": "all"}, "pairs"), ({"sizes": "big"}, "sizes")],
)
def test_impossible_values_are_refused(settings: dict[str, object], key: str) -> None:
    with pytest.raises(InputError) as caught:
        Background(bandwidth=1e9, **settings)  # type: ignore[arg-type]
    assert caught.value.key == key


def test_it_needs_two_ranks_and_a_possible_number_of_messages() -> None:
    with pytest.raises(InputError, match="no other"):
        Background(bandwidth=1e9).mesh(System(npus=1))
    with pytest.raises(InputError, match="tasks"):
        Background(bandwidth=1e15, duration=1e6, size=1.0).graph(System(npus=4))
