"""The server of pages: who may ask it, who may post, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
from threading import Thread

import orjson
import pytest
from polling import HANGS

from harness.errors import UsageError
from harness.reports.local_server import Request, Response, as_json, server


def echo(request: Request) -> Response | None:
    if request.path == "/broken":
        raise UsageError("this is wrong")
    if request.path == "/none":
        return None
    return as_json([request.method, request.path, request.query, request.body])


@pytest.fixture
def port() -> Iterator[int]:
    with server(echo, 0, most_bytes=100) as serving:
        thread = Thread(target=serving.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield serving.server_port
        serving.shutdown()
        thread.join()


def ask(
    port: int, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=HANGS)
    named = {name.replace("_", "-"): value for name, value in headers.items() if value}
    connection.request(method, path, body=body, headers=named)
    answer = connection.getresponse()
    return answer.status, answer.read()


def post(port: int, body: bytes, **headers: str) -> tuple[int, bytes]:
    own = {"Origin": f"http://127.0.0.1:{port}", "Content_Type": "application/json"}
    return ask(port, "POST", "/it", body, **{**own, **headers})


def test_what_is_asked_is_answered(port: int) -> None:
    assert ask(port, "GET", "/it?a=1") == (200, b'["GET","/it","a=1",null]')
    assert ask(port, "HEAD", "/it") == (200, b"")
    assert ask(port, "GET", "/none")[0] == 404
    assert ask(port, "GET", "/broken") == (409, b"this is wrong\n")
    assert post(port, b'{"a": 1}') == (200, b'["POST","/it","",{"a":1}]')
    assert ask(port, "PUT", "/it")[0] == 501


def test_other_names_and_other_sites_are_refused(port: int) -> None:
    assert ask(port, "GET", "/it", Host="example.org")[0] == 403
    assert post(port, b"{}", Host="example.org", Origin="http://example.org")[0] == 403
    assert post(port, b"{}", Origin="http://example.org")[0] == 403
    assert post(port, b"{}", Origin="null")[0] == 403
    assert post(port, b"{}", Origin="")[0] == 403
    assert post(port, b"{}", Content_Type="text/plain")[0] == 415
    assert post(port, b"{}", Content_Type="application/json; charset=utf-8")[0] == 200
    local = f"localhost:{port}"
    assert post(port, b"{}", Host=local, Origin=f"http://{local}")[0] == 200


def test_bodies_are_json_of_a_bounded_size(port: int) -> None:
    assert post(port, b"{")[0] == 400
    assert post(port, b"")[0] == 413
    assert post(port, orjson.dumps("x" * 200))[0] == 413
    assert post(port, b"{}", Content_Length="-1")[0] == 413


def test_nothing_is_kept_or_framed(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=HANGS)
    connection.request("GET", "/it")
    headers = connection.getresponse().headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
