"""What the caller got wrong is refused in one sentence before any budget is spent."""

import contextlib
import pickle
import re
import warnings
from dataclasses import replace
from decimal import Decimal
from functools import partial
from importlib import import_module

import numpy as np
import pytest
import sklearn
from common import ENTRIES
from scipy import sparse
from sklearn import config_context
from sklearn.base import (
    BaseEstimator,
    RegressorMixin,
    TransformerMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import DBSCAN, KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    Lars,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    RANSACRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    PredefinedSplit,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    train_test_split,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
)
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import all_estimators
from sklearn.utils.fixes import parse_version

import fairpriv_sklearn
from fairpriv_sklearn._door.groups import named_positions
from fairpriv_sklearn._door.readers import refuse_cells
from fairpriv_sklearn._shared import guarded
from fairpriv_sklearn._shared.origin import _ORIGINS, origin
from fairpriv_sklearn._training._penalty import most_records
from fairpriv_sklearn.datasets import make_spurious_bias
from fairpriv_sklearn.distributed import Batches, resume
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.metrics import demographic_parity_difference, dp_group_rates
from fairpriv_sklearn.metrics._disparity import group_codes
from fairpriv_sklearn.model_selection import (
    ConstrainedScore,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    dp_cross_validate,
)
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
    kept,
    privacy_report,
    refuse_together,
    refuse_widths,
    with_budget,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
CONDITIONAL = pytest.mark.filterwarnings(
    "ignore:The guarantee of the whole is conditional"
)


def table(n=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    return X, (X[:, 0] > 0).astype(int), np.arange(n) % 2


X, Y, GROUP = table()
FITTED = LogisticRegression().fit(X, Y)
SEVENS = LogisticRegression().fit(X, Y + 7)
DOUBLED = LogisticRegression().fit(np.hstack([X, X]), Y)
BOTH = np.column_stack([Y, 1 - Y])


def logistic(**changes):
    public = {"bounds": (-1, 1), "classes": [0, 1], "fairness_weight": 0.0}
    return DPWassersteinLogisticRegression(**{**public, **changes})


def regression(**changes):
    return DPLinearRegression(**{"bounds": (-1, 1), "target_bounds": (0, 1), **changes})


def numbers(estimator, **more):
    return DPBarycenterRegressor(estimator, target_bounds=(0, 1), groups=[0, 1], **more)


def decisions(estimator, **more):
    return DP2DPClassifier(estimator, classes=[0, 1], groups=[0, 1], **more)


def scores(**more):
    return DPBarycenterTransformer(bounds=(-1, 1), groups=[0, 1], blind=True, **more)


def frozen(estimator):
    return {"estimator": FrozenEstimator(estimator), "base_guarantee": "public"}


def refused(estimator, said, X=X):
    ledger = PrivacyLedger(50.0, 1e-3)
    estimator.set_params(ledger=ledger)
    with pytest.raises(ValueError, match=re.escape(said)):
        estimator.fit(X, Y, sensitive_features=GROUP)
    assert ledger.spends() == []


def accepted(estimator, X=X, groups=GROUP):
    ledger = PrivacyLedger(50.0, 1e-3)
    estimator.set_params(ledger=ledger).fit(X, Y, sensitive_features=groups)
    assert len(ledger.spends()) == 1


class Bare(BaseEstimator):
    """Says nothing of its kind."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


class Regressor(RegressorMixin, LogisticRegression):
    """Says that it is a regressor, and has probabilities."""


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (numbers(logistic()), "must be a regressor, but DPWasserstein"),
        (numbers(make_pipeline(logistic())), "Pipeline is a classifier"),
        (numbers(**frozen(FITTED)), "LogisticRegression is a classifier"),
        (numbers(KMeans(2)), "KMeans is a clusterer"),
        (decisions(GaussianMixture(2)), "a classifier, but GaussianMixture is a dens"),
        (decisions(Regressor()), "must be a classifier, but Regressor is a regressor"),
        (
            numbers(regression(), blind=True, group_estimator=Regressor()),
            "The group_estimator must be a classifier",
        ),
        (scores(group_estimator=Regressor()), "The group_estimator must be a class"),
    ],
)
def test_a_model_of_another_kind(estimator, said):
    refused(estimator, said)


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (decisions(**frozen(DOUBLED)), "estimator was fitted to 4 columns, and this"),
        (decisions(**frozen(make_pipeline(DOUBLED))), "table has 2 for it"),
        (
            scores(group_estimator=FrozenEstimator(DOUBLED), group_guarantee="public"),
            "The group_estimator was fitted to 4",
        ),
        (
            decisions(**frozen(LogisticRegression().fit(X, Y + 1))),
            "The wrapped estimator knows a class",
        ),
        (decisions(make_pipeline(logistic(classes=[0, 1, 2]))), "knows a class"),
        (
            decisions(
                logistic(),
                blind=True,
                group_estimator=FrozenEstimator(LogisticRegression().fit(X, Y + 7)),
                group_guarantee="public",
            ),
            "The wrapped group_estimator knows a class",
        ),
    ],
)
def test_a_fitted_model_of_another_table(estimator, said):
    refused(estimator, said)


SEVERAL = "was fitted to several targets"


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (numbers(**frozen(LinearRegression().fit(X, BOTH))), SEVERAL),
        (numbers(**frozen(make_pipeline(LinearRegression()).fit(X, BOTH))), SEVERAL),
        (decisions(**frozen(DecisionTreeClassifier().fit(X, BOTH))), SEVERAL),
        (
            decisions(
                logistic(),
                blind=True,
                group_estimator=FrozenEstimator(DecisionTreeClassifier().fit(X, BOTH)),
                group_guarantee="public",
            ),
            "The group_estimator must answer one probability per class",
        ),
        (decisions(MultiOutputClassifier(logistic())), "takes several targets"),
        (numbers(make_pipeline(MultiOutputRegressor(regression()))), "several targets"),
    ],
)
def test_a_model_of_several_targets(estimator, said):
    refused(estimator, said)


def test_a_fitted_model_that_takes_no_row_of_numbers():
    pandas = pytest.importorskip("pandas")
    words = pandas.DataFrame({"a": np.where(Y, "yes", "no"), "b": "no"})
    model = make_pipeline(OneHotEncoder(), LinearRegression())
    accepted(numbers(**frozen(clone(model).fit(words, Y))), words)
    refused(numbers(**frozen(model.fit(words, BOTH))), SEVERAL, words)


@pytest.mark.filterwarnings("ignore:The list of labels was read from the data")
def test_labels_that_were_read_from_rows_are_not_printed():
    """Neither those that the model learnt nor, without a list, those of this table."""
    model = LogisticRegression().fit(X, np.where(Y > 0, "secret", "known"))
    for listed in (["hidden", "known"], None):
        repair = DP2DPClassifier(**frozen(model), classes=listed, groups=[0, 1])
        with pytest.raises(ValueError, match="knows a class") as refusal:
            repair.fit(X, np.where(Y > 0, "hidden", "known"), sensitive_features=GROUP)
        assert "secret" not in str(refusal.value) and "hidden" not in str(refusal.value)


def _unreadable():
    """Tables with something that a model of two columns of numbers does not read."""
    objects = {"text": "a", "number": 10**400, "gap": None, "nan": np.nan}
    for name, cell in objects.items():
        table = X.astype(object)
        table[7, 1] = cell
        yield name, table
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    yield "column of text", frame.assign(b=np.where(Y, "u", "v"))
    yield "gap of pandas", frame.assign(b=pandas.array([None, *X[1:, 1]], "Float64"))
    yield "another column", frame.assign(c=0.0)
    yield "a column less", frame[["a"]]
    yield "other names", frame.rename(columns={"b": "c"})
    yield "categories", frame.assign(b=pandas.Categorical(np.where(Y, "u", "v")))


def _of_names(model):
    pandas = pytest.importorskip("pandas")
    return model.fit(pandas.DataFrame(X, columns=["a", "b"]), Y)


@pytest.mark.parametrize("repair", ["numbers", "decisions"])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", [name for name, _ in _unreadable()])
def test_a_fitted_model_says_before_the_spend_what_it_does_not_read(
    repair, scaled, name
):
    """It is asked about rows that are private, and its own words are not shown."""
    model = LogisticRegression() if repair == "decisions" else LinearRegression()
    model = _of_names(make_pipeline(StandardScaler(), model) if scaled else model)
    model = {"numbers": numbers, "decisions": decisions}[repair](**frozen(model))
    ledger, table = PrivacyLedger(50.0, 1e-3), dict(_unreadable())[name]
    with pytest.raises((TypeError, ValueError)) as refusal:
        model.set_params(ledger=ledger).fit(table, Y, sensitive_features=GROUP)
    assert ledger.spends() == [] and "u" not in str(refusal.value).split()
    same = dict(_unreadable())["other names"].set_axis(["a", "b"], axis=1)
    model.fit(same, Y, sensitive_features=GROUP)
    assert len(ledger.spends()) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["text", "categories", "gaps"])
def test_what_an_estimator_of_scikit_learn_takes_is_not_refused(kind):
    """Not all of those that take text or gaps say so by their tags."""
    pandas = pytest.importorskip("pandas")
    number, words = np.linspace(0, 1, 40), np.tile(["x", "y"], 20)
    first = {
        "text": words,
        "categories": pandas.Categorical(words),
        "gaps": np.where(words == "x", np.nan, number),
    }[kind]
    table, y = pandas.DataFrame({"a": first, "b": number}), np.tile([0, 0, 1, 1], 10)
    several = [
        ColumnTransformer([("kept", "passthrough", ["b"])]),
        SimpleImputer(strategy="most_frequent"),
        SimpleImputer(strategy="constant"),
        HistGradientBoostingClassifier(categorical_features="from_dtype"),
    ]
    for _, known in all_estimators(type_filter=["transformer", "classifier"]):
        with contextlib.suppress(TypeError):
            several.append(known())
    taken = []
    for one in several:
        with contextlib.suppress(Exception):
            fitted = clone(one).fit(table, y)
            if hasattr(fitted, "transform"):  # some look at cells there only
                fitted.transform(table)
            taken.append(one)
    assert len(taken) > 8
    for one in taken:
        refuse_cells(one, table)


@pytest.mark.filterwarnings("ignore")
def test_numbers_that_are_text_are_refused_where_the_model_would_refuse_them():
    """They were read as numbers here, and the model refused them after the spend."""
    table, y = np.linspace(0, 1, 80).reshape(40, 2).astype(str), np.arange(40) % 2
    models = [LinearRegression(), GaussianNB(), BernoulliNB(), LogisticRegression()]
    models += [DecisionTreeClassifier(), DecisionTreeRegressor(), SVR(), Ridge()]
    refuses = []
    for model in models:
        try:
            clone(model).fit(table, y)
        except ValueError:
            refuses.append(model)
            with pytest.raises(ValueError, match=r"text, and .* X.astype\(float\)"):
                refuse_cells(model, table)
            refuse_cells(model, table.astype(float))
            with pytest.raises(ValueError, match="Expected 2D array|Expected a 2D"):
                refuse_cells(model, table[:, 0])
        else:
            refuse_cells(model, table)
    assert 1 < len(refuses) < len(models)
    refused(decisions(GaussianNB()), "X is an array of text", X.astype(str))


@pytest.mark.parametrize("fitted", ["estimator", "group_estimator"])
def test_a_fitted_model_beside_others_refuses_columns_at_no_cost(fitted):
    """The other model is to be fitted to these rows first."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b"])
    others = {"one less": table[["a"]], "renamed": table.rename(columns={"a": "c"})}
    for columns in others.values():
        public = LogisticRegression().fit(columns, Y)
        models = {"estimator": logistic(), "group_estimator": logistic()}
        said = {"estimator": "base_guarantee", "group_estimator": "group_guarantee"}
        models |= {fitted: FrozenEstimator(public), said[fitted]: "public"}
        refused(decisions(**models, blind=True), "to public rows of the same", table)
        ledger = PrivacyLedger(0.1, 1e-6)  # nobody can pay: it is not asked
        repair = decisions(**models, blind=True, ledger=ledger)
        with pytest.raises(BudgetExceededError):
            repair.fit(table, Y, sensitive_features=GROUP)


@pytest.mark.parametrize("fitted", ["estimator", "group_estimator"])
@pytest.mark.parametrize("both", [False, True])
def test_a_fitted_model_refuses_the_last_row_at_no_cost(fitted, both):
    """Behind a step that takes text, so that no tag says what it reads."""
    words = np.array(["u", "v"] * 30, dtype=object)[:, None]
    public = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(words, Y)
    declared = PrivacyGuarantee(1.0, 0.0, "replace_one", "declared")
    taken = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    models = dict.fromkeys(["estimator", "group_estimator"], taken)
    said = dict.fromkeys(["base_guarantee", "group_guarantee"], declared)
    if both:
        models = {name: FrozenEstimator(taken.fit(words, Y)) for name in models}
        said = dict.fromkeys(said, "public")
    models[fitted] = FrozenEstimator(public)
    said[{"estimator": "base_guarantee"}.get(fitted, "group_guarantee")] = "public"
    accepted(decisions(**models, **said, blind=True), words)
    words = words.copy()
    words[-1] = "John Doe"
    refused(decisions(**models, **said, blind=True), "refused the rows", words)


@pytest.mark.parametrize("name", ["text", "number", "gap", "nan", "column of text"])
def test_a_model_of_scikit_learn_reads_numbers(name):
    """One that is fitted here is not asked before, but says so by its tags."""
    declared = PrivacyGuarantee(1.0, 0.0, "replace_one", "declared")
    table = dict(_unreadable())[name]
    for model in (LogisticRegression(), DecisionTreeClassifier(), BernoulliNB()):
        ledger = PrivacyLedger(50.0, 1e-3)
        repair = decisions(model, base_guarantee=declared, ledger=ledger)
        if name in ("gap", "nan") and isinstance(model, DecisionTreeClassifier):
            continue  # takes gaps
        with pytest.raises(ValueError, match="cell that cannot be read|contains NaN"):
            repair.fit(table, Y, sensitive_features=GROUP)
        assert ledger.spends() == []


def test_models_that_take_text_are_left_to_say_what_they_read():
    pandas = pytest.importorskip("pandas")
    declared = PrivacyGuarantee(1.0, 0.0, "replace_one", "declared")
    words = np.where(np.c_[Y, GROUP], "yes", "no")
    tables = words.astype(object), pandas.DataFrame(words).astype("category")
    encoder = OneHotEncoder(handle_unknown="ignore")
    encoded = make_pipeline(encoder, LogisticRegression())
    for model in (encoded, DummyClassifier(), BaggingClassifier(encoded, 2)):
        repair = decisions(model, base_guarantee=declared)
        assert repair.fit(tables[0], Y, sensitive_features=GROUP).privacy_
    trees = HistGradientBoostingClassifier(categorical_features="from_dtype")
    repair = decisions(trees.set_params(max_iter=2), base_guarantee=declared)
    assert repair.fit(tables[1], Y, sensitive_features=GROUP).privacy_


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [LogisticRegression(), DecisionTreeClassifier()])
def test_categories_of_pandas_are_text_to_models_of_numbers(model):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "b": pandas.Categorical(Y)})
    accepted(decisions(model), frame)
    frame["b"] = frame["b"].cat.rename_categories(["no", "yes"])
    refused(decisions(model), "cell that cannot be read as a number", frame)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("last", [LogisticRegression(), logistic()])
def test_cells_beside_an_encoder_are_refused_at_no_cost(last):
    """Passed by it, or read by what stands beside it in a union."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "b": np.where(Y, "yes", "no")})
    encoder = ("encoder", DPTableEncoder(), ["a"])
    passing = ColumnTransformer([encoder, ("passed", "passthrough", ["b"])])
    said = "cell that cannot be read as a number"
    refused(decisions(make_pipeline(passing, last)), said, frame)

    def union(categories):
        known = OneHotEncoder(categories=[categories])
        beside = ColumnTransformer([("known", known, ["b"])])
        parts = [("learnt", ColumnTransformer([encoder])), ("beside", beside)]
        return decisions(make_pipeline(FeatureUnion(parts), last))

    refused(union(["no"]), "not in the categories of OneHotEncoder", frame)
    accepted(union(["no", "yes"]), frame)


def test_a_fitted_model_is_not_asked_about_rows_that_nobody_can_pay_for(monkeypatch):
    asked = []

    def answer(model, X):
        asked.append(len(X))
        return np.full((len(X), 2), 0.5)

    monkeypatch.setattr(LogisticRegression, "predict_proba", answer)
    repair = decisions(**frozen(FITTED), ledger=PrivacyLedger(0.1, 1e-6))
    with pytest.raises(BudgetExceededError):
        repair.fit(X, Y, sensitive_features=GROUP)
    assert asked == [1]  # about a public row


def test_models_that_may_serve_are_taken():
    accepted(numbers(Bare()))
    accepted(numbers(regression()))
    accepted(decisions(**frozen(FITTED)))
    # Ours take a table with or without the columns that they name as sensitive.
    named = logistic(sensitive_features=[2], groups=[0, 1], fairness_weight=0.5)
    named.fit(np.column_stack([X, GROUP]), Y)
    accepted(decisions(**frozen(named)))
    accepted(decisions(**frozen(make_pipeline(named))))
    # A fitted model may choose among columns that have names.
    pandas = pytest.importorskip("pandas")
    three = pandas.DataFrame(np.column_stack([X, GROUP]), columns=["a", "b", "c"])
    choice = ColumnTransformer([("a", "passthrough", ["a"])])
    model = make_pipeline(choice, LinearRegression()).fit(three, Y)
    accepted(numbers(**frozen(model)), three[["a", "b"]])


# --- what would be found by a fit inside ---------------------------------------------


def search(estimator, grid=None, **more):
    return DPGridSearchCV(
        estimator, grid or {}, groups=[0, 1], **lists(estimator), **more
    )


def lists(estimator):
    if is_classifier(estimator):
        return {"classes": [0, 1]}
    return {"target_bounds": (0, 1)}


THREE = (np.zeros(3), 1.0)
WIDTH = "an entry for each of the 2 columns"
LEARNT = "stands behind an encoder that learns its columns"
TREE = DecisionTreeClassifier()


@pytest.mark.parametrize("wrap", ["search", "grid", "repair", "validation"])
@pytest.mark.parametrize(
    ("model", "changes", "said"),
    [
        (logistic(), {"bounds": THREE}, WIDTH),
        (logistic(), {"classes": [1]}, "2 labels or more"),
        (logistic(), {"classes": [1, "no"]}, "classes mixes text with labels of"),
        (logistic(), {"class_weight": {2: 1.0}}, "class_weight must map labels"),
        (logistic(), {"epsilon": True}, "epsilon must be a number"),
        (logistic(), {"epsilon": 10**400}, "epsilon must be a number that a float"),
        (logistic(), {"C": 10**400}, "must be a float in the range [1e-100"),
        (logistic(), {"sensitive_features": [0.5]}, "sensitive_features in the con"),
        (logistic(), {"batch_size": 5, "neighboring": "add_remove"}, "batch_size ne"),
        (regression(), {"bounds": THREE}, WIDTH),
        (regression(), {"target_bounds": (1, 0)}, "target_bounds must be a pair"),
        (
            DPWassersteinMLPRegressor(bounds=(-1, 1), fairness_weight=0.0),
            {"target_bounds": (1, 1)},
            "target_bounds must have low < high",
        ),
        (
            numbers(regression()),
            {"target_bounds": (1, 1)},
            "target_bounds must have low < high",
        ),
        (numbers(regression()), {"target_bounds": THREE}, "each of the 1 columns"),
        (numbers(regression()), {"estimator__bounds": THREE}, WIDTH),
        (numbers(regression()), {"estimator": logistic()}, "must be a regressor"),
        (decisions(logistic()), {"estimator": regression()}, "'predict_proba'"),
        (decisions(logistic()), {"group_estimator": TREE}, "is for blind=True"),
        (
            decisions(logistic()),
            {"blind": True, "method": "histogram"},
            "needs method='gradient' or 'auto'",
        ),
        (
            decisions(logistic()),
            {"estimator": TREE, "base_guarantee": "public"},
            'base_guarantee="public" says',
        ),
        (
            decisions(logistic()),
            {"blind": True, "group_estimator": TREE, "group_guarantee": "public"},
            'group_guarantee="public" says',
        ),
        (
            make_pipeline(scores(), regression()),
            {"dpbarycentertransformer__bounds": THREE},
            WIDTH,
        ),
        (
            make_pipeline("passthrough", regression()),
            {"dplinearregression__bounds": THREE},
            WIDTH,
        ),
        (
            make_pipeline(StandardScaler(), regression()),
            {"dplinearregression__bounds": THREE},
            WIDTH,
        ),
        (
            make_pipeline(DPTableEncoder(), PolynomialFeatures(), regression()),
            {"dplinearregression__bounds": THREE},
            LEARNT,
        ),
    ],
)
def test_what_a_fit_inside_would_refuse(wrap, model, changes, said):
    wrong = clone(model).set_params(**changes)
    ledger = PrivacyLedger(50.0, 1e-3)
    given = {"sensitive_features": GROUP}
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        if wrap == "validation":
            dp_cross_validate(wrong, X, Y, ledger=ledger, **lists(wrong), **given)
        elif wrap == "grid":
            grid = {name: [value] for name, value in changes.items()}
            search(model, grid, ledger=ledger).fit(X, Y, **given)
        elif wrap == "search":
            search(wrong, ledger=ledger).fit(X, Y, **given)
        else:
            repair = decisions if is_classifier(model) else numbers
            repair(wrong).set_params(ledger=ledger).fit(X, Y, **given)
    assert ledger.spends() == []


def test_bounds_of_the_columns_that_a_model_sees_are_taken():
    """Behind a transformer, or beside named groups, there may be other columns."""
    wide = regression(bounds=(np.zeros(5), 1.0))
    squares = PolynomialFeatures(include_bias=False)
    accepted(numbers(make_pipeline(squares, wide)))
    named = logistic(bounds=([-1.0] * 2, 1.0), sensitive_features=[2], groups=[0, 1])
    table = np.column_stack([X, GROUP])
    search(named).fit(table, Y)
    search(named.set_params(bounds=([-1.0] * 3, 1.0))).fit(table, Y)
    everywhere = search(logistic(bounds=([-1.0] * 2, 1.0)), sensitive_features=[2])
    everywhere.fit(table, Y)
    search(make_pipeline("passthrough", logistic())).fit(X, Y)


@pytest.mark.parametrize(
    "model",
    [
        regression(bounds=THREE),
        make_pipeline(Normalizer(), regression(bounds=THREE)),
        numbers(make_pipeline("passthrough", regression(bounds=THREE))),
        search(regression(), {"bounds": [(-1, 1), THREE]}),
    ],
)
def test_a_pipeline_of_one_budget_looks_at_the_width_of_bounds(model):
    ledger = PrivacyLedger(50.0, 1e-3)
    for encoder, said in ((DPTableEncoder(), LEARNT), ("passthrough", WIDTH)):
        pipeline = Pipeline([("encoder", encoder), ("model", model)])
        pipeline = with_budget(pipeline, 1.0)
        pay = [name for name in pipeline.get_params() if name.endswith("__ledger")]
        pipeline.set_params(**dict.fromkeys(pay, ledger))
        grouped = hasattr(model, "groups")
        groups = {"model__sensitive_features": GROUP} if grouped else {}
        with pytest.raises(ValueError, match=said):
            pipeline.fit(X, Y, **groups)
    assert ledger.spends() == []


@pytest.mark.parametrize("named", ["a_rank0", 1, [0]])
def test_columns_that_an_encoder_will_learn_cannot_be_named(named):
    """At a position that was meant for the raw table there may be another column."""
    ledger = PrivacyLedger(50.0, 1e-3)
    model = logistic(fairness_weight=0.5, groups=[0, "..."], sensitive_features=named)
    for inside in (model, numbers(regression(), sensitive_features=named)):
        pipeline = make_pipeline(DPTableEncoder(ledger=ledger), inside)
        with pytest.raises(ValueError, match="sensitive_features cannot name") as said:
            with_budget(pipeline, 1.0).fit(X, Y)
        # Scorers of scikit-learn hand no labels on, and only a repair can wrap both.
        wraps = "as in DPBarycenterRegressor(make_pipeline(encoder, model)), or let"
        assert (wraps in str(said.value)) == (inside is not model)
        if inside is model:
            refused(decisions(pipeline), "sensitive_features cannot name")
    assert ledger.spends() == []
    model.set_params(sensitive_features=lambda codes: codes[:, 0] > 0)
    with_budget(make_pipeline(DPTableEncoder(), model), 1.0).fit(X, Y)


def test_bounds_behind_an_encoder_that_learns_nothing_are_taken():
    pandas = pytest.importorskip("pandas")
    words = pandas.DataFrame({"a": np.where(Y, "yes", "no")})
    encoder = DPTableEncoder(codebook={"a": ["no", "yes"]})
    width = encoder.fit_transform(words).shape[1]
    bounds = (np.zeros(width), 1.0)
    with_budget(make_pipeline(encoder, regression(bounds=bounds)), 1.0).fit(words, Y)


@pytest.mark.parametrize("values", [[0.5], [0.0, 0.5]])
def test_a_search_inside_is_asked_for_the_groups_of_its_candidates(values):
    fair, grid = logistic(groups=[0, 1]), {"fairness_weight": values}
    both = (search(fair, grid), DPRandomizedSearchCV(fair, grid, classes=[0, 1]))
    for inner in both:
        for inside in (inner, make_pipeline("passthrough", inner)):
            refused(decisions(inside), "needs the sensitive features")
        refused(search(FixedThresholdClassifier(inner), {}), "needs the sensitive")
        ledger = PrivacyLedger(50.0, 1e-3)
        with pytest.raises(ValueError, match="needs the sensitive features"):
            encoded(inner, ledger).fit(X, Y)
        assert ledger.spends() == []
    compares = ConstrainedScore()
    refused(
        decisions(search(logistic(), scoring=compares)), "The score compares groups"
    )
    # Columns that it names itself, and a list without the penalty.
    table = np.column_stack([X, GROUP])
    named = search(logistic(), grid, sensitive_features=[2], scoring=compares)
    accepted(decisions(named), table)
    accepted(decisions(search(logistic(fairness_weight=0.5), {"fairness_weight": [0]})))


def test_a_search_inside_is_asked_for_its_arguments():
    for grid, said in (
        ({"CC": [1.0]}, "Invalid parameter 'CC'"),
        ({"C": [-1.0]}, "'C'"),
    ):
        refused(decisions(search(logistic(), grid)), said)
        ledger = PrivacyLedger(50.0, 1e-3)
        with pytest.raises(ValueError, match=said):
            encoded(search(logistic(bounds=None), grid), ledger).fit(X, Y)
        assert ledger.spends() == []


def test_who_passes_groups_is_told_how_they_get_inside():
    """Who passed them in the call was told to pass them in the call, and no more."""
    way = r"reach it with sklearn.set_config\(enable_metadata_routing=True\)"
    inner = logistic(fairness_weight=0.5, groups=[0, 1])
    fair = decisions(inner)
    with pytest.raises(ValueError, match=f"{way}. With fairness_weight=0"):
        fair.fit(X, Y, sensitive_features=GROUP)
    with config_context(enable_metadata_routing=True):
        accepted(fair)
        with pytest.raises(ValueError, match="in the constructor") as caught:
            inner.fit(X, Y)
        assert not re.search(way, str(caught.value))


def test_what_needs_groups_deep_inside_is_asked_first():
    fair = logistic(fairness_weight=0.5, groups=[0, 1])
    threshold = FixedThresholdClassifier(fair, threshold=0.5)
    voting = VotingClassifier([("a", logistic()), ("b", fair)], voting="soft")
    for inside in (threshold, voting, make_pipeline("passthrough", threshold)):
        refused(decisions(inside), "DPWassersteinLogisticRegression needs the sens")
        for meta in (search(inside), search(make_pipeline("passthrough", inside))):
            refused(meta, "needs the sensitive features")  # these hand them to nobody
            meta.set_params(ledger=PrivacyLedger(50.0, 1e-3))
            with pytest.raises(ValueError, match="needs the sensitive features"):
                meta.fit(X, Y)
            assert meta.ledger.spends() == []
    with config_context(enable_metadata_routing=True):
        accepted(search(threshold))
    plain = FixedThresholdClassifier(logistic(), threshold=0.5)
    accepted(search(plain))
    accepted(search(make_pipeline("passthrough", make_pipeline(logistic()))))
    repaired = TransformedTargetRegressor(numbers(regression()))
    accepted(search(repaired))
    # What is fitted already, or by a search with other arguments, needs none.
    done = FrozenEstimator(clone(fair).fit(X, Y, sensitive_features=GROUP))
    accepted(decisions(done))
    accepted(decisions(StackingClassifier([("a", done)], logistic(), cv="prefit")))
    accepted(decisions(search(fair, {"fairness_weight": [0.0]})))


def test_what_would_hear_no_groups_at_prediction_is_asked_first():
    """Where routing is on its fit is handed them by what hands none on later."""
    aware, said = decisions(logistic(), max_iter=2), "at prediction, where what stands"
    threshold = FixedThresholdClassifier(aware, threshold=0.5)
    blind = {"blind": True, "group_estimator": logistic()}
    with config_context(enable_metadata_routing=True):
        for repair in (decisions(threshold), decisions(aware, **blind)):
            refused(repair, said)
        refused(search(threshold), said)
        guess = decisions(logistic(), blind=True, group_estimator=aware)
        refused(search(guess), "DP2DPClassifier needs the sensitive features")
        accepted(decisions(aware))
        accepted(decisions(clone(aware).set_params(**blind), **blind))
        # A search would take groups at prediction, and what is blind has none for it.
        accepted(decisions(decisions(search(logistic()), **blind)))
        refused(decisions(decisions(threshold)), said)


# --- a pipeline of one budget --------------------------------------------------------

FAIR = DPWassersteinLogisticRegression(
    data_norm=1.0, classes=[0, 1], groups=[0, 1], fairness_weight=0.5, max_iter=2
)


def encoded(model, ledger, epsilon=3.0):
    pipeline = make_pipeline(DPTableEncoder(ledger=ledger), model)
    return with_budget(pipeline, epsilon)


@pytest.mark.parametrize(
    "model",
    [
        FAIR,
        make_pipeline("passthrough", FAIR),
        decisions(logistic(data_norm=1.0, bounds=None)),
    ],
)
def test_a_pipeline_of_one_budget_asks_for_groups_before_its_encoder_spends(model):
    ledger = PrivacyLedger(50.0, 1e-3)
    pipeline = encoded(model, ledger)
    assert isinstance(pipeline, Pipeline)
    thawed = pickle.loads(pickle.dumps(encoded(model, None)))
    thawed.set_params(dptableencoder__ledger=ledger)
    for one in (pipeline, clone(pipeline), thawed):
        with pytest.raises(ValueError, match="needs the sensitive features"):
            one.fit(X, Y)
        with pytest.raises(ValueError, match="needs the sensitive features"):
            one.fit(X, Y, **{f"{one.steps[-1][0]}__sensitive_features": None})
        with pytest.raises(ValueError, match="needs the sensitive features"):
            one.fit(X, Y, dptableencoder__other=1)
    assert ledger.spends() == []


@pytest.mark.parametrize("keyword", ["sensitive_features", "sample_weight"])
@CONDITIONAL
def test_a_pipeline_of_one_budget_looks_at_keywords_first(keyword):
    ledger = PrivacyLedger(50.0, 1e-3)
    pipeline = encoded(regression(bounds=None), ledger)
    with pytest.raises(TypeError, match=f"takes no {keyword} in fit"):
        pipeline.fit(X, Y, **{f"dplinearregression__{keyword}": GROUP})
    fair = encoded(logistic(bounds=None, groups=[0, 1]), ledger)
    given = {"dpwassersteinlogisticregression__sample_weight": GROUP}
    with pytest.raises(TypeError, match="takes no sample_weight in fit"):
        fair.fit(X, Y, **given)
    assert ledger.spends() == []
    # What takes any keyword is left to say so itself.
    around = make_pipeline("passthrough", Anything())
    with_budget(make_pipeline(around, regression()), 1.0).fit(
        X, Y, pipeline__anything__sample_weight=GROUP
    )


class Anything(BaseEstimator):
    """Takes any keyword."""

    def fit(self, X, y=None, **keywords):
        self.n_features_in_, self.seen_ = X.shape[1], list(keywords)
        return self

    def transform(self, X):
        return X


def test_a_pipeline_of_one_budget_takes_groups_where_they_come_from():
    ledger = PrivacyLedger(500.0, 1e-2)
    key = "dpwassersteinlogisticregression__sensitive_features"
    table = np.column_stack([X, GROUP])
    encoded(FAIR, ledger).fit(X, Y, **{key: GROUP})
    encoded(clone(FAIR).set_params(fairness_weight=0.0), ledger).fit(X, Y)
    with config_context(enable_metadata_routing=True):
        encoded(FAIR, ledger).fit(X, Y, sensitive_features=GROUP)
        renamed = clone(FAIR).set_fit_request(sensitive_features="group")
        encoded(renamed, ledger).fit(X, Y, group=GROUP)
        with pytest.raises(ValueError, match="needs the sensitive features"):
            encoded(FAIR, ledger).fit(X, Y)
    named = clone(FAIR).set_params(sensitive_features=[0])
    with_budget(make_pipeline("passthrough", named), 3.0).fit(table[:, ::-1], Y)
    # What is frozen is not fitted.
    pandas = pytest.importorskip("pandas")
    words = pandas.DataFrame({"a": np.where(Y, "yes", "no")})
    encoder = DPTableEncoder(codebook={"a": ["no", "yes"]}, ledger=ledger)
    given = clone(encoder).set_params(ledger=None).fit_transform(words)
    done = FrozenEstimator(clone(FAIR).fit(given, Y, sensitive_features=GROUP))
    with_budget(make_pipeline(encoder, done), 3.0).fit(words, Y)
    assert len(ledger.spends()) == 5


def test_a_pipeline_of_one_budget_asks_all_steps_for_their_arguments():
    ledger = PrivacyLedger(50.0, 1e-3)
    pipeline = encoded(FAIR, ledger)
    pipeline[-1].set_params(C=-1.0)
    with pytest.raises(ValueError, match="'C' parameter"):
        pipeline.fit(X, Y, dpwassersteinlogisticregression__sensitive_features=GROUP)
    assert ledger.spends() == []


TOLD = PrivacyGuarantee(0.5, 0.0, "add_remove", "told")
TREE = DecisionTreeClassifier()


@pytest.mark.filterwarnings("ignore::fairpriv_sklearn.privacy.PrivacyLeakWarning")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((TREE, {"calibration_size": "all"}), "not all of estimator is private"),
        (
            (logistic(), {"calibration_size": "all", "group_estimator": TREE}),
            "not all of group_estimator is private",
        ),
        ((TREE, {"base_guarantee": TOLD}), "same neighboring"),
        (
            (logistic(), {"group_estimator": logistic(classes=["x", "y"])}),
            "group_estimator knows a class",
        ),
        (
            (logistic(), {"group_estimator": FrozenEstimator(FITTED)}),
            "group_estimator knows a class",
        ),
        ((FrozenEstimator(SEVENS), {}), "knows a class"),
        (
            (CalibratedClassifierCV(FrozenEstimator(SEVENS)), {}),
            "estimator knows a class",
        ),
        ((FrozenEstimator(LogisticRegression()), {}), "not fitted yet"),
    ],
)
def test_a_pipeline_of_one_budget_asks_what_a_repair_wraps_first(given, said):
    """What needs no table is found out before the encoder has spent."""
    model, settings = given
    blind = "group_estimator" in settings
    repair = decisions(model, blind=blind, **settings)
    repair.set_params(groups=["f", "m"]) if "knows" in said and blind else None
    ledger = PrivacyLedger(50.0, 1e-3)
    pipeline = encoded(repair, ledger)
    with pytest.raises(ValueError, match=said):
        pipeline.fit(X, Y, sensitive_features=np.array(repair.groups)[GROUP])
    assert ledger.spends() == []


@pytest.mark.parametrize(
    "model",
    [
        FixedThresholdClassifier(FAIR, threshold=0.5),
        VotingClassifier([("fair", FAIR)], voting="soft"),
        make_pipeline(scores().set_params(blind=False, output="mean"), FAIR),
    ],
)
@CONDITIONAL
def test_a_pipeline_of_one_budget_looks_for_groups_inside(model):
    ledger = PrivacyLedger(50.0, 1e-3)
    with pytest.raises(ValueError, match="needs the sensitive features"):
        encoded(model, ledger).fit(X, Y)
    if isinstance(model, Pipeline):  # given to one of those that need them
        key = "pipeline__dpwassersteinlogisticregression__sensitive_features"
        with pytest.raises(ValueError, match="DPBarycenterTransformer needs the sens"):
            encoded(model, ledger).fit(X, Y, **{key: GROUP})
        keys = [key, "pipeline__dpbarycentertransformer__sensitive_features"]
        encoded(model, None).fit(X, Y, **dict.fromkeys(keys, GROUP))
    assert ledger.spends() == []


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (GROUP + 5, r"not in groups=.* \(1 is not .1., and labels of several columns"),
        (GROUP[:-1], "need a row for each record"),
        (np.where(GROUP, 1.0, np.nan), "a missing label"),
    ],
)
def test_a_pipeline_of_one_budget_looks_at_the_groups_first(groups, said):
    ledger = PrivacyLedger(50.0, 1e-3)
    key = "dpwassersteinlogisticregression__sensitive_features"
    with pytest.raises(ValueError, match=said):
        encoded(FAIR, ledger).fit(X, Y, **{key: groups})
    assert ledger.spends() == []
    with pytest.raises(ValueError, match="was given twice"):
        named = clone(FAIR).set_params(sensitive_features=[0])
        encoded(named, ledger).fit(X, Y, **{key: GROUP})
    assert ledger.spends() == []
    # Where the list of groups is read they may be any.
    with pytest.warns(PrivacyLeakWarning, match="list of groups"):
        reads = clone(FAIR).set_params(groups=None)
        encoded(reads, ledger).fit(X, Y, **{key: GROUP + 5})


def test_a_pipeline_of_one_budget_whose_codes_are_wanted_asks_first():
    ledger = PrivacyLedger(50.0, 1e-3)
    coder = DPWassersteinAutoencoder(fairness_weight=0.5, groups=[0, 1], max_iter=1)
    with pytest.raises(ValueError, match="needs the sensitive features"):
        encoded(coder, ledger).fit_transform(X)
    assert ledger.spends() == []
    fair = encoded(coder.set_params(fairness_weight=0.0), ledger)
    assert len(fair.fit_transform(X)) == len(X) and len(ledger.spends()) == 1
    assert not hasattr(encoded(FAIR, None), "fit_transform")


@pytest.mark.parametrize("form", ["batches", "dask"])
@pytest.mark.parametrize("wrong", ["label", "group", "missing", "no groups"])
def test_a_pipeline_of_one_budget_looks_at_y_and_groups_of_all_parts_first(form, wrong):
    """What is wrong in a later part was found when the encoder had spent."""
    ledger, last = PrivacyLedger(50.0, 1e-3), len(X) - 1
    pipeline = encoded(FAIR, ledger)

    def fit(y, groups):
        cuts = [slice(0, 25), slice(25, None)]
        if form == "batches":
            parts = [(X[c], y[c], None if groups is None else groups[c]) for c in cuts]
            return pipeline.fit(Batches(parts))
        array = pytest.importorskip("dask.array").from_array
        more = {} if groups is None else {"sensitive_features": array(groups, 25)}
        return pipeline.fit(array(X, (25, -1)), array(y, 25), **more)

    y, groups, said = np.array(Y, dtype=float), np.array(GROUP), "needs the sensitive"
    if wrong == "no groups":
        groups = None
    elif wrong == "group":
        groups[last], said = 7, "a label that is not in groups"
    elif wrong == "label":
        y[last], said = 7, "not in classes"
    else:
        y[last], said = np.nan, "y has a row without a label"
    with pytest.raises(ValueError, match=said):
        fit(y, groups)
    assert ledger.spends() == []
    fit(np.array(Y), np.array(GROUP))
    assert len(ledger.spends()) == 1


@pytest.mark.parametrize(
    "reads",
    [
        {"dptableencoder": [DPTableEncoder(), "passthrough"]},
        {"steps": [[("model", logistic())]]},
        {"dptableencoder__codebook": [{"x1": {"kind": "number", "missing": False}}]},
    ],
)
def test_a_search_asks_each_candidate_for_cells_that_it_does_not_take(reads):
    """The whole budget was spent on candidates of which one could not be fitted."""
    ledger = PrivacyLedger(50.0, 1e-3)
    model = make_pipeline(DPTableEncoder(), logistic(bounds=None, data_norm=1.0))
    table = dict(_unreadable())["text"]
    with pytest.raises(ValueError, match="cell"):
        search(model, reads, ledger=ledger).fit(table, Y)
    assert ledger.spends() == []
    grid = {"dptableencoder__epsilon": [1.0, 2.0]}
    search(model, grid, ledger=ledger).fit(table, Y)
    assert len(ledger.spends()) == 1


def test_a_pipeline_of_one_budget_is_not_begun_inside_of_one_journal(tmp_path):
    """It served the encoder's fit, which had spent before the model was refused."""
    ledger = PrivacyLedger(50.0, 1e-3)
    pipeline = encoded(logistic(bounds=None, data_norm=1.0), ledger)
    with resume(tmp_path / "journal"):
        with pytest.raises(ValueError, match="one journal serves one fit"):
            pipeline.fit(X, Y)
        assert ledger.spends() == []
        with_budget(make_pipeline("passthrough", logistic()), 1.0).fit(X, Y)


TEXT, THREE_LABELS = np.where(Y, "u", "v"), np.arange(len(Y)) % 3
LOGARITHM = {"func": np.log, "inverse_func": np.exp, "check_inverse": False}


def vote(model):
    return VotingClassifier([("a", model)])


@pytest.mark.parametrize(
    ("wrap", "model", "y", "others"),
    [
        (vote, logistic(classes=["u", "v"]), TEXT, Y),
        (FixedThresholdClassifier, logistic(classes=[0, 1, 2]), THREE_LABELS, Y),
        (
            lambda one: vote(FixedThresholdClassifier(one)),
            logistic(classes=[0, 1, 2]),
            THREE_LABELS,
            Y,
        ),
        (
            lambda one: TransformedTargetRegressor(one, **LOGARITHM),
            make_pipeline("passthrough", regression()),
            Y,
            Y + 1,
        ),
    ],
)
@CONDITIONAL
def test_a_pipeline_of_one_budget_tries_what_a_model_is_handed_for_y(
    wrap, model, y, others
):
    """Behind an encoder that had spent, no model was fitted to such a target."""
    ledger = PrivacyLedger(50.0, 1e-3)
    if y is not TEXT:  # of these a search knows by its own list
        public = lists(model) | ({"classes": [0, 1, 2]} if is_classifier(model) else {})
        with pytest.raises(ValueError, match="refused"):
            DPGridSearchCV(wrap(model), {}, ledger=ledger, **public).fit(X, y)
        with pytest.raises(ValueError, match="refused"):
            dp_cross_validate(wrap(model), X, y, ledger=ledger, **public)
        repair = decisions if is_classifier(model) else numbers
        if hasattr(wrap(model), "predict_proba") or repair is numbers:
            with pytest.raises(ValueError, match="refused"):
                repaired = repair(wrap(model), ledger=ledger).set_params(**public)
                repaired.fit(X, y, sensitive_features=GROUP)
    bounds = [k for k in model.get_params() if k.endswith("bounds")]
    model = clone(model).set_params(**dict.fromkeys(bounds[:1], None))
    with pytest.raises(ValueError, match="refused"):
        encoded(wrap(model), ledger).fit(X, y)
    if y is THREE_LABELS:  # listed, whatever labels there are
        with pytest.raises(ValueError, match="refused"):
            encoded(wrap(model), ledger).fit(X, Y)
    assert ledger.spends() == []
    classes = [k for k in model.get_params() if k.endswith("classes")]
    model.set_params(**dict.fromkeys(classes, [0, 1]))
    encoded(wrap(model), ledger).fit(X, others)
    assert len(ledger.spends()) == 1


NO_LIST = {
    "one": (np.ones(60, dtype=int), "Only one class was found"),
    "gap": (np.where(Y, 1.0, np.nan), "NaN|without a label"),
    "missing": (np.where(Y, "u", None), "without a label"),
    "mixed": (np.where(Y, "u", Y.astype(object)), "mixes text"),
    "numbers": (X[:, 0], "Unknown label type"),
    "several": (BOTH, "should be a 1d array"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("threshold", [False, True])
@pytest.mark.parametrize("wrong", NO_LIST)
def test_a_target_is_looked_at_first_where_it_tells_the_labels(wrong, threshold):
    """Encoders, and whole searches, had spent when a model refused to read the list."""
    y, said = NO_LIST[wrong]
    ledger, read = PrivacyLedger(50.0, 1e-3), {"classes": None}
    model = logistic(bounds=None, data_norm=1.0)
    wrap = FixedThresholdClassifier if threshold else clone
    tries = {
        "pipeline": lambda **k: encoded(wrap(clone(model).set_params(**k)), ledger),
        "search": lambda **k: DPGridSearchCV(
            wrap(clone(model).set_params(**k)), {}, ledger=ledger
        ),
        "inner": lambda **k: encoded(
            DPGridSearchCV(wrap(clone(model).set_params(**k)), {}), ledger
        ),
    }
    for make in tries.values():
        with pytest.raises(ValueError, match=said):
            make(**read).fit(X, y)
    with pytest.raises(ValueError, match=said):
        one = wrap(clone(model).set_params(**read))
        dp_cross_validate(one, X, y, cv=2, ledger=ledger)
    assert ledger.spends() == []
    if wrong == "one":  # of those that are listed any may be missing
        for make in tries.values():
            make().fit(X, y)
        listed = DPGridSearchCV(wrap(clone(model).set_params(**read)), {})
        listed.set_params(classes=[0, 1]).fit(X, y)
        encoded(listed, None).fit(X, y)
        decisions(wrap(clone(model).set_params(**read))).fit(
            X, y, sensitive_features=GROUP
        )


READS = {
    "range": (regression(bounds=None, target_bounds=None), {}),
    "labels": (logistic(bounds=None, classes=None), {}),
    "groups": (clone(FAIR).set_params(groups=None), GROUP),
    "scores": (numbers(regression(bounds=None)).set_params(target_bounds=None), GROUP),
    "repair": (decisions(logistic(bounds=None)).set_params(groups=None), GROUP),
    "search": (DPGridSearchCV(regression(bounds=None, target_bounds=None), {}), {}),
    "vote": (vote(logistic(bounds=None, classes=None)), {}),
    "power": (
        TransformedTargetRegressor(
            VotingRegressor([("a", regression(bounds=None, target_bounds=None))]),
            func=np.square,
            inverse_func=np.sqrt,
            check_inverse=False,
        ),
        {},
    ),
    "columns": (DPSlicedWassersteinGenerator(classes=[0, 1]), {}),
    "numbers": (DPSinkhornGenerator(classes=[0, 1], max_iter=2), {}),
}


@pytest.mark.parametrize("reads", READS)
def test_leaks_that_are_errors_are_raised_before_an_encoder_spends(reads):
    """It had spent when the model behind it warned of what it reads from the data.

    Or one in a vote, or behind a function of the target, or the ranges of a generator.
    """
    model, given = READS[reads]
    given = {} if given is not GROUP else {"sensitive_features": GROUP}
    ledger = PrivacyLedger(50.0, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = encoded(model, ledger)
        warnings.simplefilter("error", PrivacyLeakWarning)
        inside = reads in ("vote", "power")
        kind = ValueError if inside else PrivacyLeakWarning
        with pytest.raises(kind, match="was read from the data"):
            pipeline.fit(X, Y, **given)
    assert ledger.spends() == []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error", PrivacyLeakWarning)
        warnings.simplefilter("always")
        encoded(model, ledger).fit(X, Y, **given)
    told = [str(w.message) for w in caught if w.category is PrivacyLeakWarning]
    assert len(told) == len(set(told)) >= 1  # once each, by the fit


def test_what_a_fit_inside_will_not_say_is_no_error_before_it():
    repair = decisions(FixedThresholdClassifier(logistic(classes=None)), max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", PrivacyLeakWarning)
        with pytest.raises(PrivacyLeakWarning, match="to what is inside of"):
            repair.fit(X, Y, sensitive_features=GROUP)  # when the model is there
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", module="elsewhere")
        encoded(READS["labels"][0], None).fit(X, Y)
    assert "classes" in repair.privacy_.conditional_on


def test_ranges_that_a_generator_learns_or_is_told_are_no_leak():
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", PrivacyLeakWarning)
        DPSlicedWassersteinGenerator(bounds=(-1, 1))._refuse_target(X, None)
        for method in ("auto", "pairs"):
            DPSinkhornGenerator(method=method)._refuse_target(frame, None)
        DPSinkhornGenerator(method="pairs")._refuse_target(X, None)
        with pytest.raises(PrivacyLeakWarning, match="range of every column"):
            DPSinkhornGenerator(method="semidual")._refuse_target(frame, None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [DPSinkhornGenerator, DPSlicedWassersteinGenerator])
def test_labels_of_a_generator_are_looked_at_first(kind):
    """They are no target that it needs, and an encoder had spent."""
    ledger = PrivacyLedger(50.0, 1e-3)

    def fit(y, classes=None):
        encoded(kind(classes=classes, bounds=(0, 1)), ledger).fit(X, y)

    wrong = {
        "": (Y[:-1], None),
        "without a label": (np.where(Y, "u", None), None),
        "no classes": (X[:, 0], None),
        "not in classes": (THREE_LABELS, [0, 1]),
        "without y": (None, [0, 1]),
    }
    for said, (y, classes) in wrong.items():
        with pytest.raises(ValueError, match=said):
            fit(y, classes)
    assert ledger.spends() == []
    for y, classes in [(None, None), (Y, None), (np.ones(60, dtype=int), [0, 1])]:
        fit(y, classes)


@pytest.mark.parametrize("kind", [DPSinkhornGenerator, DPSlicedWassersteinGenerator])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"basis": [0.6, 0.8]}, "basis must have orthonormal columns"),
        ({"basis": [[1.0], [1.0]]}, "basis must have orthonormal columns"),
        ({"basis": np.zeros((2, 0))}, "basis must have orthonormal columns"),
        ({"basis": "text"}, "'basis'"),
        ({"hidden_layer_sizes": (8, 0)}, "hidden_layer_sizes must be positive"),
    ],
)
def test_arguments_of_a_generator_are_looked_at_first(kind, wrong, said):
    ledger = PrivacyLedger(50.0, 1e-3)
    with pytest.raises(ValueError, match=said):
        encoded(kind(bounds=(0, 1), classes=[0, 1], **wrong), ledger).fit(X, Y)
    assert ledger.spends() == []


@pytest.mark.filterwarnings("ignore")
def test_more_classes_than_a_method_serves_are_refused_at_no_cost():
    ledger, model = PrivacyLedger(50.0, 1e-3), logistic(bounds=None, data_norm=1.0)
    model.set_params(classes=None)
    for classes, constraint in [([0, 1, 2], "equalized_odds"), ([0, 1], None)]:
        repair = decisions(model, method="histogram")
        others = {"constraint": constraint or "demographic_parity"}
        for listed, y in [([0, 1, 2], Y), (None, THREE_LABELS)]:
            repair.set_params(classes=listed)
            with pytest.raises(ValueError, match="needs two classes, got 3"):
                encoded(repair, ledger).fit(X, y, sensitive_features=GROUP)
        repair.set_params(classes=classes, **others)
        encoded(repair, None).fit(X, Y, sensitive_features=GROUP)
    assert ledger.spends() == []


@pytest.mark.filterwarnings("ignore")
def test_groups_are_looked_at_first_where_they_tell_their_list():
    """Encoders, and whole searches, had spent when a model refused to read the list."""
    ledger, one = PrivacyLedger(50.0, 1e-3), np.zeros(len(X), dtype=int)
    unlisted = clone(FAIR).set_params(groups=None)
    listed, said = clone(unlisted).set_params(groups=[0, 1]), "fewer than two groups"

    def tries(model, **more):
        yield encoded(model, ledger)
        yield DPGridSearchCV(model, {}, ledger=ledger, **more)
        yield encoded(DPGridSearchCV(model, {}, **more), ledger)

    repair = DP2DPClassifier(logistic(bounds=None, data_norm=1.0), classes=[0, 1])
    for unfit in (*tries(unlisted), encoded(repair, ledger)):
        with pytest.raises(ValueError, match=said):
            unfit.fit(X, Y, sensitive_features=one)
    with pytest.raises(ValueError, match=said):
        both = {"sensitive_features": one, "ledger": ledger}
        dp_cross_validate(unlisted, X, Y, cv=2, **both)
    assert ledger.spends() == []
    # Of those that are listed, and of those that nobody reads, any may be missing.
    _, *searches = tries(unlisted, groups=[0, 1])
    unread = clone(unlisted).set_params(fairness_weight=0.0)
    for fit in (*tries(listed), *searches, encoded(unread, ledger)):
        fit.fit(X, Y, sensitive_features=one)
    dp_cross_validate(unlisted, X, Y, cv=2, groups=[0, 1], **both)
    with config_context(enable_metadata_routing=True):
        asking = clone(unlisted).set_fit_request(sensitive_features=True)
        decisions(asking, ledger=ledger).fit(X, Y, sensitive_features=one)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("named", [[1], lambda X: np.full(len(X), 5150.0)])
def test_columns_of_one_group_are_refused_at_no_cost_and_not_shown(named):
    """A search listed what all rows hold, so its sentence quoted that very cell."""
    ledger, rows = PrivacyLedger(50.0, 1e-3), X.copy()
    rows[:, 1] = 5150.0
    model = logistic(sensitive_features=named, groups=None, data_norm=1.0)
    model.set_params(bounds=None, max_iter=2)
    paid = {"classes": [0, 1], "ledger": ledger}
    alone, inside = decisions(model, ledger=ledger), decisions(model)
    for fit in (
        DPGridSearchCV(model, [{}, {}], **paid).fit,
        partial(dp_cross_validate, model, cv=2, **paid),
        partial(alone.fit, sensitive_features=GROUP),
        partial(DPGridSearchCV(inside, {}, **paid).fit, sensitive_features=GROUP),
    ):
        with pytest.raises(ValueError, match="fewer than two groups") as error:
            fit(rows, Y)
        assert "5150" not in str(error.value)
    assert ledger.spends() == []
    # Of labels in the call, which this model does not read, the search makes no list.
    unread = clone(model).set_params(sensitive_features=None, fairness_weight=0)
    search = DPGridSearchCV(unread, [{}, {}], **paid)
    search.fit(X, Y, sensitive_features=np.zeros(len(X), int))


@pytest.mark.filterwarnings("ignore")
def test_a_name_of_a_column_inside_a_repair_is_refused_at_no_cost():
    ledger = PrivacyLedger(50.0, 1e-3)
    model = logistic(sensitive_features="sex", groups=None, bounds=None, data_norm=1.0)
    search = DPGridSearchCV(decisions(model), {}, ledger=ledger)
    with pytest.raises(ValueError, match="names a column but X has no column names"):
        search.fit(X, Y, sensitive_features=GROUP)
    assert ledger.spends() == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(penalty="l1"),
        LogisticRegression(solver="liblinear", penalty=None),
        LogisticRegression(dual=True),
        Ridge(positive=True, solver="lsqr"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused_at_no_cost(model):
    """Each alone is one that a model takes; its fit, behind what had spent, refused."""
    ledger, repair = PrivacyLedger(50.0, 1e-3), numbers
    if is_classifier(model):
        repair = decisions
    for inner in (model, make_pipeline(StandardScaler(), model)):
        with pytest.raises(ValueError, match=f"^{type(model).__name__}: "):
            repair(inner, ledger=ledger).fit(X, Y, sensitive_features=GROUP)
        for last in (inner, repair(inner)):
            with pytest.raises(ValueError, match=f"^{type(model).__name__}: "):
                encoded(last, ledger).fit(X, Y)
    assert ledger.spends() == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("repair", [decisions, numbers, None])
def test_groups_with_labels_that_no_classifier_takes_are_numbered(repair, listed):
    """A blind repair had spent when its model of the groups refused their labels."""
    labels = GROUP * 1j
    model = logistic() if repair is decisions else regression()
    one = scores() if repair is None else repair(model, blind=True)
    one.set_params(groups=[0, 1j] if listed else None)
    accepted(one, X=X[:, :1], groups=labels)
    assert one.group_estimator_.classes_.tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore")
def test_numbers_between_integers_are_no_labels_of_scikit_learn():
    """They are those of groups to ours; another model had spent when it said no."""
    tree, halves = DecisionTreeClassifier(max_depth=1), GROUP + 0.5
    repair = numbers(regression(), blind=True).set_params(groups=[0.5, 1.5])
    accepted(clone(repair), groups=halves)
    accepted(numbers(regression(), blind=True, group_estimator=tree))
    ledger = PrivacyLedger(50.0, 1e-3)
    repair.set_params(ledger=ledger, group_estimator=make_pipeline(tree))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        repair.fit(X, Y, sensitive_features=halves)
    repair = decisions(tree, ledger=ledger).set_params(classes=[0.5, 1.5])
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        repair.fit(X, Y + 0.5, sensitive_features=GROUP)
    assert ledger.spends() == []


@pytest.mark.parametrize("weights", [{5: 1.0}, {"0": 2.0, "1": 1.0}])
@pytest.mark.parametrize(
    "model", [LogisticRegression(), RandomForestClassifier(n_estimators=1), LinearSVC()]
)
def test_weights_of_other_labels_are_refused_at_no_cost(model, weights):
    """A repair, or an encoder, had spent when it said so."""
    said = "names labels that y does not have"
    wrong, right = (clone(model).set_params(class_weight=w) for w in (weights, {1: 2}))
    with pytest.raises(ValueError, match="not in class_weight"):
        clone(wrong).fit(X, Y)
    ledger = PrivacyLedger(50.0, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        with pytest.raises(ValueError, match=said):
            encoded(wrong, ledger).fit(X, Y)
        assert ledger.spends() == []
        encoded(right, ledger).fit(X, Y)
    if hasattr(model, "predict_proba"):
        refused(decisions(wrong), said)
        accepted(decisions(right))
    # Those are numbers of the labels there.
    trees = HistGradientBoostingClassifier(max_iter=1, class_weight={0: 1.0, 1: 2.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        encoded(trees, ledger).fit(X, np.where(Y, "u", "v"))


def trees(*names, **more):
    tree = DecisionTreeClassifier(max_depth=1)
    return VotingClassifier([(name, tree) for name in names], voting="soft", **more)


def logarithms(y):
    LOGS.append(len(y))
    return np.log(y)


def tuned(model, refit=False):
    return TunedThresholdClassifierCV(model, cv="prefit", refit=refit)


def stacked(model):
    return StackingClassifier([("a", model)], LogisticRegression(), cv="prefit")


LOGS: list[int] = []
DONE = FrozenEstimator(tuned(FITTED).fit(X, Y))  # of none other than itself
NUMBERS = StackingRegressor([("a", Ridge().fit(X, Y))], Ridge(), cv="prefit").fit(X, Y)
FOLDS = np.array([[range(15), range(15, 30)], [range(15, 30), range(15)]])
MADE_OF_OTHERS = {
    "weights": (trees("a", weights=[1, 2]), trees("a", "b", weights=[1, 2])),
    "names": (trees("a", "a"), trees("a", "b")),
    "none": (trees(), trees("a")),
    "dropped": (trees("a").set_params(a="drop"), trees("a", "b").set_params(a="drop")),
    "bags": (
        BaggingClassifier(n_estimators=1, oob_score=True, bootstrap=False),
        BaggingClassifier(n_estimators=1, max_samples=0.5, bootstrap=False),
    ),
    "logarithms": (
        TransformedTargetRegressor(Ridge(), func=logarithms, inverse_func=np.exp),
        TransformedTargetRegressor(Ridge(), func=np.expm1, inverse_func=np.log1p),
    ),
    "own": (VotingRegressor([("a__b", Ridge())]), VotingRegressor([("a", Ridge())])),
    "as fitted": (tuned(FITTED), tuned(FrozenEstimator(FITTED))),
    "and again": (tuned(FrozenEstimator(FITTED), refit=True), DONE),
    "fitted itself": (tuned(FITTED).fit(X, Y), FrozenEstimator(NUMBERS)),
    "folds": (
        stacked(FITTED).fit(X, Y),
        GridSearchCV(LogisticRegression(), {}, cv=2),
    ),
    "stacked": (stacked(FITTED), stacked(FrozenEstimator(FITTED))),
    "a pair": (
        make_pipeline(PLSRegression(1), Ridge()),
        make_pipeline("passthrough", PLSRegression(1)),
    ),
    "frozen": (
        trees("a", "a"),
        VotingClassifier([("a", FrozenEstimator(FITTED))], voting="soft"),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", MADE_OF_OTHERS)
def test_what_is_made_of_plain_models_is_tried_on_stand_ins_at_no_cost(kind):
    """A repair, or an encoder, had spent on what no table is fitted to."""
    wrong, right = MADE_OF_OTHERS[kind]
    ledger, n_logs = PrivacyLedger(50.0, 1e-3), len(LOGS)
    for model in (wrong, right):
        repair = decisions if is_classifier(model) else numbers
        if model is wrong:
            refused(repair(model), "")
            with pytest.raises(ValueError):
                encoded(model, ledger).fit(X, Y)
            assert ledger.spends() == []
        else:
            accepted(repair(model))
            if "Frozen" not in repr(model):  # to other columns
                encoded(clone(model), ledger).fit(X, Y)
    assert (len(LOGS) > n_logs) == (kind == "logarithms")


WHOLE = {
    "scaler": [StandardScaler(), logistic(bounds=None)],
    "vote": [vote(logistic(bounds=None))],
    "search": [DPGridSearchCV(logistic(bounds=None), {})],
    "threshold": [FixedThresholdClassifier(logistic(bounds=None))],
    "pipeline": [make_pipeline("passthrough", Normalizer()), logistic(bounds=None)],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WHOLE)
def test_batches_that_a_later_step_does_not_read_cost_no_budget(kind):
    batches = Batches(lambda: [(X[:30], Y[:30], None), (X[30:], Y[30:], None)])
    ledger, steps = PrivacyLedger(50.0, 1e-3), map(clone, WHOLE[kind])
    pipeline = with_budget(make_pipeline(DPTableEncoder(ledger=ledger), *steps), 3.0)
    with pytest.raises(TypeError, match="needs the whole table in memory"):
        pipeline.fit(batches)
    assert ledger.spends() == []
    pipeline.fit(X, Y)
    assert len(ledger.spends()) == 1
    done = FrozenEstimator(DPTableEncoder().fit(X))
    between = "passthrough", make_pipeline(FunctionTransformer())
    steps = done, *between, DPTableEncoder(), logistic(bounds=None)
    with_budget(make_pipeline(*steps), 3.0).fit(batches)


class Shifts(BaseEstimator):
    """Takes in `transform` what it does not in `fit`."""

    def fit(self, X, y=None):
        return self

    def transform(self, X, by=0.0):
        return X + by


@pytest.mark.filterwarnings("ignore")
def test_what_routing_hands_a_repair_for_its_model_is_refused_at_no_cost():
    """Its router takes what is asked for inside, and its `fit` does not."""
    with config_context(enable_metadata_routing=True):
        inside = clone(FAIR).set_fit_request(sensitive_features="others")
        ledger, given = PrivacyLedger(50.0, 1e-3), {"sensitive_features": GROUP}
        pipeline = encoded(decisions(inside, max_iter=2), ledger)
        with pytest.raises(TypeError, match="takes no others in fit"):
            pipeline.fit(X, Y, others=GROUP, **given)
        assert ledger.spends() == []
        inside.set_fit_request(sensitive_features=True)
        encoded(decisions(inside, max_iter=2), ledger).fit(X, Y, **given)
        weighted = vote(LogisticRegression().set_fit_request(sample_weight="w"))
        encoded(weighted, ledger).fit(X, Y, w=np.ones(60))
        shifted = Shifts().set_transform_request(by=True), LogisticRegression()
        encoded(make_pipeline(*shifted), ledger).fit(X, Y, by=2.0)
        steps = (DPTableEncoder(ledger=ledger), *shifted)
        with_budget(make_pipeline(*steps), 3.0).fit(X, Y, by=2.0)


@pytest.mark.parametrize(
    "forest",
    [
        RandomForestClassifier(n_estimators=1, bootstrap=False, oob_score=True),
        ExtraTreesClassifier(n_estimators=1, max_samples=5),
        RandomForestRegressor(n_estimators=1, bootstrap=False, max_samples=0.5),
    ],
)
def test_samples_that_no_forest_draws_are_refused_at_no_cost(forest):
    """A repair, or an encoder, had spent when it said so."""
    with pytest.raises(ValueError, match="bootstrap=(False|True)"):
        forest.fit(X, Y)
    repair = decisions if is_classifier(forest) else numbers
    refused(repair(forest), "takes no oob_score")
    ledger = PrivacyLedger(50.0, 1e-3)
    with pytest.raises(ValueError, match="takes no oob_score"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            encoded(forest, ledger).fit(X, Y)
    assert ledger.spends() == []
    accepted(repair(clone(forest).set_params(bootstrap=True)))
    accepted(repair(clone(forest).set_params(oob_score=False, max_samples=None)))


def test_models_that_made_up_rows_do_not_fit_are_left_to_say_what_they_take():
    few = {"early_stopping": True, "validation_fraction": 0.001}
    several = [
        "passthrough",
        None,
        SGDClassifier(**few),  # more rows
        Ridge(alpha=[1.0, 2.0]),  # several targets
        LogisticRegressionCV(cv=150),
        RANSACRegressor(Bare(), min_samples=2),
        LogisticRegression(class_weight={"no": 1, "yes": 2}),  # other labels
        Lars(n_nonzero_coefs=1000),
        PoissonRegressor(),
        logistic(),
        FITTED,
    ]
    before = np.random.get_state()[1].tolist()
    for model in several:
        refuse_together(model)
    assert np.random.get_state()[1].tolist() == before


def test_more_labels_than_a_solver_takes_are_refused_at_no_cost():
    ledger, model = PrivacyLedger(50.0, 1e-3), LogisticRegression(solver="liblinear")
    said = {"match": "^LogisticRegression: .*does not support multiclass"}
    more = {"ledger": ledger, "max_iter": 2}
    with pytest.warns(PrivacyLeakWarning, match="Not private"):
        plain = encoded(model, ledger)
    listed = decisions(model, **more).set_params(classes=[0, 1, 2])
    read = decisions(model, **more).set_params(classes=None)
    blind = decisions(logistic(), blind=True, group_estimator=model, **more)
    blind.set_params(groups=[0, 1, 2])
    with pytest.raises(ValueError, **said):
        plain.fit(X, THREE_LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        for repair, y in [(listed, Y), (read, THREE_LABELS), (blind, Y)]:
            with pytest.raises(ValueError, **said):
                repair.fit(X, y, sensitive_features=GROUP)
        assert ledger.spends() == []
        plain.fit(X, Y)
        decisions(model, **more).fit(X, Y, sensitive_features=GROUP)


class Others(DummyClassifier):
    """A class of another package."""


class Numbered(Others):
    """As XGBClassifier: it takes no labels but numbers from 0 on."""

    def fit(self, X, y):
        if np.unique(y).tolist() != list(range(len(np.unique(y)))):
            raise ValueError("Invalid classes")
        return super().fit(X, y)


def test_labels_that_a_model_of_another_package_takes_no_numbers_for_cost_nothing():
    ledger, text = PrivacyLedger(50.0, 1e-3), np.where(Y > 0, "yes", "no")
    group = np.where(GROUP > 0, "f", "m")
    more = {"ledger": ledger, "max_iter": 2}
    plain = decisions(Numbered(), **more).set_params(classes=["no", "yes"])
    blind = decisions(logistic(), blind=True, group_estimator=Numbered(), **more)
    blind.set_params(groups=["f", "m"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        for repair, y, groups in [(plain, text, GROUP), (blind, Y, group)]:
            with pytest.raises(ValueError, match="^Numbered takes no .* from 0 to 1: "):
                repair.fit(X, y, sensitive_features=groups)
        assert ledger.spends() == []
        decisions(Numbered(), **more).fit(X, Y, sensitive_features=GROUP)
        plain.set_params(estimator=Others()).fit(X, text, sensitive_features=GROUP)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "basis", ["dct", np.eye(2), "auto", "identity"], ids=["dct", "own", "auto", "none"]
)
def test_a_basis_of_columns_that_an_encoder_learns_is_refused_at_no_cost(basis):
    ledger = PrivacyLedger(50.0, 1e-3)
    generator = DPSlicedWassersteinGenerator(bounds=(0, 1), basis=basis)
    if isinstance(basis, str) and basis != "dct":
        encoded(generator, ledger).fit(X)
        assert len(ledger.spends()) == 1
        return
    with pytest.raises(ValueError, match='basis must be "auto" or "identity" there'):
        encoded(generator, ledger).fit(X)
    assert ledger.spends() == []


# --- steps and searches of scikit-learn -----------------------------------------------


def steps(*named):
    return Pipeline([*named, ("model", LogisticRegression())])


def union(*named):
    return make_pipeline(FeatureUnion([*named]), LogisticRegression())


SCALER, PLAIN = StandardScaler(), LogisticRegression()
NO_STEPS = {
    "same": (steps(("a", SCALER), ("a", SCALER)), "not unique: ['a', 'a'"),
    "inside": (
        steps(("b", Pipeline([("c", SCALER), ("c", SCALER)]))),
        "not unique: ['c', 'c'",
    ),
    "union": (union(("a", SCALER), ("a", SCALER)), "not unique: ['a', 'a'"),
    "argument": (steps(("a__b", SCALER)), "must not contain __"),
    "model": (steps(("a", PLAIN)), "should be transformers"),
    "text": (steps(("a", "scaler")), "should be transformers"),
    "name": (GridSearchCV(PLAIN, {"c": [1.0]}), "Invalid parameter 'c'"),
    "names": (GridSearchCV(PLAIN, [{"C": [1]}, {"c": [1]}]), "Invalid parameter 'c'"),
    "drawn": (RandomizedSearchCV(PLAIN, {"c": [1.0]}), "Invalid parameter 'c'"),
    "values": (GridSearchCV(PLAIN, {"C": [-1.0, -2.0]}), "The 'C' parameter of Log"),
    "network": (MLPClassifier((-1,)), "hidden_layer_sizes must be > 0"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", NO_STEPS)
def test_steps_and_candidates_of_scikit_learn_are_looked_at_at_no_cost(wrong):
    """A repair, or an encoder, had spent when their fit said so."""
    model, said = NO_STEPS[wrong]
    with pytest.raises((TypeError, ValueError)):
        clone(model).fit(X, Y)
    ledger = PrivacyLedger(50.0, 1e-3)
    for fitted in (decisions(clone(model), ledger=ledger), encoded(model, ledger)):
        given = {} if isinstance(fitted, Pipeline) else {"sensitive_features": GROUP}
        with pytest.raises((TypeError, ValueError), match=re.escape(said)):
            fitted.fit(X, Y, **given)
    assert ledger.spends() == []


@pytest.mark.filterwarnings("ignore")
def test_candidates_of_which_some_are_valid_are_left_to_their_search():
    grid = {"C": [-1.0, 1.0], "penalty": ["l1", "l2"]}
    drawn, depth = {"C": np.array([1.0, 2.0])}, {"m__max_depth": [1]}
    for model in (
        GridSearchCV(PLAIN, grid, cv=2),
        GridSearchCV(make_pipeline(PLAIN), {"steps": [[("m", TREE)]], **depth}, cv=2),
        RandomizedSearchCV(PLAIN, drawn, n_iter=1, cv=2),
        RandomizedSearchCV(PLAIN, {"C": [-1.0, 1.0]}, n_iter=2, cv=2),
        RandomizedSearchCV(PLAIN, {"C": [1.0, -1.0]}, n_iter=2, cv=2),
    ):
        accepted(decisions(model, max_iter=2))


def test_a_network_of_scikit_learn_is_tried_for_a_round(monkeypatch):
    """All of them took a minute of a large one, and more."""
    heard = []
    fit = MLPClassifier.fit
    monkeypatch.setattr(
        MLPClassifier, "fit", lambda m, *a: heard.append(m.max_iter) or fit(m, *a)
    )
    refuse_together(MLPClassifier((2,), max_iter=900))
    assert heard == [1]


WIDTHS = {
    "components": (PCA(3), PCA(2)),
    "parts": (TruncatedSVD(3), TruncatedSVD(2)),
    "variance": (None, PCA(0.9)),
    "categories": (
        HistGradientBoostingClassifier(categorical_features=[2]),
        HistGradientBoostingClassifier(max_iter=1, categorical_features=[1]),
    ),
    "slopes": (
        HistGradientBoostingClassifier(monotonic_cst=[0, 0, 1]),
        HistGradientBoostingClassifier(max_iter=1, monotonic_cst=[0, 1]),
    ),
    "tree": (
        DecisionTreeRegressor(monotonic_cst=[0, 0, 1]),
        DecisionTreeRegressor(monotonic_cst=[0, 1]),
    ),
}


@pytest.mark.parametrize("kind", WIDTHS)
def test_steps_for_other_columns_are_refused_at_no_cost(kind):
    """Of three columns the repair takes out the one that holds the groups."""
    table, ledger = np.column_stack([X, GROUP]), PrivacyLedger(50.0, 1e-3)
    for step in filter(None, WIDTHS[kind]):
        model = step
        if not (is_classifier(step) or is_regressor(step)):
            model = make_pipeline(SCALER, step, PLAIN)
        make = numbers if is_regressor(model) else decisions
        repair = make(model, sensitive_features=[2], ledger=ledger)
        if step is not WIDTHS[kind][0]:
            repair.fit(table, Y)
            continue
        step.fit(table, Y)
        with pytest.raises(ValueError, match=f"^{type(step).__name__}: "):
            repair.fit(table, Y)
        assert ledger.spends() == []
    assert len(ledger.spends()) == 1


@pytest.mark.parametrize("n_columns", [300, 600])
def test_columns_of_a_wide_table_are_taken(n_columns):
    """Made-up cells are of few categories; of very wide tables none are made up."""
    places = HistGradientBoostingClassifier(max_bins=3, categorical_features=[299])
    refuse_widths(places, n_columns)
    refuse_widths(PCA(30), n_columns)
    slopes = HistGradientBoostingClassifier(monotonic_cst=[1] * 299)
    if n_columns == 600:
        refuse_widths(slopes, n_columns)
        return
    with pytest.raises(ValueError, match="monotonic_cst has shape"):
        refuse_widths(slopes, n_columns)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: CalibratedClassifierCV(model, cv=2),
        lambda model: AdaBoostClassifier(model, n_estimators=1),
        lambda model: TunedThresholdClassifierCV(make_pipeline(SCALER, model), cv=2),
    ],
)
def test_labels_that_a_model_inside_a_plain_one_takes_no_numbers_for(wrap):
    ledger, text = PrivacyLedger(50.0, 1e-3), np.where(Y > 0, "yes", "no")
    repair = decisions(wrap(Numbered()), ledger=ledger, max_iter=2)
    with pytest.raises(ValueError, match="^Numbered takes no .* from 0 to 1: "):
        clone(repair).set_params(classes=["no", "yes"], ledger=ledger).fit(
            X, text, sensitive_features=GROUP
        )
    assert ledger.spends() == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", [None, [0, 1]])
def test_a_fitted_model_of_other_classes_in_a_search_is_refused_at_no_cost(classes):
    """It was refused by the first fit of the search, which had spent."""
    ledger, known = PrivacyLedger(50.0, 1e-3), LogisticRegression()
    repair = decisions(**frozen(known.fit(X, 2 * Y))).set_params(classes=None)
    given = {"groups": [0, 1], "classes": classes, "ledger": ledger}
    with pytest.raises(ValueError, match="The wrapped estimator knows a class"):
        DPGridSearchCV(repair, {}, **given).fit(X, Y, sensitive_features=GROUP)
    with pytest.raises(ValueError, match="The wrapped estimator knows a class"):
        dp_cross_validate(repair, X, Y, sensitive_features=GROUP, **given)
    assert ledger.spends() == []


def test_what_is_tried_on_made_up_rows_shows_no_errors_of_others(monkeypatch):
    """An interrupt amid the trial would have left them shown for the fits to come."""
    shown = []
    look = lambda self, X, y: shown.append(guarded._shown.is_on)  # noqa: E731
    monkeypatch.setattr(LogisticRegression, "fit", look)
    refuse_together(LogisticRegression())
    assert shown == [False]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (VotingClassifier([], voting="soft"), "Invalid 'estimators' attribute"),
        (
            VotingClassifier([("a", LinearRegression())], voting="soft"),
            "should be a classifier",
        ),
        (
            CalibratedClassifierCV(FrozenEstimator(LogisticRegression())),
            "is not fitted",
        ),
        (CalibratedClassifierCV(FrozenEstimator(DOUBLED)), "was fitted to 4 columns"),
        (
            VotingClassifier([("a", FrozenEstimator(DOUBLED))], voting="soft"),
            "was fitted to 4 columns, and is handed 2 here",
        ),
        (
            GridSearchCV(LogisticRegression(), {}, cv=FOLDS),
            "cv of GridSearchCV names folds by their numbers in the whole table",
        ),
        (
            make_pipeline(LogisticRegressionCV(cv=PredefinedSplit(np.arange(60) % 2))),
            "cv of LogisticRegressionCV names folds by",
        ),
    ],
)
def test_what_stands_around_models_inside_a_repair_is_looked_at(wrong, said):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        refused(decisions(wrong), said)


def test_models_inside_others_that_a_repair_can_fit():
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b"])
    wide = pytest.importorskip("pandas").concat([frame, frame + 1], axis=1)
    wide.columns = [*"abcd"]
    chosen = make_pipeline(
        ColumnTransformer([("kept", "passthrough", ["a", "b"])]), LogisticRegression()
    ).fit(wide, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        encoded(GridSearchCV(LogisticRegression(), {}, cv=FOLDS), None).fit(X, Y)
        for cv in (2, KFold(2), None):
            accepted(decisions(GridSearchCV(LogisticRegression(), {}, cv=cv)))
        accepted(decisions(TunedThresholdClassifierCV(LogisticRegression(), cv=0.3)))
        again = FrozenEstimator(FITTED)
        accepted(decisions(TunedThresholdClassifierCV(again, cv="prefit", refit=False)))
        accepted(decisions(CalibratedClassifierCV(FrozenEstimator(FITTED))))
        votes = VotingClassifier([("a", FrozenEstimator(chosen))], voting="soft")
        accepted(decisions(votes), frame)


@pytest.mark.parametrize("cell", [0.5, np.nan])
def test_rows_in_a_list_that_go_by_an_encoder(cell):
    """A list has no shape, of which Python told."""
    ledger = PrivacyLedger(50.0, 1e-3)
    by = FeatureUnion([("a", DPTableEncoder(ledger=ledger)), ("b", "passthrough")])
    model = with_budget(make_pipeline(by, logistic(bounds=None, data_norm=1.0)), 3.0)
    rows = [[cell, 0.5], *X[1:].tolist()]
    if cell == 0.5:
        model.fit(rows, Y)
        return
    for wrong, said in [(rows, "Input X contains NaN"), (X[:, 0], "Expected 2D array")]:
        with pytest.raises(ValueError, match=said):
            model.fit(wrong, Y)
    assert ledger.spends() == []


@pytest.mark.parametrize("several", [MultiOutputClassifier, ClassifierChain])
def test_a_model_of_several_targets_behind_an_encoder_costs_nothing(several):
    ledger = PrivacyLedger(50.0, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        model = encoded(several(LogisticRegression()), ledger)
        with pytest.raises(ValueError, match=f"{several.__name__} takes several targ"):
            model.fit(X, Y)
        assert ledger.spends() == []
        model.fit(X, BOTH)


def test_a_fitted_model_inside_another_behind_an_encoder_is_refused_at_no_cost():
    ledger = PrivacyLedger(50.0, 1e-3)
    done = FrozenEstimator(FITTED)
    stack = StackingClassifier([("a", done)], LogisticRegression(), cv="prefit")
    for around in (CalibratedClassifierCV(done), stack):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            with pytest.raises(ValueError, match="is fitted already and stands behind"):
                encoded(around, ledger).fit(X, Y)
    assert ledger.spends() == []


def test_what_a_repair_wraps_is_rehearsed_before_an_encoder_spends():
    """The repair found it out, when the encoder had spent."""
    ledger = PrivacyLedger(50.0, 1e-3)
    wrong = LogisticRegression(class_weight={7: 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        model = encoded(decisions(wrong, ledger=ledger), ledger)
        with pytest.raises(ValueError, match="names labels that y does not have"):
            model.fit(X, Y, dp2dpclassifier__sensitive_features=GROUP)
    assert ledger.spends() == []


@CONDITIONAL
def test_a_function_of_a_target_is_not_asked_about_rows_that_nobody_can_pay_for():
    """An exhausted ledger would go on to tell what a function says of a target."""
    asked = []

    def look(y):
        asked.append(y)
        return y

    about = {"func": look, "inverse_func": look, "check_inverse": False}
    model = TransformedTargetRegressor(regression(), **about)
    for epsilon, error in [(0.1, BudgetExceededError), (50.0, None)]:
        repair = numbers(model, ledger=PrivacyLedger(epsilon, 1e-3))
        with contextlib.nullcontext() if error is None else pytest.raises(error):
            repair.fit(X, Y, sensitive_features=GROUP)
        assert bool(asked) == (error is None)


def test_a_fitted_model_behind_columns_that_are_learnt_anew_is_refused_at_no_cost():
    """They are not those that it was fitted to, also where it is as many."""
    ledger = PrivacyLedger(50.0, 1e-3)
    done = FrozenEstimator(logistic(bounds=None).fit(X, Y))
    repair = decisions(done, ledger=ledger)
    for last in (done, repair, make_pipeline("passthrough", done)):
        given = {"sensitive_features": GROUP} if last is repair else {}
        with pytest.raises(ValueError, match="is fitted already and stands behind"):
            encoded(last, ledger).fit(X, Y, **given)
    assert ledger.spends() == []
    # What an encoder hands on that is fitted, or learns nothing, is what it was.
    ends = np.full(FROZEN.transform(X).shape[1], 2.0)
    bounded = regression(bounds=(-ends, ends))
    with_budget(make_pipeline(FROZEN, bounded), 9.0).fit(X, Y)
    pandas = pytest.importorskip("pandas")
    words = pandas.DataFrame({"a": np.where(Y, "yes", "no")})
    declared = DPTableEncoder(codebook={"a": ["no", "yes"]})
    done.estimator.fit(declared.fit_transform(words), Y)
    with_budget(make_pipeline(declared, done), 3.0).fit(words, Y)
    done.estimator.fit(FROZEN.transform(X), Y)
    with_budget(make_pipeline(FROZEN, repair), 9.0).fit(X, Y, sensitive_features=GROUP)


@pytest.mark.parametrize("blind", [False, True])
def test_a_range_that_is_read_from_a_target_has_squares(blind):
    """Beyond it a repair had spent when its arithmetic overflowed."""
    ledger = PrivacyLedger(50.0, 1e-3)
    repair = numbers(regression(), ledger=ledger, blind=blind)
    large = np.where(Y, 1.7e308, -1.7e308)
    with pytest.warns(PrivacyLeakWarning, match="range of the scores"):
        repair.set_params(target_bounds=None).fit(X, large, sensitive_features=GROUP)
    given = {} if blind else {"sensitive_features": GROUP}
    assert np.isfinite(repair.predict(X, **given)).all()


@CONDITIONAL
def test_a_target_is_looked_at_first_by_what_a_vote_hands_it_on_to():
    ledger = PrivacyLedger(50.0, 1e-3)
    model = logistic(bounds=None, data_norm=1.0)
    third = encoded(vote(FixedThresholdClassifier(model)), ledger)
    with pytest.raises(ValueError, match="refused"):
        third.fit(X, THREE_LABELS)
    beside = VotingClassifier([("a", model), ("b", LogisticRegression())])
    with pytest.warns(PrivacyLeakWarning, match="Not private"):
        beside = encoded(beside, ledger)
    with pytest.raises(ValueError, match="refused"):
        beside.fit(X, np.zeros(len(X), dtype=int))
    assert ledger.spends() == []
    third.fit(X, Y)
    beside.fit(X, Y)


def test_a_pipeline_of_one_budget_that_predicts_its_rows_asks_first():
    ledger = PrivacyLedger(50.0, 1e-3)
    with pytest.warns(PrivacyLeakWarning, match="Not private: dbscan"):
        pipeline = encoded(DBSCAN(eps=0), ledger)
    with pytest.raises(ValueError, match="'eps' parameter of DBSCAN"):
        pipeline.fit_predict(X)
    assert ledger.spends() == []
    pipeline[-1].eps = 0.5
    assert len(pipeline.fit_predict(X)) == len(X) and len(ledger.spends()) == 1
    assert not hasattr(encoded(FAIR, None), "fit_predict")


def test_a_pipeline_of_one_budget_keeps_no_cache(tmp_path):
    ledger = PrivacyLedger(50.0, 1e-3)
    pipeline = encoded(logistic(bounds=None), ledger).set_params(memory=str(tmp_path))
    with pytest.raises(ValueError, match="takes memory=None"):
        pipeline.fit(X, Y)
    assert ledger.spends() == [] and not list(tmp_path.iterdir())


@pytest.mark.parametrize("n_rows", [60, 1])
@pytest.mark.parametrize("delta", [1e-5, 1e-3])
def test_a_ledger_has_room_for_all_steps_or_none_spends(delta, n_rows):
    """Also where it is measured at another delta, and where records are few."""
    pipeline = encoded(logistic(bounds=None, data_norm=1.0), None, epsilon=1.0)
    pipeline.set_params(**dict.fromkeys(least(pipeline), 50))

    def spends(room):
        ledger = PrivacyLedger(room, delta)
        paid = clone(pipeline)
        paid.set_params(
            dptableencoder__ledger=ledger,
            dpwassersteinlogisticregression__ledger=ledger,
        )
        try:
            paid.fit(X[:n_rows], Y[:n_rows])
        except BudgetExceededError:
            return ledger.spends(), None
        return ledger.spends(), ledger.total().epsilon

    paid, total = spends(50.0)
    assert [one["epsilon"] > 0 for one in paid] == [n_rows == 60, True]
    assert total <= 1.0
    room = 1.03 if n_rows == 1 else 1.002  # a constant may cost .97 of the whole
    assert spends(room * total)[1] == pytest.approx(total, rel=1e-5)
    assert spends(0.998 * total) == ([], None)

    # Others' ledgers are asked when they are to pay.
    class Other:
        def spend(self, guarantee, label):
            raise BudgetExceededError("no")

    pipeline.set_params(dpwassersteinlogisticregression__ledger=Other())
    with pytest.raises(BudgetExceededError, match="no"):
        pipeline.fit(X, Y)


class Stops(StandardScaler):
    def fit(self, X, y=None):
        raise ValueError("half-way")


@pytest.mark.parametrize("around", [lambda m: m, FixedThresholdClassifier])
def test_a_pipeline_of_one_budget_that_fails_half_way_is_unfitted(around):
    """A new encoder beside the model of an earlier fit has another guarantee."""
    fixed = DPTableEncoder()
    model = encoded(make_pipeline("passthrough", around(logistic(bounds=None))), None)
    model.fit(X, Y)
    assert privacy_report(model).guarantee.epsilon <= 3.0
    before = model.predict(X)
    with pytest.raises(ValueError, match="y contains a label"):  # nothing was spent
        model.fit(X, Y + 1)
    assert np.array_equal(model.predict(X), before)
    model.set_params(pipeline__passthrough=Stops())
    with pytest.raises(ValueError, match="half-way"):
        model.fit(X, Y)
    for ask in (privacy_report, lambda one: one.predict(X)):
        with pytest.raises(NotFittedError):
            ask(model)
    # Side by side they are fitted where they stand, and so are those in a pipeline.
    several = union(DPTableEncoder(), StandardScaler(), make_pipeline(DPTableEncoder()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        model = with_budget(make_pipeline(several, logistic(bounds=None)), 3.0)
    model.fit(X, Y).set_params(featureunion__step1=Stops())
    parts = dict(model[0].transformer_list)
    inside = parts["step0"], parts["step2"][0]
    with pytest.raises(ValueError, match="half-way"):
        model.fit(X, Y)
    assert [hasattr(one, "privacy_") for one in inside] == [True, False]
    # What is frozen stays.
    done = FrozenEstimator(fixed.fit(X))
    whole = with_budget(make_pipeline(done, logistic(bounds=None)), 3.0).fit(X, Y)
    assert privacy_report(whole.fit(X, Y)).guarantee.epsilon < np.inf


@pytest.mark.parametrize(
    "model",
    [
        regression(bounds=None),
        logistic(bounds=None),
        decisions(logistic(bounds=None), blind=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_behind_another_fit_of_its_encoder(model):
    """A plain pipeline keeps the old model where its second fit fails half-way."""
    fitting = {}
    if hasattr(model, "blind"):
        fitting = {"dp2dpclassifier__sensitive_features": GROUP}
    whole = make_pipeline(DPTableEncoder(epsilon=5.0), model).fit(X, Y, **fitting)
    before = whole.predict(X)
    spent = privacy_report(whole).guarantee.epsilon
    assert 5.0 < spent + 0.2 < np.inf
    for same in (pickle.loads(pickle.dumps(whole)), Pipeline(whole.steps)):
        assert np.array_equal(same.predict(X), before)
        assert privacy_report(same).guarantee.epsilon == spent
    apart = [pickle.loads(pickle.dumps(step)) for _, step in whole.steps]
    assert np.array_equal(apart[1].predict(apart[0].transform(X)), before)

    whole.set_params(dptableencoder__epsilon=0.1)
    with pytest.raises(ValueError):
        whole.fit(50.0 * X, ["none"] * len(X), **fitting)
    found = privacy_report(whole)
    assert found.guarantee.epsilon == np.inf
    assert [step.status for step in found.steps] == ["private", "uncovered"]
    assert "another fit of the encoder" in found.steps[1].fix
    methods = ["predict", "predict_proba"] if is_classifier(model) else ["predict"]
    for method in methods:
        with pytest.raises(ValueError, match="another fit of the encoder"):
            getattr(whole, method)(X)
    with pytest.raises(ValueError, match="another fit of the encoder"):
        whole[-1].predict(X=whole[0].transform(X))
    again = whole.fit(X, Y, **fitting)
    assert len(again.predict(X)) == len(X)
    assert privacy_report(again).guarantee.epsilon < 5.0


def half_fitted(transformer, *between, output="default"):
    """A plain pipeline whose second fit, at another price, failed in the model."""
    model = regression(bounds=(-5, 5))
    whole = make_pipeline(transformer, *between, model).set_output(transform=output)
    whole.fit(X, Y)
    first = privacy_report(whole).guarantee
    assert 4.9 < first.epsilon < 6.1
    whole[0].set_params(epsilon=0.1)
    with pytest.raises(ValueError):
        whole.fit(50.0 * X, ["none"] * len(X))
    return whole, first


TRANSFORMERS = [
    DPTableEncoder(epsilon=5.0),
    DPBarycenterTransformer(
        epsilon=5.0, bounds=(-5, 5), groups=[0, 1], sensitive_features=lambda X: GROUP
    ),
    DPWassersteinAutoencoder(
        epsilon=5.0, bounds=(-5, 5), groups=[0, 1], fairness_weight=0.0, max_iter=2,
        sensitive_features=lambda X: GROUP,
    ),
]  # fmt: skip


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda t: type(t).__name__)
def test_a_model_behind_another_fit_of_any_transformer(transformer, output):
    """Whatever `set_output` makes of the answers; the first fit was left out."""
    if output != "default":
        pytest.importorskip(output)
    whole, _ = half_fitted(clone(transformer), output=output)
    found = privacy_report(whole)
    assert [step.status for step in found.steps][-1] == "uncovered"
    assert found.guarantee.epsilon == np.inf
    with pytest.raises(ValueError, match="another fit of the encoder"):
        whole.predict(X)
    assert privacy_report(whole.fit(X, Y)).guarantee.epsilon < 1.2
    assert len(whole.predict(X)) == len(X)


@pytest.mark.parametrize("seed, second", [(None, 1.0), (None, 5.0), (0, 1.0)])
def test_fits_that_published_the_same_are_told_apart(seed, second):
    """Of two that learnt the same categories the cheaper one was stated."""
    rows = np.where(np.arange(2000)[:, None] % 2, "u", "v").astype(object)
    target = rows[:, 0] == "u"
    encoder = DPTableEncoder(epsilon=5.0, random_state=seed)
    whole = make_pipeline(encoder, regression(bounds=None))
    first = whole.fit(rows, target)[0].codebook_
    whole.set_params(dptableencoder__epsilon=second)
    with pytest.raises(ValueError):
        whole.fit(rows, ["none"] * len(rows))
    assert whole[0].codebook_ == first
    assert privacy_report(whole).guarantee.epsilon == np.inf
    with pytest.raises(ValueError, match="another fit of the encoder"):
        whole.predict(rows)


def test_a_model_far_behind_another_fit():
    """Inside of other steps, and behind one that does nothing."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    columns = ColumnTransformer([("all", DPTableEncoder(epsilon=5.0), ["a", "b"])])
    columns.set_params(verbose_feature_names_out=False).set_output(transform="pandas")
    for first, last in (
        (DPTableEncoder(epsilon=5.0), make_pipeline(regression(bounds=None))),
        (make_pipeline(None, DPTableEncoder(epsilon=5.0)), regression(bounds=None)),
        (make_pipeline(DPTableEncoder(epsilon=5.0), None), regression(bounds=None)),
        (columns, regression(bounds=None)),
    ):
        whole = make_pipeline(first, "passthrough", last).fit(frame, Y)
        assert 4.9 < privacy_report(whole).guarantee.epsilon < 6.1
        with pytest.raises(ValueError):
            whole.fit(50.0 * frame, ["none"] * len(X))
        assert privacy_report(whole).guarantee.epsilon == np.inf
        with pytest.raises(ValueError, match="another fit of the encoder"):
            whole.predict(frame)


def test_steps_of_one_fit_are_behind_each_other():
    """Inside of another step, and where the table itself came from an encoder."""
    inner = make_pipeline(DPTableEncoder(epsilon=2.0), regression(bounds=None))
    whole = make_pipeline(DPTableEncoder(), inner).fit(X, Y)
    codes = DPTableEncoder(epsilon=2.0).fit(X).transform(X)
    behind = make_pipeline(DPTableEncoder(), regression(bounds=None)).fit(codes, Y)
    for one in (whole, behind):
        assert privacy_report(one).guarantee.epsilon < np.inf
        assert "behind" not in str(privacy_report(one))


def test_what_a_step_between_hides_is_assumed():
    """Nothing tells whose columns a model sees then."""
    whole, first = half_fitted(DPTableEncoder(epsilon=5.0), Normalizer())
    said = "(DPLinearRegression) was fitted behind these fits of the steps before it"
    assert any(said in text for text in first.assumptions)
    assert said in str(privacy_report(whole).guarantee)
    # A pipeline of one budget is unfitted there, and assumes nothing.
    steps = make_pipeline(DPTableEncoder(), Normalizer(), regression(bounds=None))
    for one in (with_budget(steps, 1.0), regression(bounds=None), DPTableEncoder()):
        assert "behind these" not in str(privacy_report(one.fit(X, Y)).guarantee)


def test_rows_of_a_frame_know_the_fit_that_gave_them():
    pytest.importorskip("pandas")
    encoder = DPTableEncoder(epsilon=5.0).set_output(transform="pandas")
    old, new = train_test_split(encoder.fit(X).transform(X), random_state=0)
    model = regression(bounds=None).fit(old, Y[: len(old)])
    assert len(model.predict(new)) == len(new)
    assert len(model.predict(new.iloc[::2].copy())) == len(new[::2])
    with pytest.raises(ValueError, match="another fit of the encoder"):
        model.predict(encoder.fit(X).transform(X).iloc[:3])


def test_every_transformer_of_ours_remembers_what_it_gave():
    rooms = [
        import_module(f"fairpriv_sklearn.{room}") for room in fairpriv_sklearn.__all__
    ]
    public = [
        getattr(room, name) for room in rooms for name in getattr(room, "__all__", ())
    ]
    found = {one for one in public if hasattr(one, "transform")}
    assert found == set(map(type, TRANSFORMERS))


def test_fits_of_an_encoder_that_differ_in_ranks_only_are_told_apart():
    public = {f"x{i}": {"kind": "number", "range": [-1, 1]} for i in range(2)}
    encoder = DPTableEncoder(public, epsilon=np.inf, random_state=0)

    answers = [encoder.fit(table).transform(X) for table in (X, X**3, X)]
    first, other, again = map(origin, answers)
    assert first == again != other


def test_answers_of_an_encoder_are_forgotten_with_them():
    answer = DPTableEncoder().fit(X).transform(X)
    known = len(_ORIGINS)
    assert origin(answer) is not None
    assert origin(answer[:3]) is origin(answer + 1) is origin(X) is None
    del answer
    assert len(_ORIGINS) == known - 1


def test_each_ledger_has_room_for_its_own_steps():
    pipeline = encoded(logistic(bounds=None, data_norm=1.0), None, epsilon=1.0)
    ledgers = [PrivacyLedger(1.001 * step.epsilon, 1e-5) for _, step in pipeline.steps]
    for (_, step), ledger in zip(pipeline.steps, ledgers, strict=True):
        step.ledger = ledger
    pipeline.fit(X, Y)
    assert [len(ledger.spends()) for ledger in ledgers] == [1, 1]


@pytest.mark.parametrize("shared", [True, False])
def test_ledgers_have_room_for_a_repair_and_what_it_wraps(shared):
    """Of one ledger both take their part; of two each has its own to give."""

    def fit(room):
        short = PrivacyLedger(room, 1e-3)
        own = short if shared else PrivacyLedger(50.0, 1e-3)
        inner = make_pipeline("passthrough", regression(ledger=short))
        with contextlib.suppress(BudgetExceededError):
            numbers(inner, ledger=own).fit(X, Y, sensitive_features=GROUP)
        return short.total().epsilon, len(short.spends()), len(own.spends())

    total, *paid = fit(50.0)
    assert fit(1.01 * total) == (total, *paid) and sum(paid) == 2 + 2 * shared
    assert fit(0.99 * total) == (0.0, 0, 0)


@pytest.mark.parametrize("blind", [False, True])
def test_a_ledger_has_room_for_all_that_pays_inside_before_an_encoder_does(blind):
    """The encoder in front had paid when what stands inside of a repair could not."""
    model = logistic(bounds=None, data_norm=1.0)
    more = {"blind": True, "group_estimator": model} if blind else {}
    pipeline = encoded(decisions(make_pipeline("passthrough", model), **more), None)
    pipeline[-1].epsilon = 0.5  # the model costs more than its repair
    ledgers = [k for k in pipeline.get_params() if k.endswith("__ledger")]

    def fit(room):
        ledger = PrivacyLedger(room, 1e-5)
        pipeline.set_params(**dict.fromkeys(ledgers, ledger))
        with contextlib.suppress(BudgetExceededError):
            pipeline.fit(X, Y, sensitive_features=GROUP)
        return ledger.total().epsilon, len(ledger.spends())

    total, paid = fit(50.0)
    assert fit(1.01 * total)[1] == paid == len(ledgers) == 3 + blind
    assert fit(0.99 * total) == (0.0, 0)


def test_a_ledger_has_room_for_a_constant_inside_before_an_encoder_pays():
    """The table had records enough; those that are left to the model are few."""
    pipeline = encoded(decisions(logistic(bounds=None, data_norm=1.0)), None)
    pipeline[-1].estimator.set_params(min_records=len(X))
    paid = f"{pipeline.steps[-1][0]}__ledger"

    def fit(room):
        ledger = PrivacyLedger(room, 1e-3)  # where a constant is dearer than features
        pipeline.set_params(**{"dptableencoder__ledger": ledger, paid: ledger})
        with contextlib.suppress(BudgetExceededError):
            pipeline.fit(X, Y, sensitive_features=GROUP)
        return ledger.total().epsilon, len(ledger.spends())

    total, n_paid = fit(50.0)
    assert fit(1.01 * total)[1] == n_paid == 2
    assert fit(0.99 * total) == (0.0, 0)


def test_a_search_inside_a_repair_has_room_in_its_ledger():
    own, short = PrivacyLedger(50.0, 1e-3), PrivacyLedger(0.9, 1e-3)
    repair = numbers(search(regression(), ledger=short), ledger=own)
    with pytest.raises(BudgetExceededError, match="Nothing was spent"):
        repair.fit(X, Y, sensitive_features=GROUP)
    assert own.spends() == short.spends() == []


def test_what_is_only_declared_before_a_fit_is_left_to_the_ledger():
    """Noisy batches compose tightly at any delta, their declared cost at one."""
    ledger = PrivacyLedger(50.0, 1e-6)
    model = logistic(batch_size=20, max_iter=2, ledger=ledger)
    decisions(model, ledger=ledger).fit(X, Y, sensitive_features=GROUP)
    assert len(ledger.spends()) == 2


def test_a_model_inside_that_pays_elsewhere_takes_no_room():
    model = decisions(logistic(bounds=None, ledger=PrivacyLedger(50.0, 1e-3)))
    ledger = PrivacyLedger(3.0, 1e-3)
    pipeline = encoded(model.set_params(ledger=ledger), ledger, epsilon=1.0)
    pipeline.set_params(dp2dpclassifier__estimator__epsilon=20.0)
    pipeline.fit(X, Y, dp2dpclassifier__sensitive_features=GROUP)
    assert len(ledger.spends()) == 2
    assert len(pipeline[-1].estimator.ledger.spends()) == 1
    pipeline[-1].estimator.set_params(ledger=None)
    with pytest.raises(BudgetExceededError):
        pipeline.fit(X, Y, dp2dpclassifier__sensitive_features=GROUP)
    assert len(ledger.spends()) == 2


def least(pipeline):
    return [k for k in pipeline.get_params() if k.endswith("__min_records")]


@pytest.mark.parametrize(
    ("model", "y", "said"),
    [
        (logistic(), Y + 1, "y contains a label that is not in classes"),
        (
            FixedThresholdClassifier(logistic(), threshold=0.5),
            Y + 1,
            "y contains a label that is not in classes",
        ),
        (logistic(), np.where(Y, 1.0, np.nan), "y has a row without a label"),
        (logistic(), Y[:-1], "need a row for each record"),
        (logistic(), None, "requires y to be passed"),
        (logistic(), np.column_stack([Y, Y]), "should be a 1d array"),
        (regression(), np.where(Y, 1.0, np.nan), "y contains NaN: leave out the rows"),
        (
            regression(),
            np.where(Y, "John", "1"),
            "y has a cell that cannot .*; parse_cells in",
        ),
    ],
)
def test_a_pipeline_of_one_budget_looks_at_the_target_first(model, y, said):
    ledger = PrivacyLedger(50.0, 1e-3)
    bounds = [k for k in model.get_params() if k.endswith("bounds")]
    model = clone(model).set_params(**dict.fromkeys(bounds[:1], None))
    with pytest.raises(ValueError, match=said) as caught:
        encoded(model, ledger).fit(X, y)
    assert ledger.spends() == [] and "John" not in str(caught.value)
    # A range that is read, and several targets where the model takes them.
    several = DPWassersteinMLPRegressor(
        data_norm=1.0, target_bounds=(0, 1), fairness_weight=0.0, max_iter=1
    )
    encoded(several, ledger).fit(X, np.column_stack([Y, Y]))
    # And none where it wants none.
    encoded(DPWassersteinAutoencoder(fairness_weight=0.0, max_iter=1), ledger).fit(X)


@pytest.mark.parametrize(
    "model",
    [
        logistic(),
        regression(),
        DPOutputPerturbationLogisticRegression(bounds=(-1, 1), classes=[0, 1]),
        DPWassersteinMLPClassifier(bounds=(-1, 1), classes=[0, 1], fairness_weight=0),
        numbers(LinearRegression()),
        decisions(LogisticRegression()),
    ],
)
def test_several_targets_are_fitted_by_several_models(model):
    """How many rows there are may be private, and was said."""
    groups = {"sensitive_features": GROUP} if hasattr(model, "estimator") else {}
    for several in (BOTH, BOTH.tolist()):
        with pytest.raises(ValueError, match="several, fit one model each") as caught:
            model.fit(X, several, **groups)
        assert "60" not in str(caught.value)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(X, None, **groups)
    several = MultiOutputClassifier if is_classifier(model) else MultiOutputRegressor
    if not groups:  # they are handed on where routing is on
        fitted = several(model).fit(X, BOTH)
        cost = privacy_report(fitted).guarantee.epsilon
        assert cost > model.epsilon and fitted.predict(X).shape == BOTH.shape


DECLARED = PrivacyGuarantee(0.5, 0.0, "replace_one", "declared for a test")


# --- cells that a model inside cannot read -------------------------------------------


def frame(**columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], **columns})


def cells(kind):
    words = np.array(["John Doe", *["x"] * 59], dtype=object)
    if kind == "array":
        return np.column_stack([X.astype(object)[:, 0], words])
    if kind == "missing":
        return frame(b=[None, *X[1:, 1]]).astype("Float64")
    if kind == "dates":
        return frame(b=np.array(["2020-01-01"] * 60, dtype="datetime64[ns]"))
    if kind == "long":  # finite, and not as a number in double precision
        return X + np.longdouble("1e4000") * (np.arange(60) == 0)[:, None]
    return frame(b=words)


@pytest.mark.parametrize("kind", ["array", "frame", "missing", "dates", "long"])
@pytest.mark.parametrize(
    "model",
    [
        decisions(logistic()),
        numbers(regression()),
        numbers(make_pipeline("passthrough", regression())),
        search(decisions(logistic())),
        search(decisions(LogisticRegression(), base_guarantee=DECLARED)),
        decisions(VotingClassifier([("a", logistic())], voting="soft")),
        decisions(FixedThresholdClassifier(logistic())),
        decisions(make_pipeline(FunctionTransformer(np.cbrt), logistic())),
        decisions(make_pipeline(FunctionTransformer(), logistic())),
        decisions(
            make_pipeline(ColumnTransformer([("a", "passthrough", [0, 1])]), logistic())
        ),
        numbers(
            TransformedTargetRegressor(
                regression(), func=np.sqrt, inverse_func=np.square, check_inverse=False
            )
        ),
        decisions(DummyClassifier(), blind=True),
        decisions(DummyClassifier(), blind=True, group_estimator=logistic()),
    ],
)
def test_cells_that_a_model_inside_cannot_read(kind, model):
    ledger = PrivacyLedger(50.0, 1e-3)
    model = clone(model).set_params(ledger=ledger)
    with pytest.raises((TypeError, ValueError), match="X") as caught:
        model.fit(cells(kind), Y, sensitive_features=GROUP)
    assert ledger.spends() == [] and "John" not in str(caught.value)


LISTED = OneHotEncoder(categories=[["x", "y"]])
MIXED = ColumnTransformer([("c", LISTED, ["c"])], remainder="passthrough")
FILLED = make_pipeline(SimpleImputer(strategy="constant", fill_value="x"), LISTED)


@pytest.mark.parametrize(
    "before",
    [
        MIXED,
        ColumnTransformer([("c", LISTED, ["c"]), ("n", StandardScaler(), ["a", "b"])]),
        ColumnTransformer([("c", FILLED, ["c"]), ("n", SimpleImputer(), ["a", "b"])]),
        ColumnTransformer([("c", FILLED, ["c"])], remainder="passthrough"),
        Pipeline(
            [
                ("fill", SimpleImputer(strategy="most_frequent")),
                ("code", clone(MIXED).set_params(transformers=[("c", LISTED, [2])])),
            ]
        ),
        None,
    ],
    ids=["listed", "scaled", "filled", "passed", "most frequent", "frozen"],
)
@pytest.mark.parametrize("wrong", ["category", "text", None])
def test_cells_behind_steps_that_learn_nothing_cost_no_budget(before, wrong):
    """Which of them a fit inside meets first hangs on the random split."""
    table = frame(c=["x", "y"] * 30)
    if before is None:
        before = FrozenEstimator(clone(MIXED).fit(table))
    if wrong == "category":
        table.loc[7, "c"] = "John"
    elif wrong == "text":
        table = table.assign(a=table["a"].astype(object))
        table.loc[7, "a"] = "John"
    declared = {"base_guarantee": DECLARED}
    for model in (
        decisions(make_pipeline(before, logistic(bounds=None, data_norm=1.0))),
        decisions(make_pipeline(before, LogisticRegression()), **declared),
    ):
        if wrong is None:
            accepted(model, table)
        else:
            refused(model, "X has a", table)


@pytest.mark.parametrize("behind", ["model", "repair"])
@pytest.mark.parametrize(
    ("columns", "wrong", "said"),
    [
        ("passthrough", {"a": "John"}, "X has a cell that cannot be read as a number"),
        ("passthrough", {"a": np.nan}, "Input X contains NaN"),
        (clone(LISTED), {"c": "John"}, "not in the categories of OneHotEncoder"),
        (FunctionTransformer(), {"c": "John"}, "X has a cell that cannot be read"),
        ("passthrough", {}, None),
        (clone(LISTED), {"a": np.nan}, None),
    ],
)
def test_cells_that_go_by_a_private_encoder_cost_no_budget(
    columns, wrong, said, behind
):
    ledger, of_encoder = PrivacyLedger(50.0, 1e-3), ["a", "b"]
    if columns == "passthrough":
        columns, of_encoder = ("n", "passthrough", ["a", "b"]), ["c"]
    else:
        columns = ("n", columns, ["c"])
    encoder = ("e", DPTableEncoder(ledger=ledger), of_encoder)
    model = logistic(bounds=None, data_norm=1.0, ledger=ledger)
    about = {}
    if behind == "repair":
        model = decisions(model.set_params(ledger=None), ledger=ledger)
        about = {"dp2dpclassifier__sensitive_features": GROUP}
    pipeline = with_budget(
        make_pipeline(ColumnTransformer([encoder, columns]), model), 9
    )
    table = frame(c=["x", "y"] * 30).astype(object)
    for name, cell in wrong.items():
        table.loc[7, name] = cell
    if said is None:
        pipeline.fit(table, Y, **about)
        assert len(ledger.spends()) == 2
        return
    with pytest.raises(ValueError, match=said) as caught:
        pipeline.fit(table, Y, **about)
    assert ledger.spends() == [] and "John" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "y", "said"),
    [
        (LogisticRegression(), np.where(Y, "John", Y.astype(object)), "y mixes text"),
        (LogisticRegression(), Y + 0.5 * X[:, 0], "Unknown label type: continuous"),
        (LogisticRegression(), np.where(Y, 1.0, np.nan), "y has a row without a label"),
        (LogisticRegression(), np.where(Y, "John", None), "a row without a label"),
        (LogisticRegression(), np.array(["John"] * 60), "y holds one label only"),
        (GaussianNB(), np.array(["John"] * 60), None),
        (LogisticRegression(), Y[:-1], "need a row for each record"),
        (LogisticRegression(), None, "requires y to be passed"),
        (LinearRegression(), np.where(Y, "John", "1"), "y has a cell that cannot be"),
        (LinearRegression(), np.where(Y, 1.0, np.nan), "y contains NaN"),
        (SVR(), np.column_stack([Y, Y]), "should be a 1d array"),
        (LinearRegression(), np.column_stack([Y, Y]), None),
        (GaussianNB(), BOTH, "should be a 1d array"),
        (GaussianNB(), Y[:, None], None),
        (DecisionTreeClassifier(), BOTH, None),
        (RidgeClassifier(), BOTH, None),
        (LogisticRegression(), np.where(Y, "John", "Jane"), None),
        (StandardScaler(), None, None),
    ],
)
def test_a_pipeline_of_one_budget_looks_at_the_target_of_a_plain_model(model, y, said):
    ledger = PrivacyLedger(50.0, 1e-3)
    with pytest.warns(PrivacyLeakWarning):
        pipeline = encoded(model, ledger)
    if said is None:
        pipeline.fit(X, y)
        assert len(ledger.spends()) == 1
        return
    with pytest.raises((TypeError, ValueError), match=said) as caught:
        pipeline.fit(X, y)
    assert ledger.spends() == [] and "John" not in str(caught.value)


@pytest.mark.parametrize(
    "model", [LogisticRegression(), decisions(LogisticRegression())]
)
@pytest.mark.parametrize(
    ("beside", "cell", "said"),
    [
        ("passthrough", "John", "X has a cell that cannot be read as a number"),
        ("passthrough", np.nan, "contains NaN"),
        ("passthrough", np.datetime64("2020-01-31"), "X holds dates"),
        (FunctionTransformer(np.sqrt), -1.0, "contains NaN"),
        ("passthrough", 1.0, None),
    ],
)
def test_cells_that_go_by_an_encoder_to_a_plain_model(model, beside, cell, said):
    """Of a pipeline that ends in it, or in a repair around it."""
    ledger = PrivacyLedger(50.0, 1e-3)
    columns = ColumnTransformer(
        [("e", DPTableEncoder(ledger=ledger), ["a", "b"]), ("c", beside, ["c"])]
    )
    pipeline = make_pipeline(columns, clone(model))
    about = {"sensitive_features": GROUP} if hasattr(model, "groups") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        pipeline = with_budget(pipeline, 9.0)
    table = frame(c=[cell] * 60)
    if said is None:
        pipeline.fit(table, Y, **about)
        assert len(ledger.spends()) == 1
        return
    with pytest.raises(ValueError, match=said) as caught:
        pipeline.fit(table, Y, **about)
    assert ledger.spends() == [] and "John" not in str(caught.value)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(C=-1),
        make_pipeline(StandardScaler(with_mean="x"), LogisticRegression()),
        VotingClassifier([("a", LogisticRegression(C=-1))]),
        FixedThresholdClassifier(LogisticRegression(C=-1)),
    ],
)
def test_arguments_of_plain_steps_are_looked_at_before_an_encoder_spends(model):
    ledger = PrivacyLedger(50.0, 1e-3)
    with pytest.warns(PrivacyLeakWarning):
        pipeline = encoded(model, ledger)
    with pytest.raises(ValueError, match="The '(C|with_mean)' parameter of"):
        pipeline.fit(X, Y)
    assert ledger.spends() == []


@pytest.mark.parametrize(
    ("around", "model"),
    [
        (lambda one: VotingRegressor([("a", one)]), regression()),
        (TransformedTargetRegressor, regression()),
        (FixedThresholdClassifier, logistic()),
        (lambda one: FixedThresholdClassifier(make_pipeline(one)), logistic()),
    ],
)
def test_bounds_of_models_in_others_are_looked_at_before_an_encoder_spends(
    around, model
):
    ledger = PrivacyLedger(50.0, 1e-3)
    wide = clone(model).set_params(bounds=([0.0] * 7, [1.0] * 7))
    pipeline = encoded(around(wide), ledger)
    with pytest.raises(ValueError, match="bounds must be a tuple .* of two numbers"):
        pipeline.fit(X, Y)
    search = DPGridSearchCV(around(wide), {}, ledger=ledger)
    search.set_params(
        **{"target_bounds": (0, 1)} if is_regressor(model) else {"classes": [0, 1]}
    )
    with pytest.raises(ValueError, match="bounds must be a tuple"):
        search.fit(X, Y)
    assert ledger.spends() == []


def test_the_label_of_a_threshold_is_looked_at_before_an_encoder_spends():
    ledger = PrivacyLedger(50.0, 1e-3)
    model = logistic(bounds=None, data_norm=1.0)
    encoded(FixedThresholdClassifier(model, pos_label=1), None).fit(X, Y)
    pipeline = encoded(FixedThresholdClassifier(model, pos_label="1"), ledger)
    with pytest.raises(ValueError, match="pos_label .* one of .0, 1., got '1'"):
        pipeline.fit(X, Y)
    assert ledger.spends() == []


def named(X):
    return pytest.importorskip("pandas").DataFrame({"c": X[:, 0]})


class Framing(StandardScaler):
    """Gives a frame, whatever it is handed."""

    def transform(self, X):
        return named(super().transform(X))


class FramingEncoder(DPTableEncoder):
    """Of answers of its own."""

    def transform(self, X):
        return named(super().transform(X))


def chooses(chosen, what="passthrough"):
    return ColumnTransformer([("chosen", what, chosen)], remainder="passthrough")


def union(*steps):
    return FeatureUnion([(f"step{i}", step) for i, step in enumerate(steps)])


ENCODED, FRAMES = DPTableEncoder(), {"transform": "pandas"}
NAMED = DPTableEncoder().set_output(**FRAMES)


@pytest.mark.parametrize("around", ["nothing", "pipeline", "repair"])
@pytest.mark.parametrize(
    ("steps", "is_refused"),
    [
        ([ENCODED, chooses(["x0_rank0"])], True),
        ([ENCODED, chooses("x0_rank0")], True),
        ([ENCODED, chooses(slice("x0_rank0", None))], True),
        ([ENCODED, chooses(slice(None, "x0_rank0"))], True),
        ([ENCODED, chooses([0]), chooses(np.array(["x0"]), "drop")], True),
        ([ENCODED, "passthrough", StandardScaler(), chooses(["x0"])], True),
        ([ENCODED, chooses([0])], False),
        ([ENCODED, chooses(slice(0, 2))], False),
        ([ENCODED, StandardScaler().set_output(**FRAMES), chooses(["x0"])], False),
        (
            [ENCODED, FunctionTransformer(named), chooses(["c"])],
            False,
        ),
        ([ENCODED, Framing(), chooses(["c"])], False),
        ([FramingEncoder(), chooses(["c"])], False),
        ([NAMED, chooses(["x0_rank0"])], False),
        ([make_pipeline("passthrough", ENCODED), chooses(["x0"])], True),
        ([make_pipeline(ENCODED, Framing()), chooses(["c"])], False),
        ([ENCODED, union(chooses(["x0"]))], True),
        ([ENCODED, chooses([0], chooses(["x0"]))], True),
        ([ENCODED, union(make_pipeline(StandardScaler(), chooses(["x0"])))], True),
        ([ENCODED, union(make_pipeline(Framing(), chooses(["c"])))], False),
        ([ENCODED, chooses([0], make_pipeline(Framing(), chooses(["c"])))], False),
        ([NAMED, union(StandardScaler()), chooses(["x0_rank0"])], True),
        ([NAMED, chooses([0]), chooses(["x0_rank0"])], True),
        ([NAMED, union(chooses(["x0_rank0"]))], False),
    ],
)
def test_columns_without_names_are_not_chosen_by_name(steps, is_refused, around):
    """Behind an encoder, before it spends; what scikit-learn takes is not refused."""
    pytest.importorskip("pandas")
    ledger, last, about = PrivacyLedger(50.0, 1e-3), LogisticRegression(), {}
    steps = [step if isinstance(step, str) else clone(step) for step in steps]
    encoder, *behind = steps
    for one in encoder if isinstance(encoder, Pipeline) else [encoder]:
        if isinstance(one, DPTableEncoder):
            one.set_params(ledger=ledger, epsilon=5.0)
    if around == "pipeline":
        behind = [make_pipeline(*behind)]
    elif around == "repair":
        behind, last = [], decisions(make_pipeline(*behind, last))
        about = {"dp2dpclassifier__sensitive_features": GROUP}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        pipeline = with_budget(make_pipeline(encoder, *behind, last), 30.0)
    said = "names columns and stands behind an encoder that hands on an array"
    try:
        pipeline.fit(X, Y, **about)
    except ValueError as error:
        assert said in str(error) and is_refused and ledger.spends() == []
        plain = make_pipeline(*steps, LogisticRegression())
        with pytest.raises(ValueError, match="only supported for dataframes"):
            plain.fit(X, Y)
        assert len(ledger.spends()) == 1
    else:
        assert not is_refused and ledger.spends()


@pytest.mark.parametrize("repaired", [True, False])
def test_groups_of_another_name_are_looked_at_before_an_encoder_spends(repaired):
    ledger = PrivacyLedger(50.0, 1e-3)
    fair = logistic(bounds=None, data_norm=1.0, groups=[0, 1], fairness_weight=1.0)
    model = decisions(logistic(bounds=None, data_norm=1.0)) if repaired else fair
    with config_context(enable_metadata_routing=True):
        pipeline = encoded(model.set_fit_request(sensitive_features="sex"), ledger)
        with pytest.raises(ValueError, match="that is not in groups="):
            pipeline.fit(X, Y, sex=GROUP + 5)
        assert ledger.spends() == []
        pipeline.fit(X, Y, sex=GROUP)
    assert len(ledger.spends()) == 1


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.ones(3), "a row for each record"),
        (np.where(Y, 1.0, np.nan), "sample_weight contains NaN"),
        (["John"] * 60, "sample_weight has a cell that cannot be read as a number"),
        (np.ones((60, 1)), "sample_weight must hold one number for each row"),
        (np.zeros(60), "and not only zeros"),
        (np.ones(60), None),
        (None, None),
    ],
)
def test_weights_are_looked_at_before_an_encoder_spends(weights, said):
    ledger = PrivacyLedger(50.0, 1e-3)
    with pytest.warns(PrivacyLeakWarning):
        pipeline = encoded(LogisticRegression(), ledger)
    given = {"logisticregression__sample_weight": weights}
    if said is None:
        pipeline.fit(X, Y, **given)
        assert len(ledger.spends()) == 1
        return
    with pytest.raises((TypeError, ValueError), match=said) as caught:
        pipeline.fit(X, Y, **given)
    assert ledger.spends() == [] and "John" not in str(caught.value)


@pytest.mark.parametrize("listed", [None, ["Jane", "John"]])
@pytest.mark.parametrize("form", ["list", "array", "text", "category", "NaN"])
def test_a_missing_label_is_called_one(listed, form):
    """And no cell that cannot be read as a number, nor one that mixes kinds."""
    pandas = pytest.importorskip("pandas")
    y = ["John", None] * 30
    if form in ("text", "category"):
        y = pandas.Series(y, dtype={"text": "string"}.get(form, form))
    elif form != "list":
        y = np.array([one or (np.nan if form == "NaN" else None) for one in y], object)
    output = DPOutputPerturbationLogisticRegression(bounds=(-1, 1), classes=listed)
    for model in (logistic(classes=listed), output):
        with pytest.raises(ValueError, match="^y has a row without a label: leave"):
            model.fit(X, y)


@pytest.mark.parametrize("listed", [None, [0, 1]])
@pytest.mark.parametrize("fit", ["alone", "encoded", "repaired", "network"])
def test_a_gap_among_integers_is_called_a_missing_label(fit, listed):
    """It was "a label that is not in classes (1 is not '1')"."""
    ledger = PrivacyLedger(50.0, 1e-3)
    model = logistic(classes=listed)
    model = {
        "alone": model.set_params(ledger=ledger),
        "encoded": encoded(logistic(bounds=None, classes=listed), ledger),
        "repaired": decisions(model, ledger=ledger).set_params(classes=listed),
        "network": DPWassersteinMLPClassifier(
            bounds=(-1, 1), classes=listed, fairness_weight=0.0, ledger=ledger
        ),
    }[fit]
    given = {"sensitive_features": GROUP} if fit == "repaired" else {}
    with pytest.raises(ValueError, match="^y has a row without a label: leave"):
        model.fit(X, np.where(np.arange(len(Y)) == 3, np.nan, Y), **given)
    assert ledger.spends() == []


@pytest.mark.parametrize(
    ("beside", "wrong", "said"),
    [
        ("passthrough", {"c": "John"}, "X has a cell that cannot be read as a number"),
        (FunctionTransformer(), {"a": np.nan}, "Input X contains NaN"),
        (
            FrozenEstimator(FunctionTransformer().fit(X)),
            {"a": np.nan},
            "X contains NaN",
        ),
        (ColumnTransformer([("n", "passthrough", ["a"])]), {"a": np.nan}, "NaN"),
        (ColumnTransformer([("n", "passthrough", ["a"])]), {"c": "John"}, None),
        ("drop", {"c": "John"}, None),
    ],
)
def test_cells_that_a_union_hands_on_beside_an_encoder(beside, wrong, said):
    ledger = PrivacyLedger(50.0, 1e-3)
    union = FeatureUnion([("e", DPTableEncoder(ledger=ledger)), ("n", beside)])
    model = logistic(bounds=None, data_norm=1.0, ledger=ledger)
    table = frame(c=np.arange(60.0)).astype(object)
    for name, cell in wrong.items():
        table.loc[7, name] = cell
    pipeline = with_budget(make_pipeline(union, model), 9.0)
    if said is None:
        pipeline.fit(table, Y)
        assert len(ledger.spends()) == 2
        return
    with pytest.raises(ValueError, match=said) as caught:
        pipeline.fit(table, Y)
    assert ledger.spends() == [] and "John" not in str(caught.value)


@pytest.mark.parametrize("form", ["array", "frame"])
@pytest.mark.parametrize(
    "step",
    [
        Normalizer(copy=False),
        SimpleImputer(strategy="constant", fill_value=9.0, copy=False),
        FrozenEstimator(StandardScaler(copy=False).fit(X.copy())),
        make_pipeline(FunctionTransformer(), Normalizer(copy=False)),
    ],
)
def test_a_step_that_is_tried_writes_into_nobodys_table(step, form):
    table = X.copy()
    if isinstance(step, SimpleImputer):
        table[3, 0] = np.nan
    before = table.copy()
    if form == "frame":
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame(table, columns=["a", "b"], copy=False)
    model = logistic(bounds=None, data_norm=1.0)
    accepted(decisions(make_pipeline(step, model)), table)
    np.testing.assert_array_equal(np.asarray(table), before)


def test_a_step_with_a_cache_is_not_tried(tmp_path):
    """Its cache would hold rows of a fit that nobody can pay for."""
    cached = make_pipeline(PolynomialFeatures(), Normalizer(), memory=str(tmp_path))
    model = make_pipeline(cached, logistic(bounds=None, data_norm=1.0))
    repair = decisions(model, ledger=PrivacyLedger(0.01))
    with pytest.raises(BudgetExceededError):
        repair.fit(X, Y, sensitive_features=GROUP)
    assert list(tmp_path.iterdir()) == []


class Upright(TransformerMixin, BaseEstimator):
    """Takes one column, as an array of one dimension."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[:, None]


@CONDITIONAL
def test_a_column_that_a_step_chooses_by_its_name_alone_is_no_table():
    words = ColumnTransformer([("t", CountVectorizer(), "t")])
    model = make_pipeline(words, logistic(bounds=None, data_norm=1.0))
    accepted(decisions(model), frame(t=["hello world", "foo bar"] * 30))
    model = make_pipeline(ColumnTransformer([("n", Upright(), 0)]), logistic())
    accepted(decisions(model))


def test_columns_that_a_fitted_step_does_not_take_cost_no_budget():
    encoder = FrozenEstimator(DPTableEncoder(epsilon=1.0).fit(frame(c=["x", "y"] * 30)))
    model = make_pipeline(encoder, logistic(bounds=None, data_norm=1.0))
    accepted(decisions(model), frame(c=["x", "y"] * 30))
    refused(decisions(model), "a column or a cell that DPTableEncoder", frame())


def test_an_unlisted_category_that_is_ignored_is_none_of_a_repairs_business():
    before = clone(LISTED).set_params(handle_unknown="ignore")
    table = frame(c=["x", "z"] * 30)[["c"]]
    accepted(
        decisions(make_pipeline(before, logistic(bounds=None, data_norm=1.0))), table
    )


@pytest.mark.parametrize("function", [(np.sqrt,), (np.log,), (np.log, np.exp)])
def test_cells_that_a_function_before_a_model_is_not_defined_for(function):
    """What it makes of them is no number, and the model behind it refuses that."""
    model = make_pipeline(FunctionTransformer(*function), logistic())
    refused(decisions(model), "X contains NaN", np.abs(X) * [[1.0, -1.0]])
    accepted(decisions(model), 0.5 + np.abs(X))


@pytest.mark.parametrize("around", [None, "vote"])
@pytest.mark.parametrize("form", ["csr", "coo"])
def test_sparse_cells_that_cannot_be_centred(form, around):
    table = sparse.csr_array(np.abs(X)).asformat(form)
    perturbed = DPOutputPerturbationLogisticRegression(classes=[0, 1])
    for model in (logistic(), perturbed):
        model.set_params(bounds=(0, 1))
        if around == "vote":
            model = VotingClassifier([("a", model)], voting="soft")
        refused(decisions(model), "Sparse X cannot be centred", table)
    accepted(decisions(logistic()), table)


def groups_of(X):
    """A function that leaves no column out."""
    return GROUP


@pytest.mark.parametrize("form", [np.asarray, lambda X: X])
@pytest.mark.parametrize("named", ["c", 2, ["c"], groups_of])
def test_cells_beside_the_groups_that_a_model_inside_cannot_read(form, named):
    """The columns of the groups may hold text; what the model reads may not."""
    table = frame(c=np.where(GROUP == 0, "f", "m"))
    bad = form(frame(b=["John Doe", *["x"] * 59], c=table["c"]))
    groups = [0, 1] if callable(named) else ["f", "m"]
    given = decisions(LogisticRegression(), base_guarantee=DECLARED)
    given.set_params(sensitive_features=named, groups=groups)
    ledger = PrivacyLedger(50.0, 1e-3)
    model = search(given, ledger=ledger).set_params(groups=groups)
    labels = GROUP if callable(named) else table["c"]
    if form is np.asarray and "c" in np.ravel(named):
        said = "X has no column names"
    else:
        said = "a cell that cannot be read as a number"
    with pytest.raises(ValueError, match=said) as caught:
        model.fit(bad, Y, sensitive_features=labels)
    assert ledger.spends() == [] and "John" not in str(caught.value)
    if said == "a cell that cannot be read as a number" and not callable(named):
        accepted(search(given).set_params(groups=groups), form(table), labels)


def test_cells_that_a_model_inside_can_read_or_may():
    encoder = make_pipeline(DPTableEncoder(), logistic(bounds=None, data_norm=1.0))
    for kind in ("array", "frame", "missing", "dates"):
        accepted(decisions(clone(encoder)), cells(kind))
        accepted(decisions(DummyClassifier()), cells(kind))
    # What a model of another package reads is not known.
    constant = DummyClassifier().fit(X, Y)
    accepted(search(decisions(**frozen(constant))), cells("frame"))
    named = logistic(sensitive_features=["b"], groups=["John Doe", "x"])
    accepted(decisions(named), cells("frame"))


def network():
    return DPWassersteinMLPClassifier(
        bounds=(-1, 1), classes=[0, 1], fairness_weight=0.0, max_iter=1
    )


@pytest.mark.parametrize("place", ["estimator", "group_estimator"])
@pytest.mark.parametrize("form", ["matrix", "frame"])
def test_sparse_cells_that_one_model_inside_cannot_read(form, place):
    models = {"estimator": logistic(), "group_estimator": logistic()}
    model = decisions(**models, blind=True, sensitive_features=[2])
    X_sparse = sparse.csr_array(np.column_stack([X, GROUP]))
    if form == "frame":  # is sparse once its dense column is taken out
        dtype = pytest.importorskip("pandas").SparseDtype(float, 0.0)
        X_sparse = frame().astype(dtype).assign(group=GROUP)
    ledger = PrivacyLedger(50.0, 1e-3)
    model.set_params(ledger=ledger).fit(X_sparse, Y)
    with pytest.raises(TypeError, match="dense data is required.*X.toarray()"):
        model.set_params(**{place: network()}).fit(X_sparse, Y)
    assert len(ledger.spends()) == 1


def test_a_sparse_frame_hears_how_it_becomes_dense():
    sparse_frame = frame().astype(pytest.importorskip("pandas").SparseDtype(float, 0.0))
    with pytest.raises(TypeError, match=r"X\.sparse\.to_dense\(\)"):
        network().fit(sparse_frame, Y)
    network().fit(sparse_frame.sparse.to_dense(), Y)


def test_sparse_cells_with_another_fill_value():
    dtype = pytest.importorskip("pandas").SparseDtype(float)
    with pytest.raises(ValueError, match="fill value of 0"):
        logistic().fit(frame().astype(dtype), Y)


# --- too many rows -------------------------------------------------------------------

LOGISTIC = "linear_model._wasserstein_logistic.most_records"
OUTPUT = "linear_model._output_perturbation.MOST_RECORDS"
POINTS = "generative._sinkhorn.MAX_RECORDS"
SLICES = "generative._sliced.MOST_SUMMED"
PENALISED = {"fairness_weight": 0.5, "groups": [0, 1]}
BATCHES = {"batch_size": 20, "group_sizes_public": True}


def output_perturbation(**changes):
    public = {"bounds": (-1, 1), "classes": [0, 1]}
    return DPOutputPerturbationLogisticRegression(**{**public, **changes})


def limited(monkeypatch, limit, most):
    """Set a limit, whether it is a number or follows from the number of groups."""
    value = (lambda n_groups: {2: most}[n_groups]) if limit == LOGISTIC else most
    monkeypatch.setattr(f"fairpriv_sklearn.{limit}", value)


def fit(estimator, limit, X=X):
    if "generative" in limit:
        return estimator.fit(X)
    groups = {"sensitive_features": GROUP} if limit == LOGISTIC else {}
    return estimator.fit(X, Y, **groups)


@pytest.mark.parametrize(
    ("limit", "n_summed", "estimator", "X"),
    [
        (LOGISTIC, 60, logistic(**PENALISED), X),
        (LOGISTIC, 20, logistic(**PENALISED, **BATCHES), X),
        (OUTPUT, 60, output_perturbation(neighboring="add_remove"), X),
        (POINTS, 60, DPSinkhornGenerator(bounds=(-1, 1)), X),
        (SLICES, 60, DPSlicedWassersteinGenerator(bounds=(-1, 1)), X),
    ],
)
def test_more_rows_than_can_be_summed(monkeypatch, limit, n_summed, estimator, X):
    """The first query would find them, after the reserve; how many is not told."""
    ledger = PrivacyLedger(50.0, 1e-3)
    estimator.set_params(ledger=ledger, random_state=0)
    most = n_summed - 1
    limited(monkeypatch, limit, most)
    with pytest.raises(ValueError, match=f"^A table may have at most {most} rows here"):
        fit(estimator, limit, X)
    assert ledger.spends() == []
    limited(monkeypatch, limit, n_summed)
    fit(estimator, limit, X)
    assert len(ledger.spends()) == 1


def test_only_what_sums_many_rows_has_the_limit(monkeypatch):
    assert most_records(15) == 50_000_000 and most_records(16) == 20_000_000
    limited(monkeypatch, LOGISTIC, 3)
    fit(logistic(groups=[0, 1]), LOGISTIC)
    limited(monkeypatch, OUTPUT, 3)
    fit(output_perturbation(), OUTPUT)


def masked(values):
    """The values, with one cell hidden."""
    hidden = np.zeros(np.shape(values), dtype=bool)
    hidden.flat[4] = True
    return np.ma.masked_array(values, mask=hidden)


def output_perturbation_of_labels(X, y, sensitive_features):
    group_codes(sensitive_features)  # as displays read them
    output_perturbation().fit(X, y)


def fit_budgeted(X, y, sensitive_features):
    steps = [
        ("enc", DPTableEncoder()),
        ("model", logistic(groups=[0, 1], fairness_weight=0.5)),
    ]
    pipeline = with_budget(Pipeline([("as it is", FunctionTransformer()), *steps]), 1.0)
    pipeline.fit(X, y, model__sensitive_features=sensitive_features)


def fit_batches(X, y, sensitive_features):
    batches = Batches([(X, y, sensitive_features)])
    logistic(groups=[0, 1], fairness_weight=0.5).fit(batches)


def validate(X, y, sensitive_features):
    task = {"target_bounds": (0, 1), "groups": [0, 1]}
    dp_cross_validate(regression(), X, y, sensitive_features=sensitive_features, **task)


def label_by_table(X, y, sensitive_features):
    logistic(groups=[0, 1], sensitive_features=lambda _: sensitive_features).fit(X, y)


def rates(X, y, sensitive_features):
    X = np.asarray(X) if hasattr(X, "iloc") else X
    public = {"groups": [0, 1], "classes": [0, 1], "epsilon": 1.0}
    truth = {"constraint": "equalized_odds", "sensitive_features": sensitive_features}
    dp_group_rates(Y, y, **public, **truth)
    dp_group_rates(y, X[:, 0] > 9, **public, **truth)


def disparity(X, y, sensitive_features):
    X = np.asarray(X) if hasattr(X, "iloc") else X
    groups = {"sensitive_features": sensitive_features}
    demographic_parity_difference(y, X[:, 0] > 0, **groups)


FITS = [
    logistic(groups=[0, 1], fairness_weight=0.5).fit,
    numbers(regression()).fit,
    decisions(logistic()).fit,
    DPGridSearchCV(
        regression(), {"alpha": [1.0]}, target_bounds=(0, 1), groups=[0, 1]
    ).fit,
    output_perturbation_of_labels,
    fit_budgeted,
    fit_batches,
    validate,
    label_by_table,
    rates,
    disparity,
]


@pytest.mark.parametrize("place", ["X", "y", "sensitive_features"])
@pytest.mark.parametrize("fit", FITS)
def test_masked_cells(fit, place):
    """What is under a mask would be read as if nobody had hidden it."""
    table = {"X": X, "y": Y, "sensitive_features": GROUP}
    fit(**{name: np.ma.masked_array(column) for name, column in table.items()})
    table[place] = masked(table[place])
    with pytest.raises(ValueError, match="A masked array hides cells"):
        fit(**table)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_masked_cells_of_new_rows(method):
    model = logistic().fit(X, Y)
    with pytest.raises(ValueError, match="A masked array hides cells"):
        getattr(model, method)(masked(X))


@pytest.mark.parametrize("place", ["X", "y", "sensitive_features"])
@pytest.mark.parametrize("fit", FITS)
def test_structured_arrays(fit, place):
    """One sentence about fields, and not about cells that cannot be read."""
    table = {"X": X, "y": Y, "sensitive_features": GROUP}
    if place == "X" and fit in (rates, disparity):
        pytest.skip("reads no table")
    columns = np.column_stack([table[place]]).T
    table[place] = np.rec.fromarrays(columns, names=["a", "b"][: len(columns)])
    with pytest.raises(ValueError, match="has fields and no columns: pass a data fr"):
        fit(**table)


def test_structured_arrays_of_new_rows():
    model, rows = logistic().fit(X, Y), np.rec.fromarrays(X.T, names=["a", "b"])
    with pytest.raises(ValueError, match="has fields and no columns: pass a data fr"):
        model.predict(rows)


@pytest.mark.parametrize("place", ["y", "sensitive_features"])
@pytest.mark.parametrize("fit", FITS)
def test_rows_in_another_order(fit, place):
    """Groups sorted beside a shuffled table would be those of other people."""
    pandas = pytest.importorskip("pandas")
    order = np.random.default_rng(1).permutation(len(X))
    table = {
        "X": pandas.DataFrame(X, index=order, columns=["a", "b"]),
        "y": pandas.Series(Y, index=order),
        "sensitive_features": pandas.Series(GROUP, index=order),
    }
    fit(**table)
    # An index that speaks of other rows says nothing, and neither does an array.
    fit(**{**table, place: table[place].set_axis(order + 1)})
    fit(**{**table, place: table[place].to_numpy()})
    if fit is output_perturbation_of_labels and place != "y":
        return
    table[place] = table[place].sort_index()
    with pytest.raises(ValueError, match="rows in another order"):
        fit(**table)
    table[place] = table[place].iloc[[*range(len(X)), 0]]
    with pytest.raises(ValueError, match="numbers of (samples|rows)|number of rows"):
        fit(**table)


def test_new_rows_in_another_order():
    pandas = pytest.importorskip("pandas")
    repair = numbers(regression()).fit(X, Y, sensitive_features=GROUP)
    table, groups = pandas.DataFrame(X), pandas.Series(GROUP)
    repair.predict(table[::-1], sensitive_features=groups[::-1])
    with pytest.raises(ValueError, match="rows in another order"):
        repair.predict(table, sensitive_features=groups[::-1])


@pytest.mark.parametrize(
    "model",
    [
        regression(),
        logistic(),
        numbers(regression()),
        DPTableEncoder(),
        DPSinkhornGenerator(bounds=(-1, 1)),
        search(regression()),
        encoded(regression(bounds=None), None),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_is_no_table_gets_its_own_sentence(model):
    polars, pandas = map(pytest.importorskip, ("polars", "pandas"))
    named = {"sensitive_features": GROUP} if hasattr(model, "blind") else {}
    with pytest.raises(TypeError, match="before it is collected"):
        model.fit(polars.DataFrame(X).lazy(), Y, **named)
    relation = type("DuckDBPyRelation", (), {})()  # as a query of DuckDB gives
    for given in ((relation, Y), (X, relation)):
        with pytest.raises(TypeError, match=r"before it is collected: .* df\(\) ret"):
            model.fit(*given, **named)
    with pytest.raises(ValueError, match="Expected (a )?2D array|two-dimensional"):
        model.fit(pandas.Series(X[:, 0]), Y, **named)
    if isinstance(model, DPLinearRegression):
        with pytest.raises(TypeError, match="np.matrix is not supported; pass an arr"):
            model.fit(X.view(np.matrix), Y)


@pytest.mark.parametrize("wrong", [X[:, 0], X[None]])
def test_a_pipeline_of_one_budget_says_what_is_no_table(wrong):
    for encoders in ([], [DPTableEncoder()]):
        pipeline = with_budget(make_pipeline(*encoders, logistic(bounds=None)), 1.0)
        with pytest.raises(ValueError, match="2D array|row for each record"):
            pipeline.fit(wrong, Y)


def test_groups_in_one_of_two_columns_of_a_name():
    names = np.array(["group", "group"])
    with pytest.raises(ValueError, match="names 2 columns of X"):
        named_positions("group", 2, names)


def test_a_column_that_is_taken_out_outside_cannot_be_named_inside():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(g=GROUP)
    named = logistic(groups=[0, 1], fairness_weight=0.5, sensitive_features="g")
    encoded = make_pipeline(DPTableEncoder(sensitive_features=["g"]), logistic())
    ledger = PrivacyLedger(50.0, 1e-3)
    outside = {"sensitive_features": ["g"], "ledger": ledger}
    for model in (named, encoded):
        repair = decisions(model, sensitive_features="g")
        inner = search(model, **outside), search(repair, **outside)
        for wrong in (decisions(model, **outside), *inner):
            with pytest.raises(ValueError, match="names columns outside and inside"):
                wrong.fit(frame, Y)
    assert ledger.spends() == []
    search(decisions(logistic(), sensitive_features="g")).fit(frame, Y)
    search(logistic(), sensitive_features="g").fit(frame, Y)


def test_a_repair_hands_no_groups_on_without_routing():
    fair = logistic(groups=[0, 1], fairness_weight=0.5)
    refused(search(decisions(fair)), "needs the sensitive features")


FAIR_ENCODER = DPWassersteinAutoencoder(
    bounds=(-1, 1), fairness_weight=0.5, max_iter=1, groups=[0, 1]
)


def test_a_search_hands_groups_to_no_step_before_the_last_without_routing():
    behind = make_pipeline(FAIR_ENCODER, logistic(bounds=(0, 1)))
    chosen = ColumnTransformer([("chosen", FAIR_ENCODER, [0, 1])])
    for first in (behind, make_pipeline(chosen, logistic(bounds=(0, 1)))):
        refused(search(first), "DPWassersteinAutoencoder needs the sensitive features")
        with config_context(enable_metadata_routing=True):
            accepted(search(first))
    # What one wraps is handed on, and not what stands further inside.
    repaired = numbers(regression())
    accepted(search(TransformedTargetRegressor(repaired, check_inverse=False)))
    inside = numbers(DPWassersteinMLPRegressor(target_bounds=(0, 1), groups=[0, 1]))
    wrapped = TransformedTargetRegressor(inside, check_inverse=False)
    refused(search(wrapped), "DPWassersteinMLPRegressor needs the sensitive features")


@pytest.mark.parametrize("asked", [False, None, "another"])
def test_groups_that_routing_does_not_hand_on(asked):
    with config_context(enable_metadata_routing=True):
        fair = logistic(groups=[0, 1], fairness_weight=0.5, max_iter=2)
        deaf = clone(fair).set_fit_request(sensitive_features=asked)
        encoder = clone(FAIR_ENCODER).set_fit_request(sensitive_features=asked)
        before = make_pipeline(encoder, fair.set_params(bounds=(0, 1)))
        for one in (make_pipeline("passthrough", deaf), before):
            for meta in (search(one), search(decisions(one)), decisions(one)):
                refused(meta, "needs the sensitive features")
        # An encoder that asks, before a model that has nothing to do with groups.
        model = make_pipeline(FAIR_ENCODER, regression(bounds=(0, 1)))
        accepted(search(model))
        ledger = PrivacyLedger(50.0, 1e-3)
        steps = make_pipeline(DPTableEncoder(ledger=ledger), encoder, fair)
        with pytest.raises(ValueError, match="Autoencoder needs the sensitive feat"):
            with_budget(steps, 3.0).fit(X, Y, sensitive_features=GROUP)
        assert ledger.spends() == []


def test_groups_that_nobody_asks_for_are_handed_to_nobody():
    with config_context(enable_metadata_routing=True):
        deaf = logistic().set_fit_request(sensitive_features=False)
        accepted(search(make_pipeline("passthrough", deaf)))
        accepted(decisions(make_pipeline("passthrough", deaf)))
        # A search hands them to its estimator itself.
        accepted(search(deaf.set_params(fairness_weight=0.5, groups=[0, 1])))


# --- callbacks of scikit-learn --------------------------------------------------------


class Refusing:
    """A callback that cannot be set up, as a monitor of a score that nobody knows."""

    def setup(self, estimator, context):
        raise LookupError("no such score")

    def on_fit_task_begin(self, estimator, context):
        pass

    on_fit_task_end = teardown = on_fit_task_begin


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="no callbacks"
)
@pytest.mark.parametrize("model", [logistic(max_iter=1), network(), FAIR_ENCODER])
def test_callbacks_that_cannot_be_set_up(model):
    ledger = PrivacyLedger(50.0, 1e-3)
    model = clone(model).set_params(ledger=ledger).fit(X, Y, sensitive_features=GROUP)
    before = model.privacy_
    model.set_callbacks(Refusing())
    with pytest.raises(LookupError, match="no such score"):
        model.fit(X, Y, sensitive_features=GROUP)
    assert len(ledger.spends()) == 1 and model.privacy_ is before


# --- what scikit-learn was told to trust ----------------------------------------------


def holey(column):
    cells = np.array(column, dtype=float)
    cells.flat[3] = np.nan
    return cells


FITTERS = {
    "model": lambda X, y, **more: regression(**more).fit(X, y),
    "network": lambda X, y, **more: DPWassersteinMLPRegressor(
        bounds=(-1, 1), target_bounds=(0, 1), fairness_weight=0.0, max_iter=2, **more
    ).fit(X, y),
    "repair": lambda X, y, **more: numbers(regression(), **more).fit(
        X, y, sensitive_features=GROUP
    ),
    "search": lambda X, y, **more: search(regression(), **more).fit(X, y),
    "validation": lambda X, y, **more: dp_cross_validate(
        regression(), X, y, target_bounds=(0, 1), **more
    ),
    "pipeline": lambda X, y, ledger: with_budget(
        make_pipeline(DPTableEncoder(ledger=ledger), regression(bounds=None)), 1.0
    ).fit(X, y),
}


@pytest.mark.parametrize("place", ["X", "y"])
@pytest.mark.parametrize("fitter", FITTERS)
def test_cells_are_looked_at_although_they_are_said_to_be_finite(fitter, place):
    table = {"X": X, "y": Y.astype(float)}
    table[place] = holey(table[place])
    ledger = PrivacyLedger(50.0, 1e-3)
    with config_context(assume_finite=True):
        if fitter == "pipeline" and place == "X":
            FITTERS[fitter](**table, ledger=ledger)  # gaps are a level of their own
            return
        with pytest.raises(ValueError, match="contains NaN|infinity"):
            FITTERS[fitter](**table, ledger=ledger)
    assert ledger.spends() == []


@pytest.mark.parametrize(
    "wrong",
    [
        regression(alpha=-1.0),
        output_perturbation(C=-1.0),
        logistic(fairness_weight=-1.0, groups=[0, 1]),
        numbers(regression(), reach_size=-1.0),
        DPSinkhornGenerator(bounds=(-1, 1), epsilon=-1.0),
    ],
)
def test_arguments_are_looked_at_although_they_are_said_to_be_checked(wrong):
    ledger = PrivacyLedger(50.0, 1e-3)
    wrong = clone(wrong).set_params(ledger=ledger)
    given = {} if "groups" not in wrong.get_params() else {"sensitive_features": GROUP}
    with config_context(skip_parameter_validation=True):
        with pytest.raises(ValueError, match="parameter of"):
            wrong.fit(X, Y, **given)
    assert ledger.spends() == []


# --- budgets that no noise can be drawn for -------------------------------------------


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-7, 1e7])
@pytest.mark.parametrize("blind", [False, True])
def test_budgets_that_no_noise_can_be_drawn_for(blind, epsilon):
    ledger = PrivacyLedger(1e8, 1e-3)
    repair = numbers(regression(), epsilon=epsilon, blind=blind, ledger=ledger)
    with pytest.raises(ValueError, match="The share of epsilon that is for"):
        repair.fit(X, Y, sensitive_features=GROUP)
    assert ledger.spends() == []


@pytest.mark.parametrize("epsilon", [1.1e6, 1e7, 1e300])
def test_a_search_of_a_budget_that_no_noise_can_be_drawn_for(epsilon):
    ledger = PrivacyLedger(1e302, 1e-3)
    given = {"epsilon": epsilon, "ledger": ledger}
    with pytest.raises(ValueError, match="epsilon must be in .* or inf"):
        search(numbers(regression()), **given).fit(X, Y, sensitive_features=GROUP)
    with pytest.raises(ValueError, match="epsilon must be in .* or inf"):
        dp_cross_validate(
            numbers(regression()),
            X,
            Y,
            sensitive_features=GROUP,
            groups=[0, 1],
            target_bounds=(0, 1),
            **given,
        )
    assert ledger.spends() == []


@pytest.mark.parametrize("epsilon", [1e-7, 3e-5])
@pytest.mark.parametrize(
    "repair",
    [
        numbers(regression()),
        numbers(regression(), blind=True),
        numbers(regression(), calibration_size="all"),
        decisions(logistic(), method="histogram", constraint="equalized_odds"),
    ],
)
def test_shares_of_a_repair_that_no_noise_can_be_drawn_for(repair, epsilon):
    """They were found out by its fit, when a search or an encoder had spent."""
    is_pure = hasattr(repair, "method")  # in one piece
    grid = {"epsilon": [epsilon]}
    found = search(repair, grid, method="compose", epsilon=3.0)
    behind = encoded(clone(repair), None)
    place = f"{behind.steps[-1][0]}__epsilon"
    last = f"{behind.steps[-1][0]}__sensitive_features"
    ledger = PrivacyLedger(50.0, 1e-3)
    behind.set_params(dptableencoder__ledger=ledger, **{place: epsilon})
    if is_pure and epsilon > 1e-6:
        accepted(found)
        return
    refused(found, "A candidate cannot be fitted with its share of the budget")
    with pytest.raises(ValueError, match="The share of epsilon that is for"):
        behind.fit(X, Y, **{last: GROUP})
    assert ledger.spends() == []


def test_a_plan_refuses_shares_that_a_fit_would():
    """It told an epsilon of 0 for each candidate."""
    grid = {"fairness_weight": [0.0, 0.3, 0.6]}
    for epsilon, delta in [(0.01, 0.01), (1e-4, 1e-5)]:
        found = search(logistic(), grid, epsilon=epsilon, delta=delta)
        said = "A candidate cannot be fitted with its share of the budget: raise it"
        refused(found, said)
        with pytest.raises(ValueError, match=said):
            found.plan()
        assert found.set_params(param_grid={}).plan().fit.epsilon > 0


@pytest.mark.parametrize("coverage", [0.999, 1 - 1e-6])
def test_a_search_that_fits_candidates_over_and_over_says_so(coverage):
    ledger = PrivacyLedger(1e-3, 1e-9)
    found = search(logistic(), {"C": [0.1, 1.0]}, ledger=ledger, coverage=coverage)
    found.set_params(method="repeat")
    is_said = coverage > 0.999
    for call in (lambda: found.fit(X, Y), found.plan):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with contextlib.suppress(BudgetExceededError):
                call()
        texts = [str(one.message) for one in said]
        many = [text for text in texts if "fits 3,459 models on average, of 2" in text]
        assert len(many) == is_said
    warnings.simplefilter("error")
    found.set_params(ledger=PrivacyLedger(50.0, 1e-3))
    if is_said:
        with pytest.raises(UserWarning, match="lower coverage"):
            found.fit(X, Y)
        assert found.ledger.spends() == []


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (decisions("x"), "estimator"),
        (numbers("x"), "estimator"),
        (decisions(logistic(), blind=True, group_estimator="x"), "group_estimator"),
        (search(decisions("x")), "estimator"),
    ],
)
def test_what_is_no_estimator_inside_a_candidate_is_said_as_such(wrong, name):
    """scikit-learn's tags said that a class in an MRO must call another."""
    said = f"The '{name}' parameter of "
    refused(search(wrong), said)
    with pytest.raises(ValueError, match=said):
        dp_cross_validate(wrong, X, Y, sensitive_features=GROUP)


def test_a_delta_of_few_digits_is_refused_at_no_cost():
    """What a model told beforehand was less than what its fit cost."""
    least = 1e-300
    refused(decisions(logistic(delta=1e-320)), "The 'delta' parameter of DPWasserstein")
    refused(numbers(regression(delta=1e-320)), "The 'delta' parameter of DPLinear")
    grid = {"fairness_weight": [0.0, 0.3]}
    found = search(logistic(), grid, delta=1.5 * least, refit=True)
    refused(found, "The 'delta' parameter of DPWasserstein")
    accepted(decisions(logistic(delta=least)))


@pytest.mark.parametrize("epsilon", [380.0, 560.0, 1e4, 1e5, 9e5])
def test_a_large_budget_is_not_lost_to_rounding(epsilon):
    model = logistic(epsilon=epsilon)
    for repair in (decisions(model), decisions(model, constraint="equalized_odds")):
        repair.set_params(epsilon=epsilon)
        assert repair.fit(X, Y, sensitive_features=GROUP).privacy_.epsilon <= epsilon
        found = search(decisions(logistic()), epsilon=epsilon)
        found.fit(X, Y, sensitive_features=GROUP)
        assert (1 - 1e-8) * epsilon < found.privacy_.epsilon <= epsilon


@pytest.mark.parametrize("over", [1e-9, -1e-9])
def test_what_costs_more_than_rounding_is_refused(over):
    model = logistic(epsilon=400.0).fit(X, Y)
    (event,) = model.privacy_.events
    less = replace(event, mu=event.mu * (1 - over))
    expected = replace(model.privacy_, events=(less,))
    if over < 0:
        assert kept(expected, model).events == (less,)
        return
    with pytest.raises(ValueError, match="cost more than its arguments say"):
        kept(expected, model)


@pytest.mark.parametrize("share", [1e-300, 0.0009])
@pytest.mark.parametrize("repair", [numbers(regression()), decisions(logistic())])
def test_shares_that_no_noise_can_be_drawn_for(repair, share):
    wrong = clone(repair).set_params(blind=True, reach_size=share)
    refused(wrong, "reach_size")
    accepted(clone(repair).set_params(blind=True, reach_size=0.001))


def frozen_numbers(**more):
    model = FrozenEstimator(LinearRegression().fit(X, Y))
    return numbers(model, base_guarantee="public", blind=True, **more)


@pytest.mark.parametrize("refit", [False, True])
def test_a_blind_repair_that_needs_more_delta_than_a_search_has(refit):
    more = {"epsilon": 4.0, "refit": refit}
    for delta in (1e-8, 9.9e-6, *[1.9e-5] * refit):
        refused(search(frozen_numbers(), delta=delta, **more), "no part of it has a de")
    if refit:
        little = {**more, "refit_fraction": 0.1, "delta": 5e-5}
        refused(search(frozen_numbers(), **little), "no part of it has a delta")
    accepted(search(frozen_numbers(), delta=1e-4, **more))
    ours = frozen_numbers(group_estimator=logistic(classes=None))
    accepted(search(ours, delta=1e-8, **more))


def test_a_blind_repair_that_needs_more_delta_than_cross_validation_has():
    given = {"sensitive_features": GROUP, "target_bounds": (0, 1), "epsilon": 4.0}
    ledger = PrivacyLedger(50.0, 1e-3)
    with pytest.raises(ValueError, match="no part of it has a delta"):
        dp_cross_validate(frozen_numbers(), X, Y, ledger=ledger, delta=1e-8, **given)
    assert ledger.spends() == []
    ours = frozen_numbers(group_estimator=logistic(classes=None))
    dp_cross_validate(ours, X, Y, ledger=ledger, delta=1e-8, **given)


# --- dates ----------------------------------------------------------------------------


def dates(form):
    days = np.arange(2 * len(X)).reshape(-1, 2)
    if form == "array":
        return days.astype("datetime64[D]")
    if form == "times":
        return days.astype("timedelta64[s]")
    frames = pytest.importorskip(form)
    columns = {name: days[:, i].astype("datetime64[ms]") for i, name in enumerate("ab")}
    return frames.DataFrame(columns)


NUMERIC = [
    regression(),
    output_perturbation(),
    logistic(),
    scores(),
    DPWassersteinMLPRegressor(bounds=(-1, 1), fairness_weight=0.0, max_iter=2),
    DPWassersteinAutoencoder(bounds=(-1, 1), fairness_weight=0.0, max_iter=2),
    DPSinkhornGenerator(bounds=(-1, 1), method="semidual"),
    DPSlicedWassersteinGenerator(bounds=(-1, 1)),
    decisions(logistic()),
    search(regression()),
]


@pytest.mark.parametrize("form", ["array", "times", "pandas", "polars"])
@pytest.mark.parametrize("model", NUMERIC, ids=lambda model: type(model).__name__)
def test_dates_are_no_numbers(model, form):
    ledger = PrivacyLedger(50.0, 1e-3)
    model = clone(model).set_params(ledger=ledger)
    wants = model.get_params().get("groups") is not None
    given = {"sensitive_features": GROUP} if wants else {}
    with pytest.raises(ValueError, match="X holds dates or times"):
        model.fit(dates(form), Y, **given)
    assert ledger.spends() == []


@pytest.mark.parametrize("form", ["array", "times", "pandas", "polars"])
def test_dates_that_a_table_may_hold(form):
    regression().fit(X.tolist(), Y.tolist()).predict(X.tolist())
    DPTableEncoder().fit(dates(form))
    with pytest.raises(ValueError, match="X holds dates or times"):
        regression().fit(X, Y).predict(dates(form))


@pytest.mark.parametrize("fitter", FITTERS)
def test_dates_are_no_target(fitter):
    ledger = PrivacyLedger(50.0, 1e-3)
    for form in ("array", "pandas"):
        y = dates(form)
        y = y["a"] if form == "pandas" else y[:, 0]
        with pytest.raises(ValueError, match="y holds dates or times"):
            FITTERS[fitter](X, y, ledger=ledger)
    assert ledger.spends() == []


# --- what an encoder or a model of the groups inside would refuse ---------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sensitive_features": 5}, "sensitive_features must be a list"),
        ({"sensitive_features": [0]}, "sensitive_features must be a string"),
        ({"sensitive_features": ["c"]}, "columns that X does not have"),
        ({"codebook": {"c": [0, 1]}}, "columns that X does not have"),
        ({"codebook": {"a": "?"}}, "codebook"),
    ],
)
@pytest.mark.parametrize("wrap", ["search", "repair", "both"])
def test_what_an_encoder_inside_would_refuse(wrap, changes, said):
    wrong = make_pipeline(DPTableEncoder(**changes), regression(bounds=None))
    if wrap != "search":
        wrong = numbers(wrong)
    if wrap != "repair":
        wrong = search(wrong)
    ledger = PrivacyLedger(50.0, 1e-3)
    with pytest.raises((TypeError, ValueError), match=said):
        wrong.set_params(ledger=ledger).fit(frame(), Y, sensitive_features=GROUP)
    assert ledger.spends() == []


def choice(*inside, **more):
    columns = [(f"part {i}", *one) for i, one in enumerate(inside)]
    return ColumnTransformer(columns, verbose_feature_names_out=False, **more)


def of_frames(columns):
    return columns.set_output(transform="pandas")


HANDED_ON = {
    "another column": of_frames(choice(("passthrough", ["b"]))),
    "no names": choice(("passthrough", ["a", "b"])),
    "all but it": of_frames(choice(("drop", ["a"]), remainder="passthrough")),
    "no column": choice(("passthrough", ["c"])),
}


@pytest.mark.parametrize("wrap", [search, numbers])
@pytest.mark.parametrize("handed_on", [*HANDED_ON, "some inside", "none inside"])
def test_what_an_encoder_behind_a_choice_of_columns_would_refuse(handed_on, wrap):
    """Names and lists are known before a step is fitted."""
    encoder = DPTableEncoder({"a": {"kind": "number", "range": [-1, 1]}})
    if handed_on == "some inside":
        first = choice(("passthrough", ["a"]), (encoder, ["b"]))
    elif handed_on == "none inside":
        first = choice((make_pipeline(encoder), ["c"]))
    else:
        first = make_pipeline(None, HANDED_ON[handed_on], encoder)
    ledger = PrivacyLedger(50.0, 1e-3)
    model = make_pipeline(first, regression(bounds=None))
    wrong = wrap(model).set_params(ledger=ledger)
    with pytest.raises(ValueError) as refusal:
        wrong.fit(frame(), Y, sensitive_features=GROUP)
    assert ledger.spends() == []
    whose = "X, none that `sensitive_features` takes out of it"
    said = dict.fromkeys(["no column", "none inside"], whose)
    assert said.get(handed_on, "does not have: ['a']") in str(refusal.value)
    assert ("set_output" in str(refusal.value)) == (handed_on == "no names")


@pytest.mark.parametrize("model", ["scaled", "plain", "other relation"])
def test_candidates_that_are_not_private_are_refused_before_a_repair_spends(model):
    candidate = {
        "scaled": make_pipeline(StandardScaler(), regression()),
        "plain": make_pipeline(StandardScaler(), LinearRegression()),
        "other relation": regression(neighboring="add_remove"),
    }[model]
    words = "protect against" if model == "other relation" else "private as a whole"
    refused(numbers(search(candidate)), words)


def test_how_to_cover_what_is_not_is_said():
    """By the argument, where one is all that it takes: public maps of a target."""
    of_roots = {"func": np.square, "inverse_func": np.sqrt}
    checked = TransformedTargetRegressor(regression(), **of_roots)
    refused(search(checked), "TransformedTargetRegressor is not covered. Pass `check_")
    with pytest.warns(PrivacyLeakWarning, match="is not covered. Pass `check_inverse="):
        numbers(checked).fit(X, Y, sensitive_features=GROUP)
    with pytest.warns(PrivacyLeakWarning, match="is not covered. Pass `check_inverse="):
        with_budget(make_pipeline(DPTableEncoder(), checked), 1.0)
    checked.set_params(check_inverse=False)
    for model in (search(checked), numbers(checked)):
        fitted = model.fit(X, Y, sensitive_features=GROUP)
        assert 0.9 < fitted.privacy_.epsilon <= 1.0
    # What is declared needs no way out.
    said = PrivacyGuarantee(1.0, 0.0, "replace_one", "said")
    repair = numbers(
        DecisionTreeRegressor(), base_guarantee=said.qualified(uncovered=["a step"])
    )
    with pytest.warns(PrivacyLeakWarning, match=r'say "public" there\.$'):
        repair.fit(X, Y, sensitive_features=GROUP)


FROZEN = FrozenEstimator(DPTableEncoder(epsilon=5.0).fit(X))
ENCODED = make_pipeline(DPTableEncoder(), regression(bounds=None))


@pytest.mark.parametrize(
    ("model", "budget", "said"),
    [
        (ENCODED, {"epsilon": 1e-5, "method": "compose"}, "epsilon is too small"),
        (ENCODED, {"refit": True, "refit_fraction": 1e-7}, "epsilon is too small"),
        (make_pipeline(FROZEN, regression()), {}, "costs more than the budget"),
        (make_pipeline(FROZEN, *ENCODED), {}, "epsilon is too small"),
    ],
)
def test_a_candidate_whose_share_is_too_small(model, budget, said):
    """Also where the search stands inside of what spends before it."""
    refused(search(model, **budget), said)
    refused(numbers(search(model, **budget)), said)
    if "refit" not in budget:
        ledger = PrivacyLedger(50.0, 1e-3)
        epsilon = budget.get("epsilon", 1.0) / 10
        public = {"epsilon": epsilon, "target_bounds": (0, 1), "ledger": ledger}
        with pytest.raises(ValueError):
            dp_cross_validate(model, X, Y, cv=2, **public)
        assert ledger.spends() == []


def test_a_model_of_the_groups_that_cannot_read_text():
    encoded = make_pipeline(DPTableEncoder(), regression(bounds=None))
    repair = numbers(encoded, blind=True)
    words = frame(b=["John Doe", *"xy" * 29, "x"])
    for right in (repair, search(repair)):  # behind the same encoder
        accepted(clone(right), words)
    # A search among regressors has `classes` too, and answers no probabilities.
    refused(numbers(search(encoded), blind=True), "pass a group_estimator", words)
    accepted(numbers(search(regression()), blind=True))
    learnt = clone(encoded).fit(words, Y)
    repair = numbers(**frozen(learnt), blind=True)
    refused(repair, "pass a group_estimator", words)
    ours = make_pipeline(DPTableEncoder(), logistic(bounds=None, classes=None))
    accepted(clone(repair).set_params(group_estimator=ours), words)
    searched = search(numbers(encoded, blind=True, group_estimator=ours))
    accepted(searched, words)
    # The column of the groups is taken out before it.
    named = numbers(regression(), blind=True, sensitive_features="g")
    named.set_params(groups=["u", "v"])
    search(named).set_params(groups=["u", "v"]).fit(frame(g=["u", "v"] * 30), Y)


@pytest.mark.parametrize("inside", [0, -1, 2, [1]])
@pytest.mark.parametrize("outside", ["g", 2, -1, ["g"]])
def test_positions_inside_are_those_of_another_table(inside, outside):
    table = frame(g=GROUP)
    named = logistic(groups=[0, 1], fairness_weight=0.5, sensitive_features=inside)
    ledger = PrivacyLedger(50.0, 1e-3)
    for model in (decisions(named), search(named), search(decisions(named))):
        model.set_params(sensitive_features=outside, ledger=ledger)
        with pytest.raises(ValueError, match="names columns outside and inside"):
            model.fit(table, Y)
    by_name = named.set_params(sensitive_features="g")
    with pytest.raises(ValueError, match="names columns outside and inside"):
        decisions(by_name, sensitive_features=outside, ledger=ledger).fit(table, Y)
    assert ledger.spends() == []


def test_labels_that_an_ensemble_made_numbers_get_a_hint():
    X, y = np.eye(4), np.array(["no", "yes", "no", "yes"])
    model = DPWassersteinLogisticRegression(fairness_weight=0.0, classes=["no", "yes"])
    hint = re.escape("list classes=[0, 1, ...]")
    with pytest.raises(ValueError, match=hint):
        VotingClassifier([("model", model)]).fit(X, y)
    for other, labels in ((model, ["no", "maybe"] * 2), (model, [0.5, 1.0] * 2)):
        with pytest.raises(ValueError) as caught:
            other.fit(X, np.array(labels))
        assert hint not in str(caught.value)
    with pytest.raises(ValueError, match="not in classes") as caught:
        model.set_params(classes=[0, 1]).fit(X, [0, 2, 0, 2])
    assert "list classes" not in str(caught.value)


def fair(**changes):
    return logistic(fairness_weight=1.0, **{"groups": [0, 1], **changes})


TAKERS = {
    "repair": lambda model: decisions(model).set_params(groups=[0, 1, 2]),
    "search": lambda model: search(model).set_params(groups=[0, 1, 2]),
    "search over a repair": lambda model: search(
        decisions(model).set_params(groups=[0, 1, 2])
    ).set_params(groups=[0, 1, 2]),
    "cross-validation": None,
}


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
@pytest.mark.parametrize(
    "inside", [fair(), make_pipeline(FunctionTransformer(), fair())]
)
def test_groups_that_are_handed_on_are_looked_at_before_the_spend(take, inside):
    three, ledger = np.arange(60) % 3, PrivacyLedger(50.0, 1e-3)
    about = {"sensitive_features": three}
    with config_context(enable_metadata_routing=True):
        with pytest.raises(ValueError, match="a label that is not in groups="):
            if take is None:
                about |= {"groups": [0, 1, 2], "classes": [0, 1], "ledger": ledger}
                dp_cross_validate(inside, X, Y, cv=2, **about)
            else:
                take(inside).set_params(ledger=ledger).fit(X, Y, **about)
    assert ledger.spends() == []


def test_groups_that_a_wrapped_model_is_handed_and_names_itself():
    with config_context(enable_metadata_routing=True):
        refused(decisions(fair(sensitive_features=1)), "was given twice")


def test_groups_that_routing_hands_a_pipeline_are_looked_at_before_it_spends():
    ledger = PrivacyLedger(50.0, 1e-3)
    model = fair(bounds=None, data_norm=1.0, ledger=ledger)
    pipeline = with_budget(make_pipeline(DPTableEncoder(ledger=ledger), model), 2.0)
    with config_context(enable_metadata_routing=True):
        with pytest.raises(ValueError, match="a label that is not in groups="):
            pipeline.fit(X, Y, sensitive_features=np.arange(60) % 3)
        assert ledger.spends() == []
        pipeline.fit(X, Y, sensitive_features=GROUP)
    assert len(ledger.spends()) == 2


@pytest.mark.parametrize("named", [0, lambda X: X[:, 0]], ids=["column", "function"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: make_pipeline(FunctionTransformer(), model),
        lambda model: VotingClassifier([("a", model)], voting="soft"),
        lambda model: decisions(
            logistic(), sensitive_features=model.sensitive_features
        ),
    ],
    ids=["model", "pipeline", "vote", "repair"],
)
@CONDITIONAL
def test_groups_that_a_model_inside_names_are_looked_at_before_the_spend(wrap, named):
    """Whichever rows the random split gives to the model."""
    table = np.column_stack([np.arange(60) % 3, X])
    said = "a label that is not in groups=[0, 1]"
    refused(decisions(wrap(fair(sensitive_features=named))), said, table)
    refused(search(wrap(fair(sensitive_features=named))), said, table)
    table[:, 0] = GROUP
    accepted(decisions(wrap(fair(sensitive_features=named))), table)


@pytest.mark.parametrize("named", [0, "a", [0], ["a"]])
def test_a_model_inside_that_names_all_columns_as_sensitive(named):
    table = frame()[["a"]].assign(a=GROUP)
    refused(search(fair(sensitive_features=named)), "left to learn from", table)


SHORTER = {
    "model": logistic(),
    "pipeline": make_pipeline(FunctionTransformer(), logistic()),
    "threshold": FixedThresholdClassifier(logistic()),
    "search": DPGridSearchCV(logistic(), {}),
}


@pytest.mark.parametrize("place", ["estimator", "group_estimator"])
@pytest.mark.parametrize("inside", SHORTER.values(), ids=SHORTER)
def test_a_list_of_labels_that_is_shorter_inside(inside, place):
    """Whether a row holds what it lacks must not tell."""
    three, about = np.arange(60) % 3, {"classes": [0, 1, 2], "groups": [0, 1]}
    models = {"estimator": inside}
    if place == "group_estimator":
        about = {"classes": [0, 1], "groups": [0, 1, 2]}
        models = {"estimator": DummyClassifier(), "blind": True, place: inside}
        models |= {"base_guarantee": DECLARED}
    for labels in (Y, three):
        ledger = PrivacyLedger(50.0, 1e-3)
        repair = DP2DPClassifier(**models, **about, ledger=ledger)
        y, groups = (labels, GROUP) if place == "estimator" else (Y, labels)
        with pytest.raises(ValueError, match="does not list all classes that this fit"):
            repair.fit(X, y, sensitive_features=groups)
        assert ledger.spends() == []


@pytest.mark.parametrize("inside", SHORTER.values(), ids=SHORTER)
def test_a_search_over_a_list_of_labels_that_is_shorter(inside):
    if isinstance(inside, DPGridSearchCV):
        inside = DP2DPClassifier(logistic(), classes=[0, 1, 2], groups=[0, 1])
    about = {"groups": [0, 1], "classes": [0, 1, 2]}
    ledger = PrivacyLedger(50.0, 1e-3)
    with pytest.raises(ValueError, match="not in classes=|does not list all classes"):
        DPGridSearchCV(inside, {}, ledger=ledger, **about).fit(
            X, np.arange(60) % 3, sensitive_features=GROUP
        )
    assert ledger.spends() == []


VOTES = {
    "vote": lambda model: VotingClassifier([("a", model)], voting="soft"),
    "stack": lambda model: StackingClassifier(
        [("a", model)], LogisticRegression(), cv=2
    ),
    "bag": lambda model: BaggingClassifier(model, n_estimators=2, bootstrap=False),
    "rest": OneVsRestClassifier,
}


@pytest.mark.parametrize("labels", [["no", "yes"], [1, 2]])
@pytest.mark.parametrize("vote", VOTES.values(), ids=VOTES)
@CONDITIONAL
def test_an_ensemble_inside_a_repair_that_hands_on_numbers(vote, labels):
    y = np.array(labels)[Y]
    about = {"classes": labels, "groups": [0, 1]}
    ledger = PrivacyLedger(50.0, 1e-3)
    inside = vote(make_pipeline(FunctionTransformer(), logistic(classes=labels)))
    repair = DP2DPClassifier(inside, ledger=ledger, **about)
    with pytest.raises(ValueError, match="hands on numbers for labels"):
        repair.fit(X, y, sensitive_features=GROUP)
    assert ledger.spends() == []
    repair.set_params(estimator=vote(logistic()))
    repair.fit(X, y, sensitive_features=GROUP)
    assert set(repair.predict(X, sensitive_features=GROUP)) <= set(labels)


@pytest.mark.parametrize("vote", VOTES.values(), ids=VOTES)
@CONDITIONAL
def test_an_ensemble_inside_a_repair_that_finds_one_label(vote):
    """It answers for one class, or for as many as what it holds: a constant does."""
    ledger = PrivacyLedger(50.0, 1e-3)
    repair = decisions(vote(logistic()), ledger=ledger)
    repair.fit(X, np.ones(60, dtype=int), sensitive_features=GROUP)
    assert repair.predict_proba(X, sensitive_features=GROUP).shape == (60, 2)
    assert repair.privacy_.conditional_on and len(ledger.spends()) == 1


@pytest.mark.parametrize(
    "model", [FAIR, decisions(logistic(data_norm=1.0, bounds=None))]
)
def test_a_pipeline_of_one_budget_hands_the_groups_to_who_takes_them(model):
    """With the keyword of the estimators, whether routing is on or off."""
    named = f"{type(model).__name__.lower()}__sensitive_features"
    asked = {"sensitive_features": GROUP} if "dp2dp" in named else {}
    probabilities, marks = [], []
    for routing, groups in ((False, named), (False, None), (True, None)):
        seeds = [name for name in model.get_params() if name.endswith("random_state")]
        given = clone(model).set_params(**dict.fromkeys(seeds, 0))
        pipeline = with_budget(make_pipeline(DPTableEncoder(random_state=0), given), 3)
        with config_context(enable_metadata_routing=routing):
            pipeline.fit(X, Y, **{groups or "sensitive_features": GROUP})
            probabilities.append(pipeline.predict_proba(X, **asked))
            marks.append(pipeline.score(X, Y, **asked))
    assert np.array_equal(probabilities[0], probabilities[1])
    assert np.array_equal(probabilities[0], probabilities[2])
    assert marks[0] == marks[1] == marks[2]
    with pytest.raises(ValueError, match="need a row for each record"):
        pipeline.fit(X, Y, sensitive_features=GROUP[:-1])


def test_groups_that_no_step_takes_are_refused():
    pipeline = encoded(regression(bounds=None, data_norm=1.0), PrivacyLedger(9.0, 1e-3))
    with pytest.raises(ValueError, match="does not accept the sensitive_features"):
        pipeline.fit(X, Y, sensitive_features=GROUP)
    assert pipeline[0].ledger.spends() == []


def test_sentences_name_the_private_way_out():
    with pytest.raises(ValueError, match="With fairness_weight=0 it needs none"):
        logistic(fairness_weight=0.5).fit(X, Y)
    with pytest.raises(
        ValueError, match=r"'sex'\. .*enable_metadata_routing=True\)\.$"
    ):
        decisions(logistic()).fit(X, Y)
    with pytest.raises(ValueError, match="put a DPTableEncoder in front"):
        logistic().fit(np.where(X > 0, "John", "1"), Y)
    with pytest.raises(
        ValueError, match=r"(?s)contains NaN.*DPTableEncoder in"
    ) as caught:
        logistic().fit(np.where(X > 0, np.nan, X), Y)
    assert "HistGradientBoosting" not in str(caught.value)  # which is not private
    model = decisions(logistic()).fit(X, Y, sensitive_features=GROUP)
    with pytest.raises(ValueError, match="set handle_unknown='pooled' for this one"):
        model.predict(X, sensitive_features=GROUP + 5)
    model.set_params(handle_unknown="pooled")
    assert len(model.predict(X, sensitive_features=GROUP + 5)) == len(X)
    with pytest.raises(ValueError, match="for all other labels.$"):
        decisions(logistic()).fit(X, Y, sensitive_features=GROUP + 5)


def test_what_a_private_search_and_a_pipeline_do_not_have_is_said():
    search = DPGridSearchCV(logistic(), {"C": [0.1, 1.0]}, epsilon=50.0).fit(X, Y)
    pipeline = encoded(logistic(data_norm=1.0, bounds=None), None).fit(X, Y)
    for one, name, said in (
        (search, "cv_results_", "dp_cross_validate estimates"),
        (search, "best_score_", "are not released"),
        (pipeline, "privacy_", r"privacy_report\(pipeline\).guarantee"),
        (pipeline, "transform", "has no attribute 'transform'"),
        (search, "nothing", "has no attribute 'nothing'"),
    ):
        assert not hasattr(one, name)
        with pytest.raises(AttributeError, match=said):
            getattr(one, name)
        again = pickle.loads(pickle.dumps(one))
        assert np.array_equal(again.predict(X), one.predict(X))


def test_a_missing_argument_is_said_with_its_function():
    with pytest.raises(TypeError, match="^dp_group_rates: missing a required argument"):
        dp_group_rates(Y, Y, sensitive_features=GROUP)


# Cells without a hash, or that no comparison takes: the sentence does not say which.
NO_LABELS = [[1], {"a": 1}, Decimal("sNaN"), np.timedelta64(3, "D"), np.array([1, 2])]


@pytest.mark.parametrize("cell", NO_LABELS, ids=lambda cell: type(cell).__name__)
def test_a_cell_that_can_be_no_label_is_refused_as_any_unknown_one(cell):
    X, y = np.zeros((4, 1)), np.array([0, 1, 0, 1], dtype=object)
    y[2] = cell
    model = DPWassersteinLogisticRegression(
        classes=[0, 1], data_norm=1.0, fairness_weight=0.0
    )
    with pytest.raises(ValueError, match="^y contains a label that is not in classes"):
        model.fit(X, y)
    with pytest.raises((TypeError, ValueError), match="sensitive_features|not in grou"):
        model.set_params(groups=[0, 1], fairness_weight=1.0).fit(
            X, [0, 1, 0, 1], sensitive_features=y
        )


def test_a_target_that_cannot_be_compared_is_refused_in_one_sentence():
    y = np.array([0.5, Decimal("sNaN")], dtype=object)
    model = DPLinearRegression(target_bounds=(0, 1), data_norm=1.0)
    with pytest.raises(ValueError, match="cell that cannot be read as a number"):
        model.fit(np.zeros((2, 1)), y)


every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


@every_entry
@pytest.mark.parametrize(
    ("name", "listed", "said"),
    [
        ("classes", [0, 1, 1], "lists a label twice"),
        ("classes", [0, 1, True], "lists a label twice"),
        ("classes", [[0, 1]], "must list labels, not lists"),
        ("classes", [[0], [1, 2]], "must list labels, not lists"),
        ("classes", [0, 1, None], "contains a missing label"),
        ("groups", [0, 1, 1], "lists a label twice"),
        ("groups", [[0, 1]], "must list at least two"),
        ("groups", [0, 1, np.nan], "contains a missing label"),
    ],
)
def test_public_lists_hold_each_label_once(entry, name, listed, said):
    """One listed twice would count as another one where lists are counted."""
    if name not in entry.make().get_params(deep=False):
        return
    rows = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    y = rows[:, 0] if entry.task == "regression" else (rows[:, 1] > 0).astype(int)
    ledger = PrivacyLedger(50.0, 1e-3)
    wrong = entry.make(**{**entry.public, name: listed, "ledger": ledger})
    with pytest.raises(ValueError, match=f"^{name} {said}"):
        wrong.fit(rows, y)
    assert ledger.spends() == []


def private_columns():
    """Columns that a library reads only by an error that quotes a cell."""
    pa, pl, pd = map(pytest.importorskip, ("pyarrow", "polars", "pandas"))
    data = b"1" * 20 + b"\xffsecret"
    ends = pa.py_buffer(np.r_[np.arange(21), len(data)].astype(np.int32))
    buffers = [None, ends, pa.py_buffer(data)]
    text = pa.Array.from_buffers(pa.string(), 21, buffers)
    far = np.array(["2020-02-01"] * 20 + ["20000-01-01"], dtype="M8[ms]")
    return {
        "Arrow": text,
        "pandas": pd.Series(text, dtype=pd.ArrowDtype(text.type)),
        "pandas text": pd.Series(text, dtype=pd.StringDtype("pyarrow")),
        "polars": pl.Series(far),
    }


def frame_of(column, numbers):
    """A table of the column's own library."""
    library = import_module(type(column).__module__.split(".")[0])
    make = getattr(library, "DataFrame", getattr(library, "table", None))
    return make({"a": column, "b": numbers})


def everything_in(error):
    """All that an exception carries along, as one text."""
    told = [repr(error.args), repr(vars(error))]
    if isinstance(error, UnicodeError):
        told.append(repr(error.object))
    for other in (error.__cause__, error.__context__):
        told += [everything_in(other)] if other is not None else []
    return " ".join(told)


@pytest.mark.parametrize("place", ["X", "y", "sensitive_features"])
@every_entry
def test_no_error_quotes_a_cell_that_its_library_cannot_read(entry, place):
    numbers = np.linspace(-1, 1, 21)
    for name, column in private_columns().items():
        table = {
            "X": np.column_stack([numbers, numbers]),
            "y": numbers if entry.task == "regression" else np.arange(21) % 2,
            "sensitive_features": np.arange(21) % 2,
        }
        table[place] = column
        if place == "X":
            table["X"] = frame_of(column, numbers)
        estimator = entry.make(**entry.public)
        if entry.needs_groups:
            estimator.set_params(sensitive_features=None)
        else:
            table.pop("sensitive_features")
        if entry.task == "transform":
            table.pop("y")
        try:
            estimator.fit(table.pop("X"), **table)
        except (TypeError, ValueError) as error:
            told = everything_in(error)
            assert "secret" not in told and "20000" not in told, (name, told)


@every_entry
@pytest.mark.parametrize("place", ["y", "sensitive_features"])
def test_columns_of_unlike_lengths_do_not_tell_them(entry, place):
    """Whether a record is there may be private, and so are numbers of rows."""
    table = {"X": np.zeros((12345, 2)), "y": np.zeros(12345)}
    table["sensitive_features"] = np.zeros(12345)
    table[place] = np.zeros(6789)
    estimator = entry.make(**entry.public)
    if entry.needs_groups:
        estimator.set_params(sensitive_features=None)
    else:
        table.pop("sensitive_features")
    if entry.task == "transform":
        table.pop("y")
    if place in table:
        with pytest.raises(ValueError, match="a row for each record") as refused:
            estimator.fit(table.pop("X"), **table)
        told = everything_in(refused.value) + str(refused.value)
        assert "12345" not in told and "6789" not in told


@pytest.mark.parametrize("frozen", [False, True])
def test_what_gives_probabilities_to_a_classifier_without_is_named(frozen):
    X, y, group = make_spurious_bias(200, random_state=0)
    machine = FrozenEstimator(LinearSVC().fit(X, y)) if frozen else LinearSVC()
    public = {"classes": [0, 1], "groups": [0, 1]}
    plain = DPWassersteinLogisticRegression(fairness_weight=0, bounds=(-10, 10))
    for repair in (
        DP2DPClassifier(machine, **public),
        DP2DPClassifier(plain, blind=True, group_estimator=machine, **public),
    ):
        with pytest.raises(ValueError, match="CalibratedClassifierCV around one with"):
            repair.fit(X, y, sensitive_features=group)
    calibrated = CalibratedClassifierCV(machine).fit(X, y)
    repair = DP2DPClassifier(
        FrozenEstimator(calibrated), base_guarantee="public", **public
    )
    assert repair.fit(X, y, sensitive_features=group).privacy_.epsilon <= 1.0


def test_a_path_or_a_dict_is_no_table(tmp_path):
    """One sentence with the way out, and nothing spent, of a fit and of its answers."""
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    columns = {"age": [30, 40, 50], "pay": [1, 2, 3]}
    given = [("pay.csv", "read the file first"), (tmp_path / "x", "read the file"),
             (columns, r"pass pandas\.DataFrame\(X\)")]  # fmt: skip
    models = [
        DPTableEncoder(),
        DPLinearRegression(bounds=(0, 99), target_bounds=(0, 9)),
    ]
    for model in [*models, DPSinkhornGenerator(), make_pipeline(DPTableEncoder())]:
        for X, way_out in given:
            steps = [one for _, one in getattr(model, "steps", [("", model)])]
            steps[0].set_params(ledger=ledger)
            with pytest.raises(TypeError, match=f"X is a .* no table: .*{way_out}"):
                model.fit(X, [1, 2, 3])
            assert not ledger.spends()
    X = np.arange(40.0).reshape(20, 2)
    for model in models:
        model.set_params(ledger=None).fit(X, np.arange(20) % 9)
        answer = getattr(model, "predict", None) or model.transform
        for X_new, way_out in given:
            with pytest.raises(TypeError, match=way_out):
                answer(X_new)


def test_a_sparse_table_that_is_a_dict_of_keys_is_a_table():
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 9
    model = DPLinearRegression(bounds=(-40, 40), target_bounds=(0, 9), random_state=0)
    found = []
    for kind in (sparse.csr_array, sparse.dok_array, sparse.dok_matrix):
        model.fit(kind(X), y)
        found.append((*model.coef_, *model.predict(kind(X))))
    assert found[0] == found[1] == found[2]
    # A model that takes no sparse table says that, as scikit-learn's check asks.
    network = DPWassersteinAutoencoder(bounds=(-40, 40), fairness_weight=0.0)
    with pytest.raises(TypeError, match="[Ss]parse"):
        network.fit(sparse.dok_array(X))


@pytest.mark.parametrize("named", [[], 5, [-3], [0, 1, 2], "sex", ["sex"]])
@pytest.mark.parametrize("kind", ["repair", "vote", "search", "validation"])
def test_columns_that_a_model_inside_names_and_no_table_has(kind, named):
    """The fit of the model inside said so, when the budget was spent."""
    ledger, model = PrivacyLedger(50.0, 1e-3), logistic(sensitive_features=named)
    given = {"sensitive_features": GROUP}
    with pytest.raises(ValueError, match="sensitive_features") as said:
        clone(model).fit(X, Y)
    if kind == "vote":  # of text nobody knows there whether the table has names
        named = named if named not in ("sex", ["sex"]) else []
        model = VotingClassifier(
            [("a", model.set_params(sensitive_features=named))], voting="soft"
        )
    with pytest.raises(ValueError, match="sensitive_features") as refusal:
        if kind == "validation":
            dp_cross_validate(model, X, Y, ledger=ledger, **given)
        elif kind == "search":
            DPGridSearchCV(model, {}, ledger=ledger).fit(X, Y, **given)
        else:
            decisions(model, ledger=ledger).fit(X, Y, **given)
    assert kind == "vote" or str(refusal.value) == str(said.value)
    assert ledger.spends() == []


@pytest.mark.filterwarnings("ignore")
def test_groups_of_the_call_are_not_those_of_a_column_that_a_candidate_names():
    """The list of these, which it was told, stopped its fit when all was paid."""
    table, given = np.column_stack([X, GROUP + 5]), {"sensitive_features": GROUP}
    model = logistic(sensitive_features=[2], bounds=None, data_norm=1.0)
    DPGridSearchCV(model, {}, epsilon=3.0).fit(table, Y, **given)
    dp_cross_validate(model, table, Y, cv=2, epsilon=3.0, **given)
