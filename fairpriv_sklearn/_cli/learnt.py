"""What nobody declared, learnt privately: kinds, ranges, categories, groups, classes.

One encoder learns the columns to predict from, and turns them into bounded numbers;
another one the groups and the target, whose noise does not grow with the table. What it
could not learn within its budget is read from the data, and the statement is then
conditional on it.
"""

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from .._wall import GaussianEvent, expected_guarantee
from ..preprocessing import (
    Codebook,
    Column,
    DPTableEncoder,
    InputError,
    needed_pandas,
    some,
)
from .columns import Parsed, range_of
from .table import Table, columns_note, in_order

OTHER_GROUP = "all others"
# By questions 4 and 5 of examples/benchmarks/enough_people.py, on simulated tables.
# Moments of d numbers are d^2 noisy numbers: few for each column.
_FOR_MOMENTS = 4
# Rows in units of the noise of one count from which on groups of a fifth of them are
# found, and ranges hold all but a hundredth of the targets.
_ENOUGH = {"category": 40.0, "number": 45.0}
# People, in these units, of whom half of the groups are found: with 4, a third are, and
# with 8 all (sixty simulated tables).
_FOUND = 5.0
# Fewer people of no listed group, in these units, may be nobody: two counts or more are
# taken from all.
_NOBODY = 3.0
# Before each label, which the encoder would else take for a number, a date or a gap
# where it reads True, 2020-01-31 or none.
_LABEL = "="
_MARGIN = 0.5  # a learnt range is wider by this share of it on either side


@dataclass
class Learnt:
    """Fitted encoders, and the facts of a table completed by them.

    Attributes
    ----------
    encoder : DPTableEncoder
        Of the columns to predict from.
    lists : DPTableEncoder or None
        Of groups and target, where nobody declared them and rows are enough.
    y, labels : ndarray of shape (n_rows,)
        With classes and groups that are on the lists.
    groups : list of str
    classes : list of str or None
    bounds : (float, float) or None
    facts : list of str
        What was learnt, and paid for.
    """

    encoder: DPTableEncoder
    lists: DPTableEncoder | None
    y: np.ndarray
    labels: np.ndarray
    groups: list
    classes: list | None
    bounds: tuple[float, float] | None
    facts: list[str]


def encoded(encoder: DPTableEncoder, features: dict[str, Parsed]) -> np.ndarray:
    """Bounded numbers of the columns that an encoder knows."""
    if not encoder.feature_slices_:
        raise InputError(
            "Nothing can be learnt of any column within this budget; raise --epsilon "
            "or describe the columns in a codebook (--codebook)."
        )
    names = encoder.feature_names_in_
    return encoder.transform(_frame({name: _cells(features[name]) for name in names}))


def to_list(table: Table) -> dict[str, Column]:
    """The groups and the target, where nobody declared them."""
    columns = {}
    if table.groups is None:
        columns[_group_column(table)] = Column("category")
    is_number = table.task == "regression"
    if (table.bounds if is_number else table.classes) is None:
        columns[table.target] = Column("number" if is_number else "category")
    return columns


def unfitted_encoders(table: Table, args, listed: dict) -> dict[str, DPTableEncoder]:
    """Encoders of the columns and, if any are to be listed, of target and groups."""
    moments = table.task == "regression" and args.base_model == "linear"
    encoder = DPTableEncoder(
        table.codebook,
        ranks=table.ranks,
        n_coordinates=_FOR_MOMENTS if moments else None,
        interactions=args.interactions,
        random_state=args.seed,
    )
    if not listed:
        return {"encoder": encoder}
    seed = args.seed  # with noise of its own: not that of the columns once more
    if seed is not None:
        seed = int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])
    lists = DPTableEncoder(Codebook(tuple(listed.items())), random_state=seed)
    return {"encoder": encoder, "lists": lists}


def drowned(lists: DPTableEncoder | None, n_rows: int) -> list[str]:
    """Columns to be read, as noise would drown them: those that need most rows.

    By public numbers alone, before anything is paid for: what is read, and said to be
    a condition, must not hang on what the noise was. Without them the others may do.
    """
    if lists is None:
        return []
    there = _rows_to_noise(lists, n_rows)
    needs = {name: _ENOUGH[column.kind] for name, column in lists.codebook.entries}
    most = max(needs.values())
    return [name for name, need in needs.items() if there < need == most]


def expected_groups(lists, table: Table, sizes: dict, n_rows: int) -> dict:
    """Sizes of the groups that are likely to be learnt, and of all others, if any."""
    if lists is None or _group_column(table) not in dict(lists.codebook.entries):
        return sizes
    least = _FOUND * n_rows / _rows_to_noise(lists, n_rows)
    named = {group: size for group, size in sizes.items() if group != OTHER_GROUP}
    found = {group: size for group, size in named.items() if size >= least}
    others = sum(sizes.values()) - sum(found.values())
    return found | {OTHER_GROUP: others} if others else found


def has_learnt(encoder) -> bool:
    """Whether what the codebook does not say was learnt, or nothing was to learn."""
    return encoder.privacy_.epsilon > 0.0 or encoder._needs_nothing()


def learn(table: Table, encoders: dict[str, DPTableEncoder], train) -> Learnt:
    """Fit the encoders to the training rows and complete the table's facts."""
    encoder, lists = encoders["encoder"], encoders.get("lists")
    names = list(table.features)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Said below, with options of the command line.
        warnings.filterwarnings("ignore", "Most cells of the columns")
        features = table.features.items()
        encoder.fit(_frame({name: _cells(p)[train] for name, p in features}))
    table.remarks += [str(warning.message).removesuffix(".") for warning in caught]
    found = encoder.codebook_
    facts, crowds = [], []
    if has_learnt(encoder):
        declared = table.codebook
        facts = [
            f"{what} of {name}"
            for name in names
            for what in _learnt_of(declared[name], name, found)
        ]
        crowds = [
            name
            for name in names
            if found[name].kind == "category" and not found[name].categories
        ]
    else:
        table.remarks.append(
            "too few rows for this epsilon: nothing was learnt of the columns that no "
            "codebook declares, and the private model answers a constant"
        )
    why = "no value in enough rows for this epsilon"
    part_of = encoder.feature_slices_  # one indicator: the same in every row
    unused = [name for name in crowds if part_of[name].stop - part_of[name].start < 2]
    if unused:
        table.left_out.append(columns_note(unused, why))
    if used := [name for name in crowds if name not in unused]:
        them = "it" if len(used) == 1 else "them"
        table.remarks.append(
            f"of {columns_note(used)} only a hash of the text and gaps count, as there "
            f"is {why}; --drop leaves {them} out"
        )
    found = Codebook(())
    if lists is not None:
        found = lists.fit(_listed(table, lists.codebook, train)).codebook_
    groups, labels = _groups(table, found, facts)
    classes, y = table.classes, table.y
    if table.task == "classification":
        classes, y = _classes(table, found, facts)
    bounds = table.bounds
    if table.task == "regression" and bounds is None:
        bounds = _bounds(table, found, facts)
    return Learnt(encoder, lists, y, labels, groups, classes, bounds, facts)


def without_rest(learnt: Learnt, table: Table, n_rows: int) -> Learnt:
    """The same, but those of no listed group, if hardly any, are of the largest one.

    By noisy counts. For a blind repair, which asks nobody for a group when it predicts:
    the noise of a group without people would hide what the others differ by.
    """
    name = _group_column(table)
    if learnt.lists is None or name not in learnt.lists.codebook_:
        return learnt
    column = learnt.lists._columns[[*learnt.lists.feature_slices_].index(name)]
    listed = _as_labels(column.labels)
    shares = column.spread.centre[: len(listed)]
    rest = (1 - shares.sum()) * _rows_to_noise(learnt.lists, n_rows)
    if len(listed) < 2 or OTHER_GROUP in listed or rest > _NOBODY:
        return learnt
    largest, others = listed[shares.argmax()], learnt.labels == OTHER_GROUP
    if others.any():
        table.remarks.append(
            f"{OTHER_GROUP!r} may be nobody by their noisy number: the blind repair "
            f"counts them as {largest!r}"
        )
    labels = np.where(others, largest, learnt.labels)
    return replace(learnt, groups=learnt.groups[:-1], labels=labels)


def _listed(table: Table, names, train):
    """Groups and target of the training rows, those that are learnt."""
    columns = {}
    if _group_column(table) in names:
        columns[_group_column(table)] = _as_texts(table.labels[train])
    if table.target in names:
        y = table.y[train]
        is_number = table.task == "regression"
        columns[table.target] = y.astype(object) if is_number else _as_texts(y)
    return _frame(columns)


def _frame(columns: dict):
    return needed_pandas().DataFrame(columns, dtype=object)


def _cells(p: Parsed) -> np.ndarray:
    return p.cells if p.cells is not None else p.values.astype(object)


def _as_texts(labels) -> np.ndarray:
    return np.fromiter((_LABEL + label for label in labels), dtype=object)


def _as_labels(texts) -> list[str]:
    return [text.removeprefix(_LABEL) for text in texts or ()]


def _group_column(table: Table) -> str:
    return " / ".join(table.sensitive)


def _learnt_of(declared: Column, name, found):
    if declared.kind is None:
        yield "the kind"
    kind = found[name].kind if name in found else None
    if kind in ("number", "date") and declared.range is None:
        yield "the range"
    if kind == "category" and declared.categories is None:
        yield "the categories"


def _learnt_column(table: Table, found, facts, name, fact, option) -> Column | None:
    """What was learnt of the groups or the target; None if it has to be read."""
    if name not in found:
        table.from_data.append(fact)
        return None
    column = found[name]
    if not (column.categories or column.bounds):
        raise InputError(
            f"{fact[0].upper()}{fact[1:]} cannot be learnt within this budget; pass "
            f"{option}."
        )
    facts.append(fact)
    return column


def _groups(table: Table, found, facts):
    """Groups that many rows share; the rest is a group of its own."""
    if table.groups is not None:
        return table.groups, table.labels
    fact, name = f"the groups of {table.sensitive_name}", _group_column(table)
    column = _learnt_column(table, found, facts, name, fact, "--groups")
    if column is None:
        return sorted(set(table.labels.tolist()), key=in_order), table.labels
    groups = sorted(_as_labels(column.categories), key=in_order)
    labels = table.labels.copy()
    others = ~np.isin(labels.astype(str), groups)
    labels[others] = OTHER_GROUP
    if others.any():
        table.remarks.append(
            f"{some(int(others.sum()), 'row')} of a group too small to be learnt, "
            f"counted as {OTHER_GROUP!r}; --groups lists groups by name"
        )
    return [*(g for g in groups if g != OTHER_GROUP), OTHER_GROUP], labels


def _classes(table: Table, found, facts):
    """Classes that many rows share; the rest is another one, or one of several."""
    classes, rest = table.classes, None
    if classes is None:
        fact, name = f"the classes of {table.target}", table.target
        column = _learnt_column(table, found, facts, name, fact, "--codebook")
        listed = table.y.tolist() if column is None else _as_labels(column.categories)
        classes = sorted(set(listed), key=in_order)
        if column is not None and len(classes) == 1:
            classes.append(rest := OTHER_GROUP)
    rare = ~np.isin(table.y.astype(str), classes)
    y = np.where(rare, rest or classes[0], table.y)
    if rest:
        table.y = y  # what is predicted is whether a row has the class
    if rare.any():
        table.remarks.append(
            f"{some(int(rare.sum()), 'row')} of a class too rare to be learnt, counted "
            f"as {rest or classes[0]}"
        )
    return classes, y


def _rows_to_noise(lists, n_rows) -> float:
    """Number of rows in units of the noise of one count; public numbers."""
    if lists._has_few_records(n_rows):
        return 0.0
    events = expected_guarantee(clone(lists)).events
    mus = [e.mu for e in events if isinstance(e, GaussianEvent)]
    n_columns = len(lists.codebook.entries)
    return n_rows * math.hypot(*mus) / math.sqrt(4 * n_columns) if mus else math.inf


def _bounds(table: Table, found, facts):
    """The range that most of the targets have, and some more."""
    fact, name = f"the range of {table.target}", table.target
    column = _learnt_column(table, found, facts, name, fact, "--bounds LOW HIGH")
    if column is None:
        return range_of(table.y)
    low, high = column.bounds
    margin = _MARGIN * (high - low)
    # Wages and ages do not fall below 0 because of a margin.
    return (max(0.0, low - margin) if low >= 0 else low - margin, high + margin)
