"""Write what was found: a table for the terminal, Markdown, JSON and a picture."""

import hashlib
import io
import json
import math
import os
import warnings
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import numpy as np

import fairpriv_sklearn

from .._wall import markdown_line, markdown_table, privacy_report, round_up
from ..inspection import families, picture_text, printable
from ..preprocessing import InputError
from .study import Result, Study, in_words, told_apart
from .words import new_file, number, wrap, written_together

CARD = "card.md"
_OPTIONS = "--codebook", "--groups", "--bounds", "--task", "--decimal", "--dates"
_ALL_ROWS = "The number of rows is no condition of a file whose rows are all used."
REPORTS = ("report.md", "report.json", "report.png", CARD)
UNCERTAINTY = (
    "±: one standard error of the choice of test rows; other noise would change the "
    "private models as well. By chance: the gap that the same predictions show in the "
    "mean when they are dealt to the groups at random."
)
NOT_PRIVATE = "computed from the data without noise: for the data holder only"


def text_table(study: Study) -> str:
    """The results as a table of plain text."""
    words = study.measures
    header = [*(f"{name} *" for name in _columns(words)), "epsilon"]
    header[0] = "model"
    rows = [_cells(r) for r in (study.constant, *study.results)]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def _columns(words) -> list[str]:
    return ["model", words.error_name, words.gap_name, "by chance"]


def _cells(r: Result) -> list[str]:
    error, gap = number(r.error, r.error_se), number(r.gap, r.gap_se)
    return [r.name, error, gap, number(r.gap_by_chance), epsilon_text(r)]


def terminal(study: Study) -> str:
    """Everything that is said at the end of a run, on the terminal."""
    table = study.table
    groups = ", ".join(
        f"{printable(g)}: {n:,} + {n_test:,}"
        for g, (n, n_test) in study.group_sizes.items()
    )
    lines = [
        f"* {NOT_PRIVATE}, as are the group sizes.",
        f"  {UNCERTAINTY}",
        f"  {study.n_train:,} training rows + {study.n_test:,} test rows: {groups}.",
    ]
    # Of many names the middle is left out: the reason is in the last third.
    lines += [f"  {printable(text, 400)}." for text in summary(study)]
    lines += [f"! {printable(text, 400)}" for text in study.warnings[study.n_before :]]
    statement = of_rows(study.rows_per_person, brief(study.guarantee))
    lines += ["", printable(statement, 1500)]
    if study.learnt.facts:
        n_facts = len(study.learnt.facts)
        lines.append(
            f"Learnt privately, within this epsilon: {n_facts} facts that no codebook "
            "declares (kinds, ranges, categories, groups; see report.md)."
        )
    if (study.rows_per_person or 1) > 1:
        lines.append(_persons(study))
    if table.from_data:
        lines.append(f"{', '.join(_OPTIONS)} make facts public.")
    if not table.size_is_public:
        lines.append(_ALL_ROWS)
    return "\n".join([text_table(study), "", *(wrap(line, "  ") for line in lines)])


def card_of(study: Study):
    """The card of the private and fair model."""
    from sklearn.pipeline import Pipeline

    steps = [("columns", study.learnt.encoder), ("model", study.model)]
    if study.learnt.lists is not None:
        steps.insert(0, ("lists", study.learnt.lists))
    report = privacy_report(Pipeline(steps))
    stated = replace(study.guarantee, proofs=report.guarantee.proofs)
    steps = tuple(
        replace(step, notes=tuple(map(in_words, step.notes))) for step in report.steps
    )
    report = replace(report, guarantee=stated, steps=steps)
    context = {
        "name": f"Private and fair {study.table.task} of {study.table.target}",
        "description": f"Groups: {study.table.sensitive_name}. Made by the command "
        "line.",
        "records_per_person": study.rows_per_person,
    }
    if study.table.size_is_public:
        context["n_records"] = len(study.table.y)
    return report.to_card(context)


def _persons(study: Study) -> str:
    """What epsilon means for a person."""
    if (study.rows_per_person or 1) == 1:
        return "It counts records: one row of the file is one person."
    said = card_of(study).answers("whom")[1]
    return f"It counts records, the rows of the file. Rows of one person: {said}"


def of_rows(rows_per_person: int | None, statement: str) -> str:
    """A statement, with the number of rows of a person that was told."""
    if (rows_per_person or 1) == 1:
        return statement
    told = f"a person has at most {rows_per_person}"
    return statement.replace("each person has one", told)


def summary(study: Study) -> list[str]:
    """What was left out, and what was guessed."""
    table, shown = study.table, []
    if table.left_out:
        shown.append(f"Left out: {'; '.join(table.left_out)}")
    shown += [text[0].upper() + text[1:] for text in table.remarks]
    return shown


def brief(guarantee) -> str:
    """The statement, with the first four of the facts it is conditional on."""
    held = {"codebook={": "the codebook (see the card)"}
    held["columns={"] = "the codebook (see the report)"
    assumed = (
        next((told for mark, told in held.items() if one.startswith(mark)), one)
        for one in guarantee.assumptions
    )
    guarantee = replace(guarantee, assumptions=tuple(assumed))
    facts = list(map(printable, guarantee.conditional_on))
    if not facts:
        return str(guarantee)
    if len(facts) > 4:
        facts = [*facts[:4], f"{len(facts) - 4} more (see report.md)"]
    if_public = replace(
        guarantee, conditional_on=(), epsilon=guarantee.epsilon_if_public
    )
    return (
        "Conditional on facts read from the data, which are not covered (for anybody "
        f"else epsilon is infinite): {', '.join(facts)}. If these are public: "
        f"{if_public}"
    )


def epsilon_text(result: Result) -> str:
    """Epsilon for people: rounded up, or the word for none."""
    text = "none" if math.isinf(result.epsilon) else round_up(result.epsilon)
    return f"{text} if public" if _conditional(result) else text


def _conditional(result: Result) -> bool:
    return bool(getattr(result.guarantee, "conditional_on", ()))


# ------------------------------------------------------------------------------- files
def check_folder(out: str, force: bool) -> Path:
    """The folder of the report; reports of ours in it may be replaced, nothing else."""
    if not out or "\0" in out:
        raise InputError(f"--out {out!r} is not the name of a folder.")
    if os.path.isfile(out):
        raise InputError(f"--out {out!r} is a file; name a folder.")
    folder = Path(out)
    for name in REPORTS:
        new_file(str(folder / name), force=True, made=out)
    there = [name for name in REPORTS if (folder / name).exists()]
    if there and not force and not _is_ours(folder / "report.json"):
        raise InputError(
            f"{folder / there[0]} is there already and is no report of this program; "
            "name another folder by --out, or use --force."
        )
    if not force and _is_filled_in(folder):
        raise InputError(
            f"{folder / CARD} has been written in; name another folder by --out, or "
            "use --force."
        )
    return folder


def _is_ours(path: Path) -> bool:
    try:
        return "fairpriv_sklearn" in json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _is_filled_in(folder: Path) -> bool:
    """Whether somebody has changed the card since it was written."""
    try:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        return report.get("card") not in (None, _digest((folder / CARD).read_bytes()))
    except (OSError, ValueError, AttributeError):
        return False


def _digest(card: bytes) -> str:
    return hashlib.sha256(card).hexdigest()


def write_report(
    study: Study, out: str, saved: bool = False, own_card: bool = True
) -> list[Path]:
    """Write `report.md`, `report.json`, and maybe `report.png` and `card.md`."""
    picture = draw(study)
    files = {"report.md": _bytes(markdown(study, has_picture=picture is not None))}
    card = _bytes(card_of(study).to_markdown()) if own_card else None
    told = {**plain_data(study, saved), "card": card and _digest(card)}
    files["report.json"] = _bytes(json.dumps(told, indent=2) + "\n")
    if picture is not None:
        files["report.png"] = picture
    others = {} if card is None else {CARD: card}
    written_together({str(Path(out, n)): data for n, data in (files | others).items()})
    if picture is None:  # one of an earlier report
        Path(out, "report.png").unlink(missing_ok=True)
    return [Path(out, name) for name in files]


def _bytes(text: str) -> bytes:
    # a lone surrogate, which JSON may hold, has no place in UTF-8
    return text.encode("utf-8", errors="backslashreplace")


def markdown(study: Study, has_picture: bool) -> str:
    """The report: who may read it, the numbers, the privacy statement, the caveats."""
    words, table = study.measures, study.table
    few = " (few)"
    lines = [
        f"# Private and fair {table.task}: {markdown_line(study.title)}",
        "**For the data holder.** Releasable: the private models and their privacy "
        "statement. Not private, and not to be published: the test errors and gaps "
        "below with their standard errors, the group sizes, what was left out, the "
        "plain and the constant model, and the picture; they were computed from the "
        "data without noise.",
        markdown_table(
            [*_columns(words), "epsilon"], map(_cells, (study.constant, *study.results))
        ),
        f"{words.error_name}: {markdown_line(words.error_meaning)}. {words.gap_name}: "
        f"{words.gap_meaning}. Both on {study.n_test} test rows (parted from "
        f"{study.n_train} training rows at random). {UNCERTAINTY} Epsilon: "
        "none means that the model is not differentially private"
        + (
            "; *if public*: for a reader to whom the facts below are public."
            if table.from_data
            else "."
        ),
        markdown_table(
            [f"group of {table.sensitive_name}", "training rows", "test rows"],
            [
                [group, str(n), f"{n_test}{few * (group in study.rough)}"]
                for group, (n, n_test) in study.group_sizes.items()
            ],
        ),
    ]
    if study.warnings:
        lines += ["## Please note", _list(study.warnings)]
    if has_picture:
        lines += ["![How the models treat the groups](report.png)"]
    lines += [
        "## Privacy statement of the private and fair model",
        of_rows(study.rows_per_person, study.guarantee.to_markdown()),
        f"{_persons(study)} The number of rows that are used is taken as public.",
    ]
    if study.learnt.facts:
        lines += [
            "### Learnt privately",
            "Nobody declared these facts; they were learnt with noise, and the epsilon "
            "above covers them.",
            _list(_together(study.learnt.facts)),
        ]
    if table.from_data:
        lines += [
            "### Conditional on",
            "These facts were read from the data and are **not covered**; the epsilon "
            "above holds for people who regard them as public. Pass them as arguments "
            f"(`{'`, `'.join(_OPTIONS)}`) to make it unconditional.",
            *([] if table.size_is_public else [_ALL_ROWS]),
            _list(table.from_data),
        ]
    if table.left_out:
        lines += ["### Left out", _list(table.left_out)]
    if table.remarks:
        lines += ["### How the table was used", _list(table.remarks)]
    lines += [
        "## Reading the numbers",
        "Each private model stands for itself; whoever publishes several of them "
        "spends the sum. Parity of the distributions between groups is one notion of "
        "fairness among several, and holds up to the gap shown. The guarantee speaks "
        "of what is learned from one person's record, not of what can be learned "
        "about everybody.",
        f"Made by fairpriv_sklearn {fairpriv_sklearn.__version__}.\n",
    ]
    return "\n\n".join(lines)


def _together(facts: list[str]) -> list[str]:
    """Facts of the same kind in one line: forty columns have eighty of them.

    >>> _together(["the kind of age", "the range of age", "the kind of town"])
    ['the kind of age, town', 'the range of age']
    """
    columns: dict = {}
    for what, _, name in (fact.partition(" of ") for fact in facts):
        columns.setdefault(what, []).append(name)
    return [f"{what} of {', '.join(names)}" for what, names in columns.items()]


def _list(texts) -> str:
    return "\n".join(f"- {markdown_line(text)}" for text in texts)


def plain_data(study: Study, saved: bool = False) -> dict:
    """The report as plain data; what is not private is labelled, figure by figure."""
    return {
        "fairpriv_sklearn": fairpriv_sklearn.__version__,
        "title": study.title,
        "task": study.table.task,
        "version": fairpriv_sklearn.__version__,
        "private": False,
        "releasable": [
            *("models[].guarantee", "repair_notes"),
            *(["the saved model"] if saved else []),
        ],
        "not_private": {
            "why": NOT_PRIVATE,
            "what": [
                *("models[].error", "models[].error_se", "models[].gap"),
                *("models[].gap_se", "models[].gap_by_chance", "constant"),
                *("n_train", "n_test", "group_sizes", "group_test_sizes"),
                *("share_clipped", "left_out", "remarks", "warnings"),
            ],
        },
        "error": study.measures.error_name,
        "gap": study.measures.gap_name,
        "n_train": study.n_train,
        "n_test": study.n_test,
        "groups": [str(group) for group in study.learnt.groups],
        "group_sizes": {g: n for g, (n, _) in study.group_sizes.items()},
        "group_test_sizes": {g: n for g, (_, n) in study.group_sizes.items()},
        "share_clipped": study.share_clipped,
        "models": [
            {
                "name": r.name,
                **_figures(r),
                "epsilon": "inf" if _conditional(r) else _written(r.epsilon),
                "epsilon_if_public": _written(r.epsilon),
                "guarantee": r.guarantee and r.guarantee.to_dict(),
            }
            for r in study.results
        ],
        "constant": _figures(study.constant),
        "rows_per_person": study.rows_per_person,
        "repair_notes": study.model.repair_notes_,
        "conditional_on": study.table.from_data,
        "learnt": study.learnt.facts,
        "left_out": study.table.left_out,
        "remarks": study.table.remarks,
        "warnings": study.warnings,
    }


def _written(epsilon: float) -> float | str:
    return "inf" if math.isinf(epsilon) else epsilon


def _figures(r: Result) -> dict:
    names = ("error", "error_se", "gap", "gap_se", "gap_by_chance")
    figures = {name: getattr(r, name) for name in names}
    plain = {name: None if math.isnan(x) else x for name, x in figures.items()}
    return plain | {"figures": NOT_PRIVATE}


# ----------------------------------------------------------------------------- picture
def draw(study: Study) -> bytes | None:
    """Draw how the models treat the groups; None without matplotlib."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return None
    shown = [study.table.target, *study.group_sizes, *(study.learnt.classes or ())]
    fonts = {"font.family": families("".join(map(picture_text, shown)))}
    stream = io.BytesIO()
    with warnings.catch_warnings(), plt.rc_context(fonts):
        warnings.simplefilter("ignore")  # a glyph that no font has
        figure = _figure(study, plt)
        figure.savefig(stream, dpi=120, bbox_inches="tight", format="png")
    plt.close(figure)
    return stream.getvalue()


def _figure(study: Study, plt):
    if study.table.task == "classification":
        return _draw_rates(study, plt)
    from ..inspection import GroupDistributionDisplay

    labels = study.test_labels.astype(str)
    told = np.isin(labels, told_apart(labels))  # as in the gaps of the table
    display = GroupDistributionDisplay.from_predictions(
        study.predictions[0][told],
        study.predictions[-1][told],
        sensitive_features=labels[told].tolist(),
        score_name=f"prediction of {picture_text(study.table.target)}",
    )
    models = study.results[0].name, study.results[-1].name
    shown = zip(display.axes_, display.names, models, strict=True)
    for axes, name, model in shown:
        axes.set_title(axes.get_title().replace(name, f"{name} ({model})"))
    return display.figure_


def _draw_rates(study: Study, plt):
    """Bars of how often each class is predicted, per group and model."""
    groups, classes = list(study.group_sizes), study.learnt.classes
    shown = classes[1:] if len(classes) == 2 else classes[:6]
    height = 1.2 + 0.55 * len(groups)
    figure, axes = plt.subplots(
        1, len(shown), figsize=(3 + 3 * len(shown), height), sharey=True, squeeze=False
    )
    looks = (("#999999", "//"), ("#56B4E9", ".."), ("#0072B2", ""))
    target = picture_text(study.table.target)
    for ax, label in zip(axes[0], shown, strict=True):
        for i, (result, y_pred) in enumerate(
            zip(study.results, study.predictions, strict=True)
        ):
            members = [y_pred[study.test_labels == group] for group in groups]
            rates = [np.mean(rows == label) if len(rows) else 0.0 for rows in members]
            se = [
                np.sqrt(p * (1 - p) / max(1, len(rows)))
                for p, rows in zip(rates, members, strict=True)
            ]
            color, hatch = looks[i]
            ax.barh(
                np.arange(len(groups)) + 0.27 * (i - 1), rates, 0.27, xerr=se,
                color=color, hatch=hatch, edgecolor="white", label=result.name,
                error_kw={"linewidth": 0.8},
            )  # fmt: skip
        title = fill(f"{target} = {picture_text(label)}", 34, break_long_words=False)
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel("share predicted")
        is_empty = not any(bar.get_width() for bar in ax.patches)
        ax.set_xlim(0.0, 1.0 if is_empty else None)
    axes[0, 0].set_yticks(np.arange(len(groups)), list(map(picture_text, groups)))
    axes[0, 0].invert_yaxis()
    axes[0, -1].legend(title="model", loc="upper left", bbox_to_anchor=(1.01, 1))
    n_hidden = len(classes) - max(2, len(shown))
    axes[0, 0].annotate(
        "Not private: drawn from the data. Whiskers: ± one standard error."
        + (f" Not drawn: {n_hidden} more classes." if n_hidden else ""),
        xy=(0, 0), xycoords="axes fraction", xytext=(0, -48),
        textcoords="offset points", style="italic",
    )  # fmt: skip
    return figure
