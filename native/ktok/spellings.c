/* Each distinct text, list or object as it is written, kept once; each distinct pair of process and thread likewise. */
#include <stdlib.h>
#include <string.h>

#include "ktok.h"

#define FIRST_ROOM 1024u
#define FIRST_BYTES 65536u
#define MOST_SPELLINGS (1u << 30)

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
    return hash ^ (hash >> 29);
}

static uint64_t hash_of(uint32_t slot, const unsigned char *bytes, size_t length)
{
    uint64_t hash = mixed(slot, length), word;
    size_t place = 0;
    for (; place + 8 <= length; place += 8) {
        memcpy(&word, bytes + place, 8);
        hash = mixed(hash, word);
    }
    word = 0;
    memcpy(&word, bytes + place, length - place);
    return mixed(hash, word);
}

/* Room for one entry more, and a table of places that is at most half full. */
static int grown(void **all, size_t size, uint32_t **places, uint32_t *most, uint32_t *mask)
{
    uint32_t wanted = *most ? *most * 2 : FIRST_ROOM;
    if (wanted > MOST_SPELLINGS)
        return 0;
    void *entries = realloc(*all, wanted * size);
    if (entries == NULL)
        return 0;
    *all = entries;
    uint32_t *table = malloc(wanted * 2 * sizeof *table);
    if (table == NULL)
        return 0;
    memset(table, 0xFF, wanted * 2 * sizeof *table);
    free(*places);
    *places = table;
    *most = wanted;
    *mask = wanted * 2 - 1;
    return 1;
}

static uint32_t free_place(const uint32_t *places, uint32_t mask, uint64_t hash)
{
    uint32_t place = (uint32_t)hash & mask;
    while (places[place] != NONE)
        place = (place + 1) & mask;
    return place;
}

static int room_for_spelling(Spellings *known, size_t length)
{
    if (known->used + length > known->room) {
        size_t wanted = known->room ? known->room : FIRST_BYTES;
        while (wanted < known->used + length)
            wanted += wanted / 2;
        unsigned char *bytes = realloc(known->bytes, wanted);
        if (bytes == NULL)
            return 0;
        known->bytes = bytes;
        known->room = wanted;
    }
    if (known->count < known->most)
        return 1;
    if (!grown((void **)&known->all, sizeof *known->all, &known->places, &known->most, &known->mask))
        return 0;
    for (uint32_t index = 0; index < known->count; index++) /* in the order they came: see spellings_forget */
        known->places[free_place(known->places, known->mask, known->all[index].hash)] = index;
    return 1;
}

/* The index of a spelling, added where it is new; `distinct` counts those of its slot. NONE: no memory. */
uint32_t spellings_find(Spellings *known, uint32_t slot, const unsigned char *bytes, size_t length, int32_t *distinct)
{
    uint64_t hash = hash_of(slot, bytes, length);
    for (uint32_t place = (uint32_t)hash & known->mask; known->count && known->places[place] != NONE;
         place = (place + 1) & known->mask) {
        const Spelling *found = &known->all[known->places[place]];
        if (found->hash == hash && found->slot == slot && found->length == length &&
            scan_same(known->bytes + found->start, bytes, length))
            return known->places[place];
    }
    if (length >= NONE || !room_for_spelling(known, length))
        return NONE;
    Spelling *added = &known->all[known->count];
    *added = (Spelling){hash, known->used, (uint32_t)length, slot, (*distinct)++};
    memcpy(known->bytes + known->used, bytes, length);
    known->used += length;
    known->places[free_place(known->places, known->mask, hash)] = known->count;
    return known->count++;
}

/* Take back the latest spellings: nothing that came earlier was ever placed behind them, so their places just go free. */
void spellings_forget(Spellings *known, uint32_t keep)
{
    while (known->count > keep) {
        const Spelling *gone = &known->all[--known->count];
        uint32_t place = (uint32_t)gone->hash & known->mask;
        while (known->places[place] != known->count)
            place = (place + 1) & known->mask;
        known->places[place] = NONE;
        known->used = gone->start;
    }
}

void spellings_free(Spellings *known)
{
    free(known->all);
    free(known->places);
    free(known->bytes);
}

static int same_part(const Part *one, const Part *other) { return one->kind == other->kind && one->value == other->value; }

static int same_thread(const Thread *one, const Thread *other)
{
    return same_part(&one->pid, &other->pid) && same_part(&one->tid, &other->tid);
}

static uint64_t hash_of_thread(const Thread *thread)
{
    uint64_t kinds = (uint64_t)thread->pid.kind * KINDS + thread->tid.kind;
    return mixed(mixed(kinds, (uint64_t)thread->pid.value), (uint64_t)thread->tid.value);
}

/* The code of a thread, added where it is new. NONE: no memory. */
uint32_t threads_find(Threads *known, const Thread *thread)
{
    if (known->count && same_thread(&known->all[known->last], thread))
        return known->last;
    uint64_t hash = hash_of_thread(thread);
    for (uint32_t place = (uint32_t)hash & known->mask; known->count && known->places[place] != NONE;
         place = (place + 1) & known->mask)
        if (same_thread(&known->all[known->places[place]], thread))
            return known->last = known->places[place];
    if (known->count == known->most) {
        if (!grown((void **)&known->all, sizeof *known->all, &known->places, &known->most, &known->mask))
            return NONE;
        for (uint32_t index = 0; index < known->count; index++)
            known->places[free_place(known->places, known->mask, hash_of_thread(&known->all[index]))] = index;
    }
    known->all[known->count] = *thread;
    known->places[free_place(known->places, known->mask, hash)] = known->count;
    return known->last = known->count++;
}

void threads_free(Threads *known)
{
    free(known->all);
    free(known->places);
}
