from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, strategies as st

from fredfw.cli.parsing import nccl_sizes, parse_assignments, parse_size, parse_sizes, parse_values
from fredfw.errors import InputError
from fredfw.numbers import parse_numbers


def test_assignments() -> None:
    assert parse_assignments(["rows=4", " name = a=b "], "--set") == {"rows": "4", "name": "a=b"}


def refusal(call: Callable[[], object], key: str) -> str:
    """Return the message of the error that names ``key``, and says what is accepted."""
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.key == key
    assert caught.value.accepted
    return str(caught.value)


@pytest.mark.parametrize("texts", [["rows"], ["=4"], ["rows=4", "rows=5"]])
def test_bad_assignments(texts: list[str]) -> None:
    refusal(lambda: parse_assignments(texts, "--set"), "--set")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, f"'{text}' is not a size") for text in ("0 B", "0", "-1GB", "-1", "-1G")),
        *((text, f"'{text}' is not finite") for text in ("nan", "nan B", "inf B")),
        ("1e101", "1e+101 is too large"),
        ("9" * 400, "inf is not finite"),
        ("1 GB/s", "'1 GB/s' has the unit 'GB/s'"),
        ("much", "'much' is not a quantity"),
        ("1T", "'1T' has no unit"),
    ],
)
def test_bad_size(text: str, message: str) -> None:
    assert refusal(lambda: parse_size(text, "--size"), "--size").startswith(f"--size: {message}")


# nccl-tests' parsesize: a number, or one with K, M or G in either case, which are powers of 1024.
@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8", 8),
        ("1.5", 1.5),
        ("4K", 4 * 2**10),
        ("32M", 32 * 2**20),
        ("8 g", 8 * 2**30),
        (".5M", 2**19),
        ("9e9", 9e9),
        ("1e30", 1e30),
        ("1E1k", 10 * 2**10),
        ("5e-1M", 2**19),
        ("4kB", 4e3),
        ("4KB", 4e3),
        ("8MB", 8e6),
        ("1GB", 1e9),
        ("8MiB", 8 * 2**20),
    ],
)
def test_sizes_of_nccl_tests_and_with_units(text: str, size: float) -> None:
    assert parse_size(text, "--size") == size


def test_options_of_nccl_tests() -> None:
    # Its defaults: -b 32M, -e 32M, -i 1M.
    assert nccl_sizes("8", "8G", "2", None) == [8 * 2**power for power in range(31)]
    assert nccl_sizes("30M", None, None, None) == [30 * 2**20, 31 * 2**20, 32 * 2**20]
    assert nccl_sizes("1K", "4K", None, "1K") == [1024, 2048, 3072, 4096]
    assert nccl_sizes(None, None, "2", None) == [2**25]


def test_values_for_an_experiment() -> None:
    texts = ["npu.efficiency=0.5", ' fabrics."a = b".topology.dimensions = 4,4 ', "npu.peak=400 TFLOP/s", "title=x=y"]
    assert parse_values(texts) == {
        "npu.efficiency": 0.5,
        'fabrics."a = b".topology.dimensions': [4, 4],
        "npu.peak": "400 TFLOP/s",
        "title": "x=y",
    }


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["title"], "'title' is not an assignment"),
        (["=1"], "'' is not a path of keys"),
        (["two rows=1"], "'two rows' is not a path of keys"),
        (["a.b=1", 'a."b"=2'], "a.b is given twice"),
    ],
)
def test_bad_values_for_an_experiment(texts: list[str], message: str) -> None:
    assert refusal(lambda: parse_values(texts), "--set").startswith(f"--set: {message} (")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("8:8G:x32", [8, 256, 8192, 2**18, 2**23, 2**28, 2**33]),
        ("1MB:1GB:x4", [1e6, 4e6, 16e6, 64e6, 256e6]),
        ("1KiB:8KiB:x2", [1024, 2048, 4096, 8192]),
        ("1MB:9MB:+2MB", [1e6, 3e6, 5e6, 7e6, 9e6]),
        ("5 B:5 B:x2", [5]),
        ("1B:1.331B:x1.1", [1, 1.1, 1.21, 1.331]),
    ],
)
def test_sweeps(text: str, sizes: list[float]) -> None:
    assert parse_sizes(text) == pytest.approx(sizes, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        *("1MB", "1MB:2MB", "1MB:2MB:2", "2MB:1MB:x2", "1MB:2MB:x1", "1MB:2MB:xnan", "1MB:2MB:xinf"),
        *("1MB:2MB:+0B", "1MB:2MB:+1", "1MB:2MB:x", "1B:1GB:+1B", "1MB:2:x2"),
    ],
)
def test_bad_sweeps(text: str) -> None:
    refusal(lambda: parse_sizes(text), "--sizes")


parse_group = partial(parse_numbers, what="NPU", key="--group")


@given(st.lists(st.integers(0, 99), min_size=1, unique=True))
def test_group_of_numbers(group: list[int]) -> None:
    assert parse_group(",".join(map(str, group)), 100) == group


def test_group_of_ranges_in_the_order_given() -> None:
    assert parse_group("8-9, 0-2 ,5", 10) == [8, 9, 0, 1, 2, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-3,2", "NPU 2 is named twice"),
        ("0-4,12", "no NPU 12"),
        ("8-1000000000000", "no NPU 10"),
        ("4-2", "goes down"),
        ("", "neither an NPU nor a range"),
        ("1,,2", "neither an NPU nor a range"),
        ("-1", "neither an NPU nor a range"),
        ("a", "neither an NPU nor a range"),
    ],
)
def test_bad_group(text: str, message: str) -> None:
    told = refusal(lambda: parse_group(text, 10), "--group")
    assert message in told
    assert "0 to 9" in told
