from tg_crepe.distributed.build import build_graph
from tg_crepe.distributed.checkpoint import Checkpoints
from tg_crepe.distributed.communicator import Traffic
from tg_crepe.distributed.feature_files import NodeLabels
from tg_crepe.distributed.inference import propagate
from tg_crepe.distributed.manifest import Manifest, ShardError
from tg_crepe.distributed.partition import PartitionReport, partition_graph
from tg_crepe.distributed.partition_features import FeaturePartition, partition_features
from tg_crepe.distributed.processes import LostRankError
from tg_crepe.distributed.shard import Shard
from tg_crepe.distributed.shard_files import open_shard, write_shards
from tg_crepe.distributed.tables import write_tables

__all__ = [
    "Checkpoints",
    "FeaturePartition",
    "LostRankError",
    "Manifest",
    "NodeLabels",
    "PartitionReport",
    "Shard",
    "ShardError",
    "Traffic",
    "build_graph",
    "open_shard",
    "partition_features",
    "partition_graph",
    "propagate",
    "write_shards",
    "write_tables",
]
