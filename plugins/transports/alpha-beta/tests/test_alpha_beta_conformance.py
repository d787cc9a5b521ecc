from __future__ import annotations

import fredfw_transport_alpha_beta
from fredfw.testing import TransportTests
from fredfw_transport_alpha_beta import AlphaBeta


class TestAlphaBeta(TransportTests):
    plugin = fredfw_transport_alpha_beta
    transports = (AlphaBeta(), AlphaBeta(launch=1e-5, step=(1e-6,), message=(1e-6,), efficiency=(0.8,), cap=1e9))
