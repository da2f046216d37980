"""Which paths name a stream, and what they are called inside (amendments §§4, 7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.errors import Refused
from millstream.protocol.names import key_of_bucket_path, key_of_flat_path
from millstream.protocol.placement import shard_of


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (b"s", "_default/s"),
        (b"a/b", "a/b"),
        (b"a/b/c", "a/b/c"),
        (b"a%2Fb", "a/b"),
        (b"doc.updates", "_default/doc.updates"),
        ("é".encode(), "_default/é"),
        (b"%C3%A9", "_default/é"),
        (b"%2541", "_default/%41"),
        (b"a/streamsx", "a/streamsx"),
        (b"x" * 256, "_default/" + "x" * 256),
        (b"%78" * 256, "_default/" + "x" * 256),
    ],
)
def test_a_flat_path_is_decoded_once_and_divided_at_its_first_slash(path: bytes, key: str) -> None:
    assert key_of_flat_path(path) == key


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"", "invalid_path"),
        (b"a/", "invalid_path"),
        (b"/a", "invalid_path"),
        (b"a//b", "invalid_path"),
        (b"a%2F", "invalid_path"),
        (b"a/../b", "invalid_path"),
        (b"..", "invalid_path"),
        (b"%2e%2e", "invalid_path"),
        (b"a%00b", "invalid_path"),
        (b"a%zz", "invalid_path"),
        (b"a%4", "invalid_path"),
        (b"%ff", "invalid_path"),
        (b"x" * 257, "invalid_path"),
        ("é".encode() * 129, "invalid_path"),
        (b"streams", "reserved_name"),
        (b"a/streams", "reserved_name"),
        (b"__ds", "route_not_found"),
        (b"__ds/subscriptions/x", "route_not_found"),
        (b"a/__ds/subscriptions/x", "route_not_found"),
    ],
)
def test_a_flat_path_that_is_no_name_is_refused(path: bytes, code: str) -> None:
    with pytest.raises(Refused) as refusal:
        key_of_flat_path(path)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("bucket", "stream", "code"),
    [
        (b"abc", b"s", "invalid_path"),
        (b"A-bucket", b"s", "invalid_path"),
        (b"x" * 65, b"s", "invalid_path"),
        (b"good-bucket", b"a%2Fb", "invalid_path"),
        (b"good-bucket", b"", "invalid_path"),
        (b"good-bucket", b"..", "invalid_path"),
        (b"good-bucket", b"streams", "reserved_name"),
        (b"good-bucket", b"__ds", "route_not_found"),
        (b"__ds", b"s", "route_not_found"),
        (b"healthz", b"s", "reserved_name"),
        (b"console", b"s", "reserved_name"),
        (b"good-bucket", b"x" * 111, "invalid_path"),
    ],
)
def test_a_bucket_path_that_is_no_name_is_refused(bucket: bytes, stream: bytes, code: str) -> None:
    with pytest.raises(Refused) as refusal:
        key_of_bucket_path(bucket, stream)
    assert refusal.value.code == code


def test_both_surfaces_name_the_same_stream() -> None:
    assert key_of_bucket_path(b"good-bucket", b"doc.1") == key_of_flat_path(b"good-bucket/doc.1")
    assert key_of_bucket_path(b"good-bucket", b"x" * 110) == "good-bucket/" + "x" * 110


@given(st.binary(max_size=40))
def test_any_bytes_are_a_name_or_refused_as_the_clients_fault(path: bytes) -> None:
    try:
        key = key_of_flat_path(path)
    except Refused as refusal:
        status = refusal.status
    else:
        status = 400
        bucket, slash, stream = key.partition("/")
        assert bucket and slash and stream and "\0" not in key
    assert 400 <= status < 500


def test_the_shard_of_a_key_never_changes() -> None:
    keys = ("_default/s", "a/b", "good-bucket/doc.1", "_default/é")
    assert [shard_of(key, 16) for key in keys] == [7, 12, 13, 11]
