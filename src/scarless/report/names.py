"""What methods, datasets, scores and settings are called in front of people, and what role a method plays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TRUTH, LABELS = "knows some of the truth", "sees labels only"  # the usual roles, in the order of tables


@dataclass(frozen=True)
class MethodName:
    """A method in front of people. Its role is what it may see, or whom it copies."""

    label: str
    role: str
    explanation: str
    knows_truth: bool = False  # those of any role can
    short: str = ""  # where the place says the rest

    @property
    def in_contest(self) -> bool:
        """Whether the method could be used in earnest, and so be called best."""
        return not self.knows_truth


METHOD_NAMES: Mapping[str, MethodName] = {
    "supervised": MethodName(
        "supervised", TRUTH, "Logistic regression on the true classes: what could be reached.", True
    ),
    "known-e": MethodName(
        "known propensity", TRUTH, "The propensity-weighted risk with the true propensity of every row.", True
    ),
    "known-c": MethodName(
        "known label frequency",
        TRUTH,
        "One label frequency for all rows (SCAR), the true one: what SCAR can reach without a bad estimate.",
        True,
    ),
    "naive": MethodName("naive", LABELS, "Unlabelled rows are taken as negative."),
    "scar-km2": MethodName("SCAR-KM2", LABELS, "One label frequency for all rows, estimated by KM2."),
    "scar-tice": MethodName("SCAR-TIcE", LABELS, "One label frequency for all rows, estimated by TIcE."),
    "sar-em": MethodName("SAR-EM", LABELS, "Classifier and propensity model, learned together."),
    "sar-em-refit": MethodName(
        "SAR-EM refitted",
        LABELS,
        "SAR-EM, then the classifier once more, on the risk weighted by the propensities found.",
    ),
    "SAREMClassifier": MethodName(
        "SAREMClassifier", LABELS, "Classifier and propensity model, learned together.", short="SAREM"
    ),
    "SAREMClassifierCV": MethodName(
        "SAREMClassifierCV",
        LABELS,
        "Classifier and propensity model, with penalties and attributes by cross-validation.",
    ),
    "SARStackingClassifier": MethodName(
        "SARStackingClassifier",
        LABELS,
        "The logistic model and boosting together, with a propensity beside them.",
        short="SARStacking",
    ),
    "boosted": MethodName("boosted", LABELS, "Gradient boosting of the class, with a propensity beside it."),
    "SCARClassifier": MethodName(
        "SCARClassifier",
        LABELS,
        "One label frequency for all rows, learned together with the classifier.",
        short="SCAR",
    ),
    "StratifiedSCARClassifier": MethodName(
        "StratifiedSCARClassifier",
        LABELS,
        "A label frequency for each value of the attributes that drive the labelling.",
    ),
    "NaiveClassifier": MethodName("NaiveClassifier", LABELS, "Unlabelled rows are taken as negative.", short="Naive"),
    **{
        name: MethodName(name, LABELS, f"One label frequency for all rows, estimated by {name}.")
        for name in ("DEDPUL", "TIcE", "KernelMean", "BestBinEstimator", "ElkanNoto")
    },
}

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


def setting_title(setting: str) -> str:
    """Return a setting for a title: what the classifier sees, or the mechanism that labels.

    Examples
    --------
    >>> setting_title("all"), setting_title("visits")
    ('all attributes', 'labelled by visits')
    """
    return f"{setting} attributes" if setting in SETTING_NAMES else f"labelled by {setting}"


def setting_name(setting: str) -> str:
    """Return a setting in words."""
    return SETTING_NAMES.get(setting, f"labels come from the mechanism {setting}")


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
LONGEST = 22  # label of a method in a figure
MAIN_SCORES = ("mse_f", "auc_f", "mse_e")


def dataset_label(dataset: str) -> str:
    """Return the short name of a dataset."""
    return DATASET_NAMES.get(dataset, dataset)


def cut(label: str) -> str:
    """Return a label as long as a figure has room for.

    Examples
    --------
    >>> cut("known label frequency"), cut("a name that somebody gave")
    ('known label frequency', 'a name that somebody …')
    """
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"


def in_order(methods: Sequence[str], names: Mapping[str, MethodName]) -> list[str]:
    """Return methods with those of one role together.

    Examples
    --------
    >>> in_order(["naive", "supervised", "sar-em"], METHOD_NAMES)
    ['supervised', 'naive', 'sar-em']
    """
    roles = dict.fromkeys((TRUTH, LABELS, *(names[method].role for method in methods)))
    return [method for role in roles for method in methods if names[method].role == role]
