from __future__ import annotations

from random import Random

from hypothesis import given, strategies as st

from fredfw.embed.matching import Matching

ACTIONS = st.sampled_from(["send", "receive", "deliver", "withdraw"])


@given(st.lists(st.tuples(ACTIONS, st.sampled_from("ab")), max_size=40), st.randoms(use_true_random=False))
def test_the_nth_receive_gets_the_nth_message_when_that_is_there(
    actions: list[tuple[str, str]], random: Random
) -> None:
    """A message that is withdrawn, or a receive, lets the next move up; what was served is no longer under way."""
    matching = Matching()
    messages: dict[str, list[int]] = {"a": [], "b": []}
    receives: dict[str, list[int]] = {"a": [], "b": []}
    there: set[int] = set()
    for number, (action, envelope) in enumerate(actions):
        sent, waiting = messages[envelope], receives[envelope]
        late = [one for one in sent if one not in there]
        served: list[int] = []
        if action == "send":
            matching.send(number, envelope)
            sent.append(number)
        elif action == "receive":
            waiting.append(number)
            served = matching.receive(number, envelope)
        elif action == "deliver" and late:
            there.add(one := random.choice(late))
            served = matching.deliver(one)
        elif action == "withdraw" and (under_way := [*sent, *waiting]):
            one = random.choice(under_way)
            served = matching.withdraw(one)
            (sent if one in sent else waiting).remove(one)
        pairs = [pair for pair in zip(sent, waiting, strict=False) if pair[0] in there]
        assert served == [receive for _, receive in pairs]
        for message, receive in pairs:
            sent.remove(message)
            waiting.remove(receive)
    assert matching.deliver(len(actions)) == matching.withdraw(len(actions)) == []  # of no interest to anyone
