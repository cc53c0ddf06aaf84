"""Repair of decisions: what `DP2DPClassifier` releases, and its rule made of it."""

from functools import partial

import numpy as np
from sklearn.frozen import FrozenEstimator

from .._door.labels import public_classes
from .._shared.rounded import round_up
from .._wall import CellCounts, Release, calibrate_gaussian
from . import _blind as blind
from . import _certificate as certificate
from . import _parity as parity
from ._histogram import smooth_estimate
from ._phases import refuse_other_labels
from ._queries import MarginCounts, SoftCounts
from ._repair import MetaRepair
from ._significance import (
    MAY_REMAIN,
    next_to_nobody,
    untold_cells,
    untold_groups,
    untold_message,
)

TOGETHER = "as all people together"
STOOD_BACK = {
    "none": (
        "The blind repair stood back: by its noisy certificate the groups do not "
        "clearly differ. They may by up to {}; more rows or a larger epsilon may "
        "tell."
    ),
    "apart": (
        "The blind repair stood back, and the groups are treated differently: by its "
        "noisy certificate they clearly differ, by up to {}, and not surely less "
        "with it. A stronger model of the groups, more rows or a larger epsilon may "
        "help."
    ),
    "constant": (
        "The blind repair stood back: by its noisy certificate a constant decision "
        "errs less, so one is made for everybody. Here X tells the outcome and the "
        "group by the same means, and parity costs more than it is worth."
    ),
}


DRAWN = (
    "By noisy counts of its decisions the groups still differ: some are drawn now, "
    "as few as parity needs, those next to another class first. Offsets alone do not "
    "reach parity where many people share a probability (one tree, the nearest "
    "neighbour) or, by true class, where groups' ROC curves differ."
)


COARSE = (
    "By noisy counts more than a tenth of a group have scores in one bin with its "
    "threshold: how many of them lie beyond it, and what gap that leaves, is not "
    "known. More bins (n_bins), or method='gradient', may help."
)
MANY_RATES = (
    f"More than {certificate.MOST_RATES} rates of groups are compared: no decisions "
    "are drawn to make them equal, where offsets alone do not."
)


STILL_DIFFER = (
    "By its noisy certificate the groups still differ after the blind repair. Offsets "
    "hardly move a classifier that is sure of everybody (one tree, the nearest "
    "neighbour): one whose probabilities differ from person to person reaches parity."
)
FEW_OF_CLASS = (
    "By noisy counts some groups have too few people of the true classes {} for their "
    "rates to be compared: there the groups may differ still. What is certified is of "
    "the other true classes."
)
DRAWN_BLIND = (
    "By its noisy certificate some decisions have to be drawn for the groups to differ "
    "less: offsets hardly move a classifier that is sure of everybody (one tree, the "
    "nearest neighbour)."
)


class DecisionRepair(MetaRepair):
    """Everything about `DP2DPClassifier` but its public face."""

    # --- the release -----------------------------------------------------------------

    @property
    def _by_labels(self) -> bool:
        """Whether rates are compared within a true class."""
        return self.constraint != "demographic_parity"

    def _resolved_method(self) -> str:
        """By arguments alone: the kind of the cost is known before a fit."""
        if self.blind:
            return "gradient"
        if self.method != "auto":
            return self.method
        # Regions of a simplex are coarse where bins of a line are not.
        listed = 0 if self.classes is None else np.size(self.classes)
        return "histogram" if self._by_labels and listed <= 2 else "gradient"

    def _spreads(self) -> bool:
        if hasattr(self, "rule_") or hasattr(self, "offsets_"):
            return hasattr(self, "rule_")  # whatever the parameters are by now
        return self._by_labels and self._resolved_method() == "histogram"

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if not isinstance(self.estimator, FrozenEstimator):  # else its target says so
            self._refuse_other_classes(self.classes)
        if self.blind and self.method == "histogram":
            raise ValueError(
                "A blind repair needs method='gradient' or 'auto': counts by score do "
                "not hold what the rule reads about the group."
            )

    def _refuse_target(self, X, y) -> None:
        super()._refuse_target(X, y)
        listed = self.classes
        if listed is None and y is not None:
            listed = np.unique(y).tolist()
        self._refuse_other_classes(listed)

    def _refuse_other_classes(self, listed) -> None:
        """Refuse a model whose labels are not those of a list, if there is one."""
        if listed is not None:
            listed = public_classes(listed).tolist()
            refuse_other_labels("estimator", self.estimator, listed)
            self._refuse_classes(len(listed))

    @property
    def _two_classes_only(self) -> bool:
        return self.method == "histogram" and not self._by_labels

    def _refuse_classes(self, n_classes: int) -> None:
        """Refuse more classes than the method serves."""
        if n_classes > 2 and self._two_classes_only:
            raise ValueError(
                "Only binary classification is supported by method='histogram' with "
                "constraint='demographic_parity': it needs two classes, got "
                f"{n_classes}; use method='gradient'."
            )

    def _check_method(self) -> None:
        """Refuse a method that cannot serve so many classes."""
        self._refuse_classes(len(self.classes_))
        n_rates = len(self.groups_) * len(self._compared())
        if self.blind and n_rates > blind.MOST_ERRORS:
            raise ValueError(
                f"A blind repair measures {blind.MOST_ERRORS} rates of groups at most, "
                f"not {n_rates}; constraint='demographic_parity' has fewer."
            )

    def _compared(self) -> list[tuple[int, int]]:
        """Pairs of a true class (or one) and a chosen one whose rate is compared."""
        rates = self._rates() if self._by_labels else None
        return blind.compared(rates, len(self.classes_))

    def _table_shape(self) -> tuple[int, int, int]:
        """Shape of one release: true classes (or one), groups, columns."""
        n_groups, n_classes = len(self.groups_), len(self.classes_)
        n_conditions = n_classes if self._by_labels else 1
        if self._resolved_method() == "gradient":
            return n_conditions, n_groups, n_classes
        return n_conditions, n_groups, parity.n_score_bins(n_classes, self._n_bins())

    def _n_bins(self) -> int:
        if hasattr(self, "_rule_bins"):
            return self._rule_bins
        if self.n_bins != "auto":
            return self.n_bins
        # Each cell of few rows spreads the same noise over its bins: fewer are safer.
        return 16 if self._by_labels and len(self.classes_) == 2 else 32

    def _plan(self) -> tuple[list[Release], float]:
        """What the calibration releases, and the delta it needs: public numbers."""
        n_coordinates = int(np.prod(self._table_shape()))
        if self._resolved_method() == "histogram":
            return [Release(CellCounts.name, "pure", self.epsilon, n_coordinates)], 0.0
        others = {"certificate": (certificate.SHARE, 2 * n_coordinates)}
        others = self._blind_releases() if self.blind else others
        shares, sizes = zip(*others.values(), strict=True)
        n_draws = self.max_iter * n_coordinates + sum(sizes)
        mu = calibrate_gaussian(self.epsilon, self.delta, n_draws=n_draws)
        mu_step = mu * ((1 - sum(shares)) / self.max_iter) ** 0.5
        steps = Release(
            SoftCounts.name, "gaussian", mu_step, n_coordinates, times=self.max_iter
        )
        lines = [
            Release(name, "gaussian", mu * share**0.5, size)
            for name, (share, size) in others.items()
        ]
        return [steps, *lines], self.delta

    def _calibrate(self, wall, rows, scores) -> None:
        """Release the sums or counts and compute the rule from them."""
        rows = rows.only("codes", "labels")
        shape, block = self._table_shape(), rows.whole()
        cells = self._cells(block)
        if self._resolved_method() == "histogram":
            bins = parity.score_bins(scores, self._n_bins())
            query = CellCounts(shape)
            counted = rows.with_columns(cells=cells * shape[2] + bins)
            self.counts_ = wall.release(query, counted)
            self._noise_variance = float(wall.mechanism_of(query).variance)
            self._n_public = rows.n_rows if self.neighboring == "replace_one" else None
            self._key = wall.noise.public().key(32)
            self.n_iter_ = 1
            self._solve()
            return
        of_margins = shape[0] == 1 and shape[2] == 2
        if of_margins:
            query = MarginCounts(shape[1], self.smoothing)
            n_margins = len(parity.margin_grid(self.smoothing))
            places = parity.margin_bins(scores, self.smoothing)
            scored = rows.with_columns(places=block.codes * n_margins + places)
            scored = scored.only("places")
        else:
            query = SoftCounts(*shape, self.smoothing)
            scored = rows.with_columns(scores=scores, groups=block.codes, cells=cells)
            scored = scored.only("scores", "groups", "cells")
        held = parity.n_held(self.max_iter, wall.scale(query))
        found = self._find_offsets(wall, query, scored, held=held)
        offsets = np.where(found.told[:, :, None], found.offsets, 0.0)
        if of_margins:
            offsets = parity.drawn_together(offsets[0])[None]
        self._publish_offsets(offsets)
        told = self._certify(wall, rows.with_columns(scores=scores, cells=cells))
        self._set_pooled(~found.told & ~told, "without a shift")

    def _certify(self, wall, rows) -> np.ndarray:
        """Count the decisions; draw some of them if the groups differ still.

        Returns whose decisions are drawn by their own rates, in all true classes: what
        those of a group of few are believed to be is drawn towards all people's.
        """
        n_conditions, n_groups, n_classes = self._table_shape()
        shape = n_conditions, n_groups, 2 * n_classes
        query = CellCounts(shape, name="certificate", norm="l2")
        block, self._rule_smoothing = rows.whole(), self.smoothing
        regions = self._regions(block.scores, block.codes)
        cells = block.cells * shape[2] + regions
        counts = wall.release(query, rows.only().with_columns(cells=cells))
        rates = self._compared()
        if len(rates) * n_groups > certificate.MOST_RATES:
            self._note(MANY_RATES)
        noise, tolerance = wall.scale(query), self.fairness_tolerance
        rule = certificate.drawn_decisions(counts, rates, noise, tolerance)
        if rule is None:
            return np.zeros((n_conditions, n_groups), dtype=bool)
        self.rule_ = rule
        self._group_weights = np.maximum(counts.sum(axis=(0, 2)), 1.0)
        self._key = wall.noise.public().key(32)
        self._note(DRAWN)
        known = certificate.smallest_sizes(counts, rates) > parity.DROWNED * noise
        return np.tile(known, (n_conditions, 1))

    def _regions(self, scores, codes) -> np.ndarray:
        """Where a randomised rule draws alike, row by row."""
        if self.blind:
            decisions = self._shifted(scores, codes).argmax(axis=1)
            return self._parts(decisions, codes, self.rule_.shape[1])
        if hasattr(self, "offsets_"):
            shifted = self._shifted(scores, codes).T
            return certificate.decision_regions(shifted, self._rule_smoothing)
        return parity.score_bins(scores, self._n_bins())

    def _cells(self, block) -> np.ndarray:
        """Group of each row; with its label, where rates are compared by label."""
        n_conditions, n_groups, _ = self._table_shape()
        if n_conditions == 1:
            return block.codes
        return block.labels * n_groups + block.codes

    def _find_offsets(self, wall, query, rows, rate=1.0, **limits):
        """Steps by noisy sums."""
        self.n_iter_ = self.max_iter
        return parity.fit_offsets(
            lambda offsets: wall.release(query, rows, offsets),
            steered=self._steered(),
            n_groups=len(self.groups_),
            noise_scale=wall.scale(query),
            max_iter=self.max_iter,
            learning_rate=self.learning_rate * rate,
            tolerance=self.fairness_tolerance,
            **limits,
        )

    def _publish_offsets(self, offsets) -> None:
        self.offsets_ = offsets[0] if len(offsets) == 1 else offsets.swapaxes(0, 1)

    def _set_pooled(self, pooled: np.ndarray, how: str) -> None:
        """Note, and say, which groups noise does not let be told from the rest.

        `pooled` by true class, or of all together, and group.
        """
        some, every = pooled.any(axis=0), pooled.all(axis=0)
        self.pooled_groups_ = self.groups_[some]
        if some.any():
            if (some & ~every).any():
                how += ", some of them in a part of the true classes only"
            untold = self.pooled_groups_.tolist()
            said = untold_message(untold, len(self.groups_))
            self._note(f"{said} They are decided for {how}.")

    def _blind_releases(self) -> dict:
        """Beside the steps: shares of the squared budget, and numbers of draws."""
        n_groups, n_classes = len(self.groups_), len(self.classes_)
        most = max(blind.RECALIBRATION_BINS, n_groups * (n_groups - 1))
        n_counts = n_groups * n_classes**2
        n_parts = n_groups * n_counts if n_classes > 2 else n_counts
        fixed = blind.RECALIBRATION_SHARE + blind.CERTIFICATE_SHARE
        found = {
            "recalibration": (blind.RECALIBRATION_SHARE, n_groups * most),
            "certificate": (blind.CERTIFICATE_SHARE, 2 * n_parts),
        }
        if self.reach_size > 0:
            share = (1 - fixed) * self.reach_size
            found["reach"] = share, blind.REACH_STEPS * n_counts
        return found

    def _calibrate_blind(self, wall, rows, scores) -> None:
        """Recalibrate the group model, find the offsets, certify, maybe stand back."""
        shares = self._group_shares(rows.only("X").whole().X, private=True)
        rows = rows.only("codes", "labels")
        groups = self._recalibrate(wall, rows, shares)
        rows = rows.with_columns(scores=scores, groups=groups)
        steps = self._find_blind_offsets(wall, rows)
        offsets, rates = steps.offsets, None
        if self._table_shape()[0] > 1:
            rates = self._rates()
        few = next_to_nobody(steps.people, steps.noise)
        n_regions = self._n_regions(wall, steps.people[~few])
        rules = [offsets, np.zeros_like(offsets)]
        tables, noise = self._tables_by(rules, wall, rows, "certificate", n_regions)
        known = [blind.are_known(one, rates, noise, sure=blind.PLAIN) for one in tables]
        equal = np.all(known, axis=0) | ~few
        tables = tables[:, equal]
        rates = blind.known_rates(tables, rates, noise)
        told = blind.told_by_steps(steps, rates, self.smoothing)
        told = tuple(of_groups[:, equal] for of_groups in told)
        measure = partial(blind.measure, rates=rates, noise_scale=noise)
        repaired, rule = measure(tables[0], told=told), None
        if n_regions > len(self.classes_):
            compared = blind.compared(rates, len(self.classes_))
            tolerance = self.fairness_tolerance
            shared = certificate.shared_rule(tables[0], rates, compared, tolerance)
            drawn = measure(tables[0], rule=shared)
            if drawn.interval[1] < repaired.disparity:
                repaired, rule = drawn, shared
        self._stand_back(tables, measure, repaired)
        self._leave_out(~equal, rates)
        if self.repair_ != "repaired":
            offsets, rule = np.zeros_like(offsets), None
        self._measured = None
        if self.reach_size > 0:
            told = repaired.told if self.repair_ == "repaired" else None
            reached = self._reached(offsets, wall, rows, equal, rates, told)
            self._measured = reached if rule is None else [*reached[:-1], repaired]
        self._publish_offsets(offsets)
        if rule is not None:
            self.rule_, self._group_weights = rule[None], np.ones(1)
            self._key = wall.noise.public().key(32)
            self._note(DRAWN_BLIND)

    def _find_blind_offsets(self, wall, rows):
        """Offsets that likelier groups share, and what the steps told on the way."""
        shape = self._table_shape()
        query = SoftCounts(*shape, self.smoothing)
        scored = rows.with_columns(cells=self._cells(rows.whole()))
        scored = scored.only("scores", "groups", "cells")
        faster = min(1 / max(self.group_strength_, 1e-9), blind.LARGEST_STEP)
        # By true class an offset moves a row by the class's probability: all together
        # they move it as far as one without.
        faster *= shape[0] / self._steered().any(axis=1).sum()
        largest = 1 + self.learning_rate * faster / 2
        return self._find_offsets(wall, query, scored, faster, largest=largest)

    def _tables_by(self, rules, wall, rows, name, n_regions):
        """Tables by group, class and region, one for each rule, and their noise."""
        block, shape = rows.whole(), (len(self.groups_), len(self.classes_), n_regions)
        cells = (block.codes * shape[1] + block.labels)[:, None] * n_regions
        regions = [
            self._parts(
                parity.shifted_scores(block.scores, block.groups, rule).argmax(axis=0),
                block.groups,
                n_regions,
            )
            for rule in rules
        ]
        query = CellCounts(shape, name=name, norm="l2", n_tables=len(rules))
        counted = rows.only().with_columns(cells=cells + np.column_stack(regions))
        return wall.release(query, counted), wall.scale(query)

    def _reached(self, offsets, wall, rows, equal, rates, told) -> list:
        """What parts of the offsets reach, from none of them to all."""
        parts = [part * offsets for part in np.linspace(0, 1, blind.REACH_STEPS)]
        tables, noise = self._tables_by(parts, wall, rows, "reach", len(self.classes_))
        measure = partial(blind.measure, rates=rates, noise_scale=noise)
        *others, last = tables[:, equal]
        return [*map(measure, others), measure(last, told=told)]

    def _n_regions(self, wall, people) -> int:
        """How many regions the certificate counts: a class, or one by likelier group.

        The second where noise is small beside `people`, noisy sizes of groups.
        """
        n_groups, n_classes = len(self.groups_), len(self.classes_)
        query = CellCounts((n_classes,), name="certificate", norm="l2", n_tables=2)
        noise = wall.scale(query) * n_classes * np.sqrt(n_groups)
        few_rates = n_groups * len(self._compared()) <= certificate.MOST_RATES
        large = people.min() > certificate.PARTED * noise
        parted = n_classes > 2 and few_rates and large
        return n_classes * n_groups if parted else n_classes

    def _parts(self, decisions, shares, n_regions) -> np.ndarray:
        """Region of each row: its decision, or that and its likelier group."""
        n_parts = n_regions // len(self.classes_)
        if n_parts == 1:
            return decisions
        return decisions * n_parts + self._recalibration.likelier(shares)

    def _recalibrate(self, wall, rows, shares) -> np.ndarray:
        """Shares of the groups as the table has them, by counts of the told ones."""
        n_groups, bins = len(self.groups_), blind.RECALIBRATION_BINS
        n_regions = parity.n_score_bins(n_groups, bins)
        query = CellCounts((n_groups, n_regions), name="recalibration", norm="l2")
        cells = rows.whole().codes * n_regions + parity.score_bins(shares, bins)
        table = wall.release(query, rows.with_columns(cells=cells))
        self._recalibration = blind.recalibrate(table, wall.scale(query))
        self.group_strength_ = self._recalibration.strength
        return self._recalibration(shares)

    def _stand_back(self, tables, measure, repaired) -> None:
        """Decide by the certificate which rule is used, and say it."""
        plain, strength = measure(tables[1]), self.group_strength_
        of_classes = np.maximum(tables.sum(axis=(0, 1, 3)), 0.0)
        self._constant = int(of_classes.argmax())
        constant_error = 1 - of_classes.max() / max(of_classes.sum(), 1.0)
        confidence = blind.asked_confidence(tables[1].sum(), strength)
        self.repair_ = blind.stand_back(
            repaired, plain, constant_error, strength, confidence
        )
        self.parity_interval_ = {
            "repaired": repaired.interval,
            "none": plain.interval,
            "constant": (0.0, 0.0),
        }[self.repair_]
        if self.repair_ != "repaired":
            is_apart = self.repair_ == "none" and plain.sure > confidence
            why = STOOD_BACK["apart" if is_apart else self.repair_]
            self._note(why.format(round_up(plain.interval[1], 2)))
        elif repaired.interval[0] > self.fairness_tolerance + certificate.HARMLESS:
            self._note(STILL_DIFFER)

    def _leave_out(self, few: np.ndarray, rates: list | None) -> None:
        """Note, and say, which groups and true classes a blind repair left out."""
        self.pooled_groups_ = self.groups_[few]
        if few.any() and self.repair_ == "repaired":
            said = untold_message(self.pooled_groups_.tolist(), len(self.groups_))
            self._note(f"{said} Decisions are made equal for the other groups alone.")
        if rates is not None and self.repair_ != "constant":
            unknown = {y for y, _ in self._rates()} - {y for y, _ in rates}
            if unknown:
                listed = self.classes_[sorted(unknown)].tolist()
                self._note(FEW_OF_CLASS.format(listed))

    def _steered(self) -> np.ndarray:
        """Which rates the groups must share: (true class or one, chosen class)."""
        n_conditions, _, n_classes = self._table_shape()
        if n_conditions == 1:
            return np.ones((1, n_classes), dtype=bool)
        steered = np.zeros((n_classes, n_classes), dtype=bool)
        steered[tuple(zip(*self._rates(), strict=True))] = True
        return steered

    def _rates(self) -> list[tuple[int, int]]:
        return parity.constrained_rates(self.constraint, len(self.classes_))

    def _solve(self) -> None:
        """Compute the rule from the noisy counts: free of privacy cost."""
        tolerance, variance = self.fairness_tolerance, self._noise_variance
        if self.constraint == "demographic_parity":
            (counts,) = self.counts_
            pooled = untold_groups(counts, variance)
            self._set_pooled(pooled[None], TOGETHER)
            pmfs, weights = smooth_estimate(
                counts, n=self._n_public, noise_variance=variance, pooled=pooled
            )
            thresholds, _ = parity.parity_thresholds(pmfs, weights, tolerance)
            within = parity.mass_at(thresholds, pmfs)[~pooled]
            if within.max(initial=0.0) > MAY_REMAIN:
                self._note(COARSE)
            # p_1 > threshold is p_1 - p_0 > 2 threshold - 1.
            self.offsets_ = np.column_stack([0.5 - thresholds, thresholds - 0.5])
            return
        n_classes = len(self.classes_)
        self._rule_bins = self._n_bins()
        defaults = parity.bin_classes(n_classes, self._rule_bins)
        pooled = untold_cells(self.counts_, variance, defaults)
        masses, weights = parity.estimate_cells(
            self.counts_, noise_variance=variance, ordered=n_classes == 2, pooled=pooled
        )
        self._group_weights = weights.sum(axis=1)
        self._set_pooled(pooled, TOGETHER)
        if pooled.all():  # nothing to repair: the wrapped classifier's own decision
            self.rule_ = np.tile(np.eye(n_classes)[defaults], (len(self.groups_), 1, 1))
            return
        tolerance = parity.told_tolerance(self.counts_, variance, tolerance)
        self.rule_ = parity.randomised_rule(
            masses, weights, self._rates(), tolerance, defaults
        )
        alike = pooled.all(axis=0)
        if alike.any():  # one rule for them, whatever the tolerance allows
            self.rule_[alike] = self.rule_[alike].mean(axis=0)
