"""The checks as abstract test classes for pytest, one test per check and configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import pytest

from fredfw.collectives import CollectiveAlgorithm
from fredfw.fabric import Fabric, Router, Topology, Transport
from fredfw.plugin.exporter import Exporter
from fredfw.plugin.sampler import Sampler, SearchSpace
from fredfw.simulation import SharingPolicy
from fredfw.testing.admission import AdmissionCase
from fredfw.testing.collective import RANKS, CollectiveCase
from fredfw.testing.conformance import NOTHING, PASSES, Case, Check, ConformanceError, checks_of, misuses, outcome
from fredfw.testing.exporter import ExporterCase, Result
from fredfw.testing.placement import PARALLELISMS, PlacementCase
from fredfw.testing.routes import RouterCase
from fredfw.testing.sampler import SamplerCase
from fredfw.testing.sharing import SharingCase
from fredfw.testing.topology import TopologyCase
from fredfw.testing.transport import TransportCase
from fredfw.testing.workload import SYSTEM, WorkloadCase
from fredfw.workloads import DeviceMesh, Placement, System, Workload


class _Tests:
    """What all test classes have."""

    plugin: object = None
    """The module whose hooks register what is tested; ``None`` if that is not to be checked."""
    expected_failures: ClassVar[Mapping[str, str]] = NOTHING
    """By the name of a check, the reason why it cannot hold, for all that the class tests."""
    checks: ClassVar[Sequence[Check[Any]]] = ()
    _case: ClassVar[type[Case[Any]]]
    _subjects: ClassVar[str]
    _kept: ClassVar[list[Case[Any]]]

    def __init_subclass__(cls, case: type[Case[Any]] | None = None, subjects: str = "") -> None:
        """Add a test for each check of a ``case``, on one for each of the ``subjects`` that the class names."""
        if case is None:
            return
        cls._case, cls._subjects, cls.checks = case, subjects, checks_of(case)
        for check in cls.checks:
            test = _test_of(check)
            test.__name__ = f"test_{check.__name__}"
            test.__qualname__ = f"{cls.__qualname__}.{test.__name__}"
            setattr(cls, test.__name__, test)

    @classmethod
    def cases(cls) -> Iterator[Case[Any]]:
        """Yield what the tests are run on."""
        given = {one.name: getattr(cls, one.name) for one in attrs.fields(cls._case) if one.name != "subject"}
        return (cls._case(subject=one, **given) for one in getattr(cls, cls._subjects))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run every test on every case."""
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", self._kept_cases(), ids=str)

    @classmethod
    def _kept_cases(cls) -> list[Case[Any]]:
        """Return the cases, always the same: what one has found out serves all tests."""
        if "_kept" not in vars(cls):
            cls._kept = list(cls.cases())
        if not cls._kept:
            raise ValueError(f"{cls.__qualname__} names nothing to test; the docstring of its base class says how")
        return cls._kept

    def test_expected_failures(self) -> None:
        """All expected failures are of checks that there are, and have a reason."""
        wrong = list(misuses(self.checks, self.expected_failures))
        if wrong:
            raise ConformanceError("; ".join(wrong))


def _test_of(check: Check[Any]) -> Callable[[Any, Case[Any]], None]:
    def test(self: _Tests, case: Case[Any]) -> None:
        if check.__name__ in self.expected_failures:
            if outcome(check, case):
                pytest.xfail(self.expected_failures[check.__name__])
            pytest.fail(f"{check.__name__} {PASSES}")
        for fault in check(case):
            raise ConformanceError(fault)

    test.__doc__ = check.__doc__
    return test


class TopologyTests(_Tests, case=TopologyCase, subjects="topologies"):
    """Tests of the configured ``topologies``."""

    topologies: ClassVar[Sequence[Topology]] = ()


class AdmissionTests(_Tests, case=AdmissionCase, subjects="topologies"):
    """Tests of the admission of what the configured ``topologies`` build, on random flow sets."""

    topologies: ClassVar[Sequence[Topology]] = ()


class RouterTests(_Tests, case=RouterCase, subjects="routers"):
    """Tests of the configured ``routers``, each on every one of ``fabrics``."""

    routers: ClassVar[Sequence[Router]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()

    @classmethod
    def cases(cls) -> Iterator[RouterCase]:
        """Yield every router on every fabric."""
        return (
            RouterCase(subject=router, fabric=fabric, plugin=cls.plugin)
            for router in cls.routers
            for fabric in cls.fabrics
        )


class CollectiveTests(_Tests, case=CollectiveCase, subjects="algorithms"):
    """Tests of the configured ``algorithms``.

    Attributes:
        ranks: Group sizes for which schedules are replayed.
        fabrics: Small fabrics on which they are simulated; the kit's own where none are given.
    """

    algorithms: ClassVar[Sequence[CollectiveAlgorithm]] = ()
    ranks: ClassVar[Sequence[int]] = RANKS
    fabrics: ClassVar[Sequence[Fabric]] = ()


class WorkloadTests(_Tests, case=WorkloadCase, subjects="workloads"):
    """Tests of the configured ``workloads``, on the machine ``system``.

    Attributes:
        conserved: Totals on which all ``workloads`` must agree, because they are the same work split in different ways:
            ``flops``, ``bytes`` (of local memory), labels of communication, or fields of ``Work`` such as ``samples``;
            none if they are different work.
    """

    workloads: ClassVar[Sequence[Workload]] = ()
    system: ClassVar[System] = SYSTEM
    conserved: ClassVar[Sequence[str]] = ()

    @classmethod
    def cases(cls) -> Iterator[WorkloadCase]:
        """Yield every workload, beside all that do the same work."""
        splits = cls.workloads if cls.conserved else ()
        return (
            WorkloadCase(subject=one, plugin=cls.plugin, system=cls.system, splits=splits, conserved=cls.conserved)
            for one in cls.workloads
        )


class PlacementTests(_Tests, case=PlacementCase, subjects="placements"):
    """Tests of the configured ``placements``, each on every fabric.

    Attributes:
        fabrics: Where workers are placed; the kit's own fabrics where none are given.
        meshes: Workers to place, where there are NPUs for them.
    """

    placements: ClassVar[Sequence[Placement]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()
    meshes: ClassVar[Sequence[DeviceMesh]] = PARALLELISMS


class SharingPolicyTests(_Tests, case=SharingCase, subjects="policies"):
    """Tests of the configured ``policies``, on random flows on each of ``fabrics``, by default the kit's own."""

    policies: ClassVar[Sequence[SharingPolicy]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()


class TransportTests(_Tests, case=TransportCase, subjects="transports"):
    """Tests of the configured ``transports``, on calls of all patterns on ``fabrics``, by default the kit's own."""

    transports: ClassVar[Sequence[Transport]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()


class ExporterTests(_Tests, case=ExporterCase, subjects="exporters"):
    """Tests of the configured ``exporters``, on ``results``, by default the kit's own."""

    exporters: ClassVar[Sequence[Exporter]] = ()
    results: ClassVar[Sequence[Result]] = ()


class SamplerTests(_Tests, case=SamplerCase, subjects="samplers"):
    """Tests of the configured ``samplers``, each on searches of all ``spaces``, by default the kit's own."""

    samplers: ClassVar[Sequence[Sampler]] = ()
    spaces: ClassVar[Sequence[SearchSpace]] = ()
