"""What the first seconds of a command may import: a start that nobody notices."""

import json
import subprocess
import sys

LIGHT = {"attr", "attrs", "click", "fredfw", "fredfw_command", "lazy_loader", "pluggy"}
PRINT = "import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"


def imported(code: str) -> set[str]:
    """Return the modules that Python has after ``code``, those of its own library and of its start left out."""

    def modules(text: str) -> set[str]:
        done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True)
        return set(json.loads(done.stderr.splitlines()[-1]))

    found = modules(code) - modules(PRINT)
    return {name for name in found if name.partition(".")[0] not in sys.stdlib_module_names}


def command(*arguments: str) -> set[str]:
    run = f"from fredfw.cli import main\ntry:\n    main({list(arguments)!r})\nfinally:\n    {PRINT}"
    return {name.partition(".")[0] for name in imported(run)}


def test_nothing_is_imported_that_is_not_needed() -> None:
    assert {name for name in imported(f"import fredfw; {PRINT}") if name != "lazy_loader"} == {"fredfw"}
    assert command("--help") == LIGHT
    assert command("compar") == LIGHT
    assert command("plugins", "list") == LIGHT | {"rich"}
    numbers = {"fredfw_engine", "numpy", "quantiphy", "rich"}
    named = {"fredfw_collective_ring", "fredfw_topology_torus"}
    fabric = ["--topology", "torus", "--set", "dimensions=4,4"]
    collective = command("collective", "all-reduce", *fabric, "--algorithm", "ring", "--size", "1MB")
    assert collective == LIGHT | numbers | named
