"""Writes a request for each row of a table: send_table.py PICKLE NAME TABLE [ID_COLUMN]."""

import json
import pickle
import sys

import onnxruntime
import pandas as pd

source, name, sample, *ids = sys.argv[1:]
with open(source, 'rb') as file:
    model = pickle.load(file)
table = pd.read_parquet(sample)
columns = [column for _, step, names in model[0].transformers_ if not isinstance(step, str) or step != 'drop' for column in names]
numbers = {column for column in columns if pd.api.types.is_numeric_dtype(table[column])}
# The file has them in this order, with names of its own.
names = [value.name for value in onnxruntime.InferenceSession(f'models/{name}/1/model.onnx').get_inputs()]
with open(f'{name}-table.jsonl', 'w', encoding='utf-8') as file:
    for number, row in enumerate(table[list(dict.fromkeys(columns))].to_dict('records')):
        instance = {}
        for input_name, (column, cell) in zip(names, row.items()):
            if pd.isna(cell):
                cell = 'NaN' if column in numbers else ''
            elif column in numbers:
                cell = float(cell)
            instance[input_name] = [cell]
        file.write(json.dumps({'id': str(table[ids[0]].iloc[number] if ids else number), 'model_name': name, 'instances': [instance]}) + '\n')
