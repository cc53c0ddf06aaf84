"""A card to hand over: what a fitted model promises, for registry and officer."""

import json
import math
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from html import escape
from importlib import metadata
from numbers import Real
from typing import Any

from .._shared.arguments import fits, having, one_of
from .._shared.markdown import markdown_line, markdown_table
from .._shared.rounded import round_down, round_up
from ..accounting import EitherEvent, GaussianEvent, MaximumEvent, PureEvent
from ._attacker import attacker_gain, gaussian_parameter, of_several
from ._card_context import CONTEXT, PRODUCTS, checked_context
from ._facts import READ
from ._guarantee import RELATIONS, UNIT_OF_PRIVACY, PrivacyGuarantee, own_events

TO_FILL = "to be filled in"
LEARNT = " (released)"  # said behind what is no public fact, but came out of noise
_FOR_THE_OFFICER = ("purpose", "necessity", "deletion", "intended_use")

# The fixed list: every one is answered by a line of the card.
QUESTIONS = {
    "whom": "Who is protected: what is one record?",
    "neighbours": "Which two tables are indistinguishable?",
    "how_much": "How much privacy is promised?",
    "attacker": "What does an attacker gain at most?",
    "conditions": "On which conditions does the promise rest?",
    "not_covered": "What does the promise not cover?",
    "mechanism": "By which mechanism is it kept?",
    "spent_before": "What was spent on the same records before?",
    "who_sees": "Who may see what, and who is trusted?",
    "prepared": "How were the data prepared and the arguments chosen?",
    "evidence": "What is the evidence?",
    "fairness": "How does the model treat the groups?",
}


@dataclass(frozen=True)
class CardLine:
    """One answer of a card.

    Parameters
    ----------
    question : str
        Key in the fixed list of questions; empty for what goes beyond it.
    item : str
        What the line is about.
    answer : str
        The answer.
    status : {"private", "public", "not covered", "to fill in", "stated"}
        Whether what the line is about is protected, public, not covered; a line to be
        filled in by the officer, or one that states a fact about the promise.
    """

    question: str
    item: str
    answer: str
    status: str = "stated"


class DeploymentCard:
    """What a fitted model promises, from `deployment_card`.

    .. rubric:: Privacy

    Made from public numbers, released values and the context that was given; it may be
    published as far as that context may.

    Parameters
    ----------
    report : PrivacyReport
        The privacy of all steps.
    context : mapping or None, default=None
        What the model does not know of itself; see `deployment_card`.
    product_type : str, default="Machine learning model"
        Unless the context says it.

    Attributes
    ----------
    lines : tuple of CardLine
        The answers, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.linear_model import DPLinearRegression
    >>> from fairpriv_sklearn.privacy import deployment_card
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = DPLinearRegression(bounds=(0, 1), target_bounds=(0, 1)).fit(X, X[:, 0])
    >>> card = deployment_card(model, {"name": "Demand", "n_records": 200})
    >>> card.to_dict()["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"]
    1.0
    """

    def __init__(self, report, context=None, *, product_type=PRODUCTS[1]) -> None:
        self.report = having("a PrivacyReport", "guarantee", "steps")("report", report)
        self.context = checked_context(context)
        self.product_type = self.context.get("product_type", product_type)
        self.lines = tuple(self._lines())

    def answers(self, question: str) -> list[str]:
        """Return the answers to one of the fixed questions.

        Parameters
        ----------
        question : str
            Key in `QUESTIONS`.

        Returns
        -------
        list of str
        """
        one_of(*QUESTIONS)("question", question)
        return [line.answer for line in self.lines if line.question == question]

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The guarantee of the whole."""
        return self.report.guarantee

    # --- forms ------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the record for the registry of deployments, tier 3.

        Returns
        -------
        dict
            Plain data that `json.dumps` accepts.
        """
        return {
            "url_slug": re.sub(r"[^a-z0-9]+", "-", self._name.lower()).strip("-")
            or "model",
            "status": "Draft",
            "tier": 3,
            "deployment": self._deployment(),
        }

    def to_json(self) -> str:
        """Return the record for the registry as JSON.

        Returns
        -------
        str
        """
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_yaml(self) -> str:
        """Return the record for the registry as YAML.

        Returns
        -------
        str
        """
        return "\n".join(_yaml(self.to_dict())) + "\n"

    def to_markdown(self) -> str:
        """Return the document for the data-protection officer as Markdown.

        Returns
        -------
        str
        """
        sections = [f"# Privacy card: {markdown_line(self._name)}", self._verdict()]
        for title, lines in self._sections():
            rows = [(line.item, line.answer, line.status) for line in lines]
            sections.append(f"## {title}")
            sections.append(markdown_table(["", "answer", "status"], rows))
        return "\n\n".join(sections) + "\n"

    def to_html(self) -> str:
        """Return the document for the data-protection officer as one HTML page.

        Returns
        -------
        str
        """
        body = [f"<h1>Privacy card: {escape(self._name)}</h1>"]
        body.append(f"<p><strong>{escape(self._verdict())}</strong></p>")
        for title, lines in self._sections():
            rows = "".join(
                f'<tr class="{line.status.replace(" ", "-")}"><th>{escape(line.item)}'
                f"</th><td>{_html(line.answer)}</td><td>{escape(line.status)}</td></tr>"
                for line in lines
            )
            body.append(f"<h2>{escape(title)}</h2><table>{rows}</table>")
        return (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta '
            'name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{escape(self._name)}</title><style>{_STYLE}</style></head>"
            f"<body>{''.join(body)}</body></html>\n"
        )

    __str__ = _repr_markdown_ = to_markdown

    # --- lines ------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return self.context.get("name", self.report.estimator)

    def _verdict(self) -> str:
        total = self.guarantee
        if total.epsilon_if_public == math.inf:
            return "NOT PRIVATE as a whole: see what is not covered."
        if not total.noise_is_secure:
            return "FOR STUDY ONLY: the noise was drawn from a seed."
        if total.conditional_on:
            return "PRIVATE ONLY ON CONDITIONS: see the conditions."
        return "Private, on the assumptions listed."

    def _sections(self) -> list[tuple[str, list[CardLine]]]:
        titles = {**QUESTIONS, "": "For the data-protection officer"}
        return [
            (title, [line for line in self.lines if line.question == question])
            for question, title in titles.items()
        ]

    def _lines(self) -> Iterator[CardLine]:
        """The answers in order; each yields item, answer and, unless stated, status."""
        answers = (
            *(self._whom(), self._neighbours(), self._how_much(), self._attacker()),
            *(self._conditions(), self._not_covered(), self._mechanism()),
            *(self._spent_before(), self._who_sees(), self._prepared()),
            *(self._evidence(), self._fairness(), self._officer()),
        )
        for question, lines in zip([*QUESTIONS, ""], answers, strict=True):
            for line in lines:
                yield CardLine(question, *line)

    def _whom(self) -> Iterator[tuple]:
        unit = (
            "One record: everything in one row, features, sensitive attribute and "
            "target together."
        )
        yield "unit of privacy", unit, "private"
        rows = self.context.get("records_per_person")
        if rows is None:
            told = (
                "Not stated; one is assumed. A person with k rows is protected k times "
                "less: say how many at most (`records_per_person`; on the command "
                "line `--rows-per-person`)."
            )
            yield "rows of one person", told, "to fill in"
        elif rows == 1:
            told = "One: the person is what is protected."
            yield "rows of one person", told, "private"
        else:
            yield "rows of one person", self._of_a_person(rows)

    def _neighbours(self) -> Iterator[tuple]:
        relation = self.guarantee.neighboring
        yield "relation", f"{RELATIONS[relation]} ({relation}).", "private"
        told = {
            "replace_one": "The number of records is public.",
            "add_remove": "The number of records is protected.",
            "replace_one_in_group": "The sizes of all groups are public.",
            "replace_one_in_cell": "The sizes of all groups and labels are public.",
        }[relation]
        yield "sizes", told, "private" if relation == "add_remove" else "public"

    def _of_a_person(self, rows: int) -> str:
        total = self.guarantee.if_public()
        if total.epsilon == math.inf:
            return f"At most {rows}; no promise is made for a row."
        where = " if the conditions hold" if self.guarantee.conditional_on else ""
        epsilon, delta = of_several(total, rows)
        return (
            f"At most {rows}; for a person the promise is (epsilon = "
            f"{round_up(epsilon)}, delta = {round_up(delta)}){where}."
        )

    def _how_much(self) -> Iterator[tuple]:
        total = self.guarantee
        yield "epsilon", round_up(total.epsilon)
        if total.conditional_on:
            told = round_up(total.epsilon_if_public)
            yield "epsilon if the conditions hold", told
        yield "delta", self._delta()
        mu = gaussian_parameter(total)
        told = "no such statement" if mu is None else f"mu = {round_up(mu)}"
        yield "Gaussian-DP parameter", told

    def _delta(self) -> str:
        delta, n = self.guarantee.delta, self.context.get("n_records")
        if delta == 0:
            return "0"
        if n is None:
            return (
                f"{round_up(delta)}; to be held against 1/n where the number of "
                "records is public (`n_records`)"
            )
        share = delta * n
        told = "far below" if share <= 0.01 else "below" if share < 1 else "NOT BELOW"
        return (
            f"{round_up(delta)}, which is {told} 1/n = {1 / n:.3g} "
            f"({round_up(share)} times 1/n)"
        )

    def _attacker(self) -> Iterator[tuple]:
        total = self.guarantee.if_public()
        gain = attacker_gain(total)
        where = " if the conditions hold" if self.guarantee.conditional_on else ""
        if gain is None:
            yield "any attacker", "Not bounded.", "not covered"
            return
        posterior, success, power = (_percent_up(value) for value in gain)
        except_for = (
            f", except with probability {round_up(2 * total.delta)}"
            if total.delta
            else ""
        )
        yield (
            "belief from even odds",
            f"At most {posterior}{except_for}: who held it as likely as not that a "
            f"record was there is then at most that sure{where}.",
        )
        told = f"At most {success} of the guesses are right{where}."
        yield "guesses from even odds", told
        yield "true positives at 1 % false ones", f"At most {power}{where}."

    def _conditions(self) -> Iterator[tuple]:
        total = self.guarantee
        origins = self.context.get("facts", {})
        for name in total.conditional_on:
            told = f"{name}: {READ}. The model may give it away."
            yield "condition", told, "not covered"
        rows = self.context.get("records_per_person", 1)
        for assumption in total.assumptions:
            if assumption == UNIT_OF_PRIVACY and rows > 1:
                continue  # said of the rows of one person
            name = assumption.partition("=")[0]
            origin = f" (source: {origins[name]})" if name in origins else ""
            if assumption.endswith(LEARNT):
                told = f"{assumption.removesuffix(LEARNT)}, with noise, within epsilon"
                yield "learnt", told, "private"
                continue
            is_fact = "=" in assumption
            yield (
                "public fact" if is_fact else "assumption",
                f"{assumption}{origin}",
                "public" if is_fact else "stated",
            )
        if not total.noise_is_secure:
            told = (
                "The noise was drawn from random_state: who knows the seed knows all."
            )
            yield "noise", told, "not covered"

    def _not_covered(self) -> Iterator[tuple]:
        for one in self.guarantee.uncovered:
            yield "step", one, "not covered"
        for what in _OUT_OF_SCOPE:
            yield "out of scope", what, "not covered"

    def _mechanism(self) -> Iterator[tuple]:
        total = self.guarantee
        yield "in plain words", total.mechanism or "none", "private"
        for event in own_events(total):
            yield "part", _event_words(event), "private"
        generator = "the operating system's generator"
        yield (
            "floating point",
            "Values are rounded to a grid before noise of the same grid is added; the "
            f"noise comes from {generator if total.noise_is_secure else 'a seed'}.",
        )

    def _spent_before(self) -> Iterator[tuple]:
        ledger = self.context.get("ledger")
        if ledger is None:
            told = (
                "Not known. This card is about one model; other releases about the "
                "same records add to it. Keep a PrivacyLedger (`ledger`)."
            )
            yield "all releases", told, "to fill in"
            return
        epsilon, delta = map(round_up, ledger.total())
        spends = ledger.spends()
        told = (
            f"{len(spends)} release{'s' * (len(spends) != 1)}, this one included if it "
            f"was charged: (epsilon = {epsilon}, delta = {delta}) together."
        )
        bare, supposed = (
            ", ".join(dict.fromkeys(name for one in spends for name in one[kind]))
            for kind in ("uncovered", "conditional_on")
        )
        if bare:
            told += f" Left out, for nobody knows its cost: {bare}."
        if supposed:
            told += f" Only if these are public, or hold: {supposed}."
        seeded = not all(one["noise_is_secure"] for one in spends)
        if seeded:
            told += " The noise of some was drawn from a seed: who knows it knows all."
        is_whole = not (bare or supposed or seeded)
        yield "all releases", told, "private" if is_whole else "not covered"

    def _who_sees(self) -> Iterator[tuple]:
        yield (
            "trust",
            "Central model: the curator sees the raw records and is trusted with them; "
            "the fitted object, its attributes and its answers may be seen by anybody.",
        )
        yield (
            "answers",
            "A prediction reads the record it is made for, which this promise does not "
            "protect: the promise is about the records of the fit.",
            "not covered",
        )
        yield self._given("access")

    def _prepared(self) -> Iterator[tuple]:
        for step in self.report.steps:
            is_known = step.status in ("private", "public")
            status = step.status if is_known else "not covered"
            fix = f" {step.fix}" if step.fix else ""
            assumed = f" Assumed: {step.assumption}." if step.assumption else ""
            told = f"{step.title}: {step.status}.{assumed}{fix}"
            yield "step", told, status
        yield self._given("preprocessing")
        yield self._given("tuning")

    def _evidence(self) -> Iterator[tuple]:
        pages = (*self.guarantee.proofs, *_HANDBOOK) if self.guarantee.proofs else ()
        told = (
            "In the documentation of fairpriv_sklearn, whose tests replay neighbouring "
            f"tables and fail when code under a proof changes: {', '.join(pages)}."
            if pages
            else "None of this library: the guarantee is somebody else's statement."
        )
        yield "proof", told
        audit = self.context.get("audit")
        if audit is None:
            told = (
                "This model was not audited. fairpriv_sklearn.audit.audit_estimator "
                "tries to refute the promise (`audit`)."
            )
            yield "audit", told, "to fill in"
        else:
            told = (
                f"{'REFUTED' if audit.violated else 'Not refuted'} by "
                f"{audit.n_fits} fits to {audit.n_pairs} pairs of neighbouring tables; "
                f"epsilon is at least {round_down(audit.epsilon_lower, 3)} with "
                f"confidence {round_down(audit.confidence)}"
                f"{'' if audit.conclusive else '; not conclusive'}."
            )
            ratio = audit.largest_ratio
            if not math.isnan(ratio):
                told += (
                    " Replayed, an exact value moved by at most "
                    f"{round_up(ratio)} times the sensitivity that was claimed for it."
                )
            yield "audit", told
        yield "versions", _versions()

    def _fairness(self) -> Iterator[tuple]:
        for step in self.report.steps:
            for note in step.notes:
                yield "repair", note, "private"
        rates = self.context.get("fairness")
        if rates is None:
            told = (
                "Not measured. fairpriv_sklearn.metrics.dp_group_rates releases rates "
                "per group and intersection with intervals (`fairness`)."
            )
            yield "groups", told, "to fill in"
            return
        for item, told in rates.card_lines():
            yield item, told, "private"
        guarantee = rates.privacy_
        told = (
            f"These numbers cost (epsilon = {round_up(guarantee.epsilon)}, delta = "
            f"{round_up(guarantee.delta)}) in addition."
        )
        yield "cost", told, "private"

    def _officer(self) -> Iterator[tuple]:
        yield from map(self._given, _FOR_THE_OFFICER)
        yield from _LAW

    def _given(self, name: str) -> tuple:
        item = name.replace("_", " ")
        if name in self.context:
            return item, str(self.context[name])
        return item, f"[ ] {CONTEXT[name]}", "to fill in"

    # --- registry ---------------------------------------------------------------------

    def _deployment(self) -> dict[str, Any]:
        return {
            "basic": self._basic(),
            "dp_variant": self._variant(),
            "privacy_loss": self._privacy_loss(),
            "deployment_model": self._model(),
            "accounting": {
                "post_processing": "Everything after the releases listed under the "
                "mechanism reads released values only.",
                "composition": self._joined("mechanism", "spent_before"),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": self._joined("prepared"),
                "mechanisms": self._joined("mechanism"),
                "justification": self._joined("evidence"),
            },
            "administrative": {
                "registry_authors": self._list("authors"),
                "notes": self._joined("conditions", "not_covered", "fairness"),
            },
        }

    def _basic(self) -> dict[str, Any]:
        context = self.context
        basic = {
            "name": self._name,
            "data_curators": self._list("data_curators"),
            "intended_use": context.get("intended_use", TO_FILL),
            "data_product_type": self.product_type,
            "data_product_region": context.get("region", TO_FILL),
            "description": context.get(
                "description", f"{self.report.estimator}: {self.guarantee.mechanism}"
            ),
            "publication_date": str(context.get("publication_date", date.today())),
        }
        if "sector" in context:
            basic["data_product_sector"] = context["sector"]
        return basic

    def _variant(self) -> dict[str, Any]:
        total = self.guarantee
        bare = ("public", "not covered")
        public = [line.answer for line in self.lines if line.status in bare]
        variant = "Approximate DP" if total.delta > 0 else "Pure DP"
        return {
            "variant_name": "Custom" if total.epsilon == math.inf else variant,
            "data_domain": "Tables of finite features, with labels and groups from the "
            "public lists.",
            "unprotected_quantities": "; ".join(public),
        }

    def _privacy_loss(self) -> dict[str, Any]:
        total = self.guarantee
        numbers = {"delta": _up(total.delta)}
        if total.epsilon < math.inf:
            numbers = {"epsilon": _up(total.epsilon), **numbers}
        return {
            "privacy_unit": " ".join(self.answers("whom")),
            "privacy_unit_details": " ".join(self.answers("neighbours")),
            "privacy_parameters": numbers,
            "privacy_parameters_details": self._joined("how_much", "attacker"),
        }

    def _model(self) -> dict[str, Any]:
        told, ledger = map(self.context.get, ("releases", "ledger"))
        many = told or (ledger is not None and len(ledger.spends()) > 1)
        return {
            "model_name": "Central",
            "actors": self._joined("who_sees"),
            "release_type": "Many releases" if many else "One release",
            "release_type_details": str(told or self._joined("spent_before")),
            "data_source_type": "Static",
            "access_type": "Non-interactive",
            "access_type_details": "The fitted model is published as it is.",
        }

    def _joined(self, *questions: str) -> str:
        return "\n".join(
            f"- {line.item}: {line.answer}"
            for question in questions
            for line in self.lines
            if line.question == question
        )

    def _list(self, name: str) -> list[str]:
        value = self.context.get(name, [TO_FILL])
        return [value] if isinstance(value, str) else [str(one) for one in value]


_HANDBOOK = ("privacy/noise.html", "privacy/accounting.html")  # noise, composition
_OUT_OF_SCOPE = (
    "How long a fit or a prediction takes, and what else a computer shows.",
    "Whether a table is in the domain: errors about arguments, types and labels.",
    "What the data tell about groups and the population: that is what a model is for.",
    "The records that predictions are made for.",
)
_LAW = (
    (
        "NIST SP 800-226",
        "Covered: unit and parameter of privacy, neighbours, composition, mechanism, "
        "trust model, floating point. In words only: utility and bias. Missing: "
        "security of the systems, collection of the data. Check against its text.",
    ),
    (
        "EU AI Act, Article 10(5)",
        "On using sensitive data to detect bias. Covered: measures that preserve "
        "privacy, what was released. For the officer: why other data would not do, who "
        "has access, transfer to others, deletion, records of processing. This card "
        "follows secondary sources: check the text in force.",
    ),
)


def _html(text: str) -> str:
    """Names between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


_STYLE = (
    "body{font:11pt/1.35 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid #ccc;"
    "text-align:left;vertical-align:top;padding:.25em .5em}th{width:14em}"
    "td:last-child{width:7em}tr.not-covered td{background:#fbe9e3}tr.to-fill-in td{"
    "background:#fdf6d8}h2{font-size:1.05em;margin:1.1em 0 .2em}"
    # On a telephone the answer has the room.
    "@media(max-width:40em){table{table-layout:fixed}th{width:27%}td:last-child{"
    "width:20%}th,td{overflow-wrap:break-word}}"
)


def deployment_card(model, context=None) -> DeploymentCard:
    """Return the card of a fitted model: for the registry, and for the officer.

    That of ``privacy_report(model).to_card(context)``; what a model that can `sample`
    gives is synthetic data unless the context says otherwise.

    .. rubric:: Privacy

    Reads the guarantee, constructor arguments and the context; no row is read. No
    number is rounded to the unsafe side.

    Parameters
    ----------
    model : estimator
        Fitted; a pipeline is one too.
    context : mapping or None, default=None
        What the model does not know of itself. Keys: ``name``, ``description``,
        ``data_curators``, ``authors``, ``intended_use``, ``region``, ``sector``,
        ``publication_date``, ``product_type``, ``n_records``, ``records_per_person``,
        ``purpose``, ``necessity``, ``access``, ``deletion``, ``tuning``,
        ``preprocessing``, ``facts`` (argument to source), ``releases``, ``ledger`` (a
        `PrivacyLedger`), ``audit`` (an `AuditReport`) and ``fairness`` (what
        `dp_group_rates` returned). What is missing is asked for on the card.

    Returns
    -------
    DeploymentCard
        With `to_yaml()`, `to_json()`, `to_markdown()`, `to_html()`.

    See Also
    --------
    privacy_report : What it is made of.

    References
    ----------
    .. [1] OpenDP, NIST, "Differential Privacy Deployments Registry", 2025.
    .. [2] J. P. Near, D. Darais, N. Lefkovitz, G. Howarth, "Guidelines for Evaluating
       Differential Privacy Guarantees", NIST SP 800-226, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.linear_model import DPLinearRegression
    >>> from fairpriv_sklearn.privacy import deployment_card
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = DPLinearRegression(bounds=(0, 1), target_bounds=(0, 1)).fit(X, X[:, 0])
    >>> print(deployment_card(model).answers("how_much")[0])
    1
    """
    from ._report import privacy_report

    report = privacy_report(fits("model", model))
    samples = hasattr(model, "sample")
    return DeploymentCard(report, context, product_type=PRODUCTS[3 if samples else 1])


# --- words ---------------------------------------------------------------------------


def _percent_up(share: float) -> str:
    """A share in per cent, never smaller than it is."""
    tenths = math.ceil(share * 1000 - 1e-6)
    return f"{tenths / 10:g} %"


def _up(value: float) -> float:
    return float(round_up(value, 6))


def _event_words(event) -> str:
    if isinstance(event, GaussianEvent):
        return f"Gaussian noise, mu = {round_up(event.mu)} together"
    if isinstance(event, PureEvent):
        return f"a purely private release, epsilon = {round_up(event.epsilon)}"
    if isinstance(event, MaximumEvent):
        sides = [
            ", ".join(map(_event_words, side)) or "nothing"
            for side in (event.left, event.right)
        ]
        if isinstance(event, EitherEvent):
            return f"one of two, as a public number decides: {' | '.join(sides)}"
        return f"two phases on rows parted at random: {' | '.join(sides)}"
    return str(event)


def _versions() -> str:
    from .. import __version__

    found = [f"Python {platform.python_version()}, fairpriv_sklearn {__version__}"]
    for name in ("numpy", "scipy", "scikit-learn", "diffprivlib"):
        with suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    return ", ".join(found)


# --- YAML -----------------------------------------------------------------------------


def _yaml(value, indent: int = 0) -> Iterator[str]:
    """Block style; strings and lists as in JSON, which YAML reads alike."""
    pad = "  " * indent
    for key, item in value.items():
        if isinstance(item, dict):
            yield f"{pad}{key}:"
            yield from _yaml(item, indent + 1)
        else:
            yield f"{pad}{key}: {_scalar(item)}"


def _scalar(value) -> str:
    if isinstance(value, Real):
        # YAML wants a point in a number with an exponent.
        text = repr(value)
        return re.sub(r"^(-?\d+)e", r"\1.0e", text)
    # Of what is not printable YAML takes no more than the escapes.
    return json.dumps(value, ensure_ascii=not str(value).isprintable())
