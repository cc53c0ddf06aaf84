"""Scores as sums over records, so that noise can be added to them.

Every record of a test set adds a short vector: each per-record score scaled to
[-1/2, 1/2], and a one in a single cell of a table of groups, if disparities are asked
for. The noisy sum of these vectors is all that a score ever shows of the data.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

from .._door.labels import positions_in
from .._shared.arguments import calls, number, one_of, real, word
from .._shared.guarded import WrappedEstimatorError, guarded
from ..metrics import _disparity

# Per-record scores are rounded to this grid: their sums are then exact.
_UNIT = 1 << 20
_KS_BINS = 32
DISPARITIES = {
    "demographic_parity_difference": "groups",
    "equalized_odds_difference": "cells",
    "ks_parity_difference": "bins",
}


@dataclass(frozen=True)
class BoundedScore:
    """Mean of a bounded score of single records; greater is better.

    .. math:: \\frac1n \\sum_i \\min(h, \\max(l, s(y_i, \\hat y_i)))

    Parameters
    ----------
    function : callable
        ``function(y_true, y_pred) -> array of shape (n,)``: one number per record that
        depends on the record only.
    low, high : float
        Public range of the numbers; others are clipped to it. NaN counts as `low`.
    response_method : {"predict", "predict_proba"}, default="predict"
        What `y_pred` is.
    name : str, default="score"
        What reports call it.

    See Also
    --------
    ConstrainedScore : The best score among the candidates that are fair enough.

    Examples
    --------
    >>> from fairpriv_sklearn.model_selection import BoundedScore
    >>> within_one = BoundedScore(lambda y, p: abs(y - p) <= 1, low=0, high=1)
    >>> within_one.name
    'score'
    """

    function: Callable = field(compare=False)
    low: float
    high: float
    response_method: str = "predict"
    name: str = "score"

    def __post_init__(self):
        calls("function", self.function)
        low, high = real("low", self.low), real("high", self.high)
        if not (low < high and -math.inf < low - high):
            raise ValueError(
                "A BoundedScore needs finite low < high with a finite difference, got "
                f"{low!r} and {high!r}."
            )
        one_of("predict", "predict_proba")("response_method", self.response_method)
        word("name", self.name)


@dataclass(frozen=True)
class ConstrainedScore:
    """The best score among the candidates whose disparity is small enough.

    A candidate whose (noisy) disparity is at most `at_most` is better than any other;
    among those the score decides. If no candidate is fair enough, the fairest wins.

    Parameters
    ----------
    score : str or BoundedScore, default="accuracy"
        What to maximise.
    disparity : {"demographic_parity_difference", "equalized_odds_difference", \
            "ks_parity_difference"}, default="demographic_parity_difference"
        What to bound.
    at_most : float, default=0.05
        Largest disparity. Range: [0, 1].

    Examples
    --------
    >>> from fairpriv_sklearn.model_selection import ConstrainedScore
    >>> ConstrainedScore("accuracy", at_most=0.05)
    ConstrainedScore(score='accuracy', disparity='demographic_parity_difference', \
at_most=0.05)
    """

    score: str | BoundedScore = "accuracy"
    disparity: str = "demographic_parity_difference"
    at_most: float = 0.05

    def __post_init__(self):
        one_of(*DISPARITIES)("disparity", self.disparity)
        number(0, 1)("at_most", self.at_most)


def _is_right(y_true, y_pred):
    pairs = zip(np.asarray(y_true).tolist(), np.asarray(y_pred).tolist(), strict=True)
    return np.fromiter((a == b for a, b in pairs), dtype=float, count=len(y_true))


ACCURACY = BoundedScore(_is_right, 0.0, 1.0, name="accuracy")
_CLASSIFICATION = {
    "accuracy": ACCURACY,
    "neg_error_rate": BoundedScore(
        lambda y, p: _is_right(y, p) - 1.0, -1.0, 0.0, name="neg_error_rate"
    ),
}
_REGRESSION = {
    "neg_mean_absolute_error": lambda y, p: -np.abs(y - p),
    "neg_mean_squared_error": lambda y, p: -((y - p) ** 2),
}
SCORE_NAMES = [*_CLASSIFICATION, *_REGRESSION, *(f"neg_{name}" for name in DISPARITIES)]


def needs_target_bounds(scoring) -> bool:
    """Whether a score is stated on the range of a regression target."""
    if isinstance(scoring, ConstrainedScore):
        table = DISPARITIES[scoring.disparity]
        return table == "bins" or needs_target_bounds(scoring.score)
    return scoring in _REGRESSION or scoring == "neg_ks_parity_difference"


def table_of(scoring) -> str | None:
    """Which table of groups a score needs: "groups", "cells", "bins" or None."""
    if isinstance(scoring, ConstrainedScore):
        return DISPARITIES[scoring.disparity]
    if isinstance(scoring, str) and scoring.startswith("neg_"):
        return DISPARITIES.get(scoring.removeprefix("neg_"))
    return None


def bounded_score(scoring, target_bounds) -> BoundedScore | None:
    """Return the per-record score behind a name; None for a disparity alone."""
    if isinstance(scoring, ConstrainedScore):
        return bounded_score(scoring.score, target_bounds)
    if isinstance(scoring, BoundedScore):
        return scoring
    if scoring in _CLASSIFICATION:
        return _CLASSIFICATION[scoring]
    if scoring in _REGRESSION:
        low, high = target_bounds
        loss = _REGRESSION[scoring]
        with np.errstate(all="ignore"):
            worst = float(loss(np.float64(high), np.float64(low)))
        if worst == -math.inf:
            raise ValueError(f"target_bounds are too wide for {scoring!r}.")

        def clipped(y_true, y_pred):
            y_true, y_pred = (np.clip(v, low, high) for v in (y_true, y_pred))
            return loss(y_true.astype(float), y_pred.astype(float))

        return BoundedScore(clipped, worst, 0.0, name=scoring)
    if table_of(scoring) is not None:
        return None
    raise ValueError(
        f"scoring must be a BoundedScore, a ConstrainedScore or one of {SCORE_NAMES}, "
        f"got {scoring!r}. A private score is a mean over records of a bounded number."
    )


@dataclass(frozen=True)
class Statistic:
    """The vector that a test set adds up to, and what can be read off it.

    Parameters
    ----------
    scores : tuple of BoundedScore
    table : {"groups", "cells", "bins"} or None
        Table of counts: groups by predictions, groups by true classes by predictions,
        or groups by bins of the prediction.
    neighboring : {"replace_one", "add_remove"}
    groups, classes : list
        Public lists, for a table.
    target_bounds : tuple of float or None
        Range of the bins.
    """

    scores: tuple[BoundedScore, ...]
    table: str | None
    neighboring: str
    groups: tuple = ()
    classes: tuple = ()
    target_bounds: tuple | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the table; the last column is for predictions outside `classes`."""
        if self.table is None:
            return ()
        if self.table == "bins":
            return (len(self.groups), _KS_BINS)
        n_classes = len(self.classes)
        middle = (n_classes,) if self.table == "cells" else ()
        return (len(self.groups), *middle, n_classes + 1)

    @property
    def _counts_rows(self) -> bool:
        """Whether the number of rows has to be released on its own."""
        return self.table is None and self.neighboring == "add_remove"

    @property
    def size(self) -> int:
        n_cells = math.prod(self.shape) if self.table else 0
        return len(self.scores) + n_cells + self._counts_rows

    @property
    def sensitivity(self) -> float:
        """Euclidean sensitivity of the vector.

        Replacing a record moves each score by at most one and a one from one cell to
        another; adding a record adds at most one half per score, and a one.
        """
        n_scores = len(self.scores)
        if self.neighboring == "add_remove":
            return math.sqrt(n_scores / 4.0 + 1.0)
        return math.sqrt(n_scores + 2.0 * (self.table is not None))

    @property
    def response_methods(self) -> list[str]:
        methods = {score.response_method for score in self.scores}
        if self.table is not None:
            methods.add("predict")
        return sorted(methods)

    def query(self, y, responses: dict, codes) -> np.ndarray:
        """Return the exact vector: multiples of 2**-20, summed in integers."""
        sums = [
            np.sum(_grid_units(score, y, responses[score.response_method]))
            for score in self.scores
        ]
        counts = np.zeros(0)
        if self.table is not None:
            cells = self._cells(y, responses["predict"], codes)
            counts = np.bincount(cells, minlength=math.prod(self.shape))
        elif self._counts_rows:
            counts = np.array([len(y)])
        # A new array each time: nothing of the data stays behind in a view.
        return np.concatenate([np.array(sums, dtype=float) / _UNIT, counts])

    def _cells(self, y, y_pred, codes) -> np.ndarray:
        if self.table == "bins":
            low, high = self.target_bounds
            with np.errstate(all="ignore"):
                place = (np.asarray(y_pred, dtype=float) - low) / (high - low)
                place = np.nan_to_num(place, nan=0.0)
                bins = np.clip(place * _KS_BINS, 0, _KS_BINS - 1).astype(np.int64)
            return codes * _KS_BINS + bins
        n_classes = len(self.classes)
        predicted = positions_in(np.asarray(y_pred).tolist(), list(self.classes))
        predicted = np.where(predicted < 0, n_classes, predicted)
        if self.table == "cells":
            truth = positions_in(np.asarray(y).tolist(), list(self.classes))
            codes = codes * n_classes + truth
        return codes * (n_classes + 1) + predicted


def _grid_units(score: BoundedScore, y, response) -> np.ndarray:
    """Scores of the records in grid units, in [-1/2, 1/2]."""
    low, high = score.low, score.high
    with np.errstate(all="ignore"):
        values = _values(score, y, response)
        if values.shape != (len(y),):
            raise ValueError(
                f"The function of the score {score.name!r} must return one number per "
                "record."
            )
        values = np.nan_to_num(values, nan=low, posinf=high)
        unit = (np.clip(values, low, high) - low) / (high - low)
    return np.rint((unit - 0.5) * _UNIT).astype(np.int64)


def _values(score: BoundedScore, y, response) -> np.ndarray:
    """What the function says of private rows: its warnings and errors stay inside."""
    try:
        return guarded(lambda: np.asarray(score.function(y, response), dtype=float))
    except WrappedEstimatorError:
        pass
    raise ValueError(
        f"The function of the score {score.name!r} raised an error, which may quote "
        "private rows and is not shown: see fairpriv_sklearn.privacy."
        "show_wrapped_errors()."
    )


@dataclass(frozen=True)
class Reading:
    """Estimates from a noisy vector.

    Parameters
    ----------
    statistic : Statistic
    vector : ndarray
        The released vector.
    scale : float
        Standard deviation of the noise of each entry.
    n_rows : int or None
        Number of rows of the test set where it is public.
    """

    statistic: Statistic
    vector: np.ndarray
    scale: float
    n_rows: int | None

    @property
    def counts(self) -> np.ndarray:
        shape = self.statistic.shape
        return self.vector[len(self.statistic.scores) :].reshape(shape)

    @property
    def size(self) -> float:
        """Number of rows, known or estimated; at least one."""
        if self.n_rows is not None:
            return max(1, self.n_rows)
        return max(1.0, float(self.vector[len(self.statistic.scores) :].sum()))

    def score(self, index: int = 0) -> float:
        """Estimate one of the scores."""
        low, high = self._range(index)
        return low + (high - low) * self._unit(index)

    def score_interval(self, index: int, level: float) -> tuple[float, float]:
        """Confidence interval of a score: sampling error and noise.

        The variance of a number in [0, 1] with mean m is at most m (1 - m).
        """
        low, high = self._range(index)
        unit, width = self._unit(index), self.half_width(index, level)
        interval = np.clip([unit - width, unit + width], 0.0, 1.0)
        return tuple((low + (high - low) * interval).tolist())

    def half_width(self, index: int, level: float) -> float:
        unit = self._unit(index)
        # Where the number of rows is estimated, its noise enters as well.
        n_noisy = 0 if self.n_rows is not None else max(1, self.counts.size)
        noise = self.scale**2 * (1.0 + n_noisy * (unit - 0.5) ** 2)
        variance = (unit * (1.0 - unit) + 1.0 / self.size) / self.size
        variance += noise / self.size**2
        return float(norm.isf((1.0 - level) / 2.0) * math.sqrt(variance))

    def disparity(self, name: str) -> float:
        """Estimate a disparity; 1 if the noise hides all groups but one."""
        rows, scale = self._rows(name)
        totals = rows.sum(axis=-1)
        floor = max(1.0, 2.0 * scale * math.sqrt(rows.shape[-1]))
        rates = np.clip(rows / np.maximum(totals, 1.0)[..., None], 0.0, 1.0)
        if DISPARITIES[name] == "bins":
            rates = np.clip(np.cumsum(rates, axis=-1)[..., :-1], 0.0, 1.0)
        known = totals >= floor
        gaps = []
        for cell in np.ndindex(rows.shape[1:-1]):
            kept = rates[(slice(None), *cell)][known[(slice(None), *cell)]]
            if len(kept) >= 2:
                gaps.append(np.ptp(kept, axis=0).max())
        return float(max(gaps)) if gaps else 1.0

    def disparity_interval(self, name: str, level: float) -> tuple[float, float]:
        """Confidence interval of a disparity: sampling error and noise."""
        rows, scale = self._rows(name)
        variance = scale**2
        if DISPARITIES[name] == "bins":
            # The distribution function at each edge is a rate; see its two sides.
            below = np.cumsum(rows, axis=-1)[..., :-1]
            sides = np.stack([below, rows.sum(axis=-1, keepdims=True) - below], axis=-1)
            return _disparity(sides, variance * rows.shape[-1] / 2.0, 1.0 - level)[1]
        return _disparity(rows, variance, 1.0 - level)[1]

    def _rows(self, name: str) -> tuple[np.ndarray, float]:
        """The table of a disparity, and the noise of its entries."""
        counts = self.counts
        if DISPARITIES[name] == "groups" and counts.ndim == 3:
            # The table by true classes holds the one without.
            return counts.sum(axis=1), self.scale * math.sqrt(counts.shape[1])
        return counts, self.scale

    def _range(self, index: int) -> tuple[float, float]:
        score = self.statistic.scores[index]
        return score.low, score.high

    def _unit(self, index: int) -> float:
        return float(np.clip(0.5 + self.vector[index] / self.size, 0.0, 1.0))


def ranking(scoring, reading: Reading) -> tuple[float, ...]:
    """Return a key by which candidates are compared; the largest wins."""
    if isinstance(scoring, ConstrainedScore):
        excess = max(0.0, reading.disparity(scoring.disparity) - scoring.at_most)
        return (-excess, reading.score())
    if table_of(scoring) is not None:
        return (-reading.disparity(scoring.removeprefix("neg_")),)
    return (reading.score(),)
