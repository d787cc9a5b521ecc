from __future__ import annotations

from hypothesis import given, strategies as st

from fredfw.embed.matching import Matching


def test_a_message_waits_for_its_receive_and_a_receive_for_its_message() -> None:
    matching = Matching()
    matching.send(1, "a")
    assert matching.deliver(1) == []
    assert matching.receive(2, "b") == []
    assert matching.receive(3, "a") == [3]
    matching.send(4, "b")
    assert matching.deliver(4) == [2]
    assert matching.deliver(5) == []  # of no interest to anyone


def test_messages_do_not_overtake() -> None:
    matching = Matching()
    for message in (1, 2):
        matching.send(message, "a")
    assert matching.deliver(2) == []
    assert matching.receive(3, "a") == []  # it is for message 1
    assert matching.receive(4, "a") == [4]
    assert matching.deliver(1) == [3]


def test_what_is_withdrawn_lets_the_next_move_up() -> None:
    matching = Matching()
    for message in (1, 2):
        matching.send(message, "a")
    assert matching.deliver(2) == []
    assert matching.receive(3, "a") == []
    assert matching.withdraw(1) == [3]
    assert matching.withdraw(1) == []
    assert matching.receive(4, "a") == []
    assert matching.receive(5, "a") == []
    assert matching.withdraw(4) == []
    matching.send(6, "a")
    assert matching.deliver(6) == [5]


@given(st.lists(st.sampled_from(["send", "receive", "deliver"]), max_size=30), st.randoms(use_true_random=False))
def test_the_nth_receive_gets_the_nth_message_when_that_is_there(actions: list[str], random: object) -> None:
    matching = Matching()
    sent: list[int] = []
    there: set[int] = set()
    receives: list[int] = []
    served: list[int] = []
    for number, action in enumerate(actions):
        if action == "send":
            matching.send(number, "a")
            sent.append(number)
        elif action == "receive":
            receives.append(number)
            served += matching.receive(number, "a")
        elif missing := [one for one in sent if one not in there]:
            one = random.choice(missing)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
            there.add(one)
            served += matching.deliver(one)
        expected = {receive for message, receive in zip(sent, receives, strict=False) if message in there}
        assert len(served) == len(set(served))
        assert set(served) == expected
