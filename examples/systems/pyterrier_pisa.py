"""A PyTerrier pipeline over PISA: BM25, and of its first hundred the shorter before the longer.

pip install -e '.[pyterrier]' pyterrier-pisa
"""

import tempfile

import pyterrier as pt
from pyterrier_pisa import PisaIndex


def make(documents):
    index = PisaIndex(tempfile.mkdtemp() + "/index", text_field=["title", "text"])
    index.index(documents)
    words = {document["docno"]: len(document["text"].split()) for document in documents}
    shorter = pt.apply.doc_score(lambda row: row["score"] / words[row["docno"]] ** 0.2)
    return index.bm25() % 100 >> shorter
