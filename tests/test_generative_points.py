"""Points fitted to noisy tables of pairs, against finite differences and the truth."""

import dataclasses
import itertools

import numpy as np
import pytest

from fairpriv_sklearn.generative import _points
from fairpriv_sklearn.mechanisms import noise_source


@pytest.fixture(autouse=True)
def two_fits(monkeypatch):
    """Two starts instead of ten: time."""
    monkeypatch.setattr(_points, "N_FITS", 2)


def noisy_targets(rng, deviation, n=20_000):
    """Tables of a mixture of four points, its noise and its exact tables."""
    C, sizes = 2, (5, 4, 6)
    weights = rng.dirichlet(np.full(8, 3.0)).reshape(C, 4)
    tables = [rng.dirichlet(np.full(m, 0.3), size=(C, 4)) for m in sizes]
    one = [np.einsum("ck,ckm->cm", weights, t) * n for t in tables]
    two = {
        (a, b): np.einsum("ck,ckl,ckm->lm", weights, tables[a], tables[b]) * n
        for a, b in [(0, 1), (0, 2), (1, 2)]
    }
    targets = _points.targets_of(
        [np.maximum(t + deviation * rng.normal(size=t.shape), 0) for t in one],
        [np.full(t.shape, deviation) for t in one],
        {p: t + deviation * rng.normal(size=t.shape) for p, t in two.items()},
        dict.fromkeys(two, deviation),
        [np.zeros(m) for m in sizes],
        [np.eye(m) for m in sizes],
    )
    exact = _points.targets_of(
        one,
        [np.zeros(t.shape) for t in one],
        two,
        dict.fromkeys(two, 0.0),
        [np.zeros(m) for m in sizes],
        [np.eye(m) for m in sizes],
    )
    return targets, exact


def test_gradient_of_the_fit_against_finite_differences():
    rng = np.random.default_rng(0)
    targets, _ = noisy_targets(rng, 30.0)
    starts, widths = targets.starts[:-1], np.diff(targets.starts)
    margins = np.log(targets.classes.sum(axis=0) + 1e-3)
    D = len(margins)
    logits = [rng.normal(size=s) for s in ((3, D), (2, D), (3,), (2,))]
    features = rng.normal(size=(D, D)) * (targets.precision == 0)  # block by block
    tables = (
        features,
        targets.precision,
        targets.pairs,
        targets.class_precision,
        targets.classes,
    )

    def loss():
        w, p, _ = _points._distributions(logits, margins, starts, widths)
        assert w.sum() == pytest.approx(1)
        np.testing.assert_allclose(np.add.reduceat(p, starts, axis=2), 1)
        two = np.einsum("ck,cki,ckj->ij", w, p, p)
        one = np.einsum("ck,cki->ci", w, p)
        seen = features.T @ two @ features
        gaps = targets.precision * (seen - targets.pairs) ** 2
        return (
            gaps.sum() / 2
            + (targets.class_precision * (one - targets.classes) ** 2).sum()
        )

    gradient = _points._gradient(logits, margins, starts, tables)
    for x, g in zip(logits, gradient, strict=True):
        for at in np.ndindex(x.shape):
            kept, ends = x[at], []
            for step in (1e-5, -1e-5):
                x[at] = kept + step
                ends.append(loss())
            x[at] = kept
            assert g[at] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=0.1)


def test_points_take_out_noise():
    """The fitted tables are nearer to the exact ones than the noisy ones are."""
    # .5 and more of strong noise with priors that are ten times as wide, or as narrow
    for deviation, most in ((1e-9, 0.25), (150.0, 0.8), (600.0, 0.45)):
        rng, public = np.random.default_rng(0), noise_source(0).public()
        targets, exact = noisy_targets(rng, deviation)
        w, p = _points.rake(*_points.fit_points(targets, public), targets)
        assert w.sum() == pytest.approx(1)
        two = np.where(exact.precision > 0, np.einsum("ck,cki,ckj->ij", w, p, p), 0)
        independent = np.outer(exact.classes.sum(axis=0), exact.classes.sum(axis=0))
        independent = np.where(exact.precision > 0, independent, 0)
        reference = targets.pairs if deviation > 1 else independent
        far = np.abs(reference - exact.pairs).sum()
        assert np.abs(two - exact.pairs).sum() < most * far
        one = np.einsum("ck,cki->ci", w, p)
        gap = np.abs(one - targets.classes) * targets.class_precision**0.5
        assert gap.max() < (5.0 if deviation > 1 else 0.5)


def test_what_a_column_has_to_do_with_the_others():
    """Two columns that are one, one that depends a little, and one that does not."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 20_000)
    little = np.where(rng.random(20_000) < 0.3, a, rng.integers(0, 3, 20_000))
    hot = [np.eye(3)[x] for x in (a, a, little, rng.integers(0, 3, 20_000))]
    pairs = {
        (i, j): hot[i].T @ hot[j] + 30 * rng.normal(size=(3, 3))
        for i, j in itertools.combinations(range(4), 2)
    }
    tables = [h.sum(axis=0)[None] for h in hot]
    flat = [np.zeros(3)] * 4
    noise = [np.full((1, 3), 30.0)] * 4
    targets = _points.targets_of(
        tables, noise, pairs, dict.fromkeys(pairs, 30.0), flat, [np.eye(3)] * 4
    )
    # correlations 1, .3, .3 of a, .3 twice of the third: 1.09, 1.09, .18, 0
    wanted = np.array([1.09, 1.09, 0.18, 0.0]) / (2.36 / 4)
    wanted = np.clip(wanted, 0.3, 3.0)
    np.testing.assert_allclose(_points._spread(targets), wanted, atol=0.06)
    nothing = dataclasses.replace(targets, precision=np.zeros((12, 12)))
    assert (_points._spread(nothing) == 0.3).all()


def test_points_lie_in_24_dimensions():
    """However many points there are."""
    rng = np.random.default_rng(0)
    sizes = (9, 9, 9, 9, 9)
    one = [rng.dirichlet(np.ones(m), size=1) * 20_000 for m in sizes]
    two = {
        (a, b): 20_000 * rng.dirichlet(np.ones(81)).reshape(9, 9)
        for a, b in itertools.combinations(range(5), 2)
    }
    flat = [np.zeros(9)] * 5
    exact = [np.zeros((1, 9))] * 5
    targets = _points.targets_of(
        one, exact, two, dict.fromkeys(two, 0.0), flat, [np.eye(9)] * 5
    )
    _, p = _points._fit(targets, noise_source(0).public())
    logits = np.log(p[0]).reshape(-1, 5, 9)
    assert len(logits) > 40
    logits -= logits.mean(axis=2, keepdims=True)
    logits = (logits - logits.mean(axis=0)).reshape(len(logits), -1)
    strength = np.linalg.svd(logits, compute_uv=False)
    # the rest is rounding, and cells so rare that their logits are cut off
    assert (strength > 0.01 * strength[0]).sum() == 24


def test_raking_stops_at_the_noise():
    """Tables of class and column move to what was released, but for noise."""
    rng = np.random.default_rng(1)
    targets, exact = noisy_targets(rng, 30.0)
    w = np.full((2, 5), 0.1)
    p = np.concatenate(
        [rng.dirichlet(np.ones(m), size=(2, 5)) for m in np.diff(targets.starts)],
        axis=2,
    )
    before = np.einsum("ck,cki->ci", w, p)
    means = np.einsum("ck,cki->ci", *_points.rake(w, p, targets))
    off = (means - targets.classes) * targets.class_precision**0.5
    assert np.abs(before - targets.classes).sum() > 10 * np.abs(off).sum() * 30 / 20_000
    # a start that differs by noise alone stays where it is
    near = dataclasses.replace(
        targets, classes=before + 0.5 * (30 / 20_000) * rng.normal(size=before.shape)
    )
    np.testing.assert_allclose(_points.rake(w, p, near)[1], p, rtol=1e-12)
    means = np.einsum("ck,cki->ci", *_points.rake(w, p, exact))
    np.testing.assert_allclose(means, exact.classes, atol=1e-6)
