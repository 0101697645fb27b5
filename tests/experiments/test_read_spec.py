"""Specifications of one's own: defaults for all that is not said, and one sentence for all that is wrong."""

import pytest

from scarless.experiments import read_spec
from scarless.experiments.spec import BUNDLED, JUDGED, USUAL_METHODS
from scarless.report.names import SCORES

FILE = '[datasets.mine]\nfile = "mine.csv"\nclass = "ill"\n'


@pytest.fixture
def read(tmp_path):
    def read(text, **options):
        (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
        return read_spec(tmp_path / "mine.toml", **options)

    return read


def test_three_lines_are_enough(read, tmp_path):
    spec = read(FILE)
    assert (spec.name, spec.title, spec.seed, spec.folder) == ("mine", "mine", 0, str(tmp_path))
    assert (spec.datasets, spec.methods, spec.mechanisms) == (("mine",), tuple(USUAL_METHODS), ("added",))
    assert spec.own_datasets == {"mine": {"file": "mine.csv", "class": "ill"}}


def test_nothing_at_all_is_enough(read):
    assert read("").datasets == tuple(BUNDLED)


def test_own_methods_come_beside_the_usual_ones_unless_others_are_named(read):
    mine = '[methods.mine]\nestimator = "a:B"\n'
    assert read(mine).methods == (*USUAL_METHODS, "mine")
    assert read(f'[methods]\nuse = ["naive"]\n{mine}').methods == ("naive", "mine")
    assert read(f'[methods]\nuse = ["mine", "naive"]\n{mine}').methods == ("naive", "mine")
    assert read('methods = ["DEDPUL"]').methods == ("DEDPUL",)


def test_own_datasets_take_the_place_of_ours_unless_these_are_named_too(read):
    assert read(FILE).datasets == ("mine",)
    assert read(f'[datasets]\nuse = ["simulated"]\n{FILE}').datasets == ("simulated", "mine")


def test_labels_come_from_the_attributes_that_datasets_name(read):
    named = f'{FILE}propensity_attributes = ["age"]\n'
    assert read(named).mechanisms == ("attributes",)
    assert read(f'mechanisms = ["added", "attributes"]\n{named}').mechanisms == ("added", "attributes")
    assert read(f'[mechanisms.flat]\nmechanism = "SCAR"\n{named}').mechanisms == ("flat",)
    with pytest.raises(ValueError, match=r"mine has propensity_attributes and simulated has not, .* \[\"added\"\]\."):
        read(f'[datasets]\nuse = ["simulated"]\n{named}')


def test_quick_has_a_default_and_may_choose_among_own_names(read):
    assert (read(FILE, quick=True).n_splits, read(FILE, quick=True).n_labellings) == (2, 1)
    two = f'{FILE}[datasets.more]\nfile = "more.csv"\nclass = "ill"\n[quick]\ndatasets = ["more"]\n'
    assert read(two).datasets == ("mine", "more")
    quick = read(two, quick=True)
    assert (quick.datasets, list(quick.own_datasets), quick.n_splits) == (("more",), ["more"], 5)


def test_a_question_is_a_pair_or_says_more(read):
    spec = read(
        '[questions]\n"Better?" = ["sar-em", "naive", "scar-tice"]\n'
        '"Ranks better?" = {better = "sar-em", than = "naive", by = "auc_f"}'
    )
    assert spec.questions == {
        "Better?": {"better": "sar-em", "than": ["naive", "scar-tice"], "by": "mse_f"},
        "Ranks better?": {"better": "sar-em", "than": ["naive"], "by": "auc_f"},
    }


def test_questions_are_judged_by_every_score_that_has_a_better_end():
    assert set(JUDGED) == {name for name, score in SCORES.items() if score.lower_is_better is not None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[datasets.mine]\nfil = 'a.csv'", r"\[datasets\.mine\] has unknown fil\. Did you mean 'file'\?"),
        ("[datasets.mine]\nclass = 'ill'", r"\[datasets\.mine\] must have either file or callable; it has neither"),
        (
            "[datasets.mine]\nfile = 'a.csv'\ncallable = 'a:b'",
            r"\[datasets\.mine\] must have either file or callable; it has both",
        ),
        ("[datasets.mine]\nfile = 'a.csv'", r"\[datasets\.mine\]: class must be a text; it is missing"),
        ("[datasets.mine]\nfile = 3", r"\[datasets\.mine\]: file must be a text; it is 3"),
        ("[datasets.mine]\ncallable = 'a:b'\nclass = 'c'", "class does not go with callable"),
        (f"{FILE}parameters = {{a = 1}}", "parameters does not go with file"),
        (f"{FILE}positive = ['a']", r"positive must be one value of the class; it is \['a'\]"),
        (f"{FILE}propensity_attributes = 'age'", "propensity_attributes must be a list of columns; it is 'age'"),
        (f"{FILE}propensity_attributes = []", r"propensity_attributes must be a list of columns; it is \[\]"),
        ("[datasets]\nmine = 3", r"\[datasets\.mine\] must be a table; it is 3"),
        ("[datasets]\nuse = 3", r"\[datasets\]: use must be a list of names; it is 3"),
        (FILE.replace(".mine", '."../mine"'), r"'\.\./mine' must be a name of letters, digits, - and _"),
        ("[methods.mine]\nparameters = {}", r"\[methods\.mine\]: estimator must be a text; it is missing"),
        ("[methods.mine]\nestimator = 'a:b'\nC = 1", r"\[methods\.mine\] has unknown C\. There are estimator, param"),
        ("[methods.mine]\nestimator = 'a:b'\nparameters = 3", "parameters must be a table; it is 3"),
        ("[methods.mine]\nestimator = 'a:b'\nparameters = {day = 2020-01-01}", "texts, numbers, true, false, lists"),
        ("[mechanisms.all]\nmechanism = 'SCAR'", r"\[mechanisms\]: 'all' is taken\. Choose another name"),
        ("[mechanisms.mine]\nparameters = {}", r"must have either mechanism or callable; it has neither"),
        ("own_methods = {a = {}}", r"mine\.toml has unknown own_methods\. Did you mean 'methods'\?"),
        ("questions = 3", r"\[questions\] must be a table; it is 3"),
        ("[questions]\na = 'naive'", r"'a' must be a pair of methods, such as \[\"mine\", \"naive\"\]"),
        ("[questions]\na = ['naive']", "must be a pair of methods"),
        ("[questions]\na = ['naive', 'sarem']", r"asks after 'sarem', which is no method .* Did you mean 'sar-em'\?"),
        (
            "[questions]\na = {better = 'naive', than = 'sar-em', by = 'auc'}",
            r"there is no score 'auc'\. Did you mean 'auc_f'\?",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(read, text, message):
    with pytest.raises(ValueError, match=message):
        read(text)


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "spec.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"spec\.toml is no text in UTF-8"):
        read_spec(tmp_path / "spec.toml")
