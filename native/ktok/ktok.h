/* The events of a chrome trace from JSON text into columns: what the parts of the tokenizer know of each other.
 *
 * It takes the usual text and nothing else. Whatever it is not certain of it leaves, from the start of that event on, to
 * the reader in Python, which knows every kind of damage: so speed costs no exactness.
 */
#ifndef KTOK_H
#define KTOK_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    READ_OK,
    READ_CUT,       /* the text ends here, the event does not */
    READ_ODD,       /* not for us: broken, or right and rare */
    READ_FULL,      /* the columns hold as many rows as they may */
    READ_CLOSED,    /* the list of events has ended */
    READ_NO_MEMORY,
} Status;

typedef struct {
    const unsigned char *at, *end;
} Text;

/* ---- scan.c: one value of JSON at a time. Each moves text->at past the value, or to nowhere certain if not READ_OK. */

typedef enum { WHOLE, FRACTION, SPELLED, NOTHING, KINDS } Kind; /* SPELLED: kept as it is written; NOTHING: null */

typedef struct {
    Kind kind;
    int64_t whole;
    double fraction;
} Number;

void scan_blanks(Text *text);
Status scan_string(Text *text);
Status scan_number(Text *text, Number *number);
Status scan_time(Text *text, int64_t *nanoseconds); /* from microseconds */
Status scan_word(Text *text, const char *word);
Status scan_value(Text *text);
int scan_same(const unsigned char *one, const unsigned char *other, size_t length);

/* ---- spellings.c: each distinct value that is no number is kept once, as it is written; and each distinct thread. */

#define NONE UINT32_MAX

typedef struct {
    uint64_t hash;
    size_t start;
    uint32_t length;
    uint32_t slot;
    int32_t code; /* counts from 0 in each slot */
} Spelling;

typedef struct {
    Spelling *all;
    uint32_t *places; /* hash table: indices into all, NONE for free */
    unsigned char *bytes;
    size_t used, room;
    uint32_t count, most, mask;
} Spellings;

typedef struct {
    Kind kind; /* WHOLE, SPELLED, NOTHING */
    int64_t value;
} Part; /* of a thread: its pid or tid */

typedef struct {
    Part pid, tid;
} Thread;

typedef struct {
    Thread *all;
    uint32_t *places;
    uint32_t count, most, mask, last;
} Threads;

uint32_t spellings_find(Spellings *known, uint32_t slot, const unsigned char *bytes, size_t length, int32_t *distinct);
void spellings_forget(Spellings *known, uint32_t keep);
void spellings_free(Spellings *known);
uint32_t threads_find(Threads *known, const Thread *thread);
void threads_free(Threads *known);

/* ---- events.c: the events, and what is learned of how they are written. */

#define MOST_ROWS 32768u /* what is handed over at once: some MB */
#define MOST_SLOTS 1024u /* a file with more names of arguments makes them up */
#define CLASSES 8u       /* categories are told apart by as much */
#define STEPS 4u
#define STEP_ROOM 104u
#define CELL_KINDS NOTHING

enum { PHASE, CATEGORY, NAME, PID, TID, START, DURATION, OTHER, ID, FIRST_ARGUMENT };

#define ABSENT (-((int64_t)1 << 62)) /* the reader's own word for a missing time */

typedef struct {
    int32_t *rows;
    void *values; /* int64_t, double, or int32_t codes of spellings: CELL_WIDTHS */
    uint32_t count, room;
} Cells;

typedef struct {
    unsigned char bytes[STEP_ROOM]; /* from the end of one value to the start of the next */
    uint8_t length;
    int8_t comma;                  /* where in it one event ends and the next begins, -1: it does not */
    uint8_t opens, opens_after;    /* "args" before that comma, and after */
    uint16_t slot;                 /* whose value comes next */
} Step;

typedef struct {
    Step steps[STEPS];
    uint32_t count;
} Guess;

typedef struct {
    unsigned char *key;
    size_t length;
    Cells cells[CELL_KINDS];
    int32_t distinct;
    uint32_t last; /* the spelling met last */
    int64_t last_row;
    Guess *guesses; /* CLASSES of them */
} Slot;

typedef struct {
    int32_t phase, category, name;
    Part pid, tid;
    int64_t start_ns, dur_ns;
    uint32_t seen; /* bits of the keys met */
} Event;

typedef struct {
    int32_t *phase, *category, *name, *thread;
    int64_t *start_ns, *dur_ns;
    uint32_t rows;
} Core;

typedef struct {
    Slot *slots[MOST_SLOTS];
    uint32_t slot_count;
    uint16_t *slot_places; /* hash table of the arguments' names */
    Spellings spellings;
    Threads threads;
    uint32_t settled; /* spellings of events that are all there */
    uint32_t spellings_given, threads_given;
    Core core;
    Event event;
    const unsigned char *taken; /* the comma after the last event that is all there */
} Tokenizer;

Status tokenizer_open(Tokenizer *tokenizer);
Status tokenizer_read(Tokenizer *tokenizer, Text text);
void tokenizer_empty(Tokenizer *tokenizer); /* of rows; what was learned stays */
void tokenizer_close(Tokenizer *tokenizer);

/* ---- slots.c: one for each key of an event and each name of an argument. */

extern const size_t CELL_WIDTHS[CELL_KINDS];
Slot *slot_add(Tokenizer *tokenizer, const unsigned char *key, size_t length);
uint32_t slot_of_argument(Tokenizer *tokenizer, const unsigned char *key, size_t length); /* NONE: no room */
Status slot_put(Slot *slot, Kind kind, int64_t row, const Number *number, int32_t code);
void slot_forget(Slot *slot, int64_t row);
void slot_free(Slot *slot);

#endif
