"""Datasets of publications: addresses, sizes, hashes and parsers of their raw files.

`DATASETS` are the eight of Bekker, Robberechts and Davis (2019), and `TEISSEYRE_TABLES` fifteen of Teisseyre et al.
(2025).

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
    parse_teisseyre,
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

# The tables of Teisseyre, Martens, Bekker and Davis (2025): bytes and SHA-256 of each file. The authors publish twenty;
# these are the fifteen with up to 5,000 rows and 300 columns.
_TEISSEYRE = (
    "https://raw.githubusercontent.com/TimoM99/PUBiasCalibration/ae378c1f764995aa1efb1c377cbabdcca76c37ff/data/datasets"
)
_TEISSEYRE_FILES = {
    "Abalone": (208_051, "c9382bd055cd1f0a6744889b16c6d75d90cae914f6e86e2abc82f80087ffd626"),
    "Banknote-authentication": (47_781, "a44092ce44d8d6d6f746fbccd5c077e3f9918a4a923998b0c0729e5b76a49023"),
    "Breast-w": (70_965, "d6aebcfff6d6ca6b8da2480f9ff5885ee3c7d4b07fb5669afa672372608563e2"),
    "Diabetes": (108_847, "b82903410f5e8a6ff8f2e83636aa26ab23100fb2d7d4655ec724528da3a9a039"),
    "Haberman": (16_300, "ceb1048eee84daaa7808a57421fab6caa57129f2ba8b0c642dbc2bc9ac2b24de"),
    "Heart-statlog": (37_420, "c4084d37e9d85aa197ff8a1db4df33648d2cc9454444517b879b5c79c891bf5b"),
    "Ionosphere": (101_420, "a4cf923357127fd8bdd88c9d06ff79b9283817d653ce44fa706c68c44ad5b355"),
    "Kc1": (901_382, "9ff86541de623231a92b82f6399c16a05bef96881ed738decd0107949f792396"),
    "Segment": (847_219, "0a13d8be22263b7a13751dbbcd34f9e43e3b3d7df5369889a929c6fa6a9c25f7"),
    "Semeion": (823_175, "c5bc48e45c5ff687577ab46d0f76604930ecedb540df8c5e73c36cabc7b2a514"),
    "Sonar": (87_312, "0c348b10db20d799b0f9c17c7c351acc3e585f995a8aa4f3784a17eea380b39e"),
    "Vehicle": (303_231, "c7b18ae36ce034e726835245199710c80e37b15b4a9f9a61e4d1c1ce4212f42e"),
    "Waveform-5000": (1_068_236, "6b2855002857f17236c7f99e36083d2d95330ccc4d1947d776cfe80cac90de0a"),
    "Wdbc": (339_543, "ab366b225ca42eafa08947d266063e5b08548f83c41d673a9d9af6f23308cb0b"),
    "Yeast": (61_579, "dc5c1bf9e27fabf04cbfe8e30088e5a572b71e9b49e9bd9354be9447cc4dcec7"),
}
TEISSEYRE_TABLES = {
    f"teisseyre_{name.lower()}": Dataset(
        folder="teisseyre2025",
        title=f"{name}, as in Teisseyre et al. (2025)",
        page="https://github.com/TimoM99/PUBiasCalibration",
        licence="Apache 2.0",
        citation="Teisseyre, P., Martens, T., Bekker, J. and Davis, J. (2025). Learning from biased "
        "positive-unlabeled data via threshold calibration. AISTATS.",
        files=(RawFile(f"{name}.csv", n_bytes, sha256, Archive(f"{name}.csv", (f"{_TEISSEYRE}/{name}.csv",))),),
        parse=parse_teisseyre,
    )
    for name, (n_bytes, sha256) in _TEISSEYRE_FILES.items()
}
