# ruff: noqa: E501
"""Mutants of `mutants.py` that no rule makes: (number, module, old, new, in words).

Those called m.. are the forty-two of the first audit of this library, where today's
code still has the line; `NO_MEANING` says what became of the others. Those called h..
were written for today's code.
"""

NO_MEANING = {
    "m06": "an ambient switch made randomised models pure: purity is a property of "
    "the object now, h01 and h02 change that",
    "m36": "facts are objects, no wording is parsed",
    "m41": "the same switch in searches; h03 changes what took its place",
}

_FILTER = "_wall/_filter.py"
_PLAN = "_wall/_plan.py"
_ROWS = "_wall/_rows.py"
_POST = "postprocessing/_queries.py"
_PHASES = "postprocessing/_phases.py"
_MECHANISMS = "mechanisms.py"
_SENSITIVITY = "_shared/sensitivity.py"
_PENALTY = "_training/_penalty.py"
_OUTPUT = "linear_model/_output_perturbation.py"
_LINEAR = "linear_model/_queries.py"
_STEPS = "linear_model/_gradient_plan.py"
_OBJECTIVE = "neural_network/_objective.py"
_NETWORK = "neural_network/_base.py"
_SEMIDUAL = "generative/_semidual.py"
_TARGET = "_training/_target.py"
_TABLES = "generative/_tables.py"
_LOSS = "accounting/_privacy_loss.py"
_COMPOSE = "accounting/_composition.py"
_LEDGER = "privacy/_composition.py"

MUTANTS = [
    (
        "m01",
        _POST,
        """    def sensitivity(self, neighboring):
        return counts_l2(neighboring)

    def of_block(self, block, state):
        n_cells""",
        """    def sensitivity(self, neighboring):
        return counts_l2("add_remove")

    def of_block(self, block, state):
        n_cells""",
        "DP2DP gradient: replace-one sensitivity sqrt 2 -> 1",
    ),
    (
        "m02",
        "postprocessing/_decisions.py",
        "mu_step = mu / self.max_iter**0.5",
        "mu_step = mu",
        "DP2DP: each of T releases spends the whole mu",
    ),
    (
        "m03",
        _SENSITIVITY,
        "return rows_changed(neighboring) * n_tables\n",
        "return n_tables\n",
        "barycenter: replace-one sensitivity 2 -> 1",
    ),
    (
        "m04",
        _POST,
        "return counts_l1(neighboring, n_tables=len(self.scales))",
        "return counts_l1(neighboring)",
        "barycenter: columns do not share epsilon",
    ),
    (
        "m05",
        _PHASES,
        "total = total.compose(model.cost)",
        "total = total.disjoint(model.cost)",
        "frozen base: the maximum instead of the sum",
    ),
    (
        "m07",
        _PHASES,
        '    if meta.neighboring == "replace_one":\n        return call',
        "    if True:\n        return call",
        "add/remove: scores in one call, not in blocks of one size",
    ),
    (
        "m08",
        _FILTER,
        "((line.left, heads), (line.right, ~heads))",
        "((line.left, heads), (line.right, np.ones_like(heads)))",
        "split: the right branch reads all rows, the cost is still the maximum",
    ),
    (
        "m09",
        _MECHANISMS,
        "inflated = self.sensitivity + self.grid * math.sqrt(self.n_coordinates)",
        "inflated = self.sensitivity",
        "Gaussian: rounding to the grid is not paid",
    ),
    (
        "m10",
        _MECHANISMS,
        "np.rint(z * (self.scale / self.grid))",
        "np.rint(z * (0.9 * self.scale / self.grid))",
        "Gaussian: a tenth too little noise",
    ),
    (
        "m11",
        _MECHANISMS,
        "return math.ceil(exact * (1 << shift)), shift",
        "return math.floor(exact * (1 << shift)), shift",
        "discrete Laplace: scale rounded down",
    ),
    (
        "m12",
        _PENALTY,
        "pull = 2 / n_groups * 4 * slope",
        "pull = 2 / n_groups * 2 * slope",
        "penalty: sensitivity halved",
    ),
    (
        "m13",
        _PENALTY,
        'strata[0], strata[1] if neighboring == "replace_one" else 0.0',
        "strata[0], 0.0",
        "replace-one: the stratum entered is not counted",
    ),
    (
        "m14",
        "_training/_counts.py",
        "return counts_l2(neighboring)",
        "return 1.0",
        "noisy group sizes: sensitivity 1 under replace-one",
    ),
    (
        "m15",
        _STEPS,
        "        mu *= math.sqrt(1 - COUNT_SHARE**2)\n",
        "",
        "gradients spend all of mu although counts spent a part",
    ),
    (
        "m16",
        "linear_model/_minimiser.py",
        'n_changed = 2 if neighboring == "replace_one" else 1',
        "n_changed = 1",
        "output perturbation: 2 L -> L",
    ),
    (
        "m17",
        _OUTPUT,
        "            mu *= math.sqrt(1 - share)\n",
        "",
        "output perturbation: the counts are not paid",
    ),
    (
        "h140",
        "linear_model/_wasserstein_logistic.py",
        "                beside=beside,\n",
        "",
        "batches: counts of all records are not paid",
    ),
    (
        "h141",
        "accounting/_composition.py",
        "others = (GaussianEvent(beside),) if beside else ()",
        "others = ()",
        "sampled releases are calibrated as if nothing were beside them",
    ),
    (
        "h142",
        "accounting/_composition.py",
        "full_batch = math.sqrt(steps / ((mu - beside) * (mu + beside)))",
        "full_batch = math.sqrt(steps) / mu",
        "sampled releases: the least noise of full batches forgets what is beside",
    ),
    (
        "h137",
        _NETWORK,
        "            mu_constant = _left(mu, spent)\n",
        "            mu_constant = mu\n",
        "networks: counts before a constant are not paid",
    ),
    (
        "h138",
        _NETWORK,
        "n_steps = 0 if scales_targets and not tells else self.max_iter",
        "n_steps = self.max_iter",
        "networks: gradients drown in the noise of wide ranges",
    ),
    (
        "h139",
        _NETWORK,
        "if counts.n_bins == TARGET_BINS:  # fewer are for a constant",
        "if True:",
        "networks: the range of a constant is wider than it has to be",
    ),
    (
        "h134",
        _OUTPUT,
        "wall.release(query, rows), n_outputs\n",
        "wall.release(query, rows), 0\n",
        "output perturbation: one class tells what noise does",
    ),
    (
        "h135",
        _OUTPUT,
        "STANDS_OUT = 2.0",
        "STANDS_OUT = -9.0",
        "output perturbation: slopes are kept whatever their noise",
    ),
    (
        "h136",
        _OUTPUT,
        "told = asked_again(wall, rows, counts, [line], told=told)",
        "pass",
        "output perturbation: what slopes would have cost is lost",
    ),
    (
        "m18",
        "linear_model/_moments.py",
        "return math.sqrt(square + 1) * (1 + ROUNDING)",
        "return math.sqrt(square) * (1 + ROUNDING)",
        "moments: the coordinate of the count forgotten",
    ),
    (
        "m19",
        _OBJECTIVE,
        "mass = 4.0 * fairness_weight",
        "mass = 2.0 * fairness_weight",
        "networks: penalty sensitivity halved",
    ),
    (
        "m20",
        _OBJECTIVE,
        "factors = (1 - CLIP_SLACK) * bound / np.maximum(norms, bound)",
        "factors = bound / np.maximum(norms, 0.9 * bound)",
        "networks: gradients clipped a tenth too loosely",
    ),
    (
        "m21",
        _FILTER,
        "return GaussianMechanism(sensitivity, line.parameter, query.n_coordinates)",
        "return GaussianMechanism(\n"
        "            sensitivity, 1.05 * line.parameter, query.n_coordinates\n        )",
        "every Gaussian release spends 5 % more than planned",
    ),
    (
        "m22",
        _SEMIDUAL,
        '''        return sqrt(2 * rows_changed(neighboring))

    def of_block(self, block, state):
        """Integers in units of UNIT."""''',
        '''        return sqrt(rows_changed(neighboring))

    def of_block(self, block, state):
        """Integers in units of UNIT."""''',
        "class means: 2 -> sqrt 2",
    ),
    (
        "m23",
        _SEMIDUAL,
        "mu * sqrt(share / n)",
        "mu * sqrt(share)",
        "semi-dual: every step spends the share of all steps",
    ),
    (
        "m24",
        _TABLES,
        "mu_step = mu * sqrt((1 - self.table_share) / self.n_steps)",
        "mu_step = mu * sqrt(1 - self.table_share)",
        "tables: every step spends the share of all steps",
    ),
    (
        "m25",
        "generative/_sliced.py",
        "shares=(MEAN_SHARE, 1 - MEAN_SHARE - share, 0.0)",
        "shares=(MEAN_SHARE, 1 - MEAN_SHARE, 0.0)",
        "sliced histograms: shares add up to more than one",
    ),
    (
        "m26",
        "generative/_slices.py",
        "return counts_l2(neighboring, self.plan.n_projections)",
        'return counts_l2("add_remove", self.plan.n_projections)',
        "slices: sqrt(2 K) -> sqrt(K)",
    ),
    (
        "m27",
        "generative/_network_training.py",
        "return 2 * self.plan.clip",
        "return self.plan.clip",
        "published network: 2 c -> c",
    ),
    (
        "m28",
        "model_selection/_scoring.py",
        "return math.sqrt(n_scores + 2.0 * (self.table is not None))",
        "return math.sqrt(n_scores + 1.0 * (self.table is not None))",
        "scores: sensitivity of the table",
    ),
    (
        "m29",
        "model_selection/_search.py",
        "train, test = np.flatnonzero(~holdout), np.flatnonzero(holdout)",
        "train, test = np.arange(task.n_rows), np.flatnonzero(holdout)",
        "search: candidates are trained on the holdout too",
    ),
    (
        "m30",
        "model_selection/_plan.py",
        "        score_mu /= math.sqrt(n_candidates)\n",
        "",
        "compose: the score of every candidate spends the whole mu",
    ),
    (
        "m31",
        "_wall/_query.py",
        "return counts_l1(neighboring, self.n_tables)",
        "return self.n_tables",
        "counts of cells (dp_group_rates): sensitivity 2 -> 1",
    ),
    (
        "m32",
        _LEDGER,
        "RELATIVE_SLACK = 1e-9",
        "RELATIVE_SLACK = 1e-3",
        "ledger: a slack of a thousandth at the cap",
    ),
    (
        "m33",
        "accounting/_loss_grid.py",
        "        backward = remove\n",
        "        pass\n",
        "sampling, replace-one: the wrong branch",
    ),
    (
        "m34",
        "accounting/_gaussian.py",
        "    ideal_epsilon, log_delta = without_sampler_error(epsilon, delta, n_draws)\n"
        "    if ideal",
        "    ideal_epsilon, log_delta = epsilon, math.log(delta)\n    if ideal",
        "calibration: the sampler's error is not paid",
    ),
    (
        "m35",
        _COMPOSE,
        "choices = _undominated(_options(split.left) + _options(split.right))",
        "choices = _undominated(_options(split.left))",
        "a maximum reads one side only",
    ),
    (
        "m37",
        _FILTER,
        "    wall.reserve()\n",
        "    wall._reserved = True\n",
        "a fit never charges the ledger",
    ),
    (
        "m38",
        "postprocessing/_histogram.py",
        "steps = 2 * quantize_scores(scores, bounds) + 1",
        "steps = 2 * quantize_scores(scores, bounds)",
        "edges of bins",
    ),
    (
        "m39",
        "_training/_design.py",
        "np.divide(bound * (1 - 1e-9), sizes, out=factors, where=sizes > bound)",
        "np.divide(bound * (1 + 1e-6), sizes, out=factors, where=sizes > bound)",
        "rows are shortened to a millionth above the bound",
    ),
    (
        "m40",
        "model_selection/_candidates.py",
        'size = n_rows if neighboring == "replace_one" else BLOCK_ROWS',
        "size = n_rows",
        "search, add/remove: predictions in one call",
    ),
    (
        "m42",
        "generative/_sliced_gradient.py",
        "classes = counts_l2(neighboring) if several else 1.0",
        "classes = 1.0",
        "sliced gradients: sqrt 2 for replace-one dropped",
    ),
    # --- for today's code -------------------------------------------------------------
    (
        "h01",
        _PHASES,
        "        estimator = pure_clone(self.given)\n",
        '        estimator = __import__("sklearn").base.clone(self.given)\n',
        "the wrapped model of a repair may spread identical rows",
    ),
    (
        "h02",
        "_shared/purity.py",
        "            setattr(part, _SHARES, True)\n",
        "            pass\n",
        "a pure clone spreads identical rows",
    ),
    (
        "h03",
        "model_selection/_candidates.py",
        "    chosen = pure_clone(chosen)\n",
        "",
        "candidates of a search may spread identical rows",
    ),
    (
        "h04",
        _FILTER,
        "            self._spend()\n        elif",
        "            pass\n        elif",
        "no fit charges the ledger",
    ),
    (
        "h05",
        _FILTER,
        """        self._check_reader(rows)
        refuse_many_rows(rows.n_rows, query.max_rows)
        if line.sampling""",
        """        refuse_many_rows(rows.n_rows, query.max_rows)
        if line.sampling""",
        "a release does not ask whose rows it reads",
    ),
    (
        "h06",
        _FILTER,
        "        rows._reader = _NOBODY\n",
        "",
        "after a split the parent's rows can still be read",
    ),
    (
        "h07",
        _FILTER,
        "        self._left[name] -= 1\n",
        "",
        "a release can be repeated without end",
    ),
    (
        "h08",
        _FILTER,
        "        self._check_done()\n        return replace",
        "        return replace",
        "part of the plan may be left out in silence",
    ),
    (
        "h09",
        _PLAN,
        "return (PureEvent(self.parameter * self.times),)",
        "return (PureEvent(self.parameter),)",
        "pure releases: the cost of one for all",
    ),
    (
        "h10",
        _PLAN,
        "return (GaussianEvent(self.parameter * math.sqrt(self.times), self.n_draws),)",
        "return (GaussianEvent(self.parameter, self.n_draws),)",
        "Gaussian releases: the cost of one for all",
    ),
    (
        "h11",
        _PLAN,
        "return (MaximumEvent(*sides),)",
        "return next(sides)",
        "a split costs its left side",
    ),
    (
        "h12",
        _PLAN,
        "return (*super().events(neighboring), *shown)",
        "return super().events(neighboring)",
        "the delta of unlisted keys is not stated",
    ),
    (
        "h13",
        _PLAN,
        'poisson = how == "poisson" and neighboring == "add_remove"',
        'poisson = how == "poisson"',
        "replace-one on Poisson samples: the curve of add/remove",
    ),
    (
        "h14",
        _PLAN,
        "return self.n_coordinates * self.times",
        "return 0",
        "no release pays for the error of its draws",
    ),
    (
        "h15",
        _FILTER,
        "        if query.n_coordinates > line.n_coordinates:\n"
        '            raise PlanError(f"{line.name!r} releases more numbers than planned.")'
        "\n        return mechanism",
        "        return mechanism",
        "a release may have more numbers than planned",
    ),
    (
        "h16",
        _FILTER,
        "            _check_sample(line.name, line.sampling, rows._sampled)\n",
        "            pass\n",
        "what is paid for on a sample may read the whole table",
    ),
    (
        "h17",
        _FILTER,
        "return keyed_draws(self.noise.key(32), n_rows, p)",
        "return keyed_draws(bytes(32), n_rows, p)",
        "the draws of every split are the same",
    ),
    (
        "h18",
        _ROWS,
        'raise TypeError("Private rows are neither pickled nor copied.")',
        "return (Rows, (self.n_rows,))",
        "private rows can be pickled",
    ),
    (
        "h19",
        _FILTER,
        "        for branch in self._branches:\n            branch._check_done()\n",
        "",
        "a branch may leave out part of its plan in silence",
    ),
    (
        "h20",
        _FILTER,
        "shown = [[*key, count] for key, count in pairs if count >= threshold]",
        "shown = [[*key, count] for key, count in pairs if count >= threshold / 2]",
        "unlisted keys are shown at half the threshold",
    ),
    (
        "h21",
        _FILTER,
        '        monotonic = self.neighboring == "add_remove"\n',
        "        monotonic = True\n",
        "permute-and-flip under replace-one: half the noise",
    ),
    (
        "h22",
        _MECHANISMS,
        "            factor /= 2\n",
        "            pass\n",
        "permute-and-flip: the 2 of the exponent dropped",
    ),
    (
        "h23",
        _MECHANISMS,
        "        if not 0.0 <= p <= 1.0:\n"
        '            raise ValueError(f"p must be in [0, 1], got {p!r}.")\n'
        "        if p == 1.0:\n"
        "            return np.ones(size, dtype=bool)\n"
        "        return self.uint64(size) <",
        "        if p == 1.0:\n"
        "            return np.ones(size, dtype=bool)\n"
        "        return self.uint64(size) <=",
        "a sampling rate is passed by 2**-64, and not checked",
    ),
    (
        "h24",
        _MECHANISMS,
        "return 1.0 + self.grid + self.scale * quantile",
        "return self.scale * quantile",
        "unlisted keys: the record's own count is not in the threshold",
    ),
    (
        "h25",
        _MECHANISMS,
        "math.log(-math.expm1(math.log1p(-delta) / n_columns))",
        "math.log(-math.expm1(math.log1p(-delta)))",
        "unlisted keys: columns do not share delta",
    ),
    (
        "h27",
        _LOSS,
        "            failure = -math.expm1(count * math.log1p(-failure))\n",
        "            pass\n",
        "n copies fail as often as one",
    ),
    (
        "h28",
        _LOSS,
        "        math.hypot(*mus),\n",
        "        max(mus, default=0.0),\n",
        "Gaussians compose to the largest",
    ),
    (
        "h29",
        _LOSS,
        "        _any_fails([one.failure for one in several if one.failure > 0.0]),\n",
        "        max(one.failure for one in several) if several else 0.0,\n",
        "declared deltas compose to the largest",
    ),
    (
        "h30",
        _LEDGER,
        "itertools.combinations_with_replacement(sides, count)",
        "itertools.combinations_with_replacement(sides[1:], count)",
        "ledger: that a record is on the first side of a split is left out",
    ),
    (
        "h31",
        _LEDGER,
        "        pures[i : i + 2] = [(pures[i + 1][0], pures[i][1] + pures[i + 1][1])]\n",
        "        pures[i : i + 2] = [(pures[i][0], pures[i][1] + pures[i + 1][1])]\n",
        "ledger: what is merged is taken for the cheaper",
    ),
    (
        "h32",
        _STEPS,
        '        lines.append(Release(TargetCounts.name, "gaussian", share, n_bins))\n'
        "        mu *= math.sqrt(1 - TARGET_SHARE)\n",
        '        lines.append(Release(TargetCounts.name, "gaussian", share, n_bins))\n',
        "regression: the counts of the target are not paid",
    ),
    (
        "h33",
        _STEPS,
        "        mu *= math.sqrt(1 - MOMENT_SHARE)\n",
        "",
        "linear models: the second moments are not paid",
    ),
    (
        "h34",
        _STEPS,
        "    step = mu * math.sqrt((1 - share) / n_steps)\n",
        "    step = mu * math.sqrt(1 - share)\n",
        "linear models: every step spends the whole mu",
    ),
    (
        "h35",
        _NETWORK,
        "mu_step = _left(mu, math.hypot(spent, mu_constant)) / math.sqrt(n_steps)",
        "mu_step = mu / math.sqrt(n_steps)",
        "networks: counts and constant are not paid",
    ),
    (
        "h36",
        _LINEAR,
        "np.clip(second, -(2.0**BITS), 2.0**BITS, out=second)\n",
        "np.clip(second, -(4.0**BITS), 4.0**BITS, out=second)\n",
        "fair gradient: coefficients are not cut off",
    ),
    (
        "h37",
        _LINEAR,
        "return np.clip(residuals, -self.largest, self.largest, out=residuals)\n",
        "return residuals\n",
        "regression: residuals are not cut off",
    ),
    (
        "h38",
        _SEMIDUAL,
        "return encode_rows(z - means[block.codes], self.plan.clip)",
        "return encode_rows(z - means[block.codes], self.plan.clip / 2)",
        "generators: records are clipped to half, and count double",
    ),
    (
        "h39",
        "generative/_exact.py",
        "    return np.trunc(V, out=V)\n",
        "    return np.ceil(V, out=V)\n",
        "generators: codes of a record are rounded outwards",
    ),
    (
        "h40",
        "generative/_pairs.py",
        "return counts_l2(neighboring, sum(w * w for w in weights))",
        "return counts_l2(neighboring, len(weights))",
        "pairs: a record counts more than once in a table and is paid as if once",
    ),
    (
        "h41",
        "generative/_pairs.py",
        "rest = 1 - sum(part for part, _ in shares.values() if part < 1)",
        "rest = 1",
        "pairs: shares add up to more than one",
    ),
    (
        "h42",
        "generative/_raw.py",
        "        return sqrt(self.n_coordinates)\n",
        "        return 1.0\n",
        "raw tables: columns do not share the noise",
    ),
    (
        "h43",
        "preprocessing/_counting.py",
        "return counts_l2(neighboring, max(1, len(self.columns)))",
        "return counts_l2(neighboring)",
        "encoder: columns do not share the noise",
    ),
    (
        "h44",
        "preprocessing/_table_encoder.py",
        "mu_second = mu * math.sqrt(rest)",
        "mu_second = mu",
        "encoder: the last release spends all",
    ),
    (
        "h45",
        "preprocessing/_table_encoder.py",
        "self.epsilon, self.delta, n_draws=n_draws, failure=delta",
        "self.epsilon, self.delta, n_draws=n_draws",
        "encoder: the delta of unlisted categories is spent twice",
    ),
    (
        "h46",
        "postprocessing/_number_repair.py",
        "left = 1 - sum(share for _, share, _ in others)",
        "left = 1",
        "repair of numbers: only the counts of scores are paid",
    ),
    (
        "h63",
        "postprocessing/_number_repair.py",
        "(name, (1 - reach) * share, n)",
        "(name, share, n)",
        "blind numbers: the table for reach is not paid",
    ),
    (
        "h64",
        "postprocessing/_number_repair.py",
        'parts.append(("reach", reach, ',
        'parts.append(("reach", 1.0, ',
        "blind numbers: the table for reach spends all",
    ),
    (
        "h47",
        "postprocessing/_decisions.py",
        "steps = (1 - fixed) * (1 - self.reach_size)",
        "steps = 1",
        "DP2DP, blind: recalibration and certificate are not paid",
    ),
    (
        "h65",
        "postprocessing/_decisions.py",
        "mu_step = mu * (steps / self.max_iter) ** 0.5",
        "mu_step = mu * steps**0.5",
        "DP2DP, blind: each of T releases spends the share of all",
    ),
    (
        "h48",
        "model_selection/_plan.py",
        "    score_mu = math.sqrt(score_fraction) * mu\n",
        "    score_mu = mu\n",
        "cross-validation: scores spend all",
    ),
    (
        "h49",
        "linear_model/_wasserstein_logistic.py",
        "        return Sizes(1 / self.weights().max(), min_sizes)\n",
        "        return Sizes(float(self.drawn.sum()), min_sizes)\n",
        "batches: the heaviest record is taken for the mean one",
    ),
    (
        "h50",
        "_shared/guarded.py",
        "        except BaseException as error:\n",
        "        except ZeroDivisionError as error:\n",
        "errors of wrapped models come through",
    ),
    (
        "h51",
        "privacy/_with_budget.py",
        "_ROOM = 2.25",
        "_ROOM = 1.0",
        "budgets: no room for steps that make fewer draws",
    ),
    (
        "h52",
        "generative/_points.py",
        "RANK = 24",
        "RANK = 12",
        "points lie in half of the dimensions",
    ),
    (
        "h53",
        "generative/_points.py",
        "PRIORS = ((1.2, 0.8), (0.5, 0.6))",
        "PRIORS = ((12.0, 8.0), (5.0, 6.0))",
        "priors ten times as wide",
    ),
    (
        "h54",
        "generative/_points.py",
        "SPREADS = 0.3, 3.0",
        "SPREADS = 1.0, 1.0",
        "all columns depend on the others alike",
    ),
    (
        "h55",
        "generative/_pairs.py",
        "WITHIN = 3",
        "WITHIN = 1",
        "numbers depend on each other within points as much as between them",
    ),
    (
        "h56",
        "postprocessing/_blind_numbers.py",
        "WITHIN = 16",
        "WITHIN = 1",
        "predictions of a bin are all in its middle",
    ),
    (
        "h57",
        "postprocessing/_blind_numbers.py",
        "SELDOM = 0.0025",
        "SELDOM = 0.005",
        "the interval of a distance ends sooner",
    ),
    (
        "h58",
        _LINEAR,
        "np.clip(scores, -self.bounds, self.bounds) / self.bounds",
        "scores / self.bounds",
        "line search: scores are not cut off as weights",
    ),
    (
        "h59",
        _LINEAR,
        "np.clip((there - slopes) * own, 0.0, largest)",
        "np.maximum((there - slopes) * own, 0.0)",
        "line search: changes of slopes are not cut off",
    ),
    (
        "h60",
        _STEPS,
        "    step = mu * math.sqrt((1 - share) / n_steps)\n",
        "    step = mu * math.sqrt(1 / n_steps)\n",
        "linear models: the line search is not paid",
    ),
    (
        "h61",
        _STEPS,
        "    search = mu * math.sqrt(share / N_SEARCHES)\n",
        "    search = mu * math.sqrt(share)\n",
        "linear models: each release of a line search spends its whole share",
    ),
    (
        "h62",
        _STEPS,
        "    n_draws += N_SEARCHES * n_searched\n",
        "",
        "linear models: draws of the line search are not counted",
    ),
    (
        "h66",
        "generative/_base.py",
        "n_draws=sum(line.n_draws for line in planned)",
        "n_draws=sum(line.n_coordinates for line in planned)",
        "raw tables: releases of a line are one release of draws",
    ),
    (
        "h67",
        "generative/_raw.py",
        "line.parameter**2 * line.times for",
        "line.parameter**2 for",
        "raw tables: of several looks one is paid",
    ),
    (
        "h68",
        "preprocessing/_places.py",
        "n_coordinates, N_LOOKS)",
        "n_coordinates, 1)",
        "looks: three are planned as one",
    ),
    (
        "h69",
        "preprocessing/_places.py",
        "for _ in range(N_LOOKS)",
        "for _ in range(2)",
        "looks: one of three is not taken",
    ),
    (
        "h70",
        _PLAN,
        "return self.n_coordinates * self.times",
        "return self.n_coordinates",
        "draws of one release of several are counted",
    ),
    (
        "h71",
        "generative/_levels.py",
        "(unit / scale) ** 2",
        "(unit / scale)",
        "parts of cells are weighted by deviations",
    ),
    (
        "h72",
        "generative/_levels.py",
        "noisy / unit * lengths[:n]",
        "noisy / unit",
        "parts of cells count as much as their noise",
    ),
    (
        "h73",
        "generative/_levels.py",
        "2 * max(universal_edges()[-1], -low, high)",
        "2 * universal_edges()[-1]",
        "where nothing is known ends leave out what was looked into",
    ),
    (
        "h74",
        "generative/_levels.py",
        "2 * max(universal_edges()[-1], -low, high)",
        "2 * max(universal_edges()[-1], high)",
        "where nothing is known ends leave out what was looked into below zero",
    ),
    (
        "h75",
        "generative/_levels.py",
        "high - low if is_looked_into else max(-low, high)",
        "max(-low, high)",
        "tails of a crowd reach to zero",
    ),
    (
        "h76",
        "generative/_levels.py",
        "                is_sure[self.places.inner] = True\n",
        "                pass\n",
        "a crowd is no place of a column",
    ),
    (
        "h77",
        "generative/_levels.py",
        "self.near(self.places.edges) | (seen > SURE * noise)",
        "self.near(self.places.edges)",
        "cells far from a crowd are empty",
    ),
    (
        "h78",
        "generative/_levels.py",
        "np.logaddexp(alike, halves) - log(2), alike",
        "np.logaddexp(alike, halves), alike",
        "fine partitions of cells are as likely as coarse ones",
    ),
    (
        "h79",
        "preprocessing/_places.py",
        "is_open = declared.range is None",
        "is_open = True",
        "outer cells of a public range hold what lies beyond",
    ),
    (
        "h80",
        "preprocessing/_table_encoder.py",
        "rest -= _FIRST_SHARE + N_LOOKS * _LOOK_SHARE",
        "rest -= _FIRST_SHARE + _LOOK_SHARE",
        "encoder: one look of three is paid",
    ),
    (
        "h81",
        "preprocessing/_table_encoder.py",
        "(1 + N_LOOKS) * n_first + n_second",
        "n_first + n_second",
        "encoder: draws of looks are not counted",
    ),
    (
        "h82",
        "generative/_pairs.py",
        "[table / w for table, w in",
        "[table / 1 for table, w in",
        "pairs: counts that were released keep their weights",
    ),
    (
        "h83",
        "generative/_pairs.py",
        "size ** (1 / 6)",
        "size ** (1 / 2)",
        "pairs: columns of many levels take the budget of the others",
    ),
    (
        "h84",
        "generative/_pairs.py",
        "scales = wall.scale(query, name=LEVELS) / np.array(query.weights)",
        "scales = wall.scale(query, name=LEVELS) / np.array(query.weights).mean() "
        "* np.ones(A)",
        "pairs: levels of all columns are taken to be as exact",
    ),
    (
        "h85",
        "generative/_levels.py",
        "some = edges[:-1] < edges[1:]",
        "some = edges[:-1] <= edges[1:]",
        "noise between edges without a whole number is counted",
    ),
    (
        "h86",
        "generative/_levels.py",
        "at = at[: self.n_cells + self.declared.missing]",
        "at = at[: self.n_cells + 1]",
        "missing cells count as other where none is missing",
    ),
    (
        "h87",
        "generative/_raw.py",
        "seen = np.array([*(listed[name] for name in names), *missing])",
        "seen = np.array([*(listed[name] for name in names[::-1]), *missing])",
        "counts of categories are those of others",
    ),
    (
        "h88",
        "preprocessing/_places.py",
        'if kind == "date" and self.declared.kind is None:',
        'if kind == "date":',
        "declared dates are located by looks alone",
    ),
    (
        "h89",
        "preprocessing/_places.py",
        "        return np.arange(len(self.noisy))\n",
        "        return Places.crowded(self, total)\n",
        "no look finds the years of dates that nobody declared",
    ),
    (
        "h90",
        "preprocessing/_places.py",
        "return replace(Places.of(self.edges, counts, scale, is_open=True), sure=_LIKELY)",
        "return Places.of(self.edges, counts, scale, is_open=True)",
        "years of dates have to be as sure as cells of numbers",
    ),
    (
        "h91",
        "generative/_raw.py",
        "and not (column.is_told(seen, scale) and found.is_placed)",
        "and not column.is_told(seen, scale)",
        "no warning where noise hides dates",
    ),
    (
        "h92",
        _OBJECTIVE,
        "reach: ClassVar[float] = 2.0",
        "reach: ClassVar[float] = 4.0",
        "noise may carry classifiers twice as far",
    ),
    (
        "h93",
        _OBJECTIVE,
        "reach: ClassVar[float] = 0.4",
        "reach: ClassVar[float] = 0.8",
        "noise may carry regressors twice as far",
    ),
    (
        "h94",
        "preprocessing/_ranks.py",
        "cells[bits] = -1",
        "cells[bits[1:]] = -1",
        "numbers on both sides of the first edge are in one cell",
    ),
    (
        "h95",
        "preprocessing/_ranks.py",
        "cells[:, :_NORMAL] = -1",
        "cells[:, :0] = -1",
        "numbers on both sides of an edge next to zero are in one cell",
    ),
    (
        "h96",
        "preprocessing/_ranks.py",
        'inner.searchsorted(flat[unsure], side="right")',
        'inner.searchsorted(flat[unsure], side="left")',
        "among many values one at an edge is in the cell below, among few above",
    ),
    (
        "h97",
        "preprocessing/_ranks.py",
        "view(np.uint32) >> 16",
        "view(np.uint32) >> 17",
        "half of the table of cells is read, by bits of others",
    ),
    (
        "h98",
        "preprocessing/_encoded.py",
        "out[:, self._end :] = 0.0",
        "out[:, self._end :] += 0.0",
        "a column without a category that shows is what memory held",
    ),
    (
        "h99",
        _TARGET,
        "return counts_l2(neighboring, self.n_targets)",
        "return counts_l2(neighboring)",
        "counts of several columns: sensitivity of one",
    ),
    (
        "h100",
        _TARGET,
        "width[same] = np.maximum(width[same], np.median(width[same]))",
        "width[same] = np.median(width[same])",
        "ranges of columns with bounds of one width: all are the median",
    ),
    (
        "h101",
        _TARGET,
        "width = np.where(self.room * width < _NEARLY_ALL, self.room * width, 1.0)",
        "width = np.where(width < _NEARLY_ALL, width, 1.0)",
        "ranges of columns: no room",
    ),
    (
        "h102",
        _TARGET,
        "return np.clip(center, width - 1, 1 - width), width",
        "return center, width",
        "ranges of columns reach beyond the bounds",
    ),
    (
        "h103",
        "generative/_base.py",
        "rest = plan.lines(mu * sqrt(1 - TARGET_SHARE))",
        "rest = plan.lines(mu)",
        "generators: counts of the columns are not paid for",
    ),
    (
        "h104",
        "generative/_base.py",
        "return counts if counts.tell(n_records * mu) else None",
        "return counts",
        "generators: ranges are learnt of any few records",
    ),
    (
        "h105",
        "generative/_space.py",
        "return np.clip((Z - self.center) / self.width, -0.5, 0.5)",
        "return (Z - self.center) / self.width",
        "records beyond their learnt range are not clipped",
    ),
    (
        "h106",
        "generative/_slices.py",
        "z = plan.moments.coordinates(block)",
        "z = block.z",
        "histograms of projections: coordinates of the bounds, not of the ranges",
    ),
    (
        "h107",
        _NETWORK,
        "network.biases[0] -= (self.center / self.width) @ network.weights[0]",
        "network.biases[0] -= self.center @ network.weights[0]",
        "autoencoder: the first layer does not take in where the range is",
    ),
    (
        "h108",
        _NETWORK,
        "targets = inputs = learnt.clipped(whole)",
        "targets = learnt.clipped(whole)",
        "autoencoder: inputs are not scaled to the range",
    ),
    (
        "h109",
        _NETWORK,
        "if n_steps and self.bounds is not None and self.data_norm is None:",
        "if n_steps and self.bounds is not None:",
        "networks: ranges are learnt of shortened rows, too",
    ),
    (
        "h110",
        _NETWORK,
        "width = np.max(width) * ones",
        "width = width * ones",
        "autoencoder: errors of narrow columns count more",
    ),
    (
        "h111",
        "linear_model/_gradient_plan.py",
        "        lines.append(ranges.line(share, ranges.n_looks))\n"
        "        mu *= math.sqrt(1 - TARGET_SHARE)\n",
        "        lines.append(ranges.line(share, ranges.n_looks))\n",
        "linear models: counts of features are not paid for",
    ),
    (
        "h112",
        "linear_model/_ranges.py",
        "if not isinstance(rows, ScaledRows):",
        "if True:",
        "linear models: rows stay as long as they are",
    ),
    (
        "h113",
        "linear_model/_ranges.py",
        "given = estimator.bounds is not None and estimator.data_norm is None",
        "given = estimator.bounds is not None",
        "linear models: ranges are learnt beside a norm of rows in bounds",
    ),
    (
        "h114",
        "linear_model/_ranges.py",
        "columns = np.flatnonzero((high > low) & ~is_indicator)",
        "columns = np.flatnonzero(high > low)",
        "linear models: indicators are counted, too",
    ),
    (
        "h131",
        "linear_model/_gradient_plan.py",
        "share = math.sqrt(TARGET_SHARE / ranges.n_looks) * mu",
        "share = math.sqrt(TARGET_SHARE) * mu",
        "linear models: of two looks at the features one is paid",
    ),
    (
        "h132",
        _TARGET,
        "parts = parts.narrowed(",
        "parts = Parts(",
        "the second range of a column is read as one of the bounds",
    ),
    (
        "h133",
        "linear_model/_ranges.py",
        "return (look > 0) & (width <",
        "return (look < 0) & (width <",
        "linear models: columns that are nearly always zero become indicators",
    ),
    (
        "h144",
        "_training/_design.py",
        "np.maximum(half_width, reach), 1.0)",
        "half_width, 1.0)",
        "bounds close to each other: features are up to twice the unit",
    ),
    (
        "h143",
        _PENALTY,
        "        return filled, own\n",
        "        return filled, slice(sample.size)\n",
        "penalty of codes: records above the dummies are pulled like their neighbours",
    ),
    (
        "h115",
        _TARGET,
        "apart = counts.targets, np.arange(counts.n_targets)",
        "apart = counts.targets, np.ones(counts.n_targets)",
        "no column is narrower than the median",
    ),
    (
        "h116",
        "linear_model/_ranges.py",
        "ScaledRows(X, replace(scaling, data_norm=math.sqrt(X.shape[1])))",
        "ScaledRows(X, scaling)",
        "linear models: rows are shortened before they are counted",
    ),
    (
        "h117",
        "_training/_design.py",
        "low, high = np.where(whole, self.low, low), np",
        "low, high = middle - half, np",
        "bounds where nothing is narrower are rounded",
    ),
    (
        "h118",
        "_training/_bounded.py",
        "scaling = self._fitted_scaling()\n"
        "        if sparse.issparse(X) and np.any(scaling.center):",
        "scaling = self._fitted_scaling()\n        if False:",
        "sparse rows are answered as if their range had its middle at zero",
    ),
    (
        "h119",
        "_door/_stream.py",
        '_SHAPE = ("n_features_in_", "feature_names_in_", "_learns")',
        '_SHAPE = ("n_features_in_", "feature_names_in_")',
        "of batches some are sparse and are read by another scaling",
    ),
    (
        "h120",
        "_door/_dask.py",
        "return columns if self._remake is None else self._remake(columns)",
        "return columns",
        "rows on workers are not made anew",
    ),
    (
        "h122",
        _NETWORK,
        "return parts.clipped(INPUTS), scaling.within(parts.center, parts.width)",
        "return parts.clipped(INPUTS), scaling",
        "networks: rows are not scaled as the training had them",
    ),
    (
        "h123",
        _NETWORK,
        "known = scaling.low == scaling.high",
        "known = scaling.low > scaling.high",
        "networks: a constant feature is one number in training, another afterwards",
    ),
    (
        "h125",
        _NETWORK,
        "n_bins = bins_that_tell(signal / SURER, n_columns)",
        "n_bins = bins_that_tell(signal, n_columns)",
        "networks: ranges are learnt of few records",
    ),
    (
        "h126",
        _NETWORK,
        "share = math.sqrt(TARGET_SHARE / one.n_looks) * mu",
        "share = math.sqrt(TARGET_SHARE) * mu",
        "networks: the second look is not paid",
    ),
    (
        "h127",
        _NETWORK,
        "outputs = network.forward(padded_chunk(inputs(block)))[-1][: block.n_rows]",
        "outputs = network.forward(padded_chunk(block.x))[-1][: block.n_rows]",
        "networks: residuals of rows scaled by the bounds",
    ),
]

# Those that are equivalent: a line of proof, and what it holds for.
_PROOFS = {
    "more draws are counted than are made: the statement is a bound from above": [
        "preprocessing/_table_encoder.py | n_draws = (1 + N_LOOKS) * n_first + n_second | 1 -> 2",
    ],
    "the least epsilon that is taken is far above both limits": [
        "_wall/_plan.py | DiscreteLaplaceMechanism(1, self.parameter) | 1 -> 2",
    ],
    "a bound on what a column asks for, which is at most 36 cells and a gap": [
        "preprocessing/_table_encoder.py | n_second = n_counted * (_MOST_CELLS + 2) + 1 | n_counted * (_MOST_CELLS + 2) + 1 -> n_counted * (_MOST_CELLS + 2) - 1",
        "preprocessing/_table_encoder.py | n_second = n_counted * (_MOST_CELLS + 2) + 1 | _MOST_CELLS + 2 -> _MOST_CELLS - 2",
        "preprocessing/_table_encoder.py | n_second = n_counted * (_MOST_CELLS + 2) + 1 | 1 -> 2",
        "preprocessing/_table_encoder.py | n_second = n_counted * (_MOST_CELLS + 2) + 1 | 2 -> 3",
    ],
    "a wider slack, more digits or a stricter test ask for more bits; the draw that they decide is the same": [
        "mechanisms.py | slack = Decimal(10) ** (20 - precision) | 10 -> 11",
        "mechanisms.py | is_sure = u + 1.0 < threshold * (1.0 - _THRESHOLD_ERROR) | u + 1.0 < threshold * (1.0 - _THRESHOLD_ERROR) -> u + 1.0 <= threshold * (1.0 - _THRESHOLD_ERROR)",
        "mechanisms.py | is_sure = u + 1.0 < threshold * (1.0 - _THRESHOLD_ERROR) | 1.0 -> 2.0",
        "mechanisms.py | is_sure &= u > threshold * (ratio * (1.0 + _THRESHOLD_ERROR)) | u > threshold * (ratio * (1.0 + _THRESHOLD_ERROR)) -> u >= threshold * (ratio * (1.0 + _THRESHOLD_ERROR))",
        "mechanisms.py | precision = 30 + n_bits // 3 | 30 -> 31",
        "mechanisms.py | precision = 30 + n_bits // 3 | n_bits // 3 -> n_bits * 3",
        "mechanisms.py | slack = Decimal(10) ** (20 - precision) | 20 -> 21",
    ],
    "split at the next bit: the error that is put back is exact to 2**-100 of mu**2 either way": [
        "accounting/_gaussian.py | high = 134217729.0 * mu  # Veltkamp's splitting into two halves of 26 bits | 134217729.0 -> 268435458.0",
    ],
    "where the excess is 0 at the upper end, the root that is found is the upper end": [
        "accounting/_gaussian.py | if excess(upper) >= 0.0: | excess(upper) >= 0.0 -> excess(upper) > 0.0",
    ],
    "the tolerance stays within the 2e-13 that are added to the root": [
        "accounting/_gaussian.py | root = brentq(excess, 0.0, upper, xtol=1e-13 * upper) | 1e-13 -> 2e-13",
    ],
    "the window stays so wide that what lies beyond has less mass than the 1e-12 that fail in any case": [
        "accounting/_privacy_loss.py | first = math.floor(mean / step) - size // 2 | 2 -> 3",
    ],
    "only the spacing or length of a grid on which every distribution is put so that it costs more: any value bounds from above": [
        "accounting/_privacy_loss.py | n_steps, variance, widest, narrowest = 0, total.mu**2, 0.0, math.inf | 0 -> 1",
        "accounting/_privacy_loss.py | n_points = min(max(_MIN_POINTS, 300 * math.sqrt(n_steps)), _MAX_POINTS) | 300 -> 301",
        "accounting/_privacy_loss.py | _MAX_ATOMS = 10_000 | 10000 -> 10001",
        "accounting/_loss_grid.py | _LARGEST_GRID, _LONGEST_STEP = 1 << 22, 500.0 | 22 -> 23",
        "accounting/_privacy_loss.py | _MIN_POINTS, _MAX_POINTS = 1 << 14, 1 << 20 | 20 -> 21",
        "accounting/_privacy_loss.py | _MIN_POINTS, _MAX_POINTS = 1 << 14, 1 << 20 | 1 -> 2 | 2",
        "accounting/_loss_grid.py | _LARGEST_GRID, _LONGEST_STEP = 1 << 22, 500.0 | 1 -> 2",
        "accounting/_loss_grid.py | if not step <= _LONGEST_STEP: | step <= _LONGEST_STEP -> step < _LONGEST_STEP",
        "accounting/_loss_grid.py | while step <= _LONGEST_STEP: | step <= _LONGEST_STEP -> step < _LONGEST_STEP",
        "accounting/_loss_grid.py | if 4.0 * reach / step <= _LARGEST_GRID: | 4.0 * reach / step <= _LARGEST_GRID -> 4.0 * reach / step < _LARGEST_GRID",
        "accounting/_loss_grid.py | step *= 2.0 | 2.0 -> 4.0",
        "accounting/_loss_grid.py | return max(float(np.min((moments - log_mass) / orders)), 1e-9) | 1e-09 -> 2e-09",
    ],
    "the curve ends two points earlier, and what lies beyond fails: an upper bound": [
        "accounting/_privacy_loss.py | epsilon = step * np.arange(math.ceil(highest / step) + 1, dtype=np.float64) | math.ceil(highest / step) + 1 -> math.ceil(highest / step) - 1",
    ],
    "the failure is at most 1e-20 here, below the last bit of 1": [
        "accounting/_privacy_loss.py | zero = max(0.0, 1.0 - failure - positive.sum() - negative.sum()) | 1.0 - failure -> 1.0 + failure",
    ],
    "0 and 1 are the same times and divided by 1": [
        "generative/_pairs.py | PAIR_TABLES: ((A > 1) * 1.0, A * (A - 1) // 2 * bins**2), | (A > 1) * 1.0 -> (A > 1) / 1.0",
    ],
    "a part that is 0 or 1 is left out of the rest, and written anew two lines below": [
        "generative/_pairs.py | PAIR_TABLES: ((A > 1) * 1.0, A * (A - 1) // 2 * bins**2), | 1 -> 2",
        "generative/_pairs.py | PAIR_TABLES: ((A > 1) * 1.0, A * (A - 1) // 2 * bins**2), | 1.0 -> 2.0",
        "generative/_pairs.py | PAIR_TABLES: ((A > 1) * 1.0, A * (A - 1) // 2 * bins**2), | A > 1 -> A >= 1",
    ],
    "a plan without any budget for a fit is refused by its caller, whatever it says of scores": [
        "model_selection/_plan.py | score_mu = 0.0 | 0.0 -> 1.0",
    ],
    "how far a bracket or a search steps; the root that is found is the same": [
        "model_selection/_plan.py | low -= 1.0 | 1.0 -> 2.0",
        "accounting/_gaussian.py | while excess(low) > 0.0:  # a delta that is no normal number | excess(low) > 0.0 -> excess(low) >= 0.0",
        "accounting/_gaussian.py | while excess(low) > 0.0:  # a delta that is no normal number | 0.0 -> 1.0",
        "accounting/_gaussian.py | low -= 0.5 | 0.5 -> 1.0",
        "accounting/_gaussian.py | high = low + 0.5 | 0.5 -> 1.0",
        "accounting/_gaussian.py | tail = math.sqrt(-2.0 * log_delta) | -2.0 * log_delta -> -2.0 / log_delta",
        "accounting/_gaussian.py | tail = math.sqrt(-2.0 * log_delta) | 2.0 -> 4.0",
        "accounting/_gaussian.py | low = math.log(guess) - 1e-9 | 1e-09 -> 2e-09",
        "accounting/_gaussian.py | 2.0 * epsilon / (math.sqrt(tail**2 + 2.0 * epsilon) + tail), | 2.0 * epsilon / (math.sqrt(tail ** 2 + 2.0 * epsilon) + tail -> 2.0 * epsilon * (math.sqrt(tail ** 2 + 2.0 * epsilon) + tail",
        "accounting/_gaussian.py | math.exp(log_delta + _LOG_SQRT_2PI), | log_delta + _LOG_SQRT_2PI -> log_delta - _LOG_SQRT_2PI",
        "accounting/_composition.py | for roughness, width, tolerance in ((16.0, 0.25, 1e-4), (1.0, 1e-3, 1e-6)): | 16.0 -> 32.0",
        "accounting/_composition.py | for roughness, width, tolerance in ((16.0, 0.25, 1e-4), (1.0, 1e-3, 1e-6)): | 0.25 -> 0.5",
        "accounting/_composition.py | for roughness, width, tolerance in ((16.0, 0.25, 1e-4), (1.0, 1e-3, 1e-6)): | 0.0001 -> 0.0002",
        "accounting/_composition.py | for roughness, width, tolerance in ((16.0, 0.25, 1e-4), (1.0, 1e-3, 1e-6)): | 0.001 -> 0.002",
        "accounting/_gaussian.py | while excess(high) < 0.0: | excess(high) < 0.0 -> excess(high) <= 0.0",
        "accounting/_gaussian.py | 2.0 * epsilon / (math.sqrt(tail**2 + 2.0 * epsilon) + tail), | 2.0 -> 4.0",
        "accounting/_gaussian.py | 2.0 * epsilon / (math.sqrt(tail**2 + 2.0 * epsilon) + tail), | tail ** 2 -> tail * 2",
        "model_selection/_plan.py | while excess(low) > 0.0: | excess(low) > 0.0 -> excess(low) >= 0.0",
        "model_selection/_plan.py | while excess(low) > 0.0: | 0.0 -> 1.0",
        "accounting/_gaussian.py | high = low + 0.5 | low + 0.5 -> low - 0.5",
        "accounting/_gaussian.py | high += 0.5 | 0.5 -> 1.0",
        "accounting/_gaussian.py | 2.0 * epsilon / (math.sqrt(tail**2 + 2.0 * epsilon) + tail), | 2.0 * epsilon -> 2.0 / epsilon | 2",
        "accounting/_gaussian.py | 2.0 * epsilon / (math.sqrt(tail**2 + 2.0 * epsilon) + tail), | 2 -> 3",
        "accounting/_gaussian.py | 2.0 * epsilon / (math.sqrt(tail**2 + 2.0 * epsilon) + tail), | 2.0 -> 4.0 | 2",
        "accounting/_composition.py | while excess(high, roughness) > 0.0: | excess(high, roughness) > 0.0 -> excess(high, roughness) >= 0.0",
        "accounting/_composition.py | while excess(low, roughness) <= 0.0: | excess(low, roughness) <= 0.0 -> excess(low, roughness) < 0.0",
        "accounting/_composition.py | root = max(math.log(q) + most, least) | math.log(q) + most -> math.log(q) - most",
        "accounting/_composition.py | if high > most: | high > most -> high >= most",
        "accounting/_composition.py | low, high, step = high, high + step, 2.0 * step | 2.0 * step -> 2.0 / step",
        "accounting/_composition.py | high, low, step = low, max(low - step, least), 2.0 * step | 2.0 * step -> 2.0 / step",
        "accounting/_composition.py | high, low, step = low, max(low - step, least), 2.0 * step | 2.0 -> 4.0",
        "accounting/_gaussian.py | low = math.log(guess) - 1e-9 | math.log(guess) - 1e-09 -> math.log(guess) + 1e-09",
        "accounting/_composition.py | low, high, step = high, high + step, 2.0 * step | 2.0 -> 4.0",
        "model_selection/_plan.py | if excess(high) > 0.0: | excess(high) > 0.0 -> excess(high) >= 0.0",
        "model_selection/_plan.py | low, high = math.log(epsilon / (4.0 * n_fits)), math.log(epsilon) | epsilon / (4.0 * n_fits) -> epsilon * (4.0 * n_fits)",
        "model_selection/_plan.py | low, high = math.log(epsilon / (4.0 * n_fits)), math.log(epsilon) | 4.0 * n_fits -> 4.0 / n_fits",
        "model_selection/_plan.py | low, high = math.log(epsilon / (4.0 * n_fits)), math.log(epsilon) | 4.0 -> 8.0",
    ],
    "how large the part of a random split is: a record is read in one branch only, whatever its probability": [
        "postprocessing/_phases.py | share = self.meta.group_size / (1 - self.meta.calibration_size) | 1 - self.meta.calibration_size -> 1 + self.meta.calibration_size",
        "postprocessing/_phases.py | share = self.meta.group_size / (1 - self.meta.calibration_size) | 1 -> 2",
        "postprocessing/_phases.py | share = self.meta.group_size / (1 - self.meta.calibration_size) | self.meta.group_size / (1 - self.meta.calibration_size) -> self.meta.group_size * (1 - self.meta.calibration_size)",
    ],
    "2**-46 still covers a hundred roundings of 2**-53": [
        "mechanisms.py | _THRESHOLD_ERROR = 2.0**-45 | 45 -> 46",
    ],
    "moves a probability of at least 2**-14 by 2**-50 of itself: the quantile by less than its rounding, cells within the accounted error": [
        "mechanisms.py | probability = magnitude + 0.5 | magnitude + 0.5 -> magnitude - 0.5",
        "mechanisms.py | probability = magnitude + 0.5 | 0.5 -> 1.0",
    ],
    "a guess decides how long a draw takes, not what it is": [
        "mechanisms.py | guess = np.log(u + 0.5) | 0.5 -> 1.0",
    ],
    "a longer table of powers, whose last entries no digit reads": [
        "mechanisms.py | n_bits = max(1, (45 * t >> shift).bit_length())  # r**k < 2**-64 beyond | 1 -> 2",
    ],
    "forty digits and more round to the same float": [
        "mechanisms.py | with localcontext(Context(prec=40)): | 40 -> 41",
    ],
    "differs only if a threshold lies within 1e-31 of an end of the cell of U: with probability below 1e-28": [
        "mechanisms.py | smallest = math.floor((factor / (u + 1)).ln() * scale - slack) | (factor / (u + 1)).ln() * scale - slack -> (factor / (u + 1)).ln() * scale + slack",
        "mechanisms.py | largest = math.floor((factor / u).ln() * scale + slack) | (factor / u).ln() * scale + slack -> (factor / u).ln() * scale - slack",
    ],
    "both bounds hold at an error of one": [
        "accounting/_composition.py | if error > 1.0: | error > 1.0 -> error >= 1.0",
    ],
    "how much more than asked is tried: what holds for more holds for less, and the last share is none": [
        "privacy/_composition.py | _GROWTH = (1 / 8, 1 / 64, 1 / 512, 0) | 1 / 512 -> 1 * 512",
        "privacy/_composition.py | _GROWTH = (1 / 8, 1 / 64, 1 / 512, 0) | 512 -> 513",
        "privacy/_composition.py | _GROWTH = (1 / 8, 1 / 64, 1 / 512, 0) | 8 -> 9",
        "privacy/_composition.py | _GROWTH = (1 / 8, 1 / 64, 1 / 512, 0) | 1 / 8 -> 1 * 8",
        "privacy/_composition.py | _GROWTH = (1 / 8, 1 / 64, 1 / 512, 0) | 1 / 64 -> 1 * 64",
        "privacy/_composition.py | _GROWTH = (1 / 8, 1 / 64, 1 / 512, 0) | 1 -> 2",
        "privacy/_composition.py | _GROWTH = (1 / 8, 1 / 64, 1 / 512, 0) | 1 -> 2 | 2",
        "privacy/_composition.py | _GROWTH = (1 / 8, 1 / 64, 1 / 512, 0) | 64 -> 65",
        "privacy/_composition.py | _GROWTH = (1 / 8, 1 / 64, 1 / 512, 0) | 1 -> 2 | 3",
    ],
    "how many kinds are kept apart: merged ones are taken for the dearer": [
        "privacy/_composition.py | _MAX_PURES, _MAX_SAMPLED, _MAX_SPLITS = 128, 16, 16 | 16 -> 17",
        "privacy/_composition.py | _MAX_PURES, _MAX_SAMPLED, _MAX_SPLITS = 128, 16, 16 | 16 -> 17 | 2",
        "privacy/_composition.py | _MAX_PURES, _MAX_SAMPLED, _MAX_SPLITS = 128, 16, 16 | 128 -> 129",
    ],
    "from how many sides on they are bounded together instead of gone through: both hold": [
        "privacy/_composition.py | _FEW_SIDES = 64 | 64 -> 65",
        "accounting/_loss_grid.py | _FEW, _MOST_POINTS = 8, 1 << 21 | 21 -> 22",
        "privacy/_composition.py | if math.prod(ways) > _FEW_SIDES: | math.prod(ways) > _FEW_SIDES -> math.prod(ways) >= _FEW_SIDES",
    ],
    "each order of moments gives a bound; these are tried beside the others": [
        "accounting/_loss_grid.py | orders = np.append(np.geomspace(1e-4, 1.0, 24), orders) | 24 -> 25",
        "accounting/_loss_grid.py | orders = np.geomspace(min(1.0, first / 4.0), 8.0 * max(1.0, first), 24) | 24 -> 25",
        "accounting/_loss_grid.py | orders = np.append(np.geomspace(1e-4, 1.0, 24), orders) | 0.0001 -> 0.0002",
        "accounting/_loss_grid.py | orders = np.append(np.geomspace(1e-4, 1.0, 24), orders) | 1.0 -> 2.0",
        "accounting/_loss_grid.py | first = math.sqrt(-2.0 * log_mass / variance) if variance else 1.0 | 1.0 -> 2.0",
    ],
    "the sum over all levels is 1 on both sides: no gap": [
        "generative/_tables.py | encode = scale * np.tril(np.ones((size, size)))[: size - 1] | size - 1 -> size + 1",
    ],
    "how many records are read at once: sums of a table are exact integers, whatever its blocks": [
        "_wall/_query.py | block_rows: ClassVar[int] = 16 * BLOCK_ROWS | 16 * BLOCK_ROWS -> 16 / BLOCK_ROWS",
        "_wall/_query.py | block_rows: ClassVar[int] = 16 * BLOCK_ROWS | 16 -> 17",
        "_wall/_rows.py | if self.n_rows <= query.block_rows: | self.n_rows <= query.block_rows -> self.n_rows < query.block_rows",
        "postprocessing/_queries.py | block_rows = 1_048_576 | 1048576 -> 1048577",
        "linear_model/_queries.py | return min(MAX_BLOCK_ROWS, 8 * block_rows(self.geometry.n_features)) | 8 -> 9",
        "linear_model/_queries.py | return min(_MOST_ROWS, 8 * block_rows(self.geometry.n_features)) | 8 -> 9",
        "linear_model/_queries.py | return min(_MOST_ROWS, 8 * block_rows(self.geometry.n_features)) | 8 * block_rows(self.geometry.n_features) -> 8 / block_rows(self.geometry.n_features)",
        "linear_model/_queries.py | return block_rows(2 * self.geometry.n_features) | 2 * self.geometry.n_features -> 2 / self.geometry.n_features",
        "linear_model/_queries.py | return block_rows(2 * self.geometry.n_features) | 2 -> 3",
        "linear_model/_queries.py | if len(integers) <= self._part_rows: | len(integers) <= self._part_rows -> len(integers) < self._part_rows",
        "linear_model/_queries.py | _MOST_ROWS = 4 * MAX_BLOCK_ROWS  # whose slopes are worked out together: fewer calls | 4 -> 5",
        "preprocessing/_counting.py | block_rows = 16_384  # a call per column and block | 16384 -> 16385",
        "generative/_pairs.py | block_rows = 1 << 15 | 1 -> 2",
        "generative/_pairs.py | block_rows = 1 << 15 | 15 -> 16",
    ],
    "the order of events says nothing": [
        "_wall/_plan.py | others.insert(0, GaussianEvent(math.sqrt(math.fsum(squares)), draws)) | 0 -> 1",
        "neural_network/_base.py | plan.insert(0, one.line(share, one.n_looks)) | 0 -> 1",
    ],
    "divided by infinity the scale is 0 as well": [
        "mechanisms.py | if self.mu == math.inf: | self.mu == math.inf -> self.mu != math.inf | 2",
    ],
    "each round gives a bound; one more": [
        "accounting/_composition.py | for _ in range(5): | 5 -> 6",
    ],
    "any roughness above 1 asks for the coarse atoms": [
        "accounting/_composition.py | total = replace(total, roughness=2.0) | 2.0 -> 4.0",
    ],
    "whether the first look is a rough one: it only says yes where the whole composition does": [
        "accounting/_composition.py | if not total.sampled and len(total.pures) > 1 and delta > _ROUGH_DELTA: | 1 -> 2",
        "accounting/_composition.py | _ROUGH_DELTA = 1e-9 | 1e-09 -> 2e-09",
        "accounting/_composition.py | if not total.sampled and len(total.pures) > 1 and delta > _ROUGH_DELTA: | delta > _ROUGH_DELTA -> delta >= _ROUGH_DELTA",
    ],
    "of the other modes upwards fails at the second comparison, the others at the third": [
        "_wall/_filter.py | if not -(-one - little) == one == one + little < one + 3 * little: | -one - little -> -one + little",
    ],
    "no step asks for points": [
        "generative/_sliced.py | n_points=1, | 1 -> 2",
    ],
    "more is taken to fail than the transform can lose": [
        "accounting/_loss_grid.py | _FFT_NOISE, _SPLIT_NOISE = 1e-11, 1e-14 | 1e-14 -> 2e-14",
    ],
    "is read below 1 only": [
        "accounting/_privacy_loss.py | small = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / q) | 1.0 -> 2.0",
    ],
    "another unit, of the sums and of their sensitivity alike; the largest total stays a whole number": [
        "_training/_constant.py | _GRID = 1 << 20 | 20 -> 21",
        "_training/_constant.py | _GRID = 1 << 20 | 1 -> 2",
    ],
    "the tolerance stays within the 1e-8 that are taken off the root": [
        "model_selection/_plan.py | fit_epsilon = math.exp(brentq(excess, low, high, xtol=1e-9) - 1e-8) | 1e-09 -> 2e-09",
    ],
    "no step asks for a regularisation": [
        "generative/_sliced.py | regularization=0.0, | 0.0 -> 1.0",
    ],
    "an array of one number: its last is its first, and any other place raises": [
        "accounting/_gaussian.py | delta = math.exp(gaussian_log_delta(mu, np.array([float(epsilon)]))[0]) | 0 -> 1",
        "accounting/_gaussian.py | log_value = gaussian_log_delta(math.exp(log_mu), np.array([epsilon]))[0] | 0 -> 1",
    ],
    "both formulas are exact to rounding between -2 and -1": [
        "accounting/_gaussian.py | left = x < -1.0 | 1.0 -> 2.0",
    ],
    "both formulas are exact to 1e-13 between one half and one": [
        "accounting/_gaussian.py | if mu > 0.5: | mu > 0.5 -> mu >= 0.5",
        "accounting/_gaussian.py | if mu > 0.5: | 0.5 -> 1.0",
    ],
    "the nodes and their weights are symmetric": [
        "accounting/_gaussian.py | nodes = x[:, None] + 0.5 * mu * (1.0 + _NODES) | 1.0 + _NODES -> 1.0 - _NODES",
    ],
    "both formulas are exact to 3e-13 at 12": [
        "accounting/_gaussian.py | far = t > 12.0 | t > 12.0 -> t >= 12.0",
    ],
    "any finite value below the target stands for minus infinity in the search": [
        "accounting/_gaussian.py | return max(float(log_delta(epsilon)), log_target - 1e3) - log_target | 1000.0 -> 2000.0",
    ],
    "how many sides are followed: what is merged pays for all of them, which bounds from above": [
        "accounting/_composition.py | _MAX_OPTIONS = 128 | 128 -> 129",
    ],
    "at exactly 1e100 no privacy at all may be stated as well: a bound from above": [
        "accounting/_composition.py | if max(_about_largest_loss(everything), everything.mu) > _MOST_EPSILON: | max(_about_largest_loss(everything), everything.mu) > _MOST_ -> max(_about_largest_loss(everything), everything.mu) >= _MOST",
        "accounting/_composition.py | if largest > _MOST_EPSILON: | largest > _MOST_EPSILON -> largest >= _MOST_EPSILON",
        "accounting/_composition.py | if max(_about_largest_loss(total), total.mu) > _MOST_EPSILON: | max(_about_largest_loss(total), total.mu) > _MOST_EPSILON -> max(_about_largest_loss(total), total.mu) >= _MOST_EPSILON",
    ],
    "at exactly 1e100 the largest loss is stated, a bound from above": [
        "accounting/_composition.py | if not total.pures or delta == failure or largest > _MOST_EPSILON: | largest > _MOST_EPSILON -> largest >= _MOST_EPSILON",
    ],
    "both bounds hold at any error; 1 is the larger one": [
        "accounting/_composition.py | if error > 1.0: | 1.0 -> 2.0",
    ],
    "one tolerance more of noise where the excess is exactly at it": [
        "accounting/_composition.py | while excess(root) > 0.0: | excess(root) > 0.0 -> excess(root) >= 0.0",
    ],
    "the root of the sum of squares does not see zeros": [
        "accounting/_privacy_loss.py | mus = [one.mu for one in several if one.mu > 0.0] | one.mu > 0.0 -> one.mu >= 0.0",
    ],
    "a failure of 0 does not get there, one of 1 or more leaves nothing of delta": [
        "accounting/_gaussian.py | if not (0.0 <= failure < 1.0 and rest > 0.0): | 0.0 <= failure < 1.0 -> 0.0 < failure < 1.0",
        "accounting/_gaussian.py | if not (0.0 <= failure < 1.0 and rest > 0.0): | 1.0 -> 2.0",
    ],
    "where the loss is below epsilon the other maximum is 0 in any case": [
        "accounting/_privacy_loss.py | deltas = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - losses))) | 0.0 -> 1.0 | 2",
        "accounting/_loss_grid.py | values = np.maximum(0.0, -np.expm1(np.minimum(0.0, -losses))) | 0.0 -> 1.0 | 2",
    ],
    "both ways bound from above at sixteen kinds": [
        "accounting/_privacy_loss.py | if pures and (rough or len(pures) > _MANY_PURES): | len(pures) > _MANY_PURES -> len(pures) >= _MANY_PURES",
    ],
    "there c is 0, and so is c times any delta": [
        "accounting/_privacy_loss.py | inside = epsilon < -log_not | epsilon < -log_not -> epsilon <= -log_not",
    ],
    "both formulas are the same number at 1": [
        "accounting/_privacy_loss.py | return q * gaussian(np.where(epsilon < 1.0, small, large)) | epsilon < 1.0 -> epsilon <= 1.0",
    ],
    "how many sides are gone through one by one: the others are played, which bounds from above": [
        "accounting/_loss_grid.py | _FEW, _MOST_POINTS = 8, 1 << 21 | 1 -> 2",
        "accounting/_loss_grid.py | few, many = _parted(splits, _MOST_POINTS // self.size) | _MOST_POINTS // self.size -> _MOST_POINTS * self.size",
    ],
    "the chord before 0 ends at 0: what is found there is cut at 0": [
        "accounting/_loss_grid.py | if last + 1 + self.first <= 0: | last + 1 + self.first <= 0 -> last + 1 + self.first < 0",
        "accounting/_loss_grid.py | if last + 1 + self.first <= 0: | 1 -> 2",
    ],
    "a curve that is 1 everywhere, whatever its places": [
        "accounting/_loss_grid.py | return _Curve(1.0, 0, np.ones(1)) | 1.0 -> 2.0",
        "accounting/_loss_grid.py | return _Curve(1.0, 0, np.ones(1)) | 0 -> 1",
        "accounting/_loss_grid.py | return _Curve(1.0, 0, np.ones(1)) | 1 -> 2",
    ],
    "one more value is set to 1, the largest there is": [
        "accounting/_loss_grid.py | _Grid(step, size, add).play(plain, splits, losses, losses > reach) | losses > reach -> losses >= reach",
    ],
    "a mass of 1e-40 at one more place, which fails in any case": [
        "accounting/_privacy_loss.py | held = weights > _NEGLECTED | weights > _NEGLECTED -> weights >= _NEGLECTED",
    ],
    "the sum is cut at 1 a line later": [
        "accounting/_loss_grid.py | infinite += min(1.0, steps * lost) | 1.0 -> 2.0",
    ],
    "what is lost of a step is at most 1e-20, below the last bit of 1": [
        "accounting/_loss_grid.py | masses[-lowest] += 1.0 - lost - masses.sum()  # of no loss | 1.0 - lost -> 1.0 + lost",
    ],
    "the grid begins at or below 0: epsilon is 0 there in any case": [
        "accounting/_loss_grid.py | last = int(above[-1]) if above.size else -1 | 1 -> 2",
    ],
    "a node more: both rules are exact to rounding on half a unit": [
        "accounting/_gaussian.py | _NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8) | 8 -> 9",
    ],
    "the tolerance stays within the 1e-9 that a calibration gives away": [
        "accounting/_gaussian.py | return math.exp(brentq(excess, low, high, xtol=1e-11)) | 1e-11 -> 2e-11",
    ],
    "the fixed point is reached in two rounds: one more finds it again": [
        "accounting/_composition.py | for _ in range(3): | 3 -> 4",
    ],
    "both ways bound from above at 1e-10": [
        "accounting/_composition.py | if delta < _MIN_GRID_DELTA: | delta < _MIN_GRID_DELTA -> delta <= _MIN_GRID_DELTA",
    ],
    "a delta of 1 stays 1: at a smaller epsilon it is no less": [
        "accounting/_composition.py | if not 0.0 < delta < 1.0: | 1.0 -> 2.0",
    ],
    "how many answers are remembered": [
        "privacy/_composition.py | self._fitting = (total, *self._fitting[:7]) | 7 -> 8",
        "privacy/_composition.py | self._refused = (total, *self._refused[:7]) | 7 -> 8",
    ],
    "a slack twice as wide: the rounded norm stays inside the ball": [
        "generative/_network_training.py | return gradient * (clip * (1 - 1e-12) / max(norm, clip)) | 1e-12 -> 2e-12",
    ],
    "how many sweeps: the gradient is cut to the clip whatever they gave": [
        "generative/_network_training.py | N_SWEEPS = 20 | 20 -> 21",
    ],
    "how many numbers they are does not depend on the number of records": [
        "linear_model/_gradient_plan.py | n_moments = SecondMoments(geometry, 1.0).n_coordinates | 1.0 -> 2.0",
    ],
    "the share is .3 for every signal that small": [
        "linear_model/_gradient_plan.py | return min(0.3, max(0.03, 40 / max(signal, 1e-9))) | 1e-09 -> 2e-09",
    ],
    "the share is .2 for every signal that small": [
        "linear_model/_line_search.py | return min(0.2, max(0.03, 60 / max(signal, 1e-9))) | 1e-09 -> 2e-09",
    ],
    "nothing is cut off where nothing is larger": [
        "linear_model/_queries.py | if not np.abs(second, out=first).max(initial=0.0) <= 2.0**BITS: | np.abs(second, out=first).max(initial=0.0) <= 2.0 ** BITS -> np.abs(second, out=first).max(initial=0.0) < 2.0 ** BITS",
        "linear_model/_queries.py | if not np.abs(second, out=first).max(initial=0.0) <= 2.0**BITS: | 2.0 ** BITS -> 2.0 * BITS",
        "linear_model/_queries.py | if not np.abs(second, out=first).max(initial=0.0) <= 2.0**BITS: | 0.0 -> 1.0",
    ],
    "zeros: the start alone either way": [
        "linear_model/_queries.py | slopes = self.loss.slopes_at(start + 0.0 * scores, block) | start + 0.0 * scores -> start - 0.0 * scores",
    ],
    "zeros from the last two strata on: those and the digits are written after": [
        "linear_model/_queries.py | found[:, :k], found[:, end + 2 * k :] = loss, 0.0 | end + 2 * k -> end - 2 * k",
    ],
    "q is 1 or -1: times it and divided by it is the same": [
        "linear_model/_moments.py | s**2 + (1 + self.emphasis**2 * q) * s + q | self.emphasis ** 2 * q -> self.emphasis ** 2 / q",
        "linear_model/_moments.py | for s in (-1.0, min(1.0, max(-1.0, -(1 + self.emphasis**2 * q) / 2)), 1.0) | self.emphasis ** 2 * q -> self.emphasis ** 2 / q",
    ],
    "there is one output or three and more": [
        "linear_model/_output_perturbation.py | if n_outputs > 1: | 1 -> 2",
        "linear_model/_queries.py | return y[:, None] == (np.arange(n_outputs) if n_outputs > 1 else 1) | 1 -> 2 | 2",
    ],
    "there is no noise, and nothing is claimed": [
        "linear_model/_wasserstein_logistic.py | return 1.0  # of no use: there is no noise | 1.0 -> 2.0",
    ],
    "an array of two axes: the last is the second, and any other place raises": [
        "linear_model/_queries.py | return np.concatenate([loss, coupled * of_penalty, slopes], axis=1) | 1 -> 2",
    ],
    "which of two private plans is taken: both keep the budget": [
        "model_selection/_plan.py | worth_it = geometric.fit.size > poisson.fit.size * 1.1 | geometric.fit.size > poisson.fit.size * 1.1 -> geometric.fit.size >= poisson.fit.size * 1.1",
        "model_selection/_plan.py | worth_it = geometric.fit.size > poisson.fit.size * 1.1 | poisson.fit.size * 1.1 -> poisson.fit.size / 1.1",
        "model_selection/_plan.py | worth_it = geometric.fit.size > poisson.fit.size * 1.1 | 1.1 -> 2.2",
        'model_selection/_plan.py | if method == "auto" and composed.fit.size >= best.fit.size: | composed.fit.size >= best.fit.size -> composed.fit.size > best.fit.size',
    ],
    "an epsilon of exactly 0 calibrates to no budget as well": [
        "model_selection/_plan.py | if ideal_epsilon > 0.0: | ideal_epsilon > 0.0 -> ideal_epsilon >= 0.0",
    ],
    "numpy takes any negative size for what is left": [
        "linear_model/_output_perturbation.py | return problem.minimise(self.solved).reshape(self.n_columns, -1) | 1 -> 2",
    ],
    "of two levels both codes have the same distances": [
        "generative/_tables.py | if ordered and size > 1: | 1 -> 2",
    ],
    "one block in either case, of one row or of none": [
        "linear_model/_queries.py | parts = row_slices(max(1, rows.shape[0]), size) | 1 -> 2",
    ],
    "public arithmetic on released sums": [
        "generative/_semidual.py | MIN_COUNT_SHARE = 0.2 | 0.2 -> 0.4",
    ],
    "the parameters that are added up do not depend on delta": [
        "generative/_raw.py | lines = learning_lines(columns, 1.0, 0.5, places) | 0.5 -> 1.0",
    ],
    "twice as far inside the budget": [
        "model_selection/_plan.py | fit_epsilon = math.exp(brentq(excess, low, high, xtol=1e-9) - 1e-8) | 1e-08 -> 2e-08",
    ],
    "the share is cut off at .7 for tables of one record and none": [
        "neural_network/_base.py | noise_of_mean = constant.sensitivity(self.neighboring) / max(n_usual, 1) | 1 -> 2",
    ],
    "public arithmetic on released counts: an interval of exactly half the range": [
        "metrics/_private.py | estimable = (high - low).max(axis=-1) <= _TOO_WIDE | (high - low).max(axis=-1) <= _TOO_WIDE -> (high - low).max(axis=-1) < _TOO_WIDE",
    ],
    "weights of 1 are then multiplied by as well": [
        "linear_model/_queries.py | return bool((self.class_weights != 1).any()) | 1 -> 2",
    ],
    "the third word is not read": [
        "_wall/_filter.py | words = self.public(lambda: public.uint64(2)) | 2 -> 3",
    ],
    "a seed of public draws: nothing counts on its bits": [
        "_wall/_filter.py | return noise_source(int(words[0]) << 64 | int(words[1])).public() | int(words[0]) << 64 -> int(words[0]) >> 64",
        "_wall/_filter.py | return noise_source(int(words[0]) << 64 | int(words[1])).public() | 64 -> 65",
        "_wall/_filter.py | return noise_source(int(words[0]) << 64 | int(words[1])).public() | 1 -> 2",
        "_wall/_filter.py | return noise_source(int(words[0]) << 64 | int(words[1])).public() | 0 -> 1",
    ],
}
EQUIVALENT = {mutant: proof for proof, found in _PROOFS.items() for mutant in found}
