"""Public ranges: bounds of the columns, and the range of a target."""

import numpy as np

from .._wall import Fact, warn_leak


def n_entries(bounds) -> int:
    """How many columns bounds are for, by the longer end."""
    return max(map(np.size, bounds if isinstance(bounds, tuple) else ()), default=1)


def read_bounds(bounds, n_columns: int, *, name: str = "bounds") -> tuple:
    """Read public bounds ``(low, high)``, each a number or one entry per column.

    Parameters
    ----------
    bounds : tuple (low, high)
        Each a number or a one-dimensional array with `n_columns` entries.
    n_columns : int
    name : str, default="bounds"
        Name of the argument, for errors.

    Returns
    -------
    low, high : ndarray of shape (n_columns,), float64
        Finite, with low <= high and a finite difference.
    """
    form = (
        f"{name} must be a tuple (low, high), each a number or a one-dimensional array "
        f"with an entry for each of the {n_columns} columns; write a list of pairs "
        "as tuple(zip(*pairs))"
    )
    if isinstance(bounds, dict):
        form += "; bounds by name go into the codebook of a DPTableEncoder before it"
    if not (isinstance(bounds, tuple) and len(bounds) == 2):
        raise ValueError(f"{form}.")
    ends = []
    for end in bounds:
        try:
            end = np.asarray(end, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{form}.") from None
        if end.ndim > 1 or (end.ndim == 1 and len(end) != n_columns):
            raise ValueError(f"{form}; got an entry of shape {end.shape}.")
        ends.append(np.broadcast_to(end, n_columns).copy())
    low, high = ends
    with np.errstate(all="ignore"):
        proper = np.isfinite(high - low).all() and (low <= high).all()
    if not proper:
        raise ValueError(
            f"{name} must be finite with low <= high and high - low finite."
        )
    return low, high


def read_target_range(target_bounds) -> tuple[float, float]:
    """Read the public range ``(low, high)`` of a target."""
    try:
        low, high = (float(bound) for bound in target_bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (0 < high / 2 - low / 2 < np.inf):
        raise ValueError(
            "target_bounds must be a pair (low, high) of finite numbers with "
            f"low < high, got {target_bounds!r}."
        )
    return low, high


def public_target_range(target_bounds, y) -> tuple[float, float, Fact]:
    """Range of a target, read from `y` if it is not given, and the fact about it."""
    if target_bounds is None:
        fact = warn_leak("target_bounds", "the range of the target")
        return *map(float, range_of(y)), fact
    low, high = read_target_range(target_bounds)
    return low, high, Fact("target_bounds", (low, high))


def range_of(y) -> tuple[np.ndarray, np.ndarray]:
    """Range of each target, of which a constant one has some to be scaled by."""
    limit = np.finfo(np.float64).max / 4
    low, high = np.maximum(y.min(axis=0), -limit), np.minimum(y.max(axis=0), limit)
    return low, np.where(high > low, high, low + np.maximum(1.0, np.abs(low)))
