from tg_crepe.distributed.build import build_graph
from tg_crepe.distributed.manifest import Manifest, ShardError
from tg_crepe.distributed.partition import partition_graph
from tg_crepe.distributed.partition_features import FeaturePartition, partition_features
from tg_crepe.distributed.partition_files import NodeLabels
from tg_crepe.distributed.partition_report import PartitionReport
from tg_crepe.distributed.shard import Shard
from tg_crepe.distributed.shard_files import open_shard, write_shards

__all__ = [
    "FeaturePartition",
    "Manifest",
    "NodeLabels",
    "PartitionReport",
    "Shard",
    "ShardError",
    "build_graph",
    "open_shard",
    "partition_features",
    "partition_graph",
    "write_shards",
]
