"""Refusals of forks: a source that is there, and a path for the fork that is not."""

from __future__ import annotations

from millstream.protocol.errors import Code
from tests.http.refusals import INSIDE, PAST, Case, Given, closed, nothing, numbers, softly_deleted, text

C = Code
SOURCE = "{}"
FORK = "{}-refused"


def fork(code: Code, given: Given, kind: str = "", source: str = SOURCE, **headers: str) -> Case:
    sent = {"Stream-Forked-From": source} | {f"Stream-Fork-{k}": v for k, v in headers.items()}
    sent = {name.replace("_", "-"): value for name, value in sent.items() if value}
    return Case(code, "PUT", sent | ({"Content-Type": kind} if kind else {}), b"", given, FORK)


CASES: dict[str, Case] = {
    "of_nothing": fork(C.SOURCE_NOT_FOUND, nothing),
    "of_softly_deleted": fork(C.SOURCE_DELETED, softly_deleted),
    "another_type": fork(C.CONTENT_TYPE_MISMATCH, text, "text/html"),
    "another_type_of_closed": fork(C.CONTENT_TYPE_MISMATCH, closed, "text/html"),
    "offset_garbage": fork(C.INVALID_OFFSET, text, Offset="abc"),
    "offset_past_tail": fork(C.INVALID_FORK, text, Offset="6"),
    "offset_pair_past_tail": fork(C.INVALID_FORK, text, Offset=PAST),
    "offset_of_another": fork(C.INVALID_FORK, text, Offset="0000000000000001-0000000000000001"),
    "offset_in_message": fork(C.OFFSET_NOT_AT_BOUNDARY, numbers, Offset=INSIDE),
    "sub_overshoots": fork(C.INVALID_FORK, text, Offset="3", Sub_Offset="3"),
    "sub_overshoots_messages": fork(C.INVALID_FORK, numbers, Offset="-1", Sub_Offset="4"),
    "sub_at_tail": fork(C.INVALID_FORK, text, Sub_Offset="1"),
    "sub_signed": fork(C.INVALID_FORK, text, Sub_Offset="+1"),
    "sub_leading_zero": fork(C.INVALID_FORK, text, Sub_Offset="01"),
    "sub_negative": fork(C.INVALID_FORK, text, Sub_Offset="-1"),
    "sub_huge": fork(C.INVALID_FORK, text, Sub_Offset="9" * 40),
    "sub_without_source": fork(C.INVALID_FORK, text, source="", Sub_Offset="0"),
    "offset_without_source": fork(C.INVALID_FORK, text, source="", Offset="0"),
    "source_no_path": fork(C.INVALID_PATH, text, source="{}//b"),
    "source_in_no_bucket": fork(C.BUCKET_NOT_FOUND, text, source="/nowhere/stream"),
    "source_no_url": fork(C.INVALID_PATH, text, source="http://[half"),
    "source_bad_utf_8": fork(C.INVALID_PATH, text, source="{}%ff"),
}
