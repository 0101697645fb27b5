"""Anything that can say a propensity, as a labelling mechanism: a number, a function, a mechanism."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

from numpy.typing import ArrayLike

from scarless.checks.options import check_flag
from scarless.checks.vectors import FloatVector, check_propensity
from scarless.labelling.attributes import Attribute, attribute_matrix, check_attributes, count_rows
from scarless.labelling.base import Assumption, LabellingMechanism, check_number, require_class_probability
from scarless.labelling.mechanisms import SCAR


@dataclass(frozen=True)
class CallableMechanism(LabellingMechanism):
    r"""Any function as a mechanism, its values checked.

    .. math:: e(x_e) = g(x_e) \quad\text{(SAR)} \qquad\text{or}\qquad e(x) = g(x_e, p(x)) \quad\text{(SNAR)}

    Right when the function works row by row and draws no random numbers.

    Parameters
    ----------
    function : callable
        ``function(X)``, or ``function(X, p)`` where `uses_class_probability`; returns one value in (0, 1] per
        row. To be pickled it must be a function of a module, not a lambda.
    attributes : names or positions, optional
        The propensity attributes; the function then gets a float array with these columns, in this order. By
        default it gets X as it is.
    uses_class_probability : bool, default=False
        Whether the function takes the true class probability of each row; this makes the mechanism SNAR.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD 2019.

    Examples
    --------
    >>> import numpy as np
    >>> CallableMechanism(lambda x: 0.1 + 0.8 * x[:, 0], attributes=[1]).propensity([[7.0, 0.0], [7.0, 0.5]])
    array([0.1, 0.5])
    >>> CallableMechanism(lambda X, p: 1 - p / 2, uses_class_probability=True).assumption
    'SNAR'
    """

    function: Callable[..., ArrayLike]
    _: KW_ONLY
    attributes: Sequence[Attribute] | None = None
    uses_class_probability: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"function must be callable, as function(X); it is {self.function!r}.")
        object.__setattr__(
            self, "uses_class_probability", check_flag(self.uses_class_probability, "uses_class_probability")
        )
        if self.attributes is not None:
            object.__setattr__(self, "attributes", check_attributes(self.attributes))

    @property
    def assumption(self) -> Assumption:
        """``"SNAR"`` where the function takes the class probability, else ``"SAR"``."""
        return "SNAR" if self.uses_class_probability else "SAR"

    def _propensity(self, X: Any, p: FloatVector | None) -> FloatVector:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        x = X if self.attributes is None else attribute_matrix(X, self.attributes)
        e = self.function(x, require_class_probability(p, name)) if self.uses_class_probability else self.function(x)
        return check_propensity(e, n_rows=count_rows(X), name=f"{name}(X)")


def as_mechanism(obj: Any) -> LabellingMechanism:
    r"""Return `obj` as a labelling mechanism.

    A number `c` becomes ``SCAR(c)``, :math:`e(x) = c`; a callable `g` becomes ``CallableMechanism(g)``,
    :math:`e(x) = g(x)`, which is SAR; a mechanism is returned as it is.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD 2019.

    Examples
    --------
    >>> as_mechanism(0.3)
    SCAR(label_frequency=0.3)
    >>> as_mechanism(lambda X: 0.5).assumption
    'SAR'
    """
    if isinstance(obj, LabellingMechanism):
        return obj
    if isinstance(obj, Real) and not isinstance(obj, bool):
        return SCAR(check_number(obj, "label_frequency"))
    if isinstance(obj, type):
        raise TypeError(f"{obj.__name__} is a class; give an instance of it, e.g. SCAR(0.3).")
    if callable(obj):
        return CallableMechanism(obj)
    raise TypeError(
        "a labelling mechanism is a number (SCAR), a function of X, or a mechanism such as GeometricMeanSAR; "
        f"this is {obj!r}."
    )
