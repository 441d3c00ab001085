"""Train the digits model and write it with its held-out samples.

Writes `1/model.onnx`, `held-out.jsonl` and `samples.jsonl` beside this file. The model is measured through ONNX Runtime
before anything is written, and nothing is written when it falls short.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

MODEL_FOLDER = Path(__file__).resolve().parent
MODEL_PATH = MODEL_FOLDER / "1" / "model.onnx"
HELD_OUT_PATH = MODEL_FOLDER / "held-out.jsonl"
SAMPLES_PATH = MODEL_FOLDER / "samples.jsonl"
SAMPLES = 4

SEED = 20
HELD_OUT_SAMPLES = 500
HIDDEN_LAYER_SIZES = (128, 64)
PIXEL_COUNT = 64
DIGIT_COUNT = 10
PIXEL_SCALE = 1 / 16

OPSET_VERSION = 17
IR_VERSION = 8

MINIMUM_ACCURACY = 0.95
PROBABILITY_TOLERANCE = 1e-5


class RejectedModel(Exception):
    """The exported model is not accurate enough, or does not answer as the trained one does."""


def main():
    train_pixels, held_out_pixels, train_labels, held_out_labels = split_digits()
    classifier = train_classifier(train_pixels, train_labels)
    model = export_model(classifier)
    labels, probabilities = run_model(model, held_out_pixels)

    print(f"trained on {len(train_labels)} samples, held out {len(held_out_labels)}")
    difference = check_agreement(probabilities, classifier.predict_proba(held_out_pixels * PIXEL_SCALE))
    print(f"largest difference from scikit-learn's probabilities: {difference:.1e}")
    accuracy = check_accuracy(labels, held_out_labels)
    print(f"held-out accuracy through ONNX Runtime: {accuracy:.4f}")
    print_accuracy_by_digit(labels, held_out_labels)

    write_model(model)
    write_held_out(held_out_pixels, held_out_labels)
    write_samples(held_out_pixels[:SAMPLES])


def split_digits():
    """Split the data, stratified by digit, into training and held-out pixels `[N, 64]` and labels `[N]`."""
    pixels, labels = load_digits(return_X_y=True)
    return train_test_split(pixels, labels, test_size=HELD_OUT_SAMPLES, stratify=labels, random_state=SEED)


def train_classifier(pixels, labels):
    classifier = MLPClassifier(hidden_layer_sizes=HIDDEN_LAYER_SIZES, max_iter=500, random_state=SEED)
    return classifier.fit(pixels * PIXEL_SCALE, labels)


def export_model(classifier):
    """Return the classifier as a serialized ONNX model that takes raw pixels: the scaling is its first node."""
    model = helper.make_model(
        make_graph(classifier.coefs_, classifier.intercepts_),
        producer_name="batchscore",
        model_version=1,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET_VERSION)],
        doc_string="Handwritten digits, 8x8 pixels of 0 to 16: the digit and the probability of each digit.",
    )
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def make_graph(weights, biases):
    nodes = [helper.make_node("Mul", ["image", "pixel_scale"], ["scaled"], name="scale")]
    initializers = [make_initializer("pixel_scale", PIXEL_SCALE)]
    activations = "scaled"

    last_layer = len(weights)
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True), start=1):
        weight_name, bias_name, gemm_name = f"weight_{layer}", f"bias_{layer}", f"gemm_{layer}"
        initializers += [make_initializer(weight_name, weight), make_initializer(bias_name, bias)]
        nodes.append(helper.make_node("Gemm", [activations, weight_name, bias_name], [gemm_name], name=gemm_name))
        activations = gemm_name
        if layer < last_layer:
            activations = f"relu_{layer}"
            nodes.append(helper.make_node("Relu", [gemm_name], [activations], name=activations))

    nodes += [
        helper.make_node("Softmax", [activations], ["probabilities"], name="softmax", axis=1),
        helper.make_node("ArgMax", ["probabilities"], ["label"], name="argmax", axis=1, keepdims=0),
    ]
    return helper.make_graph(nodes, "digits", [image_input()], [label_output(), probabilities_output()], initializers)


def make_initializer(name, values):
    return numpy_helper.from_array(np.asarray(values, dtype=np.float32), name)


def image_input():
    return helper.make_tensor_value_info(
        "image", TensorProto.FLOAT, ["batch", PIXEL_COUNT], doc_string="Pixels of 0 to 16, 8x8, row-major."
    )


def label_output():
    return helper.make_tensor_value_info(
        "label", TensorProto.INT64, ["batch"], doc_string="The most probable digit, 0 to 9."
    )


def probabilities_output():
    return helper.make_tensor_value_info(
        "probabilities", TensorProto.FLOAT, ["batch", DIGIT_COUNT], doc_string="The probability of each digit, 0 to 9."
    )


def run_model(model, pixels):
    """Run the model in ONNX Runtime: labels int64 `[N]` and probabilities float32 `[N, 10]`."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(["label", "probabilities"], {"image": pixels.astype(np.float32)})


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


def print_accuracy_by_digit(labels, expected_labels):
    for digit in range(DIGIT_COUNT):
        answers = labels[expected_labels == digit]
        right = np.count_nonzero(answers == digit)
        print(f"  digit {digit}: {right} of {len(answers)} ({right / len(answers):.4f})")


def write_model(model):
    MODEL_PATH.parent.mkdir(exist_ok=True)
    MODEL_PATH.write_bytes(model)
    print(f"wrote {MODEL_PATH.relative_to(MODEL_FOLDER)}: {len(model)} bytes")


def write_held_out(pixels, labels):
    rows = zip(pixels.astype(int).tolist(), labels.tolist(), strict=True)
    write_lines(HELD_OUT_PATH, [{"pixels": row, "label": label} for row, label in rows])


def write_samples(pixels):
    """Write requests as producers send them, which the checks at start run."""
    image = {"name": "image", "datatype": "FP32", "shape": [1, 64]}
    write_lines(SAMPLES_PATH, [{"inputs": [{**image, "data": row}]} for row in pixels.astype(int).tolist()])


def write_lines(path, values):
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for value in values:
            file.write(json.dumps(value, separators=(",", ":")) + "\n")
    print(f"wrote {path.relative_to(MODEL_FOLDER)}: {len(values)} lines")


if __name__ == "__main__":
    try:
        main()
    except RejectedModel as error:
        sys.exit(f"no model written: {error}")
