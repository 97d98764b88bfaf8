/*
 * Packet classification by DPDK's rte_acl, timed in TSC ticks.
 *
 *   peer-acl --rules FILE --keys FILE [--every N] [--repeats N] [--paced]
 *
 * FILE of rules: IPv4, as ClassBench writes them: "@src/len dst/len sport : sport dport : dport proto/mask flags/mask".
 * Of these, the first of every N are taken. The n-th rule taken, from zero, has the answer 1 + n; 0 is the answer for no
 * rule; the first match wins. FILE of keys: 16 octets each, in network order: source, destination, source port,
 * destination port, flags (2), protocol, and one octet that does not count. Keys are looked up in batches of 256.
 *
 * One JSON line is printed per variant that the CPU and the library have. The checksum is over all answers in the order
 * of keys: h = 31 h + answer, modulo 2^64.
 *
 * --paced is for taking turns with another program (see peer.h).
 */
#define PEER "peer-acl"
#include "peer.h"

#include <rte_acl.h>
#include <rte_byteorder.h>

#define FIELDS 7

/* As in the file of keys; the library wants the first field alone, and the others four octets at a time. */
struct key {
    uint8_t protocol;
    uint8_t unused[3];
    uint8_t rest[16]; /* source, destination, ports, flags, two octets of zeros */
    uint8_t pad[12];
};

RTE_ACL_RULE_DEF(rule, FIELDS);

static struct variant {
    const char *name;
    enum rte_acl_classify_alg algorithm;
    bool there;
    uint64_t checksum;
    double ticks[MAX_REPEATS];
} variants[] = {
    {.name = "avx2", .algorithm = RTE_ACL_CLASSIFY_AVX2},
    {.name = "avx512x16", .algorithm = RTE_ACL_CLASSIFY_AVX512X16},
    {.name = "avx512x32", .algorithm = RTE_ACL_CLASSIFY_AVX512X32},
};

#define VARIANTS (sizeof(variants) / sizeof(*variants))

static const struct rte_acl_field_def fields[FIELDS] = {
    {RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, offsetof(struct key, protocol)},
    {RTE_ACL_FIELD_TYPE_MASK, 4, 1, 1, offsetof(struct key, rest)},
    {RTE_ACL_FIELD_TYPE_MASK, 4, 2, 2, offsetof(struct key, rest) + 4},
    {RTE_ACL_FIELD_TYPE_RANGE, 2, 3, 3, offsetof(struct key, rest) + 8},
    {RTE_ACL_FIELD_TYPE_RANGE, 2, 4, 3, offsetof(struct key, rest) + 10},
    {RTE_ACL_FIELD_TYPE_BITMASK, 2, 5, 4, offsetof(struct key, rest) + 12},
    /* The library reads four octets at a time: the last two count for nothing. */
    {RTE_ACL_FIELD_TYPE_BITMASK, 2, 6, 4, offsetof(struct key, rest) + 14},
};

static struct {
    const char *rules;
    const char *keys;
    unsigned every;
    unsigned repeats;
    bool paced;
} options = {.every = 1, .repeats = 15};

static struct key *keys;
static const uint8_t **pointers;
static size_t rule_count;
static double build_ms;
static struct rte_acl_ctx *context;

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
        if (!strcmp(name, "--rules"))
            options.rules = value;
        else if (!strcmp(name, "--keys"))
            options.keys = value;
        else if (!strcmp(name, "--every"))
            options.every = atoi(value);
        else if (!strcmp(name, "--repeats"))
            options.repeats = atoi(value);
        else
            die("unknown option", name);
    }
    if (!options.rules || !options.keys)
        die("--rules and --keys are needed", NULL);
    if (options.repeats < 1 || options.repeats > MAX_REPEATS || options.every < 1)
        die("--repeats or --every out of range", NULL);
}

static void read_keys(void)
{
    size_t size;
    FILE *file = open_keys(options.keys, 16, &size);
    keys = aligned_alloc(64, (key_count * sizeof(*keys) + 63) / 64 * 64);
    pointers = malloc(key_count * sizeof(*pointers));
    if (!keys || !pointers)
        die("no memory for keys", NULL);
    memset(keys, 0, key_count * sizeof(*keys));
    for (size_t i = 0; i < key_count; i++) {
        uint8_t record[16];
        if (fread(record, 1, sizeof(record), file) != sizeof(record))
            die("cannot read", options.keys);
        memcpy(keys[i].rest, record, 14);
        keys[i].protocol = record[14];
        pointers[i] = (const uint8_t *)&keys[i];
    }
    fclose(file);
}

static bool read_rule(const char *line, struct rule *rule)
{
    unsigned s[5], d[5], port[4], protocol, protocol_mask, flags, flags_mask;
    int read = sscanf(line, "@%u.%u.%u.%u/%u %u.%u.%u.%u/%u %u : %u %u : %u %x/%x %x/%x", &s[0], &s[1], &s[2], &s[3],
                      &s[4], &d[0], &d[1], &d[2], &d[3], &d[4], &port[0], &port[1], &port[2], &port[3], &protocol,
                      &protocol_mask, &flags, &flags_mask);
    if (read != 18)
        return false;
    rule->field[0].value.u8 = protocol;
    rule->field[0].mask_range.u8 = protocol_mask;
    rule->field[1].value.u32 = s[0] << 24 | s[1] << 16 | s[2] << 8 | s[3];
    rule->field[1].mask_range.u32 = s[4];
    rule->field[2].value.u32 = d[0] << 24 | d[1] << 16 | d[2] << 8 | d[3];
    rule->field[2].mask_range.u32 = d[4];
    for (int i = 0; i < 2; i++) {
        rule->field[3 + i].value.u16 = port[2 * i];
        rule->field[3 + i].mask_range.u16 = port[2 * i + 1];
    }
    rule->field[5].value.u16 = flags & flags_mask;
    rule->field[5].mask_range.u16 = flags_mask;
    return true;
}

static void fill(void)
{
    struct rte_acl_param parameters = {.name = "acl", .socket_id = SOCKET_ID_ANY, .rule_size = RTE_ACL_RULE_SZ(FIELDS),
                                       .max_rule_num = 1 << 20};
    struct rte_acl_config config = {.num_categories = 1, .num_fields = FIELDS};
    FILE *file = fopen(options.rules, "r");
    char line[256];
    size_t lines = 0;
    if (!file)
        die("cannot open", options.rules);
    context = rte_acl_create(&parameters);
    if (!context)
        die("no memory for rules", NULL);
    while (fgets(line, sizeof(line), file)) {
        struct rule rule;
        memset(&rule, 0, sizeof(rule));
        if (!read_rule(line, &rule))
            die("not a rule", line);
        if (lines++ % options.every)
            continue;
        rule.data.category_mask = 1;
        rule.data.priority = RTE_ACL_MAX_PRIORITY - rule_count;
        rule.data.userdata = ++rule_count;
        if (rte_acl_add_rules(context, (struct rte_acl_rule *)&rule, 1))
            die("the library refuses a rule", line);
    }
    fclose(file);
    memcpy(config.defs, fields, sizeof(fields));
    uint64_t start = rte_rdtsc();
    if (rte_acl_build(context, &config))
        die("the library cannot build its tables", NULL);
    build_ms = (double)(rte_rdtsc() - start) * 1000 / rte_get_tsc_hz();
}

static void check(struct variant *variant)
{
    uint32_t answers[BATCH];
    for (size_t first = 0; first < key_count; first += BATCH) {
        if (rte_acl_classify_alg(context, pointers + first, answers, batch_at(first), 1, variant->algorithm))
            return;
        for (unsigned i = 0; i < batch_at(first); i++)
            variant->checksum = variant->checksum * 31 + answers[i];
    }
    variant->there = true;
}

static void run_repeat(void)
{
    uint32_t answers[BATCH];
    for (unsigned v = 0; v < VARIANTS; v++) {
        uint64_t start = 0;
        if (!variants[v].there)
            continue;
        /* The first of the two rounds is not counted: whoever ran before has left other things in the caches. */
        for (int round = 0; round < 2; round++) {
            start = rte_rdtsc();
            for (size_t first = 0; first < key_count; first += BATCH)
                rte_acl_classify_alg(context, pointers + first, answers, batch_at(first), 1, variants[v].algorithm);
        }
        variants[v].ticks[repeats_done] = (double)(rte_rdtsc() - start) / key_count;
    }
}

static void print_results(void)
{
    for (unsigned v = 0; v < VARIANTS; v++) {
        struct variant *variant = &variants[v];
        if (!variant->there)
            continue;
        qsort(variant->ticks, repeats_done, sizeof(double), by_size);
        printf("{\"peer\":\"rte_acl\",\"variant\":\"%s\",\"rules\":%zu,\"keys\":%zu,\"batch\":%d,\"repeats\":%u,"
               "\"build_ms\":%.1f,\"ticks_per_lookup\":{\"median\":%.3f,\"min\":%.3f},\"checksum\":\"%016" PRIx64 "\"}\n",
               variant->name, rule_count, key_count, BATCH, repeats_done, build_ms, variant->ticks[repeats_done / 2],
               variant->ticks[0], variant->checksum);
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    start_library();
    read_keys();
    fill();
    for (unsigned v = 0; v < VARIANTS; v++)
        check(&variants[v]);
    run_repeats(options.paced, options.repeats, run_repeat);
    if (repeats_done)
        print_results();
    fflush(stdout);
    rte_eal_cleanup();
    return 0;
}
