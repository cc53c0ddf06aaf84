"""The card: valid for the registry, readable for the officer, rounded safely."""

import json
import math
import pathlib
import re
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from common import ENTRIES, fit, table
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    EitherEvent,
    GaussianEvent,
    MaximumEvent,
    PureEvent,
    ThresholdEvent,
    compose_delta,
    compose_epsilon,
    gaussian_delta,
)
from fairpriv_sklearn.audit import AuditReport
from fairpriv_sklearn.generative import DPSinkhornGenerator
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.metrics import dp_group_rates
from fairpriv_sklearn.postprocessing import DPBarycenterRegressor
from fairpriv_sklearn.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    deployment_card,
    privacy_report,
)
from fairpriv_sklearn.privacy._attacker import (
    attacker_gain,
    gaussian_parameter,
    of_several,
)
from fairpriv_sklearn.privacy._card import QUESTIONS
from fairpriv_sklearn.privacy._card_context import CONTEXT
from fairpriv_sklearn.privacy._guarantee import RELATIONS

SCHEMA = json.loads(
    (pathlib.Path(__file__).parent / "deployments_schema.json").read_text()
)
TYPES = {"object": dict, "array": list, "string": str, "integer": int}


def validate(value, schema, path=""):
    """Check plain data against the part of JSON Schema that the registry uses."""
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    types = tuple(TYPES.get(kind, (int, float)) for kind in kinds)
    assert not kinds or isinstance(value, types), (path, value)
    if "enum" in schema:
        assert value in schema["enum"], (path, value)
    if schema.get("format") == "date":
        date.fromisoformat(value)
    if isinstance(value, float):
        assert math.isfinite(value), path
    if isinstance(value, list):
        assert len(value) >= schema.get("minItems", 0), path
        for item in value:
            validate(item, schema["items"], path)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        assert set(schema.get("required", ())) <= set(value), path
        if schema.get("additionalProperties") is False:
            assert set(value) <= set(known), (path, set(value) - set(known))
        for name, item in value.items():
            validate(item, known[name], f"{path}/{name}")


def tier_fields(schema, tier, path=()):
    """Paths of all fields that belong to a tier."""
    for name, part in schema.get("properties", {}).items():
        if part.get("tier") == tier:
            yield (*path, name)
        yield from tier_fields(part, tier, (*path, name))


@pytest.fixture(scope="module")
def model():
    X = np.random.default_rng(0).uniform(size=(600, 2))
    return DPLinearRegression(bounds=(0, 1), target_bounds=(0, 1)).fit(X, X[:, 0])


def full_context():
    rng = np.random.default_rng(0)
    groups, y = rng.integers(0, 2, 500), rng.integers(0, 2, 500)
    rates = dp_group_rates(
        None,
        y,
        sensitive_features=groups,
        groups=[0, 1, 2],
        classes=[0, 1],
        epsilon=1.0,
        random_state=0,
    )
    ledger = PrivacyLedger(5.0, 1e-4)
    ledger.spend(rates.privacy_)
    return {
        "name": "Demand | forecast <b>",
        "data_curators": ["Town hall"],
        "authors": "A. Clerk",
        "n_records": 200,
        "records_per_person": 1,
        "publication_date": date(2026, 1, 2),
        "sector": "Government",
        "facts": {"bounds": "codebook of 2020"},
        "ledger": ledger,
        "fairness": rates,
        "audit": AuditReport(
            *("x", "x", 1.0, 1e-5),
            epsilon_lower=0.56789,
            n_fits=60,
            largest_ratio=0.98765,
        ),
        "purpose": "Planning.",
    }


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_estimator_has_a_valid_card(entry):
    X, y = table(entry)
    card = deployment_card(fit(entry, entry.make(**entry.public), X, y))
    assert all(link in card.to_markdown() for link in card.guarantee.proofs)
    assert card.guarantee.proofs
    record = card.to_dict()
    validate(record, SCHEMA)
    assert record == json.loads(card.to_json())
    for path in [*tier_fields(SCHEMA, 2), *tier_fields(SCHEMA, 3)]:
        if path[-1] in ("data_source_type_details",):
            continue
        part = record
        for name in path:
            part = part[name]
        assert part, path
    for key in QUESTIONS:
        assert all(answer.strip() for answer in card.answers(key)), key
        assert card.answers(key), key


def test_the_card_names_the_model_in_a_repair_and_its_proofs():
    X = np.random.default_rng(0).uniform(size=(3000, 2))
    model = DPLinearRegression(bounds=(0, 1), target_bounds=(0, 1))
    fair = DPBarycenterRegressor(model, target_bounds=(0, 1), groups=[0, 1], blind=True)
    fair.fit(X, X[:, 0], sensitive_features=X[:, 1] > 0.5)
    text = deployment_card(fair).to_markdown()
    assert "a fit of the estimator (DPLinearRegression)" in text
    assert "user_guide/linear_models_proofs.html#linear-loss" in text
    assert all(link in text for link in fair.group_estimator_.privacy_.proofs)
    assert privacy_report(fair).guarantee == fair.privacy_


@pytest.mark.parametrize("context", [None, "full", "unprintable"])
def test_yaml_is_what_the_registry_reads(model, context):
    yaml = pytest.importorskip("yaml")
    given = full_context() if context == "full" else None
    if context == "unprintable":
        given = {"name": "\x85 \u2028 \ud800", "description": "é"}
    card = deployment_card(model, given)
    assert yaml.safe_load(card.to_yaml()) == card.to_dict()
    validate(card.to_dict(), SCHEMA)


# What the document says on each of the twelve questions, found by a reader's eye alone.
ANSWERS = {
    "whom": ["One record: everything in one row", "One: the person"],
    "neighbours": ["one record replaced by any other", "number of records is public"],
    "how_much": ["| epsilon | 1 |", "1e-05", "times 1/n", "mu = 0.26"],
    "attacker": [
        "At most 76.9 %, except with probability 2e-05",
        "At most 2 %",
        "of the guesses",
    ],
    "conditions": ["bounds=", "codebook of 2020", "target_bounds="],
    "not_covered": ["How long a fit", "records that predictions"],
    "mechanism": ["Gaussian noise, mu =", "rounded to a grid"],
    "spent_before": ["1 release, this", "(epsilon = 0.9999, delta = 0.0001)"],
    "who_sees": ["Central model", "[ ] Who may see"],
    "prepared": ["DPLinearRegression: private", "[ ] How the arguments were chosen"],
    "evidence": [
        "user_guide/linear_models_proofs.html#linear-loss",
        "privacy/noise.html",
        "at least 0.567 ",
        "at most 0.9877 times",
        "numpy",
        "Not refuted",
    ],
    "fairness": ["difference", "ratio", "not estimable", "in addition"],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_twelve_questions_are_answered_by_the_document_alone(model, question):
    text = deployment_card(model, full_context()).to_markdown()
    section = text.split(f"## {QUESTIONS[question]}")[1].split("\n## ")[0]
    for words in ANSWERS[question]:
        assert words in section, (words, section)


def test_there_are_twelve_and_the_officer_has_empty_fields(model):
    assert len(QUESTIONS) == 12 == len(ANSWERS)
    text = deployment_card(model).to_markdown()
    for name in ("purpose", "necessity", "access", "deletion"):
        assert f"[ ] {CONTEXT[name]}" in text
    assert "SP 800-226" in text and "Article 10(5)" in text
    assert "Planning." in deployment_card(model, full_context()).to_markdown()


def test_two_pages(model):
    # At most 110 lines of about 90 characters.
    lines = [
        len(line) // 90 + 1
        for line in re.sub(r"[|\-]+", " ", deployment_card(model).to_markdown()).split(
            "\n"
        )
        if line.strip()
    ]
    assert sum(lines) <= 110


def test_html_escapes(model):
    page = deployment_card(model, full_context()).to_html()
    assert "<b>" not in page and "&lt;b&gt;" in page
    assert page.count("<h2>") == 13
    # a telephone shows it at its own width, the columns in fixed shares
    assert 'name="viewport"' in page and "table-layout:fixed" in page


def test_html_shows_names_as_code_and_markdown_as_it_is(model):
    card = deployment_card(model)
    assert "(<code>records_per_person</code>;" in card.to_html()
    assert "`" not in card.to_html() and "`records_per_person`" in card.to_markdown()


def test_what_came_out_of_noise_is_no_public_fact(model):
    given = ("groups=['f', 'm'] (released)", "classes=[0, 1]")
    report = privacy_report(model)
    stated = replace(report.guarantee, assumptions=given)
    card = replace(report, guarantee=stated).to_card({})
    learnt, declared = (
        [line for line in card.lines if line.answer.startswith(name)]
        for name in ("groups", "classes")
    )
    assert [(one.item, one.status) for one in learnt] == [("learnt", "private")]
    assert "within epsilon" in learnt[0].answer
    assert [(one.item, one.status) for one in declared] == [("public fact", "public")]


def guarantee(*events, delta=1e-5, **more):
    return PrivacyGuarantee.from_events(
        events, delta=delta, neighboring="replace_one", mechanism="m", **more
    )


@pytest.mark.parametrize("mu", [0.1, 0.268, 1.0, 3.0])
def test_an_attacker_of_a_gaussian_release_gains_what_the_curve_says(mu):
    one = guarantee(GaussianEvent(mu))
    posterior, success, power = attacker_gain(one)
    # The loss is normal with mean mu^2 / 2: it passes epsilon more often than in delta.
    loss = math.log(posterior / (1 - posterior))
    assert stats.norm.sf(one.epsilon / mu - mu / 2) > 2 * one.delta
    assert stats.norm.sf(loss / mu - mu / 2) <= 2 * one.delta
    assert loss < 1.3 * one.epsilon
    exact = stats.norm.cdf(stats.norm.ppf(0.01) + mu)
    assert exact <= power <= exact * (1 + 1e-8)
    assert success >= (1 + gaussian_delta(mu, 0.0)) / 2 * (1 - 1e-9)
    assert success == pytest.approx(stats.norm.cdf(mu / 2), abs=1e-8)
    assert mu <= gaussian_parameter(one) <= mu * (1 + 1e-8)


@pytest.mark.parametrize("n_draws", [0, 56, 10**7, 10**9])
def test_an_attacker_gains_by_the_errors_of_the_sampler_too(n_draws):
    """Of a network's 10^9 numbers it is a tenth of a per cent, which was left out."""
    mu, eta = 0.27, 1e-8
    _, success, power = attacker_gain(guarantee(GaussianEvent(mu, n_draws)))
    # An event that is as likely as it can be on one table, and as unlikely on the other
    worst = math.exp(n_draws * eta**2 + eta * math.sqrt(2 * n_draws * math.log(1e12)))
    exact = worst * stats.norm.cdf(stats.norm.ppf(0.01 * worst) + mu)
    assert exact <= power <= exact * (1 + 1e-8)
    assert success >= (1 + compose_delta([GaussianEvent(mu, n_draws)], 0.0)) / 2
    assert (success > stats.norm.cdf(mu / 2) + 1e-3) == (n_draws == 10**9)


def test_an_epsilon_beyond_all_exponentials_has_its_gaussian_parameter():
    """It was that of 700."""
    for epsilon in (1.0, 699.0, 701.0, 5000.0):
        mu = gaussian_parameter(guarantee(PureEvent(epsilon), delta=0.0))
        odds = stats.norm.logsf(mu / 2) - stats.norm.logcdf(mu / 2)
        assert odds == pytest.approx(-epsilon, rel=1e-7)


def test_a_belief_is_bounded_where_delta_is_all_that_is_known():
    assert attacker_gain(guarantee(DeclaredEvent(1.0, 1e-5)))[0] == pytest.approx(
        2 * math.e / (1 + 2 * math.e)
    )
    pure = guarantee(PureEvent(1.0), delta=1e-5)  # delta is not needed
    assert attacker_gain(pure)[0] == pytest.approx(1 / (1 + math.exp(-1.0)), rel=4e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 8.0])
def test_an_attacker_of_randomised_response(epsilon):
    # The worst purely private release: the bounds hold for it, and are reached.
    one = guarantee(PureEvent(epsilon), delta=0.0)
    posterior, success, power = attacker_gain(one)
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert posterior == pytest.approx(truth)
    assert success >= truth * (1 - 1e-12)
    exact = min(0.01 * math.exp(epsilon), 1 - math.exp(-epsilon) * 0.99)
    assert exact * (1 - 1e-12) <= power <= 1
    # The curve of G_mu lies below that of epsilon-DP: a finer grid than its corner
    mu = gaussian_parameter(one)
    alpha = np.linspace(1e-6, 1 - 1e-6, 10_001)
    ours = np.maximum(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha))
    assert np.all(stats.norm.cdf(stats.norm.isf(alpha) - mu) <= ours + 1e-9)


@pytest.mark.parametrize("count", [1, 3, 150])
def test_of_each_split_the_dearer_side_makes_the_gaussian_parameter(count):
    sides = [(0.1 + i / 100, 0.2 + i / 250) for i in range(count)]
    splits = [MaximumEvent([PureEvent(a)], [GaussianEvent(b)]) for a, b in sides]
    mus = [max(2 * stats.norm.ppf(1 / (1 + math.exp(-a))), b) for a, b in sides]
    expected = math.hypot(0.5, *mus)
    found = gaussian_parameter(guarantee(GaussianEvent(0.5), *splits))
    assert expected <= found <= expected * (1 + 1e-8)


def test_what_has_no_gaussian_parameter():
    assert gaussian_parameter(guarantee(DeclaredEvent(1.0, 1e-6))) is None
    assert gaussian_parameter(guarantee(GaussianEvent(1.0), uncovered=["x"])) is None
    both = MaximumEvent([GaussianEvent(0.3)], [GaussianEvent(0.4)])
    assert gaussian_parameter(guarantee(both)) == pytest.approx(0.4, rel=1e-6)
    assert gaussian_parameter(guarantee(GaussianEvent(0.3), GaussianEvent(0.4))) == (
        pytest.approx(0.5, rel=1e-6)
    )


def test_no_number_is_rounded_to_the_unsafe_side(model):
    card = deployment_card(model)
    numbers = card.to_dict()["deployment"]["privacy_loss"]["privacy_parameters"]
    assert numbers["epsilon"] >= model.privacy_.epsilon * (1 - 1e-9)
    assert numbers["delta"] >= model.privacy_.delta
    text = " ".join(card.answers("attacker"))
    shown = [float(found) / 100 for found in re.findall(r"At most ([\d.]+) %", text)]
    for number, exact in zip(shown, attacker_gain(model.privacy_), strict=True):
        assert exact - 1e-8 <= number <= exact + 1.01e-3


@pytest.mark.parametrize(
    ("n", "words"), [(10**6, "NOT BELOW"), (200, "far below"), (20_000, "below 1/n")]
)
def test_delta_is_held_against_one_over_n(model, n, words):
    answer = deployment_card(model, {"n_records": n}).answers("how_much")[1]
    assert words in answer


def test_several_rows_of_a_person(model):
    answer = deployment_card(model, {"records_per_person": 3}).answers("whom")[1]
    assert "(epsilon = 3.408, delta = 1e-05)" in answer
    said = deployment_card(model, {"records_per_person": 3}).answers("conditions")
    assert not any("each person has one" in one for one in said)
    said = deployment_card(model, {"records_per_person": 1}).answers("conditions")
    assert any("each person has one" in one for one in said)


def test_several_rows_of_a_person_on_a_condition(model):
    report = privacy_report(model)
    on_condition = report.guarantee.qualified(conditional_on=("bounds",))
    report = replace(report, guarantee=on_condition)
    answer = report.to_card({"records_per_person": 3}).answers("whom")[1]
    assert "epsilon = 3.408, delta = 1e-05) if the conditions hold" in answer


def told(events, delta, k):
    epsilon = compose_epsilon(events, delta)
    statement = PrivacyGuarantee(epsilon, delta, "replace_one", "noise", events)
    return epsilon, *of_several(statement, k)


@pytest.mark.parametrize("k", [2, 8, 40])
def test_gaussian_noise_of_several_records(k):
    mu = 0.268
    _, epsilon, delta = told((GaussianEvent(mu),), 1e-5, k)
    shift = k * mu  # the hockey-stick divergence of two normal distributions
    assert delta == 1e-5
    exact = stats.norm.cdf(-epsilon / shift + shift / 2)
    exact -= np.exp(epsilon) * stats.norm.cdf(-epsilon / shift - shift / 2)
    assert 0.99e-5 < exact <= 1e-5


@pytest.mark.parametrize("k", [2, 8, 1000])
def test_pure_noise_of_several_records(k):
    assert told((PureEvent(0.25), PureEvent(0.5)), 0.0, k)[1:] == (0.75 * k, 0.0)
    assert told((PureEvent(0.25), PureEvent(0.5)), 1e-5, k)[1] <= 0.75 * k


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("each", [0.1, 0.7])
def test_gaussian_and_pure_noise_of_several_records(k, each):
    """A Gaussian release beside randomised response, each for all of the records."""
    mu = 0.3
    _, epsilon, delta = told((GaussianEvent(mu), PureEvent(each)), 1e-5, k)
    loss, kept = k * each, 1 / (1 + np.exp(-k * each))
    exact = kept * gaussian_delta(k * mu, epsilon - loss)
    exact += (1 - kept) * gaussian_delta(k * mu, epsilon + loss)
    assert delta == 1e-5
    assert 0.99e-5 < exact <= 1e-5


def test_several_records_pay_for_the_draws_of_both_sides_of_a_split():
    """Those of the cheaper side were not counted."""
    for left, right in ((0.3, 0.3), (0.3, 0.2), (0.2, 0.3)):
        sides = [GaussianEvent(left, 10**9)], [GaussianEvent(right, 10**9)]
        split = MaximumEvent(*sides)
        nested = MaximumEvent([split], [GaussianEvent(0.1, 10**9)])
        for event, n_draws in ((split, 2 * 10**9), (nested, 3 * 10**9)):
            _, epsilon, delta = told((event,), 1e-3, 2)
            expected = compose_epsilon([GaussianEvent(0.6, n_draws)], 1e-3)
            assert delta == 1e-3
            assert expected <= epsilon <= expected * (1 + 1e-6)


def test_several_records_on_both_sides_of_a_split():
    """Of two records one may be on either side: together they pay for both."""
    split = MaximumEvent([PureEvent(1.0)], [GaussianEvent(1.0)])
    epsilon = told((split,), 1e-5, 2)[1]
    least = compose_epsilon([PureEvent(1.0), GaussianEvent(1.0)], 1e-5)
    assert least < epsilon < np.inf


@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("shown", [0.0, 1e-7, 1e-6])
@pytest.mark.parametrize("each", [0.05, 0.5, 1.0])
def test_several_records_beside_names_that_may_be_shown(k, shown, each):
    """A count with geometric noise, and all of the table with a small probability."""
    events = (PureEvent(each), ThresholdEvent(shown))
    _, epsilon, delta = told(events, 1e-6, k)
    assert (epsilon < np.inf) and 1e-6 <= delta <= 1
    noise = np.exp(-each * np.abs(np.arange(-2000, 2001)))
    noise /= noise.sum()
    first, last = np.append(noise, np.zeros(k)), np.append(np.zeros(k), noise)
    exact = np.maximum(first - np.exp(epsilon) * last, 0).sum()
    assert shown + (1 - shown) * exact <= delta
    grown = sum(np.exp(1.07 * each * i) for i in range(k))
    assert epsilon <= 1.07 * k * each and delta <= max(1e-6, shown * grown)


def test_what_is_not_private_says_so_at_the_top():
    X = np.random.default_rng(0).uniform(size=(50, 2))
    private = DPLinearRegression(bounds=(-3, 3), target_bounds=(0, 1))
    pipeline = make_pipeline(StandardScaler(), private).fit(X, X[:, 0])
    text = deployment_card(pipeline).to_markdown()
    assert "NOT PRIVATE" in text.split("##")[0]
    record = deployment_card(pipeline).to_dict()
    validate(record, SCHEMA)
    assert "epsilon" not in record["deployment"]["privacy_loss"]["privacy_parameters"]
    assert "standardscaler" in " ".join(
        deployment_card(pipeline).answers("not_covered")
    )
    assert "NOT PRIVATE" in deployment_card(LinearRegression().fit(X, X)).to_markdown()


@pytest.mark.filterwarnings("ignore::fairpriv_sklearn.privacy.PrivacyLeakWarning")
def test_conditions_and_seeds_are_at_the_top():
    X = np.random.default_rng(0).uniform(size=(50, 2))
    read = DPLinearRegression(bounds=(0, 1)).fit(X, X[:, 0])
    text = deployment_card(read).to_markdown()
    assert "ONLY ON CONDITIONS" in text and "target_bounds" in text
    assert str(X[:, 0].max())[:8] not in text
    # with a seed nothing is promised, whatever the conditions
    for given in ({"target_bounds": (0, 1)}, {}):
        seeded = DPLinearRegression(bounds=(0, 1), random_state=0, **given)
        assert "FOR STUDY ONLY" in deployment_card(seeded.fit(X, X[:, 0])).to_markdown()


def test_the_alias(model):
    assert (
        privacy_report(model).to_card({"name": "x"}).to_markdown()
        == deployment_card(model, {"name": "x"}).to_markdown()
    )


@pytest.mark.parametrize(
    ("context", "error"),
    [
        ({"nmae": "x"}, ValueError),
        ([1], TypeError),
        ({"sector": "Circus"}, ValueError),
        ({"n_records": 0}, ValueError),
        ({"n_records": True}, ValueError),
        ({"records_per_person": 1.5}, ValueError),
        ({"publication_date": "tomorrow"}, ValueError),
        ({"ledger": 3}, TypeError),
        ({"audit": "fine"}, TypeError),
        ({"facts": "all"}, TypeError),
    ],
)
def test_a_wrong_context_is_named(model, context, error):
    with pytest.raises(error, match="context"):
        deployment_card(model, context)


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_relation_has_a_card(model, relation):
    guarantee = PrivacyGuarantee(1.0, 0.0, relation, "counts")
    report = replace(privacy_report(model), guarantee=guarantee)
    told, sizes = report.to_card().answers("neighbours")
    assert relation in told
    assert ("protected" in sizes) == (relation == "add_remove")


def of_guarantee(model, stated, context=None, **more):
    """The card of this model, as if it had stated that."""
    report = replace(privacy_report(model), guarantee=stated, **more)
    return report.to_card(context)


def test_parts_are_told_apart_in_words(model):
    noise, pure = GaussianEvent(0.25), PureEvent(0.5)
    declared, shown = DeclaredEvent(1.0, 1e-6), ThresholdEvent(1e-7)
    split, either = MaximumEvent([noise], [pure, noise]), EitherEvent([pure], [])
    stated = guarantee(noise, pure, declared, shown, split, either)
    card = of_guarantee(model, stated)
    parts = [line.answer for line in card.lines if line.item == "part"]
    words = ["Gaussian noise, mu = 0.25 together"]
    words += ["a purely private release, epsilon = 0.5", str(declared), str(shown)]
    words += [
        f"two phases on rows parted at random: {words[0]} | {words[1]}, {words[0]}",
        f"one of two, as a public number decides: {words[1]} | nothing",
    ]
    assert parts == words


def test_a_pure_promise_has_no_delta_and_no_exception(model):
    card = of_guarantee(model, guarantee(PureEvent(1.0), delta=0.0))
    assert card.answers("how_much")[1] == "0"
    belief = card.answers("attacker")[0]
    assert belief.startswith("At most 73.2 %: who held it")
    for delta, variant in ((0.0, "Pure DP"), (1e-5, "Approximate DP")):
        card = of_guarantee(model, guarantee(PureEvent(1.0), delta=delta))
        assert card.to_dict()["deployment"]["dp_variant"]["variant_name"] == variant
    assert "except with probability 2e-05" in card.answers("attacker")[0]
    assert card.answers("how_much")[1].startswith("1e-05; to be held against 1/n")


def test_what_promises_nothing_is_of_no_known_variant(model):
    stated = guarantee(GaussianEvent(1.0), uncovered=["a step"])
    card = of_guarantee(model, stated, {"records_per_person": 2})
    variant = card.to_dict()["deployment"]["dp_variant"]
    assert variant["variant_name"] == "Custom"
    assert variant["unprotected_quantities"].startswith("The number of records is pub")
    assert "a step" in variant["unprotected_quantities"]
    assert "no promise is made for a row" in card.answers("whom")[1]
    assert "<strong>NOT PRIVATE as a whole" in card.to_html()


def test_nothing_released_is_nothing_for_several_rows(model):
    stated = PrivacyGuarantee(0.0, 0.0, "replace_one", "nothing")
    answer = of_guarantee(model, stated, {"records_per_person": 3}).answers("whom")[1]
    assert "(epsilon = 0, delta = 0)" in answer


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_sizes_are_protected_has_a_colour(model, relation):
    stated = PrivacyGuarantee(1.0, 0.0, relation, "counts")
    (line,) = (x for x in of_guarantee(model, stated).lines if x.item == "sizes")
    assert line.status == ("private" if relation == "add_remove" else "public")


def test_noise_of_a_seed_is_said_where_there_is_one(model):
    for secure in (True, False):
        card = of_guarantee(model, guarantee(PureEvent(1.0), noise_is_secure=secure))
        seeds = [x.status for x in card.lines if "random_state" in x.answer]
        assert seeds == ["not covered"] * (not secure)
        (said,) = (x.answer for x in card.lines if x.item == "floating point")
        assert ("from a seed" in said) != ("from the operating system" in said)
        assert ("from a seed" in said) != secure


def test_a_statement_of_others_has_no_proof_here(model):
    stated = PrivacyGuarantee(1.0, 0.0, "replace_one", "theirs")
    proof = of_guarantee(model, stated).answers("evidence")[0]
    assert proof == "None of this library: the guarantee is somebody else's statement."


def test_an_audit_without_a_replay_says_nothing_of_one(model):
    seen = AuditReport("x", "x", 1.0, 0.0, n_fits=7, n_pairs=3, conclusive=True)
    said = deployment_card(model, {"audit": seen}).answers("evidence")[1]
    assert said == (
        "Not refuted by 7 fits to 3 pairs of neighbouring tables; epsilon is at least "
        "0 with confidence 0.999."
    )
    seen = replace(seen, violated=True, conclusive=False, confidence=0.99999999)
    said = deployment_card(model, {"audit": seen}).answers("evidence")[1]
    assert said.startswith("REFUTED by")
    assert said.endswith("with confidence 0.9999; not conclusive.")  # not 1


def test_a_step_says_what_is_assumed_and_what_to_do_if_anything_is(model):
    (step,) = privacy_report(model).steps
    steps = [
        step,
        replace(step, status="conditional", assumption="that x holds"),
        replace(step, status="uncovered", fix="Leave it out."),
        replace(step, status="public"),
    ]
    card = of_guarantee(model, model.privacy_, steps=tuple(steps))
    name = "DPLinearRegression"
    assert [(x.answer, x.status) for x in card.lines if x.item == "step"] == [
        (f"{name}: private.", "private"),
        (f"{name}: conditional. Assumed: that x holds.", "not covered"),
        (f"{name}: uncovered. Leave it out.", "not covered"),
        (f"{name}: public.", "public"),
    ]


def test_one_release_and_many(model):
    ledger = PrivacyLedger(5.0, 1e-4)
    ledger.spend(model.privacy_)
    about = {"ledger": ledger}, {"ledger": ledger, "releases": "One a year."}, {}
    one, told, unknown = (
        deployment_card(model, context).to_dict()["deployment"]["deployment_model"]
        for context in about
    )
    ledger.spend(model.privacy_)
    two = deployment_card(model, about[0]).to_dict()["deployment"]["deployment_model"]
    kinds = [each["release_type"] for each in (one, told, unknown, two)]
    assert kinds == ["One release", "Many releases", "One release", "Many releases"]
    assert told["release_type_details"] == "One a year."
    assert "1 release," in one["release_type_details"]
    assert "2 releases" in two["release_type_details"]
    assert "Not known." in unknown["release_type_details"]


@pytest.mark.parametrize(
    ("caveat", "told"),
    [
        ({}, ""),
        ({"uncovered": ("a", "b")}, " Left out, for nobody knows its cost: a, b."),
        ({"conditional_on": ("a",)}, " Only if these are public, or hold: a."),
        (
            {"noise_is_secure": False},
            " The noise of some was drawn from a seed: who knows it knows all.",
        ),
    ],
)
def test_what_a_total_of_releases_leaves_out_is_said(model, caveat, told):
    """It read as if all were paid for."""
    ledger, stated = PrivacyLedger(5.0), guarantee(PureEvent(0.5), delta=0.0)
    for n, spends in enumerate(("0 releases", "1 release", "2 releases")):
        card = deployment_card(model, {"ledger": ledger})
        (line,) = [line for line in card.lines if line.item == "all releases"]
        spent = f"(epsilon = {n / 2:g}, delta = 0) together."
        assert line.answer == (
            f"{spends}, this one included if it was charged: {spent}{told * (n > 1)}"
        )
        assert (line.status == "private") == (n < 2 or not told)
        ledger.spend(stated.qualified(**caveat) if n else stated)


def test_a_condition_is_said_beside_every_number_that_rests_on_it(model):
    stated = guarantee(GaussianEvent(1.0))
    on_condition = stated.qualified(conditional_on=("bounds",))
    for total in (stated, on_condition):
        card = of_guarantee(model, total, {"records_per_person": 2})
        rests = total is on_condition
        answers = [*card.answers("attacker"), card.answers("whom")[1]]
        assert ["if the conditions hold" in one for one in answers] == [rests] * 4
        items = [line.item for line in card.lines if line.question == "how_much"]
        assert ("epsilon if the conditions hold" in items) == rests
        assert card.answers("how_much")[rests] == "4.378"
    assert card.answers("how_much")[0] == "inf"


def test_what_a_model_makes_is_on_record():
    model = DPSinkhornGenerator(bounds=(0, 1), quality=False)
    model.fit(np.random.default_rng(0).uniform(size=(300, 1)))
    kinds = {None: "Synthetic data", "Dataset": "Dataset"}
    for given, kind in kinds.items():
        card = deployment_card(model, {"product_type": given})
        basic = card.to_dict()["deployment"]["basic"]
        assert basic["data_product_type"] == kind


def test_what_predicts_is_no_synthetic_data(model):
    basic = deployment_card(model).to_dict()["deployment"]["basic"]
    assert basic["data_product_type"] == "Machine learning model"


def test_a_card_and_its_record_round_up(model):
    stated = PrivacyGuarantee(1.0000011, 1.0000011e-5, "replace_one", "theirs")
    card = of_guarantee(model, stated, {"sector": "Energy"})
    assert card.answers("how_much")[0] == "1.001"
    small = guarantee(GaussianEvent(0.1), delta=1.00001e-5)
    of_person = of_guarantee(model, small, {"records_per_person": 2})
    assert "delta = 1.001e-05)" in of_person.answers("whom")[1]
    assert "with probability 2.001e-05:" in of_person.answers("attacker")[0]
    record = card.to_dict()["deployment"]
    numbers = record["privacy_loss"]["privacy_parameters"]
    assert numbers == {"epsilon": 1.00001, "delta": 1.00001e-5}
    assert record["basic"]["data_product_sector"] == "Energy"
    unknown = of_guarantee(model, stated).to_dict()["deployment"]["basic"]
    assert "data_product_sector" not in unknown


def test_names_in_the_record_are_lists_and_a_plain_slug(model):
    record = deployment_card(model, {"name": "[Ü] Demand!", "authors": "A. Clerk"})
    record = record.to_dict()
    assert record["url_slug"] == "demand"
    assert record["deployment"]["administrative"]["registry_authors"] == ["A. Clerk"]
    notes = record["deployment"]["administrative"]["notes"]
    assert "How long a fit" in notes and "Gaussian noise" not in notes


def test_no_other_question_is_on_the_list(model):
    with pytest.raises(ValueError, match="question must be one of"):
        deployment_card(model).answers("price")
