/* What may have a value: the keys of an event, and each name of an argument with the cells it has filled so far. */
#include <stdlib.h>
#include <string.h>

#include "ktok.h"

#define FIRST_CELLS 64u

const size_t CELL_WIDTHS[CELL_KINDS] = {sizeof(int64_t), sizeof(double), sizeof(int32_t)};

/* NULL: no memory, or no room for one more. */
Slot *slot_add(Tokenizer *tokenizer, const unsigned char *key, size_t length)
{
    if (tokenizer->slot_count == MOST_SLOTS)
        return NULL;
    Slot *slot = calloc(1, sizeof *slot);
    if (slot == NULL)
        return NULL;
    slot->guesses = calloc(CLASSES, sizeof *slot->guesses);
    slot->key = malloc(length + 1);
    if (slot->guesses == NULL || slot->key == NULL) {
        slot_free(slot);
        return NULL;
    }
    memcpy(slot->key, key, length);
    slot->length = length;
    slot->last = NONE;
    slot->last_row = -1;
    tokenizer->slots[tokenizer->slot_count++] = slot;
    return slot;
}

/* The number of an argument's slot, added where the name is new. */
uint32_t slot_of_argument(Tokenizer *tokenizer, const unsigned char *key, size_t length)
{
    uint32_t hash = 2166136261u, mask = 2 * MOST_SLOTS - 1;
    for (size_t place = 0; place < length; place++)
        hash = (hash ^ key[place]) * 16777619u;
    uint32_t place = (hash ^ hash >> 15) & mask;
    for (; tokenizer->slot_places[place]; place = (place + 1) & mask) {
        const Slot *slot = tokenizer->slots[tokenizer->slot_places[place]];
        if (slot->length == length && memcmp(slot->key, key, length) == 0)
            return tokenizer->slot_places[place];
    }
    if (slot_add(tokenizer, key, length) == NULL)
        return NONE;
    tokenizer->slot_places[place] = (uint16_t)(tokenizer->slot_count - 1);
    return tokenizer->slot_count - 1;
}

static int room_for_cell(Cells *cells, Kind kind)
{
    if (cells->count < cells->room)
        return 1;
    uint32_t wanted = cells->room ? cells->room * 2 : FIRST_CELLS;
    int32_t *rows = realloc(cells->rows, wanted * sizeof *rows);
    if (rows == NULL)
        return 0;
    cells->rows = rows;
    void *values = realloc(cells->values, wanted * CELL_WIDTHS[kind]);
    if (values == NULL)
        return 0;
    cells->values = values;
    cells->room = wanted;
    return 1;
}

/* Fill one cell, none for null. An event that names an argument twice is odd: the last counts, which Python sees to. */
Status slot_put(Slot *slot, Kind kind, int64_t row, const Number *number, int32_t code)
{
    if (slot->last_row == row)
        return READ_ODD;
    slot->last_row = row;
    if (kind == NOTHING)
        return READ_OK;
    Cells *cells = &slot->cells[kind];
    if (!room_for_cell(cells, kind))
        return READ_NO_MEMORY;
    cells->rows[cells->count] = (int32_t)row;
    if (kind == WHOLE)
        ((int64_t *)cells->values)[cells->count] = number->whole;
    else if (kind == FRACTION)
        ((double *)cells->values)[cells->count] = number->fraction;
    else
        ((int32_t *)cells->values)[cells->count] = code;
    cells->count++;
    return READ_OK;
}

/* Empty the cell of an event that is not all there. */
void slot_forget(Slot *slot, int64_t row)
{
    for (int kind = 0; kind < CELL_KINDS; kind++) {
        Cells *cells = &slot->cells[kind];
        while (cells->count && cells->rows[cells->count - 1] >= row)
            cells->count--;
    }
    slot->last_row = -1;
}

void slot_free(Slot *slot)
{
    for (int kind = 0; kind < CELL_KINDS; kind++) {
        free(slot->cells[kind].rows);
        free(slot->cells[kind].values);
    }
    free(slot->guesses);
    free(slot->key);
    free(slot);
}
