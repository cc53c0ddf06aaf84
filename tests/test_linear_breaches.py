"""Places where a linear model once printed a guarantee that it did not keep."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from fairpriv_sklearn._training._target import scaled_target
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.model_selection import DPGridSearchCV
from fairpriv_sklearn.postprocessing import DP2DPClassifier
from fairpriv_sklearn.privacy import PrivacyLedger

N = 40
LABELS = np.arange(N) % 2
EXTREME = np.finfo(float).max


def regression(**params):
    return DPLinearRegression(**{"target_bounds": (0, 1), "bounds": (0, 1), **params})


def parameter_noise(**params):
    params = {"classes": [0, 1], "bounds": (0, 1), **params}
    return DPOutputPerturbationLogisticRegression(**params)


def noisy_gradients(**params):
    params = {"classes": [0, 1], "bounds": (0, 1), "fairness_weight": 0.0, **params}
    return DPWassersteinLogisticRegression(max_iter=2, **params)


ALL = pytest.mark.parametrize("make", [regression, parameter_noise, noisy_gradients])


@ALL
def test_duplicates_that_overflow_are_outside_the_domain(make):
    values = np.r_[[EXTREME, EXTREME], np.ones(N - 1)]
    starts = np.r_[0, 2, np.arange(3, N + 2)]
    X = sparse.csr_array((values, np.zeros(N + 1, int), starts), shape=(N, 1))
    with pytest.raises(ValueError, match="contains infinity"):
        make(bounds=None, data_norm=1.0).fit(X, LABELS)


@pytest.mark.parametrize(
    "around",
    [
        lambda one, **params: DP2DPClassifier(one, groups=[0, 1], **params),
        lambda one, **params: DPGridSearchCV(one, {"C": [0.1, 1.0]}, **params),
    ],
)
def test_duplicates_that_overflow_are_refused_around_a_model_before_the_spend(around):
    ledger = PrivacyLedger(epsilon=10, delta=1e-4)
    values = np.r_[[EXTREME, EXTREME], np.ones(N - 1)]
    starts = np.r_[0, 2, np.arange(3, N + 2)]
    X = sparse.csr_array((values, np.zeros(N + 1, int), starts), shape=(N, 1))
    inner = noisy_gradients(bounds=(-1, 1))
    with pytest.raises(ValueError, match="contains infinity"):
        model = around(inner, classes=[0, 1], ledger=ledger)
        model.fit(X, LABELS, sensitive_features=LABELS)
    assert not ledger.spends()


@ALL
def test_no_message_quotes_a_cell_and_nothing_is_spent(make):
    ledger = PrivacyLedger(epsilon=10, delta=1e-4)
    X = np.full((N, 2), 0.5, dtype=object)
    X[3, 1] = "HIV-positive: John Doe"
    for cells in (X, X.tolist()):
        with pytest.raises(ValueError, match="^X ") as info:
            make(ledger=ledger).fit(cells, LABELS)
        assert "HIV" not in str(info.value)
        assert info.value.__cause__ is None
        assert info.value.__suppress_context__
    assert not ledger.spends()


def test_a_text_target_is_refused_before_the_budget():
    ledger = PrivacyLedger(epsilon=10, delta=1e-4)
    for kind in (object, str):
        y = np.array(["0.5"] * (N - 1) + ["John Doe"], dtype=kind)
        with pytest.raises(ValueError, match="^y ") as info:
            regression(ledger=ledger).fit(np.ones((N, 1)), y)
        assert "John" not in str(info.value)
    assert not ledger.spends()


@ALL
@pytest.mark.parametrize("data_norm", [5e-324, 1e200, 0.0, -1.0])
def test_an_impossible_norm_is_refused(make, data_norm):
    with pytest.raises(ValueError, match="data_norm"):
        make(data_norm=data_norm).fit(np.ones((N, 1)), LABELS)


@ALL
def test_finite_extremes_warn_nobody(make):
    X = np.full((N, 2), 0.5)
    X[0], X[1] = EXTREME, -EXTREME
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(epsilon=1.0).fit(X, LABELS)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint64])
def test_targets_of_any_dtype(dtype):
    X = np.linspace(0, 1, N)[:, None]
    y = (np.arange(N) % 2).astype(dtype)
    model = regression(epsilon=np.inf).fit(X, y)
    same = regression(epsilon=np.inf).fit(X, y.astype(float))
    assert model.intercept_ == same.intercept_


@pytest.mark.parametrize(
    "low, high",
    [(-1.7e308, 1.7e308), (2074.29, 2074.98), (2.0**53, 2.0**53 + 2), (0, 1e-307)],
)
def test_scaled_targets_are_bounded(low, high):
    inside = [low, high, low / 2 + high / 2, np.nextafter(low, high)]
    extreme = [EXTREME, -EXTREME, np.inf, -np.inf, np.nan, 0.0]
    with np.errstate(all="ignore"):
        scaled = scaled_target(np.array(inside + extreme), low, high)
    assert np.all(np.abs(scaled) <= 1)


def test_the_relation_names_the_label_if_labels_are_compared():
    X, groups = np.ones((N, 1)), np.arange(N) // 2 % 2
    for constraint, words in (
        ("demographic_parity", "inside its group, group sizes"),
        ("equalized_odds", "inside its group and label"),
    ):
        model = DPWassersteinLogisticRegression(
            classes=[0, 1],
            bounds=(0, 1),
            groups=[0, 1],
            max_iter=2,
            constraint=constraint,
            group_sizes_public=True,
        ).fit(X, LABELS, sensitive_features=groups)
        assert words in str(model.privacy_)


@ALL
def test_a_column_of_a_frame_may_be_called_like_a_method_of_ours(make):
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).uniform(size=(N, 2))
    frame = pd.DataFrame(X, columns=["on_grid", "b"])
    coef = make(random_state=0).fit(frame, LABELS).coef_
    np.testing.assert_array_equal(coef, make(random_state=0).fit(X, LABELS).coef_)
