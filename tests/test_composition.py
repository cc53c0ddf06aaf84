"""The running composition of a ledger, piece by piece: what is merged is the dearer."""

import itertools
import math

import numpy as np
import pytest
from _ends import approx, ends_within

from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    MaximumEvent,
    PoissonGaussianEvent,
    PureEvent,
    ThresholdEvent,
    _loss_grid,
    _sides,
    compose_delta,
    compose_epsilon,
    gaussian_epsilon,
)
from fairpriv_sklearn.accounting import _composition as _sums
from fairpriv_sklearn.accounting._composition import _epsilon_of
from fairpriv_sklearn.accounting._loss_grid import _blocks, _Curve
from fairpriv_sklearn.accounting._privacy_loss import _Composition
from fairpriv_sklearn.accounting._privacy_loss import _sum as compose_all
from fairpriv_sklearn.privacy import _composition
from fairpriv_sklearn.privacy._composition import Composition

POISSON = "poisson_gaussian"


def composed(*events):
    return Composition.of(events, "replace_one")


def test_the_nearest_pure_releases_are_merged_into_the_dearer(monkeypatch):
    monkeypatch.setattr(_composition, "_MAX_PURES", 2)
    total = _Composition(pures=((0.1, 1), (0.2, 5), (0.25, 2), (1.0, 1)))
    # What merging adds: 1 * .1, 5 * .05, 2 * .75; then 6 * .05, 2 * .75.
    with ends_within(100, _composition):
        bounded = _composition._bounded(total)
    assert bounded.pures == ((0.25, 8), (1.0, 1))
    few = _Composition(pures=((0.1, 1), (0.2, 5)))
    assert _composition._bounded(few) == few


def test_the_nearest_sampled_runs_are_merged_into_the_dearer(monkeypatch):
    monkeypatch.setattr(_composition, "_MAX_SAMPLED", 3)
    runs = [(POISSON, 0.1, 2.0, 3), (POISSON, 0.11, 1.9, 4), (POISSON, 0.5, 1.9, 1)]
    other = ("without_replacement_gaussian", 0.5, 1.9, 2)
    total = _Composition(mu=0.5, sampled=(*runs, other))
    merged = (POISSON, 0.11, 1.9, 7)
    with ends_within(100, _composition):
        bounded = _composition._bounded(total)
    assert bounded.sampled == (merged, runs[2], other) and bounded.mu == 0.5
    few = _Composition(sampled=tuple(runs))
    assert _composition._bounded(few) == few
    assert _composition._apart(runs[0], other) == math.inf
    expected = math.log(1.1) + math.log(2.0 / 1.9)
    assert _composition._apart(*runs[:2]) == approx(expected, rel=1e-12)
    assert _composition._apart(*runs[1::-1]) == approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_merging_adds_the_least_at_every_turn(seed, monkeypatch):
    """Against all that two neighbours could become, written down and compared."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(_composition, "_MAX_PURES", 3)
    monkeypatch.setattr(_composition, "_MAX_SAMPLED", 3)
    counts = [int(n) for n in rng.integers(1, 9, 7)]
    pures = tuple(zip(np.sort(rng.uniform(0.1, 1.0, 7)).tolist(), counts, strict=True))
    kinds = sorted([POISSON, "without_replacement_gaussian"] * 4)[: rng.integers(4, 8)]
    sampled = tuple(
        sorted((kind, *rng.uniform(0.1, 1.0, 2).tolist(), 2) for kind in kinds)
    )
    with ends_within(3000, _composition):
        found = _composition._bounded(_Composition(pures=pures, sampled=sampled))

    def merged(runs, i, one):
        return [*runs[:i], one, *runs[i + 2 :]]

    def loss(runs):
        return sum(epsilon * count for epsilon, count in runs)

    expected = list(pures)
    while len(expected) > 3:
        expected = min(
            (
                merged(expected, i, (high[0], low[1] + high[1]))
                for i, (low, high) in enumerate(itertools.pairwise(expected))
            ),
            key=loss,
        )
    assert found.pures == tuple(expected)
    runs = list(sampled)
    while len(runs) > 3:
        apart = {
            i: sum(abs(math.log(one[j]) - math.log(other[j])) for j in (1, 2))
            for i, (one, other) in enumerate(itertools.pairwise(runs))
            if one[0] == other[0]
        }
        i = min(apart, key=apart.get)
        (kind, *one, n), (_, *other, m) = runs[i], runs[i + 1]
        both = (kind, max(one[0], other[0]), min(one[1], other[1]), n + m)
        runs = merged(runs, i, both)
    assert found.sampled == tuple(sorted(runs))


def test_the_dearer_of_two_is_the_larger_of_everything():
    one = _Composition(0.3, 5, ((0.1, 3), (0.5, 1)), 0.01)
    other = _Composition(0.2, 9, ((0.2, 2),), 0.02)
    dearer = _Composition(0.3, 9, ((0.1, 2), (0.2, 1), (0.5, 1)), 0.02)
    assert _sides._dearer(one, other) == dearer
    assert _sides._dearer(other, one) == dearer
    assert dearer.covers(one) and dearer.covers(other)
    assert _sides._dearer(one, dearer) == dearer == _sides._dearer(dearer, one)
    sampled = _Composition(sampled=((POISSON, 0.1, 2.0, 3),))
    assert _sides._dearer(one, sampled) == one.plus(sampled)
    pairs = (one, other), (other, dearer)
    # mu, failure and sum of the pure ones, on the left and on the right
    expected = (0.1 + 0.01 + 0.4) + (0.1 + 0.0 + 0.5)
    assert _sides._difference(*pairs) == approx(expected, rel=1e-12)


def test_the_size_of_a_total_is_about_its_variance():
    total = _Composition(0.3, 5, ((0.1, 3), (0.5, 2)), 0.1, ((POISSON, 0.1, 2.0, 7),))
    expected = 0.09 + 3 * 0.01 + 2 * 0.25 + 7 * 0.05**2
    assert _sides._size(total) == approx(expected, rel=1e-12)


def test_a_total_grows_by_its_share_rounded_up():
    events = [GaussianEvent(0.3, 7), DeclaredEvent(0.1, 0.2), PureEvent(0.1)]
    events += [PoissonGaussianEvent(0.1, 2.0, 9), MaximumEvent([PureEvent(1.0)], [])]
    total = composed(*events[:4])
    assert total._grown(0) is total
    grown = total._grown(1 / 8)
    assert grown.plain.mu == approx(0.3 * math.sqrt(1.125), rel=1e-12)
    assert grown.plain.n_draws == 8 and grown.plain.pures == ((0.1, 3),)
    assert grown.plain.failure == approx(0.225, rel=1e-12)
    assert grown.plain.sampled == ((POISSON, 0.1, 2.0, 11),)
    assert composed(DeclaredEvent(0.0, 0.9))._grown(1 / 2).plain.failure == 1.0
    (left, right) = (_Composition(mu=0.1), _Composition(mu=0.2))
    split = Composition("replace_one", splits=(((left, right), 17),))
    assert split._grown(1 / 8).splits == (((left, right), 20),)
    assert total.within(grown) and not grown.within(total)
    assert not total.within(Composition("add_remove", grown.plain))
    assert split.within(split._grown(1 / 8)) and not split._grown(1 / 8).within(split)


def test_a_composition_is_stored_number_by_number():
    plain = _Composition(
        math.inf, 3, ((0.5, 2), (math.inf, 1)), 0.25, ((POISSON, 0.1, 2.0, 7),)
    )
    stored = _composition._to_plain(plain)
    assert stored == ["inf", 3, [[0.5, 2], ["inf", 1]], 0.25, [[POISSON, 0.1, 2.0, 7]]]
    assert _composition._from_plain(stored) == plain


def test_an_infinite_cap_holds_everything_and_a_sum_its_own_total():
    assert composed(PureEvent(math.inf)).fits(math.inf, 0.0)
    ten = composed(*[PureEvent(0.1)] * 10)
    assert ten.fits(1.0, 0.0) and not ten.fits(1.0 - 1e-8, 0.0)
    assert ten.fits(1.0 / (1 + 0.9e-9), 0.0) and not ten.fits(1 / (1 + 1.1e-9), 0.0)
    edge = 1.0 * (1 + 1e-9)
    assert composed(PureEvent(edge)).fits(1.0, 0.0)
    assert not composed(PureEvent(math.nextafter(edge, 2.0))).fits(1.0, 0.0)
    failing = composed(DeclaredEvent(1.0, 1e-6))
    assert failing.fits(1.0, 1e-6) and not failing.fits(50.0, 0.9e-6)
    both = composed(DeclaredEvent(1.0, 1e-6), GaussianEvent(0.5))
    epsilon = compose_epsilon([DeclaredEvent(1.0, 1e-6), GaussianEvent(0.5)], 1e-5)
    assert both.fits(epsilon, 1e-5) and not both.fits(epsilon * (1 - 1e-8), 1e-5)
    assert both.epsilon_at(1e-5) == epsilon


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize(
    ("plain", "left", "right"),
    [
        # The dearest side: all on the left, all on the right, some on both.
        (_Composition(mu=0.1), _Composition(mu=0.5), _Composition(mu=0.1)),
        (_Composition(mu=0.1), _Composition(mu=0.1), _Composition(pures=((0.6, 1),))),
        (_Composition(), _Composition(mu=0.3), _Composition(pures=((0.38, 1),))),
        (_Composition(), _Composition(mu=0.2, n_draws=9), _Composition(failure=1e-7)),
    ],
)
def test_splits_cost_the_dearest_of_all_sides(plain, left, right, count):
    total = Composition("replace_one", plain, (((left, right), count),))
    sides = [
        compose_all([plain, *[left] * k, *[right] * (count - k)])
        for k in range(count + 1)
    ]
    exact = max(_epsilon_of(side, 1e-5) for side in sides)
    assert exact * (1 - 1e-12) <= total.epsilon_at(1e-5) <= exact * 1.01
    assert total.fits(exact * (1 + 1e-8), 1e-5)
    assert not total.fits(exact * (1 - 1e-6), 1e-5)


def test_more_kinds_of_splits_than_are_kept_apart_merge_the_nearest(monkeypatch):
    monkeypatch.setattr(_sides, "_MAX_SPLITS", 4)
    pairs = {
        (_Composition(mu=mu), _Composition(pures=((epsilon, 1),))): count
        for mu, epsilon, count in [
            (0.1, 0.1, 3), (0.5, 0.5, 1), (1.0, 1.0, 2), (1.5, 1.6, 1), (0.11, 0.1, 4)
        ]
    }  # fmt: skip
    with ends_within(2000, _sides):
        merged = dict(_sides._fewer_splits(pairs))
    assert len(merged) == 4
    pair = (_Composition(mu=0.11), _Composition(pures=((0.1, 1),)))
    assert merged.pop(pair) == 7
    assert set(merged) < set(pairs) and sum(merged.values()) == 4
    four = dict(list(pairs.items())[:4])
    assert dict(_sides._fewer_splits(four)) == four


def test_hundreds_of_kinds_of_splits_are_compared_once_with_each_other(monkeypatch):
    rng = np.random.default_rng(0)
    counts = {
        (_Composition(mu=mu), _Composition(pures=((epsilon, 1),))): 1
        for mu, epsilon in rng.uniform(0.1, 1.0, (120, 2)).tolist()
    }
    monkeypatch.setattr(_sides, "_MAX_SPLITS", 4)
    compared, difference = [], _sides._difference
    monkeypatch.setattr(
        _sides, "_difference", lambda *two: compared.append(two) or difference(*two)
    )
    with ends_within(400_000, _sides):
        found = _sides._fewer_splits(counts)
    assert len(compared) < 1.5 * 120**2  # of 288,000 pairs
    pairs = list(counts.items())
    while len(pairs) > 4:
        i, j = min(
            itertools.combinations(range(len(pairs)), 2),
            key=lambda two: difference(*(pairs[i][0] for i in two)),
        )
        (one, n_one), (other, n_other) = pairs[i], pairs.pop(j)
        dearer = tuple(map(_sides._dearer, one, other))
        pairs[i] = dearer, n_one + n_other
    assert found == tuple(pairs)


def test_splits_that_are_infinitely_far_apart_are_merged_and_not_lost(monkeypatch):
    monkeypatch.setattr(_sides, "_MAX_SPLITS", 1)
    silent, loud = _Composition(), _Composition(mu=math.inf)
    last = _Composition(pures=((math.inf, 1),))
    found = _sides._fewer_splits(
        {(loud, silent): 2, (silent, last): 3, (last, loud): 1}
    )
    (((left, right), count),) = found
    assert count == 6 and left.mu == right.mu == math.inf
    assert left.pures == right.pures == last.pures


def test_a_curve_is_read_along_its_chords():
    curve = _Curve(0.5, -2, np.array([0.9, 0.6, 0.3, 0.1, 0.05]))  # from -1 to 1
    at = [-1.0, -0.5, 0.0, 0.5, 1.0, 5.0]
    assert [curve.delta(e) for e in at] == approx([0.9, 0.6, 0.3, 0.1, 0.05, 0.05])
    share = math.expm1(0.25) / math.expm1(0.5)  # chords are straight in exp(epsilon)
    assert curve.delta(0.25) == approx(0.3 - 0.2 * share, rel=1e-12)
    assert curve.epsilon(0.1) == approx(0.5, rel=1e-12)
    assert curve.epsilon(0.2) == approx(math.log1p(math.expm1(0.5) / 2))
    assert curve.epsilon(0.05) == approx(1.0) and curve.epsilon(0.04) == math.inf
    assert [curve.epsilon(d) for d in (0.95, 0.7, 0.35, 0.3)] == [0.0] * 4


def test_blocks_make_every_number_up_to_their_sum():
    for count in range(40):
        sums = {0}
        with ends_within(100, _loss_grid):
            blocks = _blocks(count)
        for size in blocks:
            sums |= {size + one for one in sums}
        assert sums == set(range(count + 1))
    assert _blocks(12) == [1, 2, 4, 5]


def test_a_split_is_kept_unless_one_side_is_the_dearer():
    pure, gaussian = _Composition(pures=((1.0, 1),)), _Composition(mu=0.5)
    one_side = MaximumEvent([PureEvent(1.0)], [PureEvent(0.5)])
    assert composed(one_side).splits == () and composed(one_side).plain == pure
    split = MaximumEvent([PureEvent(1.0)], [GaussianEvent(0.5)])
    assert dict(composed(split).splits) == {(pure, gaussian): 1}
    assert composed(split).plain == _Composition()
    twice = composed(split, GaussianEvent(0.3), split, one_side)
    assert dict(twice.splits) == {(pure, gaussian): 2}
    assert twice.plain == _Composition(mu=0.3, pures=((1.0, 1),))
    more = twice.plus(composed(split)).plus(composed(MaximumEvent([one_side], [])))
    assert dict(more.splits) == {(pure, gaussian): 3}
    assert more.plain.pures == ((1.0, 2),)
    nested = MaximumEvent([split], [DeclaredEvent(0.1, 0.2)])
    ((sides, _),) = composed(nested).splits
    assert set(sides) == {pure, gaussian, _Composition(pures=((0.1, 1),), failure=0.2)}


# A repair beside a model that answers a constant where it has few records.
SPLIT_AGAIN = MaximumEvent(
    [GaussianEvent(0.268, 120)],
    [
        MaximumEvent(
            [GaussianEvent(0.085, 10**5), ThresholdEvent(5e-8), GaussianEvent(0.25)],
            [PureEvent(0.976)],
        )
    ],
)


@pytest.mark.parametrize("delta", [1e-5, 1e-2])
@pytest.mark.parametrize("count", [1, 3])
def test_a_split_of_which_a_side_is_split_again_costs_its_dearest_side(count, delta):
    total = composed(*[SPLIT_AGAIN] * count)
    options = _sums._options((SPLIT_AGAIN,) * count)
    assert len(options) == math.comb(count + 2, 2)
    tight = max(_epsilon_of(option, delta) for option in options)
    assert compose_epsilon([SPLIT_AGAIN] * count, delta) == approx(tight, rel=1e-9)
    assert tight * (1 - 1e-9) <= total.epsilon_at(delta) <= tight * (1 + 1e-9)
    assert Composition.from_plain(total.to_plain()) == total


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5])
@pytest.mark.parametrize("count", [3, 9, 16])
def test_many_splits_cost_no_less_than_any_side_and_no_more_than_their_sum(
    count, delta
):
    each = [
        [(1.0 + i / 100, 0.11), (0.05, 0.05, 0.05, 0.11), (0.55, 0.5)]
        for i in range(count)
    ]
    splits = [
        MaximumEvent(
            [MaximumEvent(map(PureEvent, a[:-1]), map(PureEvent, b[:-1]))]
            + [PureEvent(0.11)],
            map(PureEvent, c),
        )
        for a, b, c in each
    ]
    found = compose_epsilon(splits, delta)
    added = math.fsum(sum(a) for a, _, _ in each)
    assert found <= added * (1 + 1e-9)
    rng = np.random.default_rng(0)
    chosen = [[0] * count, [2] * count, *rng.integers(0, 3, (50, count)).tolist()]
    for sides in chosen:
        one = [PureEvent(e) for i, k in enumerate(sides) for e in each[i][k]]
        assert compose_epsilon(one, delta) <= found * (1 + 1e-9)
        assert compose_delta(one, 2.0) <= compose_delta(splits, 2.0) * (1 + 1e-9)
    ledger = composed(*splits).epsilon_at(delta)
    assert found * (1 - 1e-9) <= ledger <= added * (1 + 1e-9)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("n_draws", [0, 50])
def test_the_delta_of_many_splits_is_that_of_their_epsilon(same, n_draws):
    """It took seconds, and was up to 32 times as large."""
    left = [PureEvent(0.1 + (0.0 if same else i / 1000)) for i in range(150)]
    right = [GaussianEvent(0.12, n_draws)]
    splits = [MaximumEvent([one], right) for one in left]
    for delta in (1e-8, 1e-5, 1e-2):
        epsilon = compose_epsilon(splits, delta)
        assert compose_delta(splits, epsilon) <= delta * (1 + 1e-6)
        for k in (0, 40, 75, 150):
            side = [*left[:k], *right * (150 - k)]
            assert compose_delta(side, epsilon) <= compose_delta(splits, epsilon)
    # All that is ever drawn may be off a little.
    drawn = [MaximumEvent([one], [GaussianEvent(0.12, 10**6)]) for one in left]
    assert compose_delta(drawn, 5.0) > compose_delta(splits, 5.0) * (1 + 1e-9)
    # Far beyond the grid, and where nothing is left, one side stands for all.
    largest = math.fsum(one.epsilon for one in left)
    pure = [MaximumEvent([one], [PureEvent(0.05)] * 2) for one in left]
    assert compose_delta(pure, largest + 150 * 0.05 + 1.0) == 0.0
    assert compose_delta(splits, 60.0) < 1e-20
    assert compose_delta(splits, math.inf) == 0.0


def test_releases_that_are_added_up_have_a_share_of_delta_each():
    plain, sides = _Composition(mu=0.3), (_Composition(mu=0.5), _Composition(mu=0.2))
    found = _sums._added_up(plain, ((sides, 3),), 1e-4)
    shares = [gaussian_epsilon(mu, 2.5e-5) for mu in (0.3, 0.5, 0.5, 0.5)]
    assert math.fsum(shares) <= found <= math.fsum(shares) * (1 + 1e-9)


def test_sides_of_many_splits_are_merged_with_the_nearest(monkeypatch):
    ((sides, _),) = composed(SPLIT_AGAIN).splits
    total = composed(*[SPLIT_AGAIN] * 3)
    tight = total.epsilon_at(1e-5)
    monkeypatch.setattr(_sums, "_MAX_OPTIONS", 9)  # there are ten
    _sums._dearest_epsilon.cache_clear()
    assert tight < total.epsilon_at(1e-5) < 1.02 * tight
    _sums._dearest_epsilon.cache_clear()
    with ends_within(1000, _sides):
        two = _sides._fewer_sides(sides, 2)
    assert _Composition(pures=((0.976, 1),)) in two and len(two) == 2
    assert all(any(one.covers(side) for one in two) for side in sides)


def test_a_side_has_at_most_so_many_sides():
    event = PureEvent(0.1)
    for k in range(1, 9):
        event = MaximumEvent([event], [GaussianEvent(0.3 / k), PureEvent(0.1 + k / 9)])
    ((sides, _),) = composed(event).splits
    assert len(sides) == 4
    tight = compose_epsilon([event], 1e-5)
    assert tight <= composed(event).epsilon_at(1e-5) < 1.1 * tight


def test_a_hundred_sides_are_compared_once_with_each_other(monkeypatch):
    compared, added = [], _sides._added
    monkeypatch.setattr(
        _sides, "_added", lambda *two: compared.append(two) or added(*two)
    )
    sides = tuple(_Composition(k, pures=((100.0 - k, 1),)) for k in range(100))
    fewer = _sides._fewer_sides(sides, 4)
    assert len(fewer) == 4 and len(compared) == len(set(compared)) < 100**2
    assert all(any(one.covers(side) for one in fewer) for side in sides)


def test_a_split_with_next_to_no_noise_does_not_fit():
    assert not composed(MaximumEvent([GaussianEvent(1e200)], [PureEvent(1.0)])).fits(
        1.0, 1e-5
    )


def test_a_total_is_within_another_kind_by_kind():
    run = (POISSON, 0.1, 2.0)
    small, large = (_Composition(0.1, sampled=((*run, n),)) for n in (1, 2))
    assert _composition._within(small, small) and _composition._within(small, large)
    assert not _composition._within(large, small)
    assert not _composition._within(small, _Composition(0.1))
    assert _composition._within(_Composition(0.1), small)
    pair = (_Composition(0.1), _Composition(pures=((0.1, 1),)))
    split = Composition("replace_one", splits=((pair, 1),))
    assert not split.within(Composition("replace_one"))
    assert Composition("replace_one").within(split) and split.within(split)


def test_at_delta_zero_every_split_costs_its_dearer_side():
    pair = (_Composition(pures=((0.5, 1),)), _Composition(pures=((0.25, 3),)))
    total = Composition("replace_one", _Composition(pures=((1.0, 1),)), ((pair, 4),))
    assert total.epsilon_at(0.0) == 1.0 + 4 * 0.75
    assert total.fits(4.0, 0.0) and not total.fits(3.999, 0.0)
    gaussian = Composition("replace_one", splits=(((pair[0], _Composition(0.1)), 1),))
    assert gaussian.epsilon_at(0.0) == math.inf


def test_more_than_128_sides_are_bounded_at_once(monkeypatch):
    class AtOnce(Exception):
        pass

    def at_once(*_):
        raise AtOnce

    monkeypatch.setattr(_sums, "_worst_epsilon", at_once)
    monkeypatch.setattr(_sums, "_each_side", lambda plain, splits: [])
    for counts, one_by_one in [((127,), True), ((128,), False), ((1,) * 7, True)]:
        sides = [(_Composition(mu=0.1 * (i + 1)), _Composition()) for i in range(9)]
        total = (_Composition(), tuple(zip(sides, counts, strict=False)), 1e-5)
        if one_by_one:
            assert _sums._dearest_epsilon.__wrapped__(*total) == 0.0
        else:
            with pytest.raises(AtOnce):
                _sums._dearest_epsilon.__wrapped__(*total)


@pytest.mark.parametrize("few", [1, 64])
def test_all_sides_at_once_cost_about_the_dearest(few, monkeypatch):
    monkeypatch.setattr(_sums, "_MAX_OPTIONS", few)
    _sums._dearest_epsilon.cache_clear()
    kinds = [
        ((_Composition(mu=0.5), _Composition(pures=((0.5, 1),))), 3),
        ((_Composition(mu=0.2, n_draws=100), _Composition(failure=1e-6)), 2),
    ]
    plain = _Composition(mu=0.1, pures=((0.3, 1),), n_draws=50)
    total = Composition("replace_one", plain, tuple(kinds))
    sides = [
        compose_all(
            [plain, *[a[0]] * i, *[a[1]] * (3 - i), *[b[0]] * j, *[b[1]] * (2 - j)]
        )
        for (a, _), (b, _) in [kinds]
        for i in range(4)
        for j in range(3)
    ]
    for delta in (1e-4, 3e-6):
        exact = max(_epsilon_of(side, delta) for side in sides)
        found = total.epsilon_at(delta)
        assert exact * (1 - 1e-12) <= found <= exact * (1.01 if few == 1 else 1 + 1e-9)
    _sums._dearest_epsilon.cache_clear()
