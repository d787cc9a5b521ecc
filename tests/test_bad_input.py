"""Bad input ends in one message with file, key, value and what is accepted, code 2, and nothing written or lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from fredfw.cli import main
from fredfw.plugin import registry

GOOD = """
[fabrics.mesh]
topology = { name = "mesh2d", rows = 2, columns = 2 }

[fabrics.fred]
topology = { name = "fred", arity = [2, 2] }

[workloads.net]
workload = "microbenchmark"
"""
PRECIOUS = "results of a whole night"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("out.json").write_text(PRECIOUS)
    Path("folder").mkdir()
    return tmp_path


def files() -> dict[Path, bytes | None]:
    """Everything that is there, but the store of cells that could be run."""
    found = [path for path in Path().rglob("*") if path.suffix != ".cells"]
    return {path: path.read_bytes() if path.is_file() else None for path in found}


def refused(*arguments: str) -> str:
    """Return the message, after making sure that it is one line, the code 2, and that nothing was touched."""
    before = files()
    result = CliRunner().invoke(main, arguments, prog_name="fredfw")
    assert isinstance(result.exception, SystemExit), result.exception  # anything else would be a traceback
    assert (result.exit_code, result.stdout) == (2, "")
    assert files() == before
    (line,) = result.stderr.splitlines()
    assert line.startswith("fredfw: error: ")
    assert "(accepted: " in line
    return str(line.removeprefix("fredfw: error: "))


def refused_experiment(text: str, command: str = "compare") -> str:
    Path("bad.toml").write_text(text)
    strict = ["--strict"] if command == "compare" else []
    message = refused(command, "bad.toml", "--json", "out.json", *strict)
    assert message.startswith("bad.toml: ")
    return message.removeprefix("bad.toml: ")


def check(text: str, key: str, message: str, accepted: str = "") -> None:
    line = refused_experiment(text)
    assert line.startswith(f"{key}: ")
    assert message in line
    assert accepted in line.rpartition("(accepted: ")[2]


def with_fabric(lines: str) -> str:
    return GOOD.replace('topology = { name = "mesh2d", rows = 2, columns = 2 }', lines)


def with_topology(field: str) -> str:
    return GOOD.replace("rows = 2", field)


def with_workload(lines: str) -> str:
    return GOOD.replace('workload = "microbenchmark"', lines)


def mesh(lines: str) -> str:
    return with_fabric(f'topology = "mesh2d"\n{lines}')


def of(fields: str) -> str:
    return with_workload(f"workload = {{ {fields} }}")


def reference(workload: str = "net", fabric: str = "fred", end: str = "speedup = 1") -> str:
    return f'{GOOD}[[references]]\nworkload = "{workload}"\nfabric = "{fabric}"\n{end}'


TRANSFORMER = 'name = "transformer", model = "transformer-17b"'


def test_the_good_experiment_is_good() -> None:
    Path("good.toml").write_text(GOOD)
    result = CliRunner().invoke(main, ["compare", "good.toml", "--json", "out.json"])
    assert result.exit_code == 0
    assert '"fredfw.comparison"' in Path("out.json").read_text()


@pytest.mark.parametrize(
    ("text", "key", "message", "accepted"),
    [
        (f'titel = "x"\n{GOOD}', "titel", "did you mean 'title'?", "title, baseline, npu"),
        (GOOD + 'workloud = "cnn"', "workloads.net.workloud", "did you mean 'workload'?", "compute_scale"),
        (with_topology("rowz = 2"), "fabrics.mesh.topology.rowz", "did you mean 'rows'?", "rows, columns"),
        (f"npu = {{ peek = 1 }}\n{GOOD}", "npu.peek", "did you mean 'peak'?", "memory_bandwidth"),
        (
            reference(end="speedupp = 1"),
            "references[0].speedupp",
            "did you mean 'speedup'?",
            "workload, fabric, speedup, source",
        ),
        (
            GOOD + 'calibration = { fabrik = "fred", speedup = 2 }',
            "workloads.net.calibration.fabrik",
            "did you mean 'fabric'?",
            "fabric, speedup",
        ),
    ],
)
def test_unknown_key(text: str, key: str, message: str, accepted: str) -> None:
    check(text, key, f"unknown key; {message}", accepted)


@pytest.mark.parametrize("command", ["compare", "run", "calibrate"])
def test_every_command_reads_with_the_same_care(command: str) -> None:
    assert refused_experiment(with_topology("rowz = 2"), command).startswith("fabrics.mesh.topology.rowz: unknown key")


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (with_fabric('topology = "mesh"'), "fabrics.mesh.topology", "no topology 'mesh'; did you mean 'mesh2d'?"),
        (mesh('router = "xz"'), "fabrics.mesh.router", "no router 'xz'"),
        (mesh('sharing = "max"'), "fabrics.mesh.sharing", "did you mean 'max-min'?"),
        (mesh('placement = "snail"'), "fabrics.mesh.placement", "did you mean 'snake'?"),
        (mesh('collectives = { default = "rin" }'), "fabrics.mesh.collectives.default", "did you mean 'ring'?"),
        (with_workload('workload = "transformers"'), "workloads.net.workload", "did you mean 'transformer'?"),
    ],
)
def test_unknown_plugin(text: str, key: str, message: str) -> None:
    check(text, key, message)


@pytest.mark.parametrize(
    ("kind", "name", "text", "key"),
    [
        ("topology", "moebius", with_fabric('topology = "moebius"'), "fabrics.mesh.topology"),
        (
            "collective",
            "moebius",
            mesh('collectives = { all-reduce = ["ring", "moebius"] }'),
            "fabrics.mesh.collectives.all-reduce[1]",
        ),
    ],
)
def test_unknown_plugin_with_the_distribution_that_provides_it(
    kind: str, name: str, text: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.FIRST_PARTY, kind, (name,))
    line = refused_experiment(text)
    assert line.startswith(f"{key}: no {kind} {name!r}")
    assert f"the distribution fredfw-{kind}-{name} would provide it, which is not installed" in line


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('"750 GB"', "'750 GB' has the unit 'GB', not B/s"),
        ('"20 ns"', "'20 ns' has the unit 'ns', not B/s"),
        ('"750 G"', "'750 G' has no unit"),
        ('"fast"', "'fast' is not a quantity"),
        ('"nan B/s"', "'nan B/s' is not finite"),
        ('"inf B/s"', "'inf B/s' is not finite"),
        ("nan", "nan is not finite"),
        ("0", "0.0 is too small"),
        ("true", "True is not a quantity"),
    ],
)
def test_bad_bandwidth(value: str, message: str) -> None:
    line = refused_experiment(with_topology(f"link_bandwidth = {value}"))
    assert line.startswith("fabrics.mesh.topology.link_bandwidth: ")
    assert message in line
    assert "a bandwidth such as '750 GB/s'" in line


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (with_topology('link_latency = "20 B"'), "fabrics.mesh.topology.link_latency", "has the unit 'B', not s"),
        (with_topology("rows = 0"), "fabrics.mesh.topology.rows", "0 is not a valid number"),
        (with_topology("rows = 2.5"), "fabrics.mesh.topology.rows", "2.5 is not an integer"),
        (with_topology('rows = "2"'), "fabrics.mesh.topology.rows", "'2' is not an integer"),
        (with_topology("io_controllers = 1"), "fabrics.mesh.topology.io_controllers", "1 is not true or false"),
        (GOOD.replace("[2, 2]", "4"), "fabrics.fred.topology.arity", "4 is not a list of sizes"),
        (GOOD.replace("[2, 2]", "[2, 0]"), "fabrics.fred.topology.arity", "[2, 0] has 0 in it"),
        (GOOD.replace("arity = [2, 2]", 'variant = "E"'), "fabrics.fred.topology.variant", "'E' is not known"),
        (f"npu = {{ efficiency = nan }}\n{GOOD}", "npu.efficiency", "nan is not finite"),
        (
            of('name = "microbenchmark", size = "1 GB/s"'),
            "workloads.net.workload.size",
            "'1 GB/s' has the unit 'GB/s', not B",
        ),
        (GOOD + "compute_scale = nan", "workloads.net.compute_scale", "nan is not a scale"),
        (
            GOOD + 'calibration = { fabric = "fred", speedup = inf }',
            "workloads.net.calibration.speedup",
            "inf is not finite",
        ),
        (reference(end="speedup = nan"), "references[0].speedup", "nan is not finite"),
    ],
)
def test_bad_number(text: str, key: str, message: str) -> None:
    check(text, key, message)


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (f"title = 3\n{GOOD}", "title", "3 is not text"),
        (f'priorities = "mp"\n{GOOD}', "priorities", "'mp' is not a list"),
        (f"priorities = [nan]\n{GOOD}", "priorities", "nan is not text"),
        (f'npu = "H100"\n{GOOD}', "npu", "'H100' is not a table"),
        (f"references = 1\n{GOOD}", "references", "1 is not a list of tables"),
        (f'baseline = ["mesh"]\n{GOOD}', "baseline", "['mesh'] is not text"),
        (with_fabric("topology = true"), "fabrics.mesh.topology", "True does not name a plugin"),
        (with_fabric('topology = ["mesh2d"]'), "fabrics.mesh.topology", "['mesh2d'] does not name a plugin"),
        (with_fabric('topology = { name = ["mesh2d"] }'), "fabrics.mesh.topology", "does not name a plugin"),
        (with_fabric("topology = { rows = 2 }"), "fabrics.mesh.topology", "{'rows': 2} does not name a plugin"),
        (with_fabric(""), "fabrics.mesh.topology", "the topology is missing"),
        (with_workload(""), "workloads.net.workload", "the workload is missing"),
        (with_workload("workload = 1.5"), "workloads.net.workload", "1.5 does not name a plugin"),
        ('fabrics = "mesh2d"\n[workloads.net]\nworkload = "cnn"', "fabrics", "'mesh2d' is not a table"),
        ('fabrics.mesh = "mesh2d"\n[workloads.net]\nworkload = "cnn"', "fabrics.mesh", "'mesh2d' is not a table"),
        ('workloads = []\n[fabrics.mesh]\ntopology = "mesh2d"', "workloads", "[] is not a table"),
        (mesh('collectives = "ring"'), "fabrics.mesh.collectives", "'ring' is not a choice of algorithms"),
        (mesh("collectives = { default = 1 }"), "fabrics.mesh.collectives.default", "1 does not name a plugin"),
    ],
)
def test_wrong_type(text: str, key: str, message: str) -> None:
    check(text, key, message)


@pytest.mark.parametrize(
    ("text", "key", "message", "accepted"),
    [
        ("", "fabrics", "there are no fabrics", "[fabrics.NAME]"),
        ('[fabrics]\nm.topology = "mesh2d"', "workloads", "there are no workloads", "[workloads.NAME]"),
        ('[fabrics]\n[workloads]\nn.workload = "cnn"', "fabrics", "there are no fabrics", "[fabrics.NAME]"),
        (f'baseline = "mash"\n{GOOD}', "baseline", "no fabric 'mash'; did you mean 'mesh'?", "mesh, fred"),
        (
            f'fidelity = "per-rank"\n{GOOD}',
            "fidelity",
            "'per-rank' is not known; it is now 'exact'",
            "exact, compressed, estimate",
        ),
        (
            GOOD + '[fabrics.other]\ntopology = "mesh2d"\nfidelity = "exakt"',
            "fabrics.other.fidelity",
            "all cells of an experiment have one fidelity",
            "fidelity of the experiment, beside baseline",
        ),
        (reference(fabric="frd"), "references[0].fabric", "no fabric 'frd'; did you mean 'fred'?", "mesh, fred"),
        (reference(workload="nett"), "references[0].workload", "no workload 'nett'; did you mean 'net'?", "net"),
        (
            GOOD + 'stepwise = ["fred"]',
            "workloads.net.stepwise",
            "all cells of an experiment have one fidelity",
            "exact",
        ),
        (GOOD + 'scaled_like = "other"', "workloads.net.scaled_like", "no workload 'other'", "a compute_scale"),
        (GOOD + 'scaled_like = "net"', "workloads.net.scaled_like", "with a compute_scale", "a compute_scale"),
        (
            GOOD + 'scaled_like = "net"\ncompute_scale = 2',
            "workloads.net.scaled_like",
            "also has a compute_scale",
            "one of the two",
        ),
        (
            GOOD + 'calibration = { fabric = "mesh", speedup = 2 }',
            "workloads.net.calibration.fabric",
            "'mesh' is the baseline",
            "fred",
        ),
    ],
)
def test_names_and_tables_that_are_not_there(text: str, key: str, message: str, accepted: str) -> None:
    check(text, key, message, accepted)


@pytest.mark.parametrize(
    ("text", "key", "message", "accepted"),
    [
        (
            of(f"{TRANSFORMER}, mp = 3, dp = 3, pp = 2"),
            "workloads.net.workload",
            "MP(3)-PP(2)-DP(3) needs 18 NPUs, but fabric 'mesh' has 4",
            "axes whose product is at most 4",
        ),
        (
            of(f"{TRANSFORMER}, mp = 5"),
            "workloads.net.workload.mp",
            "one replica needs 5 x 1 workers, but there are 4 NPUs",
            "mp x pp of at most 4",
        ),
        (of('name = "cnn", dp = 5'), "workloads.net.workload", "DP(5) needs 5 NPUs", "at most 4"),
        (
            of(f"{TRANSFORMER}, mp = 2, dp = 1, pp = 2"),
            "workloads.net.workload",
            "per NPU (weights ",
            "a larger split, a smaller microbatch",
        ),
        (
            of('name = "microbenchmark", pattern = "broadcast"').replace(
                "[workloads", '[fabrics.fred.collectives]\nall-reduce = "in-network"\n[workloads'
            ),
            "fabrics.fred.collectives",
            "no algorithm can do broadcast among 4 NPUs of 'fred': none is given",
            "direct, forest, in-network",
        ),
        (
            mesh('collectives = { default = "in-network" }'),
            "fabrics.mesh.collectives",
            "in-network: the network does not combine streams",
            "hierarchical",
        ),
        (
            mesh('collectives = { point-to-point = "ring" }'),
            "fabrics.mesh.collectives.point-to-point",
            "'ring' does not do point-to-point",
            "direct, in-network",
        ),
        (mesh('router = "up-down"'), "fabrics.mesh.router", "cannot route fabric 'mesh'", "a tree of switches"),
        (
            with_fabric('topology = { name = "mesh2d", rows = 1, columns = 1 }'),
            "workloads.net",
            "takes no time on 'mesh'",
            "a workload that computes or communicates",
        ),
    ],
)
def test_what_does_not_fit_together(text: str, key: str, message: str, accepted: str) -> None:
    check(text, key, message, accepted)


@pytest.mark.parametrize("command", ["compare", "run", "calibrate"])
def test_unreadable_files(command: str) -> None:
    Path("latin.toml").write_bytes(b'title = "\xe4"')
    for file, reason in (
        ("missing.toml", "No such file or directory"),
        ("folder", "Is a directory"),
        ("out.json/inside.toml", "Not a directory"),
        ("latin.toml", "it is not UTF-8 text"),
    ):
        assert refused(command, file) == f"{file}: cannot be read: {reason} (accepted: a TOML file)"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission() -> None:
    Path("secret.toml").write_text(GOOD)
    Path("secret.toml").chmod(0)
    assert (
        CliRunner()
        .invoke(main, ["compare", "secret.toml"])
        .stderr.startswith("fredfw: error: secret.toml: cannot be read: Permission denied")
    )


@pytest.mark.parametrize(
    "text", ["[", "title =", "title = 1\ntitle = 2", '{"title": 1}', f"a = {'[' * 5000}", f"a = {'9' * 5000}", "\x00"]
)
def test_not_toml(text: str) -> None:
    assert refused_experiment(text).startswith("is not TOML: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--json", "missing/out.json"], "missing/out.json: --json: cannot be written: No such file or directory"),
        (["--json", "folder"], "folder: --json: is a directory"),
        (["--json", "out.json/inside"], "out.json/inside: --json: cannot be written: Not a directory"),
        (["--json", "x" * 300], f"{'x' * 300}: --json: cannot be written: File name too long"),
        (["--json", ""], "--json: is a directory"),
        (["--csv", "missing/out.csv"], "missing/out.csv: --csv: cannot be written"),
        (["--plot", "missing/out.png"], "missing/out.png: --plot: cannot be written"),
        (["--plot", "out.jpg"], "out.jpg: --plot: unknown picture format"),
        (["--json", "good.toml"], "--json: 'good.toml' is also the input"),
        (["--json", "new", "--csv", "./new"], "--csv: './new' is also the path of --json"),
        # The first could be written, but is not.
        (["--json", "out.json", "--csv", "folder"], "folder: --csv: is a directory"),
    ],
)
def test_outputs_that_cannot_be_written(arguments: list[str], message: str) -> None:
    Path("good.toml").write_text(GOOD)
    assert refused("compare", "good.toml", *arguments).startswith(message)


def test_other_commands_check_their_outputs() -> None:
    Path("good.toml").write_text(GOOD)
    collective = ("collective", "all-reduce", "--topology", "mesh2d")
    for arguments in (("run", "good.toml", "--trace"), ("calibrate", "good.toml", "--json"), (*collective, "--csv")):
        assert refused(*arguments, "missing/out").startswith(f"missing/out: {arguments[-1]}: cannot be written")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "good.toml: --fabric: there are 2 fabrics, and none is chosen (accepted: one of mesh, fred)"),
        (["--fabric", "mash"], "good.toml: --fabric: no fabric 'mash'; did you mean 'mesh'?"),
        (["--fabric", "mesh", "--workload", "nett"], "good.toml: --workload: no workload 'nett'; did you mean 'net'?"),
    ],
)
def test_cells_that_are_not_there(arguments: list[str], message: str) -> None:
    Path("good.toml").write_text(GOOD)
    assert refused("run", "good.toml", *arguments, "--json", "out.json").startswith(message)


SAVING = '[[savings]]\nname = "S"\nof = "mesh"\nover = "fred"\n'


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (GOOD + "sweep = { size = ['1 MB'] }", "workloads.net.sweep.size", "the name 'net' has no placeholder {size}"),
        (
            GOOD.replace("net]", '"net {size}"]') + "sweep = { size = [] }",
            "workloads.net {size}.sweep.size",
            "[] is not",
        ),
        (
            GOOD.replace("net]", '"net {size}"]') + "sweep = { size = ['1 GB/s'] }",
            "workloads.net 1 GB/s.workload.size",
            "'1 GB/s' has the unit 'GB/s', not B",
        ),
        (mesh('baseline = "frd"'), "fabrics.mesh.baseline", "did you mean 'fred'?"),
        (GOOD + SAVING + "speedup = 2", "savings[0].speedup", "unknown key"),
        (GOOD + SAVING.replace("fred", "frd"), "savings[0].over", "did you mean 'fred'?"),
        (GOOD + SAVING + "part = 'dp'", "savings[0].part", "'net' on 'mesh' has no part 'dp'"),
        (GOOD + SAVING + "part = 'compute'", "savings[0]", "spends no time on compute on 'fred'"),
    ],
)
def test_bad_sweeps_baselines_and_savings(text: str, key: str, message: str) -> None:
    check(text, key, message)


def test_bad_cells() -> None:
    Path("good.toml").write_text(GOOD)
    Path("cell.json").write_text("{}")
    merge = ("merge", "good.toml", "--json", "out.json")
    assert refused(*merge, "cell.json") == "cell.json: is not a store (accepted: a store that fredfw wrote)"
    assert Path("cell.json").read_text() == "{}"
    assert refused(*merge, "missing").startswith("missing: there is no such store")
    arguments = ["run", "good.toml", "--fabric", "mesh", "--store", "store"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    assert refused(*merge, "store").startswith("good.toml: there is no result for 1 of 2 cells: net on fred")
    Path("good.toml").write_text(with_topology("rows = 3"))
    assert refused(*merge, "store").startswith("good.toml: there is no result for 2 of 2 cells: ")


def test_nothing_to_calibrate() -> None:
    message = "no workload has a calibration (accepted: [workloads.NAME.calibration])"
    assert refused_experiment(GOOD, "calibrate") == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all-reduc"], "pattern: no collective 'all-reduc'; did you mean 'all-reduce'?"),
        (["all-reduce", "--topology", "mesh"], "--topology: no topology 'mesh'; did you mean 'mesh2d'?"),
        (["all-reduce", "--set", "rows"], "--set: 'rows' is not an assignment"),
        (["all-reduce", "--set", "rows=2", "--set", "rows=3"], "--set: 'rows' is given twice"),
        (["all-reduce", "--set", "rowz=2"], "--set.rowz: unknown key; did you mean 'rows'?"),
        (["all-reduce", "--set", "link_bandwidth=750 G"], "--set.link_bandwidth: '750 G' has no unit"),
        (["all-reduce", "--set", f"rows={'9' * 5000}"], "--set.rows: "),
        (["all-reduce", "--size", "-1GB"], "--size: '-1GB' is not a size"),
        (["all-reduce", "--size", "0"], "--size: '0' is not a size"),
        (["all-reduce", "--size", "1T"], "--size: '1T' has no unit"),
        (["all-reduce", "-b", "1G"], "--minbytes: the first size, 1073741824 bytes, is more than the last, 33554432"),
        (["all-reduce", "-b", "8", "-e", "16G"], "--minbytes: from 8 to 17179869184 bytes there are more than 10000"),
        (["all-reduce", "-b", "8", "-f", "1"], "--stepfactor: '1' is not a factor"),
        (["all-reduce", "-e", "much"], "--maxbytes: 'much' is not a quantity"),
        (["all-reduce", "-i", "0"], "--stepbytes: '0' is not a size"),
        (["all-reduce", "--size", "1 GB/s"], "--size: '1 GB/s' has the unit 'GB/s', not B"),
        (["all-reduce", "--group", "0,1,0"], "--group: NPU 0 is named twice"),
        (["all-reduce", "--group", "3-40"], "--group: there is no NPU 20"),
        (["all-reduce", "--group", "a-b"], "--group: 'a-b' is neither an NPU nor a range"),
        (["broadcast", "--root", "20"], "root: root 20 is not in the group"),
        (["all-reduce", "--algorithm", "rign"], "--algorithm: no collective 'rign'; did you mean 'ring'?"),
        (["all-reduce", "--algorithm", "in-network"], "algorithm: no algorithm can do all-reduce among 20 NPUs"),
        (["all-reduce", "--group", "0,1,5", "--algorithm", "hierarchical"], "algorithm: no algorithm can do"),
        (["all-reduce", "--option", "chunks=2"], "--option: options are given, but no algorithm"),
        (["all-reduce", "--algorithm", "ring", "--option", "chunk=2"], "--option.chunk: unknown key; did you mean"),
    ],
)
def test_bad_collectives(arguments: list[str], message: str) -> None:
    topology = [] if "--topology" in arguments else ["--topology", "mesh2d"]
    assert refused("collective", *arguments, *topology, "--json", "out.json").startswith(message)


def test_collectives_with_plugins_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, option in (("topology", "--topology"), ("collective", "--algorithm")):
        monkeypatch.setitem(registry.FIRST_PARTY, kind, ("moebius",))
        line = refused("collective", "all-reduce", "--topology", "mesh2d", option, "moebius")
        assert line.startswith(
            f"{option}: no {kind} 'moebius'; the distribution fredfw-{kind}-moebius would provide it"
        )


@pytest.mark.parametrize(
    "sweep",
    [
        "",
        "1MB",
        "1MB:1GB",
        ":::",
        "1MB:1GB:x",
        "1MB:1GB:xnan",
        "1MB:1GB:+1",
        "1GB:1MB:x2",
        "1MB:1GB:x4:x4",
        "1B:1GB:+1B",
    ],
)
def test_bad_sweeps(sweep: str) -> None:
    message = refused("collective", "all-reduce", "--topology", "mesh2d", "--sizes", sweep, "--csv", "out.json")
    assert message.startswith("--sizes: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "good.toml", "--fidelity", "per-rank"],
        ["run", "good.toml", "--fidelity", "exakt"],
        ["run", "good.toml", "--top", "0"],
        ["collective", "all-reduce", "--topology", "mesh2d", "--root", "first"],
        ["collective", "all-reduce", "--topology", "mesh2d", "--size", "1GB", "--sizes", "1MB:1GB:x2"],
        ["compare"],
    ],
)
def test_bad_usage(arguments: list[str]) -> None:
    Path("good.toml").write_text(GOOD)
    before = sorted(os.listdir())
    result = CliRunner().invoke(main, [*arguments], prog_name="fredfw")
    assert isinstance(result.exception, SystemExit)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(os.listdir()) == before


def test_a_fidelity_of_an_earlier_release_says_what_it_is_called() -> None:
    Path("good.toml").write_text(GOOD)
    result = CliRunner().invoke(main, ["run", "good.toml", "--fidelity", "per-rank-rendezvous"], prog_name="fredfw")
    assert "'per-rank-rendezvous' is now 'exact', and a transport with" in result.stderr
    result = CliRunner().invoke(main, ["compare", "good.toml", "--fidelity", "stepwise"], prog_name="fredfw")
    assert "'stepwise' is now 'exact'; phases stay whole" in result.stderr


def test_an_unknown_command() -> None:
    assert refused("compere").startswith("no command 'compere'; did you mean 'compare'?")
