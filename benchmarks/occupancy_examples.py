"""List of published examples of occupancy models: their size, model and source.

Data: published tables in the folder that the variable SCARLESS_OCCUPANCY_DATA names, and data that books simulate in R.
Time: a second.

The published tables are not part of scarless, because their licences are not free or not known;
benchmarks/data/README.md says where they are. Without them, only the examples that books simulate are available.
`occupancy_simulated` has surveys of the same forms, for which nothing is needed.

In an occupancy model a site is a row, a visit is a look, "occupied" is the class (psi is f here) and "seen" is the
label (p is e here). Each function of this module returns an `Example`: the data and the model, and what R's
``unmarked`` (``occu``, ``occuFP``) or PRESENCE printed for it.

Printed numbers are not exact: R stops its optimisation early and computes slopes with a coarse step, and PRESENCE
computes second derivatives with a coarse step. The last digits therefore often differ from those of the exact maximum.
A `Number` stores how many decimals agree with the exact maximum. With R's own rules (`r_optim`), all digits that
``unmarked`` printed are reproduced. In S and in the columns of a visit attribute, visits that did not take place are
NaN.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.printed_numbers import Estimate, Example, Number, estimates
from benchmarks.r_random import RStream
from benchmarks.runner import command_parser

DATA_VARIABLE = "SCARLESS_OCCUPANCY_DATA"
COURSE = "C. J. Schwarz, course notes on occupancy models: "
AHM2 = "Kéry and Royle (2021), Applied Hierarchical Modeling in Ecology 2, "


def _looks(name: str, n_looks: int) -> list[str]:
    return [f"{name}_{k}" for k in range(1, n_looks + 1)]


def _table_path(name: str) -> Path | None:
    """Return where the user has a published table; None if there is none."""
    folder = os.environ.get(DATA_VARIABLE)
    path = Path(folder, f"{name}.csv") if folder else None
    return path if path is not None and path.is_file() else None


def _read(name: str) -> pd.DataFrame:
    path = _table_path(name)
    if path is None:
        raise FileNotFoundError(
            f"{name}.csv is not part of scarless, because its licence is not known to be free. "
            f"benchmarks/data/README.md says where it is published; name its folder with {DATA_VARIABLE}."
        )
    return pd.read_csv(path)


def _with_visit_columns(X: pd.DataFrame, visits: dict[str, np.ndarray]) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Return X with one column for each look of every visit attribute, and the names of these columns."""
    names = {name: _looks(name, values.shape[1]) for name, values in visits.items()}
    parts = [pd.DataFrame(values, columns=names[name]) for name, values in visits.items()]
    return pd.concat([X, *parts], axis=1), names


def salamander(*, by_visit: bool = False) -> Example:
    """Blue Ridge two-lined salamander: 39 sites, 5 visits, no attribute (MacKenzie et al. 2006, chapter 4)."""
    S = _read("salamander").to_numpy(float)
    X = pd.DataFrame(index=range(len(S)))
    if not by_visit:
        return Example(
            name="salamander",
            printed_in=COURSE + "Salamander, unmarked; AIC and fit statistic from PRESENCE",
            formula="~1 ~1",
            X=X,
            S=S,
            estimates=estimates(
                "f intercept 0.383108 0.5086094",
                "e intercept -1.052585 0.3008626",
            ),
            aic=Number.parse("165.7586"),
            posterior=Number.parse("0.2471563/6"),
            fit_statistic=Number.parse("44.7261"),
        )
    return Example(
        name="salamander-by-visit",
        printed_in=COURSE + "Salamander, PRESENCE 2.12.9",
        formula="psi(.) p(t)",
        X=X,
        S=S,
        estimates=estimates(
            "f intercept 0.322275 0.482586/5",
            "e intercept@0 -1.537688 0.580492/5",
            "e intercept@1 -1.877696 0.643633/5",
            "e intercept@2 -0.413967 0.496702/5",
            "e intercept@3 -0.602625 0.497355/5",
            "e intercept@4 -1.018563 0.518256/5",
        ),
        intercept_per_look=True,
        printed_by="PRESENCE",
        aic=Number.parse("167.7144"),
        posterior=Number.parse("0.2198"),
    )


def _weta_table() -> tuple[pd.DataFrame, np.ndarray, dict[str, np.ndarray]]:
    """Return site attributes, labels and visit attributes: which of three observers came, on which of five days."""
    table = _read("weta")
    S = table[_looks("seen", 5)].to_numpy(float)
    who = table[_looks("observer", 5)].to_numpy(float)
    visits = {f"observer_{j}": np.where(np.isnan(who), np.nan, who == j) for j in (1, 2, 3)}
    visits |= {f"day_{k}": np.where(np.isnan(S), np.nan, np.arange(1, 6) == k) for k in range(2, 6)}
    X = pd.DataFrame({"browsed": table["browsed"], "unbrowsed": 1 - table["browsed"]})
    return X, S, visits


def _weta(
    name: str,
    formula: str,
    lines: tuple[Estimate, ...],
    *,
    printed_by: str = "unmarked",
    site: str | None = "unbrowsed",
    site_on_e: bool = False,
    visits: Sequence[str] = (),
    aic: str,
) -> Example:
    X, S, all_visits = _weta_table()
    X, names = _with_visit_columns(X[[site] if site else []], {name: all_visits[name] for name in visits})
    return Example(
        name=name,
        printed_in=f"{COURSE}Weta, {printed_by}",
        printed_by=printed_by,
        formula=formula,
        X=X,
        S=S,
        estimates=lines,
        class_attributes=(site,) if site else (),
        propensity_attributes=(site,) if site and site_on_e else (),
        visit_attributes=names or None,
        aic=Number.parse(aic),
    )


def weta_constant() -> Example:
    """Mahoenui giant weta: 72 sites, 5 visits, no attribute; 98 of the 360 visits did not take place."""
    lines = estimates(
        "f intercept 0.4752421/3 0.3745705/4",
        "e intercept -0.6217868/4 0.2363836/4",
    )
    return _weta("weta", "~1 ~1", lines, site=None, aic="265.79")


def weta_browsed() -> Example:
    """Weta again: browsed sites are more often occupied."""
    lines = estimates(
        "f intercept 1.1492178/4",
        "f unbrowsed -1.2252670/4 0.721",
        "e intercept -0.6222472/4",
    )
    return _weta("weta-browsed", "~1 ~BrowCat", lines, aic="264.26")


def weta_browsed_twice() -> Example:
    """Both models have the same attribute; repeated visits identify both effects."""
    lines = estimates(
        "f intercept 1.13303258/2",
        "f unbrowsed -1.19695607/2",
        "e intercept -0.61066377/3",
        "e unbrowsed -0.02995047/3",
    )
    return _weta("weta-browsed-twice", "~BrowCat ~BrowCat", lines, site_on_e=True, aic="266.26")


def weta_observer() -> Example:
    """Weta with a visit attribute: the observer."""
    lines = estimates(
        "f intercept 1.1178664/5",
        "f unbrowsed -1.1791957/4",
        "e intercept -1.2452609/5",
        "e observer_2 0.7498024/4",
        "e observer_3 1.0294164/5",
    )
    visits = ("observer_2", "observer_3")
    return _weta("weta-observer", "~obs ~BrowCat", lines, visits=visits, aic="262.04")


def weta_observer_day() -> Example:
    """Weta with two visit attributes, observer and day; the best model of the course notes."""
    lines = estimates(
        "f intercept 1.19328816/4",
        "f unbrowsed -1.16929772/4",
        "e intercept -1.29970076/4",
        "e observer_2 0.72646532/5",
        "e observer_3 1.07000786/4",
        "e day_2 -0.15489346/5",
        "e day_3 -0.94317467/4",
        "e day_4 -0.07065501/7",
        "e day_5 1.03543938/4",
    )
    visits = ("observer_2", "observer_3", "day_2", "day_3", "day_4", "day_5")
    return _weta("weta-observer-day", "~obs+Time ~BrowCat", lines, visits=visits, aic="257.60")


def weta_presence() -> Example:
    """The same model in the coding of PRESENCE, which also printed standard errors."""
    lines = estimates(
        "f intercept 0.023993 0.459659/4",
        "f browsed 1.169320 0.741299/4",
        "e intercept -0.229701 0.473246/4",
        "e day_2 -0.154892 0.550419/4",
        "e day_3 -0.943191 0.599708/4",
        "e day_4 -0.070655 0.562899/4",
        "e day_5 1.035455 0.563913/4",
        "e observer_1 -1.070017 0.460092/4",
        "e observer_2 -0.343556 0.435742/4",
    )
    visits = ("day_2", "day_3", "day_4", "day_5", "observer_1", "observer_2")
    return _weta(
        "weta-presence",
        "psi(browse) p(t + obs)",
        lines,
        printed_by="PRESENCE",
        site="browsed",
        visits=visits,
        aic="257.5994",
    )


def _standardised(values: np.ndarray) -> np.ndarray:
    """Return values standardised over all looks that took place, as R's ``scale`` does (divisor n - 1)."""
    return (values - np.nanmean(values)) / np.nanstd(values, ddof=1)


def frogs(*, attributes: bool = True) -> Example:
    """Spring peepers on 130 stops, up to 3 visits (the example data of ``unmarked``).

    A call index above 0 counts as seen. Minutes after sunset and temperature are standardised over all visits made.
    """
    table = _read("frogs")
    calls, minutes, temperature = (
        table[_looks(name, 3)].to_numpy(float) for name in ("calls", "minutes", "temperature")
    )
    S = np.where(np.isnan(calls), np.nan, calls > 0)
    site = table[[]]
    printed_in = "M. Hebblewhite, lab 12 of a course (2023), unmarked (its data frog2001pcru)"
    if not attributes:
        # The likelihood is nearly flat in psi: unmarked stopped at 2.952, and the maximum is at 2.957.
        lines = estimates("f intercept 2.952089/1 1.44/1", "e intercept -0.2490076/3 0.1695313/3")
        return Example("frogs-constant", printed_in, "~1 ~1", site, S, lines, aic=Number.parse("461.0042/3"))
    X, names = _with_visit_columns(site, {"minutes": _standardised(minutes), "temperature": _standardised(temperature)})
    return Example(
        name="frogs",
        printed_in=printed_in,
        formula="~MinAfterSunset + Temperature ~1",
        X=X,
        S=S,
        estimates=estimates(
            "f intercept 1.537304/4 0.2921265/4",
            "e intercept 0.2097710/3 0.2063600/5",
            "e minutes -0.08554601/3 0.1597061/5",
            "e temperature -1.893615/3 0.2909565/4",
        ),
        visit_attributes=names,
        aic=Number.parse("356.7591"),
    )


def false_positives() -> Example:
    """Seven looks with false positives (Royle and Link): 200 sites, simulated in R with seed 1.

    The likelihood does not change if f, e, h are replaced by 1 - f, h, e. The printed estimates have e > h.
    """
    stream = RStream(1)
    y = stream.coins(200, 0.6)
    S = np.array([stream.coins(7, 0.7 * y_i + 0.05 * (1 - y_i)) for y_i in y], dtype=float)
    return Example(
        name="false-positives",
        printed_in=AHM2 + "7.2.1, unmarked::occuFP",
        formula="detection ~1, false positives ~1, occupancy ~1; type (0, 7, 0)",
        X=pd.DataFrame(index=range(len(S))),
        S=S,
        estimates=estimates(
            "f intercept 0.323 0.15",
            "e intercept 0.762 0.083",
            "h intercept -2.69 0.199",
        ),
        false_positive_looks=tuple(range(7)),
        start=(0.0, float(np.log(7 / 3)), float(-np.log(9))),
        aic=Number.parse("1550.633"),
    )


def two_methods() -> Example:
    """Three looks without and four with false positives (Miller et al. 2011), simulated in R with seed 129."""
    stream = RStream(129)
    y = stream.coins(200, 0.6)
    S = np.array(
        [np.r_[stream.coins(3, 0.7 * y_i), stream.coins(4, 0.5 * y_i + 0.05 * (1 - y_i))] for y_i in y], dtype=float
    )
    second = np.tile(np.arange(7) > 2, (200, 1)).astype(float)
    X, names = _with_visit_columns(pd.DataFrame(index=range(len(S))), {"second_method": second})
    return Example(
        name="two-methods",
        printed_in=AHM2 + "7.3.1, unmarked::occuFP",
        formula="detection ~Method, false positives ~1, occupancy ~1; type (3, 4, 0)",
        X=X,
        S=S,
        estimates=estimates(
            "f intercept 0.5442685/4 0.149",
            "e intercept 0.9008509/5 0.119",
            "e second_method -0.9670559/4 0.147",
            "h intercept -2.9046690/3 0.282",
        ),
        visit_attributes=names,
        false_positive_looks=(3, 4, 5, 6),
    )


EXAMPLES: dict[str, Callable[[], Example]] = {
    "salamander": salamander,
    "salamander-by-visit": lambda: salamander(by_visit=True),
    "weta": weta_constant,
    "weta-browsed": weta_browsed,
    "weta-browsed-twice": weta_browsed_twice,
    "weta-observer": weta_observer,
    "weta-observer-day": weta_observer_day,
    "weta-presence": weta_presence,
    "frogs-constant": lambda: frogs(attributes=False),
    "frogs": frogs,
    "false-positives": false_positives,
    "two-methods": two_methods,
}
PUBLISHED_TABLES = ("salamander", "weta", "frogs")  # examples whose names begin so need the file of that name


def is_available(name: str) -> bool:
    """Return whether the data of an example are here: simulated, or in the folder of the user."""
    table = name.partition("-")[0]
    return table not in PUBLISHED_TABLES or _table_path(table) is not None


def main(arguments: list[str]) -> None:
    """Print the size, the model and the source of every example."""
    command_parser("occupancy_examples", __doc__).parse_args(arguments)
    for name, load in EXAMPLES.items():
        if not is_available(name):
            print(f"{name}: the table is not here; see benchmarks/data/README.md")
            continue
        example = load()
        n_rows, n_looks = example.S.shape
        missing = int(np.isnan(example.S).sum())
        print(f"{name}: {n_rows} x {n_looks}, {missing} visits missing; {example.formula}; {example.printed_in}")


if __name__ == "__main__":
    main(sys.argv[1:])
