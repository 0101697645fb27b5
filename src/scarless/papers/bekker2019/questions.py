"""The paper's three questions, with answers that follow from the results by fixed rules."""

from collections.abc import Sequence
from math import isfinite, nan
from statistics import median

from scarless.experiments.statistics import MeanInterval
from scarless.outside.notices import listed
from scarless.papers.bekker2019.methods import specification
from scarless.report.names import SCORES, dataset_label
from scarless.report.results import Condition, Duel, Results, Row, duels
from scarless.report.story import Answer, Questions
from scarless.report.tables import Table, duel_table, section, table
from scarless.report.words import percent, plain, signed

SAR_EM = "sar-em"
SCAR_METHODS = ("scar-km2", "scar-tice")
#: Share of the propensity's variance that must be explained for the paper's page to call it recovered. By judgement.
MIN_SHARE_RECOVERED = 0.75
#: Share of the gap between naive and supervised that must be closed for the paper's page to count a case as close. By
#: judgement.
MIN_SHARE_CLOSE = 0.9
MAX_CASES_NAMED = 6  # cases that a sentence names; further cases are counted


def answers(results: Results) -> tuple[Answer, ...]:
    """Return the answers to the paper's three questions."""
    return (does_sar_beat_scar(results), is_the_propensity_recovered(results), does_the_number_matter(results))


QUESTIONS = Questions(
    "Answers to the paper's questions",
    "The verdicts follow from the numbers by fixed rules. A difference is clear if its 95% interval over the runs of a "
    "dataset, paired by split and labelling, excludes zero. Gains are positive if the first method is better. Ranks "
    "and tests use the mean over the runs of a dataset as one observation. A condition is a setting (the attributes of "
    "the classifier) and k (the number of attributes that drive the labelling).",
    answers,
)


def does_sar_beat_scar(results: Results) -> Answer:
    """Answer the first question, by the error of the predicted probabilities."""
    question = "Q1. Does SAR-EM beat the methods that assume SCAR?"
    found = duels(results, SAR_EM, SCAR_METHODS, "mse_f")
    if not found:
        return _no_answer(question, f"there are no results for both {results.label(SAR_EM)} and a SCAR method")
    verdict, claim, fit = _contest_verdict(results, found)
    others = {
        "Compared with naive": duels(results, SAR_EM, ("naive",), "mse_f"),
        "Refitted to the weighted risk, compared with SCAR": duels(results, "sar-em-refit", SCAR_METHODS, "mse_f"),
        "By ROC-AUC, which depends on the order of rows only, compared with SCAR and naive": duels(
            results, SAR_EM, (*SCAR_METHODS, "naive"), "auc_f"
        ),
    }
    paragraphs = [
        f"{claim}{_untested(found)} {_compared_with_paper(results, fit)}",
        f"By case (dataset, condition and SCAR method): {_count(results, found)}",
        *(f"{words}: {_count(results, items)}" for words, items in others.items() if items),
        *_closeness(results),
    ]
    contests = [duels(results, SAR_EM, (*SCAR_METHODS, "naive"), score) for score in ("mse_f", "auc_f")]
    return Answer(
        question, verdict, tuple(paragraphs), tuple(duel_table(results, items) for items in contests if items)
    )


def _contest_verdict(results: Results, found: Sequence[Duel]) -> tuple[str, str, str]:
    """Return a verdict, the evidence in words, and whether it agrees with the paper."""
    by_condition: dict[Condition, list[Duel]] = {}
    for item in found:
        by_condition.setdefault(item.condition, []).append(item)
    better = [all(item.ranks_better for item in items) for items in by_condition.values()]
    worse = [all(item.ranks_worse for item in items) for items in by_condition.values()]
    sure = [all(item.significant for item in items) for items in by_condition.values()]
    hero, n = results.label(SAR_EM), len(by_condition)
    names = listed(list(dict.fromkeys(results.label(item.other) for item in found)))
    tests = "(Friedman, then Nemenyi at 5%)"
    if all(better):
        claim = f"{hero} has a better average rank than {names} in all {n} conditions"
        if all(sure):
            return "Yes", f"{claim}, each time significantly {tests}.", "This agrees with the paper."
        if needed := _needed(found):
            claim = (
                f"{claim}. It differs significantly from all of them in {sum(sure)} of {n} conditions {tests}.{needed}"
            )
        else:
            claim = f"{claim}."
        fit = "This has the same direction as in the paper, which found significant differences."
        everywhere = all(len(item.clearly_better) == len(item.gains) for item in found)
        ranks = "Yes on every dataset, but the rank test is not significant"
        return ranks if everywhere else "By average rank, but not significantly", claim, fit
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


def _compared_with_paper(results: Results, fit: str) -> str:
    """Return whether a finding agrees with the paper, as far as the datasets are the same."""
    all_theirs = specification().datasets
    theirs = [dataset for dataset in results.datasets if dataset in all_theirs]
    if len(theirs) < len(results.datasets):
        return "The paper used other datasets, so this cannot be compared with it."
    if len(theirs) < len(all_theirs):
        return f"{fit} This is based on {len(theirs)} of the paper's {len(all_theirs)} datasets."
    return fit


def _needed(found: Sequence[Duel]) -> str:
    needed = [item.comparison.critical_difference for item in found if not item.comparison.problem]
    return f" For significance, average ranks must differ by {max(needed):.2f}." if needed else ""


def _untested(found: Sequence[Duel]) -> str:
    problems = {item.condition: item.comparison.problem for item in found}
    missing = [problem for problem in problems.values() if problem]
    return f" In {len(missing)} of {len(problems)} conditions there is no test: {missing[0]}." if missing else ""


def _count(results: Results, found: Sequence[Duel]) -> str:
    """Return in how many cases one method is better, and the cases in which it is clearly worse."""
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
        "them clearly."
    )
    return f"{text} It is clearly {opposite} in {_how_many(lost)}."


def _how_many(cases: Sequence[str]) -> str:
    if not cases:
        return "none"
    rest = len(cases) - MAX_CASES_NAMED
    return f"{len(cases)}: {'; '.join(cases[:MAX_CASES_NAMED])}" + (f"; and {rest} more" if rest > 0 else "")


def _closeness(results: Results) -> list[str]:
    """Return which share of the gap between naive and supervised SAR-EM closes."""
    shares = []
    for dataset in results.datasets:
        for condition in results.conditions:
            start, here, end = (
                results.interval(Row(dataset, *condition, method), "mse_f").mean
                for method in ("naive", SAR_EM, "supervised")
            )
            if isfinite(start + here + end) and start > end:
                shares.append((start - here) / (start - end))
    if not shares:
        return []
    near = sum(share >= MIN_SHARE_CLOSE for share in shares)
    return [
        f"{results.label(SAR_EM)} closes {percent(median(shares))} of the gap in error between naive and supervised in "
        f"the median of {len(shares)} cases (from {percent(min(shares))} to {percent(max(shares))}), and at least "
        f"{percent(MIN_SHARE_CLOSE)} in {near} of them."
    ]


def is_the_propensity_recovered(results: Results) -> Answer:
    """Answer the second question, by the errors of the propensity, compared with the best constant."""
    question = "Q2. Is the propensity recovered?"
    errors = {
        condition: {
            dataset: results.interval(Row(dataset, *condition, SAR_EM), "mse_e").mean for dataset in results.datasets
        }
        for condition in results.conditions
    }
    found = [mse for by_dataset in errors.values() for mse in by_dataset.values() if isfinite(mse)]
    if not found:
        return _no_answer(question, f"there are no propensities of {results.label(SAR_EM)}")
    low, high = results.spec["low"], results.spec["high"]
    typical = (
        f"The root mean squared error of the propensities of positive rows, which lie between {low:g} and {high:g}, is "
        f"{plain(median(found) ** 0.5, 3)} in the median case and {plain(max(found) ** 0.5, 3)} in the worst case."
    )
    shares = {
        (dataset, condition): explained(results, dataset, condition)
        for condition in results.conditions
        for dataset in results.datasets
    }
    shares = {case: share for case, share in shares.items() if isfinite(share)}
    against = duels(results, SAR_EM, SCAR_METHODS, "mse_e")
    tables = (_propensity_table(results, errors), *((duel_table(results, against),) if against else ()))
    if not shares:
        reason = "There are no results of the best constant propensity to compare these errors with."
        return Answer(question, "Judge by the errors", (typical, reason), tables)
    verdict, claim = _recovery_verdict(results, shares)
    compared = [f"Compared with an estimated constant propensity (SCAR): {_count(results, against)}"] if against else []
    return Answer(question, verdict, (claim, typical, *compared), tables)


def explained(results: Results, dataset: str, condition: Condition) -> float:
    """Return the share of the propensity's variance over positive rows that SAR-EM explains.

    This is one minus the ratio of its mean squared error to that of the best constant, the true label frequency. It is
    negative if the constant is closer to the truth.
    """
    mine, constant = (
        results.interval(Row(dataset, *condition, method), "mse_e").mean for method in (SAR_EM, "known-c")
    )
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
        "In part": "The paper finds propensities estimated well; this run confirms the finding for some cases only.",
        "No": "The paper finds propensities estimated well; this run does not confirm the finding.",
    }[verdict]
    return verdict, (
        f"{results.label(SAR_EM)} explains {percent(median(shares.values()))} of the variance of propensities in the "
        f"median of {n} cases (dataset and condition), and at least {percent(MIN_SHARE_RECOVERED)} in {good} of them. "
        "The best constant, the true label frequency, explains 0%; it is closer to the truth in "
        f"{_how_many(bad)}. {_compared_with_paper(results, fit)}"
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
    caption = f"MSE of e of {results.label(SAR_EM)}; in brackets, the share of variance explained"
    return table(caption, ("dataset", *(condition.label for condition in results.conditions)), rows)


def does_the_number_matter(results: Results) -> Answer:
    """Answer the third question, by comparing the fewest with the most propensity attributes."""
    question = "Q3. Does the number of propensity attributes matter?"
    counts = sorted(results.spec["n_propensity_attributes"])
    if len(counts) < 2:
        return _no_answer(question, f"all runs have the same number, {counts[0]}")
    few, many = counts[0], counts[-1]
    changes = {setting: _changes(results, setting, few, many, "mse_f") for setting in results.spec["settings"]}
    changes = {setting: found for setting, found in changes.items() if found}
    if not changes:
        return _no_answer(question, f"there are no results for {results.label(SAR_EM)} with both {few} and {many}")
    verdicts = {setting: _change_verdict(found) for setting, found in changes.items()}
    same = len(set(verdicts.values())) == 1
    verdict = next(iter(verdicts.values())) if same else "It depends on the attributes of the classifier"
    paragraphs = [
        f"{_change(results, setting, few, many, found)} {verdicts[setting]}." for setting, found in changes.items()
    ]
    paragraphs.append(
        "With more attributes, the propensity is a mean of more terms and varies less, so a constant propensity has a "
        "smaller error. To compare numbers of attributes, use the share of variance explained, and the lead of SAR-EM "
        "over SCAR, in the table."
    )
    return Answer(question, verdict, tuple(paragraphs), (_number_table(results, counts),))


def _changes(results: Results, setting: str, few: int, many: int, score: str) -> dict[str, MeanInterval]:
    """Return the increase of the error from few to many propensity attributes for each dataset."""
    found = {
        dataset: results.gain(Row(dataset, setting, few, SAR_EM), Row(dataset, setting, many, SAR_EM), score)
        for dataset in results.datasets
    }
    return {dataset: change for dataset, change in found.items() if isfinite(change.mean)}


def _change(results: Results, setting: str, few: int, many: int, found: dict[str, MeanInterval]) -> str:
    who = {"all": "Classifier on all attributes", "original": "Classifier on the original attributes"}[setting]
    mean = signed(sum(item.mean for item in found.values()) / len(found), 4)
    return (
        f"{who}: from {few} to {many} propensity attributes, the MSE of f of {results.label(SAR_EM)} changes by {mean} "
        f"on average over {len(found)} datasets. It clearly increases on {_datasets(found, 1)} and clearly decreases "
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
        harder = "harder" if up else "easier"
        return f"No clear effect on most datasets; on the others, more attributes are {harder}"
    return "No clear effect"


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
        rows.append([f"{SCORES[score].label}, {results.label(SAR_EM)}", *means])
    shares = [[explained(results, dataset, condition) for dataset in results.datasets] for condition in conditions]
    medians = [percent(median([share for share in found if isfinite(share)] or [nan])) for found in shares]
    rows.append(["propensity explained, median", *medians])
    for other in SCAR_METHODS:
        gains = {item.condition: item.mean_gain for item in duels(results, SAR_EM, (other,), "mse_f")}
        leads = [signed(gains.get(condition, nan), 4) for condition in conditions]
        rows += [[f"lead over {results.label(other)} in MSE of f", *leads]] if gains else []
    return rows


def _mean(results: Results, condition: Condition, score: str) -> float:
    means = [results.interval(Row(dataset, *condition, SAR_EM), score).mean for dataset in results.datasets]
    means = [mean for mean in means if isfinite(mean)]
    return sum(means) / len(means) if means else nan


def _no_answer(question: str, reason: str) -> Answer:
    return Answer(question, "Cannot be answered", (f"These results do not answer the question: {reason}.",))
