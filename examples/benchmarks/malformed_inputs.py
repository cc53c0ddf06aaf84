"""Malformed inputs of the command line: each must end in a result or one sentence.

Tables whose bytes were damaged, tables of strange content, labels full of markup and
mathematics, broken codebooks, arguments out of their range. A traceback, an internal
error, an empty message or more than one line of error is a failure. Run:

    OMP_NUM_THREADS=1 python examples/benchmarks/malformed_inputs.py \
        > examples/benchmarks/malformed_inputs.txt
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import sys
import tempfile
import warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path

N_INPUTS = 720
BASE = ["--target", "pay", "--sensitive", "sex"]
LABELS = [
    *("$x^$", "$\\frac", "|", "<b>bold</b>", "<script>alert(1)</script>", "_hidden"),
    *("a\tb", "`code`", "[link](http://x)", "# head", "\\", "%s", "{0}", "{x!r}", "''"),
    *("\u202eright to left", "\x1b[31mred", "\x00", "\ufeff", "日本", "🙂", "e\u0301"),
    *("-", "--groups", "nan", "None", "True", "a" * 3000, "&amp;", '"', "a/b", "*"),
    *("$", "$$", "\\$", "^", "$a$ $b$", "~", "=1+1", "@", "\u2028", "\x7f", "../x"),
]
CELLS = [
    *(
        "1e308",
        "-1e308",
        "1e400",
        "inf",
        "-inf",
        "nan",
        "",
        " ",
        "0x10",
        "1_000",
        "--5",
    ),
    *("9" * 400, "1.7976931348623157e308", "5e-324", "1,2,3", "12 kg", "n/k", "$", "%"),
    *(
        "0000-00-00",
        "31/02/2020",
        "9999-12-31",
        "99999-01-01",
        "2020-01-01T25:00",
        "()",
    ),
    *(
        "TRUE",
        "１２",
        "½",
        "Ⅷ",
        "٣",
        "1e",
        "e1",
        ".",
        "-.",
        "+",
        "1..2",
        "$-",
        "(",
        "€€5",
    ),
]
CODEBOOKS = [
    *("", "{", "[]", "null", "3", '"text"', "{}", '{"age": 5}', '{"age": [1]}'),
    *('{"age": [90, 17]}', '{"age": [NaN, 1]}', '{"age": [0, Infinity]}', "\x00"),
    *('{"age": [0, 1e999]}', '{"age": {"kind": "int"}}', '{"age": {"range": 5}}'),
    *(
        '{"age": {"range": [1, 2, 3]}}',
        '{"age": {"categories": "ab"}}',
        '{"no": [0, 1]}',
    ),
    *('{"age": {"categories": [[1]]}}', '{"age": ["x", "y"]}', '{"town": [0, 1]}'),
    *('{"age": {"kind": "date"}}', '{"age": {"kind": "flag"}}', '{"sex": "left out"}'),
    *('{"pay": {"kind": "left out"}}', '{"pay": ["a", "b"]}', '{"pay": [5, 6]}'),
    *('{"pay": {"role": "target"}, "age": {"role": "target"}}', '{"sex": [0, 1]}'),
    *('{"age": ' + "[" * 100_000, '{"age": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    *('{"age": [0, 1], "age": [0, 2]}', '{"": [0, 1]}', '{"age": [true, false]}'),
    *('{"age": {"kind": "number", "range": ["1", "2"]}}', '{"age": [-1e308, 1e308]}'),
    *('{"sex": ["\\ud800", "x"]}', '{"sex": ["f"]}', '{"sex": {"categories": ["q"]}}'),
    *(
        '{"age": {"missing": false}}',
        '{"age": {"missing": "no"}}',
        '{"age": [0, 1e300]}',
    ),
    *('{"town": {"categories": ["x"], "other": false}}', '{"age": {"unit": "a"}}'),
    *('{"pay": {"kind": "date"}}', '{"pay": {"kind": "flag"}}', '{"age": [1e-320, 1]}'),
]
ARGUMENTS = [
    *(
        ["--epsilon", v]
        for v in ("0", "-1", "nan", "inf", "1e-10", "1e9", "x", "", "1e-4")
    ),
    *(["--delta", v] for v in ("0", "1", "-1", "nan", "1e-300", "0.5", "x")),
    *(["--fairness-tolerance", v] for v in ("-1", "2", "nan", "x", "1")),
    *(["--seed", v] for v in ("-1", "x", "99999999999999999999", "1.5")),
    *(["--bounds", *v] for v in (("1", "0"), ("nan", "1"), ("0", "inf"), ("1", "1"))),
    *(["--bounds", *v] for v in (("-1e308", "1e308"), ("0", "1e-320"), ("x", "y"))),
    *(["--groups", *v] for v in (("f",), ("f", "f"), ("q", "r"), ("f", "m", "x"))),
    *(["--drop", v] for v in ("pay", "sex", "nobody", "age")),
    *(["--drop", "age", "town"], ["--sensitive", "pay"], ["--sensitive", "age"]),
    *(
        ["--sensitive", "sex", "sex"],
        ["--sensitive", "sex", "town"],
        ["--target", "id"],
    ),
    *(["--target", "town"], ["--target", "sex"], ["--target", "nobody"], ["--bounds"]),
    *(["--task", "classification"], ["--task", "ranking"], ["--missing", "guess"]),
    *(["--separator", v] for v in ("", "ab", ";", "tab", "\x00", '"', "\n")),
    *(["--encoding", v] for v in ("klingon", "utf-16", "ascii", "", "idna", "rot13")),
    *(
        ["--decimal", ","],
        ["--decimal", "x"],
        ["--sheet", "x"],
        ["--dates", "day-first"],
    ),
    *(["--constraint", "equalized_odds"], ["--base-model", "forest"], ["--nonsense"]),
    *(["--codebook", v] for v in ("nowhere.json", ".", "\x00", "")),
    *(["--out", v] for v in ("taken", "taken/x", "", "\x00", "a" * 300)),
    *(["--write-codebook", v] for v in ("", ".", "no/where.json", "\x00", "taken")),
]


def table(rng, n=60, **columns) -> str:
    """Rows of people; columns given replace the usual ones."""
    people = {
        "id": [str(i) for i in range(n)],
        "age": [str(20 + (7 * i) % 60) for i in range(n)],
        "town": [rng.choice(["north", "south"]) for _ in range(n)],
        "sex": ["fm"[i % 2] for i in range(n)],
        "pay": [f"{1 + i % 40}.5" for i in range(n)],
    }
    people.update(columns)
    lines = [list(people), *zip(*people.values(), strict=True)]
    return "\n".join(",".join(map(_quoted, line)) for line in lines) + "\n"


def _quoted(cell: str) -> str:
    if any(c in cell for c in ',"\n\r'):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def damaged(data: bytes, rng) -> bytes:
    """The same file after an accident."""
    data = bytearray(data)
    accident = rng.randrange(8)
    if accident == 0:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.choice([1, 3, 30])):
        data = data or bytearray(b" ")
        at = rng.randrange(len(data))
        if accident == 1:
            data[at] = rng.randrange(256)
        elif accident == 2:
            data.insert(at, rng.choice(b'",;\t\r\n\x00\xff'))
        elif accident == 3:
            del data[at : at + rng.randrange(5)]
        elif accident == 4:
            data[at:at] = data[at : at + rng.randrange(200)]
        elif accident == 5:
            data[at:at] = bytes(rng.randrange(256) for _ in range(20))
    if accident == 6:
        data = bytearray(rng.randbytes(rng.randrange(1, 3000)))
    if accident == 7:
        lines = bytes(data).split(b"\n")
        rng.shuffle(lines)
        data = bytearray(b"\n".join(lines))
    return bytes(data)


def inputs(n_inputs=N_INPUTS, seed=0):
    """Pairs of files (name to bytes) and arguments, of seven kinds in turn."""
    rng = random.Random(seed)
    packed = _packed(rng)
    for i in range(n_inputs):
        kind, j = i % 8, i // 8
        files, arguments = {"t.csv": table(rng).encode()}, ["t.csv", *BASE]
        if kind == 0:
            files["t.csv"] = damaged(files["t.csv"], rng)
        elif kind == 1:
            name, data = packed[j % len(packed)]
            files = {name: damaged(data, rng)}
            arguments = [name, *BASE]
        elif kind in (2, 3):
            files["t.csv"] = _strange_labels(rng, j if kind == 2 else j + 7).encode()
            arguments = _label_arguments(rng)
        elif kind == 4:
            column = rng.choice(["age", "pay", "town", "sex"])
            share = rng.choice([1, 3, 60])
            cells = [CELLS[(j + k) % len(CELLS)] for k in range(share)]
            usual = ["fm"[k % 2] if column == "sex" else str(k % 9) for k in range(60)]
            files["t.csv"] = table(rng, **{column: [*cells, *usual][:60]}).encode()
            arguments += rng.choice([[], ["--missing", "drop"], ["--missing", "error"]])
        elif kind == 5:
            text = CODEBOOKS[j % len(CODEBOOKS)]
            files["c.json"] = text.encode("utf-8", errors="surrogatepass")
            if j >= len(CODEBOOKS):
                files["c.json"] = damaged(files["c.json"] + b" ", rng)
            arguments += ["--codebook", "c.json"]
        elif kind == 6:
            arguments += ARGUMENTS[j % len(ARGUMENTS)]
            files["taken"] = b"somebody's"
        else:
            files["t.csv"] = _small(rng, j).encode()
        yield files, arguments


def _strange_labels(rng, j) -> str:
    """Labels, classes, categories and names of columns with markup in them."""
    a, b, c = (LABELS[(j + k * 11) % len(LABELS)] for k in range(3))
    where = rng.choice(["sex", "pay", "town", "name"])
    if where == "name":
        return table(rng, **{a: [str(k % 7) for k in range(60)]})
    return table(rng, **{where: [(a, b, c)[k % 3] for k in range(60)]})


def _label_arguments(rng) -> list[str]:
    return ["t.csv", *BASE, *rng.choice([[], [], ["--drop", "id"]])]


def _small(rng, j) -> str:
    """Tables with few rows, one value, one column or none."""
    n = j % 12
    kind = rng.randrange(4)
    if kind == 0:
        return table(rng, n) if n else "id,age,town,sex,pay\n"
    if kind == 1:
        return table(rng, pay=["5"] * 60, age=[""] * 60)
    if kind == 2:
        return table(rng, sex=["f"] * (60 - n) + ["m"] * n)
    return "sex,pay\n" + "\n".join(f"{'fm'[i % 2]},{i}" for i in range(n)) + "\n"


def _packed(rng):
    data = table(rng).encode()
    found = [("t.csv.gz", gzip.compress(data))]
    with contextlib.suppress(ImportError):
        import pandas

        frame = pandas.read_csv(io.BytesIO(data))
        for name, write in (
            ("t.xlsx", frame.to_excel),
            ("t.parquet", frame.to_parquet),
            ("t.feather", frame.to_feather),
        ):
            stream = io.BytesIO()
            write(stream, **({"index": False} if name == "t.xlsx" else {}))
            found.append((name, stream.getvalue()))
    return found


def outcome(main, files, arguments, folder) -> str:
    """What came of one input: "result", "sentence", or what is wrong."""
    folder = Path(folder)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    out, err = io.StringIO(), io.StringIO()
    seed = [] if "--seed" in arguments else ["--seed", "0"]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            with contextlib.chdir(folder), warnings.catch_warnings():
                warnings.simplefilter("error")
                status = main([*arguments, *seed])
    except SystemExit as stop:
        status = stop.code
    except BaseException as error:
        return f"TRACEBACK {type(error).__name__}: {str(error)[:100]}"
    said = [line for line in err.getvalue().splitlines() if "error:" in line]
    if status == 0:
        return "result"
    if status == 2 and len(said) == 1 and len(said[0]) < 700:
        return "sentence"
    return f"WRONG status {status}: {err.getvalue()[-300:]!r}"


def main():
    from fairpriv_sklearn.__main__ import main as command

    found = Counter()
    for files, arguments in inputs():
        with tempfile.TemporaryDirectory() as folder:
            what = outcome(command, files, arguments, folder)
        found[what] += 1
        if what not in ("result", "sentence"):
            print(json.dumps(arguments), what, flush=True)
    print("OMP_NUM_THREADS=1 python examples/benchmarks/malformed_inputs.py")
    versions = ", ".join(f"{name} {version(name)}" for name in ("pandas", "pyarrow"))
    print(f"{N_INPUTS} inputs, seed 0; {versions}, Python {sys.version.split()[0]}\n")
    for what in ("sentence", "result"):
        print(f"{found.pop(what):5} {what}")
    print(f"{found.total():5} tracebacks or internal errors")


if __name__ == "__main__":
    main()
