"""A random sample of the rows of an engine, for methods that need a table in memory."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from scarless.checks.rows import LabelledRows
from scarless.engines import Rows
from scarless.numerics.arrays import Vector, in_numpy, namespace_of
from scarless.numerics.resampling import uniforms
from scarless.outside.extras import need

MAX_SAMPLE_ROWS, MAX_SAMPLE_NUMBERS = 200_000, 2**27  # This many numbers take 1 GiB in double precision.
_SEED = 0x5CA7  # A fixed seed draws the same rows of a table every time.


class Sample(NamedTuple):
    """A sample of rows in the order of the table, with labels 0 and 1 and positive weights."""

    X: Any
    s: Vector
    w: Vector


@dataclass(frozen=True)
class _DrawnBlocks:
    """Drawn rows of some blocks, with their random numbers; joined by ``+``."""

    blocks: tuple[tuple[Vector, Any, Vector, Vector], ...] = ()

    def __add__(self, other: "_DrawnBlocks") -> "_DrawnBlocks":
        return _DrawnBlocks(self.blocks + other.blocks)


def draw_sample(rows: LabelledRows) -> Sample:
    """Draw rows of positive weight with equal probabilities, without replacement, in one pass.

    If there are few rows, all are drawn. Whether a row is drawn depends only on its row number, not on its label or
    weight, and not on how the engine splits the rows. Rows keep their weights, so weighted means over the sample
    estimate weighted means over the table.
    """
    engine, n_rows = rows.engine, rows.totals.n_rows
    wanted = max(1, min(MAX_SAMPLE_ROWS, MAX_SAMPLE_NUMBERS // max(1, engine.n_columns)))
    # Draw more rows than wanted, by six standard deviations of their number, and drop the surplus below.
    share = 2.0 if n_rows <= wanted else (wanted + 6.0 * np.sqrt(wanted) + 6.0) / n_rows
    found = engine.total(_block_drawn, share)[0].blocks
    u, s, w = (np.concatenate([block[field] for block in found]) for field in (0, 2, 3))
    tables = [block[1] for block in found]
    X = sparse.vstack(tables, format="csr") if sparse.issparse(tables[0]) else np.concatenate(tables)
    if u.size > wanted:
        kept = np.sort(np.argpartition(u, wanted)[:wanted])
        X, s, w = X[kept], s[kept], w[kept]
    _check_both_kinds(s, rows.totals.labelled_share)
    return Sample(X, s, w)


def _block_drawn(X: Any, rows: Rows, share: float) -> tuple[_DrawnBlocks]:
    """Return the rows of a block whose random number is below `share` and whose weight is positive."""
    u = uniforms(rows.number, _SEED)
    s, w = in_numpy(rows["s"]), in_numpy(rows["w"])
    here = np.flatnonzero((u < share) & (w > 0))
    if (xp := namespace_of(X)) is np:
        taken = X[here]
    else:
        taken = in_numpy(xp.take(X, xp.asarray(here, device=X.device), axis=0))
    return (_DrawnBlocks(((u[here], taken, s[here], w[here]),) if here.size else ()),)


def _check_both_kinds(s: Vector, share: float) -> None:
    labelled = int(np.count_nonzero(s))
    if labelled in (0, s.size):
        kind, other = ("labelled", "unlabelled") if labelled == 0 else ("unlabelled", "labelled")
        raise ValueError(
            f"The label frequency is estimated from a random sample of {s.size:,} rows, and none of them is {kind}. "
            f"The share of labelled rows in the table is {share:.3g}. Draw a smaller sample yourself that contains "
            f"both labelled and unlabelled rows: all {kind} rows, and some {other} rows at random. Fit the estimator "
            "to this sample, and pass sample_weight = 1 / (probability that the row was drawn), times the weight of "
            "the row if the table has weights. SCARClassifier accepts the estimate as a number: label_frequency=c."
        )


def as_named(X: Any, names: Any) -> Any:
    """Return dense rows as a data frame, for estimators that use names, if there are names and pandas is installed."""
    if names is None or sparse.issparse(X) or find_spec("pandas") is None:
        return X
    return need("pandas", "a data frame", "tool").DataFrame(X, columns=list(names))
