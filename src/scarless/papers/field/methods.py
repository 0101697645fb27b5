"""The specification of the comparison, and the method that it adds: gradient boosting on the true classes."""

from functools import cache
from pathlib import Path

from scarless.experiments import Spec, read_spec
from scarless.experiments.methods import CLASSES, Bench, Fit, Method, fit_of, knowing
from scarless.models import NaiveClassifier
from scarless.models.sar_stacking import default_boosting
from scarless.report.names import LABELS, TRUTH, MethodName

PATH = Path(__file__).with_name("spec.toml")

_PRIOR = "uses labels and the class prior"
_BALANCED = 'predict(X, decision="balanced") cuts at the estimated class prior.'
METHOD_NAMES = {
    "supervised-boosted": MethodName("supervised, boosted", TRUTH, "Gradient boosting on the true classes.", True),
    "naive-boosted": MethodName("naive, boosted", LABELS, "Gradient boosting that treats unlabelled rows as negative."),
    "ntc-tmi": MethodName("NTC-tMI", LABELS, "Naive ranking, cut by mutual information (Teisseyre et al. 2025)."),
    "ntc-median": MethodName("naive, median cut", LABELS, "Naive ranking, cut at the median of the unlabelled rows."),
    "ntc-prior": MethodName("naive, prior cut", _PRIOR, "Naive ranking; the share of the class prior is positive."),
    "pglin": MethodName("PGlin", LABELS, "Class probability and propensity from the naive model (Gerych et al. 2022)."),
    "lbe": MethodName("LBE", LABELS, "Two logistic models by 20 EM steps (Gong et al. 2022)."),
    "tm": MethodName("TM", LABELS, "Two models in turn, positives by a quantile (Furmanczyk et al. 2023)."),
    "jerm": MethodName("JERM", LABELS, "Two models in turn, positives by spies (Rejchel et al. 2024)."),
    "bagging": MethodName("PU bagging", LABELS, "Bagging of logistic models (Mordelet and Vert 2014)."),
    "bagging-trees": MethodName("PU bagging, trees", LABELS, "Bagging of decision trees (Mordelet and Vert 2014)."),
    "two-step": MethodName("two steps", LABELS, "Reliable negatives by spies, then a logistic fit (Liu et al. 2002)."),
    "two-step-boosted": MethodName("two steps, boosted", LABELS, "Reliable negatives by spies, then boosting."),
    "upu": MethodName("uPU", LABELS, "Unbiased risk, prior by KM2 (du Plessis et al. 2015)."),
    "upu-prior": MethodName("uPU, known prior", _PRIOR, "Unbiased risk with the true class prior."),
    "nnpu": MethodName("nnPU boosting", LABELS, "Boosting on the non-negative risk, prior by KM2 (Kiryo et al. 2017)."),
    "nnpu-prior": MethodName("nnPU, known prior", _PRIOR, "Boosting on the non-negative risk with the true prior."),
    "pue": MethodName("PUe", LABELS, "Risk weighted by the naive model, prior by KM2 (Wang et al. 2023)."),
    "pue-prior": MethodName("PUe, known prior", _PRIOR, "Risk weighted by the naive model, with the true prior."),
    "scar": MethodName("SCAR likelihood", LABELS, "One label frequency, fitted together with the classifier."),
    "scar-dedpul": MethodName("SCAR-DEDPUL", LABELS, "One label frequency for all rows, estimated by DEDPUL."),
    "scar-elkan-noto": MethodName("SCAR-Elkan-Noto", LABELS, "One label frequency, estimated by Elkan and Noto."),
    "scar-best-bin": MethodName("SCAR-best-bin", LABELS, "One label frequency for all rows, estimated by best bin."),
    "sarem-nameless": MethodName("SAREM, no names", LABELS, "SAREMClassifier; every attribute may drive the labels."),
    "search": MethodName("search", LABELS, "SAREMClassifierCV, told the names of the propensity attributes."),
    "sarem-boosted": MethodName("SAREM, boosted", LABELS, "SAREMClassifier with boosting for the class, told names."),
    "stack": MethodName("stack", LABELS, "SARStackingClassifier, told the names of the propensity attributes."),
    "stack-balanced": MethodName("stack, balanced", LABELS, f"The same fit; {_BALANCED}"),
    "stack-nameless": MethodName("stack, no names", LABELS, "SARStackingClassifier; every attribute may drive labels."),
    "stack-nameless-balanced": MethodName("stack, no names, balanced", LABELS, f"The same fit; {_BALANCED}"),
}


@cache
def specification(*, quick: bool = False) -> Spec:
    """Return the specification of the comparison, or of a quick version on data that need no download."""
    return read_spec(PATH, quick=quick)


@knowing(CLASSES)
def supervised_boosted(bench: Bench) -> Fit:
    """Gradient boosting on the true classes."""
    task = bench.task

    def fit() -> Fit:
        model = NaiveClassifier(default_boosting().set_params(random_state=0))
        return fit_of(bench, model.fit(task.seen_train, task.split.y_train), None, float("nan"))

    return bench.of_split.get(f"supervised-boosted/{task.n_seen}", fit)


METHODS: dict[str, Method] = {"supervised-boosted": supervised_boosted}
