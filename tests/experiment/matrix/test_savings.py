from typing import Any

import pytest
from experiments import compare, refused

from fredfw.experiment.file import reading
from fredfw.experiment.results import Saving

# A line of two: an all-reduce of s bytes is two steps of s / 2, so s / bandwidth + 2 x latency. Where the latency is 0
# half the bandwidth is twice the time.
FABRICS: dict[str, Any] = {
    f"{name} {{link_bandwidth}}": {
        "topology": {"name": "mesh2d", "rows": 1, "columns": 2, "link_latency": latency},
        "collectives": {"default": "ring"},
        "sweep": {"link_bandwidth": ["1 GB/s", "2 GB/s", "4 GB/s"]},
    }
    for name, latency in (("fast", 0), ("slow", "500 ms"))
}
WORKLOADS: dict[str, Any] = {
    "sum {size}": {"workload": "microbenchmark", "sweep": {"size": ["1 GB", "4 GB"]}},
    "other": {"workload": {"name": "microbenchmark", "size": "1 GB", "pattern": "all-gather"}},
}
PAIRS = {"name": "S", "of": "fast {link_bandwidth}", "over": "slow {link_bandwidth}", "workloads": ["sum {size}"]}


def tables(**saving: Any) -> dict[str, Any]:
    return {"fabrics": FABRICS, "workloads": WORKLOADS, "savings": [{**PAIRS, **saving}]}


def saving(**changes: Any) -> Saving:
    (one,) = compare(tables(**changes)).savings
    return one


def share(size: float, bandwidth: float) -> float:
    return 1 - (size / bandwidth) / (size / bandwidth + 1)


def test_the_mean_over_all_pairs_one_group_per_pair_or_all_over_one() -> None:
    one = saving()
    shares = [share(size, bandwidth) for size in (1, 4) for bandwidth in (1, 2, 4)]
    (group,) = one.groups
    assert group.saving == pytest.approx(sum(shares) / 6, rel=1e-9)
    assert [group.lowest, group.highest] == pytest.approx([min(shares), max(shares)], rel=1e-9)
    assert (group.at, group.pairs, group.reference) == ({}, 6, None)
    assert (one.workloads, one.part, one.by) == (("sum 1 GB", "sum 4 GB"), None, ())
    groups = saving(by=["size", "link_bandwidth"]).groups
    found = {(group.at["size"], group.at["link_bandwidth"]): group.saving for group in groups}
    assert list(groups[0].at) == ["size", "link_bandwidth"]
    expected = {(f"{size} GB", f"{rate} GB/s"): share(size, rate) for size in (1, 4) for rate in (1, 2, 4)}
    assert found == pytest.approx(expected, rel=1e-9)
    one = saving(over="fast 2 GB/s", by=["link_bandwidth"])
    # Half the bandwidth takes twice the time: 1 - 2; twice the bandwidth saves half.
    assert [group.saving for group in one.groups] == pytest.approx([-1.0, 0.0, 0.5], rel=1e-9)
    everything = {key: value for key, value in PAIRS.items() if key != "workloads"}
    (one,) = compare({**tables(), "savings": [everything]}).savings
    assert one.workloads == ("sum 1 GB", "sum 4 GB", "other")


def test_published_savings_are_beside_their_groups_and_claims_of_none() -> None:
    published = [
        {"at": {"link_bandwidth": "2 GB/s"}, "saving": 0.5, "source": "a paper"},
        {"at": {"link_bandwidth": "4 GB/s"}, "saving": -0.25},
    ]
    groups = saving(by=["link_bandwidth"], references=published).groups
    found = [(group.reference, group.reference_source) for group in groups]
    assert found == [(None, None), (0.5, "a paper"), (-0.25, "")]
    (group,) = saving(references=[{"saving": 1}]).groups
    assert group.reference == 1.0
    published = [{"saving": claimed, "source": "a paper"} for claimed in (0.45, 0.9)]
    one = saving(by=["link_bandwidth"], references=published)
    assert [group.reference for group in one.groups] == [None] * 3
    means = [(share(1, rate) + share(4, rate)) / 2 for rate in (1, 2, 4)]
    assert means[0] < 0.45 < means[1] < means[2] < 0.9
    assert [(claim.saving, claim.source, claim.between) for claim in one.claims] == [
        (0.45, "a paper", (("1 GB/s", "2 GB/s"),)),
        (0.9, "a paper", ()),
    ]
    (claim,) = saving(by=["size", "link_bandwidth"], references=[{"saving": 0.5}]).claims
    assert claim.between == ()


def test_nothing_is_saved_by_computation_over_nothing_nor_of_a_part_that_is_not_there() -> None:
    # The communication of ResNet-50 on two NPUs differs, its computation does not.
    nets = {"workloads": {"net": {"workload": {"name": "cnn", "model": "resnet-50", "dp": 2}}}}
    (one,) = compare(tables(part="compute", workloads=["net"]) | nets).savings
    assert (one.groups[0].saving, one.groups[0].lowest, one.groups[0].highest) == (0.0, 0.0, 0.0)
    with refused("savings[0].part", "has no part 'pp'", "compute, bubble, load, dp"):
        compare(tables(part="pp", workloads=["net"]) | nets)
    steps: list[object] = []
    told = "'sum 1 GB' on 'fast 1 GB/s' has no part 'dp'"
    with refused("savings[0].part", told, "compute, bubble, collective"):
        compare(tables(part="dp"), progress=lambda *step: steps.append(step))
    assert steps == []
    with refused("savings[0]", "spends no time on compute on 'slow 1 GB/s'"):
        compare(tables(part="compute"))


LARGE = {"saving": 0.5, "at": {"size": "2 GB"}}


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"off": "x"}, "savings[0].off", "unknown key; did you mean 'of'?"),
        ({"of": "fsat {link_bandwidth}"}, "savings[0].of", "no fabric 'fsat {link_bandwidth}'; did you mean 'fast"),
        ({"over": "slow {rate}"}, "savings[0].over", "no fabric 'slow {rate}'"),
        ({"workloads": ["sums"]}, "savings[0].workloads", "no workload 'sums'"),
        ({"by": ["rate"]}, "savings[0].by", "'sum 1 GB' on 'fast 1 GB/s' has no swept field 'rate'"),
        ({"by": ["size", "size"]}, "savings[0].by", "['size', 'size'] is not one or two fields"),
        ({"by": ["size", "link_bandwidth", "x"]}, "savings[0].by", "'x'] is not one or two fields"),
        ({"references": [{"saving": 36.8}]}, "savings[0].references[0].saving", "36.8 is not a saving"),
        ({"references": [{"at": {}}]}, "savings[0].references[0].saving", "is missing"),
        ({"references": [{"saving": 0.5, "at": {"size": "1 GB"}}]}, "savings[0].references[0].at", "there is no group"),
        ({"by": ["size"], "references": [LARGE]}, "savings[0].references[0].at", "there is no group {'size': '2 GB'}"),
    ],
)
def test_bad_savings(changes: dict[str, Any], key: str, message: str) -> None:
    with refused(key, message, file="bad.toml"):
        reading.parse(tables(**changes), file="bad.toml")


def test_two_savings_of_one_name_are_refused() -> None:
    with refused("savings[1].name", "'S' is repeated"):
        reading.parse({**tables(), "savings": [PAIRS, PAIRS]})
