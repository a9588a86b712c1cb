from tg_crepe.distributed.manifest import Manifest, ShardError
from tg_crepe.distributed.partition_report import PartitionReport
from tg_crepe.distributed.shard import Shard
from tg_crepe.distributed.shard_files import open_shard, write_shards

__all__ = ["Manifest", "PartitionReport", "Shard", "ShardError", "open_shard", "write_shards"]
