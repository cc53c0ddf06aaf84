"""Progress of a fit: how many of its public number of steps are done, nothing else."""

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:
        """Stand-in: this scikit-learn has no callbacks."""

    def with_callbacks(method):
        return method


def set_up_callbacks(estimator, n_steps: int) -> None:
    """Set up scikit-learn's callbacks, which may refuse: nothing is spent yet."""
    if getattr(estimator, "_skl_callbacks", None):
        estimator._init_callback_context(max_subtasks=n_steps)


class Progress:
    """Tell scikit-learn's callbacks, or the terminal, about the steps of a fit.

    Callbacks receive no data and no iterate, and cannot stop the fit: the number of
    steps is public.
    """

    def __init__(self, estimator, n_steps: int):
        self._estimator, self._n_steps, self._n_done = estimator, n_steps, 0
        self._context = getattr(estimator, "_callback_fit_ctx", None)
        if self._context is not None:
            self._context.call_on_fit_task_begin(estimator=estimator)

    def step(self) -> None:
        """Report one more step."""
        self._n_done += 1
        if self._context is not None:
            task = self._context.subcontext(task_name="step")
            task.call_on_fit_task_begin(estimator=self._estimator)
            task.call_on_fit_task_end(estimator=self._estimator)
        if self._estimator.verbose and (
            self._n_done % max(1, self._n_steps // 10) == 0
        ):
            name = type(self._estimator).__name__
            print(f"[{name}] step {self._n_done} of {self._n_steps}")

    def close(self) -> None:
        """Report the end of the fit."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator)
