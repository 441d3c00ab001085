"""Trains CatBoost and exports it."""

from pathlib import Path

from catboost import CatBoostClassifier
from sklearn.datasets import load_iris

from check import awkward_numbers, compare, with_holes

model = CatBoostClassifier(iterations=50, verbose=False).fit(*load_iris(return_X_y=True))
path = Path('models/iris-catboost/1/model.onnx')
path.parent.mkdir(parents=True, exist_ok=True)
model.save_model(str(path), format='onnx')

numbers = awkward_numbers(4)
kinds = {'numbers': numbers, 'NaN': with_holes(numbers)}
compare(path, [(kind, [rows], lambda rows=rows: model.predict_proba(rows)) for kind, rows in kinds.items()], output=1)
