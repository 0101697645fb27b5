"""The paper's eight datasets, one function each, and any of them by name."""

import os
from difflib import get_close_matches
from typing import Any

import numpy as np

from scarless.checks.options import check_flag, shown
from scarless.datasets.bundled import BUNDLED
from scarless.datasets.encoding import scale_to_range
from scarless.datasets.fetch import read_files
from scarless.datasets.pu_data import Provenance, PUData
from scarless.datasets.registry import DATASETS

PathLike = str | os.PathLike[str]


def dataset_names(*, bundled: bool = False) -> tuple[str, ...]:
    """Return the names of the paper's eight datasets; with `bundled`, also of those that need no file.

    Examples
    --------
    >>> dataset_names()[:3]
    ('newsgroups', 'adult', 'breastcancer')
    >>> dataset_names(bundled=True)[8:]
    ('bundled_breast_cancer', 'bundled_digits', 'simulated')
    """
    return (*DATASETS, *BUNDLED) if check_flag(bundled, "bundled") else tuple(DATASETS)


def load_dataset(name: str, *, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load a dataset by name.

    Raw files are looked for in `data_home`, then in the cache, and are fetched from their public home into the cache
    if they are in neither. Their unpacked content must have the SHA-256 that is known for it.

    Parameters
    ----------
    name : str
        One of ``dataset_names(bundled=True)``.
    data_home : path, default=None
        Directory with one folder per dataset, such as ``adult/adult.data.gz``; files may be plain, gz or xz, or be the
        archive as downloaded. None: the environment variable ``SCARLESS_DATA``, where it is set.
    download : bool, default=True
        Whether to fetch files that are neither there nor in the cache. The cache is the directory named by the
        environment variable ``SCARLESS_CACHE``, else the system's place for caches.
    scale : bool, default=True
        Whether to scale every attribute to [-1, 1] by its minimum and maximum over the whole dataset, as in the
        paper's protocol. Attributes without an order of values are columns of -1 and +1 in any case.

    Returns
    -------
    PUData
        Attributes, true class, attribute names and provenance.

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
    if name not in DATASETS:
        raise ValueError(f"there is no dataset {name!r}. {_choices(name)}")
    X, y, names, provenance = _read(name, data_home, download)
    X = scale_to_range(X, names) if scale else np.ascontiguousarray(X)
    return PUData(X, y, tuple(names), name, provenance)


def _read(name: str, data_home: PathLike | None, download: bool) -> tuple[Any, Any, list[str], Provenance]:
    dataset = DATASETS[name]
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
    names = dataset_names(bundled=True)
    nearest = get_close_matches(str(name).lower().replace("-", "").replace(" ", ""), names, n=1)
    listed = f"The datasets are {', '.join(map(repr, names))}."
    return f"Did you mean {nearest[0]!r}? {listed}" if nearest else listed


def load_newsgroups(*, data_home: PathLike | None = None, download: bool = True, scale: bool = True) -> PUData:
    """Load 20 Newsgroups: 8,870 posts, 200 words, Pr(y=1) = 0.551; positive: the five ``comp`` groups.

    The others are the four ``rec`` groups. Train and test parts of the version by date are taken together; headers,
    footers and quotes are removed as scikit-learn does; an attribute is the presence of one of the 200 most frequent
    words. Rows are in scikit-learn's order. See `load_dataset` for the parameters.

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
    """Load Adult, from the US census of 1994: 48,842 rows, 107 attributes, Pr(y=1) = 0.239; positive: above 50K.

    Training and test file together; a missing value, ``?``, is a value of its own. See `load_dataset` for the
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

    The 16 rows with a missing value are dropped. Not to be confused with the Diagnostic table that scikit-learn comes
    with, `load_bundled_breast_cancer`. See `load_dataset` for the parameters.

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
    """Load Diabetes 130-US Hospitals: 99,492 rows, 127 attributes, Pr(y=1) = 0.112; positive: back within 30 days.

    Diagnoses, specialties, and the codes of discharge and admission keep their ten commonest values, the rest is
    ``other``; attributes with one value in more than 95% of the rows are dropped, and then the rows with a missing
    value. Not to be confused with the regression table of the same name in scikit-learn. See `load_dataset` for the
    parameters.

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

    Training and test file together, without the constant ``region-pixel-count``. See `load_dataset` for the
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

    A missing value, ``?``, is a value of its own; the constant ``veil-type`` is dropped. See `load_dataset` for the
    parameters.

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

    Training and test file together; each attribute is one of four bases, coded 1 to 4. See `load_dataset` for the
    parameters.

    References
    ----------
    Chang, C.-C. and Lin, C.-J. (2011). LIBSVM: a library for support vector machines. ACM TIST 2(3).

    Examples
    --------
    >>> load_splice()  # doctest: +SKIP
    PUData('splice', 3,175 rows x 60 attributes, Pr(y=1) = 0.519)
    """
    return load_dataset("splice", data_home=data_home, download=download, scale=scale)
