"""Raw tables: levels, tables of pairs, samples, what crosses the wall."""

import dataclasses
import datetime
import itertools
import math
import re
import traceback
import tracemalloc
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from _audit import gaussian_audit
from _recording import KEY_BUCKETS, recording
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer

from fairpriv_sklearn._wall import PrivacyFilter, Rows
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    _levels,
    _pairs,
    _points,
    _raw,
)
from fairpriv_sklearn.generative._levels import LevelColumn
from fairpriv_sklearn.generative._quality import QualityFigure, quality_text
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.preprocessing import Codebook
from fairpriv_sklearn.preprocessing._cells import TableReader
from fairpriv_sklearn.preprocessing._codebook import Column
from fairpriv_sklearn.preprocessing._places import Places
from fairpriv_sklearn.preprocessing._ranks import LARGEST
from fairpriv_sklearn.privacy import PrivacyLedger

RELATIONS = ["replace_one", "add_remove"]


@pytest.fixture(autouse=True)
def two_fits(monkeypatch):
    """Two starts instead of ten: time."""
    monkeypatch.setattr(_points, "N_FITS", 2)


@pytest.fixture
def quick_fits(two_fits, monkeypatch):
    """Few steps from one start: what is released does not depend on them."""
    monkeypatch.setattr(_points, "N_STEPS", 5)
    monkeypatch.setattr(_points, "FEWEST_STEPS", 5)
    monkeypatch.setattr(_points, "N_FITS", 1)


pd = pytest.importorskip("pandas")


def people(n=3000, seed=0):
    """Columns of every kind that depend on each other and on the label."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    job = np.where(rng.random(n) < 0.8, kind, 1 - kind)
    start = np.datetime64("2020-01-01") + rng.integers(0, 700, n)
    frame = pd.DataFrame(
        {
            "job": np.array(["clerk", "smith"])[job],
            "age": rng.integers(20, 40, n) + 20 * kind,
            "hours": rng.uniform(0, 10, n),
            "since": start.astype("datetime64[s]"),
            "member": rng.random(n) < 0.3,
        }
    )
    frame.loc[rng.random(n) < 0.2, "hours"] = np.nan
    return frame, np.where(rng.random(n) < 0.9, kind, 1 - kind)


BOOK = Codebook.from_dict(
    {
        "job": {"kind": "category", "categories": ["clerk", "smith"], "role": "group"},
        "age": {"kind": "number", "range": [18, 90], "integer": True},
        "hours": {"kind": "number", "range": [0, 10]},
        "since": {"kind": "date", "range": ["2020-01-01", "2022-12-31"]},
        "member": {"kind": "flag", "categories": [False, True], "missing": False},
    }
)


# --- without noise, and with ----------------------------------------------------------


def test_without_noise_tables_are_those_of_the_records():
    frame, y = people(20_000)
    generator = DPSinkhornGenerator(
        epsilon=np.inf, codebook=BOOK, classes=[0, 1], random_state=0
    ).fit(frame, y)
    S, labels = generator.sample(60_000)
    np.testing.assert_allclose(np.mean(labels), np.mean(y), atol=1e-3)
    for label in (0, 1):
        real, drawn = frame[y == label], S[labels == label]
        for name in ("job", "member"):
            np.testing.assert_allclose(
                (drawn[name] == real[name].iloc[0]).mean(),
                (real[name] == real[name].iloc[0]).mean(),
                atol=2e-3,
            )
        for quantile in (0.1, 0.5, 0.9):
            assert drawn["age"].quantile(quantile) == pytest.approx(
                real["age"].quantile(quantile), abs=1
            )
        gaps = drawn["hours"].isna().mean() - real["hours"].isna().mean()
        assert abs(gaps) < 2e-3
    real = np.corrcoef(frame["age"] >= 40, frame["job"] == "smith")[0, 1]
    found = np.corrcoef(S["age"] >= 40, S["job"] == "smith")[0, 1]
    assert found == pytest.approx(real, abs=0.03)
    assert generator.quality_.two_way.value < 0.03


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("declared", [True, False])
def test_a_raw_frame_comes_back(relation, declared):
    frame, y = people(5000)
    book = BOOK if declared else {"since": "left out"}
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    generator = DPSinkhornGenerator(
        codebook=book,
        classes=[0, 1],
        neighboring=relation,
        ledger=ledger,
        random_state=0,
    ).fit(frame, y)
    assert 0.999 <= generator.privacy_.epsilon <= 1.0
    assert ledger.total().epsilon == pytest.approx(generator.privacy_.epsilon)
    assert generator.privacy_.conditional_on == ()
    S, labels = generator.sample(5000)
    assert list(S.columns) == [c for c in frame if declared or c != "since"]
    assert S["age"].dtype == np.int64 and S["hours"].dtype == np.float64
    assert S["age"].between(15, 65).mean() > 0.98
    assert 0.1 < S["hours"].isna().mean() < 0.3
    assert set(S["job"]) == {"clerk", "smith"}
    if declared:
        assert S["since"].dtype.kind == "M" and S["member"].dtype == bool
        assert S["since"].between(*map(pd.Timestamp, BOOK["since"].range)).all()
    for label in (0, 1):
        mean = (frame["age"][y == label] >= 40).mean()
        assert (S["age"][labels == label] >= 40).mean() == pytest.approx(mean, abs=0.08)
    found = np.corrcoef(S["age"] >= 40, S["job"] == "smith")[0, 1]
    assert found > 0.3


def test_other_containers_and_their_types():
    frame, y = people(800)
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    arrow = pa.Table.from_pandas(frame, preserve_index=False)

    def fit(X):
        generator = DPSinkhornGenerator(codebook=BOOK, classes=[0, 1], random_state=0)
        return generator.fit(X, y).sample(50)[0]

    first = fit(frame)
    polars = fit(pl.DataFrame(arrow))
    assert isinstance(polars, pl.DataFrame)
    assert polars.schema["since"] == pl.Date and polars.schema["age"] == pl.Int64
    table = fit(arrow)
    assert isinstance(table, pa.Table)
    assert str(table.schema.field("since").type) == "date32[day]"
    assert table.column("age").to_pylist() == first["age"].tolist()
    assert polars["job"].to_list() == first["job"].tolist()
    array = frame[["job", "age"]].to_numpy()
    drawn, _ = (
        DPSinkhornGenerator(method="pairs", classes=[0, 1], random_state=0)
        .fit(array, y)
        .sample(20)
    )
    assert isinstance(drawn, np.ndarray) and drawn.shape == (20, 2)


def test_what_was_inferred_does_not_show():
    """One gap or one word changes the types of a frame, and nothing of the sample's."""
    frame, y = people(400)
    words = frame.astype({"age": object})
    words.loc[0, "age"] = "n/k"
    floats = frame.astype({"age": float})
    floats.loc[0, "age"] = np.nan
    kinds = set()
    for X in (frame, words, floats):
        S, _ = (
            DPSinkhornGenerator(codebook=BOOK, classes=[0, 1], random_state=0)
            .fit(X, y)
            .sample(5)
        )
        kinds.add(tuple(map(str, S.dtypes)))
    assert len(kinds) == 1


def test_whole_numbers_with_gaps_go_where_those_of_a_file_go():
    """A column that pandas reads from a file is handed through by scikit-learn."""
    frame = pd.DataFrame({"age": np.tile([31.0, 42.0, np.nan, 53.0], 500)})
    generator = DPSinkhornGenerator(epsilon=20.0, random_state=0).fit(frame)
    drawn = generator.sample(400)
    assert drawn["age"].dtype == frame["age"].dtype == np.float64
    assert 0.15 < drawn["age"].isna().mean() < 0.35
    assert (drawn["age"].dropna() % 1 == 0).all()
    columns = make_column_transformer(("drop", []), remainder="passthrough")
    handed = columns.fit_transform(drawn)
    assert_allclose(np.ravel(handed), drawn["age"].to_numpy())


def test_flags_are_booleans_if_somebody_says_so(quick_fits):
    """Also a flag whose values are learnt; the type of a frame says nothing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"member": rng.random(3000) < 0.3})
    texts = frame.replace({True: "yes", False: "no"})
    kinds = []
    for X, book in (
        (frame, None),
        (frame, {"member": {"kind": "flag"}}),
        (frame.astype(int), {"member": {"kind": "flag"}}),
        (texts, {"member": {"kind": "flag"}}),
    ):
        generator = DPSinkhornGenerator(codebook=book, random_state=0)
        drawn = generator.fit(X).sample(2000)["member"]
        kinds.append(drawn.dtype.kind)
        share = drawn.isin([True, "yes"]).mean()
        assert share == pytest.approx(frame["member"].mean(), abs=0.05)
    assert kinds[:3] == ["i", "b", "b"] and set(drawn) == {"yes", "no"}


def test_conditional_samples():
    frame, y = people()
    generator = DPSinkhornGenerator(
        epsilon=np.inf, codebook=BOOK, classes=[0, 1], random_state=0
    ).fit(frame, y)
    S, labels = generator.sample(4000, given={"job": "smith"})
    assert (S["job"] == "smith").all()
    real = y[frame["job"] == "smith"].mean()
    assert labels.mean() == pytest.approx(real, abs=0.02)
    old = (frame["age"] >= 40)[frame["job"] == "smith"].mean()
    assert (S["age"] >= 40).mean() == pytest.approx(old, abs=0.03)
    balanced = {
        "job": ["clerk", "smith"] * 200,
        "member": [True, True, False, False] * 100,
    }
    S, labels = generator.sample(y=[0, 1, 1, 0] * 100, given=balanced)
    assert (
        S["job"].tolist() == balanced["job"] and labels.tolist() == [0, 1, 1, 0] * 100
    )
    assert S["member"].tolist() == balanced["member"]
    for wrong, match in [
        ({"age": 30}, r"no.* column of categories; these are \['job', 'member'\]"),
        ({"nobody": 1}, "not a column of categories"),
        ({"job": "sailor"}, "public list"),
        ({"job": ["clerk"] * 3}, "disagree"),
    ]:
        with pytest.raises(ValueError, match=match):
            generator.sample(5, given=wrong)
    for wrong in ([["smith"]], iter(["smith"]), [{"smith"}]):
        with pytest.raises(TypeError, match="must be a category, or a list of them"):
            generator.sample(given={"job": wrong})
    numeric = DPSinkhornGenerator(bounds=(0, 1)).fit(np.ones((5, 2)))
    with pytest.raises(ValueError, match="pairs"):
        numeric.sample(2, given={"a": 1})
    with pytest.raises(ValueError, match="quality_report"):
        numeric.quality_report()


def test_the_target_of_the_code_book_is_the_label():
    frame, y = people()
    frame["rich"] = np.array(["no", "yes"])[y]
    book = BOOK.with_columns(
        rich={
            "kind": "flag",
            "categories": ["no", "yes"],
            "role": "target",
            "missing": False,
        }
    )
    generator = DPSinkhornGenerator(codebook=book, random_state=0).fit(frame)
    S = generator.sample(1000)
    assert list(S.columns) == list(frame.columns)
    assert (S["rich"] == "yes").mean() == pytest.approx(y.mean(), abs=0.05)
    assert set(generator.quality_.by_group) == {"class", "job"}
    only = generator.sample(y=["yes"] * 30)
    assert (only["rich"] == "yes").all()
    with pytest.raises(ValueError, match="as y"):
        generator.sample(3, given={"rich": "yes"})


def test_quality_report():
    frame, y = people()
    make = lambda data=(frame, y), **p: DPSinkhornGenerator(  # noqa: E731
        codebook=BOOK, classes=[0, 1], random_state=0, **p
    ).fit(*data)
    generator = make()
    report = generator.quality_report()
    for word in ("one-way", "two-way", "by class", "by job", "epsilon", "is nobody"):
        assert word in report
    # the intervals hold the distances of a sample of the same size
    S, labels = generator.sample(3000)
    found = abs((S["job"] == "smith").mean() - (frame["job"] == "smith").mean())
    quality = generator.quality_
    assert quality.one_way.low <= quality.one_way.value <= quality.one_way.high
    assert found < 0.1
    assert not hasattr(make(quality=False), "quality_")
    assert "Do not publish" not in report and "other: too few records" in report
    few = [QualityFigure.of(count, 30.0, 2.0) for count in (-500.0, 0.5, 500.0)]
    assert [(x.low, x.high) for x in few] == [(0, 1)] * 3
    assert QualityFigure.of(-500.0, 30.0, 600.0).high == 0
    tiny = DPSinkhornGenerator(epsilon=0.3, classes=[0, 1], random_state=0)
    assert "Do not publish" in tiny.fit(frame[:600], y[:600]).quality_report()
    exact = make(people(6000), epsilon=np.inf).quality_
    assert exact.one_way.low == exact.one_way.value == exact.one_way.high < 0.01


def test_the_report_says_what_became_other():
    """Distances take it for one category, and see no difference in it."""
    n = 4000
    frame = pd.DataFrame(
        {
            "na|me": [f"p{i}" for i in range(n)],
            "town": ["A", "B"] * (n // 2),
            "street": ["High"] * (n // 4) + [f"s{i}" for i in range(n * 3 // 4)],
            "age": np.arange(n) % 50,
        }
    )
    generator = DPSinkhornGenerator(epsilon=3.0, random_state=0)
    with pytest.warns(UserWarning, match=r"Of the column 'na\|me' nearly") as caught:
        report = generator.fit(frame).quality_report()
    assert len(caught) == 1
    drawn = generator.sample(1000)
    assert set(drawn["na|me"]) == {"other"}
    assert generator.quality_.one_way.value < 0.02
    (told,) = [text for text in report.splitlines() if "all values" in text]
    assert "na" in told and "me" in told and "|" not in told.replace("\\|", "")
    (told,) = [text for text in report.splitlines() if text.startswith("- street")]
    share = round(100 * (drawn["street"] == "other").mean())
    assert abs(share - 75) <= 2 and "categories shown: 1" in told
    assert any(f" {part} %" in told or f" {part}%" in told for part in (74, 75, 76))
    assert "they do not see" in report and "- town" not in report
    assert "age" not in report.split("## Privacy")[0]
    report = generator.fit(frame[["town", "age"]]).quality_report()
    assert "they do not see" not in report


@pytest.mark.parametrize("form, is_read", [("%Y-%m-%d", True), ("%d.%m.%Y", False)])
@pytest.mark.parametrize("kind", [None, "date"])
def test_a_warning_tells_what_text_is_a_date(form, is_read, kind, quick_fits):
    """Undeclared it becomes "other", declared it is missing, with no other word."""
    days = pd.to_datetime("2015-01-01") + pd.to_timedelta(np.arange(4000) // 2, "D")
    frame = pd.DataFrame({"day": days.strftime(form), "sex": ["f", "m"] * 2000})
    book = {"day": {"kind": kind}}
    generator = DPSinkhornGenerator(epsilon=3.0, codebook=book, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        drawn = generator.fit(frame).sample(100)["day"]
    told = ["parse_cells (fairpriv_sklearn." in str(one.message) for one in caught]
    assert told == [] if is_read else told == [True]
    assert drawn.astype(str).str.match(r"20\d\d-\d\d-\d\d").mean() > 0.9 or not is_read


def test_losses_that_are_told():
    """Of nearly all records, and of gaps only where the codebook says a kind."""

    def told(counts, kind, was=None, noise=0.0, places=None):
        edges, pair = np.arange(3.0), ("a", "b")
        if places:
            places = Places.of(edges, np.zeros(2), places, is_open=True)
        x = LevelColumn("x", 0, Column(kind), edges, pair, pair, places)
        x = dataclasses.replace(x, shown=([], noise))
        y = LevelColumn("y", 1, Column("number"), edges)
        declared = [LevelColumn("x", 0, Column(was)), LevelColumn("y", 1, Column())]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            counted = [(x, np.array(counts)), (y, np.array([50.0, 50, 0]))]
            _raw.tell_of_losses(declared, counted)
        return ["column 'x' nearly all" in str(one.message) for one in caught]

    assert told([5.0, 0, 95, 0], "category") == [True]
    assert told([6.0, 0, 94, 0], "category") == []
    assert told([5.0, 0, 0, 95], "category") == []
    assert told([5.0, 0, 45, 50], "category") == []
    assert told([5.0, 0, 45, 50], "category", "category") == [True]
    assert told([6.0, 0, 44, 50], "category", "category") == []
    assert told([5.0, 0, 95], "number") == []
    assert told([5.0, 0, 95], "number", "number") == [True]
    assert told([6.0, 0, 94], "number", "number") == []
    # where noise hides the kind, another warning says so
    assert told([4.0, 0, 96, 0], "category", noise=24.0) == [True]
    assert told([4.0, 0, 96, 0], "category", noise=24.1) == []
    assert told([4.0, 0, 96], "number", "number", places=24.0) == [True]
    assert told([4.0, 0, 96], "number", "number", places=24.1) == []


def test_columns_without_values_are_missing_and_not_other():
    """Also what a codebook calls something that it is not."""
    frame = people(2000)[0][["age", "hours"]].assign(empty=None, full="a")
    book = {"empty": {"kind": "category"}, "hours": {"kind": "flag"}}
    generator = DPSinkhornGenerator(epsilon=3.0, codebook=book, random_state=0)
    with pytest.warns(UserWarning, match="Of the columns 'hours', 'empty' nearly all"):
        report = generator.fit(frame).quality_report().split("## Privacy")[0]
    assert "counts as missing" in report and "other" not in report
    told = [text for text in report.splitlines() if text.endswith("% of the rows")]
    assert told == ["- hours: 100% of the rows", "- empty: 100% of the rows"]
    report = generator.set_params(codebook=None).fit(frame[["age", "full", "hours"]])
    assert "counts as missing" not in report.quality_report()


def test_groups_that_are_not_listed_are_said_to_be_without_figures(quick_fits):
    """Their number would have to be known before the budget is taken."""
    frame = people(2000)[0][["age", "job"]].assign(town="a", kind=1.5)
    listed = {"kind": "category", "categories": sorted(set(frame["job"]))}
    book = {name: {"role": "group"} for name in ("job", "town", "kind")}
    for more in ({}, listed):
        book["job"].update(more)
        generator = DPSinkhornGenerator(codebook=book, random_state=0).fit(frame)
        text = generator.quality_report()
        told = re.findall(r"One-way tables by (\w+): \*\*not measured", text)
        assert told == ["job", "town", "kind"][bool(more) :]
        assert list(generator.quality_.by_group) == ["job"] * bool(more)


def test_it_is_told_from_a_twentieth_of_the_rows_on():
    frame, y = people()
    fitted = DPSinkhornGenerator(codebook=BOOK, classes=[0, 1]).fit(frame, y)
    for share, is_told in ((0.049, False), (0.05, True), (1.0, True)):
        others = [("town", 3, share)]
        report = quality_text(fitted.quality_, fitted.privacy_, others)
        assert ("- town" in report) == is_told, share


def test_a_category_may_be_called_other():
    """Given "other", rows are those of this category, not of what nobody listed."""
    rng = np.random.default_rng(0)
    threat = rng.choice(["attack", "other"], 6000)
    armed = np.where(threat == "other", "no", "yes")
    frame = pd.DataFrame({"threat": threat, "armed": armed})
    generator = DPSinkhornGenerator(epsilon=3.0, random_state=0).fit(frame)
    drawn = generator.sample(500, given={"threat": "other"})
    assert (drawn["threat"] == "other").all() and (drawn["armed"] == "no").mean() > 0.9


@pytest.mark.parametrize("relation", RELATIONS)
def test_quality_intervals_cover(relation, quick_fits):
    """The noiseless distance lies inside 95 % intervals nearly always."""
    frame, y = people(1000)
    inside = 0
    for seed in range(60):
        with recording() as seen:
            generator = DPSinkhornGenerator(
                epsilon=2.0,
                codebook=BOOK,
                classes=[0, 1],
                neighboring=relation,
                random_state=seed,
            ).fit(frame, y)
        (crossing,) = [c for c in seen.crossings if c.name == "quality"]
        n = generator._pairs.counts.sum()
        figure = generator.quality_.two_way
        inside += figure.low <= crossing.exact[1] / n <= figure.high
    assert inside >= 52  # of 60; below has probability .003


def test_columns_that_noise_hides_are_named(quick_fits):
    rng = np.random.default_rng(0)
    numbers = {f"c{i}": rng.normal(0, 10.0**i, 100) for i in range(6)}
    X = pd.DataFrame({**numbers, "known": rng.uniform(0, 1, 100)})
    told = "cannot be told what the columns 'c0', 'c1', 'c2', 'c3', 'c4', ... hold"
    public = {"known": {"kind": "number", "range": [0, 1]}}

    def fit(epsilon, X=X, codebook=public):
        DPSinkhornGenerator(epsilon=epsilon, codebook=codebook, random_state=0).fit(X)

    with pytest.warns(UserWarning, match=told) as seen:
        fit(0.1)
    assert len(seen) == 1
    assert "known" not in str(seen[0].message)
    with pytest.warns(
        UserWarning, match="told what the column 'c0' holds, or where its"
    ):
        fit(0.1, X[["c0", "known"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(np.inf)
        fit(1.0, people()[0], None)
        ranges = {name: [-1e6, 1e6] for name in numbers} | {"known": [0, 1]}
        fit(
            0.1, codebook={k: {"kind": "number", "range": v} for k, v in ranges.items()}
        )


@pytest.mark.parametrize("relation", RELATIONS)
def test_dates_that_nobody_declared_come_back_as_dates(relation):
    frame, y = people(5000)
    frame["since"] = frame["since"].astype(str)
    generator = DPSinkhornGenerator(
        method="pairs", classes=[0, 1], neighboring=relation, random_state=0
    )
    S, _ = generator.fit(frame, y).sample(5000)
    assert list(S.columns) == list(frame)
    assert S["since"].dtype == "datetime64[s]"
    levels = [0.1, 0.5, 0.9]
    found, real = (
        pd.to_datetime(table["since"]).quantile(levels) for table in (S, frame)
    )
    assert (abs(found - real) < pd.Timedelta(60, "D")).all()
    assert S["since"].isna().mean() < 0.02


@pytest.mark.parametrize("holder", ["polars", "pyarrow", "array"])
def test_dates_come_back_in_what_held_them(holder, quick_fits):
    days = [datetime.date(2020, 1, 1 + i % 28) for i in range(600)]
    if holder == "array":
        X = np.array(days, dtype=object)[:, None]
    else:
        table = pytest.importorskip("pyarrow").table({"day": days})
        is_polars = holder == "polars"
        X = pytest.importorskip("polars").from_arrow(table) if is_polars else table
    generator = DPSinkhornGenerator(method="pairs", epsilon=5.0, random_state=0)
    S = generator.fit(X).sample(50)
    drawn = S[:, 0].tolist() if holder == "array" else S["day"].to_numpy().tolist()
    assert {type(one) for one in drawn} == {datetime.date}
    assert min(drawn).year >= 2019 and max(drawn).year <= 2021


@pytest.mark.parametrize(
    "n, step, warns",
    [(60, 100_000, True), (20_000, 100_000, False), (3000, 70_000, False)],
)
def test_a_warning_tells_of_dates_that_noise_hides(n, step, warns, quick_fits):
    """Not of seven years, which are found, and of which no part stands out alone."""
    days = pd.Series(np.datetime64("1930-01-01", "s") + np.arange(n) * step)
    X = pd.DataFrame({"day": days})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPSinkhornGenerator(method="pairs", epsilon=1.0, random_state=0).fit(X)
    assert any("cannot be told" in str(w.message) for w in caught) == warns


def test_numbers_beyond_all_places_are_told_of(quick_fits):
    """Without a range they become the largest number that is looked for."""
    rng = np.random.default_rng(0)
    n = 2000
    low = np.full(n, 7.0)
    frame = pd.DataFrame(
        {
            "signed": 1e12 * rng.normal(size=n),
            "some": np.where(rng.random(n) < 0.1, -1e30, low),
            "few": np.where(rng.random(n) < 0.01, 1e30, low),
            "places": 1e12 * (1 + rng.random(n)),  # the looks find them
            "usual": rng.normal(size=n),
        }
    )
    generator = DPSinkhornGenerator(epsilon=3.0, random_state=0)
    with pytest.warns(UserWarning, match="columns 'signed', 'some' may lie beyond"):
        generator.fit(frame)
    assert np.abs(generator.sample(1000)["signed"]).max() <= LARGEST
    ranges = dict.fromkeys(["signed", "some"], [-1e30, 1e30])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generator.set_params(codebook=ranges).fit(frame)


FAR = {
    "offset": (1e6, 1e6 + 3),
    "seconds of a day": (1.7e9, 1.7e9 + 86_400),
    "its milliseconds": (1.7e12, 1.7e12 + 86_400_000),
    "of a millionth": (0.0, 1e-6),
    "latitudes": (48.8, 48.9),
    "below zero": (-1e6 - 3, -1e6),
}


@pytest.mark.parametrize("name", FAR)
def test_numbers_close_together_far_from_zero(name, quick_fits):
    """They are sampled where they are; declared ranges may be much too wide."""
    low, high = FAR[name]
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"far": rng.uniform(low, high, 8000), "near": rng.normal(size=8000)}
    )
    X["wide"] = X["far"]
    X["atom"] = np.where(rng.random(8000) < 0.3, X["far"].iloc[0], X["far"])
    wide = {"wide": {"kind": "number", "range": [low - 1e6, high + 1e6]}}
    fit = DPSinkhornGenerator(codebook=wide, epsilon=3.0, random_state=0).fit(X)
    drawn, deciles = fit.sample(8000), np.arange(1, 10) / 10
    for column in ("far", "wide", "near"):
        cells = np.searchsorted(np.quantile(X[column], deciles), drawn[column])
        shares = np.bincount(cells, minlength=10) / 8000
        assert np.abs(shares - 0.1).sum() / 2 < 0.08, column
    # of hundreds of parts one may have some records by its noise
    for column in ("far", "wide", "atom"):
        ends = np.quantile(drawn[column], [0.01, 0.99])
        assert low - (high - low) / 2 <= ends[0] < ends[1] <= high + (high - low) / 2


# --- degenerate tables ----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Numbers of the column 'a' may lie beyond")
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, np.inf])
def test_degenerate_tables_are_legal(relation, epsilon, quick_fits):
    frames = [
        pd.DataFrame({"a": [1]}),
        pd.DataFrame({"a": [None, None], "b": ["x", 3]}, dtype=object),
        pd.DataFrame({"a": [1e300, -1e300, np.inf], "b": [0, 0, 0]}),
        pd.DataFrame({"a": [datetime.date(2020, 1, 1)] * 3, "b": ["", "x", "y"]}),
        pd.DataFrame({f"c{i}": [i, 2] for i in range(12)}),
    ]
    for X in frames:
        for y in (None, [3] * len(X)):
            generator = DPSinkhornGenerator(
                epsilon=epsilon,
                neighboring=relation,
                random_state=0,
                classes=None if y is None else [1, 2, 3],
            ).fit(X, y)
            S = generator.sample(7)
            assert len(S if y is None else S[0]) == 7


def test_errors():
    frame, y = people(50)
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-4)

    def fit(X=frame, y=y, **params):
        public = {"codebook": BOOK, "classes": [0, 1], "ledger": ledger}
        return DPSinkhornGenerator(**{**public, **params}).fit(X, y)

    for wrong, match in [
        ({"codebook": {"nobody": [0, 1]}}, "does not have"),
        ({"categories": {"nobody": ["a"]}}, "does not have"),
        ({"codebook": None, "bounds": {"age": (7, 7)}}, "'age' must have low < high"),
        ({"categories": {"job": []}}, "is empty"),
        ({"categories": {"job": ["TRUE", "true"]}}, "is read like 'TRUE'"),
        ({"bins": {"nobody": [0, 1]}}, "does not have"),
        ({"bins": {"age": [3, 2]}}, "increase"),
        ({"bounds": {"nobody": (0, 1)}}, "does not have"),
        ({"method": "semidual"}, "codebook is for raw tables"),
        ({"codebook": 5}, "codebook"),
        ({"y": y[:-1]}, "inconsistent"),
        ({"codebook": dict.fromkeys(frame, "left out")}, "no column left"),
    ]:
        with pytest.raises(ValueError, match=match):
            fit(**wrong)
    lists = {"job": ["clerk"]}
    with pytest.raises(ValueError, match="outside its list") as caught:
        fit(categories=lists, codebook=None)
    assert "smith" not in "".join(traceback.format_exception(caught.value))
    assert ledger.spends() == []


# --- levels of a fit ------------------------------------------------------------------


def test_a_level_is_a_function_of_its_cell():
    frame, _ = people(500)
    columns = _raw.public_columns(list(frame), BOOK, None, None, 16)
    columns = [
        c
        if c.edges is not None or c.keys
        else _levels.replace(c, edges=np.linspace(*c.declared.bounds, 9))
        for c in columns
    ]
    rows = Rows(500, cells=TableReader.of(frame), codes=np.arange(500))
    coded, whole = _raw.encode_rows(rows, columns)
    np.testing.assert_array_equal(coded.whole().codes, np.arange(500))
    np.testing.assert_array_equal(_raw.encode_rows(rows, columns, 7)[1], whole)
    order = np.random.default_rng(0).permutation(500)
    table = TableReader.of(frame.iloc[order].astype(object))
    shuffled = _raw.encode_rows(Rows(500, cells=table, codes=order), columns, 64)[1]
    np.testing.assert_array_equal(shuffled, whole[order])


def test_a_few_days_beside_a_sentinel_are_drawn(quick_fits):
    """Before, all rows had the sentinel: no cell of the days stood out alone."""
    drawn = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        days = np.where(rng.random(6000) < 0.15, rng.geometric(0.06, 6000), 999)
        X = pd.DataFrame({"days": days, "x": rng.normal(size=6000)})
        generator = DPSinkhornGenerator(quality=False, random_state=seed)
        sampled = generator.fit(X).sample(6000)["days"]
        drawn.append([(sampled < 200).mean(), (sampled == 999).mean()])
    assert_allclose(drawn, [[0.15, 0.85]] * 4, atol=0.03)


@pytest.mark.parametrize("decimals", [0, 2])
@pytest.mark.parametrize("sentinel", [999, -99, 9999])
def test_a_number_for_missing_comes_out_exactly(sentinel, decimals):
    """A third had it, and 980 to 1,020 came out; or the next number there is."""
    rng = np.random.default_rng(0)
    days = rng.uniform(0, 29, 6000).round(decimals)
    frame = pd.DataFrame({"days": np.where(rng.random(6000) < 1 / 3, sentinel, days)})
    generator = DPSinkhornGenerator(epsilon=1.0, random_state=0).fit(frame)
    drawn = generator.sample(3000)["days"].to_numpy(float)
    assert (drawn == sentinel).mean() == pytest.approx(1 / 3, abs=0.03)
    is_day = (drawn >= 0) & (drawn <= 30)
    assert (is_day | (drawn == sentinel)).mean() > 0.95


def test_a_fit_uses_the_places_of_its_numbers(quick_fits, monkeypatch):
    """Bins of a number are known better than counts alone say, those of a list not."""
    variances, margin = [], _pairs._margin

    def spy(seen, held, n):
        variances.append(seen[0][1])
        return margin(seen, held, n)

    monkeypatch.setattr(_pairs, "_margin", spy)
    frame, y = people()
    frame["cost"] = np.random.default_rng(1).exponential(100, len(frame))
    fit = DPSinkhornGenerator(
        epsilon=4.0, codebook={"job": BOOK["job"]}, classes=[0, 1], random_state=0
    ).fit(frame[["job", "cost", "hours"]], y)
    of_bin = [
        v / np.bincount(b) for v, b in zip(variances, fit._pairs.bins, strict=True)
    ]
    np.testing.assert_allclose(of_bin[0], of_bin[0][0])
    for column, found in zip(fit._columns[1:], of_bin[1:], strict=True):
        assert found.max() < of_bin[0][0] * (1 + 1e-9) and found.min() > 0
        assert found.mean() < 0.97 * of_bin[0][0]
        assert column.falls.shape == (column.n_cells,)


def test_a_fit_uses_the_counts_of_its_categories_and_round_numbers(monkeypatch):
    """Neither is thrown away; what was counted is what the levels are of."""
    found = []
    with_counted = LevelColumn.with_counted

    def spy(column, counts, scale):
        both, factor = with_counted(column, counts, scale)
        found.append((column, counts, both))
        return both, factor

    monkeypatch.setattr(LevelColumn, "with_counted", spy)
    frame, y = people(8000)
    frame.loc[::3, "job"] = "clerk"
    frame.loc[::9, "job"] = None
    frame["age"] = frame["age"].astype(float)
    fit = DPSinkhornGenerator(
        epsilon=8.0, codebook={"job": {"kind": "category"}}, random_state=0
    )
    fit.set_params(classes=[0, 1]).fit(frame[["job", "age"]], y)
    (job, _, jobs), (age, _, ages) = found
    seen, scale = job.shown
    truth = frame["job"].value_counts(dropna=False)
    truth = truth[["clerk", "smith"]].tolist() + [frame["job"].isna().sum()]
    assert job.values == ("clerk", "smith") and 0 < scale < 40
    assert 0 < abs(seen - truth).max() < 4 * scale
    assert abs(jobs[[0, 1, -1]] - truth).max() < 4 * scale
    assert job.rounds is None
    counted, deviation = age.shown  # as categories are, at half the weight
    assert deviation == 2 * scale and len(counted) == age.n_cells + 1
    ages_within = np.histogram(frame["age"], age.edges)[0]
    assert 0 < abs(counted[:-1] - ages_within).max() < 4.5 * deviation
    rounds = age.rounds
    truth = np.histogram(frame["age"], rounds.edges)[0]
    assert np.ptp(rounds.noise) == 0 and (truth > 50).sum() > 30
    assert 0 < abs(rounds.noisy - truth).max() < 5 * rounds.noise[0]


# --- the distribution -----------------------------------------------------------------


def test_margins_are_least_squares():
    """Of all that was released about a column; against a solver, and many draws."""
    rng = np.random.default_rng(0)
    m, n, noise, scale = 4, 9000.0, 30.0, 50.0
    truth = rng.uniform(500, 2000, (2, m))
    truth *= n / truth.sum()
    seen = [
        (truth.sum(axis=0) + rng.normal(size=m) * np.sqrt(v), v)
        for v in (scale**2, np.array([100.0, 900.0, 1e4, 2500.0]), 40.0)
    ]
    counts, variance = _pairs._margin(seen, np.ones(m, dtype=bool), n)
    roots = [np.sqrt(np.broadcast_to(v, m)) for _, v in seen]
    design = np.concatenate([np.diag(1 / r) for r in roots])
    found = np.concatenate([x / r for (x, _), r in zip(seen, roots, strict=True)])
    wanted = np.linalg.lstsq(design, found)[0]
    np.testing.assert_allclose(counts, wanted + (n - wanted.sum()) / m)
    np.testing.assert_allclose(variance, np.diag(np.linalg.inv(design.T @ design)))
    empty = _pairs._margin(seen, np.arange(m) > 0, n)[0]
    assert empty[0] == 0 and empty.sum() == pytest.approx(n)
    # cells of class and bin: unbiased, and as exact as is said
    cells = []
    for _ in range(1000):
        table = truth + noise * rng.normal(size=truth.shape)
        line = truth.sum(axis=0) + scale * rng.normal(size=m)
        both = [(line, scale**2), (table.sum(axis=0), 2 * noise**2)]
        precision = sum(1 / v for _, v in both)
        margin = sum(x / v for x, v in both) / precision
        cells.append(_pairs._with_margin(table, table.sum(axis=1), margin))
        np.testing.assert_allclose(cells[-1].sum(), table.sum())
    stated = _pairs._deviation(np.full(m, 1 / precision), 2, noise)
    np.testing.assert_allclose(np.mean(cells, axis=0), truth, atol=6.0)
    # rows have the sums of the table: a part of the noise in m - 1 directions
    assert 0.7 * stated.mean() < np.std(cells, axis=0).mean() < 1.1 * stated.mean()


@pytest.mark.parametrize("exact", ["levels", "class"])
def test_every_table_says_how_many_records_a_level_has(exact, quick_fits):
    """Where one of the two is exact and the other is noise, counts are exact."""
    names = {"levels": _pairs.LEVELS, "class": _pairs.CLASS_TABLES}

    class Wall:
        rng = np.random.default_rng(0)

        def public_draws(self):
            return noise_source(0).public()

        def scale(self, query, name):
            return 1e-3 if name == names[exact] else 200.0

        def release(self, query, rows, name):
            value = query.of_rows(rows, None)
            return value + self.scale(query, name) * self.rng.normal(size=value.shape)

    rng = np.random.default_rng(1)
    levels = rng.choice(4, p=[0.4, 0.3, 0.2, 0.1], size=(20_000, 3)).astype(np.int16)
    column = LevelColumn.of("a", 0, Column("category", categories=tuple("wxyz")))
    plan = _pairs.PairsPlan(2, 3, 6, (), 1.0, 20_000)
    rows = as_rows(levels, rng.integers(0, 2, 20_000))
    pairs = _pairs.fit_pairs(rows, [column] * 3, plan, Wall())
    for a in range(3):
        counts = np.bincount(levels[:, a], minlength=6)
        np.testing.assert_allclose(20_000 * pairs.levels[a], counts, atol=0.1)


def test_tables_of_more_cells_have_less_noise(quick_fits, monkeypatch):
    """As much as is said; the sum of what noise adds to distances is least."""
    found, margin = [], _pairs._margin

    def spy(seen, held, n):
        found.append(seen)
        return margin(seen, held, n)

    class Wall:
        rng = np.random.default_rng(0)

        def public_draws(self):
            return noise_source(0).public()

        def scale(self, query, name):
            return 40.0 * query.sensitivity("replace_one")

        def release(self, query, rows, name):
            value = query.of_rows(rows, None)
            return value + self.scale(query, name) * self.rng.normal(size=value.shape)

    monkeypatch.setattr(_pairs, "_margin", spy)
    sizes, rng = np.array([2, 8, 40]), np.random.default_rng(1)
    levels = rng.integers(0, sizes, (20_000, 3)).astype(np.int16)
    about = {"missing": False, "other": False}
    columns = [
        LevelColumn.of(
            "a", 0, Column("category", categories=tuple(map(str, range(m))), **about)
        )
        for m in sizes
    ]
    assert [column.n_levels for column in columns] == sizes.tolist()
    plan = _pairs.PairsPlan(2, 3, 40, (), 1.0, 20_000)
    rows, wall = as_rows(levels, rng.integers(0, 2, 20_000)), Wall()
    for _ in range(10):
        _pairs.fit_pairs(rows, columns, plan, wall)
    variances = np.array([[v.mean() for _, v in seen] for seen in found[:3]])
    ratios = np.outer(sizes / 2, [1, 1]) ** (-1 / 3)
    np.testing.assert_allclose(variances / variances[0], ratios, rtol=0.06)
    weights = np.array(_pairs._weights(sizes))
    assert weights.dtype == int
    np.testing.assert_allclose(
        variances[:, 0], 1600 * 2 * (weights @ weights) / weights**2
    )
    for a in range(3):
        truth = np.bincount(levels[:, a], minlength=sizes[a])
        for source in (0, 1):
            errors = [
                (t - truth) / np.sqrt(v) for t, v in (f[source] for f in found[a::3])
            ]
            assert np.mean(np.square(errors)) == pytest.approx(
                1, abs=4 / np.sqrt(10 * sizes[a])
            )

    def added(weights):
        return (np.sqrt(sizes) / weights).sum() * np.linalg.norm(weights)

    best = added(sizes ** (1 / 6))
    assert best <= added(weights) < 1.001 * best
    for _ in range(100):
        assert added(rng.uniform(0.1, 1, 3)) >= best


def test_bins_follow_the_noise():
    plan = _pairs.PairsPlan(2, 20, 80, (), 1.0, None)
    assert plan.most_bins == 24 and plan.bins_of(20_000, 0.0) == (24, np.inf)
    found = [plan.bins_of(20_000, noise) for noise in (50.0, 200.0, 800.0, 1e9)]
    assert found == [(24, 15.0), (15, 7.5), (7, 3.75), (4, 3.0)]


def test_features_of_bins():
    """Bins of a category are as far apart as can be, neighbours share features."""
    unit = _pairs.UNIT
    apart = _pairs.features_of(np.zeros(5), np.ones(5), 3.0)
    products = apart @ apart.T / unit**2
    np.testing.assert_allclose(products, np.eye(5) * 1.25 - 0.25, atol=4e-3)
    near = np.r_[np.ones(9), 0, 0]
    smooth = _pairs.features_of(near, np.r_[np.ones(10), 3, 3], 6.0)
    assert smooth.shape == (12, 2 + 5)  # of 16 records 10 lie on the line
    products = smooth @ smooth.T / unit**2
    assert (np.diff(products[0, :5]) < 0).all() and products[0, 1] > 0.5
    assert products[:10, 10:].mean() < 0 and products[10, 11] < 0.3
    lengths = (smooth**2).sum(axis=1)
    assert lengths.max() <= unit**2 and lengths.min() > 0.99 * unit**2
    assert _pairs.features_of(near, np.ones(12), np.inf).shape == (12, 12)
    np.testing.assert_array_equal(
        np.abs(_pairs.features_of(np.zeros(1), np.zeros(1), 3.0)), [[unit - 1]]
    )


def small_pairs(rng, C=2, K=3, A=4, m=3):
    """A distribution with given levels inside bins: the last two share one."""
    tables = tuple(rng.dirichlet(np.ones(m), size=(C, K)) for _ in range(A))
    counts = np.array([60.0, 40.0])
    weights = rng.dirichlet(np.ones(K), size=C) * counts[:, None]
    bins = tuple(np.array([0, 1, 2, 2]) for _ in range(A))
    levels = [np.array([0.4, 0.2, 0.3, 0.1]) for _ in range(A)]
    return _pairs.Pairs(counts, levels, bins, weights, tables, np.eye(A))


def test_samples_and_evidence_against_enumeration():
    rng = np.random.default_rng(0)
    pairs = small_pairs(rng)
    inside = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0.75, 0.25]])
    np.testing.assert_allclose(pairs.inside(0), inside)
    levels = [t @ inside for t in pairs.tables]
    joint = np.einsum("ck,cka,ckb,ckd,cke->cabde", pairs.weights / 100, *levels)
    np.testing.assert_allclose(
        pairs.level_counts(1), 100 * joint.sum(axis=(0, 1, 3, 4))
    )
    public = noise_source(0).public()
    n = 200_000
    codes = _raw.draw_classes(pairs, {}, n, public)
    np.testing.assert_allclose(np.bincount(codes) / n, [0.6, 0.4], atol=1e-4)
    drawn, _ = _pairs.sample_pairs(pairs, codes, {}, public)
    cells = np.ravel_multi_index((codes, *drawn.T), (2, 4, 4, 4, 4))
    seen = np.bincount(cells, minlength=512).reshape(joint.shape) / n
    np.testing.assert_allclose(seen, joint, atol=4e-3)
    # given the first and the third column
    weights = _pairs.evidence_weights(pairs, {0: 1, 2: 2})
    np.testing.assert_allclose(weights, 100 * joint[:, 1, :, 2].sum(axis=(1, 2)))
    given = {0: np.full(n, 1), 2: np.full(n, 2)}
    codes = _raw.draw_classes(pairs, given, n, public)
    np.testing.assert_allclose(
        np.bincount(codes) / n, weights / weights.sum(), atol=1e-4
    )
    drawn, _ = _pairs.sample_pairs(pairs, codes, given, public)
    assert (drawn[:, 0] == 1).all() and (drawn[:, 2] == 2).all()
    for c in (0, 1):
        wanted = joint[c, 1, :, 2] / joint[c, 1, :, 2].sum()
        of_class = drawn[codes == c]
        seen = np.bincount(4 * of_class[:, 1] + of_class[:, 3], minlength=16)
        np.testing.assert_allclose(seen / seen.sum(), wanted.ravel(), atol=6e-3)


def test_numbers_depend_on_each_other_within_points():
    """By the cube of what the points say, and no bin has more rows or fewer for it."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(4)).reshape(2, 2)
    apart = np.array([[[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]]] * 2)
    tables = (apart, (apart + apart[:, :, [1, 0, 2]]) / 2, apart)
    root = _pairs._correlation_root(weights, tables, [True, True, False])
    # correlation of ranks in the table of the two columns, by enumeration
    flat = [t.reshape(4, 3) for t in tables]
    joint = np.einsum("k,ka,kb->ab", weights.ravel(), flat[0], flat[1])
    ranks = []
    for margin in (joint.sum(axis=1), joint.sum(axis=0)):
        ranks.append(np.array([margin[:i].sum() + margin[i] / 2 for i in range(3)]))
        ranks[-1] = (ranks[-1] - 0.5) / np.sqrt(margin @ (ranks[-1] - 0.5) ** 2)
    wanted = np.eye(3)
    wanted[0, 1] = wanted[1, 0] = (ranks[0] @ joint @ ranks[1]) ** 3
    assert wanted[0, 1] > 1e-3
    np.testing.assert_allclose(root @ root.T, wanted, atol=1e-12)
    # at a point of wide tables the drawn ranks have the correlation of normal scores
    even = tuple(np.full((1, 1, 50), 0.02) for _ in range(3))
    root = np.linalg.cholesky([[1, 0.8, 0], [0.8, 1, 0], [0, 0, 1]])
    one = _pairs.Pairs(
        np.array([100.0]), [np.full(50, 0.02)] * 3, (np.arange(50),) * 3,
        np.array([[100.0]]), even, root,
    )  # fmt: skip
    public = noise_source(0).public()
    drawn, _ = _pairs.sample_pairs(one, np.zeros(20_000, dtype=int), {}, public)
    for column in drawn.T:
        np.testing.assert_array_equal(np.bincount(column), 400)
    spearman = np.corrcoef(drawn.T)
    assert spearman[0, 1] == pytest.approx(6 / np.pi * np.arcsin(0.4), abs=0.01)
    assert np.abs(spearman[2, :2]).max() < 0.03
    # and within one wide level they go on as they do between levels
    wide = _pairs.Pairs(
        one.counts, [np.ones(1)] * 3, (np.zeros(1, dtype=int),) * 3, one.weights,
        (np.ones((1, 1, 1)),) * 3, root,
    )  # fmt: skip
    drawn, within = _pairs.sample_pairs(wide, np.zeros(20_000, dtype=int), {}, public)
    assert (drawn == 0).all() and 0 <= within.min() and within.max() < 1
    even = np.linspace(0, 1, 20_000)
    np.testing.assert_allclose(
        np.sort(within, axis=0), even[:, None] * [[1] * 3], atol=1e-4
    )
    spearman = np.corrcoef(within.T)
    assert spearman[0, 1] == pytest.approx(6 / np.pi * np.arcsin(0.4), abs=0.01)
    assert np.abs(spearman[2, :2]).max() < 0.03


def test_three_columns_that_depend_on_each_other():
    """Every pair depends, and no column explains the other two: more than a tree."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, (2, 20_000))
    frame = pd.DataFrame({"a": a, "b": b, "c": (a + b) // 2})
    lists = {"a": range(4), "b": range(4), "c": range(4)}
    drawn = (
        DPSinkhornGenerator(epsilon=3.0, categories=lists, random_state=0)
        .fit(frame)
        .sample(20_000)
    )
    for one, two in (("a", "b"), ("a", "c"), ("b", "c")):
        real, found = (
            np.bincount(4 * t[one].astype(int) + t[two].astype(int), minlength=16)
            for t in (frame, drawn)
        )
        assert np.abs(real - found).sum() / 2 / 20_000 < 0.03


def test_even_draws():
    noise = noise_source(0)
    distributions = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    groups = np.array([0] * 1000 + [1] * 10)
    drawn = _pairs.draw_evenly(distributions, groups, noise)
    counts = np.bincount(drawn[:1000], minlength=3)
    assert np.abs(counts - [500, 250, 250]).max() <= 1 and (drawn[1000:] == 1).all()
    assert len(_pairs.draw_evenly(distributions, groups[:0], noise)) == 0
    # a row that is alone in its group is drawn by its chances
    alone = _pairs.draw_evenly(
        np.tile([0.5, 0.25, 0.25], (4000, 1)), np.arange(4000), noise
    )
    np.testing.assert_allclose(np.bincount(alone) / 4000, [0.5, 0.25, 0.25], atol=0.04)
    # in the order of scores: the first half of them has the first outcome
    scores = np.random.default_rng(0).permutation(1000)
    found, within = _pairs.draw_within(distributions, groups[:1000], noise, scores)
    np.testing.assert_array_equal(found[scores < 499], 0)
    np.testing.assert_array_equal(found[scores > 750], 2)
    # where in its outcome a row lies: in the order of scores, from end to end
    for outcome in range(3):
        order = np.argsort(scores[found == outcome])
        places = within[found == outcome][order]
        assert (np.diff(places) > 0).all()
        even = (np.arange(len(places)) + 0.5) / len(places)
        np.testing.assert_allclose(places, even, atol=0.005)
    # rows without a chance are not drawn
    assert set(_pairs.draw_evenly(np.eye(3)[[1, 1]], np.arange(2), noise)) == {1}


# --- the wall -------------------------------------------------------------------------


def queries():
    sizes = (3, 4, 2, 5)
    one = tuple((a,) for a in range(4))
    pairs = ((0, 1), (1, 2), (0, 3))
    bins = (
        np.arange(3),
        np.array([0, 0, 1, 1]),
        np.arange(2),
        np.array([0, 1, 2, 2, 2]),
    )
    merged = (3, 2, 2, 3)
    weights = (1, 3, 2, 4)
    single = tuple(((p, None),) for p in range(3))
    by_class = tuple(tuple((a, c) for a in range(4)) for c in range(2))
    return [
        _pairs.Counts(one, sizes, 2),
        _pairs.Counts(pairs, merged, 1, bins),
        _pairs.Counts(one, sizes, 2, weights=weights),
        _pairs.Counts(one, merged, 2, bins, weights),
        _pairs.Distances(pairs, merged, 2, bins, parts=single),
        _pairs.Distances(one, sizes, 2, parts=(tuple((a, None) for a in range(4)),)),
        _pairs.Distances(one, sizes, 2, parts=by_class),
    ]


def level_pairs(rng, relation, n_tables=60):
    sizes = np.array([3, 4, 2, 5])
    for _ in range(n_tables):
        n = int(rng.integers(1, 60))
        levels = rng.integers(0, sizes, (n, 4)).astype(np.int16)
        codes = rng.integers(0, 2, n)
        if rng.random() < 0.5:
            levels[:], codes[:] = levels[0], codes[0]
        if relation == "add_remove":
            yield (levels, codes), (levels[1:], codes[1:])
            continue
        other, other_codes = levels.copy(), codes.copy()
        other[0] = (levels[0] + rng.integers(1, 3)) % sizes
        other[0, 2] = 1 - levels[0, 2]
        other_codes[0] = rng.integers(2)
        yield (levels, codes), (other, other_codes)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("query", queries(), ids=lambda q: q.name)
def test_sensitivity_of_tables_and_distances(query, relation):
    rng = np.random.default_rng(0)
    bound, largest = query.sensitivity(relation), 0.0
    is_distance = isinstance(query, _pairs.Distances)
    for first, second in level_pairs(rng, relation):
        # references below, at and above the counts
        state = [
            rng.integers(-1, 2) * 100 * np.ones(shape, dtype=np.int64)
            if rng.random() < 0.7
            else rng.integers(0, 30, shape)
            for shape in query.shapes
        ]
        if is_distance and rng.random() < 0.5:
            # what the first has, the reference has not; and the other way round
            counts = query.split(query.of_block(as_rows(*first).whole(), None))
            other = query.split(query.of_block(as_rows(*second).whole(), None))
            state = [
                np.where(a > b, -100, 100) for a, b in zip(counts, other, strict=True)
            ]
        values = [query.of_rows(as_rows(*D), state) for D in (first, second)]
        largest = max(largest, np.linalg.norm(values[0] - values[1]))
    assert 0.95 * bound < largest <= bound * (1 + 1e-12)


def products(sizes, n_smooth=3.0, **target):
    """Features of columns: categories, and numbers of seven bins or more."""
    features = tuple(
        _pairs.features_of(np.r_[np.ones(m - 1), 0] * (m > 6), np.ones(m), n_smooth)
        for m in sizes
    )
    return _pairs.Products(features, tuple(np.arange(m) for m in sizes), **target)


@pytest.mark.parametrize(
    "sizes, reached, target",
    [
        ((2, 2, 2, 2), 0.99, {}),
        ((2, 2), 0.99, {}),
        ((3, 9, 2, 7), 0.9, {}),
        ((2, 2, 2, 2), 0.95, {"target": 3, "weight": 4}),
        ((2, 2), 0.99, {"target": 0, "weight": 3}),
        ((2, 3, 9, 7), 0.9, {"target": 0, "weight": 8}),
        ((3, 9, 2, 7), 0.9, {"target": 3, "weight": 2}),
    ],
)
def test_sensitivity_of_products_of_features(sizes, reached, target):
    """Against every two records there are, on the code that a fit runs."""
    query = products(sizes, **target)
    records = np.array(list(np.ndindex(sizes)), dtype=np.int16)
    rng = np.random.default_rng(0)
    few = records[rng.permutation(len(records))[:100]]
    one = lambda record: query.of_rows(  # noqa: E731
        as_rows(record[None], np.zeros(1, dtype=int)), None
    )
    values = np.array([one(record) for record in few])
    rows = [f[few[:, a]] / _pairs.UNIT for a, f in enumerate(query.features)]
    np.testing.assert_array_equal(
        values,
        np.concatenate(
            [
                np.einsum("ni,nj->nij", rows[a], rows[b]).reshape(len(few), -1)
                * (target["weight"] if target.get("target") in (a, b) else 1)
                for a in range(len(sizes))
                for b in range(a + 1, len(sizes))
            ],
            axis=1,
        ),
    )
    changes = np.linalg.norm(values[:, None] - values, axis=2)
    bound = query.sensitivity("replace_one")
    assert reached * bound < changes.max() <= bound
    bound = query.sensitivity("add_remove")
    assert 0.99 * bound < np.linalg.norm(values, axis=1).max() <= bound
    assert values.shape[1] == query.n_coordinates
    # sums over records, and the tables they are split into
    total = query.of_rows(as_rows(few, np.zeros(len(few), dtype=int)), None)
    np.testing.assert_array_equal(total, values.sum(axis=0))
    split = query.split(total)
    np.testing.assert_allclose(
        np.concatenate(
            [
                table.ravel() * w
                for table, w in zip(split.values(), query.weights, strict=True)
            ]
        ),
        total,
        rtol=1e-15,
    )
    assert list(split)[:2] == [(0, 1), (0, 2)][: len(split)]
    plain = products(sizes)
    of_few = as_rows(few, np.zeros(len(few), dtype=int))
    for pair, table in plain.split(plain.of_rows(of_few, None)).items():
        np.testing.assert_allclose(split[pair], table, rtol=1e-15)


@pytest.mark.parametrize("n_columns, weight", [(3, 1), (8, 2), (18, 3), (140, 8)])
def test_products_with_a_target_have_less_noise(monkeypatch, n_columns, weight):
    """About half of all is for them; of a target that a codebook names, no other."""
    asked, deviations = [], []

    def release(wall, query, rows, state=None, **name):
        asked.append(query)
        return np.zeros(query.n_coordinates) + 400 / n_columns

    def targets_of(tables, noise, pairs, pair_deviations, *rest):
        deviations.append(pair_deviations)
        raise StopIteration

    monkeypatch.setattr(PrivacyFilter, "release", release)
    monkeypatch.setattr(_pairs, "targets_of", targets_of)
    X = pd.DataFrame(np.zeros((100, n_columns), dtype=int)).add_prefix("x")
    range_of = {"kind": "number", "integer": True, "range": [0, 1]}
    for target in (1, None):
        book = {name: dict(range_of) for name in X}
        if target is not None:
            book["x1"]["role"] = "target"
        with pytest.raises(StopIteration):
            DPSinkhornGenerator(codebook=book, random_state=0).fit(X)
        query = asked[-1]
        assert isinstance(query, _pairs.Products) and query.target == target
        assert query.weight == (weight if target else 1)
        noise, least = (f(deviations[-1].values()) for f in (max, min))
        assert noise == pytest.approx(least * (weight if target else 1))
        assert deviations[-1][0, 2] == noise and deviations[-1][0, 1] == least


@pytest.mark.parametrize("top", [2, 3, 5, 7])
def test_samples_of_ratings_are_ratings(top):
    """A place that ends at the next whole number does not hold that one."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(1, top + 1, (6000, 6))).add_prefix("x")
    sample = DPSinkhornGenerator(random_state=0, quality=False).fit(X).sample(6000)
    assert (sample > top).to_numpy().mean() < 0.03  # .07 to .25 with that number
    shares = (sample == top).to_numpy().mean(axis=0)
    assert_allclose(shares, 1 / top, atol=0.04)


def test_parts_are_kept_where_one_value_beside_zero_is_common():
    """Zero holds most of the column, and noise hides which part has the rest."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(7 * (rng.random((10_000, 16)) < 0.14)).add_prefix("x")
        generator = DPSinkhornGenerator(random_state=seed, quality=False)
        sample = generator.fit(X).sample(2000)
        shares = (sample == 7).to_numpy().mean(axis=0)
        assert_allclose(shares, 0.14, atol=0.04)


def test_decimals_of_few_records_are_seldom_whole():
    """Noise of 330 records and 300 of them: a third are taken to be whole by chance."""
    n_whole = 0
    for seed in range(8):
        X = np.random.default_rng(seed).normal(size=(300, 8)).round(3)
        book = {f"x{i}": {"kind": "number", "range": [-9, 9]} for i in range(8)}
        X = pd.DataFrame(X, columns=list(book))
        generator = DPSinkhornGenerator(epsilon=0.3, codebook=book, random_state=seed)
        n_whole += sum(generator.fit(X).sample(5).dtypes == "int64")
    assert 10 <= n_whole <= 32


def test_numbers_are_no_labels():
    X, y = pd.DataFrame({"a": ["x", "y"] * 20}), np.linspace(0, 1, 40)
    with pytest.raises(
        ValueError, match=r'^y has numbers .* \{"role": "target"\}\}\.$'
    ):
        DPSinkhornGenerator(random_state=0).fit(X, y)
    whole = np.tile([0.0, 1.0], 20)  # floats, as a column with gaps has
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is read from the data
        generator = DPSinkhornGenerator(random_state=0).fit(X, whole)
    assert generator.classes_.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.array([0.5, np.nan] * 20), "^y has a row without a label"),
        (np.array(["x"] * 39 + [1], dtype=object), "^y mixes text with labels"),
    ],
)
def test_labels_that_are_refused_warn_of_nothing(y, said):
    X = pd.DataFrame({"a": ["x", "y"] * 20})
    with warnings.catch_warnings(), pytest.raises(ValueError, match=said):
        warnings.simplefilter("error")
        DPSinkhornGenerator(random_state=0).fit(X, y)


def test_least_products_against_all_corners():
    rng = np.random.default_rng(0)
    for _ in range(50):
        least = -(rng.random(rng.integers(2, 9)) ** rng.integers(1, 4))
        corners = np.array(list(itertools.product(*((x, 1.0) for x in least))))
        sums = corners.sum(axis=1) ** 2 - (corners**2).sum(axis=1)
        found = _pairs._least_products(list(least))
        assert sums.min() - 2.5 < found <= sums.min() + 1e-12
    # equal columns: exactly
    assert _pairs._least_products([-0.5] * 6) == min(
        (s - 0.5 * (6 - s)) ** 2 - s - 0.25 * (6 - s) for s in range(7)
    )


def as_rows(levels, codes):
    return Rows(len(codes), levels=levels, codes=codes)


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivity_of_fractions(relation):
    columns = tuple(LevelColumn.of(f"x{i}", i, Column("number")) for i in range(3))
    query = _raw.DecimalCounts(columns)
    X = np.full((5, 3), np.pi)
    other = X[1:] if relation == "add_remove" else np.vstack([[1, 2, 3], X[1:]])
    values = [
        query.of_rows(Rows(len(D), cells=TableReader.of(D)), None) for D in (X, other)
    ]
    assert np.linalg.norm(values[0] - values[1]) == query.sensitivity(relation)
    with pytest.raises(ValueError, match="neighboring"):
        query.sensitivity("nobody")


def test_decimals_are_counted_and_told():
    """Whole ones are wherever noise hides it, decimals only where some surely are."""
    X = np.array(
        [[1.0, 1.5, 0.25, 9.99], [2.0, 0.3, 1.125, np.inf], [1e17, 2, np.pi, 1.1]]
    )
    columns = tuple(LevelColumn.of(f"x{i}", i, Column("number")) for i in range(4))
    query = _raw.DecimalCounts(columns)
    exact = query.of_rows(Rows(3, cells=TableReader.of(X)), None).reshape(4, 4)
    wanted = [[0, 0, 0, 0], [2, 0, 0, 0], [3, 1.5, 1, 0.5], [2, 0.5, 0, 0]]
    assert exact.tolist() == wanted

    def told(seen, noise, total=1000.0, kind="number"):
        column = LevelColumn.of("x", 0, Column(kind, categories=None))
        wall = SimpleNamespace(
            release=lambda query, rows: np.array(seen) * _raw.DECIMAL_WEIGHTS,
            scale=lambda query: noise,
        )
        found = {0: column}
        _raw.learn_decimals(wall, None, found, [column], total)
        return found[0].n_decimals

    assert told([21.0, 0, 0, 0], 0.0) == 1 and told([20.0, 0, 0, 0], 0.0) == 0
    assert told([900.0, 21, 20, 0], 0.0) == 2 and told([900.0] * 4, 0.0) is None
    # two deviations of the noise, twice as much of the decimals
    assert told([900.0, 119, 120, 0], 25.0) == 1 and told([900.0, 121, 0, 0], 25.0) == 2
    # no more than half of those that are not whole, where these are told
    assert told([900.0, 0, 0, 0], 90.0) == 1 and told([900.0, 0, 0, 0], 90.1) is None
    assert told([500.0, 251, 250, 0], 30.0, total=1e4) == 2
    assert told([500.0, 900, 0, 0], 1e3) == 0 and told([501.0, 0, 0, 0], 1e3) is None
    assert told([0.0] * 4, 0.0, kind="category") is None


def test_samples_keep_to_the_side_of_zero_that_a_column_has():
    """Noise hides some of the small numbers, and a tail beyond the others has them."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.gamma(0.6, 30.0, (3000, 4))).add_prefix("x")
        X[["x2", "x3"]] *= -1
        X["both"] = rng.normal(size=3000)
        generator = DPSinkhornGenerator(random_state=seed, quality=False)
        sample = generator.fit(X).sample(3000)
        assert (sample[["x0", "x1"]] >= 0).all(axis=None)
        assert (sample[["x2", "x3"]] <= 0).all(axis=None)
        near = np.abs(sample[["x0", "x1", "x2", "x3"]]) < 1
        assert_allclose(near.mean(), 0.14, atol=0.1)
        assert_allclose((sample["both"] < 0).mean(), 0.5, atol=0.1)


def test_samples_have_the_decimals_of_the_table():
    rng = np.random.default_rng(0)
    n = 20_000
    thirds = [2.0, 2.33, 2.67, 3.0, 3.33, 3.67, 4.0]
    frame = pd.DataFrame(
        {
            "grade": rng.choice(thirds, n),
            "price": np.round(rng.lognormal(2, 1, n), 2),
            "any": rng.normal(size=n),
        }
    )
    generator = DPSinkhornGenerator(epsilon=20.0, random_state=0).fit(frame)
    drawn = generator.sample(n)
    assert (np.round(drawn["price"], 2) == drawn["price"]).all()
    assert not (np.round(drawn["any"], 3) == drawn["any"]).mean() > 0.1
    shares = drawn["grade"].value_counts(normalize=True)
    assert shares[thirds].sum() > 0.98 and shares[thirds].min() > 0.12


def test_few_numbers_beside_texts_are_categories():
    """Where many cells are text, and only there: "0", "1", "2", "3+" are four alike."""
    n, rng = 6000, np.random.default_rng(0)
    written = np.array([*map(str, range(1, 10)), "10+"], dtype=object)
    ages = rng.integers(18, 80, n).astype(str).astype(object)
    ages[:600] = "unknown"
    grades = rng.integers(1, 4, n).astype(str).astype(object)
    grades[:15] = "K"
    frame = pd.DataFrame(
        {
            "years": written[rng.integers(0, 10, n)],
            "age": ages,
            "grade": grades,
            "halves": np.where(rng.random(n) < 0.2, "none", rng.integers(0, 9, n) / 2),
        }
    )
    model = DPSinkhornGenerator(epsilon=50.0, classes=[0, 1], random_state=0)
    sample, _ = model.fit(frame, np.arange(n) % 2).sample(n)
    shares = sample["years"].value_counts(normalize=True)
    assert set(shares.index) == set(written)
    assert shares.between(0.08, 0.12).all()
    for name in ("age", "grade", "halves"):  # too many, too few texts, not whole
        assert pd.api.types.is_numeric_dtype(sample[name]), name
    assert sample["age"].isna().mean() == pytest.approx(0.1, abs=0.02)
    assert sample["halves"].isna().mean() == pytest.approx(0.2, abs=0.02)


def test_numbers_that_noise_would_hide_as_categories_stay_numbers():
    """Each must stand out as the texts do."""
    edges = np.arange(0.0, 11.0)
    column = LevelColumn("a", 0, Column("number", integer=True), edges)
    assert column.beside_text(10.1).declared.kind == "category"
    assert column.beside_text(10.0) is column
    for n_edges, is_category in ((20, True), (21, False)):
        some = LevelColumn("a", 0, Column("number", integer=True), np.arange(n_edges))
        kind = some.beside_text(1000.0).declared.kind
        assert kind == ("category" if is_category else "number")
    tenths = LevelColumn("a", 0, Column("number"), edges)
    assert tenths.beside_text(1000.0) is tenths


@pytest.mark.parametrize("n_columns", [1, 2, 9])
def test_the_plan_spends_the_budget(n_columns):
    quality = (("quality", 2), ("quality by class", 3))
    for lines in (quality, ()):
        plan = _pairs.PairsPlan(3, n_columns, 20, lines, 0.8, None)
        spent = sum(line.parameter**2 * line.times for line in plan.lines(0.5))
        assert spent == pytest.approx(0.8 * 0.25, rel=1e-12)
    frame, _ = people(10)
    columns = _raw.public_columns(list(frame), None, None, None, 16)
    for places in (0.071, 0.3):
        learnt = _raw.learning_lines(columns, 0.5, 1e-5, places)
        share = sum(line.parameter**2 * line.times for line in learnt)
        spent = 0.25 * _raw.learning_share(columns, places)
        assert share == pytest.approx(spent, rel=1e-12)
        first = learnt[0].parameter ** 2
        assert (learnt[0].name, first) == (_raw.PLACES, pytest.approx(places * 0.25))


def test_where_the_size_is_private_no_share_depends_on_it(quick_fits):
    frame, y = people(300)
    lines = []
    for n in (200, 300):
        generator = DPSinkhornGenerator(
            epsilon=10.0, classes=[0, 1], neighboring="add_remove", random_state=0
        )
        with recording() as seen, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # too few rows
            generator.fit(frame[:n], y[:n])
        lines.append([(line.name, line.parameter) for line in seen.crossings])
    assert lines[0] == lines[1]


def test_places_get_more_where_few_records_would_drown():
    def columns(**declared):
        return [
            LevelColumn.of(f"x{i}", i, Column("number", **declared)) for i in (0, 1)
        ]

    share, least, most = _raw.place_share, 0.071, 0.35
    # sqrt(2 * 2) / 0.1 is the noise with all of the budget
    assert share(columns(), 3500, 0.1) == pytest.approx((70 * 20 / 3500) ** 2)
    assert share(columns(), 10, 0.1) == share(columns(), 0, 0.1) == most
    assert share(columns(), 100_000, 0.1) == share(columns(), 10, math.inf) == least
    assert share(columns(), 1, 400.0) == pytest.approx((70 * 2 / 400) ** 2)
    assert share(columns(), None, 0.1) == share([], 10, 0.1) == least
    assert share(columns(range=(0.0, 1.0)), 10, 0.1) == least
    assert share([columns()[0], columns(range=(0.0, 1.0))[1]], 10, 0.1) == most


CHANGES = [
    ("job", "sailor"),  # a new category
    ("age", "about thirty"),  # a cell becomes text
    ("age", None),
    ("hours", np.nan),
    ("age", 10**9),
    ("since", "not a date"),
    ("since", "1812-06-24"),
    ("since", 20200202),
    ("member", "maybe"),
]


def replayed(make, table, other):
    """Fits to two neighbours by the same released values; what crossed in the first."""
    with recording() as seen:
        first = make().fit(*table)
    with recording(replay=seen) as again:
        second = make().fit(*other)
    for a, b in zip(seen.crossings, again.crossings, strict=True):
        assert a.name == b.name and a.sensitivity == b.sensitivity
        assert np.linalg.norm(a.exact - b.exact) <= a.sensitivity * (1 + 1e-12), a.name
    assert first.privacy_ == second.privacy_ and first.quality_ == second.quality_
    spent = math.fsum(c.parameter**2 for c in seen.crossings)
    assert math.sqrt(spent) == pytest.approx(first.privacy_.events[0].mu, rel=1e-9)
    return first, second, seen.crossings


@pytest.mark.filterwarnings("ignore:Of the column 'job' nearly all samples")
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("declared", [True, False])
def test_replay(declared, relation, quick_fits):
    """Neighbours differ by released values, within their bounds, and nothing else."""
    frame, y = people(60)
    frame = frame.astype(object)
    make = lambda: DPSinkhornGenerator(  # noqa: E731
        method="pairs",
        codebook=BOOK if declared else None,
        classes=[0, 1],
        neighboring=relation,
        random_state=3,
    )
    for name, value in CHANGES:
        other, other_y = frame.copy(), y.copy()
        other.loc[0, name], other_y[0] = value, 1 - y[0]
        if relation == "add_remove":
            other = pd.concat([frame, other.iloc[:1]], ignore_index=True)
            other_y = np.append(y, other_y[0])
        first, second, _ = replayed(make, (frame, y), (other, other_y))
        for a, b in zip(first._pairs.levels, second._pairs.levels, strict=True):
            np.testing.assert_array_equal(a, b)
        pd.testing.assert_frame_equal(first.sample(20)[0], second.sample(20)[0])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("cell", [1e6 + 2, 1e300, 0.0, None, "many"])
def test_replay_beside_a_crowd(cell, relation, quick_fits):
    """Whatever a record is, neighbours differ by what looks into cells release."""
    rows = 1e6 + np.random.default_rng(0).random((901, 2))
    frame = pd.DataFrame(rows, columns=["a", "b"]).astype(object)
    first, second = frame[:-1], frame.copy()
    second.iloc[-1] = cell
    if relation == "replace_one":
        second = second[1:]
    make = lambda: DPSinkhornGenerator(  # noqa: E731
        epsilon=10.0, neighboring=relation, random_state=3
    )
    one, two, seen = replayed(make, (first,), (second,))
    assert all(len(look.exact) > KEY_BUCKETS + 2 * 64 for look in seen[1:4])
    pd.testing.assert_frame_equal(one.sample(20), two.sample(20))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("cell", ["in May", "1812-06-24", 20200202, None])
def test_replay_beside_dates_that_nobody_declared(cell, relation, quick_fits):
    days = np.datetime64("2020-02-01") + np.random.default_rng(0).integers(0, 9, 901)
    frame = pd.DataFrame({"a": days.astype(object), "b": days[::-1].astype(object)})
    first, second = frame[:-1], frame.copy()
    second.iloc[-1] = cell
    if relation == "replace_one":
        second = second[1:]
    make = lambda: DPSinkhornGenerator(  # noqa: E731
        epsilon=10.0, neighboring=relation, random_state=3
    )
    one, two, seen = replayed(make, (first,), (second,))
    years, parts, _ = seen[1:4]
    assert len(years.exact) == KEY_BUCKETS + 2 * 11
    assert len(parts.exact) > KEY_BUCKETS + 2 * 64
    pd.testing.assert_frame_equal(one.sample(20), two.sample(20))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("cell", ["3+", "other", 2.5, 1e9, "2020-02-02", None])
def test_replay_of_few_numbers_beside_text(cell, relation, quick_fits):
    """What they are is told by counts that are released before."""
    written = np.array(["0", "1", "2", "3+"], dtype=object)
    frame = pd.DataFrame({"a": np.tile(written, 226)[:901], "b": np.arange(901) % 7})
    frame = frame.astype(object)
    first, second = frame[:-1], frame.copy()
    second.iloc[-1] = cell
    if relation == "replace_one":
        second = second[1:]
    make = lambda: DPSinkhornGenerator(  # noqa: E731
        epsilon=10.0, neighboring=relation, random_state=3
    )
    one, two, _ = replayed(make, (first,), (second,))
    sample = one.sample(20)
    assert set(sample["a"]) <= {*written, "other", None}
    pd.testing.assert_frame_equal(sample, two.sample(20))


def test_audit_of_a_whole_fit(quick_fits):
    """One record of 30 changes its class and its cells; what is seen stays below mu."""
    X = pd.DataFrame({"a": ["x"] * 30, "b": ["u"] * 30})
    other = X.copy()
    other.loc[0] = ["y", "v"]
    y, other_y = np.zeros(30, dtype=int), np.r_[1, np.zeros(29, dtype=int)]
    lists = {"a": ["x", "y"], "b": ["u", "v"]}
    outputs = []
    for D, labels in ((X, y), (other, other_y)):
        seen = []
        for seed in range(400):
            fit = DPSinkhornGenerator(
                epsilon=4.0,
                categories=lists,
                classes=[0, 1],
                quality=False,
                random_state=seed + 1000 * (D is X),
            ).fit(D, labels)
            levels = fit._pairs.levels
            seen.append(fit.class_weights_[0] + levels[0][0] + levels[1][0])
        outputs.append(seen)
    mu = fit.privacy_.events[0].mu
    assert 0 < gaussian_audit(*outputs) <= mu


def test_a_filter_refuses_what_was_not_planned():
    plan = _pairs.PairsPlan(2, 4, 5, (), 1.0, 50)
    wall = PrivacyFilter(
        "test", plan.lines(1.0), 1e-5, "replace_one", noise=noise_source(0)
    )
    wall.reserve()
    rng = np.random.default_rng(0)
    rows = as_rows(rng.integers(0, 2, (50, 4)).astype(np.int16), rng.integers(0, 2, 50))
    column = LevelColumn.of("a", 0, Column("category", categories=("x", "y")))
    pairs = _pairs.fit_pairs(rows, [column] * 4, plan, wall)
    assert len(pairs.tables) == 4 and wall.guarantee().epsilon > 0


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_memory_stays_within_three_tables(kind):
    """Blocks of rows: what is kept beside the table does not grow faster than it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(120_000, 10))
    y = (X[:, 0] > 0.5).astype(int)
    public = {"classes": [0, 1], "random_state": 0}
    if kind == "array":
        generator = DPSinkhornGenerator(bounds=(0, 1), max_iter=1, **public)
    else:
        X = pd.DataFrame(X, columns=list("abcdefghij"))
        generator = DPSinkhornGenerator(quality=False, **public)
    tracemalloc.start()
    generator.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 120_000 * 10 * 8


@pytest.mark.parametrize("declared", ["categories", "bins"])
def test_forty_thousand_levels(declared, quick_fits):
    """More than two bytes can count: levels wrapped around, where a record had one."""
    rng = np.random.default_rng(0)
    codes = np.array([f"v{i}" for i in range(40_000)])
    if declared == "categories":
        X = pd.DataFrame({"a": rng.choice(codes[35_000:], 100), "b": rng.random(100)})
        params = {"categories": {"a": codes.tolist()}}
    else:
        X = pd.DataFrame({"a": rng.uniform(0.9, 1.0, 100), "b": rng.random(100)})
        params = {"bins": {"a": np.linspace(0, 1, 40_001).tolist()}}
    generator = DPSinkhornGenerator(method="pairs", epsilon=np.inf, **params).fit(X)
    drawn = generator.sample(20)["a"]
    assert drawn.isin(X["a"]).all() if declared == "categories" else drawn.min() > 0.85


def test_ends_of_ranges():
    X = pd.DataFrame({"a": np.random.default_rng(0).normal(size=100)})
    whole = {"a": {"kind": "number", "range": [-1e300, 1e300], "integer": True}}
    generator = DPSinkhornGenerator(method="pairs", codebook=whole).fit(X)
    assert np.isfinite(generator.sample(20)["a"]).all()
    with pytest.raises(ValueError, match="at most 1e300"):
        Column("number", range=(1e308, 1.7e308))
    with pytest.raises(TypeError, match="given must be a dict"):
        generator.sample(3, given=["a"])


def test_quality_of_a_column_of_more_levels_than_two_bytes_hold():
    pd = pytest.importorskip("pandas")
    codes = np.repeat([35_000, 39_999], 500)
    frame = pd.DataFrame({"code": codes, "kind": np.tile(["a", "b"], 500)})
    lists = {"code": list(range(40_000)), "kind": ["a", "b"]}
    generator = DPSinkhornGenerator(
        epsilon=100.0, categories=lists, classes=[0, 1], random_state=0
    ).fit(frame, np.arange(1000) // 500)
    for figure in generator.quality_.by_group["class"].values():
        assert figure.value < 0.1


def test_numbers_that_noise_hides_lie_where_those_of_all_columns_do(quick_fits):
    """Alone, one of two lay at thousands or billions, where noise was largest."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"c{i}": rng.uniform(20, 60, 600) for i in range(30)})
    book = {"c0": {"kind": "number"}}
    for seed in range(3):
        with pytest.warns(UserWarning, match="or numbers like those of other columns"):
            found = DPSinkhornGenerator(epsilon=0.3, codebook=book, random_state=seed)
            found.fit(X)
        numbers = found.sample(600).select_dtypes("number")
        assert numbers.shape[1] > 25
        assert numbers.abs().max().max() < 1000  # a tail ends at some hundreds


def test_numbers_that_are_seen_lie_in_their_own_place(quick_fits):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"c{i}": rng.uniform(20, 60, 3000) for i in range(5)})
    X["far"] = rng.uniform(1.0e6, 1.01e6, 3000)
    found = DPSinkhornGenerator(epsilon=1.0, random_state=0).fit(X)
    assert found.sample(1000)["far"].between(0.99e6, 1.02e6).mean() > 0.95
