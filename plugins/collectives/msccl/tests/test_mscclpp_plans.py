import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msccl_files import LATENCY, proof, rounds, takes, transfers

from fredfw import limits
from fredfw.errors import InputError, LimitError
from fredfw_collective_msccl.plan import read

_PAIR: dict[str, Any] = json.loads((Path(__file__).parent / "pair.json").read_text(encoding="utf-8"))
Change: TypeAlias = Callable[[dict[str, Any], list[dict[str, Any]]], object]


def _pair(change: Change = lambda *_: None) -> dict[str, Any]:
    """Return a plan of an all-reduce, with ``change`` made to it, given what GPU 0 does."""
    content = deepcopy(_PAIR)
    change(content, content["gpus"][0]["threadblocks"][0]["ops"])
    return content


def test_reads_of_others_and_puts_are_transfers_of_which_there_may_be_too_many() -> None:
    done = proof(_pair())
    assert rounds(done) == [1, 2, 1, 2]
    assert transfers(done) == [(1, 0, 0, True), (0, 1, 0, False), (0, 1, 1, True), (1, 0, 1, False)]
    assert (done.content.least, done.content.most) == (0, 0)
    takes(_pair(), 2 * (1 + LATENCY))  # a put waits for what it sends
    with limits.allowed({"transfers": 3}), pytest.raises(LimitError, match="8 transfers are too many"):
        proof(_pair())


Ops: TypeAlias = list[dict[str, Any]]


def _plan(collective: str, chunks: Sequence[int], *gpus: Sequence[Ops]) -> dict[str, Any]:
    """Return a plan of two GPUs whose thread blocks have one channel, and the other's output as buffer 0."""
    content = _pair() | {"collective": collective, "inplace": False}
    for gpu, blocks in zip(content["gpus"], gpus, strict=True):
        gpu |= dict(zip(("input_chunks", "output_chunks", "scratch_chunks"), chunks, strict=True))
        gpu["remote_buffers"][0]["type"] = "o"
        gpu["threadblocks"] = [{**gpu["threadblocks"][0], "id": at, "ops": ops} for at, ops in enumerate(blocks)]
    return content


def _of(where: str | int, index: int, size: int = 1) -> dict[str, Any]:
    """Return chunks of a buffer of the GPU, or of a numbered one elsewhere."""
    return {"type" if isinstance(where, str) else "buffer_id": where, "index": index, "size": size}


def _op(
    name: str, source: dict[str, Any] | None = None, destination: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    spans = {} if source is None else {"src_buff": [source], "dst_buff": [destination]}
    return {"name": name, "channel_type": "memory", **spans, **more}


_SIGNAL, _WAIT = _op("signal", channel_ids=[0]), _op("wait", channel_ids=[0])


def _gather(*, get: bool, signal: str = "signal") -> dict[str, Any]:
    """Return an all-gather: each GPU copies its own chunk, and gets that of the other or puts its own there."""
    there = [_op(signal, channel_ids=[0]), _WAIT]
    blocks = []
    for gpu, other in ((0, 1), (1, 0)):
        copy = _op("copy", _of("i", 0), _of("o", gpu))
        gets, puts = _op("get", _of(0, other), _of("o", other)), _op("put", _of("o", gpu), _of(0, gpu))
        blocks.append([[copy, *there, gets] if get else [copy, puts, *there]])
    return _plan("allgather", (1, 2, 0), *blocks)


@pytest.mark.parametrize("get", [True, False])
def test_both_ways_to_gather_take_a_round(*, get: bool) -> None:
    assert sorted(transfers(proof(_gather(get=get)))) == [(0, 1, 0, False), (1, 0, 1, False)]
    takes(_gather(get=get), 1 + LATENCY)
    if get:  # a relaxed signal does not order memory
        with pytest.raises(InputError, match="nothing says which of them comes first"):
            proof(_gather(get=True, signal="rlxsignal"))


def test_a_get_waits_for_the_one_who_gets() -> None:
    # GPU 1 puts three chunks to GPU 0. When they are there, GPU 0 gets one of another thread block's.
    get = [_WAIT, _op("get", _of(0, 0), _of("s", 0))]
    put = [_op("put", _of("i", 0, 3), _of(0, 0, 3)), _SIGNAL]
    content = _plan("custom", (3, 3, 1), [get], [put])
    assert [one.room for one in proof(content).transfers] == [(), (0,)]
    takes(content, 3 + LATENCY + 1 + LATENCY)


def test_threadblocks_meet_at_barriers() -> None:
    def plan(*ops: dict[str, Any]) -> dict[str, Any]:
        first, second = _op("copy", _of("i", 0), _of("s", 0)), _op("copy", _of("s", 0), _of("o", 0))
        return _plan("custom", (1, 1, 1), [[first, *ops], [*ops, second]], [])

    proof(plan(_op("barrier", barrier_id=0, num_threadblocks=2)))
    with pytest.raises(InputError, match="GPU 0, threadblock 1, step 0: reads scratch chunk 0 of GPU 0"):
        proof(plan())
    message = "GPU 0, threadblock 0, step 1: never runs: it waits for 3 threadblocks at barrier 0, where 2 are"
    with pytest.raises(InputError, match=message):
        proof(plan(_op("barrier", barrier_id=0, num_threadblocks=3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, ops: ops[0].update(name="glres"), "^GPU 0, threadblock 0, step 0: unsupported operation 'glres'"),
        (lambda _, ops: ops[0].update(channel_type="switch"), "unsupported channel type 'switch'"),
        (lambda _, ops: ops[0].update(tbg_info={"tbg_size": 2}), "unsupported: threadblocks that share an operation"),
        (lambda plan, _: plan.update(collective="sort"), "unsupported collective 'sort'"),
        (lambda plan, _: plan.pop("gpus"), "gpus: has no gpus"),
        (lambda plan, _: plan["gpus"].reverse(), "GPUs are not numbered"),
        (lambda plan, _: plan.update(gpus=[3]), "'3' is not an object"),
        (lambda _, ops: ops[2].update(channel_ids=[1]), "step 2: channel_ids is 1"),
        (lambda _, ops: ops[0]["dst_buff"][1].update(buffer_id=4), "step 0: buffer_id is 4"),
        (lambda _, ops: ops[0]["src_buff"][0].update(size=2), "sources and destinations of rres"),
        (lambda _, ops: ops[0]["src_buff"][0].update(index=1), "adds chunk 0 of GPUs 1 to chunk 1 of GPUs 0"),
        (lambda _, ops: ops.pop(3), "GPU 1, threadblock 0, step 2: signals what GPU 0 never waits for"),
        (lambda _, ops: ops.pop(2), "GPU 1, .* step 3: never runs: it waits for a signal of GPU 0 on its memory"),
        (
            lambda _, ops: ops[0].update(name="rre", dst_buff=[_of("i", 0)]),
            "GPU 1: no step puts it there: output chunk 0 has chunk 0 of GPUs 1, and needs chunk 0 of GPUs 0, 1",
        ),
    ],
)
def test_a_plan_that_is_wrong_is_refused_with_the_place(change: Change, message: str) -> None:
    with pytest.raises(InputError, match=message):
        proof(_pair(change))


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "[1]", '"x"', "\xff"])
def test_what_is_no_plan_is_refused(content: str) -> None:
    with pytest.raises(InputError, match=r"is not JSON|is not an object"):
        read(content.encode("latin-1"))
