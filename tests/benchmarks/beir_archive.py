"""Disk, memory and time that preparing a BEIR set from its archive takes, sampled while it goes on.

    python -m tests.benchmarks.beir_archive WORK [--documents 1500000] [--text words] [--keep]

Makes a zip in BEIR's form (corpus.jsonl, queries.jsonl, qrels/test.tsv) of invented passages of
about half a KB, gives it out from a file server on loopback, and prepares it in fresh processes:
downloaded, from the zip with --source, and from the unpacked folder. While each goes on, all that
lies in the cache folder and the folder of temporary files is added up, every 20 ms. `--text`:

* `words`: words as MS MARCO has them (make_msmarco.py), deflated as BEIR's archives are;
* `letters`: random letters and digits, which shrink to three quarters;
* `stored`: words, stored in the archive without compression: the most that an archive can be.

The text is the files' size when unpacked. That the content is the same by every way is checked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import string
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from tests.benchmarks.make_msmarco import Vocabulary, passages
from tests.benchmarks.measure import ROOT, machine, markdown

SEED, BLOCK = 3, 20_000
NAME, QUERIES = "quora", 5_000


def texts(kind: str, n: int) -> Iterator[tuple[int, list[bytes]]]:
    """Number of the first and the texts, in blocks."""
    if kind != "letters":
        for start, block, _, _ in passages(Vocabulary(SEED), n, SEED):
            yield start, block
        return
    rng = np.random.default_rng(SEED)
    signs = np.frombuffer(f"{string.ascii_letters}{string.digits} .".encode(), np.uint8)
    for start in range(0, n, BLOCK):
        drawn = signs[rng.integers(0, 64, (min(BLOCK, n - start), 400), dtype=np.uint8)]
        yield start, [row.tobytes() for row in drawn]


def make(archive: Path, kind: str, n: int) -> int:
    """Write the archive, and return the size of what is in it."""
    method = zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(archive, "w", method) as out:
        with out.open(f"{NAME}/corpus.jsonl", "w", force_zip64=True) as corpus:
            for start, block in texts(kind, n):
                corpus.write(
                    b"".join(
                        b'{"_id": "%d", "title": "%s", "text": "%s", "metadata": {}}\n'
                        % (number, b" ".join(text.split(b" ", 5)[:5])[:60], text)
                        for number, text in enumerate(block, start)
                    )
                )
        lines = (
            f'{{"_id": "q{i}", "text": "what is {i}", "metadata": {{}}}}\n' for i in range(QUERIES)
        )
        out.writestr(f"{NAME}/queries.jsonl", "".join(lines))
        rows = (f"q{i}\t{i * (n // QUERIES)}\t1\n" for i in range(QUERIES))
        out.writestr(f"{NAME}/qrels/test.tsv", "query-id\tcorpus-id\tscore\n" + "".join(rows))
    with zipfile.ZipFile(archive) as made:
        return sum(one.file_size for one in made.infolist())


def prepare(url: str, md5: str, source: str) -> None:
    """What the fresh process does; its last line is what it found."""
    from dataclasses import replace

    from harness.datasets.adapters import beir
    from harness.datasets.registry import open_dataset

    if url:
        beir._URL = url
        beir._SETS = tuple(replace(s, md5=md5) if s.name == NAME else s for s in beir._SETS)
    start = time.perf_counter()
    dataset = open_dataset(f"beir/{NAME}", source=source or None)
    found = {
        "seconds": time.perf_counter() - start,
        "peak": _peak_mb(),
        "fingerprint": dataset.fingerprint,
        "documents": len(dataset.documents),
        "dataset": sum(p.stat().st_size for p in dataset.folder.iterdir()),
    }
    print(json.dumps(found))


def _peak_mb() -> float:
    """Most memory of this process; not that of the one it was forked from, as ru_maxrss has it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def used(*folders: Path) -> int:
    """Bytes that files in folders take on the disk, at this moment."""
    total = 0
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                try:
                    total += os.lstat(os.path.join(root, name)).st_blocks * 512
                except FileNotFoundError:
                    continue
    return total


def sampled(work: Path, *arguments: str) -> dict[str, float | str]:
    """Run `prepare` with an empty cache; with the most disk that was in use at once."""
    home, temporary = work / "home", work / "tmp"
    for folder in (home, temporary):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    env = {**os.environ, "HARNESS_HOME": str(home), "TMPDIR": str(temporary)}
    this = [sys.executable, "-m", "tests.benchmarks.beir_archive", str(work), "--prepare"]
    process = subprocess.Popen([*this, *arguments], cwd=ROOT, env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    most = 0
    while process.poll() is None:
        most = max(most, used(home, temporary))
        time.sleep(0.02)
    if process.returncode:
        sys.exit(process.returncode)
    return {**json.loads(process.stdout.read().splitlines()[-1]), "disk": most}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    """Make, measure every way, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--documents", type=int, default=1_500_000)
    parser.add_argument("--text", choices=("words", "letters", "stored"), default="words")
    parser.add_argument("--ways", nargs="+", default=["downloaded", "zip", "folder"])
    parser.add_argument("--keep", action="store_true", help="keep the archive in WORK")
    parser.add_argument("--prepare", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare:
        prepare(*options.prepare)
        return
    work = options.work
    given = work / f"{options.text}-{options.documents}"
    given.mkdir(parents=True, exist_ok=True)
    archive = given / f"{NAME}.zip"
    if not archive.is_file():
        make(archive, options.text, options.documents)
    with zipfile.ZipFile(archive) as made:
        text = sum(one.file_size for one in made.infolist())
    zipped = archive.stat().st_size
    with open(archive, "rb") as file:
        md5 = hashlib.file_digest(file, "md5").hexdigest()
    print(
        f"{options.documents:,} documents of {options.text}, text {text / 1e6:,.0f} MB, zip ",
        end="",
    )
    print(f"{zipped / 1e6:,.0f} MB; {machine()}", flush=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(given)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows, prints = [], set()
    for way in options.ways:
        url = f"http://127.0.0.1:{server.server_port}/" if way == "downloaded" else ""
        source = {"downloaded": "", "zip": str(archive), "folder": str(work / "unpacked")}[way]
        if way == "folder":
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(work / "unpacked")
            source += f"/{NAME}"
        found = sampled(work, url, md5, source)
        shutil.rmtree(work / "unpacked", ignore_errors=True)
        beside = {"downloaded": 0, "zip": zipped, "folder": text}[way]  # lies elsewhere
        n, seconds, disk = (float(found[key]) for key in ("documents", "seconds", "disk"))
        prints.add(found["fingerprint"])
        rows.append(
            [
                way,
                f"{seconds:.1f}",
                f"{n / seconds:,.0f}",
                f"{float(found['peak']):,.0f}",
                f"{float(found['dataset']) / 1e6:,.0f}",
                f"{(disk + beside) / 1e6:,.0f}",
                f"{(disk + beside) / text:.2f}",
            ]
        )
    server.shutdown()
    headers = ["way", "s", "documents/s", "peak MB", "dataset MB", "most disk MB", "x the text"]
    print(markdown(rows, headers))
    print("the same content" if len(prints) == 1 else "OTHER CONTENT")
    shutil.rmtree(work / "home", ignore_errors=True)
    shutil.rmtree(work / "tmp", ignore_errors=True)
    if not options.keep:
        shutil.rmtree(given)


if __name__ == "__main__":
    main()
