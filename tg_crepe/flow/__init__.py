from tg_crepe.flow.cheeger import CheegerPartition, cheeger_partition
from tg_crepe.flow.conjugate_gradient import conjugate_gradient
from tg_crepe.flow.ratio_flow import FlowResult, RatioFlow
from tg_crepe.flow.trace import Status, Trace

__all__ = ["CheegerPartition", "FlowResult", "RatioFlow", "Status", "Trace", "cheeger_partition", "conjugate_gradient"]
