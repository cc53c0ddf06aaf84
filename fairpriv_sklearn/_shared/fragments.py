"""Parameter descriptions that several estimators share, one wording each.

A line ``{name}`` of a class docstring is replaced by what the docstring of the nearest
base class says of the parameter of that name.
"""

import inspect
import re

_OURS = __name__.split(".")[0] + "."


def with_fragments(cls: type) -> str | None:
    """The docstring of a class with the shared descriptions filled in."""
    if cls.__doc__ is None or "{" not in cls.__doc__:
        return cls.__doc__
    homes = [home for home in cls.__mro__[1:] if home.__module__.startswith(_OURS)]
    docs = [inspect.cleandoc(home.__doc__ or "") for home in homes]

    def fragment(match):
        entry = re.compile(rf"(?m)^{match[1]} : .*(?:\n    .*)*")
        found = next(filter(None, map(entry.search, docs)), None)
        return (found or match)[0]

    return re.sub(r"(?m)^\{(\w+)\}$", fragment, inspect.cleandoc(cls.__doc__))
