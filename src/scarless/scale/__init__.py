"""Rows beyond one machine's memory: Parquet files, walked by threads, by Dask or by Ray."""

from scarless.scale.columns import PartitionError
from scarless.scale.engine import PartitionedEngine
from scarless.scale.parquet import ParquetRows

__all__ = ["ParquetRows", "PartitionError", "PartitionedEngine"]
