"""Loaders of real data: one function, driven by the table of sources."""

import csv
import gzip
import hashlib
import inspect
import os
import tempfile
from dataclasses import replace
from functools import wraps
from itertools import product
from pathlib import Path
from urllib.request import urlopen

import numpy as np
from sklearn.utils import Bunch

from .._shared.arguments import flag, listed, one_of, optional, path
from .._shared.packages import needed
from ..preprocessing import Codebook
from ._sources import SOURCES, Source


def _fetch(
    name,
    *,
    sensitive_features,
    missing,
    data_home,
    return_X_y,
    as_frame,
    download_if_missing,
    target=None,
    groups=None,
):
    """Read, select columns and rows, and add the public facts.

    What the loaders say of their arguments and of what they return:

    missing : {"keep", "drop"}, default="keep"
        Whether to drop the rows in which a feature or the target is missing. A missing
        value that is kept is NaN in a numeric column and None in a categorical one (in
        a data frame what pandas makes of it).
        Rows without a sensitive feature are never returned.
    data_home : str, path-like or None, default=None
        Folder with the file {file}, or to download to.
        None: the environment variable FAIRPRIV_SKLEARN_DATA, else a folder in
        scikit-learn's own data home.
    return_X_y : bool, default=False
        Whether to return ``(data, target, sensitive_features)`` only.
    as_frame : bool, default=False
        Whether data, target and sensitive features are pandas objects.
    download_if_missing : bool, default=True
        Whether to download the data if there is no local copy, or to raise.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes

        data : ndarray or DataFrame of shape (n_samples, n_features)
            Features, without target and sensitive features; dtype float64, or object
            where numbers and strings meet.
        target : ndarray or Series of shape (n_samples,)
            What to predict: classes or numbers.
        sensitive_features : ndarray, Series or DataFrame
            One row per row of data.
        feature_names, target_name, sensitive_names : list of str, str, list of str
            Names of the columns.
        bounds : dict of str to (float, float)
            Range of each numeric feature, from the codebook; see `rounded`.
        categories : dict of str to list
            Categories of each categorical feature, from the codebook.
        rounded : list of str
            Features whose bounds are round figures of ours for want of a codebook.
        groups : list
            The groups, from the codebook; tuples if there are several attributes.
        classes : list or None
            The classes, from the codebook; None for a regression target.
        target_bounds : tuple or None
            Range of a regression target, from the codebook.
        codebook : Codebook
            The same facts of features, target and sensitive features as one
            :class:`~fairpriv_sklearn.preprocessing.Codebook`.
        DESCR : str
            Origin and known pitfalls.
        frame : DataFrame
            All columns, only with `as_frame`.

    Raises
    ------
    OSError
        If there is no local copy and it cannot or must not be downloaded, or if the
        file is not the expected one (SHA-256).

    Notes
    -----
    Bounds, categories, groups and classes are public facts: a pipeline that takes them
    from here, as in ``OneHotEncoder(categories=list(data.categories.values()))``,
    learns nothing from the data by doing so.
    """
    source = SOURCES[name]
    groups = optional(listed)("groups", groups)
    target = source.targets[0] if target is None else target
    optional(path)("data_home", data_home)
    for flags in (("return_X_y", return_X_y), ("as_frame", as_frame)):
        flag(*flags)
    one_of(*source.targets)("target", target)
    one_of("keep", "drop")("missing", missing)
    sensitive = [sensitive_features]
    if not isinstance(sensitive_features, str):
        sensitive = listed("sensitive_features", sensitive_features)
    for attribute in sensitive:
        one_of(*source.sensitive)("sensitive_features", attribute)
    if as_frame:
        said = "as_frame=True needs pandas: pip install pandas, or pass as_frame=False."
        pandas = needed("pandas", said)

    columns = _columns(source, _read(source, data_home, download_if_missing))
    features = features_of(source, target, sensitive)
    groups = _groups(source, sensitive) if groups is None else groups
    labels = [columns[attribute].tolist() for attribute in sensitive]
    labels = labels[0] if len(labels) == 1 else list(zip(*labels, strict=True))
    rows = np.array([label in set(groups) for label in labels])
    if missing == "drop":
        for column in [*features, target]:
            rows &= ~_is_missing(columns[column])
    columns = {column: _plain(values[rows]) for column, values in columns.items()}

    data = _matrix([columns[column] for column in features])
    a = columns[sensitive[0]]
    if len(sensitive) > 1:
        a = _object_columns([columns[attribute] for attribute in sensitive])
    y, frame = columns[target], None
    if as_frame:
        frame = pandas.DataFrame(columns)
        data, y = frame[features], frame[target]
        a = frame[sensitive[0] if len(sensitive) == 1 else sensitive]
    if return_X_y:
        return data, y, a
    beside = {
        column.rstrip("#"): frame[column] if as_frame else columns[column]
        for column in source.not_features
        if column != target
    }
    public = source, features, target, sensitive, groups
    return described(
        *public,
        data=data,
        target=y,
        sensitive_features=a,
        codebook=codebook_of(*public),
        DESCR=f"{source.notes}\n\nOrigin: {source.origin}.",
        frame=frame,
        **beside,
    )


def _loader(name, **fixed):
    """Make the loader of a source from the arguments and the docstring of a function.

    What all loaders have in common is filled into the docstring.
    """

    def fill(described):
        signature = inspect.signature(described)

        @wraps(described)
        def loader(*args, **given):
            bound = signature.bind(*args, **given)
            bound.apply_defaults()
            return _fetch(name, **fixed, **bound.arguments)

        # From Python 3.13 on docstrings come without their indentation.
        common = inspect.cleandoc(_fetch.__doc__ or "").partition("return:\n\n")[2]
        common = common.replace("{file}", SOURCES[name].file)
        own = inspect.cleandoc(described.__doc__ or "")
        loader.__doc__ = own.replace("{common}", common)
        return loader

    return fill


@_loader("adult")
def fetch_adult(
    *,
    sensitive_features="sex",
    missing="keep",
    data_home=None,
    return_X_y=False,
    as_frame=False,
    download_if_missing=True,
):
    """Load the Adult data set: does a person earn more than 50,000 dollars? (classes).

    Parameters
    ----------
    sensitive_features : {"sex", "race"} or list of these, default="sex"
        The sensitive features; the other one stays a feature.
    {common}

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import fetch_adult
    >>> adult = fetch_adult(missing="drop")  # doctest: +SKIP
    >>> adult.data.shape, adult.bounds["age"], adult.groups  # doctest: +SKIP
    ((45222, 13), (17, 90), ['Female', 'Male'])
    """


@_loader("credit_default")
def fetch_credit_default(
    *,
    sensitive_features="SEX",
    missing="keep",
    data_home=None,
    return_X_y=False,
    as_frame=False,
    download_if_missing=True,
):
    """Load the credit default data set: will a card holder default? (classes).

    Parameters
    ----------
    sensitive_features : {"SEX", "EDUCATION", "MARRIAGE"} or list, default="SEX"
        The sensitive features; the other ones stay features.
    {common}

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import fetch_credit_default
    >>> credit = fetch_credit_default()  # doctest: +SKIP
    >>> credit.data.shape, credit.groups  # doctest: +SKIP
    ((30000, 22), [1, 2])
    """


@_loader("law_school")
def fetch_law_school(
    *,
    target="ugpa",
    sensitive_features="race1",
    groups=None,
    missing="keep",
    data_home=None,
    return_X_y=False,
    as_frame=False,
    download_if_missing=True,
):
    """Load the law school data set: grades (regression) or the bar exam (classes).

    This file cannot be downloaded: put it into `data_home`, see the error message.

    Parameters
    ----------
    target : {"ugpa", "pass_bar"}, default="ugpa"
        Undergraduate grade point average, or whether the bar exam was passed; with
        ``"pass_bar"`` the grades are a feature.
    sensitive_features : {"race1", "gender"} or list of these, default="race1"
        The sensitive features; the other one stays a feature.
    groups : list or None, default=None
        Groups whose rows to keep; rows of other groups, or of none, are left out.
        None: asian, black, hisp and white for ``race1``, and all others.
    {common}

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import fetch_law_school
    >>> law = fetch_law_school(data_home="data")  # doctest: +SKIP
    >>> law.data.shape, law.groups  # doctest: +SKIP
    ((21983, 6), ['asian', 'black', 'hisp', 'white'])
    """


@_loader("communities_crime", sensitive_features="racepctblack > 0.06")
def fetch_communities_crime(
    *,
    missing="keep",
    data_home=None,
    return_X_y=False,
    as_frame=False,
    download_if_missing=True,
):
    """Load the communities and crime data set: violent crime rates (regression).

    The groups are the communities in which ``racepctblack`` is above 0.06 and the
    others.

    Parameters
    ----------
    {common}

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import fetch_communities_crime
    >>> communities = fetch_communities_crime()  # doctest: +SKIP
    >>> communities.data.shape, communities.target_bounds  # doctest: +SKIP
    ((1994, 99), (0, 1))
    """


@_loader("parkinsons", sensitive_features="sex")
def fetch_parkinsons(
    *,
    missing="keep",
    data_home=None,
    return_X_y=False,
    as_frame=False,
    download_if_missing=True,
):
    """Load the Parkinsons telemonitoring data set: a symptom score (regression).

    For the classification task of the literature take ``target > 27.576``, its median.

    Parameters
    ----------
    {common}

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import fetch_parkinsons
    >>> parkinsons = fetch_parkinsons()  # doctest: +SKIP
    >>> parkinsons.data.shape, parkinsons.target_bounds  # doctest: +SKIP
    ((5875, 19), (0, 176))
    """


def described(source: Source, features, target_name, sensitive, groups, **columns):
    """The columns with what is public about them."""
    return Bunch(
        feature_names=features,
        target_name=target_name,
        sensitive_names=sensitive,
        bounds={f: source.bounds[f] for f in features if f in source.bounds},
        categories={
            f: source.categories[f] for f in features if f not in source.bounds
        },
        rounded=[f for f in features if f in source.rounded],
        groups=groups,
        classes=source.categories.get(target_name),
        target_bounds=source.bounds.get(target_name),
        **columns,
    )


def features_of(source: Source, target, sensitive) -> list[str]:
    """Names of the feature columns: numeric ones first, as in the table of sources."""
    others = {target, *sensitive, *source.not_features, *source.thresholds}
    return [c for c in [*source.bounds, *source.categories] if c not in others]


def codebook_of(source: Source, features, target, sensitive, groups) -> Codebook:
    """Codebook of the columns that are returned: features, target, groups."""
    columns = source.codebook(target, sensitive).columns
    if len(sensitive) == 1:
        kept = replace(columns[sensitive[0]], categories=tuple(groups))
        columns = {**columns, sensitive[0]: kept}
    names = [*features, target, *sensitive]
    return Codebook(tuple((name, columns[name]) for name in names))


def _groups(source: Source, sensitive) -> list:
    """Public list of groups; tuples for intersections."""
    lists = [source.groups.get(a, source.categories[a]) for a in sensitive]
    return list(lists[0]) if len(lists) == 1 else list(product(*lists))


def _columns(source: Source, text: str) -> dict[str, np.ndarray]:
    """Parse the columns of the codebook: floats, whole numbers or strings."""
    header, *rows = csv.reader(text.splitlines())
    raw = dict(zip(header, zip(*rows, strict=True), strict=True))
    columns = {
        name: np.array([float(v) if v else np.nan for v in raw[name]])
        for name in source.bounds
    }
    for name, categories in source.categories.items():
        if name in source.thresholds:
            base = name.split(" > ")[0]
            columns[name] = (columns[base] > source.thresholds[name]).astype(np.int64)
        else:
            kind = type(categories[0])
            cells = (kind(value) if value else None for value in raw[name])
            columns[name] = np.fromiter(cells, dtype=object)
    return columns


def _plain(column: np.ndarray) -> np.ndarray:
    """Codes as integers where none is missing."""
    if all(type(value) is int for value in column):
        return column.astype(np.int64)
    return column


def _is_missing(column: np.ndarray) -> np.ndarray:
    return np.array([v is None or v != v for v in column], dtype=bool)


def _matrix(columns) -> np.ndarray:
    """Float matrix if the columns are numbers, object matrix otherwise."""
    if all(column.dtype != object for column in columns):
        return np.column_stack(columns).astype(np.float64)
    return _object_columns(columns)


def _object_columns(columns) -> np.ndarray:
    return np.column_stack([column.astype(object) for column in columns])


# --------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------
def _read(source: Source, data_home, download_if_missing) -> str:
    """Text of the CSV file, from the local copy or else from its origin."""
    from sklearn.datasets import get_data_home

    folder = data_home or os.environ.get("FAIRPRIV_SKLEARN_DATA")
    folder = Path(folder or Path(get_data_home()) / "fairpriv_sklearn").expanduser()
    path = folder / source.file
    if path.exists():
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
        _verify(source, text, path)
        return text
    if not source.urls and source.openml_id is None:
        raise OSError(
            f"{source.file} is not in {folder} and cannot be downloaded: put it there "
            f"as gzip-compressed CSV; it is the {source.origin}."
        )
    if not download_if_missing:
        raise OSError(
            f"{source.file} is not in {folder}; put it there, or pass "
            "download_if_missing=True."
        )
    text = _download(source)
    _verify(source, text, "the download")
    _write(path, text)
    return text


def _verify(source: Source, text: str, where):
    found = hashlib.sha256(text.encode("utf-8")).hexdigest()
    if found != source.sha256:
        raise OSError(
            f"{where} is not the expected {source.file}: the SHA-256 of its CSV text "
            f"is {found} instead of {source.sha256}."
        )


def _download(source: Source) -> str:
    """Fetch the raw files and bring them into the form of the local copy."""
    if source.openml_id is not None:
        from sklearn.datasets import fetch_openml

        raw = fetch_openml(
            data_id=source.openml_id, as_frame=False, parser="liac-arff", cache=False
        )
        return source.to_csv(np.column_stack([raw.data, raw.target]))
    texts = []
    for url in source.urls:
        try:
            with urlopen(url, timeout=60) as response:
                texts.append(response.read().decode("utf-8"))
        except OSError as error:
            raise OSError(
                f"{url} could not be downloaded ({error}); put {source.file} into the "
                "folder data_home by hand."
            ) from error
    return source.to_csv(*texts)


def _write(path: Path, text: str):
    """Write so that a reader sees the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(gzip.compress(text.encode("utf-8"), mtime=0))
    os.replace(file.name, path)
