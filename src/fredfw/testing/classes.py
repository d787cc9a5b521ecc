"""The checks as abstract test classes for pytest, one test per check and configuration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import pytest

from fredfw.collectives import CollectiveAlgorithm
from fredfw.fabric import Fabric, Router, Topology, Transport
from fredfw.plugin.exporter import Exporter
from fredfw.plugin.sampler import Sampler, SearchSpace
from fredfw.simulation import SharingPolicy
from fredfw.testing.admission import ADMISSION, AdmissionCase
from fredfw.testing.collective import COLLECTIVE, RANKS, CollectiveCase
from fredfw.testing.common import Case
from fredfw.testing.conformance import NOTHING, PASSES, Check, ConformanceError, misuses
from fredfw.testing.exporter import EXPORTER, ExporterCase, Result, results
from fredfw.testing.fabrics import standard
from fredfw.testing.placement import PARALLELISMS, PLACEMENT, PlacementCase
from fredfw.testing.routes import ROUTER, RouterCase
from fredfw.testing.sampler import SAMPLER, SamplerCase, standard as standard_spaces
from fredfw.testing.sharing import SHARING, SharingCase
from fredfw.testing.topology import TOPOLOGY, TopologyCase
from fredfw.testing.transport import TRANSPORT, TransportCase
from fredfw.testing.workload import SYSTEM, WORKLOAD, WorkloadCase
from fredfw.workloads import DeviceMesh, Placement, System, Workload

T = TypeVar("T", bound="type[_Tests]")


class _Tests:
    """What all test classes have.

    Attributes:
        plugin: The module whose hooks register what is tested; ``None`` if that is not to be checked.
        expected_failures: By the name of a check, the reason why it cannot hold, for all that the class tests.
    """

    plugin: object = None
    expected_failures: ClassVar[Mapping[str, str]] = NOTHING
    checks: ClassVar[Sequence[Check[Any]]] = ()
    _kept: ClassVar[list[Case[Any]]]

    @classmethod
    @abstractmethod
    def cases(cls) -> Iterator[Case[Any]]:
        """Yield what the tests are run on."""

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


def _one_test_per_check(checks: Sequence[Check[Any]]) -> Callable[[T], T]:
    def add(cls: T) -> T:
        cls.checks = checks
        for check in checks:
            test = _test_of(check)
            test.__name__ = f"test_{check.__name__}"
            test.__qualname__ = f"{cls.__qualname__}.{test.__name__}"
            setattr(cls, test.__name__, test)
        return cls

    return add


def _test_of(check: Check[Any]) -> Callable[[Any, Case[Any]], None]:
    def test(self: _Tests, case: Case[Any]) -> None:
        reason = self.expected_failures.get(check.__name__)
        if reason is None:
            check(case)
            return
        try:
            check(case)
        except Exception:  # whatever it is, it is expected
            pytest.xfail(reason)
        pytest.fail(f"{check.__name__} {PASSES}")

    test.__doc__ = check.__doc__
    return test


@_one_test_per_check(TOPOLOGY)
class TopologyTests(_Tests):
    """Tests of configured topologies.

    Attributes:
        topologies: What to test.
    """

    topologies: ClassVar[Sequence[Topology]] = ()

    @classmethod
    def cases(cls) -> Iterator[TopologyCase]:
        """See ``_Tests.cases``."""
        return (TopologyCase(subject=one, plugin=cls.plugin) for one in cls.topologies)


@_one_test_per_check(ADMISSION)
class AdmissionTests(_Tests):
    """Tests of the admission of what configured topologies build, on random flow sets.

    Attributes:
        topologies: Whose fabrics to test.
    """

    topologies: ClassVar[Sequence[Topology]] = ()

    @classmethod
    def cases(cls) -> Iterator[AdmissionCase]:
        """See ``_Tests.cases``."""
        return (AdmissionCase(subject=one, plugin=cls.plugin) for one in cls.topologies)


@_one_test_per_check(ROUTER)
class RouterTests(_Tests):
    """Tests of configured routers, each on every fabric.

    Attributes:
        routers: What to test.
        fabrics: Fabrics that all of them can route.
    """

    routers: ClassVar[Sequence[Router]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()

    @classmethod
    def cases(cls) -> Iterator[RouterCase]:
        """See ``_Tests.cases``."""
        return (
            RouterCase(subject=router, network=fabric, plugin=cls.plugin)
            for router in cls.routers
            for fabric in cls.fabrics
        )


@_one_test_per_check(COLLECTIVE)
class CollectiveTests(_Tests):
    """Tests of configured algorithms.

    Attributes:
        algorithms: What to test.
        ranks: Group sizes for which schedules are replayed.
        fabrics: Small fabrics on which they are simulated; the kit's own where none are given.
    """

    algorithms: ClassVar[Sequence[CollectiveAlgorithm]] = ()
    ranks: ClassVar[Sequence[int]] = RANKS
    fabrics: ClassVar[Sequence[Fabric]] = ()

    @classmethod
    def cases(cls) -> Iterator[CollectiveCase]:
        """See ``_Tests.cases``."""
        fabrics = cls.fabrics or standard()
        return (
            CollectiveCase(subject=one, plugin=cls.plugin, ranks=cls.ranks, fabrics=fabrics) for one in cls.algorithms
        )


@_one_test_per_check(WORKLOAD)
class WorkloadTests(_Tests):
    """Tests of configured workloads.

    Attributes:
        workloads: What to test.
        system: The machine that they run on.
        conserved: Totals on which all ``workloads`` must agree, because they are the same work split in different ways:
            ``flops``, ``bytes`` (of local memory), labels of communication, or fields of ``Work`` such as ``samples``;
            none if they are different work.
    """

    workloads: ClassVar[Sequence[Workload]] = ()
    system: ClassVar[System] = SYSTEM
    conserved: ClassVar[Sequence[str]] = ()

    @classmethod
    def cases(cls) -> Iterator[WorkloadCase]:
        """See ``_Tests.cases``."""
        return (
            WorkloadCase(
                subject=one,
                plugin=cls.plugin,
                system=cls.system,
                splits=cls.workloads if cls.conserved else (),
                conserved=cls.conserved,
            )
            for one in cls.workloads
        )


@_one_test_per_check(PLACEMENT)
class PlacementTests(_Tests):
    """Tests of configured placements, each on every fabric.

    Attributes:
        placements: What to test.
        fabrics: Where workers are placed; the kit's own fabrics where none are given.
        meshes: Workers to place, where there are NPUs for them.
    """

    placements: ClassVar[Sequence[Placement]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()
    meshes: ClassVar[Sequence[DeviceMesh]] = PARALLELISMS

    @classmethod
    def cases(cls) -> Iterator[PlacementCase]:
        """See ``_Tests.cases``."""
        fabrics = cls.fabrics or standard()
        return (
            PlacementCase(subject=one, plugin=cls.plugin, fabrics=fabrics, meshes=cls.meshes) for one in cls.placements
        )


@_one_test_per_check(SHARING)
class SharingPolicyTests(_Tests):
    """Tests of configured sharing policies, each on random flows on every fabric.

    Attributes:
        policies: What to test.
        fabrics: Whose links are shared; the kit's own where none are given.
    """

    policies: ClassVar[Sequence[SharingPolicy]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()

    @classmethod
    def cases(cls) -> Iterator[SharingCase]:
        """See ``_Tests.cases``."""
        fabrics = cls.fabrics or standard()
        return (SharingCase(subject=one, plugin=cls.plugin, fabrics=fabrics) for one in cls.policies)


@_one_test_per_check(TRANSPORT)
class TransportTests(_Tests):
    """Tests of configured transports, each on calls of all patterns on every fabric.

    Attributes:
        transports: What to test.
        fabrics: On which they are asked; the kit's own where none are given.
    """

    transports: ClassVar[Sequence[Transport]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()

    @classmethod
    def cases(cls) -> Iterator[TransportCase]:
        """See ``_Tests.cases``."""
        fabrics = cls.fabrics or standard()
        return (TransportCase(subject=one, plugin=cls.plugin, fabrics=fabrics) for one in cls.transports)


@_one_test_per_check(EXPORTER)
class ExporterTests(_Tests):
    """Tests of configured exporters.

    Attributes:
        exporters: What to test.
        results: Runs and comparisons to export; the kit's own where none are given.
    """

    exporters: ClassVar[Sequence[Exporter]] = ()
    results: ClassVar[Sequence[Result]] = ()

    @classmethod
    def cases(cls) -> Iterator[ExporterCase]:
        """See ``_Tests.cases``."""
        given = cls.results or (results() if cls.exporters else ())
        return (ExporterCase(subject=one, plugin=cls.plugin, results=given) for one in cls.exporters)


@_one_test_per_check(SAMPLER)
class SamplerTests(_Tests):
    """Tests of configured samplers, each on searches of every space.

    Attributes:
        samplers: What to test.
        spaces: What is searched; the kit's own where none are given.
    """

    samplers: ClassVar[Sequence[Sampler]] = ()
    spaces: ClassVar[Sequence[SearchSpace]] = ()

    @classmethod
    def cases(cls) -> Iterator[SamplerCase]:
        """See ``_Tests.cases``."""
        spaces = cls.spaces or standard_spaces()
        return (SamplerCase(subject=one, plugin=cls.plugin, spaces=spaces) for one in cls.samplers)
