/* One value of JSON at a time: text, numbers, times to the nanosecond, and whatever is passed over. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <string.h>

#include "ktok.h"

#define MOST_DIGITS 18           /* of a whole number that fits 64 bits whatever they are */
#define LONGEST_NUMBER 64        /* characters */
#define DEEPEST 32               /* lists within lists */
#define MOST_MICROSECONDS 4000000000000000LL /* 126 years; what is later may be no time, which Python decides */
#define EXACT_BELOW 8796093022208.0          /* microseconds of which a double tells every nanosecond: 2^43 */
#define EXACT_WHOLE ((uint64_t)1 << 53)      /* whole numbers up to which a double is exact */
#define EXACT_POWER 22                       /* and powers of ten */

static const double POWERS[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                               1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static int is_digit(unsigned char character) { return character >= '0' && character <= '9'; }

/* Whether two stretches are equal; eight bytes at a time, for most are short and memcmp is a call. */
int scan_same(const unsigned char *one, const unsigned char *other, size_t length)
{
    uint64_t a, b;
    if (length < 8) {
        for (size_t place = 0; place < length; place++)
            if (one[place] != other[place])
                return 0;
        return 1;
    }
    for (size_t place = 0; place + 8 <= length; place += 8) {
        memcpy(&a, one + place, 8);
        memcpy(&b, other + place, 8);
        if (a != b)
            return 0;
    }
    memcpy(&a, one + length - 8, 8);
    memcpy(&b, other + length - 8, 8);
    return a == b;
}

void scan_blanks(Text *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\n' || *text->at == '\r' || *text->at == '\t'))
        text->at++;
}

/* ---- text */

static int hexadecimal(const unsigned char *at)
{
    int value = 0;
    for (int place = 0; place < 4; place++) {
        unsigned char character = at[place];
        int digit = is_digit(character)                        ? character - '0'
                    : character >= 'a' && character <= 'f'     ? character - 'a' + 10
                    : character >= 'A' && character <= 'F'     ? character - 'A' + 10
                                                               : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* \uXXXX, and the second half where it is one of two. Half a character is damage, and NUL means "no text" in Python. */
static Status scan_code_point(Text *text)
{
    if (text->end - text->at < 12)
        return READ_CUT;
    int value = hexadecimal(text->at + 2);
    text->at += 6;
    if (value <= 0)
        return READ_ODD;
    if (value < 0xD800 || value > 0xDFFF)
        return READ_OK;
    if (value > 0xDBFF || text->at[0] != '\\' || text->at[1] != 'u')
        return READ_ODD;
    value = hexadecimal(text->at + 2);
    text->at += 6;
    return value >= 0xDC00 && value <= 0xDFFF ? READ_OK : READ_ODD;
}

static Status scan_escape(Text *text)
{
    if (text->end - text->at < 2)
        return READ_CUT;
    if (text->at[1] == 'u')
        return scan_code_point(text);
    if (text->at[1] == 0 || strchr("\"\\/bfnrt", text->at[1]) == NULL)
        return READ_ODD;
    text->at += 2;
    return READ_OK;
}

/* One character of several bytes, as UTF-8 allows it: in its shortest form, no half, not beyond the last one. */
static Status scan_wide(Text *text)
{
    unsigned char first = text->at[0];
    int length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4)
        return READ_ODD;
    if (text->end - text->at < length)
        return READ_CUT;
    unsigned char second = text->at[1];
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second > 0x8F))
        return READ_ODD;
    for (int place = 1; place < length; place++)
        if ((text->at[place] & 0xC0) != 0x80)
            return READ_ODD;
    text->at += length;
    return READ_OK;
}

#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define EACH(byte) (0x0101010101010101ULL * (byte))

/* Move over the plain characters of a text, eight at a time: those that are neither ", nor \, nor of several bytes. */
static void scan_plain(Text *text)
{
    while (text->end - text->at >= 8) {
        uint64_t word;
        memcpy(&word, text->at, 8);
        uint64_t quote = word ^ EACH('"'), backslash = word ^ EACH('\\');
        uint64_t found = ((quote - EACH(1)) & ~quote) | ((backslash - EACH(1)) & ~backslash) | word;
        found &= EACH(0x80);
        if (found) { /* the lowest mark is right; those above it may come of a carry */
            text->at += __builtin_ctzll(found) >> 3;
            return;
        }
        text->at += 8;
    }
}
#else
static void scan_plain(Text *text) { (void)text; }
#endif

Status scan_string(Text *text)
{
    text->at++;
    for (;;) {
        scan_plain(text);
        if (text->at >= text->end)
            return READ_CUT;
        unsigned char character = *text->at;
        Status status = READ_OK;
        if (character == '"') {
            text->at++;
            return READ_OK;
        }
        if (character == '\\')
            status = scan_escape(text);
        else if (character >= 0x80)
            status = scan_wide(text);
        else if (character == 0)
            return READ_ODD;
        else
            text->at++;
        if (status != READ_OK)
            return status;
    }
}

/* ---- numbers */

typedef struct {
    const unsigned char *start;
    uint64_t digits; /* of all digits together, while they fit */
    int negative, whole_digits, decimals, exponent, has_exponent;
} Written;

/* The form of a number by JSON's grammar; a number that the text ends with may go on. */
static Status scan_written(Text *text, Written *number)
{
    const unsigned char *at = text->at, *end = text->end;
    memset(number, 0, sizeof *number);
    number->start = at;
    if (at < end && *at == '-') {
        number->negative = 1;
        at++;
    }
    const unsigned char *first = at;
    while (at < end && is_digit(*at))
        number->digits = number->digits * 10 + (*at++ - '0');
    number->whole_digits = (int)(at - first > LONGEST_NUMBER ? LONGEST_NUMBER + 1 : at - first);
    if (at < end && (number->whole_digits == 0 || (*first == '0' && number->whole_digits > 1)))
        return READ_ODD;
    if (at < end && *at == '.') {
        const unsigned char *point = ++at;
        while (at < end && is_digit(*at))
            number->digits = number->digits * 10 + (*at++ - '0');
        number->decimals = (int)(at - point > LONGEST_NUMBER ? LONGEST_NUMBER + 1 : at - point);
        if (at < end && number->decimals == 0)
            return READ_ODD;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        int sign = 1;
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            sign = *at++ == '-' ? -1 : 1;
        const unsigned char *power = at;
        while (at < end && is_digit(*at) && at - power < 5)
            number->exponent = number->exponent * 10 + (*at++ - '0');
        if (at < end && (at == power || at - power == 5))
            return READ_ODD;
        number->exponent *= sign;
        number->has_exponent = 1;
    }
    if (at >= end)
        return READ_CUT;
    text->at = at;
    return at - number->start > LONGEST_NUMBER ? READ_ODD : READ_OK;
}

/* The double nearest to what is written. */
static Status as_double(const Written *number, const unsigned char *end, double *value)
{
    int power = number->exponent - number->decimals;
    if (number->whole_digits + number->decimals <= MOST_DIGITS && number->digits <= EXACT_WHOLE &&
        power >= -EXACT_POWER && power <= EXACT_POWER) { /* both are exact doubles, so the result is rounded once */
        double exact = (double)number->digits;
        exact = power < 0 ? exact / POWERS[-power] : exact * POWERS[power];
        *value = number->negative ? -exact : exact;
        return READ_OK;
    }
    char copy[LONGEST_NUMBER + 1];
    size_t length = (size_t)(end - number->start);
    memcpy(copy, number->start, length); /* scan_written has seen to its length */
    copy[length] = 0;
    *value = PyOS_string_to_double(copy, NULL, NULL);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return READ_ODD;
    }
    return isfinite(*value) ? READ_OK : READ_ODD;
}

/* A whole number of 64 bits, a fraction, or SPELLED: one of 19 or 20 digits that does not fit. */
Status scan_number(Text *text, Number *number)
{
    Written written;
    Status status = scan_written(text, &written);
    if (status != READ_OK)
        return status;
    if (written.decimals || written.has_exponent) {
        number->kind = FRACTION;
        return as_double(&written, text->at, &number->fraction);
    }
    if (written.negative && written.digits == 0)
        return READ_ODD;
    number->kind = WHOLE;
    if (written.whole_digits > MOST_DIGITS) { /* 19 digits fit an unsigned word, 20 may not */
        if (written.negative || written.whole_digits > MOST_DIGITS + 2)
            return READ_ODD;
        if (written.whole_digits > MOST_DIGITS + 1 || written.digits > INT64_MAX)
            number->kind = SPELLED;
    }
    number->whole = written.negative ? -(int64_t)written.digits : (int64_t)written.digits;
    return READ_OK;
}

/* As Python's reader does below EXACT_BELOW: from the double, its whole part split off first. */
static Status finer_time(const Written *written, const unsigned char *end, int64_t *nanoseconds)
{
    double value;
    Status status = as_double(written, end, &value);
    if (status != READ_OK)
        return status;
    if (!(fabs(value) < EXACT_BELOW))
        return READ_ODD;
    double whole = floor(value);
    *nanoseconds = (int64_t)whole * 1000 + (int64_t)rint((value - whole) * 1000);
    return READ_OK;
}

Status scan_time(Text *text, int64_t *nanoseconds)
{
    Written written;
    Status status = scan_written(text, &written);
    if (status != READ_OK)
        return status;
    if (written.has_exponent || written.whole_digits > 16)
        return READ_ODD;
    if (written.decimals > 3)
        return finer_time(&written, text->at, nanoseconds);
    uint64_t scaled = written.digits; /* at most 19 digits */
    for (int place = written.decimals; place < 3; place++)
        scaled *= 10;
    if (scaled > (uint64_t)MOST_MICROSECONDS * 1000)
        return READ_ODD;
    *nanoseconds = written.negative ? -(int64_t)scaled : (int64_t)scaled;
    return READ_OK;
}

/* ---- the rest */

Status scan_word(Text *text, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(text->end - text->at) < length)
        return READ_CUT;
    if (memcmp(text->at, word, length) != 0)
        return READ_ODD;
    text->at += length;
    return READ_OK;
}

static Status scan_single(Text *text)
{
    Written number;
    switch (*text->at) {
    case '"':
        return scan_string(text);
    case 't':
        return scan_word(text, "true");
    case 'f':
        return scan_word(text, "false");
    case 'n':
        return scan_word(text, "null");
    default:
        return scan_written(text, &number);
    }
}

/* What comes before an entry of a list or object: a comma but for the first, and a key in an object. */
static Status scan_before_entry(Text *text, int first, int object)
{
    if (!first) {
        if (*text->at != ',')
            return READ_ODD;
        text->at++;
        scan_blanks(text);
    }
    if (object) {
        if (text->at < text->end && *text->at != '"')
            return READ_ODD;
        Status status = text->at < text->end ? scan_string(text) : READ_CUT;
        if (status != READ_OK)
            return status;
        scan_blanks(text);
        if (text->at < text->end && *text->at != ':')
            return READ_ODD;
        text->at += text->at < text->end;
        scan_blanks(text);
    }
    return text->at < text->end ? READ_OK : READ_CUT;
}

static Status scan_nested(Text *text, int depth)
{
    int object = *text->at == '{';
    if (depth > DEEPEST)
        return READ_ODD;
    text->at++;
    for (int first = 1;; first = 0) {
        scan_blanks(text);
        if (text->at >= text->end)
            return READ_CUT;
        if (*text->at == (object ? '}' : ']')) {
            text->at++;
            return READ_OK;
        }
        Status status = scan_before_entry(text, first, object);
        if (status == READ_OK)
            status = *text->at == '[' || *text->at == '{' ? scan_nested(text, depth + 1) : scan_single(text);
        if (status != READ_OK)
            return status;
    }
}

/* Any value, looked at only as far as to be certain that it is one. */
Status scan_value(Text *text)
{
    if (text->at >= text->end)
        return READ_CUT;
    return *text->at == '[' || *text->at == '{' ? scan_nested(text, 0) : scan_single(text);
}
