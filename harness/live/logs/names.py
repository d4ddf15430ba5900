"""The names that logs commonly have for what a recall says, read without any configuration."""

from __future__ import annotations

FIELDS: dict[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid", "question_id", "query.id", "request.query_id"),
    "query": (
        *("query", "query_text", "question", "text", "input", "query.text"),
        *("request.query", "request.text", "request.question"),
    ),
    "returned": (
        *("returned", "returned_ids", "document_ids", "doc_ids", "ids", "results", "documents"),
        *("hits", "retrieved", "memories", "matches", "contexts"),
        *("response.results", "response.documents", "response.hits", "response.returned"),
    ),
    "scores": ("scores", "response.scores"),
    "texts": ("texts", "response.texts"),
    "time": ("time", "timestamp", "ts", "@timestamp", "datetime", "created_at"),
    "seconds": (
        *("seconds", "latency_seconds", "latency_s", "duration_seconds", "duration_s", "elapsed_s"),
        *("latency_ms", "duration_ms", "elapsed_ms", "took_ms", "latency_us", "duration_us"),
        *("latency_ns", "duration_ns"),
    ),
    "abstained": ("abstained", "abstain", "no_answer"),
    "confidence": ("confidence",),
    "failed": ("failed", "error", "exception"),
    "system": ("system", "retriever", "service"),
    "session": ("session_id", "session", "conversation_id", "thread_id"),
    "user": ("user_id", "user"),
    "ability": ("ability",),
    "clicked": ("clicked", "clicks", "feedback.clicked", "feedback.clicks"),
    "rating": ("rating", "feedback.rating", "feedback.score"),
    "request": ("request_id", "recall_id", "event_id", "trace_id"),
}
"""Field of a Recall -> paths, the first that leads somewhere counts."""

IN_DOCUMENT = {
    "id": ("id", "document_id", "doc_id", "_id", "memory_id", "document.id", "metadata.id"),
    "score": ("score", "similarity", "_score", "relevance"),
    "text": ("text", "content", "memory", "page_content"),
}
"""Where `returned` is a list of objects: what each says, and by which names."""

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Units of durations and of epoch times, in seconds."""

SUFFIXES = {
    "seconds": "s",
    "s": "s",
    "secs": "s",
    "ms": "ms",
    "millis": "ms",
    "us": "us",
    "ns": "ns",
}
"""How the name of a field tells its unit: what stands behind its last `_`, or all of it."""
