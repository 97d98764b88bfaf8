/*
 * What programs that time DPDK's lookups have in common. Whoever includes this defines PEER, the program's name.
 *
 * With --paced, a program prints "ready" when its tables are filled, runs one repeat of every variant for each line that
 * it reads, prints "done" after each, and its results at the end of the input. So two programs can take turns.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_memory.h>

#define BATCH 256
#define MAX_REPEATS 1001

static size_t key_count;
static unsigned repeats_done;

static void die(const char *what, const char *detail)
{
    fprintf(stderr, PEER ": %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    exit(1);
}

/* Without reserved huge pages, the library's memory is ordinary; ask for transparent huge pages, as weir does. */
static int want_huge_pages(const struct rte_memseg_list *list, void *unused)
{
    (void)unused;
    madvise(list->base_va, list->len, MADV_HUGEPAGE);
    return 0;
}

static void start_library(void)
{
    char *arguments[] = {PEER, "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "3072", "-l", "0",
                         "--log-level", "error", "--force-max-simd-bitwidth", "512", NULL};
    if (rte_eal_init(sizeof(arguments) / sizeof(*arguments) - 1, arguments) < 0)
        die("the library does not start", NULL);
    rte_memseg_list_walk(want_huge_pages, NULL);
}

/* Opens a file of keys of so many octets each, and says how many octets there are. */
__attribute__((unused)) static FILE *open_keys(const char *path, size_t width, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        die("cannot open", path);
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    key_count = *size / width;
    if (!key_count || *size % width)
        die("not a whole number of keys in", path);
    return file;
}

__attribute__((unused)) static unsigned batch_at(size_t first)
{
    return key_count - first < BATCH ? key_count - first : BATCH;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs repeats: so many, or one for each line that is read. */
static void run_repeats(bool paced, unsigned repeats, void (*run_repeat)(void))
{
    if (paced) {
        char line[16];
        puts("ready");
        fflush(stdout);
        for (; repeats_done < MAX_REPEATS && fgets(line, sizeof(line), stdin); repeats_done++) {
            run_repeat();
            puts("done");
            fflush(stdout);
        }
    } else {
        for (; repeats_done < repeats; repeats_done++)
            run_repeat();
    }
}
