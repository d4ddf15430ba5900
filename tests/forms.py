"""Small files of every form that is read, and what reads each through its public way in."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import shutil
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from mutations import as_csv, harmless, mutants

from harness.__main__ import main
from harness.datasets.adapters.beam import ABILITIES
from harness.datasets.adapters.sample import SHIPPED
from harness.datasets.registry import open_dataset
from harness.errors import HarnessError
from harness.runfiles.readers import read_rankings
from harness.scoring.evaluate import evaluate
from harness.scoring.qrels import read_qrels

Rows = list[dict[str, Any]]

RUN: Rows = [
    {"query": "q1", "document": "d1", "score": 2.5, "rank": 1},
    {"query": "q1", "document": "d2", "score": 1.5, "rank": 2},
    {"query": "q2", "document": "d2", "score": 0.5, "rank": 1},
]
RANKED = [{name: row[name] for name in ("query", "document", "rank")} for row in RUN[::-1]]
KEY: Rows = [
    {"query": "q1", "document": "d2", "grade": 2},
    {"query": "q1", "document": "d1", "grade": 0},
    {"query": "q2", "document": "d2", "grade": 1},
]
DOCUMENTS: Rows = [
    {"id": "d1", "title": "Harbour", "text": "The ferry.", "timestamp": 1683554160, "position": 0},
    {"id": "d2", "title": "", "text": "Bread.", "timestamp": 1683554161, "position": 1},
]
QUERIES: Rows = [
    {"id": "q1", "text": "When?", "category": "a", "timestamp": 1683554170, "answers": ["noon"]},
    {"id": "q2", "text": "What?", "category": "b", "timestamp": 1683554171, "answers": ["bread"]},
]


@dataclass(frozen=True)
class Form:
    """A form of input: its files by name, which are damaged, and what reads the folder of them.

    `read` gives the numbers that came of it, by name.
    """

    name: str
    files: dict[str, bytes]
    read: Callable[[Path], dict[str, Any]]
    damaged: tuple[str, ...] = field(default=())

    def targets(self) -> tuple[str, ...]:
        """The files to damage."""
        return self.damaged or tuple(self.files)


def lines(rows: Rows) -> bytes:
    """JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(rows: Rows) -> bytes:
    """A Parquet file."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def table(rows: Rows, delimiter: str = ",") -> bytes:
    """A table with a header line."""
    return as_csv(rows, delimiter).encode()


def forms() -> list[Form]:
    """All of them."""
    return [*_runs(), *_qrels(), *_labelled(), *_published_datasets(), *_imported()]


# -- runs and judgements ---------------------------------------------------------------------------

_DICT = {"q1": {"d2": 2, "d1": 0}, "q2": {"d2": 1}}


def _runs() -> Iterator[Form]:
    trec = "".join(f"{r['query']} Q0 {r['document']} {r['rank']} {r['score']} t\n" for r in RUN)
    nested = {"q1": {"d1": 2.5, "d2": 1.5}, "q2": {"d2": 0.5}}
    listed = [{"query": q, "documents": [*d], "scores": [*d.values()]} for q, d in nested.items()]
    files = {
        "run.trec": trec.encode(),
        "tabs.tsv": trec.replace(" ", "\t").encode(),
        "run.trec.gz": gzip.compress(trec.encode(), mtime=0),
        "run.jsonl": lines(RUN),
        "ranked.jsonl": lines(RANKED),
        "lists.jsonl": lines(listed),
        "run.json": json.dumps(nested).encode(),
        "orders.json": json.dumps({q: [*d] for q, d in nested.items()}).encode(),
        "records.json": json.dumps(RUN).encode(),
        "run.csv": table(RUN),
        "run.tsv": table(RUN, "\t"),
        "run.parquet": parquet(RUN),
        "ranked.parquet": parquet(RANKED),
    }
    for name, data in files.items():
        yield Form(f"run {name}", {name: data}, lambda folder: _evaluated(folder, _DICT))


def _evaluated(folder: Path, key: Any) -> dict[str, Any]:
    (path,) = folder.iterdir()
    read_rankings(path)
    found = evaluate(key, path, "ndcg@10,recall@1,map")
    return dict(found.means)


def _qrels() -> Iterator[Form]:
    trec = "".join(f"{r['query']} 0 {r['document']} {r['grade']}\n" for r in KEY)
    beir = "query-id\tcorpus-id\tscore\n"
    beir += "".join(f"{r['query']}\t{r['document']}\t{r['grade']}\n" for r in KEY)
    files = {
        "qrels.txt": trec.encode(),
        "beir.tsv": beir.encode(),
        "beir.txt": beir.encode(),
        "key.jsonl": lines(KEY),
        "key.json": json.dumps(_DICT).encode(),
        "key.csv": table(KEY),
        "key.parquet": parquet(KEY),
    }
    for name, data in files.items():
        yield Form(f"qrels {name}", {name: data}, _judged)


def _judged(folder: Path) -> dict[str, Any]:
    (path,) = folder.iterdir()
    read_qrels(path)
    return dict(evaluate(path, {"q1": {"d1": 2.5, "d2": 1.5}, "q2": {"d2": 0.5}}, "ndcg@10").means)


# -- datasets --------------------------------------------------------------------------------------


def _dataset(name: str, **more: Any) -> Callable[[Path], dict[str, Any]]:
    def read(folder: Path) -> dict[str, Any]:
        dataset = open_dataset(name, source=folder, rebuild=True, **more)
        for row in range(dataset.n_queries):
            dataset.query(row)
        documents = sum(len(one.content) for one in dataset.documents)
        return {"letters": documents, "content": dataset.manifest.fingerprint}

    return read


def _labelled() -> Iterator[Form]:
    trec_documents = "".join(
        f"<DOC>\n<DOCNO>{d['id']}</DOCNO>\n<TITLE>{d['title']}</TITLE>\n<TEXT>\n{d['text']}\n"
        "</TEXT>\n</DOC>\n"
        for d in DOCUMENTS
    )
    topics = "".join(
        f"<top>\n<num> Number: {q['id']}\n<title> {q['text']}\n</top>\n" for q in QUERIES
    )
    trec = "".join(f"{r['query']} 0 {r['document']} {r['grade']}\n" for r in KEY)
    tabs = "".join(f"{q['id']}\t{q['text']}\n" for q in QUERIES)
    dated = [{**d, "haystack": {"a": 5 + n}} for n, d in enumerate(DOCUMENTS)]
    asked = [{**q, "haystack": "a", "ability": "temporal"} for q in QUERIES]
    change = {"kind": "key-update", "document": "d1", "by": "d2", "timestamp": 1683554165}
    change["haystack"] = "a"
    flat = [{**q, "answers": q["answers"][0]} for q in QUERIES]
    keys = [{**r, "evidence_id": f"u{n}", "qrels_set": "default"} for n, r in enumerate(KEY)]
    sets: dict[str, dict[str, bytes]] = {
        "jsonl": {
            "documents.jsonl": lines(dated),
            "queries.jsonl": lines(asked),
            "qrels.jsonl": lines(keys),
            "changes.jsonl": lines([change]),
            "labelled.toml": b"[ignore]\nqueries = ['source']\n",
        },
        "json": {
            "documents.json": json.dumps({d["id"]: d["text"] for d in DOCUMENTS}).encode(),
            "queries.json": json.dumps(QUERIES).encode(),
            "qrels.json": json.dumps(_DICT).encode(),
        },
        "csv": {
            "documents.csv": table(DOCUMENTS),
            "queries.csv": table(flat),
            "judgements.csv": table(KEY),
        },
        "tsv": {
            "documents.tsv": b"d1\tThe ferry.\nd2\tBread.\n",
            "queries.tsv": table(flat, "\t"),
            "qrels.tsv": table(KEY, "\t"),
        },
        "parquet": {
            "documents.parquet": parquet(DOCUMENTS),
            "queries.parquet": parquet(QUERIES),
            "judgements.parquet": parquet(KEY),
        },
        "relevant": {
            "documents.jsonl.gz": gzip.compress(lines(DOCUMENTS), mtime=0),
            "queries.jsonl": lines([{**q, "relevant": {"d1": 1}} for q in QUERIES]),
        },
        "trec": {
            "documents.trec": trec_documents.encode(),
            "topics.txt": topics.encode(),
            "qrels.txt": trec.encode(),
        },
        "lines": {
            "documents.trec": trec_documents.replace("\n", " ").encode(),
            "topics.txt": tabs.encode(),
            "qrels.txt": trec.encode(),
        },
    }
    for name, files in sets.items():
        yield Form(f"labelled {name}", files, _dataset("labelled"))


def _published_datasets() -> Iterator[Form]:
    locomo = {
        "sample_id": "c",
        "conversation": {
            "speaker_a": "A",
            "speaker_b": "B",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "A", "dia_id": "D1:1", "text": "hello"},
                {"speaker": "B", "dia_id": "D1:2", "text": "bees", "blip_caption": "a hive"},
            ],
        },
        "qa": [
            {"question": "q?", "answer": "a", "category": 4, "evidence": ["D1:1"]},
            {"question": "r?", "adversarial_answer": "b", "category": 5, "evidence": ["D1:2"]},
        ],
    }
    whole = json.dumps([locomo]).encode()
    yield Form("locomo", {"locomo10.json": whole}, _dataset("locomo"))
    yield Form("locomo sessions", {"locomo10.json": whole}, _dataset("locomo", text="dated"))
    turns = [{"role": "user", "content": "u0", "has_answer": True}]
    turns += [{"role": "assistant", "content": "v0"}]
    question = {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "Where?",
        "answer": 7,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00"],
        "haystack_session_ids": ["filler", "answer_a_1"],
        "haystack_sessions": [[{"role": "user", "content": "f1"}], turns],
        "answer_session_ids": ["answer_a_1"],
    }
    long = json.dumps([question, {**question, "question_id": "q2_abs"}]).encode()
    for granularity in ("session", "turn"):
        read = _dataset("longmemeval/s", granularity=granularity, text="dated")
        yield Form(f"longmemeval {granularity}", {"longmemeval_s_cleaned.json": long}, read)
    beir = {
        "corpus.jsonl": lines(
            [{"_id": d["id"], "title": d["title"], "text": d["text"]} for d in DOCUMENTS]
        ),
        "queries.jsonl": lines([{"_id": q["id"], "text": q["text"]} for q in QUERIES]),
        "qrels/test.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\n",
    }
    yield Form("beir", beir, _dataset("beir/fiqa"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in beir.items():
            archive.writestr(zipfile.ZipInfo(f"fiqa/{name}"), data)
    yield Form("beir zip", {"fiqa.zip": packed.getvalue()}, _dataset("beir/fiqa"))
    passages = {
        "collection.tsv": b"d1\tThe ferry.\nd2\tBread.\n",
        "topics.dl19-passage.txt": b"q1\tWhen?\nq2\tWhat?\n",
        "qrels.dl19-passage.txt": b"q1 0 d1 2\nq2 0 d2 1\n",
    }
    yield Form("msmarco", passages, _dataset("msmarco/dl19"))
    record = {
        "answers": ["an answer"],
        "passages": {
            "is_selected": [0, 1],
            "passage_text": ["other", "the answer"],
            "url": ["http://example.org"] * 2,
        },
        "query": "question",
        "query_id": 7,
        "query_type": "DESCRIPTION",
        "wellFormedAnswers": [],
    }
    qa = {"v1.1/validation.jsonl": lines([record, {**record, "query_id": 8}])}
    yield Form("msmarco qa", qa, _dataset("msmarco/qa-v1.1", split="validation"))
    yield Form("msmarco pooled", qa, _dataset("msmarco/qa-v1.1-pooled", split="validation"))
    yield from _talked()
    for kind in ("parquet", "jsonl"):
        tables: dict[str, Rows] = {
            "corpus": [{"_id": d["id"], "title": "", "text": d["text"]} for d in DOCUMENTS],
            "queries": [{"_id": q["id"], "text": q["text"]} for q in QUERIES],
            "default": [{"query-id": "q1", "corpus-id": "d1", "score": 2}],
        }
        card, files = "---\nlicense: mit\nconfigs:\n", {}
        for name, rows in tables.items():
            files[f"{name}/test.{kind}"] = parquet(rows) if kind == "parquet" else lines(rows)
            card += f"- config_name: {name}\n  data_files:\n  - split: test\n"
            card += f"    path: {name}/test.{kind}\n"
        files["README.md"] = (card + "---\n# A card\n").encode()
        yield Form(f"mteb {kind}", files, _dataset("mteb/mine"))


def _talked() -> Iterator[Form]:
    """Conversations with an assistant or between two people."""
    said = {"role": "user", "id": 0, "content": "Bees? ->-> 1,1", "time_anchor": "March-15-2024"}
    told = {"role": "assistant", "id": 1, "content": "Some do."}
    batch = {"batch_number": 1, "time_anchor": None, "turns": [[said, told]]}
    plain = [{"question": "p?", "answer": "yes", "source_chat_ids": [0]}]
    asked = {
        **dict.fromkeys(ABILITIES, plain),
        "abstention": [{"question": "a?"}],
        "contradiction_resolution": [
            {**plain[0], "source_chat_ids": {"first_statement": [0], "second_statement": [1]}}
        ],
        "knowledge_update": [
            {
                "question": "k?",
                "answer": "yes",
                "source_chat_ids": {"original_info": [0], "updated_info": [1]},
            }
        ],
        "event_ordering": [{"question": "e?", "answer": "yes", "source_chat_ids": [[0, 1], 1]}],
    }
    files = {
        "chats/100K/3/chat.json": json.dumps([batch]).encode(),
        "chats/100K/3/probing_questions/probing_questions.json": json.dumps(asked).encode(),
    }
    yield Form("beam", files, _dataset("beam/100k"))
    turn = {"speaker": "User", "content": "Of bees.", "is_query": False, "query_id": ""}
    query = {**turn, "is_query": True, "query_id": "Q-1", "category_name": "Dynamic Updating"}
    answer = {**turn, "speaker": "Assistant", "memory_used": [], "memory_session_uuids": ["u0"]}
    sessions = [
        {
            "session_identifier": f"Bees:S{place}",
            "session_uuid": f"u{place}",
            "current_time": f"2025-12-1{place} (Monday)",
            "extracted_memory": [],
            "dialogue_turns": turns,
        }
        for place, turns in enumerate(([turn, {**turn, "speaker": "Assistant"}], [query, answer]))
    ]
    person = {"_metadata": {"person_name": "Ann"}, "dialogues": sessions}
    files = {"Ann_dialogues_256k.json": json.dumps(person).encode()}
    yield Form("realmem", files, _dataset("realmem"))
    when = "29.12.2023, 22:42:04"
    chat = {
        "name": {"speaker_1": "Ann", "speaker_2": "Bo"},
        "session_1": [
            {"dia_id": f"D1:{n}", "speaker": "Ann", "clean_text": f"thing {n}", "date_time": when}
            for n in range(1, 4)
        ],
        "session_1_date_time": when,
        "qa": [{"question": "q?", "answer": "a", "category": 3, "evidence": ["D1:2-D1:3"]}],
    }
    files = {"Chat_1_Ann_Bo.json": json.dumps(chat).encode()}
    yield Form("realtalk", files, _dataset("realtalk", text="dated"))
    talk = {
        "user": "Ann",
        "sessions": [
            {"id": f"s{n}", "date": f"2024-01-0{n} 18:05", "turns": [["Ann", "a"], ["AI", "b"]]}
            for n in (1, 2)
        ],
        "questions": [
            {
                "id": "q1",
                "question": "q?",
                "ability": "lookup",
                "category": "c",
                "date": "2024-02-01 10:00",
                "answers": ["a"],
                "evidence": [["s1", 0]],
                "no_longer": [["s2", 1]],
            }
        ],
        "changes": [{"kind": "key-update", "document": ["s1", 0], "by": ["s2", 0]}],
    }
    for name in ("sample", "changes"):
        yield Form(name, {"ann.json": json.dumps(talk).encode()}, _dataset(name))


# -- runs of elsewhere, against the shipped dataset and files --------------------------------------


def _scored(*arguments: str) -> Callable[[Path], dict[str, Any]]:
    def read(folder: Path) -> dict[str, Any]:
        out, err = io.StringIO(), io.StringIO()
        put = [one.replace("{}", str(folder)) for one in arguments]
        with redirect_stdout(out), redirect_stderr(err):
            status = main(["score", *put, "--json"])
        if status:
            raise HarnessError(err.getvalue().removeprefix("harness: ").rstrip("\n"))
        scored = json.loads(out.getvalue(), parse_constant=lambda name: 1 / 0)
        return {"scores": {name: scored["scores"].get(name) for name in ("queries", "metrics")}}

    return read


def _imported() -> Iterator[Form]:
    """Runs that `harness score` imports, of a small dataset that stands beside them."""
    beside = {
        "data/documents.jsonl": lines(DOCUMENTS),
        "data/queries.jsonl": lines(QUERIES),
        "data/qrels.jsonl": lines(KEY),
    }
    ours = ("--dataset", "labelled", "--source", "{}/data", "--out", "{}/out")
    hits = [{"query": "q1", "hits": [{"text": "Bread.", "sources": ["d2"], "score": 1.5}]}]
    files = {
        "run.trec": b"q1 Q0 d1 1 0.5 t\nq1 Q0 d2 2 0.4 t\n",
        "hits.jsonl": lines([*hits, {"query": "q2", "hits": []}]),
    }
    for name, data in files.items():
        read = _scored("{}/" + name, *ours)
        yield Form(f"score {name}", {name: data, **beside}, read, (name,))
    asked = json.loads((SHIPPED / "mira.json").read_text())["questions"][0]
    query, text = asked["id"], asked["question"]
    session, turn = asked["evidence"][0]
    document = f"{session}_{turn}"
    item = {"corpus_id": document, "text": "", "timestamp": ""}
    log = {"question_id": query, "retrieval_results": {"ranked_items": [item]}}
    contents = {"question": text, "question_id": query, "retrieved_contents": ["a"]}
    sessions = {"question_id": query, "retrieved_sessions": [session]}
    published: dict[str, tuple[str, Any]] = {
        "retrieved-texts": ("turn", {"per_question": [contents]}),
        "cogito": ("session", [{"qid": query, "s1_top5_ids": [], "s2_top5_ids": [session]}]),
        "longmemeval": ("turn", [log]),
        "memory-core-eval": ("session", {"results": [sessions]}),
    }
    for name, (granularity, value) in published.items():
        of = ("--dataset", "sample", "--granularity", granularity, "--out", "{}/out")
        read = _scored("{}/run.json", "--format", name, *of)
        yield Form(f"published {name}", {"run.json": json.dumps(value).encode()}, read)


# -- trying them -----------------------------------------------------------------------------------


_MEMORY = 4 << 30  # bytes that nothing of these sizes needs


@dataclass
class Tried:
    """What became of the mutants of a form: how many, and those that did not survive."""

    form: str
    tried: int = 0
    refused: int = 0
    broken: list[str] = field(default_factory=list)


def try_form(form: Form, n: int, seed: int, seconds: float = 10.0) -> Tried:
    """Read `n` mutants of a form. A mutant is read, or refused in one short line, and in time.

    Seconds are of the processor: those of the clock depend on what else the machine does.
    """
    found = Tried(form.name)
    targets = form.targets()
    with tempfile.TemporaryDirectory() as name, _Home(Path(name) / "home"):
        folder = Path(name) / "files"
        for place, target in enumerate(targets):
            each = n // len(targets) + (place < n % len(targets))
            for fault, data in mutants(target, form.files[target], each, seed):
                _write(form, folder, target, data)
                found.tried += 1
                started = time.process_time()
                said = _outcome(form, folder, found)
                if (took := time.process_time() - started) > seconds:
                    said = f"took {took:.0f} s"
                if said:
                    found.broken.append(f"{form.name}, {target}, {fault}: {said}")
    return found


def silently_other(form: Form, seed: int) -> list[str]:
    """What is harmless to a form (mutations.harmless) and still read, as something else."""
    other = []
    with tempfile.TemporaryDirectory() as name, _Home(Path(name) / "home"):
        folder = Path(name) / "files"
        for target in form.targets():
            whole = form.files[target]
            expected = None
            for fault, data in [("none", whole), *harmless(target, whole, seed)]:
                _write(form, folder, target, data)
                try:
                    with redirect_stderr(io.StringIO()):
                        found = form.read(folder)
                except HarnessError:
                    continue
                expected = expected or found
                if found != expected:
                    other.append(f"{form.name}, {target}, {fault}: {found} for {expected}")
    return other


def _write(form: Form, folder: Path, target: str, data: bytes) -> None:
    """The folder of a form, of which the file `target` holds `data`."""
    shutil.rmtree(folder, ignore_errors=True)
    for file, content in form.files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(data if file == target else content)


def _outcome(form: Form, folder: Path, found: Tried) -> str:
    """What is wrong with how a folder was read; empty where nothing is."""
    try:
        with redirect_stderr(io.StringIO()):
            numbers = form.read(folder)
    except HarnessError as error:
        found.refused += 1
        text = str(error)
        return f"not a short line: {text[:300]!r}" if "\n" in text or len(text) > 1500 else ""
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "harness" in f.filename]
        at = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else place.filename
        return f"{type(error).__name__}: {str(error)[:200]} ({at})"
    odd = {k: v for k, v in numbers.items() if isinstance(v, float) and not math.isfinite(v)}
    return f"numbers that are none: {odd}" if odd else ""


class _Home:
    """HARNESS_HOME in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        self._before = os.environ.get("HARNESS_HOME")
        os.environ["HARNESS_HOME"] = str(self._folder)

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            del os.environ["HARNESS_HOME"]
        else:
            os.environ["HARNESS_HOME"] = self._before


def main_of_forms() -> None:
    """`python tests/forms.py N SEED [FORM ...]`: a table of tried, refused and broken by form."""
    import resource
    import sys

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    n, seed, *names = sys.argv[1:]
    total = Tried("all")
    for form in forms():
        if names and not any(form.name.startswith(name) for name in names):
            continue
        started = time.monotonic()
        found = try_form(form, int(n), int(seed))
        print(
            f"{form.name:24} tried {found.tried:5}  refused {found.refused:5}  "
            f"broken {len(found.broken):4}  {time.monotonic() - started:6.1f} s",
            flush=True,
        )
        found.broken += silently_other(form, int(seed))
        for one in found.broken:
            print("   ", one.replace("\n", "\\n")[:400], flush=True)
        total.tried += found.tried
        total.refused += found.refused
        total.broken += found.broken
    print(f"all: tried {total.tried}, refused {total.refused}, broken {len(total.broken)}")


if __name__ == "__main__":
    main_of_forms()
