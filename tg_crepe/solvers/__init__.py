from tg_crepe.solvers.cheeger import CheegerPartition, cheeger_partition
from tg_crepe.solvers.conjugate_gradient import conjugate_gradient
from tg_crepe.solvers.observers import FlowCheckpoint, FlowMoments, FlowObserver, FlowState, Snapshots
from tg_crepe.solvers.ratio_flow import FlowResult, RatioFlow
from tg_crepe.solvers.trace import Status, Trace

__all__ = [
    "CheegerPartition",
    "FlowCheckpoint",
    "FlowMoments",
    "FlowObserver",
    "FlowResult",
    "FlowState",
    "RatioFlow",
    "Snapshots",
    "Status",
    "Trace",
    "cheeger_partition",
    "conjugate_gradient",
]
