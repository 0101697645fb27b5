"""From tables to checked arrays, and datasets to try things on."""

from scarless.datasets.fetch import DatasetFileError
from scarless.datasets.loaders import (
    dataset_names,
    load_adult,
    load_breast_cancer,
    load_bundled_breast_cancer,
    load_bundled_digits,
    load_covtype,
    load_dataset,
    load_diabetes,
    load_image_segmentation,
    load_mushroom,
    load_newsgroups,
    load_simulated,
    load_splice,
)
from scarless.datasets.long_tables import Looks, from_long
from scarless.datasets.pu_data import Provenance, PUData

__all__ = [
    "DatasetFileError",
    "Looks",
    "PUData",
    "Provenance",
    "dataset_names",
    "from_long",
    "load_adult",
    "load_breast_cancer",
    "load_bundled_breast_cancer",
    "load_bundled_digits",
    "load_covtype",
    "load_dataset",
    "load_diabetes",
    "load_image_segmentation",
    "load_mushroom",
    "load_newsgroups",
    "load_simulated",
    "load_splice",
]
