from collections.abc import Callable
from functools import partial

import pytest
from experiments import refused

from fredfw import tables
from fredfw.errors import InputError, UnknownNameError
from fredfw.tables import as_choice, as_flag, as_quantity, as_table, as_tables, as_text, as_whole, check_keys
from fredfw.units import Unit

NO_TOML = ["a =", f"a = {'9' * 5000}", f"a = {'[' * 100_000}", "\x00"]


@pytest.mark.parametrize("text", NO_TOML)
def test_what_is_not_toml_is_refused(text: str) -> None:
    assert tables.parse_toml("[a]\nb = [1, 'x']") == {"a": {"b": [1, "x"]}}
    with pytest.raises(InputError, match=r"^is not TOML: .*\(accepted: a TOML file\)$"):
        tables.parse_toml(text)


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ({"rows": 1, "x": 2, "y": 3}, "a.x", "unknown key"),
        ({"rowz": 1}, "rowz", "unknown key; did you mean 'rows'?"),
        ({5: 1}, "a.5", "unknown key"),
    ],
)
def test_the_first_unknown_key_is_refused(table: dict[str, int], key: str, message: str) -> None:
    check_keys({"columns": 1}, iter(("rows", "columns")), "a")
    with refused(key, message, "rows, columns", error=UnknownNameError):
        check_keys(table, iter(("rows", "columns")), key.rpartition(".")[0])
    with refused("a.x", "unknown key", "no keys"):
        check_keys({"x": 1}, (), "a")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("topologi", "; did you mean 'topology'?"), ("rows", "; did you mean fabrics.mesh.topology.rows?")],
)
def test_a_key_like_no_other_may_be_one_of_a_table_inside(name: str, hint: str) -> None:
    with refused(f"fabrics.mesh.{name}", f"unknown key{hint}", "topology, npu"):
        check_keys({name: 1}, ("topology", "npu"), "fabrics.mesh", inside="topology")


@pytest.mark.parametrize(
    ("text", "reason"), [("[1,", "line 1, column 4: "), (b"\xff", ""), ("1" * 5000, ""), ("[" * 100_000, "nested")]
)
def test_what_is_not_json_is_refused(text: str | bytes, reason: str) -> None:
    assert tables.parse_json(b'{"a": [1]}') == {"a": [1]}
    with pytest.raises(InputError, match=rf"^is not JSON: {reason}.*\(accepted: a graph\)$"):
        tables.parse_json(text, accepted="a graph")


def choice(value: object, key: str) -> str:
    return as_choice(value, iter(("exact", "compressed")), key)


@pytest.mark.parametrize(
    ("read", "good", "given", "message"),
    [
        (as_text, "x", None, "k: is missing (accepted: text)"),
        (as_text, "x", ["y" * 80], f"k: ['{'y' * 58}... is not text (accepted: text)"),
        (as_table, {}, None, "k: is missing (accepted: a table)"),
        (as_table, {}, [{}], "k: [{}] is not a table (accepted: a table)"),
        (partial(as_table, accepted="rows"), {}, 7, "k: 7 is not a table (accepted: rows)"),
        (choice, "exact", "exakt", "k: 'exakt' is not known; did you mean 'exact'? (accepted: exact, compressed)"),
        *((choice, "exact", one, f"k: {one!r} is not known (accepted: exact, compressed)") for one in (7, ["exact"])),
        (as_flag, False, 0, "k: 0 is not a truth value (accepted: true or false)"),
        (as_whole, 0, True, "k: True is refused (accepted: a whole number of at least 0)"),
        (as_whole, 0, -1, "k: -1 is refused (accepted: a whole number of at least 0)"),
        (partial(as_whole, least=1, most=3), 3, 4, "k: 4 is refused (accepted: a whole number from 1 to 3)"),
        (as_tables, [], {}, "k: {} is not a list of tables (accepted: a list of tables)"),
        (as_tables, [], [{}, 1], "k[1]: 1 is not a table (accepted: a table)"),
    ],
)
def test_a_key_is_read(read: Callable[[object, str], object], good: object, given: object, message: str) -> None:
    assert read(good, "k") == good
    with pytest.raises(InputError) as caught:
        read(given, "k")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("given", "message"), [(None, "is missing"), ("3 s", "has the unit"), (-1, "-1 is too"), (0, "0 is too small")]
)
def test_quantities_of_tables(given: object, message: str) -> None:
    assert as_quantity("2 kB", Unit.BYTES, "k", exclusive=True) == 2000
    assert as_quantity(0, Unit.BYTES, "k") == 0
    with refused("k", message, "a size"):
        as_quantity(given, Unit.BYTES, "k", exclusive=True)
