from __future__ import annotations

from functools import partial

import fredfw_workload_transformer
from fredfw.testing import WorkloadTests
from fredfw_workload_transformer import Transformer

SMALL = partial(Transformer, layers=8, hidden=1024, sequence=128, heads=16, vocabulary=1000)


class TestTransformer(WorkloadTests):
    plugin = fredfw_workload_transformer
    workloads = (
        Transformer(model="transformer-17b", mp=3, dp=3, pp=1),
        SMALL(mp=2, pp=4, microbatches=4, recompute=True, pp_transfer="multicast"),
        SMALL(mp=2, dp=2, zero_stage=3, overlap_dp=True, dp_communication="reduce-scatter+all-gather"),
        SMALL(mp=2, pp=2, execution="streaming", prefetch=2, streams="needed"),
        SMALL(mp=2, pp=2, microbatches=4, interleave=2, sequence_parallel=True, recompute="selective"),
        SMALL(mp=2, pp=2, microbatches=4, attention="fused", pp_transfer="scatter-gather"),
        SMALL(cp=2, dp=4, pp=2, minibatch=4, microbatches=2, pipeline="zb-h1", zero_stage=3, dp_shard=2),
        SMALL(mp=2, ep=4, dp=4, pp=2, experts=8, top_k=2, shared_experts=1, routing="zipf", capacity_factor=1.5),
    )
