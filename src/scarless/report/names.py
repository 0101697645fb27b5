"""What methods, datasets, scores and settings are called in front of people, and what role a method plays."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What a method may see, or whom it copies."""

    TRUTH = "knows some of the truth"
    LABELS = "sees labels only"
    PUBLISHED = "as in the published code"


@dataclass(frozen=True)
class MethodName:
    """A method in front of people."""

    label: str
    role: Role
    explanation: str
    knows_truth: bool = False  # published rows can, too

    @property
    def in_contest(self) -> bool:
        """Whether the method could be used in earnest, and so be called best."""
        return not self.knows_truth


METHOD_NAMES = {
    "supervised": MethodName(
        "supervised", Role.TRUTH, "Logistic regression on the true classes: what could be reached.", True
    ),
    "known-e": MethodName(
        "known propensity", Role.TRUTH, "The propensity-weighted risk with the true propensity of every row.", True
    ),
    "known-c": MethodName(
        "known label frequency",
        Role.TRUTH,
        "One label frequency for all rows (SCAR), the true one: what SCAR can reach without a bad estimate.",
        True,
    ),
    "naive": MethodName("naive", Role.LABELS, "Unlabelled rows are taken as negative."),
    "scar-km2": MethodName("SCAR-KM2", Role.LABELS, "One label frequency for all rows, estimated by KM2."),
    "scar-tice": MethodName("SCAR-TIcE", Role.LABELS, "One label frequency for all rows, estimated by TIcE."),
    "sar-em": MethodName(
        "SAR-EM", Role.LABELS, "The paper's method: classifier and propensity model, learned together."
    ),
    "sar-em-refit": MethodName(
        "SAR-EM refitted",
        Role.LABELS,
        "SAR-EM, then the classifier once more, on the risk weighted by the propensities found.",
    ),
    "published-known-e": MethodName(
        "publ. known propensity",
        Role.PUBLISHED,
        "Known propensity as the published code computes it: rows of negative weight are dropped.",
        True,
    ),
    "published-scar-km2": MethodName(
        "publ. SCAR-KM2",
        Role.PUBLISHED,
        "As published: KM2's class prior in the place of the label frequency, rows of negative weight dropped.",
    ),
    "published-scar-tice": MethodName(
        "publ. SCAR-TIcE",
        Role.PUBLISHED,
        "As published: the share of labelled rows in the place of TIcE's estimate, rows of negative weight dropped.",
    ),
    "published-sar-em": MethodName(
        "publ. SAR-EM",
        Role.PUBLISHED,
        "As published: SAR-EM with a refit from which rows of negative weight are dropped.",
    ),
}

# Methods that are ranked against each other: the paper's four, as they should be and as they were published.
CONTESTS = {
    "corrected": ("naive", "scar-km2", "scar-tice", "sar-em"),
    "as published": ("naive", "published-scar-km2", "published-scar-tice", "published-sar-em"),
}
SCAR_METHODS = ("scar-km2", "scar-tice")
CORRECTIONS = (
    ("known-e", "published-known-e"),
    ("scar-tice", "published-scar-tice"),
    ("scar-km2", "published-scar-km2"),
    ("sar-em", "published-sar-em"),
    ("sar-em-refit", "published-sar-em"),
)

DATASET_NAMES = {
    "newsgroups": "20 Newsgroups",
    "adult": "Adult",
    "breastcancer": "Breast Cancer",
    "covtype": "Cover Type",
    "diabetes": "Diabetes",
    "imagesegmentation": "Image Segmentation",
    "mushroom": "Mushroom",
    "splice": "Splice",
    "bundled_breast_cancer": "Bundled Breast Cancer",
    "bundled_digits": "Bundled Digits",
    "simulated": "Simulated",
}

SETTING_NAMES = {
    "all": "the classifier sees all attributes",
    "original": "the classifier sees the original attributes only",
}


@dataclass(frozen=True)
class ScoreName:
    """A score in front of people."""

    label: str
    explanation: str
    lower_is_better: bool | None  # None: the nearer to zero the better
    decimals: int = 4


SCORES = {
    "mse_f": ScoreName("MSE of f", "mean squared error of the predicted probabilities against the true class", True),
    "auc_f": ScoreName("ROC-AUC of f", "area under the ROC curve of the predicted probabilities", False, 3),
    "mse_e": ScoreName(
        "MSE of e", "mean squared error of the predicted propensities against the true ones, on positive rows", True
    ),
    "mae_e": ScoreName("MAE of e", "mean absolute error of the predicted propensities, on positive rows", True),
    "log_loss": ScoreName("log loss of f", "log loss of the predicted probabilities", True, 3),
    "average_precision": ScoreName("av. precision", "average precision of the predicted probabilities", False, 3),
    "calibration_error": ScoreName(
        "calibration error", "mean distance of predicted and observed shares, over ten bins", True, 3
    ),
    "class_prior_error": ScoreName(
        "class prior error", "estimated minus true share of positives among the training rows", None, 3
    ),
    "label_frequency_error": ScoreName(
        "label freq. error", "estimated minus true label frequency of the training rows", None, 3
    ),
}
MAIN_SCORES = ("mse_f", "auc_f", "mse_e")


def method_name(method: str) -> MethodName:
    """Return how to call a method; one that is not in the list is called by its own name."""
    return METHOD_NAMES.get(method, MethodName(method, Role.LABELS, ""))


def method_label(method: str) -> str:
    """Return the short name of a method.

    Examples
    --------
    >>> method_label("scar-tice")
    'SCAR-TIcE'
    """
    return method_name(method).label


def dataset_label(dataset: str) -> str:
    """Return the short name of a dataset."""
    return DATASET_NAMES.get(dataset, dataset)


def in_order(methods: Sequence[str]) -> list[str]:
    """Return methods with those of one role together."""
    return [method for role in Role for method in methods if method_name(method).role is role]


def listed(words: Sequence[str]) -> str:
    """Return words as one enumerates them in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
