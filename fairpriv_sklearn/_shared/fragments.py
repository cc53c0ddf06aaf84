"""Parameter descriptions that several estimators share, one wording each.

A line ``{name}`` of a class docstring is replaced by what the docstring of a base class
says of the parameter of that name, or by the fragment below.
"""

import inspect
import re

_OURS = __name__.split(".")[0] + "."

FRAGMENTS = {
    "calibration_size": """\
calibration_size : float, default=0.25
    Chance of a row to calibrate. Range: (0, 1).
""",
    "estimation": """\
estimation : {"auto", "smooth", "isotonic"}, default="auto"
    How distributions are estimated from the noisy counts. "smooth" treats each group
    as a smooth share of the pooled distribution; "isotonic" is the published method,
    for comparison. "auto" is "smooth" where there is noise; without it the counts are
    taken as they are, so that the tolerance holds for the calibration rows themselves.
""",
    "groups_2": """\
groups : array-like of shape (n_groups,), default=None
    Public list of groups, tuples for intersections; a last entry ``"..."`` stands
    for all other labels. None takes it from the data, with a warning.
""",
    "group_guarantee": """\
group_guarantee : PrivacyGuarantee, "public" or None, default=None
    Blind only: what fitting `group_estimator` costs, if it does not say so itself.
""",
    "neighboring_2": """\
neighboring : {"replace_one", "add_remove"}, default="replace_one"
    Which tables count as neighbours.
""",
    "output_refinement": """\
output_refinement : int, default=3
    Number of output values per bin. Range: [1, 100].
""",
    "random_state_4": """\
random_state : int, RandomState instance or None, default=None
    None draws the split and the noise from the operating system. Anything else is
    reproducible and hence not private; `privacy_` says so.
""",
    "sensitive_features_3": """\
sensitive_features : str, int, list of these, or callable, default=None
    Columns of `X` that hold the sensitive features, or a function of `X` that
    labels each row on its own. None: pass `sensitive_features` to `fit` and
    `predict`.
""",
    "solver_2": """\
solver : str, default="exact"
    "exact", "cvxpy", or a solver's name; see `transport.fair_barycenter`.
""",
}


def with_fragments(cls: type) -> str | None:
    """The docstring of a class with the shared descriptions filled in."""
    if cls.__doc__ is None or "{" not in cls.__doc__:
        return cls.__doc__
    homes = [home for home in cls.__mro__[1:] if home.__module__.startswith(_OURS)]
    docs = [inspect.cleandoc(home.__doc__ or "") for home in homes]

    def fragment(match):
        entry = re.compile(rf"(?m)^{match[1]} : .*(?:\n    .*)*")
        found = next(filter(None, map(entry.search, docs)), None)
        return found[0] if found else FRAGMENTS.get(match[1], match[0]).rstrip("\n")

    return re.sub(r"(?m)^\{(\w+)\}$", fragment, inspect.cleandoc(cls.__doc__))
