"""Places where a printed guarantee once did not hold; each was a way in.

The order and the names follow what an attacker tries: joints between estimators and
pipelines, other libraries, files, reports, and a second `fit`.
"""

import concurrent.futures
import pickle
import signal
import warnings

import numpy as np
import pytest
from _recording import recording
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from fairpriv_sklearn.accounting import PureEvent
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.metrics import dp_group_rates
from fairpriv_sklearn.model_selection import DPGridSearchCV
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
)
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
    privacy_report,
)

SECRET = "HIV-positive: John Doe"
pytestmark = pytest.mark.filterwarnings(
    "ignore::fairpriv_sklearn.privacy.PrivacyLeakWarning"
)


def crossings(make, X, y, replay=None, **params):
    """Fit and return what crossed the wall."""
    with recording(replay) as seen:
        make().fit(X, y, **params)
    return seen


def ratio(make, tables, **params):
    """Largest change over claimed sensitivity between two tables, noise replayed."""
    (X, y), (X2, y2) = tables
    first = crossings(make, X, y, **params)
    second = crossings(make, X2, y2, replay=first, **params)
    assert len(first.crossings) == len(second.crossings) > 0
    return max(
        np.linalg.norm(
            (a.exact - b.exact).ravel().astype(float), 1 if a.norm == "l1" else 2
        )
        / a.sensitivity
        for a, b in zip(first.crossings, second.crossings, strict=True)
    )


# --- frozen and randomised repairs ----------------------------------------------------


def randomised_repair(**params):
    rng = np.random.default_rng(0)
    n = 4000
    g = rng.integers(0, 2, n)
    s = np.where(g == 0, rng.random(n) < 0.75, 1 + (rng.random(n) < 0.25)).astype(float)
    repair = DPBarycenterTransformer(
        bounds=(-0.5, 2.5),
        n_bins=3,
        groups=[0, 1],
        sensitive_features=1,
        random_state=0,
        **{"output": "randomized", **params},
    )
    return repair.fit(np.column_stack([s, g]))


def twins(n=1000):
    X = np.column_stack([np.ones(n), np.zeros(n)])
    X2 = X.copy()
    X2[0, 0] = 2.0
    return X, X2


def private_line():
    return DPLinearRegression(bounds=(-0.5, 2.5), target_bounds=(-1, 1), random_state=0)


WRAPPINGS = {
    "frozen": FrozenEstimator,
    "union": lambda repair: FeatureUnion([("repair", FrozenEstimator(repair))]),
    "function": lambda repair: FunctionTransformer(repair.transform),
    "pickled": lambda repair: FrozenEstimator(pickle.loads(pickle.dumps(repair))),
    "nested": lambda repair: make_pipeline(FrozenEstimator(repair)),
}


@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS)
def test_no_private_step_on_answers_that_are_spread_over_twins(wrap):
    """A1: one record moved all its twins, 128 times the claimed sensitivity."""
    repair = wrap(randomised_repair())
    X, X2 = twins()
    y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)

    def make():
        return make_pipeline(repair, private_line())

    try:
        changed = ratio(make, [(X, y), (X2, y)])
    except ValueError as refusal:
        assert "output" in str(refusal)
        return
    report = privacy_report(make().fit(X, y)).guarantee
    assert changed <= 1 or report.epsilon == np.inf


@pytest.mark.parametrize("output", ["mean", "continuous"])
def test_a_repair_with_pure_output_stays_possible_before_a_private_model(output):
    repair = randomised_repair(output=output)
    X, X2 = twins()
    y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)

    def make():
        return make_pipeline(FrozenEstimator(repair), private_line())

    assert ratio(make, [(X, y), (X2, y)]) <= 1
    guarantee = privacy_report(make().fit(X, y)).guarantee
    assert guarantee.epsilon < np.inf and not guarantee.uncovered


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_wrapped_randomised_model_is_pure_or_refused_also_in_threads(n_jobs):
    """A3: the switch that made answers pure was lost in threads."""
    rng = np.random.default_rng(0)
    X0 = np.column_stack([rng.random(500), rng.integers(0, 2, 500)])
    base = DPBarycenterRegressor(
        FrozenEstimator(Ridge().fit(X0[:, :1], X0[:, 0])),
        base_guarantee="public",
        target_bounds=(0, 1),
        n_bins=3,
        groups=[0, 1],
        sensitive_features=1,
        output="randomized",
        random_state=0,
    )
    n = 400
    X = np.column_stack([np.full(n, 0.5), np.zeros(n)])
    X2 = X.copy()
    X2[0, 0] = 0.9
    group = np.arange(n) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            bag = BaggingRegressor(base, n_estimators=2, n_jobs=n_jobs, random_state=0)
            bag = FrozenEstimator(bag.fit(X0, X0[:, 0]))

            def make():
                return DPBarycenterRegressor(
                    bag,
                    base_guarantee="public",
                    target_bounds=(0, 1),
                    groups=[0, 1],
                    random_state=0,
                )

            changed = ratio(
                make, [(X, X[:, 0]), (X2, X[:, 0])], sensitive_features=group
            )
        except ValueError as refusal:
            assert "output" in str(refusal) or "refused" in str(refusal)
            return
    assert changed <= 1


# --- other libraries ------------------------------------------------------------------


def test_diffprivlib_trees_cost_twice_under_replace_one():
    """A2: a replaced label moves two counts."""
    models = pytest.importorskip("diffprivlib.models", exc_type=ImportError)
    X, y = np.full((20, 1), 0.5), np.arange(20) % 2
    tree = models.DecisionTreeClassifier(
        max_depth=1, epsilon=1.0, bounds=(0, 1), classes=[0, 1]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        guarantee = privacy_report(tree.fit(X, y)).guarantee
    assert guarantee.epsilon >= 2 or guarantee.neighboring == "add_remove"


def test_diffprivlib_models_that_read_the_classes_are_not_covered():
    models = pytest.importorskip("diffprivlib.models", exc_type=ImportError)
    X, y = np.random.default_rng(0).random((40, 1)), np.arange(40) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = models.GaussianNB(epsilon=1.0, bounds=(0, 1)).fit(X, y)
        assert privacy_report(model).guarantee.epsilon == np.inf


# --- ledgers and guarantees -----------------------------------------------------------


def test_a_pipeline_pays_for_the_steps_without_a_ledger():
    """A4: one step's ledger paid for all."""
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-5)
    rng = np.random.default_rng(0)
    g = rng.integers(0, 2, 500)
    X = np.column_stack([rng.uniform(-1, 1, 500), g])
    pipeline = make_pipeline(
        DPBarycenterTransformer(
            epsilon=3.0,
            bounds=(-1, 1),
            groups=[0, 1],
            sensitive_features=1,
            output="mean",
        ),
        DPLinearRegression(
            epsilon=0.5, bounds=(-1, 1), target_bounds=(-1, 1), ledger=ledger
        ),
    )
    model = DPBarycenterRegressor(
        pipeline, epsilon=0.5, target_bounds=(-1, 1), groups=[0, 1], ledger=ledger
    ).fit(X, X[:, 0], sensitive_features=g)
    assert model.privacy_.epsilon > 3.49 and ledger.total().epsilon > 3.49


def test_bounds_read_from_the_data_are_a_condition_and_are_not_printed():
    """A13: the richest person, "assumed public"."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(500, 1))
    y = X[:, 0] + rng.normal(size=500)
    y[7] = 93.25
    report = privacy_report(DPLinearRegression(bounds=(0, 1)).fit(X, y))
    guarantee = report.guarantee
    assert guarantee.conditional_on == ("target_bounds",)
    assert guarantee.epsilon == np.inf
    assert guarantee.epsilon_if_public == pytest.approx(1.0, rel=1e-6)
    for text in (
        str(report),
        str(guarantee),
        repr(guarantee),
        str(guarantee.to_dict()),
    ):
        assert "93.25" not in text
    assert "target_bounds" in str(guarantee)


def test_an_uncovered_pipeline_warns():
    """A14."""
    X = np.random.default_rng(0).random((60, 2))
    y = np.arange(60) % 2
    model = DP2DPClassifier(LogisticRegression(), classes=[0, 1], groups=[0, 1])
    with pytest.warns(PrivacyLeakWarning):
        model.fit(X, y, sensitive_features=y)
    assert model.privacy_.epsilon == np.inf


def test_a_guarantee_that_contradicts_itself_is_refused():
    """A17: printed 0.1, costs 5."""
    with pytest.raises(ValueError):
        PrivacyGuarantee(0.1, 0.0, "replace_one", "m", events=(PureEvent(5.0),))
    honest = PrivacyGuarantee.from_events(
        [PureEvent(5.0)], delta=0.0, neighboring="replace_one", mechanism="m"
    )
    with pytest.raises(ValueError):
        PrivacyGuarantee.from_dict({**honest.to_dict(), "epsilon": 0.1})


@pytest.mark.parametrize(
    "make",
    [
        lambda ledger: DPLinearRegression(
            bounds=(-1, 1), target_bounds=(-1, 1), ledger=ledger, data_norm=1e200
        ),
        lambda ledger: DPSinkhornGenerator(
            bounds=(-1, 1), clip_norm=1e-300, ledger=ledger
        ),
        lambda ledger: DPBarycenterTransformer(
            bounds=(-1e200, 1e200),
            solver="HIGHS",
            ledger=ledger,
            groups=[0, 1],
            sensitive_features=0,
        ),
        lambda ledger: DPGridSearchCV(
            DPLinearRegression(bounds=(-1, 1)),
            {"alhpa": [1.0]},
            target_bounds=(-1, 1),
            ledger=ledger,
        ),
        lambda ledger: DPGridSearchCV(
            DPOutputPerturbationLogisticRegression(bounds=(-1, 1), classes=[0, 1]),
            {"C": [-1.0]},
            classes=[0, 1],
            ledger=ledger,
        ),
        lambda ledger: DPGridSearchCV(
            DPLinearRegression(bounds=(-1, 1)), {}, target_bounds=(-1, 1), ledger=ledger
        ),
    ],
)
def test_cheap_mistakes_cost_nothing(make):
    """A16: a typo burnt the whole budget."""
    ledger = PrivacyLedger(1e6, 0.5)
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    X[:, 0] = np.arange(200) % 2
    try:
        make(ledger).fit(X, (X[:, 1] > 0).astype(int))
    except (ValueError, TypeError):
        assert ledger.spends() == []


# The last two hold words that make a sentence of scikit-learn a public one.
@pytest.mark.parametrize("column", ["X", "y"])
@pytest.mark.parametrize(
    "secret",
    [SECRET, f"contains NaN {SECRET}", f"inconsistent numbers of samples {SECRET}"],
)
def test_a_text_cell_costs_nothing_and_is_not_quoted(column, secret):
    """A16, A25."""
    ledger = PrivacyLedger(1e6, 0.5)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (60, 2)), rng.uniform(-1, 1, 60)
    X, y = X.astype(object), y.astype(object)
    if column == "X":
        X[3, 1], y = secret, y.astype(float)
    else:
        y[3], X = secret, X.astype(float)
    public = {"bounds": (-1, 1), "ledger": ledger}
    models = [
        DPLinearRegression(target_bounds=(-1, 1), **public),
        DPGridSearchCV(
            DPLinearRegression(bounds=(-1, 1)),
            {"alpha": [1.0]},
            target_bounds=(-1, 1),
            ledger=ledger,
        ),
    ]
    if column == "X":
        models += [
            DPSinkhornGenerator(**public),
            DPSlicedWassersteinGenerator(**public),
        ]
    for model in models:
        with pytest.raises((ValueError, TypeError)) as caught:
            model.fit(X) if "Generator" in type(model).__name__ else model.fit(X, y)
        error = caught.value
        while error is not None:
            assert secret not in str(error)
            error = error.__cause__ or error.__context__
    assert ledger.spends() == []


@pytest.mark.parametrize(
    "call",
    [
        lambda text: DPBarycenterRegressor(
            DPLinearRegression(bounds=(0, 1), target_bounds=(0, 1)),
            target_bounds=(0, 1),
            groups=[0, 1],
        ).fit(np.zeros((4, 1)), text, sensitive_features=[0, 0, 1, 1]),
        lambda text: dp_group_rates(
            None,
            text,
            sensitive_features=[0, 0, 1, 1],
            groups=[0, 1],
            bounds=(0, 1),
            epsilon=1.0,
        ),
    ],
)
def test_a_text_target_is_not_quoted(call):
    with pytest.raises((ValueError, TypeError)) as caught:
        call(np.array([0.5, SECRET, 0.5, 0.5], dtype=object))
    error = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__


# --- extremes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: DPLinearRegression(
            data_norm=1.0, target_bounds=(-1, 1), random_state=0
        ),
        lambda: DPWassersteinLogisticRegression(
            data_norm=1.0,
            classes=[0, 1],
            fairness_weight=0.0,
            max_iter=3,
            random_state=0,
        ),
    ],
)
def test_sparse_duplicates_that_overflow(make):
    """A5: a row of NaN wiped the sums of everybody."""
    n = 300

    def csr(v):
        data = np.r_[[v, v], np.ones(n - 1)]
        columns = np.r_[[0, 0], np.zeros(n - 1, int)]
        return sparse.csr_array((data, columns, np.r_[0, 2, np.arange(3, n + 2)]))

    y = np.ones(n)
    try:
        assert ratio(make, [(csr(1.0), y), (csr(1.5e308), y)]) <= 1
    except ValueError as refusal:
        assert "infinity" in str(refusal) or "finite" in str(refusal)


def test_targets_of_half_precision():
    """A6: 2**20 overflowed float16, and the number of blocks leaked."""

    def make():
        return DPLinearRegression(
            bounds=(-1, 1),
            target_bounds=(-1, 1),
            neighboring="add_remove",
            random_state=0,
        )

    tables = [(np.zeros((n, 2)), np.zeros(n, np.float16)) for n in (4096, 4097)]
    assert ratio(make, tables) <= 1


@pytest.mark.parametrize(
    ("bounds", "dtype"),
    [((2.0**24, 2.0**24 + 2), "f4"), ((2.0**53, 2.0**53 + 2), "f8")],
)
def test_targets_far_from_zero(bounds, dtype):
    def make():
        return DPLinearRegression(bounds=(-1, 1), target_bounds=bounds, random_state=0)

    X = np.ones((50, 2))
    y = np.full(50, bounds[0], dtype=dtype)
    y2 = y.copy()
    y2[0] = bounds[1]
    assert ratio(make, [(X, y), (X, y2)]) <= 1


def test_subnormal_smoothing():
    """A10."""
    with pytest.raises(ValueError, match="smoothing"):
        DP2DPClassifier(LogisticRegression(), smoothing=5e-309).fit(
            np.zeros((4, 1)), [0, 1, 0, 1], sensitive_features=[0, 0, 1, 1]
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda: DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1)),
        lambda: DPSlicedWassersteinGenerator(bounds=(-1, 1)),
        lambda: DPSinkhornGenerator(bounds=(-1, 1)),
    ],
)
def test_extreme_cells_do_not_warn(make):
    """A26: finite values near the largest float; a warning told of one record."""
    X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    X[0], X[1] = 1.7e308, -1.7e308
    y = X[:, 0].clip(-1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make()
        model.fit(X) if "Generator" in type(model).__name__ else model.fit(X, y)


# --- wrapped models -------------------------------------------------------------------


def frozen_encoder():
    public = np.array([["a"], ["b"]] * 20, dtype=object)
    model = make_pipeline(OneHotEncoder(), LogisticRegression())
    return FrozenEstimator(model.fit(public, np.arange(40) % 2))


def test_a_frozen_model_that_refuses_a_row_does_not_quote_it():
    """A7."""
    X = np.array([["a"], ["b"]] * 20, dtype=object)
    X[5, 0] = SECRET
    model = DP2DPClassifier(
        frozen_encoder(), base_guarantee="public", classes=[0, 1], groups=[0, 1]
    )
    with pytest.raises(ValueError) as caught:
        model.fit(X, np.arange(40) % 2, sensitive_features=np.arange(40) % 2)
    error = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__


class RefusesOneLabel(ClassifierMixin, BaseEstimator):
    """A declared private model that raises on rows of one label."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        if len(set(y)) < 2:
            raise ValueError("one label only")
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


def test_the_guarantee_is_the_same_whatever_the_rows_hold():
    """A9, A24: a stand-in, and an infinite epsilon, told of one record."""
    declared = PrivacyGuarantee(1.0, 0.0, "replace_one", "declared")
    X, g = np.zeros((40, 1)), np.arange(40) % 2
    seen = set()
    for y in (np.zeros(40, int), np.r_[1, np.zeros(39, int)]):
        for _ in range(5):
            model = DP2DPClassifier(
                RefusesOneLabel(),
                base_guarantee=declared,
                classes=[0, 1],
                groups=[0, 1],
                max_iter=2,
            )
            try:
                seen.add(model.fit(X, y, sensitive_features=g).privacy_.epsilon)
            except ValueError as refusal:
                assert "one label" not in str(refusal)
    assert len(seen) == 1 and max(seen) < np.inf


@pytest.mark.parametrize("size", [0.05, 0.9])
def test_one_row_always_fits(size):
    """A8, A22: an empty side of a split is legal."""
    for _ in range(10):
        model = DPBarycenterRegressor(
            DPLinearRegression(
                bounds=(0, 1), target_bounds=(0, 1), neighboring="add_remove"
            ),
            target_bounds=(0, 1),
            groups=[0, 1],
            calibration_size=size,
            neighboring="add_remove",
        )
        model.fit([[0.5]], [0.5], sensitive_features=[0])
        assert model.privacy_.epsilon < np.inf


def test_an_exhausted_ledger_says_the_same_for_every_table():
    """A22: which of two errors was raised told the number of rows."""
    ledger = PrivacyLedger(1.0, 1e-5)
    ledger.spend(PrivacyGuarantee(1.0, 1e-5, "add_remove", "all of it"))
    model = DPLinearRegression(
        bounds=(0, 1), target_bounds=(0, 1), neighboring="add_remove"
    )
    said = set()
    for n in (1, 2, 10):
        for _ in range(20):
            search = DPGridSearchCV(
                model,
                {"alpha": [0.1]},
                target_bounds=(0, 1),
                neighboring="add_remove",
                holdout_size=0.9,
                ledger=ledger,
            )
            with pytest.raises(BudgetExceededError) as caught:
                search.fit(np.full((n, 1), 0.5), np.full(n, 0.5))
            said.add(str(caught.value))
    assert len(said) == 1


# --- reports --------------------------------------------------------------------------


def private_logistic():
    return DPWassersteinLogisticRegression(
        bounds=(0, 1), classes=[0, 1], fairness_weight=0.0, max_iter=3
    )


def one_hot(**params):
    encoder = OneHotEncoder(categories=[[0.0, 1.0], [0.0, 1.0]], drop="if_binary")
    return ColumnTransformer([("cat", encoder, [0, 1])], **params)


def test_a_column_transformer_whose_container_depends_on_the_rows_is_not_public():
    """A23: its density decided between sparse and dense."""
    X = np.zeros((100, 2))
    X[:60, 0] = 1.0
    y = np.arange(100) % 2
    report = privacy_report(make_pipeline(one_hot(), private_logistic()).fit(X, y))
    assert report.guarantee.epsilon == np.inf
    dense = make_pipeline(one_hot(sparse_threshold=0), private_logistic()).fit(X, y)
    assert privacy_report(dense).guarantee.epsilon == pytest.approx(1.0, rel=1e-6)


def test_columns_chosen_by_a_callable_are_not_public():
    X = np.random.default_rng(0).random((100, 2))
    chosen = ColumnTransformer(
        [("some", "passthrough", lambda X: [j for j in (0, 1) if X[:, j].max() > 0.5])],
        sparse_threshold=0,
    )
    model = make_pipeline(chosen, private_logistic()).fit(X, np.arange(100) % 2)
    assert privacy_report(model).guarantee.epsilon == np.inf


def test_a_voting_model_is_composed():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    y = X[:, 0]
    lines = [
        (str(i), DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1)))
        for i in range(2)
    ]
    guarantee = privacy_report(VotingRegressor(lines).fit(X, y)).guarantee
    assert 1.3 < guarantee.epsilon < 2.01


# --- second fits ----------------------------------------------------------------------


def test_a_second_fit_forgets_the_first():
    """A20: pickles held the exact means of a fit without noise."""
    X = np.random.default_rng(0).uniform(size=(300, 3))
    generator = DPSinkhornGenerator(epsilon=np.inf, bounds=(0, 1)).fit(X)
    kept = set(vars(generator)) - set(generator.get_params())
    generator.set_params(method="network", epsilon=1.0, max_iter=3).fit(X)
    fresh = DPSinkhornGenerator(
        method="network", epsilon=1.0, max_iter=3, bounds=(0, 1)
    ).fit(X)
    assert set(vars(generator)) == set(vars(fresh))
    assert kept - set(vars(generator))


def test_a_class_of_somebody_else_is_named_in_the_guarantee():
    """What it keeps beside the releases is not the wall's to know."""

    class Keeps(DPLinearRegression):
        def fit(self, X, y):
            super().fit(X, y)
            self.rows_ = X
            return self

    X, y = np.eye(3) / 2, np.zeros(3)
    own, other = (
        cls(bounds=(0, 1), target_bounds=(0, 1)).fit(X, y).privacy_
        for cls in (DPLinearRegression, Keeps)
    )
    assert "another package" not in str(own)
    assert "Keeps, a class of another package, keeps nothing else" in str(other)
    assert other.events == own.events


def test_an_interrupted_second_fit_shows_no_model():
    """A18, A21: a new epsilon was printed over the old model."""
    X = np.random.default_rng(0).uniform(size=(1500, 20))
    generator = DPSinkhornGenerator(epsilon=np.inf, bounds=(0, 1), n_points=8).fit(X)
    generator.set_params(epsilon=1.0, n_points=64, max_iter=4000)

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.7)
    try:
        with pytest.raises(KeyboardInterrupt):
            generator.fit(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert set(vars(generator)) <= {*generator.get_params(), "_sklearn_output_config"}


def test_two_fits_of_one_object_in_two_threads_never_mix():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    model = DPLinearRegression(target_bounds=(-1, 1), random_state=0)

    def fit(width):
        model.set_params(bounds=(-width, width)).fit(X, X[:, 0])
        seen = vars(model)  # between two fits the object is unfitted
        return (seen["bounds_"][1, 0], seen["privacy_"]) if "privacy_" in seen else None

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for bound, guarantee in filter(None, pool.map(fit, [1.0, 2.0] * 20)):
            assert bound in (1.0, 2.0) and guarantee.epsilon <= 1
