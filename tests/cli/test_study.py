import csv
import json
from pathlib import Path

import pytest
from command_line import fredfw, refused, succeeds

from fredfw.experiment.run import cells
from fredfw.experiment.run.cells import CellRunner, CellSpec, Outcome, Share

STUDY = """
title = "meshes of [16]"
constraints = ["rows * columns == 16"]
objective = { minimise = "time" }

[fabrics.mesh]
topology = "mesh2d"
collectives = { default = "direct" }

[workloads.reduce]
workload = { name = "microbenchmark", size = "1 MB" }

[space]
rows = { path = "fabrics.mesh.topology.rows", divisors_of = 16 }
columns = { path = "fabrics.mesh.topology.columns", divisors_of = 16 }
"""

STEPS = """
objective = { minimise = "time" }
space = { SPACE }
fabrics.mesh.topology = { name = "mesh2d", rows = 1, columns = 2 }
workloads.train.workload = "step"
"""
COLUMNS = 'columns = { path = "fabrics.mesh.topology.columns", values = VALUES }'
NAMES = 'name = { path = "workloads.train.workload.name", values = ["step", "failing"] }'


@pytest.fixture(autouse=True)
def folder(plugin: Path) -> None:
    Path("study.toml").write_text(STUDY)


COMPARE = "compare", "study.toml"
HALVING = "{ name = 'halving', rungs = ['exac'] }"


def test_the_same_command_runs_no_cell_again_and_writes_all_points() -> None:
    written = (*COMPARE, "--best", "2", "--csv", "out.csv", "--json")
    first, second = (succeeds(*written, f"{number}.json").splitlines() for number in (1, 2))
    assert first[0] == "meshes of [16]"
    assert first[1] == "25 combinations, 5 points in the space; tried: 5, with a result: 5, that do not fit: 0"
    assert "the best 2 of 5 by least time" in first
    (head,) = (number for number, line in enumerate(first) if line.startswith("rank"))
    assert first[head + 2].split()[:3] == ["1", "4", "4"]
    assert first[-1] == "from the store: 0 cells"
    assert second == [*first[:-1], "from the store: 5 cells"]
    assert Path("1.json").read_bytes() == Path("2.json").read_bytes()
    assert succeeds(*COMPARE, "--best", "2", "--no-store").splitlines() == first
    points = json.loads(Path("1.json").read_text())["points"]
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    found = [(int(row["rank"]), float(row["time"])) for row in rows]
    assert found == [(one["rank"], one["seconds"]) for one in points]
    assert [row["rows"] for row in rows] == ["1", "2", "4", "8", "16"]


@pytest.mark.parametrize(
    ("space", "code", "said"),
    [
        (COLUMNS.replace("VALUES", "[2, 1]"), 0, "tried: 2, with a result: 1, that do not fit: 1"),
        (NAMES, 3, "it went wrong"),
        (COLUMNS.replace("VALUES", "[1]"), 3, "no point has a result"),
    ],
)
def test_the_exit_code_says_that_a_point_failed_or_that_there_is_no_result(space: str, code: int, said: str) -> None:
    Path("steps.toml").write_text(STEPS.replace("SPACE", space))
    result = fredfw("compare", "steps.toml")
    assert result.exit_code == code
    assert said in result.stdout


def test_an_interrupt_prints_the_table_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CellRunner.run
    done = 0

    def interrupted(self: CellRunner, spec: CellSpec, *share: Share | None) -> Outcome:
        nonlocal done
        if done == 2:
            raise KeyboardInterrupt
        done += 1
        return run(self, spec, *share)

    with monkeypatch.context() as patch:
        patch.setattr(cells.CellRunner, "run", interrupted)
        result = fredfw(*COMPARE, "--json", "partial.json")
    assert result.exit_code == 130
    assert "interrupted: the sampler has not come to its end" in result.stdout
    assert "all 2 by least time" in result.stdout
    assert "fredfw: interrupted: 2 points done" in result.stderr
    assert json.loads(Path("partial.json").read_text())["complete"] is False
    assert succeeds(*COMPARE).splitlines()[-1] == "from the store: 2 cells"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rows * columns == 16", "rows * colums == 16", "constraints[0]: 'rows * colums == 16': there is no"),
        ("rows * columns == 16", "rows > 99", "constraints[0]: 'rows > 99' removes all 25 points: the space is empty"),
        ('minimise = "time"', 'minimise = "tim"', "objective.minimise: no metric 'tim'; did you mean 'time'?"),
        ("fabrics.mesh.topology.rows", "fabrics.mish.topology.rows", "space.rows: there is no fabric 'mish'; did you"),
        ("[space]", "[spice]", "spice: unknown key; did you mean 'space'? (accepted: title, baseline, "),
        ("[fabrics.mesh]", f"sampler = {HALVING}\n[fabrics.mesh]", "sampler: there is no rung 'exac'; did you"),
        ("[fabrics.mesh]", "sampler = 'gird'\n[fabrics.mesh]", "sampler: no sampler 'gird'; did you"),
    ],
)
def test_bad_input_is_one_message(old: str, new: str, message: str) -> None:
    Path("study.toml").write_text(STUDY.replace(old, new, 1))
    assert refused(*COMPARE).startswith(f"study.toml: {message}")


def test_a_space_above_the_limit_is_refused_and_one_fabric_may_be_asked_for() -> None:
    other = '[fabrics.ring]\ntopology = { name = "torus", dimensions = [16] }\n'
    Path("study.toml").write_text(STUDY.replace("[fabrics.mesh]", f"{other}[fabrics.mesh]", 1))
    told = refused("--limit", "cells=5", *COMPARE)
    assert "space: 6 cells are too many (accepted: at most 5; fredfw --limit cells=6 raises the limit)" in told
    assert "tried: 6," in succeeds("--limit", "cells=6", *COMPARE)
    assert "tried: 5," in succeeds(*COMPARE, "--fabric", "mesh")


def test_what_has_no_form_the_former_command_and_outputs_over_inputs_are_refused() -> None:
    assert "no form for a study" in refused(*COMPARE, "--export", "trace", "out")
    told = refused("study", "study.toml")
    assert told == "no command 'study' (accepted: compare, which runs the points of a space, too)"
    Path("inner.toml").write_text(STUDY[STUDY.index("[fabrics.mesh]") : STUDY.index("[space]")])
    rest = STUDY[: STUDY.index("[fabrics.mesh]")] + STUDY[STUDY.index("[space]") :]
    Path("outer.toml").write_text(f'experiment = "inner.toml"\n{rest}')
    for path in ("outer.toml", "inner.toml"):
        assert "is also the input" in refused("compare", "outer.toml", "--json", path)
    succeeds("compare", "outer.toml")


@pytest.mark.parametrize("option", [("--sort", "time"), ("--pareto", "time,cost"), ("--strict",), ("--plot", "a.png")])
def test_what_needs_a_matrix_of_cells_is_refused_for_a_space(option: tuple[str, ...]) -> None:
    assert refused(*COMPARE, *option).startswith(f"study.toml: {option[0]}: is for a matrix of cells")
    assert not Path("study.cells").exists()


def test_commands_of_a_matrix_say_what_runs_a_space() -> None:
    message = "study.toml: space: is searched, so there is no matrix of cells (accepted: fredfw comp"
    for name, *stores in (("cells",), ("merge", "study.cells"), ("calibrate",)):
        assert refused(name, "study.toml", *stores).startswith(message)
