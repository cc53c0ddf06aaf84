"""Sensitive features in all the containers and wrong forms people use."""

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from fairpriv_sklearn._door.groups import (
    as_label_array,
    as_table,
    blind_X,
    column_names,
    fit_groups,
    label_list,
    predict_groups,
    public_groups,
)
from fairpriv_sklearn._door.labels import (
    _compares_as_python,
    encode_labels,
    positions_in,
)
from fairpriv_sklearn._shared.arguments import public_labels
from fairpriv_sklearn._shared.domain import check_columns, refuse_dates
from fairpriv_sklearn.datasets import make_spurious_bias
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.metrics import (
    demographic_parity_difference,
    dp_group_rates,
    equalized_odds_difference,
    ks_parity_difference,
    wasserstein_parity_difference,
)
from fairpriv_sklearn.model_selection import DPGridSearchCV
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)
from fairpriv_sklearn.postprocessing import DP2DPClassifier, RepairWarning
from fairpriv_sklearn.privacy import PrivacyLeakWarning


class Model(BaseEstimator):
    """The attributes that `fit_groups` reads, and nothing else."""

    def __init__(self, sensitive_features=None, groups=None):
        self.sensitive_features = sensitive_features
        self.groups = groups

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


X = np.arange(12.0).reshape(4, 3)


def test_label_list_of_every_container():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = ["a", "b", "a"]
    for container in (
        expected,
        tuple(expected),
        np.array(expected),
        np.array(expected, dtype=object),
        np.array(expected).reshape(-1, 1),
        pandas.Series(expected),
        pandas.Series(expected, dtype="category"),
        pandas.Series(expected, dtype="string"),
        pandas.DataFrame({"g": expected}),
        polars.Series(expected),
        polars.DataFrame({"g": expected}),
        (label for label in expected),
    ):
        assert label_list(container) == expected


READERS = {
    "logistic": DPWassersteinLogisticRegression(bounds=(-1, 1), max_iter=1),
    "classifier": DPWassersteinMLPClassifier(bounds=(-1, 1), max_iter=1),
    "regressor": DPWassersteinMLPRegressor(target_bounds=(0, 1), max_iter=1),
    "autoencoder": DPWassersteinAutoencoder(bounds=(-1, 1), max_iter=1),
    "search": DPGridSearchCV(
        DPWassersteinLogisticRegression(bounds=(-1, 1), fairness_weight=0), {}
    ),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("named", [[0], None])
def test_predictions_read_the_columns_of_the_fit(name, named):
    """Others stood in their places, in silence where there were as many."""
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(0, 2, 60), rng.uniform(-1, 1, (60, 3))])
    model = clone(READERS[name]).set_params(groups=[0, 1], sensitive_features=named)
    if named is None:
        model.set_params(**{"fairness_weight": 0.0} if name != "search" else {})
    if hasattr(model, "classes"):
        model.set_params(classes=[0, 1])
    target = (table[:, 1] > 0).astype(int)
    model.fit(table) if name == "autoencoder" else model.fit(table, target)
    answer = getattr(model, "transform", None) or model.predict
    before = answer(table)
    for others in ([1], [0, 1], [0] if named is None else None):
        model.set_params(sensitive_features=others)
        with pytest.raises(ValueError, match="sensitive_features was changed since"):
            answer(table)
    model.set_params(sensitive_features=named and [-4])  # the same by other words
    assert_array_equal(answer(table), before)


def test_several_columns_are_intersections():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = [("f", 1), ("m", 2)]
    columns = {"sex": ["f", "m"], "age": [1, 2]}
    for container in (
        expected,
        [["f", 1], ["m", 2]],
        np.array(expected, dtype=object),
        pandas.DataFrame(columns),
        polars.DataFrame(columns),
    ):
        assert label_list(container) == expected


@pytest.mark.parametrize("missing", [None, np.nan, np.datetime64("NaT", "D")])
def test_missing_labels_raise(missing):
    with pytest.raises(ValueError, match="missing label"):
        label_list(["a", missing])
    for labels in ([("f", 1), ("m", missing)], [("f", ("a", missing)), ("m", 1)]):
        with pytest.raises(ValueError, match="missing label"):
            label_list(np.fromiter(labels, dtype=object))
        with pytest.raises(ValueError, match="missing label"):
            public_groups(labels)


def test_missing_labels_of_data_frames_raise():
    pandas = pytest.importorskip("pandas")
    for series in (
        pandas.Series(["a", None]),
        pandas.Series([1, None], dtype="Int64"),
        pandas.Series([1.0, np.nan]),
        pandas.Series(["a", None], dtype="category"),
    ):
        with pytest.raises(ValueError, match="missing label"):
            label_list(series)


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([{"a"}, {"b"}], "hashable"),
        (np.zeros((2, 2, 2)), "one or two dimensions"),
        (np.zeros((2, 0)), "no column"),
        ("sex", "got 'sex'. Pass the column itself here, not its name."),
        (None, "got None.$"),
    ],
)
def test_odd_labels_raise(labels, match):
    with pytest.raises((TypeError, ValueError), match=match):
        label_list(labels)


@pytest.mark.parametrize(
    "labels", [{0: "a", 1: "b"}, {"a", "b"}, frozenset("ab"), 3.0, "sex", b"ab"]
)
def test_what_holds_no_labels_is_told_what_does_everywhere(labels):
    """Of a dict the names were read, which are as many as rows, or said not to be."""
    asked = {"sensitive_features": labels}
    X, y = np.zeros((2, 1)), np.arange(2)
    model = DPWassersteinLogisticRegression(bounds=(-1, 1), groups=["a", "b"])
    rates = partial(dp_group_rates, groups=["a", "b"], classes=[0, 1], epsilon=1.0)
    for call in (
        lambda: demographic_parity_difference(y, y, **asked),
        lambda: equalized_odds_difference(y, y, **asked),
        lambda: ks_parity_difference(y / 3, y / 3, **asked),
        lambda: wasserstein_parity_difference(y / 3, y / 3, **asked),
        lambda: rates(y, y, **asked),
        lambda: model.fit(X, y, **asked),
        lambda: DPGridSearchCV(model, {"C": [1.0]}).fit(X, y, **asked),
    ):
        with pytest.raises(TypeError, match=r"an array, a list or a data frame of one"):
            call()


@pytest.mark.parametrize(
    ("groups", "match"),
    [
        ([], "at least two"),
        (["a"], "at least two"),
        (["a", "a"], "twice"),
        (["a", None], "missing label"),
        ([1, 1.0], "twice"),
    ],
)
def test_public_groups_are_checked(groups, match):
    with pytest.raises(ValueError, match=match):
        public_groups(groups)


@pytest.mark.parametrize("groups", [{"a", "b"}, frozenset("ab"), {"a": 1}, "ab", 2])
def test_public_groups_have_an_order(groups):
    """That of a set is another one in another process."""
    asked = {"sensitive_features": [0], "groups": [0, 1], "epsilon": 1.0}
    with pytest.raises(TypeError, match="groups must list"):
        public_groups(groups)
    with pytest.raises(TypeError, match="classes must list"):
        dp_group_rates(None, [0], **asked, classes=groups)


def test_labels_of_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    for labels in (["a", "b"], [1, 2], [True, False]):
        array = pyarrow.array(labels)
        assert label_list(array) == label_list(pyarrow.chunked_array([array])) == labels
    with pytest.raises(ValueError, match="missing label"):
        label_list(pyarrow.array(["a", None]))


def test_public_groups_of_every_kind():
    assert public_groups(np.array(["a", "b"])) == ["a", "b"]
    assert public_groups([["f", 1], ("m", 2)]) == [("f", 1), ("m", 2)]
    assert public_groups(np.array([["f", "x"], ["m", "y"]])) == [("f", "x"), ("m", "y")]


@given(st.lists(st.integers(-2, 3)), st.permutations([0, 1, 2]))
def test_encoding_points_into_the_list(labels, groups):
    codes = positions_in(labels, groups)
    assert codes.dtype == np.int64
    for label, code in zip(labels, codes, strict=True):
        if label in groups:
            assert groups[code] == label
        else:
            assert code == -1


def test_labels_keep_their_type_in_arrays():
    assert as_label_array([0, 1]).dtype.kind == "i"
    assert as_label_array(["a", "b"]).tolist() == ["a", "b"]
    assert as_label_array(["a", 1]).tolist() == ["a", 1]
    assert as_label_array([("f", 1), ("m", 2)]).tolist() == [("f", 1), ("m", 2)]
    for listed in (["a", "a\0"], ["a\0", "b"], [b"a", b"a\0"], [b"a", "b"], [1, 2**70]):
        assert as_label_array(listed).tolist() == listed


@pytest.mark.parametrize("listed", [None, ["a", "a\0"]])
def test_groups_that_differ_by_a_zero_at_the_end_stay_two(listed):
    labels, model = np.array(["a", "a\0", "a"], dtype=object), Model(groups=listed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        codes, _, _ = fit_groups(model, X[:3], labels)
    assert codes.tolist() == predict_groups(model, X[:3], labels)[0].tolist()
    assert codes.tolist() == [0, 1, 0]


def test_order_of_groups_is_that_of_the_public_list():
    model = Model(groups=["z", "a"])
    codes, _, fact = fit_groups(model, X, ["a", "z", "z", "a"])
    assert_array_equal(codes, [1, 0, 0, 1])
    assert model.groups_.tolist() == ["z", "a"]
    assert str(fact) == "groups=['z', 'a']"


def test_listed_group_without_rows_is_legal_and_silent():
    codes, _, _ = fit_groups(Model(groups=["a", "b", "c"]), X, ["a"] * 4)
    assert_array_equal(codes, 0)


def test_groups_from_the_data_are_sorted_and_leak():
    model = Model()
    with pytest.warns(PrivacyLeakWarning, match="groups"):
        codes, _, fact = fit_groups(model, X, ["b", "a", "b", "a"])
    assert model.groups_.tolist() == ["a", "b"]
    assert_array_equal(codes, [1, 0, 1, 0])
    # The guarantee may be published: it must not repeat what leaked.
    assert "'a'" not in str(fact) and fact.value is None
    with pytest.warns(PrivacyLeakWarning):
        fit_groups(model, X, [1, "a", 1, "a"])
    assert model.groups_.tolist() == [1, "a"]


def test_one_group_in_the_data_raises():
    with (
        pytest.warns(PrivacyLeakWarning),
        pytest.raises(ValueError, match="fewer than two groups"),
    ):
        fit_groups(Model(), X, ["a"] * 4)


def test_unknown_label_error_speaks_of_the_public_list_only():
    with pytest.raises(ValueError, match=r"not in groups=\['a', 'b'\]") as caught:
        fit_groups(Model(groups=["a", "b"]), X, ["a", "secret", "b", "a"])
    assert "secret" not in str(caught.value)


def test_dots_stand_for_all_other_labels():
    model = Model(groups=["a", 7, "..."])
    codes, _, fact = fit_groups(model, X, ["zebra", 7, "a", "..."])
    assert_array_equal(codes, [2, 1, 0, 2])
    assert fact.value == ["a", 7, "..."]
    assert_array_equal(predict_groups(model, X, ["a", "new", 7, 8])[0], [0, 2, 1, 2])
    numbers = Model(groups=[3, "..."])
    assert_array_equal(fit_groups(numbers, X, np.array([3, 0, 3, 5]))[0], [0, 1, 0, 1])
    pairs = Model(groups=[("a", 1), "..."])
    columns = np.array([["a", 1], ["a", 2], ["b", 1], ["a", 1]], dtype=object)
    assert_array_equal(fit_groups(pairs, X, columns)[0], [0, 1, 1, 0])
    with pytest.raises(ValueError, match="must come last"):
        public_groups(["...", "a"])
    with pytest.raises(ValueError, match="missing label"):  # no label is no other label
        fit_groups(numbers, X, [3.0, np.nan, 3.0, 3.0])


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_an_infinite_label_is_missing(value):
    for labels in (np.array([1.0, value, 1.0, 2.0]), [1.0, value, 1.0, 2.0]):
        with pytest.raises(ValueError, match="missing label .*NaN, inf"):
            fit_groups(Model(groups=[1.0, "..."]), X, labels)


def test_blind_tables_with_and_without_the_sensitive_column():
    model = Model(sensitive_features=0, groups=[0, "..."])
    fit_groups(model, X, None)
    assert_array_equal(blind_X(model, X[:, 1:]), blind_X(model, X))
    model.transform = None  # a transformer refuses any other number of columns
    with pytest.raises(ValueError, match="features"):
        blind_X(model, X[:, 1:])
    gap = X.astype(float).copy()
    gap[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        blind_X(model, gap)
    with pytest.raises(ValueError, match=r"1 feature\(s\), all of them sensitive"):
        fit_groups(Model(sensitive_features=0, groups=[0, "..."]), X[:, :1], None)


def test_unknown_label_at_prediction():
    model = Model(groups=["a", "b"])
    fit_groups(model, X, ["a", "b", "a", "b"])
    with pytest.raises(ValueError, match="not in groups"):
        predict_groups(model, X, ["a", "new", "b", "b"])
    codes, _ = predict_groups(model, X, ["a", "new", "b", "b"], handle_unknown="pooled")
    assert_array_equal(codes, [0, -1, 1, 1])


@pytest.mark.parametrize("named", [1, [1], -2, np.int64(1)])
@pytest.mark.parametrize(
    "make", [np.asarray, sparse.csr_matrix, sparse.coo_array, list]
)
def test_columns_by_position_are_taken_and_dropped(named, make):
    rows = [[0, 5, 2], [3, 7, 4], [1, 5, 9]]
    table = make(np.array(rows, dtype=float)) if make is not list else rows
    model = Model(sensitive_features=named, groups=[5, 7])
    codes, rest, _ = fit_groups(model, table, None)
    assert_array_equal(codes, [0, 1, 0])
    rest = rest.toarray() if sparse.issparse(rest) else np.asarray(rest)
    assert_array_equal(rest, [[0, 2], [3, 4], [1, 9]])
    assert model.n_features_in_ == 3


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_by_name(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame(
        {"sex": ["f", "m", "f"], "x": [1.0, 2.0, 3.0], "race": ["u", "v", "v"]}
    )
    model = Model(sensitive_features=["sex", "race"], groups=[("f", "u"), ("m", "v")])
    with pytest.raises(ValueError, match="not in groups"):
        fit_groups(model, frame, None)
    model.groups = [("f", "u"), ("m", "v"), ("f", "v")]
    codes, rest, _ = fit_groups(model, frame, None)
    assert_array_equal(codes, [0, 1, 2])
    assert list(rest.columns) == ["x"]
    # An attribute-blind prediction may come with or without those columns.
    assert list(blind_X(model, frame).columns) == ["x"]
    assert list(blind_X(model, rest).columns) == ["x"]
    with pytest.raises(ValueError, match="feature names"):
        blind_X(model, rest.rename(columns={"x": "z"}) if library == "pandas"
                else rest.rename({"x": "z"}))  # fmt: skip
    model.sensitive_features = "gender"
    with pytest.raises(ValueError, match="not a column of X.*pass the labels in the"):
        fit_groups(model, frame, None)


def test_positions_outside_the_table_raise():
    for named in (3, -4):
        with pytest.raises(ValueError, match="has 3 columns"):
            fit_groups(Model(sensitive_features=named, groups=[0, 1]), X, None)


def test_names_need_a_data_frame():
    with pytest.raises(ValueError, match="set_output"):
        fit_groups(Model(sensitive_features="sex", groups=[0, 1]), X, None)


def test_callable_sees_the_table_and_drops_nothing():
    model = Model(sensitive_features=lambda X: X[:, 0] > 4, groups=[False, True])
    codes, rest, _ = fit_groups(model, X, None)
    assert_array_equal(codes, [0, 0, 1, 1])
    assert rest.shape == X.shape
    assert_array_equal(blind_X(model, X), X)


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (np.zeros(3), "Reshape your data"),
        (np.zeros((0, 2)), "0 sample"),
        (np.zeros((2, 0)), "0 feature"),
    ],
)
def test_tables_of_no_shape_raise(table, match):
    with pytest.raises(ValueError, match=match):
        fit_groups(Model(groups=[0, 1]), table, [0, 1])


def test_one_label_per_row():
    with pytest.raises(ValueError, match="inconsistent"):
        fit_groups(Model(groups=[0, 1]), X, [0, 1])


@pytest.mark.parametrize(
    ("labels", "listed"),
    [
        (np.array([0, 1, 2, -1]), [1, 0]),
        (np.array([0, 1, 300], dtype=np.int16), [300, True, 0]),
        (np.array([255, 1], dtype=np.uint8), [255, -1]),
        (np.array([True, False]), [1, 0]),
        (np.array([2**53 + 1, 2**53]), [2**53, 2**53 + 1]),
        (np.array([2**53 + 1, 2]), [2.0**53, 2.0]),
        (np.array([1, 2]), ["1", 2]),
        (np.array([1, 2]), [2**80, 2]),
        (np.array([0.0, -0.0, 1.0, 0.5]), [0, 1, 0.5]),
        (np.array([np.nan, np.inf, 1.0]), [1.0, 2.0]),
        (np.array([2.0**53, 1.0]), [2**53 + 1, 1]),
        (np.array([2.0**53, 1.0]), [2**53, 2**53 + 1]),
        (np.array([0.5, 7.0], dtype=np.float16), [0.5, 7, 70000]),
        (np.array([0.5, 7.0], dtype=np.longdouble), [0.5, 7]),
        (np.array([2.0**53, 1.0]), [10**400, 1]),
        (np.array([0.1, 0.5], dtype=np.float32), [0.1, 0.5]),
        (np.array(["a", "b", "", "a "]), ["b", "a"]),
        (np.array(["a", "b"]), ["a\0", "b"]),
        (np.array(["a", "b"]), ["a\0", "a"]),
        (np.array(["1", "b"]), [1, "b"]),
        (np.array(["a", 1, None, np.nan, 1.0, True], dtype=object), ["a", True]),
        (np.arange(40) % 25, list(range(5, 25))),
        (np.array([1, 2]), [(1, 2), 1]),
    ],
)
def test_arrays_are_encoded_as_their_lists(labels, listed):
    codes = positions_in(labels, listed)
    assert codes.tolist() == positions_in(labels.tolist(), listed).tolist()
    assert codes.max() < len(listed)


@pytest.mark.parametrize(
    "listed",
    [[2**53, 2**53 + 1], [("a", 2**53), ("a", 2**53 + 1)], [-(2**60), 1 - 2**60]],
)
def test_labels_that_floats_cannot_tell_apart_are_refused(listed):
    """One record held as a float makes pandas hold all as floats: others would move."""
    with pytest.raises(ValueError, match="groups lists whole numbers that"):
        public_labels("groups", listed)
    public_labels("groups", [10**400, 2**53 - 1, 2**53, ("a", 1)])
    spans = [np.timedelta64(1, "s"), np.timedelta64(2, "s")]  # NumPy's integers
    assert public_labels("groups", spans) == spans


def test_a_label_that_cannot_be_compared_is_unknown_and_not_quoted():
    class Label:
        def __hash__(self):
            return hash(1)

        def __eq__(self, other):
            raise RuntimeError("canary")

    assert positions_in([0, Label(), 1], [0, 1]).tolist() == [0, -1, 1]


def test_labels_that_mix_text_with_numbers_are_refused():
    """Listed, 1 became the text "1", which no label was; others met a TypeError."""
    mixed = [1, "no", 1]
    for y, classes in ((np.array(mixed, dtype=object), None), ([1, 0, 1], mixed[:2])):
        name = "y" if classes is None else "classes"
        with pytest.raises(ValueError, match=f"^{name} mixes text with labels of othe"):
            encode_labels(y, classes)


@pytest.mark.parametrize(
    ("labels", "listed"),
    [
        (np.array([2.0**53, 1.0] * 50), [1, 2**53, 2**53 + 2]),
        (["a", "b"] * 50, ["a", "b", "b\0"]),
    ],
)
def test_labels_of_a_fit_have_places_in_their_list(labels, listed):
    """Two listed labels that NumPy takes for one were added to a place behind all."""
    X = np.zeros((100, 1))
    for column in (labels, np.array(labels)):
        codes = fit_groups(Model(groups=listed), X, column)[0]
        assert codes.tolist() == encode_labels(column, listed)[0].tolist()
        assert sorted(set(codes.tolist())) == [0, 1]


def test_common_labels_are_encoded_without_a_loop():
    for labels, listed in (
        (np.array([0, 1]), [0, 1]),
        (np.array([0.0, 1.0]), [0, 1]),
        (np.array(["f", "m"]), ["m", "f"]),
        (np.array([True, False]), [False, True]),
    ):
        assert _compares_as_python(labels, listed)


@pytest.mark.parametrize(
    "model",
    [
        DPWassersteinLogisticRegression(bounds=(-10, 10), classes=[0, 1]),
        DPWassersteinMLPClassifier(bounds=(-10, 10), classes=[0, 1], max_iter=2),
    ],
)
def test_groups_that_play_no_role_are_not_read(model):
    """Handed to all steps of a pipeline, say, the guarantee was conditional on them."""
    X, y, group = make_spurious_bias(300, random_state=0)
    told, noise = {"sensitive_features": group}, {"random_state": 0}
    model = clone(model).set_params(fairness_weight=0, **noise)
    plain, handed = clone(model).fit(X, y), clone(model).fit(X, y, **told)
    assert handed.privacy_ == plain.privacy_ and not hasattr(handed, "groups_")
    assert_array_equal(handed.predict_proba(X), plain.predict_proba(X))
    with pytest.raises(ValueError, match="need a row for each record"):
        clone(model).fit(X, y, sensitive_features=group[1:])
    listed = clone(model).set_params(groups=[0, 1]).fit(X, y, **told)
    assert listed.groups_.tolist() == [0, 1] and listed.privacy_.epsilon < 1.1
    with pytest.warns(PrivacyLeakWarning, match="groups"):
        read = clone(model).set_params(fairness_weight=0.5).fit(X, y, **told)
    assert read.privacy_.epsilon == np.inf


def test_group_sizes_that_are_public_are_those_of_groups():
    """Their neighbours are tables inside a group: groups are read without a penalty."""
    X, y, group = make_spurious_bias(300, random_state=0)
    model = DPWassersteinLogisticRegression(
        fairness_weight=0, bounds=(-10, 10), classes=[0, 1], group_sizes_public=True
    )
    with pytest.warns(PrivacyLeakWarning, match="groups"):
        model.fit(X, y, sensitive_features=group)


class ForeignArray:
    """Rows of a library with types of its own, which NumPy can read."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, "foreign.float64"

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype=dtype)


@pytest.mark.parametrize("blind", [False, True])
def test_arrays_of_other_libraries_are_read_as_numbers(blind):
    """Their types are not NumPy's: a repair said that a cell was no number."""
    X, y, group = make_spurious_bias(n_samples=2000, random_state=0)
    base = DPWassersteinLogisticRegression(
        classes=[0, 1], fairness_weight=0, data_norm=4.0, random_state=0
    )
    told = {"classes": [0, 1], "groups": [0, 1], "random_state": 0}
    repair = DP2DPClassifier(base, blind=blind, **told)
    answers = []
    for read in (np.asarray, ForeignArray):
        given = {} if blind else {"sensitive_features": read(group)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepairWarning)  # of so few rows
            repair.fit(read(X), read(y), sensitive_features=read(group))
        answers.append(repair.predict(read(X), **given))
    assert_array_equal(*answers)


def test_a_frame_with_a_column_called_dtype_stays_a_frame():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"dtype": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})
    model = Model("dtype", ["a", "b"])
    codes, rest, _ = fit_groups(model, frame, None)
    assert codes.tolist() == [0, 1, 0] and list(rest.columns) == ["x"]


@pytest.mark.parametrize("name", ["column_names", "dtype"])
@pytest.mark.parametrize("label", ["names", "kind"])
@pytest.mark.parametrize("cell", ["c", "m", "b"])
def test_no_refusal_reads_the_cells_of_a_column_called_as_an_attribute(
    name, label, cell
):
    """Two equal cells, or one that an index calls `kind`, were read as of the frame."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({name: [cell, "b", "b"], "x": [1, 2, 3]}, [label, "f", "g"])
    assert column_names(frame) == [name, "x"]
    check_columns(frame)
    refuse_dates(frame)
    model = Model(name, ["b", "c", "m"])
    _, rest, _ = fit_groups(model, as_table(model, frame), None)
    assert list(rest.columns) == ["x"]
