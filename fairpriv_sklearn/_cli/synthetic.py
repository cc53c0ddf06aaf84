"""The command ``synthesize``: a table of nobody, drawn from a private one of people."""

import re
import warnings

import numpy as np

from ..generative import DPSinkhornGenerator
from ..inspection import printable
from ..preprocessing import Codebook, Column, InputError, needed_pandas, some, with_role
from .columns import Parsed, Writing, looked_up, parse_columns, persons_note, read_named
from .report import brief, of_rows
from .table import check_names, load_codebook, of_kind, refuse_ruled_out
from .words import wrap, written


def run_synthesize(args) -> int:
    """Write a synthetic table, and what may be read from it."""
    parsed, codebook, facts = _people(args)
    generator, notes = _fitted(codebook, parsed, args)
    generator.privacy_ = generator.privacy_.qualified(**facts)
    n_rows = len(next(iter(parsed.values())).values) if args.rows is None else args.rows
    # Whole numbers are written without a point, also beside gaps.
    sample = generator.sample(n_rows).convert_dtypes()
    text = sample.to_csv(index=False, lineterminator="\n")
    written(args.out, text.encode("utf-8", "replace"))
    report = of_rows(args.rows_per_person, generator.quality_report())
    written(args.report, report.encode("utf-8", "backslashreplace"))
    # How many cells count as missing is told by the noisy tables alone.
    for note in (*persons_note(parsed), *notes):
        print(wrap(f"! {printable(note, 600)}", "  "))
    quality = generator.quality_
    print(f"{some(n_rows, 'synthetic row')} written to {args.out}.")
    print(f"Distance of single columns from the real ones, mean: {quality.one_way}.")
    print(f"Of pairs of columns: {quality.two_way}. More in {args.report}.")
    statement = of_rows(args.rows_per_person, brief(generator.privacy_))
    print(wrap(printable(statement, 1500)))
    return 0


def _people(args) -> tuple[dict[str, Parsed], Codebook, dict[str, list[str]]]:
    """The columns to draw anew, what is declared of them, and on what that rests."""
    codebook = load_codebook(args.codebook)
    raw = read_named(args, codebook)
    names = check_names(args, raw, codebook)
    if args.target:
        codebook = with_role(codebook, "target", args.target)
    for name in args.sensitive:
        codebook = with_role(codebook, "group", name)
    codebook = of_kind("category", args.sensitive, codebook)
    writing = Writing.of(args, raw)
    parsed = parse_columns(raw, codebook, names, writing, sensitive=args.sensitive)
    # An empty column that nobody declared stays: that it is empty is not public.
    used = {
        name: p
        for name, p in parsed.items()
        if not (p.declared and p.column.kind == "left out")
    }
    if not used:
        raise InputError("No column is left to draw.")
    refuse_ruled_out(used)
    roles = {name: Column(role=one.role) for name, one in codebook.columns.items()}
    declared = {
        # What was found out of others is not public: whether one is empty, say.
        name: p.column if p.declared else roles.get(name, Column())
        for name, p in used.items()
    }
    facts = {
        "assumptions": raw.assumed,
        "conditional_on": looked_up(parsed, writing),
    }
    return used, Codebook(tuple(declared.items())), facts


# The command line has read money and dates already, and has options of its own.
_SAID_TO_PROGRAMS = re.compile(": parse_cells .*")
_WAY_OUT = ": a codebook lists categories, and --drop leaves columns out."


def _fitted(codebook, parsed, args) -> tuple[DPSinkhornGenerator, list[str]]:
    """The generator, and what it warned of."""
    budget = {"epsilon": args.epsilon, "delta": args.delta}
    generator = DPSinkhornGenerator(**budget, codebook=codebook, random_state=args.seed)
    frame = needed_pandas().DataFrame({name: _cells(p) for name, p in parsed.items()})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            generator.fit(frame)
        except (ValueError, ArithmeticError) as error:
            said = " ".join(str(error).split())
            raise InputError(f"The table cannot be drawn anew: {said}") from None
    notes = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return generator, [_SAID_TO_PROGRAMS.sub(_WAY_OUT, note) for note in notes]


def _cells(p: Parsed) -> np.ndarray:
    """As the generator reads them: dates are dates again."""
    if p.cells is not None:
        return p.cells
    if p.column.kind == "date":
        seconds = np.where(
            p.gaps, np.iinfo(np.int64).min, np.nan_to_num(p.values) * 86_400
        )
        return np.rint(seconds).astype(np.int64).astype("datetime64[s]")
    return p.values.astype(object)
