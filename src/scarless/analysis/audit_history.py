"""The worksheets of an analysis: which rows were asked, with which probabilities, and the answers.

A folder of results keeps this history in one Parquet file, with one line for each row of the table.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np

from scarless.analysis.labels import ANSWERS, PROBABILITY, as_text
from scarless.analysis.settings import Settings
from scarless.checks.labels import folded, says
from scarless.numerics.arrays import Integers, Mask, Vector
from scarless.outside.extras import need
from scarless.outside.files import aside
from scarless.outside.notices import counted, listed

AUDITS = "audits.parquet"
CHECKED, WORKSHEET, ROW = "checked", "worksheet", "row"
OWN_AUDITS = "own"  # purpose of the audits that the table had before the first worksheet
SHEET = "worksheet"  # name of the sheet of a workbook
YES, NO, UNSURE = "yes", "no", "unsure"
_UNSURE_WORDS = {"unsure", "unknown", "unclear", "maybe", "not sure", "don't know", "?"}
_SAME_PROBABILITY = 1e-4  # relative; spreadsheets round numbers
_METADATA = b"scarless"
_FORMAT = 1
_MAX_NAMES = 5  # in a message


@dataclass(frozen=True)
class DrawnSheet:
    """A worksheet, and the estimate of the fit that it was drawn from."""

    number: int
    key: str
    n_rows: int
    purpose: str
    design: str
    strata: str
    seed: int
    class_prior: float | None
    low: float | None
    high: float | None
    n_answered: int = 0  # answers that this fit used


@dataclass(frozen=True, eq=False)
class AuditHistory:
    """Rows that worksheets asked for, their probabilities, and the answers.

    Attributes
    ----------
    sheets : tuple of DrawnSheet
    id : str
        The id column; empty if rows are identified by their number.
    source : str
        SHA-256 of the file that the rows were read from.
    names : array of str
        Id of each row, as text; without an id column, its number, counted from 1.
    posterior : array
        Posterior of each row according to the fit that the first worksheet was drawn from.
    sheet : array of int
        Number of the worksheet that asked for the row; 0 if none did.
    expected : array
        Posterior of the row when it was asked for; NaN for other rows.
    draws : array of shape (n_asked, n_draws)
        Draws of these posteriors, in the order of the rows; without columns if there are none.
    answer : array of str
        "yes", "no", "unsure", or "" without an answer.
    chances : array of shape (n_rows, n_sheets)
        Probability that each worksheet, or an earlier one, asked for the row.
    """

    sheets: tuple[DrawnSheet, ...]
    id: str
    source: str
    names: Any = field(repr=False)
    posterior: Vector = field(repr=False)
    sheet: Integers = field(repr=False)
    expected: Vector = field(repr=False)
    draws: Any = field(repr=False)
    answer: Any = field(repr=False)
    chances: Any = field(repr=False)

    # --- derived values

    @property
    def asked(self) -> Mask:
        """Which rows a worksheet asked for, or were audited before."""
        return np.asarray(self.sheet > 0)

    @property
    def audit(self) -> Vector:
        """The answers as 1, 0 and NaN."""
        return np.where(self.answer == YES, 1.0, np.where(self.answer == NO, 0.0, np.nan))

    @property
    def answered(self) -> Mask:
        """Which rows have the answer yes or no."""
        return np.isfinite(self.audit)

    @property
    def probability(self) -> Vector:
        """The probability that any worksheet asked for the row."""
        return np.asarray(self.chances[:, -1]) if self.sheets else np.zeros(len(self.names))

    @property
    def probability_of_answer(self) -> Vector:
        """The probability that a worksheet asked for the row and the row was answered.

        All rows of a worksheet are assumed to be equally likely to be answered; none, if the worksheet is not filled
        in yet.
        """
        found, before = np.zeros(len(self.names)), np.zeros(len(self.names))
        for sheet, chance in zip(self.sheets, self.chances.T, strict=True):
            mine = self.sheet == sheet.number
            found += (self.answered[mine].mean() if mine.any() else 0.0) * (chance - before)
            before = chance
        return np.asarray(np.clip(found, 0.0, 1.0))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def keys(self) -> dict[str, int]:
        """Return the number of each worksheet by its key."""
        return {each.key: each.number for each in self.sheets if each.purpose != OWN_AUDITS}

    # --- worksheets and answers

    @classmethod
    def begin(cls, names: Any, id: str, source: str, posterior: Vector) -> Self:
        """Return a history without worksheets."""
        n = len(names)
        empty = np.full(n, "", dtype=object)
        draws, chances = np.empty((0, 0), dtype=np.float32), np.empty((n, 0))
        return cls(
            (), id, source, names, posterior, np.zeros(n, dtype=np.int64), np.full(n, np.nan), draws, empty, chances
        )

    def with_sheet(
        self,
        sheet: DrawnSheet,
        rows: Integers,
        chance: Vector,
        posterior: Vector,
        draws: Any = None,
        answer: Any = None,
    ) -> Self:
        """Return the history with one more worksheet, which asked for `rows` with the probabilities `chance`."""
        number, expected, answers = self.sheet.copy(), self.expected.copy(), self.answer.copy()
        number[rows], expected[rows] = sheet.number, posterior[rows]
        if answer is not None:
            answers[rows] = answer
        width = 0 if draws is None else draws.shape[1]
        every = np.full((number.size, max(width, self.draws.shape[1])), np.nan, dtype=np.float32)
        every[self.asked, : self.draws.shape[1]] = self.draws
        if draws is not None:
            every[rows, :width] = draws
        return replace(
            self,
            sheets=(*self.sheets, sheet),
            sheet=number,
            expected=expected,
            draws=every[number > 0],
            answer=answers,
            chances=np.column_stack([self.chances, chance]),
        )

    def with_answers(self, filled: Any, source: str) -> tuple[Self, list[str]]:
        """Return the history with the answers of a worksheet, and notes; raise if anything in it is not clear.

        Parameters
        ----------
        filled : pandas DataFrame
            The worksheet as it was read from a file.
        source : str
            Name of the file, for messages.
        """
        name = self.id or ROW
        filled = self._lines(filled, name, source)
        number = self._number_of(filled[WORKSHEET], source)
        places = self._places_of(self._as_written(filled[name], number), name, number, source)
        self._check_probabilities(filled[PROBABILITY], places, number, source)
        answers = _read_answers(as_text(filled[CHECKED]), as_text(filled[name]), name, source)
        given = answers != ""
        if not given.any():
            raise ValueError(
                f"{source}: no row has an answer in the column {CHECKED!r}. Write {YES}, {NO} or {UNSURE} for each row "
                "that was checked."
            )
        merged = self.answer.copy()
        changed = int(((merged[places] != "") & given & (merged[places] != answers)).sum())
        merged[places[given]] = answers[given]
        found = replace(self, answer=merged)
        found._refuse_only_positives(number, source)
        return found, found._notes(number, changed, source)

    def _lines(self, filled: Any, name: str, source: str) -> Any:
        """Return the lines of a worksheet that are not empty; raise if a column is missing."""
        wanted = [name, CHECKED, PROBABILITY, WORKSHEET]
        filled = filled.rename(columns={f"'{name}": name})  # `write_table` writes a name like a formula in this way.
        gone = [column for column in wanted if column not in filled.columns]
        if gone:
            raise ValueError(
                f"{source} has no column {listed(list(map(repr, gone)), _MAX_NAMES)}. A worksheet of `scarless audit` "
                f"has the columns {', '.join(map(repr, wanted))}. Do not rename or delete columns."
            )
        texts = {column: as_text(filled[column]) for column in wanted}
        empty = (texts[name] == "") & (texts[CHECKED] == "")
        nameless = np.flatnonzero((texts[name] == "") & (texts[CHECKED] != ""))
        if nameless.size:
            raise ValueError(
                f"{source}: line {nameless[0] + 2} has an answer, but its cell in the column {name!r} is empty. Write "
                "the value that the worksheet had."
            )
        return filled[~empty.to_numpy()].reset_index(drop=True)

    def _number_of(self, column: Any, source: str) -> int:
        found, keys = list(dict.fromkeys(as_text(column))), self.keys()
        if not found:
            raise ValueError(f"{source} has no rows. Name the worksheet that `scarless audit` wrote.")
        if "" in found:
            raise ValueError(
                f"{source}: the column {WORKSHEET!r} is empty in {counted((as_text(column) == '').sum(), 'line')}. "
                "Write the value that the worksheet had, or remove lines that it did not have."
            )
        if len(found) > 1:
            raise ValueError(
                f"{source}: the column {WORKSHEET!r} has several values ({listed(found, _MAX_NAMES)}). Do not mix "
                "worksheets in one file: pass one worksheet at a time."
            )
        if found[0] not in keys:
            known = listed(list(keys), _MAX_NAMES) or "none"
            raise ValueError(
                f"{source} is the worksheet {found[0]!r}, which was drawn from other results: these results have the "
                f"worksheets {known}. Use the results that it was drawn from (--config FOLDER/run.toml)."
            )
        return keys[found[0]]

    def _as_written(self, column: Any, number: int) -> Any:
        """Return the ids of a worksheet as they are in the table; ids that are not known stay as they are.

        `write_table` puts an apostrophe in front of texts like formulas. A column of texts may be read as numbers, if
        the texts of all rows of the worksheet are numbers.
        """
        asked = self.names[self.sheet == number]
        forms = {f"'{each}": each for each in asked}
        if column.dtype.kind in "fiu":
            forms |= {_number_form(each): each for each in asked}
        return as_ids(column).map(lambda each: each if each in self._places else forms.get(each, each))

    def _places_of(self, ids: Any, name: str, number: int, source: str) -> Integers:
        """Return the position of each id in the table; raise if it is doubled or unknown, or was not asked for."""
        twice = ids[ids.duplicated()]
        if len(twice):
            raise ValueError(
                f"{source}: the {name} {twice.iloc[0]!r} is on {int((ids == twice.iloc[0]).sum())} lines. Keep one "
                "line for each row that was asked for."
            )
        unknown = [each for each in ids if each not in self._places]
        if unknown:
            zeros = " A spreadsheet may have removed zeros at the beginning." if unknown[0].isdigit() else ""
            raise ValueError(
                f"{source}: the table has no row with the {name} {listed(list(map(repr, unknown)), _MAX_NAMES)}."
                f"{zeros} Write the ids as they were in the worksheet."
            )
        places = np.array([self._places[each] for each in ids], dtype=np.intp)
        other = np.flatnonzero(self.sheet[places] != number)
        if other.size:
            raise ValueError(
                f"{source}: worksheet {number} did not ask for {len(other)} of these rows (first: {name} "
                f"{ids.iloc[other[0]]!r}). Rows that were chosen in another way would bias the estimate. Remove "
                f"{'this line' if len(other) == 1 else 'these lines'}; to use such audits, add them to the input file "
                "as an audit column."
            )
        return places

    def _check_probabilities(self, column: Any, places: Integers, number: int, source: str) -> None:
        drawn = self.chances[places, number - 1]
        texts = ["" if empty else str(value).strip() for value, empty in zip(column, column.isna(), strict=True)]
        given = np.array([_number_in(text) for text in texts])
        wrong = np.flatnonzero(~(np.abs(given - drawn) <= _SAME_PROBABILITY * drawn))
        if wrong.size:
            first = wrong[0]
            raise ValueError(
                f"{source}: the column {PROBABILITY!r} was changed in {counted(wrong.size, 'line')}. The first is "
                f"{self.id or ROW} {self.names[places[first]]!r}, which has {texts[first]!r} instead of "
                f"{drawn[first]:.6g}. Restore the column: the probabilities say how the rows were drawn."
            )

    def _refuse_only_positives(self, number: int, source: str) -> None:
        mine = self.sheet == number
        positive, missing = int((mine & (self.answer == YES)).sum()), int((mine & (self.answer == "")).sum())
        if missing and positive and not (mine & (self.answer == NO)).any():
            raise ValueError(
                f"{source}: all answers are {YES!r}, and {counted(missing, 'row has', 'rows have')} no answer. If "
                f"empty cells mean no, write {NO!r}: otherwise the estimated share of positives is far too high. If "
                f"they mean that the row was not checked yet, check at least one of them, or write {UNSURE!r}."
            )

    def _notes(self, number: int, changed: int, source: str) -> list[str]:
        mine = self.sheet == number
        counts = {word: int((mine & (self.answer == word)).sum()) for word in (YES, NO, UNSURE, "")}
        notes = [
            f"Worksheet {source}: {counted(counts[YES], 'row is', 'rows are')} positive and {counts[NO]} negative, "
            f"{counted(counts[UNSURE], 'is', 'are')} unsure and {counted(counts[''], 'has', 'have')} no answer."
        ]
        if counts[UNSURE] + counts[""]:
            notes.append(
                "Rows without a clear answer are treated as not checked. If they are positive more often than the "
                "model expects, the estimated share of positives is too low, and the other way round."
            )
        if changed:
            differ = counted(changed, "answer differs", "answers differ")
            notes.append(f"{differ} from earlier answers to the same worksheet. The new answers are used.")
        for each in self.sheets:
            if each.key and each.number != number and not (self.answer[self.sheet == each.number] != "").any():
                notes.append(
                    f"Worksheet {each.key} ({counted(each.n_rows, 'row')}) has no answers yet. When it is filled in, "
                    "return it to these new results (--config), so that the answers of all worksheets are used."
                )
        return notes

    # --- the table of a fit

    def is_for_another_file(self, source: str) -> bool:
        """Return whether the history has no answers, and its rows, which have no ids, are those of another file."""
        return not self.id and source != self.source and not self.answered.any()

    def join(self, table: Any, source: str) -> tuple[Any, Self, list[str]]:
        """Return the table with the answers as a column, the history in the order of its rows, and notes.

        `source` is the SHA-256 of the file that the table was read from.
        """
        if ANSWERS in table.columns:
            raise ValueError(f"The table has a column {ANSWERS!r}, which is the name of the answers. Rename it.")
        if not self.id and (source != self.source or len(table) != len(self.names)):
            raise ValueError(
                "The input file has changed since the worksheet was drawn, and its rows have no ids, so the answers "
                "cannot be matched to rows. Use the old file, or name an id column (--id) from the beginning."
            )
        history, notes = self, list[str]()
        if self.id:
            history, notes = self._matched(table)
        answers = np.where(history.answered, history.answer, None)
        return table.assign(**{ANSWERS: answers}), history, notes

    def _matched(self, table: Any) -> tuple[Self, list[str]]:
        """Return the history for the rows of a table, matched by their ids."""
        names = row_names(table, self.id)
        if len(names) == len(self.names) and (names == self.names).all():
            return self, []
        places = np.array([self._places.get(name, -1) for name in names], dtype=np.intp)
        new, n_lost = places < 0, int(self.answered.sum() - self.answered[places[places >= 0]].sum())
        asked_place = np.cumsum(self.asked) - 1  # line of `draws` for each row that was asked for
        kept = np.flatnonzero(~new & self.asked[places])

        def of(values: Any, otherwise: Any) -> Any:
            found = values[places].copy()
            found[new] = otherwise
            return found

        notes: list[str] = []
        if new.any() or len(names) != len(self.names):
            n_gone = len(self.names) - int((~new).sum())
            notes.append(
                "The input file has changed since the first worksheet: "
                f"{counted(new.sum(), 'row is', 'rows are')} new, and {counted(n_gone, 'is', 'are')} gone. The answers "
                f"were matched by {self.id!r}."
            )
        if n_lost:
            gone = counted(n_lost, "checked row is", "checked rows are")
            notes.append(f"{gone} not in the input file any more. The answers to such rows are not used.")
        history = replace(
            self,
            source="",
            names=names,
            posterior=of(self.posterior, np.nan),
            sheet=of(self.sheet, 0),
            expected=of(self.expected, np.nan),
            draws=self.draws[asked_place[places[kept]]],
            answer=of(self.answer, ""),
            chances=of(self.chances, 0.0),
        )
        return history, notes

    # --- the file

    def save(self, path: Path) -> None:
        """Write the history to a Parquet file."""
        pa, parquet = need("pyarrow", "A history of audits", "tool"), need("pyarrow.parquet", "Audits", "tool")
        draws: list[Any] = [None] * len(self.names)
        for place, line in zip(np.flatnonzero(self.asked), self.draws, strict=True):
            draws[place] = line[np.isfinite(line)].tolist()
        columns = {
            "name": pa.array(self.names, pa.string()),
            "posterior": pa.array(self.posterior),
            "sheet": pa.array(self.sheet),
            "expected": pa.array(self.expected),
            "draws": pa.array(draws, pa.list_(pa.float32())),
            "answer": pa.array(self.answer, pa.string()),
        }
        columns |= {f"probability_{k}": pa.array(np.ascontiguousarray(each)) for k, each in enumerate(self.chances.T)}
        about = {"format": _FORMAT, "id": self.id, "source": self.source, "sheets": [asdict(e) for e in self.sheets]}
        table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(about).encode()})
        with aside(path) as temporary:
            parquet.write_table(table, temporary, compression="zstd")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a history from a Parquet file."""
        parquet = need("pyarrow.parquet", "A history of audits", "tool")
        try:
            table = parquet.read_table(path)
            about = json.loads((table.schema.metadata or {})[_METADATA])
            later = about["format"] > _FORMAT
            columns = {name: table.column(name) for name in table.column_names}
            sheets = tuple(DrawnSheet(**each) for each in about["sheets"])
            lines = [line for line in columns["draws"].to_pylist() if line is not None]
            chances = [columns[f"probability_{k}"].to_numpy() for k in range(len(sheets))]
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise ValueError(
                f"{path} is damaged, or a later version of scarless wrote it: {error}. Restore the file from a copy."
            ) from error
        if later:
            raise ValueError(f"A later version of scarless wrote {path}. Install the latest version.")
        draws = np.full((len(lines), max(map(len, lines), default=0)), np.nan, dtype=np.float32)
        for place, line in enumerate(lines):
            draws[place, : len(line)] = line
        return cls(
            sheets,
            about["id"],
            about["source"],
            np.array(columns["name"].to_pylist(), dtype=object),
            columns["posterior"].to_numpy(),
            columns["sheet"].to_numpy().astype(np.int64),
            columns["expected"].to_numpy(),
            draws,
            np.array(columns["answer"].to_pylist(), dtype=object),
            np.column_stack(chances) if chances else np.empty((table.num_rows, 0)),
        )


def read_history(folder: Path) -> AuditHistory | None:
    """Return the history of a folder of results; None if it has no worksheets."""
    path = folder / AUDITS
    return AuditHistory.load(path) if path.exists() else None


def refuse_lost_worksheets(folder: Path, history: AuditHistory | None) -> None:
    """Raise if results with worksheets would be replaced by results that do not know all of these worksheets."""
    old = read_history(folder)
    if old is None:
        return
    keep = f"Choose another folder (--out), or keep them by starting from these results: --config {folder / 'run.toml'}"
    if history is None or not set(old.keys()) <= set(history.keys()):
        raise FileExistsError(f"{folder} has worksheets whose rows and probabilities would be lost. {keep}.")
    answered = dict(zip(history.names, history.answer, strict=True))
    lost = sum(answered.get(name) == "" for name in old.names[old.answer != ""])
    if lost:
        raise FileExistsError(f"{folder} has answers to {counted(lost, 'row')} that would be lost. {keep}.")


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file; empty if it is not a file."""
    if not path.is_file():
        return ""
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def with_answers(settings: Settings) -> Settings:
    """Return settings whose audits are the answers of worksheets, which include the audits of an earlier column."""
    own = () if settings.audit in ("", ANSWERS) else (settings.audit,)
    return replace(settings, audit=ANSWERS, exclude=tuple(dict.fromkeys((*settings.exclude, *own))))


def row_names(table: Any, id: str) -> Any:
    """Return the id of each row as text, or its number if there is no id column; raise if ids are not unique."""
    if not id:
        return np.array([str(k) for k in range(1, len(table) + 1)], dtype=object)
    names = as_ids(table[id])
    if (names == "").any():
        row = int(np.flatnonzero((names == "").to_numpy())[0]) + 1
        raise ValueError(
            f"The id column {id!r} is empty in row {row}. A worksheet needs an id for each row. Fill it in, or fit "
            "without --id: rows are then identified by their number."
        )
    twice = names[names.duplicated()]
    if len(twice):
        raise ValueError(
            f"The id column {id!r} has {twice.iloc[0]!r} in several rows. A worksheet needs an id for each row. Name "
            "another id column, or fit without --id: rows are then identified by their number."
        )
    return names.to_numpy(dtype=object)


def _read_answers(answers: Any, ids: Any, name: str, source: str) -> Any:
    """Return the answers as yes, no, unsure, or an empty text."""
    found = []
    for answer, each in zip(answers, ids, strict=True):
        meaning = says(answer) if answer else None
        if answer == "":
            found.append("")
        elif meaning is not None:
            found.append(YES if meaning else NO)
        elif folded(answer) in _UNSURE_WORDS:
            found.append(UNSURE)
        else:
            raise ValueError(
                f"{source}: the answer {answer!r} for the {name} {each!r} is not clear. Write {YES}, {NO} or {UNSURE}, "
                "or leave the cell empty if the row was not checked."
            )
    return np.array(found, dtype=object)


def as_ids(column: Any) -> Any:
    """Return ids as text, numbers with all digits."""
    text = as_text(column)
    if column.dtype.kind != "f":
        return text
    return text.where((text == "") | (column % 1 == 0), column.map(str))


def _number_form(text: str) -> str:
    value = _number_in(text)
    return text if not np.isfinite(value) else str(int(value)) if value.is_integer() else str(value)


def _number_in(text: str) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return np.nan
