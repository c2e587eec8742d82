#!/usr/bin/env python3
"""bench.py - runs the benches, sets their figures against those to reach, and writes build/bench.json; speed_page.py makes docs/speed.md of it.

    bench.py --build build [--seconds S] [--meshes DIR] [--client-spin-us N] [--server-spin-us N]

Engine scenes come from bench_engine, those with deadlines from bench_deadline, the round trip and the memory figure from bench_stream against a contactd of its own
on loopback. Missing a figure is reported, not an error; runs of one scene that disagree in a bit are. The figures of scenes
in which little of the meshes touches are in scaling.py, those of another library in peers.py.
"""
import argparse
import json
import os
import pathlib

import many
import peers
import scaling
from programs import MESHES, ROOT, conditions, deadline_runs, engine_runs, estimate_runs, ground_runs, neighbour_runs, number, stream_runs, text_table

HERE = pathlib.Path(__file__).resolve().parent

# id, what it says, unit, the figure to reach, whether less is better
FIGURES = [
    ("bunny_cube_128", "69.7k triangles against a cube, 3 x 128^2, volume + gradient, 1 thread", "ms", 4.0, True),
    ("bunny_cube_16", "the same at 3 x 16^2", "ms", 0.8, True),
    ("armadillos", "two bodies of 346k triangles, 280 x 240 x 260, 2 threads", "ms", 25.0, True),
    ("huge", "4.4M triangles in two bodies, 512^2, 2 threads", "ms", 400.0, True),
    ("round_trip_boxes", "two boxes at 32^2, full round trip over TCP loopback, p50", "us", 150.0, True),
    ("round_trip_boxes_p99", "the same, p99", "us", 600.0, True),
    ("all_positions", "69.7k triangles against a cube, 3 x 128^2, all positions sent, full round trip over TCP loopback, p50", "us", 5000.0, True),
    ("round_trip_boxes_curve", "two boxes at 32^2, full round trip over TCP loopback, encrypted by CURVE, p50", "us", 250.0, True),
    ("all_positions_curve", "all positions sent as above, encrypted by CURVE, full round trip, p50", "us", 9000.0, True),
    ("small_beside_large", "two boxes beside a client that steps two 346k bodies all the time, p50", "us", 300.0, True),
    ("small_beside_large_p99", "the same, p99", "us", 6000.0, True),
    ("batch_1024", "1,024 scenes of two 1k-triangle bodies at 32^2, batched", "steps/s", 2500.0, False),
    ("exact_boxes", "exact: two boxes, 1 thread", "ms", 0.006, True),
    ("exact_hulls", "exact: two hulls of 100 vertices, 6 % of a diameter deep, with frame, 1 thread", "ms", 0.020, True),
    ("exact_bunny_cube", "exact: 69.7k triangles against a cube, rigid, 1 thread", "ms", 1.0, True),
    ("exact_bunny_cube_deforming", "the same, all positions new", "ms", 1.4, True),
    ("exact_armadillos", "exact: two bodies of 346k triangles, deep, 8,700 pairs of triangles cross, 2 threads", "ms", 8.0, True),
    ("exact_armadillos_deforming", "the same, all positions new", "ms", 12.0, True),
    ("exact_armadillos_shallow", "exact: two bodies of 346k triangles, shallow, 1,450 pairs of triangles cross, 1 thread", "ms", 0.6, True),
    ("exact_armadillos_coincident", "exact: two bodies of 86k triangles that nearly coincide, 22,000 pairs of triangles cross, 1 thread", "ms", 20.0, True),
    ("exact_batch_1024", "exact: 1,024 scenes of two 1k-triangle bodies, batched, 2 threads", "steps/s", 5982.0, False),
    ("exact_products", "exact: 69.7k triangles against a cube, rigid, with 12 products of the second derivative, 1 thread", "ms", 5.0, True),
    ("exact_inertia", "the same with the intersection's inertia instead", "ms", 2.0, True),
    ("exact_half_space", "exact: 69.7k triangles on a half-space, rigid, 1 thread", "ms", 1.0, True),
    ("exact_patches", "exact: two bodies of 346k triangles, deep, in patches, 2 threads", "ms", 16.0, True),
    ("law_boxes", "exact with the law pressure: two boxes, 1 thread, as a multiple of the step without", "", 1.5, True),
    ("law_ball", "the same ratio: a ball of 20k triangles on a box", "", 1.5, True),
    ("law_bunny_cube", "the same ratio: 69.7k triangles against a cube, deep", "", 1.5, True),
    ("points_ball", "exact with 4 points of each contact, a ball of 20k triangles on a box, 1 thread, as a multiple of the step without", "", 3.0, True),
    ("points_bunny_cube", "the same ratio: 69.7k triangles against a cube, deep", "", 3.0, True),
    ("points_armadillos", "the same ratio: two bodies of 346k triangles, deep", "", 3.0, True),
    ("points_gears", "the same ratio: two gears of 51k long thin triangles, deep", "", 3.0, True),
    ("points_boxes", "the same ratio: a box on a box", "", 3.0, True),
    ("points_nut", "the same ratio: a nut on a bolt, 6k and 12k triangles", "", 3.0, True),
    ("points_tori", "the same ratio: 256 scenes of two 1k-triangle tori, batched", "", 3.0, True),
    ("surface_ball", "exact with the contact surface and the law pressure, a ball of 20k triangles on a box, 1 thread, as a multiple of the step without", "", 3.0, True),
    ("surface_boxes", "the same ratio: a box on a box", "", 3.0, True),
    ("surface_nut", "the same ratio: a nut on a bolt, 6k and 12k triangles", "", 3.0, True),
    ("surface_tori", "the same ratio: 256 scenes of two 1k-triangle tori, batched", "", 3.0, True),
    ("self_20k", "20k triangles in contact with themselves at 3 x 256^2, all positions sent, 2 threads", "ms", 12.0, True),
    ("exact_self_20k", "exact: 20k triangles in contact with themselves, all positions sent, 2 threads", "ms", 12.0, True),
    ("ebpi_spheres", "ebpi: two spheres of 7k triangles, published bound of 1 % of the volume, 1 thread", "ms", 20.0, True),
    ("ebpi_spheres_rays", "the same: rays", "rays", 14000.0, True),
    ("ebpi_armadillos", "ebpi: two bodies of 346k triangles, deep, published bound of 1 % of the volume, 2 threads", "ms", 150.0, True),
    ("ebpi_huge", "ebpi: 4.4M triangles in two bodies, published bound of 1 % of the volume, 2 threads", "ms", 400.0, True),
    ("cells_shallow", "ldi: a wide shallow contact of two bodies of 68k triangles in 570 cells of 22 rays a side, 1 thread, as a multiple of the step without cells", "", 1.5, True),
    ("cells_bunny_cube", "the same ratio: 69.7k triangles deep in a cube, 3 x 128^2, in 560 cells", "", 1.5, True),
    ("cells_armadillos", "the same ratio: two bodies of 346k triangles, deep, in 610 cells, 2 threads", "", 1.5, True),
    ("voxtree_armadillos", "voxtree: two bodies of 346k triangles, deep, level 5, 1 thread", "us", 150.0, True),
    ("voxtree_overshoot_p99", "voxtree: time beyond a budget of 200 us, the same bodies to level 8, p99", "us", 40.0, True),
    ("voxtree_pile_256", "voxtree: 256 bodies of 35k triangles in a pile, all moved, budget of 2 ms, 2 threads", "us", 2200.0, True),
    ("voxtree_pile_256_p99", "the same, p99", "us", None, True),
    ("voxtree_pile_256_examined", "the same: pairs of bodies that were examined in time", "%", 100.0, False),
    ("voxtree_tree", "voxtree: making the tree of 346k triangles to 128^3", "ms", 250.0, True),
    ("voxtree_node_bytes", "the same: its bytes for each boundary or full cube, of all levels", "bytes", 24.0, True),
    ("bytes_per_triangle", "resident memory per registered triangle, body included", "bytes", 96.0, True),
]
# Where there is EGL with OpenGL 4.5. Mesa's llvmpipe is a figure of the processor, not of a GPU.
EGL_FIGURES = [
    ("bunny_cube_128_egl", "69.7k triangles against a cube, 3 x 128^2, drawn by OpenGL (llvmpipe: by the CPU)", "ms", 150.0, True),
]
# Where there is a CUDA device: time on the device, but for the batch and the round trip.
CUDA_FIGURES = [
    ("cuda_bunny_cube_128", "CUDA: 69.7k triangles against a cube, 3 x 128^2, all positions sent", "us", 100.0, True),
    ("cuda_armadillos", "CUDA: two bodies of 346k triangles, 280 x 240 x 260", "us", 400.0, True),
    ("cuda_huge", "CUDA: 4.4M triangles in two bodies, 512^2", "us", 5000.0, True),
    ("cuda_batch_1024", "CUDA: 1,024 scenes of two 1k-triangle bodies at 32^2, batched", "steps/s", 500000.0, False),
    ("cuda_exact_bunny_cube", "CUDA: 69.7k triangles against a cube by the method exact, posed", "us", 200.0, True),
    ("cuda_exact_armadillos", "CUDA: two bodies of 346k triangles by the method exact, deep", "us", 300.0, True),
    ("cuda_exact_batch_1024", "CUDA: 1,024 scenes of two 1k-triangle bodies by the method exact, batched", "steps/s", 100000.0, False),
    ("cuda_all_positions", "CUDA: 69.7k triangles against a cube, 3 x 128^2, all positions sent, full round trip over TCP loopback, p50", "us", 300.0, True),
    ("cuda_round_trip_boxes", "CUDA: two boxes at 32^2, full round trip over TCP loopback, p50", "us", 200.0, True),
]


def spread(samples, scale=lambda x: x):
    return sorted(scale(samples[q]) for q in ("p10", "p90"))


def sent_all(by_name):
    step, echo = by_name["all_positions"]["us"], by_name["all_positions_echo"]["us"]
    return step["p50"], spread(step), echo["p50"], "a bare ZeroMQ echo of the same sizes"


def measure(engine, stream, encrypted):
    """figure id -> (median, (low, high), baseline or None, what the baseline is)"""
    found = {}
    for name in dict.fromkeys(run["scene"] for run in engine):
        runs = [run for run in engine if run["scene"] == name]
        if not name.startswith(("law_", "points_", "surface_")) and len({(run["method"], run["hash"]) for run in runs}) != len({run["method"] for run in runs}):
            raise SystemExit(f"bench: the runs of {name} do not give the same bits: {[r['hash'] for r in runs]}")
        main, base = runs
        if name.startswith(("cells_", "law_", "points_", "surface_")):
            base_ms = base["ms"]["median"]
            found[name] = (main["ms"]["median"] / base_ms, spread(main["ms"], lambda ms, b=base_ms: ms / b), None, None)
            continue
        scale = (lambda ms, n=main["scenes"]: 1e3 * n / ms) if main["scenes"] > 1 else (lambda ms: ms)
        found[name] = (scale(main["ms"]["median"]), spread(main["ms"], scale), scale(base["ms"]["median"]),
                       f"{base['simd']}, {base['threads']} thread" if base["method"] == main["method"] else
                       base["method"] + (f" at {base['resolution'][0]}^2" if base["resolution"][0] else ""))
    rays = next(run["rays"] for run in engine if run["method"] == "ebpi" and run["scene"] == "ebpi_spheres")
    found["ebpi_spheres_rays"] = (rays, (rays, rays), None, "")
    by_name = {run["scene"]: run for run in stream}
    step, echo = by_name["round_trip_boxes"]["us"], by_name["round_trip_echo"]["us"]
    found["round_trip_boxes"] = (step["p50"], spread(step), echo["p50"], "a bare ZeroMQ echo of the same sizes")
    found["round_trip_boxes_p99"] = (step["p99"], (step["p50"], step["max"]), echo["p99"], "the same echo")
    found["all_positions"] = sent_all(by_name)
    for name in ("round_trip_boxes", "all_positions"):
        (curve,) = (run["us"] for run in encrypted if run["scene"] == name)
        found[f"{name}_curve"] = (curve["p50"], spread(curve), by_name[name]["us"]["p50"], "without encryption")
    beside, alone = by_name["small_beside_large"]["us"], by_name["small_alone"]["us"]
    found["small_beside_large"] = (beside["p50"], spread(beside), alone["p50"], "without the neighbour")
    found["small_beside_large_p99"] = (beside["p99"], (beside["p50"], beside["max"]), alone["p99"], "without the neighbour")
    memory = by_name["memory"]
    found["bytes_per_triangle"] = (memory["rss_per_triangle"],
                                   sorted((memory["accounted_per_triangle"], memory["rss_per_triangle"])),
                                   memory["raw_per_triangle"], "the bare arrays")
    return found


def measure_deadlines(runs):
    """As measure, of bench_deadline."""
    by_name = {run["scene"]: run for run in runs}
    found = {name: (by_name[name]["us"]["p50"], spread(by_name[name]["us"]), None, None)
             for name in ("voxtree_armadillos", "voxtree_pile_256")}
    pile = by_name["voxtree_pile_256"]["us"]
    found["voxtree_pile_256_p99"] = (pile["p99"], (pile["p50"], pile["p99"]), None, None)
    over, examined = by_name["voxtree_overshoot"]["over_us"], 100 * by_name["voxtree_pile_256"]["examined"]
    found["voxtree_overshoot_p99"] = (over["p99"], (over["p50"], over["max"]), None, None)
    found["voxtree_pile_256_examined"] = (examined, (examined, examined), None, None)
    for name, key in (("voxtree_tree", "ms"), ("voxtree_node_bytes", "bytes_per_node")):
        value = by_name["voxtree_tree"][key]
        found[name] = (value, (value, value), None, None)
    return found


def measure_cuda(engine, stream):
    """As measure, of the runs on a device: the baseline is the CPU's best."""
    found = {}
    for name in dict.fromkeys(run["scene"] for run in engine):
        device, cpu = (run for run in engine if run["scene"] == name)
        if device["hash"] != cpu["hash"]:
            raise SystemExit(f"bench: {name} gives {device['hash']} on {device['backend']}, {cpu['hash']} on the CPU")
        if device["scenes"] > 1:
            rate = lambda ms, n=device["scenes"]: 1e3 * n / ms
            row = (rate(device["ms"]["median"]), spread(device["ms"], rate), rate(cpu["ms"]["median"]))
        else:
            row = (1e3 * sum(device["phases_ms"].values()), spread(device["ms"], lambda ms: 1e3 * ms),
                   1e3 * cpu["ms"]["median"])
        found[f"cuda_{name}"] = (*row, f"the CPU, {cpu['threads']} threads")
    by_name = {run["scene"]: run for run in stream}
    step, echo = by_name["round_trip_boxes"]["us"], by_name["round_trip_echo"]["us"]
    found["cuda_round_trip_boxes"] = (step["p50"], spread(step), echo["p50"], "a bare ZeroMQ echo of the same sizes")
    found["cuda_all_positions"] = sent_all(by_name)
    return found


def figures(wanted, found):
    expected = json.loads((HERE / "expected.json").read_text())
    for name, text, unit, reach, less in wanted:
        median, (low, high), baseline, baseline_is = found[name]
        yield {
            "figure": name, "text": text, "unit": unit, "median": median, "spread": [low, high],
            "reach": reach, "reached": None if reach is None else median <= reach if less else median >= reach,
            "baseline": baseline, "baseline_is": baseline_is,
            "speedup": None if baseline is None else (baseline / median if less else median / baseline),
            "expected": expected.get(name, {}).get("value"), "floors": expected.get(name, {}).get("floors"),
        }


def floors(rows):
    """What no device of that bandwidth and rate could go below, beside what was measured."""
    for row in rows:
        for what, floor in (row["floors"] or {}).items():
            ratio = row["median"] / floor if row["unit"] == "us" else floor / row["median"]
            yield f"{row['figure']}: floor of {what} {number(floor)} {row['unit']}, measured {number(row['median'])}, ratio {ratio:.1f}"


def table(rows):
    return text_table(("figure", "measured", "spread", "to reach", "", "expected", "baseline", "x"), [(
        row["text"], f"{number(row['median'])} {row['unit']}", "-".join(number(v) for v in row["spread"]),
        number(row["reach"]), {None: "", True: "reached", False: "MISSED"}[row["reached"]], number(row["expected"]),
        "" if row["baseline"] is None else f"{number(row['baseline'])} ({row['baseline_is']})",
        "" if row["speedup"] is None else f"{row['speedup']:.2f}",
    ) for row in rows])


def profile(engine):
    """Where each scene's time goes: phases' shares, and the cost of a triangle, a ray and a crossing."""
    for run in engine:
        total = sum(run["phases_ms"].values()) or 1
        shares = ", ".join(f"{p} {100 * t / total:.0f} %" for p, t in run["phases_ms"].items() if t / total >= 0.005)
        triangles = run["scenes"] * sum(run["triangles"])
        yield (
            f"{run['scene']} ({run['simd']}, {run['threads']} thread{'s' * (run['threads'] > 1)}; "
            f"{' / '.join(run['bodies'])}): {shares}; "
            f"{1e6 * total / triangles:.1f} ns a triangle, {run['rays'] / 1e3:,.0f}k rays, "
            f"{run['fragments'] / 1e3:,.0f}k crossings, {1e6 * total / max(run['fragments'], 1):.0f} ns a crossing"
        )


def round_trips(stream):
    """What of a round trip is the machine's and ZeroMQ's, and what is ours."""
    runs = {run["scene"]: run for run in stream}
    boxes = runs["round_trip_boxes"]
    yield (f"round trips (before sleeping the client looks {boxes['client_spin_us']} us for an answer, the server "
           f"{boxes['server_spin_us']} us for a request; the echo like them):")
    for ours, bare, what in (("round_trip_boxes", "round_trip_echo", "a step of two boxes"),
                             ("round_trip_ping", "round_trip_ping_echo", "a ping")):
        times = ", ".join(f"{q} {runs[ours]['us'][q]:.0f} us = {runs[ours]['us'][q] / runs[bare]['us'][q]:.2f} x "
                          f"the bare echo's {runs[bare]['us'][q]:.0f}" for q in ("p50", "p99"))
        yield f"  {what}: {times}"
    engine = sum(t for phase, t in boxes["phases_us"].items() if phase != "queue")
    yield f"  of a step, the engine: {engine:.0f} us"


def accuracy(runs):
    """How well error estimates hold, and how accurate single vertices are beside whole bodies (bench_estimate)."""
    for run in runs:
        if run["what"] == "estimates":
            ratio, error = run["ratio"], run["relative_error"]
            yield (f"error estimates of {run['pairs']} random pairs: {100 * run['held']:.1f} % hold (half of the views' "
                   f"spread: {100 * run['held_by_half_spread']:.1f} %), {ratio['median']:.1f} times the error in the median; "
                   f"error {100 * error['median']:.2g} % in the median, {100 * error['p95']:.2g} % p95; {run['missed']} missed")
        else:
            yield (f"sphere of {run['triangles']:,} triangles cut by a plane at {run['resolution']}^2: vertices' gradients off "
                   f"by {100 * run['vertex_error']:.2g} %, the force by {100 * run['force_error']:.2g} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each run")
    parser.add_argument("--client-spin-us", help="the C client's option; its default where not given")
    parser.add_argument("--server-spin-us", help="contactd's --spin-us; its default where not given")
    parser.add_argument("--meshes", default=MESHES)
    options = parser.parse_args()
    build = options.build.resolve()
    if not os.path.isdir(options.meshes):
        print(f"no meshes at {options.meshes} (CONTACTD_MESHES): generated bodies of the same size instead")

    where = conditions(build)
    for key, value in where.items():
        print(f"{key}: {value}")
    engine = engine_runs(build, options.seconds, options.meshes)
    spins = options.client_spin_us, options.server_spin_us
    stream = stream_runs(build, options.seconds, options.meshes, *spins)
    encrypted = stream_runs(build, options.seconds, options.meshes, *spins, encrypted=True)
    stream += neighbour_runs(build, options.seconds, options.meshes)
    grounds = ground_runs(build, options.seconds)
    estimates = estimate_runs(build, options.meshes)
    deadlines = deadline_runs(build, options.seconds, options.meshes)
    found = measure([run for run in engine if run["scene"] not in scaling.SCENES], stream, encrypted)
    found |= scaling.measure(engine, grounds) | measure_deadlines(deadlines)
    found |= peers.measure(options.meshes, engine, options.seconds) | many.measure(build, options.seconds)
    rows = list(figures(FIGURES + many.FIGURES + [row for row in EGL_FIGURES + scaling.FIGURES + peers.FIGURES if row[0] in found], found))
    cuda = engine_runs(build, options.seconds, options.meshes, "--backend", "cuda", may_lack_backend=True)
    if cuda is not None:
        on_cuda = stream_runs(build, options.seconds, options.meshes, *spins, backend="cuda")
        rows += figures(CUDA_FIGURES, measure_cuda(cuda, on_cuda))
        engine, stream = engine + cuda, stream + on_cuda
    stream += grounds + deadlines
    print(f"\n{table(rows)}\n\nwhere the time goes:")
    print("\n".join([*profile(engine), *floors(rows), *round_trips(stream)]))
    print("\naccuracy:")
    print("\n".join(accuracy(estimates)))
    for run in stream:
        print(json.dumps(run))
    out = build / "bench.json"
    out.write_text(json.dumps({"conditions": where, "figures": rows, "engine": engine, "stream": stream, "encrypted": encrypted, "estimates": estimates}, indent=1) + "\n")
    print(f"\nwritten: {out}")


if __name__ == "__main__":
    main()
