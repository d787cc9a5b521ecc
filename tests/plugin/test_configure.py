import json
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from experiments import refused
from hypothesis import given, strategies as st
from things import Colour, Inner, Thing

from fredfw.errors import InputError, PluginError
from fredfw.plugin import configure


def build(**values: object) -> Thing:
    return configure.build(Thing, {"rows": 2, **values})


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("rows", 3.0, 3),
        ("rows", np.int64(3), 3),
        ("share", np.float64(0.5), 0.5),
        ("speed", "40 Gbps", 5e9),
        ("maybe", None, None),
        ("colour", Colour.BLUE, Colour.BLUE),
        ("shape", [8, 8.0], (8, 8)),
        ("pair", [1, "one"], (1, "one")),
        ("rates", [1, 2.5], (1.0, 2.5)),
        ("flags", ["f"], frozenset("f")),
        ("unordered", [2, 2], {2}),
        ("weights", {"a": 1}, {"a": 1.0}),
        ("inner", Inner(5), Inner(5)),
        ("inners", [{"depth": 3}], (Inner(3),)),
        ("anything", [1, "x"], [1, "x"]),
        ("upper", "shout", "SHOUT"),
        ("private", 7, 7),
    ],
)
def test_values_of_the_right_type(key: str, value: object, expected: object) -> None:
    found = getattr(build(**{key: value}), "_private" if key == "private" else key)
    assert repr(found) == repr(expected)  # of the same type, inside of lists, too


@pytest.mark.parametrize(
    ("values", "key", "message", "accepted"),
    [
        ({"row": 1}, "row", "unknown key; did you mean 'rows'?", "rows, share, speed"),
        ({"_private": 1}, "_private", "unknown key; did you mean 'private'?", "private"),
        ({"rows": "4"}, "rows", "'4' is not an integer", "a number of at least 1"),
        ({"rows": True}, "rows", "True is not an integer", "a number of at least 1"),
        ({"rows": 4.5}, "rows", "4.5 is not an integer", "a number of at least 1"),
        ({"rows": 0}, "rows", "0 is too small", "a number of at least 1"),
        ({"rows": float("inf")}, "rows", "inf is not finite", "a number of at least 1"),
        ({"share": float("nan")}, "share", "nan is not finite", "a number"),
        ({"share": 10**400}, "share", "is not finite", "a number"),
        ({"speed": "750 GB"}, "speed", "'750 GB' has the unit 'GB', not B/s", "750 GB/s"),
        ({"label": 3}, "label", "3 is not text", "text"),
        ({"either": 2.5}, "either", "2.5 is not an integer or text", "an integer or text"),
        ({"wide": 1}, "wide", "1 is not true or false", "true or false"),
        ({"colour": "blu"}, "colour", "'blu' is not known; did you mean 'blue'?", "red, blue"),
        ({"mode": "c"}, "mode", "'c' is not known", "a, b"),
        ({"shape": 8}, "shape", "8 is not a list", "a list, each an integer"),
        ({"shape": [8, "x"]}, "shape[1]", "'x' is not an integer", "an integer"),
        ({"pair": [1]}, "pair", "[1] is not a list of 2", "a list of 2: an integer, text"),
        ({"weights": 1}, "weights", "1 is not a table", "a table"),
        ({"weights": {"a": "b"}}, "weights.a", "'b' is not a number", "a number"),
        ({"inner": 1}, "inner", "1 is not a table", "a table of depth, rate"),
        ({"inner": {"dept": 1}}, "inner.dept", "unknown key; did you mean 'depth'?", "depth, rate"),
        ({"inners": [{}, {"depth": "x"}]}, "inners[1].depth", "'x' is not an integer", "an integer"),
        ({"level": "x"}, "level", "'x' is refused: invalid literal for int()", "an integer"),
        ({"bounded": 1}, "bounded", "1 is refused: 'bounded' must be >= 2: 1", "an integer"),
    ],
)
def test_bad_values(values: dict[str, object], key: str, message: str, accepted: str) -> None:
    with refused(f"fabrics.a.topology.{key}", message, accepted):
        configure.build(Thing, {"rows": 2, **values}, key_prefix="fabrics.a.topology")


def test_a_missing_key_what_is_no_table_and_what_a_class_raises() -> None:
    with pytest.raises(InputError, match="'x' is not a table"):
        configure.build(Inner, "x")  # type: ignore[arg-type]  # the mistake to be found
    empty = frozen(type("Empty", (), {}))
    assert configure.build(empty, {}) == empty()
    with pytest.raises(InputError, match=r"x: unknown key \(accepted: no keys\)"):
        configure.build(empty, {"x": 1})
    with pytest.raises(InputError, match=r"^here\.rows: is missing \(accepted: a number of at least 1\)$"):
        configure.build(Thing, {}, key_prefix="here")

    @frozen
    class Picky:
        error: Exception

        def __attrs_post_init__(self) -> None:
            raise self.error

    with pytest.raises(PluginError, match=r"Picky cannot be made of .*: KeyError: 'defect' \(line \d+ of .*"):
        configure.build(Picky, {"error": KeyError("defect")})
    with pytest.raises(InputError, match=r"^place: an odd thing$") as error:
        configure.build(Picky, {"error": ValueError("an odd thing")}, key_prefix="place")
    assert isinstance(error.value.__cause__, ValueError)
    inside = InputError("'tbd' is refused", file="machine.yml", key="bandwidth[0]", accepted="a number")
    with pytest.raises(InputError, match=r"^machine.yml: bandwidth\[0\]: 'tbd' is refused \(accepted: a number\)$"):
        configure.build(Picky, {"error": inside}, key_prefix="fabrics.f.topology")  # which has its place in the file


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"share": "1e-3"}, {"share": 1e-3}),
        ({"speed": "750 GB/s"}, {"speed": 750e9}),
        ({"wide": "true"}, {"wide": True}),
        ({"label": '"quoted"'}, {"label": "quoted"}),
        ({"label": "a = b"}, {"label": "a = b"}),
        ({"maybe": "4"}, {"maybe": "4"}),
        ({"either": "4"}, {"either": 4}),
        ({"anything": "2024-01-01"}, {"anything": "2024-01-01"}),
        ({"anything": "4\nother = 5"}, {"anything": "4\nother = 5"}),
        ({"colour": "blue"}, {"colour": Colour.BLUE}),
        ({"shape": "[8, 8]"}, {"shape": (8, 8)}),
        ({"shape": "8,8"}, {"shape": (8, 8)}),
        ({"shape": "8,"}, {"shape": (8,)}),
        ({"flags": "a, b"}, {"flags": frozenset({"a", "b"})}),
        ({"pair": "[1, x y]"}, {"pair": (1, "x y")}),
        ({"label": "a, b"}, {"label": "a, b"}),
        ({"anything": "1.5,2"}, {"anything": [1.5, 2]}),
        ({"anything": "a, b"}, {"anything": "a, b"}),
        ({"anything": "[1 GB/s, 2 GB/s]"}, {"anything": ["1 GB/s", "2 GB/s"]}),
        ({"inner": "{ depth = 2 }"}, {"inner": Inner(2)}),
    ],
)
def test_texts_are_read_as_toml_where_they_are(texts: dict[str, str], expected: dict[str, Any]) -> None:
    assert configure.from_text(Thing, {"rows": "2", **texts}) == Thing(**{"rows": 2, **expected})


@pytest.mark.parametrize(
    ("text", "accepted"),
    [("450", "such as 450GB/s or 450Gbps"), ("0.5", "such as 0.5GB/s or 0.5Gbps"), ("5e9", "such as 5 GB/s")],
)
def test_numbers_of_a_line_have_units(text: str, accepted: str) -> None:
    with refused("speed", "has no unit", accepted):
        configure.from_text(Thing, {"rows": "2", "speed": text})


def test_texts_that_do_not_fit() -> None:
    with refused("--set.rows", "'four' is not an integer"):
        configure.from_text(Thing, {"rows": "four"}, key_prefix="--set")
    with refused("row", "unknown key; did you mean 'rows'"):
        configure.from_text(Thing, {"row": "4"})


def test_plain_data() -> None:
    plain = configure.unstructure(build(speed="1 GB/s", colour="blue", shape=[1, 2], flags=["b", "a"], inners=[{}]))
    some = {"speed": 1e9, "colour": "blue", "shape": [1, 2], "flags": ["a", "b"], "private": 0}
    assert plain | {**some, "inners": [{"depth": 1, "rate": 1e9}]} == plain
    assert type(plain["colour"]) is str
    assert "name" not in plain
    for value, expected in ((np.arange(3), [0, 1, 2]), ({1: np.float64(2)}, {"1": 2.0})):
        assert configure.unstructure(build(anything=value))["anything"] == expected
    with pytest.raises(PluginError, match="field 'anything' of Thing holds <object"):
        configure.unstructure(build(anything=object()))


# Those that an index can be; greater ones are refused.
INTEGERS = st.integers(-(2**63) + 1, 2**63 - 1)


@given(
    rows=st.integers(1, 2**63 - 1),
    share=st.floats(allow_nan=False, allow_infinity=False),
    speed=st.floats(1e-9, 1e30),
    wait=st.none() | st.floats(0, 1e9),
    maybe=st.none() | st.text(),
    either=INTEGERS | st.text(),
    colour=st.sampled_from(Colour),
    shape=st.lists(st.integers(1, 2**63 - 1)).map(tuple),
    flags=st.frozensets(st.text()),
    weights=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)),
    inners=st.lists(st.builds(Inner, depth=INTEGERS, rate=st.floats(1.0, 1e15))).map(tuple),
)
def test_a_round_trip_through_json_gives_an_equal_instance(**values: Any) -> None:
    thing = Thing(**values)
    assert configure.build(Thing, json.loads(json.dumps(configure.unstructure(thing)))) == thing
