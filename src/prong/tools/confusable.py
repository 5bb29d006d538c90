"""Reads a text as its reader would: by what its characters look like.

A model, like a person, takes `＜ѕystem` for `<system`, and does not see a character of no width in
the middle of a word. So whoever looks for words that mean something looks for them here: marks
and invisible characters are gone, and letters of other alphabets that look Latin are Latin.
Where each character came from is known, so that the text itself can be changed at that place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

# By the Latin character that they pass for; what Unicode itself decomposes need not stand here.
_LOOKS: dict[str, str] = {
    "<": "\u02c2\u1438\u16b2\u276e\u27e8\u2329\u3008\u276c\u29fc\U0001d236",
    ">": "\u02c3\u1433\u16b3\u276f\u27e9\u232a\u3009\u276d\u203a\u29fd\U0001d237\U00016f3f",
    "/": "\u2044\u2215\u2571\u29f8\u27cb\u30ce\u1735\u2cc6\u4e3f\u2f03\U0001d23a",
    "'": "\u2018\u2019\u201b\u02b9\u02bb\u02bc\u02bd",
    ":": "\u0589\u0703\u05c3\u2236\u02d0\ua789\u1803\u1365",
    "|": "\u2223\u23d0\u01c0\u05c0\u2502\uffe8",
    "a": "аαɑᴀ⍺ꭺạ",
    "b": "ЬƄʙᏏᖯɓƀьЪ",
    "c": "сϲᴄⲥꮯƈↄ",
    "d": "ԁᏧᑯꓒɗđᴅ",
    "e": "еєεɛᴇҽℯⅇꬲəӗ",
    "f": "ꞙẝքꜰƒ",
    "g": "ɡցɢᶃǥɠ",
    "h": "һհᏂʜħнɦ",
    "i": "іιɩıᎥɪꙇӏⲓⵏ",
    "j": "јϳᴊɉ",
    "k": "кκᴋⲕƙ",
    "l": "ⅼʟɭłƚᏞ",
    "m": "мᴍⅿɱ",
    "n": "ոռɴпηŋɳƞ",
    "o": "оοσօᴏⲟಂഠ๐०೦൦௦ዐ০ഃøɵᴑ",
    "p": "рρϱᴘⲣƿ",
    "q": "ԛգզꞯ",
    "r": "гᴦⲅꭇꭈʀᴙɍя",
    "s": "ѕꜱƽႽꮪʂ",
    "t": "тτᴛŧƭ",
    "u": "υսᴜʋꭎꭒц",
    "v": "νѵᴠⅴטꮩ",
    "w": "ԝᴡɯѡաꮃω",
    "x": "хχ×ⅹ᙮",
    "y": "уүγʏᶌყꭚƴ",
    "z": "ᴢꮓʐƶ",
    "A": "АΑᎪᗅꓮ",
    "B": "ВΒᏴᗷꓐ",
    "C": "СϹᏟꓚⲤ",
    "D": "ᎠᗞꓓĐ",
    "E": "ЕΕᎬꓰⴹ",
    "F": "ϜᖴꓝƑ",
    "G": "ԌᏀᏳꓖ",
    "H": "НΗᎻᕼꓧⲎĦ",
    "I": "ІΙӀᏆⲒꓲ",
    "J": "ЈͿᎫᒍꓙ",
    "K": "КΚᏦᛕꓗⲔ",
    "L": "ᏝᒪꓡŁ",
    "M": "МΜᎷᗰꓟⲘ",
    "N": "ΝꓠⲚ",
    "O": "ОΟՕⲞꓳØ",
    "P": "РΡᏢᑭꓑⲢ",
    "Q": "Ԛⵕ",
    "R": "ᎡᏒᖇꓣ",
    "S": "ЅՏᏕᏚꓢ",
    "T": "ТΤᎢꓔⲦŦ",
    "U": "Սሀᑌꓴ",
    "V": "Ѵ٧Ꮩᐯꓦⴸ",
    "W": "ԜᎳᏔꓪ",
    "X": "ХΧᚷꓫⲬ",
    "Y": "ҮΥϒᎩꓬⲨ",
    "Z": "ΖᏃꓜ",
}
# White on black, and the letters that flags are made of.
_BOXED = {
    first + number: chr(ord("A") + number)
    for first in (0x1F150, 0x1F170, 0x1F1E6)
    for number in range(26)
}
_LATIN = _BOXED | {ord(char): latin for latin, chars in _LOOKS.items() for char in chars}

# Letters by their category, and yet nothing is seen of them.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5")
_UNSEEN = frozenset({"Cf", "Mn", "Me", "Cc", "Co", "Cn", "Cs"})
_SHOWN = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x85")
_SMUGGLED = range(0xE0020, 0xE007F)
"""Invisible copies of ASCII, which some models can read."""


_PLAIN = re.compile(r"[\t-\r -~]*")


class Skeleton(msgspec.Struct, frozen=True):
    """How a text reads."""

    text: str
    origin: tuple[int, ...]
    """For each character of the reading, where in the text it came from."""


@lru_cache(maxsize=4096)
def _look(char: str) -> str:
    if char in _BLANK:
        return ""
    return "".join(
        _LATIN.get(ord(one), one)
        for one in unicodedata.normalize("NFKD", _LATIN.get(ord(char), char))
        if one in _SHOWN or (one not in _BLANK and unicodedata.category(one) not in _UNSEEN)
    )


def _is_plain(text: str) -> bool:
    """Whether every character of a text is what it looks like."""
    return _PLAIN.fullmatch(text) is not None


def looks(text: str) -> tuple[str, ...]:
    """Give what a text reads as; where signs may pass for letters or for nothing, both."""
    if _is_plain(text):
        return (text,)
    return tuple("".join(map(_look, one)) for one in _unsigned(text))


def _unsigned(text: str) -> Iterator[str]:
    """Give a text and, if it has signs that could be letters, also without these."""
    yield text
    signs = {char for char in set(text) if _is_sign(char)}
    if signs:
        yield "".join(" " if char in signs else char for char in text)


def _is_sign(char: str) -> bool:
    return not char.isalnum() and any(map(str.isalnum, _look(char)))


def readings(text: str) -> Iterator[Skeleton]:
    """Give how a text may be read: invisible copies of letters passed over or read, signs too."""
    for one in _unsigned(text):
        yield _reading(one)
    if any(ord(char) in _SMUGGLED for char in text):
        shown = (chr(ord(c) - 0xE0000) if ord(c) in _SMUGGLED else c for c in text)
        for one in _unsigned("".join(shown)):
            yield _reading(one)


def _reading(text: str) -> Skeleton:
    pieces = [(look, place) for place, char in enumerate(text) for look in _look(char)]
    return Skeleton("".join(look for look, _ in pieces), tuple(place for _, place in pieces))


def replace_read(pattern: re.Pattern[str], sign: str, texts: Iterable[str]) -> list[str]:
    """Put a sign where a pattern begins in what texts may be read as; nothing else is changed."""
    return [_replaced(pattern, sign, text) for text in texts]


def _replaced(pattern: re.Pattern[str], sign: str, text: str) -> str:
    if _is_plain(text):
        return pattern.sub(sign, text)
    marks = {
        reading.origin[match.start()]
        for reading in readings(text)
        for match in pattern.finditer(reading.text)
    }
    if not marks:
        return text
    return "".join(sign if place in marks else char for place, char in enumerate(text))
