"""What is written of rows that were looked at several times, or checked: labels and audits of a partition are read."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from scarless.checks.labels import LabelCoding
from scarless.checks.looks import Codes, check_audit, check_looks, counts_of, refuse_contradictions
from scarless.engines.base import MayMiss, Rows, Several
from scarless.numerics.arrays import Vector
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.scale.columns import PartitionError, labels
from scarless.scale.scorers import FrameScorer, refuse_large

_BLOCK_ROWS = 8192


@dataclass(frozen=True)
class LooksGiven:
    """The columns of looks and audits, and what their values mean; `sure` where no negative has a label."""

    looks: tuple[str, ...]
    audit: str | None
    coding: LabelCoding
    sure: bool

    @property
    def columns(self) -> Several:
        """All columns, audits last."""
        return Several((*self.looks, *([] if self.audit is None else [self.audit])))

    def codes(self, source: Any, table: Any) -> tuple[Codes, Codes]:
        """Return labels at looks, and audits, of a partition; raise with its place where a value is unknown."""
        where = f"{source.path}, {source.place}"
        read = {name: labels(table.column(name), MayMiss(name), lambda row: where) for name in self.columns}
        try:
            found = [check_looks(read[name][:, None], coding=self.coding, name=name).labels for name in self.looks]
            seen = np.concatenate(found, axis=1)
            audit = check_audit(read.get(self.audit or ""), n_rows=len(seen), coding=self.coding)
            if self.sure:
                refuse_contradictions(seen, audit)
        except ValueError as error:
            raise PartitionError(f"{where}: {error}") from error
        return seen, audit


@dataclass(frozen=True)
class LooksScorer:
    """Logistic models of several looks: `objective` and its `parameters`."""

    objective: LooksLikelihood
    parameters: Vector
    largest: float
    fingerprint: str

    def __call__(self, source: Any, table: Any) -> tuple[Vector, None]:
        """Return the probability of each row: who was looked at is not known, and so nothing else."""
        return self._found(source, table, None, None)["probability"], None

    def judged(self, source: Any, table: Any, seen: Codes, audit: Codes, given: LooksGiven) -> dict[str, Vector]:
        """Return probability, propensity of a label at any look that took place, and posterior of each row."""
        return self._found(source, table, seen, audit)

    def _found(self, source: Any, table: Any, seen: Codes | None, audit: Codes | None) -> dict[str, Vector]:
        below = source.decode(table)["X"].T
        found: dict[str, list[Vector]] = {}
        for start in range(0, below.shape[1], _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            refuse_large(source, below[:, rows], start, self.largest)
            X = np.asarray(below[:, rows].T, dtype=np.float64)
            here = None if seen is None or audit is None else (seen[rows], audit[rows])
            for name, values in self._block(X, here).items():
                found.setdefault(name, []).append(values)
        return {name: np.concatenate(values) for name, values in found.items()}

    def _block(self, X: Any, observed: tuple[Codes, Codes] | None) -> dict[str, Vector]:
        objective, n_kinds = self.objective, self.objective.n_kinds
        logits = objective.logit_values(X, self.parameters)
        probability = {"probability": expit(logits[0])}
        if observed is None:
            return probability
        counts, took_place = counts_of(observed[0], n_kinds)
        rows = Rows({"labels": counts, "looks": took_place, "audit": observed[1]}, slice(0, len(X), 1))
        missed = np.stack([objective.log_missed(v) for v in logits[1 : 1 + n_kinds]], axis=1)
        propensity = 0.0 - np.expm1(np.sum(np.where(took_place > 0, missed, 0.0) * took_place, axis=1))
        return probability | {"propensity": propensity, "posterior": objective.terms(X, rows, self.parameters).q}


@dataclass(frozen=True)
class LooksFrameScorer(FrameScorer):
    """Any other model of looks, asked about one data frame after the other."""

    def judged(self, source: Any, table: Any, seen: Codes, audit: Codes, given: LooksGiven) -> dict[str, Vector]:
        """Return probability and posterior of each row, and the propensity of a label at any look."""
        X = self.table_of(table)
        classes = given.coding.classes.astype(object)
        words = np.where(seen == 1, classes[given.coding.positive], classes[1 - given.coding.positive])
        S: Any = np.where(seen < 0, None, words)
        checked = np.where(audit < 0, None, audit == 1)
        probability = np.ascontiguousarray(self.model.predict_proba(X)[:, self.positive], dtype=np.float64)
        posterior = np.asarray(self.model.predict_posterior(X, S, audit=checked), dtype=np.float64)
        e = [np.asarray(self.model.predict_propensity(X, look=k), dtype=np.float64) for k in range(S.shape[1])]
        left = np.where(seen >= 0, 1.0 - np.stack(e, axis=1), 1.0).prod(axis=1)
        return {"probability": probability, "propensity": 1.0 - left, "posterior": posterior}
