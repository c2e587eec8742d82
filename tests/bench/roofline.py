#!/usr/bin/env python3
"""roofline.py - how far the CPU engine's scenes are from what this machine can do, and how they would scale over its threads;
writes build/roofline.json.

    roofline.py [--build build] [--seconds S] [--meshes DIR]

The limits are lower bounds of the algorithm's own work: bytes that it must read and write at the bandwidth of the smallest
memory that holds them, and arithmetic that it must do at the rate of the engine's own functions (bench_rates), on all threads
without a loss. What it does to find out what it need not do (boxes, planes, pairs that turn out apart) is not in them.
How many of each there are the engine counts itself (bench_recorded), which also simulates its pool on 1 to 16 threads.
"""
import argparse
import json
import pathlib

from programs import MESHES, ROOT, conditions, engine_runs, json_lines, number, text_table

FAR = 3  # times the limit: beyond that the table says where the time goes

# scene of bench_engine, method, what it says, the mesh that it needs
SCENES = [
    ("exact_boxes", "exact", "two boxes", None),
    ("exact_batch_1024", "exact", "1,024 scenes of two 1k-triangle bodies", None),
    ("exact_bunny_cube", "exact", "bunny in cube, rigid", "bunny_capped.ply"),
    ("exact_bunny_cube_deforming", "exact", "bunny in cube, all positions new", "bunny_capped.ply"),
    ("exact_armadillos_shallow", "exact", "armadillos, shallow", "armadillo_346k.ply"),
    ("exact_armadillos", "exact", "armadillos, deep", "armadillo_346k.ply"),
    ("exact_armadillos_deforming", "exact", "armadillos, deep, all positions new", "armadillo_346k.ply"),
    ("exact_armadillos_coincident", "exact", "86k triangles, nearly coincident", "armadillo_86k.ply"),
    ("exact_ground_256", "exact", "256 tori on 399k triangles", None),
    ("exact_bunny_cube", "ldi", "bunny in cube, 3 x 128^2", "bunny_capped.ply"),
    ("exact_armadillos", "ldi", "armadillos, deep, 3 x 128^2", "armadillo_346k.ply"),
]
SIMULATED = [("exact_armadillos", "exact"), ("exact_armadillos", "ldi"), ("exact_batch_1024", "exact"), ("exact_ground_256", "exact")]
THREADS = (1, 2, 4, 8, 16)


# ---- limits ----


def bytes_needed(method, counts, entries):
    """Of a step. float32 positions: 12 bytes a vertex. A number of a vertex, by which its gradient is found: 4. An entry of
    the answer, a number and three doubles: 28, written. A box: 24, and the tree above the clusters has a seventh as many.

    exact: of the clusters with triangles inside the other body or crossed, boxes, vertices and their numbers; of these
    triangles the corners, 3 x uint16. Of deformable bodies all new positions are read and kept, and the boxes follow from
    the list of all clusters' vertices. ldi: of the clusters that reach into the window, vertices and 3 x uint32 a triangle.
    """
    answer = 28 * entries
    if method == "ldi":
        return 12 * counts["near_vertices"] + 12 * counts["near_triangles"] + answer
    return (24 * 8 / 7 * counts["added"] + (12 + 4) * counts["vertices"] + 6 * (counts["crossed"] + counts["inside"])
            + 24 * counts["moved"] + 4 * counts["listed"] + answer)


def work_needed(method, counts, fragments, rates):
    """What must be computed, s of one thread, by the part of the algorithm that does it. A vertex: three sums of products and
    their rounding to the lattice. A pair of triangles that crosses: 15 filtered determinants and what both triangles get of
    it. A triangle inside or crossed: its integrals, and the gradient at its corners. A fragment, a span: see bench_rates.
    """
    if method == "ldi":
        return {"vertices": counts["near_vertices"] * rates["vertex"], "fragments": fragments * rates["fragment"],
                "spans": counts["spans"] * rates["span"]}
    return {"place": counts["vertices"] * rates["vertex"], "cross": counts["crossings"] * rates["crossing"],
            "sum": (counts["crossed"] + counts["inside"]) * rates["triangle"]}


def s_per_byte(machine, size, threads):
    """Of the smallest memory that holds so many bytes; of a shared cache half may be others'."""
    where = "l2" if size <= threads * machine["l2_bytes"] else "l3" if 2 * size <= machine["l3_bytes"] else "memory"
    return where, machine["s_per_byte"][f"{where}_{min(threads, 2)}"][0]


def row_of(text, run, recorded, machine):
    """A scene's time beside its limits, ms."""
    rates = {name: quantiles[0] for name, quantiles in machine["s"].items()}
    method, counts, threads = run["method"], recorded["counts"], run["threads"]
    size = bytes_needed(method, counts, run["gradient_entries"])
    work = {part: 1e3 * s for part, s in work_needed(method, counts, run["fragments"], rates).items()}
    memory, per_byte = s_per_byte(machine, size, threads)
    by_bytes, by_work = 1e3 * size * per_byte, sum(work.values()) / threads
    return {"scene": run["scene"], "method": method, "text": text, "threads": threads, "ms": run["ms"], "bytes": size,
            "memory": memory, "by_bytes_ms": by_bytes, "by_arithmetic_ms": by_work, "work_ms": work,
            "ratio": {q: run["ms"][q] / max(by_bytes, by_work) for q in ("p10", "median")}, "phases_ms": run["phases_ms"],
            "recorded": recorded, "fragments": run["fragments"]}


def where_it_goes(row):
    """Of one thread that does all: each stage's share, and how far it is from what it must compute. Shares are by the clock, the
    whole is the processor's time."""
    recorded, counts, work = row["recorded"], row["recorded"]["counts"], row["work_ms"]
    total = recorded["serial_ms"] + recorded["tasks_ms"]
    if row["method"] == "ldi":
        shares = row["phases_ms"]
        of_all = sum(shares.values())
        count = (f"{counts['near_triangles']:,} triangles looked at, for {row['fragments']:,.0f} crossings of rays and "
                 f"{counts['spans']:,} spans")
    else:
        of_all = recorded["wall_ms"]
        shares = recorded["stages_ms"] | {"rest": of_all - sum(recorded["stages_ms"].values())}
        cross = max(counts["crossings"], 1)
        count = (f"for each of {counts['crossings']:,} crossings {counts['looked_at'] / cross:.2g} pairs of triangles and "
                 f"{counts['cluster_pairs'] / cross:.2g} of clusters looked at; {counts['placed']:,} clusters placed, "
                 f"{counts['added']:,} in the answer")
    stages = [f"{name} {100 * ms / of_all:.0f} %" + (f" ({ms / of_all * total / work[name]:.1f} x its limit)" if work.get(name) else "")
              for name, ms in shares.items() if ms >= 0.02 * of_all]
    return f"{row['method']}: {row['text']}: {number(total)} ms: {', '.join(stages)}; {count}."


# ---- runs ----


def pick(runs, method):
    """The scene's own run, which comes first, of this method."""
    return next((run for run in runs if run["method"] == method), None)


def recorded_runs(build, seconds, meshes, scene, threads=None, pool=None):
    """As bench_engine's; `threads` as if the machine had so many."""
    env = {}
    if threads:
        costs = [pool[name][1] for name in ("open", "wake", "open_asleep", "wake_asleep", "claim", "close", "spin")]
        env["RECORD"] = " ".join(map(str, [threads, *costs]))
    return json_lines([str(build / "tests/bench/bench_recorded"), "--meshes", meshes, "--only", scene,
                       "--seconds", str(seconds)], 300, env=env)


def simulate(build, seconds, meshes, machine, measured):
    """Rows of speed-ups, of scenes that were measured. A speed-up is over the same tasks on one thread, step by step, so that
    noise does not matter; for one thread alone the engine cuts work less, and times tell that only on a quiet machine."""
    rows, runs = [], {}
    for scene, method in SIMULATED:
        real = measured.get((scene, method))
        if not real:
            continue
        if scene not in runs:
            runs[scene] = {n: recorded_runs(build, seconds, meshes, scene, n, machine["pool"]) for n in THREADS}
        on = {n: pick(runs[scene][n], method)["recorded"] for n in THREADS}
        most = on[THREADS[-1]]
        rows.append({"scene": scene, "method": method, "ms": {n: on[n]["ms"] for n in THREADS},
                     "speedup": {n: on[n]["speedup"] for n in THREADS},
                     "serial": most["serial_ms"] / (most["serial_ms"] + most["tasks_ms"]), "tasks": most["tasks"],
                     "threads": real["threads"], "real_ms": real["ms"],
                     "off": {q: on[2]["ms"][q] / real["ms"][q] - 1 for q in ("p10", "median")}})
    return rows


# ---- tables ----


def rates_text(machine):
    gb = ", ".join(f"{name.replace('_', ', ')} thread{'s' * name.endswith('2')} {1e-9 / best:.0f} ({1e-9 / median:.0f})"
                   for name, (best, _, median) in sorted(machine["s_per_byte"].items()))
    ns = ", ".join(f"a {name} {1e9 * machine['s'][name][0]:.3g} ({1e9 * machine['s'][name][2]:.3g})"
                   for name in ("vertex", "pair", "crossing", "triangle", "fragment", "span"))
    us = ", ".join(f"{name.replace('_', ' ')} {1e6 * machine['pool'][name][1]:.2g}"
                   for name in ("open", "wake", "open_asleep", "wake_asleep", "claim", "close"))
    return f"reads, GB/s: {gb}\nns, one thread: {ns}\n  (best, and the median in brackets; a pair: its determinants; a crossing: these and its sums)\nthe pool, us: {us}"


def limits_table(rows):
    return text_table(("scene", "threads", "measured, ms", "spread", "MB", "by bytes, ms", "by arithmetic, ms", "x (at p10)"), [(
        f"{row['method']}: {row['text']}", str(row["threads"]), number(row["ms"]["median"]),
        f"{number(row['ms']['p10'])}-{number(row['ms']['p90'])}", f"{number(row['bytes'] / 1e6)} ({row['memory']})",
        number(row["by_bytes_ms"]), number(row["by_arithmetic_ms"]), f"{row['ratio']['median']:.1f} ({row['ratio']['p10']:.1f})") for row in rows])


def speedups_table(rows):
    return text_table(("scene", "serial", "1 thread", *(f"{n} threads" for n in THREADS[1:]), "2 threads: simulated, measured, off (at p10)"), [(
        f"{row['method']}: {row['scene']}", f"{100 * row['serial']:.1f} %", f"{number(row['ms'][1]['median'])} ms",
        *(f"{row['speedup'][n]:.2f} x, {number(row['ms'][n]['median'])} ms" for n in THREADS[1:]),
        f"{number(row['ms'][2]['median'])}, {number(row['real_ms']['median'])} ms, {100 * row['off']['median']:+.0f} % "
        f"({100 * row['off']['p10']:+.0f} %)" if row["threads"] == 2 else "not measured") for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--seconds", type=float, default=0.8, help="for each run")
    parser.add_argument("--meshes", default=MESHES)
    options = parser.parse_args()
    build = options.build.resolve()
    where = conditions(build)
    for key, value in where.items():
        print(f"{key}: {value}")
    (machine,) = json_lines([str(build / "tests/bench/bench_rates")], 120)
    print(rates_text(machine), flush=True)
    rows, measured, left_out, runs = [], {}, [], {}
    for scene, method, text, file in SCENES:
        if file and not (pathlib.Path(options.meshes) / file).exists():
            left_out.append(f"{method}: {text} is left out: there is no {file} in {options.meshes}")
            continue
        if scene not in runs:
            runs[scene] = (engine_runs(build, options.seconds, options.meshes, "--only", scene),
                           recorded_runs(build, options.seconds / 4, options.meshes, scene))
        run, recorded = (pick(lines, method) for lines in runs[scene])
        measured[scene, method] = run
        rows.append(row_of(text, run, recorded["recorded"], machine))
    print(f"\n{limits_table(rows)}\n")
    print("\n".join(left_out + [f"where the time of those above {FAR} x goes, on one thread:"]
                    + [f"  {where_it_goes(row)}" for row in rows if row["ratio"]["median"] > FAR]), flush=True)
    speedups = simulate(build, options.seconds / 2, options.meshes, machine, measured)
    print("\nmore threads, simulated: each task's time on one thread, dealt out as the pool does. Memory bandwidth and caches of "
          f"{THREADS[-1]} cores\nare not in it, nor what threads wait for each other's locks.\n{speedups_table(speedups)}")
    out = build / "roofline.json"
    out.write_text(json.dumps({"conditions": where, "machine": machine, "rows": rows, "speedups": speedups,
                               "left_out": left_out}, indent=1) + "\n")
    print(f"\nwritten: {out}")


if __name__ == "__main__":
    main()
