/* From value to value through a list of events. What stood between two values is remembered with the key it led to, so
 * that next time one comparison takes the place of reading the comma, the blanks, the key and the colon. */
#include <stdlib.h>
#include <string.h>

#include "ktok.h"

static const char *const KEYS[FIRST_ARGUMENT] = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "", "id"};
enum { BEFORE, IN_EVENT, BEFORE_ARGUMENTS, IN_ARGUMENTS };
#define SEEN_ARGUMENTS (1u << FIRST_ARGUMENT)

Status tokenizer_open(Tokenizer *tokenizer)
{
    Core *core = &tokenizer->core;
    size_t row = 4 * sizeof(int32_t) + 2 * sizeof(int64_t);
    core->start_ns = malloc(MOST_ROWS * row);
    tokenizer->slot_places = calloc(2 * MOST_SLOTS, sizeof *tokenizer->slot_places);
    if (core->start_ns == NULL || tokenizer->slot_places == NULL)
        return READ_NO_MEMORY;
    core->dur_ns = core->start_ns + MOST_ROWS;
    core->phase = (int32_t *)(core->dur_ns + MOST_ROWS);
    core->category = core->phase + MOST_ROWS;
    core->name = core->category + MOST_ROWS;
    core->thread = core->name + MOST_ROWS;
    for (int slot = 0; slot < FIRST_ARGUMENT; slot++)
        if (slot_add(tokenizer, (const unsigned char *)KEYS[slot], strlen(KEYS[slot])) == NULL)
            return READ_NO_MEMORY;
    return READ_OK;
}

void tokenizer_empty(Tokenizer *tokenizer)
{
    for (uint32_t slot = 0; slot < tokenizer->slot_count; slot++)
        slot_forget(tokenizer->slots[slot], 0);
    tokenizer->core.rows = 0;
}

void tokenizer_close(Tokenizer *tokenizer)
{
    for (uint32_t slot = 0; slot < tokenizer->slot_count; slot++)
        slot_free(tokenizer->slots[slot]);
    free(tokenizer->slot_places);
    free(tokenizer->core.start_ns);
    spellings_free(&tokenizer->spellings);
    threads_free(&tokenizer->threads);
}

/* ---- one event */

static void begin_event(Tokenizer *tokenizer)
{
    static const Event EMPTY = {.phase = -1, .category = -1, .name = -1, .pid = {NOTHING, 0}, .tid = {NOTHING, 0},
                                .start_ns = ABSENT, .dur_ns = ABSENT};
    tokenizer->event = EMPTY;
}

/* Keep the event; `comma` is where the next one's text begins, or the list's bracket. */
static Status end_event(Tokenizer *tokenizer, const unsigned char *comma)
{
    Core *core = &tokenizer->core;
    const Event *event = &tokenizer->event;
    const Thread thread = {event->pid, event->tid};
    uint32_t code = threads_find(&tokenizer->threads, &thread);
    if (code == NONE)
        return READ_NO_MEMORY;
    core->phase[core->rows] = event->phase;
    core->category[core->rows] = event->category;
    core->name[core->rows] = event->name;
    core->thread[core->rows] = (int32_t)code;
    core->start_ns[core->rows] = event->start_ns;
    core->dur_ns[core->rows] = event->dur_ns;
    core->rows++;
    tokenizer->settled = tokenizer->spellings.count;
    tokenizer->taken = comma;
    begin_event(tokenizer);
    return core->rows == MOST_ROWS ? READ_FULL : READ_OK;
}

static void forget_event(Tokenizer *tokenizer)
{
    for (uint32_t slot = 0; slot < tokenizer->slot_count; slot++) {
        slot_forget(tokenizer->slots[slot], tokenizer->core.rows);
        if (tokenizer->slots[slot]->last != NONE && tokenizer->slots[slot]->last >= tokenizer->settled)
            tokenizer->slots[slot]->last = NONE;
    }
    for (uint32_t gone = tokenizer->settled; gone < tokenizer->spellings.count; gone++)
        tokenizer->slots[tokenizer->spellings.all[gone].slot]->distinct--;
    spellings_forget(&tokenizer->spellings, tokenizer->settled);
}

static Status open_arguments(Tokenizer *tokenizer)
{
    if (tokenizer->event.seen & SEEN_ARGUMENTS)
        return READ_ODD;
    tokenizer->event.seen |= SEEN_ARGUMENTS;
    return READ_OK;
}

/* ---- values */

/* The code of a value as it is written. A text, list or object ends itself: where all of the last one stands here again,
 * it is that one again. */
static Status take_spelling(Tokenizer *tokenizer, uint32_t number, Text *text, int32_t *code)
{
    Slot *slot = tokenizer->slots[number];
    Spellings *known = &tokenizer->spellings;
    int ends_itself = *text->at == '"' || *text->at == '[' || *text->at == '{';
    if (slot->last != NONE && ends_itself) {
        const Spelling *last = &known->all[slot->last];
        if ((size_t)(text->end - text->at) > last->length &&
            scan_same(known->bytes + last->start, text->at, last->length)) {
            text->at += last->length;
            *code = last->code;
            return READ_OK;
        }
    }
    const unsigned char *start = text->at;
    Status status = scan_value(text);
    if (status != READ_OK)
        return status;
    uint32_t found = spellings_find(known, number, start, (size_t)(text->at - start), &slot->distinct);
    if (found == NONE)
        return READ_NO_MEMORY;
    slot->last = found;
    *code = known->all[found].code;
    return READ_OK;
}

static Status take_text(Tokenizer *tokenizer, uint32_t slot, Text *text, int32_t *code)
{
    if (*text->at == '"')
        return take_spelling(tokenizer, slot, text, code);
    return scan_word(text, "null");
}

static Status take_part(Tokenizer *tokenizer, uint32_t slot, Text *text, Part *part)
{
    Number number;
    int32_t code = -1;
    if (*text->at == '"' || *text->at == 'n') {
        Status status = take_text(tokenizer, slot, text, &code);
        *part = code < 0 ? (Part){NOTHING, 0} : (Part){SPELLED, code};
        return status;
    }
    Status status = scan_number(text, &number);
    *part = (Part){WHOLE, number.whole};
    return status == READ_OK && number.kind != WHOLE ? READ_ODD : status;
}

static Status take_time(Text *text, int64_t *nanoseconds)
{
    return *text->at == 'n' ? scan_word(text, "null") : scan_time(text, nanoseconds);
}

static Status take_cell(Tokenizer *tokenizer, uint32_t number, Text *text)
{
    Slot *slot = tokenizer->slots[number];
    const unsigned char *start = text->at;
    Number found = {.kind = SPELLED};
    int32_t code = 0;
    Status status;
    if (*start == '-' || (*start >= '0' && *start <= '9')) {
        status = scan_number(text, &found);
        if (status == READ_OK && found.kind == SPELLED)
            text->at = start;
    } else if (*start == 'n') {
        found.kind = NOTHING;
        status = scan_word(text, "null");
    } else {
        status = READ_OK;
    }
    if (status == READ_OK && found.kind == SPELLED)
        status = take_spelling(tokenizer, number, text, &code);
    return status == READ_OK ? slot_put(slot, found.kind, tokenizer->core.rows, &found, code) : status;
}

static Status take_value(Tokenizer *tokenizer, uint32_t slot, Text *text)
{
    Event *event = &tokenizer->event;
    if (text->at >= text->end)
        return READ_CUT;
    if (slot >= FIRST_ARGUMENT)
        return take_cell(tokenizer, slot, text);
    if (slot == OTHER)
        return scan_value(text);
    if (event->seen & 1u << slot) /* of two equal keys the last counts, which Python sees to */
        return READ_ODD;
    event->seen |= 1u << slot;
    switch (slot) {
    case PHASE:
        return take_text(tokenizer, slot, text, &event->phase);
    case CATEGORY:
        return take_text(tokenizer, slot, text, &event->category);
    case NAME:
        return take_text(tokenizer, slot, text, &event->name);
    case PID:
        return take_part(tokenizer, slot, text, &event->pid);
    case TID:
        return take_part(tokenizer, slot, text, &event->tid);
    case START:
        return take_time(text, &event->start_ns);
    case DURATION:
        return take_time(text, &event->dur_ns);
    default:
        return *text->at == 'n' ? scan_word(text, "null") : take_cell(tokenizer, slot, text);
    }
}

/* ---- from one value to the next */

typedef struct {
    Text text;
    Step step; /* what there is to learn */
    int depth;
    const unsigned char *from;
} Search;

static Status expect(Text *text, char character)
{
    scan_blanks(text);
    if (text->at >= text->end)
        return READ_CUT;
    return *text->at++ == (unsigned char)character ? READ_OK : READ_ODD;
}

/* A key without any sign that is written in another way than it is meant. */
static Status search_key(Search *search, const unsigned char **key, size_t *length)
{
    Text *text = &search->text;
    Status status = expect(text, '"');
    if (status != READ_OK)
        return status;
    *key = text->at;
    while (text->at < text->end && *text->at >= ' ' && *text->at < 0x80 && *text->at != '"' && *text->at != '\\')
        text->at++;
    if (text->at >= text->end)
        return READ_CUT;
    *length = (size_t)(text->at - *key);
    status = *text->at++ == '"' ? expect(text, ':') : READ_ODD;
    scan_blanks(text);
    if (status == READ_OK && text->at >= text->end)
        return READ_CUT;
    return status;
}

static Status search_end_of_event(Tokenizer *tokenizer, Search *search)
{
    Text *text = &search->text;
    scan_blanks(text);
    if (text->at >= text->end)
        return READ_CUT;
    if (*text->at != ',' && *text->at != ']')
        return READ_ODD;
    if (search->step.comma >= 0) /* {}: an event without any value */
        return READ_ODD;
    size_t place = (size_t)(text->at - search->from);
    search->step.comma = (int8_t)(place < STEP_ROOM ? place : 0);
    search->depth = BEFORE;
    int closed = *text->at == ']';
    Status status = end_event(tokenizer, text->at);
    text->at++;
    return closed && (status == READ_OK || status == READ_FULL) ? READ_CLOSED : status;
}

/* After "args" and its colon: into the object, or past one that is empty or null, which is no value to stop at. */
static Status search_arguments(Tokenizer *tokenizer, Search *search)
{
    Text *text = &search->text;
    if (search->step.comma < 0)
        search->step.opens = 1;
    else
        search->step.opens_after = 1;
    Status status = *text->at == 'n' ? scan_word(text, "null") : expect(text, '{');
    if (status == READ_OK && text->at[-1] == '{') {
        scan_blanks(text);
        if (text->at < text->end && *text->at == '}')
            text->at++;
        else
            search->depth = BEFORE_ARGUMENTS;
    }
    return status == READ_OK ? open_arguments(tokenizer) : status;
}

/* The slot of a key of the event; FIRST_ARGUMENT for its arguments. */
static uint32_t slot_of_key(const unsigned char *key, size_t length)
{
    for (uint32_t slot = 0; slot < FIRST_ARGUMENT; slot++)
        if (strlen(KEYS[slot]) == length && memcmp(KEYS[slot], key, length) == 0 && slot != OTHER)
            return slot;
    return length == 4 && memcmp(key, "args", 4) == 0 ? FIRST_ARGUMENT : OTHER;
}

/* Read a key and go to its value; *slot stays NONE where the key was "args", which is no value by itself. */
static Status search_value(Tokenizer *tokenizer, Search *search, uint32_t *slot)
{
    const unsigned char *key;
    size_t length;
    Status status = search_key(search, &key, &length);
    if (status != READ_OK)
        return status;
    if (search->depth == IN_ARGUMENTS) {
        *slot = slot_of_argument(tokenizer, key, length);
        return *slot == NONE ? READ_ODD : READ_OK;
    }
    *slot = slot_of_key(key, length);
    if (*slot != FIRST_ARGUMENT)
        return READ_OK;
    *slot = NONE;
    return search_arguments(tokenizer, search);
}

/* One sign on the way from value to value: an end, or a comma and the key after it. *slot is NONE until a value is met. */
static Status search_on(Tokenizer *tokenizer, Search *search, uint32_t *slot)
{
    Text *text = &search->text;
    scan_blanks(text);
    if (text->at >= text->end)
        return READ_CUT;
    if (search->depth == BEFORE) {
        search->depth = IN_EVENT;
        Status status = expect(text, '{');
        return status == READ_OK ? search_value(tokenizer, search, slot) : status;
    }
    if (search->depth == BEFORE_ARGUMENTS) {
        search->depth = IN_ARGUMENTS;
        return search_value(tokenizer, search, slot);
    }
    unsigned char sign = *text->at++;
    if (sign == '}' && search->depth == IN_ARGUMENTS) {
        search->depth = IN_EVENT;
        return READ_OK;
    }
    if (sign == '}')
        return search_end_of_event(tokenizer, search);
    return sign == ',' ? search_value(tokenizer, search, slot) : READ_ODD;
}

static void learn(Guess *guess, Search *search, uint32_t slot)
{
    size_t length = (size_t)(search->text.at - search->from);
    if (length > STEP_ROOM)
        return;
    if (guess->count < STEPS)
        guess->count++;
    memmove(&guess->steps[1], &guess->steps[0], (guess->count - 1) * sizeof *guess->steps);
    memcpy(search->step.bytes, search->from, length);
    search->step.length = (uint8_t)length;
    search->step.slot = (uint16_t)slot;
    guess->steps[0] = search->step;
}

/* Read what stands before the next value, sign by sign. `guess` is NULL where nothing is to be learned of it. */
static Status search_next(Tokenizer *tokenizer, Text *text, uint32_t *slot, Guess *guess)
{
    Search search = {.text = *text, .step = {.comma = -1}, .from = text->at};
    search.depth = guess == NULL ? BEFORE : *slot < FIRST_ARGUMENT ? IN_EVENT : IN_ARGUMENTS;
    Status status = READ_OK;
    *slot = NONE;
    while (status == READ_OK && *slot == NONE)
        status = search_on(tokenizer, &search, slot);
    if (status == READ_OK && guess != NULL)
        learn(guess, &search, *slot);
    *text = search.text;
    return status;
}

static Status follow(Tokenizer *tokenizer, Text *text, const Step *step)
{
    Status status = step->opens ? open_arguments(tokenizer) : READ_OK;
    if (status == READ_OK && step->comma >= 0)
        status = end_event(tokenizer, text->at + step->comma);
    if (status == READ_OK && step->opens_after)
        status = open_arguments(tokenizer);
    text->at += step->length;
    return status;
}

/* From the end of one value to the start of the next. */
static Status next_value(Tokenizer *tokenizer, Text *text, uint32_t *slot)
{
    Guess *guess = &tokenizer->slots[*slot]->guesses[(uint32_t)tokenizer->event.category % CLASSES];
    size_t left = (size_t)(text->end - text->at);
    for (uint32_t place = 0; place < guess->count; place++) {
        const Step *step = &guess->steps[place];
        if (step->length < left && scan_same(step->bytes, text->at, step->length)) {
            *slot = step->slot;
            return follow(tokenizer, text, step);
        }
    }
    return search_next(tokenizer, text, slot, guess);
}

/* Read events from the comma or bracket before the first one on. tokenizer->taken tells how far all is read. */
Status tokenizer_read(Tokenizer *tokenizer, Text text)
{
    uint32_t slot = NONE;
    tokenizer->taken = text.at++;
    begin_event(tokenizer);
    Status status = tokenizer->core.rows < MOST_ROWS ? search_next(tokenizer, &text, &slot, NULL) : READ_FULL;
    while (status == READ_OK) {
        status = take_value(tokenizer, slot, &text);
        if (status == READ_OK)
            status = next_value(tokenizer, &text, &slot);
    }
    if (status != READ_CLOSED)
        forget_event(tokenizer);
    return status;
}
