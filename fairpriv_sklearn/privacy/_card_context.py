"""What a card is told beyond what the model knows of itself."""

from collections.abc import Mapping
from datetime import date
from numbers import Integral
from typing import Any

PRODUCTS = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")

# What the caller may tell, beyond what the model knows of itself, and one line of help.
CONTEXT = {
    "name": "Name of the model or data product.",
    "description": "What it is, in one or two sentences.",
    "data_curators": "Who publishes it; a list of names.",
    "authors": "Who wrote this card; a list of names.",
    "intended_use": "What it may be used for, and what not.",
    "region": "Which region the data describe, or whose law applies.",
    "sector": f"One of {', '.join(SECTORS)}.",
    "publication_date": "Day of the first publication, as YYYY-MM-DD.",
    "product_type": f"One of {', '.join(PRODUCTS)}.",
    "n_records": "Number of records, where it is public: delta is held against it.",
    "records_per_person": "Largest number of rows of one person; 1 if all have one.",
    "purpose": "Why the data are processed, and on which legal ground.",
    "necessity": "Why the sensitive data are needed, and why no others would do.",
    "access": "Who may see the raw data, the model, and its answers.",
    "deletion": "When the raw data, and the sensitive ones above all, are deleted.",
    "tuning": "How the arguments were chosen, on which data, and at what cost.",
    "preprocessing": "What was done to the data before, and on whose knowledge.",
    "facts": "Where public lists and bounds came from: argument to source.",
    "ledger": "The PrivacyLedger of these records: what was spent on them in all.",
    "audit": "The AuditReport of fairpriv_sklearn.audit.audit_estimator.",
    "fairness": "What fairpriv_sklearn.metrics.dp_group_rates returned.",
    "releases": "Which other releases of these records there are, if any.",
}


def checked_context(context) -> dict[str, Any]:
    """Return the context without empty entries, or raise what is wrong with it."""
    if context is None:
        return {}
    if not isinstance(context, Mapping):
        raise TypeError(
            f"context must be a mapping, got an object of {type(context).__name__}."
        )
    unknown = sorted(set(map(str, context)) - set(CONTEXT))
    if unknown:
        raise ValueError(f"context has unknown keys {unknown}; known: {list(CONTEXT)}.")
    context = {name: value for name, value in context.items() if value is not None}
    for name, allowed in (("product_type", PRODUCTS), ("sector", SECTORS)):
        if name in context and context[name] not in allowed:
            raise ValueError(
                f"context[{name!r}] must be one of {list(allowed)}, got "
                f"{context[name]!r}."
            )
    for name in ("n_records", "records_per_person"):
        value = context.get(name, 1)
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"context[{name!r}] must be a positive integer.")
    if "publication_date" in context:
        try:
            date.fromisoformat(str(context["publication_date"]))
        except ValueError:
            raise ValueError(
                "context['publication_date'] must be a date, YYYY-MM-DD."
            ) from None
    methods = {"ledger": "total", "audit": "to_dict", "fairness": "card_lines"}
    for name, method in methods.items():
        if name in context and not hasattr(context[name], method):
            raise TypeError(f"context[{name!r}]: {CONTEXT[name]}")
    if "facts" in context and not isinstance(context["facts"], Mapping):
        raise TypeError("context['facts'] must map arguments to their sources.")
    return context
