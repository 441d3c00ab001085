"""Exports models whose files would score wrongly, of which examples/python leaves none, and one that is right."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingRegressor, GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, QuantileTransformer, StandardScaler

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
    'when': pd.Timestamp('2026-01-01') + pd.to_timedelta(random.integers(0, 500, ROWS), unit='D'),
    'is_member': pd.Series(random.choice([True, False, None], ROWS), dtype=object),
})
table['level'] = table['size'].round(1)
table['day'] = table['when'].dt.date
table['hole'] = table['size'].where(random.random(ROWS) < 0.8)
table.to_parquet('refused.parquet')
classes = ((table['country'] == 'de') ^ (table['store'] % 2 == 0) ^ (table['size'] > 0)).astype(int)


def pipeline(*steps, model=None):
    columns = make_column_transformer(*steps)
    return make_pipeline(columns, model or GradientBoostingClassifier(random_state=0)).fit(table, classes)


SIZE = ('passthrough', ['size'])
RAISING = make_pipeline(make_pipeline(OrdinalEncoder()))
IGNORING = OneHotEncoder(handle_unknown='ignore')
models = {
    'targets-of-1e-4': BaggingRegressor(random_state=0).fit(numbers, labels * 1e-4),
    'two-outputs': RandomForestClassifier(10, random_state=0).fit(numbers, np.c_[labels, 1 - labels]),
    'nested-encoder': pipeline((RAISING, ['country']), SIZE),
    'whole-numbers-over-2-24': pipeline((IGNORING, ['country', 'store']), SIZE),
    'dates': pipeline((IGNORING, ['when']), SIZE),
    'days': pipeline((IGNORING, ['day']), SIZE),
    'booleans-with-none': pipeline((IGNORING, ['is_member']), SIZE),
    'positions': pipeline((IGNORING, [0]), SIZE),
    'indicator': pipeline((SimpleImputer(add_indicator=True), ['hole']), SIZE),
    'quantiles': pipeline((QuantileTransformer(n_quantiles=100, output_distribution='normal'), ['size', 'level'])),
    'histogram': pipeline((IGNORING, ['country']), SIZE, model=HistGradientBoostingClassifier(max_iter=5)),
    'bins': pipeline((KBinsDiscretizer(quantile_method='averaged_inverted_cdf'), ['size']), model=LogisticRegression()),
    'a-column-twice': pipeline((IGNORING, ['country']), (StandardScaler(), ['size']), SIZE),
}
RIGHT = ['a-column-twice']
# What the sentence of each says, at least.
SENTENCES = {
    'dates': "'when': expected numbers or texts, got dates; make numbers of dates first",
    'days': "'day': expected numbers or texts, got dates; make numbers of dates first",
    'booleans-with-none': "'is_member': expected numbers or texts, got boolean; call table[column].astype('float64')",
    'positions': 'expected columns by their names, got [0]; fit again with the names',
    'indicator': 'SimpleImputer(add_indicator=True): expected one that skl2onnx converts',
    'quantiles': 'Conversion of QuantileTransformer',
    'histogram': 'fit again with GradientBoosting in place of HistGradientBoosting',
    'bins': 'KBinsDiscretizer, LogisticRegression: expected steps that skl2onnx',
    'targets-of-1e-4': 'fit another model than BaggingRegressor, whose converter differs',
}
wrong = []
for name, model in models.items():
    Path(f'{name}.pkl').write_bytes(pickle.dumps(model))
    exporter = 'export_table.py' if hasattr(model, 'named_steps') else 'export.py'
    sample = ['refused.parquet'] if hasattr(model, 'named_steps') else []
    ran = subprocess.run([sys.executable, f'examples/python/{exporter}', f'{name}.pkl', name, *sample], capture_output=True, text=True)
    print(f'{name}: {ran.returncode}, {(ran.stderr.strip().splitlines() or ran.stdout.strip().splitlines())[-1]}')
    is_right = name in RIGHT
    is_left = Path('models', name, '1', 'model.onnx').exists() if is_right else Path('models', name).exists()
    is_told = 'Traceback' not in ran.stderr and SENTENCES.get(name, '') in ran.stderr
    if (ran.returncode == 0, is_left, is_told) != (is_right, is_right, True):
        wrong.append(name)
sys.exit(f'expected a file of {", ".join(RIGHT)} alone, and a sentence for others, got it otherwise with {", ".join(wrong)}' if wrong else None)
