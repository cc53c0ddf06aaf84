"""Variants of the breaches: the same ways in, by other doors.

In other meta-estimators, in searches and threads, on tables that leave a phase without
rows, interrupted; and what has to stay possible with a finite guarantee.
"""

import concurrent.futures
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from _recording import recording
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from test_breaches import SECRET, private_line, randomised_repair, twins

from fairpriv_sklearn._door.labels import public_classes
from fairpriv_sklearn._shared.domain import is_ours
from fairpriv_sklearn._shared.guarded import guarded
from fairpriv_sklearn.accounting import WithoutReplacementGaussianEvent
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.model_selection import (
    DPGridSearchCV,
    DPRandomizedSearchCV,
    dp_cross_validate,
)
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
)
from fairpriv_sklearn.postprocessing._score_bins import quantize_scores
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLedger,
    WrappedEstimatorError,
    guarantee_of,
    privacy_report,
)
from fairpriv_sklearn.privacy._guarantee import RANDOM_SPLIT, UNIT_OF_PRIVACY

pytestmark = pytest.mark.filterwarnings(
    "ignore::fairpriv_sklearn.privacy.PrivacyLeakWarning"
)
RELATIONS = ["replace_one", "add_remove"]
ODD = np.arange(60) % 2
TABLE = np.column_stack([np.linspace(-1, 1, 60), ODD])
THREE = np.column_stack([TABLE, ODD])


def line(**params):
    return DPLinearRegression(**{"bounds": (-1, 1), "target_bounds": (-1, 1), **params})


def logistic(**params):
    params = {"bounds": (-1, 1), "classes": [0, 1], **params}
    return DPOutputPerturbationLogisticRegression(**params)


# --- A1: answers that are spread over twins, in every kind of meta-estimator ----------


def spread():
    return make_pipeline(FrozenEstimator(randomised_repair()), private_line())


def spread_scores():
    """A regressor, fitted, whose answers are spread."""
    X = np.column_stack([np.linspace(0, 1, 400), np.arange(400) % 2])
    return DPBarycenterRegressor(
        FrozenEstimator(Ridge().fit(X[:, :1], X[:, 0])),
        base_guarantee="public",
        target_bounds=(0, 1),
        n_bins=3,
        groups=[0, 1],
        sensitive_features=1,
        output="randomized",
    ).fit(X, X[:, 0])


@pytest.mark.parametrize(
    "around",
    [
        lambda model: VotingRegressor([("one", model), ("two", private_line())]),
        lambda model: StackingRegressor(
            [("one", model)], final_estimator=private_line(), cv="prefit"
        ),
        lambda model: StackingRegressor(
            [("one", spread_scores())], final_estimator=private_line(), cv="prefit"
        ),
        lambda model: BaggingRegressor(model, n_estimators=2, n_jobs=2),
        lambda model: DPBarycenterRegressor(
            model,
            target_bounds=(-1, 1),
            groups=[0, 1],
            sensitive_features=lambda X: X[:, 1],
        ),
        lambda model: DPGridSearchCV(model, {}, target_bounds=(-1, 1)),
    ],
    ids=["voting", "stacking", "stacked", "threads", "repair", "search"],
)
def test_spread_answers_before_a_private_step_are_never_covered(around):
    X, _ = twins(200)
    X[:, 1] = np.arange(200) % 2
    y = np.where(X[:, 1] > 0, 1.0, -1.0)
    model = spread()
    try:
        if "Stacking" in type(around(model)).__name__:
            model.fit(X, y)
        guarantee = privacy_report(around(model).fit(X, y)).guarantee
    except ValueError as refusal:
        assert "output" in str(refusal) or "private" in str(refusal)
        return
    assert guarantee.epsilon == math.inf


@pytest.mark.parametrize("repaired", [False, True])
def test_groups_are_not_labelled_by_spread_answers(repaired):
    """A function that labels the rows may hold a repair: one record moves others."""
    repair = spread_scores()

    def above(X):
        return (repair.predict(X) > 0.5).astype(int)

    told = {"classes": [0, 1], "groups": [0, 1], "sensitive_features": above}
    model = DPWassersteinLogisticRegression(bounds=(0, 1), **told)
    if repaired:
        inner = DPOutputPerturbationLogisticRegression(bounds=(0, 1), classes=[0, 1])
        model = DP2DPClassifier(inner, **told)
    X = np.column_stack([np.ones(60), np.arange(60) % 2])
    with pytest.raises(ValueError, match="function sensitive_features spreads"):
        model.fit(X, np.arange(60) % 2)
    # Each on its own they are labels as any others.
    repair.set_params(output="mean").fit(X, X[:, 0] * 0.5)
    assert model.fit(X, np.arange(60) % 2).privacy_.epsilon < math.inf


def test_a_frozen_model_that_is_fitted_anew_is_another_one():
    """The repair keeps the one that its guarantee speaks of."""
    rng = np.random.default_rng(0)
    X, group = rng.uniform(-1, 1, (200, 2)), np.arange(200) % 2
    y = X[:, 0]
    base = DPLinearRegression(epsilon=1.0, bounds=(-1, 1), target_bounds=(-1, 1))
    frozen = FrozenEstimator(base.fit(X, y))
    repair = DPBarycenterRegressor(frozen, groups=[0, 1], target_bounds=(-1, 1))
    repair.fit(X, y, sensitive_features=group)
    stated = repair.privacy_.epsilon
    answers = repair.predict(X, sensitive_features=group)
    base.set_params(epsilon=100.0).fit(X, -y)
    assert np.array_equal(repair.predict(X, sensitive_features=group), answers)
    assert guarantee_of(repair.estimator_).epsilon <= 1.0 < stated < 2.0


def test_what_was_fitted_on_spread_answers_stays_uncovered_when_frozen():
    X, _ = twins(200)
    X[:, 1] = np.arange(200) % 2
    model = FrozenEstimator(spread().fit(X, np.where(X[:, 1] > 0, 1.0, -1.0)))
    for whole in (model, make_pipeline(model)):
        assert privacy_report(whole).guarantee.epsilon == math.inf
    # One that was fitted elsewhere stands beside the repair, and is not fed by it.
    elsewhere = FrozenEstimator(private_line().fit(X, X[:, 1]))
    beside = make_pipeline(FrozenEstimator(randomised_repair()), elsewhere)
    beside.fit(X)
    assert privacy_report(beside).guarantee.epsilon < math.inf


# --- A7, A25: nothing of a wrapped model's errors leaves ------------------------------


class Quotes(BaseEstimator):
    """Quotes a cell by an error of some class, raised while another is handled."""

    def __init__(self, kind=ValueError, at="fit"):
        self.kind, self.at = kind, at

    def _quote(self, X):
        try:
            raise LookupError(f"cell {X[0, 0]}: {SECRET}")
        except LookupError:
            raise self.kind(SECRET)  # noqa: B904

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        if self.at == "fit":
            self._quote(X)
        return self

    def predict_proba(self, X):
        return self._quote(X)

    def predict(self, X):
        return self._quote(X)


def declared(relation="replace_one"):
    return PrivacyGuarantee(0.5, 0.0, relation, "declared")


KINDS = [ValueError, KeyboardInterrupt, SystemExit, OverflowError, KeyError]


@pytest.mark.parametrize("at", ["fit", "predict"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repair", [DP2DPClassifier, DPBarycenterRegressor])
def test_no_error_of_a_wrapped_model_has_a_context(repair, kind, at):
    public = {"classes": [0, 1]} if repair is DP2DPClassifier else {}
    public |= {"target_bounds": (0, 1)} if not public else {}
    ledger = PrivacyLedger(10.0, 1e-4)
    model = repair(
        Quotes(kind, at),
        base_guarantee=declared(),
        groups=[0, 1],
        ledger=ledger,
        **public,
    )
    expected = KeyboardInterrupt if kind is KeyboardInterrupt else WrappedEstimatorError
    with pytest.raises(expected) as caught:
        model.fit(TABLE, ODD, sensitive_features=ODD)
    says_nothing(caught.value)
    # Interrupted after the reserve: paid for, and no model.
    assert len(ledger.spends()) == 1
    assert not vars(model).keys() - model.get_params(deep=False).keys()


def says_nothing(error):
    assert error.__cause__ is None and error.__context__ is None
    assert SECRET not in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_the_guard_itself(kind):
    with pytest.raises((KeyboardInterrupt, WrappedEstimatorError)) as caught:
        guarded(Quotes(kind).fit, TABLE, ODD)
    says_nothing(caught.value)
    assert isinstance(caught.value, KeyboardInterrupt) == (kind is KeyboardInterrupt)
    assert isinstance(caught.value, ArithmeticError) == (kind is OverflowError)


class Echoes(BaseEstimator):
    """Answers what stands in the first column, whatever it is."""

    classes_ = (0, 1)

    def __init__(self, kind):
        self.kind = kind

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = self.kind
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags

    def predict(self, X):
        return X["a"].to_numpy()

    def predict_proba(self, X):
        return np.column_stack([self.predict(X)] * 2)


@pytest.mark.parametrize("cell", [SECRET, 1 + 2j, 10**400, (1, 2)], ids=range(4))
@pytest.mark.parametrize("repair", [DP2DPClassifier, DPBarycenterRegressor])
def test_an_answer_that_is_no_number_is_not_quoted(repair, cell):
    """It was made one behind the guard, by a line of ours."""
    kind, public = "classifier", {"classes": [0, 1]}
    if repair is DPBarycenterRegressor:
        kind, public = "regressor", {"target_bounds": (0, 1)}
    model = FrozenEstimator(Echoes(kind))
    made = repair(model, base_guarantee="public", groups=[0, 1], **public)
    X = pd.DataFrame({"a": np.full(60, 0.5, dtype=object)})
    X.at[3, "a"] = cell
    with pytest.raises(WrappedEstimatorError, match="must answer numbers") as caught:
        made.fit(X, ODD, sensitive_features=ODD)
    says_nothing(caught.value)


def test_what_numpy_raises_in_a_line_of_ours_is_not_ours():
    def raised(call):
        with pytest.raises(ValueError) as caught:
            call()
        return caught.value

    assert is_ours(raised(lambda: public_classes([0])))
    text = np.array([SECRET], dtype=object)
    assert not is_ours(raised(lambda: quantize_scores(text, (0, 1))))


def quoting(cells):
    """A function that quotes what it cannot read."""
    return np.array([[{"a": 0.0, "b": 1.0}[cell]] for cell in np.ravel(cells)])


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (OneHotEncoder(categories=[["a", "b"]], sparse_output=False), ValueError),
        (FunctionTransformer(quoting), WrappedEstimatorError),
    ],
    ids=["before the spend", "behind it"],
)
def test_a_search_does_not_quote_what_a_candidate_refuses(step, kind):
    model = make_pipeline(step, logistic(bounds=(0, 1)))
    X, y = np.array([["a"], ["b"]] * 20, dtype=object), np.arange(40) % 2
    X[5:9, 0] = SECRET
    calls = [
        lambda: DPGridSearchCV(model, {}, classes=[0, 1]).fit(X, y),
        lambda: dp_cross_validate(model, X, y, classes=[0, 1], cv=2, epsilon=1.0),
    ]
    for call in calls:
        with pytest.raises(kind) as caught:
            call()
        assert type(caught.value) is kind
        says_nothing(caught.value)


# --- A8, A22: a phase without rows ----------------------------------------------------


def phased(relation, ledger=None):
    """Everything that parts its rows, around private models."""
    common = {"neighboring": relation, "ledger": ledger}
    repair = {**common, "groups": [0, 1], "sensitive_features": 1}
    inner = {"neighboring": relation}
    return [
        DPBarycenterRegressor(line(**inner), target_bounds=(-1, 1), **repair),
        DPBarycenterRegressor(
            line(**inner), target_bounds=(-1, 1), blind=True, **repair
        ),
        DP2DPClassifier(logistic(**inner), classes=[0, 1], **repair),
        DP2DPClassifier(logistic(**inner), classes=[0, 1], blind=True, **repair),
        DPGridSearchCV(
            line(**inner), {"alpha": [0.1, 1.0]}, target_bounds=(-1, 1), **common
        ),
        DPRandomizedSearchCV(
            logistic(**inner), {"C": [0.1, 1.0]}, n_iter=2, classes=[0, 1], **common
        ),
    ]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("i", range(6))
def test_one_row_and_a_phase_without_any(relation, i):
    """The same guarantee whatever the draws leave; and what it takes for granted."""
    said = set()
    for n in (1, 1, 1, 1, 2, 60):
        model = phased(relation)[i].fit(TABLE[-n:], ODD[-n:])
        assert model.privacy_.epsilon < math.inf and not model.privacy_.uncovered
        rows = [a for a in model.privacy_.assumptions if "rows or more" in a]
        assert len(rows) == (relation == "add_remove")
        said.add((round(model.privacy_.epsilon, 9), model.privacy_.conditional_on))
    assert len(said) == 1


@pytest.mark.parametrize("relation", RELATIONS)
def test_folds_without_rows(relation):
    said = set()
    for n in (1, 1, 1, 2, 60):
        result = dp_cross_validate(
            line(neighboring=relation),
            TABLE[-n:],
            ODD[-n:].astype(float),
            target_bounds=(-1, 1),
            neighboring=relation,
            epsilon=1.0,
            cv=2,
        )
        assert np.isfinite(result.scores["neg_mean_absolute_error"].scores).all()
        said.add(result.privacy_.epsilon)
    (stated,) = said
    assert 1.0 - 1e-8 < stated <= 1.0
    rows = [a for a in result.privacy_.assumptions if "rows or more" in a]
    assert len(rows) == (relation == "add_remove")


@pytest.mark.parametrize("i", range(6))
def test_an_exhausted_ledger_says_nothing_of_the_draws(i):
    ledger, said = PrivacyLedger(1.0, 1e-5), set()
    ledger.spend(PrivacyGuarantee(1.0, 1e-5, "add_remove", "all of it"))
    for n in (1, 1, 1, 2, 60):
        with pytest.raises(BudgetExceededError) as caught:
            phased("add_remove", ledger)[i].fit(TABLE[-n:], ODD[-n:])
        said.add(str(caught.value))
    assert len(said) == 1


# --- M: rows that fit a model never calibrate or score it -----------------------------


def test_a_number_too_large_for_a_float_is_refused_as_a_text_is():
    """Another class of error would tell what the cell is."""
    said = set()
    for cell in (10**400, SECRET):
        X = np.array(TABLE, dtype=object)
        X[0, 0] = cell
        with pytest.raises(Exception, match="cannot be read as a number") as caught:
            DPLinearRegression(bounds=(-9, 9), target_bounds=(0, 1)).fit(X, ODD)
        assert "put a DPTableEncoder in front" in str(caught.value)
        said.add((caught.type, str(caught.value)))
    assert len(said) == 1


class Remembers(BaseEstimator):
    """Writes down the numbers of its rows, in column 0: those of `fit`, and others."""

    seen = []

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.asked_ = set()
        self.seen.append((set(X[:, 0].tolist()), self.asked_))
        return self

    def predict(self, X):
        self.asked_ |= set(X[:, 0].tolist())
        return np.zeros(len(X))

    def predict_proba(self, X):
        self.predict(X)
        return np.full((len(X), 2), 0.5)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("how", ["decisions", "scores", "search", "folds"])
def test_no_row_is_in_two_phases(how, relation):
    X, y, n = TABLE.copy(), ODD.astype(float), len(TABLE)
    X[:, 0] = np.arange(n)
    common = {"base_guarantee": declared(relation), "neighboring": relation}
    groups = {"groups": [0, 1], "sensitive_features": 1}
    scores = DPBarycenterRegressor(
        Remembers(), target_bounds=(0, 1), **common, **groups
    )
    outer = {"target_bounds": (0, 1), "neighboring": relation}
    Remembers.seen.clear()
    if how == "decisions":
        DP2DPClassifier(Remembers(), classes=[0, 1], **common, **groups).fit(X, ODD)
    elif how == "scores":
        scores.fit(X, y)
    elif how == "search":
        DPGridSearchCV(scores, {"n_bins": [2, 4]}, **outer).fit(X, y)
    else:
        dp_cross_validate(scores, X, y, cv=3, epsilon=5.0, **outer)
    assert Remembers.seen
    for fitted, asked in Remembers.seen:
        assert fitted and asked and not fitted & asked
        assert fitted | asked <= set(range(n))
    # A repair alone uses every row, for the one or for the other.
    if how in ("decisions", "scores"):
        (both,) = Remembers.seen
        assert both[0] | both[1] == set(range(n))


# --- A11, A15: what a guarantee pays for, and what it takes for granted ---------------


def test_batches_pay_for_the_error_of_their_draws():
    """A11: events of batches had no number of draws."""
    model = DPWassersteinLogisticRegression(
        bounds=(-1, 1),
        classes=[0, 1],
        fairness_weight=0.0,
        batch_size=10,
        max_iter=5,
    )
    with recording() as seen:
        model.fit(TABLE, ODD)
    sampled = [
        event
        for event in model.privacy_.events
        if isinstance(event, WithoutReplacementGaussianEvent)
    ]
    drawn = sum(c.exact.size for c in seen.crossings)
    assert sampled and sum(event.n_draws for event in sampled) >= drawn > 0


def test_a_guarantee_lists_what_it_takes_for_granted():
    """A15: one row for each person, and draws that do not look at the rows."""
    assert UNIT_OF_PRIVACY in line().fit(TABLE, TABLE[:, 0]).privacy_.assumptions
    for model in phased("replace_one")[:4]:
        said = model.fit(TABLE, ODD).privacy_.assumptions
        assert UNIT_OF_PRIVACY in said and RANDOM_SPLIT in said


# --- A20: one object in two threads ---------------------------------------------------


@pytest.mark.parametrize(
    "make, sizes",
    [
        (lambda: DPSinkhornGenerator(bounds=(-1, 1)), ("n_points", [2, 5])),
        (
            lambda: DPSlicedWassersteinGenerator(bounds=(-1, 1), classes=[0, 1]),
            ("n_bins", [3, 8]),
        ),
        (
            lambda: DPBarycenterTransformer(
                bounds=(-1, 1), groups=[0, 1], sensitive_features=1
            ),
            ("n_bins", [3, 8]),
        ),
        (
            lambda: DPGridSearchCV(line(), {"alpha": [0.1]}, target_bounds=(-1, 1)),
            ("epsilon", [1.0, 3.0]),
        ),
    ],
    ids=["semi-dual", "slices", "repair", "search"],
)
def test_fits_of_one_object_in_two_threads_never_mix(make, sizes):
    name, values = sizes
    alone = {}
    for value in values:
        model = make().set_params(**{name: value})
        alone[shapes(model.fit(TABLE, ODD))] = value
    model = make()

    def fit(value):
        return shapes(model.set_params(**{name: value}).fit(TABLE, ODD))

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        seen = set(pool.map(fit, values * 4)) - {None}
    assert seen and seen <= set(alone) and len(alone) == 2


def shapes(model):
    """What a published model looks like, without its noise; None between two fits."""
    seen = dict(vars(model))
    if "privacy_" not in seen:
        return None
    sizes = [
        (name, np.shape(value))
        for name, value in sorted(seen.items())
        if isinstance(value, np.ndarray)
    ]
    return (*sizes, round(seen["privacy_"].epsilon, 6), seen["privacy_"].events)


# --- what has to stay possible --------------------------------------------------------


def pure_repair():
    return DPBarycenterTransformer(
        bounds=(-1, 1), groups=[0, 1], sensitive_features=1, output="mean"
    ).fit(THREE)


def with_given_categories():
    encoder = OneHotEncoder(categories=[[0.0, 1.0]], drop="if_binary")
    return ColumnTransformer(
        [("group", encoder, [1])], remainder="passthrough", sparse_threshold=0
    )


POSSIBLE = {
    "pure repair before a private model": lambda: make_pipeline(
        FrozenEstimator(pure_repair()), line()
    ),
    "repair of scores around a private pipeline": lambda: DPBarycenterRegressor(
        make_pipeline(with_given_categories(), line()),
        target_bounds=(-1, 1),
        groups=[0, 1],
        sensitive_features=2,
    ),
    "repair of decisions around a private pipeline": lambda: DP2DPClassifier(
        make_pipeline(with_given_categories(), logistic()),
        classes=[0, 1],
        groups=[0, 1],
        sensitive_features=2,
    ),
    "given categories": lambda: make_pipeline(with_given_categories(), line()),
    "search over a pipeline": lambda: DPGridSearchCV(
        make_pipeline(with_given_categories(), line()),
        {"dplinearregression__alpha": [0.1, 1.0]},
        target_bounds=(-1, 1),
    ),
}


@pytest.mark.parametrize("make", POSSIBLE.values(), ids=POSSIBLE)
def test_these_stay_possible(make):
    guarantee = privacy_report(make().fit(THREE, ODD)).guarantee
    assert 0 < guarantee.epsilon < math.inf
    assert guarantee.conditional_on == () == guarantee.uncovered


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", ["DecisionTreeClassifier", "RandomForestClassifier"])
def test_models_of_diffprivlib_stay_possible(name, wrapped):
    """Where their classes and bounds are given."""
    models = pytest.importorskip("diffprivlib.models", exc_type=ImportError)
    model = getattr(models, name)(
        epsilon=1.0, bounds=(-1, 1), classes=[0, 1], max_depth=2
    )
    if wrapped:
        model = DP2DPClassifier(
            model, classes=[0, 1], groups=[0, 1], sensitive_features=1
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(model).fit(TABLE, ODD)
    # A fitted tree alone does not tell what was given and what it read.
    guarantee = privacy_report(fitted, before=model).guarantee
    assert 1 <= guarantee.epsilon < math.inf
    assert guarantee.conditional_on == () == guarantee.uncovered


def test_a_linear_model_of_no_one_is_not_private():
    """The other way round: without a guarantee nothing finite is printed."""
    model = DP2DPClassifier(LogisticRegression(), classes=[0, 1], groups=[0, 1])
    model.fit(TABLE, ODD, sensitive_features=ODD)
    assert model.privacy_.epsilon == math.inf and model.privacy_.uncovered


def test_what_this_library_says_inside_a_wrapped_model_is_heard():
    """Of its own arguments and lists; what may quote a row is still not shown."""
    X = pd.DataFrame({"a": np.linspace(0, 1, 60), "sex": ["f", "m"] * 30})
    inner = make_pipeline(
        DPTableEncoder(codebook={"a": [0, 1], "sex": ["f", "m"]}),
        DPOutputPerturbationLogisticRegression(classes=[0, 1]),
    )
    repair = DP2DPClassifier(
        inner, classes=[0, 1], groups=["f", "m"], sensitive_features="sex"
    )
    with pytest.raises(ValueError, match="codebook names more") as caught:
        repair.fit(X, np.arange(60) % 2)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    text = np.full((60, 1), SECRET, dtype=object)
    private = DPOutputPerturbationLogisticRegression(bounds=(0, 1), classes=[0, 1])
    repair.set_params(estimator=private, sensitive_features=None)
    with pytest.raises(ValueError) as caught:
        repair.fit(text, np.arange(60) % 2, sensitive_features=["f", "m"] * 30)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "cell, other",
    [("no\0", "no"), (1 + 0j, 2 + 0j), (b"\xff", b"no"), (np.float32(0.1), 2.0)],
    ids=["zero", "complex", "bytes", "single"],
)
@pytest.mark.parametrize("beside", ["a", 1])
def test_rows_that_are_lists_are_read_cell_by_cell(cell, other, beside):
    """NumPy made all of one kind: a gap in one row changed what stood in the others."""
    line = DPLinearRegression(target_bounds=(0, 1), random_state=0)
    piped = make_pipeline(DPTableEncoder(random_state=0), line)
    public = {"target_bounds": (0, 1), "groups": ["f", "m"], "random_state": 0}
    repair = DPBarycenterRegressor(piped, **public)
    rows, told = [[cell, beside], [other, beside]] * 200, np.tile([0.0, 1.0], 200)
    groups, first = np.repeat(["f", "m"], 200), None
    for last in ([other, beside], [None, beside]):
        with recording(first) as recorded:
            clone(repair).fit([*rows[:-1], last], told, sensitive_features=groups)
        first = first or recorded
    pairs = list(zip(first.crossings, recorded.crossings, strict=True))
    assert pairs
    for one, now in pairs:
        norm = np.linalg.norm(np.ravel(now.exact - one.exact), 1 + (one.norm == "l2"))
        assert norm <= one.sensitivity
