"""The rooms of the house: imports go one way, and private modules stay at home."""

import ast
import collections
import functools
from pathlib import Path

import fairpriv_sklearn

ROOT = Path(fairpriv_sklearn.__file__).parent


def room_of(module):
    """First name inside the package; the command line is one room."""
    name = module.split(".")[1]
    return "_cli" if name == "__main__" else name


@functools.cache
def imports():
    """Triples (room, room, module) for every import of one room by another."""
    return tuple(found_imports())


def found_imports():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        if len(parts) < 3 and parts[-1] == "__init__":
            continue
        here = room_of(".".join(parts))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level:
                base = ".".join(parts[: -node.level])
                names = [f"{base}.{node.module or ''}"]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
                if node.module == "fairpriv_sklearn":
                    names = [f"fairpriv_sklearn.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                outside = name.startswith("fairpriv_sklearn.") and room_of(name)
                if outside and outside != here:
                    yield here, room_of(name), name


def arrows():
    found = collections.defaultdict(set)
    for here, there, _ in imports():
        found[here].add(there)
    return found


def told(below):
    """All arrows as one line of text."""
    rooms = sorted(room for room in below if below[room])
    return "; ".join(f"{room}: {', '.join(sorted(below[room]))}" for room in rooms)


def test_there_is_no_circle_between_rooms():
    below, done = arrows(), []
    rooms = {*below, *(room for several in below.values() for room in several)}
    while rooms:
        free = {room for room in rooms if not below[room] & rooms}
        assert free, f"a circle among {sorted(rooms)}"
        done += sorted(free)
        rooms -= free
    assert done[0] == "_shared"


def test_there_are_few_rooms_and_few_arrows():
    below = arrows()
    assert len({*below, *(r for several in below.values() for r in several)}) <= 20
    assert sum(map(len, below.values())) <= 60


def test_the_picture_and_its_numbers_are_those_of_the_code():
    below, docs = arrows(), Path(__file__).resolve().parent.parent / "docs"
    picture = (docs / "_static" / "rooms.svg").read_text(encoding="utf-8")
    assert f"<desc>{told(below)}</desc>" in picture
    page = " ".join((docs / "contributing.rst").read_text(encoding="utf-8").split())
    n_arrows = sum(map(len, below.values()))
    to_floor = sum("_shared" in several for several in below.values())
    assert f"{n_arrows} arrows, {to_floor} of them to the floor" in page


def test_the_shared_floor_imports_nothing_of_the_package():
    assert not arrows()["_shared"]


def test_private_modules_stay_at_home():
    # Rooms whose own name is private are the shared ground of all.
    found = [
        f"{here}: {module}"
        for here, there, module in imports()
        if not there.startswith("_") and module.count("._")
    ]
    assert not found
