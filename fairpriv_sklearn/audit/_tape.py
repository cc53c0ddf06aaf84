"""Recorders: what the mechanisms and the random generators did during a fit.

Inside `fixed_randomness` every source of randomness of the process starts from one
seed, so that two fits differ by their tables only. A `Tape` sees the releases of this
library's mechanisms, of diffprivlib's, and the draws of NumPy's generators, and can
feed released values of one fit into another.
"""

import copy
import math
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from unittest.mock import patch

import numpy as np

from .._shared import guarded as _guarded
from .._wall import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    NoiseSource,
    PermuteAndFlip,
    gaussian_mu,
)


@dataclass(frozen=True, eq=False)
class Released:
    """One release of a mechanism.

    Parameters
    ----------
    kind : {"gaussian", "pure", "choice"}
        Family of the mechanism; a choice is made by utilities.
    exact : ndarray
        The private value.
    released : object
        What came out.
    sensitivity, parameter : float
        What the mechanism was told: the sensitivity, and mu or epsilon.
    monotonic : bool, default=False
        Of a choice: whether a record can only raise utilities.
    """

    kind: str
    exact: np.ndarray
    released: object
    sensitivity: float
    parameter: float
    monotonic: bool = False

    @classmethod
    def by(cls, mechanism, kind: str, exact, released, parameter: float) -> "Released":
        """By a mechanism, which says its sensitivity."""
        monotonic = bool(getattr(mechanism, "monotonic", False))
        sensitivity = float(mechanism.sensitivity)
        return cls(kind, exact, released, sensitivity, parameter, monotonic)


class Tape:
    """A recorder, and the values that it feeds back in.

    Parameters
    ----------
    replay : Tape or None, default=None
        Tape of an earlier fit, whose released values are released again.
    interrupt_at : int or None, default=None
        Number of the release or draw before which the fit is interrupted.
    deadline : float, default=inf
        Time of the clock from which on a release or draw fails.
    """

    def __init__(self, replay=None, interrupt_at=None, deadline=math.inf):
        self.releases: list[Released] = []
        self.keyed: list[dict] = []  # released counts of unlisted keys
        self.draws: list[tuple[str, np.ndarray]] = []  # family, standardised values
        self.other_randomness: list[str] = []
        self.starts: list[str] = []  # of seeded noise, before each release
        self.own_coins = False
        self.wrapped: list[tuple | None] = []  # what foreign models learnt
        self._replay = replay
        self._interrupt_at = interrupt_at
        self._deadline = deadline
        self._inside = False

    def add(self, release: Released):
        """Write a release down; return the value to be released."""
        position = len(self.releases)
        self.releases.append(release)
        if self._replay is None or position >= len(self._replay.releases):
            return release.released
        earlier = self._replay.releases[position]
        if earlier.exact.shape != release.exact.shape or earlier.kind != release.kind:
            return release.released
        return earlier.released

    def add_keyed(self, released: dict) -> list:
        """Write released counts of unlisted keys down; return those to be released.

        A key that the earlier fit did not have keeps its own.
        """
        position = len(self.keyed)
        self.keyed.append(released)
        if self._replay is not None and position < len(self._replay.keyed):
            earlier = self._replay.keyed[position]
            released = {key: earlier.get(key, released[key]) for key in released}
        return list(released.values())

    def stop_here(self):
        """Interrupt the fit if it has come as far as it may."""
        if self._interrupt_at is not None:
            if len(self.releases) + len(self.draws) >= self._interrupt_at:
                raise KeyboardInterrupt
        if time.monotonic() > self._deadline:
            raise TimeoutError


@contextmanager
def fixed_randomness(seed: int):
    """Start every source of randomness in this process from `seed`.

    Parameters
    ----------
    seed : int
        From 0 to 2**32 - 1, as NumPy takes them.
    """
    words = random.Random(seed)
    states = np.random.get_state(), random.getstate()
    np.random.seed(seed)
    random.seed(seed)
    try:
        # Of SystemRandom, and with it secrets and NumPy's fresh seeds.
        own = patch.object(random, "_urandom", words.randbytes, create=True)
        with patch.object(os, "urandom", words.randbytes), own:
            yield
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])


@contextmanager
def taped(tape: Tape, estimator=None):
    """Let `tape` see the releases and draws of a fit.

    Parameters
    ----------
    tape : Tape
    estimator : object, default=None
        NumPy's generators are looked for in the module of its class as well.
    """
    with ExitStack() as stack:
        for cls, kind, parameter in (
            (GaussianMechanism, "gaussian", "mu"),
            (DiscreteLaplaceMechanism, "pure", "epsilon_spent"),
            (PermuteAndFlip, "choice", "epsilon"),
        ):
            spy = _spy(tape, cls.release, kind, parameter)
            stack.enter_context(patch.object(cls, "release", spy))
        spy = _keyed_spy(tape, GaussianMechanism.release_keyed)
        stack.enter_context(patch.object(GaussianMechanism, "release_keyed", spy))
        for name in ("uniform", "key", "choice", "bernoulli", "integers"):
            spy = _coin_spy(tape, getattr(NoiseSource, name))
            stack.enter_context(patch.object(NoiseSource, name, spy))
        guarded = _wrapped_spy(tape, _guarded.guarded)
        for module in _modules_that_guard(len(sys.modules)):
            stack.enter_context(patch.object(module, "guarded", guarded))
        for cls in _diffprivlib_mechanisms():
            spy = _foreign_spy(tape, cls.randomise)
            stack.enter_context(patch.object(cls, "randomise", spy))
        _tap_numpy(stack, tape, estimator)
        yield tape


@lru_cache(maxsize=1)
def _modules_that_guard(n_modules: int) -> list:
    """Where models are wrapped; looked for again when modules have come or gone."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("fairpriv_sklearn.") and hasattr(module, "guarded")
    ]


def _spy(tape: Tape, release: Callable, kind: str, parameter: str):
    def taped_release(mechanism, value, noise):
        tape.stop_here()
        exact = np.array(value, dtype=np.float64)
        _note_start(tape, getattr(getattr(noise, "_words", None), "__self__", None))
        released, told = release(mechanism, value, noise), getattr(mechanism, parameter)
        return tape.add(Released.by(mechanism, kind, exact, released, told))

    return taped_release


def _note_start(tape: Tape, generator):
    """Write down where seeded noise starts; that of the system has no state."""
    state = getattr(generator, "state", None)
    if isinstance(generator, np.random.RandomState):
        state = generator.get_state()
    if state is not None:
        tape.starts.append(repr(state))


def _keyed_spy(tape: Tape, release: Callable):
    def taped_release(mechanism, counts, keys, secret):
        released = release(mechanism, counts, keys, secret)
        return np.array(tape.add_keyed(dict(zip(keys, released, strict=True))))

    return taped_release


def _coin_spy(tape: Tape, draw: Callable):
    def taped_draw(noise, *args, **kwargs):
        tape.own_coins = True
        return draw(noise, *args, **kwargs)

    return taped_draw


def _wrapped_spy(tape: Tape, guarded: Callable):
    """Replay foreign models: they have a guarantee of their own, which is not audited.

    A model that releases through mechanisms is replayed by those.
    """

    def taped_guarded(call, *args, **kwargs):
        if getattr(call, "__name__", "") != "fit":
            return guarded(call, *args, **kwargs)
        position, n_releases = len(tape.wrapped), len(tape.releases)
        earlier = tape._replay.wrapped if tape._replay is not None else []
        known = earlier[position] if position < len(earlier) else None
        # Of its own, so that what follows does not hang on whether it was fitted.
        seed = random.getrandbits(32)
        # A constant that stands in for a model without rows is no such model.
        if known is not None and type(known[0]) is type(call.__self__):
            _give(call.__self__, *known)
            tape.wrapped.append(known)
            return call.__self__
        tape.wrapped.append(None)
        with fixed_randomness(seed):
            fitted = guarded(call, *args, **kwargs)
        if len(tape.releases) == n_releases:
            known = call.__self__, vars(call.__self__)
            # A copy, as in a replay: a part of an array is whole there.
            _give(call.__self__, *known)
            tape.wrapped[position:] = [known]
        return fitted

    return taped_guarded


def _give(model, owner, state: dict) -> None:
    """Give a model a copy of what another one holds, itself in the other's place."""
    model.__dict__ = copy.deepcopy(state, {id(owner): model})


# --- diffprivlib ----------------------------------------------------------------------


def _diffprivlib_mechanisms() -> list[type]:
    """Mechanisms of diffprivlib that are in use: classes with a method of their own."""
    module = sys.modules.get("diffprivlib.mechanisms")
    if module is None:
        return []
    found: dict = {}
    for name in ("base", "laplace", "geometric", "gaussian", "exponential"):
        module = sys.modules.get(f"diffprivlib.mechanisms.{name}", object)
        found |= dict.fromkeys(c for c in vars(module).values() if isinstance(c, type))
    return [c for c in found if "randomise" in vars(c) and not c.__abstractmethods__]


def _foreign_spy(tape: Tape, randomise: Callable):
    def taped_randomise(mechanism, *value):
        if tape._inside:  # a mechanism that calls its parent's method
            return randomise(mechanism, *value)
        tape.stop_here()
        _note_start(tape, getattr(mechanism, "_rng", None))
        tape._inside = True
        try:
            released = randomise(mechanism, *value)
        finally:
            tape._inside = False
        return tape.add(_foreign_release(mechanism, value, released))

    return taped_randomise


def _foreign_release(mechanism, value, released) -> Released:
    utility = getattr(mechanism, "utility", None)
    kind = "choice"
    if utility is None:
        kind = "gaussian" if "Gaussian" in type(mechanism).__name__ else "pure"
    exact = np.atleast_1d(np.asarray(value[0] if value else utility, dtype=np.float64))
    parameter = float(mechanism.epsilon)
    if kind == "gaussian":
        parameter = gaussian_mu(parameter, float(mechanism.delta))
    return Released.by(mechanism, kind, exact, released, parameter)


# --- NumPy ----------------------------------------------------------------------------

_FAMILIES = {"normal": "gaussian", "laplace": "laplace"}
_NO_DRAWS = {"bit_generator", "spawn", "seed", "get_state", "set_state"}
_OTHER = sorted(
    name
    for name in {*vars(np.random.Generator), *vars(np.random.RandomState)}
    if name not in {*_FAMILIES, "standard_normal", "randn", *_NO_DRAWS}
    and not name.startswith("_")
)


def _tap_numpy(stack: ExitStack, tape: Tape, estimator):
    generator = _tapped(np.random.Generator, tape)
    legacy = _tapped(np.random.RandomState, tape)
    default_rng = np.random.default_rng

    def tapped_default_rng(seed=None):
        if isinstance(seed, np.random.Generator | np.random.RandomState):
            own = getattr(seed, "bit_generator", None) or seed._bit_generator
            return generator(own)
        return generator(default_rng(seed).bit_generator)

    shared = legacy(np.random.mtrand._rand._bit_generator)
    new = {
        id(np.random.default_rng): tapped_default_rng,
        id(np.random.RandomState): legacy,
        id(np.random.mtrand._rand): shared,
    }
    for name in ("normal", "laplace", "standard_normal", "randn", *_OTHER):
        function = getattr(np.random, name, None)
        if getattr(function, "__self__", None) is np.random.mtrand._rand:
            new[id(function)] = getattr(shared, name)
            stack.enter_context(patch.object(np.random, name, getattr(shared, name)))
    stack.enter_context(patch.object(np.random, "default_rng", tapped_default_rng))
    stack.enter_context(patch.object(np.random, "RandomState", legacy))
    stack.enter_context(patch.object(np.random.mtrand, "_rand", shared))
    # Names that the module of the estimator has imported.
    module = sys.modules.get(type(estimator).__module__)
    for name, value in list(vars(module).items()) if module else ():
        if id(value) in new:
            stack.enter_context(patch.object(module, name, new[id(value)]))


class _SameInstances(type):
    """Instances of the original class pass for instances of the tapped one."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.__mro__[1])


def _tapped(base: type, tape: Tape) -> type:
    """A subclass of a generator of NumPy that writes its draws down."""

    def location_scale(name):
        original = getattr(base, name)

        def draw(self, loc=0.0, scale=1.0, size=None):
            if tape._inside:
                return original(self, loc, scale, size)
            tape.stop_here()
            value = original(self, loc, scale, size)
            with np.errstate(all="ignore"):
                z = (np.asarray(value) - loc) / scale
            tape.draws.append((_FAMILIES[name], np.ravel(z)))
            return value

        return draw

    def standard_normal(self, size=None, *args, **kwargs):
        value = base.standard_normal(self, size, *args, **kwargs)
        if not tape._inside:
            tape.stop_here()
            tape.draws.append(("gaussian", np.ravel(np.array(value))))
        return value

    def randn(self, *shape):
        return standard_normal(self, shape or None)

    def other(name):
        original = getattr(base, name)

        def draw(self, *args, **kwargs):
            if not tape._inside:
                tape.other_randomness.append(name)
            return original(self, *args, **kwargs)

        return draw

    body = {name: location_scale(name) for name in _FAMILIES}
    body |= {name: other(name) for name in _OTHER if hasattr(base, name)}
    body["standard_normal"] = standard_normal
    if hasattr(base, "randn"):
        body["randn"] = randn
    return _SameInstances(base.__name__, (base,), body)
