r"""Trees of noisy tables: what depends on what, and by how much.

In every class the columns form a tree, so that the distribution of a record is

.. math::

    P(y) \, P(x_r \mid y) \prod_{(a, b)} P(x_b \mid x_a, y) ,

a product over the edges of the tree. The edges are the pairs of columns whose noisy
distance from independence within the classes is largest; each has a noisy table of
class, first and second column. Noise is taken out of a table by what is known of it:
the singular values of its deviation from independence are shrunk as their noise asks
[1]_, and iterative proportional fitting makes it agree with the one-way tables.

References
----------
.. [1] M. Gavish, D. L. Donoho, "Optimal Shrinkage of Singular Values", IEEE
   Transactions on Information Theory 63(4), 2017.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import ceil, pi, prod, sqrt

import numpy as np

from fairpriv_sklearn._shared.sensitivity import counts_l2, rows_changed
from fairpriv_sklearn._wall import PrivacyFilter, Query, Release, Rows
from fairpriv_sklearn.generative._exact import ROUNDING
from fairpriv_sklearn.generative._levels import SIGNIFICANT, blockwise
from fairpriv_sklearn.preprocessing import project_counts

CLASS_TABLES, DISTANCES = "class tables", "distances from independence"
TREE_TABLES = "tables of the tree"

# Parts of mu**2; the tables of the tree have the rest.
CLASS_SHARE, DISTANCE_SHARE, QUALITY_SHARE = 0.45, 0.05, 0.02
# Levels of a column in the tables of the tree: numbers, categories.
MOST_BINS, MOST_CATEGORIES = 16, 64
RAKING_ROUNDS = 30


@dataclass(frozen=True)
class TreePlan:
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
    """

    n_classes: int
    n_columns: int
    most_levels: int
    quality: tuple
    share: float
    n_records: int | None

    def lines(self, mu: float) -> list[Release]:
        """What is released, out of a total of `mu` in Gaussian DP."""
        mu = mu * sqrt(self.share)
        several = self.n_columns > 1
        shares = {
            CLASS_TABLES: (CLASS_SHARE, self.n_columns * self.most_levels),
            DISTANCES: (several * DISTANCE_SHARE, self.n_pairs),
        }
        for name, size in self.quality:
            shares[name] = (QUALITY_SHARE / len(self.quality), size)
        rest = 1 - sum(share for share, _ in shares.values())
        if several:
            bins = min(self.most_levels, max(MOST_BINS, MOST_CATEGORIES)) + 2
            shares[TREE_TABLES] = (rest, (self.n_columns - 1) * bins**2)
        else:
            shares[CLASS_TABLES] = (CLASS_SHARE + rest, self.most_levels)
        classes = {CLASS_TABLES: self.n_classes, TREE_TABLES: self.n_classes}
        return [
            Release(name, "gaussian", mu * sqrt(share), size * classes.get(name, 1))
            for name, (share, size) in shares.items()
            if share
        ]

    @property
    def n_pairs(self) -> int:
        """Pairs of columns."""
        return self.n_columns * (self.n_columns - 1) // 2

    @property
    def n_draws(self) -> int:
        """Number of noisy coordinates of the whole."""
        return sum(line.n_coordinates for line in self.lines(1.0))


# --- queries --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Counts(Query):
    """Tables of counts: of the class and some columns each.

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
    """

    tables: tuple
    sizes: tuple
    n_classes: int
    bins: tuple | None = None

    name = CLASS_TABLES
    theorem = "user_guide/synthetic_tables:tree-tables"
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
        """A record counts once in each table (Lemma A)."""
        return counts_l2(neighboring, len(self.tables))

    def of_block(self, block, state):
        """Exact counts, table after table."""
        codes = block.codes.astype(np.int64)
        used = sorted({a for table in self.tables for a in table})
        levels = {a: block.levels[:, a].astype(np.int64) for a in used}
        if self.bins is not None:
            levels = {a: self.bins[a][column] for a, column in levels.items()}
        counts = []
        for table, shape in zip(self.tables, self.shapes, strict=True):
            cells = codes
            for a in table:
                cells = cells * self.sizes[a] + levels[a]
            counts.append(np.bincount(cells, minlength=prod(shape)))
        return np.concatenate(counts)

    def split(self, values) -> list[np.ndarray]:
        """Return the tables, each in its shape."""
        sizes = [prod(shape) for shape in self.shapes]
        parts = np.split(values, np.cumsum(sizes)[:-1])
        return [p.reshape(s) for p, s in zip(parts, self.shapes, strict=True)]


@dataclass(frozen=True, eq=False)
class TreeTables(Counts):
    """Tables of class, first and second column, for every edge of the tree."""

    name = TREE_TABLES


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
    name: str = DISTANCES

    theorem = "user_guide/synthetic_tables:table-distances"

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


# --- fit ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tree:
    """A distribution of records: what a fit releases, made consistent.

    Attributes
    ----------
    counts : ndarray of shape (C,)
        Numbers of records of the classes, at least 1.
    levels : list of ndarray of shape (C, n_levels)
        Distributions of the levels of every column in every class.
    bins : tuple of ndarray of shape (n_levels,)
        Bin of every level.
    edges : tuple of (int, int)
        Of the tree.
    joint : tuple of ndarray of shape (C, m_a, m_b)
        Joint distribution of the bins of the two columns of each edge, in every class.
    """

    counts: np.ndarray
    levels: list
    bins: tuple
    edges: tuple = ()
    joint: tuple = ()

    @property
    def tables(self) -> dict:
        """Joint distributions by edge."""
        return dict(zip(self.edges, self.joint, strict=True))

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.levels)

    def distributions(self, a: int) -> np.ndarray:
        """Distributions of the bins of a column in every class, (C, m)."""
        distributions = np.zeros((len(self.counts), self.n_bins(a)))
        np.add.at(distributions.T, self.bins[a], self.levels[a].T)
        return distributions

    def n_bins(self, a: int) -> int:
        """Number of bins of a column."""
        return int(self.bins[a].max()) + 1


def fit_tree(rows: Rows, columns: list, plan: TreePlan, wall: PrivacyFilter) -> Tree:
    """Release class tables, distances and the tree's tables; make them consistent.

    Parameters
    ----------
    rows : Rows
        With ``levels`` (n, A) and class ``codes`` (n,).
    columns : list of LevelColumn
    plan : TreePlan
    wall : PrivacyFilter
        Reserved, with the lines of the plan.
    """
    C, A = plan.n_classes, plan.n_columns
    n_levels = tuple(column.n_levels for column in columns)
    query = Counts(tuple((a,) for a in range(A)), n_levels, C)
    tables = query.split(wall.release(query, rows))
    scale = wall.scale(query)
    counts = _class_counts(tables, scale, plan)
    tables = [
        _clean_table(table, counts, scale, column)
        for table, column in zip(tables, columns, strict=True)
    ]
    bins = tuple(
        _bins(table.sum(axis=0), column)
        for table, column in zip(tables, columns, strict=True)
    )
    tree = Tree(counts, [t / counts[:, None] for t in tables], bins)
    if A == 1:
        return tree
    edges = _choose_edges(rows, tree, plan, wall)
    sizes = tuple(tree.n_bins(a) for a in range(A))
    query = TreeTables(tuple(edges), sizes, C, bins)
    noisy = dict(zip(edges, query.split(wall.release(query, rows)), strict=True))
    return _reconcile(tree, noisy, scale, wall.scale(query))


def _class_counts(tables, scale, plan):
    """Numbers of records of the classes, from what all columns say."""
    counts = np.mean([table.sum(axis=1) for table in tables], axis=0)
    counts = np.maximum(counts, max(1.0, scale))
    if plan.n_records is not None:
        counts = np.maximum(counts * (plan.n_records / counts.sum()), 1.0)
    return counts


def _clean_table(table, counts, scale, column):
    """Counts of levels by class that are not negative and have the class's sum."""
    table = table.copy()  # what was released stays as it is
    total, noise = table.sum(axis=0), scale * sqrt(len(counts))
    cells = slice(0, column.n_cells)
    if column.is_number and scale and column.n_cells > 1:
        held = max(counts.sum() - total[column.n_cells :].sum(), 1.0)
        smooth = blockwise(total[cells], noise, held)
        table[:, cells] += (smooth - total[cells]) / len(counts)
        table[:, np.flatnonzero(smooth <= 0)] = -np.inf
    # nobody, as far as the noise lets one see
    empty = [level for level in column.optional if total[level] < SIGNIFICANT * noise]
    table[:, empty] = -np.inf
    if not np.isfinite(table).any():
        table[:] = 0.0
    return np.array(
        [_project(row, count) for row, count in zip(table, counts, strict=True)]
    )


def _project(row, count):
    """Nearest counts of this sum; levels that are ruled out stay empty."""
    projected, possible = np.zeros(len(row)), np.isfinite(row)
    projected[possible] = project_counts(row[possible], count)
    return projected


def _bins(counts, column) -> np.ndarray:
    """Bin of every level: atoms alone, the rest in bins of about equal counts.

    The part of the records outside atoms gets bins as its square root: a rare tail
    keeps some.
    """
    n = len(counts)
    if not column.is_number:
        if n <= MOST_CATEGORIES:
            return np.arange(n)
        bins = np.full(n, MOST_CATEGORIES - 1)
        largest = np.argsort(-counts, kind="stable")[: MOST_CATEGORIES - 1]
        bins[largest] = np.arange(MOST_CATEGORIES - 1)
        return bins
    total = counts.sum()
    atoms = counts >= total / MOST_BINS
    atoms[column.n_cells :] = True  # missing is no neighbour of the last cell
    rest = np.where(atoms, 0.0, counts)
    n_bins = max(1, ceil(MOST_BINS * sqrt(rest.sum() / total)))
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


def _choose_edges(rows, tree, plan, wall) -> list[tuple[int, int]]:
    """Maximum spanning tree of the noisy distances from independence in the classes."""
    pairs = tuple(itertools.combinations(range(plan.n_columns), 2))
    sizes = tuple(tree.n_bins(a) for a in range(plan.n_columns))
    distributions = [tree.distributions(a) for a in range(plan.n_columns)]
    expected = [
        tree.counts[:, None, None]
        * distributions[a][:, :, None]
        * distributions[b][:, None, :]
        for a, b in pairs
    ]
    query = Distances(
        pairs,
        sizes,
        plan.n_classes,
        tree.bins,
        parts=tuple(((p, None),) for p in range(len(pairs))),
    )
    noisy = wall.release(query, rows, [np.rint(t).astype(np.int64) for t in expected])
    # what chance alone makes of independent columns
    chance = np.array([sqrt(1 / (2 * pi)) * np.sqrt(t).sum() for t in expected])
    return spanning_tree(noisy - chance, pairs, plan.n_columns)


def spanning_tree(weights, pairs, n_nodes) -> list[tuple[int, int]]:
    """Edges of a maximum spanning tree (Kruskal)."""
    component, edges = np.arange(n_nodes), []
    for p in np.argsort(-np.asarray(weights), kind="stable"):
        a, b = pairs[p]
        if component[a] != component[b]:
            component[component == component[b]] = component[a]
            edges.append((a, b))
    return edges


def _reconcile(tree, noisy, scale, table_scale) -> Tree:
    """One distribution out of all tables: first the one-way tables, then the edges."""
    counts = tree.counts
    known = [tree.distributions(a) * counts[:, None] for a in range(tree.n_columns)]
    sums = [k.copy() for k in known]
    weights = [np.ones(k.shape[1]) for k in known]
    for (a, b), table in noisy.items():
        for column, axis in ((a, 2), (b, 1)):
            n_cells = table.shape[axis]
            width = np.bincount(tree.bins[column], minlength=tree.n_bins(column))
            weight = scale**2 * width / max(table_scale**2 * n_cells, 1e-300)
            weight = np.minimum(weight, 1.0) if scale else np.zeros(len(width))
            sums[column] += weight * table.sum(axis=axis)
            weights[column] += weight
    distributions, levels = [], []
    for a, (total, weight) in enumerate(zip(sums, weights, strict=True)):
        # a level that is empty in all classes stays empty
        within = np.maximum(tree.levels[a], 1e-9 * tree.levels[a].any(axis=0))
        old = np.zeros(total.shape)
        np.add.at(old.T, tree.bins[a], within.T)
        total = np.where(old > 0, total / weight, -np.inf)
        distribution = np.array(
            [_project(t, n) / n for t, n in zip(total, counts, strict=True)]
        )
        distributions.append(distribution)
        levels.append(
            within * (distribution / np.maximum(old, 1e-300))[:, tree.bins[a]]
        )
    tables = {}
    for (a, b), table in noisy.items():
        expected = (
            counts[:, None, None]
            * distributions[a][:, :, None]
            * distributions[b][:, None, :]
        )
        difference = shrink(table - expected, counts, table_scale)
        tables[a, b] = _rake(
            expected + difference, expected, distributions[a], distributions[b], counts
        )
    return Tree(counts, levels, tree.bins, tuple(tables), tuple(tables.values()))


def shrink(difference, counts, scale) -> np.ndarray:
    """Tables (C, m, k) of signal and noise, with the noise taken out.

    Classes are turned so that one table is what they have in common by their size and
    the others are contrasts; each keeps the singular values that stand out of the
    noise, as much as is optimal for its squared error.
    """
    C = len(counts)
    turn = np.linalg.qr(np.column_stack([counts, np.eye(C)[:, : C - 1]]))[0]
    turned = np.einsum("ck,cab->kab", turn, difference)
    turned = np.array([shrink_singular_values(t, scale) for t in turned])
    return np.einsum("ck,kab->cab", turn, turned)


def shrink_singular_values(matrix, scale) -> np.ndarray:
    """Optimal for squared error under white noise of this standard deviation."""
    if not scale:
        return matrix
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    short, long = sorted(matrix.shape)
    ratio, unit = short / long, scale * sqrt(long)
    y = s / unit
    inner = np.maximum((y**2 - ratio - 1) ** 2 - 4 * ratio, 0.0)
    kept = np.where(y > 1 + sqrt(ratio), np.sqrt(inner) / np.maximum(y, 1e-300), 0.0)
    return (u * (kept * unit)) @ v


def _rake(table, expected, rows, columns, counts) -> np.ndarray:
    """Joint tables (C, m, k) with these margins, by iterative proportional fitting."""
    distribution = np.empty_like(table)
    for c, n in enumerate(counts):
        flat = project_counts(table[c].ravel(), n).reshape(table[c].shape)
        distribution[c] = (np.maximum(flat, 1e-6 * expected[c]) + 1e-9) / n
    for _ in range(RAKING_ROUNDS):
        distribution *= (rows / np.maximum(distribution.sum(axis=2), 1e-300))[
            :, :, None
        ]
        distribution *= (columns / np.maximum(distribution.sum(axis=1), 1e-300))[
            :, None, :
        ]
    return distribution


# --- samples --------------------------------------------------------------------------


def draw_evenly(distributions, groups, public) -> np.ndarray:
    """Draw from ``distributions[groups]``, evenly within every group of equal number.

    Systematic draws: of k rows of a group, each outcome gets k times its probability,
    rounded up or down, in random order.
    """
    n = len(groups)
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort((public.uniform(n), groups))
    ordered = groups[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[first, n])
    rank = np.arange(n) - np.repeat(first, lengths)
    start = np.repeat(public.uniform(len(first)), lengths)
    u = (rank + start) / np.repeat(lengths, lengths)
    drawn = np.empty(n, dtype=np.int64)
    present = ordered[first]
    edges = np.cumsum(distributions[present], axis=1)
    edges /= np.maximum(edges[:, -1:], 1e-300)
    steps = np.arange(len(present))[:, None]
    at = np.repeat(np.arange(len(present)), lengths)
    found = np.searchsorted((edges + steps).ravel(), at + u, side="right")
    drawn[order] = np.clip(
        found - at * distributions.shape[1], 0, distributions.shape[1] - 1
    )
    return drawn


def sample_tree(tree: Tree, codes, given, public) -> np.ndarray:
    """Levels (n, A) of records of these classes.

    Parameters
    ----------
    tree : Tree
    codes : ndarray of shape (n,)
        Classes.
    given : dict of int to ndarray of shape (n,)
        Levels that some columns must have.
    public : PublicDraws
    """
    n, A = len(codes), tree.n_columns
    wanted = np.column_stack([codes, *given.values()])
    combinations, group = np.unique(wanted, axis=0, return_inverse=True)
    group = group.reshape(-1)
    evidence = [
        {a: int(level) for a, level in zip(given, row[1:], strict=True)}
        for row in combinations
    ]
    bins = np.empty((n, A), dtype=np.int64)
    distributions = [
        conditional_distributions(tree, int(row[0]), some)
        for row, some in zip(combinations, evidence, strict=True)
    ]
    for a, parent in visits(tree):
        table = np.concatenate(
            [distribution[a] for distribution in distributions]
        )  # (groups * m_parent, m)
        size = len(table) // len(distributions)
        at = group * size + (bins[:, parent] if parent is not None else 0)
        bins[:, a] = draw_evenly(table, at, public)
    levels = np.empty((n, A), dtype=np.int64)
    for a in range(A):
        inside = tree.bins[a] == np.arange(tree.n_bins(a))[:, None]  # (m, levels)
        distributions_in = tree.levels[a][:, None, :] * inside
        flat = distributions_in.reshape(
            -1, distributions_in.shape[2]
        ) + 1e-300 * np.tile(inside, (len(tree.counts), 1))
        levels[:, a] = draw_evenly(flat, codes * tree.n_bins(a) + bins[:, a], public)
    for a, fixed in given.items():
        levels[:, a] = fixed
    return levels


def visits(tree: Tree) -> list[tuple[int, int | None]]:
    """Columns in an order in which every parent comes first, with their parents."""
    neighbours: dict = {a: [] for a in range(tree.n_columns)}
    for a, b in tree.edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    order, seen = [], set()
    for root in range(tree.n_columns):
        stack = [(root, None)]
        while stack:
            a, parent = stack.pop()
            if a in seen:
                continue
            seen.add(a)
            order.append((a, parent))
            stack += [(b, a) for b in neighbours[a]]
    return order


def conditional_distributions(tree: Tree, c: int, evidence: dict) -> dict:
    """Distributions of the columns given parent and evidence, (m_parent or 1, m).

    Messages from the leaves to the root weigh every bin by the probability of the
    evidence below it. Key None holds the probability of the evidence itself.
    """
    order, tables = visits(tree), tree.tables
    below = {a: np.ones(tree.n_bins(a)) for a, _ in order}
    for a, level in evidence.items():
        inside = np.maximum(tree.levels[a][c], 1e-12)
        mask = tree.bins[a] == tree.bins[a][level]
        weight = np.zeros(tree.n_bins(a))
        weight[tree.bins[a][level]] = inside[level] / inside[mask].sum()
        below[a] = weight
    distributions: dict = {}
    for a, parent in reversed(order):
        if parent is None:
            joint = np.maximum(tree.distributions(a)[c], 1e-12)[None] * below[a]
            total = joint.sum()
            distributions[None] = distributions.get(None, 1.0) * total
        else:
            edge = (parent, a)
            table = tables[edge][c] if edge in tables else tables[a, parent][c].T
            table = np.maximum(table, 1e-15)
            joint = table * below[a]
            below[parent] = below[parent] * joint.sum(axis=1) / table.sum(axis=1)
        distributions[a] = joint
    return distributions


def evidence_weights(tree: Tree, evidence: dict) -> np.ndarray:
    """Number of records of every class that the evidence leaves, (C,)."""
    chances = [
        conditional_distributions(tree, c, evidence)[None]
        for c in range(len(tree.counts))
    ]
    return tree.counts * np.array(chances)
