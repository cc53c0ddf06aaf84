"""Displays: stored numbers against independent computation, and what was drawn."""

import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import ecdf, norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from fairpriv_sklearn.accounting import (
    GaussianEvent,
    PureEvent,
)
from fairpriv_sklearn.datasets import (  # noqa: E402
    make_biased_regression,
    make_spurious_bias,
)
from fairpriv_sklearn.inspection import (  # noqa: E402
    AdditiveShapesDisplay,
    GroupDistributionDisplay,
    PrivacyProfileDisplay,
    TradeoffDisplay,
    TransportDisplay,
)
from fairpriv_sklearn.linear_model import DPLinearRegression  # noqa: E402
from fairpriv_sklearn.metrics import ks_parity_difference  # noqa: E402
from fairpriv_sklearn.postprocessing import (  # noqa: E402
    DPBarycenterRegressor,
    DPBarycenterTransformer,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder  # noqa: E402
from fairpriv_sklearn.privacy import (  # noqa: E402
    PrivacyGuarantee,
    PrivacyLedger,
    privacy_report,
    with_budget,
)
from fairpriv_sklearn.transport import fair_barycenter, quantise  # noqa: E402


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    X, y, a = make_biased_regression(600, shifts=(-1.0, 0.5), random_state=0)
    return np.column_stack([X, a]), y, a


@pytest.fixture(scope="module")
def fitted(data):
    X, y, a = data
    return DPBarycenterRegressor(
        LinearRegression(),
        epsilon=5.0,
        target_bounds=(-4, 4),
        groups=[0, 1],
        calibration_size=0.5,
        output="randomized",
        random_state=0,
    ).fit(X, y, sensitive_features=a)


def texts(ax):
    return " ".join(text.get_text() for text in ax.texts)


def assert_labelled(ax):
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_title()


def assert_told_apart(lines):
    """Any two lines differ in colour, in dashes or marker, and in name."""
    looks = [(line.get_linestyle(), line.get_marker()) for line in lines]
    assert len(set(looks)) == len(lines)
    assert len({line.get_color() for line in lines}) == len(lines)
    assert len({line.get_label() for line in lines}) == len(lines)


# ------------------------------------------------------------------ group distributions
def test_distributions_are_the_empirical_ones(data):
    _, y, a = data
    before, after = y.round(1), np.zeros(len(y))
    display = GroupDistributionDisplay.from_predictions(
        before, after, sensitive_features=a, score_name="grade (points)"
    )
    assert display.groups == [0, 1] and display.names == ["Before", "After"]
    for group in (0, 1):
        expected = ecdf(before[a == group]).cdf.evaluate(display.values[0])
        np.testing.assert_allclose(display.cdfs[0][group], expected, atol=1e-12)
    np.testing.assert_array_equal(display.cdfs[1], [[1.0], [1.0]])
    ks = ks_parity_difference(y, before, sensitive_features=a)
    assert display.differences == [pytest.approx(ks, abs=1e-12), 0.0]

    assert len(display.axes_) == len(display.lines_) == 2
    for panel, ax in enumerate(display.axes_):
        assert ax.get_xlabel() == "grade (points)"
        assert f"{display.differences[panel]:.3f}" in ax.get_title()
        for group, line in enumerate(display.lines_[panel]):
            np.testing.assert_array_equal(line.get_xdata(), display.values[panel])
            np.testing.assert_array_equal(line.get_ydata(), display.cdfs[panel][group])
            assert line.get_drawstyle() == "steps-post"
        assert_told_apart(display.lines_[panel])
    assert "Not private" in texts(display.axes_[0])


def test_distributions_of_an_estimator_before_and_after(data, fitted):
    X, _, a = data
    display = GroupDistributionDisplay.from_estimator(
        fitted, X, sensitive_features=a, estimator_before=fitted.estimator_
    )
    before, after = display.differences
    expected = ks_parity_difference(
        X[:, 0], fitted.predict(X, sensitive_features=a), sensitive_features=a
    )
    assert after == pytest.approx(expected, abs=1e-12)
    assert after < 0.3 < before


def test_probabilities_on_given_axes_and_intersections():
    X, y, a = make_spurious_bias(300, random_state=0)
    model = GaussianNB().fit(X, y)
    groups = pd.DataFrame({"sex": np.where(a, "m", "f"), "old": y})
    figure, ax = plt.subplots()
    display = GroupDistributionDisplay.from_estimator(
        model, X, sensitive_features=groups, response_method="predict_proba", ax=ax
    )
    assert display.figure_ is figure and display.axes_[0] is ax
    assert display.groups[0] == ("f", 0) and len(display.groups) == 4
    assert display.lines_[0][0].get_label() == "f / 0"
    expected = np.unique(model.predict_proba(X)[:, 1])
    np.testing.assert_array_equal(display.values[0], expected)
    with pytest.raises(ValueError, match="ax must hold 1 axes, got 2"):
        display.plot(ax=plt.subplots(1, 2)[1])


ODD = {
    "$x^$": r"\$x^\$",
    "a$b$": r"a\$b\$",
    "_hidden": " _hidden",
    "": " ",
    "a\tb\x00c": "a b\ufffdc",
    "\ud800": "\ufffd",
    "می\u200cخواهم": "می\u200cخواهم",
    "i" * 50 + "n": "i" * 26 + "…" + "i" * 12 + "n",
}


@pytest.mark.filterwarnings("error", "ignore:By their noisy")
@pytest.mark.parametrize("label", ODD)
def test_labels_of_the_data_are_drawn_as_they_are(label, data):
    X, y, _ = data
    scores, groups = y[:200], np.array([label, label + "2"] * 100, dtype=object)
    distribution = GroupDistributionDisplay.from_predictions(
        scores, sensitive_features=groups
    )
    repair = DPBarycenterTransformer(bounds=(-3, 3), groups=[label, label + "2"])
    repair.fit(scores[:, None], sensitive_features=groups)
    transport = TransportDisplay.from_estimator(repair)
    displays = {distribution: distribution.axes_[0], transport: transport.ax_}
    for display, ax in displays.items():
        said = [text.get_text() for text in ax.get_legend().get_texts()]
        assert said[-2] == ODD[label] and said[-1] != said[-2]
        display.figure_.draw_without_rendering()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "label", [label for label in ODD if label not in ("", "\ud800")]
)
def test_names_and_categories_are_drawn_as_they_are(label):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({label: rng.choice([label, "u"], 400), "n": rng.random(400)})
    pipeline = make_pipeline(
        DPTableEncoder(epsilon=np.inf),
        DPLinearRegression(epsilon=np.inf, target_bounds=(0, 1)),
    )
    display = AdditiveShapesDisplay.from_estimator(pipeline.fit(table, table["n"]))
    assert display.axes_[0].get_xlabel() == ODD[label]
    ticks = [text.get_text() for text in display.axes_[0].get_xticklabels()]
    short = ODD[label].replace("i" * 26 + "…" + "i" * 12, "i" * 13 + "…" + "i" * 5)
    assert short in ticks
    display.figure_.draw_without_rendering()


def test_a_call_with_too_many_arguments_says_what_it_takes():
    said = r"too many positional arguments; it takes \(cls, estimator, X, \*, sensi"
    with pytest.raises(TypeError, match=said):
        GroupDistributionDisplay.from_estimator(None, [[0.0]], [0])
    with pytest.raises(TypeError, match=r"takes \(outputs, low, high\)\.$"):
        quantise([0.5])


def test_long_numbers_and_dates_do_not_run_into_one_another():
    days = np.array(["1960-01-01", "2000-01-01"], dtype="datetime64[s]")
    display = AdditiveShapesDisplay(
        names=["id", "day"],
        values=[np.array([100_000.0, 105_000.0]), days],
        contributions=[np.zeros(2), np.zeros(2)],
    ).plot()
    for axes in display.axes_:
        assert {text.get_rotation() for text in axes.get_xticklabels()} == {45}


@pytest.mark.filterwarnings("error")
def test_columns_of_which_no_category_is_shown_have_no_curve():
    """Surnames, say: their mean over no category had warned."""
    rng = np.random.default_rng(0)
    names = [f"name {i}" for i in range(4000)]
    table = pd.DataFrame({"name": names, "n": rng.random(4000)})
    pipeline = make_pipeline(
        DPTableEncoder(random_state=0),
        DPLinearRegression(target_bounds=(0, 1), random_state=0),
    )
    with pytest.warns(UserWarning, match="only a hash"):
        pipeline.fit(table, table["n"])
    assert AdditiveShapesDisplay.from_estimator(pipeline).names == ["n"]
    display = AdditiveShapesDisplay.from_estimator(pipeline, columns=["name", "n"])
    assert [len(curve) for curve in display.contributions] == [0, 201]
    with pytest.warns(UserWarning, match="only a hash"):
        pipeline.fit(table[["name"]], table["n"])
    with pytest.raises(ValueError, match="at least one column"):
        AdditiveShapesDisplay.from_estimator(pipeline)


@pytest.mark.parametrize("name", ["group {}", "a name that is {} and long, and longer"])
def test_names_that_would_hide_the_curves_stand_beside_them(name):
    few, most, more, many = ([name.format(i) for i in range(k)] for k in (3, 6, 8, 60))
    long = len(name) > 24
    for names, beside in [(few, long), (most, long), (more, True), (many, True)]:
        display = GroupDistributionDisplay.from_predictions(
            np.arange(120.0), sensitive_features=names * (120 // len(names))
        )
        axes, figure = display.axes_[0], display.figure_
        figure.draw_without_rendering()
        plot, said = axes.get_window_extent(), axes.get_legend().get_window_extent()
        assert (said.x0 >= plot.x1) == beside
        assert figure.bbox.x0 <= said.x0 and said.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 <= said.y0 and said.y1 <= figure.bbox.y1 + 1
        assert plot.height > 0.6 * figure.bbox.height
        assert plot.width > 0.3 * figure.bbox.width
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(texts) == 42 and texts[-1] == "… and 19 more"
    assert len(display.lines_[0]) == 60


def test_distribution_input_is_checked():
    with pytest.raises(ValueError, match="same number of rows, got 1 and 2"):
        GroupDistributionDisplay.from_predictions([1.0], sensitive_features=[0, 1])
    with pytest.raises(ValueError, match="NaN"):
        GroupDistributionDisplay.from_predictions(
            [1.0, np.nan], sensitive_features=[0, 1]
        )


# ---------------------------------------------------------------------------- transport
def test_transport_of_two_points_is_known():
    # Two groups, all mass at opposite ends of {0, 1, 2}: both are sent to the middle
    pmfs = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    solution = fair_barycenter(np.array([0.0, 1.0, 2.0]), pmfs, np.array([0.5, 0.5]), 0)
    display = TransportDisplay.from_transport(solution, groups=["a", "b"], note="exact")
    np.testing.assert_array_equal(display.grid, [0.0, 2.0])
    assert display.maps[0, 0] == 1.0 and display.maps[1, 1] == 1.0
    assert [line.get_label() for line in display.lines_] == ["a", "b"]
    for a, line in enumerate(display.lines_):
        np.testing.assert_array_equal(line.get_xdata(), display.grid)
        np.testing.assert_array_equal(line.get_ydata(), display.maps[a])
    assert_told_apart(display.lines_)
    assert_labelled(display.ax_)
    assert texts(display.ax_) == "exact"


def test_transport_display_of_a_continuous_repair(data, fitted):
    X, y, a = data
    continuous = clone(fitted).set_params(output="continuous")
    continuous.fit(X, y, sensitive_features=a)
    display = TransportDisplay.from_estimator(continuous)
    assert display.low is None
    scores = np.clip(continuous.estimator_.predict(X), -4, 4)
    repaired = continuous.predict(X, sensitive_features=a)
    for group in (0, 1):
        assert (np.diff(display.maps[group]) > 0).all()
        drawn = np.interp(scores, display.grid, display.maps[group])
        # Between the points of the grid the map may have kinks.
        assert np.median(np.abs(drawn - repaired)[a == group]) < 1e-3


def test_transport_bands_hold_every_prediction(data, fitted):
    X, _, a = data
    display = TransportDisplay.from_estimator(fitted)
    assert display.groups == [0, 1]
    scores = np.clip(fitted.estimator_.predict(X), -4, 4)
    bins = np.abs(scores[:, None] - display.grid).argmin(axis=1)
    repaired = fitted.predict(X, sensitive_features=a)
    assert np.all(display.low[a, bins] - 1e-9 <= repaired)
    assert np.all(repaired <= display.high[a, bins] + 1e-9)
    assert np.all(display.low <= display.maps + 1e-12)
    assert np.all(display.maps <= display.high + 1e-12)
    assert np.all(np.diff(display.maps, axis=1) >= -1e-12)
    assert "no further privacy" in texts(display.ax_)


def test_transport_without_bands_draws_only_lines():
    display = TransportDisplay(
        grid=np.array([0.0, 1.0]), maps=np.array([[0.0, 0.5]]), groups=["a"]
    ).plot()
    assert len(display.ax_.collections) == 0 and len(display.ax_.lines) == 2
    assert texts(display.ax_) == ""


# ---------------------------------------------------------------------------- trade-off
def test_tradeoff_of_points():
    points = {
        "epsilon": [1, 1, np.inf, np.inf],
        "disparity": [0.2, 0.1, 0.15, 0.05],
        "error": [1.0, 2.0, 0.5, 1.5],
    }
    display = TradeoffDisplay(**points, error_name="mse", disparity_name="gap").plot()
    assert [line.get_label() for line in display.lines_] == ["1", "no noise"]
    for line, epsilon in zip(display.lines_, [1, np.inf], strict=True):
        disparity, error = display.curve(epsilon)
        np.testing.assert_array_equal(line.get_xdata(), disparity)
        np.testing.assert_array_equal(line.get_ydata(), error)
    np.testing.assert_array_equal(display.curve(1)[0], [0.2, 0.1])
    assert display.ax_.get_xlabel() == "gap" and display.ax_.get_ylabel() == "mse"
    assert "Not private" in texts(display.ax_)
    assert_told_apart(display.lines_)


@pytest.mark.parametrize("own_column", [True, False])
def test_tradeoff_sweep_measures_on_the_test_part(data, own_column):
    X, y, a = data
    model = DPBarycenterRegressor(
        LinearRegression(),
        target_bounds=(-4, 4),
        groups=[0, 1],
        sensitive_features=(lambda X: X[:, -1].astype(int)) if own_column else None,
        random_state=0,
    )
    display = TradeoffDisplay.from_estimator(
        model,
        X,
        y,
        sensitive_features=a,
        epsilons=[0.5, np.inf],
        param_name="fairness_tolerance",
        param_values=[0.0, 1.0],
        n_repeats=2,
        random_state=0,
    )
    np.testing.assert_array_equal(display.epsilon, [0.5, 0.5, np.inf, np.inf])
    disparity, error = display.curve(np.inf)
    assert disparity[0] < 0.3 < disparity[1]  # full tolerance leaves the gap in place
    assert error[1] < error[0]
    assert display.error_name == "mean squared error"
    assert display.disparity_name == "ks parity difference"
    assert len(display.lines_) == 2


def test_tradeoff_averages_over_the_repeats(data):
    X, y, a = data
    calls = []

    def count(y_true, y_pred):
        calls.append(len(y_true))
        return float(len(calls))

    def gap(y_true, y_pred, *, sensitive_features):
        assert len(sensitive_features) == len(y_pred)
        return 0.125

    model = DPBarycenterRegressor(
        LinearRegression(), target_bounds=(-4, 4), groups=[0, 1], random_state=0
    )
    display = TradeoffDisplay.from_estimator(
        model,
        X,
        y,
        sensitive_features=a,
        epsilons=[1.0],
        param_name="n_bins",
        param_values=[8, 9],
        error=count,
        disparity=gap,
        n_repeats=3,
        test_size=0.25,
    )
    assert calls == [150] * 6
    # call numbers 1, 3, 5 for the first value and 2, 4, 6 for the second
    np.testing.assert_array_equal(display.error, [3.0, 4.0])
    np.testing.assert_array_equal(display.disparity, [0.125, 0.125])
    assert (display.error_name, display.disparity_name) == ("count", "gap")


class Threshold(ClassifierMixin, BaseEstimator):
    """Says 1 from a bar on: no fit, no noise."""

    def __init__(self, epsilon=1.0, bar=0.5):
        self.epsilon, self.bar = epsilon, bar

    def fit(self, X, y, sensitive_features=None):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (X[:, 0] >= self.bar).astype(int)


def test_tradeoff_of_a_classifier_in_axes_of_ones_own():
    # In each group as many of 0.2, 0.4, 0.6, 0.8 in each part, or nearly.
    X = np.tile([0.2, 0.4, 0.6, 0.8], 200)[:, None]
    a = np.repeat([0, 1], 400)
    X[a == 1] += 0.25  # 0.45, 0.65, 0.85, 1.05
    y = (X[:, 0] > 0.5).astype(int)
    figure, ax = plt.subplots()
    width, others = figure.get_figwidth(), plt.figure()
    budgets = [0.001234567, 1234.567, 1.0, 2.0, 3.0, 4.0, 5.0]
    display = TradeoffDisplay.from_estimator(
        *(Threshold(), X, y),
        sensitive_features=a,
        epsilons=budgets,
        param_name="bar",
        param_values=[0.5, 0.7],
        random_state=0,
        ax=ax,
    )
    names = display.error_name, display.disparity_name
    assert names == ("zero one loss", "demographic parity difference")
    for epsilon in budgets:  # 5 of 8 are above 0.5, 3 of 8 above 0.7
        disparity, error = display.curve(epsilon)
        np.testing.assert_allclose(error, [0, 2 / 8], atol=0.06)
        np.testing.assert_allclose(disparity, [0.25, 0.25], atol=0.12)
        assert error[0] == 0
    assert display.figure_ is figure and figure.get_figwidth() == width
    assert plt.get_fignums() == [figure.number, others.number]
    legend = ax.get_legend()
    assert legend.get_title().get_text() == "epsilon"
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == [f"{one:g}" for one in sorted(budgets)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"param_values": [0.0, -1.0]},
        {"param_name": "estimator__alpha", "param_values": [0.1, -1.0]},
        {"ax": [None, None]},
        {"colour": "red"},
        {"linewidth": "thick"},
    ],
    ids=str,
)
def test_what_a_tradeoff_refuses_costs_nothing(data, wrong):
    X, y, a = data
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-4)
    inner = DPLinearRegression(bounds=(-1, 1), target_bounds=(-4, 4), ledger=ledger)
    model = DPBarycenterRegressor(
        inner, target_bounds=(-4, 4), groups=[0, 1], ledger=ledger
    )
    given = {"param_name": "fairness_tolerance", "param_values": [0.0], **wrong}
    with pytest.raises((ValueError, TypeError, AttributeError)):
        TradeoffDisplay.from_estimator(
            model, X, y, sensitive_features=a, epsilons=[1.0], **given
        )
    assert not ledger.spends() and not plt.get_fignums()


# ---------------------------------------------------------------------- privacy profile
def guarantee(parts, delta=1e-5):
    return PrivacyGuarantee.from_events(
        parts, delta=delta, neighboring="replace_one", mechanism="test"
    )


def test_profile_is_the_textbook_curve():
    mu, epsilons = 0.8, np.linspace(0, 3, 13)
    pure = guarantee([PureEvent(1.0)], delta=0.0)
    display = PrivacyProfileDisplay.from_guarantees(
        {"gauss": guarantee([GaussianEvent(mu, 0)]), "pure": pure}, epsilons=epsilons
    )
    expected = norm.cdf(-epsilons / mu + mu / 2) - np.exp(epsilons) * norm.cdf(
        -epsilons / mu - mu / 2
    )
    np.testing.assert_allclose(display.delta[0], expected, rtol=1e-4)
    assert np.all(display.delta[0] >= expected)
    # pure epsilon: tight delta is positive below 1 and zero from there on
    np.testing.assert_array_equal(display.delta[1] > 0, epsilons < 1.0)
    assert display.stated[1] == (1.0, 0.0)
    gauss, pure = display.lines_
    np.testing.assert_array_equal(gauss.get_xdata(), epsilons)
    np.testing.assert_array_equal(gauss.get_ydata(), display.delta[0])
    assert np.all(pure.get_ydata()[epsilons >= 1] < display.ax_.get_ylim()[0])
    assert display.ax_.get_yscale() == "log"
    assert_told_apart(display.lines_)
    assert_labelled(display.ax_)
    # one dot, at the stated pair of the guarantee that has a delta
    (dot,) = [line for line in display.ax_.lines if line not in display.lines_]
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == display.stated[0]


def test_profile_of_lists_estimators_and_uncovered_objects(fitted):
    one = guarantee([GaussianEvent(1.0, 0)])
    display = PrivacyProfileDisplay.from_guarantees([one, one])
    assert display.names == ["guarantee 1", "guarantee 2"]
    assert display.epsilon[-1] == pytest.approx(2 * one.epsilon)
    assert PrivacyProfileDisplay.from_guarantees(one).names == ["guarantee 1"]

    # the base regressor is not private: nothing is promised at any epsilon
    display = PrivacyProfileDisplay.from_estimator(fitted)
    assert display.names == ["DPBarycenterRegressor"]
    np.testing.assert_array_equal(display.delta, np.ones((1, len(display.epsilon))))


# ------------------------------------------------------------------------------ general
def test_many_lines_are_told_apart_in_grey():
    values = np.linspace(0, 1, 5)
    display = GroupDistributionDisplay(
        groups=list(range(12)),
        values=[values],
        cdfs=[np.linspace(0, 1, 12)[:, None] * values],
        names=["scores"],
    ).plot()
    looks = {(line.get_linestyle(), line.get_marker()) for line in display.lines_[0]}
    assert len(looks) == 12


def test_matplotlib_is_imported_only_to_draw(monkeypatch):
    code = (
        "import sys, fairpriv_sklearn.inspection;assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    display = TransportDisplay(grid=np.zeros(1), maps=np.zeros((1, 1)), groups=["a"])
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="needs matplotlib"):
        display.plot()


def test_lines_take_the_keywords_of_matplotlib():
    scores, groups = np.linspace(0, 1, 40), np.arange(40) % 2
    display = GroupDistributionDisplay.from_predictions(
        scores, sensitive_features=groups, lw=3.5, color="k"
    )
    assert {line.get_linewidth() for line in display.lines_[0]} == {3.5}
    assert {line.get_color() for line in display.lines_[0]} == {"k"}
    assert len({line.get_linestyle() for line in display.lines_[0]}) == 2
    display.plot(linestyle=":")
    assert {line.get_linestyle() for line in display.lines_[0]} == {":"}


def test_the_profile_of_a_pipeline_is_that_of_its_report(data):
    X, y, _ = data
    steps = DPTableEncoder(), DPLinearRegression(target_bounds=(-4, 4))
    pipeline = with_budget(make_pipeline(*steps), 1.0).fit(X, y)
    with pytest.raises(TypeError, match=r"from_guarantees\(privacy_report\(pipeline\)"):
        PrivacyProfileDisplay.from_estimator(pipeline)
    whole = privacy_report(pipeline).guarantee
    drawn = PrivacyProfileDisplay.from_guarantees(whole)
    assert drawn.stated == [(whole.epsilon, whole.delta)]


def test_labels_have_no_distribution():
    X, y, a = make_spurious_bias(n_samples=200, random_state=0)
    model = GaussianNB().fit(X, np.where(y, "yes", "no"))
    draw = GroupDistributionDisplay.from_estimator
    with pytest.raises(ValueError, match='response_method="predict_proba" draws'):
        draw(model, X, sensitive_features=a)
    draw(model, X, sensitive_features=a, response_method="predict_proba")
