"""From a table of people to a private and fair model and a report.

Fit three models on the rows of a table: a plain one, one that is differentially
private, and one that is private and treats the groups alike. Print how wrong each is
and how differently it treats the groups, and write a report with a picture and the
privacy statement. Without a file it runs on simulated people.

Reads CSV and other text (any usual separator, encoding and decimal mark, packed or
not), Excel, Parquet and Arrow. Money and percentages are numbers, and so are dates.
"""

import argparse
import math
import os
import sys
from contextlib import suppress
from decimal import Decimal
from pathlib import Path


def _stopped() -> int:
    """What Ctrl-C says, and the exit status."""
    print("\nfairpriv_sklearn: stopped", file=sys.stderr)
    return 130


try:  # imports take a second or two, and `main` is not there yet
    import fairpriv_sklearn
    from fairpriv_sklearn._cli.models import BASE_MODELS
    from fairpriv_sklearn._cli.words import (
        check_ending,
        lenient,
        new_file,
        refuse_same,
        wrap,
        written,
    )
    from fairpriv_sklearn.inspection import printable
    from fairpriv_sklearn.preprocessing import SEPARATORS, InputError
except KeyboardInterrupt:
    sys.exit(_stopped())

EPILOG = """\
examples:
  python -m fairpriv_sklearn
  python -m fairpriv_sklearn people.csv --target salary --sensitive sex --epsilon 1
  python -m fairpriv_sklearn people.csv --write-codebook people.json
  python -m fairpriv_sklearn people.csv --target hired --sensitive sex race \\
      --codebook people.json --out report --save model.skops
  python -m fairpriv_sklearn predict model.skops new.csv --out predictions.csv
  python -m fairpriv_sklearn synthesize people.csv --epsilon 1 --out synthetic.csv

epsilon says how much one person's record may change what anybody can learn from the
model: 1 is a common choice, 0.1 is strict, above 10 promises little. Kinds, groups,
ranges and categories that are not given are learnt with noise, within this epsilon;
what few rows cannot teach is read from the data, and the report then says that epsilon
is conditional on it. A codebook is a JSON file of public facts:
  {"age": [17, 90], "education": ["school", "college"]}"""

ERROR = "fairpriv_sklearn: error: "
"""How every sentence about a wrong argument or table starts, of all commands."""

MOST_ROWS = 10**7
"""Of a synthetic table: what no memory holds would be found out after the fit."""


class _Parser(argparse.ArgumentParser):
    """One sentence about a wrong argument, without the list of all of them."""

    def error(self, message):
        self.exit(2, f"{ERROR}{message} (--help lists the arguments)\n")


def parser() -> argparse.ArgumentParser:
    """The arguments of the main job."""
    parser = _Parser(
        prog="python -m fairpriv_sklearn",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--version",
        action="version",
        version=f"fairpriv_sklearn {fairpriv_sklearn.__version__}",
    )
    add("data", nargs="?", metavar="DATA", help="table with a header")
    add("--target", metavar="COLUMN", help="what to predict")
    add(
        "--sensitive",
        metavar="COLUMN",
        nargs="+",
        action="extend",
        default=[],
        help="which column names the groups; several: their intersections",
    )
    add(
        "--task",
        choices=["regression", "classification"],
        help="default: regression for a numeric target with many values",
    )
    add_budget(parser)
    add(
        "--fairness-tolerance",
        type=_tolerance,
        default=0.0,
        metavar="T",
        help="difference between groups that is let pass, 0 to 1 (default: 0); "
        "auto, for a number: what noise and sampling cannot tell from none",
    )
    add(
        "--constraint",
        choices=["demographic_parity", "equalized_odds"],
        default="demographic_parity",
        help="what the groups are to have alike in a classification: how often a "
        "class is predicted, or that among those of the same class",
    )
    add(
        "--base-model",
        choices=BASE_MODELS,
        default="linear",
        help="the private model that is made fair (default: linear)",
    )
    add(
        "--interactions",
        action="store_true",
        help="let the private model learn how two columns act together, where records "
        "and budget allow; it costs some accuracy where none do",
    )
    add(
        "--blind",
        action="store_true",
        help="a fair model that predicts without knowing the group",
    )
    add(
        "--groups",
        nargs="+",
        action="extend",
        metavar="LABEL",
        help="public list of groups; other rows are left out",
    )
    add(
        "--bounds",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="public range of a numeric target",
    )
    add(
        "--write-codebook",
        metavar="FILE.json",
        help="write a codebook of DATA to fill in, with names and declared kinds",
    )
    add(
        "--missing",
        choices=["keep", "drop", "error"],
        default="keep",
        help="missing is a value of its own (default), leave out rows with missing "
        "values, or stop at them",
    )
    add_reading(parser)
    add("--save", metavar="FILE.skops", help="write the private and fair model")
    add(
        "--card",
        metavar="FILE",
        help="where to write the card of the model for the data-protection officer: "
        ".md, .html, .yaml or .json (default: card.md beside the report)",
    )
    add("--out", default="fairpriv-report", help="folder of the report")
    return parser


def add_budget(parser) -> None:
    """The arguments of a private fit, and what it may write over."""
    add = parser.add_argument
    add("--epsilon", type=float, default=1.0, help="privacy budget (default: 1)")
    add("--delta", type=float, default=1e-5, help="failure chance (default: 1e-5)")
    add(
        "--drop",
        nargs="+",
        action="extend",  # said twice, both are left out
        default=[],
        metavar="COLUMN",
        help="columns not to use",
    )
    add(
        "--codebook",
        metavar="FILE.json",
        help="public kinds, ranges and categories of the columns",
    )
    add(
        "--rows-per-person",
        type=int,
        metavar="K",
        help="how many rows of one person there are at most, for what is said of the "
        "privacy: epsilon is for one row",
    )
    add("--force", action="store_true", help="replace files that are there already")
    add("--seed", type=int, help="reproducible, and hence not private: for study only")


def _tolerance(text: str):
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        said = f"must be a number from 0 to 1, or auto, got {text!r}"
        raise argparse.ArgumentTypeError(said) from None


def add_reading(parser) -> None:
    """The arguments that say how a file is written."""
    add = parser.add_argument
    add(
        "--separator",
        metavar="CHARACTER",
        help=f"of a text file: {' '.join(w for w in SEPARATORS if len(w) > 2)} or any "
        "character (default: found out)",
    )
    add("--decimal", choices=[".", ","], help="decimal mark (default: found out)")
    add(
        "--dates",
        choices=["day-first", "month-first"],
        help="what 3/4/2020 means (default: found out, and day-first in columns that "
        "nobody declares)",
    )
    add("--encoding", help="of a text file (default: found out)")
    add(
        "--sheet",
        help="of an Excel file (default: the first one with the columns named)",
    )


def _without_exponents(argv: list[str]) -> list[str]:
    """-1e3 behind --bounds as -1000: argparse takes it for an option before 3.14."""
    plain = list(argv)
    at = argv.index("--bounds") if "--bounds" in argv else len(argv)
    for i in range(at + 1, min(at + 3, len(argv))):
        with suppress(ValueError):
            plain[i] = f"{Decimal(repr(float(argv[i]))):f}"
    return plain


def parse(argv=None) -> argparse.Namespace:
    """Parse and check the arguments."""
    rules = parser()
    argv = sys.argv[1:] if argv is None else argv
    args, others = rules.parse_known_args(_without_exponents(argv))
    if any(one.startswith("-") for one in others):
        rules.error(f"unrecognized arguments: {' '.join(others)}")
    if others:
        rules.error(
            "one table is read, and it is named first, as in people.csv --target pay "
            f"--sensitive sex: not {args.data!r} and {others[0]!r}; commands are "
            "predict and synthesize, and models are audited by python -m "
            "fairpriv_sklearn.audit"
        )
    # A codebook may name the target and the groups; `load_table` asks for the rest.
    if args.data and not (args.write_codebook or args.codebook):
        if not (args.target and args.sensitive):
            rules.error(
                f"a table needs --target COLUMN and --sensitive COLUMN{_columns(args)}"
            )
    if not args.data and (args.target or args.sensitive or args.write_codebook):
        rules.error("name the file of the table first, as in people.csv --target pay")
    check_budget(rules, args)
    if args.fairness_tolerance != "auto" and not 0 <= args.fairness_tolerance <= 1:
        rules.error(
            f"--fairness-tolerance must lie in [0, 1], got {args.fairness_tolerance:g}"
        )
    if args.bounds and not all(map(math.isfinite, args.bounds)):
        rules.error("--bounds must be finite")
    if args.groups and len(set(args.groups)) < 2:
        rules.error("--groups must name at least two groups")
    return args


def _columns(args) -> str:
    """What to choose from, if the file can be read."""
    from fairpriv_sklearn._cli.columns import named_columns, read_named

    with suppress(InputError):
        return f"; {printable(named_columns(read_named(args)), 600)}"
    return ""


def check_budget(rules, args) -> None:
    """Check what `add_budget` has added."""
    if not 1e-4 <= args.epsilon <= 1e4:
        rules.error(f"--epsilon must lie in [0.0001, 10000], got {args.epsilon:g}")
    if not 0 < args.delta < 1:
        rules.error(f"--delta must lie between 0 and 1, got {args.delta:g}")
    if args.rows_per_person is not None and args.rows_per_person < 1:
        rules.error(f"--rows-per-person must be 1 or more, got {args.rows_per_person}")
    if args.seed is not None and not 0 <= args.seed < 2**32:
        rules.error(f"--seed must lie in [0, 2**32), got {args.seed}")


def main(argv=None) -> int:
    """Run the command line; the exit status is 2 if the input cannot be used."""
    lenient()
    try:
        argv = sys.argv[1:] if argv is None else list(argv)
        status = _command(argv)
        sys.stdout.flush()
        return status
    except InputError as error:
        print(f"{ERROR}{printable(error, 600)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _stopped()
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:
            return _unheard(error)
        # A bug of ours: a sentence, and no cell in it.
        if os.environ.get("FAIRPRIV_SKLEARN_DEBUG"):
            raise
        print(
            f"fairpriv_sklearn: internal error ({type(error).__name__}); with "
            "FAIRPRIV_SKLEARN_DEBUG=1 in the environment it shows where; please report "
            "it.",
            file=sys.stderr,
        )
        return 3


def _command(argv: list[str]) -> int:
    if argv[:1] == ["predict"]:
        return predict(argv[1:])
    if argv[:1] == ["synthesize"]:
        return synthesize(argv[1:])
    return run(parse(argv))


def _unheard(error: OSError) -> int:
    """Standard output takes no more, as on a full disk; files are written before."""
    if not isinstance(error, BrokenPipeError):
        said = f"standard output cannot be written: {error.strerror}"
        print(f"fairpriv_sklearn: {said}", file=sys.stderr)
    # What is left of it is written again at the exit of Python.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def run(args) -> int:
    """The main job, or the codebook to fill in."""
    if args.write_codebook:
        return write_codebook(args)
    from fairpriv_sklearn._cli.report import (
        CARD,
        REPORTS,
        check_folder,
        terminal,
        write_report,
    )
    from fairpriv_sklearn._cli.saved import CARDS, needed_skops, save_model, write_card
    from fairpriv_sklearn._cli.study import run_study
    from fairpriv_sklearn._cli.table import load_table, simulated_table

    folder = check_folder(args.out, args.force)
    named = [
        new_file(path, args.force, args.out) for path in (args.save, args.card) if path
    ]
    reports = [str(folder / name) for name in REPORTS if not args.card or name != CARD]
    refuse_same(named + reports, [path for path in (args.data, args.codebook) if path])
    if args.card:
        check_ending("--card", args.card, *CARDS)
    if args.save:
        check_ending("--save", args.save, ".skops")
        needed_skops()
    if args.data:
        table = load_table(args)
        title = f"{table.target} by {table.sensitive_name}"
    else:
        table, title = simulated_table(args.seed), "simulated people"
    study = run_study(table, args, title, say=_say)
    if args.save:  # first: it is what the budget was spent on
        save_model(study, args.save)
    written = write_report(study, args.out, bool(args.save), own_card=not args.card)
    written += [Path(args.save)] if args.save else []
    if args.card:
        write_card(study, args.card)
    written.append(Path(args.card or folder / CARD))
    print()
    print(terminal(study))
    print()
    if not any(str(path).endswith("report.png") for path in written):
        print("No picture: install matplotlib to get one.")
    print(f"Written: {', '.join(str(path) for path in written)}")
    return 0


def predict(argv) -> int:
    """Predictions for new rows by a saved model."""
    from fairpriv_sklearn._cli.saved import run_predict

    rules = _Parser(
        prog="python -m fairpriv_sklearn predict",
        description="Add a column of predictions to a table, by a model that --save "
        "has written. Costs no budget, whatever the number of rows.",
    )
    rules.add_argument("model", metavar="MODEL.skops")
    rules.add_argument("data", metavar="DATA", help="table with the model's columns")
    out = "CSV to write, parted and with a decimal mark as DATA"
    rules.add_argument("--out", default="predictions.csv", help=out)
    add_reading(rules)
    rules.add_argument("--force", action="store_true", help="replace the file --out")
    args = rules.parse_args(argv)
    new_file(args.out, args.force)
    refuse_same([args.out], [args.model, args.data])
    check_ending("--out", args.out, ".csv", ".txt")
    return run_predict(args)


def synthesize(argv) -> int:
    """A synthetic table, and a report of how far it can be trusted."""
    from fairpriv_sklearn._cli.synthetic import run_synthesize

    rules = _Parser(
        prog="python -m fairpriv_sklearn synthesize",
        description="Write a table of made-up people that is like the one of DATA, and "
        "a report of how far it can be trusted. What the columns are and nobody "
        "declares is learnt with noise, within epsilon.",
    )
    add = rules.add_argument
    add("data", metavar="DATA", help="table with a header")
    add(
        "--target",
        metavar="COLUMN",
        help="what models will predict: what it has to do with other columns is "
        "measured with less noise",
    )
    add(
        "--sensitive",
        metavar="COLUMN",
        nargs="+",
        action="extend",
        default=[],
        help="columns of groups; of those that the codebook lists the report says how "
        "well each is drawn",
    )
    add("--rows", type=int, metavar="N", help="rows to write (default: as many)")
    add("--report", metavar="FILE.md", help="default: beside --out, ending in .md")
    out = "CSV to write, with commas and decimal points whatever DATA has"
    add("--out", default="synthetic.csv", help=out)
    add_budget(rules)
    add_reading(rules)
    args = rules.parse_args(argv)
    check_budget(rules, args)
    if args.rows is not None and not 1 <= args.rows <= MOST_ROWS:
        rules.error(f"--rows must lie in [1, {MOST_ROWS}], got {args.rows}")
    args.report = args.report or str(Path(args.out).with_suffix(".md"))
    outputs = [new_file(path, args.force) for path in (args.out, args.report)]
    refuse_same(outputs, [path for path in (args.data, args.codebook) if path])
    check_ending("--out", args.out, ".csv", ".txt")
    check_ending("--report", args.report, ".md")
    return run_synthesize(args)


def write_codebook(args) -> int:
    """Write names and declared kinds of the columns for a person to fill in."""

    from fairpriv_sklearn._cli.columns import read_named
    from fairpriv_sklearn.preprocessing import KINDS, Codebook, Column, with_role

    path = new_file(args.write_codebook, args.force)
    refuse_same([path], [args.data])
    raw = read_named(args)
    codebook = Codebook(
        tuple((name, raw.declared.get(name, Column())) for name in raw.columns)
    )
    for role, names in (("target", [args.target]), ("group", args.sensitive)):
        for name in filter(None, names):
            if name not in codebook:
                raise InputError(f"The file has no column {name!r}.")
            codebook = with_role(codebook, role, name)
    written(path, codebook.to_json().encode("utf-8"))
    print(
        f"Written: {path}. Fill in kinds, ranges and categories from the "
        "questionnaire, not from the data; then pass it by --codebook. In place of "
        f"null a column has one of the kinds {', '.join(KINDS)}, or a line is as short "
        'as in {"age": [17, 90], "smoker": ["no", "yes"], "name": "left out"}.'
    )
    if any(column.kind for column in raw.declared.values()):
        print(
            "The kinds in it are the types of the file, which single cells may have "
            "decided: strike those that the questionnaire does not say."
        )
    return 0


def _say(text: str) -> None:
    print(wrap(f"! {printable(text, 400)}", "  "), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
