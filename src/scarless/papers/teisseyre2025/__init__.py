"""Tables, splits, labels and published numbers of Teisseyre, Martens, Bekker and Davis (2025), with more methods.

Learning from biased positive-unlabeled data via threshold calibration. AISTATS 2025.
"""

from functools import cache
from pathlib import Path

from scarless.experiments import Spec, read_spec
from scarless.experiments.methods import Method
from scarless.papers.field.methods import METHOD_NAMES as FIELD_NAMES
from scarless.report import Story, names
from scarless.report.names import LABELS, MethodName

__all__ = ["METHODS", "METHOD_NAMES", "PATH", "STORY", "specification"]

PATH = Path(__file__).with_name("spec.toml")
METHODS: dict[str, Method] = {}
METHOD_NAMES = {
    **FIELD_NAMES,
    "sarem-nameless-balanced": MethodName(
        "SAREM, no names, balanced",
        LABELS,
        'The same fit; predict(X, decision="balanced") cuts at the estimated class prior.',
    ),
}
STORY = Story(
    whose="The tables, splits and labels of a publication",
    citation="Pawel Teisseyre, Timo Martens, Jessa Bekker and Jesse Davis; AISTATS 2025. These are our results; "
    "theirs are beside them.",
    method_names={**names.METHOD_NAMES, **METHOD_NAMES},
    figures=("balanced_accuracy", "balanced_accuracy_at_prior", "auc_f"),
)


@cache
def specification(*, quick: bool = False) -> Spec:
    """Return the specification of the comparison, or of a quick version on one table."""
    return read_spec(PATH, quick=quick)
