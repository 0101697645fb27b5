"""Texts of the page of the comparison: who wins when what is known, and where ours loses."""

from scarless.papers.field.methods import METHOD_NAMES
from scarless.report import Story, names

STORY = Story(
    whose="A comparison of the methods of the field",
    method_names={**names.METHOD_NAMES, **METHOD_NAMES},
    figures=("balanced_accuracy_at_prior", "balanced_accuracy", "mse_f"),
)
