"""Growth with the corpus: time and memory at 0.3, 1, 3 and 8.8 million passages, beside others.

Collections of MS MARCO's shape are made (make_msmarco.py), and each way works at each size in a
fresh process: preparing, `harness run --retriever bm25` with the index built and with the index
found, tantivy by itself on disk with one thread, Lucene (Anserini, one thread), bm25s as its README
uses it, and BEIR's and MTEB's loaders. What is not installed is left out: Lucene wants `--java` and
`--anserini`, paths of a Java 21 and of Anserini's jar, as the package pyserini has it.

    python -m tests.benchmarks.size WORK [--sizes 300000 ...] [--ways harness ...] [--queries N]

Every figure is appended to WORK/figures.jsonl; `--show` prints the table of those and draws them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.retrievers.bm25.tokenizer import ENGLISH
from tests.benchmarks.make_msmarco import FILES, PASSAGES
from tests.benchmarks.measure import Cost, command, machine, markdown

SIZES = (300_000, 1_000_000, 3_000_000, PASSAGES)
QUERIES = 6_980
BM25S_AT_MOST = 1_000_000  # its README's way holds every token as a Python object


def collection(work: Path, size: int) -> Path:
    """The folder of a collection, made where it is missing."""
    folder = work / f"collection-{size}"
    if not folder.is_dir():
        aside = work / f"making-{size}"
        make = [sys.executable, "-m", "tests.benchmarks.make_msmarco", str(aside)]
        command([*make, "--passages", str(size)])
        aside.rename(folder)
    return folder


def harness(work: Path, size: int, options: argparse.Namespace) -> dict[str, Cost]:
    """Prepared, run with the index built, and run again with the index found."""
    source, home = collection(work, size), work / "home"
    shutil.rmtree(home, ignore_errors=True)
    here = [sys.executable, "-m", "harness"]
    env = {"HARNESS_HOME": str(home)}
    data = ["--dataset", "msmarco/dev", "--source", str(source)]
    costs = {"prepare": command([*here, "datasets", "prepare", *data[1:]], env)[0]}
    run = [*here, "run", *data, "--retriever", "bm25", "--quiet", "--out", str(work / "out")]
    for name in ("index, search, score", "the same, index found"):
        shutil.rmtree(work / "out", ignore_errors=True)
        costs[name] = command(run, env)[0]
    run += ["--limit", "1"]
    shutil.rmtree(work / "out", ignore_errors=True)
    costs["one question, index found"] = command(run, env)[0]
    files = [*(home / "indexes").rglob("*.npy"), *(home / "indexes").rglob("*.arrow")]
    gigabytes = sum(file.stat().st_size for file in files) / 1e9
    print(f"index of {size:,}: {gigabytes:.2f} GB", flush=True)
    return costs


def engine(name: str) -> Callable[[Path, int, argparse.Namespace], dict[str, Cost]]:
    """A way that this file runs in a process of its own; its index, then its search."""

    def way(work: Path, size: int, options: argparse.Namespace) -> dict[str, Cost]:
        place = work / f"{name}-{size}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        source = collection(work, size)
        steps = ("index", "search") if name == "tantivy" else ("index and search",)
        if name in ("beir", "mteb"):
            steps = ("load",)
            _as_beir(place, source)
        this = [sys.executable, "-m", "tests.benchmarks.size", str(place), "--step", name]
        rest = [str(source), str(options.queries)]
        silent = {"TQDM_DISABLE": "1", "DISABLE_TQDM": "1"}
        costs = {_named(step, options): command([*this, step, *rest], silent)[0] for step in steps}
        shutil.rmtree(place)
        return costs

    return way


def _named(step: str, options: argparse.Namespace) -> str:
    """A step, with the number of questions where it is not that of MS MARCO's dev set."""
    few = "search" in step and options.queries != QUERIES
    return f"{step}, {options.queries:,} questions" if few else step


def lucene(work: Path, size: int, options: argparse.Namespace) -> dict[str, Cost]:
    """Anserini's own commands, which read JSON lines; writing those is not counted."""
    source, place = collection(work, size), work / f"lucene-{size}"
    shutil.rmtree(place, ignore_errors=True)
    (place / "json").mkdir(parents=True)
    with open(place / "json" / "docs.jsonl", "w", encoding="utf-8") as out:
        for number, text in enumerate(_texts(source)):
            out.write(json.dumps({"id": str(number), "contents": text}) + "\n")
    with open(source / FILES[1]) as queries, open(place / "topics.tsv", "w") as out:
        out.writelines(line for line, _ in zip(queries, range(options.queries), strict=False))
    java = [str(options.java), "-Xmx4g", "-cp", str(options.anserini)]
    index = [*java, "io.anserini.index.IndexCollection", "-collection", "JsonCollection"]
    index += ["-input", str(place / "json"), "-generator", "DefaultLuceneDocumentGenerator"]
    index += ["-threads", "1", "-index", str(place / "index"), "-optimize"]
    search = [*java, "io.anserini.search.SearchCollection", "-index", str(place / "index")]
    search += ["-topics", str(place / "topics.tsv"), "-topicReader", "TsvInt", "-bm25"]
    search += ["-hits", "1000", "-threads", "1", "-output", str(place / "run.trec")]
    costs = {"index": command(index)[0], _named("search", options): command(search)[0]}
    shutil.rmtree(place)
    return costs


def _texts(source: Path) -> Any:
    with open(source / FILES[0], encoding="utf-8") as lines:
        for line in lines:
            yield line.rstrip("\n").partition("\t")[2]


def _questions(source: Path, n: int) -> list[str]:
    lines = (source / FILES[1]).read_text().splitlines()[:n]
    return [line.partition("\t")[2] for line in lines]


def _tantivy(step: str, place: Path, source: Path, n: int) -> None:
    from tantivy import (
        Document,
        Filter,
        Index,
        Occur,
        Query,
        SchemaBuilder,
        TextAnalyzerBuilder,
        Tokenizer,
    )

    builder = SchemaBuilder().add_text_field("text", tokenizer_name="en_stem", index_option="freq")
    schema = builder.add_integer_field("position", fast=True).build()
    index = Index(schema, path=str(place))
    if step == "index":
        writer = index.writer(num_threads=1)
        for number, text in enumerate(_texts(source)):
            writer.add_document(Document(position=number, text=text))
        writer.commit()
        writer.wait_merging_threads()
        return
    words = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.lowercase())
    analyser = words.filter(Filter.stemmer("english")).build()
    searcher = index.searcher()
    for question in _questions(source, n):
        kept = " ".join(word for word in question.split() if word not in ENGLISH)
        clauses = [
            (Occur.Should, Query.term_query(schema, "text", term))
            for term in analyser.analyze(kept)
        ]
        hits = searcher.search(Query.boolean_query(clauses), 1000, count=False).hits
        searcher.fast_field_values("position", [place for _, place in hits])


def _bm25s(step: str, place: Path, source: Path, n: int) -> None:
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    tokens = bm25s.tokenize([*_texts(source)], stopwords="en", stemmer=stemmer)
    retriever = bm25s.BM25()
    retriever.index(tokens)
    asked = bm25s.tokenize(_questions(source, n), stopwords="en", stemmer=stemmer)
    retriever.retrieve(asked, k=1000, show_progress=False)


def _as_beir(place: Path, source: Path) -> None:
    """The collection in BEIR's files, with a card by which MTEB finds them."""
    with open(place / "corpus.jsonl", "w", encoding="utf-8") as out:
        for number, text in enumerate(_texts(source)):
            out.write(json.dumps({"_id": str(number), "title": "", "text": text}) + "\n")
    (place / "queries.jsonl").write_text('{"_id": "q", "text": "a question"}\n')
    (place / "qrels.jsonl").write_text('{"query-id": "q", "corpus-id": "0", "score": 1}\n')
    card = ["---", "configs:"]
    for name, file in (("corpus", "corpus"), ("queries", "queries"), ("default", "qrels")):
        card += [f"- config_name: {name}", "  data_files:", "  - split: test"]
        card += [f"    path: {file}.jsonl"]
    (place / "README.md").write_text("\n".join([*card, "---", ""]))


def _beir(step: str, place: Path, source: Path, n: int) -> None:
    from beir.datasets.data_loader import GenericDataLoader

    GenericDataLoader(str(place)).load_corpus()


def _mteb(step: str, place: Path, source: Path, n: int) -> None:
    from datasets import config
    from mteb.abstasks.retrieval_dataset_loaders import RetrievalDatasetLoader

    config.HF_DATASETS_CACHE = str(place / "cache")  # made anew, as the harness prepares anew
    RetrievalDatasetLoader(str(place), None).load()


STEPS = {"tantivy": _tantivy, "bm25s": _bm25s, "beir": _beir, "mteb": _mteb}
WAYS: dict[str, Callable[[Path, int, argparse.Namespace], dict[str, Cost]]] = {
    "harness": harness,
    "tantivy": engine("tantivy"),
    "lucene": lucene,
    "bm25s": engine("bm25s"),
    "beir": engine("beir"),
    "mteb": engine("mteb"),
}


def show(work: Path) -> None:
    """The last figure of each way, step and size: a table, and WORK/size.svg."""
    import matplotlib.pyplot as plt

    lines = (work / "figures.jsonl").read_text().splitlines()
    found = {(f["way"], f["step"], f["size"]): f for f in map(json.loads, lines)}
    rows = [
        [f"{way}: {step}", f"{size:,}", f"{f['wall']:.0f}", f"{f['cpu']:.0f}", f"{f['peak']:,.0f}"]
        for (way, step, size), f in sorted(found.items())
    ]
    print(markdown(rows, ["way", "passages", "s", "processor s", "peak MB"]))
    plt.rcParams["svg.hashsalt"] = "size"  # so that the same figures make the same file
    figure, panels = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    lines_of = dict.fromkeys((way, step) for way, step, _ in sorted(found))
    colours = {way: f"C{i}" for i, way in enumerate(WAYS)}
    for panel, what, label in zip(
        panels, ("cpu", "peak"), ("processor seconds", "peak MB"), strict=True
    ):
        steps: dict[str, int] = {}
        for way, step in lines_of:
            steps[way] = steps.get(way, -1) + 1
            points = sorted((s, f[what]) for (w, t, s), f in found.items() if (w, t) == (way, step))
            panel.plot(
                *zip(*points, strict=True),
                color=colours[way],
                linestyle=("-", "--", "-.", ":")[steps[way] % 4],
                linewidth=2.5 if way == "harness" else 1.2,
                marker="o",
                markersize=4,
                label=f"{way}: {step}",
            )
        panel.set(xscale="log", yscale="log", xlabel="passages, million", ylabel=label)
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.set_xticks(SIZES, [f"{size / 1e6:.1f}" for size in SIZES])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    figure.savefig(work / "size.svg", metadata={"Date": None})


def main() -> None:
    """Measure, or show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[*WAYS])
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--java", type=Path)
    parser.add_argument("--anserini", type=Path)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--step", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        name, step, source, n = options.step
        STEPS[name](step, options.work, Path(source), int(n))
        return
    if options.show:
        show(options.work)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    print(machine())
    for size in options.sizes:
        for name in options.ways:
            if (name == "bm25s" and size > BM25S_AT_MOST) or (
                name == "lucene" and not options.java
            ):
                continue
            for step, cost in WAYS[name](options.work, size, options).items():
                figure = {"way": name, "step": step, "size": size, **vars(cost)}
                with open(options.work / "figures.jsonl", "a") as file:
                    file.write(json.dumps(figure) + "\n")
                print(f"{size:>9,} {name}: {step}: {cost}", flush=True)


if __name__ == "__main__":
    main()
