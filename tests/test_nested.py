from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpriv_sklearn._shared.nested import (
    argument_of,
    argument_with,
    is_inside,
    outermost,
    owners,
)


def test_estimators_by_their_places():
    model, other = LogisticRegression(), FrozenEstimator(LogisticRegression())
    voting = VotingClassifier([("a", model), ("ab", other)])
    whole = make_pipeline(StandardScaler(), BaggingClassifier(voting))
    found = owners(whole)
    assert found[""] is whole
    bagging = "baggingclassifier"
    inside = f"{bagging}__estimator"
    names = {"", "standardscaler", bagging, inside, f"{inside}__a", f"{inside}__ab"}
    assert set(found) == {*names, f"{inside}__ab__estimator"}
    for place, one in found.items():
        # the way in which scikit-learn itself finds them
        assert one is whole.get_params(deep=True).get(place, whole)
        if place in names and "C" in one.get_params():
            whole.set_params(**{argument_of(place, "C"): 7.0})
            assert one.C == 7.0
    closed = owners(whole, lambda one: isinstance(one, FrozenEstimator))
    assert set(closed) == names
    assert set(owners(whole, lambda one: one is whole)) == {""}
    assert set(owners(other, lambda one: one is other)) == {""}


def test_arguments_that_are_classes_are_no_estimators():
    model = LogisticRegression().set_params(C=LogisticRegression)
    assert set(owners(model)) == {""}


def test_what_is_inside_what():
    assert argument_of("", "C") == "C" and argument_of("a__b", "C") == "a__b__C"
    places = ["a", "a__b", "ab", "c__a"]
    assert [p for p in places if is_inside(p, "a")] == ["a__b"]
    assert argument_with("a__b__c", "") == "a" and argument_with("a__b__c", "a") == "b"
    assert [p for p in places if is_inside(p, "")] == places
    assert not is_inside("", "") and not is_inside("", "a")
    assert outermost(places) == ["a", "ab", "c__a"]
    assert outermost(["", *places]) == [""]
