"""Some rows of an engine, drawn at random, for what needs a table in memory and does well with a part of it."""

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

MAX_SAMPLE_ROWS, MAX_SAMPLE_NUMBERS = 200_000, 2**27  # the second is one GiB in double precision
_SEED = 0x5CA7  # one for all: the same rows whenever, and by whomever, a table is read


class Sample(NamedTuple):
    """Rows in memory, in the order of the table, with labels of 0 and 1 and weights above 0."""

    X: Any
    s: Vector
    w: Vector


@dataclass(frozen=True)
class _Drawn:
    """Rows of some blocks, each with the number that it was drawn by; joined by ``+``."""

    blocks: tuple[tuple[Vector, Any, Vector, Vector], ...] = ()

    def __add__(self, other: "_Drawn") -> "_Drawn":
        return _Drawn(self.blocks + other.blocks)


def draw_sample(rows: LabelledRows) -> Sample:
    """Draw rows without replacement, each that counts as likely as any other, in one pass; all where they are few.

    A row is drawn by its number in the table and by nothing else: not by its label, nor its weight, which it keeps. So
    weighted means over the sample estimate those over the table, and who walks the rows does not matter.
    """
    engine, n_rows = rows.engine, rows.totals.n_rows
    wanted = max(1, min(MAX_SAMPLE_ROWS, MAX_SAMPLE_NUMBERS // max(1, engine.n_columns)))
    # A few more than are wanted, by six standard deviations of their number; those beyond it are dropped.
    share = 2.0 if n_rows <= wanted else (wanted + 6.0 * np.sqrt(wanted) + 6.0) / n_rows
    found = engine.total(_block_drawn, share)[0].blocks
    u, s, w = (np.concatenate([block[field] for block in found]) for field in (0, 2, 3))
    tables = [block[1] for block in found]
    X = sparse.vstack(tables, format="csr") if sparse.issparse(tables[0]) else np.concatenate(tables)
    if u.size > wanted:
        kept = np.sort(np.argpartition(u, wanted)[:wanted])
        X, s, w = X[kept], s[kept], w[kept]
    _refuse_rare(s, rows.totals.labelled_share)
    return Sample(X, s, w)


def _block_drawn(X: Any, rows: Rows, share: float) -> tuple[_Drawn]:
    """Return the rows of a block whose number falls below a share, without those that do not count."""
    u = uniforms(rows.number, _SEED)
    s, w = in_numpy(rows["s"]), in_numpy(rows["w"])
    here = np.flatnonzero((u < share) & (w > 0))
    if (xp := namespace_of(X)) is np:
        taken = X[here]
    else:
        taken = in_numpy(xp.take(X, xp.asarray(here, device=X.device), axis=0))
    return (_Drawn(((u[here], taken, s[here], w[here]),) if here.size else ()),)


def _refuse_rare(s: Vector, share: float) -> None:
    labelled = int(np.count_nonzero(s))
    if labelled in (0, s.size):
        kind = "labelled" if labelled == 0 else "unlabelled"
        raise ValueError(
            f"The label frequency is estimated on a sample of {s.size:,} rows, and none of them is {kind}: "
            f"{share:.3g} of all rows are labelled. Estimate it on rows of your choice, with weights, and give the "
            "number: label_frequency=c."
        )


def as_named(X: Any, names: Any) -> Any:
    """Return rows as a data frame where columns have names and pandas is there, for what reads columns by name."""
    if names is None or sparse.issparse(X) or find_spec("pandas") is None:
        return X
    return need("pandas", "a data frame", "tool").DataFrame(X, columns=list(names))
