import attrs
import numpy as np
import pytest
from small import star

from fredfw import Bill, BillItem, Dimension, Fabric, NodeKind, Prices, Topology, product_fabric
from fredfw.errors import InputError
from fredfw.fabric import Price
from fredfw.fabric.cost import scopes_of_dimensions as scopes_of
from fredfw.fabric.view import Kind

GB = 1e9
LIBRA = "inter-package", "inter-node", "inter-pod"
WRONG = -1, True, float("nan"), "31"


def dimensions(*bandwidths: float) -> Fabric:
    """Return Ring 8 x FC 8 x Switch 16, the three-dimensional system of LIBRA."""
    kinds: list[tuple[Kind, int]] = [("ring", 8), ("fully-connected", 8), ("switch", 16)]
    rates = zip(kinds, bandwidths, strict=True)
    return product_fabric([Dimension(*one, rate * GB, tier=tier) for tier, (one, rate) in enumerate(rates)])


def test_an_npu_of_libra_pays_by_its_bandwidth_in_each_dimension() -> None:
    # LIBRA's prices and link counts: 2 p links of BW / 2 in a ring, p (p - 1) of BW / (p - 1) where all are joined.
    bill = Bill.of(dimensions(1.0, 2.0, 3.0), LIBRA)
    found = {item.name: (item.count / 1024, (item.dollars or 0.0) / 1024) for item in bill.items}
    assert found == {
        "links, inter-package": (2, 4.0),
        "links, inter-node": (7, pytest.approx(2 * 4.0)),
        "links, inter-pod": (1, pytest.approx(3 * 7.8)),
        "switch ports, inter-pod": (1, pytest.approx(3 * 18.0)),
        "network cards, inter-pod": (1, pytest.approx(3 * 31.6)),
    }
    assert {item.status for item in bill.items} == {"published"}
    assert all(item.source.startswith("LIBRA") for item in bill.items)
    assert bill.watts is None
    assert bill.notes == ("the ports are those of 64 switches",)


def two_switches(**changes: object) -> Fabric:
    """Return two NPUs, each at a switch, and a link of 3 GB/s between the switches; links of NPUs have 2 GB/s."""
    ends = [(0, 2), (2, 0), (1, 3), (3, 1), (2, 3), (3, 2)]
    near, far = zip(*ends, strict=True)
    rates = [2 * GB] * 4 + [3 * GB] * 2
    kinds = [NodeKind.NPU] * 2 + [NodeKind.SWITCH] * 2
    return Fabric("two switches", kinds, near, far, rates, 0.0, 1e-12, **changes)  # type: ignore[arg-type]


def test_each_end_at_a_switch_is_a_port() -> None:
    bill = Bill.of(two_switches(), ["inter-pod"])
    assert [item.count for item in bill.items] == [3, 4, 2]
    found = [item.dollars for item in bill.items]
    assert found == pytest.approx([(2 + 2 + 3) * 7.8, (2 + 2 + 3 + 3) * 18.0, (2 + 2) * 31.6])
    # Joules per byte x bytes per second, of six links.
    assert bill.items[0].watts == bill.watts == pytest.approx(1e-12 * (4 * 2 + 2 * 3) * GB)
    # What leads to the network inside of a server is no part of it: now node 2 is the network card of NPU 0.
    outside = Bill.of(two_switches(), ["inter-pod"], hosts=np.array([2])).items
    assert [(item.count, item.bandwidth) for item in outside] == [(2, (2 + 3) * GB)] * 3


def test_controllers_pay_for_links_alone() -> None:
    bill = Bill.of(star(1, controllers=1), ["inter-pod"])
    assert [item.count for item in bill.items] == [2, 2, 1]
    assert bill.notes[-1] == "1 I/O controllers are not in the bill, their links are"


def test_a_price_that_is_not_known_leaves_no_sum() -> None:
    bill = Bill.of(two_switches(), ["inter-chiplet"])
    links, switches = bill.items
    assert links.dollars == pytest.approx(7 * 2.0)
    assert (switches.dollars, switches.status, switches.source) == (None, "unknown", "")
    assert bill.dollars is None
    assert Bill.of(two_switches()).items[0].name == "links, tier 0"
    assert Bill(()).dollars == 0


def test_tiers_of_one_scope_are_one_item() -> None:
    apart = Bill.of(two_switches(tiers=[0, 0, 0, 0, 1, 1]), ["inter-node", "inter-node"]).items
    whole = Bill.of(two_switches(), ["inter-node"]).items
    assert [attrs.evolve(item, watts=None) for item in apart] == [attrs.evolve(item, watts=None) for item in whole]


def test_own_prices_replace_published_ones() -> None:
    prices = Prices.read({"source": "a quote", "inter-pod": {"nic": 30}, "optical": {"link": 1.5}})
    links, switches, cards = Bill.of(two_switches(), ["inter-pod"], prices).items
    assert (links.dollars, switches.dollars, cards.dollars) == pytest.approx((7 * 7.8, 10 * 18, 4 * 30))
    assert {one.status for one in (links, switches, cards)} == {"given"}
    assert links.source == "a quote"
    assert prices.table["inter-node"] == Prices.published().table["inter-node"]
    own = attrs.evolve(prices, scopes=("optical",))
    assert Bill.of(two_switches(), ["inter-pod"], own).items[0].dollars == pytest.approx(7 * 1.5)


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ({"inter-pod": {"nick": 1}}, "prices.inter-pod.nick", "unknown key; did you mean 'nic'"),
        *(({"inter-pod": {"nic": one}}, "prices.inter-pod.nic", f"{one!r} is not a price") for one in WRONG),
        ({"inter-pod": 7}, "prices.inter-pod", "7 is not a table"),
        ({"source": 7}, "prices.source", "7 is not a text"),
    ],
)
def test_wrong_prices_are_refused(table: dict[str, object], key: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: {message}"):
        Prices.read(table)


def test_an_unknown_scope_names_the_nearest_and_dimensions_have_those_of_libra() -> None:
    with pytest.raises(InputError, match=r"x\[1\].*no prices for 'inter-pods'; did you mean 'inter-pod'"):
        Prices.published().check(["inter-node", "inter-pods"], key="x")

    assert [scopes_of(count)[-1:] for count in (2, 3, 4)] == [("inter-pod",)] * 3
    assert scopes_of(3) == LIBRA
    assert scopes_of(4)[0] == "inter-chiplet"
    assert scopes_of(1) == ("inter-package",)
    assert scopes_of(5) == ()
    assert scopes_of(2, ("Node", "pod")) == ("inter-node", "inter-pod")
    assert scopes_of(2, ("x", "y")) == ("inter-package", "inter-pod")


def test_a_topology_has_a_bill_without_knowing_of_prices() -> None:
    class Pair(Topology):
        name = "pair"

        def build(self) -> Fabric:
            return two_switches()

    bill = Pair().cost()
    assert bill is not None
    assert bill.dollars is None
    more = bill.plus(BillItem("fans", 2, dollars=5.0), notes=["hot"])
    assert more.items[-1].name == "fans"
    assert more.notes[-1] == "hot"
    assert Price().status == "given"
