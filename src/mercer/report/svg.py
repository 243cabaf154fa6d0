"""Small pictures as inline SVG: colours come from the page, and every picture says in words what it shows."""

import base64
import struct
import zlib
from dataclasses import dataclass

import numpy as np

from mercer.report.html import Element, el, visible

__all__ = ["Axis", "Plot", "picture", "png", "rows_axis", "shortened"]

_MOST = 1500  # points of a picture; of more, evenly spread ones are drawn
_ROOM = (54.0, 10.0, 12.0, 40.0)  # left, right, above, below
_LONGEST = 18  # letters of a name beside a picture
_LETTER = 6.6  # width of a letter of the labels, about


@dataclass(frozen=True)
class Axis:
    """Numbers from low to high, equally spaced or by their logarithms."""

    low: float
    high: float
    label: str = ""
    log: bool = False

    @classmethod
    def around(cls, values, label="", *, log=False, room=0.05, include=()) -> "Axis":
        """An axis that holds all finite values and those of `include`."""
        values = np.concatenate([np.ravel(np.asarray(values, float)), np.ravel(np.asarray(include, float))])
        values = values[np.isfinite(values) & ((values > 0) | (not log))]
        if not len(values):
            values = np.array([1.0, 10.0]) if log else np.array([0.0, 1.0])
        low, high = float(values.min()), float(values.max())
        if log:
            ratio = (high / low) ** room if high > low else 3.0
            return cls(low / ratio, high * ratio, label, log)
        gap = room * (high - low) if high > low else max(abs(high), 1.0) * 0.5
        return cls(low - gap, high + gap, label)

    def share(self, value):
        """Where a value lies, from 0 to 1."""
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                return (np.log(value) - np.log(self.low)) / (np.log(self.high) - np.log(self.low))
        return (np.asarray(value, float) - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> np.ndarray:
        """Round numbers within the axis, at least two where there are."""
        return _powers(self.low, self.high, most) if self.log else _round(self.low, self.high, most)


def _round(low, high, most):
    step = (high - low) / most
    size = 10.0 ** np.floor(np.log10(step))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= step * (1 - 1e-9))
    ticks = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    return np.where(np.abs(ticks) < step * 1e-9, 0.0, ticks)


def _powers(low, high, most):
    first, last = int(np.ceil(np.log10(low) - 1e-9)), int(np.floor(np.log10(high) + 1e-9))
    if last - first >= 1:
        powers = np.arange(first, last + 1)
        return 10.0 ** powers[:: -(-len(powers) // most)]
    ticks = np.array([m * 10.0**p for p in range(first - 1, last + 2) for m in (1, 2, 3, 5)])
    inside = ticks[(ticks >= low * (1 - 1e-9)) & (ticks <= high * (1 + 1e-9))]
    return inside if len(inside) >= 2 else np.array([low, high])


class Plot:
    """A picture that is being drawn: axes first, then marks in the order they are asked for."""

    def __init__(self, x: Axis, y: Axis, *, size=(420.0, 280.0), room=_ROOM, names=None, blank=False):
        """names : of the rows 0, 1, ... from top to bottom, in place of numbers on the y axis. blank : no ticks and no grid."""
        self.x, self.y, self.size = x, y, size
        left = room[0] if names is None else _name_room(names)
        self.left, self.right, self.top, self.bottom = left, size[0] - room[1], room[2], size[1] - room[3]
        self.marks: list[Element] = []
        self._axes(names, blank)

    def at(self, xs, ys):
        """Data as places of the picture, (m,) and (m,)."""
        px = self.left + self.x.share(xs) * (self.right - self.left)
        py = self.bottom - self.y.share(ys) * (self.bottom - self.top)
        return np.broadcast_arrays(np.atleast_1d(px), np.atleast_1d(py))

    # ------------------------------------------------------------------------------------ marks
    def dots(self, xs, ys, kind="dots") -> "Plot":
        px, py = self.at(xs, ys)
        some = _some(np.flatnonzero(np.isfinite(px) & np.isfinite(py)))
        return self._path("".join(f"M{_n(a)} {_n(b)}h0" for a, b in zip(px[some], py[some], strict=True)), kind)

    def line(self, xs, ys, kind="line") -> "Plot":
        px, py = self.at(xs, ys)
        fine = np.isfinite(px) & np.isfinite(py)
        return self._path("M" + "L".join(f"{_n(a)} {_n(b)}" for a, b in zip(px[fine], py[fine], strict=True)), kind)

    def bars(self, lefts, rights, bottoms, tops, kind="bar") -> "Plot":
        for corners in zip(lefts, rights, bottoms, tops, strict=True):
            self._rectangle(corners, {"class": kind})
        return self

    def cell(self, corners, opacity) -> "Plot":
        """A shade over (left, right, bottom, top)."""
        return self._rectangle(corners, {"class": "cell", "fill-opacity": f"{opacity:.3f}"})

    def rule(self, *, x=None, y=None, slope=None) -> "Plot":
        """A dashed line: upright, level, or where both axes are equal."""
        if slope is not None:
            low, high = max(self.x.low, self.y.low), min(self.x.high, self.y.high)
            return self.line([low, high], [low, high], "rule") if low < high else self
        if x is not None:
            return self.line([x, x], [self.y.low, self.y.high], "rule")
        return self.line([self.x.low, self.x.high], [y, y], "rule")

    def text(self, x, y, words, kind="", move=(0.0, 0.0)) -> "Plot":
        px, py = self.at(x, y)
        self._words(px[0] + move[0], py[0] + move[1], words, kind)
        return self

    def image(self, pixels: bytes) -> "Plot":
        """A PNG over the whole area of the axes."""
        address = "data:image/png;base64," + base64.b64encode(pixels).decode()
        place = _box(self.left, self.right, self.top, self.bottom)
        self.marks.append(el("image", {"href": address, **place, "preserveAspectRatio": "none"}))
        return self

    # ------------------------------------------------------------------------------------ inside
    def _rectangle(self, corners, look):
        (x0, x1), (y0, y1) = self.at(corners[:2], corners[2:])
        self.marks.append(el("rect", {**look, **_box(min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1))}))
        return self

    def _path(self, d, kind):
        if len(d) > 1:
            self.marks.append(el("path", {"class": kind, "d": d}))
        return self

    def _words(self, px, py, words, kind):
        kind = kind or None
        self.marks.append(el("text", {"x": _n(px), "y": _n(py), "class": kind}, shortened(words, 40)))

    def _axes(self, names, blank):
        if not blank:
            self._ticks_below()
        if names is not None:
            self._row_names(names)
        elif not blank:
            self._ticks_beside()
        self._words((self.left + self.right) / 2, self.bottom + 33, self.x.label, "mid")
        if not blank:
            self._path(f"M{_n(self.left)} {_n(self.bottom)}H{_n(self.right)}", "axis")

    def _ticks_below(self):
        for tick in self.x.ticks(int((self.right - self.left) / 55)):
            px = self.at(tick, self.y.low)[0][0]
            self._path(f"M{_n(px)} {_n(self.top)}V{_n(self.bottom)}", "grid")
            self._words(px, self.bottom + 15, _label(tick), "mid")

    def _ticks_beside(self):
        for tick in self.y.ticks():
            py = self.at(self.x.low, tick)[1][0]
            self._path(f"M{_n(self.left)} {_n(py)}H{_n(self.right)}", "grid")
            self._words(self.left - 6, py + 4, _label(tick), "end")
        turned = f"rotate(-90) translate({_n(-(self.top + self.bottom) / 2)} 10)"
        self.marks.append(el("text", {"class": "mid", "transform": turned}, shortened(self.y.label, 40)))

    def _row_names(self, names):
        for row, name in enumerate(names):
            py = self.at(self.x.low, row)[1][0]
            whole = el("title", {}, str(name)[:400]) if len(str(name)) > _LONGEST else None
            place = {"class": "name end", "x": _n(self.left - 8), "y": _n(py + 4)}
            self.marks.append(el("text", place, whole, shortened(name, _LONGEST)))


def _name_room(names):
    longest = max((len(shortened(name, _LONGEST)) for name in names), default=0)
    return 16.0 + _LETTER * longest


def rows_axis(count: int) -> Axis:
    """The y axis of `count` named rows: row 0 on top."""
    return Axis(count - 0.5, -0.5)


def picture(key: str, title: str, description: str, plot: Plot, caption: str = "") -> Element:
    """A figure: the picture with its name and description for those who do not see it, and a caption below."""
    size = f"0 0 {_n(plot.size[0])} {_n(plot.size[1])}"
    told = el("title", {"id": f"{key}-title"}, title), el("desc", {"id": f"{key}-desc"}, description)
    drawn = el("svg", {"viewBox": size, "role": "img", "aria-labelledby": f"{key}-title {key}-desc"}, told, plot.marks)
    below = el("figcaption", {}, el("b", {}, title), f". {caption}" if caption else None)
    return el("figure", {"id": key}, drawn, below)


# ---------------------------------------------------------------------------------------------- images
_RAMP = np.array([[27, 30, 68], [44, 72, 122], [38, 118, 142], [60, 163, 132], [150, 200, 100], [250, 236, 140]], float)


def png(values, low: float, high: float) -> bytes:
    """Numbers (h, w) as an image of colours from dark to light; what is not finite is grey."""
    values = np.asarray(values, float)
    share = np.clip((values - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    levels = np.where(np.isfinite(values), np.nan_to_num(share) * 254, 255).round().astype(np.uint8)
    height, width = levels.shape
    rows = np.column_stack([np.zeros(height, np.uint8), levels])  # each line begins with the number of its filter
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [
        (b"IHDR", head),
        (b"PLTE", _palette().tobytes()),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _palette():
    places = np.linspace(0, len(_RAMP) - 1, 255)
    ramp = np.column_stack([np.interp(places, np.arange(len(_RAMP)), column) for column in _RAMP.T])
    return np.vstack([ramp, [128.0] * 3]).round().astype(np.uint8)


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# ---------------------------------------------------------------------------------------------- words and numbers
def _some(index):
    return index if len(index) <= _MOST else index[np.linspace(0, len(index) - 1, _MOST).astype(int)]


def _box(left, right, top, bottom):
    return {"x": _n(left), "y": _n(top), "width": _n(right - left), "height": _n(bottom - top)}


def _n(value) -> str:
    """A place of the picture with one decimal."""
    return f"{round(float(value), 1) + 0.0:g}"


def _label(tick) -> str:
    tick = float(tick)
    if tick == 0 or 1e-3 <= abs(tick) < 1e5:
        return f"{tick:.6g}"
    mantissa, power = f"{tick:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(power)}"


def shortened(words, most) -> str:
    """Words of so many letters at most, hidden characters shown."""
    words = str(words)
    words = visible(words[: most + 1])
    return words if len(words) <= most else words[: most - 1] + "…"
