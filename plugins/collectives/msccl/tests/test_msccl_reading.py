from __future__ import annotations

import re

import pytest
from msccl_files import pair, step, xml

from fredfw import limits
from fredfw.errors import InputError, LimitError
from fredfw_collective_msccl.reading import read
from fredfw_collective_msccl.writing import text


def test_what_is_written_is_what_was_read() -> None:
    program = read(pair(name="pair", minBytes=16, maxBytes=4096, proto="LL").encode())
    assert (program.name, program.protocol, program.collective, program.loop) == ("pair", "LL", "allreduce", 2)
    assert (program.least, program.most, program.in_place, program.out_of_place) == (16, 4096, True, False)
    assert read(text(program).encode()) == program


def test_what_tools_leave_out_has_a_default() -> None:
    short = re.sub(r' (proto|outofplace|minBytes|maxBytes|nchannels)="\w+"', "", pair())
    program = read(short.encode())
    assert (program.protocol, program.channels, program.least, program.most) == ("Simple", 1, 0, 0)
    assert not program.out_of_place


def test_text_after_the_end_is_left_out() -> None:
    assert read(("<!-- a tool -->\n" + pair() + "compiled in 3 s & more").encode()) == read(pair().encode())


def test_numbers_of_gpus_and_threadblocks_are_what_counts() -> None:
    gpus = re.findall(r"<gpu.*?</gpu>", pair(), re.DOTALL)
    swapped = pair().replace("\n".join(gpus), "\n".join(reversed(gpus)))
    assert swapped != pair()
    assert read(swapped.encode()) == read(pair().encode())


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


def test_a_connection_has_one_threadblock_at_each_end() -> None:
    two = xml("custom", 1, [[(1, -1, 0, [step("s")]), (1, -1, 0, [step("s")])], []], (1, 0, 0))
    message = r"^GPU 0, threadblock 1: sends to GPU 1 on channel 0, as threadblock 0 does"
    with pytest.raises(InputError, match=message):
        read(two.encode())


def test_too_many_steps_are_a_limit() -> None:
    with limits.allowed({"transfers": 3}), pytest.raises(LimitError, match=r"^8 transfers are too many"):
        read(pair().encode())
