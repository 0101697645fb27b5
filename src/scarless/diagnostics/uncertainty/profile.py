"""How much worse the best fit becomes when the class prior is held elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np
from scipy.special import logit

from scarless.checks.estimators import opened
from scarless.checks.options import check_share, check_vector, shown
from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display
from scarless.diagnostics.uncertainty._class_prior_path import ProfilePath
from scarless.models.inspection import problem_again
from scarless.models.pair import known_inference
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.uncertainty import Interval, quantile
from scarless.outside.extras import need
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.inference import PairInference, pair_inference
from scarless.pair.problem import PairProblem

_BETTER = 0.1  # log-likelihood by which a point of the profile beats the fit before it is called better
_APART = 1e-3  # class priors that make two optima
_WIDE = 2.0  # half-width in logits from which an interval says next to nothing


@dataclass(frozen=True, eq=False, repr=False)
class ClassPriorProfile:
    """The penalised log-likelihood as a function of the class prior, all else at its best; prints as a sentence.

    Attributes
    ----------
    class_prior : array of shape (n_points,)
        Where the class prior was held, ascending; the fit's own is among them.
    difference : array of shape (n_points,)
        Penalised log-likelihood there minus that of the fit.
    log_likelihood : array of shape (n_points,)
        Observed log-likelihood there, without penalties.
    label_frequency : array of shape (n_points,)
        Label frequency of the best models there.
    fit_class_prior : float
        Class prior of the fit.
    level : float
        Nominal level of the interval.
    interval : Interval
        Class priors that the data do not rule out: where twice the drop is below the quantile of a chi-squared
        variable with one degree of freedom.
    closed : tuple of two bool
        Whether the profile came down to the cut on the left and on the right. Where it did not, the interval ends
        where the profile does.
    elsewhere : list of ClassPriorProfile
        Profiles around other optima that the data do not rule out either; their `difference` and `interval` are
        measured from the fit, too. Known are optima that the model's own starts found (``n_starts``), and the one with
        both models swapped where they see the same attributes.
    """

    class_prior: Vector
    difference: Vector
    log_likelihood: Vector
    label_frequency: Vector
    fit_class_prior: float
    level: float
    interval: Interval
    closed: tuple[bool, bool]
    elsewhere: list["ClassPriorProfile"] = field(default_factory=list)

    @property
    def cut(self) -> float:
        """The drop in log-likelihood that rules a class prior out."""
        return 0.5 * quantile(self.level) ** 2

    @property
    def flat(self) -> bool:
        """Whether the data say next to nothing of the class prior."""
        low, high = (float(logit(end)) for end in self.interval)
        return not all(self.closed) or high - low > 2.0 * _WIDE

    def range_words(self, decimals: int = 3) -> str:
        """Return the interval in words; an end that was not reached says so."""
        (low, high), (left, right) = self.interval, self.closed
        return (
            f"from {low:.{decimals}f}{'' if left else ' or less'} to {high:.{decimals}f}{'' if right else ' or more'}"
        )

    def sentences(self) -> list[str]:
        """Return what the profile shows, in words."""
        fit, ends = f"{self.fit_class_prior:.3f}", f"{self.range_words()} (level {self.level:g})"
        if self.flat:
            told = [f"The data allow any class prior {ends}; the fit is at {fit}."]
        else:
            told = [f"Class prior {fit}; the data allow {ends}."]
        for other in self.elsewhere:
            told.append(
                f"There is another optimum at {other.fit_class_prior:.3f}: around it they allow {other.range_words()}."
            )
        better = [*self.elsewhere, self]
        best = max(better, key=lambda profile: float(profile.difference.max()))
        at = int(np.argmax(best.difference))
        if best.difference[at] > _BETTER:
            why = (
                "the fit is in a local optimum. Fit again with more starts (n_starts)."
                if best is self
                else "selection_ says why the fit is another one."
            )
            told.append(
                f"At a class prior of {best.class_prior[at]:.3f} there are better models, by "
                f"{best.difference[at]:.3g} in penalised log-likelihood: {why}"
            )
        return told

    def to_frame(self) -> Any:
        """Return the profile as a pandas DataFrame, one row per class prior."""
        pandas = need("pandas", "ClassPriorProfile.to_frame", extra="frames")
        names = ("class_prior", "difference", "log_likelihood", "label_frequency")
        return pandas.DataFrame({name: getattr(self, name) for name in names})

    def plot(self, ax: Any = None) -> "ProfileDisplay":
        """Draw the profile as a `ProfileDisplay` and return that; its ``ax_`` has the Axes."""
        return ProfileDisplay(self).plot(ax)

    def __str__(self) -> str:
        return " ".join(self.sentences())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


def profile_class_prior(
    estimator: Any,
    X: Any,
    s: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    audit: ArrayLike | None = None,
    grid: Iterable[float] | None = None,
    level: float = 0.95,
) -> ClassPriorProfile:
    r"""Profile the likelihood of the class prior: hold it at a value, let all else be at its best.

    .. math:: p(\alpha) = \max_{\theta:\ \mathrm{mean}\,f_\theta = \alpha} \ell(\theta) - \mathrm{penalty}(\theta)

    followed outwards from the fit: `theta` changes smoothly, so the maximum is that of the fit's own optimum. Other
    optima that are known get profiles of their own (``elsewhere``). Class priors with
    :math:`2(p(\hat\alpha) - p(\alpha)) \le \chi^2_{1,\mathrm{level}}` are not ruled out by the data (Wilks). Unlike a
    standard error this needs no parabola: it shows how flat the likelihood is. Right when both models are of the right
    form. The class prior is that of these rows, the mean of their `f`; `class_prior_interval` is about the population
    that they come from, and adds the variance of drawing them.

    Parameters
    ----------
    estimator : fitted SAREMClassifier, SAREMClassifierCV or SCARClassifier
        With two logistic models, not recalibrated: a recalibrated fit has ``recalibration_.grid`` in place of a profile.
    X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        The rows that it was fitted on.
    s : array of shape (n_rows,) or (n_rows, n_looks)
        Their labels, coded as in `fit`.
    sample_weight : array of shape (n_rows,), optional
        Their weights, if `fit` had any.
    audit : array of shape (n_rows,), optional
        Their audits, if `fit` had any.
    grid : sequence of float, optional
        Class priors between 0 and 1 to look at. None: steps outwards until the data rule the next one out.
    level : float, default=0.95
        Nominal probability that the interval covers.

    Returns
    -------
    ClassPriorProfile

    References
    ----------
    Murphy and van der Vaart (2000), "On profile likelihood", JASA 95.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier
    >>> from scarless.diagnostics.uncertainty.profile import profile_class_prior
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> f, e = 1 / (1 + np.exp(-2 * X[:, 0])), 1 / (1 + np.exp(-X[:, 1]))
    >>> s = rng.random(2000) < f * e
    >>> model = SAREMClassifier(propensity_attributes=[1]).fit(X, s)
    >>> profile = profile_class_prior(model, X, s)
    >>> print(profile)
    Class prior 0.51...; the data allow from 0.44... to 0.57... (level 0.95).
    """
    level = check_share(level, "level")
    estimator, prepare = opened(estimator)
    inference, X = known_inference(estimator), prepare(X)
    _refuse_recalibrated(estimator)
    wanted = None if grid is None else _check_grid(grid)
    problem = problem_again(estimator, X, s, sample_weight=sample_weight, audit=audit)
    path = ProfilePath(inference, problem)
    _check_same_fit(inference, path)
    profile = _along(path, wanted, level, path.fit.value)
    others = [ProfilePath(other, problem) for other in _other_optima(estimator, problem)]
    likely = [other for other in others if other.fit.value - path.fit.value < profile.cut]
    return replace(profile, elsewhere=[_along(other, wanted, level, path.fit.value) for other in likely])


def _along(path: ProfilePath, wanted: Vector | None, level: float, value: float) -> ClassPriorProfile:
    """Return the profile on one path, differences measured from the fit's objective `value`."""
    cut = 0.5 * quantile(level) ** 2 + value - path.fit.value
    ends = [path.walk(side, cut) if wanted is None else path.visit(wanted, side, cut) for side in (-1, 1)]
    alpha = np.array(sorted(path.points))
    points = [path.points[at] for at in alpha]
    sums = [path.summary(point) for point in points]
    return ClassPriorProfile(
        class_prior=alpha,
        difference=np.array([value - point.value for point in points]),
        log_likelihood=np.array([float(each.log_likelihood) for each in sums]),
        label_frequency=np.array([float(each.labelled_positives / each.positives) for each in sums]),
        fit_class_prior=path.fit_alpha,
        level=level,
        interval=Interval(ends[0][0], ends[1][0]),
        closed=(ends[0][1], ends[1][1]),
    )


def _other_optima(model: Any, problem: PairProblem) -> list[PairInference]:
    """Return the fits to the same rows, other than the model's own, that are known to be optima."""
    own = known_inference(model)
    higher = getattr(model, "higher_optimum_", None)
    optima = [*getattr(model, "optima_", []), *([] if higher is None else [higher])]
    starts = [optimum.parameters for optimum in optima]
    if own.swappable:
        starts.append(own.swapped)
    found = [own]
    for start in starts:
        fit = fit_pair(problem, start, FitOptions(1e-10))
        other = pair_inference(problem, fit)
        if all(abs(other.positives - known.positives) > _APART * float(own.sums.weight) for known in found):
            found.append(other)
    return found[1:]


def _check_grid(grid: Iterable[float]) -> Vector:
    if isinstance(grid, str) or not np.iterable(grid):
        raise ValueError(f"grid must be a list of class priors, for example [0.2, 0.3, 0.4]; got {shown(grid)}.")
    values = check_vector(list(grid), "grid")
    bad = values[~((values > 0) & (values < 1))]
    if bad.size or not values.size:
        came = f"got {bad[0]:g}" if bad.size else "it is empty"
        raise ValueError(f"grid must hold class priors strictly between 0 and 1; {came}.")
    return values


def _refuse_recalibrated(model: Any) -> None:
    """Refuse a recalibrated fit, which is not the top of the likelihood that would be followed."""
    if hasattr(model, "recalibration_"):
        raise ValueError(
            f"This {type(model).__name__} is recalibrated: its fit is not the optimum of a penalised likelihood, which a "
            "profile would follow. The likelihood of every class prior was walked through in fit already: see "
            "recalibration_.grid, and class_prior_interval(). Or fit SAREMClassifierCV(recalibrate=False), or SAREMClassifier "
            "without an estimator."
        )


def _check_same_fit(inference: PairInference, path: ProfilePath) -> None:
    """Refuse rows that the model was not fitted on: their profile has its top elsewhere."""
    there = path.summary(path.fit)
    fitted = inference.sums
    for name in ("weight", "labelled", "log_likelihood"):
        now, then = float(getattr(there, name)), float(getattr(fitted, name))
        if abs(now - then) > 1e-5 * abs(then):
            raise ValueError(
                f"X, s and sample_weight must be those that the model was fitted on; their {name.replace('_', '-')} is "
                f"{now:.8g}, in fit it was {then:.8g}."
            )


class ProfileDisplay(Display):
    """A picture of a profile: the drop in log-likelihood, the cut, the interval, and the label frequency.

    Parameters
    ----------
    profile : ClassPriorProfile

    See Also
    --------
    profile_class_prior : Computes the profile.

    Examples
    --------
    >>> from scarless.diagnostics.uncertainty.profile import ProfileDisplay
    >>> ProfileDisplay.from_estimator(model, X, s)  # doctest: +SKIP
    """

    def __init__(self, profile: ClassPriorProfile) -> None:
        if not isinstance(profile, ClassPriorProfile):
            raise TypeError(
                "profile must be what profile_class_prior returns, a ClassPriorProfile; got "
                f"{type(profile).__name__}. Of a model, draw ProfileDisplay.from_estimator(estimator, X, s)."
            )
        self.profile = profile

    @classmethod
    def from_profile(cls, profile: ClassPriorProfile, *, ax: Any = None) -> "ProfileDisplay":
        """Draw a profile that is there already.

        Parameters
        ----------
        profile : ClassPriorProfile
        ax : matplotlib Axes, optional
            Where to draw. None: a new figure.

        Returns
        -------
        ProfileDisplay
        """
        return cls(profile).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        s: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        grid: Iterable[float] | None = None,
        level: float = 0.95,
        ax: Any = None,
    ) -> "ProfileDisplay":
        """Compute a profile and draw it; parameters as in `profile_class_prior`.

        Parameters
        ----------
        estimator, X, s, sample_weight, grid, level
            As in `profile_class_prior`.
        ax : matplotlib Axes, optional
            Where to draw. None: a new figure.

        Returns
        -------
        ProfileDisplay
        """
        profile = profile_class_prior(estimator, X, s, sample_weight=sample_weight, grid=grid, level=level)
        return cls.from_profile(profile, ax=ax)

    def draw(self, ax: Any) -> None:
        """Draw into the Axes."""
        profile = self.profile
        low, high = profile.interval
        ax.axvspan(
            low, high, color=BLUE, alpha=0.1, lw=0, label=f"{profile.level:.0%} interval: {low:.2f} to {high:.2f}"
        )
        ax.axhline(-profile.cut, color=GREY, lw=1, ls="--", label="below this the data rule it out")
        ax.plot(profile.class_prior, profile.difference, color=BLUE, marker=".", label="log-likelihood (left)")
        ax.plot(
            [profile.fit_class_prior], [0.0], "o", color=BLUE, ms=8, label=f"the fit: {profile.fit_class_prior:.2f}"
        )
        for other in profile.elsewhere:
            ax.axvspan(*other.interval, color=GREY, alpha=0.15, lw=0)
            ax.plot(other.class_prior, other.difference, color=GREY, marker=".", label="around another optimum")
        everything = np.concatenate([each.difference for each in (profile, *profile.elsewhere)])
        bottom, top = max(float(everything.min()), -4.0 * profile.cut), max(float(everything.max()), 0.0)
        ax.set_ylim(bottom - 0.08 * (top - bottom), top + 0.12 * (top - bottom))
        ax.set_xlabel("Class prior, Pr(y=1)")
        ax.set_ylabel("Penalised log-likelihood, minus that of the fit")
        other = ax.twinx()
        other.plot(profile.class_prior, profile.label_frequency, color=ORANGE, lw=1.5, label="label frequency (right)")
        other.set_ylabel("Label frequency, Pr(s=1|y=1)", color=ORANGE)
        other.tick_params(axis="y", colors=ORANGE)
        other.set_ylim(0.0, 1.0)
        handles, labels = (
            left + right for left, right in zip(*(a.get_legend_handles_labels() for a in (ax, other)), strict=True)
        )
        ax.legend(handles, labels, loc="best" if profile.elsewhere else "lower center", fontsize="small")
        also = "".join(f",\nor {other.range_words(2)}" for other in profile.elsewhere)
        kind = "any class prior" if profile.flat else "class priors"
        ax.set_title(f"The data allow {kind} {profile.range_words(2)}{also}")
