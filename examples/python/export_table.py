"""Exports a pickled pipeline that begins with a ColumnTransformer: export_table.py PICKLE NAME TABLE."""

import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from skl2onnx import update_registered_converter
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from check import ROWS, awkward_numbers, compare, convert, cure_of, keep_missing_branches

try:
    from lightgbm import LGBMClassifier
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm

    options = {'zipmap': [True, False, 'columns'], 'nocl': [True, False]}
    update_registered_converter(
        LGBMClassifier, 'LgbmClassifier', calculate_linear_classifier_output_shapes, convert_lightgbm, options=options
    )
except ImportError:
    pass  # A pipeline without LightGBM.

source, name, sample = sys.argv[1:]
with open(source, 'rb') as file:
    model = pickle.load(file)
original = pickle.loads(pickle.dumps(model))
table = pd.read_parquet(sample)
first = model[0] if hasattr(model, 'named_steps') else model
if not isinstance(first, ColumnTransformer):
    sys.exit(f'{source}: expected a pipeline that begins with a ColumnTransformer, got {type(first).__name__}; for rows of numbers take export.py')
used = [columns for _, transformer, columns in first.transformers_ if not (isinstance(transformer, str) and transformer == 'drop')]
for columns in used:
    if isinstance(columns, slice) or not all(isinstance(column, str) for column in columns):
        sys.exit(f'{source}: expected columns by their names, got {columns}; fit again with the names')
lacking = [column for columns in used for column in columns if column not in table]
if lacking:
    sys.exit(f'{sample}: expected the columns that the pipeline was fitted on, got no {lacking}; add them')

# What inputs are made of, by the values of a column without the missing ones.
CURES = {
    'integer': None,
    'floating': None,
    'mixed-integer-float': "call table[column].astype('float64') first",
    'string': None,
    'empty': None,
    'categorical': None,
    'boolean': "call table[column].astype('float64') first",
    'decimal': "call table[column].astype('float64') first",
    'mixed-integer': "call table[column].astype('str') first",
}
DATES = 'make numbers of dates first, such as days since one of them'


def refuse_others(column):
    kind = pd.api.types.infer_dtype(table[column], skipna=True)
    if pd.api.types.is_numeric_dtype(table[column]):
        return
    is_date = 'date' in kind or 'time' in kind or kind == 'period'
    cure = DATES if is_date else CURES.get(kind, 'make numbers or texts of it first')
    if cure is not None:
        sys.exit(f"'{column}': expected numbers or texts, got {'dates' if is_date else kind}; {cure}, and fit again")


inputs = {}
renamed = {}
imputed = set()
for _, transformer, columns in first.transformers_:
    if isinstance(transformer, str) and transformer == 'drop':
        continue
    for column in columns:
        refuse_others(column)
        other = renamed.setdefault(re.sub(r'[^\w+]', '_', column), column)
        if other != column:
            sys.exit(f"'{column}': expected another name than '{other}', as skl2onnx calls both the same; rename it and fit again")
        kind = FloatTensorType if pd.api.types.is_numeric_dtype(table[column]) else StringTensorType
        inputs[column] = kind([None, 1])
        if pd.api.types.is_integer_dtype(table[column]) and (table[column] != table[column].astype('float32')).any():
            sys.exit(f"'{column}': expected whole numbers that float32 holds, got others; fit again with them as texts")
    steps = [transformer, *getattr(transformer, 'named_steps', {}).values()]
    imputes = any(isinstance(step, SimpleImputer) for step in steps)
    imputed.update(columns if imputes else [])
    for column in columns:
        if (table[column] == '').any() and (imputes or table[column].isna().any()):
            sys.exit(f"'{column}': expected no empty texts, as missing ones become empty; fit again with table.replace('', 'none')")
    for step in steps:
        if getattr(step, 'add_indicator', False):
            sys.exit(f'{type(step).__name__}(add_indicator=True): expected one that skl2onnx converts, got add_indicator; fit again without it')
        if isinstance(step, SimpleImputer) and step.statistics_.dtype == object:
            step.missing_values = ''
        if isinstance(step, OneHotEncoder):
            step.categories_ = [
                np.where(pd.isna(words), '', words) if words.dtype == object else words for words in step.categories_
            ]
onnx_model = convert(
    model,
    initial_types=list(inputs.items()),
    options={'zipmap': False} if is_classifier(model) else None,
    target_opset={'': 21, 'ai.onnx.ml': 3},
)
keep_missing_branches(onnx_model, model)

numbers = [column for column, kind in inputs.items() if isinstance(kind, FloatTensorType)]
texts = [column for column, kind in inputs.items() if isinstance(kind, StringTensorType)]
missing = [column for column in numbers + texts if column in imputed or table[column].isna().any()]
seen = table.sample(ROWS, replace=True, random_state=0).reset_index(drop=True)
seen[numbers] = seen[numbers].astype('float32')
seen[texts] = seen[texts].astype(object)


def changed(columns, values):
    return seen.assign(**{column: values(column) for column in columns})


def hole_in(column):
    return pd.Series([*table[column][table[column].isna()], np.nan][:1] * ROWS, dtype=object)


random = np.random.default_rng(0)
kinds = {
    'seen': seen,
    'extreme numbers': changed(numbers, lambda column: random.permutation(awkward_numbers(1)[:, 0])),
    'missing numbers': changed(set(numbers) & set(missing), lambda column: np.where(random.random(ROWS) < 0.5, np.nan, seen[column])),
    'unseen texts': changed(texts, lambda column: random.choice(['never seen', 'ü\n', ' '], ROWS)),
    'missing texts': changed(set(texts) & set(missing), hole_in),
    'empty texts': changed(set(texts) - set(missing), lambda column: ''),
}


def tensors_of(rows):
    return [
        rows[[column]].to_numpy('float32') if column in numbers else rows[[column]].fillna('').to_numpy(object)
        for column in inputs
    ]


path = Path('models') / name / '1' / 'model.onnx'
path.parent.mkdir(parents=True, exist_ok=True)
path.write_bytes(onnx_model.SerializeToString())
scores = getattr(original, 'predict_proba', original.predict)
compare(
    path,
    [(kind, tensors_of(rows), lambda rows=rows: scores(rows)) for kind, rows in kinds.items()],
    output=1 if hasattr(original, 'predict_proba') else 0,
    cure=cure_of(original),
)
