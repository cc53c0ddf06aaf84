"""Sensitive features: the one door through which groups reach an estimator.

They come at call time, ``fit(X, y, sensitive_features=a)``, or from columns of `X`
that the constructor names (or a callable ``X -> labels``). Errors speak of the public
list of groups only: which rows or values were at fault is private.
"""

from collections.abc import Iterator, Mapping, Set
from copy import copy

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .._shared.arguments import (
    comes_in_parts,
    described,
    is_missing_label,
    listed,
    public_labels,
)
from .._shared.arrays import array_of_lists
from .._shared.domain import LABELS, check_columns, domain, same_length
from .._shared.nested import argument_of, owners
from .._shared.purity import refuse_spreading
from .._shared.sklearn import asks_for, routing_enabled, safe_indexing
from .._wall import Fact, leaks_foreseen, warn_leak
from .labels import positions_in

POOLED = -1  # code of a row whose label is not in the public list
NEEDED = (
    "{} needs the sensitive features: pass them in the call, as in fit(X, y, "
    "sensitive_features=labels), or name the column(s) of X in the constructor, as in "
    "sensitive_features='sex'."
)
INSIDE = (
    " Inside of a pipeline, a search or another estimator those of the call reach it "
    "with sklearn.set_config(enable_metadata_routing=True)."
)
WITHOUT = " With fairness_weight=0 it needs none, as it then has no penalty."
OTHERS = "..."  # as the last entry of the list: the group of all other labels


def needed(estimator) -> str:
    """What is said where sensitive features are missing."""
    penalised = getattr(estimator, "fairness_weight", 0) != 0
    said = NEEDED.format(type(estimator).__name__) + INSIDE * (not routing_enabled())
    return said + WITHOUT * penalised


class GroupsMixin:
    """Estimators that take sensitive features, or need them.

    Parameters
    ----------
    sensitive_features : str, int, list or callable, default=None
        Column(s) of X that hold the sensitive features, which the model then does not
        use, or a callable ``X -> labels`` that labels each row on its own. None: they
        are passed to `fit`.
    groups : array-like of shape (n_groups,), default=None
        Public list of the groups; a last entry ``"..."`` stands for all other labels.
        None reads it from the data, with a `PrivacyLeakWarning`.
    """

    _needs_groups = False  # whether a `fit` without sensitive features refuses

    def _check_arguments(self) -> None:
        super()._check_arguments()
        _named_columns(self.sensitive_features)

    def _refuse_width(self, n_columns: int | None, learnt) -> None:
        super()._refuse_width(n_columns, learnt)
        named = _named_columns(self.sensitive_features)
        # Whether a table has names is known to who reads it.
        if n_columns is not None and not any(isinstance(one, str) for one in named):
            named_positions(self.sensitive_features, n_columns)

    def _refuse_without_groups(self) -> None:
        if self._needs_groups:
            raise ValueError(needed(self))

    def _ways_to_read(self) -> dict:
        """The arguments that predictions read again, and what they say."""
        return {"sensitive_features": sensitive_positions(self, self.n_features_in_)}

    def _check_is_fitted(self) -> None:
        """Refuse predictions before a fit, and with arguments that it did not have."""
        check_is_fitted(self)
        for name, said in self._ways_to_read().items():
            if said != self._fitted_with[name]:
                raise ValueError(
                    f"{name} was changed since this {type(self).__name__} was fitted: "
                    "fit it again, or set it back to use what was fitted."
                )

    def _refuse_cells(self, X) -> None:
        super()._refuse_cells(X)
        if self.sensitive_features is not None:
            with leaks_foreseen():
                fit_groups(copy(self), X, None)

    def _refuse_groups(self, X, sensitive_features) -> None:
        """Refuse groups that `fit` would, for who spends before it."""
        refuse_twice(self.sensitive_features, sensitive_features)
        if not comes_in_parts(X):
            labels = label_values(sensitive_features)
            same_length(X, labels)
            if self.groups is not None or self._needs_groups:
                with leaks_foreseen():
                    code_groups(labels, self.groups)


class AttributeBlindMixin(GroupsMixin):
    """Estimators that need the sensitive features in `fit` only."""

    __metadata_request__fit = {"sensitive_features": True}

    @property
    def _needs_groups(self) -> bool:
        return self.sensitive_features is None and self.fairness_weight != 0


class AttributeAwareMixin(GroupsMixin):
    """Estimators that need the sensitive features at prediction as well."""

    __metadata_request__fit = {"sensitive_features": True}
    __metadata_request__predict = {"sensitive_features": True}
    __metadata_request__predict_proba = {"sensitive_features": True}
    __metadata_request__decision_function = {"sensitive_features": True}
    __metadata_request__score = {"sensitive_features": True}
    __metadata_request__transform = {"sensitive_features": True}


def refuse_without_groups(estimator) -> None:
    """Refuse to fit what needs groups, anywhere inside, and would get none.

    For who fits others, before anything is spent: earlier steps have paid for
    themselves when a later one refuses.
    """
    for owner in _fitted_with(estimator):
        if isinstance(owner, GroupsMixin):
            owner._refuse_without_groups()


def refuse_left_out(estimator) -> None:
    """Refuse what needs groups inside of what is handed them, and would get none."""
    for owner, is_handed in _takers(estimator):
        if not is_handed:
            owner._refuse_without_groups()


def refuse_unheard(estimator) -> None:
    """Refuse what would be fitted with groups, and gets none at prediction.

    For who hands none on there, before anything is spent.
    """
    for owner in owners(estimator).values():
        aware = isinstance(owner, AttributeAwareMixin) and owner._needs_groups
        if aware and not getattr(owner, "blind", False):
            raise ValueError(
                f"{type(owner).__name__} needs the sensitive features at prediction, "
                "where what stands around it hands none on: name their columns in its "
                "constructor, or make it blind."
            )


def refuse_groups(estimator, X, given, groups) -> None:
    """Refuse groups that who is handed them would, before anything is spent.

    Parameters
    ----------
    estimator : estimator
    X, given : array-like
        A table and its sensitive features.
    groups : array-like or None
        The public list that those will be told who have none.
    """
    for owner, is_handed in _takers(estimator):
        if is_handed:
            if owner.groups is None:
                owner = clone(owner).set_params(groups=groups)
            owner._refuse_groups(X, given)


def _takers(estimator) -> Iterator[tuple]:
    """What takes groups, and whether what is handed them hands them on to it.

    With routing those get them that ask, else the last step of a pipeline, and what
    `TransformedTargetRegressor` wraps.
    """
    last = estimator.steps[-1][0] if isinstance(estimator, Pipeline) else ""
    for place, owner in owners(estimator, _is_closed).items():
        if not isinstance(owner, GroupsMixin):
            continue
        if not place:
            yield owner, True
        elif routing_enabled():
            yield owner, asks_for(owner, "fit", ["sensitive_features"])
        else:
            yield owner, place in (last, argument_of(last, "regressor"))


def refuse_named_twice(named, estimator, names=None) -> None:
    """Refuse to fit what names a column that the `named` ones take out before it.

    With the `names` of the table's columns, if they are known. Behind what was taken
    out a position is that of another column.
    """
    taken = set(_named_columns(named))
    if names is not None:
        taken |= {names[i] for i in named_positions(named, len(names), names)}
    for owner in _fitted_with(estimator) if taken else ():
        inside = _named_columns(getattr(owner, "sensitive_features", None))
        if any(not isinstance(name, str) or name in taken for name in inside):
            raise ValueError(
                "sensitive_features names columns outside and inside, and what is "
                "named outside is taken out of the table before "
                f"{type(owner).__name__} sees it: name each column once, and inside by "
                "its name."
            )


def _fitted_with(estimator) -> list:
    """An estimator and those inside that its `fit` fits, by their arguments as set."""
    return list(owners(estimator, _is_closed).values())


def _is_closed(owner) -> bool:
    """Whether what is inside is fitted already, or by a search, as its lists say."""
    lists = {"param_grid", "param_distributions"} & set(owner.get_params(deep=False))
    return isinstance(owner, FrozenEstimator) or bool(lists)


def fit_groups(estimator, X, sensitive_features):
    """Read the sensitive features of a fit; set `groups_` and the feature counts.

    Returns
    -------
    codes : ndarray of shape (n_samples,), int64
        Positions in `estimator.groups_`.
    X_model : array-like or DataFrame
        `X` without the columns that the constructor names as sensitive.
    assumption : Fact
        The fact taken as public.
    """
    X = as_table(estimator, X)
    validate_data(estimator, X, skip_check_array=True)
    labels = _labels(estimator, X, sensitive_features)
    codes, groups, fact = code_groups(labels, estimator.groups)
    estimator.groups_ = as_label_array(groups)
    return codes, without_sensitive_columns(estimator, X), fact


def code_groups(labels: list | np.ndarray, groups) -> tuple[np.ndarray, list, Fact]:
    """Code labels against the public list of groups, or if None those that occur.

    Returns
    -------
    codes : ndarray of shape (n_rows,), int64
    groups : list
    fact : Fact
        The fact taken as public.
    """
    if groups is None:
        if isinstance(labels, np.ndarray):
            labels = labels.tolist()
        with domain(LABELS):
            groups = sorted_groups(set(labels))
        fact = warn_leak("groups", "the list of groups")
        if len(groups) < 2:
            raise ValueError(
                "The sensitive features hold fewer than two groups and groups=None; "
                "pass the public list as groups=[...]."
            )
    else:
        groups = public_groups(groups)
        fact = Fact("groups", groups)
    codes = encode_groups(labels, groups)
    if (codes == POOLED).any():
        raise ValueError(_outside(groups))
    return codes, groups, fact


def predict_groups(estimator, X, sensitive_features, *, handle_unknown="error"):
    """Read the sensitive features of a prediction: codes, and `X` as a table.

    With ``handle_unknown="pooled"`` a label outside the public list has code -1.
    """
    X = as_table(estimator, X)
    validate_data(estimator, X, skip_check_array=True, reset=False)
    labels = _labels(estimator, X, sensitive_features)
    groups = list(estimator.groups_.tolist())
    codes = encode_groups(labels, groups)
    if handle_unknown == "error" and (codes == POOLED).any():
        way_out = " of the next fit, or set handle_unknown='pooled' for this one"
        raise ValueError(_outside(groups, way_out))
    return codes, X


def blind_X(estimator, X):
    """The model's columns of `X` for a prediction without sensitive features.

    `X` may come as it was given to `fit`, or already without the sensitive columns;
    transformers, which in scikit-learn refuse any other number of columns, take that
    from frames only, whose names say which columns are there.
    """
    X = as_table(estimator, X)
    named = sensitive_positions(estimator, estimator.n_features_in_)
    if named and X.shape[1] == estimator.n_features_in_ - len(named):
        names = getattr(estimator, "feature_names_in_", None)
        if names is None and not hasattr(estimator, "transform"):
            return X
        if names is not None and list(getattr(X, "columns", ())) == [
            name for i, name in enumerate(names) if i not in named
        ]:
            return X
    validate_data(estimator, X, skip_check_array=True, reset=False)
    if isinstance(X, np.ndarray) and X.dtype.kind == "f":
        with domain("X"):
            assert_all_finite(X, input_name="X")  # a frame may have gaps in its groups
    return without_sensitive_columns(estimator, X)


@domain(LABELS, own_words=True)
def label_list(sensitive_features) -> list:
    """Turn one or several columns of labels into a list of hashable group labels.

    Several columns name the intersections: a row's label is a tuple.
    """
    check_columns(sensitive_features)
    # A set has no order, and what a dict hands out are its names.
    if isinstance(sensitive_features, str | bytes | Mapping | Set) or not (
        hasattr(sensitive_features, "__iter__") or hasattr(sensitive_features, "shape")
    ):
        raise TypeError(
            "sensitive_features must be an array, a list or a data frame of one label "
            "per row, or one column per attribute, got "
            f"{described(sensitive_features)}."
            + " Pass the column itself here, not its name."
            * isinstance(sensitive_features, str)
        )
    # A DataFrame: each column's own dtype. A label of the index may be called so.
    if hasattr(type(sensitive_features), "columns"):
        columns = range(sensitive_features.shape[1])
        lists = [
            _column_list(safe_indexing(sensitive_features, i, axis=1)) for i in columns
        ]
    else:
        array = sensitive_features
        if not hasattr(array, "shape"):  # an Arrow array, or a list
            read = np.asarray if hasattr(array, "__array__") else _object_array
            array = read(array)
        if len(array.shape) == 2:
            lists = [_column_list(array[:, i]) for i in range(array.shape[1])]
        elif len(array.shape) == 1:
            lists = [_column_list(array)]
        else:
            raise ValueError(
                "sensitive_features must have one or two dimensions, got "
                f"{len(array.shape)}; pass one label per row, or one column per "
                "attribute."
            )
    if not lists:
        raise ValueError("sensitive_features has no column; pass at least one.")
    try:
        missing = any(map(is_missing_label, set().union(*lists)))
    except (TypeError, ValueError):
        raise TypeError(
            "The sensitive_features argument must be hashable labels, such as strings "
            "or numbers."
        ) from None
    if missing:
        raise ValueError(
            "The sensitive features contain a missing label (None, NaN, inf); leave "
            "out these rows, or give the missing ones a label of their own and list "
            "it in groups."
        )
    return lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))


def public_groups(groups) -> list:
    """Check the public list of groups; tuples stand for intersections."""
    groups = public_labels("groups", groups)
    if len(groups) < 2:
        raise ValueError(
            f"groups must list at least two groups, got {groups!r}; fairness between "
            "groups needs two."
        )
    if OTHERS in groups[:-1]:
        raise ValueError(
            f"{OTHERS!r} in groups stands for all labels that are not listed, and must "
            f"come last, got {groups!r}."
        )
    return groups


def encode_groups(labels: list | np.ndarray, groups: list) -> np.ndarray:
    """As `positions_in`; with a last entry ``"..."`` no label is unlisted."""
    if groups[-1] != OTHERS:
        return positions_in(labels, groups)
    codes = positions_in(labels, groups[:-1])
    codes[codes == POOLED] = len(groups) - 1
    return codes


def as_label_array(groups: list) -> np.ndarray:
    """One-dimensional array that reads back as these labels, also tuples."""
    if any(isinstance(group, tuple) for group in groups):
        return _object_array(groups)
    array = np.asarray(groups)  # text of some, and no zeros at the end of a text
    return array if array.tolist() == groups else _object_array(groups)


def sensitive_positions(estimator, n_features: int) -> list[int]:
    """Positions of the columns of `X` that the constructor names; without any, []."""
    names = getattr(estimator, "feature_names_in_", None)
    return named_positions(estimator.sensitive_features, n_features, names)


def named_positions(named, n_features: int, names=None) -> list[int]:
    """The same of what a constructor was told, and the names of the columns."""
    named = _named_columns(named)
    if len(named) > n_features:
        raise ValueError(
            f"sensitive_features in the constructor names {len(named)} columns of X, "
            f"which has {n_features}; labels of rows go to fit."
        )
    positions = []
    for name in named:
        if isinstance(name, str):
            if names is None:
                raise ValueError(
                    f"sensitive_features={name!r} names a column but X has no column "
                    "names. Pass a DataFrame (in a pipeline whose steps keep the "
                    'columns: set_output(transform="pandas")), the column\'s position, '
                    "or the labels in the call, as in fit(X, y, "
                    "sensitive_features=labels)."
                )
            found = np.flatnonzero(names == name)
            if not len(found):
                raise ValueError(
                    f"sensitive_features={name!r} is not a column of X; its columns "
                    f"are {list(names)!r}. Where a step before has changed the "
                    "columns, pass the labels in the call, as in fit(X, y, "
                    "sensitive_features=labels)."
                )
            if len(found) > 1:
                raise ValueError(
                    f"sensitive_features={name!r} names {len(found)} columns of X; "
                    "give them different names."
                )
            positions.append(int(found[0]))
        elif -n_features <= name < n_features:
            positions.append(int(name) % n_features)
        else:
            raise ValueError(
                f"sensitive_features={name!r} is not a column of X, which has "
                f"{n_features} columns."
            )
    return positions


def _named_columns(named) -> list:
    """What a constructor was told, as a list of names and positions."""
    if named is None or callable(named):
        return []
    one = isinstance(named, str | int | np.integer)
    named = [named] if one else listed("sensitive_features", named)
    if not all(isinstance(name, str | int | np.integer) for name in named):
        raise TypeError(
            "sensitive_features in the constructor must be a function, or name columns "
            "of X by names or positions; labels of rows go to fit."
        )
    if not named:
        raise ValueError("sensitive_features has no column; pass at least one.")
    return named


def without_sensitive_columns(estimator, X):
    """`X` less the columns that the constructor names as sensitive."""
    return without_columns(X, sensitive_positions(estimator, estimator.n_features_in_))


def without_columns(X, positions: list[int]):
    """`X` less the columns that are sensitive."""
    if not positions:
        return X
    keep = [i for i in range(X.shape[1]) if i not in positions]
    if not keep:
        raise ValueError(
            f"X has {X.shape[1]} feature(s), all of them sensitive; nothing is left to "
            "learn from."
        )
    return safe_indexing(X, keep, axis=1)


def refuse_twice(named, given) -> None:
    """The groups come from one place."""
    if named is not None and given is not None:
        raise ValueError(
            "sensitive_features was given twice, in the constructor and in the call; "
            "give it in one of the two places."
        )


def _labels(estimator, X, sensitive_features) -> list | np.ndarray:
    """The group labels of the rows of `X`, from the call or the constructor."""
    named = estimator.sensitive_features
    if sensitive_features is not None:
        refuse_twice(named, sensitive_features)
        labels = label_values(sensitive_features)
    elif callable(named):
        refuse_spreading(named, "The function sensitive_features")
        said = labels_by(named, X)
        check_columns(X, said)
        labels = label_values(said)
    elif named is not None:
        positions = sensitive_positions(estimator, estimator.n_features_in_)
        if sparse.issparse(X):
            labels = label_values(X[:, positions].toarray())
        else:
            labels = label_values(safe_indexing(X, positions, axis=1))
    else:
        raise ValueError(needed(estimator))
    same_length(X, labels)
    return labels


def labels_by(function, X):
    """What the constructor's function says of the rows; not what it says of a cell."""
    with domain("sensitive_features"):
        try:
            return function(X)
        except (TypeError, ValueError, ArithmeticError):
            raise
        except Exception as error:
            kind = type(error).__name__
    raise ValueError(f"sensitive_features: the function raised {kind} on X.")


def two_dimensional(shape: tuple) -> None:
    """Refuse the shape of what is no table with rows and columns."""
    if len(shape) != 2:
        raise ValueError(
            f"X: Expected 2D array, got {len(shape)}D array instead. Reshape your "
            "data with array.reshape(-1, 1) if it has one feature, or "
            "array.reshape(1, -1) if it has one sample."
        )
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"X: Found array with 0 {what}(s) (shape={shape}) while a minimum of "
                "1 is required."
            )


def as_table(estimator, X):
    """`X` with a two-dimensional shape, checked before anything reads its columns.

    Its contents are left to the estimator: columns named as sensitive may hold text.
    """
    if sparse.issparse(X) and not get_tags(estimator).input_tags.sparse:
        raise TypeError(
            f"{type(estimator).__name__} got sparse data, but dense data is required; "
            "use X.toarray()."
        )
    has_type = hasattr(X, "dtype") and not hasattr(X, "columns")
    # Arrays of other libraries have types, and ways to take rows, of their own.
    of_others = has_type and not isinstance(X.dtype, np.dtype)
    with domain("X"):
        if of_others:
            X = np.asarray(X)
        elif not hasattr(X, "shape"):
            X = array_of_lists(X)
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "c":
        raise ValueError("Complex data not supported; pass real numbers.")
    if sparse.issparse(X) and X.format not in ("csr", "csc"):
        X = X.tocsr()  # the other formats have no rows and columns to take
    two_dimensional(X.shape)
    refuse_twins(X)
    return X


def refuse_twins(X) -> None:
    """Refuse a frame that has two columns of one name: which is meant is not known."""
    names = column_names(X)
    if len(set(names)) < len(names):
        raise ValueError("X: two columns have the same name; rename one of them.")


def column_names(X) -> list:
    """Names of the columns of a frame, of any library; of what has none, []."""
    # Of the type: pandas takes what is no attribute for a column, which is private.
    name = "column_names" if hasattr(type(X), "column_names") else "columns"
    return list(getattr(X, name, ()))


def label_values(sensitive_features) -> list | np.ndarray:
    """As `label_list`, but one column of plain values stays an array: it is faster."""
    dtype = getattr(sensitive_features, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biufU":
        array = np.asarray(sensitive_features)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim == 1 and not (dtype.kind == "f" and not np.isfinite(array).all()):
            return array
    return label_list(sensitive_features)


def _column_list(column) -> list:
    """A column as plain Python objects."""
    return (
        column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist()
    )


def _object_array(values) -> np.ndarray:
    """One-dimensional array of the values as they are; lists become tuples."""
    labels = (tuple(value) if isinstance(value, list) else value for value in values)
    return np.fromiter(labels, dtype=object)


def _outside(groups: list, way_out: str = "") -> str:
    return (
        f"The sensitive features contain a label that is not in groups={groups!r} "
        "(1 is not '1', and labels of several columns are tuples); add it to the "
        f"public list, or '...' as the last entry for all other labels{way_out}."
    )


def sorted_groups(groups: set) -> list:
    """Sort labels, those of several types by the names of their types."""
    try:
        return sorted(groups)
    except TypeError:  # labels of several types
        return sorted(groups, key=lambda group: (type(group).__name__, str(group)))
