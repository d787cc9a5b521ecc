"""Where each public name is defined; ``fredfw/__init__.py`` imports it from there when it is used."""

from . import (
    errors as errors,
    limits as limits,
    tables as tables,
    typing as typing,
    units as units,
)
from .collectives import (
    CollectiveAlgorithm as CollectiveAlgorithm,
    CollectiveRequest as CollectiveRequest,
    LevelSteps as LevelSteps,
    Pattern as Pattern,
    Phase as Phase,
    Schedule as Schedule,
    balanced_shares as balanced_shares,
    check as check,
    in_series as in_series,
    parallel as parallel,
    pipelined as pipelined,
    ring_schedule as ring_schedule,
    sequence as sequence,
)
from .experiment.file.spec import Experiment as Experiment
from .experiment.results import (
    CollectiveResult as CollectiveResult,
    Comparison as Comparison,
    RunResult as RunResult,
)
from .fabric import (
    Admission as Admission,
    AdmissionPolicy as AdmissionPolicy,
    Bill as Bill,
    BillItem as BillItem,
    Call as Call,
    Capabilities as Capabilities,
    Costs as Costs,
    Decompose as Decompose,
    Defaults as Defaults,
    Dimension as Dimension,
    DimensionOrderRouter as DimensionOrderRouter,
    Fabric as Fabric,
    FlowSet as FlowSet,
    GroupLinks as GroupLinks,
    GroupView as GroupView,
    Level as Level,
    MultipathRouter as MultipathRouter,
    NodeKind as NodeKind,
    OpenAdmission as OpenAdmission,
    Operation as Operation,
    Prices as Prices,
    Refuse as Refuse,
    Router as Router,
    Routes as Routes,
    ShortestPathRouter as ShortestPathRouter,
    Split as Split,
    Start as Start,
    Topology as Topology,
    Transport as Transport,
    Wait as Wait,
    product_fabric as product_fabric,
    scopes_of_dimensions as scopes_of_dimensions,
    with_servers as with_servers,
)
from .files import (
    File as File,
    Files as Files,
)
from .framework import Framework as Framework
from .plugin import (
    CONTRACT_VERSION as CONTRACT_VERSION,
    hookimpl as hookimpl,
)
from .plugin.exporter import Exporter as Exporter
from .plugin.manager import PluginManager as PluginManager
from .plugin.sampler import (
    Sampler as Sampler,
    Search as Search,
    SearchSpace as SearchSpace,
    Told as Told,
    Trial as Trial,
)
from .simulation import (
    ActiveFlows as ActiveFlows,
    CircuitPreempt as CircuitPreempt,
    Dynamics as Dynamics,
    HeldRates as HeldRates,
    Incidence as Incidence,
    Samples as Samples,
    SharingPolicy as SharingPolicy,
    StatefulSharing as StatefulSharing,
    Timeline as Timeline,
    max_min as max_min,
)
from .workloads import (
    Attention as Attention,
    DeviceMesh as DeviceMesh,
    Gemm as Gemm,
    GradientBuckets as GradientBuckets,
    GraphBuilder as GraphBuilder,
    Kernels as Kernels,
    Label as Label,
    MemoryUse as MemoryUse,
    Npu as Npu,
    Placement as Placement,
    SnakePlacement as SnakePlacement,
    System as System,
    TaskGraph as TaskGraph,
    TaskKind as TaskKind,
    TraceCalls as TraceCalls,
    TraceInfo as TraceInfo,
    TraceWorkload as TraceWorkload,
    Work as Work,
    Workload as Workload,
    samples_per_replica as samples_per_replica,
)

__all__: list[str]
__version__: str
