"""Specifications: valid and invalid files, and seeds that depend on names only."""

import hashlib
import json
from collections import Counter
from dataclasses import fields, replace
from itertools import groupby, product

import numpy as np
import pytest

from scarless.experiments import Cell, Spec, check_spec, read_spec
from scarless.experiments.spec import BUNDLED, DEFAULTS, QUESTION_SCORES, USUAL_METHODS
from scarless.papers.bekker2019 import specification
from scarless.report.names import SCORES

TOP = {
    "name": "small",
    "title": "A título with “quotes” and \\",
    "seed": 3,
    "datasets": ["one", "two"],
    "settings": ["original", "all"],
    "n_propensity_attributes": [2, 1],
    "n_splits": 2,
    "n_labellings": 3,
    "test_share": 0.25,
    "methods": ["naive", "sar-em"],
}
LABELLING = {"added_attributes": 3, "clusters": 4, "low": 0.1, "high": 0.9}
OPTIONS = {"C": 2.0, "km_max_rows": 50}
ALL = {**TOP, **LABELLING, **OPTIONS}


def toml(table):
    """Write TOML with JSON: texts, numbers and lists have the same form in both."""
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in table.items())


@pytest.fixture
def read(tmp_path):
    def read(*, quick=None, more="", **changes):
        values = {**ALL, **changes}
        top, labelling, options = ({key: values[key] for key in group} for group in (TOP, LABELLING, OPTIONS))
        text = f"{toml(top)}{more}\n[labelling]\n{toml(labelling)}[options]\n{toml(options)}"
        path = tmp_path / "spec.toml"
        path.write_text(text if quick is None else f"{text}[quick]\n{quick}", encoding="utf-8")
        return read_spec(path, quick=quick is not None)

    return read


def test_a_file_comes_back_as_it_was_written(read):
    found = read().entries()
    assert {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()} == ALL


def test_the_groups_of_a_file_do_not_matter(read, tmp_path):
    path = tmp_path / "flat.toml"
    path.write_text(toml(dict(reversed(ALL.items()))), encoding="utf-8")
    assert read_spec(path) == read()
    assert read_spec(path).digest == read().digest


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"seed": -1}, "seed must be at least 0"),
        ({"datasets": []}, "datasets must name at least one dataset, and none twice"),
        ({"datasets": ["one", "one"]}, "datasets must name at least one dataset, and none twice"),
        ({"methods": []}, "methods must name at least one method, and none twice"),
        ({"methods": ["naive", "naive"]}, "methods must name at least one method, and none twice"),
        ({"settings": []}, "settings must name at least one of all, original, and none twice"),
        ({"settings": ["all", "all"]}, "settings must name at least one of all, original, and none twice"),
        ({"settings": ["all", "some"]}, "settings must name at least one of all, original, and none twice"),
        (
            {"n_propensity_attributes": []},
            "n_propensity_attributes must have different numbers from 1 to added_attributes",
        ),
        ({"n_propensity_attributes": [0, 1]}, "n_propensity_attributes must have different numbers from 1 to added_"),
        ({"n_propensity_attributes": [2, 4]}, "n_propensity_attributes must have different numbers from 1 to added_"),
        ({"n_propensity_attributes": [2, 2]}, "n_propensity_attributes must have different numbers from 1 to added_"),
        ({"added_attributes": 1}, "n_propensity_attributes must have different numbers from 1 to added_attributes"),
        ({"n_splits": 100_000_000}, "n_splits = 100,000,000 and n_labellings = .* runs, but at most 1,000,000 are"),
        ({"n_splits": 0}, "n_splits, n_labellings and clusters must be at least 1"),
        ({"n_labellings": 0}, "n_splits, n_labellings and clusters must be at least 1"),
        ({"clusters": 0}, "n_splits, n_labellings and clusters must be at least 1"),
        ({"test_share": 0.0}, "test_share must lie strictly between 0 and 1"),
        ({"test_share": 1.0}, "test_share must lie strictly between 0 and 1"),
        ({"low": 0.0}, "low and high must satisfy 0 < low < high <= 1"),
        ({"low": 0.9}, "low and high must satisfy 0 < low < high <= 1"),
        ({"high": 1.1}, "low and high must satisfy 0 < low < high <= 1"),
        ({"C": 0.0}, "C must be above 0"),
        ({"km_max_rows": 9}, "km_max_rows must be at least 10"),
    ],
)
def test_every_rule_is_named_when_it_is_broken(read, changes, rule):
    with pytest.raises(ValueError, match=rf"spec\.toml: {rule}"):
        read(**changes)


def test_all_broken_rules_are_named_at_once(read):
    with pytest.raises(ValueError, match=r"spec\.toml: test_share .*; low and high .*; C must be above 0\.$"):
        read(test_share=2.0, low=0.95, C=-1)


def test_bounds_that_are_allowed(read):
    spec = read(high=1.0, n_propensity_attributes=[3], n_splits=1, n_labellings=1, clusters=1, km_max_rows=10, seed=0)
    assert spec.n_propensity_attributes == (3,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"datasets": "one"}, "datasets must be a list of texts; it is 'one'"),
        ({"methods": ["naive", 3]}, r"methods must be a list of texts; it is \['naive', 3\]"),
        ({"n_propensity_attributes": [1, 2.0]}, r"n_propensity_attributes must be a list of whole numbers; it is \["),
        ({"n_propensity_attributes": 2}, "n_propensity_attributes must be a list of whole numbers; it is 2"),
        ({"n_splits": "5"}, "n_splits must be a whole number; it is '5'"),
        ({"n_splits": True}, "n_splits must be a whole number; it is True"),
        ({"seed": 1.5}, "seed must be a whole number; it is 1.5"),
        ({"low": "0.2"}, "low must be a number; it is '0.2'"),
        ({"test_share": [0.2]}, r"test_share must be a number; it is \[0.2\]"),
        ({"name": 3}, "name must be a text; it is 3"),
    ],
)
def test_every_entry_has_its_kind(read, changes, message):
    with pytest.raises(ValueError, match=message):
        read(**changes)


def test_whole_numbers_are_numbers(read):
    assert read(C=2) == read(C=2.0)
    assert read(C=2).digest == read(C=2.0).digest


USUAL = {**DEFAULTS, "name": "spec", "title": "small", "datasets": BUNDLED, "methods": USUAL_METHODS}


@pytest.mark.parametrize("name", ALL)
def test_an_entry_that_is_missing_has_its_default(read, tmp_path, name):
    path = tmp_path / "spec.toml"
    path.write_text(toml({key: value for key, value in ALL.items() if key != name}), encoding="utf-8")
    usual = tuple(USUAL[name]) if isinstance(USUAL[name], list) else USUAL[name]
    found = read_spec(path)
    assert found == replace(read(), **{name: usual})


@pytest.mark.parametrize("name", ALL)
def test_no_entry_of_stored_results_may_be_missing(name):
    with pytest.raises(ValueError, match=rf"spec\.json lacks {name}\."):
        check_spec({key: value for key, value in ALL.items() if key != name}, "spec.json")


def test_unknown_entries_are_refused(read):
    with pytest.raises(
        ValueError, match=r"spec\.toml has unknown entries colour, n_split\. Did you mean 'n_splits'\?$"
    ):
        read(more='n_split = 3\ncolour = "blue"')


def test_an_entry_in_two_places_is_refused(read):
    with pytest.raises(ValueError, match=r"spec\.toml sets clusters twice, once in \[labelling\]\. Set it only once"):
        read(more="clusters = 3")


def test_a_group_must_be_a_table(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text("labelling = 3")
    with pytest.raises(ValueError, match=r"spec\.toml, \[labelling\] must be a table; it is 3\."):
        read_spec(path)
    path.write_text(f"quick = 3\n{toml(ALL)}")
    with pytest.raises(ValueError, match=r"spec\.toml, \[quick\] must be a table; it is 3\."):
        read_spec(path, quick=True)


def test_invalid_toml_is_refused(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text("name = ")
    with pytest.raises(ValueError, match=r"spec\.toml is not valid TOML: "):
        read_spec(path)


def test_the_quick_table_changes_what_it_names_and_only_if_asked(read, tmp_path):
    quick = read(
        quick='n_splits = 1\ndatasets = ["two"]\n[quick.options]\nkm_max_rows = 20\n[quick.labelling]\nlow = 0.3'
    )
    assert read_spec(tmp_path / "spec.toml") == read()
    assert quick == replace(read(), n_splits=1, datasets=("two",), km_max_rows=20, low=0.3)


def test_the_quick_table_is_checked(read):
    with pytest.raises(ValueError, match="has unknown entries speed"):
        read(quick="speed = 3")
    with pytest.raises(ValueError, match="C must be above 0"):
        read(quick="C = 0.0")


OTHERS = {
    "name": "other",
    "title": "other",
    "seed": 4,
    "datasets": ["two", "one"],
    "settings": ["all", "original"],
    "n_propensity_attributes": [2],
    "n_splits": 3,
    "n_labellings": 4,
    "test_share": 0.26,
    "methods": ["naive"],
    "added_attributes": 4,
    "clusters": 5,
    "low": 0.11,
    "high": 0.91,
    "C": 1.0,
    "km_max_rows": 51,
}
OWN = {
    "mechanisms": ("added", "flat"),
    "own_methods": {"naive": {"estimator": "a:b"}},
    "own_mechanisms": {"flat": {"mechanism": "SCAR"}},
    "seeds": "teisseyre2025",
    "scaling": "standardise",
    "max_rows": 100,
    "min_labels": 5,
}
APART = {
    "own_datasets": {"one": {"file": "a.csv"}},
    "questions": {"?": {}},
    "anchors": {"?": {}},
    "folder": "elsewhere",
}


def test_the_digest_changes_with_every_field_but_the_datasets_and_the_questions(read):
    assert {*OTHERS, *OWN, *APART} == {field.name for field in fields(Spec)}
    digests = {read(**{name: value}).digest for name, value in OTHERS.items()}
    assert len(digests | {read().digest}) == len(OTHERS)
    own = {replace(read(), **{name: value}).digest for name, value in OWN.items()}
    assert len(own | digests | {read().digest}) == len(OTHERS) + len(OWN)
    assert all(replace(read(), **{name: value}).digest == read().digest for name, value in APART.items())
    assert read(datasets=OTHERS["datasets"]).digest == read().digest


def test_only_keeps_the_order_of_the_specification(read):
    spec = read(datasets=["one", "two", "three"])
    assert spec.only(("three", "one")) == replace(spec, datasets=("one", "three"))


def test_only_refuses_unknown_datasets(read):
    with pytest.raises(ValueError, match=r"'tow' is not a dataset of small\. Did you mean 'two'\?"):
        read().only(("one", "tow"))
    with pytest.raises(ValueError, match=r"'adult' is not a dataset of small\. Its datasets are one, two\."):
        read().only(("adult",))


def test_cells_that_share_a_split_are_neighbours_and_datasets_keep_their_order():
    spec = specification()
    splits = [key for key, _ in groupby(spec.cells(), lambda cell: (cell.split, cell.dataset))]
    assert splits == list(product(range(5), spec.datasets))


def test_a_cell_is_written_with_all_its_parts():
    assert Cell("adult", "original", 2, 3, 4).key == "adult/original/k2/split3/labelling4"


def grid_keys(spec):
    """The keys of everything that is random in an experiment."""
    yield from (("attributes", dataset) for dataset in spec.datasets)
    yield from (("split", dataset, split) for dataset in spec.datasets for split in range(spec.n_splits))
    for cell in spec.cells():
        yield ("methods", cell.dataset, cell.setting, cell.k, cell.split, cell.labelling)
        if cell.setting == spec.settings[0]:
            yield ("labels", cell.dataset, cell.k, cell.split, cell.labelling)


def state(seed):
    return tuple(seed.generate_state(4).tolist())


def test_all_seeds_of_the_full_grid_differ():
    spec = specification()
    states = Counter(state(spec.seed_of(*key)) for key in grid_keys(spec))
    assert len(states) == 8 + 8 * 5 + 800 + 400


def test_a_seed_depends_on_its_name_and_the_specifications_seed_only():
    spec = specification()
    part = replace(spec.only(("splice", "adult")), n_splits=2, methods=("naive",), n_labellings=1, title="other")
    for key in grid_keys(part):
        assert state(part.seed_of(*key)) == state(spec.seed_of(*key))
        assert state(replace(spec, seed=2020).seed_of(*key)) != state(spec.seed_of(*key))
    backwards = {key: state(spec.seed_of(*key)) for key in reversed(list(grid_keys(part)))}
    assert backwards == {key: state(spec.seed_of(*key)) for key in grid_keys(part)}


def test_a_seed_is_the_hash_of_its_name_on_every_platform():
    digest = hashlib.sha256(b'["labels", "adult", 2, 0, 3]').digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)]
    found = specification().seed_of("labels", "adult", 2, 0, 3)
    assert state(found) == state(np.random.SeedSequence([2019, *words]))


def test_a_number_and_its_text_are_different_names():
    spec = specification()
    assert state(spec.seed_of("labels", 2)) != state(spec.seed_of("labels", "2"))
    assert state(spec.seed_of("a", "b")) != state(spec.seed_of("ab"))


# --- Specifications of one's own: defaults for all that is not said, and one sentence for all that is wrong.


FILE = '[datasets.mine]\nfile = "mine.csv"\nclass = "ill"\n'


@pytest.fixture
def read_text(tmp_path):
    def read_text(text, **options):
        (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
        return read_spec(tmp_path / "mine.toml", **options)

    return read_text


def test_three_lines_are_enough(read_text, tmp_path):
    spec = read_text(FILE)
    assert (spec.name, spec.title, spec.seed, spec.folder) == ("mine", "mine", 0, str(tmp_path))
    assert (spec.datasets, spec.methods, spec.mechanisms) == (("mine",), tuple(USUAL_METHODS), ("added",))
    assert spec.own_datasets == {"mine": {"file": "mine.csv", "class": "ill"}}


def test_an_empty_specification_is_valid(read_text):
    assert read_text("").datasets == tuple(BUNDLED)


def test_own_methods_come_beside_the_usual_ones_unless_others_are_named(read_text):
    mine = '[methods.mine]\nestimator = "a:B"\n'
    assert read_text(mine).methods == (*USUAL_METHODS, "mine")
    assert read_text(f'[methods]\nuse = ["naive"]\n{mine}').methods == ("naive", "mine")
    assert read_text(f'[methods]\nuse = ["mine", "naive"]\n{mine}').methods == ("naive", "mine")
    assert read_text('methods = ["DEDPUL"]').methods == ("DEDPUL",)


def test_own_datasets_take_the_place_of_ours_unless_these_are_named_too(read_text):
    assert read_text(FILE).datasets == ("mine",)
    assert read_text(f'[datasets]\nuse = ["simulated"]\n{FILE}').datasets == ("simulated", "mine")


def test_labels_come_from_the_attributes_that_datasets_name(read_text):
    named = f'{FILE}propensity_attributes = ["age"]\n'
    assert read_text(named).mechanisms == ("attributes",)
    assert read_text(f'mechanisms = ["added", "attributes"]\n{named}').mechanisms == ("added", "attributes")
    assert read_text(f'[mechanisms.flat]\nmechanism = "SCAR"\n{named}').mechanisms == ("flat",)
    with pytest.raises(ValueError, match=r"mine has propensity_attributes but simulated does not, .* \[\"added\"\]\."):
        read_text(f'[datasets]\nuse = ["simulated"]\n{named}')


def test_quick_has_a_default_and_may_choose_among_own_names(read_text):
    assert (read_text(FILE, quick=True).n_splits, read_text(FILE, quick=True).n_labellings) == (2, 1)
    two = f'{FILE}[datasets.more]\nfile = "more.csv"\nclass = "ill"\n[quick]\ndatasets = ["more"]\n'
    assert read_text(two).datasets == ("mine", "more")
    quick = read_text(two, quick=True)
    assert (quick.datasets, list(quick.own_datasets), quick.n_splits) == (("more",), ["more"], 5)


def test_a_question_is_a_pair_or_says_more(read_text):
    spec = read_text(
        '[questions]\n"Better?" = ["sar-em", "naive", "scar-tice"]\n'
        '"Ranks better?" = {better = "sar-em", than = "naive", by = "auc_f"}'
    )
    assert spec.questions == {
        "Better?": {"better": "sar-em", "than": ["naive", "scar-tice"], "by": "mse_f"},
        "Ranks better?": {"better": "sar-em", "than": ["naive"], "by": "auc_f"},
    }


def test_questions_are_judged_by_every_score_that_has_a_better_end():
    assert set(QUESTION_SCORES) == {name for name, score in SCORES.items() if score.lower_is_better is not None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[datasets.mine]\nfil = 'a.csv'", r"\[datasets\.mine\] has an unknown entry fil\. Did you mean 'file'\?"),
        ("[datasets.mine]\nclass = 'ill'", r"\[datasets\.mine\] must have either file or callable; it has neither"),
        (
            "[datasets.mine]\nfile = 'a.csv'\ncallable = 'a:b'",
            r"\[datasets\.mine\] must have either file or callable; it has both",
        ),
        ("[datasets.mine]\nfile = 'a.csv'", r"\[datasets\.mine\]: class must be a text; it is missing"),
        ("[datasets.mine]\nfile = 3", r"\[datasets\.mine\]: file must be a text; it is 3"),
        ("[datasets.mine]\ncallable = 'a:b'\nclass = 'c'", r"class must not be used with callable\. Remove class"),
        (f"{FILE}parameters = {{a = 1}}", r"parameters must not be used with file\. Remove parameters"),
        (f"{FILE}positive = ['a']", r"positive must be one value of the class; it is \['a'\]"),
        (f"{FILE}propensity_attributes = 'age'", "propensity_attributes must be a list of columns; it is 'age'"),
        (f"{FILE}propensity_attributes = []", r"propensity_attributes must be a list of columns; it is \[\]"),
        ("[datasets]\nmine = 3", r"\[datasets\.mine\] must be a table; it is 3"),
        ("[datasets]\nuse = 3", r"\[datasets\]: use must be a list of names; it is 3"),
        (FILE.replace(".mine", '."../mine"'), r"'\.\./mine' must consist of letters, digits, - and _"),
        ("[methods.mine]\nparameters = {}", r"\[methods\.mine\]: estimator must be a text; it is missing"),
        (
            "[methods.mine]\nestimator = 'a:b'\nC = 1",
            r"\[methods\.mine\] has an unknown entry C\. The known entries are estimator, param",
        ),
        (
            "[methods.mine]\nestimator = 'a:b'\npackages = 'pulearn'",
            r"\[methods\.mine\]: packages must be a list of names; it is 'pulearn'",
        ),
        ("[methods.mine]\nestimator = 'a:b'\nparameters = 3", "parameters must be a table; it is 3"),
        ("[methods.mine]\nestimator = 'a:b'\nparameters = {day = 2020-01-01}", "texts, numbers, true, false, lists"),
        ("[mechanisms.all]\nmechanism = 'SCAR'", r"\[mechanisms\]: 'all' is a reserved name\. Choose another name"),
        ("[mechanisms.mine]\nparameters = {}", r"must have one of mechanism, callable, by; it has none of them"),
        ("own_methods = {a = {}}", r"mine\.toml has unknown entries own_methods\. Did you mean 'methods'\?"),
        ("questions = 3", r"\[questions\] must be a table; it is 3"),
        ("[questions]\na = 'naive'", r"'a' must be a list of two or more methods, such as \[\"mine\", \"naive\"\]"),
        ("[questions]\na = ['naive']", "must be a list of two or more methods"),
        ("[questions]\na = ['naive', 'sarem']", r"names 'sarem', which is not a method .* Did you mean 'sar-em'\?"),
        (
            "[questions]\na = {better = 'naive', than = 'sar-em', by = 'auc'}",
            r"there is no score 'auc'\. Did you mean 'auc_f'\?",
        ),
    ],
)
def test_invalid_specifications_are_refused(read_text, text, message):
    with pytest.raises(ValueError, match=message):
        read_text(text)


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "spec.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"spec\.toml is not UTF-8 text"):
        read_spec(tmp_path / "spec.toml")


def test_numbers_of_other_authors_are_read_from_a_file(tmp_path):
    (tmp_path / "numbers.toml").write_text('[source]\na = "A (2025)"\n')
    (tmp_path / "spec.toml").write_text('anchors = "numbers.toml"')
    assert read_spec(tmp_path / "spec.toml").anchors == {"source": {"a": "A (2025)"}}
    assert read_spec(tmp_path / "spec.toml").entries()["anchors"] == {"source": {"a": "A (2025)"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("anchors = 3", r"anchors must be the name of a TOML file; it is 3"),
        ('anchors = "nowhere.toml"', r"anchors names 'nowhere\.toml', but there is no file"),
        ('anchors = "broken.toml"', r"broken\.toml is not valid TOML"),
    ],
)
def test_a_wrong_file_of_numbers_is_refused(tmp_path, text, message):
    (tmp_path / "broken.toml").write_text("= 3")
    (tmp_path / "spec.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_spec(tmp_path / "spec.toml")
