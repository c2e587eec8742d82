/* choose_cuda.cu - finds the devices that the options name, or the reason why none of them can be used. */
#include "gpu/run/choose_cuda.cuh"

/* The oldest compute capability that this build has code for. */
static int oldest_built(void) {
#ifdef __CUDA_ARCH_LIST__
    const int built[] = {__CUDA_ARCH_LIST__};
#else
    const int built[] = {750};
#endif
    int oldest = built[0];
    for (int b : built) oldest = b < oldest ? b : oldest;
    return oldest / 10;
}

static bool fail(ct_error *error, ct_status status, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool fail(ct_error *error, ct_status status, const char *field, const char *format, ...) {
    char message[sizeof error->message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    ct_fail(error, status, field, "%s", message);
    return false;
}

/* The number of devices that the driver sees. */
static bool count_devices(int *n, ct_error *error) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    cudaGetLastError();
    if (driver == 0)
        return fail(error, CT_UNSUPPORTED, "backend",
                    "no NVIDIA driver was found: install one for CUDA %d.%d or newer, or use backend \"cpu\"",
                    runtime / 1000, runtime % 1000 / 10);
    const cudaError_t status = cudaGetDeviceCount(n);
    cudaGetLastError();
    if (status == cudaErrorInsufficientDriver)
        return fail(error, CT_UNSUPPORTED, "backend",
                    "the NVIDIA driver is for CUDA %d.%d, older than this build's runtime %d.%d: install a newer "
                    "driver, or use backend \"cpu\"",
                    driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (status == cudaErrorNoDevice || (status == cudaSuccess && *n == 0))
        return fail(error, CT_UNSUPPORTED, "backend",
                    "the driver sees no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use backend \"cpu\"");
    if (status)
        return fail(error, CT_UNSUPPORTED, "backend", "the driver cannot list devices: %s: %s",
                    cudaGetErrorName(status), cudaGetErrorString(status));
    if (*n > CT_MAX_DEVICES) *n = CT_MAX_DEVICES;
    return true;
}

static bool parse_devices(const char *text, int n_found, ct_choice *choice, ct_error *error) {
    choice->n = 0;
    if (!text || !*text || !strcmp(text, "all")) {
        for (int i = 0; i < n_found; i++) choice->ordinal[choice->n++] = i;
        return true;
    }
    for (const char *at = text;;) {
        char *end;
        const long number = strtol(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || (*end && *end != ','))
            return fail(error, CT_INVALID_ARGUMENT, "devices",
                        "devices \"%s\": expected \"all\", or numbers such as \"0,2\"", text);
        if (number >= n_found)
            return fail(error, CT_INVALID_ARGUMENT, "devices",
                        "devices \"%s\": there is no device %ld, the driver sees %d: 0 to %d", text, number, n_found,
                        n_found - 1);
        for (int i = 0; i < choice->n; i++)
            if (choice->ordinal[i] == number)
                return fail(error, CT_INVALID_ARGUMENT, "devices", "devices \"%s\": device %ld is named twice", text,
                            number);
        choice->ordinal[choice->n++] = (int)number;
        if (!*end) return true;
        at = end + 1;
    }
}

static bool can_run(int ordinal, ct_error *error) {
    cudaDeviceProp properties;
    const cudaError_t status = cudaGetDeviceProperties(&properties, ordinal);
    cudaGetLastError();
    if (status)
        return fail(error, CT_UNSUPPORTED, "devices", "device %d has no readable properties: %s: %s", ordinal,
                    cudaGetErrorName(status), cudaGetErrorString(status));
    if (properties.major * 10 + properties.minor < oldest_built())
        return fail(error, CT_UNSUPPORTED, "devices",
                    "device %d, %.80s, has compute capability %d.%d, and this build needs at least %d.%d: leave it "
                    "out by naming others in devices, or use backend \"cpu\"",
                    ordinal, properties.name, properties.major, properties.minor, oldest_built() / 10,
                    oldest_built() % 10);
    return true;
}

bool ct_gpu_choose(const ct_engine_options *options, ct_choice *choice, ct_error *error) {
    const bool any = !options->backend || !strcmp(options->backend, "auto");
    choice->n = 0;
    if (ct_rasterizer_choose(options->rasterizer, &choice->draws, error)) return false;
#ifdef CT_CUDA_SHIM
    if (any)
        return fail(error, CT_UNSUPPORTED, "backend",
                    "this build has a CPU in place of a GPU, for tests: \"auto\" does not take it");
#endif
    int n_found = 0;
    if (!count_devices(&n_found, error) || !parse_devices(options->devices, n_found, choice, error)) return false;
    const bool all = !options->devices || !*options->devices || !strcmp(options->devices, "all");
    int kept = 0;
    ct_error why = {};
    for (int i = 0; i < choice->n; i++) {
        if (can_run(choice->ordinal[i], &why)) {
            choice->ordinal[kept++] = choice->ordinal[i];
        } else if (!(any && all)) { /* a device that was named has to work */
            choice->n = 0;
            break;
        }
    }
    choice->n = choice->n ? kept : 0;
    if (choice->n == 0 && error && !error->status) *error = why;
    return choice->n > 0;
}
