import math
import re
from typing import Any

import numpy as np
import pytest

import fredfw_workload_background
from fredfw import Framework
from fredfw.errors import InputError
from fredfw.testing import WorkloadTests
from fredfw.workloads import System, TaskKind
from fredfw_workload_background import Background


class TestBackground(WorkloadTests):
    plugin = fredfw_workload_background
    workloads = (
        Background(bandwidth=1e9, duration=0.01),
        Background(bandwidth=1e9, duration=0.01, pairs="permutation", sizes="exponential", ranks=5, seed=2),
        Background(bandwidth=1e9, duration=0.01, load=0),
    )


@pytest.mark.parametrize("sizes", ["fixed", "exponential"])
@pytest.mark.parametrize("pairs", ["random", "permutation"])
def test_it_offers_the_load_that_is_asked_for(sizes: str, pairs: str) -> None:
    one = Background(bandwidth=1e9, load=0.25, duration=1.0, size=1e6, sizes=sizes, pairs=pairs, seed=7)
    messages = [message for sent in one.messages(System(npus=40)) for message in sent]
    expected = 40 * 0.25 * 1e9 / 1e6
    # A Poisson number deviates by its root; exponential sizes double the variance of the sum. Four deviations.
    deviation = math.sqrt(expected * (2 if sizes == "exponential" else 1))
    assert sum(message.size for message in messages) / 1e6 == pytest.approx(expected, abs=4 * deviation)
    assert len(messages) == pytest.approx(expected, abs=4 * math.sqrt(expected))


def test_random_pairs_are_even_a_permutation_is_one_and_equal_seeds_give_equal_messages() -> None:
    sent = Background(bandwidth=1e9, load=1.0, duration=1.0, size=1e6).messages(System(npus=5))
    for rank, messages in enumerate(sent):
        to = [message.destination for message in messages]
        assert rank not in to
        for other in set(range(5)) - {rank}:  # a binomial number; four deviations
            assert to.count(other) == pytest.approx(len(to) / 4, abs=4 * math.sqrt(len(to) * 3 / 16))
    fixed = Background(bandwidth=1e9, load=1.0, duration=1.0, size=1e6, pairs="permutation").messages(System(npus=5))
    partners = [{message.destination for message in messages} for messages in fixed]
    assert sorted(one for each in partners for one in each) == [0, 1, 2, 3, 4]
    assert all(rank not in each for rank, each in enumerate(partners))

    def sent_with(seed: int) -> object:
        return Background(bandwidth=1e9, duration=0.1, sizes="exponential", seed=seed).messages(System(npus=4))

    assert sent_with(1) == sent_with(1) != sent_with(2)


def test_messages_are_sent_at_their_times_whatever_the_others_do() -> None:
    one = Background(bandwidth=1e9, duration=0.05)
    graph = one.graph(System(npus=3))
    assert graph.label_names == ("waiting", "background")
    for send in np.flatnonzero(graph.kinds == TaskKind.SEND).tolist():
        (wait,) = graph.after(send)
        assert graph.kinds[wait] == TaskKind.WAIT
        assert all(graph.kinds[before] == TaskKind.WAIT for before in graph.after(int(wait)))
    # The waits of each rank, one after the other, last as long as messages are offered.
    waits = np.flatnonzero(graph.kinds == TaskKind.WAIT).tolist()
    for rank in range(3):
        own = [task for task in waits if rank in graph.participants(task)]
        assert graph.seconds[own].sum() == pytest.approx(0.05)


def test_there_are_two_ranks_or_more_and_a_possible_number_of_messages() -> None:
    assert Background(bandwidth=1e9, duration=0.0).notes(System(npus=4)) == ()
    with pytest.raises(InputError, match="no other"):
        Background(bandwidth=1e9).mesh(System(npus=1))
    with pytest.raises(InputError, match="tasks"):
        Background(bandwidth=1e15, duration=1e6, size=1.0).graph(System(npus=4))


def test_the_load_is_a_share_of_what_an_npu_can_send() -> None:
    # Without a bandwidth it is that of the system; with another one, the note says what share of the system's it is.
    system = System(npus=4, bandwidth=4e9)
    own = Background(load=0.5, duration=1.0, size=1e7)
    other = Background(load=0.5, duration=1.0, size=1e7, bandwidth=4e9)
    assert own.messages(system) == other.messages(system)
    quarter = Background(bandwidth=1e9, load=0.5, duration=1.0, size=1e7)
    share = sum(message.size for sent in quarter.messages(system) for message in sent) / 4 / 4e9
    assert share == pytest.approx(0.125, rel=0.2)
    (note,) = quarter.notes(system)
    assert f"{share:.3g} of the 4 GB/s that it can send (asked: 0.5 of 1 GB/s)" in note


def test_a_bandwidth_that_npus_do_not_have_is_refused() -> None:
    content: dict[str, Any] = {
        "fabrics": {"switch": {"topology": {"name": "switch", "npus": 4, "link_bandwidth": "50 GB/s"}}},
        "workloads": {"others": {"workload": {"name": "background", "bandwidth": "400 GB/s", "duration": "0.1 ms"}}},
    }
    framework = Framework()
    said = "400 GB/s is more than the 50 GB/s that an NPU can send (accepted: at most 50 GB/s, which is the default)"
    with pytest.raises(InputError, match=f"^{re.escape(f'workloads.others.workload.bandwidth: {said}')}$"):
        framework.run(framework.load_experiment(content), workload="others")
    del content["workloads"]["others"]["workload"]["bandwidth"]
    (note,) = framework.run(framework.load_experiment(content), workload="others").notes
    assert "of the 50 GB/s that it can send (asked: 0.3)" in note
    with pytest.raises(InputError, match="bandwidth: is missing"):
        Background().graph(System(npus=4))
