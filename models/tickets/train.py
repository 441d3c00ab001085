"""Train the tickets model and write it with its held-out samples and the cases that pin its tokenizer.

Writes `1/model.onnx`, `held-out.jsonl`, `samples.jsonl` and `tokenizer-cases.jsonl` beside this file. The model is measured through
ONNX Runtime before anything is written, and nothing is written when it falls short.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from generate import generate_tickets
from tokenizer import PADDING_ID, TOKENS_PER_TEXT, VOCABULARY_SIZE, tokenize

MODEL_FOLDER = Path(__file__).resolve().parent
MODEL_PATH = MODEL_FOLDER / "1" / "model.onnx"
HELD_OUT_PATH = MODEL_FOLDER / "held-out.jsonl"
SAMPLES_PATH = MODEL_FOLDER / "samples.jsonl"
SAMPLES = 4
TOKENIZER_CASES_PATH = MODEL_FOLDER / "tokenizer-cases.jsonl"
LABELS = json.loads((MODEL_FOLDER / "labels.json").read_text(encoding="utf-8"))

REGULARIZATION_C = 0.1
MAX_ITERATIONS = 1000

OPSET_VERSION = 17
IR_VERSION = 8

MINIMUM_ACCURACY = 0.9
PROBABILITY_TOLERANCE = 1e-5

TOKENIZER_CASES = [
    "",
    "   \t\n",
    "?!… — 🙂🚚",
    "Where is my parcel?",
    "WHERE IS MY PARCEL?",
    "I can't log in; it's the customers' fault, 'really'.",
    "I can’t log in",
    "rock'n'roll o''clock '' '",
    "error-500/404 at 12:30, paid $19.99 (#48213)",
    "snake_case and user@example.com",
    "Crème brûlée in Zürich",
    "Cre\u0300me bru\u0302le\u0301e in Zu\u0308rich",
    "Kraków, Straße, İstanbul, ΟΔΟΣ, smørrebrød",
    "ﬁrst ｆｕｌｌ－ｗｉｄｔｈ １２３ ② ½ x²",
    "Где моя посылка? 我的包裹在哪里？ 荷物はどこ",
    "मेरा पार्सल कहाँ है? أين طردي؟ สินค้าอยู่ที่ไหน",
    "x\u0327\u0301y q\u0301' '\u0301z",
    "parcel 📦 lost❤️ 1️⃣ 👩‍👩‍👧 ok👍🏽ok",
    "zero\u200bwidth soft\u00adhyphen no\u00a0break\ufeffmark",
    "𝐁𝐨𝐥𝐝 𝒕𝒆𝒙𝒕 and 𐐀𐐁 (Deseret)",
    " ".join(f"word{number}" for number in range(1, 41)),
    "long " + "a" * 1000,
]


class RejectedModel(Exception):
    """The exported model is not accurate enough, or does not answer as the trained one does."""


def main():
    training, held_out = generate_tickets(LABELS)
    training_ids, training_labels = encode_tickets(training)
    held_out_ids, held_out_labels = encode_tickets(held_out)

    classifier = train_classifier(training_ids, training_labels)
    model = export_model(classifier)
    labels, probabilities = run_model(model, held_out_ids)

    print(f"trained on {len(training)} samples, held out {len(held_out)}")
    difference = check_agreement(probabilities, classifier.predict_proba(count_tokens(held_out_ids)))
    print(f"largest difference from scikit-learn's probabilities: {difference:.1e}")
    accuracy = check_accuracy(labels, held_out_labels)
    print(f"held-out accuracy through ONNX Runtime: {accuracy:.4f}")
    print_accuracy_by_phrasing(labels, held_out_labels, held_out)
    print_accuracy_by_label(labels, held_out_labels)
    print_accuracy("training part", run_model(model, training_ids)[0], training_labels)

    write_model(model)
    write_lines(HELD_OUT_PATH, [{"text": ticket.text, "label": ticket.label} for ticket in held_out])
    write_lines(SAMPLES_PATH, [{"text": ticket.text} for ticket in held_out[:SAMPLES]])
    write_lines(TOKENIZER_CASES_PATH, [{"text": text, "tokenIds": tokenize(text)} for text in TOKENIZER_CASES])


def encode_tickets(tickets):
    """Return token ids int64 `[N, 32]` and labels int64 `[N]`, each an index into LABELS."""
    token_ids = np.array([tokenize(ticket.text) for ticket in tickets], dtype=np.int64)
    labels = np.array([LABELS.index(ticket.label) for ticket in tickets], dtype=np.int64)
    return token_ids, labels


def count_tokens(token_ids):
    """Return how often each id occurs in each text, float64 `[N, 4096]`, sparse. Padding is not counted."""
    rows, positions = np.nonzero(token_ids != PADDING_ID)
    columns = token_ids[rows, positions]
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(token_ids), VOCABULARY_SIZE))


def train_classifier(token_ids, labels):
    """Return a logistic regression over token counts, each weighted by how few texts have the token."""
    classifier = make_pipeline(
        TfidfTransformer(norm=None),
        LogisticRegression(C=REGULARIZATION_C, max_iter=MAX_ITERATIONS),
    )
    return classifier.fit(count_tokens(token_ids), labels)


def export_model(classifier):
    """Return the classifier as a serialized ONNX model that takes token ids: it sums one row of weights per token."""
    rarity, regression = (step for _, step in classifier.steps)
    token_weights = rarity.idf_[:, np.newaxis] * regression.coef_.T
    token_weights[PADDING_ID] = 0
    model = helper.make_model(
        make_graph(token_weights, regression.intercept_),
        producer_name="batchscore",
        model_version=1,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET_VERSION)],
        doc_string=f"Routes a support ticket to one of: {', '.join(LABELS)}.",
    )
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def make_graph(token_weights, bias):
    nodes = [
        helper.make_node("Gather", ["token_weights", "token_ids"], ["gathered"], name="gather", axis=0),
        helper.make_node("ReduceSum", ["gathered", "token_axis"], ["summed"], name="sum_tokens", keepdims=0),
        helper.make_node("Add", ["summed", "bias"], ["scores"], name="add_bias"),
        helper.make_node("Softmax", ["scores"], ["probabilities"], name="softmax", axis=1),
        helper.make_node("ArgMax", ["probabilities"], ["label"], name="argmax", axis=1, keepdims=0),
    ]
    initializers = [
        numpy_helper.from_array(token_weights.astype(np.float32), "token_weights"),
        numpy_helper.from_array(bias.astype(np.float32), "bias"),
        numpy_helper.from_array(np.array([1], dtype=np.int64), "token_axis"),
    ]
    outputs = [label_output(), probabilities_output()]
    return helper.make_graph(nodes, "tickets", [token_ids_input()], outputs, initializers)


def token_ids_input():
    return helper.make_tensor_value_info(
        "token_ids",
        TensorProto.INT64,
        ["batch", TOKENS_PER_TEXT],
        doc_string=f"Ids of 1 to {VOCABULARY_SIZE - 1}, padded with {PADDING_ID}.",
    )


def label_output():
    return helper.make_tensor_value_info(
        "label", TensorProto.INT64, ["batch"], doc_string="The most probable class, an index into labels.json."
    )


def probabilities_output():
    return helper.make_tensor_value_info(
        "probabilities",
        TensorProto.FLOAT,
        ["batch", len(LABELS)],
        doc_string="The probability of each class, in the order of labels.json.",
    )


def run_model(model, token_ids):
    """Run the model in ONNX Runtime: labels int64 `[N]` and probabilities float32 `[N, classes]`."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(["label", "probabilities"], {"token_ids": token_ids})


def check_agreement(probabilities, expected_probabilities):
    """Return the largest difference from the expected probabilities.

    Raises RejectedModel when it is above the tolerance.
    """
    difference = np.abs(probabilities - expected_probabilities).max()
    if difference > PROBABILITY_TOLERANCE:
        raise RejectedModel(
            f"expected probabilities within {PROBABILITY_TOLERANCE} of scikit-learn's, "
            f"got a difference of {difference}: check the exported graph"
        )
    return difference


def check_accuracy(labels, expected_labels):
    """Return the share of right labels. Raises RejectedModel when it is below the minimum."""
    accuracy = np.mean(labels == expected_labels)
    if accuracy < MINIMUM_ACCURACY:
        raise RejectedModel(
            f"expected a held-out accuracy of at least {MINIMUM_ACCURACY}, got {accuracy:.4f}: check the training"
        )
    return accuracy


def print_accuracy_by_phrasing(labels, expected_labels, tickets):
    known = np.array([ticket.known_phrasing for ticket in tickets])
    print_accuracy("phrasings of the training part", labels[known], expected_labels[known])
    print_accuracy("phrasings held out", labels[~known], expected_labels[~known])


def print_accuracy_by_label(labels, expected_labels):
    for index, label in enumerate(LABELS):
        chosen = expected_labels == index
        print_accuracy(label, labels[chosen], expected_labels[chosen])


def print_accuracy(part, labels, expected_labels):
    right = np.count_nonzero(labels == expected_labels)
    print(f"  {part}: {right} of {len(labels)} ({right / len(labels):.4f})")


def write_model(model):
    MODEL_PATH.parent.mkdir(exist_ok=True)
    MODEL_PATH.write_bytes(model)
    print(f"wrote {MODEL_PATH.relative_to(MODEL_FOLDER)}: {len(model)} bytes")


def write_lines(path, values):
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for value in values:
            file.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"wrote {path.relative_to(MODEL_FOLDER)}: {len(values)} lines")


if __name__ == "__main__":
    try:
        main()
    except RejectedModel as error:
        sys.exit(f"no model written: {error}")
