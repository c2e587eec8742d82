"""scaling.py - the figures of scenes in which little of the meshes touches, for bench.py: what they come to, and whether
the cost follows the contact.

A figure is (id, what it says, unit, the figure to reach or None, whether less is better), as in bench.py.
"""
import statistics

GROUND = "a slab of 399,420 triangles, 256 tori of 1,024 triangles on it, 3 x 32^2, 2 threads"
TORI = (16, 64, 256, 1024, 4096)
FIGURES = [
    ("ground_256", GROUND, "ms", 15.0, True),
    ("ground_16", "the same with 16 tori", "ms", 1.5, True),
    ("ground_coarse_256", "256 tori on a slab of 6,396 triangles", "ms", None, True),
    ("ground_fine_to_coarse", "the first as a multiple of the one before, measured in turns", "x", 1.3, True),
    ("ground_256_deforming", "256 tori whose positions are all sent", "ms", None, True),
    ("ground_256_resting", "256 tori of which none has moved, nothing sent", "ms", 0.3, True),
    ("ground_256_round_trip", "256 tori, poses sent, full round trip over TCP loopback, p50", "us", None, True),
    *((f"ground_{n}_per_body", f"time per torus, of {n:,} on the same slab", "us", None, True) for n in TORI),
    ("ground_per_body_growth", "time per torus of 4,096 as a multiple of that of 64", "x", 2.0, True),
    ("exact_ground_256", "exact: 256 tori on the slab of 399,420 triangles, 2 threads", "ms", 6.0, True),
    ("exact_ground_256_resting", "exact: the same, of which none has moved, nothing sent", "ms", 0.3, True),
    ("dragons_apart", "871k triangles and a copy moved by 90 % of the length, 3 x 128^2, 2 threads", "ms", 2.5, True),
    ("armadillos_apart", "346k triangles and a copy moved by 98 % of the width, 3 x 128^2, 2 threads", "ms", 0.8, True),
    ("bunnies_apart", "69.7k triangles and a copy, 10 % of their boxes' length in common, no contact, 3 x 128^2, 2 threads", "ms", 0.6, True),
    ("bunny_deforming", "69.7k triangles against a cube, all positions sent, 3 x 128^2, 2 threads", "ms", None, True),
    ("exact_stack_40", "exact: a stack of 40 soft bodies, 725k triangles, all positions sent, 2 threads", "ms", 60.0, True),
]
# The scenes of bench_engine that these figures come from.
SCENES = ["ground_coarse_256", *(f"ground_{n}" for n in TORI), "ground_256_deforming", "ground_256_resting",
          "exact_ground_256", "exact_ground_256_resting", "dragons_apart", "armadillos_apart", "bunnies_apart", "bunny_deforming",
          "exact_stack_40"]


def quantiles(values):
    """p10, median, p90."""
    low, *_, high = statistics.quantiles(values, n=10, method="inclusive") if len(values) > 1 else 2 * values
    return low, statistics.median(values), high


def ratio_row(run, base, scale, limit, limit_is):
    """Ratio of two runs' times that were taken in turns: each turn gives one, so what slows both down cancels out."""
    low, median, high = quantiles([scale * mine / other for mine, other in zip(run["turns_ms"], base["turns_ms"])])
    return median, (low, high), limit, limit_is


def measure(engine, round_trips):
    """figure id -> (median, (low, high), baseline or None, what the baseline is); only of scenes that ran."""
    main, base = {}, {}
    for run in engine:
        if run["scene"] in main:
            base[run["scene"]] = run
        elif run["scene"] in SCENES:
            main[run["scene"]] = run
    found = {}
    for name, run in main.items():
        plain = base.get(name)
        if plain and plain["hash"] != run["hash"]:
            raise SystemExit(f"bench: the runs of {name} do not give the same bits: {run['hash']}, {plain['hash']}")
        ms = run["ms"]
        found[name] = (ms["median"], (ms["p10"], ms["p90"]), plain and plain["ms"]["median"],
                       plain and f"{plain['simd']}, {plain['threads']} thread")
    for n in TORI:
        if f"ground_{n}" in main:
            ms = main[f"ground_{n}"]["ms"]
            found[f"ground_{n}_per_body"] = (1e3 * ms["median"] / n, (1e3 * ms["p10"] / n, 1e3 * ms["p90"] / n), None, None)
    fine, coarse = main.get("ground_256"), main.get("ground_coarse_256")
    if fine and coarse:
        triangles = fine["triangles"][0] / coarse["triangles"][0]
        found["ground_fine_to_coarse"] = ratio_row(fine, coarse, 1, triangles, "the slabs' triangles")
    few, many = main.get("ground_64"), main.get("ground_4096")
    if few and many:
        found["ground_per_body_growth"] = ratio_row(many, few, 64 / 4096, 64, "the numbers of tori")
    for run in round_trips:
        us = run["us"]
        alone = found.get("ground_256")
        found[run["scene"]] = (us["p50"], (us["p10"], us["p90"]), alone and 1e3 * alone[0], "the engine alone")
    return found
