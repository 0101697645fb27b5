"""Rows beyond one machine's memory: Parquet files, walked by threads, by Dask or by Ray."""

from scarless.scale.advice import file_advice
from scarless.scale.engine import PartitionedEngine
from scarless.scale.parquet import ParquetRows, PartitionError

__all__ = ["ParquetRows", "PartitionError", "PartitionedEngine", "file_advice"]
