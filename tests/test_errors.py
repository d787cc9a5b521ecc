from __future__ import annotations

import inspect
import pickle

import pytest

from fredfw import errors
from fredfw.errors import BrokenPluginError, FredfwError, InputError, PluginError, UnknownNameError, nearest


def test_all_errors_have_one_base() -> None:
    found = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)]
    assert {cls for cls in found if not issubclass(cls, FredfwError)} == {errors.PluginWarning}


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ({}, "'x' is wrong"),
        ({"key": "a.b"}, "a.b: 'x' is wrong"),
        ({"file": "f.toml"}, "f.toml: 'x' is wrong"),
        ({"file": "f.toml", "key": "a"}, "f.toml: a: 'x' is wrong"),
        ({"key": "a", "accepted": "y"}, "a: 'x' is wrong (accepted: y)"),
    ],
)
def test_the_message_names_file_key_and_what_is_accepted(places: dict[str, str], text: str) -> None:
    assert str(InputError("'x' is wrong", **places)) == text


def test_places_are_added_from_the_inside_out() -> None:
    error = InputError("wrong")
    assert error.at(key="rows") is error
    assert error.at(key="[2]").key == "[2].rows"
    assert error.at(key="fabrics").key == "fabrics[2].rows"
    assert error.at(key="", file=None).key == "fabrics[2].rows"
    assert error.at(file="inner.toml").at(file="outer.toml").file == "inner.toml"
    assert str(error) == "inner.toml: fabrics[2].rows: wrong"


def test_errors_survive_pickling() -> None:
    error = BrokenPluginError("wrong", file="f", key="k", accepted="a")
    copy: BrokenPluginError = pickle.loads(pickle.dumps(error))
    assert (type(copy), vars(copy), str(copy)) == (BrokenPluginError, vars(error), "f: k: wrong (accepted: a)")
    assert issubclass(BrokenPluginError, PluginError)  # a name lost with a broken plugin is both
    assert isinstance(copy.at(key="k"), UnknownNameError)


def test_nearest() -> None:
    assert nearest("mesh2", ["torus", "mesh2d"]) == "; did you mean 'mesh2d'?"
    assert nearest("zzz", ["torus", "mesh2d"]) == ""
    assert nearest("x", iter(())) == ""
