"""Describes the metrics that need more than rankings: those of report sections and of answers.

They are computed by these sections (`knowledge_update`, `changes`, `abstention`, `tokens`) and by
the extension `answers`.
"""

from __future__ import annotations

from dataclasses import replace

from harness.scoring.metrics.definition import MetricDescription


def _section(
    heading: str, *rows: tuple[str, ...], unit: str = "0 to 1"
) -> tuple[MetricDescription, ...]:
    """Metrics of one heading; each is its name, `about`, formula, source and `elsewhere`.

    A metric without a formula is fully defined by `about`.
    """
    return tuple(
        replace(MetricDescription(name, about, *(rest or (about,))), section=heading, unit=unit)
        for name, about, *rest in rows
    )


DESCRIBED: tuple[MetricDescription, ...] = (
    *_section(
        "Of updates",
        (
            "update_recall",
            "share of questions about updated facts with the newest fact in the top k documents",
            "1 where a gold document of the latest date is in the top k",
        ),
        (
            "stale_only_rate",
            "share of questions about updated facts with only an older fact in the top k documents",
            "1 where an older gold document is in the top k, and none of the latest date",
        ),
        (
            "update_ranked_first",
            "share of questions about updated facts whose newest fact is ranked above every older "
            "one",
            "1 where the first gold document of the latest date was returned and stands above "
            "every older one",
        ),
    ),
    *_section(
        "Of changes",
        (
            "outdated_returned",
            "share of questions asked after a correction with an outdated document in the top k; "
            "lower is better",
            "1 where an outdated document is in the top k",
        ),
        (
            "outdated_above",
            "share of questions asked after a correction with an outdated document in the top k "
            "and above its replacement; lower is better",
            "1 where an outdated document is in the top k, and nothing that replaced it, by one "
            "step or several, stands above it",
        ),
        (
            "forgotten_returned",
            "share of questions asked after a deletion with a deleted document in the top k; "
            "lower is better",
            "1 where a forgotten document is in the top k",
        ),
        (
            "future_returned",
            "share of questions with a document in the top k that is later than the question; "
            "lower is better",
            "1 where a document is in the top k that was said after the question was asked",
        ),
    ),
    *_section(
        "Of scopes",
        (
            "leak_rate",
            "mean share of the documents in the top k that the query's user may not read; lower is "
            "better",
            "documents in the top k that the user may not read / documents returned in the top k; "
            "0 where nothing is returned",
        ),
        (
            "query_leak_rate",
            "share of queries with a document in the top k that the user may not read; lower is "
            "better",
            "1 where a document in the top k may not be read by the user",
        ),
        (
            "recall_in_scope",
            "share of the evidence in the top k of the documents that the user may read",
            "recall of the ranking without the documents that the user may not read",
        ),
    ),
    *_section(
        "Of PrecisionMemBench",
        (
            "retrieval_precision",
            "mean share of evidence among all returned beliefs; no value for a case without "
            "evidence for which nothing is returned",
            "returned evidence / returned beliefs; 0 where nothing is returned for a case with "
            "evidence",
            "PrecisionMemBench",
            "mean precision",
        ),
        (
            "retrieval_recall",
            "mean share of the evidence of a case that is returned",
            "returned evidence / evidence",
            "PrecisionMemBench",
            "mean recall",
        ),
    ),
    *_section(
        "Of abstention",
        (
            "false_positive_rate",
            "share of unanswerable questions for which documents are returned",
            "queries without an answer for which documents were returned / queries without an "
            "answer",
            "ours",
            "false positive rate",
        ),
        (
            "as_returned",
            "precision, recall and F1 of abstention: returning nothing for unanswerable questions",
            "precision, recall and F1 of silence as a sign that there is no answer",
            "SQuAD 2.0's no-answer F1",
        ),
        (
            "auroc",
            "probability that the confidence is higher for an answerable question than for an "
            "unanswerable one; 0.5 is random",
            "P(confidence of a query with an answer > of one without), ties half",
            "Mann-Whitney U",
            "AUC, ROC AUC",
        ),
        (
            "at_threshold",
            "precision, recall and F1 of abstention below a confidence threshold",
            "precision, recall and F1 of silence below a threshold of the confidence, which is "
            "that of the best F1 on the other folds: other haystacks, where there are several",
        ),
        (
            "aurc",
            "area under the risk-coverage curve: mean share of wrong answers among the most "
            "confident ones; lower is better",
            "mean, over n, of the share of wrong answers among the n surest; wrong is hit@10 = 0, "
            "or no answer exists",
            "Geifman and El-Yaniv, NeurIPS 2017",
            "area under the risk-coverage curve",
        ),
    ),
    *_section(
        "Of cost",
        (
            "recall_in_tokens",
            "recall of the top documents that fit into k tokens",
            "recall of the longest prefix of the ranking that costs at most so many tokens, "
            "`recall_in_tokens@1000`; a token is a run of word characters, or one other character",
        ),
    ),
    *_section(
        "Of texts against answers",
        (
            "success",
            "share of questions with an answer that one of the top k texts contains",
            "1 where an answer stands in one of the texts, both normalised",
            "SQuAD's normalisation; DPR's `has_answer`",
            "answer recall, hit@k of open-domain question answering",
        ),
        (
            "exact_match",
            "share of questions for which one of the top k texts equals an answer",
            "1 where a text is an answer, both normalised",
            "SQuAD",
            "EM",
        ),
        (
            "token_f1",
            "highest word F1 of the top k texts with an answer",
            "F1 of the words, as bags",
            "SQuAD",
            "F1; LoCoMo's stems the words first",
        ),
        (
            "rouge_l",
            "highest ROUGE-L of the top k texts with an answer",
            "F of the longest common subsequence of words",
            "`rouge_score` without stemming; Lin 2004",
            "ROUGE-L",
        ),
        (
            "bleu",
            "highest BLEU of the top k texts with an answer",
            "sentence BLEU, over 100",
            "`sacrebleu`",
        ),
        (
            "bleu1",
            "highest BLEU-1 of the top k texts with an answer",
            "BLEU of single words, 13a tokens, lower case",
            "`sacrebleu`",
            "BLEU-1",
        ),
    ),
    *_section(
        "By similarity of texts",
        (
            "semantic_recall",
            "share of the evidence that one of the top k texts is similar to",
            "pieces of evidence that a text of the top k is similar to / pieces of evidence",
        ),
        (
            "semantic_precision",
            "share of the top k texts that are similar to evidence",
            "texts of the top k that are similar to a text of the evidence / k",
        ),
        (
            "semantic_precision_returned",
            "semantic precision over the returned texts, if they are fewer than k",
            "texts of the top k that are similar to a text of the evidence / texts returned there",
        ),
    ),
    *_section(
        "By similarity of texts",
        (
            "soft_recall",
            "mean, over evidence items, of the highest similarity to one of the top k texts",
            "mean, over pieces of evidence, of the highest cosine with a text of the top k",
            "BERTScore's greedy matching, of whole texts; Zhang et al., ICLR 2020",
        ),
        (
            "soft_precision",
            "mean, over the top k texts, of the highest similarity to the evidence",
            "mean, over the top k, of the highest cosine with a text of the evidence",
            "BERTScore's greedy matching, of whole texts; Zhang et al., ICLR 2020",
        ),
        unit="-1 to 1",
    ),
)
"""Metrics with a place in the tables of the documentation."""

LOWER_IS_BETTER = ("leak_rate", "query_leak_rate")
"""Metrics of protocols that are better the lower they are."""


def is_lower_better(metric: str) -> bool:
    """Tests a metric's name, with or without its cutoff."""
    return metric.partition("@")[0] in LOWER_IS_BETTER


OF_ANSWERS = _section(
    "Of answers of a reader",
    ("accuracy", "share of answers that the judge marks correct"),
    (
        "containment",
        "share of answers that contain the reference",
        "1 where the reference stands in the answer, both normalised as SQuAD does",
    ),
    (
        "exact_match",
        "share of answers that equal the reference",
        "1 where the answer is the reference, both normalised as SQuAD does",
    ),
    (
        "token_f1",
        "word F1 with the reference",
        "SQuAD's F1 of words with the reference",
    ),
    (
        "f1",
        "word F1 with the reference, by LoCoMo's rules",
        "F1 of stemmed words with the reference, by LoCoMo's rule for its category",
    ),
    ("abstained", "share of answers that abstain"),
    (
        "correct_given_evidence",
        "share of answers that are correct with all of the evidence in the context",
    ),
    (
        "correct_without_evidence",
        "share of answers that are correct without all of the evidence",
    ),
    (
        "reader_error",
        "share of answers that are wrong with all of the evidence in the context",
    ),
    (
        "wrong_abstention",
        "share of answers that abstain with all of the evidence in the context",
    ),
    (
        "partial_retrieval_error",
        "share of answers that are wrong with some of the evidence",
    ),
    ("retrieval_error", "share of answers that are wrong with none of the evidence"),
    (
        "correct_abstention",
        "share of answers to unanswerable questions that are correct",
    ),
    ("hallucinated", "share of answers to unanswerable questions that are wrong"),
    (
        "accuracy_given_evidence",
        "accuracy of the answers with all of the evidence in the context",
    ),
    ("accuracy_given_no_evidence", "accuracy of the answers with none of the evidence"),
    (
        "retrieval_headroom",
        "share of answers that are wrong without all of the evidence: the most that better"
        " retrieval can add with this reader",
    ),
    (
        "reader_headroom",
        "share of answers that are wrong with all of the evidence: the most that a better "
        "reader can add with this retrieval",
    ),
)
"""Metrics of answers of a reader, in a folder of answers."""
