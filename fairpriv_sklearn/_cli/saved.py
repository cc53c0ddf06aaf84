"""A fitted model in a file, and predictions for new rows by it."""

import csv
import dataclasses
import importlib
import io
import json
import warnings
from itertools import chain
from pathlib import Path

import numpy as np
import sklearn
from sklearn.base import BaseEstimator

import fairpriv_sklearn

from .._wall import PrivacyGuarantee
from ..inspection import printable
from ..preprocessing import Codebook, Column, DPTableEncoder, InputError, Raw, some
from .columns import (
    Writing,
    odd_notes,
    outside_note,
    parse_columns,
    read_named,
    unlike_note,
)
from .learnt import OTHER_GROUP, encoded, has_learnt
from .report import brief, card_of, of_rows
from .study import Study
from .table import join_labels
from .words import wrap, written

FORMAT = "fairpriv_sklearn model 1"
CARDS = {
    ".md": "to_markdown",
    ".html": "to_html",
    ".yaml": "to_yaml",
    ".yml": "to_yaml",
    ".json": "to_json",
}

KINDS = {
    "versions": str,
    "model": BaseEstimator,
    "encoder": DPTableEncoder,
    "target": str,
    "sensitive": list,
    "groups": list,
    "bounds": list | None,
    "day_first": dict,
    "decimal": str | None,
    "rows_per_person": int | None,
}


def save_model(study: Study, path: str) -> None:
    """Write the private and fair model, and what is needed to read new rows."""
    skops = needed_skops()
    table, learnt = study.table, study.learnt
    blind = getattr(study.model, "blind", False)
    declared = {
        name: p.column if p.declared else Column() for name, p in table.features.items()
    }
    content = {
        "format": FORMAT,
        "versions": _versions(),
        "model": study.model,
        "encoder": learnt.encoder,
        "codebook": Codebook(tuple(declared.items())).to_json(),
        "target": table.target,
        # a blind model needs no group to predict
        "sensitive": [] if blind else list(table.sensitive),
        "groups": list(learnt.groups),
        "bounds": list(learnt.bounds) if learnt.bounds else None,
        "guarantee": json.dumps(study.guarantee.to_dict()),
        "day_first": {
            name: p.day_first
            for name, p in table.features.items()
            if p.day_first is not None
        },
        # one for all columns; if it was found out, the statement is conditional on it
        "decimal": next(
            (p.decimal for p in table.features.values() if p.decimal), None
        ),
        "rows_per_person": study.rows_per_person,
    }
    written(path, skops.dumps(content))


def write_card(study: Study, path: str) -> None:
    """Write the card of the private and fair model, in the form of the file's name."""
    text = getattr(card_of(study), CARDS[Path(path).suffix.lower()])()
    written(path, text.encode("utf-8", "backslashreplace"))


def load_model(path: str) -> dict:
    """Read a saved model; what no model of ours holds is refused before it is made."""
    skops = needed_skops()
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise InputError(f"{path!r} cannot be read: {reason}.") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other versions: said below
            types = skops.get_untrusted_types(data=data)
            content = skops.loads(data, trusted=list(filter(_only_holds, types)))
        if content["format"] != FORMAT:
            raise ValueError
        for name, kind in KINDS.items():
            if not isinstance(content[name], kind):
                raise TypeError
        content["codebook"] = Codebook.from_json(content["codebook"])
        guarantee = PrivacyGuarantee.from_dict(json.loads(content["guarantee"]))
        content["guarantee"] = guarantee
    except Exception:  # skops and zipfile raise what they meet
        raise InputError(
            f"{path!r} is not a model that this program has saved by --save, or one of "
            "another version: save it again."
        ) from None
    return content


def _only_holds(name: str) -> bool:
    """Whether it names an estimator or a data class of ours, which do nothing.

    What is trusted is called while the file is read, with arguments out of the file: a
    function that writes files would write any, and one of Python's run any program.
    """
    module, _, kind = name.rpartition(".")
    if module.split(".")[0] != "fairpriv_sklearn":
        return False
    found = getattr(importlib.import_module(module), kind, None)
    if not isinstance(found, type) or found.__module__ != module:
        return False
    return dataclasses.is_dataclass(found) or issubclass(found, BaseEstimator)


def _versions() -> str:
    ours, theirs = fairpriv_sklearn.__version__, sklearn.__version__
    return f"fairpriv_sklearn {ours} with scikit-learn {theirs}"


def predict_rows(content: dict, raw: Raw, writing: Writing) -> tuple[list, list]:
    """Predictions for the rows, written as its numbers are, and remarks about cells."""
    codebook, sensitive = content["codebook"], content["sensitive"]
    for name in (*codebook, *sensitive):
        if name not in raw.columns:
            raise InputError(
                f"The table has no column {name!r}, which the model needs; it needs "
                f"{', '.join([*codebook, *sensitive])}."
            )
    groups = {name: Column("category", role="group") for name in sensitive}
    known = Codebook(tuple({**codebook.columns, **groups}.items()))
    learnt = {"orders": content["day_first"], "learnt_decimal": content["decimal"]}
    writing = dataclasses.replace(writing, **learnt)
    named = {"sensitive": sensitive, "groups": content["groups"] if sensitive else ()}
    parsed = parse_columns(raw, known, list(known), writing, **named)
    X = encoded(content["encoder"], parsed)
    outside, treated, given = 0, "treated like everybody together", {}
    if sensitive:
        labels = join_labels(sensitive, parsed)
        unknown = ~np.isin(labels.astype(str), content["groups"])
        outside = int(unknown.sum())
        if OTHER_GROUP in content["groups"]:
            labels[unknown] = OTHER_GROUP
            treated = f"counted as {OTHER_GROUP!r}"
        given = {"sensitive_features": labels}
    y = content["model"].predict(X, **given)
    if content["bounds"]:
        y = np.clip(y, *content["bounds"])
    remarks = odd_notes(parsed.values())
    remarks += chain.from_iterable(map(outside_note, parsed.values()))
    if has_learnt(content["encoder"]):
        for name, column in content["encoder"].codebook_.entries:
            remarks += unlike_note(parsed[name], column)
    else:
        remarks.append("too few rows to learn from: the model answers a constant")
    if outside:
        remarks.append(
            f"{some(outside, 'row')} of a group that the model does not know, {treated}"
        )
    said = y.tolist()
    if content["bounds"] and any(p.decimal == "," for p in parsed.values()):
        said = [str(number).replace(".", ",") for number in said]
    return said, remarks


def run_predict(args) -> int:
    """The command ``predict``: a table with one more column."""
    content = load_model(args.model)
    raw = read_named(args, [*content["codebook"], *content["sensitive"]])
    writing = Writing.of(args, raw)
    try:
        y, remarks = predict_rows(content, raw, writing)
    except InputError:
        raise
    except Exception:
        if content["versions"] == _versions():
            raise
        raise InputError(
            f"{args.model!r} was saved by {content['versions']}, and cannot be used by "
            f"{_versions()}: save it again."
        ) from None
    name = f"predicted {content['target']}"
    while name in raw.columns:
        name += " (new)"
    lines = zip(*raw.columns.values(), y, strict=True)
    stream = io.StringIO(newline="")
    between = raw.separator or ","  # blanks do not tell that a cell is empty
    between = "," if between == " " else between
    writer = csv.writer(stream, lineterminator="\n", delimiter=between)
    writer.writerow([*raw.columns, name])
    writer.writerows(["" if c is None else c for c in line] for line in lines)
    written(args.out, stream.getvalue().encode("utf-8", "replace"))
    for remark in remarks:
        print(f"! {remark}")
    print(f"{some(len(y), 'prediction')} written to {args.out}.")
    statement = of_rows(content["rows_per_person"], brief(content["guarantee"]))
    print(wrap(printable(statement, 1500)))
    return 0


def needed_skops():
    """What reads and writes models; an error says how to get it."""
    try:
        import skops.io
    except ImportError:
        raise InputError(
            "Saved models need skops, which is not installed: pip install "
            "'fairpriv_sklearn[data]', or pip install skops."
        ) from None
    return skops.io
