"""Labels and audits of a folder of files: read from what combinations of values there are, applied to a sample."""

from typing import Any, NamedTuple

import numpy as np

from scarless.analysis.labels import as_text, listed, value_counts
from scarless.analysis.looks import Observed, as_frame_of_looks, read_observed
from scarless.analysis.settings import Settings
from scarless.numerics.arrays import Integers, Vector


class Whole(NamedTuple):
    """What was seen of all rows: each combination of labels and audit, and how many rows have it."""

    kinds: Any
    rows: Integers
    observed: Observed

    @classmethod
    def of(cls, kinds: Any, settings: Settings) -> "Whole":
        """Read what `draw_rows` counted."""
        frame = kinds.to_pandas(ignore_metadata=True)
        names, rows = list(frame.columns[:-1]), frame.iloc[:, -1].to_numpy(dtype=np.int64)
        return cls(frame[names], rows, read_observed(frame[names], settings, rows=rows))

    @property
    def n_labelled(self) -> int:
        """How many rows have any label."""
        return int(self.rows[self.observed.s == 1].sum())

    @property
    def n_audited(self) -> int:
        """How many rows were checked."""
        return int(self.rows[self.observed.audited].sum())

    def pos_label(self, settings: Settings) -> Any:
        """Return the value that marks a label, as it is in the files; raise where models would read others there."""
        text = {name: as_text(self.kinds[name]) for name in settings.labels}
        seen = {name: (self.kinds[name].notna() & (self.kinds[name] != -1)).to_numpy() for name in settings.labels}
        values = {value for name in settings.labels for value in self.kinds[name][seen[name]].tolist()}
        if len(values) != 2:
            counts = value_counts(text[settings.labels[0]], self.rows)
            raise ValueError(
                f"In files the columns of looks must have two values, and gaps where nobody looked; these have "
                f"{len(values)} ({settings.labels[0]!r}: {listed(counts)}; blanks and empty text are values). Write 1 "
                "and 0, and nothing."
            )
        self._refuse_other_words(values, settings)
        marks = self.observed.positive
        return next(
            value
            for name in settings.labels
            for value, said in zip(self.kinds[name].tolist(), text[name], strict=True)
            if said in marks
        )

    def _refuse_other_words(self, values: set[Any], settings: Settings) -> None:
        """Raise where audits are written in words that are not those of labels."""
        if not settings.audit:
            return
        column = self.kinds[settings.audit]
        found = set(column[(column.notna() & (column != -1)).to_numpy()].tolist())
        if not found <= {0, 1} and not found <= values:
            raise ValueError(
                f"In files audits are written as 1 and 0, or as labels are ({', '.join(map(repr, sorted(values)))}); "
                f"{settings.audit!r} has {listed(value_counts(as_text(column), self.rows))}."
            )

    def of_sample(self, table: Any, settings: Settings) -> Observed:
        """Return the same of rows of the table, by their values."""
        audit = None
        if settings.audit and self.observed.audit is not None:
            audit = self._codes(table, settings.audit, self.observed.audit)
        if not settings.looks:
            s = self._codes(table, settings.label, self.observed.s.astype(np.float64)).astype(np.int64)
            return Observed(s, s, audit, self.observed.positive, ())
        labels = np.asarray(self.observed.labels, dtype=np.float64)
        seen = np.column_stack([self._codes(table, name, labels[:, k]) for k, name in enumerate(settings.looks)])
        s = (seen == 1).any(axis=1).astype(np.int64)
        return Observed(s, as_frame_of_looks(seen, settings, table), audit, self.observed.positive, ())

    def _codes(self, table: Any, name: str, codes: Vector) -> Vector:
        known = dict(zip(as_text(self.kinds[name]), codes, strict=True))
        return as_text(table[name]).map(known).to_numpy(dtype=np.float64)

    def summary(self, settings: Settings) -> dict[str, Any]:
        """Return counts of audits and looks, over all rows, as a summary has them."""
        found: dict[str, Any] = {}
        if self.observed.audit is not None:
            positive = int(self.rows[self.observed.audit == 1].sum())
            found["audits"] = {"rows": self.n_audited, "positive": positive}
        if settings.looks:
            labels = np.asarray(self.observed.labels, dtype=np.float64)
            found["looks"] = [
                {
                    "column": name,
                    "took_place": int(self.rows[np.isfinite(labels[:, k])].sum()),
                    "labels": int(self.rows[labels[:, k] == 1].sum()),
                }
                for k, name in enumerate(settings.looks)
            ]
        return found
