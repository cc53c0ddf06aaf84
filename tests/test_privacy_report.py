"""The report: every step judged, composed, and told how to be covered."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from fairpriv_sklearn._shared.markdown import markdown_line
from fairpriv_sklearn.accounting import (
    PureEvent,
)
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.model_selection import DPGridSearchCV
from fairpriv_sklearn.postprocessing import DPBarycenterRegressor
from fairpriv_sklearn.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    PrivacyReport,
    guarantee_of,
    privacy_report,
)
from fairpriv_sklearn.privacy._guarantee import UNIT_OF_PRIVACY

X = np.arange(24.0).reshape(12, 2) % 5
Y = np.arange(12) % 2
CATEGORIES = [[0.0, 1.0, 2.0, 3.0, 4.0]] * 2


class PrivateModel(BaseEstimator):
    """Stands for any estimator with a guarantee."""

    def __init__(self, epsilon=1.0, neighboring="replace_one", uncovered=()):
        self.epsilon = epsilon
        self.neighboring = neighboring
        self.uncovered = uncovered

    def fit(self, X, y=None):
        self.privacy_ = PrivacyGuarantee(
            math.inf if self.uncovered else self.epsilon,
            0.0,
            self.neighboring,
            "noisy counts",
            events=(PureEvent(self.epsilon),),
            assumptions=("groups",),
            uncovered=self.uncovered,
        )
        return self

    def transform(self, X):
        return X

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y):
        return 0.0


def statuses(report):
    return {step.name: step.status for step in report.steps}


def test_a_single_private_estimator():
    model = PrivateModel().fit(X)
    report = privacy_report(model)
    assert isinstance(report, PrivacyReport)
    assert report.guarantee == model.privacy_
    assert statuses(report) == {"": "private"}
    assert "To cover the whole" not in report.to_markdown()


def test_the_steps_of_a_pipeline_compose():
    pipeline = make_pipeline(PrivateModel(0.5), PrivateModel(1.0)).fit(X)
    report = privacy_report(pipeline)
    assert report.guarantee.epsilon == 1.5
    assert report.guarantee.events == (PureEvent(0.5), PureEvent(1.0))
    assert statuses(report) == {
        "privatemodel-1": "private",
        "privatemodel-2": "private",
    }
    assert report.guarantee.assumptions == ("groups", UNIT_OF_PRIVACY)


def test_a_scaler_uncovers_the_pipeline_and_is_named_with_the_fix():
    pipeline = make_pipeline(StandardScaler(), PrivateModel(1.25)).fit(X)
    report = privacy_report(pipeline)
    assert report.guarantee.epsilon == math.inf
    assert report.guarantee.uncovered == ("standardscaler (StandardScaler)",)
    assert report.guarantee.events == (PureEvent(1.25),)
    assert statuses(report) == {
        "standardscaler": "uncovered",
        "privatemodel": "private",
    }
    text = report.to_markdown()
    assert str(report) == text == report._repr_markdown_()
    assert "- **standardscaler (StandardScaler)**: Leave it out and pass" in text
    assert "The covered steps cost epsilon = 1.25 at delta = 0" in text
    assert "| standardscaler | StandardScaler | uncovered | inf | - |" in text
    assert "| privatemodel | PrivateModel | private | 1.25 | 0 |" in text


def test_plain_data_is_strict_json():
    pipeline = make_pipeline(StandardScaler(), PrivateModel()).fit(X)
    data = privacy_report(pipeline).to_dict()
    again = json.loads(json.dumps(data, allow_nan=False))
    assert again["estimator"] == "Pipeline"
    assert again["guarantee"]["epsilon"] == "inf"
    scaler, model = again["steps"]
    assert scaler["status"] == "uncovered" and scaler["guarantee"] is None
    assert "public `bounds`" in scaler["fix"]
    assert PrivacyGuarantee.from_dict(model["guarantee"]).epsilon == 1.0


class Centred(TransformerMixin, BaseEstimator):
    """Keeps what it learnt under a private name, as many estimators do."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        self._mean = X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self._mean


class Nothing(TransformerMixin, BaseEstimator):
    """Learns the number of columns only, and says so."""

    __fairpriv_row_pure__ = True

    def __init__(self, factor=2):
        self.factor = factor

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return self.factor * X

    def get_feature_names_out(self, input_features=None):
        return input_features


class Bare:
    """An object without scikit-learn's base class."""

    def __repr__(self):  # names of tests hold no address
        return "Bare()"

    def __init__(self, mean=None):
        self.mean = mean

    def fit(self, X, y=None):
        self.mean = X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self.mean

    def __sklearn_tags__(self):
        return BaseEstimator().__sklearn_tags__()


@pytest.mark.parametrize(
    "step, status",
    [
        (Normalizer(), "public"),
        (FunctionTransformer(), "public"),
        (Nothing(), "public"),
        (Nothing().set_output(transform="default"), "public"),
        (PolynomialFeatures(), "public"),
        (OneHotEncoder(categories=CATEGORIES), "public"),
        (OneHotEncoder(categories=CATEGORIES, drop="first"), "public"),
        (OneHotEncoder(), "uncovered"),
        (OneHotEncoder(categories=CATEGORIES, min_frequency=2), "uncovered"),
        (OneHotEncoder(categories=CATEGORIES, max_categories=2), "uncovered"),
        (OneHotEncoder(categories=CATEGORIES, handle_unknown="ignore"), "public"),
        # Whether it warns tells whether anybody is of an unknown one.
        (OneHotEncoder(categories=CATEGORIES, handle_unknown="warn"), "uncovered"),
        *(
            (
                OneHotEncoder(
                    categories=CATEGORIES, handle_unknown=unknown, drop="if_binary"
                ),
                "uncovered",
            )
            for unknown in ("ignore", "infrequent_if_exist")
        ),
        (OrdinalEncoder(categories=CATEGORIES), "public"),
        (OrdinalEncoder(), "uncovered"),
        (
            SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
            "public",
        ),
        (SimpleImputer(keep_empty_features=True), "uncovered"),
        (
            SimpleImputer(
                strategy="constant",
                fill_value=0,
                keep_empty_features=True,
                add_indicator=True,
            ),
            "uncovered",
        ),
        (SplineTransformer(knots=np.array([[0.0, 0.0], [5.0, 5.0]])), "public"),
        (SplineTransformer(), "uncovered"),
        (RBFSampler(gamma=0.5), "public"),
        (RBFSampler(gamma="scale"), "uncovered"),
        (StandardScaler(), "uncovered"),
        (PCA(), "uncovered"),
        (SelectKBest(k=1), "uncovered"),
        (Centred(), "uncovered"),
        (Bare(), "uncovered"),
        (GaussianNB(), "uncovered"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_a_step_learnt_decides(step, status):
    report = (
        privacy_report(make_pipeline(step, PrivateModel()).fit(X, Y))
        if hasattr(step, "transform")
        else privacy_report(make_pipeline(PrivateModel(), step).fit(X, Y))
    )
    (judged,) = (one for one in report.steps if one.estimator == type(step).__name__)
    assert judged.status == status
    assert bool(judged.fix) == (status == "uncovered")
    assert report.guarantee.epsilon == (1.0 if status == "public" else math.inf)


def test_the_public_list_is_for_scikit_learns_own_classes():
    class OneHotEncoder(Centred):  # a namesake
        pass

    pipeline = make_pipeline(OneHotEncoder(), PrivateModel()).fit(X)
    assert statuses(privacy_report(pipeline))["onehotencoder"] == "uncovered"


def test_a_function_of_ones_own_is_a_condition():
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), PrivateModel()).fit(X)
    guarantee = privacy_report(pipeline).guarantee
    assert guarantee.epsilon == 1.0
    # Of the root of -1 NumPy warns, and a later step may replace it.
    step = "functiontransformer (FunctionTransformer)"
    defined = f"{step} is handed no cell that NumPy warns of"
    assert guarantee.assumptions == ("groups", defined, UNIT_OF_PRIVACY)
    pipeline = make_pipeline(FunctionTransformer(np.round), PrivateModel()).fit(X)
    assumed = privacy_report(pipeline).guarantee.assumptions
    assert assumed == ("groups", UNIT_OF_PRIVACY)

    def centred(X):
        return X - X.mean()

    pipeline = make_pipeline(FunctionTransformer(centred), PrivateModel()).fit(X)
    report = privacy_report(pipeline)
    condition = "functiontransformer (FunctionTransformer) works on each row on its own"
    assert report.guarantee.conditional_on == (condition,)
    assert report.guarantee.epsilon == math.inf
    assert report.guarantee.epsilon_if_public == 1.0
    assert report.steps[0].status == "conditional" and "ufunc" in report.steps[0].fix
    row = "| functiontransformer | FunctionTransformer | {} |"
    assert row.format("conditional | inf | -") in report.to_markdown()
    centred.__fairpriv_row_pure__ = True  # a false declaration is its author's
    report = privacy_report(pipeline)
    assert row.format("public | 0 | 0") in report.to_markdown()
    declared = report.guarantee
    assert declared.epsilon == 1.0 and condition in declared.assumptions


def test_nested_steps_are_named_like_parameters():
    columns = ColumnTransformer(
        [
            ("one", make_pipeline("passthrough", MinMaxScaler()), [0]),
            ("two", OneHotEncoder(categories=CATEGORIES[:1]), [1]),
            ("three", "drop", [0]),
        ],
        remainder="passthrough",
    )
    union = FeatureUnion([("plain", FunctionTransformer()), ("own", PrivateModel(0.5))])
    report = privacy_report(make_pipeline(columns, union, PrivateModel()).fit(X))
    found = statuses(report)
    found.pop("columntransformer__remainder", None)  # listed by some versions
    assert found == {
        "columntransformer": "public",
        "columntransformer__one__minmaxscaler": "uncovered",
        "columntransformer__two": "public",
        "featureunion__plain": "public",
        "featureunion__own": "private",
        "privatemodel": "private",
    }
    assert report.guarantee.events == (PureEvent(0.5), PureEvent(1.0))
    assert report.guarantee.uncovered == (
        "columntransformer__one__minmaxscaler (MinMaxScaler)",
    )


def test_a_frozen_model_is_looked_into():
    frozen = FrozenEstimator(PrivateModel(2.0).fit(X))
    assert privacy_report(frozen).guarantee.epsilon == 2.0
    assert guarantee_of(frozen).epsilon == 2.0
    pipeline = make_pipeline(StandardScaler(), PrivateModel()).fit(X)
    assert privacy_report(FrozenEstimator(pipeline)).guarantee.uncovered == (
        "standardscaler (StandardScaler)",
    )


@pytest.mark.parametrize("refit", [True, False])
def test_a_grid_search_selects_without_noise(refit):
    pipeline = make_pipeline(Nothing(), PrivateModel())
    search = GridSearchCV(pipeline, {"nothing__factor": [1, 2]}, cv=2, refit=refit)
    search.fit(X, Y)
    report = privacy_report(search)
    assert report.guarantee.epsilon == math.inf
    assert report.guarantee.uncovered == ("GridSearchCV",)
    inside = {"estimator__nothing": "public", "estimator__privatemodel": "private"}
    assert statuses(report) == {"": "uncovered"} | (inside if refit else {})
    assert "DPGridSearchCV" in report.steps[0].fix
    nested = make_pipeline(FunctionTransformer(), search).fit(X, Y)
    assert "gridsearchcv (GridSearchCV)" in privacy_report(nested).guarantee.uncovered


def test_a_private_step_with_an_uncovered_part():
    model = PrivateModel(uncovered=("estimator",))
    report = privacy_report(make_pipeline(Nothing(), model).fit(X))
    assert statuses(report) == {"nothing": "public", "privatemodel": "uncovered"}
    assert report.guarantee.uncovered == ("privatemodel: estimator",)
    assert report.guarantee.events == (PureEvent(1.0),)
    assert "declare it" in report.to_markdown()
    assert privacy_report(model).guarantee.uncovered == ("estimator",)
    # nor is a guarantee one of its own where other fits came before
    step = replace(report.steps[1], guarantee=PrivateModel(2.0).fit(X).privacy_)
    row = "| privatemodel | PrivateModel | uncovered | inf | 0 |"
    assert row in replace(report, steps=(step,)).to_markdown()


def test_steps_for_different_relations_raise():
    pipeline = make_pipeline(PrivateModel(), PrivateModel(neighboring="add_remove"))
    with pytest.raises(ValueError, match="Fit all models with the same"):
        privacy_report(pipeline.fit(X))


def test_unfitted_estimators_raise():
    for unfitted in (PrivateModel(), make_pipeline(Nothing(), PrivateModel())):
        with pytest.raises(NotFittedError):
            privacy_report(unfitted)
    assert guarantee_of(PrivateModel()) is None


def test_nothing_private():
    assert privacy_report(Normalizer().fit(X)).guarantee.epsilon == 0.0
    plain = make_pipeline(Normalizer(), GaussianNB()).fit(X, Y)
    report = privacy_report(plain)
    assert report.guarantee.epsilon == math.inf and report.guarantee.events == ()
    assert "The covered steps cost" not in report.to_markdown()
    assert "| normalizer | Normalizer | public | 0 | 0 |" in report.to_markdown()
    assert guarantee_of(plain) is None


def test_guarantee_of_a_pipeline_is_that_of_its_report():
    pipeline = make_pipeline(StandardScaler(), PrivateModel()).fit(X)
    assert guarantee_of(pipeline) == privacy_report(pipeline).guarantee
    covered = make_pipeline(Nothing(), PrivateModel()).fit(X)
    assert guarantee_of(covered).epsilon == covered[-1].privacy_.epsilon


MARKUP = ["<img src=x>", "[a](http://x)", "![a](http://x)", "a\\", "b\\| 0 |", "c\nd"]
MARKUP += ["*a*", "_a_", "__a__", "`a b`", "$a$", "~~a~~", "# a", "\\*a*", "``a``"]


@pytest.mark.parametrize("text", MARKUP)
def test_names_are_no_markup(text):
    """Column names and labels are those of a file: in reports they are text."""
    said = PrivacyGuarantee(1.0, 0.0, "replace_one", "counts").qualified(
        assumptions=[text], conditional_on=[text]
    )
    report = PrivacyReport(text, said, ())
    account = PrivacyLedger(1.0).for_dataset(text).to_markdown()
    shown_by = (said.to_markdown(), report.to_markdown(), markdown_line(text), account)
    for shown in shown_by:
        assert "<img" not in shown and "](http" not in shown
    (row,) = (line for line in said.to_markdown().splitlines() if "assumed" in line)
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3
    card = report.to_card({"name": text}).to_markdown()
    assert "<img" not in card and "](http" not in card
    escaped = r"\\[\\|`*$~#_(]|`a`"
    assert not re.search(r"[`*$~_]|^#", re.sub(escaped, "", markdown_line(text)))


def test_names_in_words_and_code_stay_as_they_are():
    for text in ('replace_one (`cv="prefit"`)', "`--rows-per-person`", "a_b_c 2.5"):
        assert markdown_line(text) == text


@pytest.mark.parametrize("wrong", [None, "passthrough", 3])
def test_a_fitted_model_that_was_told_to_wrap_nothing_has_its_guarantee(wrong):
    """It raised AttributeError: 'NoneType' object has no attribute ..."""
    rows, labels = np.linspace(-1, 1, 100)[:, None], np.arange(100) % 2
    base = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    repair = DPBarycenterRegressor(base, groups=[0, 1], target_bounds=(-1, 1))
    search = DPGridSearchCV(base, [{}], target_bounds=(-1, 1))
    repair.fit(rows, rows[:, 0], sensitive_features=labels)
    search.fit(rows, rows[:, 0])
    for one in (repair, search):
        spent = privacy_report(one).guarantee
        one.set_params(estimator=wrong)
        assert privacy_report(one).guarantee == guarantee_of(one) == spent
        assert type(one).__name__ in one._repr_html_()
        with pytest.raises(ValueError, match="'estimator' parameter"):
            one.fit(rows, rows[:, 0])
