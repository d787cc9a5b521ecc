from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fredfw import Defaults, OpenAdmission
from fredfw.fabric import ValiantRouter


def test_rules_are_what_is_chosen_beside_the_router() -> None:
    assert Defaults().rules == ()
    assert Defaults(router=ValiantRouter(), admission=OpenAdmission()).rules == ()
    names = {"sharing": "roce", "transport": "nccl", "placement": "linear"}
    slots: dict[str, Any] = {slot: SimpleNamespace(name=name) for slot, name in names.items()}
    chosen = Defaults(**slots)
    assert chosen.rules == ("sharing roce", "transport nccl")
