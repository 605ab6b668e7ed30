/* Play a score, as play.py does: the same loop over calls and work, on the same columns. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

static const int64_t NEVER = -((int64_t)1 << 60);

typedef struct {
    Py_buffer view;
    int64_t *at;
    Py_ssize_t count;
} Column;

enum {
    FOLLOWS, THINK, OWN, CAN_WAIT, TURNS, STREAM, CALL, GAP, LATENCY, DUR, PASSED_OVER, WAITS_FOR, LAG, STARTED,
       AWAITING, AWAITED, RESIDUAL, CALL_END, WORK_END, COLUMNS };

static int take(PyObject *sequence, Column *columns)
{
    if (!PyTuple_Check(sequence) || PyTuple_Size(sequence) != COLUMNS) {
        PyErr_Format(PyExc_TypeError, "a tuple of %d columns is wanted", COLUMNS);
        return 0;
    }
    for (int which = 0; which < COLUMNS; which++) {
        int flags = which >= CALL_END ? PyBUF_CONTIG : PyBUF_CONTIG_RO;
        if (PyObject_GetBuffer(PyTuple_GetItem(sequence, which), &columns[which].view, flags) < 0) return which;
        columns[which].at = columns[which].view.buf;
        columns[which].count = columns[which].view.len / (Py_ssize_t)sizeof(int64_t);
    }
    return COLUMNS;
}

static void give_back(Column *columns, int taken)
{
    for (int which = 0; which < taken; which++) PyBuffer_Release(&columns[which].view);
}

/* Every place that the loop will look at lies inside its column: what comes in is ours, but never trusted with memory. */
static int fits(const Column *c, Py_ssize_t streams)
{
    Py_ssize_t calls = c[FOLLOWS].count, works = c[STREAM].count;
    for (int which = FOLLOWS; which <= CAN_WAIT; which++) if (c[which].count != calls) return 0;
    for (int which = STREAM; which <= STARTED; which++) if (c[which].count != works) return 0;
    if (c[TURNS].count != calls + 1 || c[AWAITING].count != calls + 1 || c[RESIDUAL].count != calls) return 0;
    if (c[CALL_END].count != calls || c[WORK_END].count != works || c[TURNS].at[calls] != works) return 0;
    if (c[TURNS].at[0] < 0 || c[AWAITING].at[0] != 0 || c[AWAITING].at[calls] > c[AWAITED].count) return 0;
    for (Py_ssize_t i = 0; i < calls; i++)
        if (c[FOLLOWS].at[i] >= i || c[TURNS].at[i] > c[TURNS].at[i + 1] || c[AWAITING].at[i] > c[AWAITING].at[i + 1])
            return 0;
    for (Py_ssize_t i = 0; i < works; i++)
        if (c[STREAM].at[i] < 0 || c[STREAM].at[i] >= streams || c[CALL].at[i] >= calls || c[WAITS_FOR].at[i] >= works)
            return 0;
    for (Py_ssize_t i = 0; i < c[AWAITED].count; i++)
        if (c[AWAITED].at[i] < 0 || c[AWAITED].at[i] >= works) return 0;
    return 1;
}

static int64_t end_of_work(const Column *c, Py_ssize_t i, int64_t *stream_end, const int64_t *ready)
{
    int64_t *free = &stream_end[c[STREAM].at[i]], call = c[CALL].at[i], other = c[WAITS_FOR].at[i];
    if (c[PASSED_OVER].at[i]) return *free;
    int64_t begin = *free + c[GAP].at[i], launched = (call >= 0 ? ready[call] : NEVER) + c[LATENCY].at[i];
    if (launched > begin) begin = launched;
    if (other >= 0 && c[WORK_END].at[other] + c[LAG].at[i] > begin) begin = c[WORK_END].at[other] + c[LAG].at[i];
    int64_t done = begin + c[DUR].at[i];
    if (done > *free) *free = done;
    return done;
}

static void perform(const Column *c, int64_t *stream_end, int64_t *ready)
{
    Py_ssize_t place = 0;
    for (; place < c[TURNS].at[0]; place++) /* launched before the window: at its recorded time */
        c[WORK_END].at[place] = stream_end[c[STREAM].at[place]] = c[STARTED].at[place] + c[DUR].at[place];
    for (Py_ssize_t call = 0; call < c[FOLLOWS].count; call++) {
        int64_t follows = c[FOLLOWS].at[call];
        int64_t start = (follows >= 0 ? c[CALL_END].at[follows] : 0) + c[THINK].at[call];
        int64_t end = start + c[OWN].at[call];
        ready[call] = c[CAN_WAIT].at[call] ? start : end;
        for (; place < c[TURNS].at[call + 1]; place++)
            c[WORK_END].at[place] = end_of_work(c, place, stream_end, ready);
        for (int64_t i = c[AWAITING].at[call]; i < c[AWAITING].at[call + 1]; i++) {
            int64_t done = c[WORK_END].at[c[AWAITED].at[i]] + c[RESIDUAL].at[call];
            if (done > end) end = done;
        }
        c[CALL_END].at[call] = end;
    }
}

PyDoc_STRVAR(play_doc,
"play(columns, streams)\n--\n\nFill the last two of `columns`, the ends of calls and of work; all are int64, in the order\n"
"of play.py. ValueError where a place lies outside its column.");

static PyObject *play(PyObject *self, PyObject *args)
{
    PyObject *given;
    Py_ssize_t streams;
    Column columns[COLUMNS];
    if (!PyArg_ParseTuple(args, "On:play", &given, &streams)) return NULL;
    int taken = take(given, columns);
    if (taken == COLUMNS) {
        int64_t *stream_end = malloc(sizeof(int64_t) * (size_t)(streams > 0 ? streams : 1));
        int64_t *ready = calloc((size_t)columns[FOLLOWS].count + 1, sizeof(int64_t));
        if (!stream_end || !ready) PyErr_NoMemory();
        else if (!fits(columns, streams)) PyErr_SetString(PyExc_ValueError, "a place lies outside its column");
        else {
            for (Py_ssize_t i = 0; i < streams; i++) stream_end[i] = NEVER;
            perform(columns, stream_end, ready);
        }
        free(stream_end);
        free(ready);
    }
    give_back(columns, taken);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"play", play, METH_VARARGS, play_doc}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_play", "The loop of the replay.", 0, methods};

PyMODINIT_FUNC PyInit__play(void)
{
    return PyModuleDef_Init(&module);
}
