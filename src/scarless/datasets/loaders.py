"""Loaders of datasets: the eight datasets of Bekker, Robberechts and Davis (2019), and three that need no download."""

import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.checks.options import check_flag, check_random_stream, check_whole, shown
from scarless.datasets.fetch import read_files
from scarless.datasets.pu_data import Provenance, PUData, scale_to_range
from scarless.datasets.registry import DATASETS, TEISSEYRE_TABLES
from scarless.numerics.arrays import Vector

_SIMULATED_STREAM = 0x73696D75  # "simu" in ASCII: a spawn key: default_rng(seed) of a user draws other numbers
PathLike = str | os.PathLike[str]


def load_bundled_breast_cancer() -> PUData:
    """Load the breast cancer table that comes with scikit-learn: 569 rows, 30 attributes; positive: malignant.

    This is Wisconsin *Diagnostic*, measured on images of cell nuclei. It is not Wisconsin *Original*, the dataset of
    Bekker, Robberechts and Davis (2019), which `load_breast_cancer` loads. Every attribute is scaled to [-1, 1].

    References
    ----------
    Wolberg, W., Mangasarian, O., Street, N. and Street, W. (1993). Breast Cancer Wisconsin (Diagnostic). UCI Machine
    Learning Repository. doi:10.24432/C5DW2B

    Examples
    --------
    >>> load_bundled_breast_cancer()
    PUData('bundled_breast_cancer', 569 rows x 30 attributes, Pr(y=1) = 0.373)
    """
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415

    bunch = load_breast_cancer()
    provenance = Provenance(
        title="Breast Cancer Wisconsin (Diagnostic)",
        source="comes with scikit-learn: sklearn.datasets.load_breast_cancer",
        licence="CC BY 4.0",
        citation="Wolberg, W., Mangasarian, O., Street, N. and Street, W. (1993). Breast Cancer Wisconsin "
        "(Diagnostic). UCI Machine Learning Repository. doi:10.24432/C5DW2B",
    )
    malignant = bunch.target == list(bunch.target_names).index("malignant")
    return _scaled(bunch.data, malignant, bunch.feature_names, "bundled_breast_cancer", provenance)


def load_bundled_digits() -> PUData:
    """Load the handwritten digits that come with scikit-learn: 1,797 rows, 61 attributes; positive: even digits.

    Pixels that are blank in every image are dropped. Every attribute is scaled to [-1, 1].

    References
    ----------
    Alpaydin, E. and Kaynak, C. (1998). Optical Recognition of Handwritten Digits. UCI Machine Learning Repository.
    doi:10.24432/C50P49

    Examples
    --------
    >>> load_bundled_digits()
    PUData('bundled_digits', 1,797 rows x 61 attributes, Pr(y=1) = 0.496)
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415

    bunch = load_digits()
    varies = np.ptp(bunch.data, axis=0) > 0
    provenance = Provenance(
        title="Optical Recognition of Handwritten Digits, test part",
        source="comes with scikit-learn: sklearn.datasets.load_digits",
        licence="CC BY 4.0",
        citation="Alpaydin, E. and Kaynak, C. (1998). Optical Recognition of Handwritten Digits. UCI Machine Learning "
        "Repository. doi:10.24432/C50P49",
    )
    names = np.asarray(bunch.feature_names)[varies]
    return _scaled(bunch.data[:, varies], bunch.target % 2 == 0, names, "bundled_digits", provenance)


def load_simulated(n_rows: int = 2000, n_attributes: int = 10, *, random_state: Any = 0) -> PUData:
    r"""Simulate a dataset whose class probability is logistic in its attributes.

    .. math:: \Pr(y=1 \mid x) = \frac{1}{1 + \exp\bigl(-\sum_{j=0}^{d-1} b_j x_j\bigr)}, \qquad
              b_j = \frac{6 (-1)^j}{1 + j}

    Attributes are drawn from a uniform distribution and scaled to [-1, 1] before the class is drawn, so the formula
    holds for the returned `X`.

    Parameters
    ----------
    n_rows : int, default=2000
        Number of rows, at least 2.
    n_attributes : int, default=10
        Number of attributes, at least 1.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the random numbers. Pass an int for reproducible results.

    Returns
    -------
    PUData
        Attributes named ``x0``, ``x1``, ..., and true classes.

    Examples
    --------
    >>> load_simulated(100, 3)
    PUData('simulated', 100 rows x 3 attributes, Pr(y=1) = 0.560)
    """
    n = check_whole(n_rows, "n_rows", at_least=2)
    d = check_whole(n_attributes, "n_attributes", at_least=1)
    rng = _stream(random_state)
    names = [f"x{j}" for j in range(d)]
    X = scale_to_range(rng.uniform(-1.0, 1.0, size=(n, d)), names)
    j = np.arange(d)
    logit = X @ (6.0 * (-1.0) ** j / (1.0 + j))
    y = rng.logistic(size=n) < logit
    provenance = Provenance(
        title="Simulated logistic classes",
        source=f"drawn by scarless.datasets.load_simulated({n}, {d}, random_state={random_state!r})",
        licence="none needed",
    )
    return PUData(X, y.astype(np.int64), tuple(names), "simulated", provenance)


def _stream(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return np.random.default_rng(np.random.SeedSequence(int(random_state), spawn_key=(_SIMULATED_STREAM,)))
    return check_random_stream(random_state)


def _scaled(X: Vector, positive: NDArray[np.bool_], names: Sequence[str], name: str, provenance: Provenance) -> PUData:
    names = tuple(str(attribute) for attribute in names)
    return PUData(scale_to_range(X, names), positive.astype(np.int64), names, name, provenance)


BUNDLED: dict[str, Callable[[], PUData]] = {
    "bundled_breast_cancer": load_bundled_breast_cancer,
    "bundled_digits": load_bundled_digits,
    "simulated": load_simulated,
}


def dataset_names(*, bundled: bool = False) -> tuple[str, ...]:
    """Return the names of the eight datasets of Bekker, Robberechts and Davis (2019).

    With `bundled`, return also the names of the three datasets that need no download.

    Examples
    --------
    >>> dataset_names()[:3]
    ('newsgroups', 'adult', 'breastcancer')
    >>> dataset_names(bundled=True)[8:]
    ('bundled_breast_cancer', 'bundled_digits', 'simulated')
    """
    return (*DATASETS, *BUNDLED) if check_flag(bundled, "bundled") else tuple(DATASETS)


def all_dataset_names() -> tuple[str, ...]:
    """Return the names of all datasets that `load_dataset` accepts, with the tables of Teisseyre et al. (2025)."""
    return (*dataset_names(bundled=True), *TEISSEYRE_TABLES)


def load_dataset(name: str, *, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load a dataset by name.

    Raw files are looked up in `data_home`, then in the cache. If they are in neither, they are downloaded into the
    cache. Their unpacked content must have the expected SHA-256.

    Parameters
    ----------
    name : str
        One of ``dataset_names(bundled=True)``, or a table of Teisseyre et al. (2025), such as
        ``"teisseyre_breast-w"``.
    data_home : path, default=None
        Directory with one folder for each dataset, such as ``adult/adult.data.gz``. Files may be plain, gz, xz or the
        downloaded archive. Default: the environment variable ``SCARLESS_DATA``, if it is set.
    download : bool, default=True
        Whether to download files that are neither in `data_home` nor in the cache. The cache is the directory in the
        environment variable ``SCARLESS_CACHE`` or, if it is not set, a folder in the system's cache directory.
    scale : bool, default=True
        Whether to scale every attribute to [-1, 1] by its minimum and maximum over the whole dataset, as Bekker,
        Robberechts and Davis (2019) do. Categorical attributes are columns of -1 and +1 in any case. `scale` has no
        effect on the three bundled datasets, which are always scaled, and on the tables of Teisseyre et al. (2025),
        which are never scaled.

    Returns
    -------
    PUData
        Attributes, true classes, attribute names and provenance.

    Examples
    --------
    >>> load_dataset("simulated")
    PUData('simulated', 2,000 rows x 10 attributes, Pr(y=1) = 0.493)
    >>> load_dataset("adult")  # doctest: +SKIP
    PUData('adult', 48,842 rows x 107 attributes, Pr(y=1) = 0.239)
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be the name of a dataset, such as 'simulated'; got {shown(name)}.")
    if name in BUNDLED:
        return BUNDLED[name]()
    if name not in all_dataset_names():
        raise ValueError(f"There is no dataset {name!r}. {_choices(name)}")
    X, y, names, provenance = _read(name, data_home, download)
    X = scale_to_range(X, names) if scale and name in DATASETS else np.ascontiguousarray(X)
    return PUData(X, y, tuple(names), name, provenance)


def _read(name: str, data_home: PathLike | None, download: bool) -> tuple[Any, Any, list[str], Provenance]:
    dataset = {**DATASETS, **TEISSEYRE_TABLES}[name]
    contents = read_files(dataset.folder, dataset.files, data_home=data_home, download=download)
    X, y, names = dataset.parse(*(content.data for content in contents))
    provenance = Provenance(
        title=dataset.title,
        source=dataset.page,
        licence=dataset.licence,
        citation=dataset.citation,
        sha256={file.name: file.sha256 for file in dataset.files},
        files=tuple(dict.fromkeys(content.path for content in contents)),
    )
    return X, y, names, provenance


def _choices(name: Any) -> str:
    names = all_dataset_names()
    nearest = get_close_matches(str(name).lower().replace("-", "").replace(" ", ""), names, n=1)
    listed = f"The datasets are {', '.join(map(repr, names))}."
    return f"Did you mean {nearest[0]!r}? {listed}" if nearest else listed


def load_newsgroups(*, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load 20 Newsgroups: 8,870 posts, 200 words, Pr(y=1) = 0.551; positive: the five ``comp`` groups.

    Negatives are the four ``rec`` groups. The training and test parts of the "bydate" version are concatenated.
    Headers, footers and quotes are removed as in scikit-learn. Each attribute is the presence of one of the 200 most
    frequent words. Rows are in scikit-learn's order. See `load_dataset` for the parameters.

    References
    ----------
    Lang, K. (1995). NewsWeeder: learning to filter netnews. ICML, 331-339.

    Examples
    --------
    >>> load_newsgroups()  # doctest: +SKIP
    PUData('newsgroups', 8,870 rows x 200 attributes, Pr(y=1) = 0.551)
    """
    return load_dataset("newsgroups", data_home=data_home, download=download, scale=scale)


def load_adult(*, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load Adult (US census of 1994): 48,842 rows, 107 attributes, Pr(y=1) = 0.239; positive: income above 50K.

    Training and test file are concatenated. A missing value, ``?``, is a category. See `load_dataset` for the
    parameters.

    References
    ----------
    Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository. doi:10.24432/C5XW20

    Examples
    --------
    >>> load_adult()  # doctest: +SKIP
    PUData('adult', 48,842 rows x 107 attributes, Pr(y=1) = 0.239)
    """
    return load_dataset("adult", data_home=data_home, download=download, scale=scale)


def load_breast_cancer(*, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load Breast Cancer Wisconsin (Original): 683 rows, 9 attributes, Pr(y=1) = 0.350; positive: malignant.

    The 16 rows with a missing value are dropped. `load_bundled_breast_cancer` loads another dataset, the Diagnostic
    table of scikit-learn. See `load_dataset` for the parameters.

    References
    ----------
    Wolberg, W. (1990). Breast Cancer Wisconsin (Original). UCI Machine Learning Repository. doi:10.24432/C5HP4Z

    Examples
    --------
    >>> load_breast_cancer()  # doctest: +SKIP
    PUData('breastcancer', 683 rows x 9 attributes, Pr(y=1) = 0.350)
    """
    return load_dataset("breastcancer", data_home=data_home, download=download, scale=scale)


def load_covtype(*, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load Cover Type: 581,012 rows, 54 attributes, Pr(y=1) = 0.488; positive: class 2, Lodgepole Pine.

    See `load_dataset` for the parameters.

    References
    ----------
    Blackard, J. (1998). Covertype. UCI Machine Learning Repository. doi:10.24432/C50K5N

    Examples
    --------
    >>> load_covtype()  # doctest: +SKIP
    PUData('covtype', 581,012 rows x 54 attributes, Pr(y=1) = 0.488)
    """
    return load_dataset("covtype", data_home=data_home, download=download, scale=scale)


def load_diabetes(*, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load Diabetes 130-US Hospitals: 99,492 rows, 127 attributes, Pr(y=1) = 0.112; positive: readmitted in 30 days.

    Diagnoses, specialties, and the codes of discharge and admission keep their ten most frequent values; all others
    become ``other``. Attributes with the same value in more than 95% of the rows are dropped, then rows with a missing
    value. scikit-learn's dataset of the same name is a different one. See `load_dataset` for the parameters.

    References
    ----------
    Clore, J., Cios, K., DeShazo, J. and Strack, B. (2014). Diabetes 130-US Hospitals for Years 1999-2008. UCI Machine
    Learning Repository. doi:10.24432/C5230J

    Examples
    --------
    >>> load_diabetes()  # doctest: +SKIP
    PUData('diabetes', 99,492 rows x 127 attributes, Pr(y=1) = 0.112)
    """
    return load_dataset("diabetes", data_home=data_home, download=download, scale=scale)


def load_image_segmentation(*, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load Image Segmentation: 2,310 rows, 18 attributes, Pr(y=1) = 0.429; positive: sky, grass and foliage.

    Training and test file are concatenated, without the constant ``region-pixel-count``. See `load_dataset` for the
    parameters.

    References
    ----------
    Image Segmentation (1990). UCI Machine Learning Repository. doi:10.24432/C5GP4N

    Examples
    --------
    >>> load_image_segmentation()  # doctest: +SKIP
    PUData('imagesegmentation', 2,310 rows x 18 attributes, Pr(y=1) = 0.429)
    """
    return load_dataset("imagesegmentation", data_home=data_home, download=download, scale=scale)


def load_mushroom(*, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load Mushroom: 8,124 rows, 111 attributes, Pr(y=1) = 0.482; positive: poisonous.

    A missing value, ``?``, is a category. The constant ``veil-type`` is dropped. See `load_dataset` for the parameters.

    References
    ----------
    Mushroom (1981). UCI Machine Learning Repository. doi:10.24432/C5959T

    Examples
    --------
    >>> load_mushroom()  # doctest: +SKIP
    PUData('mushroom', 8,124 rows x 111 attributes, Pr(y=1) = 0.482)
    """
    return load_dataset("mushroom", data_home=data_home, download=download, scale=scale)


def load_splice(*, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load LIBSVM's splice: 3,175 rows, 60 attributes, Pr(y=1) = 0.519; positive: a splice junction, +1.

    Training and test file are concatenated. Each attribute is one of four bases, coded 1 to 4. See `load_dataset` for
    the parameters.

    References
    ----------
    Chang, C.-C. and Lin, C.-J. (2011). LIBSVM: a library for support vector machines. ACM TIST 2(3).

    Examples
    --------
    >>> load_splice()  # doctest: +SKIP
    PUData('splice', 3,175 rows x 60 attributes, Pr(y=1) = 0.519)
    """
    return load_dataset("splice", data_home=data_home, download=download, scale=scale)
