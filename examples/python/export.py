"""Exports a pickle of scikit-learn over rows of numbers: export.py PICKLE NAME."""

import pickle
import sys
from pathlib import Path

from skl2onnx.common.data_types import FloatTensorType
from sklearn.base import is_classifier

from check import awkward_numbers, compare, convert, cure_of, keep_missing_branches, with_holes

source, name = sys.argv[1:]
with open(source, 'rb') as file:
    model = pickle.load(file)
onnx_model = convert(
    model,
    initial_types=[('features', FloatTensorType([None, model.n_features_in_]))],
    options={'zipmap': False} if is_classifier(model) else None,
)
keep_missing_branches(onnx_model, model)
path = Path('models') / name / '1' / 'model.onnx'
path.parent.mkdir(parents=True, exist_ok=True)
path.write_bytes(onnx_model.SerializeToString())

scores = getattr(model, 'predict_proba', model.predict)
numbers = awkward_numbers(model.n_features_in_)
kinds = {'numbers': numbers, 'NaN': with_holes(numbers)}
compare(
    path,
    [(kind, [rows], lambda rows=rows: scores(rows)) for kind, rows in kinds.items()],
    output=1 if hasattr(model, 'predict_proba') else 0,
    cure=cure_of(model),
)
