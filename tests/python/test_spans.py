"""Spans for OpenTelemetry: a collector of our own reads them with OpenTelemetry's messages, refuses, and does not answer."""

import json
import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from client import Client, Refused, until
from guarded import Guarded, token
from listener import Listener

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01"


class Collector:
    """Keeps the spans that it takes, and does as it is told."""

    def __init__(self):
        self.spans, self.programs, self.heads = [], [], []
        self.answer, self.asked = 200, False
        self.open = threading.Event()
        self.open.set()
        self.listener = Listener(self.answers)

    @property
    def environment(self):
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.listener.port}",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20secret",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
            "OTEL_BSP_SCHEDULE_DELAY": "20",
        }

    def answers(self, path, headers, body):
        self.asked = True
        self.open.wait(60)
        assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
        self.heads.append(headers["x-key"])
        if self.answer != 200:
            return self.answer
        for of in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.programs.append({one.key: one.value.string_value for one in of.resource.attributes})
            for scope in of.scope_spans:
                assert (scope.scope.name, bool(scope.scope.version)) == ("tideline", True)
                self.spans += scope.spans
        return 200

    def named(self, name):
        """The only span of a name."""
        (span,) = until(lambda: [span for span in self.spans if span.name == name])
        return span


@pytest.fixture
def collector():
    running = Collector()
    yield running
    running.open.set()
    running.listener.close()


@pytest.fixture
def watched(own_server, collector):
    own_server.environment = {**own_server.environment, **collector.environment}
    return own_server.start()


def attributes(span):
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def test_a_traced_call_is_a_span_and_what_it_causes_a_part_of_it(watched, collector):
    with Client(watched) as client, Client(watched) as other:
        other.call("subscribe", timeline="room/1", create=True)
        client.append("room/1", {"n": 1})
        assert "traceparent" not in other.messages("room/1", 1)[0]
        client.around = {"traceparent": PARENT}
        client.append("room/1", {"n": 2})
        (pushed,) = other.messages("room/1", 1)
        client.call("message.get", timeline="room/1", sequence=2)
        with pytest.raises(Refused):
            client.call("timeline.get", timeline="none/1")
        # Its caller does not record it: there is no span, and it is passed on as it is.
        client.around = {"traceparent": PARENT[:-1] + "0"}
        client.append("room/1", {"n": 3})
        assert other.messages("room/1", 1)[0]["traceparent"] == PARENT[:-1] + "0"
        calls = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 2, "method": "timeline.list"}]
        watched.http("POST", "/v1/rpc", json.dumps(calls), {"content-type": "application/json", "traceparent": PARENT})
        appended = collector.named("message.append")
        for name in ["message.get", "timeline.get", "ping", "timeline.list"]:
            collector.named(name)
    for span in collector.spans:
        assert (span.trace_id.hex(), span.parent_span_id.hex(), span.kind) == (TRACE, CALLER, Span.SPAN_KIND_SERVER)
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano and len(span.span_id) == 8
    assert pushed["traceparent"] == f"00-{TRACE}-{appended.span_id.hex()}-01"
    assert attributes(appended) == {"rpc.method": "message.append", "tideline.partition": 0}
    assert attributes(collector.named("message.get"))["tideline.partition"] == 0
    assert attributes(collector.named("ping")) == {"rpc.method": "ping"}
    refused = collector.named("timeline.get")
    assert attributes(refused)["error.type"] == "timeline_not_found"
    assert (refused.status.code, appended.status.code) == (Status.STATUS_CODE_ERROR, Status.STATUS_CODE_UNSET)
    assert len({span.span_id for span in collector.spans}) == len(collector.spans) == 5
    (program,) = {tuple(sorted(program.items())) for program in collector.programs}
    assert dict(program).items() >= {"service.name": "tideline", "deployment.environment": "test"}.items()
    assert set(collector.heads) == {"a secret"}
    assert watched.metric("tideline_spans_sent_total") == 5
    assert watched.stop() == 0 and "a secret" not in watched.whole_log()


def test_no_call_waits_for_the_collector(watched, collector):
    def traced_pings(count):
        for _ in range(count // 100):
            client.send([{"jsonrpc": "2.0", "id": at, "method": "ping", "traceparent": PARENT} for at in range(100)])
            assert len(client.receive()) == 100

    with Client(watched) as client:
        collector.answer = 503
        traced_pings(100)
        until(lambda: watched.metric("tideline_spans_lost_total") == 100)
        assert "the collector of spans fails" in watched.whole_log()
        collector.answer = 200
        collector.open.clear()
        # One POST is under way and does not end; the queue takes what it has room for, and the rest is dropped.
        traced_pings(4_000)
        dropped = watched.metric("tideline_spans_dropped_total")
        assert dropped > 1_000
        collector.open.set()
        until(lambda: watched.metric("tideline_spans_sent_total") == 4_000 - dropped)
        # What is left at a stop is sent.
        before = len(collector.spans)
        traced_pings(100)
    assert watched.stop() == 0
    assert len(collector.spans) == before + 100


def test_a_stop_does_not_wait_for_a_collector_that_hangs(own_server, collector):
    collector.open.clear()
    own_server.environment = {**collector.environment, "OTEL_EXPORTER_OTLP_TIMEOUT": "600000"}
    with Client(own_server.start()) as client:
        client.around = {"traceparent": PARENT}
        client.call("ping")
        until(lambda: collector.asked)
        assert own_server.stop() == 0


def test_strangers_have_no_span(tmp_path, collector):
    server = Guarded(str(tmp_path))
    server.environment = collector.environment
    server.start()
    try:
        with Client(server) as client:
            client.around = {"traceparent": PARENT}
            with pytest.raises(Refused, match="unauthenticated"):
                client.call("timeline.list")
            client.call("session.open", token=token())
            client.call("message.append", timeline="room/1", entry={"n": 1})
        collector.named("message.append")
        assert {span.name for span in collector.spans} == {"session.open", "message.append"}
    finally:
        server.kill()


def test_what_the_environment_says_and_can_not_be_is_refused(own_server, collector):
    own_server.environment = {**collector.environment, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with pytest.raises(RuntimeError, match="OTEL_EXPORTER_OTLP_PROTOCOL is grpc: spans are sent by http/protobuf only"):
        own_server.start()
