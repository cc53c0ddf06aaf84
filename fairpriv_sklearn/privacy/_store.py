"""Where a ledger keeps its spends: the memory of one process, or a SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import quote

from ._composition import Composition

# What a spend does to the running composition, or raises.
Step = Callable[[Composition | None], Composition]

# Every ledger has a lock of its own. A fork waits for all of them: a child with half a
# transaction, or with a lock whose owner stayed behind, could not use its ledgers.
_LOCKS: dict[str, threading.RLock] = {}
_REGISTRY = threading.Lock()
_held: list = []


def _lock_of(name: str) -> threading.RLock:
    with _REGISTRY:
        return _LOCKS.setdefault(name, threading.RLock())


def _before_fork() -> None:
    _hold(_REGISTRY)
    for lock in list(_LOCKS.values()):
        _hold(lock)


def _hold(lock) -> None:
    """Wait for a lock: Python forks also where a handler of signals raises here."""
    is_held = False
    while not is_held:
        with suppress(BaseException):
            is_held = lock.acquire()
    _held.append(lock)


def _after_fork() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


class LedgerNotFoundError(RuntimeError, FileNotFoundError):
    """The file of a ledger is missing."""


class MemoryStore:
    """Spends in the memory of one process."""

    path = None

    def __init__(self):
        self._pid = os.getpid()
        self._lock = _lock_of(f"memory {uuid.uuid4().hex}")
        self._records: dict[str, list[dict]] = {}
        self._running: dict[str, Composition | None] = {}

    def append(self, dataset: str, record: dict, step: Step) -> None:
        """Record a spend if `step` accepts it."""
        if os.getpid() != self._pid:
            # After a fork parent and child would both spend the same budget.
            raise RuntimeError(_ONE_PROCESS)
        with self._lock:
            before = self._running.setdefault(dataset, None)
            total = step(before)
            # A mirror, a finalizer or a handler of signals is let in by the lock.
            if self._running[dataset] is not before:
                raise RuntimeError(_INSIDE)
            self._running[dataset] = total
            self._records.setdefault(dataset, []).append(record)

    def running(self, dataset: str) -> Composition | None:
        """Return the composition of all spends."""
        return self._running.get(dataset)

    def records(self, dataset: str) -> list[dict]:
        """Return the records of all spends, oldest first."""
        return list(self._records.get(dataset, ()))

    def datasets(self) -> list[str]:
        """Return the names of the data sets with spends."""
        return sorted(self._records)

    def __getstate__(self):
        raise RuntimeError(_ONE_PROCESS)


_ONE_PROCESS = (
    "This PrivacyLedger lives in the memory of one process and cannot follow the work "
    "into another one (pickling, n_jobs > 1, fork). Give it a file, "
    "PrivacyLedger(..., path=...), and all processes share the budget; or save a "
    "fitted model without it, after set_params(ledger=None)."
)

_INSIDE = (
    "Something else spent from this PrivacyLedger in the midst of a spend, such as its "
    "mirror or a handler of signals. Its spend counts, and this one was not recorded: "
    "spend again."
)

_NOT_INSIDE = (
    "This PrivacyLedger is in the midst of a spend or of being read, and what came in "
    "between, such as its mirror or a handler of signals, cannot spend from it: that "
    "was not recorded. Spend when the other has ended."
)


class _Inside(threading.local):
    """The ledgers whose files a thread is reading or writing."""

    ledgers: frozenset = frozenset()

    @contextmanager
    def transaction_of(self, identity: str):
        before, self.ledgers = self.ledgers, self.ledgers | {identity}
        try:
            yield
        finally:
            self.ledgers = before


_inside = _Inside()

_APPLICATION_ID = 0x46505332  # tells a ledger from any other SQLite file
_BUSY_SECONDS = 300.0
# Version of the file. Files of another version are refused in one sentence.
_VERSION = 2
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
CREATE TABLE ledger (uuid TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL);
CREATE TABLE spends (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    record TEXT NOT NULL,  -- what was spent, as JSON
    totals TEXT NOT NULL,  -- digest of the table of totals after this spend
    previous TEXT NOT NULL,  -- digest of the row before
    digest TEXT NOT NULL  -- of this row, and of the cap
);
CREATE TABLE totals (
    dataset TEXT PRIMARY KEY NOT NULL,
    composition TEXT NOT NULL  -- of all its spends, as JSON
);
"""


class _Row(NamedTuple):
    id: int
    record: str
    totals: str
    previous: str
    digest: str


_ALL_ROWS = "SELECT id, record, totals, previous, digest FROM spends ORDER BY id"


class FileStore:
    """Spends in a SQLite file, shared by threads and processes.

    A connection lives for one transaction, so that nothing is shared across a fork and
    the file is checked each time. It holds the totals beside the spends: one costs the
    same after the first and the ten thousandth.
    """

    def __init__(self, path: str, identity: str, cap: tuple[float, float]):
        self.path = path
        self._identity = identity
        self._cap = tuple(cap)
        self._last_id = 0  # the newest spend this object has seen

    @classmethod
    def open(cls, path, cap: tuple[float, float]) -> FileStore:
        """Create the ledger file, or resume the one that is there."""
        path = os.path.abspath(os.fspath(path))
        if not os.path.lexists(path):
            _create(path, cap)
        identity, found = _read_header(path)
        if found != tuple(cap):
            raise ValueError(
                f"The ledger {path!r} has the cap (epsilon, delta) = {found!r}; "
                f"{tuple(cap)!r} was asked for. Resume it with its own cap, or choose "
                "another path."
            )
        return cls(path, identity, found)

    def append(self, dataset: str, record: dict, step: Step) -> None:
        """Record a spend if `step` accepts it; durable on return."""
        with self._transaction("IMMEDIATE") as connection:
            last, totals = self._last_row(connection)
            before = totals.get(dataset)
            total = step(None if before is None else _composition(before))
            totals[dataset] = json.dumps(total.to_plain())
            told, held = json.dumps({**record, "dataset": dataset}), totals[dataset]
            digest = _digest(sorted(totals.items()))
            row = self._signed(last.id + 1, told, digest, last.digest)
            connection.execute("INSERT INTO spends VALUES (?, ?, ?, ?, ?)", row)
            connection.execute(
                "INSERT OR REPLACE INTO totals VALUES (?, ?)", (dataset, held)
            )
        self._last_id = max(self._last_id, row.id)

    def running(self, dataset: str) -> Composition | None:
        """Return the composition of all spends."""
        with self._transaction() as connection:
            _, totals = self._last_row(connection)
        return _composition(totals[dataset]) if dataset in totals else None

    def records(self, dataset: str) -> list[dict]:
        """Return the records of all spends, oldest first."""
        with self._transaction() as connection:
            last, _ = self._last_row(connection)
            rows = [_NO_ROW, *map(_Row._make, connection.execute(_ALL_ROWS))]
        chained = all(
            row == self._signed(before.id + 1, row.record, row.totals, before.digest)
            for before, row in pairwise(rows)
        )
        if not chained or rows[-1] != last:
            raise _damaged(self.path)
        records = [json.loads(row.record) for row in rows[1:]]
        return [record for record in records if record["dataset"] == dataset]

    def datasets(self) -> list[str]:
        """Return the names of the data sets with spends."""
        with self._transaction() as connection:
            _, totals = self._last_row(connection)
        return sorted(totals)

    @contextmanager
    def _transaction(self, kind: str = "DEFERRED") -> Iterator[sqlite3.Connection]:
        # What a mirror, a finalizer or a handler of signals starts in this thread would
        # wait for a transaction that waits for it.
        if kind == "IMMEDIATE" and self._identity in _inside.ledgers:
            raise RuntimeError(_NOT_INSIDE)
        with (
            _inside.transaction_of(self._identity),
            _lock_of(self.path),
            _connect(self.path) as connection,
        ):
            connection.execute(f"BEGIN {kind}")
            identity, cap = _header(connection, self.path)
            if cap != self._cap:
                raise _damaged(self.path)
            if identity != self._identity:
                raise RuntimeError(
                    f"{self.path!r} holds another ledger than the one this object was "
                    "made for. Restore the right file, or start a new one on purpose."
                )
            yield connection
            connection.execute("COMMIT")

    def _last_row(self, connection: sqlite3.Connection) -> tuple[_Row, dict[str, str]]:
        """Return the newest spend and the totals, after checking them."""
        (counter,) = connection.execute(
            "SELECT ifnull(max(seq), 0) FROM sqlite_sequence"
        ).fetchone()
        found = connection.execute(f"{_ALL_ROWS} DESC LIMIT 1").fetchone()
        last = _Row._make(found) if found else _NO_ROW
        if last.id != counter or (found and last != self._signed(*last[:-1])):
            raise _damaged(self.path)
        if last.id < self._last_id:
            raise RuntimeError(
                f"{self.path!r} is an older copy of the ledger: spends are missing. "
                "Restore the newest file."
            )
        totals = dict(connection.execute("SELECT dataset, composition FROM totals"))
        if last.totals != (_digest(sorted(totals.items())) if totals else ""):
            raise _damaged(self.path)
        self._last_id = last.id
        return last, totals

    def _signed(self, row_id: int, record: str, totals: str, previous: str) -> _Row:
        content = (self._identity, self._cap, row_id, record, totals, previous)
        return _Row(row_id, record, totals, previous, _digest(content))


def _digest(content) -> str:
    return blake2b(repr(content).encode(), digest_size=16).hexdigest()


def _composition(stored: str) -> Composition:
    return Composition.from_plain(json.loads(stored))


_NO_ROW = _Row(0, "", "", "", "")


@contextmanager
def _connect(path: str) -> Iterator[sqlite3.Connection]:
    """Connect to an existing file; never create one."""
    if not os.path.exists(path):
        raise LedgerNotFoundError(
            f"The ledger file {path!r} is missing. It is not made anew, for that would "
            "forget what was spent: restore it, or start a new ledger on purpose."
        )
    try:
        # mode=rw: SQLite must not create the file if it vanished just now.
        where = f"file:{quote(os.fsencode(path))}?mode=rw"
        opened = sqlite3.connect(
            where, uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
        with closing(opened) as connection:
            _make_durable(connection)
            yield connection
    except sqlite3.OperationalError as error:
        raise RuntimeError(f"The ledger {path!r} cannot be used: {error}.") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise _damaged(path) from error


def _make_durable(connection: sqlite3.Connection) -> None:
    # Truncating the journal ends a commit, and FULL puts that on the disk as well.
    # Deleting it, the default, could be undone by a loss of power, and the spend too.
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA synchronous = FULL")


def _read_header(path: str) -> tuple[str, tuple[float, float]]:
    with _lock_of(path), _connect(path) as connection:
        header = _header(connection, path)
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise _damaged(path)
        return header


def _header(connection, path: str) -> tuple[str, tuple[float, float]]:
    """Return the identity and the cap that the file holds."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION_ID:
        raise RuntimeError(f"{path!r} is not the file of a PrivacyLedger.")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != _VERSION:
        raise RuntimeError(
            f"The ledger {path!r} was written in version {version or 1} of the file "
            f"format, and this library reads version {_VERSION}: go on with the one "
            "that wrote it, or start a new ledger on purpose."
        )
    rows = connection.execute("SELECT uuid, epsilon, delta FROM ledger").fetchall()
    if len(rows) != 1:
        raise _damaged(path)
    identity, *cap = rows[0]
    return identity, tuple(cap)


def _damaged(path: str) -> RuntimeError:
    return RuntimeError(
        f"The ledger file {path!r} is damaged or not a ledger. It is not made anew: "
        "restore it from a copy, or start a new ledger on purpose."
    )


def _create(path: str, cap: tuple[float, float]) -> None:
    """Create a ledger; a file that another process made meanwhile is left alone."""
    folder = os.path.dirname(path)
    _remove_drafts(folder)
    # The process in its name: what a killed process left behind is found and removed.
    descriptor, draft = tempfile.mkstemp(prefix=f"{_DRAFT}{os.getpid()}-", dir=folder)
    os.close(descriptor)  # made with mode 0600
    try:
        with closing(sqlite3.connect(draft)) as connection:
            _make_durable(connection)
            connection.executescript(_SCHEMA)
            connection.execute(
                "INSERT INTO ledger VALUES (?, ?, ?)", (uuid.uuid4().hex, *cap)
            )
            connection.commit()
        # A hard link appears whole or not at all, and never replaces a file.
        with suppress(FileExistsError):
            os.link(draft, path)
    except sqlite3.Error as error:  # a disk that is full
        raise RuntimeError(f"The ledger {path!r} cannot be made: {error}.") from error
    except OSError as error:  # of the link: some file systems have none
        raise RuntimeError(
            f"The ledger {path!r} cannot be made: {error.strerror}. It needs a folder "
            "on a local disk, which has hard links."
        ) from error
    finally:
        for leftover in (draft, f"{draft}-journal"):
            if os.path.exists(leftover):
                os.unlink(leftover)
    _sync(folder)


_DRAFT = ".ledger-"


def _remove_drafts(folder: str) -> None:
    """Remove drafts of processes of this machine that are no more."""
    for name in os.listdir(folder):
        owner = name.removeprefix(_DRAFT).partition("-")[0]
        if name.startswith(_DRAFT) and owner.isdigit() and not _lives(int(owner)):
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))


def _lives(process: int) -> bool:
    if process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _sync(folder: str) -> None:
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
