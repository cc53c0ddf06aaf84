"""Fit candidates and ask them about rows, quietly.

What a candidate shows of itself beside its released model is nothing: no warning, no
output, no ledger entry, no numeric error.
"""

import numpy as np

from ..._shared.guarded import NUMERIC_ERRORS, ask_wrapped, fit_wrapped
from ..._shared.rowwise import BLOCK_ROWS
from ..._wall import n_rows_of, rows_of
from ._groups import groups_for


def fit_quietly(model, X, y, given) -> bool:
    """Fit `model`; return whether it could be fitted. Nothing else is shown.

    Where the numbers of a fit break down the candidate fails, and nobody is told. Other
    errors are about parameters, or say that the table is outside the domain.
    """
    try:
        groups = groups_for(model, "fit", given)
        fit_wrapped(model, X, y, own_words=True, **groups)
    except NUMERIC_ERRORS:
        return False
    return True


def responses(model, methods: list[str], X, given, neighboring: str) -> dict:
    """Return what `model` says about the rows, each row on its own."""
    return {m: _respond(model, m, X, given, neighboring) for m in methods}


def _respond(model, method: str, X, given, neighboring: str) -> np.ndarray:
    n_rows = n_rows_of(X)
    # A deleted record moves the others: rows then go through in blocks of one size.
    size = n_rows if neighboring == "replace_one" else BLOCK_ROWS
    starts = range(0, n_rows, size)
    blocks = [np.minimum(np.arange(i, i + size), n_rows - 1) for i in starts]

    def say(rows):
        keywords = groups_for(model, method, rows_of(given, rows))
        keywords |= {"private": True, "own_words": True}
        return np.asarray(ask_wrapped(model, method, rows_of(X, rows), **keywords))

    try:
        return np.concatenate([say(rows) for rows in blocks])[:n_rows]
    except NUMERIC_ERRORS:
        # One row must not spoil the answers about the others.
        return _row_by_row(say, n_rows)


def _row_by_row(say, n_rows: int) -> np.ndarray:
    """Answers row by row; None, or NaN among numbers, where that fails."""
    answers = []
    for row in range(n_rows):
        try:
            answers.append(say(np.array([row]))[0])
        except NUMERIC_ERRORS:
            answers.append(None)
    shape = next((np.shape(a) for a in answers if a is not None), ())
    if shape:
        missing = np.full(shape, np.nan)
        return np.array([missing if a is None else a for a in answers])
    if all(answer is None or isinstance(answer, float) for answer in answers):
        return np.array(answers, dtype=np.float64)
    return np.fromiter(answers, dtype=object)
