"""Instants as integers of microseconds since 1970, and the one text form that is accepted."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

SECOND_US = 1_000_000
_RFC3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:([Zz])|([+-])(\d{2}):(\d{2}))",
    re.ASCII,
)
_CHARACTERS_MAX = 64  # the text is kept with the stream; a fraction may have any number of digits
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_rfc3339_us(text: str) -> int | None:
    """Strict RFC 3339; None for anything else. A leap second counts as the next second."""
    match = _RFC3339.fullmatch(text)
    if match is None or len(text) > _CHARACTERS_MAX:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    leap = second == 60
    zone = UTC
    if match[9] is not None:
        offset_hours, offset_minutes = int(match[10]), int(match[11])
        if offset_hours > 23 or offset_minutes > 59:
            return None
        offset = timedelta(hours=offset_hours, minutes=offset_minutes)
        zone = timezone(-offset if match[9] == "-" else offset)
    try:
        moment = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=zone)
    except ValueError:
        return None
    elapsed = moment - _EPOCH
    if leap and elapsed.seconds != 86_399:
        return None  # a leap second is the last one of a day, in UTC
    microseconds = (elapsed.days * 86_400 + elapsed.seconds + leap) * SECOND_US
    fraction = (match[7] or "")[:6].ljust(6, "0")
    return microseconds + int(fraction)
