/*
 * Longest-prefix match by DPDK's rte_fib (IPv4, DIR-24-8) and rte_fib6 (IPv6, trie), timed in TSC ticks.
 *
 *   peer-lpm --family 4|6 --prefixes FILE --keys FILE [--repeats N] [--modulus M] [--paced]
 *
 * FILE of prefixes: text, one ADDRESS/LENGTH a line; lines of the other family are skipped. The n-th prefix of the
 * family, from zero, gets the next hop 1 + n mod M; 0 is the answer for no route. FILE of keys: addresses in network
 * order, 4 or 16 octets each. Keys are looked up in batches of 256.
 *
 * One JSON line is printed per variant: scalar and AVX-512 (if the CPU and the library have it), for the smallest next
 * hop that fits and for the next larger one. The checksum is over all next hops in the order of keys: h = 31 h + nh,
 * modulo 2^64.
 *
 * --paced is for taking turns with another program (see peer.h).
 */
#define PEER "peer-lpm"
#include "peer.h"

#include <arpa/inet.h>

#include <rte_fib.h>
#include <rte_fib6.h>

#define MAX_VARIANTS 4

struct variant {
    const char *name;
    unsigned hop_bytes;
    struct rte_fib *fib4;
    struct rte_fib6 *fib6;
    int lookup; /* enum rte_fib_lookup_type or rte_fib6_lookup_type */
    uint64_t checksum;
    double ticks[MAX_REPEATS];
};

static struct {
    int family;
    const char *prefixes;
    const char *keys;
    unsigned repeats;
    uint64_t modulus;
    bool paced;
} options = {.repeats = 15, .modulus = 32000};

static uint8_t *keys;   /* as the library wants them: host-order words, or octets */
static size_t route_count;
static struct variant variants[MAX_VARIANTS];
static unsigned variant_count;

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (!strcmp(name, "--paced")) {
            options.paced = true;
            continue;
        }
        if (++i >= argc)
            die("no value for", name);
        const char *value = argv[i];
        if (!strcmp(name, "--family"))
            options.family = atoi(value);
        else if (!strcmp(name, "--prefixes"))
            options.prefixes = value;
        else if (!strcmp(name, "--keys"))
            options.keys = value;
        else if (!strcmp(name, "--repeats"))
            options.repeats = atoi(value);
        else if (!strcmp(name, "--modulus"))
            options.modulus = strtoull(value, NULL, 10);
        else
            die("unknown option", name);
    }
    if (options.family != 4 && options.family != 6)
        die("--family is 4 or 6", NULL);
    if (!options.prefixes || !options.keys)
        die("--prefixes and --keys are needed", NULL);
    if (options.repeats < 1 || options.repeats > MAX_REPEATS || options.modulus < 1)
        die("--repeats or --modulus out of range", NULL);
}

static void read_keys(void)
{
    size_t size;
    FILE *file = open_keys(options.keys, options.family == 4 ? 4 : 16, &size);
    keys = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!keys || fread(keys, 1, size, file) != size)
        die("cannot read", options.keys);
    fclose(file);
    if (options.family == 4)
        for (size_t i = 0; i < key_count; i++)
            ((uint32_t *)keys)[i] = ntohl(((uint32_t *)keys)[i]);
}

/* Adds every prefix of the file to a table; false if the table has no room. */
static bool fill(struct rte_fib *fib4, struct rte_fib6 *fib6)
{
    FILE *file = fopen(options.prefixes, "r");
    char line[128];
    if (!file)
        die("cannot open", options.prefixes);
    route_count = 0;
    while (fgets(line, sizeof(line), file)) {
        bool is6 = strchr(line, ':') != NULL;
        char *slash = strchr(line, '/');
        if (!slash || is6 != (options.family == 6))
            continue;
        *slash = 0;
        int length = atoi(slash + 1), failed;
        uint64_t hop = 1 + route_count % options.modulus;
        uint8_t address[16];
        if (inet_pton(is6 ? AF_INET6 : AF_INET, line, address) != 1)
            die("not an address", line);
        if (is6) {
            failed = rte_fib6_add(fib6, address, length, hop);
        } else {
            uint32_t word;
            memcpy(&word, address, 4);
            failed = rte_fib_add(fib4, ntohl(word), length, hop);
        }
        if (failed) {
            fclose(file);
            return false;
        }
        route_count++;
    }
    fclose(file);
    return true;
}

static struct rte_fib *new_fib4(unsigned hop_bytes)
{
    struct rte_fib_conf conf = {.type = RTE_FIB_DIR24_8, .default_nh = 0, .max_routes = 1 << 21};
    char name[16];
    conf.dir24_8.nh_sz = hop_bytes == 2 ? RTE_FIB_DIR24_8_2B : hop_bytes == 4 ? RTE_FIB_DIR24_8_4B : RTE_FIB_DIR24_8_8B;
    conf.dir24_8.num_tbl8 = hop_bytes == 2 ? 1 << 14 : 1 << 16;
    snprintf(name, sizeof(name), "fib4-%u", hop_bytes);
    return rte_fib_create(name, SOCKET_ID_ANY, &conf);
}

static struct rte_fib6 *new_fib6(unsigned hop_bytes)
{
    struct rte_fib6_conf conf = {.type = RTE_FIB6_TRIE, .default_nh = 0, .max_routes = 1 << 20};
    char name[16];
    conf.trie.nh_sz = hop_bytes == 2 ? RTE_FIB6_TRIE_2B : hop_bytes == 4 ? RTE_FIB6_TRIE_4B : RTE_FIB6_TRIE_8B;
    conf.trie.num_tbl8 = hop_bytes == 2 ? (1 << 15) - 1 : 1 << 18;
    snprintf(name, sizeof(name), "fib6-%u", hop_bytes);
    return rte_fib6_create(name, SOCKET_ID_ANY, &conf);
}

static void add_variant(const char *name, unsigned hop_bytes, struct rte_fib *fib4, struct rte_fib6 *fib6, int lookup)
{
    int failed = fib4 ? rte_fib_select_lookup(fib4, lookup) : rte_fib6_select_lookup(fib6, lookup);
    if (!failed)
        variants[variant_count++] = (struct variant){name, hop_bytes, fib4, fib6, lookup, 0, {0}};
}

/* The smallest next hop that takes the routes, and the next larger one. */
static void make_variants(void)
{
    for (unsigned hop_bytes = 2; hop_bytes <= 8 && variant_count <= 2; hop_bytes *= 2) {
        uint64_t largest = (UINT64_C(1) << (8 * hop_bytes - 1)) - 1;
        if (options.modulus > largest)
            continue;
        struct rte_fib *fib4 = options.family == 4 ? new_fib4(hop_bytes) : NULL;
        struct rte_fib6 *fib6 = options.family == 6 ? new_fib6(hop_bytes) : NULL;
        if (!fib4 && !fib6)
            die("no memory for a table", NULL);
        if (!fill(fib4, fib6)) {
            rte_fib_free(fib4);
            rte_fib6_free(fib6);
            continue;
        }
        if (fib4) {
            add_variant("scalar", hop_bytes, fib4, NULL, RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO);
            add_variant("avx512", hop_bytes, fib4, NULL, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512);
        } else {
            add_variant("scalar", hop_bytes, NULL, fib6, RTE_FIB6_LOOKUP_TRIE_SCALAR);
            add_variant("avx512", hop_bytes, NULL, fib6, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512);
        }
    }
    if (!variant_count)
        die("the routes fit no table", NULL);
}

static inline void look_up(struct variant *variant, size_t first, unsigned count, uint64_t *hops)
{
    if (variant->fib4)
        rte_fib_lookup_bulk(variant->fib4, (uint32_t *)keys + first, hops, count);
    else
        rte_fib6_lookup_bulk(variant->fib6, (uint8_t(*)[RTE_FIB6_IPV6_ADDR_SIZE])(keys + 16 * first), hops, count);
}

static void select_lookup(struct variant *variant)
{
    if (variant->fib4)
        rte_fib_select_lookup(variant->fib4, variant->lookup);
    else
        rte_fib6_select_lookup(variant->fib6, variant->lookup);
}

static void check(struct variant *variant)
{
    uint64_t hops[BATCH];
    select_lookup(variant);
    for (size_t first = 0; first < key_count; first += BATCH) {
        look_up(variant, first, batch_at(first), hops);
        for (unsigned i = 0; i < batch_at(first); i++)
            variant->checksum = variant->checksum * 31 + hops[i];
    }
}

static void run_repeat(void)
{
    uint64_t hops[BATCH];
    for (unsigned v = 0; v < variant_count; v++) {
        uint64_t start = 0;
        select_lookup(&variants[v]);
        /* The first of the two rounds is not counted: whoever ran before has left other things in the caches. */
        for (int round = 0; round < 2; round++) {
            start = rte_rdtsc();
            for (size_t first = 0; first < key_count; first += BATCH)
                look_up(&variants[v], first, batch_at(first), hops);
        }
        variants[v].ticks[repeats_done] = (double)(rte_rdtsc() - start) / key_count;
    }
}

static void print_results(void)
{
    for (unsigned v = 0; v < variant_count; v++) {
        struct variant *variant = &variants[v];
        qsort(variant->ticks, repeats_done, sizeof(double), by_size);
        printf("{\"peer\":\"%s\",\"variant\":\"%s\",\"family\":%d,\"next_hop_bytes\":%u,\"routes\":%zu,\"keys\":%zu,"
               "\"batch\":%d,\"repeats\":%u,\"ticks_per_lookup\":{\"median\":%.3f,\"min\":%.3f},"
               "\"checksum\":\"%016" PRIx64 "\"}\n",
               variant->fib4 ? "rte_fib" : "rte_fib6", variant->name, options.family, variant->hop_bytes, route_count,
               key_count, BATCH, repeats_done, variant->ticks[repeats_done / 2], variant->ticks[0], variant->checksum);
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    start_library();
    read_keys();
    make_variants();
    for (unsigned v = 0; v < variant_count; v++)
        check(&variants[v]);
    run_repeats(options.paced, options.repeats, run_repeat);
    if (repeats_done)
        print_results();
    fflush(stdout);
    rte_eal_cleanup();
    return 0;
}
