"""Plugins that an experiment brings along."""

import hashlib
import tomllib
from pathlib import Path

import pytest
from experiments import refused

from fredfw import Framework
from fredfw.errors import PluginError

PLUGIN = '''
from typing import ClassVar
import numpy as np
from attrs import frozen
from fredfw import Fabric, NodeKind, Topology, hookimpl

@frozen
class Pair(Topology):
    """Two NPUs, a link each way."""
    name: ClassVar[str] = "pair"
    def build(self) -> Fabric:
        return Fabric("pair", np.full(2, NodeKind.NPU), [0, 1], [1, 0], {rate}, 0.0, 0.0)

@hookimpl
def fredfw_topologies():
    return [Pair]
'''
EXPERIMENT = """
plugins = ["fabrics/pair.py"]
fabrics.pair = { topology = "pair", collectives = { default = "direct" } }
workloads.sum = { workload = { name = "microbenchmark", size = "1 GB" } }
workloads.more = { workload = { name = "microbenchmark", size = "2 GB" } }
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "pair.toml"
    file.write_text(EXPERIMENT)
    (tmp_path / "fabrics").mkdir()
    write(file, 1e9)
    return file


def write(experiment: Path, rate: float) -> None:
    (experiment.parent / "fabrics" / "pair.py").write_text(PLUGIN.format(rate=rate))


def trusting() -> Framework:
    return Framework(trust_plugins=True)


def test_a_file_is_trusted_behind_a_link_and_one_that_is_not_keeps_all_from_running(experiment: Path) -> None:
    (experiment.parent / "link.py").symlink_to("fabrics/pair.py")
    framework = Framework()
    framework.plugins.load_file(experiment.parent / "link.py")
    assert framework.plugins.files == ((experiment.parent / "fabrics" / "pair.py").resolve(),)
    assert len(framework.load_experiment(experiment).cells) == 2
    other = experiment.parent / "other.py"
    other.write_text("raise SystemExit('executed')")
    for spelling in ("other.py", f"../{experiment.parent.name}/other.py", str(other)):
        experiment.write_text(EXPERIMENT.replace('["fabrics/pair.py"', f'["fabrics/pair.py", "{spelling}"'))
        message = f"the plugin file {str(experiment.parent / spelling)!r} is not trusted: its code would run"
        with refused("plugins[1]", message, file=str(experiment)):
            framework.load_experiment(experiment)


def test_files_beside_the_experiment_are_used_and_recorded(experiment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(experiment, 2e9)
    digest = hashlib.sha256((experiment.parent / "fabrics" / "pair.py").read_bytes()).hexdigest()
    result = trusting().run(experiment, workload="sum")
    # Each sends half of 1 GB, then half of it again, at 2 GB/s.
    assert result.seconds == pytest.approx(0.5)
    assert result.provenance["versions"]["pair.py"] == f"sha256:{digest}"
    assert str(experiment.parent) not in str(result.provenance)
    monkeypatch.chdir(experiment.parent)
    assert trusting().load_experiment(tomllib.loads(EXPERIMENT)).plugins == ("fabrics/pair.py",)


def test_a_changed_file_needs_a_new_framework_and_a_broken_one_is_named(experiment: Path) -> None:
    framework = trusting()
    framework.load_experiment(experiment)
    write(experiment, 4e9)
    with refused("plugins[0]", "'fabrics/pair.py' has changed since it was loaded", file=str(experiment)):
        framework.load_experiment(experiment)
    assert trusting().run(experiment, workload="sum").seconds == pytest.approx(0.25)
    (experiment.parent / "fabrics" / "pair.py").write_text("import no_such_module")
    with pytest.raises(PluginError, match=r"pair\.toml: plugins\[0\]: plugin 'pair\.py' .* cannot be imported: "):
        trusting().load_experiment(experiment)


@pytest.mark.parametrize(
    ("plugins", "key", "message"),
    [
        ('["absent.py"]', "plugins[0]", "'absent.py' does not exist"),
        ('["fabrics/pair.py", "pair.toml"]', "plugins[1]", "'pair.toml' is not a Python file"),
        ("[1]", "plugins", "1 is not text"),
    ],
)
def test_what_is_no_plugin_file(experiment: Path, plugins: str, key: str, message: str) -> None:
    experiment.write_text(EXPERIMENT.replace('["fabrics/pair.py"]', plugins))
    with refused(key, message, file=str(experiment)):
        trusting().load_experiment(experiment)
