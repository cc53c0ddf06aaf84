"""How many records there are, in all and in every stratum: a fit's first release."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._shared.sensitivity import counts_l2
from .._wall import PrivacyFilter, Query, Rows

SIZES_PUBLIC = ("replace_one_in_group", "replace_one_in_cell")
"""Relations under which the sizes of the strata are public."""

LARGEST_MIN_SIZE = 1 << 22
"""A minimum size above this lowers the noise no more, and costs memory for dummies."""

_EMPTY = 0.4  # probability that a class is empty or the only one, before counting


@dataclass(frozen=True)
class Count(Query):
    """The number of records."""

    name = "count"
    theorem = "privacy/accounting:lemma-a"
    n_coordinates = 1

    def sensitivity(self, neighboring: str) -> float:
        # Replacing a record never changes it; asked under add/remove only.
        return 1.0

    def of_block(self, block, state):
        return np.array([block.n_rows])


@dataclass(frozen=True)
class StratumCounts(Query):
    """Number of records of every stratum; the named column holds the codes."""

    name = "counts"
    theorem = "privacy/accounting:lemma-a"

    n_strata: int
    column: str = "stratum"

    @property
    def n_coordinates(self) -> int:
        return self.n_strata

    def sensitivity(self, neighboring: str) -> float:
        return counts_l2(neighboring)

    def of_block(self, block, state):
        return np.bincount(getattr(block, self.column), minlength=self.n_strata)


@dataclass(frozen=True)
class Sizes:
    """Public sizes: the loss's divisor, and the minimum sizes of the strata."""

    n_records: float
    min_sizes: NDArray[np.int64]


def count_query(n_counts: int) -> Query:
    """Counts of the strata, or of all records if one number is asked."""
    return StratumCounts(n_counts) if n_counts > 1 else Count()


def public_sizes(
    wall: PrivacyFilter,
    rows: Rows,
    shape: tuple[int, int],
    *,
    n_counts: int,
    min_group_size: int | None,
) -> Sizes:
    """Release the planned counts, and turn them into sizes.

    Parameters
    ----------
    wall : PrivacyFilter
        Whose plan has `n_counts` counts, if any.
    rows : Rows
        With a column `stratum`.
    shape : tuple of int
        Number of labels compared inside, and of groups.
    n_counts : int
        One for each stratum, one for all, or none.
    min_group_size : int or None
        Public minimum size that takes the place of noisy counts.
    """
    min_sizes = np.full(shape, min_group_size or 1)
    if wall.neighboring in SIZES_PUBLIC:
        stratum = rows.only("stratum").whole().stratum
        counts = np.bincount(stratum, minlength=min_sizes.size)
        return Sizes(rows.n_rows, np.maximum(counts, 1).reshape(shape))
    n_records = rows.n_rows
    if n_counts:
        query = count_query(n_counts)
        noisy = wall.release(query, rows)
        # A group that drowns in the noise of its count is filled with dummies up to
        # that noise: cheaper than the noise that a minimum of one would need.
        least = max(1.0, 2 * wall.scale(query))
        if n_counts > 1:
            min_sizes = np.clip(np.rint(noisy), least, LARGEST_MIN_SIZE)
            min_sizes = np.ceil(min_sizes).astype(np.int64).reshape(shape)
        if wall.neighboring == "add_remove":
            n_records = max(float(noisy.sum()), least)
    if wall.neighboring == "replace_one":
        min_sizes = np.minimum(min_sizes, max(1, rows.n_rows))
    return Sizes(n_records, min_sizes)


def asked_again(
    wall: PrivacyFilter, rows: Rows, query: Query, lines, state=None, told=None
) -> tuple[NDArray[np.float64], float]:
    """Mean of a query that takes the place of all that some lines pay for.

    Where features would only bring noise, their part of the budget is not lost.

    Parameters
    ----------
    wall : PrivacyFilter
    rows : Rows
    query : Query
    lines : list of Release
    state : object, default=None
        Of the query.
    told : tuple of ndarray and float, default=None
        What was released of the same before, and its noise.

    Returns
    -------
    mean : ndarray
        Weighted by precision.
    noise : float
        Standard deviation of its noise.
    """
    total, precision = 0.0, 0.0
    if told is not None:
        precision = told[1] ** -2
        total = precision * told[0]
    for line in lines:
        weight = wall.scale(query, name=line.name) ** -2
        for _ in range(line.times):
            total = total + weight * wall.release(query, rows, state, name=line.name)
            precision += weight
    return total / precision, precision**-0.5


def telling_records(noisy, n_records: float, noise: float) -> float:
    """Expected number of records that the best told class, or all others, has."""
    found = shares(noisy, n_records, noise)
    return float(np.minimum(found, 1 - found).max()) * n_records


def shares(noisy, n_records: float, noise: float) -> NDArray[np.float64]:
    """Shares of the cells that counts with normal noise suggest; positive, of sum one.

    As if together they held all records; see :func:`likely_share`.
    """
    noisy = np.asarray(noisy, dtype=np.float64)
    k = len(noisy)
    centred = noisy + (n_records - noisy.sum()) / k
    noise = max(noise * math.sqrt(1 - 1 / k), 1e-9 * n_records)
    likely = np.array([likely_share(x, n_records, noise, power=2) for x in centred])
    return likely / likely.sum()


def likely_share(count: float, n_records: float, noise: float, *, power: int) -> float:
    """Mean of a cell's share given its noisy count.

    Before, the cell is empty, or holds all, with probability .4, a little more of few
    records; else it stands out of the noise, and holds at least x records with a
    probability like 1 / x. Who comes next counts as .35 of a record of either kind, or
    a quarter under normal noise. A constant then costs little more than the best of
    several at every share, in log loss: chosen on exact expectations, not on tables.

    Parameters
    ----------
    count, n_records : float
    noise : float
        Scale of the noise.
    power : {1, 2}
        Laplace noise, or normal.
    """
    least = min(max(noise, 0.5), n_records / 4)
    middle = min(max(count, least), n_records - least)
    ends = max(least, middle - 12 * noise), min(n_records - least, middle + 12 * noise)
    sizes = np.linspace(*ends, 401)
    prior = 1 / np.minimum(sizes, n_records - sizes) ** 2
    empty = _EMPTY + min(noise / n_records, 0.1)
    prior *= (1 - empty) / (2 / least - 4 / n_records) * (sizes[1] - sizes[0])
    sizes = np.concatenate([[0.0, n_records], sizes])
    prior = np.concatenate([[empty / 2, empty / 2], prior])
    distance = (np.abs(count - sizes) / noise) ** power / power
    likely = np.exp(distance.min() - distance) * prior
    count = float(likely @ sizes / likely.sum())
    more = 0.35 if power == 1 else 0.25
    return (count + more) / (n_records + 2 * more)
