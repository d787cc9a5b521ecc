from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

from fredfw.answers import Asking, brief, introduce, whose
from fredfw.errors import InputError, PluginError

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


def test_functions_and_classes_are_named() -> None:
    def make(_: int) -> None: ...

    assert str(Asking(partial(make, 1))).startswith(f"{HERE}: test_functions_and_classes_are_named.<locals>.make()")
    assert str(Asking(Thing)) == f"{HERE}: Thing() of 'thing'"


def test_who_registered_it_is_named() -> None:
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


def test_answers_are_shown_in_a_few_words() -> None:
    assert brief(np.zeros(3)) == "array([0., 0., 0.])"
    assert brief(np.zeros((7, 2))) == "an array of shape (7, 2) and type float64"
    assert brief(None) == "None"
    assert len(brief("x" * 1000)) < 50
