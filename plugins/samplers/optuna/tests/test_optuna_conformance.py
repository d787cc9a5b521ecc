from __future__ import annotations

import fredfw_sampler_optuna
from fredfw.testing import SamplerTests
from fredfw_sampler_optuna import OptunaSampler


class TestOptunaSampler(SamplerTests):
    plugin = fredfw_sampler_optuna
    samplers = (OptunaSampler(trials=8), OptunaSampler(trials=8, seed=3, algorithm="nsgaii", batch=3))
