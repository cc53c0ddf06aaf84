"""What steps do to privacy: containers, models made of models, other libraries."""

import math
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
)
from sklearn.ensemble import (
    BaggingRegressor,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import (
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from fairpriv_sklearn._shared.purity import RowPureMixin
from fairpriv_sklearn.accounting import MaximumEvent, PureEvent
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.model_selection import DPGridSearchCV, dp_cross_validate
from fairpriv_sklearn.model_selection._candidates import CHOSEN, tell_of_the_choice
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
    RepairWarning,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import (
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
    guarantee_of,
    privacy_report,
    with_budget,
)
from fairpriv_sklearn.privacy._foreign import diffprivlib_guarantee
from fairpriv_sklearn.privacy._steps import (
    expected_guarantee,
    kept,
    refuse_learners,
)
from fairpriv_sklearn.privacy._walk import walk

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (120, 2))
LABELS = np.arange(120) % 2
TARGET = X[:, 0]
CODES = np.column_stack([LABELS, 1 - LABELS]).astype(float)


def surely_uncovered(estimator):
    """Steps that no fit can cover, whatever the data."""
    steps = (one.step for one in walk(estimator, fitted=False))
    return [step.title for step in steps if step.status == "uncovered"]


def line(**params):
    return DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1), **params)


def classifier(**params):
    given = {"bounds": (-1, 1), "classes": [0, 1], "fairness_weight": 0.0}
    return DPWassersteinLogisticRegression(max_iter=2, **given | params)


def fit(model, X=X, y=TARGET):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


# --- containers of columns ------------------------------------------------------------


CONSTANT = {"strategy": "constant", "keep_empty_features": True}


def one_hot(**params):
    return OneHotEncoder(categories=[[0.0, 1.0]] * 2, **params)


@pytest.mark.parametrize(
    ("encoder", "options", "public"),
    [
        (one_hot(), {}, True),  # one 1 per row and column: a constant density
        (one_hot(drop="if_binary"), {}, False),
        (one_hot(handle_unknown="ignore"), {}, False),
        (one_hot(drop="if_binary"), {"sparse_threshold": 0}, True),
        (one_hot(drop="if_binary", sparse_output=False), {}, True),
        (make_pipeline(one_hot(drop="first")), {}, False),
        (FeatureUnion([("codes", one_hot(drop="first"))]), {}, False),
    ],
)
def test_columns_are_public_unless_the_rows_choose_their_container(
    encoder, options, public
):
    columns = ColumnTransformer([("codes", encoder, [0, 1])], **options)
    model = make_pipeline(columns, classifier(bounds=(0, 1)))
    guarantee = privacy_report(fit(model, CODES, LABELS)).guarantee
    assert (guarantee.epsilon < math.inf) == public
    assert bool(guarantee.uncovered) != public
    assert bool(surely_uncovered(model)) != public


@pytest.mark.parametrize(
    "hashes", [HashingVectorizer(n_features=8), FeatureHasher(8, input_type="string")]
)
@pytest.mark.parametrize("behind", [[], [Normalizer()]])
def test_columns_of_hashed_words_are_as_full_as_they_have_words(hashes, behind):
    reports = []
    for text in ("ab", "ab cd ef gh ij kl mn op qr st uv wx"):
        words = text.split() if isinstance(hashes, FeatureHasher) else text
        frame = pd.DataFrame({"words": [words] * 9})
        steps = [("words", make_pipeline(hashes, *behind), "words")]
        columns = fit(ColumnTransformer(steps), frame, None)
        dense = fit(ColumnTransformer(steps, sparse_threshold=0), frame, None)
        assert not privacy_report(dense).guarantee.uncovered
        reports.append((columns.sparse_output_, privacy_report(columns)))
    assert [is_sparse for is_sparse, _ in reports] == [True, False]
    for _, report in reports:
        assert report.guarantee.uncovered == ("ColumnTransformer",)
        own = [step for step in report.steps if step.estimator == "ColumnTransformer"]
        assert [step.status for step in own] == ["uncovered"]


def test_a_sparse_table_decides_by_its_cells_whether_its_columns_stay_sparse():
    columns = ColumnTransformer([("all", Normalizer(), [0, 1])])
    found = set()
    for n in (30, 90):
        table = sparse.csr_array(np.arange(120).reshape(60, 2) < n)
        found.add(fit(clone(columns), table, None).sparse_output_)
        report = privacy_report(fit(columns, table, None))
        words = "ColumnTransformer is handed no sparse table"
        assert any(words in one for one in report.guarantee.assumptions)
    assert found == {True, False}
    report = privacy_report(fit(columns.set_params(sparse_threshold=0), table, None))
    assert not any("sparse" in one for one in report.guarantee.assumptions)


@pytest.mark.parametrize(
    ("step", "cells", "keeps"),
    [
        (OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore"), [0, 1], True),
        (OneHotEncoder(categories=[["0", "1"]], handle_unknown="ignore"), [0, 1], True),
        (OneHotEncoder(categories=[["a", "b"]]), ["a", "b"], False),
        (
            OrdinalEncoder(
                categories=[[0, 1]],
                handle_unknown="use_encoded_value",
                unknown_value=-1,
            ),
            [0, 1],
            True,
        ),
        (SimpleImputer(fill_value=0, **CONSTANT), [0, 1], True),
        (SimpleImputer(fill_value="none", **CONSTANT), ["a", "b"], False),
    ],
    ids=str,
)
def test_types_of_columns_that_a_step_keeps_are_assumed_to_be_public(
    step, cells, keeps
):
    fitted = clone(step).fit(pd.DataFrame({"a": cells}))
    assumed = privacy_report(fitted).guarantee.assumptions
    assert any("keeps the types of its columns" in one for one in assumed) == keeps
    # Whole numbers are floats beside a gap.
    beside = [*cells, None] if keeps else [*cells, "a"]
    again = clone(step).fit(pd.DataFrame({"a": beside}))
    assert (pickle.dumps(again) != pickle.dumps(fitted)) == keeps


@pytest.mark.parametrize(
    "step",
    [
        AdditiveChi2Sampler(),
        Normalizer("l1"),
        PolynomialFeatures(),
        RBFSampler(gamma=1.0, random_state=0),
    ],
    ids=str,
)
def test_that_numbers_are_not_too_large_for_a_step_is_assumed(step):
    with pytest.warns(RuntimeWarning, match="overflow|invalid"):
        clone(step).fit_transform([[1.0, 1.0], [1.7e308, 1.7e308]])
    report = privacy_report(fit(step, [[1.0, 1.0]], None))
    words = f"{type(step).__name__} is handed no cell that NumPy warns of"
    assert words in report.guarantee.assumptions


def test_a_list_of_categories_that_is_none_is_left_to_the_encoder():
    assert not surely_uncovered(OneHotEncoder(categories=[0, 1]))


@pytest.mark.parametrize("chosen", [lambda X: [0], make_column_selector("a")])
def test_columns_chosen_by_a_callable_are_not_covered(chosen):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b"])
    columns = ColumnTransformer([("some", "passthrough", chosen)])
    report = privacy_report(fit(make_pipeline(columns, line()), frame))
    assert report.guarantee.epsilon == math.inf
    assert "by name or position" in report.to_markdown()


class Centres(FunctionTransformer):
    """Of somebody who did not look what its parent promises."""

    def transform(self, X):
        return X - X.mean(axis=0)


def test_a_class_made_of_a_function_transformer_is_somebodys_own():
    """It was taken for its parent, which works on each row on its own."""
    private = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    guarantee = guarantee_of(make_pipeline(Centres(), private).fit(X, TARGET))
    assert guarantee.epsilon == math.inf
    assert "learns nothing and works on each row" in str(guarantee)
    checked = Centres(np.negative, np.negative, check_inverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        report = privacy_report(make_pipeline(checked, private).fit(X, TARGET))
    assert report.steps[0].status == "uncovered"


class Pipe(Pipeline):
    """Of somebody."""


class Columns(ColumnTransformer):
    """Of somebody."""


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("kind", [Pipe, Columns, Pipeline, "budget"])
def test_a_container_of_ones_own_is_assumed_to_be_no_more(kind, fitted):
    """It was taken for its parent: what else it keeps of the rows nobody looked at."""
    private = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    if kind is Columns:
        columns = Columns([("all", Normalizer(), [0, 1])])
        whole = make_pipeline(columns, private)
    elif kind == "budget":
        whole = with_budget(make_pipeline(private), 1.0)
    else:
        whole = kind([("model", private)])
    if fitted:
        guarantee = guarantee_of(whole.fit(X, TARGET))
    else:
        guarantee = expected_guarantee(whole)
    said = "does with its rows what scikit-learn's class does" in str(guarantee)
    assert said == (kind in (Pipe, Columns))
    assert 0.98 < guarantee.epsilon <= 1.0


def test_a_vote_of_which_one_was_dropped_after_its_fit():
    private = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    vote = VotingRegressor([("a", private), ("b", private)]).fit(X, TARGET)
    spent = guarantee_of(vote).epsilon
    assert guarantee_of(vote.set_params(a="drop")).epsilon == spent
    names = [one.name for one in privacy_report(vote).steps]
    assert names == ["estimators_0", "estimators_1"]


@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_without_the_encoder_that_it_was_fitted_behind(frozen):
    """What it cost alone does not bound it: its columns were learnt as well."""
    private = DPLinearRegression(data_norm=1.0, target_bounds=(-1, 1))
    whole = make_pipeline(DPTableEncoder(), private).fit(X, TARGET)
    said = "on what another private fit gave, whose cost comes on top"
    assert said not in str(privacy_report(whole).guarantee)
    alone = [whole[-1], whole[1:], clone(whole)]
    alone[-1].fit(X, TARGET).set_params(dptableencoder="passthrough")
    for one in alone:
        one = FrozenEstimator(one) if frozen else one
        report = privacy_report(one)
        assert said in str(report.guarantee) and report.steps[0].status == "private"
        assert guarantee_of(one) == report.guarantee
    assert said not in str(privacy_report(private.fit(X, TARGET)).guarantee)


@pytest.mark.parametrize("with_encoder", [False, True])
def test_a_repair_of_a_model_without_the_encoder_that_it_was_fitted_behind(
    with_encoder,
):
    """What a copy of its answers was repaired on does not tell whose they were."""
    private = DPLinearRegression(data_norm=1.0, target_bounds=(-1, 1))
    whole = make_pipeline(DPTableEncoder(), private).fit(X, TARGET)
    table = X if with_encoder else np.array(whole[0].transform(X))
    repair = DPBarycenterRegressor(
        FrozenEstimator(whole if with_encoder else whole[-1]),
        groups=[0, 1],
        target_bounds=(-1, 1),
    ).fit(table, TARGET, sensitive_features=LABELS)
    said = "on what another private fit gave, whose cost comes on top"
    for guarantee in (privacy_report(repair).guarantee, guarantee_of(repair)):
        assert (said in str(guarantee)) != with_encoder
    assert said not in str(repair.privacy_)
    if not with_encoder:
        whole = make_pipeline(whole[0], repair)
        assert said not in str(privacy_report(whole).guarantee)


def test_a_class_of_ones_own_is_a_condition():
    class Overwrites(TransformerMixin, BaseEstimator):
        def __init__(self, mean=None):
            self.mean = mean

        def fit(self, X, y=None):
            self.mean = X.mean(axis=0)
            return self

        def transform(self, X):
            return X - self.mean

    guarantee = privacy_report(fit(make_pipeline(Overwrites(), line()))).guarantee
    assert guarantee.epsilon == math.inf
    (condition,) = guarantee.conditional_on
    assert "learns nothing" in condition


# --- models made of models ------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "y", "n_fits", "read"),
    [
        (VotingRegressor([("a", line()), ("b", line()), ("c", "drop")]), TARGET, 2, ()),
        (
            VotingClassifier([("a", classifier()), ("b", classifier())]),
            LABELS,
            2,
            ("classes (read by VotingClassifier)",),
        ),
        (
            OneVsRestClassifier(classifier()),
            np.arange(120) % 3,
            3,
            ("classes (read by OneVsRestClassifier)",),
        ),
        (MultiOutputRegressor(line()), X, 2, ()),
        (RegressorChain(line()), X, 2, ()),
        (BaggingRegressor(line(), 3, bootstrap=False), TARGET, 3, ()),
        (TransformedTargetRegressor(line(), func=np.sin, inverse_func=np.arcsin,
                                    check_inverse=False), TARGET, 1, ()),
        (TransformedTargetRegressor(line()), TARGET, 1, ()),
        (FixedThresholdClassifier(classifier(), threshold=0.3), LABELS, 1, ()),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_models_that_fit_on_the_same_rows_compose(model, y, n_fits, read):
    report = privacy_report(fit(model, y=y))
    one = fit(line()).privacy_
    guarantee = report.guarantee
    assert len(guarantee.events) == n_fits and not guarantee.uncovered
    assert guarantee.conditional_on == read
    assert (guarantee.epsilon == math.inf) == bool(read)
    if not read:
        assert guarantee.epsilon == pytest.approx(
            one.compose(*[one] * (n_fits - 1), delta=guarantee.delta).epsilon, rel=1e-6
        )


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (BaggingRegressor(line(), 2), TARGET),
        (CalibratedClassifierCV(classifier(), cv=2), LABELS),
        (StackingRegressor([("a", line())], line(), cv=2), TARGET),
        (RegressorChain(line(), cv=2), X),
        (TransformedTargetRegressor(line(), transformer=StandardScaler()), TARGET),
        (
            TransformedTargetRegressor(
                line(), transformer=StandardScaler(), check_inverse=False
            ),
            TARGET,
        ),
        (
            TransformedTargetRegressor(line(), func=np.sin, inverse_func=np.arcsin),
            TARGET,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_models_that_also_fit_without_noise_are_not_covered(model, y):
    report = privacy_report(fit(model, y=y))
    assert report.guarantee.epsilon == math.inf and report.guarantee.uncovered
    assert any(step.status == "uncovered" and step.fix for step in report.steps)


@pytest.mark.parametrize(
    "model",
    [
        TransformedTargetRegressor(
            func=np.tanh, inverse_func=np.arctanh, check_inverse=False
        ),
        BaggingRegressor(bootstrap=False),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_that_is_not_given_learns_and_is_refused_before_the_spend(model):
    """scikit-learn takes one of its own."""
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-4)
    search = DPGridSearchCV(
        make_pipeline(DPTableEncoder(), model),
        [{}],
        target_bounds=(-1, 1),
        ledger=ledger,
    )
    with pytest.raises(ValueError, match="not private as a whole"):
        search.fit(X, TARGET)
    assert not ledger.spends() and surely_uncovered(model) == [type(model).__name__]


def test_a_label_that_all_rows_agree_in_gets_no_model_of_one_against_the_rest():
    """A table of labels, of which one record says whether there is a model."""
    columns = np.column_stack([LABELS, np.zeros(120, dtype=int)])
    for first in (0, 1):
        columns[0, 1] = first
        model = fit(OneVsRestClassifier(classifier()), y=columns)
        report = privacy_report(model)
        assert report.guarantee.uncovered == ("OneVsRestClassifier",)
        assert "MultiOutputClassifier" in report.steps[0].fix
        several = privacy_report(fit(MultiOutputClassifier(classifier()), y=columns))
        assert len(several.guarantee.events) == 2 and several.guarantee.epsilon < 2


@pytest.mark.parametrize("wraps", [
    lambda **how: TransformedTargetRegressor(line(), **how),
    lambda **how: make_pipeline(FunctionTransformer(**how), line()),
])  # fmt: skip
def test_whether_the_check_of_an_inverse_warns_depends_on_rows(wraps):
    """Two tables, of which one has a number that comes back another."""
    how = {"func": np.round, "inverse_func": np.positive}
    X, y = np.zeros((60, 1)), np.zeros(60)
    quiet = wraps(**how)
    quiet.fit(X, y)
    with pytest.warns(UserWarning, match="inverse"):
        wraps(**how).fit(X + 0.3, y + 0.3)
    report = privacy_report(quiet)
    assert report.guarantee.uncovered and report.guarantee.epsilon == math.inf
    assert any("check_inverse=False" in step.fix for step in report.steps)
    unchecked = fit(wraps(**how, check_inverse=False), X + 0.3, y + 0.3)
    assert not privacy_report(unchecked).guarantee.uncovered


@pytest.mark.parametrize("output", ["randomized", "mean", "continuous"])
def test_targets_that_are_spread_over_twins_are_not_covered(output):
    """The transformer of a target is fitted, and then asked by `transform`."""
    groups = LABELS.reshape(-1, 1)

    def by_position(y):
        return groups[: len(y), 0]

    scores = DPBarycenterTransformer(
        bounds=(-1, 1), sensitive_features=by_position, groups=[0, 1], output=output
    )
    for transformer in (scores, make_pipeline(scores)):
        model = TransformedTargetRegressor(
            line(), transformer=transformer, check_inverse=False
        )
        atoms = np.where(RNG.random(120) < 0.3 + 0.4 * LABELS, 1.0, -1.0)
        report = privacy_report(fit(model, y=atoms))
        pure = output in ("mean", "continuous")
        assert (report.guarantee.epsilon < math.inf) == pure
        assert pure or any("pure output" in step.fix for step in report.steps)
        assert bool(expected_guarantee(model).uncovered) != pure
    # Fitted with a pipeline, it gives twins one answer.
    table = np.column_stack([TARGET, LABELS])
    columns = clone(scores).set_params(sensitive_features=1)
    report = privacy_report(fit(make_pipeline(columns, line()), table))
    assert report.guarantee.epsilon < math.inf


def middle(X):
    """Labels that depend on other rows."""
    return (X[:, 0] > np.median(X[:, 0])).astype(int)


@pytest.mark.parametrize("model", [
    classifier(fairness_weight=0.5, groups=[0, 1]),
    DP2DPClassifier(classifier(), classes=[0, 1], groups=[0, 1]),
    DPBarycenterTransformer(bounds=(-1, 1), groups=[0, 1]),
])  # fmt: skip
def test_a_function_that_labels_rows_is_named_in_the_guarantee(model):
    words = "the function sensitive_features labels each row on its own"
    model = clone(model).set_params(sensitive_features=middle)
    assert words in fit(model, y=LABELS).privacy_.assumptions
    model.set_params(sensitive_features=None).fit(X, LABELS, sensitive_features=LABELS)
    assert words not in model.privacy_.assumptions


@pytest.mark.parametrize(
    ("step", "public"),
    [
        (HashingVectorizer(n_features=2), True),
        (HashingVectorizer(n_features=2, tokenizer=str.split), False),
        (HashingVectorizer(n_features=2, analyzer=str.split, dtype=np.float32), False),
        (FunctionTransformer(np.tanh), True),
        (FunctionTransformer(np.clip, kw_args={"a_min": -1, "a_max": 1}), True),
        (FunctionTransformer(np.tanh, kw_args={"out": np.empty((120, 2))}), False),
        (FunctionTransformer(np.tanh, kw_args={"where": False}), False),
    ],
)
def test_what_a_step_of_scikit_learn_may_call_or_write_is_a_condition(step, public):
    """Rows would stay in the array; and a tokenizer may remember rows before."""
    (found,) = walk(step, fitted=False)
    assert found.step.status == ("public" if public else "conditional")


class Passing(BaseEstimator):
    """Scales by what it learns, and hands on the attributes of what it holds."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        self.scale_ = np.abs(X).max()
        self.estimator.fit(X / self.scale_, y)
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["estimator"], name)


def test_a_guarantee_that_a_wrapper_hands_on_is_not_its_own():
    model = fit(Passing(line()))
    assert model.privacy_.epsilon <= 1.0
    for one in (model, make_pipeline("passthrough", model)):
        guarantee = guarantee_of(one)
        assert guarantee is None or guarantee.epsilon == math.inf
    report = privacy_report(model)
    assert report.guarantee.epsilon == math.inf and report.guarantee.uncovered


def test_a_stack_of_fitted_models_pays_for_the_last():
    stack = StackingRegressor([("a", fit(line()))], line(), cv="prefit")
    assert len(privacy_report(fit(stack)).guarantee.events) == 2


# --- answers that are functions of their row ------------------------------------------


class Repair(RowPureMixin, TransformerMixin, BaseEstimator):
    """Stands for a repair whose answers are spread over identical rows, or not."""

    def __init__(self, pure=True):
        self.pure = pure

    def _spreads(self):
        return not self.pure

    def fit(self, X, y=None):
        self.privacy_ = PrivacyGuarantee(0.5, 0.0, "replace_one", "repair")
        return self

    def transform(self, X):
        return X


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize(
    "wrap",
    [
        FrozenEstimator,
        lambda repair: make_pipeline(FrozenEstimator(repair)),
        lambda repair: FeatureUnion([("repair", FrozenEstimator(repair))]),
        lambda repair: ColumnTransformer(
            [("repair", FrozenEstimator(repair), [0, 1])], sparse_threshold=0
        ),
    ],
)
def test_a_frozen_repair_before_a_private_step_has_to_be_pure(pure, wrap):
    step = wrap(Repair(pure).fit(X))
    model = make_pipeline(step, line())
    for guarantee in (expected_guarantee(model), privacy_report(fit(model)).guarantee):
        assert (guarantee.epsilon < math.inf) == pure
    alone = privacy_report(step.fit(X, TARGET)).guarantee  # it may answer the public
    assert alone.epsilon == 0.5


# --- before the fit -------------------------------------------------------------------


def test_expected_guarantees_bound_those_of_the_fits():
    models = [
        line(epsilon=0.5),
        make_pipeline(FunctionTransformer(np.sin), line()),
        VotingRegressor([("a", line()), ("b", line(epsilon=2.0))]),
        BaggingRegressor(line(), 2, bootstrap=False),
        FrozenEstimator(fit(line())),
        DPBarycenterRegressor(line(), groups=[0, 1], target_bounds=(-1, 1)),
    ]
    for model in models:
        expected = expected_guarantee(model)
        params = {}
        if isinstance(model, DPBarycenterRegressor):
            params = {"sensitive_features": LABELS}
        fitted = clone(model).fit(X, TARGET, **params)
        actual = privacy_report(fitted).guarantee
        assert actual.epsilon <= expected.epsilon * (1 + 1e-9) < math.inf
        assert kept(expected, fitted).epsilon == expected.epsilon


def test_the_expected_cost_of_a_wrapped_model_is_the_larger_phase():
    model = DPBarycenterRegressor(line(epsilon=0.7), epsilon=0.5, groups=[0, 1])
    guarantee = expected_guarantee(model)
    (event,) = guarantee.events
    assert isinstance(event, MaximumEvent)
    assert event.left == (PureEvent(0.5),)
    assert guarantee.epsilon == pytest.approx(0.7)
    frozen = FrozenEstimator(fit(line(epsilon=0.7)))
    wrapped = DPBarycenterRegressor(frozen, epsilon=0.5, groups=[0, 1])
    assert len(expected_guarantee(wrapped).events) == 2
    public = DPBarycenterRegressor(frozen, epsilon=0.5, base_guarantee="public")
    assert expected_guarantee(public).epsilon == 0.5
    declared = PrivacyGuarantee(3.0, 0.0, "replace_one", "elsewhere")
    stated = DPBarycenterRegressor(StandardScaler(), base_guarantee=declared)
    assert expected_guarantee(stated).epsilon == 3.0
    bare = DPBarycenterRegressor(StandardScaler())
    assert expected_guarantee(bare).uncovered == ("estimator",)


def test_a_cached_step_tells_whether_the_rows_are_those_of_an_earlier_fit(tmp_path):
    """Bit by bit the same step from the same rows, and another one from others."""
    scores = DPBarycenterTransformer(
        bounds=(-1, 1), sensitive_features=1, groups=[0, 1], output="mean"
    )
    steps = [("scores", scores), ("line", line())]
    cached = Pipeline(steps, memory=str(tmp_path))
    table = np.column_stack([TARGET, LABELS])
    other = table.copy()
    other[0, 0] = 1.0

    def counts(rows):
        return fit(clone(cached), rows)[0].counts_

    first = counts(table)
    assert np.array_equal(first, counts(table))
    assert not np.array_equal(first, counts(other))
    model = fit(clone(cached), table)
    for one in (model, FrozenEstimator(model), make_pipeline(model)):
        report = privacy_report(one)
        assert report.guarantee.epsilon == math.inf
        assert any("memory=None" in step.fix for step in report.steps)
    assert expected_guarantee(cached).uncovered
    assert not expected_guarantee(Pipeline(steps)).uncovered
    assert privacy_report(fit(Pipeline(steps), table)).guarantee.epsilon < math.inf


def test_a_step_that_is_not_covered_voids_a_budget_of_few_records():
    """Of what `with_budget` gives `min_records` to, an error about `uncovered`."""
    model = DPWassersteinLogisticRegression(classes=[0, 1], fairness_weight=0)
    plain = make_pipeline(DPTableEncoder(), StandardScaler(), model)
    with pytest.warns(PrivacyLeakWarning, match="Not private: standardscaler"):
        pipeline = with_budget(plain, 1.0)
    assert pipeline[-1].min_records
    expected = expected_guarantee(pipeline)
    assert expected.uncovered == ("standardscaler (StandardScaler)",)
    rows = np.random.default_rng(0).random((900, 2))
    y, groups = np.tile([0, 1], 450), np.repeat([0, 1], 450)
    repair = DP2DPClassifier(pipeline, classes=[0, 1], groups=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        with pytest.warns(PrivacyLeakWarning, match="Not all of estimator"):
            repair.fit(rows, y, sensitive_features=groups)
    assert repair.privacy_.epsilon == np.inf


def test_a_budget_says_what_around_private_steps_is_not_private():
    """It was said of pipelines only: the fit had spent when the report said so."""
    inner = make_pipeline(DPTableEncoder(), DPLinearRegression(target_bounds=(0, 9)))
    checked = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp)
    both = FeatureUnion([("learnt", DPTableEncoder()), ("scaled", StandardScaler())])
    for one, named in (
        (checked, "TransformedTargetRegressor. .*check_inverse=False"),
        (both, "scaled .StandardScaler."),
    ):
        with pytest.warns(PrivacyLeakWarning, match=f"Not private: {named}") as said:
            with_budget(one, 1.0)
        assert len(said) == 1
    repair = DPBarycenterRegressor(line(), target_bounds=(0, 1), groups=[0, 1])
    quiet = FeatureUnion([("learnt", DPTableEncoder())])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_budget(checked.set_params(check_inverse=False), 1.0)
        with_budget(quiet, 1.0)
        # A repair says so when it is fitted.
        with_budget(clone(repair).set_params(estimator=LinearRegression()), 1.0)


class Halves(TransformerMixin, BaseEstimator):
    """A step of another package that learns nothing, which nobody says of it."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X / 2


class Said(Halves):
    __fairpriv_row_pure__ = True


class Drawn(Said):
    def fit_resample(self, X, y):
        return X[::2], y[::2]


def test_what_a_guarantee_will_be_conditional_on_is_said_before_the_fit():
    """Only the report said that epsilon is infinite."""
    rows = np.random.default_rng(0).random((900, 2))
    y, groups = np.tile([0, 1], 450), np.repeat([0, 1], 450)
    plain = {"classes": [0, 1], "fairness_weight": 0}
    model = DPWassersteinLogisticRegression(data_norm=1.0, **plain)
    held = "halves .Halves. learns nothing and works on each row on its own"
    own_row = "functiontransformer .FunctionTransformer. works on each row"
    for first, said in (
        (Halves(), f"^The guarantee of the whole is conditional.*: {held}. Declare"),
        (FunctionTransformer(lambda X: X), f"conditional.*: {own_row}.* ufunc"),
        (Drawn(), "(Not private: d|Not all of e).*drawn .Drawn. is not covered. Leave"),
        (Said(), None),
        (FunctionTransformer(np.tanh), None),
    ):
        pipeline = make_pipeline(first, model)
        repair = DP2DPClassifier(pipeline, classes=[0, 1], groups=[0, 1])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with_budget(pipeline, 1.0)
            repair.fit(rows, y, sensitive_features=groups)
        found = [one for one in caught if one.category is PrivacyLeakWarning]
        assert len(found) == (2 if said else 0)
        assert all(re.search(said, str(one.message)) for one in found)
        assert (repair.privacy_.epsilon == np.inf) == bool(said)
    fitted = FrozenEstimator(make_pipeline(Halves(), model).fit(rows, y))
    repair.set_params(estimator=fitted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        with pytest.warns(PrivacyLeakWarning, match=held):
            repair.fit(rows, y, sensitive_features=groups)
        warnings.simplefilter("error", PrivacyLeakWarning)
        repair.set_params(base_guarantee="public")
        repair.fit(rows, y, sensitive_features=groups)
    assert repair.privacy_.epsilon <= 1.0


def test_what_is_only_named_like_a_step_of_scikit_learn_gets_no_arguments_of_it():
    """Encoders of other packages take no `categories`."""
    kind = type("OneHotEncoder", (Halves,), {})
    step = kind()
    step.seen_ = X
    (told,) = privacy_report(step).steps
    assert told.status == "uncovered" and told.fix.startswith("Replace it by a private")
    (told,) = privacy_report(OneHotEncoder().fit(X)).steps
    assert told.fix.startswith("Pass `categories=[...]`")


class Kept(Halves):
    """It keeps three columns of what is `wanted`, and takes nothing else."""

    def __init__(self, wanted=float):
        self.wanted = wanted

    def fit(self, X, y):
        self.seen_ = X  # what a fit that fails leaves does not count
        rows = X.to_numpy() if self.wanted == "frame" else X
        if self.wanted in (float, str):
            assert all(isinstance(cell, self.wanted) for cell in rows[:, 0])
        assert rows.shape[1] == 3 and np.unique(y).tolist() == [0, 1]
        return self


class Holds(Halves):
    """Holds a model, which may have a ledger."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        self.model_ = clone(self.model).fit(X, y)


@pytest.mark.parametrize("wanted", [float, str, "frame", None])
def test_what_learns_of_made_up_rows_is_refused(wanted):
    rows = np.full((5, 3), np.nan)  # which no made-up one is
    X = pd.DataFrame(rows, columns=["a", "b", "c"]) if wanted == "frame" else rows
    pipeline = make_pipeline(Said(), Kept(wanted), line())
    with pytest.raises(ValueError, match="^kept .Kept. learns from its rows, and"):
        refuse_learners(pipeline, X)
    assert not hasattr(pipeline[1], "seen_")  # a copy was fitted


def test_what_is_known_or_takes_no_made_up_rows_is_not_refused():
    frozen = FrozenEstimator(make_pipeline(Kept().fit(np.ones((2, 3)), [0, 1])))
    steps = [Said(), Kept(), StandardScaler(), frozen, line()]
    refuse_learners(make_pipeline(*steps), np.ones((5, 4)))  # not three columns


def test_a_pipeline_of_another_package_is_judged_by_its_steps():
    class Timed(Pipeline):
        def fit(self, X, y):
            self.seconds_ = 0.0
            return super().fit(X, y)

    refuse_learners(Timed([("line", line())]), np.ones((5, 4)))
    with pytest.raises(ValueError, match="^kept .Kept. learns from its rows, and"):
        refuse_learners(Timed([("kept", Kept()), ("line", line())]), np.ones((5, 3)))


@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_inside_of_another_package_tries_made_up_rows_at_no_cost(
    frozen,
):
    """As those that select features by a model: a search spent, then refused."""
    ledger = PrivacyLedger(9.0, 1e-5)
    model = fit(line().set_params(ledger=ledger))
    spent = ledger.spends()
    holder = Holds(FrozenEstimator(model) if frozen else model)
    for inner in (holder, Holds(LinearRegression())):
        with pytest.raises(ValueError, match="^holds .Holds. learns from its rows"):
            refuse_learners(make_pipeline(inner, line()), np.ones((5, 4)))
    assert ledger.spends() == spent and model.ledger is ledger


def test_nothing_private_is_expected_of_plain_models():
    assert expected_guarantee(StandardScaler()) is None
    assert surely_uncovered(make_pipeline(StandardScaler(), line())) == [
        "standardscaler (StandardScaler)"
    ]


def test_a_fit_that_cost_more_than_expected_is_told():
    with pytest.raises(ValueError, match="cost more than its arguments say"):
        kept(expected_guarantee(line(epsilon=0.5)), fit(line()))


def test_only_steps_without_a_ledger_of_their_own_are_unpaid():
    """A4: one step's ledger paid for all."""
    ledger = PrivacyLedger(9.0, 1e-5)
    both = make_pipeline(Repair().fit(X), line(epsilon=0.5, ledger=ledger))
    pipeline = make_pipeline(line(epsilon=3.0), line(epsilon=0.5, ledger=ledger))
    unpaid = expected_guarantee(pipeline, unpaid=True)
    assert unpaid.epsilon == pytest.approx(3.0)
    assert len(expected_guarantee(pipeline).events) == 2
    frozen = make_pipeline(FrozenEstimator(both[0]), line(epsilon=2.0))
    assert expected_guarantee(frozen, unpaid=True).epsilon == pytest.approx(2.0)
    paid = make_pipeline(line(ledger=ledger))
    assert expected_guarantee(paid, unpaid=True) is None
    assert len(expected_guarantee(paid).events) == 1


# --- other libraries ------------------------------------------------------------------


def foreign(name, **attributes):
    """Stand in for a model of diffprivlib, which scikit-learn 1.9 cannot import."""
    body = {
        "__module__": "diffprivlib.models.forest",
        "__init__": lambda self: None,
        "epsilon": 0.5,
        "random_state": None,
        "fit": lambda self, X, y=None: self,
        "__sklearn_is_fitted__": lambda self: True,
        **attributes,
    }
    return type(name, (BaseEstimator,), body)()


GIVEN = {"bounds": (0, 1), "classes": [0, 1]}


@pytest.mark.parametrize("name", ["DecisionTreeClassifier", "RandomForestClassifier"])
def test_trees_of_diffprivlib_cost_twice_for_one_replaced_record(name):
    """A2: leaf counts 10/10 and 9/11 differ in two counts."""
    guarantee = diffprivlib_guarantee(foreign(name, **GIVEN))
    assert guarantee.epsilon == 1.0 and guarantee.neighboring == "replace_one"
    assert guarantee.noise_is_secure
    assert not diffprivlib_guarantee(
        foreign(name, **GIVEN, random_state=0)
    ).noise_is_secure
    read = diffprivlib_guarantee(foreign(name, **GIVEN | {"classes": None}))
    assert read.conditional_on == (f"classes of diffprivlib's {name}",)
    assert read.epsilon == math.inf and read.epsilon_if_public == 1.0
    warm = diffprivlib_guarantee(foreign(name, **GIVEN, warm_start=True))
    assert warm.epsilon == math.inf


def test_a_fitted_tree_does_not_tell_what_was_given():
    fitted = foreign("DecisionTreeClassifier", **GIVEN, classes_=np.array([0, 1]))
    before = foreign("DecisionTreeClassifier", **GIVEN)
    assert privacy_report(fitted).guarantee.epsilon == math.inf
    assert privacy_report(fitted, before=before).guarantee.epsilon == 1.0
    assert expected_guarantee(before).epsilon == 1.0
    assert kept(expected_guarantee(before), fitted, before).epsilon == 1.0


def test_a_budget_knows_that_a_tree_costs_twice():
    class DecisionTreeClassifier(BaseEstimator):
        __module__ = "diffprivlib.models.tree"

        def __init__(self, epsilon=1.0, bounds=(0, 1), classes=(0, 1)):
            self.epsilon, self.bounds, self.classes = epsilon, bounds, classes
            self.random_state = None

        def fit(self, X, y=None):
            return self

    alone = with_budget(DecisionTreeClassifier(), 3.0)
    assert 2.999 <= expected_guarantee(alone).epsilon_at(1e-5) <= 3.0
    assert alone.epsilon == pytest.approx(1.5, rel=1e-4)
    both = with_budget(make_pipeline(line(), DecisionTreeClassifier()), 3.0)
    assert 2.99 <= expected_guarantee(both).epsilon <= 3.0


def test_a_tree_that_a_search_chose_does_not_stand_alone():
    """Its own `fit` leaves on it what the search wrote: its epsilon is read anew."""
    before = foreign("DecisionTreeClassifier", **GIVEN)
    won = foreign("DecisionTreeClassifier", **GIVEN, classes_=np.array([0, 1]))
    tell_of_the_choice(make_pipeline("passthrough", won))
    for conditions in (won.privacy_, privacy_report(won).guarantee):
        assert len(conditions.conditional_on) == 3
        assert conditions.conditional_on[-1] == CHOSEN
    won.epsilon = 2.0
    guarantee = privacy_report(won, before=before).guarantee
    assert guarantee.conditional_on == (CHOSEN,)
    assert guarantee.epsilon == math.inf and guarantee.epsilon_if_public == 4.0
    # What came frozen was fitted by the caller.
    own = foreign("DecisionTreeClassifier", **GIVEN)
    tell_of_the_choice(FrozenEstimator(own))
    assert not hasattr(own, "privacy_")


@pytest.mark.parametrize(
    "name", ["GaussianNB", "LogisticRegression", "LinearRegression", "KMeans", "PCA"]
)
def test_other_models_of_diffprivlib_are_not_covered(name):
    guarantee = diffprivlib_guarantee(foreign(name, **GIVEN))
    assert guarantee.epsilon == math.inf and name in guarantee.uncovered[0]


def test_leaf_counts_of_a_real_tree():
    """Twice the printed epsilon is needed, and enough, on the counts of the breach."""
    models = pytest.importorskip("diffprivlib.models", exc_type=ImportError)
    before = models.DecisionTreeClassifier(max_depth=1, epsilon=1.0, **GIVEN)
    X, y = np.full((20, 1), 0.5), np.r_[np.zeros(10), np.ones(10)].astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(before).fit(X, y)
    assert privacy_report(fitted, before=before).guarantee.epsilon == 2.0


def test_a_gaussian_process_keeps_all_rows():
    """It needs no fit, says scikit-learn, and was taken for a public step."""
    encoder = DPBarycenterTransformer(
        bounds=(-1, 1), sensitive_features=1, groups=[0, 1]
    )
    table = np.column_stack([TARGET, LABELS])
    process = GaussianProcessRegressor(optimizer=None)
    pipeline = make_pipeline(encoder, process).fit(table, TARGET)
    for model in (pipeline, pipeline[-1]):
        report = privacy_report(model)
        assert report.guarantee.epsilon == math.inf
        assert "GaussianProcessRegressor" in str(report.guarantee.uncovered)
    for public in (Normalizer(), Binarizer(), AdditiveChi2Sampler()):
        steps = [one.step.status for one in walk(public.fit(np.abs(X)))]
        assert steps == ["public"]


@pytest.mark.parametrize("part", [0.5, 119, 1, 1.0])
def test_a_bag_keeps_the_number_of_rows(part):
    """Which is private under add/remove. A sample of some rows costs no more."""

    def bag(relation, n_rows=120):
        inner = line(neighboring=relation)
        bag = BaggingRegressor(
            inner, n_estimators=1, bootstrap=False, max_samples=part, random_state=0
        )
        return bag.fit(X[:n_rows], TARGET[:n_rows])

    assert bag("add_remove").__dict__["_n_samples"] == 120
    guarantee = privacy_report(bag("add_remove")).guarantee
    assert guarantee.epsilon == math.inf and guarantee.uncovered
    covered = privacy_report(bag("replace_one")).guarantee
    assert covered.epsilon == pytest.approx(1.0)


def test_a_bag_that_draws_by_weights_is_not_covered():
    """One weight of a record says how many rows all others are drawn for."""
    bag = BaggingRegressor(line(), n_estimators=1, bootstrap=False, max_samples=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the bag
        try:
            heavy = clone(bag).fit(X, TARGET, sample_weight=[100.0] + [1.0] * 119)
        except ValueError:  # scikit-learn before 1.7 had no weights without bootstrap
            return
    assert len(heavy.estimators_samples_[0]) > 0.2 * 120
    guarantee = privacy_report(heavy).guarantee
    assert guarantee.epsilon == math.inf and guarantee.uncovered
    assert privacy_report(bag.fit(X, TARGET)).guarantee.epsilon == pytest.approx(1.0)


def _bagged(**params):
    return BaggingRegressor(line(**params), n_estimators=1, bootstrap=False)


@pytest.mark.parametrize("inner", [_bagged(), line(random_state=0)])
def test_seeded_noise_inside_a_repair_is_no_secret(inner):
    """A bagging estimator seeds what it wraps, even if that was told nothing."""
    repair = DPBarycenterRegressor(inner, target_bounds=(-1, 1), groups=[0, 1])
    ledger = PrivacyLedger(10.0, 1e-4)
    repair.set_params(ledger=ledger).fit(X, TARGET, sensitive_features=LABELS)
    assert not repair.privacy_.noise_is_secure
    if isinstance(inner, DPLinearRegression):
        assert not ledger.spends()[0]["noise_is_secure"]
        inner = line()
        repair.set_params(estimator=inner).fit(X, TARGET, sensitive_features=LABELS)
        assert repair.privacy_.noise_is_secure


def test_seeded_noise_inside_a_search_is_no_secret():
    told = {"epsilon": 1.0, "target_bounds": (-1, 1)}
    search = DPGridSearchCV(_bagged(), {"estimator__alpha": [0.1, 1.0]}, **told)
    assert not search.fit(X, TARGET).privacy_.noise_is_secure
    folds = dp_cross_validate(_bagged(), X, TARGET, **told)
    assert not folds.privacy_.noise_is_secure


@pytest.mark.parametrize("n_positive", [0, 1, 40])
@pytest.mark.parametrize("piped", [False, True])
def test_a_guarantee_does_not_tell_that_all_labels_are_equal(n_positive, piped):
    """A wrapped classifier without a list of labels refuses rows of one label."""
    inner = DPOutputPerturbationLogisticRegression(bounds=(-1, 1))
    if piped:
        inner = make_pipeline(FunctionTransformer(np.tanh), inner)
    labels = (np.arange(120) < n_positive).astype(int)
    repair = DP2DPClassifier(inner, classes=[0, 1], groups=[0, 1])
    said = repair.fit(X, labels, sensitive_features=LABELS).privacy_
    assert said.conditional_on == ()
    assert said.epsilon == pytest.approx(1.0, rel=1e-6)
    if not n_positive:
        voters = VotingClassifier([("one", clone(inner))], voting="soft")
        repair.set_params(estimator=voters)
        with pytest.warns(PrivacyLeakWarning, match="VotingClassifier.*takes no publ"):
            said = repair.fit(X, labels, sensitive_features=LABELS).privacy_
        assert "classes" in said.conditional_on  # as with two labels


def test_a_search_gives_its_labels_to_nobody_who_sees_others():
    """One against the rest sees 0 and 1 and not the labels of the search."""
    inner = DPOutputPerturbationLogisticRegression(bounds=(-1, 1))
    search = DPGridSearchCV(
        OneVsRestClassifier(inner), {"estimator__C": [1.0]}, classes=["no", "yes"]
    )
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        search.fit(X, np.where(LABELS, "yes", "no"))
    assert set(search.predict(X)) <= {"no", "yes"}
    assert search.best_estimator_.estimators_[0].classes is None


@pytest.mark.parametrize("group", ["default", "dear", "cheap", "public", "frozen"])
@pytest.mark.parametrize("base", ["none", "public", "private", "frozen", "classes"])
def test_a_blind_repair_states_before_its_fit_what_it_states_after(base, group):
    """The model of the groups is fitted under the same guarantee; it was left out."""
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-1, 1, (300, 2)), rng.integers(0, 2, 300)

    def classifier(epsilon):
        return DPWassersteinLogisticRegression(
            fairness_weight=0.0, epsilon=epsilon, classes=[0, 1], bounds=(-1, 1)
        )

    shared = {"groups": [0, 1], "blind": True}
    if group == "public":
        shared["group_guarantee"] = "public"
        model = FrozenEstimator(LogisticRegression().fit(X, groups))
    elif group == "frozen":
        model = FrozenEstimator(classifier(2.0).fit(X, groups))
    else:
        model = {"default": None, "dear": classifier(7.0), "cheap": classifier(0.1)}
        model = model[group]
    shared["group_estimator"] = model
    if base == "none":
        repair = DPBarycenterTransformer(bounds=(-1, 1), **shared)
    elif base == "classes":
        repair = DP2DPClassifier(classifier(0.5), classes=[0, 1], **shared)
    else:
        linear = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1), epsilon=0.5)
        if base == "public":
            linear = LinearRegression()
            shared["base_guarantee"] = "public"
        if base != "private":
            linear = FrozenEstimator(linear.fit(X, X[:, 0]))
        repair = DPBarycenterRegressor(linear, target_bounds=(-1, 1), **shared)
    expected = expected_guarantee(repair)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        y = groups if base == "classes" else X[:, 0]
        repair.fit(X[:, :2], y, sensitive_features=groups)
    assert not expected.uncovered and not repair.privacy_.uncovered
    for delta in (1e-9, 1e-6, 1e-5, 1e-4):
        stated = expected.epsilon_at(delta), repair.privacy_.epsilon_at(delta)
        # Fewer draws than planned leave more to the noise at its own delta, 1e-5.
        assert stated[0] >= stated[1] * (1 - (1e-9 if delta == 1e-5 else 1e-4))
        # Four pure parts of the calibration compose to less than it has as a whole.
        assert stated[0] == pytest.approx(stated[1], rel=0.06) or group == "cheap"


def test_a_group_model_that_nobody_vouches_for_is_not_covered():
    repair = DPBarycenterTransformer(blind=True, group_estimator=LogisticRegression())
    assert expected_guarantee(repair).uncovered == ("group_estimator",)


def test_steps_pickled_before_they_moved_are_found():
    (step,) = privacy_report(fit(line())).steps
    pickled = pickle.dumps(step, protocol=0)
    old = pickled.replace(b"privacy._step\n", b"privacy._steps\n")
    assert old != pickled and pickle.loads(old) == step
