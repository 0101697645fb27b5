"""What a user says of the labelling beyond the attributes that it depends on."""

from typing import Any

from sklearn.base import BaseEstimator

from scarless.checks.options import shown


class Labelling(BaseEstimator):
    r"""What is said of the labelling beyond the attributes that it depends on.

    A row may be looked at several times, and each look may label it. Give an object of this class as the `labelling` of
    an estimator. A grid search reaches inside: ``labelling__bounds``.

    Parameters
    ----------
    visit_attributes : dict, optional
        Attributes that differ between the looks of a row: a name, and one column of `X` for each look, as
        ``{"effort": ["effort_1", "effort_2"]}``. The propensity of a look sees its own column, with one coefficient for
        all of them; the classifier sees none of them.
    offset : column, or list of columns, optional
        What is known of the logit of the propensity and added to it as it is, with a coefficient of 1, such as the
        logarithm of an effort: one column of `X`, or one for each look. The classifier does not see it.
    bounds : (float, float), optional
        The least and the largest propensity there may be, where that is known: (0.2, 1) if every positive is found at
        least one time in five.
    shared : bool, default=True
        With several looks: whether one propensity model holds for all of them. False: each look, an annotator say, has
        coefficients of its own.
    false_positive_rate : float, sequence or "estimate", default=0.0
        How often a look labels a negative row. A number, or one for each look, is taken for granted. "estimate" needs
        several looks, or audits of labelled rows.
    audit_labels : {"keep", "drop", "undo"}, default="keep"
        What labels of audited rows mean. "keep": they were given by the labelling, whatever the audit found. If
        findings of the audit were entered as labels, these say nothing of the labelling, and the class prior comes out
        too low.
        "drop" is then right where rows were audited whether or not they had a label: of an audited row only the class
        counts. "undo" is right where only rows without a label were audited: they count as rows without a label. Either
        is wrong where the other is right, "undo" too high and "drop" too low. There is a warning where the rows
        contradict the one that is given; where they cannot, `summary` gives the class prior of the other.

    Examples
    --------
    >>> from scarless import Labelling, SAREMClassifier
    >>> SAREMClassifier(propensity_attributes=["age"], labelling=Labelling(bounds=(0.2, 1)))
    SAREMClassifier(labelling=Labelling(bounds=(0.2, 1)),
                    propensity_attributes=['age'])
    """

    def __init__(
        self,
        *,
        visit_attributes: Any = None,
        offset: Any = None,
        bounds: Any = None,
        shared: bool = True,
        false_positive_rate: Any = 0.0,
        audit_labels: str = "keep",
    ) -> None:
        self.visit_attributes = visit_attributes
        self.offset = offset
        self.bounds = bounds
        self.shared = shared
        self.false_positive_rate = false_positive_rate
        self.audit_labels = audit_labels


def labelling_of(model: Any) -> Labelling:
    """Return what a model of any kind is told of the labelling."""
    return check_labelling(getattr(model, "labelling", None))


def check_labelling(labelling: Any) -> Labelling:
    """Return what is said of the labelling; None says nothing beyond its attributes."""
    if labelling is None:
        return Labelling()
    if not isinstance(labelling, Labelling):
        raise ValueError(f"labelling must be a Labelling(...), or None; got {shown(labelling)}.")
    return labelling
