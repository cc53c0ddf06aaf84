"""The wall: what the lines of a plan cost, keyed counts, choices and branches."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from _recording import recording
from numpy.testing import assert_array_equal
from scipy import stats

from fairpriv_sklearn._wall import (
    CellCounts,
    Combined,
    KeyedQuery,
    KeyedRelease,
    PlanError,
    PrivacyFilter,
    Query,
    Release,
    Rows,
    Split,
    Wrapped,
    _filter,
)
from fairpriv_sklearn._wall._plan import plan_events
from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    PureEvent,
    ThresholdEvent,
)
from fairpriv_sklearn.mechanisms import GaussianMechanism, noise_source
from fairpriv_sklearn.privacy import PrivacyGuarantee


@dataclass(frozen=True)
class Counts(Query):
    name = "counts"
    theorem = "tests"
    norm = "l1"
    n_coordinates = 2

    def sensitivity(self, neighboring):
        return 2

    def of_block(self, block, state):
        return np.bincount(block.codes, minlength=2)


@dataclass(frozen=True)
class Words(KeyedQuery):
    """Rows per listed code, and per word, which nobody listed."""

    name = "words"
    theorem = "tests"
    n_coordinates = 2
    n_keyed_columns = 1
    block_rows = 7

    def sensitivity(self, neighboring):
        return math.sqrt(2)

    def of_block(self, block, state):
        return np.bincount(block.codes, minlength=2)

    def keys_of_block(self, block):
        words, counts = np.unique(block.words, return_counts=True)
        return {(0, str(w)): int(c) for w, c in zip(words, counts, strict=True)}


def wall(plan, seed=0, **params):
    settings = {"delta": 1e-5, "neighboring": "replace_one", **params}
    opened = PrivacyFilter("test", plan, noise=noise_source(seed), **settings)
    opened.reserve()
    return opened


def table(words):
    words = np.array(words)
    return Rows(len(words), codes=np.arange(len(words)) % 2, words=words)


def test_repeated_releases_compose():
    pure = Release("counts", "pure", 0.25, 3, times=4)
    assert pure.events("replace_one") == (PureEvent(1.0),)
    gaussian = Release("counts", "gaussian", 0.5, 3, times=9)
    (event,) = gaussian.events("replace_one")
    assert event.mu == pytest.approx(1.5, rel=1e-12) and event.n_draws == 27
    two = (gaussian, Release("more", "gaussian", 2.0, 5), pure)
    (merged, other) = plan_events(two, "replace_one")
    assert merged.mu == pytest.approx(2.5, rel=1e-12) and merged.n_draws == 32
    assert other == PureEvent(1.0)
    (left, right) = (lambda e: (e.left, e.right))(
        Split("s", (pure,), (gaussian,)).events("replace_one")[0]
    )
    assert left == (PureEvent(1.0),) and right[0].mu == pytest.approx(1.5)


def test_a_line_is_released_once_unless_it_says_otherwise():
    line = Release("counts", "pure", 0.25, 3)
    assert line.events("replace_one") == (PureEvent(0.25),)
    assert wall([line])._left == {"counts": 1}


def test_cells_of_several_tables_are_counted_side_by_side():
    cells, expected = np.arange(60).reshape(20, 3) % 7 % 6, np.zeros((3, 2, 3), int)
    for row in cells:
        for t, cell in enumerate(row):
            expected[t, cell // 3, cell % 3] += 1
    three, one = CellCounts((2, 3), n_tables=3), CellCounts((2, 3))
    assert three.n_coordinates == 18 and one.n_coordinates == 6
    found = three.of_rows(Rows(20, cells=cells), None)
    assert found.dtype == np.int64
    assert_array_equal(found, expected, strict=True)
    alone = one.of_rows(Rows(20, cells=cells[:, 0]), None)
    assert_array_equal(alone, expected[0], strict=True)


def test_secret_integers_are_all_below_their_bound():
    drawn = wall([]).integers(3, 3000)
    assert stats.chisquare(np.bincount(drawn, minlength=3)).pvalue > 1e-4
    assert len(np.bincount(drawn)) == 3
    assert 0.0 < wall([]).uniform() < 1.0


def test_replace_one_pays_the_symmetrised_curve_of_any_sampling():
    line = Release("counts", "gaussian", 0.5, 3, 2, ("poisson", 0.1))
    kinds = [line.events(r)[0].kind for r in ("replace_one", "add_remove")]
    assert kinds == ["without_replacement_gaussian", "poisson_gaussian"]


def test_sampling_without_noise_is_no_sampling():
    line = Release("counts", "gaussian", math.inf, 3, 2, ("poisson", 0.1))
    assert line.events("add_remove") == (GaussianEvent(math.inf, 6),)
    opened = wall([line])
    for _ in range(2):  # and then needs no sample
        opened.release(Gaussian(), table(["a"] * 10))


class Gaussian(Counts):
    norm = "l2"


def test_the_delta_of_unlisted_keys_is_stated():
    line = KeyedRelease("words", "gaussian", 0.5, 2, delta=1e-7)
    assert line.events("replace_one") == (GaussianEvent(0.5, 2), ThresholdEvent(1e-7))
    twice = KeyedRelease("words", "gaussian", 0.5, 2, times=2, delta=1e-7)
    assert twice.events("replace_one")[1:] == 2 * (ThresholdEvent(1e-7),)
    none = KeyedRelease("words", "gaussian", 0.5, 2)
    assert none.events("replace_one") == (GaussianEvent(0.5, 2),)


@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_a_key_is_shown_above_its_threshold_only(delta):
    sizes = range(1, 60)
    rows = table([f"w{n:02}" for n in sizes for _ in range(n)])
    line = KeyedRelease("words", "gaussian", 0.5, 2, delta=delta)
    opened = wall([line])
    with recording() as seen:
        counts, shown = opened.release_keyed(Words(), rows)
    mechanism = GaussianMechanism(math.sqrt(2), 0.5, 2)
    threshold = mechanism.key_threshold(delta, 1)
    assert min(shown.values()) >= threshold
    # The counts that are far from the threshold decide alone.
    for n in sizes:
        if abs(n - threshold) > 5 * mechanism.scale:
            assert ((0, f"w{n:02}") in shown) == (n > threshold)
    for (_, word), count in shown.items():
        assert abs(count - int(word[1:])) < 6 * mechanism.scale
    assert list(shown) == sorted(shown)
    (crossing,) = seen.crossings
    exact, buckets = crossing.exact[:2], crossing.exact[2:]
    assert_array_equal(exact, np.bincount(np.arange(rows.n_rows) % 2))
    assert buckets.sum() == rows.n_rows and buckets.max() >= 59
    assert buckets.size == 4096 and np.count_nonzero(buckets) > 55
    assert np.abs(counts - exact).max() < 6 * mechanism.scale
    assert opened.log == [("words", mechanism.sensitivity, 0.5)]
    opened.guarantee()


def test_a_key_at_its_threshold_is_shown(monkeypatch):
    monkeypatch.setattr(GaussianMechanism, "key_threshold", lambda *_: 3.0)
    opened = wall([KeyedRelease("words", "gaussian", math.inf, 2)])
    asked, key = [], opened.noise.key
    opened.noise.key = lambda n: asked.append(n) or key(n)
    rows = table(["two"] * 2 + ["three"] * 3)
    assert opened.release_keyed(Words(), rows)[1] == {(0, "three"): 3}
    assert asked == [32]


def test_the_noise_of_a_key_does_not_know_the_other_keys():
    def shown(words):
        line = KeyedRelease("words", "gaussian", 5.0, 2, delta=1e-3)
        return wall([line]).release_keyed(Words(), table(words))

    counts, many = shown(["a"] * 40 + ["b"] * 40)
    again, few = shown(["a"] * 40 + [f"c{i}" for i in range(40)])
    assert many[0, "a"] == few[0, "a"] and (0, "b") not in few
    assert_array_equal(counts, again)


def test_a_keyed_release_keeps_to_its_plan():
    line = KeyedRelease("words", "gaussian", 0.5, 1)
    rows = table(["a"] * 4)
    with pytest.raises(PlanError, match="more numbers"):
        wall([line]).release_keyed(Words(), rows)
    plain = Release("words", "gaussian", 0.5, 2)
    with pytest.raises(PlanError, match="not in the plan"):
        wall([plain]).release_keyed(Words(), rows)

    class Few(Words):
        max_rows = 4

    line = KeyedRelease("words", "gaussian", 0.5, 2, delta=1e-3)
    wall([line]).release_keyed(Few(), table(["a"] * 4))
    with pytest.raises(ValueError, match="at most 4 rows"):
        wall([line]).release_keyed(Few(), table(["a"] * 5))
    opened = wall([Split("s", (), ()), line])
    rows = table(["a"] * 4)
    opened.split(rows, 0.5, name="s")
    with pytest.raises(PlanError, match="another branch"):
        opened.release_keyed(Words(), rows)


@dataclass(frozen=True)
class Strings(Words):
    """Words of several columns, each with one listed count, of missing cells."""

    n_keyed_columns: int = 3

    @property
    def n_coordinates(self):
        return self.n_keyed_columns

    def sensitivity(self, neighboring):
        return math.sqrt(2 * self.n_keyed_columns)


@pytest.mark.parametrize("n_columns", [1, 3, 50])
@pytest.mark.parametrize("exponent", range(-21, 3))
def test_the_noise_of_keys_covers_the_rounding_of_their_counts(exponent, n_columns):
    """By the neighbours that rounding moves furthest: one string for another."""
    mu, query = 1.1 * 2.0**exponent * math.sqrt(n_columns), Strings(n_columns)
    opened = wall([KeyedRelease("words", "gaussian", mu, n_columns, delta=1e-3)])
    mechanism = opened.mechanism_of(query)
    grid = mechanism.grid
    at = np.unique(np.rint([0, grid / 2, 3 * grid / 2]))[:, None] + np.arange(-2, 3)
    rounded = np.rint(at / grid) * grid  # as a release does
    jump = np.abs(np.diff(rounded)).max()
    assert jump == max(1.0, grid)
    distance = math.sqrt(2 * n_columns) * jump
    assert distance <= mu * mechanism.scale
    paid = GaussianMechanism(query.sensitivity(""), mu, n_columns)
    assert (mechanism == paid) == (paid.grid <= 1)
    assert opened.scale(query) == mechanism.scale


def test_a_table_of_the_largest_size_is_released():
    class Few(Counts):
        max_rows = 4

    opened = wall([Release("counts", "pure", 1.0, 2)], delta=0.0)
    assert opened.release(Few(), table(["a"] * 4)).shape == (2,)


def test_random_splits_are_independent():
    opened = wall([])
    one, other = opened.random_split(4000, 0.5), opened.random_split(4000, 0.5)
    assert abs((one == other).mean() - 0.5) < 5 / math.sqrt(4 * 4000)
    fresh = wall([], seed=None).random_split(4000, 0.5)
    assert abs((one == fresh).mean() - 0.5) < 5 / math.sqrt(4 * 4000)


@pytest.mark.parametrize("side", [0, 1])
def test_a_branch_that_leaves_out_part_of_its_plan_is_noticed(side):
    lines = (Release("counts", "pure", 1.0, 2),)
    sides = ((), lines) if side else (lines, ())
    opened = wall([Split("split", *sides)], delta=0.0)
    branches = opened.split(table(["a"] * 10), 0.5)
    with pytest.raises(PlanError, match="never released"):
        opened.guarantee()
    branch, rows = branches[side]
    branch.release(Counts(), rows)
    assert opened.guarantee().epsilon == 1.0


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_choice_is_monotonic_under_add_remove_only(relation, monkeypatch):
    asked = []

    class Spied(_filter.PermuteAndFlip):
        def __post_init__(self):
            asked.append((self.sensitivity, self.epsilon, self.monotonic))

    monkeypatch.setattr(_filter, "PermuteAndFlip", Spied)
    line = Release("choice", "selection", math.inf, 1)
    total = Combined("search", (DeclaredEvent(1.0, 0.0),), (line,), "tests:t")
    opened = wall([total], neighboring=relation, delta=0.0)
    assert opened.planned.epsilon == 1.0
    assert opened.choose([0.0, 900.0], 0.5, name="choice", parameter=2.0) == 1
    assert asked == [(0.5, 2.0, relation == "add_remove")]
    assert opened.log == [("choice", 0.5, 2.0)]
    with pytest.raises(PlanError, match="not in the plan"):
        opened.choose([0.0, 9.0], 0.5, name="choice", parameter=2.0)
    opened.guarantee()


def test_lines_of_a_combined_total_may_be_left_out_and_chosen_freely():
    line = Release("counts", "gaussian", math.inf, 2, times=2)
    opened = wall([Combined("search", (DeclaredEvent(1.0, 0.0),), (line,), "tests:t")])
    opened.guarantee()  # at most as often as planned
    rows = table(["a"] * 10)
    assert opened.mechanism_of(Gaussian(), parameter=0.5).mu == 0.5
    for _ in range(2):
        opened.release(Gaussian(), rows, parameter=0.5)
    with pytest.raises(PlanError, match="not in the plan"):
        opened.release(Gaussian(), rows, parameter=0.5)
    plain = wall([Release("counts", "gaussian", 0.5, 2)])
    with pytest.raises(PlanError, match="is in the plan"):
        plain.release(Gaussian(), rows, parameter=5.0)
    opened = wall([Combined("search", (DeclaredEvent(1.0, 0.0),), (line,), "tests:t")])
    alone = wall([Release("counts", "selection", 0.5, 1)], delta=1.0)
    for other in (opened, alone):
        with pytest.raises(PlanError, match="not a selection"):
            other.choose([0.0, 1.0], 1.0, name="counts", parameter=1.0)


def test_lines_need_different_names():
    lines = [Release("counts", "pure", 1.0, 2)] * 2
    with pytest.raises(PlanError, match="different names"):
        wall(lines)


def test_a_sample_is_of_the_rate_that_was_paid():
    sampling = ("without_replacement", 0.3)
    opened = wall([Release("counts", "gaussian", 0.5, 2, 3, sampling)])
    rows = table(["a"] * 100)
    strata = [np.arange(60), np.arange(60, 100)]
    drawn = opened.draw(rows, strata, np.array([18, 12]), 0.3)
    assert drawn.n_rows == 30
    opened.release(Gaussian(), drawn)
    with pytest.raises(PlanError, match="sample"):
        more = opened.draw(rows, strata, np.array([24, 16]), 0.4)
        opened.release(Gaussian(), more)
    with pytest.raises(PlanError, match="sample"):
        opened.release(Gaussian(), opened.sample(rows, 0.3))
    share = opened.sample(table(["a"] * 20_000), 0.3).n_rows / 20_000
    assert abs(share - 0.3) < 5 * math.sqrt(0.21 / 20_000)


@pytest.mark.parametrize("n_columns", [1, 3, 1000])
@pytest.mark.parametrize("delta", [1e-9, 1e-4])
def test_the_threshold_of_keys_hides_a_record_alone(n_columns, delta):
    mechanism = GaussianMechanism(math.sqrt(2), 0.5, 2)
    threshold = mechanism.key_threshold(delta, n_columns)
    # A key that one record has passes with this probability, in any of its columns.
    one = stats.norm.sf((threshold - 1.0 - mechanism.grid) / mechanism.scale)
    shown = -math.expm1(n_columns * math.log1p(-one))
    assert 0.999 * delta < shown <= delta * (1 + 1e-9)


def test_a_guarantee_says_every_release_of_its_plan():
    counts = Release("counts", "pure", 1.0, 2)
    slopes = Release("slopes", "gaussian", 0.1, 3, times=7)
    means, weights = (Release(w, "gaussian", 0.1, 3) for w in ("means", "weights"))
    models = Wrapped("model", PrivacyGuarantee(1.0, 0.0, "replace_one", "declared"))
    search = Combined("a search", (DeclaredEvent(1.0, 0.0),), (means,), "tests")
    noisy = "discrete Laplace noise on counts; Gaussian noise on "
    for plan, said in [
        ([], "nothing that is paid for"),
        ([replace(means, parameter=math.inf)], "no noise on means"),
        ([counts, means, slopes], f"{noisy}means, slopes (7 times)"),
        ([search], "a search"),
        (
            [Split("half", (counts, weights), (models,))],
            f"on records parted at random [{noisy}weights] or [a fit of the "
            "model (declared)]",
        ),
    ]:
        assert wall(plan).planned.mechanism == said
