"""Tables that do not fit into memory: Parquet files, read by threads, by Dask or by Ray."""

from scarless.scale.columns import PartitionError
from scarless.scale.engine import PartitionedEngine
from scarless.scale.files import file_advice
from scarless.scale.parquet import ParquetRows
from scarless.scale.predictions import WrittenPredictions
from scarless.scale.preparing import FilePreparation, PreparedRows

__all__ = [
    "FilePreparation",
    "ParquetRows",
    "PartitionError",
    "PartitionedEngine",
    "PreparedRows",
    "WrittenPredictions",
    "file_advice",
]
