"""What is written: lines of the terminal, numbers, and files that the user names."""

import math
import os
import secrets
import shutil
import sys
import tempfile
import textwrap
from contextlib import suppress
from pathlib import Path

from ..preprocessing import InputError


def wrap(text: str, indent: str = "") -> str:
    """Lines of at most 88 characters."""
    own_words = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, 88, subsequent_indent=indent, **own_words)


def number(value: float, se: float | None = None) -> str:
    """Two digits of the standard error, and four decimals of small numbers at least.

    >>> number(0.25), number(0.25, 0.01), number(12345.678, 21.34), number(2e-4, 3e-6)
    ('0.2500', '0.2500 ± 0.0100', '12346 ± 21', '0.0002000 ± 0.0000030')
    """
    if math.isnan(value):
        return "-"
    n = 1 - math.floor(math.log10(se)) if se else 4
    n = max(n, 4 if value < 10 else 0)
    return f"{value:.{n}f}" + ("" if se is None else f" ± {se:.{n}f}")


def lenient() -> None:
    """Let a terminal that lacks a character show an escape instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def new_file(path: str, force: bool, made: str | None = None) -> str:
    """The path, if it can be written to and nothing that has to stay is there.

    `made` is a folder that will be made before.
    """
    where = _real(path)
    if os.path.exists(where) and not os.path.isfile(where):
        raise InputError(f"{path!r} is there already and is no file; name another one.")
    if os.path.exists(where) and not force:
        raise InputError(f"{path!r} is there already; name another file, or --force.")
    folder = os.path.dirname(where)
    if not os.path.isdir(folder) and (made is None or folder != _real(made)):
        raise InputError(f"There is no folder for {path!r}; make it first.")
    try:
        _try_to_write(Path(where))
    except OSError as error:
        raise _unwritable(path, error) from None
    return path


def _try_to_write(where: Path) -> None:
    """Raise an OSError if no file of this name can be made; leave nothing behind."""
    above = next(one for one in where.parents if one.exists())
    # Permissions do not tell of all: the folders of processes let nobody in.
    with tempfile.TemporaryFile(dir=above):
        pass
    for name in (where, *where.relative_to(above).parts):
        with suppress(FileNotFoundError):
            os.lstat(above / name)  # raises where a name is too long


def _unwritable(path: str, error: OSError) -> InputError:
    reason = error.strerror or type(error).__name__
    return InputError(f"{path!r} cannot be written: {reason}; name another place.")


def check_ending(option: str, path: str, *endings: str) -> None:
    """Refuse a name that promises another kind of file than is written."""
    if Path(path).suffix.lower() not in endings:
        raise InputError(f"{option} {path!r} must end in {' or '.join(endings)}.")


def refuse_same(outputs: list[str], inputs: list[str]) -> None:
    """Refuse to write two things to one file, or to one that the same call reads.

    Also with --force: what is read may be the only copy of a table.
    """
    for i, path in enumerate(outputs):
        if any(_is_same(path, other) for other in inputs):
            raise InputError(
                f"{path!r} is read by this call, which would write over it; name "
                "another file."
            )
        if _real(path) in map(_real, outputs[:i]):
            raise InputError(
                f"Two things would be written to {path!r}; name two files."
            )


def _real(path: str) -> str:
    if not path or "\0" in path:
        raise InputError(f"{path!r} is not a path.")
    return os.path.realpath(path)


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # one of them is not there
        return False


def written(path: str, data: bytes) -> None:
    """Write a file that the user has named: all of it, or nothing."""
    written_together({path: data})


def written_together(files: dict[str, bytes]) -> None:
    """Write several files: all of them whole, or none."""
    parts = {}
    try:
        for path, data in files.items():
            where = Path(os.path.realpath(path))
            where.parent.mkdir(parents=True, exist_ok=True)
            part = where.with_name(f".{secrets.token_hex(8)}.part")
            parts[path] = where, part
            part.write_bytes(data)
            if where.exists():
                shutil.copymode(where, part)
        for path in files:
            where, part = parts[path]
            part.replace(where)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        for _, part in parts.values():
            part.unlink(missing_ok=True)
