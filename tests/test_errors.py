import inspect
import pickle
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

from fredfw import errors
from fredfw.answers import Asking, brief, introduce, whose
from fredfw.errors import BrokenPluginError, FredfwError, InputError, PluginError, UnknownNameError, nearest


def test_errors_have_one_base_and_survive_pickling() -> None:
    found = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)]
    assert {cls for cls in found if not issubclass(cls, FredfwError)} == {errors.PluginWarning}
    error = BrokenPluginError("wrong", file="f", key="k", accepted="a")
    copy: BrokenPluginError = pickle.loads(pickle.dumps(error))
    assert (type(copy), vars(copy), str(copy)) == (BrokenPluginError, vars(error), "f: k: wrong (accepted: a)")
    assert issubclass(BrokenPluginError, PluginError)  # a name lost with a broken plugin is both
    assert isinstance(copy.at(key="k"), UnknownNameError)


def test_places_are_added_from_the_inside_out_and_the_nearest_name_is_offered() -> None:
    error = InputError("wrong")
    assert str(error) == "wrong"
    assert error.at(key="rows") is error
    for key, text in (("", "rows: wrong"), ("[2]", "[2].rows: wrong"), ("fabrics", "fabrics[2].rows: wrong")):
        assert str(error.at(key=key)) == text
    assert str(error.at(file="inner.toml").at(file="outer.toml")) == "inner.toml: fabrics[2].rows: wrong"
    assert nearest("mesh2", ["torus", "mesh2d"]) == "; did you mean 'mesh2d'?"
    assert nearest("zzz", iter(["torus", "mesh2d"])) == ""


HERE = f"module {__name__!r} ({__file__})"


class Thing:
    name = "thing"

    def act(self) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("error", [TypeError("no"), IndexError(3), SystemExit(0), RuntimeError(), StopIteration()])
def test_a_failure_names_plugin_method_error_and_line(error: BaseException) -> None:
    with pytest.raises(PluginError) as caught, Asking(Thing(), "act"):
        raise error
    text = " ".join([type(error).__name__, *map(str, error.args)]).replace(" ", ": ")
    assert str(caught.value).startswith(f"{HERE}: Thing.act() of 'thing' fails: {text} (line ")
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [InputError("on purpose"), KeyboardInterrupt(), MemoryError()])
def test_what_is_meant_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, Asking(Thing(), "act"):
        raise error
    assert caught.value is error


def test_what_is_asked_is_named() -> None:
    def make(_: int) -> None: ...

    assert str(Asking(partial(make, 1))).startswith(f"{HERE}: test_what_is_asked_is_named.<locals>.make()")
    assert str(Asking(Thing)) == f"{HERE}: Thing() of 'thing'"
    assert brief(np.zeros(3)) == "array([0., 0., 0.])"
    assert brief(np.zeros((7, 2))) == "an array of shape (7, 2) and type float64"
    assert brief(None) == "None"
    assert len(brief("x" * 1000)) < 50

    class Owner:
        location = __file__
        by_hand = True

        def __str__(self) -> str:
            return "plugin 'mine'"

    class Registered(Thing): ...

    Registered.__module__ = "acme_answers.sub"
    owner: Any = Owner()
    introduce(Registered, owner)
    assert whose(Registered) == "plugin 'mine'"
    assert whose(Thing) == HERE
    helper = type("Helper", (), {"__module__": "acme_answers.other"})
    assert whose(helper) == "module 'acme_answers.other'"  # a file is all that there is of a plugin given by hand
    Owner.by_hand = False
    assert whose(helper) == "plugin 'mine'"
    assert "acme_answers" not in sys.modules
