"""How far several runs are apart, how much is trained for the time, and what became of one of several jobs."""

from __future__ import annotations

from attrs import field, frozen

from fredfw.workloads import Work


@frozen
class Spread:
    """The iteration times of several runs, in seconds.

    Args:
        runs: How many there are.
        mean: Of all.
        p50: The median.
        p99: What 99 of 100 runs do not exceed, interpolated between runs.
        standard_error: Of the mean: the standard deviation of the runs over the root of their number.
        seconds: Of each run.
    """

    runs: int
    mean: float
    p50: float
    p99: float
    standard_error: float
    seconds: tuple[float, ...]


@frozen
class Throughput:
    """How much an iteration trains for its time; ``None`` is what is not known.

    Args:
        samples_per_second: Samples over the iteration time.
        tokens_per_second: Tokens over the iteration time.
        mfu: Model FLOPs utilisation: model FLOPs over what all NPUs in use can compute in that time at their peak rate,
            without ``efficiency``. ``None`` too where ``compute_scale`` is below 1: computation is then taken to be
            faster than that peak rate allows.
        npu_time: NPU-seconds: iteration time multiplied by the NPUs in use.
    """

    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    npu_time: float | None = None

    @classmethod
    def of(cls, work: Work | None, seconds: float, *, npus: int, peak: float, compute_scale: float) -> Throughput:
        """Return the throughput of an iteration that takes ``seconds`` on ``npus``, of ``peak`` FLOP/s each."""
        cost = npus * seconds
        if work is None or seconds == 0:
            return cls(npu_time=cost)
        flops = work.model_flops if compute_scale >= 1 else None
        return cls(
            samples_per_second=work.samples / seconds,
            tokens_per_second=None if work.tokens is None else work.tokens / seconds,
            mfu=None if flops is None else flops / (cost * peak),
            npu_time=cost,
        )


@frozen
class JobResult:
    """One of several jobs that ran at once.

    Args:
        workload: Name of the plugin.
        npus: Numbers of its NPUs; those that have no rank of it, too.
        start: In seconds.
        seconds: From then to its end; of several runs this and all that follows is the mean.
        alone: What it takes on the same NPUs of the fabric that carries nothing else.
        slowdown: ``seconds`` over ``alone``; 1 where it takes no time alone.
        iterations: Seconds of each of its iterations.
        breakdown: Seconds by cause, the mean over its ranks, with its own labels; they add up to ``seconds``.
        bytes: Summed over all links.
        bytes_alone: Those that it moves alone.
        memory: Bytes one of its NPUs needs, by what they hold (may be empty).
        work: What an iteration trains, or ``None`` where its workload does not say.
        throughput: How much all of its iterations train for its ``seconds``.
        spread: Its times in several runs.
    """

    name: str
    workload: str
    npus: tuple[int, ...]
    start: float
    seconds: float
    alone: float
    slowdown: float
    iterations: tuple[float, ...]
    breakdown: dict[str, float]
    bytes: float
    bytes_alone: float
    memory: dict[str, float] = field(factory=dict)
    work: Work | None = None
    throughput: Throughput = field(factory=Throughput)
    spread: Spread | None = None
