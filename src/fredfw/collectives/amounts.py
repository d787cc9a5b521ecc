"""Whether a schedule moves as much as its pattern needs: necessary conditions that are cheap at any size.

They are sums over all rows and repetitions; ``check`` finds the rest. What a rank sends to itself does not count.

**Sizes.** Chunks hold the request's bytes, and each rank's share; in an all-to-all, with what stays, ``ranks * size``.

**Ends.** A rank must receive every chunk that it must end with and does not start with, and send every chunk that it
starts with and another rank must end with, in whatever form. A chunk that is reduced starts everywhere.

**All-reduce.** Every rank must send and receive every chunk, each of which takes 2 (n - 1) messages: n - 1 until a
first rank has all n, and one more to each other rank (the gossip problem: Harary and Schwenk, "The communication
problem on graphs and digraphs", 1974). What a rank gives to an in-network transfer is one, what it gets another.
"""

import numpy as np
from attrs import evolve

from fredfw import arrays
from fredfw.collectives.algorithm import CollectiveRequest
from fredfw.collectives.pattern import Pattern
from fredfw.collectives.schedule import Phase, Schedule, holders
from fredfw.errors import ScheduleError
from fredfw.typing import FloatArray, IntArray

# Relative; sizes are sums of fractions of one number.
_TOLERANCE = 1e-9


def check_amounts(schedule: Schedule, request: CollectiveRequest | None = None) -> None:
    """Raise ``ScheduleError`` unless ``schedule`` moves as many bytes as its pattern needs, as far as sums can tell."""
    check_sizes(schedule, request)
    if schedule.proof != "none" and schedule.size > 0 and schedule.ranks > 1:
        _check_moves(schedule)


def check_sizes(schedule: Schedule, request: CollectiveRequest | None = None) -> None:
    """Raise unless the chunks of ``schedule`` are those of its pattern, and of ``request``; see ``check_amounts``."""
    if request is not None:
        for what in ("pattern", "ranks", "root"):
            if getattr(schedule, what) != getattr(request, what):
                raise ScheduleError(f"{what} is {getattr(schedule, what)}, the request's is {getattr(request, what)}")
    if schedule.proof == "none":
        return
    pattern = schedule.pattern
    for what, needed in (("owner", pattern.owned), ("origin", pattern is Pattern.ALL_TO_ALL)):
        if needed and getattr(schedule, what) is None:
            raise ScheduleError(f"a schedule of {pattern} does not say the {what} of its chunks")
    ranks, sizes = schedule.ranks, np.atleast_1d(schedule.chunk_bytes)
    if len(sizes) and not 0 <= sizes.min() <= sizes.max() < np.inf:
        chunk = int(np.flatnonzero(~((sizes >= 0) & (sizes < np.inf)))[0])
        raise ScheduleError(f"chunk {chunk} has {sizes[chunk]} bytes")
    if pattern is Pattern.ALL_TO_ALL:
        if request is not None and schedule.origin is not None and schedule.owner is not None:  # as was checked
            pairs = _bytes_of(schedule, schedule.origin * ranks + schedule.owner, ranks**2)
            wanted = request.size / ranks if request.sizes is None else request.sizes.ravel()
            wrong = _differs(pairs, wanted)
            if wrong is not None:
                origin, owner = divmod(wrong, ranks)
                expected = np.broadcast_to(wanted, len(pairs))[wrong]
                raise ScheduleError(f"rank {origin} sends {pairs[wrong]} bytes to rank {owner}, not {expected}")
        return
    total = schedule.size if request is None else request.size
    if _differs(np.array([schedule.size]), total) is not None:
        raise ScheduleError(f"the chunks sum to {schedule.size} bytes, not to the {total} of the request")
    if pattern.owned and schedule.owner is not None:
        blocks = _bytes_of(schedule, schedule.owner, ranks)
        rank = _differs(blocks, total / ranks)
        if rank is not None:
            raise ScheduleError(f"rank {rank} owns {blocks[rank]} bytes, not its share of {total / ranks}")


def _bytes_of(schedule: Schedule, holder: IntArray, count: int) -> FloatArray:
    if isinstance(schedule.chunk_bytes, float):
        return np.bincount(holder, minlength=count).astype(np.float64) * schedule.chunk_bytes
    return arrays.totals(holder, schedule.chunk_bytes, count)


def _differs(values: FloatArray, wanted: FloatArray | float) -> int | None:
    """Return the first place where ``values`` are not what is ``wanted``, but for rounding."""
    if isinstance(wanted, float):
        slack = _TOLERANCE * wanted
        if not len(values) or wanted - slack <= values.min() <= values.max() <= wanted + slack:
            return None
    elif (values == wanted).all():
        return None
    wrong: IntArray = np.flatnonzero(~(np.abs(values - wanted) <= _TOLERANCE * np.abs(wanted)))
    return int(wrong[0]) if len(wrong) else None


def _check_moves(schedule: Schedule) -> None:
    ranks, pattern = schedule.ranks, schedule.pattern
    # Equal chunks are counted, which is exact; others are weighed.
    even = isinstance(schedule.chunk_bytes, float)
    counted = evolve(schedule, chunk_bytes=1.0, phases=()) if even else schedule
    whole = counted.size
    sent, received, messages = _traffic(schedule)
    must_send, must_receive = _needs(counted)
    unit = schedule.chunk_bytes if isinstance(schedule.chunk_bytes, float) else 1.0
    slack = 0.5 if even else _TOLERANCE * whole
    for verb, moved, needed in (("sends", sent, must_send), ("receives", received, must_receive)):
        short = moved < needed - slack
        if short.any():
            rank = int(short.argmax())
            what = f"{verb} {moved[rank] * unit} bytes in all phases"
            raise ScheduleError(f"rank {rank} {what}, and {pattern} needs at least {needed[rank] * unit}")
    if pattern is Pattern.ALL_REDUCE:
        least = 2 * (ranks - 1) * whole
        if messages < least - slack:
            what = f"all ranks exchange {messages * unit} bytes in all phases"
            raise ScheduleError(f"{what}, and {pattern} needs at least {least * unit}")


def _needs(schedule: Schedule) -> tuple[FloatArray, FloatArray]:
    """Return the ``(ranks,)`` bytes that each rank must at least send and receive."""
    ranks, sizes = schedule.ranks, np.broadcast_to(schedule.chunk_bytes, schedule.chunks)
    before, after = holders(schedule)
    whole = np.full(ranks, schedule.size)
    starts, ends = (whole if one is None else arrays.totals(one, sizes, ranks) for one in (before, after))
    if before is None or after is None:
        stays = starts if after is None else ends
    else:
        stays = arrays.totals(before, sizes * (before == after), ranks)
    # What all end with is sent by who has it, and of what all start with a sum arrives.
    return starts if after is None else starts - stays, ends if before is None else ends - stays


def _traffic(schedule: Schedule) -> tuple[FloatArray, FloatArray, float]:
    """Return the ``(ranks,)`` bytes (of equal chunks, how many) that ranks send and receive at most, and messages."""
    ranks, messages = schedule.ranks, 0.0
    totals = np.zeros(ranks), np.zeros(ranks)
    sums = None if isinstance(schedule.chunk_bytes, float) else np.append(0.0, np.cumsum(schedule.chunk_bytes))
    for phase in schedule.phases:
        amounts = _amounts(schedule, phase, sums)
        alone = np.ones(len(phase), dtype=bool) if phase.stream is None else phase.stream < 0
        amounts[alone & (phase.source == phase.destination)] = 0.0
        messages -= float(amounts[alone].sum())  # which both of its ends count
        for total, end in zip(totals, (phase.source, phase.destination), strict=True):
            rows: IntArray | slice = slice(None)
            if phase.stream is not None:  # it has each of its ends once, in however many rows
                names = np.where(alone, ~np.arange(len(phase)), phase.stream * ranks + end)
                rows = np.unique(names, return_index=True)[1]
            np.add(total, arrays.totals(end[rows], amounts[rows], ranks), out=total)
            messages += float(amounts[rows].sum())
    return *totals, messages


def _amounts(schedule: Schedule, phase: Phase, sums: FloatArray | None) -> FloatArray:
    """Return the ``(rows,)`` bytes that rows carry in all repetitions, or a little more where that takes long to know.

    ``(chunks + 1,)`` ``sums`` are the bytes of the chunks before each; ``None`` where all are equal, and are counted.
    """
    if sums is None:
        return phase.count.astype(np.float64) * phase.repeat
    block = phase.base + phase.modulus
    if phase.repeat == 1:
        start = phase.offset % phase.modulus
        stop = phase.base + start + phase.count
        around = phase.base + np.maximum(stop - block, 0)
        amounts: FloatArray = sums[np.minimum(stop, block)] - sums[phase.base + start]
        return amounts + (sums[around] - sums[phase.base])
    if schedule.uniform(phase):
        return schedule.row_bytes(phase) * phase.repeat
    most: FloatArray = phase.count.astype(np.float64) * np.max(schedule.chunk_bytes)
    carried: FloatArray = np.minimum(most, sums[block] - sums[phase.base])
    return carried * phase.repeat
