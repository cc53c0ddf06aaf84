r"""Noisy tables of all pairs of columns, and the distribution of records behind them.

Released are the counts of the levels of every column, tables of class and column, and
tables of every pair of columns, seen through features that are smooth along a number;
points are fitted to them (:mod:`fairpriv_sklearn.generative._points`), from which
records are drawn.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import ceil, inf, prod, sqrt

import numpy as np

from .._shared.arrays import pieces, project_simplex
from .._shared.sensitivity import counts_l2, rows_changed
from .._wall import PrivacyFilter, Query, Release, Rows
from ._exact import ROUNDING
from ._levels import ATOM, EMPTY, expected_counts
from ._points import fit_points, rake, targets_of

LEVELS, CLASS_TABLES = "levels of the columns", "class tables"
PAIR_TABLES = "tables of all pairs"

# Parts of mu**2; the tables of all pairs have the rest. Levels have less where all are
# counted with categories that nobody listed.
LEVEL_SHARE, COUNTED_LEVEL_SHARE = 0.38, 0.3
CLASS_SHARE, QUALITY_SHARE = 0.2, 0.02
# Bins of a column in tables of two: numbers, categories; fewer in wide tables.
MOST_BINS, MOST_CATEGORIES = 32, 64
ALL_BINS, ALL_CATEGORIES = 480, 1920
# Bins, and features, of a number for the bins that noise alone would leave.
BINS, FEATURES = 1.5, 0.75
# Features are integers over this, and no longer than this.
UNIT = 1024
# Rounds in which rows of features are moved around their mean.
CENTRINGS = 20
# Weights of tables in one release are integers, those of one cell this.
WEIGHT = 16
# Products with a target count as often as makes theirs half of all, at most this: sums
# over 2**30 records are then exact.
MOST_WEIGHT = 8
# Part of the records from which a level is an atom.
LARGE = 1 / 16
# Power of a correlation that goes on within the points; odd.
WITHIN = 3


@dataclass(frozen=True)
class PairsPlan:
    """The public numbers of one fit.

    Parameters
    ----------
    n_classes : int
    n_columns : int
    most_levels : int
        Largest number of levels of a column.
    quality : tuple of (str, int)
        Lines of quality figures, and how many figures each has.
    share : float
        Part of ``mu**2`` that is left for all this.
    n_records : int or None
        Number of records where it is public.
    is_counted : bool, default=False
        Whether levels are counted with categories that nobody listed as well.
    """

    n_classes: int
    n_columns: int
    most_levels: int
    quality: tuple
    share: float
    n_records: int | None
    is_counted: bool = False

    def lines(self, mu: float) -> list[Release]:
        """What is released, out of a total of `mu` in Gaussian DP."""
        mu = mu * sqrt(self.share)
        A, C = self.n_columns, self.n_classes
        bins = min(self.most_levels, max(self.most_bins, self.most_categories) + 2)
        shares = {
            CLASS_TABLES: ((C > 1) * CLASS_SHARE, C * A * bins),
            PAIR_TABLES: ((A > 1) * 1.0, A * (A - 1) // 2 * bins**2),
        }
        for name, size in self.quality:
            shares[name] = (QUALITY_SHARE / len(self.quality), size)
        rest = 1 - sum(part for part, _ in shares.values() if part < 1)
        levels = COUNTED_LEVEL_SHARE if self.is_counted else LEVEL_SHARE
        shares[LEVELS] = (levels if A > 1 else rest, A * self.most_levels)
        shares[PAIR_TABLES] = ((A > 1) * (rest - levels), shares[PAIR_TABLES][1])
        return [
            Release(name, "gaussian", mu * sqrt(share), size)
            for name, (share, size) in shares.items()
            if share
        ]

    @property
    def most_bins(self) -> int:
        """Largest number of bins of a number, nearly."""
        return int(np.clip(ALL_BINS // self.n_columns, 4, MOST_BINS))

    def bins_of(self, n, noise) -> tuple[int, float]:
        """Number of bins of a number, and of its features.

        In proportion to bins that leave as many records as noise in a cell of two.
        """
        most = self.most_bins
        if not noise:
            return most, inf
        few = sqrt(n / noise)
        return int(np.clip(BINS * few, 4, most)), FEATURES * max(few, 4.0)

    @property
    def most_categories(self) -> int:
        """Largest number of bins of a category."""
        return int(np.clip(ALL_CATEGORIES // self.n_columns, 8, MOST_CATEGORIES))


# --- queries --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Counts(Query):
    """Tables of counts: of the class, if there are some, and some columns each.

    Rows have ``levels`` (n, A) of the columns and the ``codes`` (n,) of the classes.

    Parameters
    ----------
    tables : tuple of tuple of int
        Columns of each table.
    sizes : tuple of int
        Number of bins of every column.
    n_classes : int
    bins : tuple of ndarray or None, default=None
        Bin of every level of each column; None: levels are the bins.
    weights : tuple of int or None, default=None
        What a record counts in each table; None: once.
    """

    tables: tuple
    sizes: tuple
    n_classes: int
    bins: tuple | None = None
    weights: tuple | None = None

    name = CLASS_TABLES
    theorem = "user_guide/synthetic_tables_proofs:pair-tables"
    block_rows = 1 << 15

    @property
    def shapes(self) -> list[tuple]:
        """Shape of every table, the class first."""
        return [
            (self.n_classes, *(self.sizes[a] for a in table)) for table in self.tables
        ]

    @property
    def n_coordinates(self) -> int:
        return sum(map(prod, self.shapes))

    def sensitivity(self, neighboring: str) -> float:
        """A record counts once in each table (Lemma A), or w times: as in w**2."""
        weights = self.weights or (1,) * len(self.tables)
        return counts_l2(neighboring, sum(w * w for w in weights))

    def of_block(self, block, state):
        """Exact counts, each times its weight, table after table."""
        codes = np.zeros(block.n_rows, dtype=np.int64)
        if self.n_classes > 1:
            codes += block.codes
        used = sorted({a for table in self.tables for a in table})
        levels = {a: block.levels[:, a].astype(np.int64) for a in used}
        if self.bins is not None:
            levels = {a: self.bins[a][column] for a, column in levels.items()}
        counts = []
        weights = self.weights or (1,) * len(self.tables)
        for table, shape, w in zip(self.tables, self.shapes, weights, strict=True):
            cells = codes
            for a in table:
                cells = cells * self.sizes[a] + levels[a]
            counts.append(w * np.bincount(cells, minlength=prod(shape)))
        return np.concatenate(counts)

    def split(self, values) -> list[np.ndarray]:
        """Return the tables, each in its shape and over its weight."""
        tables = pieces(values, *self.shapes)
        if self.weights is None:
            return tables
        return [table / w for table, w in zip(tables, self.weights, strict=True)]


@dataclass(frozen=True, eq=False)
class Distances(Counts):
    """Half the l1 distance of tables of counts from public ones of the same shape.

    The state has an integer table for each; ``parts`` groups what is averaged.

    Parameters
    ----------
    parts : tuple of tuple of (int, int or None)
        Averages: positions of tables, and the class they are restricted to. A record
        is in one part only where all are.
    name : str
        Line of the plan.
    """

    parts: tuple = ()
    name: str = "distances"

    theorem = "user_guide/synthetic_tables_proofs:table-distances"

    @property
    def n_coordinates(self) -> int:
        return len(self.parts)

    def sensitivity(self, neighboring: str) -> float:
        """Every record moves each half distance that it is in by at most one half."""
        by_class = all(c is not None for part in self.parts for _, c in part)
        n_moved = 1 if by_class else len(self.parts)
        return rows_changed(neighboring) / 2 * sqrt(n_moved) * ROUNDING

    def value(self, total, state):
        """Averages of half distances, in records."""
        gaps = [
            np.abs(table - reference)
            for table, reference in zip(self.split(total), state, strict=True)
        ]
        means = [
            sum(int((gaps[t] if c is None else gaps[t][c]).sum()) for t, c in part)
            / (2 * len(part))
            for part in self.parts
        ]
        return np.array(means)


@dataclass(frozen=True, eq=False)
class Products(Query):
    """Sums over the records of products of features of two columns, for every pair.

    Parameters
    ----------
    features : tuple of ndarray of shape (m, q)
        Integers of every bin of a column, over `UNIT`; rows are no longer than 1.
    bins : tuple of ndarray
        Bin of every level of each column.
    target : int, default=None
        Column whose products with others count `weight` times.
    weight : int, default=1
    """

    features: tuple
    bins: tuple
    target: int | None = None
    weight: int = 1

    name = PAIR_TABLES
    theorem = "user_guide/synthetic_tables_proofs:feature-products"
    block_rows = Counts.block_rows

    def __post_init__(self):
        if max(row @ row for f in self.features for row in f) > UNIT**2:
            raise ValueError(
                "features are longer than 1; the sensitivity counts on it."
            )

    @property
    def tables(self) -> Counts:
        """Tables of all pairs of columns, of which the products are sums."""
        A = len(self.features)
        twos = tuple((a, b) for a in range(A) for b in range(a + 1, A))
        return Counts(twos, tuple(map(len, self.features)), 1, self.bins)

    @property
    def shapes(self) -> list[tuple]:
        """Shape of the products of every pair."""
        widths = [len(f.T) for f in self.features]
        return [(widths[a], widths[b]) for a, b in self.tables.tables]

    @property
    def weights(self) -> list[int]:
        """How often the products of every pair count."""
        return [
            self.weight if self.target in pair else 1 for pair in self.tables.tables
        ]

    @property
    def n_coordinates(self) -> int:
        return sum(map(prod, self.shapes))

    def sensitivity(self, neighboring: str) -> float:
        """Rows of length 1, the least inner product of two of them in every column.

        What a target counts more is bounded by itself.
        """
        A, more = len(self.features), self.weight**2 - 1
        if rows_changed(neighboring) == 1:
            return sqrt(A * (A - 1) / 2 + more * (A - 1))
        least = [min((f @ f.T).min() / UNIT**2, 0.0) for f in self.features]
        if more:
            own, others = least[self.target], sum(least) - least[self.target]
            more *= 2 * (A - 1 - min((A - 1) * own, others))
        return sqrt(A * (A - 1) - _least_products(least) + more)

    def of_block(self, block, state):
        """Exact counts of the tables."""
        return self.tables.of_block(block, state)

    def value(self, total, state):
        """Products of integers, exact; divided by a power of two."""
        tables = self.tables
        pairs = zip(tables.tables, tables.split(total), strict=True)
        products = [
            self.features[a].T @ table @ self.features[b] for (a, b), (table,) in pairs
        ]
        weighted = zip(products, self.weights, strict=True)
        return np.concatenate([(p * w).ravel() for p, w in weighted]) / UNIT**2

    def split(self, values) -> dict:
        """Return the products of every pair, over their weight."""
        parts = zip(pieces(values, *self.shapes), self.weights, strict=True)
        return dict(zip(self.tables.tables, (p / w for p, w in parts), strict=True))


def _least_products(least) -> float:
    """No sum of products of two of the c_a is smaller if each is in [least_a, 1]."""
    sizes = np.sort(np.abs(least))
    smallest, largest, squares = (
        np.append(0.0, np.cumsum(summed))
        for summed in (sizes, np.flip(sizes), np.flip(sizes) ** 2)
    )
    at_one = len(sizes) - np.arange(len(smallest))  # the others are at their least
    nearest = np.clip(at_one, smallest, largest)  # of their sum to minus the rest
    return ((at_one - nearest) ** 2 - at_one - squares).min()


def features_of(near, margin, few) -> np.ndarray:
    """Integer features of bins, over `UNIT`: rows of length 1, apart from each other.

    Neighbours on a line have about `few` smooth features together, the leading ones of
    an exponential kernel; any other bin has its own.

    Parameters
    ----------
    near : ndarray of shape (m,)
        Whether a bin and the next are neighbours.
    margin : ndarray of shape (m,)
        Counts.
    few : float
    """
    m = len(margin)
    chain = np.flatnonzero((near > 0) | np.r_[False, near[:-1] > 0])
    counts = margin[chain]
    n_smooth = max(2.0, few * sqrt(counts.sum() / max(margin.sum(), 1e-300)))
    rows = np.eye(m)
    if n_smooth < len(chain):
        places = (np.cumsum(counts) - counts / 2) / max(counts.sum(), 1e-300)
        gaps = (places[:, None] - places) * round(n_smooth)
        values, vectors = np.linalg.eigh(np.exp(-np.abs(gaps)))
        values, vectors = (x[..., -round(n_smooth) :] for x in (values, vectors))
        alone = np.setdiff1d(np.arange(m), chain)
        rows = np.zeros((m, len(alone) + round(n_smooth)))
        rows[alone, np.arange(len(alone))] = 1
        rows[chain, len(alone) :] = vectors * np.sqrt(np.maximum(values, 0))
    for _ in range(CENTRINGS if m > 1 else 0):
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        rows = rows - rows.mean(axis=0)
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    # towards zero: no row becomes longer
    return np.trunc(rows / lengths * (UNIT - 1e-6)).astype(np.int64)


# --- fit ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pairs:
    """A distribution of records: a class, a point of it, then every column by itself.

    Attributes
    ----------
    counts : ndarray of shape (C,)
        Numbers of records of the classes, at least 1.
    levels : list of ndarray of shape (n_levels,)
        Shares of the levels of every column: what they are inside a bin.
    bins : tuple of ndarray of shape (n_levels,)
        Bin of every level.
    weights : ndarray of shape (C, K)
        Numbers of records at the points.
    tables : tuple of ndarray of shape (C, K, m)
        Distributions of the bins of every column at every point.
    root : ndarray of shape (A, A)
        Root of the correlations of the columns at a point, in normal scores.
    """

    counts: np.ndarray
    levels: list
    bins: tuple
    weights: np.ndarray
    tables: tuple
    root: np.ndarray

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.levels)

    def n_bins(self, a: int) -> int:
        """Number of bins of a column."""
        return int(self.bins[a].max()) + 1

    def inside(self, a: int) -> np.ndarray:
        """Distribution of the levels in every bin, (m, n_levels)."""
        held = self.bins[a] == np.arange(self.n_bins(a))[:, None]
        shares = held * np.maximum(self.levels[a], 1e-12 * self.levels[a].max())
        empty = shares.sum(axis=1, keepdims=True) == 0
        shares = np.where(empty, held, shares)
        return shares / shares.sum(axis=1, keepdims=True)

    def level_counts(self, a: int) -> np.ndarray:
        """Number of records at every level of a column."""
        bins = np.einsum("ck,ckm->m", self.weights, self.tables[a])
        return bins @ self.inside(a)


def fit_pairs(rows: Rows, columns: list, plan: PairsPlan, wall: PrivacyFilter) -> Pairs:
    """Release levels, class tables and tables of pairs; fit points to them.

    Parameters
    ----------
    rows : Rows
        With ``levels`` (n, A) and class ``codes`` (n,).
    columns : list of LevelColumn
    plan : PairsPlan
    wall : PrivacyFilter
        Reserved, with the lines of the plan.
    """
    C, A = plan.n_classes, plan.n_columns
    ones = tuple((a,) for a in range(A))
    twos = tuple(itertools.combinations(range(A), 2))
    sizes = tuple(column.n_levels for column in columns)
    query = Counts(ones, sizes, 1, weights=_weights(sizes))
    noisy = [table[0] for table in query.split(wall.release(query, rows, name=LEVELS))]
    scales = wall.scale(query, name=LEVELS) / np.array(query.weights)
    n = _total(noisy, scales.max(), plan)
    query = Counts(twos, (1,) * A, 1)
    noise = wall.scale(query, name=PAIR_TABLES) if twos else 0.0
    most, few = plan.bins_of(n, noise)
    all_binned = [
        _Binned.of(column, counts, scale, n, plan, most)
        for column, counts, scale in zip(columns, noisy, scales, strict=True)
    ]
    bins = tuple(one.bins for one in all_binned)
    if C > 1:
        sizes = tuple(len(one.margin) for one in all_binned)
        query = Counts(ones, sizes, C, bins, _weights(sizes))
        tables = query.split(wall.release(query, rows, name=CLASS_TABLES))
        scales = wall.scale(query, name=CLASS_TABLES) / np.array(query.weights)
        for one, table, scale in zip(all_binned, tables, scales, strict=True):
            one.see_classes(table, scale)
    features = tuple(features_of(one.near, one.margin, few) for one in all_binned)
    roles, target, weight = [column.declared.role for column in columns], None, 1
    if "target" in roles:
        target = roles.index("target")
        weight = int(np.clip(round(sqrt(A / 2)), 1, MOST_WEIGHT))
    pairs, deviations = {}, {}
    if twos:
        query = Products(features, bins, target, weight)
        pairs = query.split(wall.release(query, rows, name=PAIR_TABLES))
        scale = wall.scale(query, name=PAIR_TABLES)
        deviations = {t: scale / w for t, w in zip(twos, query.weights, strict=True)}
    for one in all_binned:
        one.settle(n)
    counts = np.array([n])
    if C > 1:
        counts = _class_counts([one.by_class for one in all_binned], n, scales.max())
    targets = targets_of(
        [_with_margin(one.by_class, counts, one.margin) for one in all_binned],
        [_deviation(one.variance, C, one.noise) for one in all_binned],
        pairs,
        deviations,
        [one.near for one in all_binned],
        [f / UNIT for f in features],
    )
    weights, points = fit_points(targets, wall.public_draws())
    weights, points = rake(weights, points, targets)
    weights = weights * (counts / weights.sum(axis=1))[:, None]
    points = np.split(points, targets.starts[1:-1], axis=2)
    points = tuple(map(_only_held, points, (one.margin for one in all_binned)))
    ordered = [column.is_number for column in columns]
    root = _correlation_root(weights / weights.sum(), points, ordered)
    levels = [one.levels / n for one in all_binned]
    return Pairs(counts, levels, bins, weights, points, root)


@dataclass(eq=False)
class _Binned:
    """A column in bins, and what is known of it so far.

    Attributes
    ----------
    levels, margin : ndarray of shape (n_levels,), (m,)
        Counts of levels, and of bins.
    bins : ndarray of shape (n_levels,)
        Bin of every level.
    near : ndarray of shape (m,)
        Whether a bin and the next are neighbours.
    seen : list of (ndarray of shape (m,), ndarray or float)
        All that is released about the bins, with its variance.
    by_class : ndarray of shape (C, m)
        Released counts of class and bin.
    noise : float
        Their deviation.
    variance : ndarray of shape (m,)
        Of `margin`, in the end.
    """

    levels: np.ndarray
    margin: np.ndarray
    bins: np.ndarray
    near: np.ndarray
    seen: list
    by_class: np.ndarray
    noise: float = 0.0
    variance: np.ndarray | None = None

    @classmethod
    def of(cls, column, noisy, scale, n, plan, most_bins) -> _Binned:
        """By the noisy counts of its levels."""
        noisy, factor = column.with_counted(noisy, scale)
        levels = _clean(noisy, n, _left(scale, factor), column)
        bins = _bins(levels, column, plan, most_bins)
        margin = np.bincount(bins, levels)
        variance = scale**2 * np.bincount(bins) - _of_bins(factor, bins)
        seen = [(np.bincount(bins, noisy), variance)]
        near = _neighbours(bins, margin, column)
        return cls(levels, margin, bins, near, seen, np.zeros((1, len(margin))))

    def see_classes(self, table, noise) -> None:
        """Take in released counts of class and bin."""
        self.by_class, self.noise = table, noise
        self.seen.append((table.sum(axis=0), len(table) * noise**2))

    def settle(self, n) -> None:
        """Counts by all that was released."""
        before = self.margin
        self.margin, self.variance = _margin(self.seen, before > 0, n)
        self.levels = (
            self.levels * (self.margin / np.maximum(before, 1e-300))[self.bins]
        )


def _correlation_root(weights, points, ordered) -> np.ndarray:
    """Root of the correlations that numbers have at a point.

    What points say of two numbers together has their resolution; within them the
    correlation of ranks goes on, to the power `WITHIN`, which keeps it semi-definite.
    """
    ranks = np.zeros((weights.size, len(points)))
    for a in np.flatnonzero(ordered):
        tables = points[a].reshape(weights.size, -1)
        margin = weights.ravel() @ tables
        places = np.cumsum(margin) - margin / 2 - 0.5
        deviation = sqrt(max(margin @ places**2, 1e-12))
        ranks[:, a] = tables @ places / deviation
    correlations = ((ranks.T * weights.ravel()) @ ranks) ** WITHIN
    np.fill_diagonal(correlations, 1.0)
    values, vectors = np.linalg.eigh(correlations)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _weights(sizes) -> tuple:
    """Weights of tables of so many cells, in proportion to the sixth root.

    Noise adds to a distance, of what is summed from m cells, in proportion to sqrt(m)
    over the weight; the sum over the tables is least so, for given squares of weights.
    """
    return tuple(round(WEIGHT * size ** (1 / 6)) for size in sizes)


def _left(scale, factor) -> float:
    """Deviation of a level in the mean, where covariance F F' is taken off."""
    return sqrt(max(0.0, scale**2 - (factor**2).sum() / len(factor)))


def _of_bins(factor, bins) -> np.ndarray:
    """Diagonal of F F' for sums over the levels of every bin."""
    sums = np.zeros((bins.max() + 1, factor.shape[1]))
    np.add.at(sums, bins, factor)
    return (sums**2).sum(axis=1)


def _only_held(table, margin) -> np.ndarray:
    """Distributions without the bins that nobody is in, as far as one can see."""
    held = np.where(margin > 0, np.maximum(table, 1e-300), 0.0)
    return held / held.sum(axis=2, keepdims=True)


def _total(tables, scale, plan) -> float:
    """Number of records: public, or what all columns say."""
    if plan.n_records is not None:
        return max(1.0, float(plan.n_records))
    return max(1.0, scale, float(np.mean([table.sum() for table in tables])))


def _class_counts(tables, n, scale) -> np.ndarray:
    """Numbers of records of the classes, from what all columns say."""
    counts = np.mean([table.sum(axis=1) for table in tables], axis=0)
    counts = np.maximum(counts, max(1.0, scale))
    return np.maximum(counts * (n / counts.sum()), 1.0)


def _margin(seen, held, n):
    """Counts of bins by least squares from all that was released, and variances.

    Bins that are not `held` stay empty.
    """
    precision = sum(1 / np.maximum(variance, 1e-9) for _, variance in seen)
    counts = sum(table / np.maximum(variance, 1e-9) for table, variance in seen)
    return _project(np.where(held, counts / precision, -np.inf), n), 1 / precision


def _with_margin(table, counts, margin) -> np.ndarray:
    """Counts of class and bin with these sums over the classes, or nearly."""
    table = table + (margin - table.sum(axis=0)) / len(counts)
    table[:, margin <= 0] = -np.inf
    return np.array([_project(r, n) for r, n in zip(table, counts, strict=True)])


def _deviation(variance, C, noise) -> np.ndarray:
    """Of counts of class and bin with these margins, (C, m)."""
    return np.tile(np.sqrt(variance / C**2 + noise**2 * (1 - 1 / C)), (C, 1))


def _clean(counts, n, scale, column) -> np.ndarray:
    """Counts of levels that are not negative and have this sum."""
    counts = counts.copy()  # what was released stays as it is
    # nobody, as far as the noise lets one see
    for level in column.optional:
        if counts[level] < ATOM * scale:
            counts[level] = -np.inf
    if column.is_number and scale and column.n_cells > 1:
        others = counts[column.n_cells :]
        held = max(n - others[np.isfinite(others)].sum(), 1.0)
        cells, near = counts[: column.n_cells], column.near(column.edges)
        smooth = np.where(cells > ATOM * scale, cells, 0.0)
        # no part of what many records have goes to a place far away
        expected, chance = expected_counts(cells[near], scale, held, EMPTY)
        smooth[near] = np.where(chance >= min(0.5, chance.max()), expected, 0.0)
        cells[:] = np.where(smooth > 0, smooth, -np.inf)
    if not np.isfinite(counts).any():
        counts[:] = 0.0
    return _project(counts, n)


def _neighbours(bins, margin, column) -> np.ndarray:
    """Whether a bin and the next are neighbours on the line, and none is an atom."""
    near = np.zeros(len(margin))
    if column.is_number and column.n_cells > 1:
        single = np.bincount(bins, minlength=len(margin)) == 1
        atom = single & (margin >= margin.sum() * LARGE)
        last = bins[column.n_cells - 1]
        near[:last] = ~(atom[:last] | atom[1 : last + 1])
    return near


def _project(row, count):
    """Nearest counts of this sum; levels that are ruled out stay empty."""
    projected, possible = np.zeros(len(row)), np.isfinite(row)
    projected[possible] = project_simplex(row[possible], count)
    return projected


def _bins(counts, column, plan, most_bins) -> np.ndarray:
    """Bin of every level: atoms alone, the rest in bins of about equal counts.

    The part of the records outside atoms gets bins as its square root: a rare tail
    keeps some.
    """
    n = len(counts)
    if not column.is_number:
        most = plan.most_categories
        if n <= most:
            return np.arange(n)
        bins = np.full(n, most - 1)
        largest = np.argsort(-counts, kind="stable")[: most - 1]
        bins[largest] = np.arange(most - 1)
        return bins
    total = counts.sum()
    atoms = counts >= total / most_bins
    atoms[column.n_cells :] = True  # missing is no neighbour of the last cell
    rest = np.where(atoms, 0.0, counts)
    n_bins = max(1, ceil(most_bins * sqrt(rest.sum() / total)))
    step = max(rest.sum() / n_bins, 1e-9 * total)
    starts, held = {0}, 0.0
    for level in range(n):
        if atoms[level]:
            starts |= {level, level + 1}
            held = 0.0
        else:
            held += rest[level]
            if held >= step * (1 - 1e-9):
                starts.add(level + 1)
                held = 0.0
    return np.searchsorted(sorted(starts - {n}), np.arange(n), side="right") - 1


# --- samples --------------------------------------------------------------------------


def draw_evenly(distributions, groups, public) -> np.ndarray:
    """Draw from ``distributions[groups]``, evenly within every group of equal number.

    Systematic draws: of k rows of a group, each outcome gets k times its probability,
    rounded up or down, in random order.
    """
    return draw_within(distributions, groups, public, public.uniform(len(groups)))[0]


def draw_within(distributions, groups, public, scores):
    """As `draw_evenly` in the order of `scores`; where in its outcome a row lies.

    The places are in [0, 1).
    """
    n = len(groups)
    if n == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    order = np.lexsort((scores, groups))
    ordered = groups[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[first, n])
    rank = np.arange(n) - np.repeat(first, lengths)
    start = np.repeat(public.uniform(len(first)), lengths)
    u = (rank + start) / np.repeat(lengths, lengths)
    drawn, within = np.empty(n, dtype=np.int64), np.empty(n)
    present = ordered[first]
    edges = np.cumsum(distributions[present], axis=1)
    edges /= np.maximum(edges[:, -1:], 1e-300)
    steps = np.arange(len(present))[:, None]
    at = np.repeat(np.arange(len(present)), lengths)
    found = np.searchsorted((edges + steps).ravel(), at + u, side="right")
    last = distributions.shape[1] - 1
    found = np.clip(found - at * (last + 1), 0, last)
    low = np.where(found, edges[at, found - 1], 0.0)
    width = np.maximum(edges[at, found] - low, 1e-300)
    drawn[order], within[order] = found, np.clip((u - low) / width, 0.0, 1 - 1e-9)
    return drawn, within


def sample_pairs(pairs: Pairs, codes, given, public):
    """Levels (n, A) of records of these classes, and places (n, A) in the levels.

    Columns go on depending on each other within a point, and numbers within a level.

    Parameters
    ----------
    pairs : Pairs
    codes : ndarray of shape (n,)
        Classes.
    given : dict of int to ndarray of shape (n,)
        Levels that some columns must have.
    public : PublicDraws
    """
    wanted = np.column_stack([codes, *given.values()])
    combinations, group = np.unique(wanted, axis=0, return_inverse=True)
    at_points = [
        (pairs.weights * chances(pairs, dict(zip(given, row[1:], strict=True))))[row[0]]
        for row in combinations
    ]
    n_points = pairs.weights.shape[1]
    at_points = np.reshape(at_points, (len(combinations), n_points)) + 1e-300
    at = codes * n_points + draw_evenly(at_points, group.reshape(-1), public)
    levels = np.empty((len(codes), pairs.n_columns), dtype=np.int64)
    scores = public.standard_normal(levels.shape).astype(np.float32)
    scores = scores @ pairs.root.T.astype(np.float32)
    within = np.zeros(levels.shape)
    for a in range(pairs.n_columns):
        if a in given:
            levels[:, a] = given[a]
            continue
        tables = pairs.tables[a].reshape(-1, pairs.n_bins(a))
        bins, places = draw_within(tables, at, public, scores[:, a])
        found = draw_within(pairs.inside(a), bins, public, places)
        levels[:, a], within[:, a] = found
    return levels, within


def chances(pairs: Pairs, evidence: dict) -> np.ndarray:
    """Probability of levels of some columns at every point, (C, K)."""
    chance = np.ones(pairs.weights.shape)
    for a, level in evidence.items():
        held = pairs.bins[a][level]
        chance = chance * pairs.tables[a][:, :, held] * pairs.inside(a)[held, level]
    return chance


def evidence_weights(pairs: Pairs, evidence: dict) -> np.ndarray:
    """Number of records of every class that the evidence leaves, (C,)."""
    return (pairs.weights * chances(pairs, evidence)).sum(axis=1)
