from __future__ import annotations

import math
from typing import Any

import pytest

from fredfw import Work
from fredfw.errors import InputError


def test_work_is_kept_as_floats() -> None:
    work = Work(4, tokens=8192, model_flops=10)
    assert [type(one) for one in (work.samples, work.tokens, work.model_flops)] == [float] * 3
    assert work.tokens_per_sample == 2048


@pytest.mark.parametrize("work", [Work(4), Work(0, tokens=0)])
def test_samples_without_a_length(work: Work) -> None:
    assert work.tokens_per_sample is None


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"samples": -1}, "samples"),
        ({"samples": 1, "tokens": math.inf}, "tokens"),
        ({"samples": 1, "model_flops": math.nan}, "model_flops"),
        ({"samples": 1, "replicas": 0}, "replicas"),
        ({"samples": 1, "microbatches": 1.5}, "microbatches"),
    ],
)
def test_impossible_work_names_the_key(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        Work(**fields)
