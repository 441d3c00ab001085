"""Trains XGBoost and exports it."""

from pathlib import Path

from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn.datasets import load_iris
from xgboost import XGBClassifier

from check import awkward_numbers, compare, with_holes

model = XGBClassifier(n_estimators=50).fit(*load_iris(return_X_y=True))
path = Path('models/iris-xgboost/1/model.onnx')
path.parent.mkdir(parents=True, exist_ok=True)
onnx_model = convert_xgboost(model, initial_types=[('features', FloatTensorType([None, model.n_features_in_]))])
path.write_bytes(onnx_model.SerializeToString())

numbers = awkward_numbers(model.n_features_in_)
kinds = {'numbers': numbers, 'NaN': with_holes(numbers)}
compare(path, [(kind, [rows], lambda rows=rows: model.predict_proba(rows)) for kind, rows in kinds.items()], output=1)
