"""Systems that mind, or do not mind, that they are run in a sandbox."""

import glob
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np

import harness

seen = []


class Words:
    """Documents by the words that they share with the question; which haystacks came before."""

    def __init__(self, log=""):
        self.log = log

    def index(self, corpus):
        self.before = list(seen)
        seen.append(corpus.contents[0])
        self.corpus = corpus
        self.texts = [set(text.split()) for text in corpus.contents]

    def search(self, queries, k):
        if self.log:
            with open(self.log, "a") as log:
                print(*(query.text for query in queries), sep="\n", file=log)
        return [self.found(set(query.text.split()), k) for query in queries]

    def found(self, words, k):
        shared = np.array([len(words & text) for text in self.texts], np.float32)
        order = np.argsort(-shared, kind="stable")[:k]
        return harness.Result(order, shared[order], confidence=shared.max())

    def report(self):
        return {"before": self.before}


class Spy(Words):
    """Reads what it is told to by every way that it can think of."""

    def __init__(self, folders, files):
        super().__init__()
        self.folders, self.files, self.read = folders, files, []

    def index(self, corpus):
        super().index(corpus)
        subprocess.run(["umount", *self.folders, *self.files], stderr=subprocess.DEVNULL)
        script = 'umount "$@"; umount -l /proc; cat ' + " ".join(self.files)
        command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
        done = subprocess.run(command + self.folders + self.files, capture_output=True)
        self.read += [done.stdout.decode(errors="replace")] if done.stdout else []
        roots = ["", *glob.glob("/proc/[0-9]*/root"), *glob.glob("/proc/[0-9]*/cwd")]
        for root in roots:
            for folder in self.folders:
                try:
                    self.read += os.listdir(root + folder)
                except OSError:
                    continue
            for file in self.files:
                try:
                    self.read.append(pathlib.Path(root + file).read_text()[:20])
                except (OSError, UnicodeDecodeError) as error:
                    self.read += [] if isinstance(error, OSError) else [file]

    def report(self):

        others = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        return {"read": self.read, "processes": len(others), "parent": os.getppid()}


class Odd(Words):
    """Another mistake for each question."""

    batch_size = 4

    def found(self, words, k):
        (number,) = (int(word) for word in words if word.isdecimal())
        good = super().found(words, k).ids
        return [
            None,
            ["d1000000"],
            [1.5],
            harness.Result(good, [float("nan")] * len(good)),
            harness.Result(good, [float("inf"), 1.0, float("-inf")]),
            harness.Result(good, [0.1, 0.3, 0.2]),
            harness.Result(good, [1.0]),
            harness.Result([0, 0, 1], confidence=float("inf")),
            harness.Result((i for i in good), abstain=np.bool_(True)),
            {self.corpus.handles[i]: -i for i in range(3)},
            [harness.Hit("half a \ud800 character", [good[0], "d7x"], np.float32(0.5))],
            [harness.Hit(b"bytes")],
            [99],
            "d1",
            [object()],
            harness.Result(np.array([2, 1], np.uint8)),
        ][number]


class Dies(Words):
    """Leaves a process behind, then ends in the midst of a search, or prints and goes on."""

    def __init__(self, mark):
        super().__init__()
        subprocess.Popen(["sleep", mark], start_new_session=True, stderr=subprocess.DEVNULL)

    def search(self, queries, k):
        print("not an answer")
        if " 0 " in queries[0].text:
            os._exit(9)
        return super().search(queries, k)


class Hangs(Words):
    def __init__(self, mark):
        super().__init__()
        self.mark = mark

    def search(self, queries, k):
        subprocess.Popen(["sleep", self.mark], start_new_session=True)
        while True:
            time.sleep(1)


class Meets(Words):
    """Waits in each haystack until another process is in another."""

    def __init__(self, folder):
        super().__init__()
        self.folder = pathlib.Path(folder)

    def index(self, corpus):
        super().index(corpus)
        # Random, as two of these may have the same process id and start in the same tick.
        tempfile.mkstemp(dir=self.folder)
        end = time.monotonic() + 300
        while len(list(self.folder.iterdir())) < 2:
            if time.monotonic() > end:
                raise TimeoutError("nobody came")
            time.sleep(0.05)


class Stops(Words):
    """Fails from the third question on while a file is there."""

    def search(self, queries, k):
        if (
            os.path.exists(self.log + ".stop")
            and pathlib.Path(self.log).read_text().count("\n") > 1
        ):
            raise ValueError("stopped")
        return super().search(queries, k)


class Greedy(Words):
    sees_gold_labels = True


def by_id(text, k):
    return ["n0-0"] if "0 0" in text else []
