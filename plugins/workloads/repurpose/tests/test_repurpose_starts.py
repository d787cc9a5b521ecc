from __future__ import annotations

import numpy as np
import pytest

from fredfw_workload_repurpose import planted
from fredfw_workload_repurpose.partition import Partition, Workers, components, spectral
from fredfw_workload_repurpose.pruning import Pruner


def together(ours: Partition, theirs: Partition) -> bool:
    """Whether the same neurons are together."""
    flat = np.concatenate(ours), np.concatenate(theirs)
    return len(set(zip(*flat, strict=True))) == len(set(flat[0])) == len(set(flat[1]))


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_components_are_the_blocks(blocks: int) -> None:
    made = planted((64, 128, 32), blocks, seed=blocks)
    energies = [Pruner(layer.weights).energies for layer in made.network.layers]
    found = components(energies, [Workers(np.ones(blocks))] * 3)
    assert found is not None
    assert together(found, made.owners)


def test_small_components_share_a_worker() -> None:
    made = planted((64, 64), 8)
    energies = [Pruner(layer.weights).energies for layer in made.network.layers]
    found = components(energies, [Workers(np.ones(2))] * 2)
    assert found is not None
    crossing = made.network.layers[0].weights[:, :, 0] * (found[1][:, None] != found[0])
    assert not crossing.any()


def test_a_connected_network_has_no_components() -> None:
    made = planted((16, 16), 2, noise=0.1)
    energies = [Pruner(layer.weights).energies for layer in made.network.layers]
    assert components(energies, [Workers(np.ones(2))] * 2) is None


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_spectral_clusters_are_the_blocks_where_noise_is_weak(blocks: int) -> None:
    made = planted((128, 64, 128), blocks, noise=0.1, seed=blocks)
    energies = [Pruner(layer.weights).energies for layer in made.network.layers]
    assert together(spectral(energies, [Workers(np.ones(blocks))] * 3), made.owners)
