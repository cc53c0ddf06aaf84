"""From a file to a table of known columns, noting what was read from the data.

Every public fact that the file itself had to tell (a kind, a range, a list of
categories, the groups, the task) is noted: the privacy statement is conditional on it.
"""

import json
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from ..preprocessing import (
    Codebook,
    Column,
    InputError,
    Raw,
    category_key,
    is_missing,
    some,
)
from .columns import (
    Parsed,
    Writing,
    label_key,
    looked_up,
    named_columns,
    odd_notes,
    outside_note,
    parse_columns,
    read_named,
)

FEW_VALUES = 10  # a numeric target with at most as many values is taken as classes
MOST_CLASSES = 36
MOST_GROUPS = 36
MOST_LOST = 0.5  # share of the rows that --missing drop may leave out
FREQUENT = 0.05  # share of the cells from which on a word for none may be a class
NO_GROUP = "not stated"


@dataclass
class Table:
    """Columns of known kinds, ready for the models.

    Attributes
    ----------
    features : dict of str to Parsed
        Columns to learn from.
    codebook : Codebook
        What is declared about them.
    y : ndarray of shape (n_rows,)
    labels : ndarray of shape (n_rows,)
        Group of each row, one text for all sensitive columns together.
    target : str
    sensitive : list of str
    task : {"regression", "classification"}
    groups : list of str or None
        None: not declared; so are `classes` of a classification and `bounds`, the
        range of a regression's target.
    from_data : list of str
        Facts that the privacy statement is conditional on.
    assumed : list of str
        What it assumes of every row, and found to hold.
    left_out : list of str
        Rows and columns that are not used, and why.
    remarks : list of str
        What was guessed or counts as missing.
    ranks : {"learn", "uniform"}
        Whether numbers of a public range are ranked by learnt quantiles.
    """

    features: dict[str, Parsed]
    y: np.ndarray
    labels: np.ndarray
    target: str
    sensitive: list[str]
    task: str
    groups: list | None = None
    bounds: tuple[float, float] | None = None
    classes: list | None = None
    from_data: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    ranks: str = "learn"

    @property
    def size_is_public(self) -> bool:
        """Whether all rows are used: else their number is one of those conditions."""
        return not any(fact.startswith("the number of ") for fact in self.from_data)

    @property
    def codebook(self) -> Codebook:
        """What is declared about the features; dates are numbers of days."""
        columns = {}
        for name, p in self.features.items():
            # What means missing is missing already, however it was written. Whether a
            # typed file holds whole numbers is what one cell may decide.
            told = {"role": "feature", "missing_values": (), "integer": False}
            known = replace(p.column, **told)
            column = known if p.declared else Column()
            if column.kind == "date":
                column = Column("number", column.bounds, missing=column.missing)
            columns[name] = column
        return Codebook(tuple(columns.items()))

    @property
    def sensitive_name(self) -> str:
        return " and ".join(self.sensitive)


def simulated_table(seed) -> Table:
    """The table of the main job without a file: three groups, shifted targets."""
    from ..datasets import make_biased_regression

    X, y, group = make_biased_regression(
        n_samples=40_000, n_features=5, random_state=seed
    )
    features = {
        f"x{j}": Parsed(f"x{j}", Column("number", (-4, 4), missing=False), x, True)
        for j, x in enumerate(X.T)
    }
    # A column that tells the group, as postcodes or names do in real tables
    town = Column("number", (0, 2), missing=False)
    features["town"] = Parsed("town", town, group.astype(float), True)
    labels = np.array([f"group {g}" for g in group.tolist()], dtype=object)
    return Table(
        features=features,
        y=y,
        labels=labels,
        groups=[f"group {g}" for g in range(3)],
        target="y",
        sensitive=["group"],
        task="regression",
        bounds=(-5.0, 5.0),
        ranks="uniform",
    )


def load_codebook(path) -> Codebook:
    """The codebook of the command line."""
    if path is None:
        return Codebook()
    try:
        return Codebook.from_json(path)
    except (ValueError, TypeError) as error:
        text = str(error)
        raise InputError(text[0].upper() + text[1:]) from None


def load_table(args) -> Table:
    """Read the file that the command line names, and sort its columns by their use."""
    codebook = load_codebook(args.codebook)
    args.target = args.target or codebook.target
    args.sensitive = args.sensitive or list(codebook.groups)
    if not (args.target and args.sensitive):
        missing = "groups: --sensitive" if args.target else "target: --target"
        raise InputError(
            f"Neither the command line nor the codebook names the {missing} COLUMN."
        )
    raw = read_named(args)
    names = check_names(args, raw, codebook)
    codebook = _with_arguments(args, codebook)
    writing = Writing.of(args, raw)
    named = {"sensitive": args.sensitive, "groups": args.groups or ()}
    parsed = parse_columns(raw, codebook, names, writing, **named)
    n_in_file = len(next(iter(raw.columns.values())))
    left_out, remarks = list(raw.left_out), list(raw.remarks)
    from_data = looked_up(parsed, writing)
    if args.drop:
        left_out.append(columns_note(args.drop, "by --drop"))
    remarks += _words_for_none(raw.columns[args.target], parsed[args.target])
    rows, assumed = _rows(args, parsed, left_out, from_data, n_in_file)
    parsed = {name: p.take(rows) for name, p in parsed.items()}
    groups, labels = _listed_groups(args, parsed), join_labels(args.sensitive, parsed)
    _check_groups(groups or set(labels.tolist()), args)
    target = parsed[args.target]
    features = _features(args, parsed, left_out, remarks)
    if not features:
        raise InputError("No feature is left beside the target and the groups.")
    table = Table(
        features=features,
        y=target.values,
        labels=labels,
        groups=groups,
        target=args.target,
        sensitive=list(args.sensitive),
        task=_task(args, target, from_data),
        from_data=from_data,
        assumed=[*raw.assumed, *assumed],
        left_out=left_out,
        remarks=remarks,
    )
    if table.task == "regression":
        _numeric_target(table, target, args.bounds)
    else:
        _classes(table, target)
    return table


def check_names(args, raw: Raw, codebook) -> list[str]:
    """Columns to parse; the names on the command line must be in the file."""
    wanted = [*filter(None, [args.target]), *args.sensitive]
    for name in (*wanted, *args.drop):
        if name not in raw.columns:
            said = [*raw.remarks, *(f"left out: {one}" for one in raw.left_out)]
            ways_out = "--encoding", "--sheet"
            said = [one for one in said if any(way in one for way in ways_out)]
            also = [f" {one[0].upper()}{one[1:]}." for one in said]
            raise InputError(
                f"The file has no column {name!r}; {named_columns(raw)}."
                + "".join(also)
            )
    repeated = set(raw.repeated.values())
    for name in wanted:
        if name in repeated:
            raise InputError(
                f"The file names {name!r} twice, and it cannot be told which is meant; "
                "give each column its own name."
            )
    for name in codebook:
        if name not in raw.columns:
            raise InputError(
                f"The codebook describes a column {name!r} that the file does not have."
            )
    if set(wanted) & set(args.drop):
        raise InputError("--drop names the target or the sensitive column; keep both.")
    if args.target in args.sensitive:
        raise InputError("--target and --sensitive must be two different columns.")
    if len(set(args.sensitive)) < len(args.sensitive):
        raise InputError("--sensitive names a column twice.")
    for name in wanted:
        if name in codebook and codebook[name].kind == "left out":
            raise InputError(f"The codebook leaves out the column {name!r}.")
    return [n for n in raw.columns if not {n, raw.repeated.get(n)} & set(args.drop)]


def _with_arguments(args, codebook: Codebook) -> Codebook:
    """The codebook with what the arguments declare: kinds of target and groups."""
    codebook = of_kind("category", args.sensitive, codebook)
    task = "regression" if args.bounds else args.task
    wanted = {"regression": "number", "classification": "category"}.get(task)
    if args.bounds and args.task == "classification":
        raise InputError("--bounds belongs to a regression; classes have no range.")
    return of_kind(wanted, [args.target], codebook) if wanted else codebook


def of_kind(kind: str, names, codebook: Codebook) -> Codebook:
    """The codebook with a kind for columns that nobody declares."""
    columns = dict(codebook.columns)
    for name in names:
        column = columns.get(name, Column())
        if column.kind is None:
            columns[name] = replace(column, kind=kind)
    return Codebook(tuple(columns.items()))


# -------------------------------------------------------------------------------- rows
def _rows(args, parsed, left_out, from_data, n_in_file) -> tuple[np.ndarray, list]:
    """Which rows are used: those with a target and in a listed group.

    How many are not is a condition. That none is not is assumed: else a statement
    without a condition would tell it of every row.
    """
    rows, assumed = np.ones(n_in_file, dtype=bool), []

    def leave_out(which, why, fact, otherwise=None) -> int:
        nonlocal rows
        lost = int(np.sum(rows & which))
        if lost:
            left_out.append(f"{some(lost, 'row')} {why}")
            from_data.append(fact)
        elif otherwise:
            assumed.append(otherwise)
        rows = rows & ~which
        return lost

    used = {n: p for n, p in parsed.items() if p.column.kind != "left out"}
    refuse_ruled_out(used)
    if args.missing == "error":
        _refuse_gaps(used)
    target = parsed[args.target]
    leave_out(
        ~_listed(target),
        _without(args.target),
        f"the number of rows with a value of {args.target}",
        f"every row has a value of {args.target}",
    )
    if not rows.any():
        raise InputError(_no_target(args, target))
    listed = _listed_groups(args, parsed)
    if listed is not None:
        labels = join_labels(args.sensitive, parsed)
        _refuse_absent(listed, labels[rows], args.sensitive)
        leave_out(
            np.array([label not in set(listed) for label in labels]),
            f"outside the listed groups {', '.join(listed)}",
            "the number of rows in the listed groups",
            "every row is in a listed group",
        )
    if args.missing == "drop":
        gaps = np.any([p.gaps for p in used.values()], axis=0)
        before = int(rows.sum())
        fact = "the number of complete rows"
        lost = leave_out(gaps, "with a missing value", fact)
        if not lost:  # whether any was lost is a fact about the rows as well
            from_data.append(fact)
        if lost > MOST_LOST * before:
            raise InputError(
                f"--missing drop would leave out {lost:,} of {before:,} rows; without "
                "it no row is lost, or leave out the emptiest columns with --drop."
            )
    return np.flatnonzero(rows), assumed


def _refuse_gaps(used: dict[str, Parsed]) -> None:
    holes = [name for name, p in used.items() if p.gaps.any()]
    if holes:
        raise InputError(
            f"Values are missing in {', '.join(holes)}; use --missing keep to make "
            "missing a value of its own, --missing drop to leave those rows out, "
            "or --drop COLUMN to do without a column."
        )


def _no_target(args, target: Parsed) -> str:
    """What to do about a column that has no target in any row."""
    value = target.column.kind if target.is_number else "value"
    way_out = "leave out --bounds" if args.bounds else "another --task"
    book = json.dumps({args.target: {"kind": "date"}}, ensure_ascii=False)
    dates = f" Dates are a target where a codebook says {book}."
    return (
        f"No row has a {value} in {args.target!r}; name another --target, or "
        f"{way_out}." + dates * (value == "number")
    )


def _refuse_absent(listed: list, labels, sensitive) -> None:
    """Refuse groups of which at most one is there."""
    found = sorted(set(listed) & set(labels.tolist()))
    if len(found) < 2:
        held = f"{found[0]} only" if found else "none"
        raise InputError(
            f"Of the listed groups {', '.join(listed)} the file holds {held}; "
            f"{_way_to_write(listed, sensitive, labels)}."
        )


def refuse_ruled_out(used: dict[str, Parsed]) -> None:
    """Refuse missing values where the codebook says that there are none."""
    for name, p in used.items():
        if not p.column.missing and p.gaps.any():
            raise InputError(
                f"The column {name!r} has missing values, which the codebook rules "
                "out; correct the codebook."
            )


def _without(target: str) -> str:
    return f"without a value of {target}"


def _words_for_none(cells: list, target: Parsed) -> list[str]:
    """What is to be said of words for no value that may be classes: frequent ones."""
    if target.is_number:
        return []
    gaps = zip(cells, target.gaps.tolist(), strict=True)
    said = Counter(cell for cell, is_gap in gaps if is_gap and isinstance(cell, str))
    return [
        f"{n:,} cells of {target.name} say {word!r}, which counts as missing unless a "
        "codebook lists it as a category (--codebook)"
        for word, n in said.items()
        if is_missing(word) and n > FREQUENT * len(cells)
    ]


def _listed(target: Parsed) -> np.ndarray:
    """Rows with a target, on the public list of classes if there is one."""
    if target.column.categories is None:
        return ~target.gaps
    listed = {category_key(c) for c in target.column.categories}
    return np.array([v in listed for v in target.values])


# ------------------------------------------------------------------------------ groups
def join_labels(sensitive, parsed) -> np.ndarray:
    """One text per row: the group, or the intersection of several."""
    columns = [_texts(parsed[name]) for name in sensitive]
    if len(columns) == 1:
        return columns[0]
    return np.fromiter(
        (" / ".join(row) for row in zip(*columns, strict=True)), dtype=object
    )


def _texts(column: Parsed) -> np.ndarray:
    values = map(category_key, column.values) if column.is_number else column.values
    texts = np.fromiter(values, dtype=object)
    texts[column.gaps] = NO_GROUP
    return texts


def _listed_groups(args, parsed) -> list | None:
    """The public list of groups: of --groups, or of the codebook."""
    if args.groups:
        return list(dict.fromkeys(label_key(g) for g in args.groups))
    columns = [parsed[name] for name in args.sensitive]
    if not all(p.column.categories for p in columns):
        return None
    lists = [[category_key(c) for c in p.column.categories] for p in columns]
    return [" / ".join(group) for group in product(*lists)]


def _way_to_write(listed: list, sensitive, labels) -> str:
    """What to do about groups that nobody is in, as they are written."""
    if len(sensitive) > 1 and not all(" / " in group for group in listed):
        return "groups of several columns are a value of each, as in 'one / other'"
    plain = {"".join(str(label).casefold().split()) for label in labels}
    if plain.issuperset("".join(group.casefold().split()) for group in listed):
        return "capitals and blanks count: write them as the file does"
    return "check how they are written"


def _check_groups(groups, args):
    name = " and ".join(args.sensitive)
    if len(groups) > MOST_GROUPS:
        raise InputError(
            f"The column {name!r} holds {len(groups):,} groups; name those you mean by "
            "--groups, or another --sensitive column."
        )
    if len(groups) < 2:
        raise InputError(
            f"The column {name!r} holds one group only; fairness between groups needs "
            "two (see --groups)."
        )


# ------------------------------------------------------------------------------ target
def _task(args, target: Parsed, from_data) -> str:
    if args.task:
        return args.task
    if target.declared:
        return "regression" if target.is_number else "classification"
    from_data.append("the task")
    many = target.is_number and len(np.unique(target.values)) > FEW_VALUES
    return "regression" if many else "classification"


def _numeric_target(table: Table, target: Parsed, bounds) -> None:
    if not target.is_number:
        raise InputError(
            f"The target {table.target!r} is not numeric; use --task classification, "
            "or name another column."
        )
    low, high = bounds or target.column.bounds or (None, None)
    if low is None:
        return
    if not (math.isfinite(high - low) and low < high):
        raise InputError(
            f"The bounds of the target must be finite with low < high, got {low:g} and "
            f"{high:g}; pass --bounds LOW HIGH."
        )
    table.bounds = (float(low), float(high))


def _classes(table: Table, target: Parsed) -> None:
    table.y = _texts(target)
    if target.column.categories is not None:
        table.classes = [category_key(c) for c in target.column.categories]
    classes = table.classes or set(table.y.tolist())
    if len(classes) > MOST_CLASSES:
        raise InputError(
            f"The target {table.target!r} holds {len(classes):,} classes; did you mean "
            "--task regression, or another --target? Up to "
            f"{MOST_CLASSES} classes can be told apart."
        )
    if len(classes) < 2:
        lost = any(note.endswith(_without(table.target)) for note in table.left_out)
        raise InputError(
            f"The target {table.target!r} holds one class only."
            + " Cells such as '-', '?' and 'none' are missing values unless a "
            "codebook lists them as categories (--codebook)." * lost
        )


def in_order(text: str):
    try:
        return (0, float(text), text)
    except ValueError:
        return (1, 0.0, text)


# ---------------------------------------------------------------------------- features
def _features(args, parsed, left_out, remarks) -> dict[str, Parsed]:
    """Columns to learn from: all that are left and not empty by declaration."""
    features, by_book = {}, []
    for name, p in parsed.items():
        if name == args.target or name in args.sensitive:
            continue
        if p.column.kind == "left out" and p.declared:
            by_book.append(name)
            continue
        features[name] = p
    remarks += odd_notes(features.values())
    for p in features.values():
        remarks += outside_note(p)
        if p.n_month_first:
            remarks.append(
                f"{some(p.n_month_first, 'cell')} of {p.name} can only have the month "
                "first, but days come first in the others where that is a date: "
                "--dates month-first reads all alike"
            )
    if by_book:
        left_out.append(columns_note(by_book, "by the codebook"))
    return features


def columns_note(names, why="") -> str:
    what = "the column" if len(names) == 1 else "the columns"
    return f"{what} {', '.join(map(repr, names))}" + f" ({why})" * bool(why)
