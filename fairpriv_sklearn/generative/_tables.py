r"""Tables of categorical and numeric columns as mixtures of product distributions.

Every column is a *block* of levels: public categories, or public bins of a numeric
column. A generated point is one distribution per block, and the transport cost between
a record with levels :math:`l_b` and a point with distributions :math:`q_b` is

.. math::

    \sum_b \|E_b(e_{l_b} - q_b)\|^2 ,

with :math:`E_b` the identity for categories and the cumulative sum, scaled to the
same largest distance, for ordered bins. A record adds :math:`P_i \otimes e_{l_b}`
for each of the :math:`A` blocks, a non-negative array of norm at most
:math:`\sqrt A`.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import sparse

from fairpriv_sklearn._shared.arrays import count_cells, project_simplex
from fairpriv_sklearn._shared.rowwise import row_softmax
from fairpriv_sklearn._shared.sensitivity import counts_l2
from fairpriv_sklearn._wall import PrivacyFilter, Query, Release, Rows
from fairpriv_sklearn.generative._exact import MAX_RECORDS, UNIT, encode_probabilities
from fairpriv_sklearn.generative._semidual import MIN_COUNT_SHARE, POTENTIAL_RATE

RAKING_ROUNDS = 30
TABLE_SHARE = 0.3  # of mu**2, for the one-way tables if there are steps
TABLES, STEPS = "one-way tables", "transport tables"


@dataclass(frozen=True)
class TablePlan:
    """The public numbers of one table fit.

    Parameters
    ----------
    n_classes, n_points, n_steps : int
        Shapes of the releases.
    block_sizes : tuple of int
        Number of levels of every column.
    ordered : tuple of bool
        Whether the levels of a column are ordered bins.
    regularization : float
        ``lambda`` per block; the cost of a block is at most 2.
    n_records : int or None
        Number of records where it is public.
    """

    n_classes: int
    n_points: int
    n_steps: int
    block_sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    regularization: float
    n_records: int | None

    @property
    def n_levels(self) -> int:
        """Number of levels of all columns together."""
        return sum(self.block_sizes)

    @property
    def starts(self) -> np.ndarray:
        """First level of every block."""
        return np.concatenate([[0], np.cumsum(self.block_sizes)[:-1]])

    @property
    def blocks(self) -> list[slice]:
        """Levels of every block."""
        return [
            slice(start, start + size)
            for start, size in zip(self.starts, self.block_sizes, strict=True)
        ]

    @property
    def table_share(self) -> float:
        """Part of ``mu**2`` for the one-way tables."""
        return TABLE_SHARE if self.n_steps else 1.0

    def lines(self, mu: float) -> list[Release]:
        """What is released, out of a total of `mu` in Gaussian DP."""
        first, step = OneWayTables(self), TransportTables(self)
        lines = [first.line(mu * sqrt(self.table_share))]
        if self.n_steps:
            mu_step = mu * sqrt((1 - self.table_share) / self.n_steps)
            lines.append(step.line(mu_step, self.n_steps))
        return lines


@dataclass(frozen=True)
class TableMixture:
    """What a table fit releases: C classes, J points, M levels of all columns.

    Attributes
    ----------
    counts : ndarray of shape (C,)
        Noisy numbers of records, at least 1.
    tables : ndarray of shape (C, M)
        One-way distributions of the columns in every class.
    distributions : ndarray of shape (C, J, M)
        Distributions of the columns at every point; points of a class weigh the same.
    """

    counts: np.ndarray
    tables: np.ndarray
    distributions: np.ndarray


@dataclass(frozen=True)
class LevelQuery(Query):
    """Sums over the records of arrays with one level in each of A columns."""

    plan: TablePlan

    theorem = "user_guide/generators:generators-semi-dual"

    def sensitivity(self, neighboring: str) -> float:
        """Arrays of norm at most sqrt(A), with entries not negative (Lemma A)."""
        return counts_l2(neighboring, len(self.plan.block_sizes))


@dataclass(frozen=True)
class OneWayTables(LevelQuery):
    """Counts of all levels in every class, (C, M)."""

    name = TABLES

    @property
    def n_coordinates(self) -> int:
        return self.plan.n_classes * self.plan.n_levels

    def of_block(self, block, state):
        """Exact counts."""
        shape = (self.plan.n_classes, self.plan.n_levels)
        levels = self.plan.starts + block.levels.astype(np.int64)
        return count_cells(shape, block.codes[:, None], levels)


@dataclass(frozen=True)
class TransportTables(LevelQuery):
    """One step: per class and point, the sum of ``P e_l^T``, (C, J, M).

    The state is the released distributions, potentials and the regularisation.
    """

    name = STEPS
    max_rows = MAX_RECORDS

    @property
    def n_coordinates(self) -> int:
        return self.plan.n_classes * self.plan.n_points * self.plan.n_levels

    def of_block(self, block, state):
        """Integers in units of UNIT."""
        distributions, potentials, regularization = state
        sums = [
            level_sums(
                block.levels[block.codes == c],
                distributions[c],
                potentials[c],
                regularization,
                self.plan,
            )
            for c in range(self.plan.n_classes)
        ]
        return np.array(sums).astype(np.int64)

    def value(self, total, state):
        """In records."""
        return total / UNIT


def fit_tables(rows: Rows, plan: TablePlan, wall: PrivacyFilter) -> TableMixture:
    """Release one-way tables and semi-dual sums; solve for the mixtures.

    `rows` has the level codes ``levels`` (n, A) of every column and the class
    ``codes`` (n,).
    """
    query = OneWayTables(plan)
    sums, scale = wall.release(query, rows), wall.scale(query)
    counts = _block_totals(sums, plan).mean(axis=-1)
    floor = max(1.0, scale / sqrt(len(plan.block_sizes)))
    counts = np.maximum(counts, floor)
    if plan.n_records is not None:
        counts = np.maximum(1.0, counts * (plan.n_records / counts.sum()))
    tables = np.maximum(_project_blocks(sums / counts[:, None], plan), 1e-9)
    distributions = _first_distributions(tables, plan, wall.public_draws())
    potentials = np.zeros((plan.n_classes, plan.n_points))
    target = counts[:, None] / plan.n_points
    regularization = plan.regularization * len(plan.block_sizes)
    step = TransportTables(plan)
    for _ in range(plan.n_steps):
        sums = wall.release(step, rows, (distributions, potentials, regularization))
        scale = wall.scale(step)
        masses = np.maximum(
            _block_totals(sums, plan).mean(axis=-1), MIN_COUNT_SHARE * target
        )
        distributions = _smooth_distributions(sums, masses, scale, tables, plan)
        step_size = POTENTIAL_RATE * regularization
        potentials = potentials + step_size * np.log(target / masses)
    for c in range(plan.n_classes):
        distributions[c] = rake(distributions[c], tables[c], plan)
    return TableMixture(counts, tables, distributions)


def one_hot(levels: np.ndarray, plan: TablePlan) -> sparse.csr_array:
    """Indicator matrix (n, M) of the levels, one entry per block and record."""
    n, n_blocks = levels.shape
    places = np.repeat(np.arange(n), n_blocks), (levels + plan.starts).ravel()
    return sparse.csr_array((np.ones(levels.size), places), shape=(n, plan.n_levels))


def level_sums(levels, distributions, potentials, regularization, plan):
    """Sum of ``P_i e_l^T`` over the records of one class, (J, M), in code units."""
    scores = np.full((len(levels), len(potentials)), potentials)
    for b, block in enumerate(plan.blocks):
        scores += _gains(distributions[:, block], plan.ordered[b])[levels[:, b]]
    P = encode_probabilities(row_softmax(scores / regularization))
    return (one_hot(levels, plan).T @ P).T


def _gains(distributions, ordered):
    """Minus the cost of every level at every point, up to a constant per level."""
    _, size = distributions.shape
    if ordered and size > 1:
        scale = sqrt(2 / (size - 1))
        encode = scale * np.tril(np.ones((size, size)))[: size - 1]
    else:
        encode = np.eye(size)
    points = distributions @ encode.T  # (J, r)
    return 2 * encode.T @ points.T - np.square(points).sum(axis=1)  # (levels, J)


def _first_distributions(tables, plan, public):
    """Half the class table, half one random row drawn from it: distinct points."""
    distributions = np.repeat(tables[:, None] / 2, plan.n_points, axis=1)
    for c in range(plan.n_classes):
        for block in plan.blocks:
            drawn = draw_levels(
                np.tile(tables[c, block], (plan.n_points, 1)),
                public.uniform(plan.n_points),
            )
            distributions[c, np.arange(plan.n_points), block.start + drawn] += 0.5
    return distributions


def _smooth_distributions(sums, masses, scale, tables, plan):
    """Frequencies with pseudo-counts, as many as the noise calls for."""
    pseudo = (scale**2 / masses)[..., None]
    raw = (sums + pseudo * tables[:, None]) / (masses[..., None] + pseudo)
    return _project_blocks(raw, plan)


def _block_totals(values, plan):
    return np.add.reduceat(values, plan.starts, axis=-1)


def _project_blocks(values, plan):
    projected = np.empty_like(values)
    for block in plan.blocks:
        projected[..., block] = project_simplex(values[..., block])
    return projected


def rake(distributions: np.ndarray, table: np.ndarray, plan: TablePlan) -> np.ndarray:
    """Scale the distributions (J, M): their average becomes the class table."""
    distributions = np.maximum(distributions, 1e-12)
    for _ in range(RAKING_ROUNDS):
        distributions = distributions * (table / distributions.mean(axis=0))
        distributions /= np.repeat(
            _block_totals(distributions, plan), plan.block_sizes, axis=-1
        )
    return distributions


def draw_levels(distributions: np.ndarray, u: np.ndarray) -> np.ndarray:
    """One level per row of ``distributions`` (n, m) by inversion of ``u`` (n,)."""
    edges = np.cumsum(distributions, axis=1)
    below = (edges <= u[:, None] * edges[:, -1:]).sum(axis=1)
    return np.minimum(below, distributions.shape[1] - 1)


def sample_levels(
    distributions: np.ndarray, n: int, plan: TablePlan, public
) -> np.ndarray:
    """Draw points of one class (J, M), then every column on its own, (n, A)."""
    j = public.integers(0, len(distributions), n)
    return np.column_stack(
        [
            draw_levels(distributions[j, block], public.uniform(n))
            for block in plan.blocks
        ]
    )
