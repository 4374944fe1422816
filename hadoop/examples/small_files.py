"""Counts the lines of many small files twice: as textFile reads them, and coalesced. Prints partitions and seconds.

spark-submit --jars lamella-coalesce-0.1.0-all.jar small_files.py FOLDER
"""

import sys
import time

from pyspark import SparkContext

TURNS = 3


def coalesced(sc, path):
    records = sc.newAPIHadoopFile(
        path,
        "lamella.coalesce.mapreduce.CoalescingInputFormat",
        "org.apache.hadoop.io.LongWritable",
        "org.apache.hadoop.io.Text",
        conf={"lamella.coalesce.scheme": "maximum"},
    )
    return records.map(lambda record: record[1])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    path = sys.argv[1]
    sc = SparkContext(appName="small files")
    for turn in range(1, TURNS + 1):
        for name, read in ("textFile", sc.textFile), ("coalesced", lambda p: coalesced(sc, p)):
            started = time.monotonic()
            lines = read(path)
            count = lines.count()
            seconds = time.monotonic() - started
            print(f"turn {turn}: {name}: {count} lines, {lines.getNumPartitions()} partitions, {seconds:.1f} s")
    sc.stop()


if __name__ == "__main__":
    main()
