from __future__ import annotations

import pytest

from fredfw.errors import InputError, UnknownNameError
from fredfw.tables import as_choice, as_table, check_keys, parse_toml


def test_toml_is_parsed() -> None:
    assert parse_toml("[a]\nb = [1, 'x']") == {"a": {"b": [1, "x"]}}


NO_TOML = ["[", "a =", "a = 1\na = 2", '{"a": 1}', f"a = {'9' * 5000}", f"a = {'[' * 100_000}", "\x00", 'a = "\x00"']


@pytest.mark.parametrize("text", NO_TOML)
def test_what_is_not_toml_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^is not TOML: .*\(accepted: a TOML file\)$"):
        parse_toml(text)


@pytest.mark.parametrize("value", [7, "x", [{}], None])
def test_what_is_not_a_table_is_refused(value: object) -> None:
    with pytest.raises(InputError) as refused:
        as_table(value, "a.b")
    assert str(refused.value) == f"a.b: {value!r} is not a table (accepted: a table)"
    with pytest.raises(InputError) as refused:
        as_table(value, "", accepted="a table of rows")
    assert str(refused.value.at(key="mesh")) == f"mesh: {value!r} is not a table (accepted: a table of rows)"


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ({"rowz": 1}, "a.b", "a.b.rowz: unknown key; did you mean 'rows'? (accepted: rows, columns)"),
        ({"rows": 1, "x": 2, "y": 3}, "a", "a.x: unknown key (accepted: rows, columns)"),
        ({"rowz": 1}, "", "rowz: unknown key; did you mean 'rows'? (accepted: rows, columns)"),
        ({5: 1}, "a", "a.5: unknown key (accepted: rows, columns)"),
    ],
)
def test_the_first_unknown_key_is_refused(table: dict[str, int], key: str, message: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        check_keys(table, iter(("rows", "columns")), key)
    assert str(refused.value) == message


def test_what_is_accepted_is_given_back() -> None:
    table = {"columns": 1}
    assert as_table(table, "x") is table
    check_keys({}, (), "a")
    check_keys(table, ("rows", "columns"), "a")
    assert as_choice("stepwise", iter(("compressed", "stepwise")), "fidelity") == "stepwise"
    with pytest.raises(UnknownNameError, match=r"^a\.x: unknown key \(accepted: no keys\)$"):
        check_keys({"x": 1}, (), "a")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("topologi", "; did you mean 'topology'?"), ("rows", "; did you mean fabrics.mesh.topology.rows?")],
)
def test_a_key_like_no_other_may_be_one_of_a_table_inside(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        check_keys({name: 1}, ("topology", "npu"), "fabrics.mesh", inside="topology")
    assert str(refused.value) == f"fabrics.mesh.{name}: unknown key{hint} (accepted: topology, npu)"


@pytest.mark.parametrize(("value", "hint"), [("stepwize", "; did you mean 'stepwise'?"), (7, ""), (["stepwise"], "")])
def test_a_wrong_choice_is_refused(value: object, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        as_choice(value, ("compressed", "stepwise"), "fidelity")
    assert str(refused.value) == f"fidelity: {value!r} is not known{hint} (accepted: compressed, stepwise)"
