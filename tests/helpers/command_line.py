"""Runs the command line as a shell does, here or in another Python."""

import os
import sys

from click.testing import CliRunner, Result

from fredfw.cli import main

TWO = "two.toml"  # the experiment in the current folder


def fredfw(*arguments: str) -> Result:
    """Run a command; a defect is raised here, too."""
    result = CliRunner().invoke(main, arguments, prog_name="fredfw")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def succeeds(*arguments: str) -> str:
    """Run a command that ends well; return what it prints."""
    result = fredfw(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(*arguments: str, code: int = 2) -> str:
    """Run a command that ends with ``code`` and prints nothing; return what is on standard error."""
    result = fredfw(*arguments)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    return result.stderr


def refused(*arguments: str) -> str:
    """Run a command that ends with code 2 and one line on standard error, and writes nothing; return the line."""
    before = results()
    (line,) = fails(*arguments).splitlines()
    assert results() == before
    assert line.startswith("fredfw: error: ")
    assert "(accepted: " in line
    return line.removeprefix("fredfw: error: ")


def results() -> list[str]:
    """Return what is in the folder, but stores of cells."""
    return sorted(name for name in os.listdir() if not name.endswith(".cells"))


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def process(*arguments: str, start: str = "") -> list[str]:
    """Return the command of another Python, which does ``start`` first."""
    return [sys.executable, "-c", f"{start}from fredfw_command import main\nmain()", *arguments]


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which that finds the modules that this one does, and buffers its output."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "", **more}


# In the background of a shell a process ignores interrupts, and so would its children.
HEEDING = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
