"""Whose answer a table is: a model knows the transformer that it was fitted behind.

Where the second fit of a plain pipeline fails half-way, its encoder is a new one and
the model the old one. The columns mean something else then, and what the encoder spent
that the model was fitted behind is in no statement.
"""

import dataclasses
import secrets
import weakref
from functools import wraps
from hashlib import sha256

import numpy as np

_ORIGINS: dict[int, str] = {}  # by the identity of tables that are still there
_NAME = "fairpriv_sklearn_fit"


def mark_of(fitted: dict) -> str:
    """A mark of a fit that no other has; with a seed, its price and what it published.

    What it published alone, such as lists of categories, two fits may have in common.
    """
    if fitted.get("random_state") is None:
        return secrets.token_hex(32)
    digest = sha256()
    published = {name for name in fitted if name.endswith("_")} - {"privacy_"}
    for name in sorted(published | ({"epsilon", "delta"} & set(fitted))):
        digest.update(name.encode())
        for part in _parts(fitted[name]):
            digest.update(part)
    return digest.hexdigest()


def _parts(value):
    """Yield what a released value is made of, as bytes."""
    if isinstance(value, dict):
        value = list(value.items())
    if dataclasses.is_dataclass(value):
        value = [getattr(value, one.name) for one in dataclasses.fields(value)]
    if isinstance(value, list | tuple):
        for one in value:
            yield from _parts(one)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield value.tobytes()
    elif isinstance(value, np.ndarray):
        yield from _parts(value.tolist())
    elif isinstance(value, str | int | float | np.generic):
        yield repr(value).encode()


def as_it_is(estimator):
    """What an estimator is now, whatever a fit in another thread publishes."""
    seen = object.__new__(type(estimator))
    seen.__dict__ = estimator.__dict__
    return seen


def remembering(transformer: type) -> type:
    """Let a class remember which tables it gave, whatever `set_output` makes of them.

    scikit-learn wraps a class when it is defined, so this comes around that.
    """
    for name in ("transform", "fit_transform"):
        setattr(transformer, name, _remembered(getattr(transformer, name)))
    return transformer


def _remembered(method):
    @wraps(method)
    def answer(self, *args, **kwargs):
        if method.__name__ == "transform":
            self = as_it_is(self)
        said = method(self, *args, **kwargs)
        _remember(said, self._mark)
        return said

    return answer


def _remember(answer, fit: str) -> None:
    """Remember that a fit, by its mark, gave this table."""
    if _is_pandas(answer):
        answer.attrs[_NAME] = fit  # slices and copies have it too
        return
    _ORIGINS[id(answer)] = fit
    weakref.finalize(answer, _ORIGINS.pop, id(answer), None).atexit = False


def origin(values) -> str | None:
    """Return the mark of the fit that gave this very table, or its pandas rows."""
    if _is_pandas(values):
        return values.attrs.get(_NAME)
    return _ORIGINS.get(id(values))


def _is_pandas(values) -> bool:
    return hasattr(values, "iloc") and isinstance(getattr(values, "attrs", None), dict)


def refuse_other_origin(estimator, values) -> None:
    """Refuse the answers of another fit than those an estimator was fitted on."""
    known, given = vars(estimator).get("_fitted_behind"), origin(values)
    if None not in (known, given) and known != given:
        raise ValueError(
            f"{type(estimator).__name__} was fitted on what another fit of the encoder "
            "gave: its columns meant something else. Fit encoder and model together "
            "again."
        )
