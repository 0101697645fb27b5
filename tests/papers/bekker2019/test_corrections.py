"""The chapter on corrections, compared with numbers computed by hand."""

from tests.helpers import cells_of

from scarless.papers.bekker2019.story import corrections


def sentences(chapter):
    (only,) = chapter.lists
    return [point.text for point in only.points]


def test_corrections_by_hand(make):
    error = {"sar-em": 0.07, "published-sar-em": 0.10, "scar-tice": 0.12, "published-scar-tice": 0.10}
    made = make(
        datasets=("adult", "splice"), settings=("all",), error=lambda *key: error[key[-1]], methods=tuple(error),
        propensity_error=lambda *_: 0.01, noise=0.0,
    )  # fmt: skip
    found = corrections(made.results)
    assert len(sentences(found)) == 2
    tice, sar = sentences(found)
    assert tice.startswith(
        "SCAR-TIcE, compared with publ. SCAR-TIcE: the mean MSE of f is higher by 0.0200 over 4 cases"
    )
    assert "clearly lower in 0 and clearly higher in 4" in tice
    assert "ROC-AUC changes by −0.020" in tice
    assert sar.startswith("SAR-EM, compared with publ. SAR-EM: the mean MSE of f is lower by 0.0300")
    assert "clearly lower in 4 and clearly higher in 0" in sar
    summary, details = found.tables
    assert cells_of(summary)[:3] == [
        ["MSE of f", "4", "0", "0", "4", "−0.0200"],
        ["ROC-AUC of f", "4", "0", "0", "4", "−0.020"],
        ["MSE of e", "4", "the same", "–", "–", "–"],
    ]
    assert cells_of(details)[0] == ["Adult", "−0.0200 ± 0.0000", "−0.0200 ± 0.0000"]


def test_corrections_without_a_clear_effect(make):
    made = make(
        datasets=("adult",), settings=("all",), n_propensity_attributes=(2,), n_splits=1, n_labellings=1,
        methods=("sar-em", "published-sar-em"),
    )  # fmt: skip
    (sentence,) = sentences(corrections(made.results))
    assert "the difference is clear in none of them" in sentence


def test_without_published_methods_the_chapter_is_empty(make):
    found = corrections(make(datasets=("adult",), methods=("supervised", "naive", "sar-em")).results)
    assert (found.lists, found.tables) == ((), ())
