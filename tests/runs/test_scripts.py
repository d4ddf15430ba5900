"""Terms of other scripts: pairs of characters where words are not separated, by one rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from corpora import labelled
from rank_bm25 import BM25Okapi
from spoken import Turn, corpus

from harness.errors import UsageError
from harness.io.scripts import main_script, terms
from harness.retrievers.bm25.tokenizer import Tokenizer, analysis, split_words
from harness.retrievers.contract import Question
from harness.retrievers.registry import RetrieverSpec
from harness.retrievers.tfidf import Okapi
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run

PAIRS = {
    "昨日、東京駅で": ["昨日", "東京", "京駅", "駅で"],
    "ｽﾏﾎとＡＩとｶﾞｽ": ["スマ", "マホ", "ホと", "ai", "とガ", "ガス"],
    "iPhone15手机": ["iphone15", "手机"],
    "我": ["我"],
    "รักแมว": ["รั", "ัก", "กแ", "แม", "มว"],
    "서울역에서 만나요": ["서울", "울역", "역에", "에서", "만나", "나요"],
    "ភាសា": ["ភា", "ាស", "សា"],
    "ຊື້": ["ຊື", "ື້"],
}

FOUND = {  # document: a question about it
    "昨日、東京駅で新しい靴を買いました。": "新しい靴はどこで買った？",
    "来週の火曜日に歯医者の予約があります。": "歯医者の予約はいつ？",
    "เมื่อวานฉันซื้อรองเท้าใหม่ที่ห้างสรรพสินค้า": "ซื้อรองเท้าที่ไหน",
    "วันอังคารหน้าฉันมีนัดกับหมอฟัน": "นัดหมอฟันวันไหน",
    "다음 주 화요일에 치과 예약이 있어요": "치과 예약은 언제",
    "मंगलवार को दंत चिकित्सक से मिलना है": "दंत चिकित्सक कब",
    "我将要参加金融科技精英论坛。": "金融科技论坛的地点是什么？",
}


@pytest.mark.parametrize("text", PAIRS)
def test_scripts_without_spaces_give_pairs_of_characters(text: str) -> None:
    assert split_words(text) == PAIRS[text]
    tokenizer = Tokenizer("none", "none")
    (encoded,) = tokenizer.encode([text])
    assert [tokenizer.stems[term] for term in encoded] == PAIRS[text]


def test_vowel_signs_belong_to_words_in_texts_of_their_script_only() -> None:
    assert split_words("हिन्दी में नए जूते") == ["हिन्दी", "में", "नए", "जूते"]
    assert split_words("The Hindi word हिन्दी means Hindi") == [
        "the",
        "hindi",
        "word",
        "means",
        "hindi",
    ]


def test_an_english_text_has_the_same_words_as_by_the_general_rule() -> None:
    text = "Zoë’s café — 42 naïve “quotes” ☕️ 3️⃣ x_y Straße"
    assert split_words(text) == terms(text.lower(), 2)


@pytest.mark.parametrize(
    "spec",
    [
        RetrieverSpec("bm25"),
        RetrieverSpec("tfidf"),
        RetrieverSpec("bm25-okapi", {"tokens": "words"}),
        RetrieverSpec("bm25-okapi"),
        RetrieverSpec("hybrid", {"retrievers": "bm25,tfidf"}),
    ],
    ids=lambda spec: spec.name,
)
def test_lexical_retrievers_find_documents_in_every_script(
    spec: RetrieverSpec, home: Path, tmp_path: Path
) -> None:
    documents = [{"id": f"d{i}", "text": text} for i, text in enumerate(FOUND)]
    queries = [{"id": f"q{i}", "text": text} for i, text in enumerate(FOUND.values())]
    judged = {f"q{i}": [f"d{i}"] for i in range(len(FOUND))}
    dataset = labelled(tmp_path / "files", documents, queries, judged)
    folder = run(dataset, spec, out=tmp_path)
    assert score_run(folder, dataset)["recall@1"] == 1
    assert "words/2" in str(RunFolder(folder).record.retriever.revision)


@pytest.mark.parametrize("script", ["昨", "ว", "我"])
def test_okapi_splits_at_blanks_except_in_a_haystack_without_spaces(script: str) -> None:
    """English haystacks have rank_bm25's scores, though one of their texts is Chinese."""
    texts = [text for text in FOUND if script in text]
    mixed = [*texts[:1], *["She bought new shoes in London, and sold the old."] * 9]
    for corpus_, terms_of in ((texts, split_words), (mixed, str.split)):
        default, expected = Okapi(), BM25Okapi([terms_of(text) for text in corpus_])
        default.index(corpus(*map(Turn, corpus_)))
        for question in (FOUND[texts[0]], "She bought shoes, 12"):
            (found,) = default.search([Question(question)], len(corpus_))
            scores = np.zeros(len(corpus_))
            scores[found.ids] = found.scores
            assert scores == pytest.approx(expected.get_scores(terms_of(question)))


def test_a_language_chooses_stemmer_and_stop_words() -> None:
    assert analysis("german", "auto", "auto") == {"stemmer": "german", "stopwords": "german"}
    assert analysis("german", "none", "auto") == {"stemmer": "none", "stopwords": "german"}
    assert analysis("basque", "auto", "auto") == {"stemmer": "basque", "stopwords": "none"}
    assert analysis("chinese", "auto", "auto") == {"stemmer": "none", "stopwords": "chinese"}
    german = Tokenizer(**analysis("german", "auto", "auto"))
    assert german.stem_text("Die Häuser und der Garten") == ["haus", "gart"]
    with pytest.raises(UsageError, match="unknown language 'germn'; did you mean german"):
        RetrieverSpec("bm25", {"language": "germn"}).build()


def test_a_run_without_a_shared_term_names_the_scripts(home: Path, tmp_path: Path) -> None:
    documents = [{"id": "d", "text": "My sister studies physics."}]
    queries = [{"id": "q", "text": "น้องสาวเรียนอะไร"}]
    dataset = labelled(tmp_path / "files", documents, queries, {"q": ["d"]})
    for retriever in ("bm25", "tfidf", "bm25-okapi"):
        with pytest.warns(UserWarning, match="no query shares a term with a document") as warned:
            run(dataset, retriever, out=tmp_path)
        assert "queries in Thai, documents in Latin" in str(warned[0].message)
    assert main_script(["", "12 ."]) == "None"


def test_columns_of_mixed_texts_are_split_as_single_texts() -> None:
    texts = [*PAIRS, "plain English text", "", *FOUND, "Zoë’s café"]
    tokenizer = Tokenizer("none", "none")
    together = [np.array(tokenizer.stems)[one].tolist() for one in tokenizer.encode(texts)]
    assert together == [split_words(text) for text in texts]
