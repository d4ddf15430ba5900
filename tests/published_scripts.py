"""Stand-ins for the published scripts that prompts are read from: the same shape, other words."""

from __future__ import annotations

from pathlib import Path

GENERATION = """
import tokens_of_somebody  # is not installed: this file is read, not run

def prepare_prompt(entry, retriever_type, history_format, cot, merge_key_expansion_into_value):
    if retriever_type == 'no-retrieval':
        answer_prompt_template = '{}'
        if cot:
            answer_prompt_template += ' Slowly.'
    else:
        if merge_key_expansion_into_value is None or merge_key_expansion_into_value == 'none':
            if cot:
                answer_prompt_template = 'Chats:{}\\nNow: {}\\nQ: {}\\nA (slowly):'
            else:
                answer_prompt_template = 'Chats:{}\\nNow: {}\\nQ: {}\\nA:'
        elif merge_key_expansion_into_value == 'merge':
            answer_prompt_template = 'Facts and chats:{}\\n{}\\n{}'
        else:
            raise NotImplementedError
    question_date_string = entry['question_date']
    history_string = ""
    for i, cur_item in enumerate(entry):
        (chunk_date, chunk_entry) = cur_item
        if history_format == 'json':
            sess_string = '\\n' + repr(chunk_entry)
        if retriever_type in ["orig-session", "flat-session", "oracle-session"]:
            history_string += '\\n## S{}, {}:{}\\n'.format(i+1, chunk_date, sess_string)
        elif retriever_type in ["orig-turn", "flat-turn", "oracle-turn"]:
            history_string += '\\n## S{}, {}:{}\\n'.format(i+1, chunk_date, sess_string)
        elif retriever_type == "no-retrieval":
            history_string += ""
        else:
            raise NotImplementedError
    if retriever_type == "no-retrieval":
        prompt = answer_prompt_template.format(question_string)
    else:
        prompt = answer_prompt_template.format(history_string, question_date_string, question)
    return prompt
"""

EVALUATION = """
def get_anscheck_prompt(task, question, answer, response, abstention=False):
    if not abstention:
        if task in ['single-session-user', 'single-session-assistant', 'multi-session']:
            template = "Same? Q {} / A {} / R {} / yes or no"
            prompt = template.format(question, answer, response)
        elif task == 'temporal-reasoning':
            template = "Same day or one off? Q {} / A {} / R {} / yes or no"
            prompt = template.format(question, answer, response)
        elif task == 'knowledge-update':
            template = "Same, older beside it is fine? Q {} / A {} / R {} / yes or no"
            prompt = template.format(question, answer, response)
        elif task == 'single-session-preference':
            template = "As the rubric? Q {} / A {} / R {} / yes or no"
            prompt = template.format(question, answer, response)
        else:
            raise NotImplementedError
    else:
        template = "Declined? Q {} / A {} / R {} / yes or no"
        prompt = template.format(question, answer, response)
    return prompt
"""

LOCOMO = '''
QA_PROMPT = """
From the above, shortly: {} Answer:
"""
QA_PROMPT_CAT_5 = """
From the above, choose: {} Answer:
"""
CONV_START_PROMPT = "Between {} and {}."

def get_gpt_answers(in_data, out_data, prediction_key, args):
    start_prompt = CONV_START_PROMPT.format(speakers_names[0], speakers_names[1])
    for i in range(10):
        qa = in_data['qa'][i]
        if qa['category'] == 2:
            questions.append(qa['question'] + ' Say when.')
        elif qa['category'] == 5:
            question = qa['question'] + " Which? (a) {} (b) {}. "
            if random.random() < 0.5:
                question = question.format('Nobody said', answer_text)
            else:
                question = question.format(answer_text, 'Nobody said')
            questions.append(question)
        else:
            questions.append(qa['question'])
'''


def write_scripts(folder: Path) -> Path:
    """A clone of each repository, as far as it is read."""
    for name, text in (
        ("src/generation/run_generation.py", GENERATION),
        ("src/evaluation/evaluate_qa.py", EVALUATION),
        ("task_eval/gpt_utils.py", LOCOMO),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
