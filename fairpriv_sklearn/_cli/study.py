"""The main job: a plain model, a private one, and a private and fair one, compared."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from sklearn.base import RegressorMixin

from .._wall import PrivacyGuarantee, calibrate_gaussian, noise_source
from ..inspection import printable
from ..preprocessing import InputError, codebook_facts, needed_pandas
from .columns import codes_note, persons_note
from .encode import plain_numbers
from .learnt import (
    OTHER_GROUP,
    Learnt,
    drowned,
    encoded,
    expected_groups,
    learn,
    to_list,
    unfitted_encoders,
    without_rest,
)
from .models import (
    OF_A_FUNCTION,
    UNKNOWN,
    Measures,
    classification,
    regression,
    with_shares,
)
from .table import Table
from .words import number

TEST_SHARE = 0.25
FEW_TRAIN = 50  # what is learnt of smaller groups is mostly noise
FEW_TEST = 10  # rates of fewer test rows tell nothing
ROUGH_TEST = 100  # a share of fewer rows has a standard error of .05 and more
NEVER_WRONG = 0.01  # of the constant's error: what people do is not told so well
N_RESAMPLES, N_SHUFFLES = 50, 20  # standard errors within 10 %: seconds for many rows


@dataclass(frozen=True)
class Result:
    """One model on the test rows, with standard errors of the choice of these rows."""

    name: str
    error: float
    error_se: float
    gap: float
    gap_se: float
    gap_by_chance: float  # in the mean, if the same predictions fell on anybody
    n_predicted: int = 0  # different predictions on the test rows
    gap_is_seen: bool = False  # whether the test rows tell a gap from that of chance
    guarantee: PrivacyGuarantee | None = None

    @classmethod
    def measured(cls, measures, y, labels, seed, name, y_pred) -> Result:
        rng = np.random.default_rng(seed)
        groups = np.unique(labels.astype(str), return_inverse=True)[1]
        strata = np.zeros(len(y), dtype=int)
        if y.dtype.kind != "f":
            both = np.stack([y, y_pred]).astype(str)
            y, y_pred = np.unique(both, return_inverse=True)[1].reshape(both.shape)
            strata = y if measures.within_classes else strata
        n_predicted = len(np.unique(y_pred))

        def gap(rows, groups):
            if n_predicted == 1:
                return 0.0
            try:
                return measures.gap(y[rows], y_pred[rows], sensitive_features=groups)
            except ValueError:  # one group, or no class that two of them have
                return math.nan

        errors = []
        for _ in range(N_RESAMPLES):
            rows = _resampled(np.zeros_like(groups), rng)
            errors.append(measures.error(y[rows], y_pred[rows]))

        def gaps(among):
            """The gap among some groups, its standard error, and that of chance."""
            told = np.isin(labels.astype(str), among)
            drawn = []
            for _ in range(N_RESAMPLES):
                # No group, and no class of it that is compared, is lost on the way.
                rows = _resampled(groups * (strata.max() + 1) + strata, rng)
                rows = rows[told[rows]]
                drawn.append(gap(rows, groups[rows]))
            by_chance = [
                gap(told, _shuffled(groups[told], strata[told], rng))
                for _ in range(N_SHUFFLES)
            ]
            return gap(told, groups[told]), np.std(drawn), np.mean(by_chance)

        counted, large = (told_apart(labels, n) for n in (FEW_TEST, ROUGH_TEST))
        told = gaps(counted)
        # The chance of a small group hides what the others tell.
        both = [told] if large == counted else [told, gaps(large)]
        is_seen = any(one > chance + 2 * se for one, se, chance in both)
        return cls(
            name, float(measures.error(y, y_pred)), float(np.std(errors)),
            *map(float, told), n_predicted, is_seen,
        )  # fmt: skip

    @property
    def epsilon(self) -> float:
        """Epsilon, if the facts read from the data are public."""
        return math.inf if self.guarantee is None else self.guarantee.epsilon_if_public


@dataclass
class Study:
    """Everything the report shows; not private but for the guarantees."""

    title: str
    table: Table
    learnt: Learnt
    measures: Measures
    n_train: int
    n_test: int
    group_sizes: dict[str, tuple[int, int]]  # training rows and test rows
    results: list[Result]
    constant: Result  # the best constant prediction, for comparison
    predictions: list[np.ndarray]  # on the test rows, a model each
    test_labels: np.ndarray
    y_test: np.ndarray
    warnings: list[str] = field(default_factory=list)
    n_before: int = 0  # so many of the warnings were said before spending
    model: object = None  # the fitted private and fair model
    rows_per_person: int | None = None  # at most, if stated

    @property
    def rough(self) -> list[str]:
        """Groups of so few test rows that little can be said of them."""
        return [g for g, (_, n) in self.group_sizes.items() if n < ROUGH_TEST]

    @property
    def share_clipped(self) -> float:
        """Share of the targets outside the bounds."""
        if self.learnt.bounds is None:
            return 0.0
        low, high = self.learnt.bounds
        return float(np.mean((self.table.y < low) | (self.table.y > high)))

    def errs_more(self, one: int) -> bool:
        """Whether a model errs more than the private one, beyond chance."""
        losses = [self._losses(self.predictions[i]) for i in (one, 1)]
        more = losses[0] - losses[1]
        chance = 2 * np.std(more) / math.sqrt(len(more))
        clear = self.results[one].error > 1.02 * self.results[1].error
        return bool(clear and np.mean(more) > chance)

    def _losses(self, y_pred) -> np.ndarray:
        """A number for each test row."""
        if self.table.task == "regression":
            return (y_pred - self.y_test) ** 2
        return (y_pred.astype(str) != self.y_test.astype(str)).astype(float)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of the private and fair model."""
        return self.results[-1].guarantee


def told_apart(labels, at_least=FEW_TEST) -> list[str]:
    """Groups of enough test rows for the gaps; all, if fewer than two have them."""
    groups, sizes = np.unique(labels.astype(str), return_counts=True)
    enough = (groups[sizes >= least].tolist() for least in (at_least, FEW_TEST))
    return next((names for names in enough if len(names) > 1), groups.tolist())


def _resampled(cells, rng) -> np.ndarray:
    """As many rows of each cell as there are, drawn with replacement."""
    order = np.argsort(cells)
    sizes = np.bincount(cells)
    first, size = (np.cumsum(sizes) - sizes)[cells], sizes[cells]
    return order[first + (rng.random(len(cells)) * size).astype(int)]


def _shuffled(groups, strata, rng) -> np.ndarray:
    """The groups, dealt anew among the rows of each stratum."""
    dealt = np.empty_like(groups)
    dealt[np.argsort(strata)] = groups[np.lexsort((rng.random(len(groups)), strata))]
    return dealt


class Progress:
    """One line per model on the terminal, finished with the time it took."""

    def __init__(self, n_steps: int):
        self.n_steps, self.step = n_steps, 0

    def run(self, what: str, work: Callable):
        self.step += 1
        told = f"[{self.step}/{self.n_steps}] {what} ..."
        print(told, end="", file=sys.stderr, flush=True)
        start, ended = time.perf_counter(), ""
        try:
            with warnings.catch_warnings():
                # Base models warn of things that are no concern of the reader here.
                warnings.simplefilter("ignore")
                result = work()
            ended = f" {time.perf_counter() - start:.1f} s"
            return result
        except (ValueError, ArithmeticError) as error:
            said = " ".join(str(error).split())
        finally:
            print(ended, file=sys.stderr)
        raise InputError(f"The {what} model cannot be fitted: {said}")


def run_study(table: Table, args, title: str, say: Callable = lambda text: None):
    """Fit the three models on the training rows and measure them on the others."""
    needed_pandas()
    train, test = _split(table, args)
    task = regression if table.task == "regression" else classification
    encoders, shares = _unfitted(table, args, task, len(train))
    warned = before_spending(table, train, args, task, shares, encoders.get("lists"))
    for sentence in warned:
        say(sentence)

    progress = Progress(5)
    learnt = progress.run("columns", partial(learn, table, encoders, train))
    labels = learnt.labels
    if args.blind:
        learnt = without_rest(learnt, table, len(train))
    measures, models = task(table, learnt, args)
    told = table, learnt, models, shares, args
    predictions = _fit_models(*told, train, test, progress)
    best = _best_constant(table, train, len(test))
    measured = partial(
        Result.measured, measures, table.y[test], labels[test], args.seed
    )
    constant, *results = progress.run(
        "standard errors",
        lambda: list(map(measured, ("constant", *models), (best, *predictions))),
    )
    for i in (1, 2):
        told = statement(learnt, models[results[i].name], table, args)
        results[i] = replace(results[i], guarantee=told)
    sizes = {
        str(g): tuple(int(np.sum(labels[rows] == g)) for rows in (train, test))
        for g in dict.fromkeys([*learnt.groups, OTHER_GROUP])
    }
    study = Study(
        title, table, learnt, measures, len(train), len(test),
        {g: n for g, n in sizes.items() if any(n) or g != OTHER_GROUP},
        results, constant, predictions,
        labels[test], table.y[test],
        n_before=len(warned), model=models["private and fair"],
        rows_per_person=args.rows_per_person,
    )  # fmt: skip
    study.warnings = [*warned, *after_fitting(study)]
    return study


def _split(table: Table, args) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from, and rows to test on."""
    draws = noise_source(args.seed).public().bernoulli(len(table.y), TEST_SHARE)
    train, test = np.flatnonzero(~draws), np.flatnonzero(draws)
    if min(len(train), len(test)) < 2 or len(train) < 8:
        raise InputError(
            f"The table has too few rows, {len(table.y)}, to learn from and to test on."
        )
    if len(set(table.y[train].tolist())) < 2:
        raise InputError(
            f"Nearly all rows have the same {table.target!r}; there is nothing to "
            "learn."
        )
    return train, test


def _unfitted(table: Table, args, task, n_train: int) -> tuple:
    """Encoders and their shares, without the lists that would drown in noise."""
    listed, too_few = to_list(table), True
    while too_few:
        encoders = unfitted_encoders(table, args, listed)
        _, models = task(table, UNKNOWN, args)
        encoders, shares = with_shares(encoders, models, args, n_train)
        too_few = drowned(encoders.get("lists"), n_train)
        listed = {name: c for name, c in listed.items() if name not in too_few}
    return encoders, shares


def _fit_models(table, learnt: Learnt, models, shares, args, train, test, progress):
    """What each model predicts of the test rows, in the range of the target."""
    X = {"private": encoded(learnt.encoder, table.features)}
    X["private and fair"] = X["private"]
    X["plain"] = plain_numbers(table.features)
    predictions = []
    for name, model in models.items():
        # The plain and the private model know nothing of groups.
        model.set_params(**shares.get(name, {}))
        aware = name == "private and fair"
        groups = {"sensitive_features": learnt.labels[train]} if aware else {}
        fit = partial(model.fit, X[name][train], learnt.y[train], **groups)
        progress.run(name, fit)
        aware = aware and not args.blind
        groups = {"sensitive_features": learnt.labels[test]} if aware else {}
        y_pred = model.predict(X[name][test], **groups)
        if learnt.bounds is not None:
            y_pred = np.clip(y_pred, *learnt.bounds)
        predictions.append(y_pred)
    return predictions


def _best_constant(table, train, n_rows) -> np.ndarray:
    """The best constant prediction: the mean, or the most frequent class."""
    y = table.y
    if table.task == "regression":
        best = float(np.mean(y[train]))
    else:
        found, counts = np.unique(y[train].astype(str), return_counts=True)
        best = found[np.argmax(counts)]
    return np.full(n_rows, best, dtype=y.dtype)


def statement(learnt: Learnt, model, table: Table, args) -> PrivacyGuarantee:
    """Guarantee of the encoders and a model; conditional on what was read."""
    guarantee = _encoders_guarantee(learnt).compose(model.privacy_, delta=args.delta)
    facts = {"groups": (table.groups, "the groups of")}
    if table.task == "regression":
        facts["target_bounds"] = table.bounds, "the range of"
    else:
        facts["classes"] = table.classes, "the classes of"
    stated = []
    for text in guarantee.assumptions:
        if text == OF_A_FUNCTION:
            continue
        declared, fact = facts.get(text.partition("=")[0], (text, None))
        if fact and any(read.startswith(fact) for read in table.from_data):
            continue
        stated.append(f"{text} (released)" if declared is None else text)
    return replace(guarantee, assumptions=tuple(stated)).qualified(
        assumptions=table.assumed, conditional_on=table.from_data
    )


def _encoders_guarantee(learnt: Learnt) -> PrivacyGuarantee:
    """Of both encoders, said once: one releases what the other does, or more."""
    if learnt.lists is None:
        return learnt.encoder.privacy_
    parts = [learnt.encoder.privacy_, learnt.lists.privacy_]
    both = parts[0].compose(parts[1])
    (book,) = codebook_facts(learnt.encoder.codebook, *learnt.lists.codebook)
    others = [a for a in both.assumptions if not a.startswith("codebook=")]
    return replace(
        both,
        mechanism=max((one.mechanism for one in parts), key=len),
        assumptions=(str(book), *others),
    )


# --------------------------------------------------------------------------- sentences
def before_spending(table: Table, train, args, task, shares, lists) -> list[str]:
    """What can be said before any budget is spent."""
    names = table.groups or sorted(set(table.labels[train].tolist()))
    sizes = {str(g): int(np.sum(table.labels[train] == g)) for g in names}
    likely = expected_groups(lists, table, sizes, len(train))
    large = {group: size for group, size in likely.items() if size >= FEW_TRAIN}
    enough = large if len(large) > 1 else likely
    joined = likely != sizes and OTHER_GROUP in enough
    _, models = task(table, replace(UNKNOWN, groups=list(enough)), args)
    model = models["private and fair"]
    model.set_params(**shares["private and fair"])
    return [
        *_of_the_budget(args, len(table.y)),
        *_of_the_columns(table),
        *_of_small_groups(sizes),
        *_of_few_to_learn_from(model, len(train), args.blind),
        *_of_made_up_people(model, list(enough.values()), joined),
    ]


def _of_the_budget(args, n: int) -> Iterator[str]:
    if args.delta >= 1 / n:
        yield (
            f"delta = {args.delta:g} is not below 1 / n = {1 / n:.1g}: a mechanism "
            "that publishes a random person in full would be allowed; choose a smaller "
            "--delta."
        )
    if args.epsilon > 10:
        yield (
            f"epsilon = {args.epsilon:g} promises little: one person's record may make "
            f"an outcome exp({args.epsilon:g}) times as likely; below 3 is usual."
        )


def _of_the_columns(table: Table) -> Iterator[str]:
    yield from persons_note(table.features)
    numbers = {
        n: p.values for n, p in table.features.items() if p.column.kind == "number"
    }
    if table.task == "regression":
        numbers[table.target] = table.y
    yield from codes_note(numbers)
    yield from _spellings_note("Groups", table.labels)
    if table.task == "classification":
        yield from _spellings_note("Classes", table.y)


def _of_small_groups(sizes: dict[str, int]) -> Iterator[str]:
    small = [f"{group} ({size})" for group, size in sizes.items() if size < FEW_TRAIN]
    if small:
        yield (
            f"Groups with few training rows: {', '.join(small)}; what is said of them "
            "is mostly noise."
        )


def _of_few_to_learn_from(model, n_rows: int, blind: bool) -> Iterator[str]:
    few = _too_few_to_learn(model, n_rows)
    if few:
        without = " (without --blind it is more)" if blind else ""
        part = f"about {few:,} of the " if few < n_rows else "the "
        yield (
            f"The private and fair model learns from {part}"
            f"{n_rows:,} training rows{without}: so few for its epsilon that it "
            "will answer the same, or nearly, for everybody; more rows or a larger "
            "--epsilon help."
        )


def _of_made_up_people(model, group_sizes: list[int], joined) -> Iterator[str]:
    from ..model_selection import expected_error

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = expected_error(model, group_sizes=group_sizes, n_repeats=3)
    except (ValueError, TypeError, ArithmeticError):
        return  # nothing to rehearse: an empty group, another kind of model
    left, by_chance = expected.violation, expected.violation_without_noise
    if left > 0.1:
        by_noise = by_chance < 0.9 * left
        why = (
            f"remains, and {by_chance:.2f} without noise"
            if by_noise
            else "remains, with noise or without"
        )
        help_ = "fewer groups or a larger --epsilon" if by_noise else "or fewer groups"
        as_one = f", groups too small to be learnt as {OTHER_GROUP!r},"
        yield (
            f"The groups are small{' for this budget' * by_noise}: on made-up people "
            f"of the same numbers{as_one * joined} a gap of about "
            f"{left:.2f} {why}; more rows"
            f"{',' * by_noise} {help_} help."
        )


def _spellings_note(what: str, labels) -> list[str]:
    """What is to be said of labels that differ in capitals only, if there are any."""
    names = sorted(set(map(str, labels)))
    folded = [name.casefold() for name in names]
    alike = [
        printable(n) for n, f in zip(names, folded, strict=True) if folded.count(f) > 1
    ]
    if not alike:
        return []
    return [
        f"{what} that differ in capitals only are not the same here: "
        f"{', '.join(alike)}. Write them alike in the file if they are."
    ]


def in_words(note: str) -> str:
    """A note of a repair, with words for the group of those in no other one."""
    they = "those of no listed group"
    note = note.replace(f"the groups {[OTHER_GROUP]}", they)
    return note.replace(f", {OTHER_GROUP!r}]", f"] and {they}")


def _too_few_to_learn(fair, n_rows: int) -> int:
    """How many rows the model inside a repair has, if features tell it nothing, or 0.

    Public numbers: the rule by which it answers a constant.
    """
    inner = fair.estimator
    parted = fair.calibration_size + fair.group_size if fair.blind else 0.0
    n_inner = round((1 - parted) * n_rows)
    few = inner._has_few_records(n_inner)
    if isinstance(inner, RegressorMixin):
        mu = calibrate_gaussian(inner.epsilon, inner.delta)
        few = few or n_inner * mu < inner._signal_of_features
    return n_inner if few else 0


def _error(result: Result) -> str:
    """The error as the table has it."""
    return number(result.error, result.error_se).partition(" ")[0]


def after_fitting(study: Study) -> list[str]:
    """Plain sentences about results that are not what was hoped for."""
    parts = _of_the_repair, _of_the_gaps, _of_the_errors, _of_a_constant, _of_few_rows
    return [sentence for part in parts for sentence in part(study)]


def _of_the_repair(study: Study) -> Iterator[str]:
    for note in study.model.repair_notes_:
        if OTHER_GROUP in study.group_sizes:
            yield in_words(note)
        elif str([OTHER_GROUP]) not in note:  # it has nobody, as it should be
            yield note.replace(f", {OTHER_GROUP!r}]", "]")
    if study.share_clipped >= 0.001:
        yield (
            f"{study.share_clipped:.1%} of the values of {study.table.target} lie "
            "outside the bounds and count as the nearer one."
        )


def _stood_back(study: Study) -> bool:
    return any("stood back" in note for note in study.model.repair_notes_)


def _of_the_gaps(study: Study) -> Iterator[str]:
    _, private, fair = study.results
    stood_back = _stood_back(study)
    if private.gap > 0 and not (private.gap_is_seen or fair.gap_is_seen):
        yield (
            f"The gaps of the private ({number(private.gap)}) and the fair model "
            f"({number(fair.gap)}) are within two standard errors of what chance makes "
            f"on these test rows ({number(private.gap_by_chance)}): they do not show "
            "whether there was anything to repair."
        )
    elif fair.gap > 0 and fair.gap >= (1.1 if stood_back else 0.9) * private.gap:
        if stood_back:
            why = "it is not repaired, and is a fit of its own."
        elif private.n_predicted == 1:
            why = "that one answers the same for everybody."
        elif getattr(study.model, "blind", False):
            why = "the columns tell too little about the group for a blind repair."
        else:
            why = "noise and sampling are larger than what there was to repair."
        verb = "hardly treats" if fair.gap < private.gap else "does not treat"
        yield (
            f"The fair model {verb} the groups more alike than the private one (gap "
            f"{number(fair.gap)} against {number(private.gap)}): {why}"
        )


def _of_the_errors(study: Study) -> Iterator[str]:
    name = study.measures.error_name
    plain, private, fair = map(_error, study.results)
    if study.errs_more(2):
        why = (
            "The fair model learnt from less and is less accurate for it"
            if _stood_back(study)
            else "Fairness costs accuracy here"
        )
        yield (
            f"{why}: {name} {fair} of the fair model against {private} of the private "
            "one."
        )
    if study.errs_more(0):
        yield (
            f"The plain model errs more than the private one ({name} {plain} against "
            f"{private}), as it is linear in the numbers as they are; the private one "
            "tells ranges of them apart. That privacy costs nothing does not follow."
        )
    if study.results[0].error < NEVER_WRONG * study.constant.error:
        yield (
            f"The plain model is hardly ever wrong ({name} {plain} against "
            f"{_error(study.constant)} of a constant): a column may say what "
            f"{study.table.target} is; --drop leaves it out."
        )


def _of_a_constant(study: Study) -> Iterator[str]:
    for result in study.results:
        if result.n_predicted == 1:
            what = "class" if study.table.task == "classification" else "value"
            yield (
                f"The {result.name} model predicts one {what} for everybody; its gap "
                "of 0 is no sign of fairness."
            )
        elif result.error >= study.constant.error:
            yield (
                f"The {result.name} model is no better than a constant prediction "
                f"({study.measures.error_name} {_error(result)} against "
                f"{_error(study.constant)})."
            )


def _of_few_rows(study: Study) -> Iterator[str]:
    counted = told_apart(study.test_labels)
    few = [printable(g) for g in study.group_sizes if g not in counted]
    if few:
        yield (
            f"The gaps do not speak of {', '.join(few)}: fewer than {FEW_TEST} test "
            "rows."
        )
    rough = {g: study.group_sizes[g][1] for g in study.rough if g in counted}
    if rough:
        least = min(rough.values())
        is_gap = any(result.gap > 0 for result in study.results)
        gap = ", and the largest gap is mostly theirs" * is_gap
        yield (
            f"Few test rows: {', '.join(f'{printable(g)} ({rough[g]})' for g in rough)}"
            f"; a share of {least} has a standard error of up to "
            f"{0.5 / math.sqrt(least):.2f}{gap}."
        )
