"""A fitted model in a file, and predictions for new rows by it."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from fairpriv_sklearn._cli.columns import Writing, parse_columns
from fairpriv_sklearn._cli.learnt import OTHER_GROUP, encoded
from fairpriv_sklearn._cli.report import brief
from fairpriv_sklearn._cli.study import Study
from fairpriv_sklearn._cli.table import join_labels
from fairpriv_sklearn._cli.words import printable, wrap, written
from fairpriv_sklearn._wall import PrivacyGuarantee, privacy_report
from fairpriv_sklearn.preprocessing import (
    Codebook,
    Column,
    InputError,
    Raw,
    read_table,
    some,
)

FORMAT = "fairpriv_sklearn model 1"
OURS = ("fairpriv_sklearn.", "sklearn.", "numpy.", "scipy.", "builtins.", "functools.")


def save_model(study: Study, path: str) -> None:
    """Write the private and fair model, and what is needed to read new rows."""
    skops = _skops()
    table, learnt = study.table, study.learnt
    blind = getattr(study.model, "blind", False)
    declared = {
        name: p.column if p.declared else Column() for name, p in table.features.items()
    }
    content = {
        "format": FORMAT,
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
    }
    written(path, skops.dumps(content))


def write_card(study: Study, path: str) -> None:
    """Write the card of the private and fair model, in the form of the file's name."""
    from sklearn.pipeline import Pipeline

    steps = [("columns", study.learnt.encoder), ("model", study.model)]
    report = replace(privacy_report(Pipeline(steps)), guarantee=study.guarantee)
    card = report.to_card(
        {
            "name": f"Private and fair {study.table.task} of {study.table.target}",
            "description": f"Groups: {study.table.sensitive_name}. Made by the command "
            "line.",
        }
    )
    forms = {
        ".html": card.to_html,
        ".json": card.to_json,
        ".yaml": card.to_yaml,
        ".yml": card.to_yaml,
    }
    text = forms.get(Path(path).suffix.lower(), card.to_markdown)()
    written(path, text.encode("utf-8", "backslashreplace"))


def load_model(path: str) -> dict:
    """Read a saved model; types of other libraries in it are refused."""
    skops = _skops()
    wrong = f"{path!r} is not a model that this program has saved by --save."
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise InputError(f"{path!r} cannot be read: {reason}.") from None
    try:
        types = skops.get_untrusted_types(data=data)
        strange = [name for name in types if not name.startswith(OURS)]
        content = {} if strange else skops.loads(data, trusted=types)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(wrong)
        content["codebook"] = Codebook.from_json(content["codebook"])
        guarantee = PrivacyGuarantee.from_dict(json.loads(content["guarantee"]))
        content["guarantee"] = guarantee
    except InputError:
        raise
    except Exception:  # skops and zipfile raise what they meet
        raise InputError(wrong) from None
    return content


def predict_rows(content: dict, raw: Raw, writing: Writing) -> tuple[np.ndarray, list]:
    """Predictions for the rows of a table, and remarks about its cells."""
    codebook, sensitive = content["codebook"], content["sensitive"]
    for name in (*codebook, *sensitive):
        if name not in raw.columns:
            raise InputError(
                f"The table has no column {name!r}, which the model needs; it needs "
                f"{', '.join([*codebook, *sensitive])}."
            )
    groups = {name: Column("category", role="group") for name in sensitive}
    known = Codebook(tuple({**codebook.columns, **groups}.items()))
    writing = replace(
        writing,
        orders=content.get("day_first", {}),
        learnt_decimal=content.get("decimal"),
    )
    parsed = parse_columns(raw, known, list(known), writing, strict=False)
    X = encoded(content["encoder"], list(codebook), parsed)
    labels, given = [], {}
    if sensitive:
        labels = join_labels([parsed[name] for name in sensitive])
        if OTHER_GROUP in content["groups"]:
            labels[~np.isin(labels.astype(str), content["groups"])] = OTHER_GROUP
        given = {"sensitive_features": labels}
    y = content["model"].predict(X, **given)
    if content["bounds"]:
        y = np.clip(y, *content["bounds"])
    outside = sum(label not in set(content["groups"]) for label in labels)
    remarks = [
        f"{some(p.n_odd, 'cell')} of {name} counted as missing"
        for name, p in parsed.items()
        if p.n_odd
    ]
    if outside:
        remarks.append(
            f"{some(outside, 'row')} of a group that the model does not know, treated "
            "like everybody together"
        )
    return y, remarks


def run_predict(args) -> int:
    """The command ``predict``: a table with one more column."""
    content = load_model(args.model)
    raw = read_table(
        args.data, separator=args.separator, encoding=args.encoding, sheet=args.sheet
    )
    writing = Writing(
        args.decimal, args.dates and args.dates == "day-first", raw.separator
    )
    y, remarks = predict_rows(content, raw, writing)
    name = f"predicted {content['target']}"
    while name in raw.columns:
        name += " (new)"
    lines = zip(*raw.columns.values(), y.tolist(), strict=True)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*raw.columns, name])
    writer.writerows(["" if c is None else c for c in line] for line in lines)
    written(args.out, stream.getvalue().encode("utf-8", "replace"))
    for remark in remarks:
        print(f"! {remark}")
    print(f"{some(len(y), 'prediction')} written to {args.out}.")
    print(wrap(printable(brief(content["guarantee"]), 1500)))
    return 0


def _skops():
    try:
        import skops.io
    except ImportError:
        raise InputError(
            "Saved models need skops, which is not installed: pip install "
            "'fairpriv_sklearn[data]', or pip install skops."
        ) from None
    return skops.io
