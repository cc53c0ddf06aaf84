"""What the generators share: public facts, labels, sampling."""

from dataclasses import replace
from math import sqrt
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .._door.bounds import read_bounds
from .._door.estimator import DELTA_CONSTRAINT, DPEstimator
from .._door.labels import encode_labels, label_codes
from .._shared.arguments import comes_in_parts
from .._shared.callers import usual_underflow
from .._shared.domain import domain, refuse_dates, same_length
from .._shared.origin import as_it_is
from .._shared.sklearn import Interval, StrOptions
from .._training._network import hidden_widths
from .._training._target import TARGET_SHARE, RangeCounts
from .._wall import (
    Fact,
    PrivacyFilter,
    calibrate_gaussian,
    gaussian_mu,
    leaks_foreseen,
    noise_source,
    open_wall,
    warn_leak,
)
from ._schema import Container
from ._space import Box, UnitCube, dct_basis, image_side

# Fractions of the public diameter: (mean, about the mean). Images are sparse and lie
# near their background; other records fill their box.
IMAGE_MEAN_CLIP = 10 / 28
BOX_CLIPS = (0.5, 0.3)
# At small budgets the noise, which grows with the square of the clip and with the
# number of components, weighs more: epsilon from here on, clip, components of images.
IMAGE_DEFAULTS = ((10.0, 6 / 28, 150), (3.0, 5.5 / 28, 120), (0.0, 5 / 28, 100))

# Rows synthesised together: memory beyond the result stays at this many rows.
CHUNK_ROWS = 4096

# Where the number of records is private, defaults are those for this many per class.
NOMINAL_RECORDS = 1000

# From this many columns on, basis="auto" takes a square number of columns for images.
SMALLEST_IMAGE = 65


# Fractions of a diameter, a learning rate: beyond these, squares leave the doubles.
SCALE = Interval(Real, 1e-6, 1e6, closed="both")
AUTO_COUNT = [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")]


_RANGES = "the range of every column"


class BaseGenerator(DPEstimator):
    """Density-like estimators: `fit(X, y=None)`, `sample(n_samples, y=None)`.

    Parameters
    ----------
    jitter : float, default="auto"
        Standard deviation of white noise added to every sample, as a fraction of
        each column's range. Range: [0, 1e6]. "auto": 0.1 if the basis leaves
        directions out, else 0.
    random_state : int, RandomState, Generator or None, default=None
        None: secure noise. Anything else makes fit and samples reproducible, and
        the noise no longer secret.
    """

    _can_resume = True

    _parameter_constraints: dict = {
        **DPEstimator._parameter_constraints,
        **DELTA_CONSTRAINT,
        "bounds": "no_validation",  # `read_bounds` says what is wrong
        "classes": ["array-like", None],
        "basis": [StrOptions({"auto", "dct", "identity"}), list, tuple, np.ndarray],
        "n_components": AUTO_COUNT,
        "clip_norm": [StrOptions({"auto"}), SCALE],
        "variance_cap": ["boolean"],
        "jitter": [StrOptions({"auto"}), Interval(Real, 0, 1e6, closed="both")],
    }

    def _refuse_target(self, X, y) -> None:
        if comes_in_parts(X):
            return
        if y is not None:
            same_length(X, y)
        with leaks_foreseen():
            clone(self)._encode_labels(y, 0)
            if self.bounds is None and not self._learns_ranges(X):
                warn_leak("bounds", _RANGES)

    def _learns_ranges(self, X) -> bool:
        """Whether it learns the ranges of columns with noise."""
        return False

    def _check_arguments(self) -> None:
        super()._check_arguments()
        hidden_widths(self.hidden_layer_sizes)
        if not isinstance(self.basis, str):
            self._own_basis()

    def _refuse_width(self, n_columns: int | None, learnt) -> None:
        super()._refuse_width(n_columns, learnt)
        if learnt and not (isinstance(self.basis, str) and self.basis != "dct"):
            raise ValueError(
                f"{type(self).__name__} stands behind an encoder that learns its "
                'columns: basis must be "auto" or "identity" there, as nobody knows '
                "how many there will be."
            )

    def _encode_labels(self, y, n_records: int) -> tuple[np.ndarray, list[Fact]]:
        """Codes of the labels and the facts taken as public; sets `classes_`."""
        if y is None:
            if self.classes is not None:
                raise ValueError(
                    "classes lists labels, but fit was called without y: pass y, or "
                    "leave classes at None to model X alone."
                )
            self.classes_ = None
            return np.zeros(n_records, dtype=np.int64), []
        with domain("y", own_words=True):
            if self.classes is None and _is_continuous(column_or_1d(y)):
                raise ValueError(
                    "y has numbers that are no classes: make it a column of X; if that "
                    "is a data frame, a codebook can name it, "
                    '{"<name>": {"role": "target"}}.'
                )
        codes, self.classes_, fact = encode_labels(y, self.classes, least=1)
        return codes, [fact]

    @property
    def _n_classes(self) -> int:
        return 1 if self.classes_ is None else len(self.classes_)

    def _public_bounds(self, X) -> tuple[np.ndarray, np.ndarray, Fact]:
        """Both ends of the columns, and the fact taken as public."""
        if self.bounds is None:
            fact = warn_leak("bounds", _RANGES)
            return X.min(axis=0), X.max(axis=0), fact
        lower, upper = read_bounds(self.bounds, X.shape[1])
        fact = tuple(np.asarray(end).tolist() for end in self.bounds)
        return lower, upper, Fact("bounds", fact)

    def _read_records(self, X, y, default_components) -> dict:
        """Coordinates and codes of records that are numbers; sets public facts.

        Parameters
        ----------
        default_components : callable or None
            Their default number, of the number of columns. None: columns scaled to
            [0, 1] instead of coordinates.
        """
        refuse_dates(X)
        with domain("X"):
            records = validate_data(self, X, dtype=np.float64)
        if y is not None:
            same_length(records, y)
        codes, facts = self._encode_labels(y, len(records))
        lower, upper, bounds_fact = self._public_bounds(records)
        d = len(lower)
        space = self._space(
            lower, upper, default_components(d) if default_components else d
        )
        self._public = space, [bounds_fact, *facts]
        self._container = Container.of(X)
        with np.errstate(all="ignore"):
            if default_components is None:
                u = np.clip((records - lower) / space.width, 0, 1)
                return {"u": u, "codes": codes}
            return {"z": space.coordinates(records), "codes": codes}

    def _space(self, lower, upper, default_components) -> UnitCube:
        """Choose the basis and the origin from public facts."""
        d = len(lower)
        side = image_side(d)
        if not isinstance(self.basis, str):
            return UnitCube(lower, upper, self._own_basis(d), 0.5)
        image = self.basis == "dct" or (
            self.basis == "auto" and side is not None and d >= SMALLEST_IMAGE
        )
        if not image:
            return UnitCube(lower, upper, None, 0.5)
        if side is None:
            raise ValueError(f'basis="dct" needs square images, got {d} columns.')
        k = default_components if self.n_components == "auto" else self.n_components
        # images: the lower bound is the background, so most pixels are near the origin
        return UnitCube(lower, upper, dct_basis(side, min(k, d)), 0.0)

    def _own_basis(self, n_rows: int | None = None) -> np.ndarray:
        """The basis that was given, for so many columns of a table if that is known."""
        with domain("basis"):
            basis = np.asarray(self.basis, dtype=np.float64)
        fits = basis.ndim == 2 and basis.size > 0 and n_rows in (None, len(basis))
        if not fits or not _is_orthonormal(basis):
            rows = "" if n_rows is None else f"{n_rows} rows and "
            raise ValueError(
                f"basis must have {rows}orthonormal columns, got shape {basis.shape}."
            )
        return basis

    def _open(self, plan, facts, counts=None) -> PrivacyFilter:
        """Open the wall for a plan whose noise the whole budget pays for.

        Counts of the columns, if any, take a small share of it.
        """

        def lines(mu):
            if counts is None:
                return plan.lines(mu)
            rest = plan.lines(mu * sqrt(1 - TARGET_SHARE))
            return [counts.line(mu * sqrt(TARGET_SHARE)), *rest]

        return self._calibrated(lines, facts)

    def _calibrated(self, lines, facts) -> PrivacyFilter:
        """Open the wall for ``lines(mu)`` with the `mu` that the budget pays for."""
        planned = lines(1.0)
        mu = calibrate_gaussian(
            self.epsilon,
            self.delta,
            n_draws=sum(line.n_draws for line in planned),
            failure=sum(getattr(line, "delta", 0.0) for line in planned),
        )
        return self._filter(lines(mu), facts)

    def _range_counts(self, space, n_records) -> RangeCounts | None:
        """Counts that tell where in the bounds the columns are; None: too few records.

        Bounds of images are known, and those read from the data have no room.
        """
        if space.basis is not None or space.centre == 0 or self.bounds is None:
            return None
        if self.neighboring == "add_remove":
            n_records = NOMINAL_RECORDS * self._n_classes
        counts = RangeCounts(
            n_targets=space.n_components, targets=lambda block: 2 * block.z
        )
        mu = gaussian_mu(self.epsilon, self.delta)
        return counts if counts.tell(n_records * mu) else None

    def _learn_box(self, wall, rows, space, plan, counts):
        """The space and the plan inside the ranges that counts of the columns tell."""
        if counts is None:
            return space, plan
        released, noise = wall.release(counts, rows), wall.scale(counts)
        center, width = counts.learnt(released, plan.n_records, noise, space.width)
        box = Box(center / 2, width)
        return space.within(box), replace(plan, box=box)

    def _filter(self, lines, facts) -> PrivacyFilter:
        """Open the wall for the planned releases and reserve their cost."""
        noise = noise_source(self.random_state)
        return open_wall(self, lines, facts=facts, noise=noise)

    def _publish(self, wall, counts) -> None:
        """Class frequencies, the seed of samples and the guarantee: last of all."""
        self.class_weights_ = counts / counts.sum()
        # reproducible fits give reproducible samples, from a stream of their own
        public = wall.noise.public()
        self._sampling_seed = (
            None if public.is_secure else int.from_bytes(public.key(16), "little")
        )
        self.privacy_ = wall.guarantee()

    def _public_n(self, n_records):
        return n_records if self.neighboring == "replace_one" else None

    def _image_defaults(self) -> tuple[float, int]:
        """Clip and number of components for images, by the size of the budget."""
        return next(row[1:] for row in IMAGE_DEFAULTS if self.epsilon >= row[0])

    def _default_components(self, d):
        # beyond the low frequencies there is more noise than signal
        return min(self._image_defaults()[1], max(1, 9 * d // 16))

    def _clip_norms(self, space) -> tuple[float, float]:
        """Largest norm of a record, and of a record about its class mean."""
        mean_clip, clip = BOX_CLIPS
        if space.centre == 0:
            mean_clip, clip = IMAGE_MEAN_CLIP, self._image_defaults()[0]
        clip = or_default(self.clip_norm, clip)
        return mean_clip * space.diameter, clip * space.diameter

    def _add_jitter(self, unit, public):
        # directions outside the basis would otherwise be constant, and a classifier
        # trained on such data is undefined along them
        space = self._space_
        complete = space.n_components == len(space.lower)
        jitter = or_default(self.jitter, 0.0 if complete else 0.1)
        if jitter:
            unit = unit + jitter * public.standard_normal(unit.shape)
        return space.restore(unit)

    @usual_underflow()
    def sample(self, n_samples=None, y=None, *, given=None) -> Any:
        """Draw synthetic records; free of charge, any number of times.

        Parameters
        ----------
        n_samples : int, default=None
            Number of records. Default: ``len(y)`` if `y` is given, else 1.
        y : array-like of shape (n_samples,), default=None
            Labels wanted, out of ``classes_``. Default: drawn with the released
            class frequencies.
        given : dict, default=None
            Categories that records must have, by column: one value, or one for each.
            The rest is drawn given these. Only for
            :class:`DPSinkhornGenerator` with ``method="pairs"``.

        Returns
        -------
        X : ndarray or DataFrame of shape (n_samples, n_features)
            Records inside the public bounds. A DataFrame with the columns of `fit`,
            if that was one; types follow from what is public.
        y : ndarray of shape (n_samples,)
            Their labels. Only if the generator was fitted with `y`.
        """
        self = as_it_is(self)
        check_is_fitted(self, "class_weights_")
        public = noise_source(self._sampling_seed).public()
        if getattr(self, "_pairs", None) is not None:
            return self._sample_raw(n_samples, y, given, public)
        if given is not None:
            raise ValueError('given needs a fit with method="pairs".')
        codes = self._wanted_codes(n_samples, y, public)
        X = np.empty((len(codes), self.n_features_in_))
        for c in range(self._n_classes):
            rows = np.flatnonzero(codes == c)
            for start in range(0, len(rows), CHUNK_ROWS):
                chunk = rows[start : start + CHUNK_ROWS]
                X[chunk] = self._sample_class(c, len(chunk), public)
        if self._container.kind != "array":
            X = self._container.build(X.T)
        return X if self.classes_ is None else (X, self.classes_[codes])

    def _wanted_codes(self, n_samples, y, public):
        n = check_n_samples(n_samples, y, {})
        if y is None:
            edges = np.cumsum(self.class_weights_)
            found = np.searchsorted(edges / edges[-1], public.uniform(n), side="right")
            return np.minimum(found, len(edges) - 1)
        return self._label_codes(y)

    def _label_codes(self, y):
        """Codes of labels that a sample is to have."""
        if self.classes_ is None:
            raise ValueError("sample(y=...) needs a generator fitted with labels.")
        return label_codes(column_or_1d(y), self.classes_)


def check_n_samples(n_samples, y, given) -> int:
    """Number of records asked for, by their number or by what they should have."""
    if n_samples is not None and not (
        isinstance(n_samples, Integral) and n_samples >= 1
    ):
        raise ValueError(f"n_samples must be a positive int, got {n_samples!r}.")
    lengths = [
        len(values)
        for values in (y, *given.values())
        if values is not None and not isinstance(values, str) and np.ndim(values)
    ]
    n = lengths[0] if lengths and n_samples is None else n_samples or 1
    if any(length != n for length in lengths):
        raise ValueError(
            "n_samples, y and given disagree about the number of records: "
            f"{[*lengths, n]}."
        )
    return int(n)


def or_default(value, default):
    """The default where the value is the word "auto"."""
    return default if isinstance(value, str) else value


def _is_continuous(y) -> bool:
    is_number = y.dtype.kind == "f" and bool(np.isfinite(y).all())
    return is_number and bool((y != np.rint(y)).any())


def _is_orthonormal(basis) -> bool:
    gram = basis.T @ basis
    return bool(np.allclose(gram, np.eye(len(gram)), atol=1e-8))
