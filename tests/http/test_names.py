"""Which path names which stream, and which names none."""

from __future__ import annotations

import uuid

import pytest

from tests.http.wire import Client


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


REFUSED_V1 = {
    "empty": "",
    "trailing_slash": "{}/",
    "escaped_trailing_slash": "{}%2F",
    "empty_segment": "{}//b",
    "escaped_empty_segment": "{}%2F/b",
    "leading_slash": "/{}",
    "escaped_leading_slash": "%2F{}",
    "dot_dot": "{}/../b",
    "escaped_dot_dot": "{}/%2e%2E/b",
    "dot_dot_alone": "..",
    "nul": "{}%00",
    "bad_utf_8": "{}%ff",
    "overlong_utf_8": "{}%c0%af",
    "surrogate_in_utf_8": "{}%ed%a0%80",
    "half_an_escape": "{}%2",
    "no_escape": "{}%zz",
    "bare_percent": "100%",
}


@pytest.mark.parametrize("case", REFUSED_V1)
def test_a_path_that_could_be_read_in_two_ways_is_refused(client: Client, name: str, case: str) -> None:
    target = "/v1/stream/" + REFUSED_V1[case].format(name)
    for method in ("PUT", "GET", "POST", "DELETE"):
        answer = client(method, target, {"Content-Type": "text/plain"}, b"x" if method != "GET" else b"")
        assert (answer.status, answer.code) == (400, "invalid_path"), answer


def test_an_escaped_slash_is_a_slash_on_the_flat_surface(client: Client, name: str) -> None:
    made = client.made(f"/v1/stream/a/{name}%2Fb", body="hello")
    assert made.need("Location").endswith(f"/v1/stream/a/{name}%2Fb"), "byte for byte"
    assert client.get(f"/v1/stream/a/{name}/b").body == b"hello"
    assert client.get(f"/v1/stream/a%2f{name}%2fb").body == b"hello"


def test_a_path_is_decoded_once(client: Client, name: str) -> None:
    client.made(f"/v1/stream/{name}%252Fb", body="one")
    assert client.get(f"/v1/stream/{name}/b").status == 404
    assert client.get(f"/v1/stream/{name}%252Fb").body == b"one"


@pytest.mark.parametrize(
    "tail", ["%3F", "%23", "%20x", "+", "%C3%A4%F0%9F%98%80", ".doc", "a.b:c@d~e", "%0A"]
)
def test_unusual_characters_are_part_of_a_name(client: Client, name: str, tail: str) -> None:
    target = f"/v1/stream/{name}{tail}"
    made = client.made(target, body="hello")
    assert made.need("Location").endswith(target)
    assert client.get(target).body == b"hello"
    assert client.head(f"/v1/stream/{name}").status == 404


def test_the_limit_of_a_path_counts_decoded_bytes(client: Client) -> None:
    longest = "é" * 128
    encoded = "%C3%A9" * 128
    assert len(longest.encode()) == 256
    assert client.put(f"/v1/stream/{encoded}").status in (200, 201)
    answer = client.put(f"/v1/stream/{encoded}a")
    assert (answer.status, answer.code) == (400, "invalid_path")


def test_the_default_bucket_and_the_flat_surface_name_the_same_stream(client: Client, name: str) -> None:
    client.made(f"/v1/stream/{name}", body="hello")
    assert client.get(f"/_default/{name}").body == b"hello"
    assert client.get(f"/v1/stream/_default/{name}").body == b"hello"


def test_an_escaped_slash_is_refused_in_a_bucket(client: Client, name: str) -> None:
    client.made(f"/v1/stream/_default/{name}/b")
    for target in (f"/_default/{name}%2Fb", f"/_default/{name}/b"):
        assert client.put(target).status in (400, 404), target
    assert client.put(f"/_default/{name}%2Fb").code == "invalid_path"


def test_a_bucket_that_does_not_exist_is_404_for_every_method(client: Client, name: str) -> None:
    client.made(f"/v1/stream/room/{name}", body="hello")
    for method in ("GET", "PUT", "POST", "DELETE"):
        answer = client(method, f"/room/{name}", {"Content-Type": "text/plain"})
        assert (answer.status, answer.code) == (404, "bucket_not_found")
    assert client.get(f"/v1/stream/room/{name}").body == b"hello"


@pytest.mark.parametrize("bucket", ["healthz", "readyz", "metrics", "cluster", "console"])
def test_a_bucket_cannot_have_the_name_of_a_route(client: Client, bucket: str) -> None:
    answer = client.put(f"/{bucket}/stream")
    assert (answer.status, answer.code) == (400, "reserved_name")
    assert bucket in answer.json["error"]["message"]


@pytest.mark.parametrize("bucket", ["abc", "UPPER", "a" * 65, "sp%20ace", "dotted.name", "%C3%A4%C3%A4"])
def test_a_bucket_name_outside_its_rules_is_400(client: Client, bucket: str) -> None:
    assert client.put(f"/{bucket}/stream").code == "invalid_path"


def test_a_stream_cannot_be_called_streams(client: Client) -> None:
    for target in ("/v1/stream/streams", "/v1/stream/room/streams", "/_default/streams"):
        answer = client.put(target)
        assert (answer.status, answer.code) == (400, "reserved_name"), target


@pytest.mark.parametrize(
    "target",
    [
        "/v1/stream/__ds/jwks.json",
        "/v1/stream/__ds",
        "/v1/stream/room/__ds/x",
        "/_default/__ds",
        "/_default/__ds/jwks.json",
        "/_default/__ds/subscriptions/one",
        "/room/__ds/subscriptions/one/ack",
        "/__ds/x",
    ],
)
def test_the_place_of_subscriptions_is_kept_free(client: Client, target: str) -> None:
    assert client.put(target).status == 404
    assert client.get(target).status == 404


@pytest.mark.parametrize("target", ["/", "/v1", "/v1/", "/v1/stream", "//", "/v2/stream/x", "/favicon.ico"])
def test_a_path_that_is_no_route_is_refused(client: Client, target: str) -> None:
    for method in ("GET", "PUT"):
        answer = client(method, target)
        assert answer.status in (400, 404), answer
        assert "code" in answer.json["error"]
