"""Simulated data against their known answers; loaders against files and codebooks."""

import gzip
import hashlib
import io
import os
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder

from fairpriv_sklearn import datasets
from fairpriv_sklearn.datasets import (
    _fetch,
    fetch_adult,
    fetch_communities_crime,
    fetch_credit_default,
    fetch_law_school,
    fetch_parkinsons,
    make_biased_mixture,
    make_biased_regression,
    make_census,
    make_spurious_bias,
    make_spurious_regression,
)
from fairpriv_sklearn.datasets._fetch import features_of
from fairpriv_sklearn.datasets._simulated import _log_mixture
from fairpriv_sklearn.datasets._sources import SOURCES
from fairpriv_sklearn.metrics import (
    demographic_parity_difference,
    wasserstein_parity_difference,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder

SIMULATED = [make_biased_mixture, make_spurious_bias, make_biased_regression]
PARTS = {"n_core": 2, "n_spurious": 5}


# -------------------------------------------------------------------------- simulated
@pytest.mark.parametrize("make", SIMULATED)
def test_simulated_data_are_reproducible(make):
    first, again, other = (make(50, random_state=seed) for seed in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], other[0])
    assert [len(a) for a in first] == [50, 50, 50]


@pytest.mark.parametrize("make", SIMULATED)
def test_returning_the_truth_does_not_change_the_rows(make):
    option = "optimal" if make is make_biased_regression else "posteriors"
    plain = make(30, random_state=3)
    with_truth = make(30, random_state=3, **{f"return_{option}": True})
    for a, b in zip(plain, with_truth, strict=False):
        np.testing.assert_array_equal(a, b)
    assert len(with_truth) == len(plain) + 1


@pytest.mark.parametrize(
    ("make", "asked", "n_columns"),
    [
        (make_biased_mixture, {"n_features": 3}, 3),
        (make_biased_regression, {"n_features": 3}, 3),
        (make_spurious_bias, PARTS, 7),
        (make_spurious_regression, PARTS, 7),
    ],
)
def test_simulated_data_have_as_many_columns_as_are_asked_for(make, asked, n_columns):
    assert make(10, random_state=0, **asked)[0].shape == (10, n_columns)


def assert_calibrated(posteriors, y):
    """Given the scores, classes occur as often as they say (5 standard errors)."""
    for k in range(posteriors.shape[1]):
        score = posteriors[:, k]
        for low, high in [(0, 0.05), (0.05, 0.3), (0.3, 0.7), (0.7, 0.95), (0.95, 1)]:
            rows = (score >= low) & (score <= high)
            if rows.sum() > 100:
                error = np.mean((y[rows] == k) - score[rows])
                sd = np.sqrt(np.sum(score[rows] * (1 - score[rows]))) / rows.sum()
                assert abs(error) < 5 * sd + 1e-12


@pytest.mark.parametrize("p, share", [(0.75, 0.5), (0.9, 0.05), (1.0, 0.5)])
def test_mixture_posteriors_are_exact(p, share):
    _, y, a, posteriors = make_biased_mixture(
        40_000, 3, p=p, group_share=share, return_posteriors=True, random_state=0
    )
    np.testing.assert_allclose(posteriors.sum(axis=1), 1.0)
    assert_calibrated(posteriors, y)
    for group in (-1, 1):
        assert_calibrated(posteriors[a == group], y[a == group])
    if p == 1.0:  # the group then says which half of the classes it is
        np.testing.assert_array_equal(a == 1, y < 3)


def test_log_mixture_is_the_density_up_to_a_constant():
    rng = np.random.default_rng(0)
    X, means = rng.normal(size=(5, 2)), rng.normal(size=(3, 4, 2))
    density = np.array(
        [
            [np.mean([multivariate_normal(m).pdf(x) for m in k]) for k in means]
            for x in X
        ]
    )
    found = _log_mixture(X, means)
    np.testing.assert_allclose(
        found - found[:, :1], np.log(density / density[:, :1]), atol=1e-12
    )


def test_census_has_the_form_of_adult():
    census = make_census(5000, random_state=3)
    source = SOURCES["adult"]
    assert len(census.frame) == 5000
    assert list(census.frame) == source_columns(source)
    for name, (low, high) in source.bounds.items():
        assert census.frame[name].between(low, high).all()
    for name, listed in source.categories.items():
        assert set(census.frame[name]) <= set(listed)
    assert list(census.codebook.columns) == [*census.data, "income", "sex"]
    assert list(census.data) == features_of(source, "income", ["sex"])
    DPTableEncoder(census.codebook, random_state=0).fit(census.data)
    assert "sex" not in census.data and "income" not in census.data
    same = make_census(5000, random_state=3)
    assert same.frame.equals(census.frame)
    assert not make_census(5000, random_state=4).frame.equals(census.frame)
    rich = census.target == ">50K"
    rates = rich.groupby(census.sensitive_features).mean()
    assert 0.2 < rich.mean() < 0.5 and rates["Male"] > rates["Female"] + 0.05


def source_columns(source):
    from fairpriv_sklearn.datasets._sources import _ADULT_HEADER

    assert set(_ADULT_HEADER) == {*source.bounds, *source.categories}
    return _ADULT_HEADER


def test_mixture_has_the_documented_disparity_and_shares():
    n = 200_000
    _, y, a = make_biased_mixture(n, 1, random_state=0)
    assert demographic_parity_difference(y, y, sensitive_features=a) == pytest.approx(
        2 * 0.5 / 6, abs=5 * np.sqrt(2 * 0.25 / (n / 2))
    )
    np.testing.assert_allclose(np.bincount(y) / n, 1 / 6, atol=5 * np.sqrt(5 / 36 / n))
    for k in range(6):
        share = np.mean(a[y == k] == 1)
        assert share == pytest.approx(
            0.75 if k < 3 else 0.25, abs=5 * np.sqrt(0.1875 / (n / 6))
        )
    _, _, a = make_biased_mixture(n, 1, group_share=0.05, random_state=0)
    assert np.mean(a == 1) == pytest.approx(0.05, abs=5 * np.sqrt(0.05 * 0.95 / n))


def test_spurious_bias_has_the_documented_answers():
    n = 100_000
    X, y, a, posteriors = make_spurious_bias(n, return_posteriors=True, random_state=0)
    assert np.mean(y == a) == pytest.approx(0.7, abs=5 * np.sqrt(0.21 / n))
    core = (X[:, :8].sum(axis=1) > 0).astype(int)
    accuracy = norm.cdf(np.sqrt(8) / 3)
    assert accuracy == pytest.approx(0.827, abs=5e-4)
    assert np.mean(core == y) == pytest.approx(accuracy, abs=5 * 0.5 / np.sqrt(n))
    gap = demographic_parity_difference(y, core, sensitive_features=a)
    assert gap == pytest.approx(0.262, abs=5 * np.sqrt(0.25 / (n / 2) * 2))
    assert_calibrated(posteriors, y)
    # features that tell the group help, and hurt parity
    best = posteriors.argmax(axis=1)
    assert np.mean(best == y) > np.mean(core == y)
    assert demographic_parity_difference(y, best, sensitive_features=a) > gap


def test_spurious_bias_with_full_agreement_has_finite_posteriors():
    *_, y, a, posteriors = make_spurious_bias(
        500, p=1.0, return_posteriors=True, random_state=0
    )
    np.testing.assert_array_equal(y, a)
    assert np.isfinite(posteriors).all()


def test_spurious_regression_has_the_documented_answers():
    n, p, scales = 100_000, 0.9, [0.1, 2.0]
    X, Y, group = make_spurious_regression(
        n, n_core=3, n_spurious=3, p=p, core_scale=scales[0],
        spurious_scale=scales[1], random_state=0,
    )  # fmt: skip
    noise = X - np.column_stack([Y[:, [0, 1, 0]], *[group] * 3])
    np.testing.assert_allclose(
        noise.std(axis=0), np.repeat(scales, 3), rtol=5 / np.sqrt(2 * n)
    )
    assert abs(np.mean(group == (Y.sum(axis=1) > 1)) - p) < 5 * np.sqrt(p * (1 - p) / n)
    differ = Y[group == 1].mean(axis=0) - Y[group == 0].mean(axis=0)
    np.testing.assert_allclose(differ, (2 * p - 1) / 3, atol=5 * np.sqrt(4 / 12 / n))


def test_regression_has_the_documented_answers():
    n, shifts, scales = 200_000, [0.0, 1.0, 3.0], [1.0, 1.0, 2.0]
    X, y, a, optimal = make_biased_regression(
        n,
        shifts=shifts,
        scales=scales,
        weights=[2, 1, 1],
        return_optimal=True,
        random_state=0,
    )
    np.testing.assert_allclose(
        np.bincount(a) / n, [0.5, 0.25, 0.25], atol=5 * np.sqrt(0.25 / n)
    )
    assert np.mean((y - optimal) ** 2) == pytest.approx(0.25, rel=5 * np.sqrt(2 / n))
    assert wasserstein_parity_difference(
        y, optimal, sensitive_features=a
    ) == pytest.approx(np.sqrt(3.0**2 + 1.0**2), abs=5 * 4 / np.sqrt(n / 4))
    # The barycenter predictor: one distribution in all groups, at the documented cost
    standard = (optimal - np.take(shifts, a)) / np.take(scales, a)
    p = np.array([0.5, 0.25, 0.25])
    fair = (p @ scales) * standard + p @ shifts
    price = p @ ((shifts - p @ shifts) ** 2 + (scales - p @ scales) ** 2)
    assert np.mean((fair - optimal) ** 2) == pytest.approx(price, rel=0.02)
    assert wasserstein_parity_difference(y, fair, sensitive_features=a) < 0.03
    np.testing.assert_allclose(
        np.linalg.lstsq(X, standard, rcond=None)[0] @ X.T, standard, atol=1e-9
    )


# ------------------------------------------------------------------- loaders, mechanics
CSV = "age,job,sex,pay,split\n" + "\n".join(
    ["31,a,f,1.5,1", "42,b,m,2.5,2", ",a,m,0.5,1", "50,,f,3.5,2", "60,b,,3.0,1"]
)
TOY = replace(
    SOURCES["adult"],
    file="toy.csv.gz",
    sha256=hashlib.sha256((CSV + "\n").encode()).hexdigest(),
    bounds={"age": (0, 100), "pay": (0, 4)},
    rounded=("pay",),
    categories={"job": ["a", "b"], "sex": ["f", "m"], "split": [1, 2]},
    targets=("pay",),
    sensitive=("sex", "job"),
    urls=("https://example.org/one", "https://example.org/two"),
    to_csv=lambda one, two: one + two,
    not_features=("split",),
)


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """The Adult loader with a small table in its place."""
    monkeypatch.setitem(_fetch.SOURCES, "adult", TOY)
    monkeypatch.setenv("FAIRPRIV_SKLEARN_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def toy_file(toy):
    (toy / "toy.csv.gz").write_bytes(gzip.compress((CSV + "\n").encode()))
    return toy


def test_bunch_of_a_local_copy(toy_file):
    bunch = fetch_adult(missing="drop")
    np.testing.assert_array_equal(
        bunch.data, np.array([[31.0, "a"], [42.0, "b"]], dtype=object)
    )
    np.testing.assert_array_equal(bunch.target, [1.5, 2.5])
    np.testing.assert_array_equal(bunch.sensitive_features, ["f", "m"])
    assert bunch.feature_names == ["age", "job"]
    assert bunch.target_name == "pay" and bunch.sensitive_names == ["sex"]
    assert bunch.bounds == {"age": (0, 100)} and bunch.rounded == []
    assert bunch.categories == {"job": ["a", "b"]}
    assert bunch.groups == ["f", "m"]
    assert bunch.classes is None and bunch.target_bounds == (0, 4)
    np.testing.assert_array_equal(bunch.split, [1, 2])
    assert bunch.split.dtype == np.int64
    assert "doi:10.24432" in bunch.DESCR and bunch.frame is None


def test_missing_values_are_kept_but_never_missing_groups(toy_file):
    X, y, a = fetch_adult(return_X_y=True)
    assert a.tolist() == ["f", "m", "m", "f"] and len(X) == len(y) == 4
    assert np.isnan(X[2, 0]) and X[3, 1] is None


def test_intersections_and_frames(toy_file):
    bunch = fetch_adult(sensitive_features=["sex", "job"], as_frame=True)
    assert bunch.groups == list(product("fm", "ab"))
    assert list(bunch.sensitive_features.columns) == ["sex", "job"]
    assert list(bunch.data.columns) == ["age"] and len(bunch.data) == 3
    assert isinstance(bunch.target, pd.Series) and isinstance(bunch.split, pd.Series)
    arrays = fetch_adult(sensitive_features=["sex", "job"])
    assert arrays.sensitive_features.tolist() == [["f", "a"], ["m", "b"], ["m", "a"]]
    assert arrays.data.dtype == np.float64


def test_data_home_wins_over_the_environment(toy_file, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRPRIV_SKLEARN_DATA", str(tmp_path / "elsewhere"))
    assert len(fetch_adult(data_home=toy_file).data) == 4
    with pytest.raises(OSError, match="toy.csv.gz is not in .*elsewhere"):
        fetch_adult(download_if_missing=False)


def test_without_folder_scikit_learns_data_home_is_used(toy, monkeypatch):
    monkeypatch.delenv("FAIRPRIV_SKLEARN_DATA")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(toy / "home"))
    with pytest.raises(OSError, match="home.fairpriv_sklearn"):
        fetch_adult(download_if_missing=False)


def test_a_changed_file_is_refused(toy_file):
    changed = CSV.replace("31", "32") + "\n"
    (toy_file / "toy.csv.gz").write_bytes(gzip.compress(changed.encode()))
    with pytest.raises(OSError, match="not the expected toy.csv.gz: the SHA-256"):
        fetch_adult()


def serve(monkeypatch, pages):
    """Answer urlopen from a dictionary, and count the requests."""
    requests = []

    def urlopen(url, timeout):
        requests.append(url)
        if url not in pages:
            raise OSError("no network")
        return io.BytesIO(pages[url].encode())

    monkeypatch.setattr(_fetch, "urlopen", urlopen)
    return requests


def test_download_is_checked_converted_and_kept(toy, monkeypatch):
    pages = {TOY.urls[0]: CSV, TOY.urls[1]: "\n"}
    requests = serve(monkeypatch, pages)
    first = fetch_adult(data_home=toy / "new")
    assert requests == list(TOY.urls)
    assert [p.name for p in (toy / "new").iterdir()] == ["toy.csv.gz"]
    again = fetch_adult(data_home=toy / "new")
    assert len(requests) == 2  # from the copy
    np.testing.assert_array_equal(first.target, again.target)


def test_a_wrong_download_is_refused_and_not_kept(toy, monkeypatch):
    serve(monkeypatch, dict.fromkeys(TOY.urls, "<html>moved</html>"))
    with pytest.raises(OSError, match="the download is not the expected"):
        fetch_adult()
    assert list(toy.iterdir()) == []


def test_no_network_says_what_to_do(toy, monkeypatch):
    serve(monkeypatch, {})
    with pytest.raises(OSError, match="could not be downloaded .no network.; put toy"):
        fetch_adult()


def test_law_school_says_where_to_get_it(tmp_path):
    with pytest.raises(OSError, match="cannot be downloaded.*bar_pass_prediction.csv"):
        fetch_law_school(data_home=tmp_path)


@pytest.mark.parametrize(
    "option", [{"missing": "ignore"}, {"sensitive_features": "age"}]
)
def test_unknown_options_are_refused(toy_file, option):
    with pytest.raises(ValueError, match=f"{next(iter(option))} must be one of"):
        fetch_adult(**option)


def test_frames_without_pandas_say_so(toy_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert len(fetch_adult().data) == 4
    with pytest.raises(ImportError, match="as_frame=True needs pandas"):
        fetch_adult(as_frame=True)


# ------------------------------------------------------------- loaders, the real files
FOLDER = Path(
    os.environ.get("FAIRPRIV_SKLEARN_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
LOADERS = {
    "adult": fetch_adult,
    "credit_default": fetch_credit_default,
    "law_school": fetch_law_school,
    "communities_crime": fetch_communities_crime,
    "parkinsons": fetch_parkinsons,
}
# data set -> rows, features, rows without a missing value, size of each group
SHAPES = {
    "adult": (48842, 13, 45222, [16192, 32650]),
    "credit_default": (30000, 22, 30000, [11888, 18112]),
    "law_school": (21983, 6, 21535, [897, 1343, 1027, 18716]),
    "communities_crime": (1994, 99, 1994, [1024, 970]),
    "parkinsons": (5875, 19, 5875, [4008, 1867]),
}


def needs(name):
    if not (FOLDER / SOURCES[name].file).exists():
        pytest.skip(f"no local copy of {name}")


@pytest.fixture(scope="module", params=LOADERS)
def real(request):
    needs(request.param)
    return request.param, LOADERS[request.param](data_home=FOLDER)


def test_real_data_have_the_documented_shape(real):
    name, bunch = real
    n_rows, n_features, n_complete, sizes = SHAPES[name]
    assert bunch.data.shape == (n_rows, n_features)
    labels = bunch.sensitive_features.tolist()
    assert [labels.count(group) for group in bunch.groups] == sizes
    complete = LOADERS[name](data_home=FOLDER, missing="drop", as_frame=True)
    assert len(complete.data) == len(complete.target) == n_complete
    assert not complete.data.isna().any(axis=None)


def test_real_values_lie_in_the_code_book(real):
    name, bunch = real
    assert [*bunch.bounds, *bunch.categories] == bunch.feature_names
    for j, feature in enumerate(bunch.feature_names):
        column = bunch.data[:, j]
        if feature in bunch.bounds:
            low, high = bunch.bounds[feature]
            column = column.astype(float)
            assert np.nanmin(column) >= low and np.nanmax(column) <= high
        else:
            assert {v for v in column if v is not None} <= {*bunch.categories[feature]}
    if bunch.classes is None:
        low, high = bunch.target_bounds
        assert low <= bunch.target.min() and bunch.target.max() <= high
    else:
        assert set(bunch.target.tolist()) == set(bunch.classes)
        assert bunch.target_bounds is None
    for column in SOURCES[name].not_features:
        known = SOURCES[name].categories[column]
        assert set(bunch[column.rstrip("#")].tolist()) <= set(known)


def test_adult_encodes_to_the_96_indicators_and_base_rates_of_the_literature():
    needs("adult")
    adult = fetch_adult(data_home=FOLDER, missing="drop", as_frame=True)
    encoder = make_column_transformer(
        (
            OneHotEncoder(categories=list(adult.categories.values())),
            list(adult.categories),
        )
    ).fit(adult.data)
    # 96 occur in complete rows; the codebook knows `Never-worked` as well
    assert encoder.transform(adult.data).shape == (45222, 97)
    everyone = fetch_adult(data_home=FOLDER)
    rich, sex = everyone.target == ">50K", everyone.sensitive_features
    assert np.mean(rich[sex == "Female"]) == pytest.approx(0.1093, abs=5e-5)
    assert np.mean(rich[sex == "Male"]) == pytest.approx(0.3038, abs=5e-5)
    assert np.sum(everyone.uci_split == "train") == 32561


def test_credit_default_by_another_column():
    needs("credit_default")
    plain = fetch_credit_default(data_home=FOLDER)
    other = fetch_credit_default(data_home=FOLDER, sensitive_features="MARRIAGE")
    assert "MARRIAGE" in plain.feature_names and "SEX" in other.feature_names
    assert "MARRIAGE" not in other.feature_names
    assert other.groups == SOURCES["credit_default"].categories["MARRIAGE"]


def test_law_school_targets_and_groups():
    needs("law_school")
    X, ugpa, race = fetch_law_school(data_home=FOLDER, return_X_y=True)
    means = [
        ugpa[race == group].mean() for group in ("asian", "black", "hisp", "white")
    ]
    np.testing.assert_allclose(means, [3.219, 2.890, 3.082, 3.248], atol=5e-4)
    bar = fetch_law_school(
        data_home=FOLDER, target="pass_bar", groups=["white", "other"]
    )
    assert bar.classes == [0, 1] and "ugpa" in bar.feature_names
    assert len(bar.data) == 18716 + 408 and "pass_bar" not in bar
    gender = fetch_law_school(data_home=FOLDER, sensitive_features="gender")
    assert len(gender.data) == 22407 - 5 and "race1" in gender.categories


# ----------------------------------------------------- loaders, from the raw downloads
def local_text(name):
    needs(name)
    return gzip.decompress((FOLDER / SOURCES[name].file).read_bytes()).decode()


def test_adult_is_rebuilt_from_the_raw_files_of_uci(monkeypatch, tmp_path):
    _, *lines = local_text("adult").splitlines()
    raw = {"train": [], "test": ["|1x3 Cross validator"]}
    for line in lines:
        *fields, split = line.split(",")
        end = "." if split == "test" else ""
        raw[split].append(", ".join(field or "?" for field in fields) + end)
    pages = ["\n".join(raw[split]) + "\n\n" for split in ("train", "test")]
    serve(monkeypatch, dict(zip(SOURCES["adult"].urls, pages, strict=True)))
    assert fetch_adult(data_home=tmp_path).data.shape == (48842, 13)


def test_communities_are_rebuilt_from_the_raw_file_of_uci(monkeypatch, tmp_path):
    _, *lines = local_text("communities_crime").splitlines()
    raw = [",".join(field or "?" for field in line.split(",")) for line in lines]
    serve(monkeypatch, {SOURCES["communities_crime"].urls[0]: "\n".join(raw)})
    assert fetch_communities_crime(data_home=tmp_path).data.shape == (1994, 99)


def test_parkinsons_is_rebuilt_from_the_raw_file_of_uci(monkeypatch, tmp_path):
    raw = local_text("parkinsons").replace("\n", "\r\n")
    serve(monkeypatch, {SOURCES["parkinsons"].urls[0]: raw})
    assert fetch_parkinsons(data_home=tmp_path).data.shape == (5875, 19)


def test_credit_default_is_rebuilt_from_openml(monkeypatch, tmp_path):
    table = np.genfromtxt(
        io.StringIO(local_text("credit_default")), delimiter=",", skip_header=1
    )

    def fetch_openml(*, data_id, as_frame, parser, cache):
        assert data_id == 42477 and not as_frame
        target = table[:, -1].astype(int).astype(str)
        return datasets._fetch.Bunch(data=table[:, :-1], target=target)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    assert fetch_credit_default(data_home=tmp_path).data.shape == (30000, 22)
    assert [p.name for p in tmp_path.iterdir()] == ["credit_default.csv.gz"]
