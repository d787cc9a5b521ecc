"""Messages, receives, collectives, timers and time; every number is from a closed form."""

import copy
import math
import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from networks import FRAMEWORK, Network, mesh, ring

from fredfw import CollectiveRequest, Fabric, NodeKind, Pattern, ShortestPathRouter
from fredfw.embed import Handle
from fredfw.errors import DeadlockError, InputError, RefusedError, UnsupportedError
from fredfw.simulation import MaxMin, StrictLinks

LATENCY = 1e-3
row = partial(mesh, 1, 3, latency=LATENCY)


def test_a_message_takes_its_bytes_and_the_latency_of_its_path() -> None:
    network = row()
    network.send(0, 2, "1 GB", on_complete=network.log("text"))
    network.run_until_idle()
    assert network.times == {"text": pytest.approx(1 + 2 * LATENCY, rel=1e-12)}
    assert network.link_bytes()["send"].sum() == pytest.approx(2e9)
    assert network.statistics()["flows"] == 1


def test_no_bytes_pay_the_latency_and_a_message_to_oneself_print() -> None:
    network = row()
    network.advance(1.0)
    network.send(0, 2, 0, on_complete=network.log("empty"))
    network.send(1, 1, 1e9, on_complete=network.log("own"))
    assert network.ends == []  # never from within the call
    assert network.next_event_time() == 1.0
    network.run_until_idle()
    assert [name for name, _ in network.ends] == ["own", "empty"]
    assert network.times == {"own": 1.0, "empty": pytest.approx(1.0 + 2 * LATENCY, rel=1e-15)}


def test_end_points_are_npus_and_named_nodes() -> None:
    fabric = FRAMEWORK.topology("mesh2d", rows=2, columns=2, link_latency=0).build()
    network = Network(fabric)
    gate = int(fabric.controllers[0])
    network.send(fabric.node_name(gate), fabric.node_name(int(fabric.npus[3])), 128e9, on_complete=network.log("in"))
    network.send(np.int64(0), "npu1", 1.0, on_complete=network.log("numpy"))  # type: ignore[arg-type]  # NumPy's are not int
    network.run_until_idle()
    assert network.times["in"] == pytest.approx(1.0)  # a controller has 128 GB/s (FRED, table of the baseline)


def test_a_higher_class_goes_first_where_the_policy_says_so() -> None:
    network = row(latency=0, sharing="strict-links")
    network.send(0, 1, 1e9, on_complete=network.log("low"), priority=1)
    network.send(0, 1, 1e9, on_complete=network.log("high"), priority=0, label="urgent")
    network.run_until_idle()
    assert network.times == {"high": pytest.approx(1.0), "low": pytest.approx(2.0)}
    assert {label: loads.sum() for label, loads in network.link_bytes().items()} == {"send": 1e9, "urgent": 1e9}


def test_router_and_sharing_are_objects_or_names() -> None:
    fabric = row().fabric
    for router, sharing in (("shortest-path", "max-min"), (ShortestPathRouter(), MaxMin()), (None, StrictLinks())):
        network, name = Network(fabric, router, sharing), fabric.defaults.router.name
        assert network.fabric.defaults.router.name == (name if router is None else "shortest-path")
        network.send(0, 2, 1e9)
        network.run_until_idle()
        assert network.now == pytest.approx(1 + 2 * LATENCY)


def test_an_unexpected_message_is_kept() -> None:
    network = row()
    network.send(0, 1, 1e9, "gradients")
    network.advance(5.0)
    network.receive(0, 1, "other tag", network.log("other"))
    network.receive(1, 0, "gradients", network.log("other way"))
    network.receive("npu0", "npu1", "gradients", network.log("received"))
    assert network.ends == []
    with pytest.raises(DeadlockError, match=r"receive 2 at 1 from 0, tag 'other tag'\n  receive 3 at 0 from 1"):
        network.run_until_idle()
    assert network.ends == [("received", 5.0)]


def test_a_receive_can_be_cancelled_even_when_its_message_has_just_come() -> None:
    network = row(latency=0)
    early = network.receive(0, 1, 1, network.log("early"))
    network.cancel(early)
    receive = network.receive(0, 1, 7, network.log("received"))
    network.send(0, 1, 1e9, 7, lambda: network.cancel(receive))
    network.run_until_idle()
    assert network.ends == []


def test_a_collective_takes_what_it_takes_alone() -> None:
    # 2 (n - 1) steps of size / n over links of 1 GB/s (Patarasuk and Yuan 2009).
    for fidelity in (None, "compressed", "exact"):
        network = ring(4, LATENCY, fidelity=fidelity)
        request = CollectiveRequest(Pattern.ALL_REDUCE, 4, 4e9)
        network.advance(1.0)
        network.collective(request, network.log("ring"), algorithm="ring")
        network.run_until_idle()
        alone = FRAMEWORK.simulate_collective(network.fabric, "all-reduce", size=4e9, algorithm="ring")
        assert network.times["ring"] == pytest.approx(1.0 + alone.duration, rel=1e-12)
        assert np.allclose(network.link_bytes()["all-reduce"], alone.link_bytes)


def test_the_fastest_algorithm_is_taken_unless_one_is_given() -> None:
    fabric = FRAMEWORK.topology("fred", arity=[4], io_controllers=0, link_latency=0).build()
    request = CollectiveRequest(Pattern.ALL_REDUCE, 4, 1e9)
    rings = FRAMEWORK.plugins.collectives.get("ring")()
    for algorithm, name in (("auto", "in-network"), ("ring", "ring"), (rings, "ring")):
        network = Network(fabric)
        network.collective(request, algorithm=algorithm, label="gradients")
        network.run_until_idle()
        alone = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1e9, algorithm=name)
        assert network.now == pytest.approx(alone.duration)
        assert set(network.link_bytes()) == {"gradients"}


def test_a_group_of_one_is_done_at_once_and_what_is_cancelled_is_no_event() -> None:
    network = row()
    request = CollectiveRequest(Pattern.ALL_REDUCE, 1, 1e9)
    network.cancel(network.collective(request, network.log("cancelled"), group=[0]))
    network.collective(request, network.log("alone"), group=[1])
    network.run_until_idle()
    assert network.ends == [("alone", 0.0)]
    network.send(0, 1, 1e9, tag="late")
    network.run_until_idle()
    network.cancel(network.receive(0, 1, "late", pytest.fail))
    assert (network.next_event_time(), network.pending()) == (math.inf, {})


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
def test_a_cancelled_collective_leaves_the_links(fidelity: str) -> None:
    network = ring(4, fidelity=fidelity)
    handle = network.collective(CollectiveRequest(Pattern.ALL_REDUCE, 4, 4e9), network.log("never"), algorithm="ring")
    network.schedule(2.5, partial(network.cancel, handle))
    network.advance(3.0)
    assert network.next_event_time() == math.inf
    network.send(0, 1, 1e9, on_complete=network.log("sent"))
    network.run_until_idle()
    assert network.times == {"sent": pytest.approx(4.0)}


def test_a_collective_that_is_refused_leaves_nothing_behind() -> None:
    # FRED_2(8) cannot switch these three pairs together: each shares an input switch with the other two.
    fabric = FRAMEWORK.topology(
        "fred", arity=[8], bandwidths=["1 GB/s"], middle_switches=2, on_conflict="error", io_controllers=0
    ).build()
    network = Network(fabric)
    request = CollectiveRequest(Pattern.ALL_REDUCE, 2, 1e9)
    for group in ([0, 2], [1, 4]):
        network.collective(request, network.log(tuple(group)), group=group, algorithm="in-network")
    with pytest.raises(RefusedError, match="routing conflict"):
        network.collective(request, network.log("never"), group=[3, 5], algorithm="in-network")
    network.run_until_idle()
    assert [name for name, _ in network.ends] == [(0, 2), (1, 4)]
    network.collective(request, network.log("now"), group=[3, 5], algorithm="in-network")
    network.run_until_idle()
    assert network.ends[-1][0] == "now"


def test_advance_stops_exactly_there() -> None:
    network = row()
    network.send(0, 2, 1e9)
    for time in (0.1, 0.1 + 0.2, 1 / 3, "0.5 s", 0.7):
        network.advance(time)
        assert network.now == (0.5 if time == "0.5 s" else time)
    network.advance(network.now)  # no time at all
    assert network.now == 0.7


def test_at_one_moment_the_order_is_that_in_which_it_became_known() -> None:
    network = row(latency=0)
    network.send(0, 1, 1e9, on_complete=network.log("message"))
    network.schedule(1.0, network.log("timer"))
    network.receive(2, 1, "tag", network.log("receiver"))
    network.send(2, 1, 1e9, "tag", on_complete=network.log("sender"))
    network.schedule(1.0, network.log("another timer"))
    network.run_until_idle()
    names, times = zip(*network.ends, strict=True)
    assert names == ("timer", "another timer", "message", "sender", "receiver")
    assert set(times) == {1.0}


def test_a_timer_that_is_cancelled_never_was() -> None:
    network = row()
    timers: list[Handle] = []
    network.schedule(3, lambda: network.cancel(timers[3]))  # due at the same moment, and begun later
    timers += [network.schedule(seconds, network.log(seconds)) for seconds in (1, 2, 3, 3.0, 4)]
    network.cancel(timers[0])
    network.cancel(timers[4])
    assert network.next_event_time() == 2.0
    network.run_until_idle()
    assert network.ends == [(2, 2.0), (3, 3.0)]
    assert network.now == 3.0
    for timer in timers:
        with pytest.raises(InputError, match="is not under way"):
            network.cancel(timer)  # cancelled before, or over


def test_time_does_not_pass_inside_a_callback_nor_is_the_network_pickled() -> None:
    network = row()
    for step, said in (
        (partial(network.advance, 5.0), "already in a step"),
        (network.run_until_idle, "already in a step"),
        (partial(pickle.dumps, network), "in the middle of a step"),
    ):
        network.schedule(1.0, step)
        with pytest.raises(InputError, match=said):
            network.run_until_idle()
    network.run_until_idle()


def test_a_callback_that_cannot_be_pickled_is_named() -> None:
    network = mesh(1, 2)
    network.send(0, 1, 1.0, on_complete=network.log("fine"))
    handle = network.send(0, 1, 1.0, "tag", lambda: None)
    with pytest.raises(InputError, match=r"<lambda> at .*> of send 2 from 0 to 1, 1 bytes, tag 'tag' cannot be pic"):
        pickle.dumps(network)
    network.cancel(handle)
    network.receive(1, 0, "tag", threading.Lock().release)
    with pytest.raises(InputError, match=r"lock.* of receive 3 at 0 from 1, tag 'tag' cannot be pickled: .*lock"):
        copy.deepcopy(network)
    network.advance(1.0)
    assert [name for name, _ in network.ends] == ["fine"]


def test_networks_that_know_each_other_are_pickled_together() -> None:
    one, other = mesh(1, 2), mesh(1, 2)
    one.send(0, 1, 1e9, on_complete=other.log("one"))
    other.send(0, 1, 1e9, on_complete=one.log("other"))
    copied, _ = pickle.loads(pickle.dumps((one, other)))
    copied.run_until_idle()
    assert copied.next_event_time() == math.inf


REQUEST = CollectiveRequest(Pattern.ALL_REDUCE, 3, 1e9)
BAD: dict[str, tuple[Callable[[Any], object], str]] = {
    "no such NPU": (lambda network: network.send(0, 3, 1.0), "dst: 3 is not an end point"),
    "truth": (lambda network: network.send(True, 1, 1.0), "src: True is not an end point"),
    "no such node": (lambda network: network.receive("npu9", 1, 1, print), "src: 'npu9' is not an end point"),
    "negative bytes": (lambda network: network.send(0, 1, -1.0), "bytes: -1.0 is too small"),
    "no bytes": (lambda network: network.send(0, 1, "1 s"), "bytes: '1 s' has the unit 's'"),
    "tag": (lambda network: network.send(0, 1, 1.0, [1]), r"tag: \[1\] cannot be compared"),
    "callback": (lambda network: network.send(0, 1, 1.0, 1, 5), "on_complete: 5 cannot be called"),
    "class": (lambda network: network.send(0, 1, 1.0, priority=-1), "priority: -1 is not a class"),
    "too many classes": (lambda network: network.send(0, 1, 1.0, priority=2**31), "priority: 2147483648 is not a"),
    "label": (lambda network: network.send(0, 1, 1.0, label=5), "label: 5 is not a label"),
    "no label": (lambda network: network.collective(REQUEST, label=["x"]), r"label: \['x'\] is not a label"),
    "receive tag": (lambda network: network.receive(0, 1, None, print), "tag: a receive needs a tag"),
    "receive end": (lambda network: network.receive(0, 7, 1, print), "dst: 7 is not an end point"),
    "receive callback": (lambda network: network.receive(0, 1, 1, None), "on_complete: None cannot be called"),
    "request": (lambda network: network.collective("all-reduce"), "request: 'all-reduce' is not a request"),
    "ranks": (lambda network: network.collective(REQUEST, group=[0, 1]), "group: a request for 3 ranks"),
    "group": (lambda network: network.collective(REQUEST, group=[0, 1, 3]), "group: .* has no NPU 3"),
    "algorithm": (lambda network: network.collective(REQUEST, algorithm="rign"), "algorithm: .* did you mean 'ring'"),
    "no algorithm": (lambda network: network.collective(REQUEST, algorithm=None), "algorithm: None is not"),
    "unfit": (lambda network: network.collective(REQUEST, algorithm="in-network"), "no algorithm can do all-reduce"),
    "delay": (lambda network: network.schedule(-1e-9, print), "delay: -1e-09 is too small"),
    "timer": (lambda network: network.schedule(1.0, None), "callback: None cannot be called"),
    "backwards": (lambda network: network.advance(0.2), "until: cannot advance from 0.25 to 0.2"),
    "endless": (lambda network: network.advance(math.inf), "until: inf is not finite"),
    "handle": (lambda network: network.cancel(99), "handle: 99 is not under way"),
    "no handle": (lambda network: network.cancel([]), r"handle: \[\] is not under way"),
    "link": (lambda network: network.fail_link(4), "link: 4 is not a link"),
    "link name": (lambda network: network.fail_link("npu0->npu9"), "link: 'npu0->npu9' is not a link"),
    "no link between": (lambda network: network.restore_link((0, 2)), r"link: \(0, 2\) is not a link"),
    "three nodes": (lambda network: network.fail_link((0, 1, 2)), r"link: \(0, 1, 2\) is not a link"),
    "up already": (lambda network: network.restore_link(0), "link: npu0->npu1 has not failed"),
    "bandwidth": (lambda network: network.set_bandwidth((0, 9), 1.0), r"link: \(0, 9\) is not a link"),
    "no bandwidth": (lambda network: network.set_bandwidth(0, 0), "value: 0 is not a bandwidth .accepted: more than 0"),
    "no unit": (lambda network: network.set_bandwidth(0, "1 GB"), "value: '1 GB' has the unit 'GB'"),
}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"fidelity": "exakt"}, "'exakt' is not known; did you mean 'exact'?"),
        ({"fidelity": ["stepwise"]}, r"\['stepwise'\] is not known"),
        ({"fidelity": "exact", "stepwise": True}, "'exact' is not stepwise"),
        ({"stepwise": "no"}, r"^stepwise: 'no' is refused .accepted: True or False"),
        ({"plugins": 5}, r"^plugins: 5 is refused .accepted: a fredfw.PluginManager"),
        ({"fabric": "mesh2d"}, "fabric: 'mesh2d' is not a fabric"),
        ({"router": "yx"}, "router: no router 'yx'"),
        ({"sharing": 5}, "sharing: 5 is not a sharing policy"),
    ],
)
def test_what_a_network_is_made_of_is_checked(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Network(**{"fabric": row().fabric, **fields})


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_an_error_and_changes_nothing(name: str) -> None:
    call, message = BAD[name]
    network = row(latency=0)
    network.send(0, 2, 1e9, on_complete=network.log("sent"))
    network.advance(0.25)
    with pytest.raises(InputError, match=message) as refused:
        call(network)
    assert refused.value.accepted
    assert network.now == 0.25
    network.run_until_idle()
    assert network.ends == [("sent", 1.0)]
    assert network.notes() == ()


def test_a_message_to_a_switch_or_without_a_path_is_an_error() -> None:
    fabric = FRAMEWORK.topology("switch", npus=2).build()
    switch = int(np.flatnonzero(fabric.kinds == NodeKind.SWITCH)[0])
    with pytest.raises(InputError, match=r"dst: .* is not an end point"):
        Network(fabric).send(0, fabric.node_name(switch), 1.0)
    network = Network(Fabric("two islands", [0, 0, 0], [0], [1], 1.0, 0.0, 0.0))
    with pytest.raises(UnsupportedError, match="no path from npu0 to npu2"):
        network.send(0, 2, 1.0)
    assert network.next_event_time() == math.inf
