"""Runs give the same records after interruptions and with any number of workers."""

import importlib.util
import json
import os
import shutil
import signal
from collections import Counter
from dataclasses import asdict, replace
from functools import partial
from itertools import permutations
from math import log
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from scarless import PublishedEMClassifier
from scarless.datasets import DatasetFileError, load_simulated
from scarless.experiments import Cell, Store, methods
from scarless.experiments import run as run_module
from scarless.experiments.methods import Fit
from scarless.experiments.protocol import Split, Task
from scarless.experiments.run import in_ten_bins, scores_of
from scarless.experiments.store import RECORDS, TIMINGS, key_of
from scarless.numerics.weighted_scores import calibration_error
from scarless.papers import METHODS as ALL_METHODS
from scarless.papers.bekker2019 import methods as bekker2019_methods
from scarless.papers.bekker2019 import specification

ROOT = Path(__file__).parents[2]
METHODS = {name: ALL_METHODS[name] for name in specification().methods}
run_experiment = partial(run_module.run_experiment, methods=METHODS)  # an experiment may pass its own methods
SPEC = replace(
    specification(),
    datasets=("first", "second"),
    n_propensity_attributes=(2,),
    n_splits=1,
    n_labellings=2,
    km_max_rows=40,
)
ONE = replace(SPEC, datasets=("first",), n_labellings=1)


def tiny(name, *, data_home=None, download=True):
    return load_simulated(120, 3, random_state=len(name))


def use_tiny_data(patch):
    """Load small tables, and stop the published EM algorithm, the slowest method, after few steps."""
    patch.setattr(run_module, "load_dataset", tiny)
    patch.setattr(bekker2019_methods, "PublishedEMClassifier", partial(PublishedEMClassifier, max_iter=5))


@pytest.fixture(autouse=True)
def tiny_data(monkeypatch):
    use_tiny_data(monkeypatch)


class Told:
    """A progress display that stores its calls."""

    def __init__(self):
        self.stages, self.messages = [], []

    def start(self, what, total):
        self.stages.append([what, total, []])

    def advance(self, amount, what):
        self.stages[-1][2].append((amount, what))

    def say(self, message):
        self.messages.append(message)


def lines(store):
    return sorted((store.folder / RECORDS).read_bytes().splitlines())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The records of an undisturbed run."""
    with pytest.MonkeyPatch.context() as patch:
        use_tiny_data(patch)
        return lines(run_experiment(SPEC, tmp_path_factory.mktemp("whole")))


def test_every_cell_has_one_record_for_every_method(whole):
    keys = Counter(key_of(json.loads(line)) for line in whole)
    assert keys == Counter((*asdict(cell).values(), method) for cell in SPEC.cells() for method in SPEC.methods)
    assert set(METHODS) == set(SPEC.methods)


def test_records_say_what_was_found(whole):
    for record in map(json.loads, whole):
        assert "error" not in record
        assert 0 < record["class_prior"] < 1
        assert record["converged"] or record["warnings"]
        assert ("mse_e" in record) == ("label_frequency" in record) == (record["method"] != "supervised")
        numbers = [value for value in record.values() if isinstance(value, float)]
        assert all(value == round(value, 10) for value in numbers)
        assert "-0.0" not in map(str, numbers)


def test_two_workers_write_the_same_bytes(whole, tmp_path):
    """Without published-sar-em, because the workers do not have the patch of `use_tiny_data` for this method."""
    methods = tuple(method for method in SPEC.methods if method != "published-sar-em")
    found = lines(run_experiment(replace(SPEC, methods=methods), tmp_path, jobs=2))
    assert found == [line for line in whole if json.loads(line)["method"] in methods]


def test_the_order_of_methods_settings_and_datasets_does_not_matter(whole, tmp_path):
    backwards = replace(SPEC, **{name: getattr(SPEC, name)[::-1] for name in ("methods", "settings", "datasets")})
    assert lines(run_experiment(backwards, tmp_path)) == whole


def test_one_dataset_alone_has_the_same_records(whole, tmp_path):
    quick = ("naive", "known-e", "scar-tice", "sar-em")
    alone = lines(run_experiment(replace(SPEC.only(("second",)), methods=quick), tmp_path))
    records = ((line, json.loads(line)) for line in whole)
    assert alone == [line for line, each in records if each["dataset"] == "second" and each["method"] in quick]


@pytest.mark.parametrize("method", METHODS)
def test_one_method_alone_has_the_same_records(whole, tmp_path, method):
    alone = lines(run_experiment(replace(SPEC, methods=(method,), datasets=("first",)), tmp_path))
    records = ((line, json.loads(line)) for line in whole)
    assert alone == [line for line, each in records if (each["dataset"], each["method"]) == ("first", method)]


@pytest.fixture(scope="module")
def one_ended(tmp_path_factory):
    """Return a function that gives another folder with the results of `ONE`."""
    with pytest.MonkeyPatch.context() as patch:
        use_tiny_data(patch)
        made = run_experiment(ONE, tmp_path_factory.mktemp("one") / "made").folder
    return lambda folder: Store(shutil.copytree(made, folder, dirs_exist_ok=True))


def test_any_record_that_is_missing_is_made_again_alone(one_ended, tmp_path):
    store = one_ended(tmp_path)
    path, complete = tmp_path / RECORDS, lines(store)
    for line in complete:
        path.write_bytes(b"".join(other + b"\n" for other in complete if other != line))
        run_experiment(ONE, tmp_path)
        assert lines(store) == complete


def test_a_line_cut_in_the_middle_is_made_again(one_ended, tmp_path):
    store = one_ended(tmp_path)
    path, complete = tmp_path / RECORDS, lines(store)
    content = path.read_bytes()
    for share in (0.7, 0.98):
        path.write_bytes(content[: int(share * len(content))])
        run_experiment(ONE, tmp_path)
        assert lines(store) == complete


@pytest.mark.parametrize("file", [RECORDS, TIMINGS])
def test_a_damaged_line_is_reported_and_computed_again(one_ended, tmp_path, file):
    store = one_ended(tmp_path)
    complete, content = lines(store), (tmp_path / file).read_bytes()
    for place in (3, len(content) // 2):
        (tmp_path / file).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.warns(UserWarning, match=r"line \d+ was damaged.*, and moved to damaged\.jsonl") as caught:
            run_experiment(ONE, tmp_path)
        assert file in str(caught[0].message)
        assert lines(store) == complete
        assert len(store.timings()) == len(complete)


def test_a_finished_experiment_loads_nothing_and_changes_nothing(one_ended, tmp_path, monkeypatch):
    store = one_ended(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(run_module, "load_dataset", lambda name, **options: pytest.fail("loaded"))
    told = Told()
    run_experiment(ONE, tmp_path, progress=told)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert [stage[:2] for stage in told.stages] == [["preparing", 0], ["running", 0]]
    assert len(store.records()) == 2 * len(METHODS)


def test_nothing_is_left_in_the_folder_but_results(one_ended, tmp_path):
    one_ended(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".lock", "records.jsonl", "spec.json", "timings.jsonl"]


SHARING = [("sar-em", "sar-em-refit"), ("scar-km2", "published-scar-km2")]


def slow_to_converge(monkeypatch):
    """Stop shared fits after one iteration, so that each warns."""
    for name in ("SAREMClassifier", "NaiveClassifier"):
        monkeypatch.setattr(methods, name, partial(getattr(methods, name), max_iter=1))


@pytest.mark.parametrize("names", [*SHARING, *(reversed_ for group in SHARING for reversed_ in [group[::-1]])])
def test_warnings_count_for_every_method_that_shares_a_result(tmp_path, monkeypatch, names):
    slow_to_converge(monkeypatch)
    together = run_experiment(replace(ONE, methods=tuple(names)), tmp_path / "together").records()
    alone = [
        record for name in names for record in run_experiment(replace(ONE, methods=(name,)), tmp_path / name).records()
    ]
    assert sorted(together, key=key_of) == sorted(alone, key=key_of)
    if "sar-em" in names:
        assert not any(record["converged"] for record in together)
        started = "SAREMClassifier did not converge in max_iter=1 iterations: one more step would gain"
        assert all(any(note.startswith(started) for note in record["warnings"]) for record in together)


def test_warnings_count_for_every_cell_that_shares_the_supervised_fit(tmp_path, monkeypatch):
    slow_to_converge(monkeypatch)
    spec = replace(SPEC, methods=("supervised",), datasets=("first",), n_labellings=3)
    records = run_experiment(spec, tmp_path).records()
    assert len(records) == 6
    assert not any(record["converged"] for record in records)
    assert len({json.dumps(record["warnings"]) for record in records if record["setting"] == "all"}) == 1


def test_a_record_made_after_resuming_has_its_warnings_too(tmp_path, monkeypatch):
    slow_to_converge(monkeypatch)
    store = run_experiment(ONE, tmp_path)
    path, complete = tmp_path / RECORDS, lines(store)
    for resumed in (*SHARING[0], *SHARING[1], "supervised"):
        path.write_bytes(b"".join(line + b"\n" for line in complete if json.loads(line)["method"] != resumed))
        run_experiment(ONE, tmp_path)
        assert lines(store) == complete, resumed


def test_a_failed_method_is_recorded_and_the_others_run(tmp_path, monkeypatch):
    def boom(bench):
        raise ArithmeticError("too much\nof it: é")

    monkeypatch.setitem(METHODS, "naive", boom)
    told = Told()
    store = run_experiment(replace(ONE, settings=("all",)), tmp_path, progress=told)
    failed = [record for record in store.records() if "error" in record]
    expected = {"dataset": "first", "setting": "all", "k": 2, "split": 0, "labelling": 0, "method": "naive"}
    assert failed == [{**expected, "error": "ArithmeticError: too much\nof it: é"}]
    assert len(store.records()) == len(store.timings()) == len(METHODS)
    assert told.messages == ["first/all/2/0/0/naive: ArithmeticError: too much\nof it: é"]
    monkeypatch.undo()
    monkeypatch.setattr(run_module, "load_dataset", lambda name, **options: pytest.fail("loaded"))
    run_experiment(replace(ONE, settings=("all",)), tmp_path)  # a failure is a result, and is not run again


def test_a_failed_shared_fit_fails_for_every_method_that_uses_it(tmp_path, monkeypatch):
    class Broken:
        def __init__(self, *args, **options):
            pass

        def fit(self, X, s):
            raise FloatingPointError("not today")

    monkeypatch.setattr(methods, "KernelMean", Broken)
    records = run_experiment(ONE, tmp_path).records()
    failed = {record["method"]: record["error"] for record in records if "error" in record}
    assert failed == dict.fromkeys(SHARING[1], "FloatingPointError: not today")


@pytest.mark.parametrize(
    "error", [DatasetFileError("no file\nhere"), ValueError("there is no dataset"), ImportError("needs pandas")]
)
def test_a_dataset_that_cannot_be_loaded_is_left_out_and_made_up_for_later(tmp_path, monkeypatch, whole, error):
    def load(name, **options):
        if name == "first":
            raise error
        return tiny(name, **options)

    told, spec = Told(), replace(SPEC, methods=("naive", "known-e"))
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "load_dataset", load)
        store = run_experiment(spec, tmp_path, progress=told)
    assert told.messages == [f"first is left out: {error}"]
    assert {record["dataset"] for record in store.records()} == {"second"}
    total = told.stages[1][1]
    assert total == sum(amount for amount, _ in told.stages[1][2]) > 0
    run_experiment(spec, tmp_path)
    assert lines(store) == [line for line in whole if json.loads(line)["method"] in spec.methods]


def test_options_reach_the_loader(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(run_module, "load_dataset", lambda name, **options: asked.append((name, options)) or tiny(name))
    run_experiment(replace(ONE, methods=("naive",)), tmp_path / "results", data_home=tmp_path, download=False)
    assert asked == [("first", {"data_home": tmp_path, "download": False})]


def test_progress_adds_up(tmp_path):
    told = Told()
    run_experiment(replace(SPEC, methods=("naive", "known-e")), tmp_path, progress=told)
    (preparing, n, prepared), (running, total, ran) = told.stages
    assert (preparing, n, prepared) == ("preparing", 2, [(1, "first"), (1, "second")])
    assert running == "running"
    assert total == sum(amount for amount, _ in ran)
    assert [what for _, what in ran[:2]] == ["first, naive", "first, known-e"]
    assert told.messages == []


def test_unknown_methods_are_refused_before_anything_happens(tmp_path):
    with pytest.raises(
        ValueError, match=r"There is no method 'sarem'\. The methods are supervised, .*, pub.* Did you mean 'sar-em'\?"
    ):
        run_experiment(replace(ONE, methods=("naive", "sarem")), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def own_method(bench):
    """The naive method, under another name."""
    return methods.naive(bench)


def test_an_experiment_may_have_methods_of_its_own(tmp_path):
    spec = replace(ONE, methods=("naive", "own"))
    store = run_module.run_experiment(spec, tmp_path, methods={"naive": methods.naive, "own": own_method})
    found = {name: [r for r in store.records() if r["method"] == name] for name in spec.methods}
    assert len(found["own"]) == 2
    assert [{**r, "method": "naive"} for r in found["own"]] == found["naive"]
    with pytest.raises(
        ValueError, match=r"There is no method 'own'\. The methods are supervised, .*, sar-em-refit, SAREM"
    ):
        run_module.run_experiment(spec, tmp_path / "new")


@pytest.mark.parametrize("jobs", [0, -1])
def test_at_least_one_job(tmp_path, jobs):
    with pytest.raises(ValueError, match=rf"jobs must be at least 1; got {jobs}\."):
        run_experiment(ONE, tmp_path, jobs=jobs)


def test_a_folder_of_another_specification_is_refused(tmp_path):
    run_experiment(replace(ONE, methods=("naive",)), tmp_path)
    with pytest.raises(ValueError, match="has results of another specification"):
        run_experiment(replace(ONE, methods=("known-e",)), tmp_path)


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path):
    (tmp_path / ".scratch-in-use").mkdir()
    with Store(tmp_path).locked():
        with pytest.raises(ValueError, match="Another process is writing"):
            run_experiment(ONE, tmp_path)
        assert (tmp_path / ".scratch-in-use").exists()


def test_the_results_do_not_depend_on_the_callers_threads(tmp_path, monkeypatch):
    """Sums by several threads differ in their last bits, so runs use one thread."""
    from threadpoolctl import threadpool_info, threadpool_limits

    seen = []
    naive = METHODS["naive"]

    def watching(bench):
        seen.append(max(pool["num_threads"] for pool in threadpool_info()))
        return naive(bench)

    def loading(name, **options):
        seen.append(max(pool["num_threads"] for pool in threadpool_info()))
        return tiny(name)

    monkeypatch.setitem(METHODS, "naive", watching)
    monkeypatch.setattr(run_module, "load_dataset", loading)
    with threadpool_limits(2):
        run_experiment(replace(ONE, methods=("naive",)), tmp_path)
    assert set(seen) == {1}


class Murderer(Told):
    """Kills every worker of a run as soon as there is a result; workers of other tests (of joblib) are not killed."""

    def __init__(self):
        super().__init__()
        self.spared = {child.pid for child in active_children()}

    def workers(self):
        return [child for child in active_children() if child.pid not in self.spared]

    def advance(self, amount, what):
        super().advance(amount, what)
        if self.stages[-1][0] == "running" and len(self.stages[-1][2]) == 1:
            for worker in self.workers():
                os.kill(worker.pid, signal.SIGKILL)


def test_a_killed_worker_is_reported_and_finished_runs_are_stored(tmp_path):
    spec = replace(SPEC, n_labellings=5, methods=("naive", "known-e", "scar-km2", "sar-em"))
    murderer = Murderer()
    with pytest.raises(
        RuntimeError, match=r"A worker process was killed, perhaps .* stored. Run the same command again"
    ):
        run_experiment(spec, tmp_path, jobs=2, progress=murderer)
    stored = lines(Store(tmp_path))
    assert 4 <= len(stored) < 4 * 20
    assert murderer.workers() == []
    complete = lines(run_experiment(spec, tmp_path))
    assert len(complete) == 4 * 20
    assert len(set(complete)) == len(complete)
    assert set(stored) <= set(complete)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for orphans in /proc")
def test_killed_in_the_middle_it_ends_with_the_same_bytes_and_no_orphans(tmp_path, monkeypatch):
    """`python -m benchmarks kill_and_resume` does the same ten times."""
    monkeypatch.undo()  # the child process uses the real data, so the run that it is compared with must too
    path = ROOT / "benchmarks" / "kill_and_resume.py"
    loaded = importlib.util.spec_from_file_location("kill", path)
    kill = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(kill)
    group, alive = kill.kill_once(tmp_path / "broken", 1, np.random.default_rng(4))
    assert alive
    left = kill.lines(tmp_path / "broken")
    for folder in ("broken", "whole"):
        run_experiment(kill.spec_of(1), tmp_path / folder)
    whole = kill.lines(tmp_path / "whole")
    assert 0 < len(left) < len(whole) == 8 * len(kill.METHODS)
    assert kill.lines(tmp_path / "broken") == whole
    assert kill.orphans([group]) == []


# --- Scores, by hand.


SPLIT = Split(
    X_train=np.zeros((8, 1)),
    y_train=np.array([1.0, 1, 1, 1, 0, 0, 0, 0]),
    X_test=np.zeros((4, 1)),
    y_test=np.array([1.0, 1, 0, 0]),
    n_original=1,
)
TASK = Task(
    cell=Cell("by hand", "all", 2, 0, 0),
    split=SPLIT,
    s_train=np.array([1.0, 0, 0, 0, 0, 0, 0, 0]),
    e_train=np.full(8, 0.3),
    e_test=np.array([0.4, 0.7, 0.2, 0.2]),
    seed=0,
    named=(),
    n_seen=1,
)
FIT = Fit(
    f=np.array([0.9, 0.4, 0.6, 0.1]),
    e=np.array([0.5, 0.3, 1.0, 0.0]),
    class_prior=0.75,
    label_frequency=0.2,
    n_iter=3,
)


def test_all_scores_of_four_rows():
    assert scores_of(FIT, TASK) == pytest.approx(
        {
            "mse_f": (0.1**2 + 0.6**2 + 0.6**2 + 0.1**2) / 4,
            "auc_f": 3 / 4,  # of four pairs, 0.4 < 0.6 is wrong
            "average_precision": (1 + 2 / 3) / 2,  # positives are first and third
            "accuracy_at_prior": 0.5,  # the two best rows are a positive and a negative
            "balanced_accuracy_at_prior": 0.5,
            "f1_at_prior": 0.5,
            "log_loss": -(2 * log(0.9) + 2 * log(0.4)) / 4,
            "calibration_error": (0.1 + 0.6 + 0.6 + 0.1) / 4,  # each row has a bin for itself
            "class_prior_error": 0.75 - 0.5,  # against the training rows
            "mse_e": (0.1**2 + 0.4**2) / 2,  # the positives only
            "mae_e": (0.1 + 0.4) / 2,
            "label_frequency_error": 0.2 - 0.25,  # one of four positives is labelled
        }
    )


def test_scores_of_a_decision_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y, called = rng.integers(2, size=(2, 60)).astype(float)
    task = replace(TASK, split=replace(SPLIT, y_test=y), e_test=np.full(60, 0.5))
    fit = replace(FIT, f=rng.random(60), e=None, decision=called)
    found = scores_of(fit, task)
    assert found["accuracy"] == pytest.approx(accuracy_score(y, called))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, called))
    assert found["f1"] == pytest.approx(f1_score(y, called))
    assert found["share_positive"] == called.mean()
    top = np.argsort(-fit.f)[: int(y.sum())]
    best = np.isin(np.arange(60), top).astype(float)
    assert found["accuracy_at_prior"] == pytest.approx(accuracy_score(y, best))
    assert found["balanced_accuracy_at_prior"] == pytest.approx(balanced_accuracy_score(y, best))
    assert found["f1_at_prior"] == pytest.approx(f1_score(y, best))


@pytest.mark.parametrize("transform", [lambda f: 3 * f - 7, np.exp, lambda f: f**3])
def test_scores_at_the_true_prior_depend_on_the_ranking_alone(transform):
    rng = np.random.default_rng(1)
    y = (rng.random(50) < 0.3).astype(float)
    task = replace(TASK, split=replace(SPLIT, y_test=y), e_test=np.full(50, 0.5))
    f = rng.random(50).round(1)  # with ties
    one, other = (scores_of(replace(FIT, f=g, e=None, is_probability=False), task) for g in (f, transform(f)))
    assert one == other


def test_scores_of_tied_rows_are_means_over_all_orders():
    f = np.array([0.9, 0.5, 0.5, 0.5, 0.5, 0.2, 0.2])
    y = np.array([0.0, 1, 1, 0, 1, 1, 0])  # four rows are called positive: the first, and three of the tied rows
    task = replace(TASK, split=replace(SPLIT, y_test=y), e_test=np.full(7, 0.5))
    ranked = replace(FIT, e=None, is_probability=False)
    tied = scores_of(replace(ranked, f=f), task)
    orders = [np.array([0, *order, 0, 0]) for order in permutations(range(4))]
    drawn = [scores_of(replace(ranked, f=f + 1e-6 * order), task) for order in orders]
    for name in ("accuracy_at_prior", "balanced_accuracy_at_prior", "f1_at_prior"):
        values = [found[name] for found in drawn]
        assert len(set(values)) > 1
        assert tied[name] == pytest.approx(np.mean(values), abs=1e-12)


@pytest.mark.parametrize(("interval", "covered"), [((0.4, 0.6), 1.0), ((0.5, 0.9), 1.0), ((0.51, 0.9), 0.0)])
def test_an_interval_covers_the_share_of_positives_in_the_dataset(interval, covered):
    found = scores_of(replace(FIT, interval=interval), TASK)  # 6 of 12 rows are positive
    assert found["class_prior_covered"] == covered
    assert found["class_prior_width"] == pytest.approx(interval[1] - interval[0])


def test_a_method_without_a_propensity_has_no_scores_of_it():
    without = scores_of(replace(FIT, e=None, label_frequency=float("nan")), TASK)
    full = scores_of(FIT, TASK)
    assert without == {name: full[name] for name in without}
    assert set(full) - set(without) == {"mse_e", "mae_e", "label_frequency_error"}


def test_propensities_of_negatives_do_not_count():
    other = replace(FIT, e=np.array([0.5, 0.3, 0.77, 0.88]))
    assert scores_of(other, TASK) == scores_of(FIT, TASK)


def test_a_perfect_fit_has_no_error():
    fit = Fit(f=SPLIT.y_test, e=TASK.e_test, class_prior=0.5, label_frequency=0.25, n_iter=1)
    found = scores_of(fit, TASK)
    ones = ["auc_f", "average_precision", *(f"{name}_at_prior" for name in ("accuracy", "balanced_accuracy", "f1"))]
    assert {found.pop(name) for name in ones} == {1.0}
    assert found.pop("log_loss") == pytest.approx(0.0, abs=1e-12)
    assert set(found.values()) == {0.0}


def test_certain_and_wrong_is_a_finite_loss():
    fit = replace(FIT, f=1.0 - SPLIT.y_test)
    assert scores_of(fit, TASK)["log_loss"] == pytest.approx(-log(1e-15), rel=1e-2)


def test_scores_are_plain_numbers():
    assert {type(value) for value in scores_of(FIT, TASK).values()} == {float}


def error_in_bins(p, y):
    return calibration_error(in_ten_bins(p, y))[0]


def test_calibration_error_by_hand():
    p = np.array([0.12, 0.18, 0.15, 0.95, 1.0])
    y = np.array([0.0, 1, 0, 1, 0])
    # Bin [0.1, 0.2): mean 0.15, observed 1/3, three rows. Bin [0.9, 1]: mean 0.975, observed 1/2, two rows.
    expected = 3 / 5 * abs(0.15 - 1 / 3) + 2 / 5 * abs(0.975 - 0.5)
    assert error_in_bins(p, y) == pytest.approx(expected, abs=1e-12)


def test_errors_of_different_bins_do_not_cancel_but_those_of_one_bin_do():
    assert error_in_bins(np.array([0.05, 0.55]), np.array([0.0, 1.0])) == pytest.approx((0.05 + 0.45) / 2)
    assert error_in_bins(np.array([0.5, 0.5]), np.array([0.0, 1.0])) == 0.0


ROWS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30)


@given(rows=ROWS, order=st.randoms(use_true_random=False))
def test_calibration_error_is_a_share_and_ignores_the_order_of_rows(rows, order):
    p, y = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    shuffled = list(rows)
    order.shuffle(shuffled)
    q, z = (np.array(column, dtype=float) for column in zip(*shuffled, strict=True))
    assert 0.0 <= error_in_bins(p, y) <= 1.0
    assert error_in_bins(q, z) == pytest.approx(error_in_bins(p, y), abs=1e-11)
    assert error_in_bins(p, y) >= abs(p.mean() - y.mean()) - 1e-11  # bins only add to the total error
