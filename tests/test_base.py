"""What every private estimator shares: drafts, old names, public bounds."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from fairpriv_sklearn._door.bounds import read_bounds
from fairpriv_sklearn._door.estimator import DPEstimator


class Toy(DPEstimator):
    _renamed = {"width": "bounds"}

    def __init__(self, bounds=(0, 1), mode="good"):
        self.bounds = bounds
        self.mode = mode

    def fit(self, X):
        self.seen_ = len(X)
        if self.mode == "bad argument":
            raise ValueError("mode")
        self._unfit()
        if self.mode == "interrupted":
            raise KeyboardInterrupt
        self.value_ = self.mode
        return self


def test_a_refused_fit_keeps_the_earlier_one():
    toy = Toy().fit([1, 2])
    with pytest.raises(ValueError, match="mode"):
        toy.set_params(mode="bad argument").fit([1])
    assert (toy.seen_, toy.value_) == (2, "good")


def test_an_interrupted_fit_leaves_nothing_of_the_earlier_one():
    toy = Toy().fit([1, 2])
    with pytest.raises(KeyboardInterrupt):
        toy.set_params(mode="interrupted").fit([1])
    assert vars(toy) == {"bounds": (0, 1), "mode": "interrupted"}


def test_a_fit_publishes_on_the_object_itself():
    toy = Toy()
    assert toy.fit([1]) is toy
    assert vars(toy) == {"bounds": (0, 1), "mode": "good", "seen_": 1, "value_": "good"}
    assert vars(pickle.loads(pickle.dumps(toy))) == vars(toy)
    assert vars(clone(toy)) == {"bounds": (0, 1), "mode": "good"}


@pytest.mark.parametrize(
    "use", [lambda: Toy(width=1), lambda: Toy().set_params(width=1)]
)
def test_an_old_name_says_the_new_one(use):
    with pytest.raises(TypeError, match="'width' is now 'bounds'"):
        use()


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [
        ((0, 1), [0, 0], [1, 1]),
        (([0, 1], 10), [0, 1], [10, 10]),
        ((np.array([0.0, 0.0]), [1, 10]), [0, 0], [1, 10]),
    ],
)
def test_public_bounds(bounds, low, high):
    read = read_bounds(bounds, 2)
    assert [end.tolist() for end in read] == [low, high]


@pytest.mark.parametrize(
    "bounds",
    [
        [(0, 1), (0, 10)],
        ((0, 1), (0, 10), (0, 1)),
        np.array([[0, 1], [0, 10]]),
        [0, 1],
        (0, "a"),
        (0, [1, 2, 3]),
        ([[0, 1]], 2),
        (1, 0),
        (0, np.inf),
        (np.nan, 1),
        (-1.7e308, 1.7e308),
        5,
        None,
    ],
)
def test_other_forms_of_bounds_are_refused(bounds):
    with pytest.raises(ValueError, match="^bounds must be"):
        read_bounds(bounds, 2)


def test_bounds_by_name_are_told_where_they_go():
    with pytest.raises(ValueError, match="codebook of a DPTableEncoder"):
        read_bounds({"age": (17, 90)}, 2)
