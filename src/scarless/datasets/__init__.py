"""Example datasets with known true classes."""

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
from scarless.datasets.pu_data import Provenance, PUData
from scarless.outside.late import late_names as _late_names

__all__ = [
    "DatasetFileError",
    "PUData",
    "Provenance",
    "dataset_names",
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

# Names that moved to a package that imports this one. They are imported on first use.
__getattr__, __dir__ = _late_names("scarless.datasets", {"Looks": "scarless.raw", "from_long": "scarless.raw"})
