"""The paper's three questions, answered in words that follow from the numbers, whichever way they fall."""

from collections.abc import Sequence
from math import isfinite, nan
from statistics import median

from scarless.experiments.statistics import MeanInterval
from scarless.papers.bekker2019.methods import specification
from scarless.report.duels import Duel, duel_table, duels
from scarless.report.names import SCORES, dataset_label, listed
from scarless.report.numbers import percent, plain, signed
from scarless.report.results import Condition, Results, Row
from scarless.report.story import Answer, Questions
from scarless.report.tables import Table, section, table

HERO = "sar-em"
SCAR_METHODS = ("scar-km2", "scar-tice")
#: Share of the propensity's variation from which on the page of the paper speaks of recovery. By judgement.
MIN_SHARE_RECOVERED = 0.75
#: Share of the way from naive to supervised from which on the page of the paper speaks of closeness. By judgement.
MIN_SHARE_CLOSE = 0.9
MAX_CASES_NAMED = 6  # cases that are named before the rest is counted


def answers(results: Results) -> tuple[Answer, ...]:
    """Return the answers to the paper's three questions."""
    return (does_sar_beat_scar(results), is_the_propensity_recovered(results), does_the_number_matter(results))


QUESTIONS = Questions(
    "Answers to the paper's questions",
    "The words follow from the numbers by fixed rules. A difference is clear, or beyond the noise, if its 95% "
    "interval over the runs of a dataset, paired by split and labelling, leaves out zero. Gains are positive where "
    "the first method is better. Ranks and tests take the mean of a dataset's runs as one observation. A condition "
    "is a setting (what the classifier sees) and k (how many attributes drive the labelling).",
    answers,
)


def does_sar_beat_scar(results: Results) -> Answer:
    """Answer the first question, by the error of the predicted probabilities."""
    question = "Q1. Does SAR-EM beat the methods that assume SCAR?"
    found = duels(results, HERO, SCAR_METHODS, "mse_f")
    if not found:
        return _no_answer(question, f"there are no results of both {results.label(HERO)} and a SCAR method")
    verdict, claim, fit = _contest_verdict(results, found)
    others = {
        "Against naive": duels(results, HERO, ("naive",), "mse_f"),
        "Refitted on the weighted risk, against SCAR": duels(results, "sar-em-refit", SCAR_METHODS, "mse_f"),
        "By ROC-AUC, which looks at the order of rows only, against SCAR and naive": duels(
            results, HERO, (*SCAR_METHODS, "naive"), "auc_f"
        ),
    }
    paragraphs = [
        f"{claim}{_untested(found)} {_beside_the_paper(results, fit)}",
        f"Case by case (dataset, condition and SCAR method): {_count(results, found)}",
        *(f"{words}: {_count(results, items)}" for words, items in others.items() if items),
        *_closeness(results),
    ]
    contests = [duels(results, HERO, (*SCAR_METHODS, "naive"), score) for score in ("mse_f", "auc_f")]
    return Answer(
        question, verdict, tuple(paragraphs), tuple(duel_table(results, items) for items in contests if items)
    )


def _contest_verdict(results: Results, found: Sequence[Duel]) -> tuple[str, str, str]:
    """Return a verdict, the sentences that it rests on, and how it fits what the paper found."""
    by_condition: dict[Condition, list[Duel]] = {}
    for item in found:
        by_condition.setdefault(item.condition, []).append(item)
    better = [all(item.ranks_better for item in items) for items in by_condition.values()]
    worse = [all(item.ranks_worse for item in items) for items in by_condition.values()]
    sure = [all(item.significant for item in items) for items in by_condition.values()]
    hero, n = results.label(HERO), len(by_condition)
    names = listed(list(dict.fromkeys(results.label(item.other) for item in found)))
    tests = "(Friedman, then Nemenyi at 5%)"
    if all(better):
        claim = f"{hero} has a better average rank than {names} in all {n} conditions"
        if all(sure):
            return "Yes", f"{claim}, each time significantly {tests}.", "This agrees with the paper."
        if needed := _needed(found):
            claim = f"{claim}. The difference to all of them is significant in {sum(sure)} of {n} {tests}.{needed}"
        else:
            claim = f"{claim}."
        fit = "This points the same way as the paper, which found significant differences."
        everywhere = all(len(item.clearly_better) == len(item.gains) for item in found)
        doubt = "Yes on every dataset, but not by the test of ranks" if everywhere else "By rank, but not beyond doubt"
        return doubt, claim, fit
    if all(worse):
        significantly = f", each time significantly {tests}" if all(sure) else ""
        claim = f"{hero} has a worse average rank than {names} in all {n} conditions{significantly}."
        return "No", claim, "This contradicts the paper."
    if not any(better):
        claim = f"In none of {n} conditions does {hero} have a better average rank than all of {names}."
        return "Not in this run", claim, "This does not confirm the paper."
    won = [condition.label for condition, wins in zip(by_condition, better, strict=True) if wins]
    clear = sum(wins and test for wins, test in zip(better, sure, strict=True))
    claim = (
        f"{hero} has a better average rank than all of {names} in {len(won)} of {n} conditions ({'; '.join(won)})"
        + (f", significantly in {clear} of these {tests}.{needed}" if (needed := _needed(found)) else ".")
    )
    return "It depends", claim, "This confirms the paper in part."


def _beside_the_paper(results: Results, fit: str) -> str:
    """Return how a finding fits the paper, as far as the datasets allow to say so."""
    all_theirs = specification().datasets
    theirs = [dataset for dataset in results.datasets if dataset in all_theirs]
    if len(theirs) < len(results.datasets):
        return "The paper has other datasets, so that this is no test of what it found."
    if len(theirs) < len(all_theirs):
        return f"{fit} This rests on {len(theirs)} of the paper's {len(all_theirs)} datasets."
    return fit


def _needed(found: Sequence[Duel]) -> str:
    needed = [item.comparison.critical_difference for item in found if not item.comparison.problem]
    return f" For that, average ranks must be {max(needed):.2f} apart." if needed else ""


def _untested(found: Sequence[Duel]) -> str:
    problems = {item.condition: item.comparison.problem for item in found}
    missing = [problem for problem in problems.values() if problem]
    return f" In {len(missing)} of {len(problems)} conditions there is no test: {missing[0]}." if missing else ""


def _count(results: Results, found: Sequence[Duel]) -> str:
    """Say in how many cases one method is better, and name those in which it is clearly worse."""
    total, better = sum(len(item.gains) for item in found), sum(len(item.better) for item in found)
    clear = sum(len(item.clearly_better) for item in found)
    lower = SCORES[found[0].score].lower_is_better
    noun, adjective, opposite = ("error", "lower", "higher") if lower else ("area", "larger", "smaller")
    lost = [
        f"{dataset_label(dataset)} ({item.condition.label}, {results.label(item.other)})"
        for item in found
        for dataset in item.clearly_worse
    ]
    text = (
        f"the mean {noun} of {results.label(found[0].one)} is {adjective} in {better} of {total} cases, in {clear} of "
        "them beyond the noise of the runs."
    )
    return f"{text} It is {opposite} beyond the noise in {_how_many(lost)}."


def _how_many(cases: Sequence[str]) -> str:
    if not cases:
        return "none"
    rest = len(cases) - MAX_CASES_NAMED
    return f"{len(cases)}: {'; '.join(cases[:MAX_CASES_NAMED])}" + (f"; and {rest} more" if rest > 0 else "")


def _closeness(results: Results) -> list[str]:
    """Say how far SAR-EM gets on the way from naive to supervised."""
    shares = []
    for dataset in results.datasets:
        for condition in results.conditions:
            start, here, end = (
                results.interval(Row(dataset, *condition, method), "mse_f").mean
                for method in ("naive", HERO, "supervised")
            )
            if isfinite(start + here + end) and start > end:
                shares.append((start - here) / (start - end))
    if not shares:
        return []
    near = sum(share >= MIN_SHARE_CLOSE for share in shares)
    return [
        f"Between naive (0%) and supervised (100%), {results.label(HERO)} gets {percent(median(shares))} of the way in "
        f"the median of {len(shares)} cases, from {percent(min(shares))} to {percent(max(shares))}; at least "
        f"{percent(MIN_SHARE_CLOSE)} in {near} of them."
    ]


def is_the_propensity_recovered(results: Results) -> Answer:
    """Answer the second question: against the true propensities, and against the best constant."""
    question = "Q2. Is the propensity recovered?"
    errors = {
        condition: {
            dataset: results.interval(Row(dataset, *condition, HERO), "mse_e").mean for dataset in results.datasets
        }
        for condition in results.conditions
    }
    found = [mse for by_dataset in errors.values() for mse in by_dataset.values() if isfinite(mse)]
    if not found:
        return _no_answer(question, f"there are no propensities of {results.label(HERO)}")
    low, high = results.spec["low"], results.spec["high"]
    typical = (
        f"{results.label(HERO)} misses the propensity of a positive row, which lies between {low:g} and {high:g}, by "
        f"{plain(median(found) ** 0.5, 3)} in the median case (root of the mean squared error); in the worst by "
        f"{plain(max(found) ** 0.5, 3)}."
    )
    shares = {
        (dataset, condition): explained(results, dataset, condition)
        for condition in results.conditions
        for dataset in results.datasets
    }
    shares = {case: share for case, share in shares.items() if isfinite(share)}
    against = duels(results, HERO, SCAR_METHODS, "mse_e")
    tables = (_propensity_table(results, errors), *((duel_table(results, against),) if against else ()))
    if not shares:
        reason = "There are no results of the best constant to hold it against."
        return Answer(question, "Judge by the errors", (typical, reason), tables)
    verdict, claim = _recovery_verdict(results, shares)
    compared = (
        [f"Against a constant propensity that was estimated (SCAR): {_count(results, against)}"] if against else []
    )
    return Answer(question, verdict, (claim, typical, *compared), tables)


def explained(results: Results, dataset: str, condition: Condition) -> float:
    """Return the share of the propensity's variation over positive rows that SAR-EM explains.

    One minus its mean squared error over that of the best constant, the true label frequency. Below zero, the
    constant is nearer to the truth.
    """
    mine, constant = (results.interval(Row(dataset, *condition, method), "mse_e").mean for method in (HERO, "known-c"))
    return 1 - mine / constant if constant > 0 else nan


def _recovery_verdict(results: Results, shares: dict[tuple[str, Condition], float]) -> tuple[str, str]:
    n, good = len(shares), sum(share >= MIN_SHARE_RECOVERED for share in shares.values())
    bad = [f"{dataset_label(name)} ({condition.label})" for (name, condition), share in shares.items() if share <= 0]
    if good == n:
        verdict = "Yes"
    elif 2 * len(bad) >= n:
        verdict = "No"
    elif 2 * good >= n and 10 * len(bad) <= n:
        verdict = "Mostly"
    else:
        verdict = "In part"
    fit = {
        "Yes": "This agrees with the paper, which finds propensities estimated well.",
        "Mostly": "This agrees with the paper, which finds propensities estimated well, in most cases but not in all.",
        "In part": "The paper finds propensities estimated well; this run confirms it for some cases only.",
        "No": "The paper finds propensities estimated well; this run does not confirm it.",
    }[verdict]
    return verdict, (
        f"Between the best constant (the true label frequency, 0%) and the truth (100%), {results.label(HERO)} "
        f"explains {percent(median(shares.values()))} of how propensities vary in the median of {n} cases (dataset and "
        f"condition), and at least {percent(MIN_SHARE_RECOVERED)} in {good} of them. The constant is nearer to the "
        f"truth in {_how_many(bad)}. {_beside_the_paper(results, fit)}"
    )


def _propensity_table(results: Results, errors: dict[Condition, dict[str, float]]) -> Table:
    decimals = SCORES["mse_e"].decimals
    rows = []
    for dataset in results.datasets:
        cells = [
            f"{plain(errors[condition][dataset], decimals)} ({percent(explained(results, dataset, condition))})"
            for condition in results.conditions
        ]
        rows.append([dataset_label(dataset), *cells])
    caption = f"MSE of e of {results.label(HERO)}; in brackets the share explained"
    return table(caption, ("dataset", *(condition.label for condition in results.conditions)), rows)


def does_the_number_matter(results: Results) -> Answer:
    """Answer the third question: the fewest propensity attributes against the most."""
    question = "Q3. Does the number of propensity attributes matter?"
    counts = sorted(results.spec["n_propensity_attributes"])
    if len(counts) < 2:
        return _no_answer(question, f"all runs have {counts[0]} of them")
    few, many = counts[0], counts[-1]
    changes = {setting: _changes(results, setting, few, many, "mse_f") for setting in results.spec["settings"]}
    changes = {setting: found for setting, found in changes.items() if found}
    if not changes:
        return _no_answer(question, f"there are no results of {results.label(HERO)} with both {few} and {many}")
    verdicts = {setting: _change_verdict(found) for setting, found in changes.items()}
    same = len(set(verdicts.values())) == 1
    verdict = next(iter(verdicts.values())) if same else "It depends on what the classifier sees"
    paragraphs = [
        f"{_change(results, setting, few, many, found)} {verdicts[setting]}." for setting, found in changes.items()
    ]
    paragraphs.append(
        "With more attributes the propensity is a mean of more terms and varies less, so that a constant is less "
        "wrong: propensities are best compared by the share explained, and SAR-EM by its lead over SCAR, in the table."
    )
    return Answer(question, verdict, tuple(paragraphs), (_number_table(results, counts),))


def _changes(results: Results, setting: str, few: int, many: int, score: str) -> dict[str, MeanInterval]:
    """Return by how much the error rises from few to many propensity attributes, per dataset."""
    found = {
        dataset: results.gain(Row(dataset, setting, few, HERO), Row(dataset, setting, many, HERO), score)
        for dataset in results.datasets
    }
    return {dataset: change for dataset, change in found.items() if isfinite(change.mean)}


def _change(results: Results, setting: str, few: int, many: int, found: dict[str, MeanInterval]) -> str:
    who = {"all": "Classifier on all attributes", "original": "Classifier on the original attributes"}[setting]
    mean = signed(sum(item.mean for item in found.values()) / len(found), 4)
    return (
        f"{who}: from {few} to {many} propensity attributes the MSE of f of {results.label(HERO)} changes by {mean} on "
        f"average over {len(found)} datasets. It rises beyond the noise on {_datasets(found, 1)} and falls beyond it "
        f"on {_datasets(found, -1)}."
    )


def _change_verdict(found: dict[str, MeanInterval]) -> str:
    up = sum(change.clear and change.mean > 0 for change in found.values())
    down = sum(change.clear and change.mean < 0 for change in found.values())
    if 2 * up > len(found):
        return "More attributes are harder on most datasets"
    if 2 * down > len(found):
        return "More attributes are easier on most datasets"
    if up and down:
        return "It differs between datasets, in both directions"
    if up or down:
        return (
            f"On most datasets no effect beyond the noise; where there is one, more are {'harder' if up else 'easier'}"
        )
    return "No effect beyond the noise of the runs"


def _datasets(found: dict[str, MeanInterval], sign: int) -> str:
    names = [dataset_label(name) for name, change in found.items() if change.clear and change.mean * sign > 0]
    return f"{len(names)} ({listed(names)})" if names else "none"


def _number_table(results: Results, counts: Sequence[int]) -> Table:
    head = ("mean over datasets", *(f"k = {k}" for k in counts))
    sections = [
        section(f"{setting} attributes", _number_rows(results, [Condition(setting, k) for k in counts]))
        for setting in results.spec["settings"]
    ]
    return Table("The number of propensity attributes", head, tuple(sections))


def _number_rows(results: Results, conditions: Sequence[Condition]) -> list[list[str]]:
    rows = []
    for score in ("mse_f", "mse_e"):
        means = [plain(_mean(results, condition, score), SCORES[score].decimals) for condition in conditions]
        rows.append([f"{SCORES[score].label}, {results.label(HERO)}", *means])
    shares = [[explained(results, dataset, condition) for dataset in results.datasets] for condition in conditions]
    medians = [percent(median([share for share in found if isfinite(share)] or [nan])) for found in shares]
    rows.append(["propensity explained, median", *medians])
    for other in SCAR_METHODS:
        gains = {item.condition: item.mean_gain for item in duels(results, HERO, (other,), "mse_f")}
        leads = [signed(gains.get(condition, nan), 4) for condition in conditions]
        rows += [[f"lead over {results.label(other)} in MSE of f", *leads]] if gains else []
    return rows


def _mean(results: Results, condition: Condition, score: str) -> float:
    means = [results.interval(Row(dataset, *condition, HERO), score).mean for dataset in results.datasets]
    means = [mean for mean in means if isfinite(mean)]
    return sum(means) / len(means) if means else nan


def _no_answer(question: str, reason: str) -> Answer:
    return Answer(question, "Cannot be answered", (f"From these results it cannot be answered: {reason}.",))
