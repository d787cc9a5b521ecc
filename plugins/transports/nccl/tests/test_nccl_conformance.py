from __future__ import annotations

import fredfw_transport_nccl
from fredfw.testing import TransportTests
from fredfw_transport_nccl import Nccl


class TestNccl(TransportTests):
    plugin = fredfw_transport_nccl
    transports = (Nccl(family="h100"), Nccl(family="a100"))
