import re
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from msccl_files import LATENCY, Block, pair, proof, rounds, step, takes, transfers, xml

from fredfw import Pattern, limits
from fredfw.errors import InputError, LimitError
from fredfw_collective_msccl.reading import read
from fredfw_collective_msccl.writing import text


def test_what_is_written_is_what_was_read_whatever_tools_leave_out_add_or_put_in_another_order() -> None:
    plain = read(pair().encode())
    program = read(pair(name="pair", minBytes=16, maxBytes=4096, proto="LL").encode())
    assert program == evolve(plain, name="pair", least=16, most=4096, protocol="LL")
    assert read(text(program).encode()) == program
    gpus = re.findall(r"<gpu.*?</gpu>", pair(), re.DOTALL)
    for same in (
        re.sub(r' (proto|outofplace|minBytes|maxBytes|nchannels)="\w+"', "", pair()),
        f"<!-- a tool -->\n{pair()}compiled in 3 s & more",
        pair().replace("\n".join(gpus), "\n".join(reversed(gpus))),
    ):
        assert same != pair()
        assert read(same.encode()) == plain


_ENTITIES = '<!DOCTYPE algo [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</algo>", "", "is not whole"),
        ("<algo", f"{_ENTITIES}<algo", "declares a document type or entities"),
        ("<algo", "<?xml version='1.0' encoding='no-such'?><algo", "is not XML"),
        ("allreduce", "sort", r"coll: unsupported collective 'sort' \(accepted: allreduce"),
        ("Simple", "LL64", "proto: unknown protocol 'LL64'"),
        ('ngpus="2"', 'ngpus="3"', "^GPU 2: is missing"),
        ('ngpus="2"', 'ngpus="1"', r"id: id is '1' \(accepted: 0\)"),
        ('ngpus="2"', 'ngpus="two"', "ngpus: ngpus is 'two'"),
        ('ngpus="2"', "", "ngpus: <algo> has no ngpus"),
        ('perloop="2"', 'perloop="0"', "nchunksperloop is '0'"),
        ('id="1" i', 'id="0" i', "^GPU 0: is there twice"),
        ('tb id="0"', 'tb id="1"', "GPU 0: threadblock 0 is missing"),
        ('send="1"', 'send="0"', "AT: sends to itself"),
        ('send="1"', 'send="-1"', "AT, step 0: sends without a peer"),
        ('send="1"', 'send="2"', "AT: send is '2'"),
        ("rrc", "rx", "AT, step 1: unknown type 'rx'"),
        ('srcbuf="i"', 'srcbuf="q"', "AT, step 0: unknown srcbuf 'q'"),
        (' s="1"', ' s="7"', r"AT, step 1: s is '7' \(accepted: 1\)"),
        ('cnt="1"', 'cnt="73"', r"step 0: cnt is '73' \(accepted: a whole number from 1 to 72\)"),
        ('cnt="1"', "", "step 0: <step> has no cnt"),
        ('depid="-1" deps="-1"', 'depid="0" deps="9"', "AT, step 0: waits for step 9 of threadblock 0, which is not"),
        ('depid="-1" deps="-1"', 'depid="0" deps="3"', "AT, step 3: hasdep is 0, and step 0 of threadblock 0 waits"),
        ("rrc", "r", "AT, step 1: leaves wrong data: output chunk 0 has chunk 0 of GPUs 1, and needs .* of GPUs 0, 1"),
        ('srcoff="1"', 'srcoff="0"', "^GPU 1, threadblock 0, step 1: adds chunk 0 of GPUs 0 to chunk 1 of GPUs 1"),
        ('"r"', '"rrc"', "AT, step 3: adds chunk 1 of GPUs 0, 1 to chunk 1 of GPUs 0, which counts contributions"),
        ('i_chunks="2"', 'i_chunks="1"', "AT, step 0: uses input chunks 1 to 1 of GPU 0, which has 1"),
    ],
)
def test_a_pair_that_is_wrong_is_refused_with_the_place(old: str, new: str, message: str) -> None:
    assert old in pair()
    with pytest.raises(InputError, match=message.replace("AT", "^GPU 0, threadblock 0")):
        proof(pair().replace(old, new, 1))


def _gather(*gpus: Sequence[Block], loop: int = 2) -> str:
    return xml("allgather", loop, gpus, (0, loop, 0))


def _custom(*gpus: Sequence[Block]) -> str:
    return xml("custom", 2, gpus, (2, 0, 0))


def _send(*one: Any, **more: Any) -> Block:
    return 1, -1, 0, [step("s", *one, **more)]


_WAITS: list[Block] = [(-1, -1, 0, [step("nop", dep=(other, 0))]) for other in (1, 0)]
_RECEIVE: Block = -1, 0, 0, [step("r", "o0", "o0")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "^is not XML"),
        ("<graph></graph>", r"begins with <graph> \(accepted: an MSCCL algorithm"),
        (_custom([_send()] * 2, []), "^GPU 0, threadblock 1: sends to GPU 1 on channel 0, as threadblock 0 does"),
        (_custom([_send(cnt=2)], [_RECEIVE]), "receives 1 chunks, of which GPU 0, threadblock 0, step 0 sends 2"),
        (_custom(_WAITS), "AT: never runs: it waits for step 0 of threadblock 1, which is at step 0"),
        (_gather([_send("o0")], []), "AT: sends what GPU 1 never receives"),
        (_gather([], [_RECEIVE]), "^GPU 1, .* step 0: never runs: it waits for data from GPU 0 on channel 0"),
        (_gather([_send("o1")], [_RECEIVE]), "AT: reads output chunk 1 of GPU 0, where nothing has been put"),
        (_gather([], [], loop=3), "nchunksperloop: 3 chunks cannot be divided among 2 GPUs"),
        (_gather([], []), "GPU 0: no step puts it there: output chunk 1 has nothing, and needs chunk 1 of GPUs 1"),
    ],
)
def test_a_file_that_does_nothing_of_use_is_refused_with_the_step(content: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("AT", "^GPU 0, threadblock 0, step 0")):
        proof(content)


def test_a_pair_sends_each_half_there_and_back_in_no_more_steps_than_are_allowed() -> None:
    done = proof(pair())
    assert (rounds(done), done.layout.pattern) == ([1, 1, 2, 2], Pattern.ALL_REDUCE)
    assert transfers(done) == [(0, 1, 1, True), (1, 0, 0, True), (1, 0, 1, False), (0, 1, 0, False)]
    with limits.allowed({"transfers": 3}), pytest.raises(LimitError, match=r"^8 transfers are too many"):
        proof(pair())


def test_steps_that_nothing_orders_are_refused_even_if_they_happen_to_be_right() -> None:
    def copy(*, ordered: bool) -> str:
        dep = (0, 0) if ordered else (-1, -1)
        second = [(-1, 0, 0, [step("r", "s0", "s0")]), (-1, -1, 0, [step("cpy", "s0", "o0", dep=dep)])]
        first = [(1, -1, 0, [step("s", "i0")]), (-1, -1, 0, [step("cpy", "i0", "o0")])]
        return xml("broadcast", 1, [first, second], (1, 1, 1), inplace=0)

    assert proof(copy(ordered=True)).layout.root == 0
    message = (
        "GPU 1, threadblock 1, step 0: reads scratch chunk 0 of GPU 1, where nothing has been put|"
        "which GPU 1, threadblock 0, step 0 writes, and nothing says which of them comes first"
    )
    with pytest.raises(InputError, match=message):
        proof(copy(ordered=False))


def _late(sends: int, *, waits: bool = True) -> str:
    """Return ``sends`` from GPU 0 to GPU 1, which receives them when it has got 72 chunks from GPU 2."""
    dep = (1, 0) if waits else (-1, -1)
    first = step("r", "s0", "s0", dep=dep)
    receives = [first, *(step("r", f"s{at}", f"s{at}") for at in range(1, sends))]
    big: Block = (-1, 2, 0, [step("r", "s0", "s100", 72)])
    gpus: list[list[Block]] = [
        [(1, -1, 0, [step("s", "i0")] * sends)],
        [(-1, 0, 0, receives), big],
        [(1, -1, 0, [step("s", "i0", cnt=72)])],
    ]
    return xml("custom", 80, gpus, (80, 0, 200))


@pytest.mark.parametrize(
    ("sends", "chunk_times"),
    [
        # The slots hold eight sends. More wait until the first is received, when all 72 chunks have arrived.
        (8, 72 + LATENCY),
        (9, 72 + LATENCY + 1 + LATENCY),
        (16, 72 + LATENCY + 8 + LATENCY),
    ],
)
def test_a_send_waits_for_a_slot(sends: int, chunk_times: float) -> None:
    takes(_late(sends), chunk_times)
    takes(_late(sends, waits=False), 72 + LATENCY)


def test_full_slots_can_get_a_threadblock_stuck() -> None:
    # GPU 0 sends nine before it tells GPU 1, on another channel, to begin receiving.
    def file(sends: int) -> str:
        first: list[Block] = [(1, -1, 0, [step("s")] * sends), (1, -1, 1, [step("s", dep=(0, sends - 1))])]
        second: list[Block] = [
            (-1, 0, 0, [step("r", dep=(1, 0)), *[step("r")] * (sends - 1)]),
            (-1, 0, 1, [step("r", "i0", "s0")]),
        ]
        return xml("custom", 1, [first, second], (1, 0, 1))

    assert len(proof(file(8)).transfers) == 9
    with pytest.raises(InputError, match="GPU 0, threadblock 0, step 8: never runs: it waits for a free slot of the 8"):
        proof(file(9))


def test_a_threadblock_does_one_step_after_the_other() -> None:
    # GPU 0 first receives ten chunks from GPU 1. Then it sends what it had anyway: two sends, latency paid once.
    receive, sends = step("r", "s0", "s0", 10), [step("s", "i0"), step("s", "i1")]
    gpus: list[list[Block]] = [
        [(2, 1, 0, [receive, *sends])],
        [(0, -1, 0, [step("s", "i0", cnt=10)])],
        [(-1, 0, 0, [step("r", "s0", "s0"), step("r", "s1", "s1")])],
    ]
    takes(xml("custom", 10, gpus, (10, 0, 10)), 10 + LATENCY + 2 + LATENCY)
    gpus[0] = [(-1, 1, 0, [receive]), (2, -1, 0, sends)]  # in threadblocks of their own they do not wait
    takes(xml("custom", 10, gpus, (10, 0, 10)), 10 + LATENCY)


def test_a_step_waits_for_the_step_that_it_names() -> None:
    forward = step("s", "s0", dep=(0, 0))
    gpus: list[list[Block]] = [
        [(1, -1, 0, [step("s", "i0", cnt=4)])],
        [(-1, 0, 0, [step("r", "s0", "s0", 4)]), (2, -1, 0, [forward])],
        [(-1, 1, 0, [step("r", "s0", "s0")])],
    ]
    takes(xml("custom", 4, gpus, (4, 0, 4)), 4 + LATENCY + 1 + LATENCY)
