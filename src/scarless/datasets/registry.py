"""The eight datasets of Bekker, Robberechts and Davis (2019): addresses, sizes, hashes and parsers of their raw files.

If a dataset moves, correct its address here. Hashes are those of the unpacked content, so the compression does not
matter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scarless.datasets.parsers import (
    list_posts,
    parse_adult,
    parse_breast_cancer,
    parse_covtype,
    parse_diabetes,
    parse_image_segmentation,
    parse_mushroom,
    parse_newsgroups,
    parse_splice,
)

_UCI = "https://archive.ics.uci.edu/static/public"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_CC_BY = "CC BY 4.0"


@dataclass(frozen=True)
class Archive:
    """A file to download."""

    name: str  # name on disk
    urls: tuple[str, ...]  # addresses, in the order in which they are tried


@dataclass(frozen=True)
class RawFile:
    """One raw file of a dataset.

    If archives of the same content differ, `normalise` converts the unpacked file into a common form. `n_bytes` and
    `sha256` are then those of this form.
    """

    name: str  # without a suffix for compression
    n_bytes: int
    sha256: str
    archive: Archive
    normalise: Callable[[bytes], bytes] | None = None
    largest_unpacked: int = 0  # largest size before `normalise`
    also_named: tuple[str, ...] = ()  # other accepted names of the file

    @property
    def largest(self) -> int:
        """Size above which content is not unpacked."""
        return self.largest_unpacked or 2 * self.n_bytes


@dataclass(frozen=True)
class Dataset:
    """A dataset of the registry."""

    folder: str  # in a data home and in the cache
    title: str
    page: str
    citation: str
    files: tuple[RawFile, ...]
    parse: Callable[..., Any]
    licence: str = _CC_BY


def _uci(number: int, name: str) -> Archive:
    return Archive(f"{name}.zip", (f"{_UCI}/{number}/{name}.zip",))


def _plain(name: str) -> Archive:
    return Archive(name, (f"{_LIBSVM}/{name}",))


_ADULT = _uci(2, "adult")
_BREAST_CANCER = _uci(15, "breast+cancer+wisconsin+original")
_COVTYPE = _uci(31, "covertype")
_DIABETES = _uci(296, "diabetes+130-us+hospitals+for+years+1999-2008")
_SEGMENTATION = _uci(50, "image+segmentation")
_MUSHROOM = _uci(73, "mushroom")
_NEWSGROUPS = Archive(
    "20news-bydate.tar.gz",
    (
        "https://ndownloader.figshare.com/files/5975967",  # the copy that scikit-learn uses
        "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",
    ),
)

DATASETS = {
    "newsgroups": Dataset(
        folder="20newsgroups",
        title="20 Newsgroups, by date",
        page="http://qwone.com/~jason/20Newsgroups/",
        licence="not stated",
        citation="Lang, K. (1995). NewsWeeder: learning to filter netnews. ICML, 331-339.",
        files=(
            RawFile(
                "20news-bydate-comp-rec.tar",
                15_152_823,
                "a308bc6e16027e5baaa8296dec10427a9899b1d6df1aa6926f38833d02c05be0",
                _NEWSGROUPS,
                normalise=list_posts,
                largest_unpacked=100_000_000,
                also_named=("20news-bydate.tar",),
            ),
        ),
        parse=parse_newsgroups,
    ),
    "adult": Dataset(
        folder="adult",
        title="Adult",
        page="https://archive.ics.uci.edu/dataset/2/adult",
        citation="Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository. doi:10.24432/C5XW20",
        files=(
            RawFile(
                "adult.data",
                3_974_305,
                "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                _ADULT,
            ),
            RawFile(
                "adult.test",
                2_003_153,
                "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
                _ADULT,
            ),
        ),
        parse=parse_adult,
    ),
    "breastcancer": Dataset(
        folder="breastcancer",
        title="Breast Cancer Wisconsin (Original)",
        page="https://archive.ics.uci.edu/dataset/15/breast+cancer+wisconsin+original",
        citation="Wolberg, W. (1990). Breast Cancer Wisconsin (Original). UCI Machine Learning Repository. "
        "doi:10.24432/C5HP4Z",
        files=(
            RawFile(
                "breast-cancer-wisconsin.data",
                19_889,
                "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
                _BREAST_CANCER,
            ),
        ),
        parse=parse_breast_cancer,
    ),
    "covtype": Dataset(
        folder="covtype",
        title="Covertype",
        page="https://archive.ics.uci.edu/dataset/31/covertype",
        citation="Blackard, J. (1998). Covertype. UCI Machine Learning Repository. doi:10.24432/C50K5N",
        files=(
            RawFile(
                "covtype.data",
                75_169_317,
                "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
                _COVTYPE,
            ),
        ),
        parse=parse_covtype,
    ),
    "diabetes": Dataset(
        folder="diabetes",
        title="Diabetes 130-US Hospitals for Years 1999-2008",
        page="https://archive.ics.uci.edu/dataset/296/diabetes+130-us+hospitals+for+years+1999-2008",
        citation="Clore, J., Cios, K., DeShazo, J. and Strack, B. (2014). Diabetes 130-US Hospitals for Years "
        "1999-2008. UCI Machine Learning Repository. doi:10.24432/C5230J",
        files=(
            RawFile(
                "diabetic_data.csv",
                19_159_383,
                "0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97",
                _DIABETES,
            ),
        ),
        parse=parse_diabetes,
    ),
    "imagesegmentation": Dataset(
        folder="imagesegmentation",
        title="Image Segmentation",
        page="https://archive.ics.uci.edu/dataset/50/image+segmentation",
        citation="Image Segmentation (1990). UCI Machine Learning Repository. doi:10.24432/C5GP4N",
        files=(
            RawFile(
                "segmentation.data",
                34_841,
                "b4226a708f25d44fbbe4eae36f0d66326bc46393534c2a0d2b9267ae1302002f",
                _SEGMENTATION,
            ),
            RawFile(
                "segmentation.test",
                345_083,
                "3b5aa7c3559fdc3a165e97d321809b81292084adfc112645e250d90321203685",
                _SEGMENTATION,
            ),
        ),
        parse=parse_image_segmentation,
    ),
    "mushroom": Dataset(
        folder="mushroom",
        title="Mushroom",
        page="https://archive.ics.uci.edu/dataset/73/mushroom",
        citation="Mushroom (1981). UCI Machine Learning Repository. doi:10.24432/C5959T",
        files=(
            RawFile(
                "agaricus-lepiota.data",
                373_704,
                "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e",
                _MUSHROOM,
            ),
        ),
        parse=parse_mushroom,
    ),
    "splice": Dataset(
        folder="splice",
        title="splice (LIBSVM)",
        page="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#splice",
        licence="not stated",
        citation="Chang, C.-C. and Lin, C.-J. (2011). LIBSVM: a library for support vector machines. ACM TIST 2(3); "
        "the data come from the Delve archive.",
        files=(
            RawFile(
                "splice",
                715_000,
                "eee33566cfe8988ec26122460cc712d66c5c5b79b966b259408e803addaa584d",
                _plain("splice"),
            ),
            RawFile(
                "splice.t",
                1_555_125,
                "f40da7cfd17860f3f1a1bb7d118f8e86c306d232ca6ac6ddefbaaef266abaa03",
                _plain("splice.t"),
            ),
        ),
        parse=parse_splice,
    ),
}
