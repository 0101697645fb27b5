"""Texts of the page of the comparison: where ours loses, and who wins when what is known.

Every sentence is computed from the records by fixed rules, so it stays true when the records change.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scarless.experiments.statistics import MeanInterval, mean_interval, mean_of_finite
from scarless.outside.notices import listed
from scarless.papers.field.methods import METHOD_NAMES
from scarless.report import Story, names
from scarless.report.names import KNOWS, SCORES
from scarless.report.results import Condition, Results
from scarless.report.story import Answer, Questions
from scarless.report.tables import Table, TableCell, section
from scarless.report.words import with_half

# Our recommended estimator, if nothing is known and if the names of the propensity attributes are known.
OURS = {"nothing": "stack-nameless", "names": "stack"}
# The same fits with predict(X, decision="balanced"): another own decision, but the same ranking and probabilities.
BALANCED = {"stack": "stack-balanced", "stack-nameless": "stack-nameless-balanced"}
OUR_FAMILY = (*BALANCED, *BALANCED.values(), "search", "sar-em", "sarem-nameless", "sarem-boosted")
OWN_DECISION = "balanced_accuracy"
# Scores of the answers: own decision, ranking, probabilities.
JUDGED = (OWN_DECISION, "balanced_accuracy_at_prior", "mse_f")
SCAR_MECHANISM = "S1"
PLACES = 5  # methods in a list of leaders
# What a method may know to answer a question. The names and the class prior do not imply each other.
MAY_KNOW = {"nothing": ("nothing",), "names": ("nothing", "names"), "prior": ("nothing", "prior")}
TITLE = "What the comparison says"
NOTE = (
    "A case is a dataset with a labelling mechanism and a label frequency. Means are over cases; differences are "
    "paired by run, and their 95% intervals are t intervals over datasets. Only methods with results in every case are "
    "ranked. In each question, methods compete that know what it says, or nothing. Under mechanisms by class "
    "probability there are no names to know, so methods that are told names then know nothing. Methods of ours "
    "whose names end with balanced decide by predict(X, decision='balanced'), which cuts at the estimated class prior; "
    "the same methods without this word decide by predict, which cuts at 1/2, for accuracy. Our losses by own decision "
    "are those of the balanced decision, because many methods of the field choose their cut-off for balanced accuracy."
)


@dataclass(frozen=True)
class MethodMean:
    """A method with its mean score over cases."""

    method: str
    mean: float


def leaders(results: Results, knows: str, conditions: Sequence[Condition], score: str) -> list[MethodMean]:
    """Return the methods that know this or nothing, with their means over cases of some conditions, the best first.

    Parameters
    ----------
    results : Results
        Results of the comparison.
    knows : str
        What the methods may know: "nothing", "names" or "prior".
    conditions : sequence of Condition
        Conditions over which the mean is taken.
    score : str
        Score with a direction.

    Returns
    -------
    list of MethodMean
        Methods that lack a case that another method has are left out. So is, unless the score is that of the own
        decision, the second row of a method of ours with the balanced decision.
    """
    methods, cases = _allowed_cases(results, knows, conditions, score)
    found = [
        MethodMean(method, float(values.mean()))
        for method, values in zip(methods, cases.T, strict=True)
        if np.isfinite(values).all() and values.size
    ]
    return sorted(found, key=lambda each: -_sign(score) * each.mean)


def _allowed_cases(
    results: Results, knows: str, conditions: Sequence[Condition], score: str
) -> tuple[list[str], NDArray[np.float64]]:
    """Return the methods that know this or nothing and have the score, and their values in each case that one has."""
    chosen = [results.conditions.index(condition) for condition in conditions]
    methods = [each for each in results.methods if score == OWN_DECISION or each not in BALANCED.values()]
    allowed = [method for method in methods if all(_may(results, method, each, knows) for each in conditions)]
    columns = [results.methods.index(method) for method in allowed]
    values = results.case_means(score)[:, chosen][:, :, columns]
    cases = values.reshape(values.shape[0] * values.shape[1], len(columns))
    there: NDArray[np.bool_] = np.isfinite(cases)
    scored = np.flatnonzero(there.any(axis=0))
    return [allowed[i] for i in scored], cases[there.any(axis=1)][:, scored]


def _left_out(results: Results, knows: str, conditions: Sequence[Condition], score: str) -> str:
    """Return which methods lack some of the cases, or "" if none does."""
    methods, cases = _allowed_cases(results, knows, conditions, score)
    lacking = {method: int(n) for method, n in zip(methods, (~np.isfinite(cases)).sum(axis=0), strict=True) if n}
    if not lacking:
        return ""
    named = listed([f"{results.label(method)} ({n:,} of {len(cases):,})" for method, n in lacking.items()])
    return f" Not ranked, because cases lack results: {named}."


def _may(results: Results, method: str, condition: Condition, knows: str) -> bool:
    """Whether a method knows only this in a condition; what it knows may differ between conditions."""
    level = results.level(method, condition)
    return level is not None and KNOWS[level] in MAY_KNOW[knows]


def _sign(score: str) -> float:
    return -1.0 if SCORES[score].lower_is_better else 1.0


def difference(results: Results, one: str, other: str, conditions: Sequence[Condition], score: str) -> MeanInterval:
    """Return how much better one method is than another: the mean over datasets, with its interval."""
    chosen = [results.conditions.index(condition) for condition in conditions]
    cube = _sign(score) * results.cube(score)[:, chosen]
    i, j = (results.methods.index(method) for method in (one, other))
    return mean_interval(mean_of_finite(mean_of_finite(cube[:, :, i] - cube[:, :, j], axis=2), axis=1))


def answers(results: Results) -> tuple[Answer, ...]:
    """Return the answers to the questions of the comparison; those without any result are left out."""
    started = [each for each in results.conditions if any(results.level(name, each) == 0 for name in results.methods)]
    named = [each for each in started if _has_names(results, each)]
    scar = [each for each in started if _mechanism(each) == SCAR_MECHANISM]
    biased = [each for each in started if each not in scar]
    asked = (
        _where_ours_loses(results),
        _winners(results, "Who wins when nothing is known, and labels are biased?", "nothing", biased),
        _winners(results, "Who wins when the propensity attributes are known?", "names", named),
        _winners(results, "Who wins when the class prior is known, and labels are biased?", "prior", biased),
        _winners(results, "Who wins when nothing is known, and labels are SCAR?", "nothing", scar),
        _cut_or_ranking(results),
    )
    return tuple(answer for answer in asked if answer is not None)


def _mechanism(condition: Condition) -> str:
    return condition.setting.rpartition("-c")[0] or condition.setting


def _has_names(results: Results, condition: Condition) -> bool:
    """Whether some method is told names in this condition."""
    return any(results.level(method, condition) == KNOWS.index("names") for method in results.methods)


def _where_ours_loses(results: Results) -> Answer | None:
    """Return in which conditions a method that knows no more is better than our recommended estimator."""
    sentences, sections, lost, judged = [], [], 0, 0
    for knows, recommended in OURS.items():
        conditions = [each for each in results.conditions if knows == "nothing" or _has_names(results, each)]
        for score in results.scores(JUDGED):
            ours = BALANCED[recommended] if score == OWN_DECISION else recommended
            if not results.has(ours):
                continue
            name = SCORES[score].label + " by the balanced decision" * (score == OWN_DECISION)
            rows, n_judged, lacking = [], 0, list[str]()
            for condition in conditions:
                places = leaders(results, knows, (condition,), score)
                rivals = [each for each in places if each.method not in OUR_FAMILY]
                mine = next((each for each in places if each.method == ours), None)
                if mine is None and rivals:
                    lacking.append(condition.label)
                if mine is None or not rivals:
                    continue
                n_judged += 1
                gain = difference(results, ours, rivals[0].method, (condition,), score)
                if gain.mean < 0:
                    rows.append((condition, rivals[0], mine, gain))
            if lacking:
                sentences.append(_lack_sentence(results, ours, name, lacking))
            if not n_judged:
                continue
            lost, judged = lost + len(rows), judged + n_judged
            clearly = sum(gain.clear for *_, gain in rows)
            sentences.append(_loss_sentence(results, ours, name, rows, clearly, n_judged))
            if rows:
                cells = [_loss_row(results, score, *row) for row in sorted(rows, key=lambda row: row[3].mean)]
                sections.append(section(f"{results.label(ours)}: {name}", cells))
    if not sentences:
        return None
    verdict = f"In {lost} of {judged} comparisons" if judged else "Cannot be answered"
    head = ("condition", "best other method", "its mean", "ours", "our gain")
    caption = (
        "Conditions in which a method of the field beats our recommended estimator. Bold: the interval excludes zero"
    )
    tables = (Table(caption, head, tuple(sections), (0, 1)),) if sections else ()
    return Answer("Where does ours lose?", verdict, tuple(sentences), tables)


def _lack_sentence(results: Results, ours: str, score: str, lacking: Sequence[str]) -> str:
    return (
        f"{score}: {results.label(ours)} lacks results that other methods have in {listed(lacking, most=5)}, so it is "
        "not judged there."
    )


def _loss_sentence(
    results: Results, ours: str, score: str, rows: Sequence[tuple], clearly: int, n_conditions: int
) -> str:
    label = results.label(ours)
    if not rows:
        where = f"any of {n_conditions} conditions" if n_conditions > 1 else "the one condition with results"
        return f"{score}: no method of the field has a better mean than {label} in {where}."
    counts: dict[str, int] = {}
    for _, rival, *_ in rows:
        counts[rival.method] = counts.get(rival.method, 0) + 1
    order = sorted(counts, key=lambda method: (-counts[method], method))
    by = listed([f"{results.label(method)} ({counts[method]})" for method in order[:3]])
    worst = min(rows, key=lambda row: row[3].mean)
    return (
        f"{score}: in {len(rows)} of {n_conditions} conditions a method of the field has a better mean than {label} "
        f"(clearly in {clearly}), most often {by}; the largest loss is {-worst[3].mean:.3f}, to "
        f"{results.label(worst[1].method)} in {worst[0].label}."
    )


def _loss_row(
    results: Results, score: str, condition: Condition, rival: MethodMean, mine: MethodMean, gain: MeanInterval
) -> list[str | TableCell]:
    decimals = SCORES[score].decimals
    return [
        condition.label,
        results.label(rival.method),
        f"{rival.mean:.{decimals}f}",
        f"{mine.mean:.{decimals}f}",
        TableCell(with_half(gain, decimals, sign=True), strong=gain.clear),
    ]


def _winners(results: Results, question: str, knows: str, conditions: Sequence[Condition]) -> Answer | None:
    """Return the best methods by each score, with the distance of the second."""
    if not conditions:
        return None
    verdicts, sentences, sections = [], [], []
    for score in results.scores(JUDGED):
        places = leaders(results, knows, conditions, score)
        if len(places) < 2:
            continue
        first, second = places[0].method, places[1].method
        name, decimals = SCORES[score].label, SCORES[score].decimals
        gap = difference(results, first, second, conditions, score)
        verdicts.append(first)
        clear = "a clear difference" if gap.clear else "not a clear difference"
        sentences.append(
            f"{name}: {results.label(first)} ({places[0].mean:.{decimals}f}), before {results.label(second)} "
            f"({places[1].mean:.{decimals}f}); the difference is {with_half(gap, decimals)} over datasets, {clear}."
            f"{_left_out(results, knows, conditions, score)}"
        )
        rows = [
            [results.label(each.method), results.knows(each.method), f"{each.mean:.{decimals}f}"] for each in places
        ]
        sections.append(section(f"{name}, the first {min(PLACES, len(places))} of {len(places)}", rows[:PLACES]))
    if not verdicts:
        return None
    won = listed([results.label(method) for method in dict.fromkeys(verdicts)])
    n = len(conditions)
    table = Table(f"Means over {n} condition{'s' * (n > 1)}", ("method", "knows", "mean"), tuple(sections), (0, 1))
    return Answer(question, won, tuple(sentences), (table,))


def _cut_or_ranking(results: Results) -> Answer | None:
    """Return how much the cut-off and how much the ranking explain of the differences between methods."""
    own, at_prior = OWN_DECISION, "balanced_accuracy_at_prior"
    if len(results.scores((own, at_prior))) < 2:
        return None
    allowed = [i for i, method in enumerate(results.methods) if results.level(method) is not None]
    values = [results.case_means(score).reshape(-1, len(results.methods))[:, allowed] for score in (own, at_prior)]
    there: NDArray[np.bool_] = np.isfinite(values[0]) & np.isfinite(values[1])
    values = [each[there.any(axis=1)] for each in values]  # cases with results
    whole = np.flatnonzero(there[there.any(axis=1)].all(axis=0))
    if len(whole) < 3:
        return None
    decided, ranked = (each[:, whole].mean(axis=0) for each in values)
    total, ranking = float(decided.var()), float(ranked.var())
    cut = decided - ranked
    worst, best = int(np.argmin(cut)), int(np.argmax(cut))
    labels = [results.label(results.methods[allowed[k]]) for k in whole]
    if total == 0.0:
        return None
    verdict = "Mostly the cut-off" if cut.var() > ranking else "Mostly the ranking"
    sentences = (
        f"Between {len(whole)} methods, the variance of the mean balanced accuracy is {total:.5f} by own decision. "
        f"With every ranking cut at the true prior it is {ranking:.5f}; the variance of what the own cut-off adds or "
        f"costs is {float(cut.var()):.5f}.{_correlation(ranked, cut)}",
        f"Compared with a cut at the true prior, the own cut-off is worst for {labels[worst]} ({cut[worst]:+.3f}) and "
        f"best for {labels[best]} ({cut[best]:+.3f}).",
    )
    return Answer("How much does the cut-off explain, and how much the ranking?", verdict, sentences)


def _correlation(ranked: NDArray[np.float64], cut: NDArray[np.float64]) -> str:
    """Return a sentence about the correlation of rankings and cut-offs; "" if one of them does not vary."""
    if ranked.std() == 0.0 or cut.std() == 0.0:
        return ""
    r = float(np.corrcoef(ranked, cut)[0, 1])
    return f" Rankings and cut-offs are correlated by {r:+.2f}, so the two parts do not add up exactly."


STORY = Story(
    whose="A comparison of the methods of the field",
    method_names={**names.METHOD_NAMES, **METHOD_NAMES},
    figures=JUDGED,
    questions=Questions(TITLE, NOTE, answers),
)
