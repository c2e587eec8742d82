#!/usr/bin/env bash
# gpu-check.sh - checks and measures what only a machine with an NVIDIA GPU can tell, in one run, and prints a table.
#
#   gpu-check.sh [--shim] [--libraries DIR] [--out DIR] [--seconds S] [--within S] [--archs "90 100"] [--commit NAME]
#
# The engine's part needs nvcc, gcc, g++ and make, and no network: same bits on every device, traffic, memory, benches,
# compute-sanitizer, a build with profiler ranges. The service's and the EGL rasteriser's parts run where their libraries
# are found, on the machine or in DIR, a folder into which packages were unpacked (dpkg -x x.deb DIR). The table names
# what did not run.
# --shim runs the kernels on the CPU, to test this script: its times mean nothing.
# --seconds: duration of each bench. --within: duration of the whole run; the most important parts come first, and each
# part has a limit of its own. --commit: name of the sources in the table, where there is no git repository.
# Table, JSON of the benches and logs go to --out (build/gpu-check/results). The table is written again after each part, so
# that it exists however the run ends. Exit code 0: all that ran passed; 1: something failed; 2: wrong options; 3: no GPU
# here, or nothing to build with.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

shim='' libraries='' out=build/gpu-check/results seconds=3 within=86400 archs=native commit=''
while [ $# != 0 ]; do
    case "$1" in
    --shim) shim=yes ;;
    --libraries) libraries=$(cd "${2:?--libraries needs a folder}" && pwd) || exit 2; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --within) within=${2:?--within needs a number of seconds}; shift ;;
    --archs) archs=${2:?--archs needs a list}; shift ;;
    --commit) commit=${2:?--commit needs a name}; shift ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
    esac
    shift
done

# ---- what the machine has -------------------------------------------------------------------------------------------------

for tool in make "${CC:-gcc}" "${CXX:-g++}" awk; do
    command -v "$tool" >/dev/null && continue
    echo "gpu-check: there is no $tool on PATH: install it; the engine's part needs make, gcc, g++, awk and nvcc" >&2
    exit 3
done
device='the CPU, by the shim' driver=none nvcc=none sanitizer=''
if [ -z "$shim" ]; then
    device=''
    if ! command -v nvidia-smi >/dev/null || ! device=$(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader 2>&1); then
        echo "gpu-check: there is no NVIDIA GPU here that nvidia-smi can talk to${device:+ ($device)}." >&2
        echo "Run this where there is one; --shim tests the script itself with the kernels on the CPU." >&2
        exit 3
    fi
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
    if [ -z "$nvcc" ]; then
        echo "gpu-check: no nvcc on PATH or in /usr/local/cuda/bin: install CUDA 12 or newer" >&2
        exit 3
    fi
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)
    sanitizer=$(command -v compute-sanitizer "$(dirname "$nvcc")/compute-sanitizer" /usr/local/cuda/bin/compute-sanitizer | head -1)
    nvcc=$("$nvcc" --version | sed -n 's/.*release \([^,]*\),.*/\1/p')
fi
# The sources' name in the table. Without a repository: a hash of their content.
[ -n "$commit" ] || commit=$(git describe --always --dirty 2>/dev/null) ||
    commit="unknown; the sources' sum is $(find Makefile gpu tests -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-12)"
if [ -n "$libraries" ]; then
    folder=$libraries/usr/lib/$(gcc -dumpmachine | sed 's/-pc-/-/')
    export PATH=$libraries/usr/bin:$PATH
    export CPATH=$libraries/usr/include:$libraries/usr/include/${folder##*/}
    export LIBRARY_PATH=$folder:$libraries/lib/${folder##*/}
    export LD_LIBRARY_PATH=$LIBRARY_PATH${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export PKG_CONFIG_PATH=$folder/pkgconfig:$libraries/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$libraries
fi
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1

jobs=-j$(nproc)
if [ -n "$shim" ]; then
    engine=build/shim make_engine=(make "$jobs" -s CUDA=shim)
    service=build/shim make_service=("${make_engine[@]}")
    only=(--only bunny_cube_16)
else
    engine=build/gpu-check make_engine=(make "$jobs" -s CUDA=1 CUDA_ARCHS="$archs" EGL=0 B=build/gpu-check)
    service=build/gpu-check/service make_service=(make "$jobs" -s CUDA=1 CUDA_ARCHS="$archs" B=build/gpu-check/service)
    only=()
fi

# ---- the table -----------------------------------------------------------------------------------------------------

rows=() failed=0 began=$(date -u '+%Y-%m-%d %H:%M UTC')
write_table() {
    {
        printf 'date     %s\ncommit   %s\n' "$began" "$commit"
        printf 'device   %s\ndriver   %s\nCUDA     %s\nhost     %s\n\n' \
            "$(echo "$device" | sort | uniq -c | sed 's/^ *1 //;s/^ *//' | tr '\n' ';' | sed 's/;$//')" \
            "$driver" "$nvcc" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores"
        printf '%s\n' "${rows[@]}"
        [ ! -s "$out/bench.json" ] || { echo; bench_rows '' bench.json; }
    } >"$out/table.txt.new" && mv "$out/table.txt.new" "$out/table.txt"
}
row() {
    rows+=("$(printf '%-34s %-8s %s' "$1" "$2" "$3")")
    [ "$2" != FAILED ] || failed=1
    write_table
}
finish() {
    printf '\n==== result\n'
    cat "$out/table.txt"
    exit $failed
}

# ---- parts: each writes a row --------------------------------------------------------------------------------------

# Each part is a process group (set -m), so that all of its processes end at its time limit or at an interrupt.
set -m
rm -f "$out"/*.log "$out"/*.json "$out"/table.txt
now_running='' job='' watchdog=''
end_group() { kill -"$2" -- "-$1" 2>/dev/null; }
interrupted() {
    trap '' INT TERM HUP
    local group groups
    groups=$(jobs -p) # not $job, which is set a moment after the job has begun
    [ -z "$groups" ] || {
        for group in $groups; do end_group "$group" TERM; done
        sleep 1
        for group in $groups; do end_group "$group" KILL; done
        wait
    } 2>/dev/null
    row "${now_running:-gpu-check}" FAILED 'interrupted; nothing behind it was run'
    finish
}
trap interrupted INT TERM HUP

# part NAME LOG LIMIT COMMAND...: runs the command for at most LIMIT seconds. Its last line becomes the row's note.
part() {
    local name=$1 log=$out/$2 limit=$3 left=$((within - SECONDS)) rc start=$SECONDS took
    shift 3
    [ -z "$shim" ] || limit=$((20 * limit)) # what a GPU takes seconds for takes the CPU minutes, and longer beside other work
    if [ $left -lt 1 ]; then
        row "$name" skipped "the $within s of --within are over"
        return 1
    fi
    [ "$limit" -lt $left ] || limit=$left
    printf '\n==== %s\n' "$name"
    now_running=$name
    { "$@" 2>&1 | tee "$log"; exit "${PIPESTATUS[0]}"; } </dev/null &
    job=$!
    { sleep "$limit"; end_group $job TERM; sleep 5; end_group $job KILL; } >/dev/null 2>&1 </dev/null &
    watchdog=$!
    { wait $job; rc=$?; } 2>/dev/null # bash reports every process that was killed
    took=$((SECONDS - start))
    end_group $watchdog KILL
    { wait $watchdog; } 2>/dev/null
    job='' now_running=''
    if [ $rc = 0 ]; then
        row "$name" passed "$(tail -n 1 "$log") ($took s)"
    elif [ $rc -gt 128 ] && [ $took -ge "$limit" ]; then
        row "$name" FAILED "ended when its $limit s were over, see $log: $(tail -n 1 "$log")"
    else
        row "$name" FAILED "exit code $rc after $took s, see $log: $(tail -n 1 "$log")"
    fi
    return $rc
}

sanitize() {
    local tool=$1
    if [ -n "$shim" ]; then row "compute-sanitizer $tool" skipped 'needs a GPU'; return; fi
    if [ -z "$sanitizer" ]; then row "compute-sanitizer $tool" skipped 'there is no compute-sanitizer on PATH or beside nvcc'; return; fi
    part "compute-sanitizer $tool" "$tool.log" 240 "$sanitizer" --tool "$tool" --error-exitcode 9 "$engine/tests/gpu/check" --short
}

# A line for each scene of bench_engine's JSON: device and wall time, and the CPU's.
bench_rows() {
    awk -v name="$1" '
    function number(key) { return match($0, "\"" key "\":[-0-9.e+]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0 }
    function text(key) { return match($0, "\"" key "\":\"[^\"]*\"") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5) : "" }
    { scene = text("scene"); sum = number("upload") + number("broadphase") + number("raster") + number("span") + number("contact") + number("download")
      if (text("backend") != "cpu") { device[scene] = sum; wall[scene] = number("median"); hash[scene] = text("hash"); n[scene] = number("scenes")
          launches[scene] = number("launches"); up[scene] = number("uploaded"); down[scene] = number("downloaded")
          near[scene] = number("near_clusters"); clusters[scene] = number("clusters") }
      else { rate = n[scene] > 1 ? sprintf(", %.0f scene-steps/s", 1e3 * n[scene] / wall[scene]) : ""
          printf "%s %s: device %.1f us, wall %.1f us%s; CPU %.1f us; %g launches, %.0f bytes up, %.0f down; %.0f of %.0f clusters; %s\n", name, scene, 1e3 * device[scene],
              1e3 * wall[scene], rate, 1e3 * number("median"), launches[scene], up[scene], down[scene], near[scene], clusters[scene],
              hash[scene] == text("hash") ? "same bits" : "OTHER BITS"; delete device[scene] } }
    END { for (scene in device) printf "%s %s: device %.1f us, wall %.1f us; the CPU did not come to it\n", name, scene, 1e3 * device[scene],
              1e3 * wall[scene] }' "$out/$2"
}

round_trips() {
    local pid endpoint='' rc=1
    "$service/contactd" --backend cuda --http off --stream 'tcp://127.0.0.1:*' >"$out/contactd.log" 2>&1 &
    pid=$!
    while [ -z "$endpoint" ] && kill -0 "$pid" 2>/dev/null; do
        sleep 0.1
        endpoint=$(sed -n 's/.*simulators connect to \(tcp:[^ ]*\)$/\1/p' "$out/contactd.log")
    done
    if [ -n "$endpoint" ]; then
        "$service/tests/bench/bench_stream" "$endpoint" "$pid" 300 "$((${seconds%.*} + 1))" \
            "${CONTACTD_MESHES:-../shared/meshes}" >"$out/stream.json"
        rc=$?
        kill -TERM "$pid"
    fi
    wait "$pid" || rc=$?
    cat "$out/contactd.log"
    [ "$rc" = 0 ] || return "$rc"
    grep -q '"round_trip_boxes","samples":[1-9]' "$out/stream.json" || { echo "no round trip was measured"; return 1; }
    sed -n -e 's/.*"all_positions".*"p50": *\([0-9.]*\).*"p99": *\([0-9.]*\).*/69.7k triangles, all positions sent: p50 \1 us, p99 \2 us/p' \
        -e 's/.*"round_trip_boxes".*"p50": *\([0-9.]*\).*"p99": *\([0-9.]*\).*/two boxes: p50 \1 us, p99 \2 us/p' "$out/stream.json" | paste -sd';'
}

write_table
if part 'build of the engine' build.log 900 "${make_engine[@]}" engine-tools; then
    if [ -n "$shim" ]; then part 'same bits, traffic, memory' check.log 120 env CT_SHIM_DEVICES=2 CT_SHIM_SMS=5 "$engine/tests/gpu/check" --short; else
        part 'same bits, traffic, memory' check.log 120 "$engine/tests/gpu/check"
    fi
    bench() { "$engine/tests/bench/bench_engine" --backend cuda --seconds "$seconds" "${only[@]}" >"$out/bench.json" && bench_rows bench bench.json; }
    part 'engine benches' bench.log 300 bench
    if grep -qs 'OTHER BITS' "$out/bench.log"; then row 'bits in the benches' FAILED "see $out/bench.log"; fi
    sanitize memcheck
    sanitize racecheck
    sanitize synccheck
    if [ -n "$shim" ]; then row 'profiler ranges' skipped 'needs nvcc'; else
        with_ranges() { "${make_engine[@]}" NVTX=1 B=build/gpu-check/nvtx engine-tools && build/gpu-check/nvtx/tests/gpu/check --short; }
        part 'profiler ranges' nvtx.log 600 with_ranges
    fi
fi

if pkg-config --exists libzmq libmicrohttpd jansson 2>/dev/null && command -v flatc >/dev/null; then
    if part 'build of the service' build-service.log 900 "${make_service[@]}" all bench-tools; then
        part 'service: round trips' stream.log 120 round_trips
    fi
else
    row 'service' skipped 'needs pkg-config, libzmq, libmicrohttpd, jansson and flatc (--libraries)'
fi
if ! pkg-config --exists epoxy libpng 2>/dev/null; then
    row 'EGL rasteriser' skipped 'needs pkg-config, libepoxy and libpng (--libraries)'
else
    # CUDA and OpenGL in one build that share buffers.
    with_gl() {
        "${make_service[@]}" engine-tools && CT_SHIM_DEVICES=2 "$service/tests/gpu/check" --rasterizer egl ${shim:+--short} &&
            "$service/tests/bench/bench_engine" --backend cuda --seconds "$seconds" --only bunny_cube_128_egl >"$out/interop.json" &&
            sed -n 's/.*"rasterizer":"\([a-z]*\)".*"median":\([^,]*\),.*"raster":\([^,]*\),.*/\1 \2 ms, of which \3 rasterising/p' \
                "$out/interop.json" | paste -sd';'
    }
    part 'CUDA with OpenGL' interop.log 300 with_gl
fi
if ! pkg-config --exists epoxy libpng 2>/dev/null; then
    : # said above
elif ! pkg-config --exists cmocka libzmq libmicrohttpd jansson || ! command -v flatc >/dev/null; then
    row 'EGL rasteriser' skipped "its tests need cmocka, and what the service needs (--libraries)"
else
    gl_tests=$(find tests/unit tests/consistency -name 'test_*_gl.c' | sort | tr '\n' ' ')
    if [ -z "$gl_tests" ]; then row 'EGL rasteriser' skipped 'this tree has none'; else
        part 'EGL rasteriser' egl.log 600 "${make_service[@]}" unit TESTS="$gl_tests"
    fi
    # On a GPU its collective operations, its crowds and every scene that is compared with the CPU; on the shim .ci/run and
    # the unit tests do this.
    if [ -z "$shim" ]; then
        compared=$(find tests/consistency -name 'test_*backends.c' | sort | tr '\n' ' ')
        part 'backend tests' backend.log 900 "${make_service[@]}" unit \
            TESTS="tests/unit/backend tests/unit/broadphase tests/consistency/test_open_moving.c $compared"
    fi
fi
finish
