"""Makes a table with missing numbers and texts, booleans, names with spaces and unused columns."""

import numpy as np
import pandas as pd

random = np.random.default_rng(0)
rows = 2000
table = pd.DataFrame({
    'customer id': [f'c-{number}' for number in range(rows)],
    'age': random.integers(18, 90, rows),
    'annual income': np.where(random.random(rows) < 0.1, np.nan, random.lognormal(10, 1, rows)),
    'visits': np.where(random.random(rows) < 0.05, np.nan, random.poisson(3, rows)),
    'is_member': random.random(rows) < 0.3,
    'country': random.choice(['de', 'fr', 'us', None], rows, p=[0.4, 0.3, 0.2, 0.1]),
    'plan': pd.Categorical(random.choice(['basic', 'pro, yearly', 'größer'], rows)),
    'since': pd.Timestamp('2020-01-01') + pd.to_timedelta(random.integers(0, 2000, rows), unit='D'),
})
few_visits = (table['annual income'].fillna(0) < 20000) & (table['visits'].fillna(0) < 3)
table['churned'] = few_visits | (table['is_member'] & table['country'].isna())
table.to_parquet('customers.parquet')
