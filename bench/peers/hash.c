/*
 * Exact match of flows by DPDK's rte_hash, timed in TSC ticks.
 *
 *   peer-hash --family 4|6 [--flows N] [--repeats N]
 *
 * The table has so many random keys of 16 octets (IPv4: both addresses, both ports, the protocol, padded) or 40 (IPv6), each
 * with a number, and twice as many places. All keys are looked up in random order, in batches of 64, the most that the library
 * takes. Nothing is read of what was found but its number: no comparison of other fields, no counting, no rewrite.
 *
 * One JSON line is printed.
 */
#define PEER "peer-hash"
#include "peer.h"

#include <rte_hash.h>
#include <rte_hash_crc.h>

static struct {
    int family;
    size_t flows;
    unsigned repeats;
} options = {.family = 4, .flows = 10000, .repeats = 15};

static size_t width;
static uint8_t *keys; /* in the order of lookups */
static struct rte_hash *table;
static double ticks[MAX_REPEATS];
static uint64_t state = 0x9e3779b97f4a7c15;

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" */
static uint64_t draw(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1d;
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--family"))
            options.family = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--flows"))
            options.flows = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--repeats"))
            options.repeats = atoi(argv[i + 1]);
        else
            die("unknown option", argv[i]);
    }
    if (options.family != 4 && options.family != 6)
        die("--family is 4 or 6", NULL);
    if (options.flows < 1 || options.flows > 1 << 24 || options.repeats < 1 || options.repeats > MAX_REPEATS)
        die("--flows or --repeats out of range", NULL);
    width = options.family == 4 ? 16 : 40;
    key_count = options.flows;
}

static void fill(void)
{
    struct rte_hash_parameters parameters = {
        .name = "flows",
        .entries = 2 * key_count < 64 ? 64 : 2 * key_count,
        .key_len = width,
        .hash_func = rte_hash_crc,
        .extra_flag = RTE_HASH_EXTRA_FLAGS_EXT_TABLE,
    };
    table = rte_hash_create(&parameters);
    keys = aligned_alloc(64, (key_count * width + 63) / 64 * 64);
    if (!table || !keys)
        die("no memory for a table", NULL);
    for (size_t i = 0; i < key_count; i++) {
        uint8_t *key = keys + i * width;
        for (size_t at = 0; at < width; at += 8) {
            uint64_t word = draw();
            memcpy(key + at, &word, 8);
        }
        if (options.family == 4)
            memset(key + 13, 0, 3);
        if (rte_hash_add_key_data(table, key, (void *)(uintptr_t)(i + 1)) != 0)
            die("a key finds no room", NULL);
    }
    /* The order of lookups is not that of insertions. */
    for (size_t i = key_count - 1; i > 0; i--) {
        uint8_t own[40];
        size_t other = draw() % (i + 1);
        memcpy(own, keys + i * width, width);
        memcpy(keys + i * width, keys + other * width, width);
        memcpy(keys + other * width, own, width);
    }
}

static void run_repeat(void)
{
    const void *batch[RTE_HASH_LOOKUP_BULK_MAX];
    void *found[RTE_HASH_LOOKUP_BULK_MAX];
    uint64_t start = 0, hits = 0, sum = 0, mask;
    for (int round = 0; round < 2; round++) {
        start = rte_rdtsc();
        for (size_t first = 0; first < key_count; first += RTE_HASH_LOOKUP_BULK_MAX) {
            unsigned count = key_count - first < RTE_HASH_LOOKUP_BULK_MAX ? key_count - first : RTE_HASH_LOOKUP_BULK_MAX;
            for (unsigned i = 0; i < count; i++)
                batch[i] = keys + (first + i) * width;
            int done = rte_hash_lookup_bulk_data(table, batch, count, &mask, found);
            if (done > 0)
                hits += done;
            sum += (uintptr_t)found[0];
        }
    }
    ticks[repeats_done] = (double)(rte_rdtsc() - start) / key_count;
    if (hits != 2 * key_count || sum == 0)
        die("a key is not found", NULL);
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    start_library();
    fill();
    run_repeats(false, options.repeats, run_repeat);
    qsort(ticks, repeats_done, sizeof(double), by_size);
    printf("{\"peer\":\"rte_hash\",\"family\":%d,\"flows\":%zu,\"batch\":%d,\"repeats\":%u,"
           "\"ticks_per_lookup\":{\"median\":%.3f,\"min\":%.3f}}\n",
           options.family, key_count, RTE_HASH_LOOKUP_BULK_MAX, repeats_done, ticks[repeats_done / 2], ticks[0]);
    rte_eal_cleanup();
    return 0;
}
