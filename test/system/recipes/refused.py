"""Exports models whose files would score wrongly, of which examples/python leaves none, and one that is right."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingRegressor, GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

ROWS = 2000
random = np.random.default_rng(0)
numbers = random.normal(size=(ROWS, 5))
is_one = (numbers[:, 0] > 0) ^ (numbers[:, 1] > 0.5)
numbers[random.random(numbers.shape) < 0.2] = np.nan
labels = np.where(np.isnan(numbers[:, 2]), True, is_one).astype(int)
table = pd.DataFrame({
    'country': random.choice(['de', 'fr', 'us'], ROWS),
    'store': 2**24 + random.integers(0, 8, ROWS),
    'size': random.normal(size=ROWS),
})
table.to_parquet('refused.parquet')
classes = ((table['country'] == 'de') ^ (table['store'] % 2 == 0) ^ (table['size'] > 0)).astype(int)


def pipeline(*steps):
    return make_pipeline(make_column_transformer(*steps), GradientBoostingClassifier(random_state=0)).fit(table, classes)


SIZE = ('passthrough', ['size'])
RAISING = make_pipeline(make_pipeline(OrdinalEncoder()))
IGNORING = OneHotEncoder(handle_unknown='ignore')
models = {
    'targets-of-1e-4': BaggingRegressor(random_state=0).fit(numbers, labels * 1e-4),
    'two-outputs': RandomForestClassifier(10, random_state=0).fit(numbers, np.c_[labels, 1 - labels]),
    'nested-encoder': pipeline((RAISING, ['country']), SIZE),
    'whole-numbers-over-2-24': pipeline((IGNORING, ['country', 'store']), SIZE),
    'a-column-twice': pipeline((IGNORING, ['country']), (StandardScaler(), ['size']), SIZE),
}
RIGHT = ['a-column-twice']
wrong = []
for name, model in models.items():
    Path(f'{name}.pkl').write_bytes(pickle.dumps(model))
    exporter = 'export_table.py' if hasattr(model, 'named_steps') else 'export.py'
    sample = ['refused.parquet'] if hasattr(model, 'named_steps') else []
    ran = subprocess.run([sys.executable, f'examples/python/{exporter}', f'{name}.pkl', name, *sample], capture_output=True, text=True)
    print(f'{name}: {ran.returncode}, {(ran.stderr.strip().splitlines() or ran.stdout.strip().splitlines())[-1]}')
    is_left = Path('models', name, '1', 'model.onnx').exists()
    if (ran.returncode == 0, is_left) != (name in RIGHT, name in RIGHT):
        wrong.append(name)
sys.exit(f'expected a file of {", ".join(RIGHT)} alone, got it otherwise with {", ".join(wrong)}' if wrong else None)
