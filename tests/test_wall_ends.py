"""The wall and its mechanisms take their arguments up to both ends, and no further."""

import math
from fractions import Fraction

import numpy as np
import pytest
from _ends import answer, approx, taken
from test_wall_plans import Counts, Gaussian, Words, table, wall

from fairpriv_sklearn import mechanisms
from fairpriv_sklearn._wall import KeyedRelease, Release, Rows
from fairpriv_sklearn._wall._draws import keyed_draws
from fairpriv_sklearn._wall._rows import MAX_ROWS, rows_of
from fairpriv_sklearn.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    PermuteAndFlip,
    noise_source,
)

TINY, INF = 5e-324, math.inf
NOISE = noise_source(0)
ABOVE_1 = math.nextafter(1.0, 2.0)


def released(n_rows):
    class Few(Counts):
        max_rows = 4

    opened = wall([Release("counts", "pure", 1.0, 2)], delta=0.0)
    opened.release(Few(), table(["a"] * n_rows))


def released_keyed(n_rows):
    class Few(Words):
        max_rows = 4

    opened = wall([KeyedRelease("words", "gaussian", 0.5, 2, delta=1e-3)])
    opened.release_keyed(Few(), table(["a"] * n_rows))


@pytest.mark.parametrize(
    ("check", "inside", "outside"),
    [
        (lambda p: NOISE.bernoulli(3, p), [0.0, 0.5, 1.0], [-TINY, ABOVE_1]),
        (lambda p: keyed_draws(b"key", 3, p), [0.0, 0.5, 1.0], [-TINY, ABOVE_1]),
        (lambda high: NOISE.integers(0, high, 2), [1, 2, 2**63 - 1], [0, -1]),
        (lambda k: NOISE.choice(3, k), [0, 1, 2, 3], [-1, 4]),
        (lambda k: NOISE.choice(0, k), [0], [1]),
        (
            lambda s: GaussianMechanism(s, 1.0, 1),
            [1.01e-250, 0.99e250],
            [1e-250, 1e250],
        ),
        (lambda s: GaussianMechanism(s, INF, 1), [TINY, 1e300], [0.0, INF]),
        (lambda mu: GaussianMechanism(1.0, mu, 1), [2.0**-22, INF], [2.3e-7, 0.0]),
        (lambda n: GaussianMechanism(1.0, 1.0, n), [1, 2**44], [0, -1, 2**44 + 1]),
        (lambda s: DiscreteLaplaceMechanism(s, 1.0), [1, 2**40], [0, 2**40 + 1]),
        (lambda s: DiscreteLaplaceMechanism(s, INF), [1, 2**50], [0]),
        (
            lambda epsilon: DiscreteLaplaceMechanism(1, epsilon),
            [1e-6, 1e6, INF],
            [0.99e-6, 1.01e6],
        ),
        (lambda s: PermuteAndFlip(s, 1.0), [TINY, 1e300], [0.0, -1.0]),
        (lambda epsilon: PermuteAndFlip(1.0, epsilon), [TINY, INF], [0.0, -1.0]),
        (
            lambda delta: GaussianMechanism(1.0, 1.0, 1).key_threshold(delta, 1),
            [0.0, 1e-300, 0.999],
            [-TINY, 1.0],
        ),
        (
            lambda n: GaussianMechanism(1.0, 1.0, 1).key_threshold(1e-7, n),
            [0, 1, 10**6],
            [-1],
        ),
        (Rows, [0, MAX_ROWS], [MAX_ROWS + 1]),
        (released, [1, 4], [5]),
        (released_keyed, [1, 4], [5]),
    ],
)
def test_arguments_are_taken_up_to_both_ends(check, inside, outside):
    assert taken(check, inside + outside) == inside


def test_indices_take_whole_rows():
    square = np.arange(9.0).reshape(3, 3)
    for held in (square, np.asfortranarray(square)):
        assert rows_of(held, np.array([2, 0])).tolist() == [[6, 7, 8], [0, 1, 2]]


def test_valid_calls_are_answered():
    assert answer(PermuteAndFlip(1.0, INF).release, [0.5, 2.0, 1.0], NOISE) == 1
    assert answer(PermuteAndFlip(1.0, 1.0).release, [0.5], NOISE) == 0
    quiet = GaussianMechanism(1.0, INF, 1)
    assert answer(quiet.key_threshold, 1e-7, 1) == 1.0
    assert answer(quiet.release_keyed, [3.0, 1.0], [b"a", b"b"], b"s").tolist() == [
        3,
        1,
    ]
    noisy = GaussianMechanism(1.0, 1.0, 1)
    assert answer(noisy.key_threshold, 0.0, 1) == INF
    assert answer(noisy.key_threshold, 1e-7, 0) == 1.0
    assert len(answer(noisy.release_keyed, [3.0, 1.0], [b"a", b"b"], b"s")) == 2
    assert not taken(lambda n: noisy.release_keyed([1.0] * n, [b"a"], b"s"), [0, 2])
    # A sampled line without noise needs no sample.
    opened = wall([Release("counts", "gaussian", INF, 3, 1, ("poisson", 0.1))])
    rows = table(["a"] * 10)
    assert answer(opened.release, Gaussian(), rows).tolist() == [5, 5]


@pytest.mark.parametrize(
    "x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 3)]
)
def test_an_event_of_probability_exp_of_minus_x(x):
    n = 3000
    drawn = [mechanisms._true_with_exp(NOISE, x) for _ in range(n)]
    p = math.exp(-x)
    assert np.mean(drawn) == approx(p, abs=5 * math.sqrt(p * (1 - p) / n) + 1e-12)
