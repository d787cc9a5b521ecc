"""The programs of examples/cpp, built as the documentation says, give the numbers of Python to the last bit."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random

import numpy as np
import pytest

import fredfw_engine
from fredfw import Experiment, Framework
from fredfw.embed import NetworkBackend
from fredfw.errors import DeadlockError

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "embed.md").read_text(encoding="utf-8")
# A wheel of CMake is beside this Python.
FOLDERS = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
COMPILER = os.environ.get("CXX", "").split()[:1] or ["c++", "g++", "clang++"]


def block(start: str) -> str:
    found = re.search(rf"^```{start}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, start
    return found[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the programs are built and run as the page says, and what that prints."""
    if not any(shutil.which(one) for one in COMPILER):
        pytest.skip("there is no C++ compiler")
    if shutil.which("cmake", path=FOLDERS) is None:
        pytest.skip("there is no CMake")
    folder = tmp_path_factory.mktemp("cpp")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "ring.toml").write_text(block('toml title="ring.toml"'), encoding="utf-8")
    arguments = ["ring.toml", "--routes", "--output", "ring.fredfw"]
    environment = os.environ | {"PATH": FOLDERS, "CXXFLAGS": "-Wall -Wextra -Werror"}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("fredfw", "export-program", *arguments)
    return folder, run("sh", "-ec", block("sh"))


def ends(experiment: Experiment | Path, fidelity: str | None = None) -> list[str]:
    """Return what a program in C++ is to print of a cell."""
    timeline = Framework().run(experiment, fidelity=fidelity).timeline
    last = np.full(len(timeline.graph), np.nan)
    np.fmax.at(last, timeline.task, timeline.end)
    return [f"{end:.17g} {name}" for end, name in zip(last.tolist(), timeline.graph.names, strict=True)]


@pytest.mark.slow
def test_what_the_page_runs_prints_the_ends_of_python(built: tuple[Path, str]) -> None:
    folder, printed = built
    ring = runpy.run_path(str(ROOT / "examples" / "ring_by_messages.py"), run_name="ring")
    messages = [f"{end:.17g}" for end in ring["all_reduce"](16, 1e9)]
    expected = [*ends(folder / "ring.toml"), *messages]
    assert printed.splitlines()[-len(expected) :] == expected


@pytest.mark.slow
@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
def test_a_training_iteration_ends_when_that_of_python_does(fidelity: str, built: tuple[Path, str]) -> None:
    framework, file = Framework(), built[0] / f"{fidelity}.fredfw"
    torus = {"topology": {"name": "torus", "dimensions": [4, 2]}}
    experiment = framework.load_experiment({"fabrics": {"t": torus}, "workloads": {"cnn": {"workload": "cnn"}}})
    file.write_bytes(framework.export_program(experiment, fidelity=fidelity))
    command = [str(built[0] / "build" / "run_program"), str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ends(experiment, fidelity)


CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(messages LANGUAGES CXX)
find_package(fredfw CONFIG REQUIRED)
add_executable(messages {tests}/messages.cpp {examples}/astra_backend.cpp)
target_include_directories(messages PRIVATE {examples})
target_link_libraries(messages PRIVATE fredfw::fredfw)
"""


@pytest.mark.slow
def test_the_adapter_matches_messages_as_python_does(built: tuple[Path, str], tmp_path: Path) -> None:
    folder, random = built[0], Random(1)
    lists = {"tests": Path(__file__).parent, "examples": ROOT / "examples" / "cpp"}
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.format(**lists), encoding="utf-8")
    configure = f"cmake -S . -B build -D CMAKE_CXX_STANDARD=17 -D fredfw_DIR={fredfw_engine.CMAKE}; cmake --build build"
    subprocess.run(["sh", "-ec", configure], cwd=tmp_path, env=os.environ | {"PATH": FOLDERS}, check=True)
    network = NetworkBackend(Framework().run(folder / "ring.toml").fabric)
    found: list[str] = []

    def ended(what: str, number: int) -> None:
        found.append(f"{network.now:.17g} {what} {number}")

    def begin(what: str, number: int, source: int, destination: int, tag: int, size: int) -> None:
        end = partial(ended, what, number)
        if what == "send":
            network.send(source, destination, size, tag, end)
        else:
            network.receive(source, destination, tag, end)

    # Early and late receives, messages of the same tag that overtake each other, and of a rank to itself.
    lines = []
    for number in range(600):
        what, seconds = random.choice(("send", "receive")), random.choice((0.0, 1e-5, random.random() * 1e-4))
        ends = random.randrange(3), random.randrange(3), random.randrange(2)
        size = random.choice((0, 1000, 10**6))
        network.schedule(seconds, partial(begin, what, number, *ends, size))
        lines.append(" ".join(map(str, (what, repr(seconds), *ends, *([size] if what == "send" else [])))))
    with suppress(DeadlockError):  # of receives without a message
        network.run_until_idle()
    command = [str(tmp_path / "build" / "messages"), str(folder / "ring.fredfw")]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == found
    assert sum("receive" in line for line in found) > 100


@pytest.mark.slow
@pytest.mark.parametrize("program", ["run_program", "ring"])
def test_a_file_that_is_none_gets_one_sentence(program: str, built: tuple[Path, str], tmp_path: Path) -> None:
    file, whole = tmp_path / "bad.fredfw", (built[0] / "ring.fredfw").read_bytes()
    for content, message in (
        (whole[:-5], f"program: it is cut off, after {len(whole) - 5} of at least {len(whole)} bytes"),
        (b"[fabrics]", "program: it is not one that fredfw export-program has written"),
    ):
        file.write_bytes(content)
        command = [str(built[0] / "build" / program), str(file), *(["5"] if program == "ring" else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.endswith(f"{file}: {message}\n")
        assert done.stderr.count("\n") == 1


def test_the_package_for_cmake_is_of_this_version() -> None:
    text = (fredfw_engine.CMAKE / "fredfwConfigVersion.cmake").read_text(encoding="ascii")
    assert f'set(PACKAGE_VERSION "{version("fredfw-engine")}")' in text


def test_the_engine_says_where_it_is() -> None:
    found = {"--cmake-dir": fredfw_engine.CMAKE, "--include-dir": fredfw_engine.INCLUDE}
    for option, place in found.items():
        command = [sys.executable, "-m", "fredfw_engine", option]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == f"{place}\n"
        assert place.is_dir()
