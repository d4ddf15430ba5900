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
            "of the questions on facts that changed, the share with the newest fact among the "
            "first documents",
            "1 where a gold document of the latest date is in the top k",
        ),
        (
            "stale_only_rate",
            "of the questions on facts that changed, the share with an older fact alone among the "
            "first documents",
            "1 where an older gold document is in the top k, and none of the latest date",
        ),
        (
            "update_ranked_first",
            "of the questions on facts that changed, the share in which the newest stands above "
            "every older one",
            "1 where the first gold document of the latest date was returned and stands above "
            "every older one",
        ),
    ),
    *_section(
        "Of changes",
        (
            "outdated_returned",
            "of the questions asked after a fact was corrected, the share with what no longer "
            "holds among the first documents; lower is better",
            "1 where an outdated document is in the top k",
        ),
        (
            "outdated_above",
            "of the questions asked after a fact was corrected, the share with what no longer "
            "holds among the first documents, and above what does; lower is better",
            "1 where an outdated document is in the top k, and nothing that replaced it, by one "
            "step or several, stands above it",
        ),
        (
            "forgotten_returned",
            "of the questions asked after something was to be forgotten, the share with it among "
            "the first documents; lower is better",
            "1 where a forgotten document is in the top k",
        ),
        (
            "future_returned",
            "of the questions asked before the last document was said, the share with a later one "
            "among the first documents; lower is better",
            "1 where a document is in the top k that was said after the question was asked",
        ),
    ),
    *_section(
        "Of abstention",
        (
            "false_positive_rate",
            "of the questions that have no answer, the share for which documents were returned all"
            " the same",
            "queries without an answer for which documents were returned / queries without an "
            "answer",
            "ours",
            "false positive rate",
        ),
        (
            "as_returned",
            "precision, recall and F1 of returning nothing as a sign that there is no answer",
            "precision, recall and F1 of silence as a sign that there is no answer",
            "SQuAD 2.0's no-answer F1",
        ),
        (
            "auroc",
            "how often the system is surer of a question with an answer than of one without; 0.5 "
            "is a guess",
            "P(confidence of a query with an answer > of one without), ties half",
            "Mann-Whitney U",
            "AUC, ROC AUC",
        ),
        (
            "at_threshold",
            "precision, recall and F1 of returning nothing below a threshold of the confidence",
            "precision, recall and F1 of silence below a threshold of the confidence, which is "
            "that of the best F1 on the other folds: other haystacks, where there are several",
        ),
        (
            "aurc",
            "the share of wrong answers among the surest questions, as a mean over all shares; "
            "lower is better",
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
            "recall of as much of the ranking as costs at most k tokens",
            "recall of the longest prefix of the ranking that costs at most so many tokens, "
            "`recall_in_tokens@1000`; a token is a run of word characters, or one other character",
        ),
    ),
    *_section(
        "Of texts against answers",
        (
            "success",
            "the share of questions with an answer that stands in one of the first k texts",
            "1 where an answer stands in one of the texts, both normalised",
            "SQuAD's normalisation; DPR's `has_answer`",
            "answer recall, hit@k of open-domain question answering",
        ),
        (
            "exact_match",
            "of the first k texts the best, by whether it is an answer",
            "1 where a text is an answer, both normalised",
            "SQuAD",
            "EM",
        ),
        (
            "token_f1",
            "of the first k texts the best, by the words that it shares with an answer",
            "F1 of the words, as bags",
            "SQuAD",
            "F1; LoCoMo's stems the words first",
        ),
        (
            "rouge_l",
            "of the first k texts the best, by the words that it has in the same order as an "
            "answer",
            "F of the longest common subsequence of words",
            "`rouge_score` without stemming; Lin 2004",
            "ROUGE-L",
        ),
        (
            "bleu",
            "of the first k texts the best, by the runs of one to four words that it shares with "
            "an answer",
            "sentence BLEU, over 100",
            "`sacrebleu`",
        ),
        (
            "bleu1",
            "of the first k texts the best, by the share of its words that are in an answer",
            "BLEU of single words, 13a tokens, lower case",
            "`sacrebleu`",
            "BLEU-1",
        ),
    ),
    *_section(
        "By similarity of texts",
        (
            "semantic_recall",
            "of the evidence of a question, the share that one of the first k texts is similar to",
            "pieces of evidence that a text of the top k is similar to / pieces of evidence",
        ),
        (
            "semantic_precision",
            "of the first k texts, the share that is similar to evidence",
            "texts of the top k that are similar to a text of the evidence / k",
        ),
        (
            "semantic_precision_returned",
            "as semantic precision, over the texts that were returned where those are fewer than k",
            "texts of the top k that are similar to a text of the evidence / texts returned there",
        ),
    ),
    *_section(
        "By similarity of texts",
        (
            "soft_recall",
            "how similar the best of the first k texts is to each piece of evidence, as a mean",
            "mean, over pieces of evidence, of the highest cosine with a text of the top k",
            "BERTScore's greedy matching, of whole texts; Zhang et al., ICLR 2020",
        ),
        (
            "soft_precision",
            "how similar each of the first k texts is to the evidence, as a mean",
            "mean, over the top k, of the highest cosine with a text of the evidence",
            "BERTScore's greedy matching, of whole texts; Zhang et al., ICLR 2020",
        ),
        unit="-1 to 1",
    ),
)
"""Metrics with a place in the tables of the documentation."""

OF_ANSWERS = _section(
    "Of answers of a reader",
    ("accuracy", "of the answers, the share that the judge called right"),
    (
        "containment",
        "of the answers, the share that holds the reference",
        "1 where the reference stands in the answer, both normalised as SQuAD does",
    ),
    (
        "exact_match",
        "of the answers, the share that is the reference",
        "1 where the answer is the reference, both normalised as SQuAD does",
    ),
    (
        "token_f1",
        "the words that an answer shares with the reference",
        "SQuAD's F1 of words with the reference",
    ),
    (
        "f1",
        "the words that an answer shares with the reference, by LoCoMo's rules",
        "F1 of stemmed words with the reference, by LoCoMo's rule for its category",
    ),
    ("abstained", "of the answers, the share that says that the answer is not known"),
    (
        "correct_given_evidence",
        "of the answers, the share that is correct with all of the evidence in the context",
    ),
    (
        "correct_without_evidence",
        "of the answers, the share that is correct without all of the evidence",
    ),
    (
        "reader_error",
        "of the answers, the share that is wrong with all of the evidence in the context",
    ),
    (
        "wrong_abstention",
        "of the answers, the share that abstains with all of the evidence in the context",
    ),
    (
        "partial_retrieval_error",
        "of the answers, the share that is wrong with a part of the evidence",
    ),
    ("retrieval_error", "of the answers, the share that is wrong with none of the evidence"),
    (
        "correct_abstention",
        "of the answers to unanswerable questions, the share that is correct",
    ),
    ("hallucinated", "of the answers to unanswerable questions, the share that is wrong"),
    (
        "accuracy_given_evidence",
        "accuracy of the answers with all of the evidence in the context",
    ),
    ("accuracy_given_no_evidence", "accuracy of the answers with none of the evidence"),
    (
        "retrieval_headroom",
        "of the answers, the share that is wrong without all of the evidence: the most that better"
        " retrieval can add with this reader",
    ),
    (
        "reader_headroom",
        "of the answers, the share that is wrong with all of the evidence: the most that a better "
        "reader can add with this retrieval",
    ),
)
"""Metrics of answers of a reader, in a folder of answers."""
