"""POST, PUT, DELETE and HEAD of a stream. The rules stand in `protocol`; here are headers in and out."""

from __future__ import annotations

from functools import partial

from millstream.engine import Engine, Entry
from millstream.protocol.appends import AppendAnswer, AppendRequest, check_body
from millstream.protocol.creates import CreateAnswer, CreateRequest
from millstream.protocol.errors import MillstreamError
from millstream.protocol.etags import none_match, state_etag
from millstream.protocol.positions import offset_at

from .failures import send_error
from .fields import append_request, create_request
from .reply import COMMON, NO_STORE, Reply
from .request import Head
from .routes import fork_source

_APPEND_HEAD = (NO_STORE + b"Stream-Next-Offset: ").decode()


class AppendPlan:
    """What a POST's head says, worked out once however often the head comes."""

    __slots__ = ("key", "request")

    def __init__(self, key: str, request: AppendRequest) -> None:
        self.key = key
        self.request = request


def append(engine: Engine, head: Head, key: str, body: bytes, reply: Reply) -> None:
    request = head.block.append_request
    if request is None:
        request = head.block.append_request = append_request(head)
    plan = head.plan = AppendPlan(key, request)
    append_planned(engine, plan, body, reply)


def append_planned(engine: Engine, plan: AppendPlan, body: bytes, reply: Reply) -> None:
    request = plan.request
    if not body or not request.content_type:
        check_body(request, not body)
    engine.append(plan.key, request, body, partial(_appended, reply))


def _appended(reply: Reply, answer: AppendAnswer | MillstreamError) -> None:
    if isinstance(answer, MillstreamError):
        return send_error(reply, answer)
    headers = f"{_APPEND_HEAD}{answer.next_offset}\r\nETag: {answer.etag}\r\n"
    if answer.closed:
        headers += "Stream-Closed: true\r\n"
    if answer.producer is not None:
        epoch, seq = answer.producer
        headers += f"Producer-Epoch: {epoch}\r\nProducer-Seq: {seq}\r\n"
    reply.send(answer.status, headers.encode("latin-1"))


def create(engine: Engine, head: Head, key: str, body: bytes, reply: Reply, base_url: str) -> None:
    source = head.headers.get("stream-forked-from")
    mount = head.full_path[: len(head.full_path) - len(head.path)]
    request = create_request(head, None if source is None else fork_source(source, mount))
    location = base_url.encode("latin-1") + head.full_path
    engine.create(key, request, body, partial(_created, reply, request, location))


def _created(
    reply: Reply, request: CreateRequest, location: bytes, answer: CreateAnswer | MillstreamError
) -> None:
    if isinstance(answer, MillstreamError):
        return send_error(reply, answer)
    headers = (
        f"Content-Type: {answer.content_type}\r\n"
        f"Stream-Next-Offset: {answer.next_offset}\r\nETag: {answer.etag}\r\n"
    ).encode("latin-1")
    if answer.closed:
        headers += b"Stream-Closed: true\r\n"
    if answer.status == 201:
        headers += b"Location: " + location + b"\r\n"
    reply.send(answer.status, NO_STORE + headers)


def delete(engine: Engine, key: str, reply: Reply) -> None:
    engine.delete(key, partial(_deleted, reply))


def _deleted(reply: Reply, answer: MillstreamError | None) -> None:
    if answer is not None:
        return send_error(reply, answer)
    reply.send(204, NO_STORE)


def describe(engine: Engine, head: Head, key: str, reply: Reply) -> None:
    engine.look(key, partial(_described, reply, head.headers.get("if-none-match")), touches=False)


def _described(reply: Reply, if_none_match: str | None, found: Entry | MillstreamError) -> None:
    if isinstance(found, MillstreamError):
        return send_error(reply, found)
    state = found.durable
    assert state is not None
    etag = state_etag(state)
    headers = [
        f"Content-Type: {state.content_type}\r\n",
        f"Stream-Next-Offset: {offset_at(state, state.tail)}\r\nETag: {etag}\r\n",
    ]
    if state.closed:
        headers.append("Stream-Closed: true\r\n")
    if state.ttl_seconds is not None:
        headers.append(f"Stream-TTL: {state.ttl_seconds}\r\n")
    if state.expires_at is not None:
        headers.append(f"Stream-Expires-At: {state.expires_at}\r\n")
    status = 304 if if_none_match is not None and none_match(if_none_match, etag) else 200
    reply.send(status, COMMON + b"Cache-Control: no-store\r\n" + "".join(headers).encode("latin-1"))
