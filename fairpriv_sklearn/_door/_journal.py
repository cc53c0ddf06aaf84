"""A journal of one fit: a driver that dies and starts again draws nothing twice."""

import hashlib
import hmac
import json
import os
import re
from contextlib import contextmanager, suppress

import numpy as np

from .._wall import current_journal
from ._stream import ChangedDataError, fingerprint

_DAMAGED = "This file is not a journal, or is damaged."
VERSION = 2  # of the form; the first journals have no number
_KEY_BYTES, _BINARY = 32, getattr(os, "O_BINARY", 0)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of a function, another in each process
# Entries, and which of their fields are text.
_TEXTS = {
    "start": ("name", "digest"),
    "released": ("name", "dtype", "value"),
    "public": ("name", "dtype", "value"),
    "end": (),
}


def _is_entry(entry) -> bool:
    texts = _TEXTS.get(str(entry.get("entry"))) if isinstance(entry, dict) else None
    return (
        texts is not None
        and all(isinstance(entry.get(name), str) for name in texts)
        and isinstance(entry.get("rows", ""), str)
        and ("value" not in texts or isinstance(entry.get("shape"), list))
    )


def _refuse_other_version(start) -> None:
    if isinstance(start, dict) and start.get("version", 1) != VERSION:
        raise ValueError(
            "This journal was written by another version of the library: go on with "
            "the one that wrote it, or take another path."
        )


def _append(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]
    os.fsync(file)


class Journal:
    """What one fit has released so far, on the disk before it is used.

    The file holds released values, a random name, and a salted digest of the
    estimator's parameters and plan. One line is one entry; a line that was cut off by
    the death of its writer was never used, and is forgotten.

    It also holds a digest of the rows, to notice that they are others after a restart.
    Its key is in a file of its own, which is removed when the fit ends: without it the
    digest is a random number. That file grows by a byte for each entry, once the entry
    is on the disk: a journal with fewer was cut off, and would draw anew what it lost.
    """

    def __init__(self, path):
        self._path = os.fspath(path)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | _BINARY, 0o600)
        try:
            self._lock()
            self._lines = self._read()
        except BaseException:
            os.close(self._file)
            raise
        self._position = 0
        self._owner: object = None
        self._prints: list = []  # of the rows that the fit has read
        self._tally: int | None = None  # the file of the key, open

    def close(self) -> None:
        """Close the files."""
        os.close(self._file)
        self._close_tally()

    def _close_tally(self) -> None:
        if self._tally is not None:
            os.close(self._tally)
            self._tally = None

    # -- what the wall calls ---------------------------------------------------------

    def reads(self, rows) -> None:
        """Take note of the rows of the fit, before it is reserved."""
        self._prints += rows.prints(fingerprint)

    def reserve(self, wall, spend) -> None:
        """Call `spend(name)`: a ledger that knows the name is not charged again."""
        if self._owner is not None:
            raise ValueError("One journal serves one fit: use one `resume` for each.")
        self._owner = wall
        if self._lines and self._lines[-1].get("entry") == "end":
            raise ValueError(
                "This journal belongs to a fit that ended; take another path."
            )
        start = self._next("start")
        if start is None:
            start = {"entry": "start", "version": VERSION, "name": os.urandom(16).hex()}
            start["digest"] = _digest(wall, start["name"])
            start["rows"] = self._keyed(self._new_key())
            self._write(start)
        elif start["digest"] != _digest(wall, start["name"]):
            raise ValueError(
                "This journal belongs to a fit of another estimator, other parameters "
                "or another plan; take another path."
            )
        elif not hmac.compare_digest(
            start.get("rows", "").encode(), self._keyed(self._key()).encode()
        ):
            raise ChangedDataError
        # After a restart as well: the ledger may be another one, or new in its memory.
        spend(f"journal {start['name']}")

    def value(self, kind: str, name: str, draw) -> np.ndarray:
        """The recorded value; or what `draw()` returns, recorded before it is used."""
        line = self._next(kind)
        if line is not None:
            if line["name"] != name:
                raise ValueError("This journal belongs to another fit.")
            try:
                kept = np.frombuffer(bytes.fromhex(line["value"]), dtype=line["dtype"])
                return kept.reshape(line["shape"]).copy()
            except (TypeError, ValueError):
                raise ValueError(_DAMAGED) from None
        values = np.asarray(draw())
        raw = np.ascontiguousarray(values).tobytes().hex()
        held = {"dtype": values.dtype.str, "shape": list(values.shape), "value": raw}
        self._write({"entry": kind, "name": name, **held})
        return values

    def holds(self) -> bool:
        """Whether the next value is recorded already."""
        return self._position < len(self._lines)

    def end(self) -> None:
        """Close the account: this journal serves no other fit."""
        self._write({"entry": "end"})
        self._close_tally()
        with suppress(FileNotFoundError):
            os.unlink(f"{self._path}.key")

    # -- the rows --------------------------------------------------------------------

    def _keyed(self, key: bytes) -> str:
        return hashlib.blake2b(
            repr(self._prints).encode(), digest_size=16, key=key
        ).hexdigest()

    def _new_key(self) -> bytes:
        key = os.urandom(_KEY_BYTES)
        # A file of its own: one that is there already may be readable by others.
        with suppress(FileNotFoundError):
            os.unlink(f"{self._path}.key")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | _BINARY
        self._tally = os.open(f"{self._path}.key", flags, 0o600)
        _append(self._tally, key)
        return key

    def _key(self) -> bytes:
        flags = os.O_RDWR | os.O_APPEND | _BINARY
        try:
            self._tally = os.open(f"{self._path}.key", flags)
        except FileNotFoundError:
            raise ValueError(
                "The key beside this journal is missing, so that nobody can tell "
                "whether the data are still the same: take another path."
            ) from None
        missed = len(self._lines) - (os.fstat(self._tally).st_size - _KEY_BYTES)
        if missed < 0:
            raise ValueError(
                "The end of this journal was cut off, or an older copy was put in its "
                "place, and what it held would be drawn again: take another path."
            )
        _append(self._tally, b"." * missed)  # death came before it was counted
        os.lseek(self._tally, 0, os.SEEK_SET)
        return os.read(self._tally, _KEY_BYTES)

    # -- the file ----------------------------------------------------------------------

    def _next(self, kind: str):
        if not self.holds():
            return None
        line = self._lines[self._position]
        if line["entry"] != kind:
            raise ValueError("This journal belongs to another fit.")
        self._position += 1
        return line

    def _read(self) -> list[dict]:
        with os.fdopen(os.dup(self._file), "rb") as file:
            content = file.read()
        first = b'{"entry": "start"'  # or as much of it as death left
        if not content.startswith(first[: len(content)]):
            raise ValueError("This file is not a journal.")
        lines, end = [], 0
        for line in content.splitlines(keepends=True):
            try:
                entry = json.loads(line)
            except ValueError:
                entry = None
            if not lines:  # before the entries, which are of other kinds there
                _refuse_other_version(entry)
            if entry is not None and not _is_entry(entry):
                raise ValueError(_DAMAGED)
            if not line.endswith(b"\n") or entry is None:
                if end + len(line) < len(content):
                    raise ValueError(_DAMAGED)
                break
            lines.append(entry)
            end += len(line)
        os.ftruncate(self._file, end)
        os.lseek(self._file, end, os.SEEK_SET)
        return lines

    def _write(self, entry: dict) -> None:
        _append(self._file, json.dumps(entry).encode() + b"\n")
        _append(self._tally, b".")

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # pragma: no cover  (Windows)
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RuntimeError("Another process is using this journal.") from None


@contextmanager
def resume(path):
    """Let the one fit inside survive the death of its process.

    Each released value is on the disk before it is used. If the process dies, the same
    lines run again take what was released from the file: nothing is drawn twice, and
    the ledger is charged once. One that has not heard of the fit is charged as well:
    another one, or one in the memory of a process that is no more.

    .. rubric:: Privacy

    The file, of mode 0600, holds values that the fit releases anyway, public random
    draws such as initial weights, a salted digest of the parameters and a keyed one of
    the rows. The key is in a second file, ``path + ".key"``, of mode 0600, and removed
    when the fit ends; whoever holds both files of a fit that did not end can test
    whether it was on a table they know. Released values of the intermediate steps are
    covered by the guarantee of the fit.

    What a journal has lost would be drawn a second time, for one spend. A journal that
    was cut off, or replaced by an older copy, is refused: the second file counts the
    entries. Nothing tells that both files were put back together: whoever can write
    both can have values drawn again. Keep them where only the curator of the rows
    writes, and out of backups.

    Parameters
    ----------
    path : str or path-like
        File of the journal, created if it does not exist.

    Yields
    ------
    None
        The fit stands inside the ``with`` block.

    Raises
    ------
    ValueError
        If the journal belongs to a fit that ended, to an estimator with other
        parameters, if its end is missing, or if the fit parts its rows at random.
    RuntimeError
        If another process is using the journal, or the rows (in the same batches) are
        not those that the fit began with.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from fairpriv_sklearn.distributed import resume
    >>> from fairpriv_sklearn.linear_model import DPLinearRegression
    >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> model = DPLinearRegression(bounds=(0, 1), target_bounds=(0, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with resume(os.path.join(folder, "journal")):
    ...         _ = model.fit(X, X.sum(axis=1))
    """
    before, journal = current_journal.get(), Journal(path)
    try:
        current_journal.set(journal)  # an interrupt here must not leave it open
        yield
        if journal._owner is not None:
            journal.end()
    finally:
        current_journal.set(before)
        journal.close()


def _digest(wall, salt: str) -> str:
    estimator = wall.estimator
    params = {
        name: _plain(value)
        for name, value in estimator.get_params(deep=True).items()
        if name.split("__")[-1] not in ("ledger", "verbose")
    }
    described = repr(
        (type(estimator).__qualname__, sorted(params.items()), wall.plan, wall.delta)
    )
    salted = f"{salt} {wall.neighboring} {described}"
    return hashlib.blake2b(salted.encode(), digest_size=32).hexdigest()


def _plain(value) -> str:
    """What a parameter is, in every process alike."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tolist()}"
    if isinstance(value, list | tuple):
        return repr([_plain(one) for one in value])
    if hasattr(value, "get_params"):  # its parameters are told beside it
        return type(value).__qualname__
    return _ADDRESS.sub("", repr(value))
