"""Descriptions of metrics that are not of rankings alone: of sections of a report, and of answers.

They are computed by those sections (`sections`, `changes`, `abstention`, `budget`, `answered`,
`semantic`); what is said of them stands here, once.
"""

from __future__ import annotations

from harness.scoring.metrics.definition import MetricDescription

UPDATES = "Of updates"
CHANGES = "Of changes"
ABSTENTION = "Of abstention"
COST = "Of cost"
TEXTS = "Of texts against answers"
SEMANTIC = "By similarity of texts"
READER = "Of answers of a reader"

_UPDATE = "of the questions on facts that changed, the share "
_CORRECTED = "of the questions asked after a fact was corrected, the share with "
_BEST_TEXT = "of the first k texts the best, by "
_ANSWERS = "of the answers, the share that "

DESCRIBED: tuple[MetricDescription, ...] = (
    MetricDescription(
        "update_recall",
        _UPDATE + "with the newest fact among the first documents",
        "1 where a gold document of the latest date is in the top k",
        section=UPDATES,
    ),
    MetricDescription(
        "stale_only_rate",
        _UPDATE + "with an older fact alone among the first documents",
        "1 where an older gold document is in the top k, and none of the latest date",
        section=UPDATES,
    ),
    MetricDescription(
        "update_ranked_first",
        _UPDATE + "in which the newest stands above every older one",
        "1 where the first gold document of the latest date was returned and stands above every "
        "older one",
        section=UPDATES,
    ),
    MetricDescription(
        "outdated_returned",
        _CORRECTED + "what no longer holds among the first documents; lower is better",
        "1 where an outdated document is in the top k",
        section=CHANGES,
    ),
    MetricDescription(
        "outdated_above",
        _CORRECTED + "what no longer holds among the first documents, and above what does; lower "
        "is better",
        "1 where an outdated document is in the top k, and nothing that replaced it, by one step "
        "or several, stands above it",
        section=CHANGES,
    ),
    MetricDescription(
        "forgotten_returned",
        "of the questions asked after something was to be forgotten, the share with it among the "
        "first documents; lower is better",
        "1 where a forgotten document is in the top k",
        section=CHANGES,
    ),
    MetricDescription(
        "future_returned",
        "of the questions asked before the last document was said, the share with a later one "
        "among the first documents; lower is better",
        "1 where a document is in the top k that was said after the question was asked",
        section=CHANGES,
    ),
    MetricDescription(
        "false_positive_rate",
        "of the questions that have no answer, the share for which documents were returned all "
        "the same",
        "queries without an answer for which documents were returned / queries without an answer",
        elsewhere="false positive rate",
        section=ABSTENTION,
    ),
    MetricDescription(
        "as_returned",
        "precision, recall and F1 of returning nothing as a sign that there is no answer",
        "precision, recall and F1 of silence as a sign that there is no answer",
        source="SQuAD 2.0's no-answer F1",
        section=ABSTENTION,
    ),
    MetricDescription(
        "auroc",
        "how often the system is surer of a question with an answer than of one without; 0.5 is "
        "a guess",
        "P(confidence of a query with an answer > of one without), ties half",
        source="Mann-Whitney U",
        elsewhere="AUC, ROC AUC",
        section=ABSTENTION,
    ),
    MetricDescription(
        "at_threshold",
        "precision, recall and F1 of returning nothing below a threshold of the confidence",
        "precision, recall and F1 of silence below a threshold of the confidence, which is that of "
        "the best F1 on the other folds: other haystacks, where there are several",
        section=ABSTENTION,
    ),
    MetricDescription(
        "aurc",
        "the share of wrong answers among the surest questions, as a mean over all shares; lower "
        "is better",
        "mean, over n, of the share of wrong answers among the n surest; wrong is hit@10 = 0, or "
        "no answer exists",
        source="Geifman and El-Yaniv, NeurIPS 2017",
        elsewhere="area under the risk-coverage curve",
        section=ABSTENTION,
    ),
    MetricDescription(
        "recall_in_tokens",
        "recall of as much of the ranking as costs at most k tokens",
        "recall of the longest prefix of the ranking that costs at most so many tokens, "
        "`recall_in_tokens@1000`; a token is a run of word characters, or one other character",
        section=COST,
    ),
    MetricDescription(
        "success",
        "the share of questions with an answer that stands in one of the first k texts",
        "1 where an answer stands in one of the texts, both normalised",
        source="SQuAD's normalisation; DPR's `has_answer`",
        elsewhere="answer recall, hit@k of open-domain question answering",
        section=TEXTS,
    ),
    MetricDescription(
        "exact_match",
        _BEST_TEXT + "whether it is an answer",
        "1 where a text is an answer, both normalised",
        source="SQuAD",
        elsewhere="EM",
        section=TEXTS,
    ),
    MetricDescription(
        "token_f1",
        _BEST_TEXT + "the words that it shares with an answer",
        "F1 of the words, as bags",
        source="SQuAD",
        elsewhere="F1; LoCoMo's stems the words first",
        section=TEXTS,
    ),
    MetricDescription(
        "rouge_l",
        _BEST_TEXT + "the words that it has in the same order as an answer",
        "F of the longest common subsequence of words",
        source="`rouge_score` without stemming; Lin 2004",
        elsewhere="ROUGE-L",
        section=TEXTS,
    ),
    MetricDescription(
        "bleu",
        _BEST_TEXT + "the runs of one to four words that it shares with an answer",
        "sentence BLEU, over 100",
        source="`sacrebleu`",
        section=TEXTS,
    ),
    MetricDescription(
        "bleu1",
        _BEST_TEXT + "the share of its words that are in an answer",
        "BLEU of single words, 13a tokens, lower case",
        source="`sacrebleu`",
        elsewhere="BLEU-1",
        section=TEXTS,
    ),
    MetricDescription(
        "semantic_recall",
        "of the evidence of a question, the share that one of the first k texts is similar to",
        "pieces of evidence that a text of the top k is similar to / pieces of evidence",
        section=SEMANTIC,
    ),
    MetricDescription(
        "semantic_precision",
        "of the first k texts, the share that is similar to evidence",
        "texts of the top k that are similar to a text of the evidence / k",
        section=SEMANTIC,
    ),
    MetricDescription(
        "semantic_precision_returned",
        "as semantic precision, over the texts that were returned where those are fewer than k",
        "texts of the top k that are similar to a text of the evidence / texts returned there",
        section=SEMANTIC,
    ),
    MetricDescription(
        "soft_recall",
        "how similar the best of the first k texts is to each piece of evidence, as a mean",
        "mean, over pieces of evidence, of the highest cosine with a text of the top k",
        source="BERTScore's greedy matching, of whole texts; Zhang et al., ICLR 2020",
        section=SEMANTIC,
    ),
    MetricDescription(
        "soft_precision",
        "how similar each of the first k texts is to the evidence, as a mean",
        "mean, over the top k, of the highest cosine with a text of the evidence",
        source="BERTScore's greedy matching, of whole texts; Zhang et al., ICLR 2020",
        section=SEMANTIC,
    ),
)
"""Metrics with a place in the tables of the documentation."""


def _of_answers(name: str, about: str, formula: str = "") -> MetricDescription:
    return MetricDescription(name, about, formula or about, section=READER)


OF_ANSWERS: tuple[MetricDescription, ...] = (
    _of_answers("accuracy", _ANSWERS + "the judge called right"),
    _of_answers(
        "containment",
        _ANSWERS + "holds the reference",
        "1 where the reference stands in the answer, both normalised as SQuAD does",
    ),
    _of_answers(
        "exact_match",
        _ANSWERS + "is the reference",
        "1 where the answer is the reference, both normalised as SQuAD does",
    ),
    _of_answers(
        "token_f1",
        "the words that an answer shares with the reference",
        "SQuAD's F1 of words with the reference",
    ),
    _of_answers(
        "f1",
        "the words that an answer shares with the reference, by LoCoMo's rules",
        "F1 of stemmed words with the reference, by LoCoMo's rule for its category",
    ),
    _of_answers("abstained", _ANSWERS + "says that the answer is not known"),
    _of_answers(
        "correct_given_evidence",
        _ANSWERS + "is correct with all of the evidence in the context",
    ),
    _of_answers("correct_without_evidence", _ANSWERS + "is correct without all of the evidence"),
    _of_answers("reader_error", _ANSWERS + "is wrong with all of the evidence in the context"),
    _of_answers("wrong_abstention", _ANSWERS + "abstains with all of the evidence in the context"),
    _of_answers("partial_retrieval_error", _ANSWERS + "is wrong with a part of the evidence"),
    _of_answers("retrieval_error", _ANSWERS + "is wrong with none of the evidence"),
    _of_answers(
        "correct_abstention", "of the answers to unanswerable questions, the share that is correct"
    ),
    _of_answers(
        "hallucinated", "of the answers to unanswerable questions, the share that is wrong"
    ),
    _of_answers(
        "accuracy_given_evidence",
        "accuracy of the answers with all of the evidence in the context",
    ),
    _of_answers("accuracy_given_no_evidence", "accuracy of the answers with none of the evidence"),
    _of_answers(
        "retrieval_headroom",
        _ANSWERS + "is wrong without all of the evidence: the most that better retrieval can add "
        "with this reader",
    ),
    _of_answers(
        "reader_headroom",
        _ANSWERS + "is wrong with all of the evidence: the most that a better reader can add with "
        "this retrieval",
    ),
)
"""Metrics of answers of a reader, in a folder of answers."""
