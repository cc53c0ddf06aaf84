"""Whose answer an array is: a model knows the encoder that it was fitted behind.

Where the second fit of a plain pipeline fails half-way, its encoder is a new one and
the model the old one. The columns mean something else then, and what the encoder spent
that the model was fitted behind is in no statement.
"""

from __future__ import annotations

import weakref

_ORIGINS: dict[int, str] = {}  # by the identity of arrays that are still there


def remember(answer, fit: str) -> None:
    """Remember that a fit, by its digest, gave this array."""
    _ORIGINS[id(answer)] = fit
    weakref.finalize(answer, _ORIGINS.pop, id(answer), None).atexit = False


def origin(values) -> str | None:
    """Return the digest of the fit that gave this very array, if one did."""
    return _ORIGINS.get(id(values))


def refuse_other_origin(estimator, values) -> None:
    """Refuse the answers of another fit than those an estimator was fitted on."""
    known, given = vars(estimator).get("_fitted_behind"), origin(values)
    if None not in (known, given) and known != given:
        raise ValueError(
            f"{type(estimator).__name__} was fitted on what another fit of the encoder "
            "gave: its columns meant something else. Fit encoder and model together "
            "again."
        )
