"""Reading the XML files of MSCCL."""

from collections.abc import Mapping
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from fredfw import limits
from fredfw.errors import InputError
from fredfw_collective_msccl.machine import Where
from fredfw_collective_msccl.program import PROTOCOLS, RECEIVES, SENDS, TYPES, WORDS, Block, Gpu, Place, Program, Step

MOST_CHUNKS = 72  # chunks of a step (MSCCL_MAX_COUNT of msccl-executor-nccl's src/include/msccl/msccl_struct.h)
_BUFFERS = "i", "o", "s"


def read(data: bytes) -> Program:
    root = _root(data)  # what follows ``</algo>`` is left out, as MSCCL's parser does: some tools write there
    if (collective := _text(root, "coll")) not in WORDS:
        raise InputError(f"unsupported collective {collective!r}", key="coll", accepted=", ".join(WORDS))
    if (protocol := _text(root, "proto", "Simple")) not in PROTOCOLS:
        raise InputError(f"unknown protocol {protocol!r}", key="proto", accepted=", ".join(PROTOCOLS))
    count = _number(root, "ngpus", least=1)
    found = {}
    for element in root.iterfind("gpu"):
        if (number := _number(element, "id", least=0, most=count - 1)) in found:
            raise InputError("is there twice", key=f"GPU {number}", accepted="each GPU once")
        found[number] = element
    for number in range(count):
        if number not in found:
            raise InputError("is missing", key=f"GPU {number}", accepted=f"{count} GPUs")
    limits.check("transfers", sum(1 for _ in root.iter("step")))
    in_place = _number(root, "inplace", 0, least=0, most=1)
    program = Program(
        name=_text(root, "name", ""),
        protocol=protocol,
        collective=collective,
        loop=_number(root, "nchunksperloop", least=1),
        channels=_number(root, "nchannels", 1, least=1),
        in_place=bool(in_place),
        out_of_place=bool(_number(root, "outofplace", 1 - in_place, least=0, most=1)),
        least=_number(root, "minBytes", 0, least=0),
        most=_number(root, "maxBytes", 0, least=0),
        gpus=tuple(_gpu(found[number], number, count) for number in range(count)),
    )
    _check_connections(program)
    return program


def _root(data: bytes) -> Element:
    end = data.find(b"</algo>")
    whole = data if end < 0 else data[: end + len(b"</algo>")]
    accepted = "an MSCCL algorithm, <algo ...> ... </algo>"
    try:
        root: Element = fromstring(whole, forbid_dtd=True)
    except ParseError as error:
        what = "is not whole" if b"<algo" in data and end < 0 else "is not XML"
        raise InputError(f"{what}: {error}", accepted=accepted) from None
    except DefusedXmlException:
        raise InputError("declares a document type or entities", accepted="XML without them") from None
    except (ValueError, LookupError) as error:  # an encoding that is unknown, or a wrong one
        raise InputError(f"is not XML: {error}", accepted=accepted) from None
    if root.tag != "algo":
        raise InputError(f"begins with <{root.tag}>", accepted=accepted)
    return root


def _gpu(element: Element, number: int, count: int) -> Gpu:
    place = f"GPU {number}"
    chunks = {one: _number(element, f"{one}_chunks", 0, least=0, place=place) for one in _BUFFERS}
    elements: dict[int, Element] = {}
    for block in element.iterfind("tb"):
        if (tb := _number(block, "id", least=0, place=place)) in elements:
            raise InputError(f"threadblock {tb} is there twice", key=place, accepted="each number once")
        elements[tb] = block
    for tb in range(len(elements)):
        if tb not in elements:
            raise InputError(f"threadblock {tb} is missing", key=place, accepted="numbers 0, 1, 2, ...")
    gpu = Gpu(chunks, tuple(_block(elements[tb], number, tb, count) for tb in range(len(elements))))
    _check_waits(gpu, number, elements)
    return gpu


def _block(element: Element, gpu: int, number: int, count: int) -> Block:
    place = f"GPU {gpu}, threadblock {number}"
    peers = {one: _number(element, one, -1, least=-1, most=count - 1, place=place) for one in ("send", "recv")}
    if gpu in peers.values():
        raise InputError("sends to itself", key=place, accepted="another GPU, or -1")
    steps = []
    for at, step in enumerate(element.iterfind("step")):
        where = Where(gpu, number, at)
        _number(step, "s", least=at, most=at, place=str(where))
        steps.append(_step(step, where, peers))
    channel = _number(element, "chan", 0, least=0, place=place)
    return Block(peers["send"], peers["recv"], channel, tuple(steps))


def _step(element: Element, where: Where, peers: Mapping[str, int]) -> Step:
    type_, place = _text(element, "type", place=str(where)), str(where)
    if type_ not in TYPES:
        raise InputError(f"unknown type {type_!r}", key=place, accepted=", ".join(sorted(TYPES)))
    for types, peer, does in ((SENDS, "send", "sends"), (RECEIVES, "recv", "receives")):
        if type_ in types and peers[peer] < 0:
            raise InputError(f"{does} without a peer", key=place, accepted=f"a GPU as {peer} of its threadblock")
    local = type_ == "nop"
    places = {}
    for end in ("src", "dst"):
        if (buffer := _text(element, f"{end}buf", "i", place=place)) not in _BUFFERS:
            raise InputError(f"unknown {end}buf {buffer!r}", key=place, accepted="i, o, s")
        places[end] = Place(buffer, _number(element, f"{end}off", -1, least=-1, place=place))
    _number(element, "hasdep", 0, least=0, most=1, place=place)
    depends = tuple(_number(element, one, -1, least=-1, place=place) for one in ("depid", "deps"))
    least, most = (0, None) if local else (1, MOST_CHUNKS)
    return Step(
        type=type_,
        source=places["src"],
        destination=places["dst"],
        count=_number(element, "cnt", 0 if local else None, least=least, most=most, place=place),
        depends=None if depends[0] < 0 else (depends[0], depends[1]),
    )


def _check_waits(gpu: Gpu, number: int, elements: Mapping[int, Element]) -> None:
    awaited = {
        (tb, at)
        for tb, element in elements.items()
        for at, step in enumerate(element.iterfind("step"))
        if int(step.get("hasdep", "0"))
    }
    for tb, block in enumerate(gpu.blocks):
        for at, step in enumerate(block.steps):
            if step.depends is None:
                continue
            other, its = step.depends
            if other >= len(gpu.blocks) or not 0 <= its < len(gpu.blocks[other].steps):
                message = f"waits for step {its} of threadblock {other}, which is not there"
                raise InputError(message, key=str(Where(number, tb, at)), accepted="a step of the same GPU")
            if (other, its) not in awaited:
                message = f"hasdep is 0, and step {at} of threadblock {tb} waits for it"
                raise InputError(message, key=str(Where(number, other, its)), accepted="1")


def _check_connections(program: Program) -> None:
    for gpu, one in enumerate(program.gpus):
        for does, name in (("sends to", "send"), ("receives from", "receive")):
            found: dict[tuple[int, int], int] = {}
            for number, block in enumerate(one.blocks):
                if (peer := getattr(block, name)) < 0:
                    continue
                if (first := found.setdefault((peer, block.channel), number)) != number:
                    message = f"{does} GPU {peer} on channel {block.channel}, as threadblock {first} does"
                    accepted = "one threadblock for each peer and channel"
                    raise InputError(message, key=f"GPU {gpu}, threadblock {number}", accepted=accepted)


def _text(element: Element, key: str, default: str | None = None, *, place: str = "") -> str:
    if (value := element.get(key, default)) is None:
        raise InputError(f"<{element.tag}> has no {key}", key=place or key, accepted=f'{key}="..."')
    return str(value)


def _number(
    element: Element, key: str, default: int | None = None, *, least: int, most: int | None = None, place: str = ""
) -> int:
    text = _text(element, key, None if default is None else str(default), place=place)
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least or (most is not None and number > most):
        span = f"a whole number from {least}{'' if most is None else f' to {most}'}"
        raise InputError(f"{key} is {text[:40]!r}", key=place or key, accepted=str(least) if least == most else span)
    return number
