import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from msccl_files import proof, rounds, simulated, transfers

from fredfw import limits
from fredfw.errors import InputError, LimitError
from fredfw_collective_msccl.plan import read

_LATENCY = 0.25
_PAIR: dict[str, Any] = json.loads((Path(__file__).parent / "pair.json").read_text(encoding="utf-8"))


def _pair(change: Callable[[dict[str, Any]], object] = lambda _: None) -> dict[str, Any]:
    content = deepcopy(_PAIR)
    change(content)
    return content


def _ops(content: dict[str, Any], gpu: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = content["gpus"][gpu]["threadblocks"][0]["ops"]
    return found


def test_reads_of_others_and_puts_are_transfers_of_which_there_may_be_too_many() -> None:
    done = proof(_pair())
    assert rounds(done) == [1, 2, 1, 2]
    first, second = [(1, 0, (0,), True), (0, 1, (0,), False)], [(0, 1, (1,), True), (1, 0, (1,), False)]
    assert transfers(done) == first + second
    assert (done.content.least, done.content.most) == (0, 0)
    with limits.allowed({"transfers": 3}), pytest.raises((InputError, LimitError), match="8 transfers are too many"):
        proof(_pair())


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
def test_a_put_waits_for_what_it_sends(fidelity: str) -> None:
    assert simulated(_pair(), fidelity, _LATENCY) == pytest.approx(2 * (1 + _LATENCY), rel=1e-12)


def _block(*ops: dict[str, Any]) -> dict[str, Any]:
    return {
        "ops": list(ops),
        "channels": [{"channel_type": "memory", "channel_ids": [0]}],
        "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}],
    }


def _plan(collective: str, blocks: list[list[dict[str, Any]]], chunks: tuple[int, int, int]) -> dict[str, Any]:
    """Return a plan of two GPUs whose thread blocks have one channel, and the other's output as buffer 0."""
    return {
        "name": "test",
        "collective": collective,
        "protocol": "Simple",
        "inplace": False,
        "gpus": [
            {
                "id": gpu,
                "input_chunks": chunks[0],
                "output_chunks": chunks[1],
                "scratch_chunks": chunks[2],
                "channels": [{"channel_type": "memory", "connected_to": [1 - gpu]}],
                "remote_buffers": [{"rank": 1 - gpu, "type": "o", "access_channel_types": ["memory"]}],
                "threadblocks": [{**block, "id": at} for at, block in enumerate(own)],
            }
            for gpu, own in enumerate(blocks)
        ],
    }


def _of(type_: str, index: int, size: int = 1) -> dict[str, Any]:
    return {"type": type_, "index": index, "size": size}


def _there(index: int, size: int = 1) -> dict[str, Any]:
    return {"buffer_id": 0, "index": index, "size": size}


def _op(
    name: str, source: dict[str, Any] | None = None, destination: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    spans = {} if source is None else {"src_buff": [source], "dst_buff": [destination]}
    return {"name": name, "channel_type": "memory", **spans, **more}


_SIGNAL, _WAIT = _op("signal", channel_ids=[0]), _op("wait", channel_ids=[0])


def _gather(*, get: bool, signal: str = "signal") -> dict[str, Any]:
    """Return an all-gather: each GPU copies its own chunk, and gets that of the other or puts its own there."""
    blocks, there = [], [_op(signal, channel_ids=[0]), _WAIT]
    for gpu, other in ((0, 1), (1, 0)):
        copy = _op("copy", _of("i", 0), _of("o", gpu))
        gets, puts = _op("get", _there(other), _of("o", other)), _op("put", _of("o", gpu), _there(gpu))
        blocks.append([_block(copy, *there, gets) if get else _block(copy, puts, *there)])
    return _plan("allgather", blocks, (1, 2, 0))


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
@pytest.mark.parametrize("get", [True, False])
def test_both_ways_to_gather_take_a_round(get: bool, fidelity: str) -> None:
    done = proof(_gather(get=get))
    assert sorted(one[:3] for one in transfers(done)) == [(0, 1, (0,)), (1, 0, (1,))]
    assert simulated(_gather(get=get), fidelity, _LATENCY) == pytest.approx(1 + _LATENCY, rel=1e-12)
    if get:  # a relaxed signal does not order memory
        with pytest.raises(InputError, match="nothing says which of them comes first"):
            proof(_gather(get=True, signal="rlxsignal"))


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
def test_a_get_waits_for_the_one_who_gets(fidelity: str) -> None:
    # GPU 1 puts three chunks to GPU 0. When they are there, GPU 0 gets one of another thread block's.
    get = [_WAIT, _op("get", _there(0), _of("s", 0))]
    put = [_op("put", _of("i", 0, 3), _there(0, 3)), _SIGNAL]
    content = _plan("custom", [[_block(*get)], [_block(*put)]], (3, 3, 1))
    assert [one.room for one in proof(content).transfers] == [(), (0,)]
    assert simulated(content, fidelity, _LATENCY) == pytest.approx(3 + _LATENCY + 1 + _LATENCY, rel=1e-12)


def test_threadblocks_meet_at_barriers() -> None:
    def plan(*ops: dict[str, Any]) -> dict[str, Any]:
        first = _block(_op("copy", _of("i", 0), _of("s", 0)), *ops)
        second = _block(*ops, _op("copy", _of("s", 0), _of("o", 0)))
        return _plan("custom", [[first, second], []], (1, 1, 1))

    proof(plan(_op("barrier", barrier_id=0, num_threadblocks=2)))
    with pytest.raises(InputError, match="GPU 0, threadblock 1, step 0: reads scratch chunk 0 of GPU 0"):
        proof(plan())
    message = "GPU 0, threadblock 0, step 1: never runs: it waits for 3 threadblocks at barrier 0, where 2 are"
    with pytest.raises(InputError, match=message):
        proof(plan(_op("barrier", barrier_id=0, num_threadblocks=3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda plan: _ops(plan)[0].update(name="glres"),
            r"^GPU 0, threadblock 0, step 0: unsupported operation 'glres'",
        ),
        (lambda plan: _ops(plan)[0].update(channel_type="switch"), "unsupported channel type 'switch'"),
        (
            lambda plan: _ops(plan)[0].update(tbg_info={"tb_id": 0, "tbg_size": 2}),
            "unsupported: threadblocks that share an operation",
        ),
        (lambda plan: plan.update(collective="sort"), "unsupported collective 'sort'"),
        (lambda plan: plan.pop("gpus"), "gpus: has no gpus"),
        (lambda plan: plan["gpus"].reverse(), "GPUs are not numbered"),
        (lambda plan: plan.update(gpus=[3]), "'3' is not an object"),
        (lambda plan: _ops(plan)[2].update(channel_ids=[1]), "step 2: channel_ids is 1"),
        (lambda plan: _ops(plan)[0]["dst_buff"][1].update(buffer_id=4), "step 0: buffer_id is 4"),
        (lambda plan: _ops(plan)[0]["src_buff"][0].update(size=2), "sources and destinations of rres"),
        (
            lambda plan: _ops(plan)[0]["src_buff"][0].update(index=1),
            "GPU 0, threadblock 0, step 0: adds chunk 0 of GPUs 1 to chunk 1 of GPUs 0",
        ),
        (lambda plan: _ops(plan).pop(3), "GPU 1, threadblock 0, step 2: signals what GPU 0 never waits for"),
        (
            lambda plan: _ops(plan).pop(2),
            "GPU 1, threadblock 0, step 3: never runs: it waits for a signal of GPU 0 on its memory channel 0 to GPU 1",
        ),
        (
            lambda plan: _ops(plan)[0].update(name="rre", dst_buff=[_of("i", 0)]),
            "GPU 1: no step puts it there: output chunk 0 has chunk 0 of GPUs 1, and needs chunk 0 of GPUs 0, 1",
        ),
    ],
)
def test_a_plan_that_is_wrong_is_refused_with_the_place(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        proof(_pair(change))


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "[1]", '"x"', "\xff"])
def test_what_is_no_plan_is_refused(content: str) -> None:
    with pytest.raises(InputError, match=r"is not JSON|is not an object"):
        read(content.encode("latin-1"))
