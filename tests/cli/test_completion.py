"""What a shell is offered, through the class that click has for shells."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from fredfw.cli import main

EXPERIMENT = """
plugins = ["never.py"]
fabrics.mesh.topology = "mesh2d"
[fabrics."switch of {npus}"]
topology = "switch"
sweep = { npus = [4, 8] }
router = "shortest-path"
[workloads]
gradients.workload = { name = "microbenchmark", size = "1 MB" }
theirs.workload = "not-installed"
"""


@pytest.fixture(autouse=True)
def folder(plugin: Path) -> None:
    Path("two.toml").write_text(EXPERIMENT)
    Path("never.py").write_text("raise SystemExit('code of an experiment ran while a line was completed')")


def completed(line: str) -> list[tuple[str, str]]:
    """Return the kind and the text of what completes the last word of ``line``, which may be empty."""
    *words, incomplete = line.split(" ")
    found = ShellComplete(main, {}, "fredfw", "_FREDFW_COMPLETE").get_completions(words, incomplete)
    return [(one.type, one.value) for one in found]


def offered(line: str) -> list[str]:
    return [text for _, text in completed(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("collective all-", ["all-reduce", "all-gather", "all-to-all"]),
        ("collective all-reduce --topology mesh", ["mesh2d"]),
        ("collective all-reduce --algorithm r", ["recursive-halving-doubling", "ring"]),
        ("collective all-reduce --topology mesh2d --set r", ["rows="]),
        ("collective all-reduce --algorithm h-ring --option m", ["m="]),
        ("plugins show compa", ["compare"]),
        ("plugins list --kind s", ["sharing-policy", "sampler"]),
        ("compare two.toml --fabric ", ["mesh", "switch of {npus}", "switch of 4", "switch of 8"]),
        ("run two.toml --workload g", ["gradients"]),
        ("run two.toml --set fabrics.mesh.topology.r", ["fabrics.mesh.topology.rows="]),
        ("cells two.toml --set workloads.gradients.workload.siz", ["workloads.gradients.workload.size="]),
        ("calibrate two.toml --set npu.mem", ["npu.memory_bandwidth=", "npu.memory="]),
        ("tra", ["trace"]),  # which a plugin has
        ("trace info x --format kin", ["kineto"]),
    ],
)
def test_names_and_keys_are_offered(line: str, expected: list[str]) -> None:
    assert offered(line) == expected


def test_a_name_with_blanks_is_offered_whole_and_paths_are_left_to_the_shell() -> None:
    found = offered('compare two.toml --set fabrics."switch')
    assert all(one.startswith('fabrics."switch of {npus}".') for one in found)
    assert {f'fabrics."switch of {{npus}}".{key}=' for key in ("topology.npus", "router")} <= set(found)
    for line in ("compare x", "compare two.toml --json x", "run two.toml --trace x", "merge two.toml x"):
        assert completed(line) == [("file", "x")]


@pytest.mark.parametrize(
    "line",
    [
        "compare missing.toml --fabric ",
        "compare --fabric ",
        "compare never.py --set ",
        "collective all-reduce --set ",
        "collective all-reduce --topology mesh3d --set ",
        "--plugin never.py collective all-reduce --topology ",
    ],
)
def test_what_cannot_be_found_out_is_not_offered(line: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert offered(line) == []
    assert capfd.readouterr() == ("", "")
