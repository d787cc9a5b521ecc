"""How the samples of an iteration are divided: among the replicas, and then into microbatches."""

from __future__ import annotations

import math

from attrs import frozen

from fredfw.errors import InputError

_FILLED = 4
"""Microbatches per pipeline stage from which on bubbles hardly matter (Huang et al. 2019, GPipe, section 2.3)."""
_TRIED = 10**6


@frozen
class Batch:
    """The samples of one iteration."""

    replicas: int
    microbatches: int  # of each replica
    micro_batch: int  # samples in a microbatch

    @property
    def samples(self) -> int:
        """Samples of all replicas."""
        return self.replicas * self.microbatches * self.micro_batch


def divided(samples: int, *, replicas: int, microbatches: int | None, micro_batch: int | None, default: int) -> Batch:
    """Return the batch in which each of ``replicas`` has ``samples``, as configured or in ``default`` microbatches.

    Raises:
        InputError: ``samples`` cannot be divided as configured.
    """
    if microbatches is not None and micro_batch is not None and microbatches * micro_batch != samples:
        raise InputError(
            f"{microbatches} microbatches of {micro_batch} samples are not the {samples} samples of a replica",
            key="micro_batch",
            accepted=f"one of the two keys, or numbers whose product is {samples}",
        )
    for key, value in (("microbatches", microbatches), ("micro_batch", micro_batch)):
        if value is not None and samples % value:
            message = f"{value} does not divide the {samples} samples of a replica"
            raise InputError(message, key=key, accepted=f"a divisor of {samples}")
    if micro_batch is None:
        micro_batch = samples // (default if microbatches is None else microbatches)
    return Batch(replicas, samples // micro_batch, micro_batch)


def filling(samples: int, stages: int) -> int:
    """Return how many microbatches keep a pipeline filled.

    That is the smallest divisor of ``samples`` that is at least 4 times ``stages``, or ``samples`` where there is none;
    1 for a single stage.
    """
    if stages == 1:
        return 1
    small = [one for one in range(1, min(math.isqrt(samples), _TRIED) + 1) if samples % one == 0]
    divisors = (*small, *(samples // one for one in small))
    return min((one for one in divisors if one >= _FILLED * stages), default=samples)
