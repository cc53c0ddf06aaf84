"""Draw which room of the package imports which: docs/_static/rooms.svg.

python docs/make_rooms_picture.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from test_rooms import arrows, told  # noqa: E402

WIDTH, HEIGHT, BOX = 880, 84, (118, 30)
FLOOR = "_shared"


def storeys(below):
    """Rooms by floor: a room stands one above the highest that it imports."""
    level = {}

    def height(room):
        if room not in level:
            level[room] = 1 + max(map(height, below[room]), default=-1)
        return level[room]

    rooms = {*below, *(there for several in below.values() for there in several)}
    for room in rooms:
        height(room)
    return [
        sorted(room for room in rooms if level[room] == n)
        for n in range(max(level.values()) + 1)
    ]


def picture(below):
    """The picture as SVG; its description lists all arrows."""
    places, stack = {}, storeys(below)
    for n, rooms in enumerate(stack):
        for k, room in enumerate(rooms):
            shift = 0.3 * (n % 2 - 0.5) / len(rooms) if room != FLOOR else 0
            x = WIDTH * ((k + 0.5) / len(rooms) + shift)
            places[room] = x, HEIGHT * (len(stack) - n - 0.5)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
        f'{HEIGHT * len(stack)}" font-family="sans-serif" font-size="13">',
        f"<desc>{told(below)}</desc>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    w, h = BOX
    for here in sorted(below):
        for there in sorted(below[here] - {FLOOR}):
            (x, y), (u, v) = places[here], places[there]
            bend = (y + v) / 2
            parts.append(
                f'<path d="M{x:.0f} {y + h / 2:.0f} C{x:.0f} {bend:.0f} {u:.0f} '
                f'{bend:.0f} {u:.0f} {v - h / 2:.0f}" fill="none" stroke="#0072B2" '
                'stroke-opacity=".45"/>'
            )
    for room, (x, y) in places.items():
        wide = WIDTH - 40 if room == FLOOR else w
        parts.append(
            f'<rect x="{x - wide / 2:.0f}" y="{y - h / 2:.0f}" width="{wide}" '
            f'height="{h}" rx="5" fill="#f3f6f9" stroke="#445"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">{room}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    target = ROOT / "docs" / "_static" / "rooms.svg"
    target.write_text(picture(arrows()), encoding="utf-8")
