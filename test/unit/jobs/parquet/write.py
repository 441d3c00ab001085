"""Writes the Parquet files that tests read, and what PyArrow reads in them. Run it in this folder with PyArrow 26."""

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 60


def column(values, kind, nulls):
    return pa.array([None if nulls and row % 7 == 3 else values(row) for row in range(ROWS)], kind)


def table(nulls):
    return pa.table(
        {
            "id": column(lambda row: row, pa.int64(), False),
            "f32": column(lambda row: row / 3 - 5, pa.float32(), nulls),
            "f64": column(lambda row: math.inf if row == 11 else row / 7 - 3, pa.float64(), nulls),
            "i8": column(lambda row: row - 30, pa.int8(), nulls),
            "u16": column(lambda row: 1000 * row, pa.uint16(), nulls),
            "i32": column(lambda row: row * 1_000_003 - 2**24, pa.int32(), nulls),
            "i64": column(lambda row: 2**53 + row, pa.int64(), nulls),
            "u32": column(lambda row: 2**32 - 1 - row, pa.uint32(), nulls),
            "flag": column(lambda row: row % 3 == 0, pa.bool_(), nulls),
            "text": column(lambda row: f"tëxt {row % 4}" * (row % 5), pa.string(), nulls),
            "day": column(lambda row: row, pa.date32(), False),
        }
    )


FILES = {
    "none": {"compression": "none"},
    "snappy": {"compression": "snappy"},
    "gzip": {"compression": "gzip", "use_dictionary": False},
    "zstd": {"compression": "zstd", "data_page_version": "2.0"},
    "brotli": {"compression": "brotli", "use_dictionary": False, "data_page_version": "2.0"},
    "nulls": {"compression": "snappy"},
    "nulls-v2": {"compression": "zstd", "use_dictionary": False, "data_page_version": "2.0"},
    "lz4": {"compression": "lz4"},
    "groups": {"compression": "snappy", "row_group_size": 2},
}

for name, options in FILES.items():
    pq.write_table(table("nulls" in name), f"{name}.parquet", **{"row_group_size": 25, **options})


def plain(value):
    if isinstance(value, float) and math.isinf(value):
        return "Infinity"
    return str(value) if isinstance(value, int) and abs(value) > 2**53 - 1 else value


for name in ["none", "nulls"]:
    rows = [
        {key: plain(value) for key, value in row.items() if key != "day"}
        for row in pq.read_table(f"{name}.parquet").to_pylist()
    ]
    with open(f"{name}.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")


def moment(row, digits):
    return row * 86_400_123_456 * digits // 1_000 - 10**11 * digits


times = pa.table(
    {
        "f64": pa.array([float(row) for row in range(20)]),
        "day": pa.array([row * 1_000 - 9_000 for row in range(20)], pa.date32()),
        "ms": pa.array([moment(row, 1) for row in range(20)], pa.timestamp("ms", tz="UTC")),
        "us": pa.array([moment(row, 1_000) + 7 for row in range(20)], pa.timestamp("us")),
        "utc": pa.array([None if row % 5 == 2 else moment(row, 1_000) + 1 for row in range(20)], pa.timestamp("us", tz="UTC")),
        "ns": pa.array([1_000 * (moment(row, 1_000) + 3) for row in range(20)], pa.timestamp("ns")),
    }
)
pq.write_table(times, "times.parquet")


def iso(value):
    if not hasattr(value, "isoformat"):
        return value
    text = value.isoformat().replace("+00:00", "")
    return (text.rstrip("0") if "." in text else text) + ("Z" if getattr(value, "tzinfo", None) else "")


with open("times.json", "w") as file:
    json.dump([{key: iso(value) for key, value in row.items()} for row in times.to_pylist()], file, indent=1)
    file.write("\n")

# Lists and structs whose rows begin and end within pages, and members that are null.
nested = {
    "x": pa.array([float(row) for row in range(ROWS)], pa.float32()),
    "point": pa.array(
        [None if row % 5 == 4 else {"a": row if row % 2 else None, "b": None if row % 3 else {"c": str(row)}} for row in range(ROWS)],
        pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))]),
    ),
    "list": pa.array([None if row % 7 == 3 else list(range(row % 6)) for row in range(ROWS)], pa.list_(pa.int32())),
}
pq.write_table(pa.table(nested), "nested.parquet", use_dictionary=False, data_page_size=64, write_batch_size=7)
with open("nested.json", "w") as file:
    json.dump([{"point": p, "list": l} for p, l in zip(nested["point"].to_pylist(), nested["list"].to_pylist())], file)
