import math
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw import DeviceMesh, Placement, Work
from fredfw.errors import InputError
from fredfw.testing.fabrics import grid
from fredfw.workloads import LinearPlacement, MegatronPlacement, NestedPlacement, SnakePlacement, samples_per_replica

meshes = st.dictionaries(st.sampled_from(["tp", "cp", "ep", "dp", "pp"]), st.integers(1, 4)).map(DeviceMesh)


def three(mp: int, pp: int, dp: int) -> DeviceMesh:
    return DeviceMesh({"mp": mp, "pp": pp, "dp": dp})


def test_groups_by_hand_and_meshes_are_values() -> None:
    assert three(mp=3, pp=2, dp=2).grid.tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]
    mesh = three(mp=2, pp=2, dp=2)
    assert mesh.groups("mp").tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert mesh.groups("mp", pp=1).tolist() == [[2, 3], [6, 7]]
    assert mesh.groups("dp", pp=0).tolist() == [[0, 4], [1, 5]]
    assert mesh.groups("pp").tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert mesh.groups("dp", "mp").tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert mesh.groups("ep").tolist() == [[rank] for rank in range(8)]
    assert mesh.members(pp=1, mp=0).tolist() == [2, 6]
    assert (mesh.size("mp"), mesh.size("ep"), mesh.ranks) == (2, 1, 8)
    one = DeviceMesh({"tp": 2, "dp": 3})
    assert len({one, DeviceMesh({"tp": 2, "dp": 3}), pickle.loads(pickle.dumps(one))}) == 1
    assert one != DeviceMesh({"dp": 3, "tp": 2})  # other ranks are neighbours
    assert (str(one), str(DeviceMesh({}))) == ("TP(2)-DP(3)", "one rank")
    mesh = DeviceMesh({"rank": 4}, communicators={"7": np.array([[0, 3]])})
    assert mesh.communicators["7"].tolist() == [[0, 3]]
    for wrong in (np.array([[0, 4]]), np.array([0, 1])):
        with pytest.raises(InputError, match=r"communicator '7' is not an array of groups of ranks .*0 to 3"):
            DeviceMesh({"rank": 4}, communicators={"7": wrong})


@given(meshes, st.lists(st.sampled_from(["tp", "cp", "ep", "dp", "pp"]), unique=True))
def test_groups_partition_the_ranks(mesh: DeviceMesh, along: list[str]) -> None:
    groups = mesh.groups(*along)
    assert groups.shape[1] == np.prod([mesh.size(axis) for axis in along], dtype=int)
    assert sorted(groups.ravel().tolist()) == list(range(mesh.ranks))
    # Members are in the order of the ranks, and share all other coordinates.
    assert (np.diff(groups, axis=1) > 0).all()
    rest = [axis for axis in mesh.axes if axis not in along]
    for axis in rest:
        for at in range(mesh.size(axis)):
            members = mesh.members(**{axis: at})
            assert all(np.isin(group, members).all() or not np.isin(group, members).any() for group in groups)
            assert np.array_equal(np.sort(mesh.groups(*along, **{axis: at}).ravel()), members)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"mp": 0}, "axes: 0 is too small"),
        ({"mp": 1.5}, r"axes\.mp: 1\.5 is not a whole number"),
        ({"a b": 2}, "axes: 'a b' does not name an axis"),
        ({"dp": 10**9}, "1000000000 nodes are too many"),
    ],
)
def test_impossible_axes_are_refused(axes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DeviceMesh(axes)


def test_a_global_batch_is_divided_among_the_replicas_and_work_kept_as_floats() -> None:
    assert samples_per_replica(48, 4) == 12
    message = r"^global_batch: 64 samples cannot be divided evenly among 3 replicas \(accepted: a multiple of 3\)$"
    with pytest.raises(InputError, match=message):
        samples_per_replica(64, 3)
    work = Work(4, tokens=8192, model_flops=10)
    assert [type(one) for one in (work.samples, work.tokens, work.model_flops)] == [float] * 3
    assert work.tokens_per_sample == 2048
    assert Work(4).tokens_per_sample is Work(0, tokens=0).tokens_per_sample is None


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda mesh: mesh.members(tp=4), "tp: 4 is not a coordinate .accepted: 0 to 3"),
        (lambda mesh: mesh.groups("tp", pp=0), "pp: there is no axis 'pp' .accepted: tp, experts"),
        (lambda mesh: mesh.groups("pt"), "axis: the mesh has no axis 'pt'; did you mean 'tp'. .accepted: tp, ex"),
        (lambda mesh: mesh.groups("tp", "expert"), "axis: the mesh has no axis 'expert'; did you mean 'experts'"),
        (lambda mesh: mesh.size("pt"), "axis: the mesh has no axis 'pt'; .* tp, experts, mp, dp, pp, ep, cp, sp."),
    ],
)
def test_what_a_mesh_does_not_have_is_refused(ask: Callable[[DeviceMesh], object], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        ask(DeviceMesh({"tp": 4, "experts": 2}))


@pytest.mark.parametrize(
    ("key", "value"),
    [*(("samples", -1), ("tokens", math.inf), ("model_flops", math.nan)), *(("replicas", 0), ("microbatches", 1.5))],
)
def test_impossible_work_names_the_key(key: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        Work(**{"samples": 1, key: value})


def test_snakes_and_axes_that_are_nested_in_another_order() -> None:
    expected = [0, 1, 2, 3, 4, 9, 8, 7, 6, 5, 10, 11, 12, 13, 14, 19, 18, 17, 16, 15]
    assert SnakePlacement().assign(grid(5, 4), DeviceMesh({"dp": 20})).tolist() == expected
    mesh = three(mp=2, pp=2, dp=3)
    places = NestedPlacement(axes=("dp", "mp")).assign(grid(5, 4), mesh)
    # The NPU of rank mp + 2 (pp + 2 dp) is dp + 3 (mp + 2 pp).
    assert places.tolist() == [dp + 3 * (mp + 2 * pp) for dp in range(3) for pp in range(2) for mp in range(2)]
    nested = NestedPlacement(axes=("mp", "dp")).order(grid(1), mesh)
    assert np.array_equal(nested, MegatronPlacement().order(grid(1), mesh))


@pytest.mark.parametrize("sizes", [(3, 3), (2, 3, 4), (3, 2, 5), (1, 6), (2, 2, 2, 3)])
def test_snake_steps_to_a_neighbour(sizes: tuple[int, ...]) -> None:
    fabric = grid(*sizes)
    order = SnakePlacement().order(fabric, DeviceMesh({}))
    assert sorted(order.tolist()) == list(range(len(fabric.npus)))
    assert fabric.coordinates is not None
    for one, other in pairwise(order):
        assert np.abs(fabric.coordinates[one] - fabric.coordinates[other]).sum() == 1


@pytest.mark.parametrize("placement", [LinearPlacement(), MegatronPlacement(), SnakePlacement()])
def test_too_many_workers_are_refused(placement: Placement) -> None:
    with pytest.raises(InputError, match=r"MP\(3\)-PP\(2\)-DP\(3\) needs 18 NPUs, but fabric 'mesh of 2x2' has 4"):
        placement.assign(grid(2, 2), DeviceMesh({"mp": 3, "pp": 2, "dp": 3}))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (("ep",), r"axes\[0\]: the workload has no axis 'ep'.*tp, dp"),
        ((), "axes: names no axis"),
        (("dp", "dp"), r"axes\[1\]: 'dp' is named twice"),
    ],
)
def test_axes_that_cannot_be_nested_are_refused(axes: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NestedPlacement(axes=axes).assign(grid(2, 2), DeviceMesh({"tp": 2, "dp": 2}))
