"""Display names of methods, datasets, scores and settings, and the roles of methods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TRUTH, LABELS = "uses true classes or propensities", "uses labels only"  # the usual roles, in the order of tables


@dataclass(frozen=True)
class MethodName:
    """The display name of a method, with its role and a description.

    The role is the information that the method uses, or the implementation that it reproduces.
    """

    label: str
    role: str
    explanation: str
    knows_truth: bool = False  # whether it uses true classes, propensities or label frequencies
    short: str = ""  # name for rank diagrams; empty: the label

    @property
    def in_contest(self) -> bool:
        """Whether the method uses labels only, so that it can be marked as the best."""
        return not self.knows_truth


METHOD_NAMES: Mapping[str, MethodName] = {
    "supervised": MethodName("supervised", TRUTH, "Logistic regression on the true classes: an upper limit.", True),
    "known-e": MethodName(
        "known propensity", TRUTH, "Propensity-weighted risk with the true propensity of each row.", True
    ),
    "known-c": MethodName(
        "known label frequency",
        TRUTH,
        "The true label frequency for all rows (SCAR): what SCAR reaches without estimation error.",
        True,
    ),
    "naive": MethodName("naive", LABELS, "Treats unlabelled rows as negative."),
    "scar-km2": MethodName("SCAR-KM2", LABELS, "One label frequency for all rows, estimated by KM2."),
    "scar-tice": MethodName("SCAR-TIcE", LABELS, "One label frequency for all rows, estimated by TIcE."),
    "sar-em": MethodName("SAR-EM", LABELS, "Classifier and propensity model, fitted together."),
    "sar-em-refit": MethodName(
        "SAR-EM refitted",
        LABELS,
        "SAR-EM, then the classifier refitted to the risk weighted by the estimated propensities.",
    ),
    "SAREMClassifier": MethodName(
        "SAREMClassifier", LABELS, "Classifier and propensity model, fitted together.", short="SAREM"
    ),
    "SAREMClassifierCV": MethodName(
        "SAREMClassifierCV",
        LABELS,
        "Classifier and propensity model; cross-validation chooses penalties and attributes.",
    ),
    "SARStackingClassifier": MethodName(
        "SARStackingClassifier",
        LABELS,
        "Stack of the logistic model, gradient boosting and a forest, with a propensity model.",
        short="SARStacking",
    ),
    "boosted": MethodName("boosted", LABELS, "Gradient boosting for the class, with a propensity model."),
    "SCARClassifier": MethodName(
        "SCARClassifier",
        LABELS,
        "One label frequency for all rows, fitted together with the classifier.",
        short="SCAR",
    ),
    "StratifiedSCARClassifier": MethodName(
        "StratifiedSCARClassifier",
        LABELS,
        "A label frequency for each value of the attributes that drive the labelling.",
    ),
    "NaiveClassifier": MethodName("NaiveClassifier", LABELS, "Treats unlabelled rows as negative.", short="Naive"),
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
    **{
        f"teisseyre_{name.lower()}": name
        for name in (
            "Abalone", "Banknote-authentication", "Breast-w", "Diabetes", "Haberman", "Heart-statlog", "Ionosphere",
            "Kc1", "Segment", "Semeion", "Sonar", "Vehicle", "Waveform-5000", "Wdbc", "Yeast",
        )
    },
}  # fmt: skip

SETTING_NAMES = {
    "all": "the classifier sees all attributes",
    "original": "the classifier sees the original attributes only",
}


def setting_title(setting: str) -> str:
    """Return the title of a setting: the attributes of the classifier, or the labelling mechanism.

    Examples
    --------
    >>> setting_title("all"), setting_title("visits")
    ('all attributes', 'labelled by visits')
    """
    return f"{setting} attributes" if setting in SETTING_NAMES else f"labelled by {setting}"


def setting_name(setting: str) -> str:
    """Return the description of a setting."""
    return SETTING_NAMES.get(setting, f"labels come from the mechanism {setting}")


@dataclass(frozen=True)
class ScoreName:
    """The display name and description of a score."""

    label: str
    explanation: str
    lower_is_better: bool | None  # None: the score has no direction
    decimals: int = 4
    signed: bool = False  # whether it is a signed error, best at zero


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
        "calibration error", "mean distance between predicted and observed shares, over ten bins", True, 3
    ),
    "class_prior_error": ScoreName(
        "class prior error", "estimated minus true share of positives among the training rows", None, 3, signed=True
    ),
    "label_frequency_error": ScoreName(
        "label freq. error", "estimated minus true label frequency of the training rows", None, 3, signed=True
    ),
    "accuracy": ScoreName("accuracy", "share of test rows that the method's own decision classifies rightly", False, 3),
    "balanced_accuracy": ScoreName(
        "balanced accuracy", "mean of sensitivity and specificity of the method's own decision", False, 3
    ),
    "f1": ScoreName("F1", "F1 score of the method's own decision", False, 3),
    "share_positive": ScoreName(
        "share positive",
        "share of test rows that the method's own decision calls positive; it has no direction",
        None,
        3,
    ),
    "accuracy_at_prior": ScoreName(
        "accuracy at prior", "accuracy if the share of rows called positive is the true class prior", False, 3
    ),
    "balanced_accuracy_at_prior": ScoreName(
        "bal. acc. at prior", "balanced accuracy if the share of rows called positive is the true class prior", False, 3
    ),
    "f1_at_prior": ScoreName(
        "F1 at prior", "F1 if the share of rows called positive is the true class prior", False, 3
    ),
    "class_prior_covered": ScoreName(
        "class prior covered", "share of runs whose 95% interval of the class prior covers the true one", None, 2
    ),
    "class_prior_width": ScoreName(
        "width of interval", "width of the 95% interval of the class prior; narrow is good only if it covers", None, 3
    ),
}
SCORE_GROUPS = {  # The score tables are split into these groups if there are many scores.
    "by the method's own decision": ("accuracy", "balanced_accuracy", "f1", "share_positive"),
    "ranking": ("auc_f", "average_precision"),
    "with the cut-off at the true prior": ("accuracy_at_prior", "balanced_accuracy_at_prior", "f1_at_prior"),
    "probabilities": ("mse_f", "log_loss", "calibration_error"),
    "propensity and prior": (
        "mse_e", "mae_e", "class_prior_error", "class_prior_covered", "class_prior_width", "label_frequency_error",
    ),
}  # fmt: skip
MAX_LABEL_LENGTH = 22  # characters of a method's label in a figure
MAIN_SCORES = ("balanced_accuracy", "mse_f", "auc_f", "mse_e")
SUMMARY_LABELS = {  # scores of the summary, with labels that fit into narrow columns
    "balanced_accuracy": "bal. acc.",
    "balanced_accuracy_at_prior": "at prior",
    "auc_f": "AUC",
    "mse_f": "MSE f",
    "mse_e": "MSE e",
    "class_prior_error": "prior error",
}

# What a method knows besides the labels, from least to most. A method that knows an entry counts as one that may know
# all entries before it.
KNOWS = ("nothing", "names", "prior", "propensity", "classes")
KNOWS_EXPLAINED = {
    "nothing": "labels and attributes only",
    "names": "also which attributes drive the labelling",
    "prior": "also the true class prior or label frequency",
    "propensity": "also the true propensities",
    "classes": "the true classes of the training rows",
}
BOLD_RULE = (
    "Bold: no method that knows the same or less has a better mean. The order is nothing, names, prior, propensity; "
    "methods that know the classes are not marked."
)


def dataset_label(dataset: str) -> str:
    """Return the short name of a dataset."""
    return DATASET_NAMES.get(dataset, dataset)


def cut(label: str) -> str:
    """Return a label, shortened to the width of a figure.

    Examples
    --------
    >>> cut("known label frequency"), cut("a name that somebody gave")
    ('known label frequency', 'a name that somebody …')
    """
    return label if len(label) <= MAX_LABEL_LENGTH else f"{label[: MAX_LABEL_LENGTH - 1]}…"


def in_order(methods: Sequence[str], names: Mapping[str, MethodName]) -> list[str]:
    """Return methods sorted by role.

    Examples
    --------
    >>> in_order(["naive", "supervised", "sar-em"], METHOD_NAMES)
    ['supervised', 'naive', 'sar-em']
    """
    roles = dict.fromkeys((TRUTH, LABELS, *(names[method].role for method in methods)))
    return [method for role in roles for method in methods if names[method].role == role]
