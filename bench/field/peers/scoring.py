"""Code that the Python peers share: an ONNX Runtime session, the check of one request, and one run for many requests.

Requests are `{"inputs": [{"name", "shape", "data"}]}` of the Open Inference Protocol, and answers `{"outputs": [...]}`.
"""

import os

import numpy as np
import onnxruntime as ort

PORT = int(os.environ["FIELD_PORT"])
MODEL = os.environ["FIELD_MODEL"]
# Maximum rows of a run, and the timeout of a request.
MAX_BATCH = int(os.environ["FIELD_MAX_BATCH"])
TIMEOUT_S = int(os.environ["FIELD_TIMEOUT_S"])
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}


def open_session():
    options = ort.SessionOptions()
    # Waiting threads would otherwise spin on cores that the server needs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])


def decode(session, request):
    """Returns the arrays of one request by name. Raises ValueError if the model does not accept them."""
    given = {one["name"]: one for one in request["inputs"]}
    arrays = {}
    for wanted in session.get_inputs():
        if wanted.name not in given:
            raise ValueError(f"expected an input {wanted.name}")
        one = given[wanted.name]
        array = np.asarray(one["data"], DTYPES[wanted.type]).reshape(one["shape"])
        sizes = [(a, w) for a, w in zip(array.shape, wanted.shape) if isinstance(w, int)]
        if array.ndim != len(wanted.shape) or any(a != w for a, w in sizes):
            raise ValueError(f"{wanted.name}: expected {wanted.shape}, got {list(array.shape)}")
        arrays[wanted.name] = array
    return arrays


def check(session, request):
    """Decodes like `decode`, but returns an error as a value, for servers that decode within a batch and call `score_sound`."""
    try:
        return decode(session, request)
    except (ValueError, KeyError, TypeError) as error:
        return {"error": str(error)}


def score_sound(session, checked):
    answers = iter(score(session, [one for one in checked if "error" not in one]))
    return [one if "error" in one else next(answers) for one in checked]


def score(session, requests):
    """Scores all requests in one run, with shorter ones padded with zeros. Returns the answers in order."""
    if not requests:
        return []
    feeds = {name: stack([request[name] for request in requests]) for name in requests[0]}
    values = session.run(None, feeds)
    rows = [len(next(iter(request.values()))) for request in requests]
    ends = np.cumsum(rows)
    names = [output.name for output in session.get_outputs()]
    return [
        {
            "outputs": [
                {"name": name, "shape": [count, *value.shape[1:]], "data": value[end - count : end].ravel().tolist()}
                for name, value in zip(names, values)
            ]
        }
        for count, end in zip(rows, ends)
    ]


def stack(arrays):
    if len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays)
    longest = max(array.shape[1] for array in arrays)
    return np.concatenate([np.pad(array, ((0, 0), (0, longest - array.shape[1]))) for array in arrays])
