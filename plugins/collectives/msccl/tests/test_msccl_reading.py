import re

import pytest
from msccl_files import Block, pair, proof, rounds, simulated, step, transfers, xml

from fredfw import CollectiveRequest, Pattern, limits
from fredfw.errors import InputError, LimitError
from fredfw_collective_msccl.reading import read
from fredfw_collective_msccl.writing import text


def test_what_is_written_is_what_was_read_whatever_tools_leave_out_add_or_put_in_another_order() -> None:
    program = read(pair(name="pair", minBytes=16, maxBytes=4096, proto="LL").encode())
    assert (program.name, program.protocol, program.collective, program.loop) == ("pair", "LL", "allreduce", 2)
    assert (program.least, program.most, program.in_place, program.out_of_place) == (16, 4096, True, False)
    assert read(text(program).encode()) == program
    short = re.sub(r' (proto|outofplace|minBytes|maxBytes|nchannels)="\w+"', "", pair())
    program = read(short.encode())
    assert (program.protocol, program.channels, program.least, program.most) == ("Simple", 1, 0, 0)
    assert not program.out_of_place
    assert read(("<!-- a tool -->\n" + pair() + "compiled in 3 s & more").encode()) == read(pair().encode())
    gpus = re.findall(r"<gpu.*?</gpu>", pair(), re.DOTALL)
    swapped = pair().replace("\n".join(gpus), "\n".join(reversed(gpus)))
    assert swapped != pair()
    assert read(swapped.encode()) == read(pair().encode())


TWICE = xml("custom", 1, [[(1, -1, 0, [step("s")])] * 2, []], (1, 0, 0))
ENTITIES = '<!DOCTYPE algo [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "^is not XML"),
        ("{}", "is not XML"),
        (pair()[:-20], "is not whole"),
        ("<graph></graph>", r"begins with <graph> \(accepted: an MSCCL algorithm"),
        (ENTITIES + pair(), "declares a document type or entities"),
        ("<?xml version='1.0' encoding='no-such'?>" + pair(), "is not XML"),
        (pair(coll="sort"), r"coll: unsupported collective 'sort' \(accepted: allreduce"),
        (pair(proto="LL64"), "proto: unknown protocol 'LL64'"),
        (pair(ngpus=3), "^GPU 2: is missing"),
        (pair(ngpus=1), r"id: id is '1' \(accepted: 0\)"),
        (pair(ngpus="two"), r"ngpus: ngpus is 'two'"),
        (pair(nchunksperloop=0), "nchunksperloop is '0'"),
        (pair().replace('id="1" i', 'id="0" i'), "^GPU 0: is there twice"),
        (pair().replace(' ngpus="2"', ""), r"ngpus: <algo> has no ngpus"),
        (pair().replace('tb id="0"', 'tb id="1"'), "GPU 0: threadblock 0 is missing"),
        (pair().replace('send="1"', 'send="0"'), "AT: sends to itself"),
        (pair().replace('send="1"', 'send="-1"'), "AT, step 0: sends without a peer"),
        (pair().replace('send="1"', 'send="2"'), "AT: send is '2'"),
        (pair().replace('type="rrc"', 'type="rx"', 1), "AT, step 1: unknown type 'rx'"),
        (pair().replace('srcbuf="i"', 'srcbuf="q"', 1), "AT, step 0: unknown srcbuf 'q'"),
        (pair().replace(' s="1"', ' s="7"', 1), r"AT, step 1: s is '7' \(accepted: 1\)"),
        (pair().replace('cnt="1"', 'cnt="73"', 1), r"step 0: cnt is '73' \(accepted: a whole number from 1 to 72\)"),
        (pair().replace(' cnt="1"', "", 1), "step 0: <step> has no cnt"),
        (TWICE, "^GPU 0, threadblock 1: sends to GPU 1 on channel 0, as threadblock 0 does"),
        (
            pair().replace('depid="-1" deps="-1"', 'depid="0" deps="9"', 1),
            "AT, step 0: waits for step 9 of threadblock 0, which is not there",
        ),
        (
            pair().replace('depid="-1" deps="-1" hasdep="0"/>\n</tb>', 'depid="0" deps="0" hasdep="0"/>\n</tb>', 1),
            "AT, step 0: hasdep is 0, and step 3 of threadblock 0 waits for it",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place(content: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("AT", r"^GPU 0, threadblock 0")):
        read(content.encode())


def test_too_many_steps_are_refused() -> None:
    with limits.allowed({"transfers": 3}), pytest.raises(LimitError, match=r"^8 transfers are too many"):
        read(pair().encode())


_FIDELITIES = "compressed", "exact"
_LATENCY = 0.25  # in chunk times, on a link from each GPU to each other


def test_a_pair_sends_each_half_there_and_back() -> None:
    done = proof(pair())
    assert (rounds(done), done.layout.pattern) == ([1, 1, 2, 2], Pattern.ALL_REDUCE)
    there, back = [(0, 1, (1,), True), (1, 0, (0,), True)], [(1, 0, (1,), False), (0, 1, (0,), False)]
    assert transfers(done) == there + back


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            pair().replace('type="rrc"', 'type="r"', 1),
            "GPU 0, threadblock 0, step 2|leaves wrong data: output chunk 0 has chunk 0 of GPUs 1, "
            "and needs chunk 0 of GPUs 0, 1",
        ),
        (
            pair().replace('srcoff="1"', 'srcoff="0"', 1),
            "GPU 1, threadblock 0, step 1: adds chunk 0 of GPUs 0 to chunk 1 of GPUs 1",
        ),
        (
            pair().replace('type="r" srcbuf="i" srcoff="1"', 'type="rrc" srcbuf="i" srcoff="1"', 1),
            "GPU 0, threadblock 0, step 3: adds chunk 1 of GPUs 0, 1 to chunk 1 of GPUs 0, which counts contributions",
        ),
        (
            pair().replace('i_chunks="2"', 'i_chunks="1"', 1),
            "GPU 0, threadblock 0, step 0: uses input chunks 1 to 1 of GPU 0, which has 1",
        ),
        (
            xml(
                "allreduce",
                2,
                [[(1, -1, 0, [step("s", "i0", cnt=2)])], [(-1, 0, 0, [step("r", "i0", "i0")])]],
                (2, 0, 0),
            ),
            "GPU 1, threadblock 0, step 0: receives 1 chunks, of which GPU 0, threadblock 0, step 0 sends 2",
        ),
        (
            xml("allgather", 2, [[(1, -1, 0, [step("s", "o0")])], []], (0, 2, 0)),
            "GPU 0, threadblock 0, step 0: sends what GPU 1 never receives",
        ),
        (
            xml("allgather", 2, [[], [(-1, 0, 3, [step("r", "o0", "o0")])]], (0, 2, 0)),
            "GPU 1, threadblock 0, step 0: never runs: it waits for data from GPU 0 on channel 3",
        ),
        (
            xml("allgather", 2, [[(1, -1, 0, [step("s", "o1")])], [(-1, 0, 0, [step("r", "o0", "o0")])]], (0, 2, 0)),
            "GPU 0, threadblock 0, step 0: reads output chunk 1 of GPU 0, where nothing has been put",
        ),
        (xml("allgather", 3, [[], []], (0, 3, 0)), "nchunksperloop: 3 chunks cannot be divided among 2 GPUs"),
        (
            xml("allgather", 2, [[], []], (0, 2, 0)),
            "GPU 0: no step puts it there: output chunk 1 has nothing, and needs chunk 1 of GPUs 1",
        ),
        (
            xml(
                "custom",
                1,
                [[(-1, -1, 0, [step("nop", dep=(1, 0))]), (-1, -1, 0, [step("nop", dep=(0, 0))])]],
                (1, 0, 0),
            ),
            "GPU 0, threadblock 0, step 0: never runs: it waits for step 0 of threadblock 1, which is at step 0",
        ),
    ],
)
def test_a_file_that_does_something_else_is_refused_with_the_step(content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        proof(content)


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


@pytest.mark.parametrize(
    ("pattern", "blocks"),
    [
        ("broadcast", [(-1, 1, 0, [step("r")]), (0, -1, 0, [step("s")])]),
        ("reduce", [(1, -1, 0, [step("s")]), (-1, 0, 0, [step("rrc")])]),
    ],
)
def test_the_root_is_whichever_the_file_works_for(pattern: str, blocks: list[Block]) -> None:
    done = proof(xml(pattern, 1, [[one] for one in blocks], (1, 0, 0)))
    assert done.layout.root == 1
    assert done.refusal(CollectiveRequest(Pattern(pattern), 2, 1.0, 1)) is None


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


@pytest.mark.parametrize("fidelity", _FIDELITIES)
@pytest.mark.parametrize(
    ("sends", "chunk_times"),
    [
        # The slots hold eight sends. More wait until the first is received, when all 72 chunks have arrived.
        (8, 72 + _LATENCY),
        (9, 72 + _LATENCY + 1 + _LATENCY),
        (16, 72 + _LATENCY + 8 + _LATENCY),
    ],
)
def test_a_send_waits_for_a_slot(sends: int, chunk_times: float, fidelity: str) -> None:
    assert simulated(_late(sends), fidelity, _LATENCY) == pytest.approx(chunk_times, rel=1e-12)
    assert simulated(_late(sends, waits=False), fidelity, _LATENCY) == pytest.approx(72 + _LATENCY, rel=1e-12)


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


@pytest.mark.parametrize("fidelity", _FIDELITIES)
def test_a_threadblock_does_one_step_after_the_other(fidelity: str) -> None:
    # GPU 0 first receives ten chunks from GPU 1. Then it sends what it had anyway: two sends, latency paid once.
    receive, sends = step("r", "s0", "s0", 10), [step("s", "i0"), step("s", "i1")]
    gpus: list[list[Block]] = [
        [(2, 1, 0, [receive, *sends])],
        [(0, -1, 0, [step("s", "i0", cnt=10)])],
        [(-1, 0, 0, [step("r", "s0", "s0"), step("r", "s1", "s1")])],
    ]
    taken = simulated(xml("custom", 10, gpus, (10, 0, 10)), fidelity, _LATENCY)
    assert taken == pytest.approx(10 + _LATENCY + 2 + _LATENCY, rel=1e-12)
    gpus[0] = [(-1, 1, 0, [receive]), (2, -1, 0, sends)]  # in threadblocks of their own they do not wait
    apart = simulated(xml("custom", 10, gpus, (10, 0, 10)), fidelity, _LATENCY)
    assert apart == pytest.approx(10 + _LATENCY, rel=1e-12)


@pytest.mark.parametrize("fidelity", _FIDELITIES)
def test_a_step_waits_for_the_step_that_it_names(fidelity: str) -> None:
    forward = step("s", "s0", dep=(0, 0))
    gpus: list[list[Block]] = [
        [(1, -1, 0, [step("s", "i0", cnt=4)])],
        [(-1, 0, 0, [step("r", "s0", "s0", 4)]), (2, -1, 0, [forward])],
        [(-1, 1, 0, [step("r", "s0", "s0")])],
    ]
    taken = simulated(xml("custom", 4, gpus, (4, 0, 4)), fidelity, _LATENCY)
    assert taken == pytest.approx(4 + _LATENCY + 1 + _LATENCY, rel=1e-12)
