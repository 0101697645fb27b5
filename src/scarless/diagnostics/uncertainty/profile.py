"""Profile likelihood of the class prior."""

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

_MIN_GAIN_REPORTED = 0.1  # log-likelihood by which a point of the profile must exceed the fit to be reported
_MIN_DISTANCE_OF_OPTIMA = 1e-3  # difference of the class priors of two distinct optima
_MAX_HALF_WIDTH = 2.0  # of an informative interval, in logits; by judgement


@dataclass(frozen=True, eq=False, repr=False)
class ClassPriorProfile:
    """Penalised log-likelihood as a function of the class prior, maximised over all other parameters; prints as text.

    Attributes
    ----------
    class_prior : array of shape (n_points,)
        Class priors at which the likelihood was maximised, in ascending order, including the class prior of the fit.
    difference : array of shape (n_points,)
        Penalised log-likelihood at each class prior minus the penalised log-likelihood of the fit.
    log_likelihood : array of shape (n_points,)
        Observed log-likelihood at each class prior, without penalties.
    label_frequency : array of shape (n_points,)
        Label frequency of the best models at each class prior.
    fit_class_prior : float
        Class prior of the fit.
    level : float
        Confidence level.
    interval : Interval
        Class priors that the data do not reject: twice the drop in log-likelihood is below the quantile of a
        chi-squared distribution with one degree of freedom.
    closed : tuple of two bool
        Whether the profile dropped to the `cut` on the left, and on the right. If it did not, this end of the interval
        is the last class prior of the profile on that side.
    other_optima : list of ClassPriorProfile
        Profiles around other optima that the data do not reject. Their `difference` and `interval` are also relative to
        the fit. The other optima are those that `fit` found from its starts (``n_starts``) and, if both models use the
        same attributes, the swapped models.
    """

    class_prior: Vector
    difference: Vector
    log_likelihood: Vector
    label_frequency: Vector
    fit_class_prior: float
    level: float
    interval: Interval
    closed: tuple[bool, bool]
    other_optima: list["ClassPriorProfile"] = field(default_factory=list)

    @property
    def cut(self) -> float:
        """Drop in log-likelihood at which a class prior is rejected."""
        return 0.5 * quantile(self.level) ** 2

    @property
    def flat(self) -> bool:
        """Whether the data have almost no information on the class prior."""
        low, high = (float(logit(end)) for end in self.interval)
        return not all(self.closed) or high - low > 2.0 * _MAX_HALF_WIDTH

    def range_words(self, decimals: int = 3) -> str:
        """Return the interval in words; "or less" and "or more" mark ends that the profile did not reach."""
        (low, high), (left, right) = self.interval, self.closed
        return (
            f"from {low:.{decimals}f}{'' if left else ' or less'} to {high:.{decimals}f}{'' if right else ' or more'}"
        )

    def sentences(self) -> list[str]:
        """Return the results as sentences."""
        fit, ends = f"{self.fit_class_prior:.3f}", f"{self.range_words()} ({100 * self.level:.6g}% interval)"
        if self.flat:
            lines = [f"The data allow any class prior {ends}; the fit is at {fit}."]
        else:
            lines = [f"Class prior {fit}; the data allow values {ends}."]
        for other in self.other_optima:
            lines.append(
                f"There is another optimum at {other.fit_class_prior:.3f}, around which the data allow values "
                f"{other.range_words()}."
            )
        best = max([*self.other_optima, self], key=lambda profile: float(profile.difference.max()))
        at = int(np.argmax(best.difference))
        if best.difference[at] > _MIN_GAIN_REPORTED:
            why = (
                "The fit is in a local optimum: fit again with more starts (n_starts)."
                if best is self
                else "The attribute selection_ contains the reason why the fit is at another optimum."
            )
            lines.append(
                f"Models with a class prior of {best.class_prior[at]:.3f} have a higher penalised log-likelihood, by "
                f"{best.difference[at]:.3g}. {why}"
            )
        return lines

    def to_frame(self) -> Any:
        """Return the profile as a pandas DataFrame, one row for each class prior."""
        pandas = need("pandas", "ClassPriorProfile.to_frame", extra="frames")
        names = ("class_prior", "difference", "log_likelihood", "label_frequency")
        return pandas.DataFrame({name: getattr(self, name) for name in names})

    def plot(self, ax: Any = None) -> "ProfileDisplay":
        """Draw the profile and return the `ProfileDisplay`; its ``ax_`` is the Axes."""
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
    r"""Compute the profile likelihood of the class prior.

    .. math:: p(\alpha) = \max_{\theta:\ \mathrm{mean}\,f_\theta = \alpha} \ell(\theta) - \mathrm{penalty}(\theta)

    The maximum is computed at class priors further and further from the fit; each optimisation starts from the
    neighbouring solution. Other known optima get their own profiles (``other_optima``). The data do not reject class
    priors with :math:`2(p(\hat\alpha) - p(\alpha)) \le \chi^2_{1,\mathrm{level}}` (Wilks). Unlike a standard
    error, the profile does not assume a quadratic likelihood, so it shows how flat the likelihood is. It is valid if
    both models have the correct form. The class prior here is the mean of `f` over these rows. In contrast,
    `class_prior_interval` is for the population, so it also includes the sampling variance of the rows.

    Parameters
    ----------
    estimator : fitted SAREMClassifier, SAREMClassifierCV or SCARClassifier
        Fitted classifier whose class model and propensity model are logistic, and that is not recalibrated. A
        recalibrated fit has ``recalibration_.grid`` instead of a profile.
    X : array, sparse matrix or data frame of shape (n_rows, n_columns)
        Attributes of the rows that the model was fitted on.
    s : array of shape (n_rows,) or (n_rows, n_looks)
        Observed labels of these rows, coded as in `fit`.
    sample_weight : array of shape (n_rows,), optional
        Weight of each row, if `fit` had weights.
    audit : array of shape (n_rows,), optional
        Audits of these rows, if `fit` had audits.
    grid : sequence of float, optional
        Class priors strictly between 0 and 1 at which to evaluate the profile. By default, class priors further and
        further from the fit, until the data reject them.
    level : float in (0, 1), default=0.95
        Confidence level.

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
    Class prior 0.51...; the data allow values from 0.44... to 0.57... (95% interval).
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
    return replace(profile, other_optima=[_along(other, wanted, level, path.fit.value) for other in likely])


def _along(path: ProfilePath, wanted: Vector | None, level: float, value: float) -> ClassPriorProfile:
    """Return the profile along one path, with differences relative to the objective `value` of the fit."""
    cut = 0.5 * quantile(level) ** 2 + value - path.fit.value
    ends = [path.follow(side, cut) if wanted is None else path.visit(wanted, side, cut) for side in (-1, 1)]
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
    """Return the known optima of the same rows, other than the model's own fit."""
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
        if all(
            abs(other.positives - known.positives) > _MIN_DISTANCE_OF_OPTIMA * float(own.sums.weight) for known in found
        ):
            found.append(other)
    return found[1:]


def _check_grid(grid: Iterable[float]) -> Vector:
    if isinstance(grid, str) or not np.iterable(grid):
        raise ValueError(f"grid must be a list of class priors, for example [0.2, 0.3, 0.4]; got {shown(grid)}.")
    values = check_vector(list(grid), "grid")
    bad = values[~((values > 0) & (values < 1))]
    if bad.size or not values.size:
        came = f"got {bad[0]:g}" if bad.size else "got an empty list"
        raise ValueError(f"grid must contain class priors strictly between 0 and 1; {came}.")
    return values


def _refuse_recalibrated(model: Any) -> None:
    """Refuse a recalibrated fit, which does not maximise the penalised likelihood."""
    if hasattr(model, "recalibration_"):
        raise ValueError(
            f"This {type(model).__name__} is recalibrated, so its fit does not maximise a penalised likelihood and has "
            "no profile. Instead, the likelihood was evaluated on a grid of class priors: see recalibration_.grid and "
            "class_prior_interval(). For a profile, fit SAREMClassifierCV(recalibrate=False), or SAREMClassifier "
            "without an estimator."
        )


def _check_same_fit(inference: PairInference, path: ProfilePath) -> None:
    """Refuse rows that the model was not fitted on."""
    now_sums = path.summary(path.fit)
    fitted = inference.sums
    called = {"weight": "sum of weights", "labelled": "weight of labelled rows", "log_likelihood": "log-likelihood"}
    for name, words in called.items():
        now, then = float(getattr(now_sums, name)), float(getattr(fitted, name))
        if abs(now - then) > 1e-5 * abs(then):
            raise ValueError(
                f"X, s, sample_weight and audit must be those that the model was fitted on; the {words} is "
                f"{now:.8g}, but was {then:.8g} in fit. Pass the arguments of fit."
            )


class ProfileDisplay(Display):
    """Plot of a profile: log-likelihood, interval and label frequency against the class prior.

    Parameters
    ----------
    profile : ClassPriorProfile
        The profile to draw.

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
                "profile must be a ClassPriorProfile, as returned by profile_class_prior; got "
                f"{type(profile).__name__}. For a model, use ProfileDisplay.from_estimator(estimator, X, s)."
            )
        self.profile = profile

    @classmethod
    def from_profile(cls, profile: ClassPriorProfile, *, ax: Any = None) -> "ProfileDisplay":
        """Draw a profile.

        Parameters
        ----------
        profile : ClassPriorProfile
            The profile to draw.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

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
        """Compute a profile and draw it.

        Parameters
        ----------
        estimator, X, s, sample_weight, grid, level
            See `profile_class_prior`.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        ProfileDisplay
        """
        profile = profile_class_prior(estimator, X, s, sample_weight=sample_weight, grid=grid, level=level)
        return cls.from_profile(profile, ax=ax)

    def draw(self, ax: Any) -> None:
        """Draw the profile on the Axes."""
        profile = self.profile
        low, high = profile.interval
        ax.axvspan(
            low, high, color=BLUE, alpha=0.1, lw=0, label=f"{profile.level:.0%} interval: {low:.2f} to {high:.2f}"
        )
        ax.axhline(-profile.cut, color=GREY, lw=1, ls="--", label="rejected below this line")
        ax.plot(profile.class_prior, profile.difference, color=BLUE, marker=".", label="log-likelihood (left)")
        ax.plot([profile.fit_class_prior], [0.0], "o", color=BLUE, ms=8, label=f"fit: {profile.fit_class_prior:.2f}")
        for other in profile.other_optima:
            ax.axvspan(*other.interval, color=GREY, alpha=0.15, lw=0)
            ax.plot(other.class_prior, other.difference, color=GREY, marker=".", label="around another optimum")
        everything = np.concatenate([each.difference for each in (profile, *profile.other_optima)])
        bottom, top = max(float(everything.min()), -4.0 * profile.cut), max(float(everything.max()), 0.0)
        ax.set_ylim(bottom - 0.08 * (top - bottom), top + 0.12 * (top - bottom))
        ax.set_xlabel("Class prior, Pr(y=1)")
        ax.set_ylabel("Penalised log-likelihood relative to the fit")
        other = ax.twinx()
        other.plot(profile.class_prior, profile.label_frequency, color=ORANGE, lw=1.5, label="label frequency (right)")
        other.set_ylabel("Label frequency, Pr(s=1|y=1)", color=ORANGE)
        other.tick_params(axis="y", colors=ORANGE)
        other.set_ylim(0.0, 1.0)
        handles, labels = (
            left + right for left, right in zip(*(a.get_legend_handles_labels() for a in (ax, other)), strict=True)
        )
        ax.legend(handles, labels, loc="best" if profile.other_optima else "lower center", fontsize="small")
        also = "".join(f",\nor {other.range_words(2)}" for other in profile.other_optima)
        kind = "any class prior" if profile.flat else "class priors"
        ax.set_title(f"The data allow {kind} {profile.range_words(2)}{also}")
