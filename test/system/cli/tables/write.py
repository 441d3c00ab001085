"""Writes one table as PyArrow 26, DuckDB 2.0 and polars 2.1 write it, and `table.json`, what is in it.

Run it in this folder.
"""

import datetime as dt
import decimal
import json
import math

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 150
D = decimal.Decimal
decimal.getcontext().prec = 60


def spread(row, low, high):
    """The ends of a range first, then values far apart within it."""
    return [low, high, high - 1, low + 1][row] if row < 4 else low + (row * 2_654_435_761 * 40_503) % (high - low)


def column(values, kind, full=False):
    return pa.array([None if row % 7 == 5 and not full else values(row) for row in range(ROWS)], kind)


midnight = dt.datetime(1, 1, 1)
moments = {
    "u8": column(lambda row: spread(row, 0, 2**8 - 1), pa.uint8()),
    "u16": column(lambda row: spread(row, 0, 2**16 - 1), pa.uint16()),
    # DuckDB writes a difference of 33 bits for the first value.
    "u32": column(lambda row: 3_000_000_000 if row == 0 else spread(row, 0, 2**32 - 1), pa.uint32(), full=True),
    "u64": column(lambda row: spread(row, 0, 2**64 - 1), pa.uint64()),
    "i8": column(lambda row: spread(row, -(2**7), 2**7 - 1), pa.int8()),
    "i16": column(lambda row: spread(row, -(2**15), 2**15 - 1), pa.int16()),
    "i32": column(lambda row: spread(row, -(2**31), 2**31 - 1), pa.int32()),
    "i64": column(lambda row: spread(row, -(2**63), 2**63 - 1), pa.int64()),
    "f32": column(lambda row: (row - 70) / 8, pa.float32()),
    "f64": column(lambda row: math.inf if row == 3 else (row - 70) / 7, pa.float64()),
    "flag": column(lambda row: row % 3 == 0, pa.bool_()),
    "text": column(lambda row: f"tëxt {row % 4}" * (row % 5), pa.string()),
    "bytes": column(lambda row: bytes([0xFF, 0xFE, row]) if row % 2 else b"plain", pa.binary()),
    "day": column(lambda row: dt.date(1969, 12, 30) + dt.timedelta(days=row * 97), pa.date32()),
    "at": column(lambda row: dt.datetime(1969, 7, 20, 20, 17, 40, 123_456) + dt.timedelta(days=row), pa.timestamp("us")),
    "second": column(lambda row: (midnight + dt.timedelta(seconds=577 * row)).time(), pa.time64("us")),
    "tick": column(lambda row: (midnight + dt.timedelta(microseconds=575_999_999 * row)).time(), pa.time64("us")),
    "d9": column(lambda row: D(spread(row, -(10**9) + 1, 10**9 - 1)).scaleb(-2), pa.decimal128(9, 2)),
    "d18": column(lambda row: D(spread(row, -(10**18) + 1, 10**18 - 1)).scaleb(-18), pa.decimal128(18, 18)),
    "d38": column(lambda row: D(spread(row, -(10**38) + 1, 10**38 - 1)), pa.decimal128(38, 0)),
    "list": column(lambda row: [row, None, 2**53 + row][: row % 4], pa.list_(pa.int64())),
    "struct": column(lambda row: {"a": D(row).scaleb(-1), "b": None}, pa.struct([("a", pa.decimal128(9, 1)), ("b", pa.int32())])),
}
table = pa.table(moments)

delta = {name: "DELTA_BINARY_PACKED" for name in ("u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "day", "at")}
split = {name: "BYTE_STREAM_SPLIT" for name in ("u32", "i32", "i64", "f32", "f64", "d9", "d18", "d38")}
pq.write_table(table, "pyarrow.parquet")
pq.write_table(table, "pyarrow-groups.parquet", compression="gzip", row_group_size=60, data_page_size=200)
pq.write_table(table, "pyarrow-delta.parquet", compression="brotli", data_page_version="2.0", use_dictionary=False,
               column_encoding={**delta, "text": "DELTA_BYTE_ARRAY", "bytes": "DELTA_LENGTH_BYTE_ARRAY", "flag": "RLE"})
pq.write_table(table, "pyarrow-split.parquet", compression="none", use_dictionary=False, column_encoding=split)
pq.write_table(table, "pyarrow-integers.parquet", compression="zstd", store_decimal_as_integer=True, data_page_version="2.0")
rows = table
for version, codec in (("v1", "snappy"), ("v2", "zstd")):
    duckdb.sql(f"copy (from rows) to 'duckdb-{version}.parquet' (format parquet, parquet_version {version}, compression {codec})")
frame = pl.from_arrow(table)
frame.write_parquet("polars.parquet", compression="zstd", row_group_size=70)
frame.write_parquet("polars-snappy.parquet", compression="snappy", statistics=False, data_page_size=300)


def plain(value, name=None):
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, float) and math.isinf(value):
        return "Infinity"
    if isinstance(value, bool) or value is None or isinstance(value, (float, str)):
        return value
    if isinstance(value, int):
        return str(value) if abs(value) > 2**53 - 1 else value
    if isinstance(value, bytes):
        import base64
        return "plain" if value == b"plain" else base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    text = value.isoformat()
    return text.rstrip("0") if "." in text else text


with open("table.json", "w") as file:
    rows = [json.dumps(plain(row), ensure_ascii=False) for row in table.to_pylist()]
    file.write("[\n" + ",\n".join(rows) + "\n]\n")

# Lists, of which some rows are no input: null, with a null in it, too short, uneven.
LISTS = 40


def lists(values, kind):
    return pa.array([values(row) for row in range(LISTS)], kind)


def floats(row, length):
    return [(row + at) / 8 for at in range(length)]


table = pa.table(
    {
        "tokens": lists(lambda row: None if row == 3 else [row, None] if row == 5 else [2**53 + row] * (1 + row % 4), pa.list_(pa.int64())),
        "embedding": lists(lambda row: None if row == 7 else floats(row, 4), pa.list_(pa.float32(), 4)),
        "image": lists(lambda row: [floats(row, 3), floats(row, 2 if row == 9 else 3)], pa.list_(pa.list_(pa.float64()))),
        "flat": lists(lambda row: floats(row, 5 if row == 11 else 6), pa.list_(pa.float64())),
        "words": lists(lambda row: ["ä" * (row % 3), None if row == 13 else f"{row}"], pa.list_(pa.string())),
        "flags": lists(lambda row: [row % 2 == 0, row % 3 == 0], pa.list_(pa.bool_())),
    }
)
pq.write_table(table, "pyarrow-lists.parquet", row_group_size=25, data_page_size=100, write_batch_size=7)
rows = table
duckdb.sql("copy (select * replace (embedding::float[4] as embedding) from rows) to 'duckdb-lists.parquet' (format parquet)")
pl.from_arrow(table).with_columns(pl.col("embedding").cast(pl.Array(pl.Float32, 4))).write_parquet("polars-lists.parquet")
with open("lists.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(plain(row), ensure_ascii=False) for row in table.to_pylist()) + "\n]\n")
