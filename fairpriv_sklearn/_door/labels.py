"""Labels of classes and groups, and their places in a public list."""

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .._shared.arguments import public_labels
from .._shared.callers import hushed
from .._shared.domain import domain, refuse_mixed, refuse_unlabelled
from .._wall import Fact, warn_leak


def encode_labels(y, classes, least=2) -> tuple[np.ndarray, np.ndarray, Fact]:
    """Encode the labels `y` against the public list of classes.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
    classes : array-like of shape (n_classes,) or None
        The public list; None takes it from `y`, with a `PrivacyLeakWarning`.
    least : {1, 2}
        How many classes there must be.

    Returns
    -------
    codes : ndarray of shape (n_samples,), int64
    classes : ndarray of shape (n_classes,)
        Sorted.
    fact : Fact
        The fact taken as public.
    """
    if y is None:
        raise ValueError("A fit requires y to be passed, but the target y is None.")
    refuse_unlabelled(y)
    with domain("y", own_words=True):
        y = column_or_1d(y, warn=True)
        if classes is None:
            assert_all_finite(y, input_name="y")
            refuse_mixed("y", y)
            check_classification_targets(y)
            found = np.unique(y)
    if classes is None:
        classes = found
        fact = warn_leak("classes", "the list of labels")
        if len(classes) < least:
            raise ValueError(
                "Only one class was found in y and classes=None; this classifier needs "
                "at least two: pass the public list of labels as classes=[...]."
            )
    else:
        classes = public_classes(classes, least)
        fact = Fact("classes", classes.tolist())
    return label_codes(y, classes), classes, fact


NUMBERED = (
    " Voting, stacking and bagging of scikit-learn, and cross_val_predict of "
    "probabilities, hand on numbers for labels: in them list classes=[0, 1, ...]."
)


def public_classes(classes, least=2) -> np.ndarray:
    """The public list of labels, sorted."""
    labels = public_labels("classes", classes)
    if any(isinstance(label, tuple) for label in labels):
        raise ValueError(f"classes must list labels, not lists of them: {labels!r}.")
    if len(labels) < least:
        raise ValueError(f"classes must list {least} labels or more, got {labels!r}.")
    refuse_mixed("classes", classes)
    array = np.asarray(classes)
    if array.dtype.kind in "US" and array.tolist() != labels:  # zeros at the end
        array = np.array(labels, dtype=object)
    try:
        return np.unique(array)
    except TypeError:
        pass
    raise TypeError(f"classes must list labels that have an order, got {labels!r}.")


def label_codes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Positions of labels in the public list of classes."""
    codes = positions_in(y, classes.tolist())
    if (codes < 0).any():
        hint = ""
        if y.dtype.kind in "iu" and classes.dtype.kind not in "iuf":
            hint = NUMBERED
        raise ValueError(
            f"y contains a label that is not in classes={classes.tolist()!r} (1 is not "
            f"'1'); add it to the public list or leave out its rows.{hint}"
        )
    return codes


def positions_in(labels: list | np.ndarray, listed: list) -> np.ndarray:
    """Positions of `labels` in `listed`, as Python compares them; -1 where not in it.

    Labels of another type than the listed ones are unknown rather than silently cast.
    """
    if isinstance(labels, np.ndarray):
        if labels.dtype.kind == "f" and labels.dtype.itemsize < 8:
            labels = labels.astype(np.float64)  # else 0.1 would be cast to theirs
        if _compares_as_python(labels, listed):
            positions = np.full(len(labels), -1, dtype=np.int8)
            for position, label in enumerate(listed):
                # Ten times as fast as assigning under a mask.
                positions += (labels == label) * np.int8(position + 1)
            return positions.astype(np.int64)
        labels = labels.tolist()
    with hushed():
        index = {label: position for position, label in enumerate(listed)}
        try:
            places = [index.get(label, -1) for label in labels]
        except Exception:  # one has no hash, or cannot be compared
            places = [_place_of(label, index) for label in labels]
    return np.array(places, dtype=np.int64)


def _place_of(label, index: dict) -> int:
    """Position of one label; -1 where it is not listed, or can be no label."""
    try:
        return index.get(label, -1)
    except Exception:  # it has no hash, or cannot be compared
        return -1


def _compares_as_python(labels: np.ndarray, listed: list) -> bool:
    """Whether ``==`` of an array says of few labels what that of Python does."""
    kind, few = labels.dtype.kind, len(listed) <= _FEW_LABELS
    if kind == "U":  # NumPy leaves out zeros at the end of a text
        return few and all(isinstance(k, str) and k[-1:] != "\0" for k in listed)
    if kind in "biu":  # NumPy cannot hold a flag against a longer number
        return few and all(isinstance(k, int) and abs(k) < 2**63 for k in listed)
    is_double = labels.dtype == np.float64
    exact = (isinstance(k, int | float) and abs(k) < 2**53 for k in listed)
    return few and is_double and all(exact)


_FEW_LABELS = 16  # with more a dictionary is faster
